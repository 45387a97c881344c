/* enter.c - a transaction's tree in place of its mount, for one process and all that it starts.
 *
 * E1. The process gets a mount namespace of its own. What others mount or unmount shows in it, what
 *     it does shows nowhere else.
 * E2. Where that is not allowed, it gets a user namespace too, in which it is who it was: its own
 *     user and group are mapped to themselves, and the capabilities that come with a new namespace
 *     go with the exec. Other users and groups appear as "nobody"; set-id programs give nothing.
 *     Supplementary groups count as before: setgroups(2) must be given up to map a group, so no
 *     right is lost or won.
 * E3. Tree and mount point are opened first and then compared with what the daemon said its device
 *     is; they are used by descriptor. So whoever can move directories on the way leads nobody
 *     elsewhere.
 */
#include "cli/run_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(struct stet_cli_enter_failure *failure, enum stet_cli_enter_step step, int cause)
{
	failure->step = step;
	failure->cause = cause;
	return false;
}

/// Namespaces ///

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;
	int cause;

	if (fd < 0)
		return false;
	n = write(fd, text, strlen(text));
	cause = errno;
	close(fd);
	errno = cause;
	return n == (ssize_t)strlen(text);
}

/* E2. Maps one id to itself. */
static bool map_id(const char *path, unsigned id)
{
	char line[64];

	snprintf(line, sizeof(line), "%u %u 1\n", id, id);
	return write_file(path, line);
}

static bool enter_user_namespace(struct stet_cli_enter_failure *failure)
{
	unsigned uid = geteuid();
	unsigned gid = getegid();

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || !map_id("/proc/self/uid_map", uid) ||
	    !write_file("/proc/self/setgroups", "deny") || !map_id("/proc/self/gid_map", gid))
		return fail(failure, STET_CLI_IN_USER_NAMESPACE, errno);
	return true;
}

static bool enter_namespace(struct stet_cli_enter_failure *failure)
{
	if (unshare(CLONE_NEWNS) != 0) {
		if (errno != EPERM)
			return fail(failure, STET_CLI_IN_NAMESPACE, errno);
		if (!enter_user_namespace(failure))
			return false;
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0) /* E1 */
		return fail(failure, STET_CLI_IN_NAMESPACE, errno);
	return true;
}

/// The view ///

static bool is_ours(int fd, uint64_t dev)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return false;
	if (st.st_dev == dev && S_ISDIR(st.st_mode))
		return true;
	errno = ENXIO; /* something else is mounted there */
	return false;
}

/* E3 */
static bool put_over(const struct stet_cli_view *view, int tree, int target)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (!is_ours(tree, view->dev) || !is_ours(target, view->dev))
		return false;
	if (view->read_only && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) != 0)
		return false;
	return move_mount(tree, "", target, "",
			  MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0;
}

static bool cover(const struct stet_cli_view *view, struct stet_cli_enter_failure *failure)
{
	const char *root = view->root ? view->root : view->mount;
	int tree = open_tree(AT_FDCWD, root, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	int target = -1;
	bool done;

	if (tree < 0)
		return fail(failure, STET_CLI_IN_VIEW, errno);
	target = open(view->mount, O_PATH | O_DIRECTORY | O_CLOEXEC);
	done = (target >= 0 && put_over(view, tree, target)) ||
	       fail(failure, STET_CLI_IN_VIEW, errno);
	if (target >= 0)
		close(target);
	close(tree);
	return done;
}

/* Into cwd, if that is in the view: something else may have been mounted there. */
static bool go_to(const struct stet_cli_view *view, struct stet_cli_enter_failure *failure)
{
	const char *path = view->cwd;
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool done;

	if (fd >= 0 && !is_ours(fd, view->dev)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0) {
		path = view->mount;
		fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	done = (fd >= 0 && is_ours(fd, view->dev) && fchdir(fd) == 0) ||
	       fail(failure, STET_CLI_IN_CHDIR, errno);
	if (fd >= 0)
		close(fd);
	if (done)
		setenv("PWD", path, 1);
	return done;
}

static void tell_transaction(uint64_t id)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)id);
	setenv("STETFS_TRANSACTION", number, 1);
}

bool stet_cli_enter_view_(const struct stet_cli_view *view, struct stet_cli_enter_failure *failure)
{
	if ((view->root || view->read_only) && (!enter_namespace(failure) || !cover(view, failure)))
		return false;
	tell_transaction(view->id);
	return go_to(view, failure);
}

/// Messages ///

static void tell_no_user_namespace(int cause)
{
	stet_cli_error_("run",
			"the system lets ordinary users have no namespace of their own (%s): only "
			"root can run commands here",
			strerror(cause));
}

int stet_cli_tell_enter_failure_(const struct stet_cli_view *view, const char *command,
				 const struct stet_cli_enter_failure *failure)
{
	const char *cause = strerror(failure->cause);

	switch (failure->step) {
	case STET_CLI_IN_NAMESPACE:
		stet_cli_error_("run", "no mount namespace: %s", cause);
		return STET_CLI_RUN_NOT_BEGUN;
	case STET_CLI_IN_USER_NAMESPACE:
		tell_no_user_namespace(failure->cause);
		return STET_CLI_RUN_NOT_BEGUN;
	case STET_CLI_IN_VIEW:
		if (failure->cause == ENXIO || failure->cause == ENOENT)
			stet_cli_error_(view->mount, "the mount cannot be reached from here");
		else
			stet_cli_error_(view->mount,
					"the transaction's view cannot be put there: %s", cause);
		return STET_CLI_RUN_NOT_BEGUN;
	case STET_CLI_IN_CHDIR:
		stet_cli_error_(view->cwd, "%s", cause);
		return STET_CLI_RUN_NOT_BEGUN;
	case STET_CLI_IN_EXEC:
		break;
	}
	stet_cli_error_(command, "%s", cause);
	return failure->cause == ENOENT ? STET_CLI_RUN_NOT_FOUND : STET_CLI_RUN_NOT_EXECUTABLE;
}
