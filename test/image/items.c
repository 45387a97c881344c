/* items.c - items of the catalog, in leaves, in runs and in records of the log; and the tree above them.
 *
 * A value is changed where it lies, so that nothing else moves. For another key or another length its node is
 * laid out anew, with the right prefix, so that nothing else is wrong with it; if there is no room, it stays as
 * it was. Whether a change can be noticed follows from what the item is (free, see headers.c).
 */
#include "mutation.h"

#include "base/assert.h"
#include "base/crc.h"

#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

struct field {
	const char *name;
	uint16_t at;
	uint8_t width;
	bool free;
};

#define FIELD(type, member, is_free)                                \
	{                                                           \
#member, (uint16_t)offsetof(struct type, member),   \
			sizeof(((struct type *)0)->member), is_free \
	}
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Of a decoded inode, and of the fixed part of its value; what is free see inode_change_free. */
static const struct field inode_fields[] = {
	FIELD(stet_inode, mode, false),     FIELD(stet_inode, uid, false),
	FIELD(stet_inode, gid, false),      FIELD(stet_inode, flags, false),
	FIELD(stet_inode, nlink, false),    FIELD(stet_inode, inline_bytes, false),
	FIELD(stet_inode, size, false),     FIELD(stet_inode, rdev, false),
	FIELD(stet_inode, atime_ns, false), FIELD(stet_inode, mtime_ns, false),
	FIELD(stet_inode, ctime_ns, false), FIELD(stet_inode, btime_ns, false),
	FIELD(stet_inode, parent, false),   FIELD(stet_inode, blocks, false),
	FIELD(stet_inode, subdirs, false),  FIELD(stet_inode, data_version, false),
};

static const struct field inode_disk_fields[] = {
	FIELD(stet_inode_disk, mode, false),
	FIELD(stet_inode_disk, flags, false),
	FIELD(stet_inode_disk, present, false),
	FIELD(stet_inode_disk, btime_ns, false),
};

static const struct field extent_fields[] = {
	FIELD(stet_extent_disk, addr, false),
	FIELD(stet_extent_disk, addr2, false),
	FIELD(stet_extent_disk, birth, true),
	FIELD(stet_extent_disk, block_count, false),
	FIELD(stet_extent_disk, phys_blocks, false),
	FIELD(stet_extent_disk, phys_offset, false),
	FIELD(stet_extent_disk, flags, false),
	{ "crc", sizeof(struct stet_extent_disk), 4, false },
};

static const struct field dirent_fields[] = {
	FIELD(stet_dirent_disk, ino, false),
	FIELD(stet_dirent_disk, type, false),
};

static const struct field orphan_fields[] = {
	FIELD(stet_orphan_disk, from_block, true),
	FIELD(stet_orphan_disk, flags, true),
};

static const struct field xattr_fields[] = {
	{ "form", 0, 1, true },
	{ "size", 1, 4, true },
	{ "id", 5, 8, true },
};

/* Nobody can tell the length of a value, within its last block, or the value of one that is in its item. */
static const struct field record_fields[] = {
	{ "form", 0, 1, true },
	{ "size", 1, 4, true },
	{ "first", 5, 8, true },
};

static const struct field pointer_fields[] = {
	FIELD(stet_node_ptr_disk, addr, false),
	FIELD(stet_node_ptr_disk, addr2, false),
	FIELD(stet_node_ptr_disk, birth, false),
	FIELD(stet_node_ptr_disk, check, false),
};

static const struct field run_fields[] = {
	FIELD(stet_run_disk, root.addr, false),  FIELD(stet_run_disk, root.addr2, false),
	FIELD(stet_run_disk, root_level, false), FIELD(stet_run_disk, serial, true),
	FIELD(stet_run_disk, commit_ns, true),   FIELD(stet_run_disk, item_count, true),
};

static const struct field segment_fields[] = {
	FIELD(stet_rec_segment_disk, id, true),
	FIELD(stet_rec_segment_disk, slot, true),
	FIELD(stet_rec_segment_disk, kind, true),
};

static const struct field patch_fields[] = {
	{ "base", 0, 8, true },
	{ "crc", 8, 4, true },
	{ "offset", 12, 4, true },
};

static const struct field next_ino_fields[] = { { "next_ino", 0, 8, true } };

struct edit {
	struct mutation *m;
	const struct item_place *item;
	bool free;
	uint8_t buf[PART_BYTES_MAX];
	struct stet_key node_key; /* of an item in a node, whole */
	uint32_t index; /* in the node as it is now; UINT32_MAX: it cannot be laid out anew */
	uint8_t *head, *key, *value;
	size_t value_bytes;
};

static void change_field(struct edit *e, const struct field *fields, size_t n)
{
	const struct field *f = &fields[mutation_pick(e->m, n)];

	if (f->at + f->width > e->item->value_bytes) {
		e->free = true;
		return;
	}
	mutate_int(e->m, e->value + f->at, f->width, f->name);
	e->free = f->free;
}

/* --- by kind --- */

/* Whether the node is whole but for its checksum. */
static bool node_is_whole(const struct edit *e)
{
	const struct atlas *a = e->m->base->atlas;
	const struct part *part = &a->parts.v[e->item->part];
	static uint8_t node[STET_NODE_SIZE];
	struct stet_node_disk *head = (struct stet_node_disk *)node;

	memcpy(node, e->buf, sizeof(node));
	head->check = le64_make(0);
	head->check = le64_make(stet_crc64(node, sizeof(node)));
	return !stet_node_verify(node, a->sb.volume_id, part->tree, part->level, NULL);
}

/* Finds the item where it lies now: it may have moved, or is gone. */
static void find_item(struct edit *e)
{
	uint32_t n = stet_node_count(e->buf);
	struct stet_item item;

	e->index = UINT32_MAX;
	e->key = e->node_key.b;
	for (uint32_t i = 0; node_is_whole(e) && i < n; i++) {
		if (stet_node_key_cmp(e->buf, i, e->key, e->node_key.bytes) != 0)
			continue;
		e->index = i;
		e->head = e->buf + stet_get_le16(e->buf + 0x40 + 2 * (size_t)i);
		stet_node_item(e->buf, i, &item);
		e->value = e->buf + (item.value - e->buf);
		e->value_bytes = item.value_bytes;
		return;
	}
}

static void node_key(const struct edit *e, const uint8_t *node, uint32_t i, struct stet_key *ret)
{
	if (i == e->index)
		*ret = e->node_key;
	else
		stet_node_key(node, i, ret);
}

/* Lays the node out anew, with the item's key as it is now and this value, or without it (value NULL). False: it
 * does not fit, and stays as it was. */
static bool lay_out(struct edit *e, const uint8_t *value, size_t value_bytes)
{
	static uint8_t was[STET_NODE_SIZE], now[STET_NODE_SIZE];
	const struct stet_node_disk *head = (const struct stet_node_disk *)was;
	uint32_t n = stet_node_count(e->buf), low_bytes, high_bytes;
	const uint8_t *low, *high;
	struct stet_node_builder b;
	struct stet_key key, first = { .bytes = 0 };
	bool any = false;

	memcpy(was, e->buf, sizeof(was));
	for (uint32_t i = 0; i < n; i++) {
		if (i == e->index && !value)
			continue;
		node_key(e, was, i, &key);
		first.bytes = any ? (uint16_t)stet_key_common(first.b, first.bytes, key.b,
							      key.bytes)
				  : key.bytes;
		memcpy(first.b, key.b, first.bytes);
		any = true;
	}
	stet_node_begin(&b, now, le32_get(head->tree), le16_get(head->level), first.b, first.bytes);
	for (uint32_t i = 0; i < n; i++) {
		struct stet_item item;

		if (i == e->index && !value)
			continue;
		node_key(e, was, i, &key);
		stet_node_item(was, i, &item);
		if (i == e->index) {
			item.value = value;
			item.value_bytes = (uint16_t)value_bytes;
		}
		if (!stet_node_fits(&b, key.bytes, item.value_bytes))
			return false;
		stet_node_add(&b, key.b, key.bytes, item.value, item.value_bytes, item.tombstone);
	}
	stet_node_low(was, &low, &low_bytes);
	stet_node_high(was, &high, &high_bytes);
	(void)stet_node_seal(&b, le64_get(head->volume_id), le64_get(head->birth), low, low_bytes,
			     high, high_bytes);
	memcpy(e->buf, now, sizeof(now));
	return true;
}

/* Gives the item a value of any length. False: there is no room. */
static bool put_value(struct edit *e, const uint8_t *value, size_t n)
{
	struct stet_item item;

	if (n == e->value_bytes) {
		memcpy(e->value, value, n);
		return true;
	}
	if (e->index == UINT32_MAX || !lay_out(e, value, n))
		return false;
	stet_node_item(e->buf, e->index, &item);
	e->value = e->buf + (item.value - e->buf);
	e->value_bytes = n;
	return true;
}

/* Gives the item of a node its new key, if that was changed. */
static void put_key(struct edit *e, const struct stet_key *was)
{
	uint8_t value[STET_VALUE_MAX];

	if (e->item->rec || memcmp(was->b, e->node_key.b, was->bytes) == 0)
		return;
	memcpy(value, e->value, e->value_bytes);
	if (e->index == UINT32_MAX || !lay_out(e, value, e->value_bytes)) {
		mutation_note(e->m, " (not done)");
		e->free = true;
	}
}

/* Entries, names and blocks are counted; whatever else an inode says nobody can tell. */
static bool inode_change_free(const struct stet_inode *was, const struct stet_inode *now)
{
	return ((was->mode ^ now->mode) & 07777) != 0 || was->uid != now->uid ||
	       was->gid != now->gid || was->rdev != now->rdev ||
	       was->data_version != now->data_version || was->atime_ns != now->atime_ns ||
	       was->mtime_ns != now->mtime_ns || was->ctime_ns != now->ctime_ns ||
	       was->btime_ns != now->btime_ns || (!S_ISDIR(was->mode) && was->size != now->size) ||
	       (was->inline_bytes > 0 && was->inline_bytes == now->inline_bytes &&
		memcmp(was->inline_data, now->inline_data, was->inline_bytes) != 0);
}

/* One field becomes another, and the value what that gives. */
static bool change_inode_field(struct edit *e, const struct stet_inode *was)
{
	const struct field *f = &inode_fields[mutation_pick(e->m, COUNT(inode_fields))];
	uint8_t value[STET_INODE_VALUE_MAX];
	struct stet_inode now = *was;

	if (mutation_chance(e->m, 15)) { /* another type */
		static const uint32_t type[] = { S_IFREG, S_IFDIR, S_IFLNK,
						 S_IFIFO, S_IFCHR, STET_MODE_TABLE };

		now.mode = (now.mode & 07777) | type[mutation_pick(e->m, COUNT(type))];
		mutation_note(e->m, " mode %o -> %o", was->mode, now.mode);
	} else {
		mutate_int(e->m, (uint8_t *)&now + f->at, f->width, f->name);
	}
	now.mode &= UINT16_MAX;
	now.flags &= UINT8_MAX;
	if (now.inline_bytes > was->inline_bytes)
		now.inline_bytes = was->inline_bytes;
	return put_value(e, value, stet_inode_encode(&now, value));
}

static void change_inode_bytes(struct edit *e)
{
	const uint32_t fixed = sizeof(struct stet_inode_disk);

	if (e->item->value_bytes <= fixed || mutation_chance(e->m, 40)) {
		change_field(e, inode_disk_fields, COUNT(inode_disk_fields));
	} else {
		uint32_t n = e->item->value_bytes - fixed;

		mutate_int(e->m, e->value + fixed + mutation_pick(e->m, n < 40 ? n : 40), 1,
			   "number byte");
	}
}

static void change_inode(struct edit *e)
{
	uint8_t before[STET_INODE_VALUE_MAX];
	struct stet_inode was, now;
	bool done = false;

	if (e->item->value_bytes > sizeof(before) ||
	    stet_inode_decode(e->value, e->item->value_bytes, &was)) { /* changed already */
		change_inode_bytes(e);
		e->free = true;
		return;
	}
	memcpy(before, e->value, e->item->value_bytes);
	was.inline_data = before + (was.inline_data - e->value);
	for (int tries = 0; tries < 10 && !done && !mutation_chance(e->m, 15); tries++)
		done = change_inode_field(e, &was);
	if (!done)
		change_inode_bytes(e);
	e->free = e->m->base->atlas->parts.v[e->item->part].tree == STET_TREE_RUN || /* symbols */
		  (!stet_inode_decode(e->value, e->value_bytes, &now) &&
		   inode_change_free(&was, &now));
}

/* Bytes of a name; in a log record the order does not matter. */
static void change_name(struct edit *e, bool chars)
{
	static const uint8_t bad[] = { '/', 0, '.', 'x', 0xff, 0x01 };
	uint32_t n = e->item->key_bytes - 9u;
	uint32_t at = 9u + (uint32_t)mutation_pick(e->m, n);
	uint8_t byte = bad[mutation_pick(e->m, chars ? COUNT(bad) : 2)];

	mutation_note(e->m, " name byte %u %#x -> %#x", at - 9, e->key[at], byte);
	e->key[at] = byte;
	e->free = byte != '/' && byte != 0;
}

static void change_dirent(struct edit *e)
{
	if (mutation_chance(e->m, 30)) {
		change_name(e, true);
	} else if (mutation_chance(e->m, 40)) { /* to a directory, its own perhaps: a loop */
		stet_put_le64(e->value, 1 + mutation_pick(e->m, 12));
		e->value[8] = S_IFDIR >> 12;
		mutation_note(e->m, " leads to directory %llu",
			      (unsigned long long)stet_get_le64(e->value));
	} else {
		change_field(e, dirent_fields, COUNT(dirent_fields));
	}
}

static void change_extent(struct edit *e)
{
	uint64_t first = stet_get_be64(e->key + 9);

	if (mutation_chance(e->m, 25)) { /* elsewhere in the file */
		static const uint64_t to[] = { 0,
					       1,
					       UINT64_MAX,
					       STET_FILE_BLOCKS_MAX - 1,
					       STET_FILE_BLOCKS_MAX,
					       UINT64_C(1) << 63 };
		uint64_t pick = mutation_pick(e->m, 2 * COUNT(to));
		uint64_t now = pick < COUNT(to) ? to[pick] : first + pick - COUNT(to) - 3;

		mutation_note(e->m, " first block %llu -> %llu", (unsigned long long)first,
			      (unsigned long long)now);
		stet_put_be64(e->key + 9, now);
		e->free = true;
	} else if (mutation_chance(e->m, 40)) { /* into something else */
		struct stet_addr addr = mutate_addr(e->m);

		mutation_note(e->m, " addr -> %llu:%u", (unsigned long long)stet_addr_seg(addr),
			      stet_addr_block(addr));
		stet_put_le64(e->value, addr.v);
	} else {
		change_field(e, extent_fields, COUNT(extent_fields));
	}
}

static void change_object(struct edit *e)
{
	uint64_t now = mutation_pick(e->m, e->m->base->ino_end + 2);

	mutation_note(e->m, " object %llu -> %llu", (unsigned long long)stet_get_be64(e->key),
		      (unsigned long long)now);
	stet_put_be64(e->key, now);
	e->free = true; /* what it was is then missing, or hides something else of its kind */
}

static void change_kind(struct edit *e)
{
	static const uint8_t kinds[] = { 0, 1, 2, 3, 4, 5, 6, 15, 16, 17, 18, 22, 255 };

	e->key[8] = kinds[mutation_pick(e->m, COUNT(kinds))];
	mutation_note(e->m, " kind %u -> %u", e->item->kind, e->key[8]);
	e->free = true;
}

static void change_catalog_item(struct edit *e)
{
	if (e->item->value_bytes == 0 || mutation_chance(e->m, 8)) {
		if (mutation_chance(e->m, 50))
			change_object(e);
		else
			change_kind(e);
		return;
	}
	switch (e->item->kind) {
	case STET_KIND_INODE:
		change_inode(e);
		break;
	case STET_KIND_DIRENT:
		change_dirent(e);
		break;
	case STET_KIND_EXTENT:
		change_extent(e);
		break;
	case STET_KIND_XATTR:
		if (mutation_chance(e->m, 30))
			change_name(e, true);
		else
			change_field(e, xattr_fields, COUNT(xattr_fields));
		e->free = true;
		break;
	case STET_KIND_RECORD:
		if (mutation_chance(e->m, 30))
			change_name(e, true);
		else
			change_field(e, record_fields, COUNT(record_fields));
		e->free = true;
		break;
	case STET_KIND_ORPHAN:
		change_field(e, orphan_fields, COUNT(orphan_fields));
		break;
	default:
		change_kind(e);
		break;
	}
}

/* --- the tree above the leaves --- */

/* The pointer becomes one to another node, its check and all: a sibling, the node itself, its parent. */
static void change_pointer(struct edit *e)
{
	const struct atlas *a = e->m->base->atlas;
	uint32_t other;

	if (mutation_chance(e->m, 50) || !mutation_part(e->m, PART_NODE, &other)) {
		change_field(e, pointer_fields, COUNT(pointer_fields));
		return;
	}
	mutation_note(e->m, " pointer to the node at %llu",
		      (unsigned long long)a->parts.v[other].off);
	stet_put_le64(e->value, a->parts.v[other].addr.v);
	stet_put_le64(e->value + 8, 0);
	memcpy(e->value + 16, a->bytes + a->parts.v[other].off + 0x10, 16);
}

/* --- how an item lies in its node --- */

static void delete_item(struct edit *e)
{
	if (e->index == UINT32_MAX || !lay_out(e, NULL, 0)) {
		e->free = true;
		return;
	}
	mutation_note(e->m, " deleted");
	/* An attribute, a time or a run's change is not missed. */
	e->free = e->item->kind == STET_KIND_XATTR || e->item->kind == STET_KIND_ORPHAN ||
		  e->m->base->atlas->parts.v[e->item->part].tree == STET_TREE_RUN;
}

/* The value of another item of the same size takes the place of this one's. */
static void copy_value(struct edit *e)
{
	const struct atlas *a = e->m->base->atlas;

	for (int tries = 0; tries < 200; tries++) {
		const struct item_place *from = &a->items.v[mutation_pick(e->m, a->items.n)];

		if (from->kind != e->item->kind || from->rec != e->item->rec ||
		    from->value_bytes != e->item->value_bytes || from == e->item)
			continue;
		memcpy(e->value, a->bytes + a->parts.v[from->part].off + from->value_at,
		       from->value_bytes);
		mutation_note(e->m, " value of the item at %llu + %u",
			      (unsigned long long)a->parts.v[from->part].off, from->head);
		e->free = e->item->kind != STET_KIND_EXTENT && e->item->kind != STET_KIND_DIRENT;
		return;
	}
	e->free = true;
}

/* A byte of what all keys of the node begin with. */
static void change_prefix(struct edit *e)
{
	const struct stet_node_disk *head = (const struct stet_node_disk *)e->buf;
	uint32_t n = le16_get(head->prefix_bytes);

	if (n > 0 && n <= STET_NODE_SIZE)
		mutate_int(e->m, e->buf + STET_NODE_SIZE - n + mutation_pick(e->m, n), 1,
			   "prefix byte");
	e->free = true;
}

/* The suffix ends near where it did, and the value begins there. */
static void move_border(struct edit *e)
{
	uint16_t suffix_bytes = stet_get_le16(e->head);
	uint16_t by = (uint16_t)(mutation_pick(e->m, 7) - 3);

	mutation_note(e->m, " suffix of %u bytes %+d", suffix_bytes, (int16_t)by);
	stet_put_le16(e->head, (uint16_t)(suffix_bytes + by));
}

static void change_layout(struct edit *e)
{
	uint32_t n = stet_node_count(e->buf);

	switch (mutation_pick(e->m, 8)) {
	case 0:
	case 1:
		mutate_int(e->m, e->head, 2, "suffix_bytes");
		break;
	case 4:
		change_prefix(e);
		break;
	case 5:
		move_border(e);
		break;
	case 2:
		mutate_int(e->m, e->buf + 0x40 + 2 * (size_t)mutation_pick(e->m, n), 2, "offset");
		break;
	case 3: { /* one item twice */
		uint8_t *table = e->buf + 0x40;

		mutation_note(e->m, " offset of a neighbour");
		if (n > 1)
			memcpy(table, table + 2, 2);
		break;
	}
	default:
		delete_item(e);
		break;
	}
	/* In runs, what is not there was not changed; an attribute's value, and content that an inode's ends
	 * with, may be of any length. */
	if (e->m->base->atlas->parts.v[e->item->part].tree == STET_TREE_RUN ||
	    e->item->kind == STET_KIND_XATTR || e->item->kind == STET_KIND_INODE ||
	    e->item->kind == STET_KIND_RECORD)
		e->free = true;
}

/* --- records of the log --- */

static void change_record(struct edit *e)
{
	uint8_t *head = e->buf + e->item->head;

	switch (mutation_pick(e->m, 4)) {
	case 0:
		mutate_int(e->m, head, 1, "record type");
		break;
	case 1:
		mutate_int(e->m, head + 2, 2, "key_bytes");
		break;
	case 2:
		mutate_int(e->m, head + 4, 4, "value_bytes");
		break;
	default:
		mutate_int(e->m, head + 1, 1, "pad");
		break;
	}
	e->free = true;
}

static bool change_record_value(struct edit *e)
{
	switch (e->item->rec) {
	case STET_REC_RUN:
		change_field(e, run_fields, COUNT(run_fields));
		return true;
	case STET_REC_SEGMENT:
		change_field(e, segment_fields, COUNT(segment_fields));
		return true;
	case STET_REC_PATCH:
		if (mutation_chance(e->m, 30))
			change_extent(e); /* its key; the value begins with the base */
		else
			change_field(e, patch_fields, COUNT(patch_fields));
		e->free = true;
		return true;
	case STET_REC_NEXT_INO:
		change_field(e, next_ino_fields, COUNT(next_ino_fields));
		return true;
	default:
		return false;
	}
}

/* --- choosing --- */

/* All kinds alike, though there are few orphans and many names. */
static const struct item_place *some_item(struct mutation *m)
{
	const struct atlas *a = m->base->atlas;
	uint64_t kind = mutation_pick(m, 13);

	for (int tries = 0; tries < 400; tries++) {
		const struct item_place *item = &a->items.v[mutation_pick(m, a->items.n)];

		if (tries > 300 || (kind < 5 && item->kind == kind && !item->rec) ||
		    (kind == 5 && item->kind == STET_KIND_ORPHAN) ||
		    (kind == 12 && item->kind == STET_KIND_RECORD && !item->rec) ||
		    (kind == 6 && item->rec == STET_REC_PATCH) ||
		    (kind == 7 && item->rec == STET_REC_RUN) ||
		    (kind == 8 && item->rec == STET_REC_SEGMENT) ||
		    (kind == 9 && item->rec == STET_REC_PUT) ||
		    (kind == 10 && a->parts.v[item->part].tree == STET_TREE_RUN) || kind == 11)
			return item;
	}
	return &a->items.v[0];
}

bool mutate_item(struct mutation *m)
{
	const struct item_place *item = some_item(m);
	const struct part *part = &m->base->atlas->parts.v[item->part];
	struct edit e = { .m = m, .item = item, .index = UINT32_MAX };
	struct stet_key was;

	patient_load(&m->patient, item->part, e.buf);
	atlas_key(m->base->atlas, item, &was);
	e.node_key = was;
	e.head = e.buf + item->head;
	e.key = e.buf + item->key_at;
	e.value = e.buf + item->value_at;
	e.value_bytes = item->value_bytes;
	if (!item->rec)
		find_item(&e);
	mutation_note(m, " item at %llu + %u kind %u record %u level %u tree %u:",
		      (unsigned long long)part->off, item->head, item->kind, item->rec, part->level,
		      part->tree);
	if (item->rec && mutation_chance(m, 20))
		change_record(&e);
	else if (item->rec && change_record_value(&e))
		;
	else if (!item->rec && mutation_chance(m, 20))
		change_layout(&e);
	else if (item->kind == 0)
		change_pointer(&e);
	else if (mutation_chance(m, 10) && item->value_bytes > 0)
		copy_value(&e);
	else
		change_catalog_item(&e);
	put_key(&e, &was);
	/* What a run or the log says of a key hides what lies below: its absence may be legal. */
	patient_store(&m->patient, item->part, e.buf);
	m->free = m->free || e.free;
	return true;
}
