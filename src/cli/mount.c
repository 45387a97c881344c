/* mount.c - `stetfs mount` and `stetfs umount`, also as mount.stetfs and mount.fuse.stetfs.
 *
 * The two names are called by mount(8) as NAME VOLUME DIR [-sfnv] [-N NAMESPACE] [-t TYPE] [-o
 * OPTIONS]; their exit codes are mount(8)'s. There -f means: do everything but mount.
 */
#include "cli/cli_internal.h"

#include "fuse/control.h"
#include "fuse/fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

enum {
	HELPER_USAGE = 1,
	HELPER_SYSTEM = 2,
	HELPER_INTERNAL = 4,
	HELPER_INTERRUPTED = 8,
	HELPER_FAILED = 32,
};

#define WHY_MAX 1024

/* Adds what was given to -o. Returns an exit code. */
static int add_options(const struct stet_cli_command *cmd, const struct stet_cli_text *list,
		       struct stet_fuse_options *options)
{
	char why[256];

	if ((!list->s || stet_fuse_option(options, list->s, why, sizeof(why)) == 0) &&
	    stet_fuse_options_check(options, why, sizeof(why)) == 0)
		return STET_CLI_OK;
	return stet_cli_misuse_(cmd, "mount option %s", why);
}

/* 0 or a negative errno value; a failure was told. */
static int mount_volume(const struct stet_fuse_options *options)
{
	char why[WHY_MAX] = "";
	int rc = stet_fuse_main(options, why, sizeof(why));

	if (rc && why[0])
		stet_cli_error_(options->volume, "%s", why);
	else if (rc)
		stet_cli_fail_open_(options->volume, rc);
	return rc;
}

static int run_mount(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct stet_fuse_options mount = { 0 };
	struct stet_cli_text list = { 0 };
	const struct stet_cli_option options[] = {
		{ 'o', "options", STET_CLI_LIST, &list, "OPTIONS", "as for mount(8), see below" },
		{ 'f', "foreground", STET_CLI_FLAG, &mount.foreground, NULL,
		  "stay, and write messages to standard error" },
		{ 'd', "debug", STET_CLI_FLAG, &mount.debug, NULL,
		  "in the foreground, print every request" },
		{ 'r', "read-only", STET_CLI_FLAG, &mount.read_only, NULL, "as -o ro" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	mount.volume = words->word[0];
	mount.dir = words->word[1];
	code = add_options(cmd, &list, &mount);
	stet_cli_text_release_(&list);
	mount.foreground |= mount.debug;
	if (code)
		return code;
	return mount_volume(&mount) ? STET_CLI_FAILED : STET_CLI_OK;
}

const struct stet_cli_command stet_cli_mount_ = {
	.name = "mount",
	.synopsis = "VOLUME DIR [-o OPTIONS] [-f]",
	.summary = "Mount a volume",
	.details = "OPTIONS: ro, recovery=prefix (is ro), cache=SIZE, flush=SECONDS, "
		   "checkpoint=SIZE,\nlock_timeout=SECONDS, max_age=SECONDS, max_staged=SIZE, "
		   "uid=NUMBER, "
		   "gid=NUMBER,\nallow_other, noallow_other, nodotstet, allow_suid, allow_dev, "
		   "and what mount(8) has for all\nfile systems (noatime, noexec, ...). See "
		   "mount.stetfs(8).",
	.min_words = 2,
	.max_words = 2,
	.run = run_mount,
};

/* -N: where the mount shall be. */
static int enter_namespace(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || setns(fd, CLONE_NEWNS) != 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return rc ? stet_cli_fail_(path, rc) : STET_CLI_OK;
}

static int helper_code(int rc)
{
	switch (rc) {
	case 0:
		return STET_CLI_OK;
	case -ENOMEM:
	case -EAGAIN: /* no process */
		return HELPER_SYSTEM;
	case -ECHILD: /* the daemon crashed */
		return HELPER_INTERNAL;
	case -EINTR:
		return HELPER_INTERRUPTED;
	default:
		return HELPER_FAILED;
	}
}

static int run_helper(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct stet_fuse_options mount = { 0 };
	struct stet_cli_text list = { 0 };
	const char *namespace = NULL;
	bool fake = false;
	const struct stet_cli_option options[] = {
		{ 'o', NULL, STET_CLI_LIST, &list, "OPTIONS", "as for mount(8)" },
		{ 'f', NULL, STET_CLI_FLAG, &fake, NULL, "do everything but mount" },
		{ 's', NULL, STET_CLI_FLAG, &mount.sloppy, NULL, "pass over unknown options" },
		{ 'n', NULL, STET_CLI_IGNORED, NULL, NULL, NULL },
		{ 'v', NULL, STET_CLI_IGNORED, NULL, NULL, NULL },
		{ 'N', NULL, STET_CLI_STRING, &namespace, "PATH", "mount in this namespace" },
		{ 't', NULL, STET_CLI_IGNORED_ARG, NULL, "TYPE", "ignored" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	mount.volume = words->word[0];
	mount.dir = words->word[1];
	code = add_options(cmd, &list, &mount);
	stet_cli_text_release_(&list);
	if (!code && mount.foreground) /* mount(8) would wait for ever */
		code = stet_cli_misuse_(cmd, "foreground and debug are for \"stetfs mount\"");
	if (code || fake)
		return code;
	if (mount.no_fail && access(mount.volume, F_OK) != 0 && errno == ENOENT)
		return STET_CLI_OK;
	if (namespace && enter_namespace(namespace))
		return HELPER_FAILED;
	return helper_code(mount_volume(&mount));
}

const struct stet_cli_command stet_cli_mount_helper_ = {
	.name = "mount",
	.synopsis = "VOLUME DIR [-fnsv] [-N PATH] [-t TYPE] [-o OPTIONS]",
	.summary = "Mount a volume for mount(8)",
	.min_words = 2,
	.max_words = 2,
	.usage_code = HELPER_USAGE,
	.run = run_helper,
};

static int run_umount(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	bool lazy = false;
	const struct stet_cli_option options[] = {
		{ 'l', "lazy", STET_CLI_FLAG, &lazy, NULL, "also when it is in use" },
		{ 0 },
	};
	char why[WHY_MAX] = "";
	const char *dir;
	int code;
	int rc;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	dir = words->word[0];
	rc = stet_control_umount(dir, lazy, why, sizeof(why));
	if (rc == 0)
		return STET_CLI_OK;
	if (why[0])
		stet_cli_error_(dir, "%s", why);
	else if (rc == -ENOENT)
		stet_cli_error_(dir, "no StetFS volume is mounted there");
	else
		stet_cli_fail_(dir, rc);
	return STET_CLI_FAILED;
}

const struct stet_cli_command stet_cli_umount_ = {
	.name = "umount",
	.synopsis = "DIR [-l]",
	.summary = "Unmount a volume, and wait until all of it is written",
	.min_words = 1,
	.max_words = 1,
	.run = run_umount,
};
