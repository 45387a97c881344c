/* told.c - telling whoever serves others (serve/) what their operations in a transaction change.
 *
 * A mount's kernel caches a transaction's tree. What comes through it, it knows; what a client of the library changes in
 * the same transaction, it must be told. Every change is an entry of the write-set, or was noted as a change of data
 * (stet_api_note_dirty_); so the keys say which inodes and names it was.
 */
#include "api/api_internal.h"

#include "base/endian.h"

#include <string.h>

#define INO_BYTES 8u

/* --- sets of inodes and names --- */

void stet_api_told_init(struct stet_api_told *told, uint64_t seed)
{
	stet_skiplist_init(&told->set, seed, 0);
	told->rc = 0;
}

void stet_api_told_release(struct stet_api_told *told)
{
	stet_skiplist_release(&told->set, NULL, NULL);
}

static void add(struct stet_api_told *told, const void *key, size_t len)
{
	struct stet_skipnode *node;
	int rc = stet_skiplist_insert(&told->set, key, len, &node);

	if (rc && rc != -EEXIST)
		told->rc = rc;
}

void stet_api_told_ino(struct stet_api_told *told, uint64_t ino)
{
	uint8_t key[INO_BYTES];

	stet_put_be64(key, ino);
	add(told, key, sizeof(key));
}

void stet_api_told_name(struct stet_api_told *told, uint64_t dir, const void *name, size_t len)
{
	uint8_t key[INO_BYTES + STET_NAME_MAX + 1];

	STET_ASSERT_CMP(len, <=, STET_NAME_MAX);
	stet_put_be64(key, dir);
	memcpy(key + INO_BYTES, name, len);
	key[INO_BYTES + len] = 0;
	add(told, key, INO_BYTES + len + 1);
}

void stet_api_told_add(struct stet_api_told *told, const struct stet_ll_touched *list)
{
	if (!told->rc)
		told->rc = list->result;
	for (size_t i = 0; i < list->ino_count; i++)
		stet_api_told_ino(told, list->ino[i].ino);
	for (size_t i = 0; i < list->name_count; i++)
		stet_api_told_name(told, list->name[i].dir, list->name[i].name,
				   strlen(list->name[i].name));
}

static void fill(const struct stet_api_told *told, struct stet_ll_touched_ino *ino,
		 struct stet_ll_touched_name *name, struct stet_ll_touched *ret)
{
	for (const struct stet_skipnode *node = stet_skiplist_first(&told->set); node;
	     node = stet_skiplist_next(node)) {
		const uint8_t *key = stet_skipnode_key(node);
		uint64_t number = stet_get_be64(key);

		if (node->key_len == INO_BYTES)
			ino[ret->ino_count++] = (struct stet_ll_touched_ino){ .ino = number };
		else
			name[ret->name_count++] = (struct stet_ll_touched_name){
				.dir = number,
				.name = (const char *)key + INO_BYTES,
			};
	}
	ret->ino = ino;
	ret->name = name;
}

void stet_api_told_list(const struct stet_api_told *told, struct stet_ll_touched *ret)
{
	size_t count = stet_skiplist_count(&told->set);
	struct stet_ll_touched_ino *ino = stet_calloc(count + 1, sizeof(*ino));
	struct stet_ll_touched_name *name = stet_calloc(count + 1, sizeof(*name));

	*ret = (struct stet_ll_touched){ .result = told->rc };
	if (ino && name) {
		fill(told, ino, name, ret);
		return;
	}
	stet_free(ino);
	stet_free(name);
	ret->result = -ENOMEM;
}

void stet_api_told_list_release(struct stet_ll_touched *list)
{
	stet_free((void *)(uintptr_t)list->ino);
	stet_free((void *)(uintptr_t)list->name);
}

/* --- what operations change --- */

/* Of this thread. */
static _Thread_local struct {
	stet_ll_told_fn *fn;
	void *arg;
} asked;

void stet_api_tell_changes(stet_ll_told_fn *fn, void *arg)
{
	asked.fn = fn;
	asked.arg = arg;
}

bool stet_api_wants_told_(void)
{
	return asked.fn;
}

static void note_key(void *arg, const struct stet_key *key)
{
	struct stet_api_told *told = arg;
	uint64_t ino = stet_key_object(key->b);

	if (ino == 0)
		return; /* the volume's own */
	stet_api_told_ino(told, ino);
	if (stet_key_get_kind(key->b) == STET_KIND_DIRENT)
		stet_api_told_name(told, ino, key->b + STET_API_NAME_AT,
				   key->bytes - STET_API_NAME_AT);
}

void stet_api_told_begin_(struct stet_api_op *op)
{
	if (op->told)
		stet_txn_tell_puts(op->ctx.txn, note_key, op->told);
}

void stet_api_told_end_(struct stet_api_op *op)
{
	if (op->told)
		stet_txn_tell_puts(op->ctx.txn, NULL, NULL);
}

void stet_api_told_send_(struct stet_api_told *told)
{
	struct stet_ll_touched list;

	stet_api_told_list(told, &list);
	if (list.ino_count > 0 || list.result)
		asked.fn(asked.arg, &list);
	stet_api_told_list_release(&list);
	stet_api_told_release(told);
}
