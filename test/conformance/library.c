/* library.c - see library.h. Permissions are not checked there, so users are not offered. The umask is
 * the caller's business: 022, as in the other targets. */
#include "library.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "acl.h"
#include "facts.h"
#include "stetfs.h"

#define BUFFER_BYTES (4u << 20)

static struct stet_volume *vol;
static uint64_t row_ino;
static mode_t mask;
static struct {
	struct stet_file *file; /* NULL: not open */
	uint64_t off;
	int flags;
} slots[SLOTS];
static struct stet_dir *dirs[SLOTS];
static char buffer[BUFFER_BYTES];

static void result_rc(struct result *ret, int64_t rc)
{
	if (rc < 0)
		result_error(ret, (int)-rc);
	else
		ret->value = rc;
}

/* --- volumes and rows --- */

bool library_open(const char *image, bool is_read_only)
{
	struct stet_open_options options = { .read_only = is_read_only };
	int rc = stet_open(image, &options, &vol);

	if (rc)
		fprintf(stderr, "%s: %s\n", image, strerror(-rc));
	return rc == 0;
}

bool library_close(void)
{
	int rc = stet_close(vol);

	if (rc)
		fprintf(stderr, "closing: %s\n", strerror(-rc));
	return rc == 0;
}

static int remove_below(void *arg, const struct stet_walk_entry *entry)
{
	const char *top = arg;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", top, *entry->path ? "/" : "", entry->path);
	return stet_unlinkat(vol, NULL, STET_ROOT, path, entry->post ? STET_AT_REMOVEDIR : 0);
}

bool library_begin_row(const char *name, bool is_new)
{
	struct stet_stat st;
	int rc = 0;

	mask = 022;
	if (is_new) {
		rc = stet_mkdirat(vol, NULL, STET_ROOT, name, 0777);
		if (rc == -EEXIST)
			rc = stet_walk(vol, NULL, STET_ROOT, name, STET_WALK_POST, remove_below,
				       (void *)(uintptr_t)name)
				     ?: stet_mkdirat(vol, NULL, STET_ROOT, name, 0777);
	}
	if (!rc)
		rc = stet_statat(vol, NULL, STET_ROOT, name, 0, &st);
	if (!rc)
		row_ino = st.ino;
	errno = -rc;
	return rc == 0;
}

void library_end_row(void)
{
	for (int i = 0; i < SLOTS; i++) {
		stet_file_close(slots[i].file);
		slots[i].file = NULL;
		stet_dir_close(dirs[i]);
		dirs[i] = NULL;
	}
}

/* --- files --- */

static const struct flag open_flags[] = {
	{ "rd", O_RDONLY },     { "wr", O_WRONLY },         { "rw", O_RDWR },
	{ "creat", O_CREAT },   { "excl", O_EXCL },         { "trunc", O_TRUNC },
	{ "append", O_APPEND }, { "nofollow", O_NOFOLLOW }, { 0 },
};

static bool fits_path(const char *path)
{
	return path[0] != '<';
}

static bool all_fit(struct call *call)
{
	for (size_t i = 0; i < call->count; i++)
		if (!fits_path(call->words[i].bytes))
			return false;
	return true;
}

static bool open_fits(struct call *call)
{
	int64_t flags;

	return all_fit(call) && find_flags(call->words[2].bytes, open_flags, &flags);
}

static int open_file(const char *path, int flags, mode_t mode, struct stet_file **ret)
{
	return stet_openat(vol, NULL, row_ino, path, flags, mode & ~mask, ret);
}

static void do_open(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);
	int flags = (int)word_flags(call, 2, open_flags);
	mode_t mode = call->count > 3 ? word_octal(call, 3) : 0666;
	struct stet_file *file;
	int rc;

	if (call->bad)
		return;
	rc = open_file(word_text(call, 1), flags, mode, &file);
	result_rc(ret, rc);
	if (rc)
		return;
	stet_file_close(slots[slot].file);
	slots[slot].file = file;
	slots[slot].off = 0;
	slots[slot].flags = flags;
}

static struct stet_file *file_word(struct call *call, size_t n)
{
	struct stet_file *ret = slots[word_slot(call, n)].file;

	if (!ret)
		call->bad = "not open";
	return ret;
}

static void do_close(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);

	(void)ret;
	stet_file_close(slots[slot].file);
	slots[slot].file = NULL;
}

static void do_put(struct call *call, struct result *ret)
{
	mode_t mode = call->count > 2 ? word_octal(call, 2) : 0644;
	struct stet_file *file;
	int rc = open_file(word_text(call, 0), O_WRONLY | O_CREAT | O_TRUNC, mode, &file);

	result_rc(ret, rc);
	if (rc)
		return;
	if (call->count > 1)
		result_rc(ret, stet_pwrite(file, call->words[1].bytes, call->words[1].len, 0));
	stet_file_close(file);
}

static void result_read(struct result *ret, ssize_t n)
{
	if (n < 0)
		result_rc(ret, n);
	else
		result_text(ret, buffer, (size_t)n);
}

static size_t length(struct call *call, size_t n)
{
	int64_t len = word_number(call, n);

	if (len < 0 || len > (int64_t)BUFFER_BYTES)
		call->bad = "too long";
	return call->bad ? 0 : (size_t)len;
}

static void do_read(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);
	size_t len = length(call, 1);
	ssize_t n;

	if (call->bad)
		return;
	n = stet_pread(file, buffer, len, slots[word_slot(call, 0)].off);
	if (n > 0)
		slots[word_slot(call, 0)].off += (uint64_t)n;
	result_read(ret, n);
}

static void do_pread(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);
	size_t len = length(call, 2);

	if (!call->bad)
		result_read(ret, stet_pread(file, buffer, len, (uint64_t)word_number(call, 1)));
}

static void do_write(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);
	int slot = word_slot(call, 0);
	struct stet_stat st;
	ssize_t n;

	if (call->bad)
		return;
	n = stet_pwrite(file, call->words[1].bytes, call->words[1].len, slots[slot].off);
	result_rc(ret, n);
	if (n > 0)
		slots[slot].off += (uint64_t)n;
	if (n > 0 && (slots[slot].flags & O_APPEND) && stet_file_stat(file, &st) == 0)
		slots[slot].off = st.size;
}

static bool offset_fits(struct call *call)
{
	int64_t off;

	return parse_number(call->words[1].bytes, &off) && off >= 0;
}

static void do_pwrite(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);

	if (!call->bad)
		result_rc(ret, stet_pwrite(file, call->words[2].bytes, call->words[2].len,
					   (uint64_t)word_number(call, 1)));
}

/* Only what has to do with holes: the rest is the caller's arithmetic. */
static bool seek_fits(struct call *call)
{
	return offset_fits(call) &&
	       (word_is(call, 2, "data") || word_is(call, 2, "hole") || word_is(call, 2, "set"));
}

static void do_seek(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);
	int slot = word_slot(call, 0);
	uint64_t off = (uint64_t)word_number(call, 1);
	int rc = 0;

	if (call->bad)
		return;
	if (!word_is(call, 2, "set"))
		rc = stet_seek(file, off,
			       word_is(call, 2, "data") ? STET_SEEK_DATA : STET_SEEK_HOLE, &off);
	if (!rc)
		slots[slot].off = off;
	result_rc(ret, rc ? rc : (int64_t)off);
}

static void do_ftruncate(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);

	if (!call->bad)
		result_rc(ret, stet_truncate(file, (uint64_t)word_number(call, 1)));
}

static const struct flag fallocate_modes[] = {
	{ "-", 0 },
	{ "keep", FALLOC_FL_KEEP_SIZE },
	{ "punch", FALLOC_FL_PUNCH_HOLE },
	{ "zero", FALLOC_FL_ZERO_RANGE },
	{ "collapse", FALLOC_FL_COLLAPSE_RANGE },
	{ "insert", FALLOC_FL_INSERT_RANGE },
	{ "unshare", FALLOC_FL_UNSHARE_RANGE },
	{ "bad", 0x4000 },
	{ 0 },
};

static bool fallocate_fits(struct call *call)
{
	int64_t off, len;

	return parse_number(call->words[2].bytes, &off) && off >= 0 &&
	       parse_number(call->words[3].bytes, &len) && len >= 0;
}

static void do_fallocate(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);
	int mode = (int)word_flags(call, 1, fallocate_modes);

	if (!call->bad)
		result_rc(ret, stet_fallocate(file, mode, (uint64_t)word_number(call, 2),
					      (uint64_t)word_number(call, 3)));
}

static bool copy_fits(struct call *call)
{
	return call->count == 5 && !word_is(call, 1, "-") && !word_is(call, 3, "-");
}

static void do_copy(struct call *call, struct result *ret)
{
	struct stet_file *from = file_word(call, 0);
	struct stet_file *to = file_word(call, 2);

	if (!call->bad)
		result_rc(ret, stet_copy_range(from, (uint64_t)word_number(call, 1), to,
					       (uint64_t)word_number(call, 3),
					       (uint64_t)word_number(call, 4)));
}

static bool fsync_fits(struct call *call)
{
	return call->count == 1;
}

static void do_fsync(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);

	if (!call->bad)
		result_rc(ret, stet_fsync(file));
}

static void do_text(struct call *call, struct result *ret)
{
	struct stet_file *file;
	int rc = open_file(word_text(call, 0), O_RDONLY, 0, &file);

	if (rc) {
		result_rc(ret, rc);
		return;
	}
	result_read(ret, stet_pread(file, buffer, BUFFER_BYTES, 0));
	stet_file_close(file);
}

static void do_truncate(struct call *call, struct result *ret)
{
	struct stet_setattr set = { .set = STET_SET_SIZE, .size = (uint64_t)word_number(call, 1) };

	result_rc(ret, stet_setattrat(vol, NULL, row_ino, word_text(call, 0), 0, &set));
}

/* --- names --- */

static void do_mkdir(struct call *call, struct result *ret)
{
	mode_t mode = call->count > 1 ? word_octal(call, 1) : 0755;

	result_rc(ret, stet_mkdirat(vol, NULL, row_ino, word_text(call, 0), mode & ~mask));
}

static void do_rmdir(struct call *call, struct result *ret)
{
	result_rc(ret, stet_unlinkat(vol, NULL, row_ino, word_text(call, 0), STET_AT_REMOVEDIR));
}

static void do_unlink(struct call *call, struct result *ret)
{
	result_rc(ret, stet_unlinkat(vol, NULL, row_ino, word_text(call, 0), 0));
}

static const struct flag node_types[] = {
	{ "reg", S_IFREG }, { "fifo", S_IFIFO }, { "sock", S_IFSOCK },
	{ "chr", S_IFCHR }, { "blk", S_IFBLK },  { 0 },
};

static bool mknod_fits(struct call *call)
{
	int64_t type;

	return all_fit(call) && find_flags(call->words[1].bytes, node_types, &type);
}

static void do_mknod(struct call *call, struct result *ret)
{
	mode_t mode = call->count > 2 ? word_octal(call, 2) : 0644;
	uint64_t dev = call->count > 4 ? (uint64_t)word_number(call, 3) << 32 |
						 (uint64_t)word_number(call, 4)
				       : 0;

	result_rc(ret, stet_mknodat(vol, NULL, row_ino, word_text(call, 0),
				    (mode_t)word_flags(call, 1, node_types) | (mode & ~mask), dev));
}

static void do_mkfifo(struct call *call, struct result *ret)
{
	mode_t mode = call->count > 1 ? word_octal(call, 1) : 0644;

	result_rc(ret, stet_mknodat(vol, NULL, row_ino, word_text(call, 0),
				    S_IFIFO | (mode & ~mask), 0));
}

static void do_symlink(struct call *call, struct result *ret)
{
	result_rc(ret, stet_symlinkat(vol, NULL, word_text(call, 0), row_ino, word_text(call, 1)));
}

static bool readlink_fits(struct call *call)
{
	return call->count == 1 && all_fit(call);
}

static void do_readlink(struct call *call, struct result *ret)
{
	result_read(ret,
		    stet_readlinkat(vol, NULL, row_ino, word_text(call, 0), buffer, BUFFER_BYTES));
}

static const struct flag link_flags[] = { { "-", 0 }, { "follow", STET_AT_FOLLOW }, { 0 } };

static bool link_fits(struct call *call)
{
	int64_t flags;

	return all_fit(call) &&
	       (call->count < 3 || find_flags(call->words[2].bytes, link_flags, &flags));
}

static void do_link(struct call *call, struct result *ret)
{
	unsigned flags = call->count > 2 ? (unsigned)word_flags(call, 2, link_flags) : 0;

	result_rc(ret, stet_linkat(vol, NULL, row_ino, word_text(call, 0), row_ino,
				   word_text(call, 1), flags));
}

static const struct flag rename_flags[] = {
	{ "-", 0 },
	{ "noreplace", STET_RENAME_NOREPLACE },
	{ "exchange", STET_RENAME_EXCHANGE },
	{ 0 },
};

static bool rename_fits(struct call *call)
{
	int64_t flags;

	return all_fit(call) &&
	       (call->count < 3 || find_flags(call->words[2].bytes, rename_flags, &flags));
}

static void do_rename(struct call *call, struct result *ret)
{
	unsigned flags = call->count > 2 ? (unsigned)word_flags(call, 2, rename_flags) : 0;

	result_rc(ret, stet_renameat(vol, NULL, row_ino, word_text(call, 0), row_ino,
				     word_text(call, 1), flags));
}

static void do_missing(struct call *call, struct result *ret)
{
	struct stet_stat st;
	int rc = stet_statat(vol, NULL, row_ino, word_text(call, 0), STET_AT_NOFOLLOW, &st);

	if (!rc)
		result_failed(ret, "%s is there", word_text(call, 0));
	else if (rc != -ENOENT)
		result_rc(ret, rc);
}

/* --- attributes --- */

static void facts_of(const struct stet_stat *st, struct facts *ret)
{
	*ret = (struct facts){ {
		[FACT_TYPE] = st->mode & S_IFMT,
		[FACT_MODE] = st->mode & 07777,
		[FACT_NLINK] = st->nlink,
		[FACT_UID] = st->uid,
		[FACT_GID] = st->gid,
		[FACT_SIZE] = (int64_t)st->size,
		[FACT_BLOCKS] = (int64_t)st->blocks,
		[FACT_INO] = (int64_t)st->ino,
		[FACT_RDEV] = (int64_t)makedev((unsigned)(st->rdev >> 32), (unsigned)st->rdev),
		[FACT_ATIME] = st->atime_ns,
		[FACT_MTIME] = st->mtime_ns,
		[FACT_CTIME] = st->ctime_ns,
		[FACT_BTIME] = st->btime_ns,
	} };
}

static bool look(const char *path, unsigned flags, struct facts *ret_facts, struct result *ret)
{
	struct stet_stat st;
	int rc = stet_statat(vol, NULL, row_ino, path, flags, &st);

	result_rc(ret, rc);
	if (!rc)
		facts_of(&st, ret_facts);
	return rc == 0;
}

static void do_is(struct call *call, struct result *ret)
{
	bool follows = strcmp(call->command->name, "is") == 0;
	struct facts facts;

	if (look(word_text(call, 0), follows ? 0 : STET_AT_NOFOLLOW, &facts, ret))
		facts_check(call, 1, &facts, ret);
}

static void do_isf(struct call *call, struct result *ret)
{
	struct stet_file *file = file_word(call, 0);
	struct stet_stat st;
	struct facts facts;
	int rc;

	if (call->bad)
		return;
	rc = stet_file_stat(file, &st);
	result_rc(ret, rc);
	if (rc)
		return;
	facts_of(&st, &facts);
	facts_check(call, 1, &facts, ret);
}

static void do_note(struct call *call, struct result *ret)
{
	struct facts facts;

	if (look(word_text(call, 1), STET_AT_NOFOLLOW, &facts, ret))
		facts_note(call, word_text(call, 0)[0], &facts);
}

static void do_tick(struct call *call, struct result *ret)
{
	struct timespec a_while = { 0, 2000000 };

	(void)call;
	(void)ret;
	nanosleep(&a_while, NULL);
}

static void do_umask(struct call *call, struct result *ret)
{
	(void)ret;
	mask = word_octal(call, 0);
}

static void do_chmod(struct call *call, struct result *ret)
{
	struct stet_setattr set = { .set = STET_SET_MODE, .mode = word_octal(call, 1) };

	result_rc(ret, stet_setattrat(vol, NULL, row_ino, word_text(call, 0), 0, &set));
}

static void do_chown(struct call *call, struct result *ret)
{
	bool follows = strcmp(call->command->name, "chown") == 0;
	struct stet_setattr set = { 0 };

	if (!word_is(call, 1, "-")) {
		set.set |= STET_SET_UID;
		set.uid = (uint32_t)word_number(call, 1);
	}
	if (!word_is(call, 2, "-")) {
		set.set |= STET_SET_GID;
		set.gid = (uint32_t)word_number(call, 2);
	}
	result_rc(ret, stet_setattrat(vol, NULL, row_ino, word_text(call, 0),
				      follows ? 0 : STET_AT_NOFOLLOW, &set));
}

static bool time_fits(struct call *call)
{
	return all_fit(call) && !word_is(call, 1, "bad") && !word_is(call, 2, "bad");
}

static void time_word(struct call *call, size_t n, unsigned set, unsigned set_now,
		      struct stet_setattr *attr, int64_t *ret_ns)
{
	if (word_is(call, n, "omit"))
		return;
	if (word_is(call, n, "now"))
		attr->set |= set_now;
	else if (facts_parse_time(word_text(call, n), ret_ns))
		attr->set |= set;
	else
		call->bad = "not a time";
}

static void do_utimens(struct call *call, struct result *ret)
{
	bool follows = strcmp(call->command->name, "utimens") == 0;
	struct stet_setattr attr = { 0 };

	time_word(call, 1, STET_SET_ATIME, STET_SET_ATIME_NOW, &attr, &attr.atime_ns);
	time_word(call, 2, STET_SET_MTIME, STET_SET_MTIME_NOW, &attr, &attr.mtime_ns);
	if (!call->bad)
		result_rc(ret, stet_setattrat(vol, NULL, row_ino, word_text(call, 0),
					      follows ? 0 : STET_AT_NOFOLLOW, &attr));
}

/* --- extended attributes --- */

static const struct flag xattr_flags[] = {
	{ "-", 0 },
	{ "create", STET_XATTR_CREATE },
	{ "replace", STET_XATTR_REPLACE },
	{ 0 },
};

/* Namespaces have a meaning only to a kernel: who may use which, and where. */
static bool xattr_fits(struct call *call)
{
	int64_t flags;

	return all_fit(call) &&
	       (strncmp(call->words[1].bytes, "user.", 5) == 0 ||
		strncmp(call->words[1].bytes, "system.posix_acl_", 17) == 0) &&
	       (call->count < 4 || find_flags(call->words[3].bytes, xattr_flags, &flags));
}

static unsigned nofollow(const struct call *call)
{
	return call->command->name[0] == 'l' && strncmp(call->command->name, "list", 4) != 0
		       ? STET_AT_NOFOLLOW
		       : 0;
}

static void do_setxattr(struct call *call, struct result *ret)
{
	unsigned flags = call->count > 3 ? (unsigned)word_flags(call, 3, xattr_flags) : 0;

	result_rc(ret, stet_setxattr(vol, NULL, row_ino, word_text(call, 0), flags | nofollow(call),
				     word_text(call, 1), call->words[2].bytes, call->words[2].len));
}

static void do_getxattr(struct call *call, struct result *ret)
{
	size_t cap = call->count > 2 ? (size_t)word_number(call, 2) : 65536;
	ssize_t n = stet_getxattr(vol, NULL, row_ino, word_text(call, 0), nofollow(call),
				  word_text(call, 1), buffer, cap);

	if (cap)
		result_read(ret, n);
	else
		result_rc(ret, n);
}

static void do_listxattr(struct call *call, struct result *ret)
{
	size_t cap = call->count > 1 ? (size_t)word_number(call, 1) : 65536;
	static char *names[4096];
	size_t count = 0;
	ssize_t n = stet_listxattr(vol, NULL, row_ino, word_text(call, 0), nofollow(call), buffer,
				   cap);

	if (n < 0 || !cap) {
		result_rc(ret, n);
		return;
	}
	for (char *at = buffer; at < buffer + n; at += strlen(at) + 1)
		if (count < COUNT(names))
			names[count++] = at;
	result_names(ret, names, count);
}

static void do_removexattr(struct call *call, struct result *ret)
{
	result_rc(ret, stet_removexattr(vol, NULL, row_ino, word_text(call, 0), nofollow(call),
					word_text(call, 1)));
}

static const char *acl_name(const struct call *call)
{
	return strchr(call->command->name, 'd') ? "system.posix_acl_default"
						: "system.posix_acl_access";
}

static void do_setfacl(struct call *call, struct result *ret)
{
	char value[ACL_BYTES_MAX];
	size_t len;

	if (!acl_parse(word_text(call, 1), value, &len))
		call->bad = "not an ACL";
	else
		result_rc(ret, stet_setxattr(vol, NULL, row_ino, word_text(call, 0), 0,
					     acl_name(call), value, len));
}

static void do_getfacl(struct call *call, struct result *ret)
{
	ssize_t n = stet_getxattr(vol, NULL, row_ino, word_text(call, 0), 0, acl_name(call), buffer,
				  BUFFER_BYTES);
	char text[ACL_TEXT_MAX];

	if (n < 0) {
		result_rc(ret, n);
		return;
	}
	acl_print(buffer, (size_t)n, text);
	result_text(ret, text, strlen(text));
}

/* --- listings --- */

static void take_names(struct stet_dir *dir, size_t most, struct result *ret)
{
	size_t count = 0, cap = 100000;
	char **names = calloc(cap, sizeof(*names));
	struct stet_dir_entry entry;
	int rc = 0;

	if (!names) {
		result_error(ret, ENOMEM);
		return;
	}
	while (count < most && count < cap && (rc = stet_dir_next(dir, &entry)) > 0)
		if ((names[count] = strdup(entry.name)))
			count++;
	if (rc < 0)
		result_rc(ret, rc);
	else
		result_names(ret, names, count);
	while (count)
		free(names[--count]);
	free(names);
}

static void do_list(struct call *call, struct result *ret)
{
	struct stet_dir *dir;
	int rc = stet_dir_open(vol, NULL, row_ino, word_text(call, 0), NULL, &dir);

	if (rc) {
		result_rc(ret, rc);
		return;
	}
	take_names(dir, SIZE_MAX, ret);
	stet_dir_close(dir);
}

static void do_opendir(struct call *call, struct result *ret)
{
	int slot = word_slot(call, 0);
	struct stet_dir *dir;
	int rc = stet_dir_open(vol, NULL, row_ino, word_text(call, 1), NULL, &dir);

	result_rc(ret, rc);
	if (rc)
		return;
	stet_dir_close(dirs[slot]);
	dirs[slot] = dir;
}

static void do_rest(struct call *call, struct result *ret)
{
	struct stet_dir *dir = dirs[word_slot(call, 0)];

	if (!dir)
		call->bad = "no open directory";
	else
		take_names(dir, call->count > 1 ? (size_t)word_number(call, 1) : SIZE_MAX, ret);
}

static const struct command commands[] = {
	{ "open", 3, 4, do_open, open_fits },
	{ "close", 1, 1, do_close, NULL },
	{ "put", 1, 3, do_put, all_fit },
	{ "read", 2, 2, do_read, NULL },
	{ "pread", 3, 3, do_pread, offset_fits },
	{ "write", 2, 2, do_write, NULL },
	{ "pwrite", 3, 3, do_pwrite, offset_fits },
	{ "seek", 3, 3, do_seek, seek_fits },
	{ "ftruncate", 2, 2, do_ftruncate, offset_fits },
	{ "truncate", 2, 2, do_truncate, offset_fits },
	{ "fallocate", 4, 4, do_fallocate, fallocate_fits },
	{ "copy", 5, 6, do_copy, copy_fits },
	{ "fsync", 1, 2, do_fsync, fsync_fits },
	{ "text", 1, 1, do_text, all_fit },
	{ "mkdir", 1, 2, do_mkdir, all_fit },
	{ "rmdir", 1, 1, do_rmdir, all_fit },
	{ "unlink", 1, 1, do_unlink, all_fit },
	{ "mknod", 2, 5, do_mknod, mknod_fits },
	{ "mkfifo", 1, 2, do_mkfifo, all_fit },
	{ "symlink", 2, 2, do_symlink, all_fit },
	{ "readlink", 1, 2, do_readlink, readlink_fits },
	{ "link", 2, 3, do_link, link_fits },
	{ "rename", 2, 3, do_rename, rename_fits },
	{ "missing", 1, 1, do_missing, all_fit },
	{ "is", 1, WORDS_MAX, do_is, all_fit },
	{ "isl", 1, WORDS_MAX, do_is, all_fit },
	{ "isf", 1, WORDS_MAX, do_isf, NULL },
	{ "note", 2, 2, do_note, all_fit },
	{ "tick", 0, 0, do_tick, NULL },
	{ "umask", 1, 1, do_umask, NULL },
	{ "chmod", 2, 2, do_chmod, all_fit },
	{ "chown", 3, 3, do_chown, all_fit },
	{ "lchown", 3, 3, do_chown, all_fit },
	{ "utimens", 3, 3, do_utimens, time_fits },
	{ "lutimens", 3, 3, do_utimens, time_fits },
	{ "setxattr", 3, 4, do_setxattr, xattr_fits },
	{ "lsetxattr", 3, 4, do_setxattr, xattr_fits },
	{ "getxattr", 2, 3, do_getxattr, xattr_fits },
	{ "lgetxattr", 2, 3, do_getxattr, xattr_fits },
	{ "listxattr", 1, 2, do_listxattr, all_fit },
	{ "removexattr", 2, 2, do_removexattr, xattr_fits },
	{ "lremovexattr", 2, 2, do_removexattr, xattr_fits },
	{ "setfacl", 2, 2, do_setfacl, all_fit },
	{ "setdfacl", 2, 2, do_setfacl, all_fit },
	{ "getfacl", 1, 1, do_getfacl, all_fit },
	{ "getdfacl", 1, 1, do_getfacl, all_fit },
	{ "llistxattr", 1, 2, do_listxattr, all_fit },
	{ "list", 1, 1, do_list, all_fit },
	{ "opendir", 2, 2, do_opendir, all_fit },
	{ "rest", 1, 1, do_rest, NULL },
	{ "readdir", 2, 2, do_rest, NULL },
	{ 0 },
};

const struct backend library_backend = { .commands = commands };
