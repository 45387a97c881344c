/* attr.c - attributes as people and programs read them. Writes nothing to a volume. */
#include "cli/cli_internal.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LINK_MAX_BYTES 4096

const char *stet_cli_type_name_(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "socket";
	case S_IFCHR:
		return "char device";
	case S_IFBLK:
		return "block device";
	case STET_S_IFTABLE:
		return "table";
	default:
		return "unknown";
	}
}

const char *stet_cli_entry_type_name_(uint8_t type)
{
	return stet_cli_type_name_((uint32_t)DTTOIF(type));
}

static char type_letter(uint32_t mode)
{
	static const char letters[] = "?pc?d?b?-?l?s?t?";

	return letters[(mode & S_IFMT) >> 12];
}

static char execute_letter(uint32_t mode, uint32_t bit, uint32_t special, const char letters[2])
{
	if (mode & special)
		return mode & bit ? letters[0] : letters[1];
	return mode & bit ? 'x' : '-';
}

void stet_cli_format_mode_(uint32_t mode, char buf[STET_CLI_MODE_MAX])
{
	static const char rwx[] = "rwxrwxrwx";

	buf[0] = type_letter(mode);
	for (unsigned i = 0; i < 9; i++)
		buf[1 + i] = mode & (0400u >> i) ? rwx[i] : '-';
	buf[3] = execute_letter(mode, S_IXUSR, S_ISUID, "sS");
	buf[6] = execute_letter(mode, S_IXGRP, S_ISGID, "sS");
	buf[9] = execute_letter(mode, S_IXOTH, S_ISVTX, "tT");
	buf[10] = '\0';
}

void stet_cli_format_user_(uint32_t uid, char buf[STET_CLI_OWNER_MAX])
{
	const struct passwd *pw = getpwuid(uid);

	if (pw)
		snprintf(buf, STET_CLI_OWNER_MAX, "%s", pw->pw_name);
	else
		snprintf(buf, STET_CLI_OWNER_MAX, "%u", uid);
}

void stet_cli_format_group_(uint32_t gid, char buf[STET_CLI_OWNER_MAX])
{
	const struct group *gr = getgrgid(gid);

	if (gr)
		snprintf(buf, STET_CLI_OWNER_MAX, "%s", gr->gr_name);
	else
		snprintf(buf, STET_CLI_OWNER_MAX, "%u", gid);
}

void stet_cli_json_stat_(struct stet_cli_json *json, const struct stet_stat *st)
{
	char mode[8];

	if (!json->on)
		return;
	snprintf(mode, sizeof(mode), "%04o", st->mode & 07777u);
	stet_cli_json_string_(json, "mode", mode);
	stet_cli_json_number_(json, "nlink", st->nlink);
	stet_cli_json_number_(json, "uid", st->uid);
	stet_cli_json_number_(json, "gid", st->gid);
	stet_cli_json_number_(json, "size", st->size);
	stet_cli_json_number_(json, "blocks", st->blocks);
	if (S_ISCHR(st->mode) || S_ISBLK(st->mode)) {
		stet_cli_json_number_(json, "major", st->rdev >> 32);
		stet_cli_json_number_(json, "minor", st->rdev & UINT32_MAX);
	}
	stet_cli_json_time_(json, "atime", st->atime_ns);
	stet_cli_json_time_(json, "mtime", st->mtime_ns);
	stet_cli_json_time_(json, "ctime", st->ctime_ns);
	stet_cli_json_time_(json, "btime", st->btime_ns);
}

int stet_cli_readlink_(struct stet_cli_volume *v, uint64_t ino, struct stet_cli_text *ret)
{
	char buf[LINK_MAX_BYTES + 1];
	ssize_t len = stet_cli_readlinkat_(v, ino, "", buf, sizeof(buf));

	if (len < 0)
		return (int)len;
	stet_cli_text_add_(ret, buf, (size_t)len);
	return 0;
}
