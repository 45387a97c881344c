/* rows_path.c - each call that takes a path, with each kind of path that may be wrong. */
#include "conformance.h"
#include "nodes.h"

#include <string.h>

/* What a call does with its last component. */
enum kind {
	FOLLOWS, /* links too */
	LOOKS,   /* at a link itself */
	MAKES,
	REMOVES,
	KINDS,
};

/* The path leads to a directory with something in it: path_call.dir. */
#define DIR "DIR"

static const struct path {
	const char *name;
	const char *setup; /* there is also a file f */
	const char *path;
	const char *want[KINDS];
	const char *who; /* "" : root */
} paths[] = {
	/*                                      FOLLOWS         LOOKS           MAKES           REMOVES */
	{ "absent", "", "nope", { "ENOENT", "ENOENT", "ok", "ENOENT" }, "" },
	{ "absent-slash", "", "nope/", { "ENOENT", "ENOENT", "ENOENT", "ENOENT" }, "" },
	{ "absent-dir", "", "nope/x", { "ENOENT", "ENOENT", "ENOENT", "ENOENT" }, "" },
	{ "absent-dir-dots", "", "nope/../f", { "ENOENT", "ENOENT", "ENOENT", "ENOENT" }, "" },
	{ "file-slash", "", "f/", { "ENOTDIR", "ENOTDIR", "EEXIST", "ENOTDIR" }, "" },
	{ "file-dot", "", "f/.", { "ENOTDIR", "ENOTDIR", "ENOTDIR", "ENOTDIR" }, "" },
	{ "file-dots", "", "f/..", { "ENOTDIR", "ENOTDIR", "ENOTDIR", "ENOTDIR" }, "" },
	{ "file-as-dir", "", "f/x", { "ENOTDIR", "ENOTDIR", "ENOTDIR", "ENOTDIR" }, "" },
	{ "fifo-as-dir", "mkfifo p", "p/x", { "ENOTDIR", "ENOTDIR", "ENOTDIR", "ENOTDIR" }, "" },
	{ "link-to-file-slash",
	  "symlink f tofile",
	  "tofile/",
	  { "ENOTDIR", "ENOTDIR", "EEXIST", "ENOTDIR" },
	  "" },
	{ "link-to-file-as-dir",
	  "symlink f tofile",
	  "tofile/x",
	  { "ENOTDIR", "ENOTDIR", "ENOTDIR", "ENOTDIR" },
	  "" },
	{ "dangling",
	  "symlink nowhere dangling",
	  "dangling",
	  { "ENOENT", "ok", "EEXIST", "ok" },
	  "" },
	{ "dangling-slash",
	  "symlink nowhere dangling",
	  "dangling/",
	  { "ENOENT", "ENOENT", "EEXIST", "ENOTDIR" },
	  "" },
	{ "dangling-dir",
	  "symlink nowhere dangling",
	  "dangling/x",
	  { "ENOENT", "ENOENT", "ENOENT", "ENOENT" },
	  "" },
	{ "loop", "symlink loop loop", "loop", { "ELOOP", "ok", "EEXIST", "ok" }, "" },
	{ "loop-dir", "symlink loop loop", "loop/x", { "ELOOP", "ELOOP", "ELOOP", "ELOOP" }, "" },
	{ "loop-of-two",
	  "symlink l1 l0; symlink l0 l1",
	  "l0",
	  { "ELOOP", "ok", "EEXIST", "ok" },
	  "" },
	{ "loop-of-two-dir",
	  "symlink l1 l0; symlink l0 l1",
	  "l1/x",
	  { "ELOOP", "ELOOP", "ELOOP", "ELOOP" },
	  "" },
	{ "name-255", "", "{n*255}", { "ENOENT", "ENOENT", "ok", "ENOENT" }, "" },
	{ "name-256",
	  "",
	  "{n*256}",
	  { "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG" },
	  "" },
	{ "name-256-in-dir",
	  "mkdir d",
	  "d/{n*256}",
	  { "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG" },
	  "" },
	{ "name-256-as-dir",
	  "",
	  "{n*256}/x",
	  { "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG" },
	  "" },
	{ "path-4095", "", "{./*2047}x", { "ENOENT", "ENOENT", "ok", "ENOENT" }, "" },
	{ "path-4096",
	  "",
	  "{./*2047}xy",
	  { "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG" },
	  "" },
	{ "path-8000",
	  "mkdir d",
	  "{d/../*1600}",
	  { "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG", "ENAMETOOLONG" },
	  "" },
	{ "empty", "", "''", { "ENOENT", "ENOENT", "ENOENT", "ENOENT" }, "" },
	{ "dir", "mkdir d; mkdir d/e", "d", { DIR, DIR, DIR, DIR }, "" },
	{ "dir-slash", "mkdir d; mkdir d/e", "d/", { DIR, DIR, DIR, DIR }, "" },
	{ "dir-slashes", "mkdir d; mkdir d/e", "d///", { DIR, DIR, DIR, DIR }, "" },
	{ "dir-dot", "mkdir d; mkdir d/e", "d/.", { DIR, DIR, DIR, "EBUSY" }, "" },
	{ "dir-dots", "mkdir d; mkdir d/e", "d/e/..", { DIR, DIR, DIR, "EBUSY" }, "" },
	{ "link-to-dir-slash",
	  "mkdir d; mkdir d/e; symlink d todir",
	  "todir/",
	  { DIR, DIR, DIR, "ENOTDIR" },
	  "" },
	{ "link-to-dir-dot",
	  "mkdir d; mkdir d/e; symlink d todir",
	  "todir/.",
	  { DIR, DIR, DIR, "EBUSY" },
	  "" },
	{ "locked",
	  "mkdir locked; put locked/f x; mkdir locked/d; chmod locked 700",
	  "locked/f",
	  { "EACCES", "EACCES", "EACCES", "EACCES" },
	  "a: " },
	{ "locked-absent",
	  "mkdir locked; put locked/f x; mkdir locked/d; chmod locked 700",
	  "locked/nope",
	  { "EACCES", "EACCES", "EACCES", "EACCES" },
	  "a: " },
	{ "locked-deep",
	  "mkdir locked; put locked/f x; mkdir locked/d; chmod locked 700",
	  "locked/d/x",
	  { "EACCES", "EACCES", "EACCES", "EACCES" },
	  "a: " },
	{ "locked-file-as-dir",
	  "mkdir locked; put locked/f x; mkdir locked/d; chmod locked 700",
	  "locked/f/x",
	  { "EACCES", "EACCES", "EACCES", "EACCES" },
	  "a: " },
	{ "locked-dots",
	  "mkdir locked; put locked/f x; mkdir locked/d; chmod locked 700",
	  "locked/../f",
	  { "EACCES", "EACCES", "EACCES", "EACCES" },
	  "a: " },
};

static const struct path_call {
	const char *name;
	const char *script; /* % is the path */
	enum kind kind;
	const char *dir; /* what it gives for a directory */
	const char *but; /* what it gives for some paths: "PATH=WANT PATH=WANT " */
} calls[] = {
	{ "stat", "is %", FOLLOWS, "ok", "" },
	{ "lstat", "isl %", LOOKS, "ok", "" },
	{ "access", "access % f", FOLLOWS, "ok", "" },
	{ "access-nofollow", "access % f nofollow", LOOKS, "ok", "" },
	{ "open", "open 0 % rd", FOLLOWS, "ok", "" },
	{ "open-write", "open 0 % wr", FOLLOWS, "EISDIR", "" },
	{ "open-path-nofollow", "open 0 % path|nofollow", LOOKS, "ok", "" },
	{ "open-nofollow", "open 0 % rd|nofollow", FOLLOWS, "ok",
	  "dangling=ELOOP loop-of-two=ELOOP " },
	/* O_CREAT makes what a dangling link points to, and minds a slash first. */
	{ "open-creat", "open 0 % wr|creat", FOLLOWS, "EISDIR",
	  "absent=ok name-255=ok path-4095=ok dangling=ok absent-slash=EISDIR file-slash=EISDIR "
	  "link-to-file-slash=EISDIR dangling-slash=EISDIR " },
	{ "open-creat-excl", "open 0 % wr|creat|excl", MAKES, "EEXIST",
	  "dir-slash=EISDIR dir-slashes=EISDIR link-to-dir-slash=EISDIR "
	  "absent-slash=EISDIR file-slash=EISDIR link-to-file-slash=EISDIR "
	  "dangling-slash=EISDIR " },
	{ "chmod", "chmod % 600", FOLLOWS, "ok", "" },
	{ "chown", "chown % 1 1", FOLLOWS, "ok", "" },
	{ "lchown", "lchown % 1 1", LOOKS, "ok", "" },
	{ "utimensat", "utimens % 1 2", FOLLOWS, "ok", "" },
	{ "lutimens", "lutimens % 1 2", LOOKS, "ok", "" },
	{ "truncate", "truncate % 0", FOLLOWS, "EISDIR", "" },
	{ "readlink", "readlink %", LOOKS, "EINVAL", "" },
	{ "chdir", "chdir %", FOLLOWS, "ok", "" },
	{ "opendir", "opendir 0 %", FOLLOWS, "ok", "" },
	{ "statfs", "statfs %", FOLLOWS, "ok", "" },
	{ "getxattr", "getxattr % user.x", FOLLOWS, "ENODATA", "" },
	{ "setxattr", "setxattr % user.x y", FOLLOWS, "ok", "" },
	{ "listxattr", "listxattr %", FOLLOWS, "ok", "" },
	{ "removexattr", "removexattr % user.x", FOLLOWS, "ENODATA", "" },
	{ "llistxattr", "llistxattr %", LOOKS, "ok", "" },
	{ "exec", "run %", FOLLOWS, "EACCES", "" },
	{ "mkdir", "mkdir %", MAKES, "EEXIST", "absent-slash=ok " },
	{ "mknod", "mknod % reg", MAKES, "EEXIST", "" },
	{ "mkfifo", "mkfifo %", MAKES, "EEXIST", "" },
	{ "symlink", "symlink target %", MAKES, "EEXIST", "" },
	{ "link-to", "link f %", MAKES, "EEXIST", "" },
	{ "rename-to", "rename f %", MAKES, "EISDIR",
	  "dir-slash=ENOTDIR dir-slashes=ENOTDIR link-to-dir-slash=ENOTDIR dir-dot=EBUSY "
	  "dir-dots=EBUSY link-to-dir-dot=EBUSY "
	  "absent-slash=ENOTDIR file-slash=ENOTDIR link-to-file-slash=ENOTDIR dangling=ok "
	  "dangling-slash=ENOTDIR loop=ok loop-of-two=ok file-dot=ENOTDIR file-dots=ENOTDIR " },
	{ "link-from", "link % new", LOOKS, "EPERM", "" },
	{ "link-from-follow", "link % new follow", FOLLOWS, "EPERM", "" },
	{ "unlink", "unlink %", REMOVES, "EISDIR",
	  "dir-dot=EISDIR dir-dots=EISDIR link-to-dir-dot=EISDIR "
	  "" },
	{ "rmdir", "rmdir %", REMOVES, "ENOTEMPTY",
	  "dir-dot=EINVAL dir-dots=ENOTEMPTY link-to-dir-dot=EINVAL "
	  "dangling=ENOTDIR loop=ENOTDIR loop-of-two=ENOTDIR " },
	{ "rename-from", "rename % new", REMOVES, "ok", "" },
	{ "rename-exchange", "rename f % exchange", REMOVES, "ok", "" },
};

/* What a call gives for a path: its own word on it, or that of its kind. */
static const char *want_of(const struct path_call *call, const struct path *path)
{
	size_t len = strlen(path->name);

	for (const char *at = call->but; *at; at += strcspn(at, " ") + 1)
		if (strncmp(at, path->name, len) == 0 && at[len] == '=')
			return text_of("%.*s", (int)strcspn(at + len + 1, " "), at + len + 1);
	return strcmp(path->want[call->kind], DIR) == 0 ? call->dir : path->want[call->kind];
}

static bool is_one_of(const char *name, const char *const *names)
{
	while (*names && strcmp(*names, name) != 0)
		names++;
	return *names;
}

#define IS(name, ...) is_one_of(name, (const char *const[]){ __VA_ARGS__, NULL })

/* What the library gives instead: NULL, the same. */
static const char *library_want(const struct path_call *call, const struct path *path,
				enum reason *ret_reason)
{
	bool creates = IS(call->name, "open-creat", "open-creat-excl");
	bool renames = IS(call->name, "rename-to", "rename-from", "rename-exchange");

	*ret_reason = LINUX_CREAT_SLASH;
	if (creates && IS(path->name, "file-slash", "link-to-file-slash"))
		return call->kind == MAKES ? "EEXIST" : "ENOTDIR";
	if (creates && call->kind == MAKES &&
	    IS(path->name, "dir-slash", "dir-slashes", "link-to-dir-slash"))
		return "EEXIST";
	*ret_reason = LIBRARY_SLASH;
	if (strcmp(path->name, "dangling-slash") == 0 && !creates && call->kind >= MAKES)
		return strcmp(call->name, "mkdir") == 0       ? "0"
		       : strcmp(call->name, "rename-to") == 0 ? "ENOTDIR"
							      : "ENOENT";
	if (strcmp(path->name, "link-to-dir-slash") == 0 && call->kind == REMOVES)
		return renames ? "0" : strcmp(call->name, "unlink") == 0 ? "EISDIR" : "ENOTEMPTY";
	*ret_reason = LIBRARY_DOTS;
	if ((renames || call->kind == REMOVES) &&
	    IS(path->name, "dir-dot", "dir-dots", "link-to-dir-dot"))
		return "EINVAL";
	*ret_reason = LIBRARY_DIRS;
	if (IS(call->name, "open", "open-nofollow") && strcmp(path->want[call->kind], DIR) == 0)
		return "EISDIR";
	return NULL;
}

static struct difference differ(const struct path_call *call, const struct path *path)
{
	struct difference ret = { .targets = LIBRARY };

	if (strcmp(path->name, "empty") == 0) {
		ret.reason = LIBRARY_EMPTY_PATH;
		return ret;
	}
	ret.want = library_want(call, path, &ret.reason);
	return ret.want ? ret : (struct difference){ 0 };
}

static bool next_row(size_t n, struct row *ret)
{
	const struct path_call *call;
	const struct path *path;

	if (n >= COUNT(calls) * COUNT(paths))
		return false;
	call = &calls[n / COUNT(paths)];
	path = &paths[n % COUNT(paths)];
	*ret = (struct row){
		.name = text_of("path/%s/%s", call->name, path->name),
		.setup = text_of("put f x; %s", path->setup),
		.call = text_of("%s%s", path->who, script_for(call->script, path->path)),
		.want = want_of(call, path),
	};
	ret->differences[0] = differ(call, path);
	return true;
}

/* s0 is a link to t, s1 to s0, and so on: sN is N + 1 links away from it. */
#define CHAIN_OF_40                                                                   \
	"put t x; symlink t s0; symlink s0 s1; symlink s1 s2; symlink s2 s3; "        \
	"symlink s3 s4; symlink s4 s5; symlink s5 s6; symlink s6 s7; symlink s7 s8; " \
	"symlink s8 s9; symlink s9 s10; symlink s10 s11; symlink s11 s12; "           \
	"symlink s12 s13; symlink s13 s14; symlink s14 s15; symlink s15 s16; "        \
	"symlink s16 s17; symlink s17 s18; symlink s18 s19; symlink s19 s20; "        \
	"symlink s20 s21; symlink s21 s22; symlink s22 s23; symlink s23 s24; "        \
	"symlink s24 s25; symlink s25 s26; symlink s26 s27; symlink s27 s28; "        \
	"symlink s28 s29; symlink s29 s30; symlink s30 s31; symlink s31 s32; "        \
	"symlink s32 s33; symlink s33 s34; symlink s34 s35; symlink s35 s36; "        \
	"symlink s36 s37; symlink s37 s38; symlink s38 s39; "

static const struct row rows[] = {
	{ "path/40-links", CHAIN_OF_40, "text s39", "'x'" },
	{ "path/41-links", CHAIN_OF_40 "symlink s39 s40", "text s40", "ELOOP" },
	{ "path/41-links-not-the-last", CHAIN_OF_40 "symlink s39 s40", "isl s40 type=lnk", "0" },
	{ "path/40-links-in-the-middle", "mkdir d; put d/f x; symlink . d/l", "text d/{l/*40}f",
	  "'x'" },
	{ "path/41-links-in-the-middle", "mkdir d; put d/f x; symlink . d/l", "text d/{l/*41}f",
	  "ELOOP" },
	{ "path/open-creat-through-40-links", CHAIN_OF_40 "unlink t", "open 0 s39 wr|creat", "0",
	  "is t type=reg" },
	{ "path/open-creat-through-41-links", CHAIN_OF_40 "symlink s39 s40; unlink t",
	  "open 0 s40 wr|creat", "ELOOP", "missing t" },
	{ "path/many-slashes", "mkdir d; put d/f x", "text d////f", "'x'" },
	{ "path/dots", "mkdir d; put d/f x", "text ./d/./../d/f", "'x'" },
	{ "path/4095-to-a-file", "put f x", "text {./*2047}f", "'x'" },
	{ "path/4096-to-a-file", "put ff x", "text {./*2047}ff", "ENAMETOOLONG" },
	{ "path/link-longer-than-a-path-rest", "put f x; symlink {./*2000}f l", "text {./*100}l",
	  "'x'" },
	{ "path/link-target-4095", "put f x; symlink {./*2047}f l", "text l", "'x'" },
	{ "path/absolute-link", "put f x; symlink {dir}/f l", "text l", "'x'" },
	{ "path/absolute", "put f x", "text {dir}/f", "'x'" },
	{ "path/link-with-slash-in-target", "mkdir d; put d/f x; symlink d/ l", "text l/f", "'x'" },
	{ "path/link-to-file-with-slash-in-target", "put f x; symlink f/ l", "text l", "ENOTDIR" },
	{ "path/link-to-dotdot", "mkdir d; put f x; symlink .. d/up", "text d/up/f", "'x'" },
	{ "path/link-through-link", "mkdir d; put d/f x; symlink d a; symlink a/f b", "text b",
	  "'x'" },
	{ "path/dotdot-after-link-is-the-target's", "mkdir a; mkdir a/b; put a/f x; symlink a/b l",
	  "text l/../f", "'x'" },
	{ "path/dotdot-of-the-row", "note P .; mkdir d", "is d/.. ino=P", "0" },
	{ "path/dot", "note P .", "is . ino=P", "0" },
	{ "path/search-only-dir", "mkdir d; put d/f x; chmod d 711", "a: text d/f", "'x'" },
	{ "path/read-only-dir", "mkdir d; put d/f x; chmod d 744", "a: text d/f", "EACCES" },
	{ "path/read-only-dir-list", "mkdir d; put d/f x; chmod d 744", "a: list d", "'f'" },
	{ "path/search-only-dir-list", "mkdir d; put d/f x; chmod d 711", "a: list d", "EACCES" },
	{ "path/search-by-group", "mkdir d; put d/f x; chown d 0 1100; chmod d 710", "c: text d/f",
	  "'x'" },
	{ "path/search-not-by-group", "mkdir d; put d/f x; chown d 0 1100; chmod d 701",
	  "c: text d/f", "EACCES" },
	{ "path/search-not-by-owner", "mkdir d; put d/f x; chown d 1001 0; chmod d 077",
	  "a: text d/f", "EACCES" },
	{ "path/search-as-root", "mkdir d; put d/f x; chmod d 0", "text d/f", "'x'" },
	{ "path/from-dirfd-without-search",
	  "mkdir d; put d/f x; open 0 d rd|directory; chmod d 700", "a: open 1 <0>f rd", "EACCES" },
	{ "path/from-dirfd-below-locked",
	  "mkdir l; mkdir l/d; put l/d/f x; open 0 l/d path; chmod l 700", "a: open 1 <0>f rd",
	  "0" },
	{ "path/cwd-below-locked", "mkdir l; mkdir l/d; put l/d/f x; chdir l/d; chmod .. 700",
	  "a: text f", "'x'" },
	{ "path/dotdot-of-locked", "mkdir l; mkdir l/d; put l/f x; chdir l/d; chmod .. 700",
	  "a: text ../f", "EACCES" },
	{ "path/removed-cwd", "mkdir d; chdir d; rmdir ../d", "open 0 f wr|creat", "ENOENT" },
	{ "path/removed-cwd-dot", "mkdir d; chdir d; rmdir ../d", "is . nlink=0", "0" },
	{ "path/removed-cwd-list", "mkdir d; chdir d; rmdir ../d", "list .", "''" },
	{ "path/removed-cwd-getcwd", "mkdir d; chdir d; rmdir ../d", "cwd", "ENOENT" },
	{ "path/removed-cwd-mkdir", "mkdir d; chdir d; rmdir ../d", "mkdir x", "ENOENT" },
	{ "path/removed-cwd-symlink", "mkdir d; chdir d; rmdir ../d", "symlink x y", "ENOENT" },
	{ "path/removed-cwd-link", "mkdir d; put f; chdir d; rmdir ../d", "link {dir}/f y",
	  "ENOENT" },
	{ "path/removed-cwd-mknod", "mkdir d; chdir d; rmdir ../d", "mkfifo y", "ENOENT" },
	{ "path/removed-cwd-and-back", "mkdir d; put f x; chdir d; rmdir ../d", "text ../f",
	  "'x'" },
	{ "path/dirfd-closed", "", "is <9>x", "EBADF" },
	{ "path/dirfd-closed-absolute", "put f", "is <9>{dir}/f", "0" },
	{ "path/dirfd-of-a-file", "put f; open 0 f rd", "is <0>x", "ENOTDIR" },
	{ "path/dirfd-of-a-file-empty", "put f abc; open 0 f rd", "is <0> size=3", "0" },
	{ "path/utf-8", "put {#c3a9} x", "text {#c3a9}", "'x'" },
	{ "path/not-utf-8", "put {#ff} x; put {#fe} y", "text {#ff}", "'x'" },
	{ "path/no-normalization", "put {#c3a9} x", "missing {#65cc81}", "0" },
	{ "path/case", "put a x", "missing A", "0" },
	{ "path/blanks", "put ' a ' x", "list .", "' a '" },
	{ "path/newline", "put {#0a} x", "list .", "'{#0a}'" },
	{ "path/three-dots", "mkdir ...; put .../f x", "text .../f", "'x'" },
	{ "path/dot-name", "put .f x", "list .", "'.f'" },
	{ "path/backslash", "put a{#5c}b x", "list .", "'a{#5c}b'" },
	{ "path/dot-stet-below-the-root", "mkdir .stet; put .stet/f x", "text .stet/f", "'x'" },
};

const struct table path_table = { "path", rows, COUNT(rows), next_row, false };
