/* rows_attr.c - modes, owners, times, and who may what. */
#include "conformance.h"

#include <stdio.h>
#include <string.h>

static const struct row rows[] = {
	/* chmod */
	{ "chmod/all-bits", "put f", "chmod f 7777", "0", "is f mode=7777" },
	{ "chmod/none", "put f", "chmod f 0", "0", "is f mode=0" },
	{ "chmod/dir", "mkdir d", "chmod d 1750", "0", "is d mode=1750 type=dir nlink=2" },
	{ "chmod/type-bits-are-ignored", "put f", "chmod f 40600", "0", "is f mode=600 type=reg" },
	{ "chmod/fifo", "mkfifo p", "chmod p 600", "0", "is p mode=600 type=fifo" },
	{ "chmod/socket", "mknod s sock", "chmod s 600", "0", "is s mode=600" },
	{ "chmod/device", "mknod c chr 644 1 3", "chmod c 600", "0", "is c mode=600" },
	{ "chmod/through-link", "put f; symlink f s", "chmod s 600", "0",
	  "is f mode=600; isl s mode=777" },
	{ "chmod/dangling", "symlink no s", "chmod s 600", "ENOENT" },
	{ "chmod/link-itself", "put f; symlink f s", "lchmod s 600", "EOPNOTSUPP",
	  "isl s mode=777" },
	{ "chmod/nofollow-of-file", "put f", "lchmod f 600", "0", "is f mode=600" },
	{ "chmod/fchmod", "put f; open 0 f rd", "fchmod 0 600", "0", "is f mode=600" },
	{ "chmod/fchmod-dir", "mkdir d; open 0 d rd|directory", "fchmod 0 700", "0",
	  "is d mode=700" },
	{ "chmod/ctime", "put f; note F f; tick", "chmod f 600", "0",
	  "is f ctime>F mtime=F atime=F" },
	{ "chmod/same-mode-ctime", "put f; note F f; tick", "chmod f 644", "0",
	  "is f ctime>F mtime=F" },
	{ "chmod/failed-ctime", "put f; note F f; tick", "a: chmod f 600", "EPERM",
	  "is f ctime=F mode=644" },
	{ "chmod/by-owner", "a: put f", "a: chmod f 600", "0", "is f mode=600" },
	{ "chmod/by-another", "a: put f; chmod f 666", "b: chmod f 600", "EPERM" },
	{ "chmod/by-group", "a: put f; chown f - 1100; chmod f 660", "c: chmod f 600", "EPERM" },
	{ "chmod/unreadable-by-owner", "a: put f x 0", "a: chmod f 600", "0" },
	{ "chmod/in-unsearchable-dir",
	  "mkdir d; a: put d/f => EACCES; put d/f; chown d/f 1001 1001; chmod d 766",
	  "a: chmod d/f 600", "EACCES" },
	{ "chmod/suid-by-owner", "a: put f", "a: chmod f 4755", "0", "is f mode=4755" },
	{ "chmod/sgid-by-owner-in-group", "d: put f; chown f - 1100", "d: chmod f 2755", "0",
	  "is f mode=2755" },
	{ "chmod/sgid-by-owner-not-in-group", "a: put f; chown f - 1100", "a: chmod f 2755", "0",
	  "is f mode=755" },
	{ "chmod/sgid-dir-by-owner-not-in-group", "a: mkdir d; chown d - 1100", "a: chmod d 2755",
	  "0", "is d mode=755" },
	{ "chmod/sgid-by-root", "put f; chown f 1001 1100", "chmod f 2755", "0", "is f mode=2755" },
	{ "chmod/suid-stays-for-not-in-group", "a: put f; chown f - 1100", "a: chmod f 6755", "0",
	  "is f mode=4755" },
	{ "chmod/sticky-file-by-user", "a: put f", "a: chmod f 1644", "0", "is f mode=1644" },
	{ "chmod/sticky-dir-by-user", "a: mkdir d", "a: chmod d 1777", "0", "is d mode=1777" },
	{ "chmod/two-names", "put f; link f g", "chmod g 600", "0", "is f mode=600" },
	{ "chmod/open-descriptor-keeps-rights", "put f abc; chmod f 666; a: open 0 f rw; chmod f 0",
	  "a: write 0 X", "1", "a: pread 0 0 9 => 'Xbc'" },
	{ "chmod/of-open-and-reopen", "put f abc; chmod f 666; a: open 0 f rw; chmod f 0",
	  "a: open 1 f rd", "EACCES" },
	{ "chmod/keeps-content", "put f abc", "chmod f 600", "0", "text f => 'abc'" },
	{ "chmod/umask-does-not-count", "umask 077; put f", "chmod f 666", "0", "is f mode=666" },

	/* chown */
	{ "chown/both", "put f", "chown f 1 2", "0", "is f uid=1 gid=2" },
	{ "chown/only-uid", "put f", "chown f 1 -", "0", "is f uid=1 gid=0" },
	{ "chown/only-gid", "put f", "chown f - 2", "0", "is f uid=0 gid=2" },
	{ "chown/neither", "put f; note F f; tick", "chown f - -", "0", "is f uid=0 gid=0" },
	{ "chown/large-ids", "put f", "chown f 4294967294 4294967294", "0",
	  "is f uid=4294967294 gid=4294967294" },
	{ "chown/ids-over-16-bits", "put f", "chown f 70000 80000", "0",
	  "is f uid=70000 gid=80000" },
	{ "chown/through-link", "put f; symlink f s", "chown s 1 2", "0",
	  "is f uid=1; isl s uid=0" },
	{ "chown/link-itself", "put f; symlink f s", "lchown s 1 2", "0",
	  "is f uid=0; isl s uid=1 gid=2" },
	{ "chown/dangling", "symlink no s", "chown s 1 2", "ENOENT" },
	{ "chown/dangling-itself", "symlink no s", "lchown s 1 2", "0", "isl s uid=1" },
	{ "chown/dir", "mkdir d", "chown d 1 2", "0", "is d uid=1 gid=2" },
	{ "chown/fifo", "mkfifo p", "chown p 1 2", "0", "is p uid=1 gid=2" },
	{ "chown/fchown", "put f; open 0 f rd", "fchown 0 1 2", "0", "is f uid=1 gid=2" },
	{ "chown/ctime", "put f; note F f; tick", "chown f 1 2", "0",
	  "is f ctime>F mtime=F atime=F" },
	{ "chown/same-ctime", "put f; note F f; tick", "chown f 0 0", "0", "is f ctime>F" },
	{ "chown/by-owner-to-another", "a: put f", "a: chown f 1002 -", "EPERM" },
	{ "chown/by-owner-to-self", "a: put f", "a: chown f 1001 -", "0" },
	{ "chown/by-another", "put f", "a: chown f 1001 -", "EPERM" },
	{ "chown/group-to-own-group", "d: put f", "d: chown f - 1100", "0", "is f gid=1100" },
	{ "chown/group-to-foreign-group", "a: put f", "a: chown f - 1100", "EPERM",
	  "is f gid=1001" },
	{ "chown/group-of-another's-file", "put f", "d: chown f - 1100", "EPERM" },
	{ "chown/group-with-own-uid", "d: put f", "d: chown f 1001 1100", "0" },
	{ "chown/neither-by-owner", "a: put f", "a: chown f - -", "0" },
	{ "chown/neither-by-another", "put f", "a: chown f - -", "0" },
	{ "chown/group-to-same-by-owner", "a: put f; chown f - 1100", "a: chown f - 1100", "0" },
	{ "chown/clears-suid", "put f; chmod f 4755", "chown f 1 2", "0", "is f mode=755",
	  ON(LIBRARY, "0", LIBRARY_SET_ID, "is f mode=4755") },
	{ "chown/clears-sgid", "put f; chmod f 2755", "chown f 1 2", "0", "is f mode=755",
	  ON(LIBRARY, "0", LIBRARY_SET_ID, "is f mode=2755") },
	{ "chown/keeps-sgid-without-group-execute", "put f; chmod f 2745", "chown f 1 2", "0",
	  "is f mode=2745" },
	{ "chown/clears-both", "put f; chmod f 6755", "chown f 1 2", "0", "is f mode=755",
	  ON(LIBRARY, "0", LIBRARY_SET_ID, "is f mode=6755") },
	{ "chown/keeps-sticky", "put f; chmod f 5755", "chown f 1 2", "0", "is f mode=1755",
	  ON(LIBRARY, "0", LIBRARY_SET_ID, "is f mode=5755") },
	{ "chown/gid-only-clears-suid", "put f; chmod f 4755", "chown f - 2", "0", "is f mode=755",
	  ON(LIBRARY, "0", LIBRARY_SET_ID, "is f mode=4755") },
	{ "chown/fchown-clears-suid", "put f; chmod f 6755; open 0 f rd", "fchown 0 1 2", "0",
	  "is f mode=755" },
	{ "chown/dir-keeps-set-id", "mkdir d; chmod d 6755", "chown d 1 2", "0", "is d mode=6755" },
	{ "chown/neither-clears-suid", "put f; chmod f 4755", "chown f - -", "0", "is f mode=755",
	  ON(STETFS, "0", CHOWN_OF_NOTHING, "is f mode=4755") },
	{ "chown/by-owner-clears-suid", "d: put f; chown f 1001 1001; chmod f 6755",
	  "d: chown f - 1100", "0", "is f mode=755" },
	{ "chown/same-ids-clear-suid", "put f; chmod f 4755", "chown f 0 0", "0", "is f mode=755",
	  ON(LIBRARY, "0", LIBRARY_SET_ID, "is f mode=4755") },
	{ "chown/clears-capability",
	  "put f; setxattr f security.capability {#0100000200200000000000000000000000000000}",
	  "chown f 1 2", "0", "getxattr f security.capability => ENODATA" },
	{ "chown/empty-of-path-link", "symlink x s; open 0 s path|nofollow", "chown <0> 1 2", "0",
	  "isl s uid=1" },
	{ "chown/two-names", "put f; link f g", "chown g 1 2", "0", "is f uid=1 gid=2" },

	/* times */
	{ "utimens/both", "put f", "utimens f 1.5 2.25", "0", "is f atime=1.5 mtime=2.25" },
	{ "utimens/nanoseconds", "put f", "utimens f 1234567890.123456789 987654321.987654321", "0",
	  "is f atime=1234567890.123456789 mtime=987654321.987654321" },
	{ "utimens/now", "put f; utimens f 1 2", "utimens f now now", "0",
	  "is f atime=now mtime=now" },
	{ "utimens/both-now-are-equal", "put f; utimens f now now", "is f atime=mtime", "0" },
	{ "utimens/omit-atime", "put f; utimens f 1 2", "utimens f omit 5", "0",
	  "is f atime=1 mtime=5" },
	{ "utimens/omit-mtime", "put f; utimens f 1 2", "utimens f 5 omit", "0",
	  "is f atime=5 mtime=2" },
	{ "utimens/omit-both", "put f; utimens f 1 2; note F f; tick", "utimens f omit omit", "0",
	  "is f atime=1 mtime=2 ctime=F" },
	{ "utimens/omit-both-not-permitted", "put f", "a: utimens f omit omit", "0" },
	{ "utimens/now-and-omit", "put f; utimens f 1 2", "utimens f now omit", "0",
	  "is f atime=now mtime=2" },
	{ "utimens/epoch", "put f", "utimens f 0 0", "0", "is f atime=0 mtime=0" },
	{ "utimens/before-the-epoch", "put f", "utimens f -1 -100", "0",
	  "is f atime=-1 mtime=-100" },
	{ "utimens/1901", "put f", "utimens f -2147483648 -2147483648", "0",
	  "is f atime=-2147483648" },
	{ "utimens/2038", "put f", "utimens f 2147483647 2147483648", "0",
	  "is f atime=2147483647 mtime=2147483648" },
	{ "utimens/2106", "put f", "utimens f 4294967295 4294967296", "0",
	  "is f atime=4294967295 mtime=4294967296" },
	{ "utimens/2200", "put f", "utimens f 7258118400 7258118400.999999999", "0",
	  "is f atime=7258118400 mtime=7258118400.999999999" },
	{ "utimens/bad-nanoseconds", "put f; note F f", "utimens f 1 bad", "EINVAL",
	  "is f atime=F mtime=F" },
	{ "utimens/ctime-is-now", "put f; note F f; tick", "utimens f 1 2", "0",
	  "is f ctime>F ctime=now" },
	{ "utimens/dir", "mkdir d", "utimens d 1 2", "0", "is d atime=1 mtime=2" },
	{ "utimens/fifo", "mkfifo p", "utimens p 1 2", "0", "is p atime=1 mtime=2" },
	{ "utimens/through-link", "put f; symlink f s; note S s", "utimens s 1 2", "0",
	  "is f mtime=2; isl s mtime=S" },
	{ "utimens/link-itself", "put f; symlink f s; note F f", "lutimens s 1 2", "0",
	  "isl s mtime=2; is f mtime=F" },
	{ "utimens/dangling", "symlink no s", "utimens s 1 2", "ENOENT" },
	{ "utimens/dangling-itself", "symlink no s", "lutimens s 1 2", "0", "isl s mtime=2" },
	{ "utimens/futimens", "put f; open 0 f rd", "futimens 0 1 2", "0", "is f mtime=2" },
	{ "utimens/touch", "put f; utimens f 1 2", "touch f", "0", "is f atime=now mtime=now" },
	{ "utimens/by-owner", "a: put f", "a: utimens f 1 2", "0" },
	{ "utimens/by-another", "put f; chmod f 666", "a: utimens f 1 2", "EPERM" },
	{ "utimens/now-by-writer", "put f; chmod f 666", "a: utimens f now now", "0" },
	{ "utimens/touch-by-writer", "put f; chmod f 666", "a: touch f", "0" },
	{ "utimens/touch-by-reader", "put f; chmod f 644", "a: touch f", "EACCES" },
	{ "utimens/now-by-reader", "put f; chmod f 644", "a: utimens f now now", "EACCES" },
	{ "utimens/now-and-omit-by-writer", "put f; chmod f 666", "a: utimens f now omit",
	  "EPERM" },
	{ "utimens/touch-by-owner-unwritable", "a: put f x 0", "a: touch f", "0" },
	{ "utimens/survive-chmod", "put f; utimens f 1 2; chmod f 600", "is f atime=1 mtime=2",
	  "0" },
	{ "utimens/survive-rename", "put f; utimens f 1 2; rename f g", "is g atime=1 mtime=2",
	  "0" },
	{ "utimens/survive-link", "put f; utimens f 1 2; link f g", "is g atime=1 mtime=2", "0" },
	{ "utimens/survive-close", "open 0 f wr|creat; write 0 x; futimens 0 1 2; close 0",
	  "is f atime=1 mtime=2", "0" },
	{ "utimens/two-names", "put f; link f g", "utimens g 1 2", "0", "is f mtime=2" },
	{ "utimens/dir-then-new-entry", "mkdir d; utimens d 1 2; put d/f", "is d mtime=now atime=1",
	  "0" },

	/* stat */
	{ "stat/blocks-of-empty", "put f", "is f blocks=0 size=0", "0" },
	{ "stat/link-size", "symlink 12345 s", "isl s size=5", "0" },
	{ "stat/dir-nlink", "mkdir d; put d/f", "is d nlink=2", "0" },
	{ "stat/dev-is-the-same-everywhere", "put f; mkdir d; note D d", "is f dev=D", "0" },
	{ "stat/inodes-differ", "put f; put g; note F f", "is g ino!F", "0" },
	{ "stat/inode-is-stable", "put f; note F f; chmod f 600; truncate f 10; rename f g",
	  "is g ino=F", "0" },
	{ "stat/fstat-is-stat", "put f abc; note F f; open 0 f rd",
	  "isf 0 ino=F mode=F nlink=F uid=F size=F mtime=F ctime=F dev=F", "0" },
	{ "stat/lstat-of-file-is-stat", "put f abc; note F f", "is f ino=F size=F mtime=F", "0" },
	{ "stat/no-permission-on-the-file-needed", "put f x 0", "a: is f size=1 mode=0", "0" },
	{ "stat/size-while-open-for-writing", "open 0 f wr|creat; write 0 abc", "is f size=3",
	  "0" },
	{ "stat/size-by-another-process",
	  "open 0 f wr|creat; write 0 abc; @1 is f size=3; write 0 def", "@1 is f size=6", "0" },
	{ "stat/mode-by-another-process", "put f; @1 is f mode=644; chmod f 600",
	  "@1 is f mode=600", "0" },
	{ "stat/nlink-by-another-process", "put f; @1 is f nlink=1; link f g", "@1 is f nlink=2",
	  "0" },
	{ "stat/absent-then-there-by-another-process", "@1 missing f; put f", "@1 is f", "0" },
	{ "stat/there-then-absent-by-another-process", "put f; @1 is f; unlink f", "@1 is f",
	  "ENOENT" },
	{ "stat/statfs", "put f", "statfs f", "0" },
	{ "stat/statfs-dir", "", "statfs .", "0" },
	/* access */
	{ "access/there", "put f", "access f f", "0" },
	{ "access/absent", "", "access f f", "ENOENT" },
	{ "access/bad-mode", "put f", "access f bad", "EINVAL" },
	{ "access/bad-flag", "put f", "access f f bad", "EINVAL" },
	{ "access/dangling", "symlink no s", "access s f", "ENOENT" },
	{ "access/dangling-itself", "symlink no s", "access s f nofollow", "0" },
	{ "access/root-reads-all", "put f x 0", "access f r|w", "0" },
	{ "access/root-executes-only-with-a-bit", "put f x 666", "access f x", "EACCES" },
	{ "access/root-executes-with-any-bit", "put f x; chmod f 001", "access f x", "0" },
	{ "access/root-searches-all", "mkdir d 0", "access d rwx", "0" },
	{ "access/in-unsearchable", "mkdir d; put d/f; chmod d 766", "a: access d/f f", "EACCES" },
	{ "access/f-needs-nothing", "put f x 0", "a: access f f", "0" },
	{ "access/effective", "put f x 600; chown f 1001 0", "a: access f r|w eaccess", "0" },

	/* programs */
	{ "exec/script", "put f '#!/bin/sh{#0a}exit 7{#0a}' 755", "run f", "7" },
	{ "exec/not-executable", "put f '#!/bin/sh{#0a}' 644", "run f", "EACCES" },
	{ "exec/empty", "put f '' 755", "run f", "ENOEXEC" },
	{ "exec/garbage", "put f abcdefgh 755", "run f", "ENOEXEC" },
	{ "exec/dir", "mkdir d", "run d", "EACCES" },
	{ "exec/fifo", "mkfifo p 755", "run p", "EACCES" },
	{ "exec/absent", "", "run f", "ENOENT" },
	{ "exec/without-interpreter", "put f '#!/no/such{#0a}' 755", "run f", "ENOENT" },
	{ "exec/by-user", "put f '#!/bin/sh{#0a}exit 3{#0a}' 755", "a: run f", "3" },
	{ "exec/by-user-without-x", "put f '#!/bin/sh{#0a}' 754", "a: run f", "EACCES" },
	{ "exec/by-user-unreadable-script", "put f '#!/bin/sh{#0a}exit 3{#0a}' 711; chmod f 711",
	  "a: run f", "2" },
	{ "exec/open-for-writing", "put f '#!/bin/sh{#0a}exit 3{#0a}' 755; open 0 f wr", "run f",
	  "ETXTBSY" },
	{ "exec/through-link", "put f '#!/bin/sh{#0a}exit 4{#0a}' 755; symlink f s", "run s", "4" },
	{ "exec/after-rewrite",
	  "put f '#!/bin/sh{#0a}exit 4{#0a}' 755; run f => 4; put f '#!/bin/sh{#0a}exit 5{#0a}'",
	  "run f", "5" },
};

/* --- each mode, for owner, group and others, asked and tried --- */

static const struct {
	const char *name;
	const char *owner;
	int shift;
} classes[] = {
	{ "owner", "1001 0", 6 },
	{ "group", "0 1100", 3 },
	{ "other", "0 0", 0 },
};

static const struct {
	const char *name;
	const char *call; /* by user d: 1001, group 1100 */
	int needs;        /* bits */
	bool is_dir;
} tries[] = {
	{ "access-r", "d: access t r", 4, false },
	{ "access-w", "d: access t w", 2, false },
	{ "access-x", "d: access t x", 1, false },
	{ "access-rwx", "d: access t rwx", 7, false },
	{ "open-rd", "d: open 0 t rd", 4, false },
	{ "open-wr", "d: open 0 t wr", 2, false },
	{ "open-rw", "d: open 0 t rw", 6, false },
	{ "truncate", "d: truncate t 0", 2, false },
	{ "getxattr", "d: getxattr t user.k", 4, false },
	{ "setxattr", "d: setxattr t user.k v", 2, false },
	{ "removexattr", "d: removexattr t user.k", 2, false },
	{ "dir-list", "d: list t", 4, true },
	{ "dir-search", "d: is t/f", 1, true },
	{ "dir-chdir", "d: chdir t", 1, true },
	{ "dir-unlink", "d: unlink t/f", 3, true },
	{ "dir-create", "d: mkdir t/new", 3, true },
};

/* The class alone counts: the bits of the other two are the opposite. */
static const char *mode_of(int bits, int shift)
{
	int mode = 0777 & ~(7 << shift);

	return text_of("%03o", mode | bits << shift);
}

static const char *opposite_of(int bits, int shift)
{
	int other = ~bits & 7;
	int mode = other << 6 | other << 3 | other;

	return text_of("%03o", (mode & ~(7 << shift)) | bits << shift);
}

static bool next_row(size_t n, struct row *ret)
{
	int bits = (int)(n % 8);
	size_t class = n / 8 % COUNT(classes);
	size_t try = n / 8 / COUNT(classes);
	const char *mode;

	if (try >= COUNT(tries))
		return false;
	mode = n % 2 ? mode_of(bits, classes[class].shift)
		     : opposite_of(bits, classes[class].shift);
	*ret = (struct row){
		.name = text_of("may/%s/%s-%d", tries[try].name, classes[class].name, bits),
		.setup = text_of("%s; chown t %s; chmod t %s",
				 tries[try].is_dir ? "mkdir t; put t/f"
						   : "put t x; setxattr t user.k v",
				 classes[class].owner, mode),
		.call = tries[try].call,
		.want = (bits & tries[try].needs) == tries[try].needs ? "ok" : "EACCES",
	};
	return true;
}

const struct table attr_table = { "attr", rows, COUNT(rows), next_row, false };
