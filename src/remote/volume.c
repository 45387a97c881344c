/* volume.c - opening and closing a volume that another process holds, and what concerns it as a whole. */
#include "remote/remote_internal.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLEAN_STEP 16u /* segments of one request: so it does not take for ever */

/* --- life --- */

static void free_volume(struct stet_remote_volume *vol)
{
	struct stet_list *first;

	while ((first = stet_list_first(&vol->idle))) {
		stet_list_del(first);
		stet_remote_disconnect_(stet_container_of(first, struct stet_remote_conn, link));
	}
	stet_remote_disconnect_(vol->reserve);
	for (size_t i = 0; i < vol->names.n; i++)
		stet_free(vol->names.v[i]);
	stet_vec_release(&vol->names);
	stet_cond_destroy(&vol->freed);
	stet_mutex_destroy(&vol->lock);
	stet_free(vol);
}

int stet_remote_open(const char *socket, int reach_fd, bool read_only, struct stet_clock *clock,
		     struct stet_volume **ret)
{
	struct stet_remote_volume *vol = stet_calloc(1, sizeof(*vol));
	struct stet_remote_conn *conn;
	int rc = 0;

	if (!vol)
		return STET_FAIL(-ENOMEM, "no memory for a volume");
	vol->head.is_remote = true;
	vol->pid = getpid();
	vol->clock = clock;
	vol->read_only = read_only;
	vol->reach_fd = reach_fd;
	vol->address.sun_family = AF_UNIX;
	stet_list_init(&vol->idle);
	stet_list_init(&vol->busy);
	stet_mutex_init(&vol->lock, STET_REMOTE_POOL_RANK, "connections");
	stet_cond_init(&vol->freed);
	if (strlen(socket) >= sizeof(vol->address.sun_path))
		rc = STET_FAIL(-ENAMETOOLONG, "%s: too long for a socket", socket);
	else
		memcpy(vol->address.sun_path, socket, strlen(socket) + 1);
	if (!rc)
		rc = stet_remote_connect_(vol, &conn);
	vol->reach_fd = -1;
	if (rc) {
		free_volume(vol);
		return rc;
	}
	stet_list_add_head(&vol->idle, &conn->link);
	vol->idle_count = 1;
	*ret = (struct stet_volume *)(void *)vol;
	return 0;
}

void stet_remote_handle_opened_(struct stet_remote_volume *vol)
{
	stet_mutex_lock(&vol->lock);
	vol->handles++;
	stet_mutex_unlock(&vol->lock);
}

void stet_remote_handle_closed_(struct stet_remote_volume *vol)
{
	stet_mutex_lock(&vol->lock);
	vol->handles--;
	stet_mutex_unlock(&vol->lock);
}

int stet_remote_close(struct stet_volume *volume)
{
	struct stet_remote_volume *vol = stet_remote_volume_(volume);
	uint64_t handles;
	int rc = 0;

	stet_mutex_lock(&vol->lock);
	handles = vol->handles;
	stet_mutex_unlock(&vol->lock);
	if (handles > 0)
		return STET_FAIL(-EBUSY, "%llu handles are still open",
				 (unsigned long long)handles);
	if (!vol->read_only)
		rc = stet_remote_sync(volume);
	free_volume(vol); /* with the last connection the session ends */
	return rc;
}

/* --- looking --- */

int stet_remote_sync(struct stet_volume *vol)
{
	struct stet_remote_call c;

	stet_remote_begin_(&c, stet_remote_volume_(vol), STET_WIRE_SYNC);
	return (int)stet_remote_finish_(&c);
}

int stet_remote_statfs(struct stet_volume *vol, struct stet_statfs *ret)
{
	struct stet_remote_call c;
	struct stet_statfs st = { 0 };
	int64_t rc;

	stet_remote_begin_(&c, stet_remote_volume_(vol), STET_WIRE_STATFS);
	rc = stet_remote_do_(&c);
	if (!rc)
		stet_wire_get_statfs(&c.in, &st);
	rc = stet_remote_end_(&c, rc);
	if (!rc) {
		*ret = st;
		ret->remote = true;
	}
	return (int)rc;
}

/* A copy that lasts as long as the volume. */
static int keep_name(struct stet_remote_volume *vol, const char *name, const char **ret)
{
	int rc = 0;
	char *copy;

	stet_mutex_lock(&vol->lock);
	*ret = NULL;
	for (size_t i = 0; i < vol->names.n && !*ret; i++)
		if (strcmp(vol->names.v[i], name) == 0)
			*ret = vol->names.v[i];
	if (!*ret) {
		copy = stet_strdup(name);
		rc = copy ? stet_vec_push(&vol->names, copy) : -ENOMEM;
		if (rc)
			stet_free(copy);
		*ret = copy;
	}
	stet_mutex_unlock(&vol->lock);
	return rc ? STET_FAIL(rc, "no memory for a name") : 0;
}

struct counter {
	const char *name; /* of the volume */
	uint64_t value;
};

int stet_remote_stats(struct stet_volume *volume, stet_stats_fn *fn, void *arg)
{
	struct stet_remote_volume *vol = stet_remote_volume_(volume);
	STET_VEC(struct counter) counters;
	struct stet_remote_call c;
	int64_t rc;

	stet_vec_init(&counters);
	stet_remote_begin_(&c, vol, STET_WIRE_STATS);
	rc = stet_remote_do_(&c);
	while (!rc && c.in.left > 0 && !c.in.bad) {
		const char *name = stet_wire_get_text(&c.in, STET_WIRE_ARGS_MAX);
		struct counter counter = { .value = stet_wire_get_u64(&c.in) };

		rc = keep_name(vol, name, &counter.name);
		if (!rc)
			rc = stet_vec_push(&counters, counter);
	}
	rc = stet_remote_end_(&c, rc);
	for (size_t i = 0; i < counters.n && !rc; i++)
		rc = fn(arg, counters.v[i].name, counters.v[i].value);
	stet_vec_release(&counters);
	return (int)rc;
}

int stet_remote_clean(struct stet_volume *vol, uint32_t segments)
{
	int64_t done = 0;
	int64_t rc;

	do {
		uint32_t step = segments < CLEAN_STEP ? segments : CLEAN_STEP;
		struct stet_remote_call c;

		stet_remote_begin_(&c, stet_remote_volume_(vol), STET_WIRE_CLEAN);
		stet_wire_put_u32(&c.out, step);
		rc = stet_remote_finish_(&c);
		if (rc < 0)
			break;
		done += rc;
		segments -= step;
		if (rc < step)
			break;
	} while (segments > 0);
	return (int)(rc < 0 && done == 0 ? rc : done);
}
