/* collect.c - goes over each transaction: what it saw of others, what it left, and whether it is at odds with
 * itself.
 *
 * A transaction that was aborted has seen what was committed all the same: it takes part as a reader.
 */
#include "check_internal.h"

#include <string.h>

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
	return x ^ (x >> 29);
}

static void rehash(struct check *c)
{
	hist_free(c->table);
	c->table_size = c->table_size ? 2 * c->table_size : 1024;
	c->table = hist_alloc(c->table_size * sizeof(*c->table));
	for (size_t i = 0; i < c->regs.n; i++) {
		size_t at = mix(c->regs.v[i].key) & (c->table_size - 1);

		while (c->table[at])
			at = (at + 1) & (c->table_size - 1);
		c->table[at] = (uint32_t)i + 1;
	}
}

static struct reg *get_reg(struct check *c, uint64_t key)
{
	struct reg fresh;
	size_t at;

	if (2 * (c->regs.n + 1) > c->table_size)
		rehash(c);
	at = mix(key) & (c->table_size - 1);
	while (c->table[at]) {
		struct reg *r = &c->regs.v[c->table[at] - 1];

		if (r->key == key)
			return r;
		at = (at + 1) & (c->table_size - 1);
	}
	memset(&fresh, 0, sizeof(fresh));
	fresh.key = key;
	fresh.stamp = UINT32_MAX;
	hist_push(&c->regs, fresh);
	c->table[at] = (uint32_t)c->regs.n;
	return &c->regs.v[c->regs.n - 1];
}

static struct reg *touch(struct check *c, uint64_t key, uint32_t txn)
{
	struct reg *r = get_reg(c, key);

	if (r->stamp != txn) {
		r->stamp = txn;
		r->own = r->ext = false;
		r->own_count = 0;
	}
	return r;
}

static enum hist_anomaly on_read(struct check *c, struct reg *r, uint32_t t, uint32_t at,
				 const struct hist_op *op)
{
	struct seen s = { .txn = t,
			  .op = at,
			  .value = op->value,
			  .found = op->kind == HIST_FOUND,
			  .call = op->call,
			  .ret = op->ret };

	if (r->own)
		return r->own_value == op->value
			       ? HIST_NONE
			       : check_report(c, HIST_INTERNAL, op->key, op->value, t, t);
	if (s.found) {
		if (c->h->txns.v[t]->outcome != HIST_COMMITTED)
			return HIST_NONE; /* not checked any more */
		hist_push(&r->seen, s);
		return HIST_NONE;
	}
	if (r->ext)
		return r->ext_value == op->value
			       ? HIST_NONE
			       : check_report(c, HIST_NON_REPEATABLE, op->key, op->value, t, t);
	r->ext = true;
	r->ext_value = op->value;
	hist_push(&r->seen, s);
	return HIST_NONE;
}

static void on_write(struct check *c, struct reg *r, uint32_t t, const struct hist_op *op)
{
	bool committed = c->h->txns.v[t]->outcome == HIST_COMMITTED;
	struct dirty d = { .key = op->key, .value = op->value, .txn = t, .aborted = true };

	if (!committed) {
		hist_push(&c->dirty, d);
	} else if (!r->own) {
		const struct version v = {
			.txn = t, .value = op->value, .has_prev = r->ext, .prev = r->ext_value
		};

		hist_push(&r->versions, v);
		c->counts->versions++;
	} else {
		struct version *v = &r->versions.v[r->versions.n - 1];

		d.value = v->value;
		d.aborted = false;
		hist_push(&c->dirty, d);
		v->value = op->value;
	}
	r->own = true;
	r->own_value = op->value;
}

static void on_append(struct check *c, struct reg *r, uint32_t t, const struct hist_op *op)
{
	const struct element e = { .txn = t, .value = op->value, .at = SIZE_MAX };
	const struct dirty d = { .key = op->key, .value = op->value, .txn = t, .aborted = true };

	r->own_count++;
	if (c->h->txns.v[t]->outcome == HIST_COMMITTED)
		hist_push(&r->elements, e);
	else
		hist_push(&c->dirty, d);
}

/* The own elements of the list lie at its end, in order. */
static bool own_at_end(const struct check *c, uint32_t t, uint32_t at, size_t own)
{
	const struct hist_txn *txn = c->h->txns.v[t];
	const struct hist_op *op = &txn->ops.v[at];
	size_t k = (size_t)op->value - own;

	for (uint32_t i = 0; i < at; i++) {
		const struct hist_op *o = &txn->ops.v[i];

		if (o->kind == HIST_APPEND && o->key == op->key && op->list[k++] != o->value)
			return false;
	}
	return true;
}

static enum hist_anomaly on_list(struct check *c, struct reg *r, uint32_t t, uint32_t at,
				 const struct hist_op *op)
{
	struct seen s = { .txn = t, .op = at, .list = op->list, .call = op->call, .ret = op->ret };

	if (op->value < r->own_count || (op->list && !own_at_end(c, t, at, r->own_count)))
		return check_report(c, HIST_INTERNAL, op->key, op->value, t, t);
	s.value = op->value - r->own_count;
	if (r->ext && r->ext_value != s.value)
		return check_report(c, HIST_NON_REPEATABLE, op->key, op->value, t, t);
	/* A list may be read after its length was: only the list says what is in it. */
	if (!r->ext || op->list)
		hist_push(&r->seen, s);
	r->ext = true;
	r->ext_value = s.value;
	return HIST_NONE;
}

static enum hist_anomaly collect_txn(struct check *c, uint32_t t)
{
	const struct hist_txn *txn = c->h->txns.v[t];
	enum hist_anomaly a = HIST_NONE;

	for (uint32_t i = 0; i < txn->ops.n && !a; i++) {
		const struct hist_op *op = &txn->ops.v[i];
		const struct dirty undone = {
			.key = op->key, .value = op->value, .txn = t, .aborted = true
		};
		struct reg *r = touch(c, op->key, t);

		switch (op->kind) {
		case HIST_READ:
		case HIST_FOUND:
			a = on_read(c, r, t, i, op);
			break;
		case HIST_WRITE:
			on_write(c, r, t, op);
			break;
		case HIST_APPEND:
			on_append(c, r, t, op);
			break;
		case HIST_LIST:
		case HIST_LENGTH:
			a = on_list(c, r, t, i, op);
			break;
		case HIST_UNDONE:
			hist_push(&c->dirty, undone);
			break;
		case HIST_NOTHING:
			break;
		}
	}
	c->counts->txns++;
	c->counts->committed += txn->outcome == HIST_COMMITTED;
	c->counts->ops += txn->ops.n;
	return a;
}

enum hist_anomaly check_collect(struct check *c)
{
	enum hist_anomaly a = HIST_NONE;

	for (size_t t = 0; t < c->h->txns.n && !a; t++)
		if (c->h->txns.v[t]->outcome != HIST_OPEN)
			a = collect_txn(c, (uint32_t)t);
	return a;
}
