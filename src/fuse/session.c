/* session.c - the session with the kernel: mounting, serving, stopping.
 *
 * I1. The kernel checks permissions (default_permissions, always). A mount made by root is for
 *     all users (allow_other) unless it is private.
 * I2. No writeback cache: the kernel would own sizes, and readers would see cut-off data after a
 *     commit. Its page cache is kept from open to open (keep_cache), and dropped by publish.c. No
 *     asynchronous direct I/O either: after such a write the kernel does not drop cached pages that
 *     were read while it was under way, and would give out old data from then on.
 * I3. O_TRUNC is left to the kernel, which sends it as a change of size after the open, when the
 *     file is locked. What a writer takes away from a program (set-id bits, capabilities) is our
 *     business (HANDLE_KILLPRIV_V2; attr.c, I3): the kernel would ask for the capabilities before
 *     each write, and would go by a mode that a commit may have changed meanwhile. Without V2 it
 *     is the kernel's.
 * I4. libfuse 3.14 forgets to pass on PARALLEL_DIROPS, without which one directory has one lookup
 *     at a time, and does not know HANDLE_KILLPRIV_V2. So we read and write the device ourselves
 *     (custom I/O, without splice), put the bits into the very first answer, that to INIT, if the
 *     kernel had offered them in the very first request, and look at the flag of a request that
 *     comes with V2. The same with SETXATTR_EXT, which tells whether an ACL takes the setgid bit away; of
 *     its longer requests libfuse gets the form that it knows; so it does of STATX (statx.c). A request
 *     is answered by the thread that has read it.
 * I5. serve() is called by the process's first thread, which libfuse has wait in sem_wait:
 *     stopping from another thread sets libfuse's flag, then interrupts that wait with a signal;
 *     more than once, because it may come just before the wait.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_SIGNAL SIGUSR1
#define WORKERS_MAX 16
#define BACKGROUND_MAX 64 /* requests that the kernel may send ahead (readahead, writeback) */

extern char **environ;

/* --- INIT --- */

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
	struct stet_fuse_server *server = userdata;

	conn->want &= ~(unsigned)(FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV |
				  FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_DIO |
				  FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE);         /* I2, I3 */
	conn->want |= conn->capable & (FUSE_CAP_CACHE_SYMLINKS | /* a link keeps its target */
				       FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK);
	conn->max_write = STET_FUSE_WRITE_MAX;
	conn->max_background = BACKGROUND_MAX;
	conn->time_gran = 1;
	server->on_ready(server);
}

/* --- custom I/O (I4) --- */

#define OUR_INIT_FLAGS                                                        \
	((uint32_t)FUSE_PARALLEL_DIROPS | (uint32_t)FUSE_HANDLE_KILLPRIV_V2 | \
	 (uint32_t)FUSE_SETXATTR_EXT)

/* The request that this thread has read last takes privileges away. */
static _Thread_local bool kills_privileges;

bool stet_fuse_kills_privileges_(void)
{
	return kills_privileges;
}

/* Does the caller's request take privileges away? Of two kinds the kernel does not tell; root then
 * keeps them, as with the others. */
static bool asks_to_kill(const char *buf, size_t len)
{
	struct fuse_in_header in;
	struct fuse_write_in write;
	struct fuse_setattr_in setattr;
	struct fuse_setxattr_in setxattr;

	if (len < sizeof(in))
		return false;
	memcpy(&in, buf, sizeof(in));
	buf += sizeof(in);
	len -= sizeof(in);
	switch (in.opcode) {
	case FUSE_WRITE:
		if (len < sizeof(write))
			return false;
		memcpy(&write, buf, sizeof(write));
		return write.write_flags & FUSE_WRITE_KILL_SUIDGID;
	case FUSE_SETATTR:
		if (len < sizeof(setattr))
			return false;
		memcpy(&setattr, buf, sizeof(setattr));
		return setattr.valid & FATTR_KILL_SUIDGID;
	case FUSE_SETXATTR:
		if (len < sizeof(setxattr))
			return false;
		memcpy(&setxattr, buf, sizeof(setxattr));
		return setxattr.setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID;
	case FUSE_FALLOCATE:
	case FUSE_COPY_FILE_RANGE:
		return in.uid != 0;
	default:
		return false;
	}
}

/* Makes of a SETXATTR request one as libfuse knows it. */
static size_t shorten_setxattr(char *buf, size_t len)
{
	const size_t known = sizeof(struct fuse_in_header) + FUSE_COMPAT_SETXATTR_IN_SIZE;
	const size_t more = sizeof(struct fuse_setxattr_in) - FUSE_COMPAT_SETXATTR_IN_SIZE;
	struct fuse_in_header in;

	if (len < known + more)
		return len;
	memmove(buf + known, buf + known + more, len - known - more);
	memcpy(&in, buf, sizeof(in));
	in.len -= (uint32_t)more;
	memcpy(buf, &in, sizeof(in));
	return len - more;
}

static ssize_t read_device(int fd, void *buf, size_t len, void *userdata)
{
	struct stet_fuse_server *server = userdata;
	ssize_t n = read(fd, buf, len);
	const struct fuse_in_header *in = buf;

	if (!server->init_seen && n >= (ssize_t)(sizeof(*in) + sizeof(struct fuse_init_in)) &&
	    in->opcode == FUSE_INIT) {
		struct fuse_init_in init;

		memcpy(&init, in + 1, sizeof(init));
		server->init_flags = init.flags;
		server->init_seen = true;
	}
	kills_privileges = (server->init_flags & FUSE_HANDLE_KILLPRIV_V2) && n > 0 &&
			   asks_to_kill(buf, (size_t)n);
	if ((server->init_flags & FUSE_SETXATTR_EXT) && n >= (ssize_t)sizeof(*in) &&
	    in->opcode == FUSE_SETXATTR)
		n = (ssize_t)shorten_setxattr(buf, (size_t)n);
	return n > 0 ? (ssize_t)stet_fuse_statx_request_(buf, (size_t)n) : n;
}

/* Header and body are apart, as libfuse sends them. */
static ssize_t write_init_reply(int fd, const struct iovec *iov, uint32_t flags)
{
	struct fuse_init_out out;
	struct iovec patched[2] = { iov[0], { .iov_base = &out, .iov_len = sizeof(out) } };

	memcpy(&out, iov[1].iov_base, sizeof(out));
	out.flags |= flags;
	return writev(fd, patched, 2);
}

static ssize_t write_device(int fd, struct iovec *iov, int count, void *userdata)
{
	struct stet_fuse_server *server = userdata;
	ssize_t n;

	if (!server->init_answered) {
		server->init_answered = true; /* INIT is answered before anything else is sent */
		if (count == 2 && iov[1].iov_len == sizeof(struct fuse_init_out))
			return write_init_reply(fd, iov, server->init_flags & OUR_INIT_FLAGS);
		server->init_flags = 0; /* an error: none of it was agreed on */
	}
	if (stet_fuse_statx_reply_(fd, iov, count, &n))
		return n;
	return writev(fd, iov, count);
}

/* --- creating --- */

static void op_forget(fuse_req_t req, fuse_ino_t id, uint64_t count)
{
	stet_fuse_node_forget_(fuse_req_userdata(req), id, count);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forget)
{
	for (size_t i = 0; i < count; i++)
		stet_fuse_node_forget_(fuse_req_userdata(req), forget[i].ino, forget[i].nlookup);
	fuse_reply_none(req);
}

/* Without flush: nothing is left to do at close(2). */
static const struct fuse_lowlevel_ops operations = {
	.init = op_init,
	.lookup = stet_fuse_op_lookup_,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = stet_fuse_op_getattr_,
	.setattr = stet_fuse_op_setattr_,
	.readlink = stet_fuse_op_readlink_,
	.mknod = stet_fuse_op_mknod_,
	.mkdir = stet_fuse_op_mkdir_,
	.unlink = stet_fuse_op_unlink_,
	.rmdir = stet_fuse_op_rmdir_,
	.symlink = stet_fuse_op_symlink_,
	.rename = stet_fuse_op_rename_,
	.link = stet_fuse_op_link_,
	.open = stet_fuse_op_open_,
	.read = stet_fuse_op_read_,
	.write = stet_fuse_op_write_,
	.release = stet_fuse_op_release_,
	.fsync = stet_fuse_op_fsync_,
	.opendir = stet_fuse_op_opendir_,
	.readdir = stet_fuse_op_readdir_,
	.readdirplus = stet_fuse_op_readdirplus_,
	.releasedir = stet_fuse_op_releasedir_,
	.fsyncdir = stet_fuse_op_fsync_,
	.statfs = stet_fuse_op_statfs_,
	.setxattr = stet_fuse_op_setxattr_,
	.getxattr = stet_fuse_op_getxattr_,
	.listxattr = stet_fuse_op_listxattr_,
	.removexattr = stet_fuse_op_removexattr_,
	.create = stet_fuse_op_create_,
	.fallocate = stet_fuse_op_fallocate_,
	.lseek = stet_fuse_op_lseek_,
	.copy_file_range = stet_fuse_op_copy_file_range_,
};

/* Commas in a value are escaped; false: no memory. */
static bool add_option(char **opts, const char *option)
{
	return fuse_opt_add_opt_escaped(opts, option) == 0;
}

static bool add_options(const struct stet_fuse_server *server, char **opts)
{
	const struct stet_fuse_options *o = server->options;
	char fsname[PATH_MAX + 8];

	snprintf(fsname, sizeof(fsname), "fsname=%s", server->volume);
	return add_option(opts, "default_permissions") && add_option(opts, "subtype=stetfs") &&
	       add_option(opts, fsname) && (!server->shared || add_option(opts, "allow_other")) &&
	       (!server->read_only || add_option(opts, "ro")) &&
	       (!o->kernel[0] || fuse_opt_add_opt(opts, o->kernel) == 0);
}

static struct fuse_session *new_session(struct stet_fuse_server *server)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	struct fuse_session *session = NULL;
	char *opts = NULL;

	if (add_options(server, &opts) && fuse_opt_add_arg(&args, "stetfs") == 0 &&
	    fuse_opt_add_arg(&args, "-o") == 0 && fuse_opt_add_arg(&args, opts) == 0 &&
	    (!server->options->debug || fuse_opt_add_arg(&args, "-d") == 0))
		session = fuse_session_new(&args, &operations, sizeof(operations), server);
	fuse_opt_free_args(&args);
	free(opts);
	return session;
}

int stet_fuse_session_create_(struct stet_fuse_server *server, char *why, size_t cap)
{
	server->session = new_session(server);
	if (!server->session)
		return stet_fuse_why_(why, cap, -EINVAL, "mount options were not accepted");
	return 0;
}

/* --- mounting --- */

/* Without asking the file system, which does not answer yet. */
static int find_dev(const char *dir, uint64_t *ret)
{
	struct statx st;

	if (statx(AT_FDCWD, dir, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, 0, &st) != 0)
		return -errno;
	*ret = makedev(st.stx_dev_major, st.stx_dev_minor);
	return 0;
}

/* Standard error is a pipe meanwhile: what fusermount3 says there becomes a part of our one line. */
struct caught {
	int old, in;
};

static struct caught catch_stderr(void)
{
	struct caught c = { .old = -1, .in = -1 };
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
		return c;
	c.old = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	if (c.old >= 0 && dup2(fds[1], STDERR_FILENO) >= 0)
		c.in = fds[0];
	else
		close(fds[0]);
	close(fds[1]);
	return c;
}

/* Adds the first line to said, if that is empty. */
static void end_catching(struct caught c, char *said, size_t cap)
{
	static const char name[] = "fusermount3: ";
	char text[512];
	const char *at = text;
	ssize_t n;

	if (c.old >= 0) {
		dup2(c.old, STDERR_FILENO);
		close(c.old);
	}
	if (c.in < 0)
		return;
	n = read(c.in, text, sizeof(text) - 1);
	close(c.in);
	if (n <= 0 || said[0])
		return;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	if (strncmp(at, name, sizeof(name) - 1) == 0)
		at += sizeof(name) - 1;
	snprintf(said, cap, "%s", at);
}

int stet_fuse_session_mount_(struct stet_fuse_server *server, char *why, size_t cap)
{
	static const struct fuse_custom_io io = { .read = read_device, .writev = write_device };
	struct caught caught = catch_stderr();
	char said[512] = "";
	int rc;

	stet_fuse_log_catch_(said, sizeof(said));
	rc = fuse_session_mount(server->session, server->dir);
	stet_fuse_log_catch_(NULL, 0);
	end_catching(caught, said, sizeof(said));
	if (rc != 0)
		return stet_fuse_why_(why, cap, -EIO, "%s: could not be mounted%s%s", server->dir,
				      said[0] ? ": " : "", said);
	rc = fuse_session_custom_io(server->session, &io, fuse_session_fd(server->session));
	if (!rc)
		rc = find_dev(server->dir, &server->dev);
	if (rc) {
		fuse_session_unmount(server->session);
		return stet_fuse_why_(why, cap, rc, "%s: %s", server->dir, strerror(-rc));
	}
	return 0;
}

static int wait_for(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

/* What a user may not do is done by the helper. */
static int run_fusermount(const char *dir, bool lazy)
{
	const char *argv[] = { "fusermount3", "-q", lazy ? "-uz" : "-u", "--", dir, NULL };
	pid_t pid;
	int rc = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);

	return rc ? -rc : wait_for(pid);
}

int stet_fuse_unmount_(const char *dir, bool lazy)
{
	if (geteuid() != 0)
		return run_fusermount(dir, lazy);
	return umount2(dir, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0 ? 0 : -errno;
}

int stet_fuse_take_out_(struct stet_fuse_server *server, bool lazy)
{
	int rc = stet_fuse_unmount_(server->dir, lazy);

	if (!rc)
		server->taken_out = true;
	return rc;
}

/* --- serving --- */

static void interrupt_only(int signal)
{
	(void)signal;
}

int stet_fuse_session_serve_(struct stet_fuse_server *server)
{
	struct sigaction action = { .sa_handler = interrupt_only };
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	sigset_t stop;
	int rc;

	if (!config)
		return -ENOMEM;
	sigemptyset(&action.sa_mask);
	sigaction(STOP_SIGNAL, &action, NULL); /* I5 */
	sigemptyset(&stop);
	sigaddset(&stop, STOP_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
	fuse_loop_cfg_set_clone_fd(config, 1);
	fuse_loop_cfg_set_max_threads(config, WORKERS_MAX);
	rc = fuse_session_loop_mt(server->session, config);
	fuse_loop_cfg_destroy(config);
	return rc < 0 ? rc : 0;
}

void stet_fuse_session_stop_(struct stet_fuse_server *server)
{
	fuse_session_exit(server->session);
	pthread_kill(server->main_thread, STOP_SIGNAL);
}
