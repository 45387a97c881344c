/* history.c - keeping and printing histories. */
#include "history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void *hist_grow(void *v, size_t *cap, size_t need, size_t size)
{
	if (need <= *cap)
		return v;
	*cap = *cap ? 2 * *cap : 8;
	v = realloc(v, *cap * size);
	if (!v) {
		fprintf(stderr, "no memory for a history\n");
		exit(99);
	}
	return v;
}

void *hist_alloc(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p) {
		fprintf(stderr, "no memory for a history\n");
		exit(99);
	}
	return p;
}

void hist_free(void *p)
{
	free(p);
}

struct hist_txn *hist_txn_new(uint64_t id, enum hist_level level)
{
	struct hist_txn *txn = hist_alloc(sizeof(*txn));

	txn->id = id;
	txn->level = level;
	return txn;
}

void hist_log(struct hist_txn *txn, enum hist_kind kind, uint64_t key, uint64_t value,
	      uint64_t call, uint64_t ret)
{
	const struct hist_op op = {
		.kind = kind, .key = key, .value = value, .call = call, .ret = ret
	};

	hist_push(&txn->ops, op);
}

void hist_log_list(struct hist_txn *txn, uint64_t key, const uint64_t *list, size_t n,
		   uint64_t call, uint64_t ret)
{
	struct hist_op op = { .kind = HIST_LIST, .key = key, .value = n, .call = call, .ret = ret };

	op.list = hist_alloc(n * sizeof(*list));
	if (n > 0)
		memcpy(op.list, list, n * sizeof(*list));
	hist_push(&txn->ops, op);
}

static bool is_write(const struct hist_op *op)
{
	return op->kind == HIST_WRITE || op->kind == HIST_APPEND;
}

/* The last own write of the key before the operation will be taken back. */
static bool saw_undone(const struct hist_txn *txn, size_t from, size_t at)
{
	for (size_t i = at; i-- > from;)
		if (txn->ops.v[i].key == txn->ops.v[at].key && is_write(&txn->ops.v[i]))
			return true;
	return false;
}

void hist_undo(struct hist_txn *txn, size_t from)
{
	for (size_t i = from; i < txn->ops.n; i++) {
		struct hist_op *op = &txn->ops.v[i];

		if (op->kind == HIST_FOUND || (!is_write(op) && saw_undone(txn, from, i)))
			op->kind = HIST_NOTHING;
	}
	for (size_t i = from; i < txn->ops.n; i++)
		if (is_write(&txn->ops.v[i]))
			txn->ops.v[i].kind = HIST_UNDONE;
}

void hist_release(struct history *h)
{
	for (size_t i = 0; i < h->txns.n; i++) {
		struct hist_txn *txn = h->txns.v[i];

		for (size_t k = 0; k < txn->ops.n; k++)
			free(txn->ops.v[k].list);
		hist_vec_free(&txn->ops);
		free(txn);
	}
	hist_vec_free(&h->txns);
}

const char *hist_level_name(enum hist_level level)
{
	static const char *const names[] = { "PLAIN", "SNAPSHOT", "SERIALIZABLE", "LOCKING" };

	return names[level];
}

const char *hist_anomaly_name(enum hist_anomaly anomaly)
{
	static const char *const names[] = { "none",
#define X(id, text) text,
					     HIST_ANOMALIES(X)
#undef X
	};

	return names[anomaly];
}

void hist_print_key(FILE *out, const struct history *h, uint64_t key)
{
	if (h->print_key)
		h->print_key(out, key);
	else
		fprintf(out, "%" PRIx64, key);
}

static void print_op(FILE *out, const struct history *h, const struct hist_op *op)
{
	static const char *const words[] = {
		"reads",      "finds",           "writes",    "appends to",
		"reads list", "reads length of", "took back", "(took back what it read of)",
	};
	size_t from;

	fprintf(out, "    [%" PRIu64 ", %" PRIu64 "] %s ", op->call, op->ret, words[op->kind]);
	hist_print_key(out, h, op->key);
	if (op->kind != HIST_LIST) {
		fprintf(out, ": %" PRIx64 "\n", op->value);
		return;
	}
	from = op->value > 8 ? (size_t)op->value - 8 : 0;
	fprintf(out, ": %" PRIu64 " elements, %s", op->value, from ? "..." : "");
	for (size_t i = from; i < op->value; i++)
		fprintf(out, " %" PRIx64, op->list[i]);
	fprintf(out, "\n");
}

void hist_print_txn(FILE *out, const struct history *h, const struct hist_txn *txn)
{
	static const char *const outcomes[] = { "open", "committed", "aborted" };

	fprintf(out,
		"  T%" PRIu64 " %s%s, begun [%" PRIu64 ", %" PRIu64 "], %s [%" PRIu64 ", %" PRIu64
		"]\n",
		txn->id, hist_level_name(txn->level), txn->read_only ? " read-only" : "",
		txn->begin_call, txn->begin_ret, outcomes[txn->outcome], txn->commit_call,
		txn->commit_ret);
	for (size_t i = 0; i < txn->ops.n; i++)
		print_op(out, h, &txn->ops.v[i]);
}
