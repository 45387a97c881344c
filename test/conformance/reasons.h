/* reasons.h - why a target gives something else than ext4 (or ext4 than what is wanted). Included
 * again and again, with REASON() defined. */
REASON(NO_COLLAPSE, "the kernel's FUSE refuses COLLAPSE_RANGE, INSERT_RANGE and UNSHARE_RANGE")
REASON(NO_WHITEOUT, "whiteouts are for the upper layer of an overlay, which FUSE cannot be")
REASON(VIEWS_ARE_ONE_MOUNT, "to the kernel the views are one mount: it looks the name up before "
			    "the mount compares views")
REASON(LIBRARY_DOTS,
       "EBUSY of the library means a conflict: a path that does not end in a name is EINVAL there")
REASON(LIBRARY_EMPTY_PATH, "the library's empty path is the directory itself, as its header says")
REASON(LIBRARY_SLASH,
       "the library follows a link with a slash behind it, as POSIX has it; Linux does "
       "not where names change")
REASON(LIBRARY_ORDER, "two errors hold, and the library tells the other one")
REASON(LINUX_CREAT_SLASH,
       "Linux gives EISDIR for O_CREAT of a name with a slash behind it; the library "
       "ENOTDIR, or EEXIST with O_EXCL, as POSIX has it")
REASON(NO_TMPFILE, "libfuse 3.14 has no operation for O_TMPFILE")
REASON(DIRECT_ANY, "O_DIRECT asks for no alignment here")
REASON(NO_ATIME, "reading in a transaction changes nothing, so that it conflicts with nobody; nor "
		 "does the library's")
REASON(AT_THE_END, "a read at the end of a file, which gives nothing, does not get to the daemon")
REASON(LIBRARY_EBADF, "a handle opened for reading is EBADF to every call that writes")
REASON(LIBRARY_HANDLES, "a handle of the library may not be used after it was closed")
REASON(LIBRARY_APPEND_COPY, "the library appends a copy to a file that is open for appending")
REASON(LIBRARY_DEVICES, "the library opens regular files only")
REASON(LIBRARY_DIRS, "the library opens regular files only; stet_dir_open is for directories")
REASON(LIBRARY_TRUNC,
       "POSIX leaves O_TRUNC with O_RDONLY undefined; the library does nothing, Linux truncates")
REASON(EXT4_16T, "ext4 with blocks of 4 KiB ends at 16 TiB; tmpfs proves the row")
REASON(TMPFS_LACKS, "tmpfs does not do that, and POSIX does not ask for it")
REASON(LIBRARY_NO_FLAGS, "the library's call has no flags")
REASON(OTHER_KIND, "the other place of this target is another kind of file system")
REASON(LINUX_OVERFLOW,
       "Linux gives EINVAL where offset and length overflow; the library EFBIG, as POSIX has it")
REASON(LIBRARY_MODES,
       "the library takes the mode as it is: what a directory hands on is the mount's business")
REASON(LIBRARY_LISTINGS, "a listing of the library belongs to the directory as it was")
REASON(MORE_LINKS, "ext4 ends at 65,000 names of a file")
REASON(CHOWN_OF_NOTHING,
       "of a chown to no ids the kernel's FUSE does not say that set-id bits go; to the "
       "library it is nothing")
REASON(LIBRARY_SET_ID, "the mount takes set-id bits away; callers of the library may do everything")
REASON(LIBRARY_XATTR_FLAGS, "both flags together have no meaning in the library")
REASON(LIBRARY_NAMESPACES, "which namespace goes with which type is for the kernel to say")
REASON(LIBRARY_READ_ONLY,
       "a read-only volume refuses what may change it before it looks closer; opening for "
       "writing alone changes nothing")
REASON(VIEW_READ_ONLY,
       "the transaction is read-only, not the mount: the kernel looks names up, and answers "
       "access(2), before the mount is asked")
REASON(LIBRARY_UMASK, "the umask is the caller's business there")
REASON(ONE_IS_ENOUGH, "the next row makes more of them")
