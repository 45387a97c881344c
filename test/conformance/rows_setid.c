/* rows_setid.c - set-id bits and capabilities of a program whose content somebody changes: an ordinary user
 * takes all of them away, root only the capabilities; what changes nothing takes nothing away. */
#include "conformance.h"

#include <string.h>

#define CAPABILITY "{#0100000200200000000000000000000000000000}"

static const struct change {
	const char *name;
	const char *script; /* on f, of 8192 bytes, open in slot 0; g is like it, in slot 1 */
	bool changes;
} changes[] = {
	{ "write", "write 0 X", true },
	{ "pwrite", "pwrite 0 100 X", true },
	{ "writev", "writev 0 a b c", true },
	{ "write-behind-the-end", "pwrite 0 100000 X", true },
	{ "rwf-append", "pwritev2 0 0 append X", true },
	{ "write-nothing", "write 0 ''", false },
	{ "truncate", "truncate f 100", true },
	{ "truncate-grow", "truncate f 100000", true },
	{ "ftruncate", "ftruncate 0 100", true },
	{ "open-trunc", "open 2 f wr|trunc", true },
	{ "fallocate", "fallocate 0 - 0 100000", true },
	{ "punch", "fallocate 0 punch|keep 0 4096", true },
	{ "zero", "fallocate 0 zero 0 4096", true },
	{ "copy", "copy 1 0 0 0 4096", true },
	{ "copy-nothing", "copy 1 100000 0 0 4096", false },
	{ "sendfile", "sendfile 0 1 0 4096", true },
	{ "splice", "splice 1 0 0 0 4096", true },
	{ "read", "read 0 0", false },
	{ "mmap-store", "mmap 0 0 rw shared 0 4096", false },
	{ "fsync", "fsync 0", false },
	{ "utimens", "utimens f 1 2", false },
};

static const struct {
	const char *before;
	const char *after; /* of a change by a user */
	const char *group; /* of the file; 1200: the user is not in it */
} modes[] = {
	{ "4755", "755", "1001" },  { "2755", "755", "1001" },  { "6755", "755", "1001" },
	{ "2745", "2745", "1001" }, { "6745", "2745", "1001" }, { "1755", "1755", "1001" },
	{ "755", "755", "1001" },   { "2745", "745", "1200" },  { "6755", "755", "1200" },
	{ "6745", "745", "1200" },
};

static const char *const who[] = { "a: ", "" };

static const char *setup_of(size_t mode)
{
	return text_of("put f {x*8192}; put g {y*8192}; chown f 1001 %s; chmod f %s; setxattr f "
		       "security.capability " CAPABILITY "; open 0 f rw; open 1 g rd",
		       modes[mode].group, modes[mode].before);
}

static bool next_row(size_t n, struct row *ret)
{
	size_t mode = n % COUNT(modes);
	size_t user = n / COUNT(modes) % COUNT(who);
	size_t c = n / COUNT(modes) / COUNT(who);
	bool cleared;

	if (c >= COUNT(changes))
		return false;
	cleared = changes[c].changes && user == 0;
	*ret = (struct row){
		.name = text_of("setid/%s/%s-%s-%s", changes[c].name, user == 0 ? "user" : "root",
				modes[mode].before, modes[mode].group),
		.setup = setup_of(mode),
		.call = text_of("%s%s", who[user], changes[c].script),
		.want = "ok",
		.after = text_of("is f mode=%s; getxattr f security.capability => %s",
				 cleared ? modes[mode].after : modes[mode].before,
				 changes[c].changes ? "ENODATA" : "'" CAPABILITY "'"),
	};
	if (strcmp(changes[c].name, "fallocate") == 0 || strcmp(changes[c].name, "punch") == 0 ||
	    strcmp(changes[c].name, "zero") == 0)
		ret->differences[0] = (struct difference){ TMPFS, NULL, TMPFS_LACKS };
	return true;
}

const struct table setid_table = { "setid", NULL, 0, next_row, false };
