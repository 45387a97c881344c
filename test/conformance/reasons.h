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
