/* volume.c - making, opening and closing volumes.
 *
 * V1. Open builds from below: device, locks, fs, engine (which recovers), threads. Close takes it apart
 *     in reverse, after all threads have ended, so nothing runs beside it.
 * V2. Close refuses while there are handles: nothing of the caller's may refer to what it frees.
 * V3. mkfs checks all options before it touches what is there.
 * V4. A volume that another process holds is opened through that, if it serves us: so too for who may not open
 *     the image itself.
 */
#include "api/volume.h"

#include "api/api_internal.h"
#include "format/superblock.h"
#include "remote/reach.h"
#include "remote/remote.h"

#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define VOLUME_BYTES_MIN (16 * MIB)
#define CACHE_BYTES (64 * MIB)
#define FLUSH_INTERVAL_MS 5000
#define NS_PER_MS 1000000
#define SEG_BYTES_MIN ((uint64_t)STET_SEG_BLOCKS_MIN * STET_BLOCK_SIZE)
#define SEG_BYTES_MAX ((uint64_t)STET_SEG_BLOCKS_MAX * STET_BLOCK_SIZE)
#define SEGMENTS_WANTED 1024
#define SEG_BYTES_USUAL (4 * MIB)

/* --- mkfs --- */

static int random_bytes(void *buf, size_t len)
{
	ssize_t n = getrandom(buf, len, 0);

	return n == (ssize_t)len ? 0 : STET_FAIL(-EIO, "no random numbers");
}

static int check_options(const struct stet_mkfs_options *o)
{
	if (o->size_bytes && o->size_bytes < VOLUME_BYTES_MIN)
		return STET_FAIL(-ENOSPC, "a volume has at least 16 MiB");
	if (o->size_bytes > INT64_MAX)
		return STET_FAIL(-EFBIG, "no volume is that large");
	if (o->segment_bytes &&
	    (o->segment_bytes < SEG_BYTES_MIN || o->segment_bytes > SEG_BYTES_MAX ||
	     (o->segment_bytes & (o->segment_bytes - 1))))
		return STET_FAIL(-EINVAL, "segments of %u bytes", o->segment_bytes);
	if (o->data_copies == 2)
		return STET_FAIL(-EOPNOTSUPP, "two copies of file data are not in this version");
	if (o->meta_copies > 2 || o->data_copies > 2)
		return STET_FAIL(-EINVAL, "more than 2 copies");
	if (o->label && strlen(o->label) > 64)
		return STET_FAIL(-EINVAL, "a label of %zu bytes", strlen(o->label));
	return o->root_mode & ~07777u ? STET_FAIL(-EINVAL, "root mode 0%o", o->root_mode) : 0;
}

/* Lays segments of that size over the device; true when the format can hold it. */
static bool lay_out(struct stet_superblock *sb, uint64_t segment_bytes)
{
	struct stet_superblock_disk disk;
	struct stet_superblock again;

	sb->seg_blocks = (uint32_t)(segment_bytes / STET_BLOCK_SIZE);
	sb->seg_start_block = sb->seg_blocks > STET_HEAD_BLOCKS ? sb->seg_blocks : STET_HEAD_BLOCKS;
	if (sb->device_blocks <= sb->seg_start_block + 1)
		return false;
	uint64_t slots = (sb->device_blocks - 1 - sb->seg_start_block) / sb->seg_blocks;
	if (slots == 0 || slots > UINT32_MAX)
		return false;
	sb->slot_count = (uint32_t)slots;
	stet_superblock_encode(sb, 0, &disk);
	return stet_superblock_decode(&disk, &again) == 0;
}

static int choose_segments(struct stet_superblock *sb, uint64_t wanted_bytes)
{
	uint64_t device_bytes = sb->device_blocks * STET_BLOCK_SIZE;
	uint64_t bytes = SEG_BYTES_MIN;

	if (wanted_bytes)
		return lay_out(sb, wanted_bytes)
			       ? 0
			       : STET_FAIL(-EINVAL, "segments of %llu bytes do not fit the device",
					   (unsigned long long)wanted_bytes);
	while (bytes < SEG_BYTES_USUAL && device_bytes / bytes > SEGMENTS_WANTED)
		bytes *= 2;
	for (; bytes <= SEG_BYTES_MAX; bytes *= 2)
		if (lay_out(sb, bytes))
			return 0;
	return STET_FAIL(-EINVAL, "the device is too large or too small");
}

static int make_superblock(const struct stet_device *device, const struct stet_mkfs_options *o,
			   int64_t now_ns, struct stet_superblock *ret)
{
	struct stet_superblock sb = {
		.device_blocks = device->size_bytes / STET_BLOCK_SIZE,
		.meta_copies = o->meta_copies ? (uint8_t)o->meta_copies : 2,
		.data_copies = o->data_copies ? (uint8_t)o->data_copies : 1,
		.created_ns = now_ns,
	};
	int rc = random_bytes(&sb.volume_id, sizeof(sb.volume_id));

	if (!rc)
		rc = random_bytes(sb.uuid, sizeof(sb.uuid));
	if (rc)
		return rc;
	sb.volume_id |= 1;                                  /* not 0 */
	sb.uuid[6] = (uint8_t)((sb.uuid[6] & 0x0f) | 0x40); /* RFC 4122: random */
	sb.uuid[8] = (uint8_t)((sb.uuid[8] & 0x3f) | 0x80);
	if (o->label)
		memcpy(sb.label, o->label, strlen(o->label));
	rc = choose_segments(&sb, o->segment_bytes);
	if (!rc)
		*ret = sb;
	return rc;
}

static int format(struct stet_device *device, const struct stet_superblock *sb,
		  const struct stet_mkfs_options *o, struct stet_clock *clock)
{
	struct stet_engine_config config = {
		.cache_bytes = CACHE_BYTES,
		.flush_interval_ns = (int64_t)FLUSH_INTERVAL_MS * NS_PER_MS,
		.seed = sb->volume_id,
		.clock = clock,
	};
	struct stet_fs_root root = {
		.mode = o->root_mode ? o->root_mode : 0755,
		.uid = o->root_uid,
		.gid = o->root_gid,
		.now_ns = sb->created_ns,
	};
	struct stet_engine_hooks hooks;
	struct stet_fs *fs;
	int rc = stet_fs_create(&fs);

	if (rc)
		return rc;
	stet_fs_hooks(fs, &hooks);
	rc = stet_engine_format(device, sb, &config, stet_fs_fill_root, &root, &hooks);
	stet_fs_destroy(fs);
	return rc;
}

int stet_api_format_device(struct stet_device *device, const struct stet_mkfs_options *options,
			   struct stet_clock *clock)
{
	static const struct stet_mkfs_options defaults;
	const struct stet_mkfs_options *o = options ? options : &defaults;
	struct stet_superblock sb;
	int rc = check_options(o);

	if (!clock)
		clock = stet_api_real_clock_();
	if (!rc && device->size_bytes < VOLUME_BYTES_MIN)
		rc = STET_FAIL(-ENOSPC, "a volume has at least 16 MiB");
	if (!rc)
		rc = make_superblock(device, o, stet_clock_wall_ns(clock), &sb);
	return rc ? rc : format(device, &sb, o, clock);
}

/* V3. Makes the device as large as asked for, if it is a file and not a volume that must stay. */
static int prepare(struct stet_device *device, const struct stet_mkfs_options *o)
{
	struct stet_superblock sb;
	int rc;

	if (!o->force && device->size_bytes >= VOLUME_BYTES_MIN) {
		rc = stet_engine_read_superblock(device, &sb);
		if (rc == 0 || rc == -EUCLEAN || rc == -EOPNOTSUPP)
			return STET_FAIL(-EEXIST, "%s holds a StetFS volume", device->name);
		if (rc != -EINVAL)
			return rc;
	}
	if (!o->size_bytes || o->size_bytes == device->size_bytes)
		return 0;
	rc = stet_device_resize(device, o->size_bytes);
	return rc == -EOPNOTSUPP ? STET_FAIL(-EINVAL, "%s has a size of its own", device->name)
				 : rc;
}

int stet_mkfs(const char *path, const struct stet_mkfs_options *options)
{
	static const struct stet_mkfs_options defaults;
	const struct stet_mkfs_options *o = options ? options : &defaults;
	struct stet_device *device;
	struct stat st;
	bool is_new = stat(path, &st) != 0 && errno == ENOENT;

	stet_error_clear();
	int rc = check_options(o);

	if (rc)
		return rc;
	if (!o->size_bytes && (is_new || (S_ISREG(st.st_mode) && st.st_size == 0)))
		return STET_FAIL(-EINVAL, "%s: a new image needs a size", path);
	rc = stet_device_open_file(path, o->size_bytes ? STET_DEVICE_CREATE : 0, o->size_bytes,
				   &device);
	if (rc)
		return rc;
	rc = prepare(device, o);
	if (!rc)
		rc = stet_api_format_device(device, o, NULL);
	stet_device_close(device);
	if (rc && is_new)
		unlink(path);
	return rc;
}

/* --- open --- */

static void init_volume(struct stet_volume *vol, struct stet_device *device,
			const struct stet_api_device_options *more)
{
	stet_mutex_init(&vol->lock, STET_API_LOCK_RANK, "volume");
	stet_cond_init(&vol->worker_cond);
	stet_cond_init(&vol->publish_cond);
	stet_cond_init(&vol->group_cond);
	stet_list_init(&vol->txs);
	stet_list_init(&vol->flush_waiters);
	stet_list_init(&vol->open_waits);
	stet_ticket_init(&vol->reclaim_ticket, NULL, NULL);
	stet_ticket_init(&vol->clean_ticket, NULL, NULL);
	vol->worker_wakes_ns = INT64_MIN;
	vol->device = device;
	vol->clock = more->clock ? more->clock : stet_api_real_clock_();
	vol->keep_device = more->keep_device;
	vol->uid = geteuid();
	vol->gid = getegid();
}

static void free_volume(struct stet_volume *vol)
{
	stet_api_clean_close_(vol);
	stet_engine_close(vol->engine);
	stet_fs_destroy(vol->fs);
	stet_locks_destroy(vol->open_locks);
	stet_cond_destroy(&vol->worker_cond);
	stet_cond_destroy(&vol->publish_cond);
	stet_cond_destroy(&vol->group_cond);
	stet_mutex_destroy(&vol->lock);
	stet_free(vol);
}

static int open_engine(struct stet_volume *vol, const struct stet_open_options *o)
{
	int64_t flush_ms = o->flush_interval_ms ? o->flush_interval_ms : FLUSH_INTERVAL_MS;
	struct stet_engine_config config = {
		.cache_bytes = o->cache_bytes ? o->cache_bytes : CACHE_BYTES,
		.flush_interval_ns = flush_ms * NS_PER_MS,
		.checkpoint_bytes = o->checkpoint_bytes,
		.read_only = o->read_only,
		.accept_prefix = o->recover_prefix,
		.clock = vol->clock,
	};
	struct stet_engine_hooks hooks;
	int rc = random_bytes(&config.seed, sizeof(config.seed));

	if (!rc)
		rc = stet_locks_create(stet_mix64(config.seed), &vol->open_locks);
	if (!rc)
		rc = stet_fs_create(&vol->fs);
	if (rc)
		return rc;
	stet_fs_hooks(vol->fs, &hooks);
	stet_api_lock_(vol);
	rc = stet_engine_open(vol->device, &config, &hooks, &vol->engine);
	if (!rc) {
		stet_engine_pair_locks(vol->engine, vol->open_locks);
		stet_fs_attach(vol->fs, vol->engine);
		rc = stet_api_clean_open_(vol);
	}
	stet_api_unlock_(vol);
	return rc;
}

int stet_api_open_device(struct stet_device *device, const struct stet_open_options *options,
			 const struct stet_api_device_options *more, struct stet_volume **ret)
{
	static const struct stet_open_options defaults;
	static const struct stet_api_device_options no_more;
	const struct stet_open_options *o = options ? options : &defaults;
	struct stet_volume *vol;
	int rc;

	if (o->recover_prefix && !o->read_only)
		return STET_FAIL(-EINVAL, "a prefix can only be shown read-only");
	vol = stet_calloc(1, sizeof(*vol));
	if (!vol)
		return STET_FAIL(-ENOMEM, "no memory for a volume");
	more = more ? more : &no_more;
	init_volume(vol, device, more);
	vol->read_only = o->read_only;
	rc = open_engine(vol, o);
	if (!rc && !o->read_only && !more->no_worker)
		rc = stet_api_worker_start_(vol);
	if (rc) {
		free_volume(vol);
		return rc;
	}
	*ret = vol;
	return 0;
}

/* Of this process. */
static int open_local(const char *path, const struct stet_open_options *options,
		      struct stet_volume **ret_vol)
{
	bool read_only = options && options->read_only;
	struct stet_device *device;
	int rc = stet_device_open_file(path, read_only ? STET_DEVICE_READ_ONLY : 0, 0, &device);

	if (rc)
		return rc;
	rc = stet_api_open_device(device, options, NULL, ret_vol);
	if (rc)
		stet_device_close(device);
	return rc;
}

/* More than that it is busy. */
static bool is_told(int rc)
{
	return rc == -EMFILE || rc == -ENOMEM || rc == -EACCES || rc == -EOPNOTSUPP;
}

/* V4. busy: why it could not be opened here; the result if nobody serves it. */
static int open_remote(const char *path, bool read_only, int busy, struct stet_volume **ret_vol)
{
	struct stet_ll_server *server = stet_calloc(1, sizeof(*server));
	int rc = server ? stet_ll_find_server(path, server) : -ENOMEM;
	int reach_fd = -1;

	if (!rc) {
		rc = stet_reach_open(server, &reach_fd);
		if (!rc)
			rc = stet_remote_open(server->socket, reach_fd, read_only,
					      stet_api_real_clock_(), ret_vol);
		if (reach_fd >= 0)
			close(reach_fd);
		if (!rc)
			stet_error_clear();
		else
			rc = STET_FAIL(is_told(rc) ? rc : busy,
				       "%s: process %d has it, which does not serve us: %s", path,
				       (int)server->pid, stet_error_text());
	} else {
		rc = busy;
	}
	stet_free(server);
	return rc;
}

int stet_open(const char *path, const struct stet_open_options *options,
	      struct stet_volume **ret_vol)
{
	bool read_only = options && options->read_only;
	int rc;

	stet_error_clear();
	rc = open_local(path, options, ret_vol);
	if ((rc == -EBUSY || rc == -EACCES) && !(options && options->no_remote))
		rc = open_remote(path, read_only, rc, ret_vol);
	return rc;
}

/* --- close --- */

int stet_close(struct stet_volume *vol)
{
	struct stet_device *device;
	int rc = 0;

	if (!vol)
		return 0;
	device = vol->keep_device ? NULL : vol->device;
	stet_api_lock_(vol);
	if (vol->handles > 0)
		rc = STET_FAIL(-EBUSY, "%llu handles are still open",
			       (unsigned long long)vol->handles);
	stet_api_unlock_(vol);
	if (rc) /* V2 */
		return rc;
	stet_api_async_stop_(vol);
	stet_api_worker_stop_(vol);
	if (!vol->read_only) {
		stet_api_lock_(vol);
		rc = stet_engine_settle(vol->engine);
		stet_api_unlock_(vol);
	}
	free_volume(vol);
	stet_device_close(device);
	return rc;
}

int stet_sync(struct stet_volume *vol)
{
	int rc = stet_api_check_handle_(vol);

	return rc ? rc : stet_api_sync_(vol);
}
