/* rows_rename.c - rename(2), renameat2(2). */
#include "conformance.h"
#include "nodes.h"

#include <string.h>

static const struct row rows[] = {
	{ "rename/file", "put a x; note A a", "rename a b", "0",
	  "missing a; text b => 'x'; is b ino=A nlink=1" },
	{ "rename/over-file", "put a x; put b y; note A a", "rename a b", "0",
	  "missing a; text b => 'x'; is b ino=A" },
	{ "rename/absent", "", "rename a b", "ENOENT", "missing b" },
	{ "rename/onto-itself", "put a x; note A a", "rename a a", "0", "is a ino=A nlink=1" },
	{ "rename/onto-itself-noreplace", "put a x", "rename a a noreplace", "EEXIST" },
	{ "rename/onto-itself-exchange", "put a x; note A a", "rename a a exchange", "0",
	  "is a ino=A" },
	{ "rename/dir-onto-itself", "mkdir a; note A a", "rename a a", "0", "is a ino=A" },
	{ "rename/two-names-of-a-file", "put a x; link a b", "rename a b", "0",
	  "is a nlink=2; is b nlink=2; list . => 'a,b'" },
	{ "rename/two-names-in-two-dirs", "mkdir d; put a x; link a d/b", "rename a d/b", "0",
	  "is a nlink=2; is d/b nlink=2" },
	{ "rename/two-names-noreplace", "put a x; link a b", "rename a b noreplace", "EEXIST" },
	{ "rename/two-names-exchange", "put a x; link a b", "rename a b exchange", "0",
	  "is a nlink=2" },
	{ "rename/over-one-of-two-names", "put a x; put b y; link b c", "rename a b", "0",
	  "is c nlink=1; text c => 'y'; text b => 'x'" },
	{ "rename/one-of-two-names", "put a x; link a b", "rename a c", "0",
	  "is b nlink=2; is c nlink=2; missing a" },
	{ "rename/into-dir", "mkdir d; put a x", "rename a d/a", "0",
	  "missing a; text d/a => 'x'" },
	{ "rename/out-of-dir", "mkdir d; put d/a x", "rename d/a a", "0",
	  "missing d/a; text a => 'x'" },
	{ "rename/dir-into-itself", "mkdir a", "rename a a/b", "EINVAL", "is a nlink=2 type=dir" },
	{ "rename/dir-into-its-child", "mkdir a; mkdir a/b", "rename a a/b/c", "EINVAL", "is a/b" },
	{ "rename/dir-over-its-child", "mkdir a; mkdir a/b", "rename a a/b", "EINVAL", "is a/b" },
	{ "rename/dir-far-into-itself", "mkdir a; mkdir a/b; mkdir a/b/c; mkdir a/b/c/d",
	  "rename a a/b/c/d/e", "EINVAL" },
	{ "rename/child-over-its-parent", "mkdir a; mkdir a/b", "rename a/b a", "ENOTEMPTY" },
	{ "rename/file-over-its-parent", "mkdir a; put a/f", "rename a/f a", "ENOTEMPTY", NULL,
	  ON(LIBRARY, "EISDIR", LIBRARY_ORDER) },
	{ "rename/grandchild-over-grandparent", "mkdir a; mkdir a/b; mkdir a/b/c", "rename a/b/c a",
	  "ENOTEMPTY" },
	{ "rename/exchange-with-own-child", "mkdir a; mkdir a/b", "rename a a/b exchange",
	  "EINVAL" },
	{ "rename/exchange-child-with-own-parent", "mkdir a; mkdir a/b", "rename a/b a exchange",
	  "EINVAL" },
	{ "rename/noreplace-exchange", "put a; put b", "rename a b noreplace|exchange", "EINVAL" },
	{ "rename/unknown-flag", "put a", "rename a b bad", "EINVAL", "is a" },
	{ "rename/whiteout", "put a x", "rename a b whiteout", "0",
	  "text b => 'x'; is a type=chr rdev=0",
	  ON(FUSE, "EINVAL", NO_WHITEOUT, "is a; missing b") },
	{ "rename/whiteout-exchange", "put a; put b", "rename a b whiteout|exchange", "EINVAL" },
	{ "rename/noreplace-whiteout-over", "put a; put b", "rename a b noreplace|whiteout",
	  "EEXIST" },
	{ "rename/dotdot-follows-the-dir", "mkdir a; mkdir b; mkdir a/d; note B b",
	  "rename a/d b/d", "0", "is b/d/.. ino=B; is a nlink=2; is b nlink=3" },
	{ "rename/dotdot-after-exchange",
	  "mkdir a; mkdir b; mkdir a/d; mkdir b/e; note A a; note B b", "rename a/d b/e exchange",
	  "0", "is a/d/.. ino=A; is b/e/.. ino=B; is a nlink=3; is b nlink=3" },
	{ "rename/exchange-dir-and-file-in-two-dirs",
	  "mkdir a; mkdir b; mkdir a/d; put b/f x; note B b", "rename a/d b/f exchange", "0",
	  "is a nlink=2; is b nlink=3; is b/f/.. ino=B; text a/d => 'x'" },
	{ "rename/dir-over-empty-dir-nlink", "mkdir a; mkdir b; mkdir a/d; mkdir b/d",
	  "rename a/d b/d", "0", "is a nlink=2; is b nlink=3" },
	{ "rename/dir-over-empty-sibling-nlink", "mkdir a; mkdir b; note P .", "rename a b", "0",
	  "missing a; is b nlink=2; is . nlink=3" },
	{ "rename/dir-with-content", "mkdir a; mkdir a/b; put a/b/f x", "rename a c", "0",
	  "text c/b/f => 'x'; missing a" },
	{ "rename/times-of-directories",
	  "mkdir a; mkdir b; put a/f; utimens a 1 2; utimens b 3 4; note A a; note B b; tick",
	  "rename a/f b/f", "0", "is a mtime=now ctime>A atime=A; is b mtime=now ctime>B atime=B" },
	{ "rename/ctime-of-the-file", "put a; note A a; tick", "rename a b", "0",
	  "is b ctime>A mtime=A atime=A" },
	{ "rename/ctime-of-the-dir", "mkdir a; note A a; tick", "rename a b", "0",
	  "is b ctime>A mtime=A" },
	{ "rename/ctime-of-what-loses-a-name", "put a; put b; link b c; note C c; tick",
	  "rename a b", "0", "is c ctime>C mtime=C nlink=1" },
	{ "rename/failed-times", "put a; mkdir b; note P .; note A a; tick", "rename a b", "EISDIR",
	  "is . mtime=P ctime=P; is a ctime=A" },
	{ "rename/onto-itself-times", "put a; link a b; note P .; tick", "rename a b", "0",
	  "is . mtime=P" },
	{ "rename/exchange-times", "put a; put b; note A a; note B b; tick", "rename a b exchange",
	  "0", "is b ctime>A ino=A; is a ctime>B ino=B" },
	{ "rename/open-file-keeps-content", "put a x; put b y; open 0 b rd", "rename a b", "0",
	  "read 0 9 => 'y'; isf 0 nlink=0; text b => 'x'" },
	{ "rename/write-to-replaced-open-file", "put a x; put b y; open 0 b rw", "rename a b", "0",
	  "write 0 zz => 2; pread 0 0 9 => 'zz'; text b => 'x'" },
	{ "rename/open-file-moves-along", "put a x; open 0 a rw", "rename a b", "0",
	  "write 0 yy => 2; text b => 'yy'" },
	{ "rename/over-open-dir", "mkdir a; mkdir b; open 0 b rd|directory", "rename a b", "0",
	  "isf 0 nlink=0; open 1 <0>f wr|creat => ENOENT" },
	{ "rename/of-the-working-directory", "mkdir a; put a/f x; chdir a", "rename ../a ../b", "0",
	  "text f => 'x'; cwd => '/b'" },
	{ "rename/in-moved-dirfd",
	  "mkdir a; mkdir b; put a/f x; open 0 a rd|directory; rename a b/c", "rename <0>f <0>g",
	  "0", "text b/c/g => 'x'" },
	{ "rename/between-dirfds",
	  "mkdir a; mkdir b; put a/f x; open 0 a rd|directory; open 1 b path|directory",
	  "rename <0>f <1>g", "0", "text b/g => 'x'" },
	{ "rename/dirfd-is-a-file", "put f; put a; open 0 f rd", "rename <0>x y", "ENOTDIR" },
	{ "rename/symlink-itself", "put f x; symlink f s; note A s", "rename s t", "0",
	  "isl t ino=A type=lnk; text t => 'x'" },
	{ "rename/over-symlink", "put a x; put f y; symlink f s", "rename a s", "0",
	  "isl s type=reg; text f => 'y'" },
	{ "rename/symlink-over-its-target", "put f y; symlink f s", "rename s f", "0",
	  "isl f type=lnk; text f => ELOOP" },
	{ "rename/target-over-its-symlink", "put f y; symlink f s", "rename f s", "0",
	  "isl s type=reg; text s => 'y'" },
	{ "rename/symlink-to-dir-over-dir", "mkdir d; mkdir e; symlink d s", "rename s e",
	  "EISDIR" },
	{ "rename/dir-over-symlink-to-dir", "mkdir d; mkdir e; symlink d s", "rename e s",
	  "ENOTDIR" },
	{ "rename/dir-over-dangling-symlink", "mkdir e; symlink no s", "rename e s", "ENOTDIR" },
	{ "rename/through-symlinked-dirs", "mkdir a; mkdir b; symlink a x; symlink b y; put a/f z",
	  "rename x/f y/g", "0", "text b/g => 'z'" },
	{ "rename/dir-with-slashes", "mkdir a", "rename a/ b/", "0", "is b type=dir; missing a" },
	{ "rename/dir-to-slash", "mkdir a", "rename a b/", "0", "is b type=dir" },
	{ "rename/dir-with-many-slashes", "mkdir a", "rename a// b///", "0", "is b type=dir" },
	{ "rename/file-from-slash", "put a", "rename a/ b", "ENOTDIR" },
	{ "rename/file-to-slash", "put a", "rename a b/", "ENOTDIR" },
	{ "rename/file-to-existing-slash", "put a; put b", "rename a b/", "ENOTDIR" },
	{ "rename/file-to-dir-slash", "put a; mkdir b", "rename a b/", "ENOTDIR" },
	{ "rename/symlink-to-dir-from-slash", "mkdir d; symlink d s", "rename s/ t", "ENOTDIR",
	  NULL, ON(LIBRARY, "0", LIBRARY_SLASH) },
	{ "rename/dir-to-symlink-slash", "mkdir d; mkdir e; symlink d s", "rename e s/", "ENOTDIR",
	  NULL, ON(LIBRARY, "0", LIBRARY_SLASH) },
	{ "rename/dot-from", "mkdir a", "rename a/. b", "EBUSY", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_DOTS) },
	{ "rename/dotdot-from", "mkdir a; mkdir a/c", "rename a/c/.. b", "EBUSY", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_DOTS) },
	{ "rename/dot-to", "mkdir a; mkdir b", "rename a b/.", "EBUSY", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_DOTS) },
	{ "rename/dotdot-to", "mkdir a; mkdir b; mkdir b/c", "rename a b/c/..", "EBUSY", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_DOTS) },
	{ "rename/dot-to-noreplace", "mkdir a; mkdir b", "rename a b/. noreplace", "EEXIST", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_DOTS) },
	{ "rename/dot-onto-dot", "", "rename . .", "EBUSY", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_DOTS) },
	{ "rename/dotdot-onto-dotdot", "mkdir d", "rename d/.. d/..", "EBUSY", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_DOTS) },
	{ "rename/empty-from", "", "rename '' b", "ENOENT", NULL,
	  ON(LIBRARY, "EINVAL", LIBRARY_EMPTY_PATH) },
	{ "rename/empty-to", "put a", "rename a ''", "ENOENT", "is a",
	  ON(LIBRARY, "EINVAL", LIBRARY_EMPTY_PATH) },
	{ "rename/to-name-255", "put a x", "rename a {n*255}", "0", "text {n*255} => 'x'" },
	{ "rename/to-name-256", "put a", "rename a {n*256}", "ENAMETOOLONG", "is a" },
	{ "rename/from-name-256", "", "rename {n*256} b", "ENAMETOOLONG" },
	{ "rename/from-name-255", "put {n*255} x", "rename {n*255} a", "0", "text a => 'x'" },
	{ "rename/exchange-name-255", "put {n*255} x; put {m*255} y",
	  "rename {n*255} {m*255} exchange", "0", "text {n*255} => 'y'" },
	{ "rename/to-path-4095", "put a x", "rename a {./*2047}b", "0", "text b => 'x'" },
	{ "rename/to-path-4096", "put a x", "rename a {./*2048}b", "ENAMETOOLONG" },
	{ "rename/into-file", "put a; put f", "rename a f/b", "ENOTDIR" },
	{ "rename/into-absent-dir", "put a", "rename a no/b", "ENOENT", "is a" },
	{ "rename/into-unlinked-dir", "put a; mkdir d; open 0 d rd|directory; rmdir d",
	  "rename a <0>b", "ENOENT", "is a" },
	{ "rename/across-file-systems", "put a x", "rename a {other}/conformance-moved", "EXDEV",
	  "text a => 'x'" },
	{ "rename/dir-across-file-systems", "mkdir a", "rename a {other}/conformance-moved",
	  "EXDEV", "is a type=dir" },
	{ "rename/absent-across-file-systems", "", "rename a {other}/conformance-moved", "EXDEV",
	  NULL, ON(FUSE, "ENOENT", VIEWS_ARE_ONE_MOUNT) },
	{ "rename/mount-point", "mkdir a; mkdir m; mount a m", "rename m b", "EBUSY",
	  "is m type=dir" },
	{ "rename/over-mount-point", "mkdir a; mkdir b; mkdir m; mount a m", "rename b m",
	  "EBUSY" },
	{ "rename/exchange-with-mount-point", "mkdir a; mkdir b; mkdir m; mount a m",
	  "rename b m exchange", "EBUSY" },
	{ "rename/parent-of-mount-point", "mkdir a; mkdir p; mkdir p/m; put a/f x; mount a p/m",
	  "rename p q", "0", "text q/m/f => 'x'; umount q/m" },
	{ "rename/file-mount-point", "put a x; put m y; mount a m", "rename m b", "EBUSY",
	  "text m => 'x'" },
	{ "rename/between-bind-mounts", "mkdir a; mkdir m; put f x; mount a m", "rename f m/f",
	  "EXDEV" },
	{ "rename/exchange-keeps-modes", "put a x 600; put b y 640", "rename a b exchange", "0",
	  "is a mode=640; is b mode=600" },
	{ "rename/xattrs-go-along", "put a; setxattr a user.k v", "rename a b", "0",
	  "getxattr b user.k => 'v'" },
	{ "rename/case-differs", "put a x", "rename a A", "0", "missing a; text A => 'x'" },
	{ "rename/bytes-of-a-name", "put a x", "rename a {#01ff80fe}", "0",
	  "list . => '{#01ff80fe}'" },
	{ "rename/chain", "put a x; rename a b; rename b c; rename c d", "rename d a", "0",
	  "list . => 'a'" },
	{ "rename/rotate-by-exchange", "put a 1; put b 2; put c 3; rename a b exchange",
	  "rename b c exchange", "0", "text a => '2'; text b => '3'; text c => '1'" },
	{ "rename/1000-into-dir", "mkdir d; repeat 1000 put f{i}; repeat 999 rename f{i} d/f{i}",
	  "rename f999 d/f999", "0", "list . => 'd'" },
	{ "rename/dir-listing-afterwards", "mkdir a; put a/1; put a/2; rename a b; put b/3",
	  "list b", "'1,2,3'" },

	/* who may */
	{ "rename/no-write-in-from", "mkdir a 755; put a/f; mkdir b 777", "a: rename a/f b/f",
	  "EACCES" },
	{ "rename/no-write-in-to", "mkdir b 755; mkdir a; chmod a 777; put a/f",
	  "a: rename a/f b/f", "EACCES" },
	{ "rename/no-search-in-from", "mkdir a; put a/f; chmod a 766", "a: rename a/f g",
	  "EACCES" },
	{ "rename/no-search-in-to", "a: put f; mkdir a; chmod a 766", "a: rename f a/f", "EACCES" },
	{ "rename/of-another's-file", "mkdir a; chmod a 777; put a/f", "a: rename a/f a/g", "0" },
	{ "rename/unreadable-file", "mkdir a; chmod a 777; put a/f; chmod a/f 0",
	  "a: rename a/f a/g", "0" },
	{ "rename/sticky-another's", "mkdir t; chmod t 1777; b: put t/f", "a: rename t/f t/g",
	  "EPERM" },
	{ "rename/sticky-own", "mkdir t; chmod t 1777; a: put t/f", "a: rename t/f t/g", "0" },
	{ "rename/sticky-over-another's", "mkdir t; chmod t 1777; b: put t/g; a: put t/f",
	  "a: rename t/f t/g", "EPERM" },
	{ "rename/sticky-own-dir", "mkdir t; chown t 1001 0; chmod t 1777; b: put t/f",
	  "a: rename t/f t/g", "0" },
	{ "rename/sticky-root", "mkdir t; chmod t 1777; b: put t/f", "rename t/f t/g", "0" },
	{ "rename/sticky-exchange-another's", "mkdir t; chmod t 1777; b: put t/g; a: put t/f",
	  "a: rename t/f t/g exchange", "EPERM" },
	{ "rename/sticky-into", "mkdir t; chmod t 1777; a: put f", "a: rename f t/f", "0" },
	{ "rename/sticky-out-another's", "mkdir t; chmod t 1777; b: put t/f", "a: rename t/f g",
	  "EPERM" },
	/* ".." changes, which needs write permission on the directory itself */
	{ "rename/dir-not-writable-new-parent",
	  "mkdir p; mkdir q; chmod p 777; chmod q 777; b: mkdir p/d 755", "a: rename p/d q/d",
	  "EACCES" },
	{ "rename/dir-not-writable-same-parent", "mkdir p; chmod p 777; b: mkdir p/d 755",
	  "a: rename p/d p/e", "0" },
	{ "rename/own-dir-new-parent",
	  "mkdir p; mkdir q; chmod p 777; chmod q 777; a: mkdir p/d 755", "a: rename p/d q/d",
	  "0" },
};

/* --- each type onto each type, with each flag --- */

enum { SAME = NODES }; /* the target is another name of the source */

static const char *const flag_names[] = { "-", "noreplace", "exchange" };

static const char *want_of(enum node from, unsigned to, size_t flag)
{
	if (flag == 1)
		return to == NODE_ABSENT ? "0" : "EEXIST";
	if (flag == 2)
		return to == NODE_ABSENT ? "ENOENT" : "0";
	if (to == NODE_ABSENT || to == SAME)
		return "0";
	if (NODE_IS_DIR(from) && !NODE_IS_DIR(to))
		return "ENOTDIR";
	if (!NODE_IS_DIR(from) && NODE_IS_DIR(to))
		return "EISDIR";
	return to == NODE_FULL ? "ENOTEMPTY" : "0";
}

static const char *after_of(unsigned to, size_t flag, const char *want)
{
	if (strcmp(want, "0") != 0)
		return to == NODE_ABSENT ? "isl a ino=A; missing b" : "isl a ino=A; isl b ino=B";
	if (to == SAME)
		return "isl a ino=A nlink=2; isl b ino=A";
	if (flag == 2)
		return "isl b ino=A type=A mode=A; isl a ino=B type=B mode=B";
	return "isl b ino=A type=A mode=A; missing a";
}

static bool next_row(size_t n, struct row *ret)
{
	enum node from = NODE_REG + (enum node)(n % (NODES - 1));
	unsigned to = (unsigned)(n / (NODES - 1) % (NODES + 1));
	size_t flag = n / (NODES - 1) / (NODES + 1);
	const char *second;

	if (flag == COUNT(flag_names))
		return false;
	second = to == SAME ? "same" : node_names[to];
	if (to == SAME && NODE_IS_DIR(from)) {
		/* It can have no second name: an absent one then, written with dots. */
		second = "dots";
		to = NODE_ABSENT;
	}
	*ret = (struct row){ 0 };
	ret->name = text_of("rename/%s-to-%s/%s", node_names[from], second, flag_names[flag]);
	ret->setup = text_of("%s; note A a; %s%s", script_for(node_scripts[from], "a"),
			     to == SAME ? "link a b" : script_for(node_scripts[to], "b"),
			     to == NODE_ABSENT ? "" : "; note B b");
	ret->call = text_of(second[0] == 'd' && second[1] == 'o' ? "rename ./a a/../b %s"
								 : "rename a b %s",
			    flag_names[flag]);
	ret->want = want_of(from, to, flag);
	ret->after = after_of(to, flag, ret->want);
	return true;
}

const struct table rename_table = { "rename", rows, COUNT(rows), next_row, false };
