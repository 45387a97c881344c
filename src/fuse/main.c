/* main.c - the life of the daemon.
 *
 *	fork -> open the volume -> mount -> listen -> serve ...
 *	     -> stop listening -> let go of the kernel -> end what it had -> close the volume
 *	     -> remove socket and record -> exit
 *
 * I1. The volume is opened after the fork (threads do not survive one), and the parent returns
 *     only when the kernel has said hello to the mounted file system, or with what went wrong.
 * I2. Signals that end the daemon are blocked in all threads but one, which waits for them: it
 *     takes the mount out of the tree as umount(8) would; if it is in use, it has the kernel
 *     write back what is mapped, and cuts the connection. Transactions that are open then are
 *     aborted.
 * I3. What the library was given back before it is closed: transactions, locks, requests that
 *     wait. So stet_close never finds handles (it would refuse).
 * I4. Record and socket go last: whoever sees no record, may open the volume.
 * A crash of the daemon leaves the mount as a dead end (ENOTCONN), a record that does not count
 * (its lock is gone) and a volume that the next open rolls forward.
 */
#include "fuse/control_internal.h"
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define LOCK_TIMEOUT_MS 5000
#define WHY_MAX 1024
#define HELD_SHARE 2        /* of the cache's size, beside it: locks and savepoints of one user */
#define BUSY_PAUSE_US 20000 /* ten seconds together */
#define BUSY_TRIES 500u
#define FILES_WANTED 4096u

struct daemon_state {
	struct stet_fuse_server server;
	struct stet_fuse_options options; /* a copy, with absolute paths */
	int ready_fd;                     /* to the parent; -1: foreground, or told */
	char why[WHY_MAX];
	pthread_t signal_thread;
	bool has_signal_thread;
	_Atomic bool served; /* the session has ended */
};

/* What the child tells its parent (I1). */
struct report {
	int rc;
	char why[WHY_MAX];
};

static void tell_parent(struct daemon_state *d, int rc)
{
	struct report report = { .rc = rc };

	if (d->ready_fd < 0)
		return;
	memcpy(report.why, d->why, sizeof(report.why));
	(void)!write(d->ready_fd, &report, sizeof(report));
	close(d->ready_fd);
	d->ready_fd = -1;
}

static void detach_stdio(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static void on_ready(struct stet_fuse_server *server)
{
	struct daemon_state *d = stet_fuse_container_of(server, struct daemon_state, server);

	stet_fuse_notify_("READY=1", "mounted at", server->dir);
	if (d->ready_fd < 0)
		return;
	detach_stdio();
	tell_parent(d, 0);
}

/* --- signals (I2) --- */

static sigset_t ending_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	return set;
}

static void cut_off(struct daemon_state *d)
{
	struct stet_fuse_server *server = &d->server;

	stet_fuse_log_(LOG_WARNING, "%s is in use: its users are cut off", server->dir);
	/* A commit in progress may need the kernel's pages, and for that the workers. */
	stet_fuse_control_stop_(server);
	stet_fuse_flush_view_(server, &server->main_view);
	(void)!stet_fuse_take_out_(server, true);
	while (!d->served) {
		stet_fuse_session_stop_(server);
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
}

static void *wait_for_signal(void *arg)
{
	struct daemon_state *d = arg;
	sigset_t set = ending_signals();
	int signal = 0;

	while (sigwait(&set, &signal) != 0)
		;
	if (d->served)
		return NULL; /* the signal is our own, to end this thread */
	stet_fuse_log_(LOG_INFO, "signal %d: unmounting %s", signal, d->server.dir);
	if (stet_fuse_take_out_(&d->server, false) != 0)
		cut_off(d);
	return NULL;
}

static int start_signal_thread(struct daemon_state *d)
{
	int rc = pthread_create(&d->signal_thread, NULL, wait_for_signal, d);

	d->has_signal_thread = rc == 0;
	return -rc;
}

static void stop_signal_thread(struct daemon_state *d)
{
	d->served = true;
	if (!d->has_signal_thread)
		return;
	/* NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread,cert-pos44-c): it waits for it in sigwait */
	pthread_kill(d->signal_thread, SIGTERM);
	pthread_join(d->signal_thread, NULL);
}

/* --- start --- */

static int init_server(struct daemon_state *d)
{
	struct stet_fuse_server *server = &d->server;
	const struct stet_fuse_options *o = &d->options;
	pthread_rwlockattr_t attr;
	int rc;

	server->options = o;
	server->is_root = geteuid() == 0;
	server->shared = (server->is_root || o->allow_other) && !o->noallow_other;
	server->read_only = o->read_only;
	server->lock_timeout_ms = o->lock_timeout_ms ? o->lock_timeout_ms : LOCK_TIMEOUT_MS;
	server->on_ready = on_ready;
	server->main_thread = pthread_self();
	pthread_mutex_init(&server->lock, NULL);
	pthread_cond_init(&server->drained, NULL);
	pthread_mutex_init(&server->kept_lock, NULL);
	stet_fuse_list_init(&server->kept);
	pthread_mutex_init(&server->opening_lock, NULL);
	pthread_cond_init(&server->no_pending, NULL);
	stet_fuse_list_init(&server->openings);
	pthread_rwlockattr_init(&attr); /* a commit must get its turn while many answer */
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&server->reply_lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	rc = stet_fuse_nodes_init_(server);
	if (!rc)
		rc = stet_fuse_publishing_init_(server);
	return rc ? stet_fuse_why_(d->why, sizeof(d->why), rc, "no memory") : 0;
}

/* What the library says, without the volume's name: the caller puts that before it. */
static const char *said_of_volume(const struct daemon_state *d)
{
	const char *text = stet_error_text();
	size_t len = strlen(d->server.volume);

	return strncmp(text, d->server.volume, len) == 0 && strncmp(text + len, ": ", 2) == 0
		       ? text + len + 2
		       : text;
}

static int explain_open(struct daemon_state *d, int rc)
{
	struct stet_ll_server *holder = calloc(1, sizeof(*holder));
	const char *text = said_of_volume(d);

	if (rc == -EBUSY && holder && stet_ll_find_server(d->server.volume, holder) == 0 &&
	    holder->dir[0])
		stet_fuse_why_(d->why, sizeof(d->why), rc, "in use: mounted at %.400s (process %d)",
			       holder->dir, (int)holder->pid);
	else if (rc == -EBUSY && text[0])
		stet_fuse_why_(d->why, sizeof(d->why), rc, "%s", text);
	else if (rc == -EINVAL)
		stet_fuse_why_(d->why, sizeof(d->why), rc, "not a StetFS volume");
	else
		stet_fuse_why_(d->why, sizeof(d->why), rc, "%s%s%.400s%s",
			       rc == -EUCLEAN ? "damaged; \"stetfs check\" tells more"
					      : strerror(-rc),
			       text[0] ? " (" : "", text, text[0] ? ")" : "");
	free(holder);
	return rc;
}

/* A daemon that has been unmounted still writes its checkpoint: it does not listen any more, or will
 * soon not. */
static bool holder_is_ending(const struct daemon_state *d)
{
	struct stet_control *ctl;
	int rc = stet_control_open_volume(d->server.volume, &ctl);
	bool ending = rc == -ECONNREFUSED;

	if (!rc) {
		ending = stet_fuse_has_unmounted_(stet_control_info(ctl));
		stet_control_close(ctl);
	}
	return ending;
}

/* One of the signals that are blocked, and will end us, has come already. */
static bool is_told_to_end(void)
{
	sigset_t pending, set = ending_signals();

	if (sigpending(&pending) != 0 || sigandset(&set, &set, &pending) != 0)
		return false;
	return !sigisemptyset(&set);
}

/* After the last look at who has it, one more try: he may just have gone. */
static int open_patiently(struct daemon_state *d, const struct stet_open_options *options)
{
	bool last = false;

	for (unsigned tries = 0;; tries++) {
		int rc = stet_open(d->server.volume, options, &d->server.vol);

		if (rc != -EBUSY || last)
			return rc;
		if (is_told_to_end())
			return -EINTR;
		last = tries >= BUSY_TRIES || !holder_is_ending(d);
		if (!last)
			usleep(BUSY_PAUSE_US);
	}
}

static int open_volume(struct daemon_state *d)
{
	const struct stet_fuse_options *o = &d->options;
	struct stet_open_options open_options = {
		.read_only = o->read_only,
		.recover_prefix = o->recover_prefix,
		.no_remote = true,
		.cache_bytes = o->cache_bytes,
		.flush_interval_ms = o->flush_interval_ms,
		.checkpoint_bytes = o->checkpoint_bytes,
	};
	int rc = open_patiently(d, &open_options);

	return rc ? explain_open(d, rc) : 0;
}

static int take_cache_limit(void *arg, const char *name, uint64_t value)
{
	if (strcmp(name, "cache_limit_bytes") == 0)
		*(uint64_t *)arg = value;
	return 0;
}

static int set_limits(struct daemon_state *d)
{
	struct stet_ll_limits limits = {
		.max_staged_bytes = d->options.max_staged_bytes,
		.max_age_ms = d->options.max_age_ms,
	};
	uint64_t cache_bytes = 0;
	int rc = stet_stats(d->server.vol, take_cache_limit, &cache_bytes);

	limits.max_held_bytes = HELD_SHARE * cache_bytes;
	if (!rc)
		rc = stet_ll_set_limits(d->server.vol, &limits);
	return rc ? stet_fuse_why_(d->why, sizeof(d->why), rc, "%s", stet_error_text()) : 0;
}

static int start(struct daemon_state *d)
{
	struct stet_fuse_server *server = &d->server;
	int rc = init_server(d);

	if (!rc)
		rc = open_volume(d);
	if (!rc)
		rc = stet_fuse_session_create_(server, d->why, sizeof(d->why));
	if (!rc)
		rc = stet_fuse_session_mount_(server, d->why, sizeof(d->why));
	if (rc)
		return rc;
	server->mounted = true;
	rc = set_limits(d);
	if (!rc)
		rc = stet_fuse_control_start_(server, d->why, sizeof(d->why));
	if (!rc)
		rc = stet_ll_watch(server->vol, stet_fuse_watch_, server);
	if (!rc)
		rc = start_signal_thread(d);
	return rc;
}

/* --- end --- */

static void end_handles_of(struct stet_fuse_server *server, struct stet_fuse_node *node)
{
	while (!stet_fuse_list_empty(&node->open)) {
		struct stet_fuse_handle *handle =
			stet_fuse_container_of(node->open.next, struct stet_fuse_handle, link);

		stet_fuse_list_del(&handle->link);
		stet_ll_close_lock(server->vol, handle->lock);
		stet_fuse_listing_destroy_(handle->listing);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it left the list */
		free(handle);
	}
}

/* The kernel will not release what it had open. */
static void end_handles(struct stet_fuse_server *server)
{
	for (size_t i = 0; server->by_id.slot && i <= server->by_id.mask; i++)
		for (struct stet_fuse_link *l = server->by_id.slot[i]; l; l = l->next)
			end_handles_of(server,
				       stet_fuse_container_of(l, struct stet_fuse_node, by_id));
}

/* I3. Also of what was started in part. */
static int stop(struct daemon_state *d)
{
	struct stet_fuse_server *server = &d->server;
	int rc = 0;

	stop_signal_thread(d);
	if (server->mounted)
		stet_fuse_notify_("STOPPING=1", "writing a checkpoint to", server->volume);
	stet_fuse_control_stop_(server);
	if (server->mounted && !server->taken_out)
		fuse_session_unmount(server->session);
	if (server->vol) {
		stet_fuse_openings_cancel_(server, NULL);
		stet_fuse_pending_wait_(server);
		rc = stet_ll_watch(server->vol, NULL, NULL); /* it uses the session */
	}
	if (server->session)
		fuse_session_destroy(server->session);
	if (server->vol) {
		end_handles(server);
		stet_fuse_views_end_(server);
		rc = stet_close(server->vol);
		if (rc)
			stet_fuse_log_(LOG_ERR, "closing failed: %s: %s (%s)", server->volume,
				       strerror(-rc), stet_error_text());
	}
	stet_fuse_nodes_release_(server);
	stet_fuse_publishing_release_(server);
	stet_fuse_control_remove_(server); /* I4 */
	return rc;
}

/* A descriptor for each connection, and a few for each worker. */
static void raise_limits(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FILES_WANTED)
		return;
	limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
	(void)setrlimit(RLIMIT_NOFILE, &limit); /* without it, there are fewer connections */
}

static int run(struct daemon_state *d)
{
	sigset_t set = ending_signals(), before;
	int rc, closed;

	signal(SIGPIPE, SIG_IGN);
	raise_limits();
	pthread_sigmask(SIG_BLOCK, &set, &before); /* I2: inherited by every thread */
	stet_fuse_log_open_(d->options.foreground);
	stet_fuse_notify_open_(d->options.foreground);
	stet_fuse_notify_("", "opening", d->server.volume);
	rc = start(d);
	if (rc)
		tell_parent(d, rc);
	else
		rc = stet_fuse_session_serve_(&d->server);
	closed = stop(d);
	tell_parent(d, rc ? rc : -ECONNABORTED); /* the kernel never said hello */
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc ? rc : closed;
}

/* --- the parent --- */

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal)
{
	interrupted = signal;
}

/* Without SA_RESTART: reading what the child says ends with EINTR. */
static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = note_interrupt };

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* A parent that is told to end tells the child, which unmounts what it may have mounted. */
static int wait_for_child(int fd, pid_t pid, char *why, size_t cap)
{
	struct report report;
	bool told = false;
	ssize_t n;

	catch_interrupts();
	do {
		if (interrupted && !told)
			told = kill(pid, SIGTERM) == 0;
		n = read(fd, &report, sizeof(report));
	} while (n < 0 && errno == EINTR);
	close(fd);
	if (told) {
		waitpid(pid, NULL, 0);
		return stet_fuse_why_(why, cap, -EINTR, "interrupted");
	}
	if (n != (ssize_t)sizeof(report)) {
		waitpid(pid, NULL, 0);
		return stet_fuse_why_(why, cap, -ECHILD, "the daemon ended before it had mounted");
	}
	if (report.rc == 0)
		return 0;
	waitpid(pid, NULL, 0); /* it has let go of the volume */
	return stet_fuse_why_(why, cap, report.rc, "%s", report.why);
}

/* The daemon outlives its caller, so it must keep nothing of his open: a lock, the end of a pipe. */
static void close_others(int *keep)
{
	const int first = STDERR_FILENO + 1;
	int fd = *keep == first ? first : dup3(*keep, first, O_CLOEXEC);

	if (fd != first)
		return;
	*keep = first;
	close_range((unsigned)first + 1, ~0u, 0);
}

static int become_daemon(struct daemon_state *d, char *why, size_t cap)
{
	int fds[2];
	pid_t pid;
	int rc;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return stet_fuse_why_(why, cap, -errno, "pipe: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		rc = stet_fuse_why_(why, cap, -errno, "fork: %s", strerror(errno));
		close(fds[0]);
		close(fds[1]);
		return rc;
	}
	if (pid > 0) {
		close(fds[1]);
		return wait_for_child(fds[0], pid, why, cap);
	}
	close_others(&fds[1]);
	d->ready_fd = fds[1];
	setsid();
	(void)!chdir("/");
	_exit(run(d) ? 1 : 0);
}

static int prepare(struct daemon_state *d, const struct stet_fuse_options *options, char *why,
		   size_t cap)
{
	struct stat st;
	int rc = 0;

	if (!realpath(options->volume, d->server.volume))
		rc = stet_fuse_why_(why, cap, -errno, "%s", strerror(errno));
	else if (!realpath(options->dir, d->server.dir) || stat(d->server.dir, &st) != 0)
		rc = stet_fuse_why_(why, cap, -errno, "%s: %s", options->dir, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		rc = stet_fuse_why_(why, cap, -ENOTDIR, "%s: %s", options->dir, strerror(ENOTDIR));
	d->options = *options;
	d->ready_fd = -1;
	return rc;
}

int stet_fuse_main(const struct stet_fuse_options *options, char *why, size_t cap)
{
	struct daemon_state *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return stet_fuse_why_(why, cap, -ENOMEM, "no memory");
	rc = prepare(d, options, why, cap);
	if (!rc && options->foreground) {
		rc = run(d);
		if (rc)
			stet_fuse_why_(why, cap, rc, "%s", d->why[0] ? d->why : strerror(-rc));
	} else if (!rc) {
		rc = become_daemon(d, why, cap);
	}
	free(d);
	return rc;
}
