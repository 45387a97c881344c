/* swap.c - a write-set and the undo records of its savepoints, on the device.
 *
 * When a spill ends an interval in which savepoints were taken, the finals of the write-set and their records
 * are written, as they are, beside the run: one stream of bytes, cut into the values of a tree of kind RUN
 * whose keys count up. Whoever goes back to one of the savepoints reads it all, and is where the spill was.
 *
 *   BUFFER   places and checksums of the blocks that are used of one; numbered as they come
 *   ENTRY    a key of the write-set and what it has
 *   RECORD   a key and what it had; in their order
 *
 * C1. Everything was placed before (steal): no content is in the stream.
 * C2. Versions that share a buffer share it again when they come back.
 * C3. A block of an own buffer that is in an entry is the new run's; if only records have it, the point owns it.
 *     When it all comes back it is the buffer's again: until the newer run has gone it counts as rooted.
 */
#include "base/assert.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "txn/txn_internal.h"

#include <string.h>

enum { TAG_BUFFER = 1, TAG_ENTRY, TAG_RECORD };

#define NO_VERSION UINT8_MAX
#define CHUNK_BYTES STET_VALUE_MAX

/* --- out --- */
struct known_buf {
	struct stet_hash_node node; /* key: of the pointer */
	struct stet_databuf *buf;
	uint64_t used; /* blocks */
	uint32_t number;
	bool own, written;
};

struct out {
	struct stet_job *job;
	struct stet_skipnode *at; /* of the set */
	size_t record;
	struct stet_hash bufs;
	uint32_t buf_count;
	struct stet_buf bytes;
	size_t done;    /* of bytes */
	uint64_t count; /* chunks */
	uint8_t key[sizeof(uint64_t)];
};

static uint64_t buf_key(const struct stet_databuf *buf)
{
	return stet_mix64((uint64_t)(uintptr_t)buf);
}

static struct known_buf *find_buf(struct out *o, const struct stet_databuf *buf)
{
	struct stet_hash_node *node = stet_hash_find(&o->bufs, buf_key(buf));

	return node ? stet_container_of(node, struct known_buf, node) : NULL; /* one to one */
}

static int use_version(struct out *o, const struct stet_version *v)
{
	struct known_buf *known;
	int rc;

	if (!v || v->kind != STET_V_BUF)
		return 0;
	known = find_buf(o, v->buf);
	if (!known) {
		known = stet_calloc(1, sizeof(*known));
		if (!known)
			return STET_FAIL(-ENOMEM, "no memory to spill savepoints");
		known->buf = v->buf;
		rc = stet_hash_insert(&o->bufs, buf_key(v->buf), &known->node);
		if (rc) {
			stet_free(known);
			return rc;
		}
	}
	for (uint32_t i = v->from; i < (uint32_t)v->from + v->count; i++)
		known->used |= UINT64_C(1) << i;
	known->own = known->own || v->birth == 0;
	return 0;
}

/* Which blocks are used of which buffers. */
static int use_all(struct out *o)
{
	struct stet_txn *txn = o->job->txn;
	int rc = 0;

	for (struct stet_skipnode *node = o->at; node && !rc; node = stet_skiplist_next(node))
		rc = use_version(o, node->value);
	for (size_t i = 0; i < txn->saves.finals.list.n && !rc; i++)
		rc = use_version(o, txn->saves.finals.list.v[i]->old);
	return rc;
}

static int put_buffer(struct out *o, struct known_buf *known)
{
	const struct stet_databuf *buf = known->buf;
	int rc = stet_buf_append_u8(&o->bytes, TAG_BUFFER);

	STET_ASSERT(!buf->addr2);
	known->number = o->buf_count++;
	known->written = true;
	if (!rc)
		rc = stet_buf_append_u8(&o->bytes, known->own);
	if (!rc)
		rc = stet_buf_append_le16(&o->bytes, buf->block_count);
	if (!rc)
		rc = stet_buf_append_le64(&o->bytes, known->used);
	for (uint32_t i = 0; i < buf->block_count && !rc; i++) {
		if (!(known->used >> i & 1))
			continue;
		STET_ASSERT(!stet_addr_is_none(buf->addr[i])); /* C1 */
		rc = stet_buf_append_le64(&o->bytes, buf->addr[i].v);
		if (!rc)
			rc = stet_buf_append_le32(&o->bytes, buf->crc[i]);
	}
	return rc;
}

static int put_content(struct out *o, const struct stet_version *v)
{
	int rc;

	if (v->kind != STET_V_BUF) {
		rc = stet_buf_append_le16(&o->bytes, v->bytes);
		if (!rc)
			rc = stet_buf_append_u8(&o->bytes, v->room);
		return rc ? rc : stet_buf_append(&o->bytes, v->b, v->bytes);
	}
	rc = stet_buf_append_le32(&o->bytes, find_buf(o, v->buf)->number);
	if (!rc)
		rc = stet_buf_append_le16(&o->bytes, v->from);
	if (!rc)
		rc = stet_buf_append_le16(&o->bytes, v->count);
	return rc ? rc : stet_buf_append_le64(&o->bytes, v->birth);
}

static int put_version(struct out *o, uint8_t tag, const uint8_t *key, uint16_t key_bytes,
		       const struct stet_version *v)
{
	struct known_buf *known = v && v->kind == STET_V_BUF ? find_buf(o, v->buf) : NULL;
	int rc = known && !known->written ? put_buffer(o, known) : 0;

	if (!rc)
		rc = stet_buf_append_u8(&o->bytes, tag);
	if (!rc)
		rc = stet_buf_append_le16(&o->bytes, key_bytes);
	if (!rc)
		rc = stet_buf_append(&o->bytes, key, key_bytes);
	if (!rc)
		rc = stet_buf_append_u8(&o->bytes, v ? (uint8_t)v->kind : NO_VERSION);
	if (rc || !v)
		return rc;
	rc = stet_buf_append_le32(&o->bytes, v->noted);
	return rc ? rc : put_content(o, v);
}

/* Appends the next entry or record. 1, 0 = there is none. */
static int put_next(struct out *o)
{
	const struct stet_undo_list *finals = &o->job->txn->saves.finals;
	int rc;

	while (o->at) {
		struct stet_skipnode *node = o->at;

		o->at = stet_skiplist_next(node);
		if (!stet_version_is_final_(node->value))
			continue;
		rc = put_version(o, TAG_ENTRY, stet_skipnode_key(node), node->key_len, node->value);
		return rc ? rc : 1;
	}
	if (o->record == finals->list.n)
		return 0;
	const struct stet_undo *record = finals->list.v[o->record++];
	rc = put_version(o, TAG_RECORD, record->key, record->key_bytes, record->old);
	return rc ? rc : 1;
}

static int next_chunk(void *arg, struct stet_change *ret)
{
	struct out *o = arg;
	int rc = 1;

	memmove(o->bytes.p, o->bytes.p + o->done, o->bytes.len - o->done);
	o->bytes.len -= o->done;
	while (rc == 1 && o->bytes.len < CHUNK_BYTES)
		rc = put_next(o);
	if (rc < 0)
		return rc;
	o->done = o->bytes.len < CHUNK_BYTES ? o->bytes.len : CHUNK_BYTES;
	if (o->done == 0)
		return 0;
	stet_put_be64(o->key, o->count++);
	*ret = (struct stet_change){ .key = o->key,
				     .key_bytes = sizeof(o->key),
				     .value = o->bytes.p,
				     .value_bytes = (uint16_t)o->done };
	return 1;
}

static int write_node(void *arg, struct stet_cnode *node, uint32_t level, uint64_t check,
		      struct stet_node_ptr *ret_ptr)
{
	struct out *o = arg;
	struct stet_node_ptr ptr = { .check = check };
	int rc = stet_vec_reserve(&o->job->out_new, 1);

	if (!rc)
		rc = stet_run_node_(o->job, node, level, &ptr);
	if (rc)
		return rc;
	o->job->out_new.v[o->job->out_new.n++] = ptr;
	*ret_ptr = ptr;
	return 0;
}

static int free_node(void *arg, const struct stet_node_ptr *ptr, uint32_t level)
{
	(void)arg;
	(void)ptr;
	(void)level;
	return 0; /* there was no tree before */
}

static int changed(void *arg, const void *key, size_t key_bytes, const struct stet_item *old_item,
		   const struct stet_change *new_item)
{
	(void)arg;
	(void)key;
	(void)key_bytes;
	(void)old_item;
	(void)new_item;
	return 0;
}

static int build(struct out *o)
{
	const struct stet_tree_apply_ops ops = { next_chunk, write_node, free_node, changed, o };
	struct stet_engine *engine = o->job->engine;
	struct stet_root none = { 0 };
	struct stet_tree_apply *apply;
	int rc = stet_tree_apply_create(engine->cache, engine->sb.volume_id, STET_TREE_RUN, &none,
					o->job->run_birth, true, NULL, 0, &ops, &apply);

	if (rc)
		return rc;
	do {
		rc = stet_tree_apply_step(apply, UINT32_MAX);
	} while (rc == 1);
	if (!rc)
		stet_tree_apply_root(apply, &o->job->point->out);
	stet_tree_apply_destroy(apply);
	return rc;
}

static int reserve(struct stet_job *job)
{
	uint64_t blocks = job->out_new.n * STET_NODE_BLOCKS;
	int rc = stet_space_reserve(job->engine->space, blocks, STET_SPACE_NORMAL);

	if (rc == -ENOSPC && stet_txn_give_back_(job->txn))
		rc = stet_space_reserve(job->engine->space, blocks, STET_SPACE_NORMAL);
	if (rc) {
		job->txn->spill_lacks = blocks;
		return STET_FAIL(rc, "no space for what savepoints need, %llu blocks",
				 (unsigned long long)blocks);
	}
	job->out_reserved = blocks;
	job->txn->promised += blocks;
	return 0;
}

static void release_bufs(struct stet_hash *hash)
{
	struct stet_hash_node *node = stet_hash_first(hash);

	while (node) {
		struct stet_hash_node *next = stet_hash_next(hash, node);

		stet_hash_remove(hash, node);
		stet_free(stet_container_of(node, struct known_buf, node));
		node = next;
	}
	stet_hash_release(hash);
}

int stet_swap_out_(struct stet_job *job)
{
	struct out o = { .job = job, .at = stet_skiplist_first(&job->txn->set) };
	int rc;

	stet_hash_init(&o.bufs, 4);
	stet_buf_init(&o.bytes);
	rc = stet_buf_reserve(&o.bytes, 2 * (size_t)CHUNK_BYTES);
	if (!rc)
		rc = use_all(&o);
	if (!rc)
		rc = build(&o);
	if (!rc)
		rc = reserve(job);
	if (!rc) /* later nothing may fail that says whether there is something to come back to */
		rc = stet_vec_reserve(&job->point->out_nodes, job->out_new.n);
	release_bufs(&o.bufs);
	stet_buf_release(&o.bytes);
	return rc;
}

/* C3 */
static void own(struct stet_point *point, const struct stet_version *v)
{
	if (!v || v->kind != STET_V_BUF || v->birth != 0)
		return;
	for (uint32_t i = v->from; i < (uint32_t)v->from + v->count; i++) {
		if (v->buf->rooted >> i & 1)
			continue;
		v->buf->rooted |= UINT64_C(1) << i;
		stet_ignore(stet_rangeset_add(&point->owned, v->buf->addr[i], 1, 0),
			    "without memory the block stays held until the next open");
	}
}

void stet_swap_done_(struct stet_job *job)
{
	struct stet_txn *txn = job->txn;
	struct stet_undo_list *finals = &txn->saves.finals;

	for (size_t i = 0; i < job->out_new.n; i++) /* there is room */
		job->point->out_nodes.v[i] = job->out_new.v[i].addr;
	job->point->out_nodes.n = job->out_new.n;
	for (size_t i = 0; i < finals->list.n; i++)
		own(job->point, finals->list.v[i]->old);
	stet_undo_free_(txn, finals, 0, true);
}

/* --- in --- */
struct in {
	struct stet_txn *txn;
	struct stet_tree_cursor cur;
	struct stet_buf bytes;
	size_t done;                          /* of bytes */
	STET_VEC(struct stet_databuf *) bufs; /* one reference each */
	struct stet_rangeset *taken;
};

/* The next n bytes; borrowed until the next call. */
static int take(struct in *in, size_t n, const uint8_t **ret)
{
	int rc = 0;

	if (in->bytes.len - in->done < n) {
		memmove(in->bytes.p, in->bytes.p + in->done, in->bytes.len - in->done);
		in->bytes.len -= in->done;
		in->done = 0;
	}
	while (in->bytes.len - in->done < n && !rc) {
		if (!in->cur.valid)
			return STET_FAIL(-EUCLEAN, "savepoints: what was spilled ends early");
		rc = stet_buf_append(&in->bytes, in->cur.item.value, in->cur.item.value_bytes);
		if (!rc)
			rc = stet_tree_cursor_next(&in->cur);
	}
	*ret = in->bytes.p + in->done;
	in->done += n;
	return rc;
}

/* A stub for blocks that lie in several places. */
static int make_stub(struct in *in, uint16_t block_count, uint64_t used, const uint8_t *blocks,
		     struct stet_databuf **ret)
{
	uint8_t crcs[sizeof(uint32_t) * STET_EXTENT_BLOCKS_MAX] = { 0 };
	struct stet_addr first = { stet_get_le64(blocks) };
	int rc = stet_databuf_stub(in->txn->engine->cache, first, STET_ADDR_NONE, block_count, crcs,
				   ret);

	for (uint32_t i = 0; i < block_count && !rc; i++) {
		(*ret)->addr[i] = STET_ADDR_NONE;
		if (!(used >> i & 1))
			continue;
		(*ret)->addr[i].v = stet_get_le64(blocks);
		(*ret)->crc[i] = stet_get_le32(blocks + 8);
		blocks += 12;
	}
	return rc;
}

static int take_buffer(struct in *in)
{
	struct stet_databuf *buf;
	const uint8_t *p;
	uint16_t block_count;
	uint64_t used;
	bool own_buf;
	int rc = take(in, 11, &p);

	if (rc)
		return rc;
	own_buf = p[0];
	block_count = stet_get_le16(p + 1);
	used = stet_get_le64(p + 3);
	if (block_count == 0 || block_count > STET_EXTENT_BLOCKS_MAX || used == 0)
		return STET_FAIL(-EUCLEAN, "savepoints: a buffer of %u blocks", block_count);
	rc = take(in, (size_t)12 * (size_t)__builtin_popcountll(used), &p);
	if (!rc)
		rc = stet_vec_reserve(&in->bufs, 1);
	if (!rc)
		rc = make_stub(in, block_count, used, p, &buf);
	if (rc)
		return rc;
	in->bufs.v[in->bufs.n++] = buf;
	for (uint32_t i = 0; i < block_count && own_buf && !rc; i++)
		if (used >> i & 1)
			rc = stet_rangeset_add(in->taken, buf->addr[i], 1, 0);
	return rc;
}

static int take_buf_version(struct in *in, struct stet_version **ret)
{
	const uint8_t *p;
	uint32_t number;
	int rc = take(in, 16, &p);

	if (rc)
		return rc;
	number = stet_get_le32(p);
	if (number >= in->bufs.n)
		return STET_FAIL(-EUCLEAN, "savepoints: no buffer %u", number);
	return stet_version_buf_(in->bufs.v[number], stet_get_le16(p + 4), stet_get_le16(p + 6),
				 stet_get_le64(p + 8), ret);
}

static int take_version(struct in *in, struct stet_version **ret)
{
	const uint8_t *p;
	uint32_t noted;
	uint8_t kind;
	int rc = take(in, 1, &p);

	*ret = NULL;
	if (rc || p[0] == NO_VERSION)
		return rc;
	kind = p[0];
	rc = take(in, 4, &p);
	if (rc)
		return rc;
	noted = stet_get_le32(p);
	if (kind == STET_V_BUF) {
		rc = take_buf_version(in, ret);
	} else {
		uint16_t bytes;
		uint8_t room;

		rc = take(in, 3, &p);
		if (rc)
			return rc;
		bytes = stet_get_le16(p);
		room = p[2];
		rc = take(in, bytes, &p);
		if (!rc)
			rc = stet_version_bytes_((enum stet_vkind)kind, p, bytes, room, ret);
	}
	if (!rc)
		(*ret)->noted = noted;
	return rc;
}

static int take_keyed(struct in *in, uint8_t tag)
{
	struct stet_version *v;
	struct stet_key key;
	const uint8_t *p;
	int rc = take(in, 2, &p);

	if (rc)
		return rc;
	key.bytes = stet_get_le16(p);
	if (key.bytes == 0 || key.bytes > STET_ITEM_KEY_MAX)
		return STET_FAIL(-EUCLEAN, "savepoints: a key of %u bytes", key.bytes);
	rc = take(in, key.bytes, &p);
	if (rc)
		return rc;
	memcpy(key.b, p, key.bytes);
	rc = take_version(in, &v);
	if (rc)
		return rc;
	if (tag == TAG_RECORD)
		return stet_undo_push_(in->txn, &in->txn->saves.finals, true, &key, v);
	if (!v)
		return STET_FAIL(-EUCLEAN, "savepoints: an entry without a value");
	stet_set_account_(in->txn, v, true);
	rc = stet_set_restore_(in->txn, &key, v);
	if (rc)
		stet_set_drop_version_(in->txn, v);
	return rc;
}

static int take_all(struct in *in)
{
	const uint8_t *p;
	int rc = stet_tree_cursor_seek(&in->cur, "", 0);

	while (!rc && (in->cur.valid || in->done < in->bytes.len)) {
		rc = take(in, 1, &p);
		if (rc)
			break;
		uint8_t tag = p[0];
		if (tag == TAG_BUFFER)
			rc = take_buffer(in);
		else if (tag == TAG_ENTRY || tag == TAG_RECORD)
			rc = take_keyed(in, tag);
		else
			rc = STET_FAIL(-EUCLEAN, "savepoints: an item of kind %u", tag);
	}
	return rc;
}

int stet_swap_in_(struct stet_txn *txn, const struct stet_point *point, struct stet_rangeset *taken)
{
	struct in in = { .txn = txn, .taken = taken };
	int rc;

	stet_buf_init(&in.bytes);
	rc = stet_buf_reserve(&in.bytes, 2 * (size_t)CHUNK_BYTES);
	stet_tree_cursor_init(&in.cur, txn->engine->cache, STET_TREE_RUN, &point->out);
	if (!rc)
		rc = take_all(&in);
	stet_tree_cursor_release(&in.cur);
	for (size_t i = 0; i < in.bufs.n; i++)
		stet_buf_put_(txn->engine, in.bufs.v[i]); /* rooted: gives back nothing */
	stet_vec_release(&in.bufs);
	stet_buf_release(&in.bytes);
	return rc;
}

static void unroot(struct stet_version *v)
{
	if (v && v->kind == STET_V_BUF && v->birth == 0)
		v->buf->rooted = 0;
}

void stet_swap_unroot_(struct stet_txn *txn)
{
	for (struct stet_skipnode *node = stet_skiplist_first(&txn->set); node;
	     node = stet_skiplist_next(node))
		unroot(node->value);
	for (size_t i = 0; i < txn->saves.finals.list.n; i++)
		unroot(txn->saves.finals.list.v[i]->old);
}
