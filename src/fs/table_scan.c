/* table_scan.c - record tables: records in order.
 *
 * R1. Bounds are a range of catalog keys, [from, to). The key right behind another is that with a NUL more; behind
 *     one of the greatest length, the next one that is no longer.
 * R2. A scan is done in steps; each takes what it has passed off the bounds. At SERIALIZABLE what a step has seen,
 *     and the gaps between, is a read; at LOCKING it is locked. That is asked for last: where it has to wait,
 *     nothing was given to anybody for good.
 */
#include <string.h>

#include "fs/fs_internal.h"

/* The first key that does not begin with these bytes and is above them; at the end of the kind: that. */
static void key_behind_prefix(struct stet_key *key)
{
	while (key->bytes > STET_KEY_HEAD && key->b[key->bytes - 1] == 0xff)
		key->bytes--;
	key->b[key->bytes - 1]++; /* of the kind, when nothing is left */
}

/* R1 */
static void key_behind(struct stet_key *key)
{
	if (!stet_key_step(key))
		key_behind_prefix(key);
}

static int cmp(const struct stet_key *a, const struct stet_key *b)
{
	return stet_key_cmp(a->b, a->bytes, b->b, b->bytes);
}

static int set_key(struct stet_key *key, uint64_t table, struct stet_fs_key name)
{
	if (name.len > STET_RECORD_KEY_MAX)
		return STET_FAIL(-EINVAL, "a key of %zu bytes", name.len);
	stet_key_record(key, table, name.bytes, name.len);
	return 0;
}

static void raise_from(struct stet_fs_bounds *bounds, const struct stet_key *key)
{
	if (cmp(key, &bounds->from) > 0)
		stet_key_copy(&bounds->from, key);
}

static void lower_to(struct stet_fs_bounds *bounds, const struct stet_key *key)
{
	if (cmp(key, &bounds->to) < 0)
		stet_key_copy(&bounds->to, key);
}

int stet_fs_bounds(uint64_t table, const struct stet_fs_limits *limits, struct stet_fs_bounds *ret)
{
	struct stet_key key;
	int rc;

	ret->update = limits->update;
	stet_key_kind(&ret->from, table, STET_KIND_RECORD);
	stet_key_kind(&ret->to, table, STET_KIND_RECORD + 1);
	if (limits->prefix.len > 0) {
		rc = set_key(&ret->from, table, limits->prefix);
		if (rc)
			return rc;
		stet_key_copy(&ret->to, &ret->from);
		key_behind_prefix(&ret->to);
	}
	if (limits->from.bytes) {
		rc = set_key(&key, table, limits->from);
		if (rc)
			return rc;
		if (limits->after_from)
			key_behind(&key);
		raise_from(ret, &key);
	}
	if (limits->to.bytes) {
		rc = set_key(&key, table, limits->to);
		if (rc)
			return rc;
		if (limits->with_to)
			key_behind(&key);
		lower_to(ret, &key);
	}
	return 0;
}

void stet_fs_bounds_pass(struct stet_fs_bounds *bounds, uint64_t table, struct stet_fs_key key,
			 bool reverse)
{
	struct stet_key at;

	stet_key_record(&at, table, key.bytes, key.len);
	if (reverse) {
		lower_to(bounds, &at);
		return;
	}
	key_behind(&at);
	raise_from(bounds, &at);
}

int stet_fs_bounds_seek(struct stet_fs_bounds *bounds, uint64_t table, struct stet_fs_key key,
			bool reverse)
{
	struct stet_key at;
	int rc = key.len == 0 ? STET_FAIL(-EINVAL, "an empty key") : set_key(&at, table, key);

	if (rc)
		return rc;
	if (reverse) {
		key_behind(&at);
		lower_to(bounds, &at);
	} else {
		raise_from(bounds, &at);
	}
	return 0;
}

/* A step over the bounds. */
struct step {
	struct stet_fs_ctx *ctx;
	uint64_t table;
	struct stet_fs_bounds *left;
	bool reverse;
	stet_fs_record_fn *fn;
	void *arg;
	struct stet_key last; /* what was passed; bytes 0: nothing */
	bool done;            /* says the callback */
	bool at_end;          /* there was nothing more */
};

static int take(struct step *s, const struct stet_key *key, struct stet_fs_record *record)
{
	const struct stet_fs_key name = { key->b + STET_KEY_HEAD, key->bytes - STET_KEY_HEAD };
	int rc = stet_key_verify(key->b, key->bytes);

	if (!rc)
		rc = stet_record_decode_(s->ctx, &record->val, record);
	if (!rc)
		rc = s->fn(s->arg, name, record);
	if (rc < 0)
		return rc;
	s->done = rc != STET_FS_RECORD_NEXT;
	if (rc != STET_FS_RECORD_BEFORE)
		stet_key_copy(&s->last, key);
	return 0;
}

static int step_over(struct step *s, uint32_t most, struct stet_fs_record *record)
{
	const struct stet_key *from = &s->left->from, *to = &s->left->to;
	struct stet_txn *txn = s->ctx->txn;
	struct stet_scan *scan;
	struct stet_key key;
	int rc = s->reverse ? stet_scan_open_reverse(txn, from, to, &scan)
			    : stet_scan_open(txn, from, to, &scan);

	if (rc)
		return rc;
	for (; most > 0 && !s->done && !s->at_end && !rc; most--) {
		rc = stet_scan_next(scan, &key, &record->val);
		s->at_end = rc == 0;
		if (rc == 1)
			rc = take(s, &key, record);
	}
	stet_scan_close(scan);
	return rc;
}

/* R2 */
static int note_seen(struct step *s)
{
	struct stet_fs_bounds seen = *s->left;
	int rc;

	if (!s->at_end && s->last.bytes == 0)
		return 0;
	if (!s->at_end && s->reverse) {
		stet_key_copy(&seen.from, &s->last);
	} else if (!s->at_end) {
		stet_key_copy(&seen.to, &s->last);
		key_behind(&seen.to);
	}
	rc = stet_record_range_lock_(s->ctx, s->table, &seen.from, &seen.to,
				     seen.update ? STET_LOCK_X : STET_LOCK_S);
	if (!rc && !stet_state_is_created_(s->ctx, s->table))
		rc = stet_txn_read_range(s->ctx->txn, &seen.from, &seen.to);
	if (rc)
		return rc;
	if (s->reverse)
		stet_key_copy(&s->left->to, &seen.from);
	else
		stet_key_copy(&s->left->from, &seen.to);
	return 0;
}

int stet_fs_record_scan(struct stet_fs_ctx *ctx, uint64_t table, struct stet_fs_bounds *left,
			bool reverse, uint32_t most, stet_fs_record_fn *fn, void *arg)
{
	struct step s = {
		.ctx = ctx, .table = table, .left = left, .reverse = reverse, .fn = fn, .arg = arg
	};
	struct stet_fs_record record;
	struct fs_inode in;
	int rc = stet_table_get_(ctx, table, STET_ATTR_EXISTS, &in);

	if (rc)
		return rc;
	if (cmp(&left->from, &left->to) >= 0)
		return 0;
	rc = step_over(&s, most, &record);
	if (!rc)
		rc = note_seen(&s);
	return rc ? rc : !s.at_end;
}
