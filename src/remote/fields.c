/* fields.c - the structures of the public header as fields of a message.
 *
 * Each pair of functions names the same fields in the same order. Changing one changes the version.
 */
#include "remote/wire.h"

#include "stetfs.h"

#include <string.h>

void stet_wire_put_stat(struct stet_wire_out *out, const struct stet_stat *st)
{
	stet_wire_put_u64(out, st->ino);
	stet_wire_put_u32(out, st->mode);
	stet_wire_put_u32(out, st->nlink);
	stet_wire_put_u32(out, st->uid);
	stet_wire_put_u32(out, st->gid);
	stet_wire_put_u64(out, st->rdev);
	stet_wire_put_u64(out, st->size);
	stet_wire_put_u64(out, st->blocks);
	stet_wire_put_i64(out, st->atime_ns);
	stet_wire_put_i64(out, st->mtime_ns);
	stet_wire_put_i64(out, st->ctime_ns);
	stet_wire_put_i64(out, st->btime_ns);
	stet_wire_put_u64(out, st->parent);
	stet_wire_put_u64(out, st->data_version);
}

void stet_wire_get_stat(struct stet_wire_in *in, struct stet_stat *ret)
{
	ret->ino = stet_wire_get_u64(in);
	ret->mode = stet_wire_get_u32(in);
	ret->nlink = stet_wire_get_u32(in);
	ret->uid = stet_wire_get_u32(in);
	ret->gid = stet_wire_get_u32(in);
	ret->rdev = stet_wire_get_u64(in);
	ret->size = stet_wire_get_u64(in);
	ret->blocks = stet_wire_get_u64(in);
	ret->atime_ns = stet_wire_get_i64(in);
	ret->mtime_ns = stet_wire_get_i64(in);
	ret->ctime_ns = stet_wire_get_i64(in);
	ret->btime_ns = stet_wire_get_i64(in);
	ret->parent = stet_wire_get_u64(in);
	ret->data_version = stet_wire_get_u64(in);
}

void stet_wire_put_setattr(struct stet_wire_out *out, const struct stet_setattr *attr)
{
	stet_wire_put_u32(out, attr->set);
	stet_wire_put_u32(out, attr->mode);
	stet_wire_put_u32(out, attr->uid);
	stet_wire_put_u32(out, attr->gid);
	stet_wire_put_u64(out, attr->size);
	stet_wire_put_i64(out, attr->atime_ns);
	stet_wire_put_i64(out, attr->mtime_ns);
}

void stet_wire_get_setattr(struct stet_wire_in *in, struct stet_setattr *ret)
{
	ret->set = stet_wire_get_u32(in);
	ret->mode = stet_wire_get_u32(in);
	ret->uid = stet_wire_get_u32(in);
	ret->gid = stet_wire_get_u32(in);
	ret->size = stet_wire_get_u64(in);
	ret->atime_ns = stet_wire_get_i64(in);
	ret->mtime_ns = stet_wire_get_i64(in);
}

#define STATFS_READ_ONLY 0x1u
#define STATFS_FAILED 0x2u

void stet_wire_put_statfs(struct stet_wire_out *out, const struct stet_statfs *st)
{
	stet_wire_put_u64(out, st->capacity_bytes);
	stet_wire_put_u64(out, st->live_bytes);
	stet_wire_put_u64(out, st->held_bytes);
	stet_wire_put_u64(out, st->reserved_bytes);
	stet_wire_put_u64(out, st->reserve_bytes);
	stet_wire_put_u64(out, st->avail_bytes);
	stet_wire_put_u32(out, st->block_bytes);
	stet_wire_put_u32(out, st->segment_bytes);
	stet_wire_put_u32(out, st->segments);
	stet_wire_put_u32(out, st->segments_free);
	stet_wire_put_u32(out, st->name_max);
	stet_wire_put_u32(out, st->meta_copies);
	stet_wire_put_u32(out, st->data_copies);
	stet_wire_put_bytes(out, st->uuid, sizeof(st->uuid));
	stet_wire_put_text(out, st->label);
	stet_wire_put_i64(out, st->created_ns);
	stet_wire_put_u64(out, st->serial);
	stet_wire_put_u64(out, st->durable);
	stet_wire_put_u32(out, (st->read_only ? STATFS_READ_ONLY : 0) |
				       (st->failed ? STATFS_FAILED : 0));
	stet_wire_put_text(out, st->failure);
}

void stet_wire_get_statfs(struct stet_wire_in *in, struct stet_statfs *ret)
{
	const char *text;
	uint32_t flags;

	ret->capacity_bytes = stet_wire_get_u64(in);
	ret->live_bytes = stet_wire_get_u64(in);
	ret->held_bytes = stet_wire_get_u64(in);
	ret->reserved_bytes = stet_wire_get_u64(in);
	ret->reserve_bytes = stet_wire_get_u64(in);
	ret->avail_bytes = stet_wire_get_u64(in);
	ret->block_bytes = stet_wire_get_u32(in);
	ret->segment_bytes = stet_wire_get_u32(in);
	ret->segments = stet_wire_get_u32(in);
	ret->segments_free = stet_wire_get_u32(in);
	ret->name_max = stet_wire_get_u32(in);
	ret->meta_copies = stet_wire_get_u32(in);
	ret->data_copies = stet_wire_get_u32(in);
	stet_wire_get_bytes(in, ret->uuid, sizeof(ret->uuid));
	text = stet_wire_get_text(in, sizeof(ret->label) - 1);
	memcpy(ret->label, text, strlen(text) + 1);
	ret->created_ns = stet_wire_get_i64(in);
	ret->serial = stet_wire_get_u64(in);
	ret->durable = stet_wire_get_u64(in);
	flags = stet_wire_get_u32(in);
	ret->read_only = flags & STATFS_READ_ONLY;
	ret->failed = flags & STATFS_FAILED;
	text = stet_wire_get_text(in, sizeof(ret->failure) - 1);
	memcpy(ret->failure, text, strlen(text) + 1);
}

void stet_wire_put_txn(struct stet_wire_out *out, const struct stet_txn_entry *entry)
{
	stet_wire_put_u64(out, entry->id);
	stet_wire_put_u32(out, entry->flags);
	stet_wire_put_i64(out, entry->begun_ns);
	stet_wire_put_u64(out, entry->view_serial);
	stet_wire_put_u64(out, entry->locks);
	stet_wire_put_u64(out, entry->staged_bytes);
	stet_wire_put_u64(out, entry->pinned_bytes);
	stet_wire_put_u64(out, entry->changes);
	stet_wire_put_u64(out, entry->waiting_for);
	stet_wire_put_u32(out, entry->uid);
	stet_wire_put_u32(out, (uint32_t)entry->pid);
	stet_wire_put_u32(out, entry->for_user);
	stet_wire_put_u32(out, entry->doomed);
}

void stet_wire_get_txn(struct stet_wire_in *in, struct stet_txn_entry *ret)
{
	ret->id = stet_wire_get_u64(in);
	ret->flags = stet_wire_get_u32(in);
	ret->begun_ns = stet_wire_get_i64(in);
	ret->view_serial = stet_wire_get_u64(in);
	ret->locks = stet_wire_get_u64(in);
	ret->staged_bytes = stet_wire_get_u64(in);
	ret->pinned_bytes = stet_wire_get_u64(in);
	ret->changes = stet_wire_get_u64(in);
	ret->waiting_for = stet_wire_get_u64(in);
	ret->uid = stet_wire_get_u32(in);
	ret->pid = (int32_t)stet_wire_get_u32(in);
	ret->for_user = stet_wire_get_u32(in);
	ret->doomed = stet_wire_get_u32(in);
}

static void put_attr(struct stet_wire_out *out, const struct stet_change_attr *attr)
{
	stet_wire_put_u64(out, attr->size);
	stet_wire_put_u32(out, attr->mode);
	stet_wire_put_u32(out, attr->uid);
	stet_wire_put_u32(out, attr->gid);
	stet_wire_put_u32(out, attr->nlink);
}

static void get_attr(struct stet_wire_in *in, struct stet_change_attr *ret)
{
	ret->size = stet_wire_get_u64(in);
	ret->mode = stet_wire_get_u32(in);
	ret->uid = stet_wire_get_u32(in);
	ret->gid = stet_wire_get_u32(in);
	ret->nlink = stet_wire_get_u32(in);
}

void stet_wire_put_change(struct stet_wire_out *out, const struct stet_change *change)
{
	stet_wire_put_u32(out, change->kind);
	stet_wire_put_u32(out, change->what);
	stet_wire_put_u64(out, change->ino);
	stet_wire_put_u32(out, change->type);
	stet_wire_put_u32(out, change->old_type);
	stet_wire_put_text(out, change->path);
	stet_wire_put_text(out, change->old_path ? change->old_path : ""); /* a path is not "" */
	put_attr(out, &change->before);
	put_attr(out, &change->after);
	stet_wire_put_u64(out, change->replaced_ino);
	put_attr(out, &change->replaced);
}

void stet_wire_get_change(struct stet_wire_in *in, struct stet_change *ret)
{
	uint32_t kind = stet_wire_get_u32(in);

	in->bad = in->bad || kind > STET_CHANGE_MODIFIED;
	ret->kind = (enum stet_change_kind)kind;
	ret->what = stet_wire_get_u32(in);
	ret->ino = stet_wire_get_u64(in);
	ret->type = (uint8_t)stet_wire_get_u32(in);
	ret->old_type = (uint8_t)stet_wire_get_u32(in);
	ret->path = stet_wire_get_text(in, STET_WIRE_DATA_MAX);
	ret->old_path = stet_wire_get_text(in, STET_WIRE_DATA_MAX);
	if (!ret->old_path[0])
		ret->old_path = NULL;
	get_attr(in, &ret->before);
	get_attr(in, &ret->after);
	ret->replaced_ino = stet_wire_get_u64(in);
	get_attr(in, &ret->replaced);
}

void stet_wire_put_entry(struct stet_wire_out *out, const struct stet_dir_entry *entry)
{
	stet_wire_put_u64(out, entry->ino);
	stet_wire_put_u32(out, entry->type);
	stet_wire_put_text(out, entry->name);
}

void stet_wire_get_entry(struct stet_wire_in *in, struct stet_dir_entry *ret)
{
	const char *name;

	ret->ino = stet_wire_get_u64(in);
	ret->type = (uint8_t)stet_wire_get_u32(in);
	name = stet_wire_get_text(in, sizeof(ret->name) - 1);
	memcpy(ret->name, name, strlen(name) + 1);
}

#define BOUNDS_PREFIX 0x01u
#define BOUNDS_FROM 0x02u
#define BOUNDS_TO 0x04u
#define BOUNDS_AFTER_FROM 0x08u
#define BOUNDS_WITH_TO 0x10u
#define BOUNDS_REVERSE 0x20u
#define BOUNDS_KEYS_ONLY 0x40u
#define BOUNDS_UPDATE 0x80u

void stet_wire_put_bounds(struct stet_wire_out *out, const struct stet_bounds *bounds)
{
	static const struct stet_bounds all;
	const struct stet_bounds *b = bounds ? bounds : &all;

	stet_wire_put_u32(
		out, (b->prefix ? BOUNDS_PREFIX : 0) | (b->from ? BOUNDS_FROM : 0) |
			     (b->to ? BOUNDS_TO : 0) | (b->after_from ? BOUNDS_AFTER_FROM : 0) |
			     (b->with_to ? BOUNDS_WITH_TO : 0) | (b->reverse ? BOUNDS_REVERSE : 0) |
			     (b->keys_only ? BOUNDS_KEYS_ONLY : 0) |
			     (b->update ? BOUNDS_UPDATE : 0));
	stet_wire_put_blob(out, b->prefix, b->prefix ? b->prefix_len : 0);
	stet_wire_put_blob(out, b->from, b->from ? b->from_len : 0);
	stet_wire_put_blob(out, b->to, b->to ? b->to_len : 0);
}

void stet_wire_get_bounds(struct stet_wire_in *in, struct stet_bounds *ret)
{
	uint32_t flags = stet_wire_get_u32(in);

	*ret = (struct stet_bounds){
		.after_from = flags & BOUNDS_AFTER_FROM,
		.with_to = flags & BOUNDS_WITH_TO,
		.reverse = flags & BOUNDS_REVERSE,
		.keys_only = flags & BOUNDS_KEYS_ONLY,
		.update = flags & BOUNDS_UPDATE,
	};
	ret->prefix = stet_wire_get_blob(in, &ret->prefix_len);
	ret->from = stet_wire_get_blob(in, &ret->from_len);
	ret->to = stet_wire_get_blob(in, &ret->to_len);
	if (!(flags & BOUNDS_PREFIX))
		ret->prefix = NULL;
	if (!(flags & BOUNDS_FROM))
		ret->from = NULL;
	if (!(flags & BOUNDS_TO))
		ret->to = NULL;
}

void stet_wire_put_record(struct stet_wire_out *out, const struct stet_record *record)
{
	stet_wire_put_u32(out, record->value != NULL);
	stet_wire_put_blob(out, record->key, record->key_len);
	stet_wire_put_blob(out, record->value, record->value ? record->value_len : 0);
}

void stet_wire_get_record(struct stet_wire_in *in, struct stet_record *ret)
{
	bool has_value = stet_wire_get_u32(in);

	ret->key = stet_wire_get_blob(in, &ret->key_len);
	ret->value = stet_wire_get_blob(in, &ret->value_len);
	if (!has_value)
		ret->value = NULL;
}
