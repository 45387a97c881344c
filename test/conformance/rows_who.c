/* rows_who.c - who may change what is known of a file, and who may remove names from a sticky directory. */
#include "conformance.h"

/* a (1001) owns the file, whose group is 1100; d is 1001 too, in the group; c is in the group; b is another.
 * The file's mode is 664, so c may write it. */
#define SETUP "put f abc; setxattr f user.k v; chown f 1001 1100; chmod f 664"

enum who { OWNER, OWNER_IN_GROUP, MEMBER, ANOTHER, ROOT, WHOS };

static const struct {
	const char *name;
	const char *prefix;
} whos[WHOS] = {
	{ "owner", "a: " }, { "owner-in-group", "d: " }, { "member", "c: " }, { "another", "b: " },
	{ "root", "" },
};

static const struct {
	const char *name;
	const char *call;
	const char *want[WHOS];
	const char *after[WHOS]; /* NULL: nothing */
} calls[] = {
	{ "chmod", "chmod f 600", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
	{ "chmod-sgid",
	  "chmod f 2775",
	  { "0", "0", "EPERM", "EPERM", "0" },
	  { "is f mode=775", "is f mode=2775", "is f mode=664", "is f mode=664",
	    "is f mode=2775" } },
	{ "chmod-suid",
	  "chmod f 4775",
	  { "0", "0", "EPERM", "EPERM", "0" },
	  { "is f mode=4775", "is f mode=4775", "is f mode=664", "is f mode=664",
	    "is f mode=4775" } },
	{ "chown", "chown f 1002 -", { "EPERM", "EPERM", "EPERM", "EPERM", "0" }, { 0 } },
	{ "chown-to-owner", "chown f 1001 -", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
	{ "chgrp-to-own-group", "chown f - 1001", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
	{ "chgrp-to-its-group", "chown f - 1100", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
	{ "chgrp-to-foreign-group",
	  "chown f - 1200",
	  { "EPERM", "EPERM", "EPERM", "EPERM", "0" },
	  { 0 } },
	{ "chown-and-chgrp", "chown f 1001 1001", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
	{ "utimens", "utimens f 1 2", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
	{ "utimens-now", "utimens f now now", { "0", "0", "0", "EACCES", "0" }, { 0 } },
	{ "touch", "touch f", { "0", "0", "0", "EACCES", "0" }, { 0 } },
	{ "utimens-now-omit", "utimens f now omit", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
	{ "truncate", "truncate f 1", { "0", "0", "0", "EACCES", "0" }, { 0 } },
	{ "setxattr", "setxattr f user.k w", { "0", "0", "0", "EACCES", "0" }, { 0 } },
	{ "removexattr", "removexattr f user.k", { "0", "0", "0", "EACCES", "0" }, { 0 } },
	{ "setxattr-trusted",
	  "setxattr f trusted.k w",
	  { "EPERM", "EPERM", "EPERM", "EPERM", "0" },
	  { 0 } },
	{ "setxattr-security",
	  "setxattr f security.k w",
	  { "EPERM", "EPERM", "EPERM", "EPERM", "0" },
	  { 0 } },
	{ "setfacl",
	  "setfacl f u::rw-,u:1002:r--,g::r--,m::r--,o::r--",
	  { "0", "0", "EPERM", "EPERM", "0" },
	  { 0 } },
	{ "link", "link f g", { "0", "0", "0", "EPERM", "0" }, { 0 } },
	{ "open-noatime", "open 0 f rd|noatime", { "0", "0", "EPERM", "EPERM", "0" }, { 0 } },
};

static bool next_call(size_t n, struct row *ret)
{
	size_t who = n % WHOS;
	size_t call = n / WHOS;

	if (call >= COUNT(calls))
		return false;
	*ret = (struct row){
		.name = text_of("who/%s/%s", calls[call].name, whos[who].name),
		.setup = SETUP,
		.call = text_of("%s%s", whos[who].prefix, calls[call].call),
		.want = calls[call].want[who],
		.after = calls[call].after[who],
	};
	return true;
}

/* --- sticky directories: t's owner, the file's owner, the others; all may write in t --- */

static const struct {
	const char *name;
	const char *call;
} removals[] = {
	{ "unlink", "unlink t/f" },
	{ "rmdir", "rmdir t/d" },
	{ "rename", "rename t/f t/new" },
	{ "rename-dir", "rename t/d t/new" },
	{ "rename-out", "rename t/f new" },
	{ "rename-over", "rename mine t/f" },
	{ "exchange", "rename mine t/f exchange" },
	{ "unlink-link", "unlink t/s" },
};

static const struct {
	const char *name;
	const char *dir_owner;
	const char *file_owner;
	bool may; /* user a */
} owners[] = {
	{ "both-own", "1001", "1001", true },
	{ "own-file", "0", "1001", true },
	{ "own-dir", "1001", "1002", true },
	{ "neither", "0", "1002", false },
	{ "neither-same-owner", "1002", "1002", false },
};

static bool next_removal(size_t n, struct row *ret)
{
	size_t owner = n % COUNT(owners);
	size_t removal = n / COUNT(owners) % COUNT(removals);
	bool is_sticky = n / COUNT(owners) / COUNT(removals) == 0;
	const char *file = owners[owner].file_owner;

	if (n >= 2 * COUNT(owners) * COUNT(removals))
		return false;
	*ret = (struct row){
		.name = text_of("%s/%s/%s", is_sticky ? "sticky" : "not-sticky",
				removals[removal].name, owners[owner].name),
		.setup = text_of(
			"a: put mine; mkdir t; put t/f; mkdir t/d; symlink x t/s; chown t/f %s "
			"0; chown t/d %s 0; lchown t/s %s 0; chown t %s 0; chmod t %s",
			file, file, file, owners[owner].dir_owner, is_sticky ? "1777" : "777"),
		.call = text_of("a: %s", removals[removal].call),
		.want = owners[owner].may || !is_sticky ? "0" : "EPERM",
	};
	return true;
}

static bool next_row(size_t n, struct row *ret)
{
	size_t first = COUNT(calls) * WHOS;

	return n < first ? next_call(n, ret) : next_removal(n - first, ret);
}

const struct table who_table = { "who", NULL, 0, next_row, false };
