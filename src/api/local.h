/* local.h - in this folder the calls of stetfs.h are those for handles of this process.
 *
 * stet_pread() here is stet_local_pread(), which knows what is behind the handle; so too where one calls the
 * other. The public ones are in dispatch.c: they look at the handle and call that, or what is in remote/. The
 * list is that of remote/calls.h. To be included before stetfs.h.
 */
#ifndef STET_API_LOCAL_H
#define STET_API_LOCAL_H

#define stet_close(...) stet_local_close(__VA_ARGS__)
#define stet_sync(...) stet_local_sync(__VA_ARGS__)
#define stet_statfs(...) stet_local_statfs(__VA_ARGS__)
#define stet_stats(...) stet_local_stats(__VA_ARGS__)
#define stet_clean(...) stet_local_clean(__VA_ARGS__)
#define stet_begin(...) stet_local_begin(__VA_ARGS__)
#define stet_begin_base(...) stet_local_begin_base(__VA_ARGS__)
#define stet_commit(...) stet_local_commit(__VA_ARGS__)
#define stet_freeze(...) stet_local_freeze(__VA_ARGS__)
#define stet_txns(...) stet_local_txns(__VA_ARGS__)
#define stet_changes(...) stet_local_changes(__VA_ARGS__)
#define stet_revert(...) stet_local_revert(__VA_ARGS__)
#define stet_openat(...) stet_local_openat(__VA_ARGS__)
#define stet_pread(...) stet_local_pread(__VA_ARGS__)
#define stet_pwrite(...) stet_local_pwrite(__VA_ARGS__)
#define stet_append(...) stet_local_append(__VA_ARGS__)
#define stet_truncate(...) stet_local_truncate(__VA_ARGS__)
#define stet_punch(...) stet_local_punch(__VA_ARGS__)
#define stet_fallocate(...) stet_local_fallocate(__VA_ARGS__)
#define stet_fsync(...) stet_local_fsync(__VA_ARGS__)
#define stet_seek(...) stet_local_seek(__VA_ARGS__)
#define stet_copy_range(...) stet_local_copy_range(__VA_ARGS__)
#define stet_file_stat(...) stet_local_file_stat(__VA_ARGS__)
#define stet_statat(...) stet_local_statat(__VA_ARGS__)
#define stet_setattrat(...) stet_local_setattrat(__VA_ARGS__)
#define stet_getxattr(...) stet_local_getxattr(__VA_ARGS__)
#define stet_setxattr(...) stet_local_setxattr(__VA_ARGS__)
#define stet_listxattr(...) stet_local_listxattr(__VA_ARGS__)
#define stet_removexattr(...) stet_local_removexattr(__VA_ARGS__)
#define stet_mkdirat(...) stet_local_mkdirat(__VA_ARGS__)
#define stet_mknodat(...) stet_local_mknodat(__VA_ARGS__)
#define stet_symlinkat(...) stet_local_symlinkat(__VA_ARGS__)
#define stet_readlinkat(...) stet_local_readlinkat(__VA_ARGS__)
#define stet_linkat(...) stet_local_linkat(__VA_ARGS__)
#define stet_renameat(...) stet_local_renameat(__VA_ARGS__)
#define stet_unlinkat(...) stet_local_unlinkat(__VA_ARGS__)
#define stet_dir_open(...) stet_local_dir_open(__VA_ARGS__)
#define stet_dir_next(...) stet_local_dir_next(__VA_ARGS__)
#define stet_conflict_text(...) stet_local_conflict_text(__VA_ARGS__)
#define stet_transaction_id(...) stet_local_transaction_id(__VA_ARGS__)
#define stet_file_ino(...) stet_local_file_ino(__VA_ARGS__)
#define stet_abort(...) stet_local_abort(__VA_ARGS__)
#define stet_file_close(...) stet_local_file_close(__VA_ARGS__)
#define stet_dir_close(...) stet_local_dir_close(__VA_ARGS__)

#endif
