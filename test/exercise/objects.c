/* objects.c - the things that commits change and readers look at. See isolation.h. */
#include "isolation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SET_NAMES 8u
#define BIG_SET_NAMES 300u
#define NAMES_BUF 700u /* bytes of names that one call may list: a few */

const struct object objects[OBJECTS] = {
	{ "w0", OBJECT_WRITTEN, 5 },   { "w1", OBJECT_WRITTEN, 8 },    { "w2", OBJECT_WRITTEN, 10 },
	{ "t0", OBJECT_TRUNCATED, 8 }, { "h0", OBJECT_LINKED, 8 },     { "r0", OBJECT_REPLACED, 5 },
	{ "r1", OBJECT_REPLACED, 10 }, { "log", OBJECT_LOG, 6 },       { "x0", OBJECT_XATTR, 8 },
	{ "l0", OBJECT_SYMLINK, 8 },   { "s0", OBJECT_SWAPPED, 8 },    { "d0", OBJECT_SET, 8 },
	{ "d1", OBJECT_SET, 16 },      { "big", OBJECT_BIG_SET, 500 },
};

static uint64_t seed;

void objects_init(uint64_t s)
{
	seed = s;
}

static uint64_t mix(uint64_t object, uint64_t version)
{
	struct ex_chance chance = { seed + object * UINT64_C(0x1000003) + version * 31 };

	ex_random(&chance);
	return ex_random(&chance);
}

bool changes_at(unsigned object, uint64_t version)
{
	return version == 0 || mix(object, version) % objects[object].one_in == 0;
}

uint64_t version_in(unsigned object, uint64_t version)
{
	while (!changes_at(object, version))
		version--;
	return version;
}

uint64_t next_change(unsigned object, uint64_t version, uint64_t limit)
{
	do {
		version++;
	} while (version < limit && !changes_at(object, version));
	return version;
}

/* --- contents --- */

size_t size_of(unsigned object, uint64_t version)
{
	static const size_t base[] = { 24, 1000, 6000, 70000 };
	uint64_t dice = mix(object + 1000, version);

	if (objects[object].kind == OBJECT_LOG) {
		size_t size = RECORD;

		while (version > 0) {
			version = version_in(object, version - 1);
			size += RECORD;
		}
		return size;
	}
	return base[dice % 4] + (dice >> 32) % 500;
}

size_t content_of(unsigned object, uint64_t version, uint8_t *ret)
{
	size_t size = size_of(object, version);
	uint64_t head[2] = { version, object };

	ex_fill(ret, mix(object + 2000, version), 0, size);
	memcpy(ret, head, sizeof(head));
	return size;
}

static uint64_t log_version(unsigned object, const uint8_t *content, size_t size, const char *how)
{
	uint64_t version = 0, wanted = 0;

	if (size % RECORD || size == 0)
		ex_fail("%s, %s: %zu bytes of records", objects[object].name, how, size);
	for (size_t at = 0; at < size; at += RECORD) {
		uint8_t record[RECORD];

		memcpy(&version, content + at, sizeof(version));
		ex_fill(record, wanted, 0, RECORD);
		memcpy(record, &wanted, sizeof(wanted));
		if (version != wanted || memcmp(record, content + at, RECORD) != 0)
			ex_fail("%s, %s: record at %zu of %zu is of version %llu, wanted %llu",
				objects[object].name, how, at, size, (unsigned long long)version,
				(unsigned long long)wanted);
		wanted = next_change(object, wanted, UINT64_MAX);
	}
	return version;
}

uint64_t content_version(unsigned object, const uint8_t *content, size_t size, const char *how)
{
	static _Thread_local uint8_t wanted[CONTENT_MAX];
	uint64_t head[2] = { 0 };
	size_t len;

	if (objects[object].kind == OBJECT_LOG)
		return log_version(object, content, size, how);
	if (size >= sizeof(head))
		memcpy(head, content, sizeof(head));
	if (size < sizeof(head) || head[1] != object || !changes_at(object, head[0]))
		ex_fail("%s, %s: %zu bytes that are no version of it: %llu %llu",
			objects[object].name, how, size, (unsigned long long)head[0],
			(unsigned long long)head[1]);
	len = content_of(object, head[0], wanted);
	if (len != size)
		ex_fail("%s, %s: version %llu with %zu bytes, wanted %zu", objects[object].name,
			how, (unsigned long long)head[0], size, len);
	for (size_t i = 0; i < size; i++)
		if (content[i] != wanted[i])
			ex_fail("%s, %s: version %llu is not whole at %zu of %zu",
				objects[object].name, how, (unsigned long long)head[0], i, size);
	return head[0];
}

/* --- making --- */

static void need(long rc, const char *what, const char *path)
{
	if (rc < 0)
		ex_fail_errno("%s %s", what, path);
}

static void write_file(const char *path, int flags, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);

	need(fd, "open for writing", path);
	if (write(fd, data, len) != (ssize_t)len)
		ex_fail_errno("write %s", path);
	if (!(flags & O_APPEND))
		need(ftruncate(fd, (off_t)len), "truncate", path);
	close(fd);
}

static void make_link_target(const char *root, unsigned object, uint64_t version)
{
	char path[PATH_MAX], fresh[PATH_MAX], target[32];

	snprintf(path, sizeof(path), "%s/%s", root, objects[object].name);
	snprintf(fresh, sizeof(fresh), "%s/%s.new", root, objects[object].name);
	snprintf(target, sizeof(target), "%llu", (unsigned long long)version);
	need(symlink(target, fresh), "symlink", fresh);
	need(rename(fresh, path), "rename", path);
}

static void make_swapped(const char *root, unsigned object, uint64_t version,
			 const uint8_t *content, size_t size)
{
	char path[PATH_MAX], other[PATH_MAX], file[PATH_MAX + 8];

	snprintf(path, sizeof(path), "%s/%s", root, objects[object].name);
	snprintf(other, sizeof(other), "%s/%s.other", root, objects[object].name);
	if (version == 0) {
		need(mkdir(path, 0755), "mkdir", path);
		need(mkdir(other, 0755), "mkdir", other);
		snprintf(file, sizeof(file), "%s/file", path);
		write_file(file, O_TRUNC, content, size);
	}
	snprintf(file, sizeof(file), "%s/file", other);
	write_file(file, O_TRUNC, content, size);
	need(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_EXCHANGE), "exchange", path);
}

static unsigned names_in(unsigned object)
{
	return objects[object].kind == OBJECT_BIG_SET ? BIG_SET_NAMES : SET_NAMES;
}

static void make_set(const char *root, unsigned object, uint64_t version)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", root, objects[object].name);
	if (version == 0)
		need(mkdir(path, 0755), "mkdir", path);
	for (unsigned i = 0; i < names_in(object); i++) {
		snprintf(path, sizeof(path), "%s/%s/%u-%llu", root, objects[object].name, i,
			 (unsigned long long)version);
		need(mknod(path, S_IFREG | 0644, 0), "mknod", path);
		if (version == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s/%u-%llu", root, objects[object].name, i,
			 (unsigned long long)version_in(object, version - 1));
		need(unlink(path), "unlink", path);
	}
}

static void make_xattr(const char *path, uint64_t version)
{
	int fd = open(path, O_RDONLY | O_CREAT, 0644);

	need(fd, "open", path);
	need(fsetxattr(fd, "user.version", &version, sizeof(version), 0), "setxattr", path);
	need(fchmod(fd, 0400 | (version & 0377)), "chmod", path);
	close(fd);
}

void object_make(const char *root, unsigned object, uint64_t version)
{
	static uint8_t content[CONTENT_MAX];
	char path[PATH_MAX], fresh[PATH_MAX];
	size_t size = objects[object].kind == OBJECT_LOG ? RECORD
							 : content_of(object, version, content);

	snprintf(path, sizeof(path), "%s/%s", root, objects[object].name);
	snprintf(fresh, sizeof(fresh), "%s/%s.new", root, objects[object].name);
	switch (objects[object].kind) {
	case OBJECT_WRITTEN:
		write_file(path, 0, content, size);
		break;
	case OBJECT_TRUNCATED:
		write_file(path, O_TRUNC, content, size);
		break;
	case OBJECT_LINKED:
		write_file(path, 0, content, size);
		if (version == 0)
			need(link(path, fresh), "link", fresh); /* its other name */
		break;
	case OBJECT_REPLACED:
		write_file(fresh, O_EXCL, content, size);
		need(rename(fresh, path), "rename", path);
		break;
	case OBJECT_LOG:
		ex_fill(content, version, 0, RECORD);
		memcpy(content, &version, sizeof(version));
		write_file(path, O_APPEND, content, RECORD);
		break;
	case OBJECT_XATTR:
		make_xattr(path, version);
		break;
	case OBJECT_SYMLINK:
		make_link_target(root, object, version);
		break;
	case OBJECT_SWAPPED:
		make_swapped(root, object, version, content, size);
		break;
	case OBJECT_SET:
	case OBJECT_BIG_SET:
		make_set(root, object, version);
		break;
	}
}

/* --- looking --- */

static void pause_a_little(struct ex_chance *chance)
{
	if (chance)
		usleep((useconds_t)ex_below(chance, 3000));
}

/* Several looks at one open file: all must show the same version. chance NULL: without pauses. */
static uint64_t look_at_file(int fd, unsigned object, struct ex_chance *chance)
{
	bool grows = objects[object].kind == OBJECT_LOG;
	static uint8_t buf[16 * CONTENT_MAX];
	uint64_t version, again;
	ssize_t n, half;
	struct stat st;

	half = pread(fd, buf, 50, 0);
	need(half, "read", objects[object].name);
	pause_a_little(chance);
	n = pread(fd, buf + half, sizeof(buf) - (size_t)half, half);
	need(n, "read", objects[object].name);
	if (half + n == sizeof(buf))
		ex_fail("%s is too long", objects[object].name);
	version = content_version(object, buf, (size_t)(half + n), "in two reads");
	if (!chance)
		return version;
	pause_a_little(chance);
	need(fstat(fd, &st), "fstat", objects[object].name);
	n = pread(fd, buf, sizeof(buf), 0);
	need(n, "read", objects[object].name);
	again = content_version(object, buf, (size_t)n, "again");
	if (again != version && !(grows && again > version))
		ex_fail("%s: one descriptor shows version %llu, then %llu", objects[object].name,
			(unsigned long long)version, (unsigned long long)again);
	if (st.st_size != n && !(grows && st.st_size < n))
		ex_fail("%s: fstat says %lld bytes, then read %zd", objects[object].name,
			(long long)st.st_size, n);
	return version;
}

/* A mapping keeps its version. */
static uint64_t look_at_mapping(int fd, unsigned object, struct ex_chance *chance)
{
	uint64_t version, again;
	struct stat st;
	uint8_t *area;

	need(fstat(fd, &st), "fstat", objects[object].name);
	area = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED)
		ex_fail_errno("mmap %s, %lld bytes", objects[object].name, (long long)st.st_size);
	version = content_version(object, area, (size_t)st.st_size, "mapped");
	pause_a_little(chance);
	again = content_version(object, area, (size_t)st.st_size, "mapped, later");
	if (again != version)
		ex_fail("%s: a mapping shows version %llu, then %llu", objects[object].name,
			(unsigned long long)version, (unsigned long long)again);
	munmap(area, (size_t)st.st_size);
	return version;
}

static uint64_t look_file(int dir, const char *path, unsigned object, struct ex_chance *chance)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	uint64_t version;

	need(fd, "open", path);
	if (chance && objects[object].kind != OBJECT_LOG && ex_percent(chance, 40))
		version = look_at_mapping(fd, object, chance);
	else
		version = look_at_file(fd, object, chance);
	close(fd);
	return version;
}

static uint64_t look_xattr(int dir, const char *path, unsigned object)
{
	uint64_t version = 0;
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	need(fd, "open", path);
	n = fgetxattr(fd, "user.version", &version, sizeof(version));
	if (n != sizeof(version))
		ex_fail_errno("getxattr %s: %zd", path, n);
	if (!changes_at(object, version))
		ex_fail("%s: no version of it: %llu", path, (unsigned long long)version);
	close(fd);
	return version;
}

static uint64_t look_symlink(int dir, const char *path, unsigned object)
{
	char target[32] = "";
	ssize_t n = readlinkat(dir, path, target, sizeof(target) - 1);
	uint64_t version;

	need(n, "readlink", path);
	version = strtoull(target, NULL, 10);
	if (!changes_at(object, version))
		ex_fail("%s: no version of it: %s", path, target);
	return version;
}

struct listed {
	bool seen[BIG_SET_NAMES];
	unsigned count;
	uint64_t version;
};

static void take_name(struct listed *l, unsigned object, const char *name)
{
	unsigned long long version;
	unsigned number;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return;
	if (sscanf(name, "%u-%llu", &number, &version) != 2 || number >= names_in(object))
		ex_fail("%s: a name that never was: %s", objects[object].name, name);
	if (l->count > 0 && version != l->version)
		ex_fail("%s: one listing with versions %llu and %llu", objects[object].name,
			(unsigned long long)l->version, version);
	if (l->seen[number])
		ex_fail("%s: %s is listed twice", objects[object].name, name);
	l->seen[number] = true;
	l->version = version;
	l->count++;
}

static uint64_t look_set(int dir, const char *path, unsigned object, struct ex_chance *chance)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct dirent64) char buf[NAMES_BUF];
	struct listed l = { .count = 0 };
	long n;

	need(fd, "open", path);
	while ((n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const struct dirent64 *e = (const struct dirent64 *)(buf + at);

			take_name(&l, object, e->d_name);
			at += e->d_reclen;
		}
		if (chance && ex_percent(chance, 20))
			pause_a_little(chance);
	}
	need(n, "list", path);
	if (l.count != names_in(object) || !changes_at(object, l.version))
		ex_fail("%s: %u names of version %llu, wanted %u", path, l.count,
			(unsigned long long)l.version, names_in(object));
	close(fd);
	return l.version;
}

static uint64_t look(int dir, const char *root, unsigned object, struct ex_chance *chance,
		     const char *end)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s%s", root, *root ? "/" : "", objects[object].name, end);
	switch (objects[object].kind) {
	case OBJECT_WRITTEN:
	case OBJECT_TRUNCATED:
	case OBJECT_LINKED:
	case OBJECT_REPLACED:
	case OBJECT_LOG:
	case OBJECT_SWAPPED:
		return look_file(dir, path, object, chance);
	case OBJECT_XATTR:
		return look_xattr(dir, path, object);
	case OBJECT_SYMLINK:
		return look_symlink(dir, path, object);
	case OBJECT_SET:
	case OBJECT_BIG_SET:
		return look_set(dir, path, object, chance);
	}
	return 0;
}

static const char *end_of(unsigned object, struct ex_chance *chance)
{
	if (objects[object].kind == OBJECT_SWAPPED)
		return "/file";
	return objects[object].kind == OBJECT_LINKED && chance && ex_percent(chance, 50) ? ".new"
											 : "";
}

uint64_t object_look(const char *root, unsigned object, struct ex_chance *chance)
{
	return look(AT_FDCWD, root, object, NULL, end_of(object, chance));
}

uint64_t object_look_slowly(const char *root, unsigned object, struct ex_chance *chance)
{
	return look(AT_FDCWD, root, object, chance, end_of(object, chance));
}

uint64_t object_look_at(int dir, unsigned object)
{
	return look(dir, "", object, NULL, end_of(object, NULL));
}
