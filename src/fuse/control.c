/* control.c - the client's side of the control socket.
 *
 * A call sends one request and reads answers until the one that ends it.
 * I1. If anything goes wrong in between (a packet that is none, the caller's function wants no
 *     more), the answers that are still to come would be taken for those of the next call: so the
 *     connection is marked broken and gives -EPIPE from then on; or, where the caller only wanted
 *     no more, the rest is read and dropped.
 * I2. What is given to the caller's functions points into the connection's buffer.
 * I3. Root reads what other users have written: where to connect to, and where to work. Such a
 *     record counts for a mount only if the kernel says that it is this user's. (For a volume the
 *     library sees to that.)
 */
#include "fuse/control_internal.h"
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

struct stet_control {
	int fd;
	bool broken;
	struct stet_ll_server mount;
	struct stet_fuse_wire_in in;
	char why[PATH_MAX + 64];
};

/* --- finding --- */

struct wanted {
	uint64_t dev;
	bool found;
	struct stet_ll_server *ret;
};

/* I3. The later one of two: the other's daemon is ending, its number has been given away. */
static void take(struct wanted *w, const struct stet_ll_server *mount)
{
	if (w->found && w->ret->since_ns > mount->since_ns)
		return;
	*w->ret = *mount;
	w->found = true;
}

static bool is_foreign(const struct stet_ll_server *mount)
{
	return mount->uid != 0 && mount->uid != geteuid();
}

/* Is this file system mounted, for whom mountinfo is? of: text that its options contain, or NULL.
 * 1: yes; 0: no; -1: that cannot be read. The options are in the last field, ended by commas or the
 * line. */
static int is_listed(const char *mountinfo, uint64_t dev, const char *of)
{
	char line[3 * PATH_MAX], id[32];
	FILE *f = fopen(mountinfo, "re");
	int found = f ? 0 : -1;

	snprintf(id, sizeof(id), " %u:%u ", major(dev), minor(dev));
	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *type = strstr(line, " - fuse.stetfs ");
		const char *at = strstr(line, id);

		found = type && at && at < type && (!of || strstr(type, of));
	}
	if (f)
		fclose(f);
	return found;
}

/* Does the kernel say that this user has mounted it? */
static bool is_mounted_by(uint64_t dev, uid_t uid)
{
	char user[32];

	snprintf(user, sizeof(user), ",user_id=%u,", (unsigned)uid);
	return is_listed("/proc/self/mountinfo", dev, user) == 1;
}

bool stet_fuse_has_unmounted_(const struct stet_ll_server *mount)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/mountinfo", (long)mount->pid);
	return is_listed(path, mount->dev, NULL) == 0;
}

static bool see_mount(void *arg, const struct stet_ll_server *mount)
{
	struct wanted *w = arg;

	if (mount->dir[0] && mount->dev == w->dev &&
	    (!is_foreign(mount) || is_mounted_by(mount->dev, mount->uid))) /* I3 */
		take(w, mount);
	return false;
}

/* The device number needs no answer of the file system, so this works while it is stuck. */
int stet_control_find_mount(const char *path, struct stet_ll_server *ret)
{
	struct wanted w = { .ret = ret };
	struct statx st;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, 0, &st) != 0)
		return -errno;
	w.dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	stet_ll_servers(see_mount, &w);
	return w.found ? 0 : -ENOENT;
}

/* The field of /proc/self/mountinfo that says which directory of the file system is mounted there, for
 * the mount that path is on. */
static bool find_mounted_root(const char *path, char *ret, size_t cap)
{
	char line[3 * PATH_MAX], root[PATH_MAX];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct statx st;
	bool found = false;

	if (!f)
		return false;
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) == 0 &&
	    (st.stx_mask & STATX_MNT_ID)) {
		while (!found && fgets(line, sizeof(line), f)) {
			found = strtoull(line, NULL, 10) == st.stx_mnt_id &&
				sscanf(line, "%*s %*s %*s %4095s", root) == 1;
		}
	}
	fclose(f);
	if (found)
		snprintf(ret, cap, "%s", root);
	return found;
}

uint64_t stet_control_inside(const char *path)
{
	const char before[] = "/" STET_FUSE_DOT_STET "/txn/";
	char root[PATH_MAX];
	char *end = root;
	uint64_t id;

	if (!find_mounted_root(path, root, sizeof(root)) ||
	    strncmp(root, before, sizeof(before) - 1) != 0)
		return 0;
	id = strtoull(root + sizeof(before) - 1, &end, 10);
	return strncmp(end, "/root", 5) == 0 ? id : 0;
}

/* --- connections --- */

static int connect_to(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	memcpy(addr.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd;
}

typedef int find_fn(const char *path, struct stet_ll_server *ret);

static int open_found(find_fn *find, const char *path, struct stet_control **ret)
{
	struct stet_control *ctl = calloc(1, sizeof(*ctl));
	int rc;

	if (!ctl)
		return -ENOMEM;
	ctl->fd = -1;
	rc = stet_fuse_wire_init_(&ctl->in);
	if (!rc)
		rc = find(path, &ctl->mount);
	if (!rc) {
		ctl->fd = connect_to(ctl->mount.socket);
		if (ctl->fd < 0)
			rc = ctl->fd;
	}
	if (rc) {
		stet_control_close(ctl);
		return rc;
	}
	*ret = ctl;
	return 0;
}

int stet_control_open(const char *path, struct stet_control **ret)
{
	return open_found(stet_control_find_mount, path, ret);
}

/* Who serves a volume otherwise than by a mount, does not speak our language. */
static int find_mounted(const char *path, struct stet_ll_server *ret)
{
	int rc = stet_ll_find_server(path, ret);

	return !rc && !ret->dir[0] ? -ENOENT : rc;
}

int stet_control_open_volume(const char *path, struct stet_control **ret)
{
	return open_found(find_mounted, path, ret);
}

void stet_control_close(struct stet_control *ctl)
{
	if (!ctl)
		return;
	if (ctl->fd >= 0)
		close(ctl->fd);
	stet_fuse_wire_release_(&ctl->in);
	free(ctl);
}

int stet_control_fd(const struct stet_control *ctl)
{
	return ctl->fd;
}

const char *stet_control_why(const struct stet_control *ctl)
{
	return ctl->why;
}

const struct stet_ll_server *stet_control_info(const struct stet_control *ctl)
{
	return &ctl->mount;
}

/* --- calls --- */

static int lost(struct stet_control *ctl, int rc)
{
	ctl->broken = true; /* I1 */
	snprintf(ctl->why, sizeof(ctl->why), "the daemon of %s %s", ctl->mount.dir,
		 rc == -EPROTO ? "is of another version" : "has gone");
	return rc;
}

typedef int item_fn(void *arg, const struct stet_fuse_wire_in *in);

/* 0: request is sent, or the daemon would not have it (it has too many connections): then what it
 * says is there to be read. */
static int send_request(struct stet_control *ctl, struct stet_fuse_wire request, const char *text,
			size_t len)
{
	struct pollfd p = { .fd = ctl->fd, .events = POLLIN };
	int rc = stet_fuse_wire_send_(ctl->fd, request, text, len, NULL);

	if (rc == -EPIPE && poll(&p, 1, 0) == 1 && (p.revents & POLLIN))
		return 0; /* the end of the connection is, too, if it says nothing */
	return rc;
}

/* Returns what the daemon said, or what fn returned to stop, or why it could not be asked. */
static int call_with(struct stet_control *ctl, struct stet_fuse_wire request, const char *text,
		     size_t len, item_fn *fn, void *arg)
{
	int stopped = 0;
	int rc;

	ctl->why[0] = 0;
	if (ctl->broken)
		return lost(ctl, -EPIPE);
	rc = send_request(ctl, request, text, len);
	while (!rc) {
		rc = stet_fuse_wire_receive_(ctl->fd, &ctl->in);
		if (rc || ctl->in.head.kind == STET_FUSE_WIRE_END)
			break;
		if (ctl->in.head.kind != STET_FUSE_WIRE_ITEM)
			rc = -EPROTO;
		else if (fn && !stopped)
			stopped = fn(arg, &ctl->in); /* after that, the rest is dropped */
	}
	if (rc)
		return lost(ctl, rc);
	if (ctl->in.head.result)
		snprintf(ctl->why, sizeof(ctl->why), "%s", ctl->in.a);
	return stopped ? stopped : ctl->in.head.result;
}

static int call(struct stet_control *ctl, struct stet_fuse_wire request, item_fn *fn, void *arg)
{
	return call_with(ctl, request, "", 0, fn, arg);
}

int stet_control_begin(struct stet_control *ctl, unsigned level, unsigned flags,
		       struct stet_control_begun *ret)
{
	struct stet_fuse_wire request = {
		.kind = STET_FUSE_WIRE_BEGIN,
		.flags = flags,
		.value = level,
	};
	int rc = call(ctl, request, NULL, NULL);

	if (rc)
		return rc;
	ret->id = ctl->in.head.id;
	snprintf(ret->root, sizeof(ret->root), "%s", ctl->in.a);
	return 0;
}

static int end(struct stet_control *ctl, struct stet_fuse_wire request,
	       struct stet_control_end *ret)
{
	int rc = call(ctl, request, NULL, NULL);

	if (ctl->broken || !ctl->in.head.value) /* it was not ended */
		return rc;
	if (ret) {
		ret->result = rc;
		ret->conflict = ctl->in.head.flags & STET_FUSE_WIRE_CONFLICT;
		snprintf(ret->text, sizeof(ret->text), "%s", ctl->in.a);
	}
	return 0;
}

int stet_control_commit(struct stet_control *ctl, uint64_t id, unsigned flags,
			struct stet_control_end *ret)
{
	struct stet_fuse_wire request = {
		.kind = STET_FUSE_WIRE_COMMIT,
		.flags = flags,
		.id = id,
	};

	return end(ctl, request, ret);
}

/* Sends paths, as many as a message holds at a time. */
static int send_paths(struct stet_control *ctl, const char *const *paths, size_t count)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_PATHS };
	char *text = malloc(STET_FUSE_WIRE_TEXT_MAX);
	size_t len = 0;
	int rc = text ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !rc; i++) {
		size_t more = strlen(paths[i]) + 1;

		if (more > PATH_MAX)
			rc = -ENAMETOOLONG;
		else if (len + more > STET_FUSE_WIRE_TEXT_MAX - 2) {
			rc = call_with(ctl, request, text, len, NULL, NULL);
			len = 0;
		}
		if (!rc) {
			memcpy(text + len, paths[i], more);
			len += more;
		}
	}
	if (!rc && len > 0)
		rc = call_with(ctl, request, text, len, NULL, NULL);
	free(text);
	return rc;
}

int stet_control_commit_only(struct stet_control *ctl, uint64_t id, const char *const *paths,
			     size_t count, unsigned flags, struct stet_control_end *ret)
{
	struct stet_fuse_wire request = {
		.kind = STET_FUSE_WIRE_COMMIT,
		.flags = flags | STET_FUSE_WIRE_ONLY,
		.id = id,
	};
	int rc = send_paths(ctl, paths, count);

	return rc ? rc : end(ctl, request, ret);
}

int stet_control_revert(struct stet_control *ctl, uint64_t id, const char *const *paths,
			size_t count)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_REVERT, .id = id };
	int rc = send_paths(ctl, paths, count);

	return rc ? rc : call(ctl, request, NULL, NULL);
}

int stet_control_abort(struct stet_control *ctl, uint64_t id, struct stet_control_end *ret)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_ABORT, .id = id };

	return end(ctl, request, ret);
}

struct calling {
	stet_changes_fn *change;
	stet_control_txns_fn *txn;
	stet_stats_fn *stat;
	void *arg;
};

static int give_change(void *arg, const struct stet_fuse_wire_in *in)
{
	const struct calling *c = arg;
	struct stet_fuse_wire_change fixed;
	struct stet_change change = { .old_path = in->head.b_len ? in->b : NULL };

	if (in->head.a_len <= sizeof(fixed))
		return -EPROTO;
	memcpy(&fixed, in->a, sizeof(fixed));
	change.path = in->a + sizeof(fixed);
	change.kind = (enum stet_change_kind)fixed.kind;
	change.what = fixed.what;
	change.type = (uint8_t)fixed.type;
	change.old_type = (uint8_t)fixed.old_type;
	change.ino = fixed.ino;
	change.before = fixed.before;
	change.after = fixed.after;
	change.replaced_ino = fixed.replaced_ino;
	change.replaced = fixed.replaced;
	return c->change(c->arg, &change);
}

int stet_control_changes(struct stet_control *ctl, uint64_t id, stet_changes_fn *fn, void *arg)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_CHANGES, .id = id };
	struct calling c = { .change = fn, .arg = arg };

	return call(ctl, request, give_change, &c);
}

static int ask(struct stet_control *ctl, enum stet_fuse_wire_kind kind, uint64_t id, unsigned flags)
{
	struct stet_fuse_wire request = { .kind = kind, .id = id, .flags = flags };

	return call(ctl, request, NULL, NULL);
}

int stet_control_freeze(struct stet_control *ctl, uint64_t id)
{
	return ask(ctl, STET_FUSE_WIRE_FREEZE, id, 0);
}

int stet_control_join(struct stet_control *ctl, uint64_t id)
{
	return ask(ctl, STET_FUSE_WIRE_JOIN, id, 0);
}

int stet_control_quit(struct stet_control *ctl, uint64_t id, bool failed)
{
	return ask(ctl, STET_FUSE_WIRE_QUIT, id, failed);
}

int stet_control_more(struct stet_control *ctl, uint64_t id, uint64_t ino, int64_t *ret_btime_ns,
		      uint64_t *ret_data_version)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_MORE, .id = id, .value = ino };
	int rc = call(ctl, request, NULL, NULL);

	if (!rc) {
		*ret_btime_ns = (int64_t)ctl->in.head.id;
		*ret_data_version = ctl->in.head.value;
	}
	return rc;
}

static int give_txn(void *arg, const struct stet_fuse_wire_in *in)
{
	const struct calling *c = arg;
	struct stet_control_txn txn;

	if (in->head.a_len != sizeof(txn))
		return -EPROTO;
	memcpy(&txn, in->a, sizeof(txn));
	return c->txn(c->arg, &txn);
}

int stet_control_txns(struct stet_control *ctl, stet_control_txns_fn *fn, void *arg)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_TXNS };
	struct calling c = { .txn = fn, .arg = arg };

	return call(ctl, request, give_txn, &c);
}

int stet_control_sync(struct stet_control *ctl)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_SYNC };

	return call(ctl, request, NULL, NULL);
}

int stet_control_statfs(struct stet_control *ctl, struct stet_statfs *ret)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_STATFS };
	int rc = call(ctl, request, NULL, NULL);

	if (!rc && ctl->in.head.a_len != sizeof(*ret))
		rc = lost(ctl, -EPROTO);
	if (!rc)
		memcpy(ret, ctl->in.a, sizeof(*ret));
	return rc;
}

static int give_stat(void *arg, const struct stet_fuse_wire_in *in)
{
	const struct calling *c = arg;

	return c->stat(c->arg, in->a, in->head.value);
}

int stet_control_stats(struct stet_control *ctl, stet_stats_fn *fn, void *arg)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_STATS };
	struct calling c = { .stat = fn, .arg = arg };

	return call(ctl, request, give_stat, &c);
}

int stet_control_clean(struct stet_control *ctl, uint32_t segments, uint32_t *ret_count)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_CLEAN, .value = segments };
	int rc = call(ctl, request, NULL, NULL);

	if (!rc)
		*ret_count = (uint32_t)ctl->in.head.value;
	return rc;
}

/* --- unmounting --- */

static void wait_for_exit(int pid_fd)
{
	struct pollfd p = { .fd = pid_fd, .events = POLLIN };

	while (pid_fd >= 0 && poll(&p, 1, -1) < 0 && errno == EINTR)
		;
}

/* Asks the daemon and waits until it has gone. */
static int shut_down(struct stet_control *ctl, bool lazy)
{
	struct stet_fuse_wire request = { .kind = STET_FUSE_WIRE_SHUTDOWN, .flags = lazy };
	int pid_fd = pidfd_open(ctl->mount.pid, 0); /* while it surely lives */
	int rc = call(ctl, request, NULL, NULL);

	if (rc == -EPROTO) /* of another version: it ends when it is unmounted, as all have done */
		rc = stet_fuse_unmount_(ctl->mount.dir, lazy);
	if (!rc && !lazy)
		wait_for_exit(pid_fd);
	if (pid_fd >= 0)
		close(pid_fd);
	return rc;
}

/* Is something of our type mounted at dir? It need not answer. */
static bool is_ours(const char *dir)
{
	char line[3 * PATH_MAX], at[PATH_MAX], path[PATH_MAX];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	bool found = false;

	if (!realpath(dir, path))
		snprintf(path, sizeof(path), "%s", dir);
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, " - fuse.stetfs ") &&
			sscanf(line, "%*s %*s %*s %*s %4095s", at) == 1 && strcmp(at, path) == 0;
	if (f)
		fclose(f);
	return found;
}

int stet_control_umount(const char *dir, bool lazy, char *why, size_t cap)
{
	struct stet_ll_server mount;
	struct stet_control *ctl = NULL;
	int rc = stet_control_open(dir, &ctl);

	if (!rc) {
		char path[PATH_MAX];

		mount = *stet_control_info(ctl);
		if (!realpath(dir, path) || strcmp(path, mount.dir) != 0)
			rc = stet_fuse_why_(why, cap, -EINVAL,
					    "not where it is mounted, which is %s", mount.dir);
		else
			rc = shut_down(ctl, lazy);
		if (rc && ctl->why[0])
			stet_fuse_why_(why, cap, rc, "%s", ctl->why);
		stet_control_close(ctl);
		return rc;
	}
	if (!is_ours(dir))
		return stet_fuse_why_(why, cap, rc == -ENOENT || rc == -ENOTCONN ? -ENOENT : rc,
				      "no StetFS is mounted there");
	rc = stet_fuse_unmount_(dir, lazy); /* its daemon has died, or does not listen */
	if (rc)
		stet_fuse_why_(why, cap, rc, "%s", strerror(-rc));
	return rc;
}
