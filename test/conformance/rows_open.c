/* rows_open.c - open(2): flags on each type of file, and what they mean. */
#include "conformance.h"
#include "nodes.h"

#include <stdio.h>
#include <string.h>

static const struct row rows[] = {
	{ "open/creat-mode", "", "open 0 f wr|creat 640", "0",
	  "is f mode=640 size=0 nlink=1 uid=0 gid=0 blocks=0" },
	{ "open/creat-mode-by-umask", "umask 027", "open 0 f wr|creat 666", "0", "is f mode=640" },
	{ "open/creat-mode-by-full-umask", "umask 777", "open 0 f wr|creat 666", "0",
	  "is f mode=0" },
	{ "open/creat-sticky-bit", "umask 0", "open 0 f wr|creat 1644", "0", "is f mode=1644" },
	{ "open/creat-set-id-bits", "umask 0", "open 0 f wr|creat 6755", "0", "is f mode=6755" },
	{ "open/creat-mode-of-existing-stays", "put f x 600", "open 0 f rw|creat 644", "0",
	  "is f mode=600; text f => 'x'" },
	{ "open/creat-unwritable-mode-is-for-later", "", "open 0 f rw|creat 0", "0",
	  "write 0 abc => 3; pread 0 0 9 => 'abc'; is f mode=0 size=3" },
	{ "open/creat-unwritable-mode-as-user", "", "a: open 0 f rw|creat 0", "0",
	  "write 0 abc => 3; is f size=3; a: open 1 f rd => EACCES" },
	{ "open/creat-owner", "", "a: open 0 f wr|creat", "0", "is f uid=1001 gid=1001" },
	{ "open/creat-group-of-process", "", "e: open 0 f wr|creat", "0",
	  "is f uid=1004 gid=1100" },
	{ "open/creat-times", "tick; note P .; tick", "open 0 f wr|creat", "0",
	  "is f atime=now mtime=now ctime=now; is . mtime>P ctime>P" },
	{ "open/creat-existing-no-times", "put f x; note F f; note P .; tick", "open 0 f wr|creat",
	  "0", "is f atime=F mtime=F ctime=F; is . mtime=P ctime=P" },
	{ "open/trunc", "put f abc; note F f; tick", "open 0 f wr|trunc", "0",
	  "is f size=0 blocks=0 mtime>F ctime>F ino=F" },
	{ "open/trunc-of-empty-sets-times", "put f; note F f; tick", "open 0 f wr|trunc", "0",
	  "is f size=0 mtime>F ctime>F" },
	{ "open/trunc-read-only-descriptor", "put f abc", "open 0 f rd|trunc", "0", "is f size=0",
	  ON(LIBRARY, "0", LIBRARY_TRUNC, "is f size=3") },
	{ "open/trunc-open-elsewhere", "put f abc; open 1 f rd; read 1 1 => 'a'",
	  "open 0 f wr|trunc", "0", "read 1 9 => ''; isf 1 size=0" },
	{ "open/trunc-not-writable", "put f abc; chmod f 444", "a: open 0 f wr|trunc", "EACCES",
	  "is f size=3" },
	{ "open/trunc-rd-not-writable", "put f abc; chmod f 444", "a: open 0 f rd|trunc", "EACCES",
	  "is f size=3" },
	{ "open/creat-trunc", "put f abc", "open 0 f wr|creat|trunc", "0", "is f size=0" },
	{ "open/creat-excl", "", "open 0 f wr|creat|excl", "0", "is f size=0" },
	{ "open/creat-excl-trunc-existing", "put f abc", "open 0 f wr|creat|excl|trunc", "EEXIST",
	  "text f => 'abc'" },
	{ "open/creat-excl-of-link-to-file", "put f abc; symlink f s", "open 0 s wr|creat|excl",
	  "EEXIST" },
	{ "open/creat-through-dangling", "symlink new s", "open 0 s wr|creat", "0",
	  "is new type=reg; isl s type=lnk" },
	{ "open/creat-through-dangling-to-other-dir", "mkdir d; symlink d/new s",
	  "open 0 s wr|creat", "0", "is d/new type=reg" },
	{ "open/creat-through-dangling-without-dir", "symlink no/new s", "open 0 s wr|creat",
	  "ENOENT" },
	{ "open/creat-in-absent-dir", "", "open 0 no/f wr|creat", "ENOENT" },
	{ "open/creat-in-file", "put f", "open 0 f/g wr|creat", "ENOTDIR" },
	{ "open/creat-in-unwritable-dir", "mkdir d 755", "a: open 0 d/f wr|creat", "EACCES",
	  "missing d/f" },
	{ "open/creat-existing-in-unwritable-dir", "mkdir d 755; put d/f x; chmod d/f 666",
	  "a: open 0 d/f wr|creat", "0" },
	{ "open/creat-name-255", "", "open 0 {n*255} wr|creat", "0", "is {n*255}" },
	{ "open/creat-name-256", "", "open 0 {n*256} wr|creat", "ENAMETOOLONG" },
	{ "open/creat-in-sticky-another's", "mkdir t; chmod t 1777; b: put t/f x; chmod t/f 666",
	  "a: open 0 t/f wr", "0" },
	{ "open/creat-slash", "", "open 0 f/ wr|creat", "EISDIR", "missing f" },
	{ "open/accmode-3", "put f x", "open 0 f 3", "0", "read 0 1 => EBADF; write 0 x => EBADF" },
	{ "open/accmode-3-needs-both", "put f x 644", "a: open 0 f 3", "EACCES" },
	{ "open/read-of-write-only", "put f x; open 0 f wr", "read 0 1", "EBADF" },
	{ "open/write-of-read-only", "put f x; open 0 f rd", "write 0 y", "EBADF",
	  "text f => 'x'" },
	{ "open/pread-of-write-only", "put f x; open 0 f wr", "pread 0 0 1", "EBADF" },
	{ "open/ftruncate-of-read-only", "put f x; open 0 f rd", "ftruncate 0 0", "EINVAL",
	  "is f size=1", ON(LIBRARY, "EBADF", LIBRARY_EBADF, "is f size=1") },
	{ "open/fallocate-of-read-only", "put f x; open 0 f rd", "fallocate 0 - 0 10", "EBADF" },
	{ "open/fsync-of-read-only", "put f x; open 0 f rd", "fsync 0", "0" },
	{ "open/fchmod-of-read-only", "put f x; open 0 f rd", "fchmod 0 600", "0",
	  "is f mode=600" },
	{ "open/futimens-of-read-only", "put f x; open 0 f rd", "futimens 0 1 2", "0",
	  "is f atime=1 mtime=2" },
	{ "open/use-after-close", "put f x; open 0 f rd; close 0", "read 0 1", "EBADF", NULL,
	  ON(LIBRARY, NULL, LIBRARY_HANDLES) },
	{ "open/two-descriptors-two-offsets",
	  "put f abc; open 0 f rd; open 1 f rd; read 0 2 => 'ab'", "read 1 1", "'a'" },
	{ "open/dup-shares-the-offset", "put f abc; open 0 f rd; dup 0 1; read 0 2 => 'ab'",
	  "read 1 1", "'c'" },
	{ "open/status-flags", "put f", "open 0 f rw|append|nonblock", "0",
	  "getfl 0 rw|append|nonblock => 1" },
	{ "open/setfl-append", "put f abc; open 0 f wr; setfl 0 append", "write 0 d", "1",
	  "text f => 'abcd'" },
	{ "open/setfl-no-append", "put f abc; open 0 f wr|append; setfl 0 rd", "write 0 d", "1",
	  "text f => 'dbc'" },
	{ "open/append", "put f abc; open 0 f wr|append", "write 0 d", "1", "text f => 'abcd'" },
	{ "open/append-after-seek", "put f abc; open 0 f rw|append; seek 0 0 set", "write 0 d", "1",
	  "text f => 'abcd'; seek 0 0 cur => 4" },
	{ "open/append-reads-from-start", "put f abc; open 0 f rw|append", "read 0 2", "'ab'" },
	{ "open/append-by-two",
	  "put f; open 0 f wr|append; open 1 f wr|append; write 0 a; write 1 b; write 0 c",
	  "write 1 d", "1", "text f => 'abcd'" },
	{ "open/append-by-two-processes",
	  "put f; @1 open 0 f wr|append; @2 open 0 f wr|append; @1 write 0 a; @2 write 0 b; @1 "
	  "write 0 c",
	  "@2 write 0 d", "1", "text f => 'abcd'" },
	{ "open/append-after-truncate", "put f abc; open 0 f wr|append; open 1 f wr; ftruncate 1 1",
	  "write 0 d", "1", "text f => 'ad'" },
	{ "open/append-after-grow-elsewhere",
	  "put f abc; open 0 f wr|append; open 1 f rw; pwrite 1 5 x", "write 0 d", "1",
	  "text f => 'abc{#0000}xd'" },
	{ "open/append-pwrite-appends", "put f abc; open 0 f wr|append", "pwrite 0 0 d", "1",
	  "text f => 'abcd'" },
	{ "open/append-copy-range", "put f abc; put g de; open 0 f wr|append; open 1 g rd",
	  "copy 1 0 0 0 2", "EBADF", NULL, ON(LIBRARY, NULL, LIBRARY_APPEND_COPY) },
	{ "open/directory-of-dir", "mkdir d", "open 0 d rd|directory", "0" },
	{ "open/directory-of-file", "put f", "open 0 f rd|directory", "ENOTDIR" },
	{ "open/directory-of-link-to-dir", "mkdir d; symlink d s", "open 0 s rd|directory", "0" },
	{ "open/directory-nofollow-of-link-to-dir", "mkdir d; symlink d s",
	  "open 0 s rd|directory|nofollow", "ENOTDIR" },
	{ "open/nofollow-of-link-to-dir-slash", "mkdir d; symlink d s",
	  "open 0 s/ rd|nofollow|directory", "0" },
	{ "open/nofollow-of-file", "put f x", "open 0 f rd|nofollow", "0" },
	{ "open/nofollow-of-link", "put f x; symlink f s", "open 0 s rd|nofollow", "ELOOP" },
	{ "open/nofollow-link-in-the-middle", "mkdir d; put d/f x; symlink d s",
	  "open 0 s/f rd|nofollow", "0" },
	{ "open/dir-for-writing", "mkdir d", "open 0 d wr", "EISDIR" },
	{ "open/dir-for-both", "mkdir d", "open 0 d rw", "EISDIR" },
	{ "open/dir-creat", "mkdir d", "open 0 d rd|creat", "EISDIR" },
	{ "open/dir-trunc", "mkdir d", "open 0 d rd|trunc", "EISDIR" },
	{ "open/dir-and-read", "mkdir d; open 0 d rd|directory", "read 0 10", "EISDIR" },
	{ "open/dir-and-pread", "mkdir d; open 0 d rd|directory", "pread 0 0 10", "EISDIR" },
	{ "open/dir-and-write", "mkdir d; open 0 d rd|directory", "write 0 x", "EBADF" },
	{ "open/dir-and-ftruncate", "mkdir d; open 0 d rd|directory", "ftruncate 0 0", "EINVAL" },
	{ "open/dir-and-fsync", "mkdir d; open 0 d rd|directory", "fsync 0", "0" },
	{ "open/dir-and-fdatasync", "mkdir d; open 0 d rd", "fsync 0 data", "0" },
	{ "open/dir-and-fallocate", "mkdir d; open 0 d rd|directory", "fallocate 0 - 0 1",
	  "EBADF" },
	{ "open/dir-unreadable", "mkdir d 333", "a: open 0 d rd|directory", "EACCES" },
	{ "open/dir-unreadable-path", "mkdir d 333", "a: open 0 d path|directory", "0" },
	{ "open/path-of-unreadable-file", "put f x 0", "a: open 0 f path", "0", "a: isf 0 size=1" },
	{ "open/path-and-read", "put f x; open 0 f path", "read 0 1", "EBADF" },
	{ "open/path-and-write", "put f x; open 0 f path|rw", "write 0 1", "EBADF" },
	{ "open/path-and-fstat", "put f x; open 0 f path", "isf 0 size=1", "0" },
	{ "open/path-and-fchmod", "put f x; open 0 f path", "fchmod 0 600", "EBADF" },
	{ "open/path-and-fchown", "put f x; open 0 f path", "fchown 0 1 1", "EBADF" },
	{ "open/path-and-chown-empty", "put f x; open 0 f path", "chown <0> 1 2", "0",
	  "is f uid=1 gid=2" },
	{ "open/path-and-fsync", "put f x; open 0 f path", "fsync 0", "EBADF" },
	{ "open/path-and-fgetxattr", "put f x; open 0 f path", "fgetxattr 0 user.x", "EBADF" },
	{ "open/path-and-ftruncate", "put f x; open 0 f path", "ftruncate 0 0", "EBADF" },
	{ "open/path-and-mmap", "put f x; open 0 f path", "mmap 0 0 r shared 0 1", "EBADF" },
	{ "open/path-and-flock", "put f x; open 0 f path", "flock 0 sh", "EBADF" },
	{ "open/path-creat-makes-nothing", "", "open 0 f path|creat", "ENOENT", "missing f" },
	{ "open/path-trunc-does-nothing", "put f abc", "open 0 f path|trunc", "0", "is f size=3" },
	{ "open/path-nofollow-is-the-link", "symlink x s; open 0 s path|nofollow",
	  "isf 0 type=lnk size=1", "0", "readlink <0> => 'x'" },
	{ "open/path-of-dir-and-fchdir", "mkdir d; put d/f x; open 0 d path", "fchdir 0", "0",
	  "text f => 'x'" },
	{ "open/path-of-fifo", "mkfifo p", "open 0 p path", "0" },
	{ "open/path-of-socket", "mknod s sock", "open 0 s path", "0" },
	{ "open/path-reopened", "put f abc; open 0 f path", "open 1 {fd0} rw", "0",
	  "pread 1 0 9 => 'abc'" },
	{ "open/path-reopened-after-rename", "put f abc; open 0 f path; rename f g",
	  "open 1 {fd0} rd", "0", "pread 1 0 9 => 'abc'" },
	{ "open/path-linked", "put f abc; open 0 f path", "link <0> g empty", "0", "is f nlink=2" },
	{ "open/path-linked-by-proc", "put f abc; open 0 f path", "link {fd0} g follow", "0",
	  "is f nlink=2" },
	{ "open/reopened-for-writing", "put f abc; open 0 f rd", "open 1 {fd0} wr", "0",
	  "write 1 X => 1; pread 0 0 9 => 'Xbc'" },
	{ "open/reopened-unlinked", "put f abc; open 0 f rd; unlink f", "open 1 {fd0} rd", "0",
	  "pread 1 0 9 => 'abc'" },
	{ "open/reopened-unlinked-for-writing", "put f abc; open 0 f rd; unlink f; open 1 {fd0} rw",
	  "write 1 XY", "2", "pread 0 0 9 => 'XYc'" },
	{ "open/reopened-unlinked-trunc", "put f abc; open 0 f rd; unlink f; open 1 {fd0} wr|trunc",
	  "isf 0 size=0 nlink=0", "0" },
	{ "open/reopened-unlinked-and-closed-first",
	  "put f abc; open 0 f rd; unlink f; open 1 {fd0} rd; close 0", "pread 1 0 9", "'abc'" },
	{ "open/reopened-not-permitted", "put f abc 600; open 0 f rd", "a: open 1 {fd0} wr",
	  "EACCES" },
	{ "open/reopened-dir-list", "mkdir d; put d/f; open 0 d rd|directory", "list {fd0}",
	  "'f'" },
	{ "open/stat-by-proc-of-unlinked", "put f abc; open 0 f rd; unlink f",
	  "is {fd0} size=3 nlink=0", "0" },
	{ "open/truncate-by-proc-of-unlinked", "put f abc; open 0 f rd; unlink f",
	  "truncate {fd0} 1", "0", "isf 0 size=1" },
	{ "open/chmod-by-proc-of-unlinked", "put f abc; open 0 f rd; unlink f", "chmod {fd0} 600",
	  "0", "isf 0 mode=600" },
	{ "open/setxattr-by-proc-of-unlinked", "put f abc; open 0 f rd; unlink f",
	  "setxattr {fd0} user.k v", "0", "fgetxattr 0 user.k => 'v'" },
	{ "open/link-of-unlinked", "put f abc; open 0 f rd; unlink f", "link {fd0} g follow",
	  "ENOENT", "missing g" },
	{ "open/link-of-unlinked-empty", "put f abc; open 0 f rd; unlink f", "link <0> g empty",
	  "ENOENT", "missing g" },
	{ "open/unlinked-size", "put f abc; open 0 f rw; unlink f; pwrite 0 10 x",
	  "isf 0 size=11 nlink=0", "0" },
	{ "open/unlinked-new-file-of-the-name", "put f abc; open 0 f rd; unlink f; put f def",
	  "pread 0 0 9", "'abc'", "text f => 'def'" },
	{ "open/unlinked-one-of-two-names", "put f abc; link f g; open 0 f rd; unlink f",
	  "isf 0 nlink=1", "0", "text g => 'abc'" },
	{ "open/unlinked-fallocate", "put f abc; open 0 f rw; unlink f", "fallocate 0 - 0 100", "0",
	  "isf 0 size=100" },
	{ "open/unlinked-fsync", "put f abc; open 0 f rw; unlink f; write 0 x", "fsync 0", "0" },
	{ "open/unlinked-ctime", "put f; open 0 f rd; note F f; tick; unlink f",
	  "isf 0 ctime>F mtime=F", "0" },
	{ "open/unlinked-copy", "put f abc; put g; open 0 f rd; unlink f; open 1 g wr",
	  "copy 0 0 1 0 3", "3", "text g => 'abc'" },
	{ "open/tmpfile", "", "open 0 . rw|tmpfile", "0",
	  "isf 0 nlink=0 type=reg; list . => ''; write 0 abc; link {fd0} f follow; text f => "
	  "'abc'; isf 0 nlink=1",
	  ON(FUSE, "EOPNOTSUPP", NO_TMPFILE, "list . => ''") },
	{ "open/tmpfile-excl-stays-nameless", "open 0 . rw|tmpfile|excl", "link {fd0} f follow",
	  "ENOENT", NULL, ON(FUSE, NULL, NO_TMPFILE) },
	{ "open/tmpfile-of-file", "put f", "open 0 f rw|tmpfile", "ENOTDIR" },
	{ "open/tmpfile-absent", "", "open 0 no rw|tmpfile", "ENOENT" },
	{ "open/tmpfile-rd", "", "open 0 . rd|tmpfile", "EINVAL" },
	{ "open/tmpfile-unwritable-dir", "mkdir d 755", "a: open 0 d rw|tmpfile", "EACCES" },
	{ "open/fifo-write-nonblock", "mkfifo p", "open 0 p wr|nonblock", "ENXIO" },
	{ "open/fifo-read-nonblock", "mkfifo p", "open 0 p rd|nonblock", "0", "read 0 1 => ''" },
	{ "open/fifo-both", "mkfifo p; open 0 p rd|nonblock; open 1 p wr; write 1 abc", "read 0 9",
	  "'abc'" },
	{ "open/fifo-between-processes",
	  "mkfifo p; @1& open 0 p wr; open 0 p rd; wait 1; @1 write 0 hello", "read 0 9",
	  "'hello'" },
	{ "open/fifo-two-names",
	  "mkfifo p; link p q; open 0 p rd|nonblock; open 1 q wr; write 1 abc", "read 0 9",
	  "'abc'" },
	{ "open/fifo-size", "mkfifo p; open 0 p rd|nonblock; open 1 p wr; write 1 abc",
	  "is p size=0 type=fifo", "0" },
	{ "open/fifo-unreadable", "mkfifo p; chmod p 200", "a: open 0 p rd|nonblock", "EACCES" },
	{ "open/fifo-nosigpipe", "mkfifo p; open 0 p rd|nonblock; open 1 p wr; close 0",
	  "write 1 x", "EPIPE" },
	{ "open/fifo-and-seek", "mkfifo p; open 0 p rd|nonblock", "seek 0 0 cur", "ESPIPE" },
	{ "open/fifo-and-ftruncate", "mkfifo p; open 0 p rw|nonblock", "ftruncate 0 0", "EINVAL" },
	{ "open/fifo-and-fsync", "mkfifo p; open 0 p rw|nonblock", "fsync 0", "EINVAL" },
	{ "open/socket", "mknod s sock", "open 0 s rd", "ENXIO" },
	{ "open/bound-socket", "bind s", "open 0 s rw", "ENXIO", "is s type=sock mode=755" },
	{ "open/device-on-nodev", "mknod c chr 666 1 3", "open 0 c rw", "EACCES", NULL,
	  ON(LIBRARY, "ENXIO", LIBRARY_DEVICES) },
	{ "open/block-device-on-nodev", "mknod c blk 666 7 0", "open 0 c rd", "EACCES", NULL,
	  ON(LIBRARY, "ENXIO", LIBRARY_DEVICES) },
	{ "open/sync", "put f; open 0 f wr|sync", "write 0 abc", "3",
	  "getfl 0 sync => 1; text f => 'abc'" },
	{ "open/dsync", "put f; open 0 f wr|dsync", "write 0 abc", "3",
	  "getfl 0 dsync => 1; text f => 'abc'" },
	{ "open/sync-append", "put f abc; open 0 f wr|sync|append", "write 0 d", "1",
	  "text f => 'abcd'" },
	{ "open/sync-trunc", "put f abc", "open 0 f wr|sync|trunc", "0", "is f size=0" },
	{ "open/direct-read", "put f {a*8192}; open 0 f rd|direct", "pread 0 4096 4096",
	  "'{a*4096}'" },
	{ "open/direct-read-over-the-end", "put f {a*5000}; open 0 f rd|direct",
	  "pread 0 4096 4096", "'{a*904}'" },
	{ "open/direct-read-behind-the-end", "put f {a*5000}; open 0 f rd|direct",
	  "pread 0 8192 4096", "''" },
	{ "open/direct-write", "open 0 f rw|creat|direct", "pwrite 0 4096 {b*4096}", "4096",
	  "is f size=8192; text f => '{#00*4096}{b*4096}'" },
	{ "open/direct-write-is-read-buffered",
	  "put f {a*8192}; open 1 f rd; pread 1 0 1 => 'a'; open 0 f rw|direct; pwrite 0 0 "
	  "{b*4096}",
	  "pread 1 4095 2", "'ba'" },
	{ "open/buffered-write-is-read-direct",
	  "put f {a*8192}; open 1 f rw; open 0 f rd|direct; pwrite 1 10 xyz", "pread 0 0 4096",
	  "'{a*10}xyz{a*4083}'" },
	{ "open/direct-append", "put f {a*4096}; open 0 f wr|direct|append", "write 0 {b*4096}",
	  "4096", "is f size=8192" },
	{ "open/direct-odd-length", "put f {a*4096}; open 0 f rw|direct", "pwrite 0 0 xyz",
	  "EINVAL", NULL, ON(FUSE | TMPFS, "3", DIRECT_ANY, "text f => 'xyz{a*4093}'") },
	{ "open/direct-odd-offset", "put f {a*8192}; open 0 f rw|direct", "pwrite 0 1 {b*4096}",
	  "EINVAL", NULL, ON(FUSE | TMPFS, "4096", DIRECT_ANY, "text f => 'a{b*4096}{a*4095}'") },
	{ "open/direct-odd-address", "put f {a*8192}; open 0 f rw|direct", "misaligned 0 0 4096",
	  "EINVAL", NULL, ON(FUSE | TMPFS, "4096", DIRECT_ANY) },
	{ "open/direct-odd-read", "put f {a*8192}; open 0 f rd|direct", "pread 0 1 2", "EINVAL",
	  NULL, ON(FUSE | TMPFS, "'aa'", DIRECT_ANY) },
	{ "open/noatime-own", "a: put f x", "a: open 0 f rd|noatime", "0" },
	{ "open/noatime-another's", "put f x", "a: open 0 f rd|noatime", "EPERM" },
	{ "open/noatime-keeps-it", "put f x; utimens f 1 2; open 0 f rd|noatime; read 0 1",
	  "is f atime=1", "0" },
	{ "open/running-program-for-writing", "put f '#!/bin/sh{#0a}' 755", "open 0 f wr", "0" },
	{ "open/nonblock-of-file", "put f x", "open 0 f rd|nonblock", "0", "read 0 1 => 'x'" },
	{ "open/cloexec", "put f x", "open 0 f rd|cloexec", "0" },
	{ "open/noent-is-cached-and-made", "open 0 f rd => ENOENT; put f x", "open 0 f rd", "0" },
	{ "open/many-descriptors", "put f x; repeat 200 open 0 f rd; open 1 f rw", "write 1 y", "1",
	  "pread 0 0 9 => 'y'" },
	{ "open/empty-of-dirfd", "open 0 . path", "open 1 <0> rd", "ENOENT" },
};

/* --- each way of opening on each type --- */

enum target_type {
	T_ABSENT,
	T_REG,
	T_DIR,
	T_TOFILE,
	T_TODIR,
	T_DANGLING,
	T_FIFO,
	T_SOCK,
	T_CHR,
	T_TYPES
};

static const char *const type_names[T_TYPES] = {
	"absent", "reg", "dir", "to-file", "to-dir", "dangling", "fifo", "sock", "chr",
};

static const char *const type_scripts[T_TYPES] = {
	"",
	"put t abc",
	"mkdir t",
	"put f abc; symlink f t",
	"mkdir d; symlink d t",
	"symlink no t",
	"mkfifo t",
	"mknod t sock",
	"mknod t chr 666 1 3",
};

static const char *const accesses[] = { "rd", "wr", "rw" };

enum { CREAT = 1, EXCL = 2, TRUNC = 4, APPEND = 8, DIRECTORY = 16, NOFOLLOW = 32, OPATH = 64 };

static const struct flag_bit {
	unsigned bit;
	const char *name;
} flag_bits[] = {
	{ CREAT, "creat" },   { EXCL, "excl" },           { TRUNC, "trunc" },
	{ APPEND, "append" }, { DIRECTORY, "directory" }, { NOFOLLOW, "nofollow" },
	{ OPATH, "path" },
};

static const unsigned modes[] = {
	0,
	CREAT,
	CREAT | EXCL,
	TRUNC,
	APPEND,
	CREAT | TRUNC,
	CREAT | APPEND,
	TRUNC | APPEND,
	DIRECTORY,
	NOFOLLOW,
	DIRECTORY | NOFOLLOW,
	CREAT | NOFOLLOW,
	CREAT | EXCL | NOFOLLOW,
	TRUNC | NOFOLLOW,
	OPATH,
	OPATH | NOFOLLOW,
	OPATH | DIRECTORY,
	OPATH | CREAT,
};

static bool is_link(enum target_type type)
{
	return type == T_TOFILE || type == T_TODIR || type == T_DANGLING;
}

/* O_PATH takes everything that is there. */
static const char *want_of_path(enum target_type type, unsigned mode)
{
	if (type == T_ABSENT || (type == T_DANGLING && !(mode & NOFOLLOW)))
		return "ENOENT";
	if ((mode & DIRECTORY) && type != T_DIR && type != T_TODIR)
		return "ENOTDIR";
	return "0";
}

/* What the file behind all links gives. */
static const char *want_of_object(enum target_type type, unsigned access, unsigned mode)
{
	if ((mode & DIRECTORY) && type != T_DIR && type != T_TODIR)
		return "ENOTDIR";
	switch (type) {
	case T_DIR:
	case T_TODIR:
		return access || (mode & (CREAT | TRUNC)) ? "EISDIR" : "0";
	case T_SOCK:
		return "ENXIO";
	case T_CHR:
		return "EACCES"; /* mounted with nodev */
	case T_FIFO:
		return access == 1 ? "ENXIO" : "0"; /* nobody reads; opened with nonblock */
	default:
		return "0";
	}
}

static const char *want_of(enum target_type type, unsigned access, unsigned mode)
{
	bool creates = mode & CREAT;

	if (mode & OPATH)
		return want_of_path(type, mode);
	if (type == T_ABSENT)
		return creates ? "0" : "ENOENT";
	if (creates && (mode & EXCL))
		return "EEXIST";
	if (is_link(type) && (mode & NOFOLLOW))
		return mode & DIRECTORY ? "ENOTDIR" : "ELOOP";
	if (type == T_DANGLING)
		return creates ? "0" : "ENOENT";
	return want_of_object(type, access, mode);
}

static const char *flags_of(unsigned access, unsigned mode)
{
	char text[128];

	snprintf(text, sizeof(text), "%s", accesses[access]);
	for (size_t i = 0; i < COUNT(flag_bits); i++)
		if (mode & flag_bits[i].bit)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "|%s",
				 flag_bits[i].name);
	return text_of("%s", text);
}

/* What the library gives instead. */
static struct difference differ(enum target_type type, unsigned access, unsigned mode,
				const char *want)
{
	bool opens = strcmp(want, "0") == 0;

	if ((type == T_DIR || type == T_TODIR) && opens)
		return (struct difference){ LIBRARY, "EISDIR", LIBRARY_DIRS, "" };
	if ((type == T_FIFO || type == T_CHR) && !(mode & EXCL))
		return (struct difference){ LIBRARY, "ENXIO", LIBRARY_DEVICES, "" };
	if ((type == T_REG || type == T_TOFILE) && opens && access == 0 && (mode & TRUNC))
		return (struct difference){ LIBRARY, "0", LIBRARY_TRUNC, "is t size=3" };
	return (struct difference){ 0 };
}

static bool next_row(size_t n, struct row *ret)
{
	enum target_type type = (enum target_type)(n % T_TYPES);
	unsigned access = (unsigned)(n / T_TYPES % COUNT(accesses));
	size_t m = n / T_TYPES / COUNT(accesses);
	const char *flags;
	bool is_reg = type == T_REG || type == T_TOFILE;

	if (m >= COUNT(modes))
		return false;
	flags = flags_of(access, modes[m]);
	*ret = (struct row){
		.name = text_of("open/%s/%s", type_names[type], flags),
		.setup = type_scripts[type],
		.call = text_of("open 0 t %s%s", flags, type == T_FIFO ? "|nonblock" : ""),
		.want = want_of(type, access, modes[m]),
	};
	if (is_reg && strcmp(ret->want, "0") == 0 && (modes[m] & TRUNC) && !(modes[m] & OPATH))
		ret->after = "is t size=0";
	else if (is_reg)
		ret->after = "is t size=3";
	else if (type == T_DANGLING && (modes[m] & CREAT) && strcmp(ret->want, "0") == 0)
		ret->after = "is no type=reg size=0";
	ret->differences[0] = differ(type, access, modes[m], ret->want);
	return true;
}

const struct table open_table = { "open", rows, COUNT(rows), next_row, false };
