/* around.c - see around.h. */
#include "around.h"

#include "base/endian.h"

#include <string.h>

#define ANY_DIR 0u /* no inode's number */

/* --- what the service calls --- */

static int enter(void *within, struct stet_txn **ret_txn)
{
	struct around *a = within;
	bool open;

	pthread_mutex_lock(&a->lock);
	open = a->txn && !a->ending;
	a->calls += open;
	*ret_txn = a->txn;
	pthread_mutex_unlock(&a->lock);
	return open ? 0 : -ESTALE;
}

static void leave(void *within)
{
	struct around *a = within;

	pthread_mutex_lock(&a->lock);
	if (--a->calls == 0)
		pthread_cond_broadcast(&a->drained);
	pthread_mutex_unlock(&a->lock);
}

static bool is_ending(void *within)
{
	struct around *a = within;
	bool ending;

	pthread_mutex_lock(&a->lock);
	ending = a->ending;
	pthread_mutex_unlock(&a->lock);
	return ending;
}

static void part_begin(void *within)
{
	struct around *a = within;

	pthread_mutex_lock(&a->lock);
	a->parts++;
	pthread_mutex_unlock(&a->lock);
}

static void part_end(void *within, bool spoiled)
{
	struct around *a = within;

	pthread_mutex_lock(&a->lock);
	assert_true(a->parts > 0);
	a->parts--;
	a->spoiled = a->spoiled || spoiled;
	pthread_mutex_unlock(&a->lock);
}

static void conflict(void *within)
{
	struct around *a = within;

	pthread_mutex_lock(&a->lock);
	a->conflicts++;
	pthread_mutex_unlock(&a->lock);
}

static size_t key_of(uint8_t key[8 + 256], uint64_t ino, const char *name)
{
	size_t len = strlen(name);

	stet_put_be64(key, ino);
	memcpy(key + 8, name, len);
	return 8 + len;
}

static void note(struct stet_skiplist *list, uint64_t ino, const char *name)
{
	struct stet_skipnode *node;
	uint8_t key[8 + 256];
	int rc = stet_skiplist_insert(list, key, key_of(key, ino, name), &node);

	assert_true(rc == 0 || rc == -EEXIST);
}

static void told(void *within, const struct stet_ll_touched *touched)
{
	struct around *a = within;

	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < touched->ino_count; i++)
		note(&a->told, touched->ino[i].ino, "");
	for (size_t i = 0; i < touched->name_count; i++)
		note(&a->told, touched->name[i].dir, touched->name[i].name);
	pthread_mutex_unlock(&a->lock);
}

static void release(void *within)
{
	struct around *a = within;

	pthread_mutex_lock(&a->lock);
	assert_true(a->refs > 0);
	a->refs--;
	pthread_mutex_unlock(&a->lock);
}

const struct stet_ll_mount around_mount = {
	.enter = enter,
	.leave = leave,
	.is_ending = is_ending,
	.part_begin = part_begin,
	.part_end = part_end,
	.conflict = conflict,
	.told = told,
	.release = release,
};

/* --- what tests call --- */

void around_begin(struct around *a, struct stet_volume *vol, unsigned flags)
{
	*a = (struct around){ .vol = vol };
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->drained, NULL);
	stet_skiplist_init(&a->told, 1, 0);
	stet_skiplist_init(&a->changed, 1, 0);
	OK(stet_begin(vol, flags, &a->txn));
}

void around_reached(struct around *a, struct stet_ll_service *service, const char *word,
		    uint32_t uid)
{
	pthread_mutex_lock(&a->lock);
	a->refs++;
	pthread_mutex_unlock(&a->lock);
	assert_true(stet_ll_service_reached(service, word, uid, true, a));
}

static int note_change(void *arg, const struct stet_change *change)
{
	struct around *a = arg;

	note(&a->changed, change->ino, "");
	if (change->kind != STET_CHANGE_MODIFIED)
		note(&a->changed, ANY_DIR, strrchr(change->path, '/') + 1);
	if (change->old_path && change->kind == STET_CHANGE_RENAMED)
		note(&a->changed, ANY_DIR, strrchr(change->old_path, '/') + 1);
	return 0;
}

void around_end(struct around *a, bool keep)
{
	bool spoiled;

	pthread_mutex_lock(&a->lock);
	a->ending = true;
	while (a->calls > 0)
		pthread_cond_wait(&a->drained, &a->lock);
	spoiled = a->spoiled || a->parts > 0;
	pthread_mutex_unlock(&a->lock);
	OK(stet_changes(a->txn, note_change, a));
	if (!keep || spoiled || stet_commit(a->txn, 0))
		stet_abort(a->txn);
	pthread_mutex_lock(&a->lock);
	a->txn = NULL;
	pthread_mutex_unlock(&a->lock);
}

static bool is_name_told(const struct around *a, const uint8_t *name, size_t len)
{
	for (const struct stet_skipnode *node = stet_skiplist_first(&a->told); node;
	     node = stet_skiplist_next(node))
		if (node->key_len == 8 + len && memcmp(stet_skipnode_key(node) + 8, name, len) == 0)
			return true;
	return false;
}

static void check_told(const struct around *a)
{
	for (const struct stet_skipnode *node = stet_skiplist_first(&a->changed); node;
	     node = stet_skiplist_next(node)) {
		const uint8_t *key = stet_skipnode_key(node);

		if (stet_get_be64(key) == ANY_DIR)
			assert_true(is_name_told(a, key + 8, node->key_len - 8u));
		else
			assert_non_null(stet_skiplist_find(&a->told, key, node->key_len));
	}
}

void around_release(struct around *a)
{
	check_told(a);
	assert_int_equal(a->parts, 0);
	assert_int_equal(a->calls, 0);
	assert_int_equal(a->refs, 0);
	stet_skiplist_release(&a->told, NULL, NULL);
	stet_skiplist_release(&a->changed, NULL, NULL);
	pthread_cond_destroy(&a->drained);
	pthread_mutex_destroy(&a->lock);
}
