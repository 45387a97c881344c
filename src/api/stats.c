/* stats.c - what a volume is, how full it is, what it has done. */
#include "api/api_internal.h"

#include "clean/clean.h"
#include "format/superblock.h"

#include <string.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)

const char *stet_version(void)
{
	return STRING(STET_VERSION_MAJOR) "." STRING(STET_VERSION_MINOR) "." STRING(
		STET_VERSION_PATCH);
}

uint32_t stet_format_version(void)
{
	return STET_FORMAT_VERSION;
}

/* All there is to say, taken under one hold of the lock. */
struct numbers {
	struct stet_engine_stats engine;
	struct stet_space_usage space;
	struct stet_cache_usage cache;
	struct stet_device_stats device;
	struct stet_clean_stats clean; /* of a volume that is open for writing */
	struct stet_superblock sb;
	uint64_t held_inodes, open_handles;
};

static void take_numbers(struct stet_volume *vol, struct numbers *ret)
{
	ret->clean = (struct stet_clean_stats){ 0 };
	stet_api_lock_(vol);
	if (vol->cleaner)
		stet_clean_stats(vol->cleaner, &ret->clean);
	stet_engine_stats(vol->engine, &ret->engine);
	stet_space_usage(stet_engine_space(vol->engine), &ret->space);
	stet_cache_usage(stet_engine_cache(vol->engine), &ret->cache);
	stet_device_stats(vol->device, &ret->device);
	ret->sb = *stet_engine_superblock(vol->engine);
	ret->held_inodes = stet_fs_held_count(vol->fs);
	ret->open_handles = vol->handles;
	stet_api_unlock_(vol);
}

static uint64_t available(const struct stet_space_usage *u)
{
	uint64_t taken = u->live_blocks + u->pinned_blocks + u->reserved_blocks + u->reserve_blocks;

	return u->capacity_blocks > taken ? u->capacity_blocks - taken : 0;
}

int stet_statfs(struct stet_volume *vol, struct stet_statfs *ret)
{
	struct numbers n;
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	take_numbers(vol, &n);
	*ret = (struct stet_statfs){
		.capacity_bytes = n.space.capacity_blocks * STET_BLOCK_SIZE,
		.live_bytes = n.space.live_blocks * STET_BLOCK_SIZE,
		.held_bytes = n.space.held_blocks * STET_BLOCK_SIZE,
		.reserved_bytes = n.space.reserved_blocks * STET_BLOCK_SIZE,
		.reserve_bytes = n.space.reserve_blocks * STET_BLOCK_SIZE,
		.avail_bytes = available(&n.space) * STET_BLOCK_SIZE,
		.block_bytes = STET_BLOCK_SIZE,
		.segment_bytes = n.sb.seg_blocks * STET_BLOCK_SIZE,
		.segments = n.space.slots_total,
		.segments_free = n.space.slots_free,
		.name_max = STET_NAME_MAX,
		.meta_copies = n.sb.meta_copies,
		.data_copies = n.sb.data_copies,
		.created_ns = n.sb.created_ns,
		.serial = n.engine.serial,
		.durable = n.engine.durable,
		.read_only = vol->read_only,
		.failed = n.engine.failed,
	};
	memcpy(ret->uuid, n.sb.uuid, sizeof(ret->uuid));
	memcpy(ret->label, n.sb.label, sizeof(ret->label));
	_Static_assert(sizeof(ret->failure) == sizeof(n.engine.failure), "the text fits");
	memcpy(ret->failure, n.engine.failure, sizeof(ret->failure));
	return 0;
}

/* The counters that users see: name, where it lies in struct numbers. Names are stable. */
#define COUNTERS(C)                                      \
	C("serial", engine.serial)                       \
	C("durable", engine.durable)                     \
	C("checkpoint", engine.cut)                      \
	C("commits", engine.commits)                     \
	C("conflicts", engine.conflicts)                 \
	C("deadlocks", engine.deadlocks)                 \
	C("waits", engine.waits)                         \
	C("flushes", engine.flushes)                     \
	C("log_bytes", engine.log_bytes)                 \
	C("checkpoints", engine.checkpoints)             \
	C("spills", engine.spills)                       \
	C("overlays", engine.overlays)                   \
	C("passed_keys", engine.passed)                  \
	C("views", engine.views)                         \
	C("transactions", engine.txns)                   \
	C("recovered_batches", engine.recovered_batches) \
	C("torn_tail", engine.torn_tail)                 \
	C("failed", engine.failed)                       \
	C("delta_keys", engine.delta_keys)               \
	C("delta_bytes", engine.delta_bytes)             \
	C("dirty_bytes", engine.dirty_bytes)             \
	C("handles", open_handles)                       \
	C("held_inodes", held_inodes)                    \
	C("cache_limit_bytes", cache.limit_bytes)        \
	C("cache_used_bytes", cache.used_bytes)          \
	C("node_hits", cache.node_hits)                  \
	C("node_misses", cache.node_misses)              \
	C("block_hits", cache.block_hits)                \
	C("block_misses", cache.block_misses)            \
	C("evictions", cache.evictions)                  \
	C("healed", cache.healed)                        \
	C("capacity_blocks", space.capacity_blocks)      \
	C("live_blocks", space.live_blocks)              \
	C("held_blocks", space.held_blocks)              \
	C("pinned_blocks", space.pinned_blocks)          \
	C("reserved_blocks", space.reserved_blocks)      \
	C("segments_free", space.slots_free)             \
	C("segments_open", space.slots_open)             \
	C("segments_full", space.slots_full)             \
	C("segments_bad", space.slots_bad)               \
	C("cleaned_segments", clean.victims)             \
	C("moved_blocks", clean.moved_blocks)            \
	C("device_reads", device.reads)                  \
	C("device_read_bytes", device.read_bytes)        \
	C("device_writes", device.writes)                \
	C("device_write_bytes", device.write_bytes)      \
	C("device_flushes", device.flushes)              \
	C("device_discards", device.discards)

int stet_stats(struct stet_volume *vol, stet_stats_fn *fn, void *arg)
{
	struct numbers n;
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	take_numbers(vol, &n);
#define CALL(name, field)                      \
	rc = fn(arg, name, (uint64_t)n.field); \
	if (rc)                                \
		return rc;
	COUNTERS(CALL)
#undef CALL
	return 0;
}
