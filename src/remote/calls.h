/* calls.h - the calls of stetfs.h that work on handles, once: so each exists for both kinds of handles.
 *
 * STET_CALLS(C) makes C(type, name, handle, other, error, parameters, arguments) of each that may fail: it
 * goes where `handle` is, and `other` (NULL: there is none) must be there too, or `error` is the result. STET_CALLS_PLAIN(C) are those
 * that cannot say that something was wrong, STET_CALLS_END(C) those of them that return nothing.
 * stet_<name> is the public call, stet_local_<name> and stet_remote_<name> what it does.
 */
#ifndef STET_REMOTE_CALLS_H
#define STET_REMOTE_CALLS_H

/* clang-format off */
#define STET_CALLS(C)                                                                            \
	C(int, close, vol, NULL, 0, (struct stet_volume *vol), (vol))                               \
	C(int, sync, vol, NULL, 0, (struct stet_volume *vol), (vol))                                \
	C(int, statfs, vol, NULL, 0, (struct stet_volume *vol, struct stet_statfs *ret), (vol, ret)) \
	C(int, stats, vol, NULL, 0, (struct stet_volume *vol, stet_stats_fn *fn, void *arg),        \
	  (vol, fn, arg))                                                                        \
	C(int, clean, vol, NULL, 0, (struct stet_volume *vol, uint32_t segments), (vol, segments))  \
	C(int, begin, vol, NULL, 0,                                                                 \
	  (struct stet_volume *vol, unsigned flags, struct stet_txn **ret_txn),                  \
	  (vol, flags, ret_txn))                                                                 \
	C(int, begin_base, txn, NULL, 0, (struct stet_txn *txn, struct stet_txn **ret_txn),         \
	  (txn, ret_txn))                                                                        \
	C(int, commit, txn, NULL, 0, (struct stet_txn *txn, unsigned flags), (txn, flags))          \
	C(int, freeze, txn, NULL, 0, (struct stet_txn *txn), (txn))                                 \
	C(int, lock_timeout, txn, NULL, 0, (struct stet_txn *txn, uint32_t timeout_ms),          \
	  (txn, timeout_ms))                                                                     \
	C(int, savepoint, txn, NULL, 0, (struct stet_txn *txn, uint64_t *ret_savepoint),         \
	  (txn, ret_savepoint))                                                                  \
	C(int, rollback_to, txn, NULL, 0, (struct stet_txn *txn, uint64_t savepoint),            \
	  (txn, savepoint))                                                                      \
	C(int, savepoint_release, txn, NULL, 0, (struct stet_txn *txn, uint64_t savepoint),      \
	  (txn, savepoint))                                                                      \
	C(int, txns, vol, NULL, 0, (struct stet_volume *vol, stet_txns_fn *fn, void *arg),          \
	  (vol, fn, arg))                                                                        \
	C(int, changes, txn, NULL, 0, (struct stet_txn *txn, stet_changes_fn *fn, void *arg),       \
	  (txn, fn, arg))                                                                        \
	C(int, revert, txn, NULL, 0,                                                                \
	  (struct stet_txn *txn, unsigned flags, const char *const *paths, size_t count,         \
	   char *why, size_t cap),                                                               \
	  (txn, flags, paths, count, why, cap))                                                  \
	C(int, openat, vol, txn, -EINVAL,                                                                 \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   int flags, mode_t mode, struct stet_file **ret_file),                                 \
	  (vol, txn, dir, path, flags, mode, ret_file))                                          \
	C(ssize_t, pread, file, NULL, 0,                                                            \
	  (struct stet_file *file, void *buf, size_t len, uint64_t off), (file, buf, len, off))  \
	C(ssize_t, pwrite, file, NULL, 0,                                                           \
	  (struct stet_file *file, const void *buf, size_t len, uint64_t off),                   \
	  (file, buf, len, off))                                                                 \
	C(ssize_t, append, file, NULL, 0, (struct stet_file *file, const void *buf, size_t len),    \
	  (file, buf, len))                                                                      \
	C(int, truncate, file, NULL, 0, (struct stet_file *file, uint64_t size), (file, size))      \
	C(int, punch, file, NULL, 0, (struct stet_file *file, uint64_t off, uint64_t len),          \
	  (file, off, len))                                                                      \
	C(int, fallocate, file, NULL, 0,                                                            \
	  (struct stet_file *file, int mode, uint64_t off, uint64_t len), (file, mode, off, len)) \
	C(int, fsync, file, NULL, 0, (struct stet_file *file), (file))                              \
	C(int, seek, file, NULL, 0,                                                                 \
	  (struct stet_file *file, uint64_t off, int what, uint64_t *ret_off),                   \
	  (file, off, what, ret_off))                                                            \
	C(int64_t, copy_range, from, to, -EXDEV,                                                         \
	  (struct stet_file *from, uint64_t from_off, struct stet_file *to, uint64_t to_off,     \
	   uint64_t len),                                                                        \
	  (from, from_off, to, to_off, len))                                                     \
	C(int, file_stat, file, NULL, 0, (struct stet_file *file, struct stet_stat *ret),           \
	  (file, ret))                                                                           \
	C(int, statat, vol, txn, -EINVAL,                                                                 \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   unsigned flags, struct stet_stat *ret),                                               \
	  (vol, txn, dir, path, flags, ret))                                                     \
	C(int, setattrat, vol, txn, -EINVAL,                                                              \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   unsigned flags, const struct stet_setattr *attr),                                     \
	  (vol, txn, dir, path, flags, attr))                                                    \
	C(ssize_t, getxattr, vol, txn, -EINVAL,                                                           \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   unsigned flags, const char *name, void *buf, size_t cap),                             \
	  (vol, txn, dir, path, flags, name, buf, cap))                                          \
	C(int, setxattr, vol, txn, -EINVAL,                                                               \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   unsigned flags, const char *name, const void *value, size_t len),                     \
	  (vol, txn, dir, path, flags, name, value, len))                                        \
	C(ssize_t, listxattr, vol, txn, -EINVAL,                                                          \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   unsigned flags, char *buf, size_t cap),                                               \
	  (vol, txn, dir, path, flags, buf, cap))                                                \
	C(int, removexattr, vol, txn, -EINVAL,                                                            \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   unsigned flags, const char *name),                                                    \
	  (vol, txn, dir, path, flags, name))                                                    \
	C(int, mkdirat, vol, txn, -EINVAL,                                                                \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   mode_t mode),                                                                         \
	  (vol, txn, dir, path, mode))                                                           \
	C(int, mknodat, vol, txn, -EINVAL,                                                                \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   mode_t mode, uint64_t rdev),                                                          \
	  (vol, txn, dir, path, mode, rdev))                                                     \
	C(int, symlinkat, vol, txn, -EINVAL,                                                              \
	  (struct stet_volume *vol, struct stet_txn *txn, const char *target, uint64_t dir,      \
	   const char *path),                                                                    \
	  (vol, txn, target, dir, path))                                                         \
	C(ssize_t, readlinkat, vol, txn, -EINVAL,                                                         \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   char *buf, size_t cap),                                                               \
	  (vol, txn, dir, path, buf, cap))                                                       \
	C(int, linkat, vol, txn, -EINVAL,                                                                 \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t from_dir, const char *from,   \
	   uint64_t to_dir, const char *to, unsigned flags),                                     \
	  (vol, txn, from_dir, from, to_dir, to, flags))                                         \
	C(int, renameat, vol, txn, -EINVAL,                                                               \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t from_dir, const char *from,   \
	   uint64_t to_dir, const char *to, unsigned flags),                                     \
	  (vol, txn, from_dir, from, to_dir, to, flags))                                         \
	C(int, unlinkat, vol, txn, -EINVAL,                                                               \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   unsigned flags),                                                                      \
	  (vol, txn, dir, path, flags))                                                          \
	C(int, dir_open, vol, txn, -EINVAL,                                                               \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   const struct stet_dir_filter *filter, struct stet_dir **ret_dir),                     \
	  (vol, txn, dir, path, filter, ret_dir))                                                \
	C(int, dir_next, it, NULL, 0, (struct stet_dir *it, struct stet_dir_entry *ret), (it, ret)) \
	C(int, table_open, vol, txn, -EINVAL,                                                    \
	  (struct stet_volume *vol, struct stet_txn *txn, uint64_t dir, const char *path,        \
	   int flags, mode_t mode, struct stet_table **ret_table),                               \
	  (vol, txn, dir, path, flags, mode, ret_table))                                         \
	C(ssize_t, get, table, txn, -EINVAL,                                                     \
	  (struct stet_table *table, struct stet_txn *txn, const void *key, size_t key_len,      \
	   void *buf, size_t cap, unsigned flags),                                               \
	  (table, txn, key, key_len, buf, cap, flags))                                           \
	C(int, put, table, txn, -EINVAL,                                                         \
	  (struct stet_table *table, struct stet_txn *txn, const void *key, size_t key_len,      \
	   const void *value, size_t value_len, unsigned flags),                                 \
	  (table, txn, key, key_len, value, value_len, flags))                                   \
	C(int, del, table, txn, -EINVAL,                                                         \
	  (struct stet_table *table, struct stet_txn *txn, const void *key, size_t key_len),     \
	  (table, txn, key, key_len))                                                            \
	C(int, count, table, txn, -EINVAL,                                                       \
	  (struct stet_table *table, struct stet_txn *txn, const struct stet_bounds *bounds,     \
	   uint64_t *ret_count),                                                                 \
	  (table, txn, bounds, ret_count))                                                       \
	C(int, cursor_open, table, txn, -EINVAL,                                                 \
	  (struct stet_table *table, struct stet_txn *txn, const struct stet_bounds *bounds,     \
	   struct stet_cursor **ret_cursor),                                                     \
	  (table, txn, bounds, ret_cursor))                                                      \
	C(int, cursor_next, cursor, NULL, 0,                                                     \
	  (struct stet_cursor *cursor, struct stet_record *ret), (cursor, ret))                  \
	C(int, cursor_seek, cursor, NULL, 0,                                                     \
	  (struct stet_cursor *cursor, const void *key, size_t key_len), (cursor, key, key_len))

#define STET_CALLS_PLAIN(C)                                                                      \
	C(size_t, conflict_text, txn, (struct stet_txn *txn, char *buf, size_t cap),             \
	  (txn, buf, cap))                                                                       \
	C(uint64_t, transaction_id, txn, (struct stet_txn *txn), (txn))                          \
	C(uint64_t, file_ino, file, (struct stet_file *file), (file))                            \
	C(uint64_t, table_ino, table, (struct stet_table *table), (table))

#define STET_CALLS_END(C)                                                                        \
	C(abort, txn, (struct stet_txn *txn), (txn))                                             \
	C(file_close, file, (struct stet_file *file), (file))                                    \
	C(dir_close, it, (struct stet_dir *it), (it))                                            \
	C(table_close, table, (struct stet_table *table), (table))                               \
	C(cursor_close, cursor, (struct stet_cursor *cursor), (cursor))
/* clang-format on */

#endif
