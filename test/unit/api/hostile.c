/* hostile.c - makes the volumes below fs/, which would refuse to. */
#include "hostile.h"

#include "../fs/unit.h"

#include "base/endian.h"

static void put(struct unit *u, const struct stet_key *key, const void *value, size_t n)
{
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_PLAIN);
	uint64_t wait;

	assert_int_equal(stet_txn_put(txn, key, value, n), 0);
	assert_int_equal(stet_txn_order(txn, NULL, &wait), 0);
	stet_txn_end(txn);
}

static void put_name(struct unit *u, uint64_t dir, uint64_t ino)
{
	const struct stet_dirent dirent = { .ino = ino, .type = S_IFDIR >> 12 };
	uint8_t value[16];
	struct stet_key key;

	stet_key_dirent(&key, dir, "more", 4);
	put(u, &key, value, stet_dirent_encode(&dirent, value));
}

static void put_parent(struct unit *u, uint64_t ino, uint64_t parent)
{
	struct stet_txn *txn = unit_begin(u, STET_LEVEL_PLAIN);
	uint8_t value[STET_INODE_VALUE_MAX];
	struct stet_inode inode;
	struct stet_key key;
	struct stet_val val;

	stet_key_inode(&key, ino);
	assert_int_equal(stet_txn_get(txn, &key, &val), 0);
	stet_txn_end(txn);
	assert_int_equal(stet_inode_decode(val.b, val.bytes, &inode), 0);
	inode.parent = parent;
	put(u, &key, value, stet_inode_encode(&inode, value));
}

void hostile_make(enum hostile what, struct stet_device **ret)
{
	struct unit *u = unit_create(NULL);
	uint64_t a, b;

	assert_int_equal(unit_make(u, NULL, STET_ROOT_INO, "a", S_IFDIR | 0755, &a), 0);
	assert_int_equal(unit_make(u, NULL, a, "b", S_IFDIR | 0755, &b), 0);
	switch (what) {
	case HOSTILE_CIRCLE:
		put_parent(u, a, b);
		put_name(u, b, a);
		break;
	case HOSTILE_UP:
		put_name(u, b, a);
		break;
	case HOSTILE_ROOT:
		put_name(u, b, STET_ROOT_INO);
		break;
	case HOSTILE_TWICE:
		put_name(u, a, b);
		break;
	case HOSTILE_TWO:
		put_name(u, STET_ROOT_INO, b);
		break;
	}
	unit_flush(u, true);
	stet_engine_close(u->engine);
	stet_fs_destroy(u->fs);
	*ret = u->device;
	free(u);
}
