/* place.c - operands VOLUME|DIR: who has the volume, and talking to that daemon.
 *
 * I1. A directory means the mount that it is on. Anything else is a volume: if a daemon has it
 *     mounted, the work is the daemon's, for nobody else may open it.
 */
#include "cli/cli_internal.h"

#include "fuse/control.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

bool stet_cli_find_holder_(const char *path, struct stet_cli_text *ret)
{
	struct stet_ll_server mount;

	if (stet_ll_find_server(path, &mount) != 0)
		return false;
	if (mount.dir[0])
		stet_cli_text_addf_(ret, "mounted at %s (process %ld)", mount.dir, (long)mount.pid);
	else
		stet_cli_text_addf_(ret, "process %ld serves it", (long)mount.pid);
	return true;
}

int stet_cli_fail_control_(const struct stet_control *ctl, const char *what, int rc)
{
	const char *why = ctl ? stet_control_why(ctl) : "";

	if (rc == -EPIPE)
		stet_cli_error_(what, "the daemon of the mount has gone");
	else if (why[0])
		stet_cli_error_(what, "%s", why);
	else
		stet_cli_fail_(what, rc);
	return STET_CLI_FAILED;
}

int stet_cli_connect_(const char *dir, struct stet_control **ret)
{
	int rc = stet_control_open(dir, ret);
	struct stat st;

	if (rc == 0)
		return STET_CLI_OK;
	if (stat(dir, &st) != 0)
		return stet_cli_fail_(dir, -errno);
	if (rc == -ENOENT)
		stet_cli_error_(dir, "no StetFS volume is mounted there");
	else if (rc == -ECONNREFUSED)
		stet_cli_error_(dir, "the daemon of the mount does not answer");
	else
		stet_cli_fail_(dir, rc);
	return STET_CLI_FAILED;
}

int stet_cli_place_open_(const char *word, bool write, struct stet_cli_place *ret)
{
	struct stat st;
	int rc;

	*ret = (struct stet_cli_place){ .word = word };
	if (stat(word, &st) == 0 && S_ISDIR(st.st_mode))
		return stet_cli_connect_(word, &ret->ctl);
	rc = stet_control_open_volume(word, &ret->ctl); /* I1 */
	if (rc == 0)
		return STET_CLI_OK;
	ret->ctl = NULL;
	if (rc == -EACCES || rc == -EPERM) {
		stet_cli_error_(word, "mounted, by somebody who lets nobody else use it");
		return STET_CLI_FAILED;
	}
	return stet_cli_open_(word, write, &ret->v);
}

int stet_cli_place_close_(struct stet_cli_place *place, int code)
{
	if (!place->ctl)
		return stet_cli_close_(&place->v, code);
	stet_control_close(place->ctl);
	return code;
}
