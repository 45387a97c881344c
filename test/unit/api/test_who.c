/* test_who.c - calls made for a user: the same is permitted as by the kernel.
 *
 * One small tree is made twice: in a directory of the system, where the thread takes on the user's
 * identity (setfsuid), and in a volume, where it acts for him. Random calls, with random owners, modes and
 * ACLs set in between, must have the same results, and leave the same behind. WHO_RUNS: how many of them.
 */
#include "api_unit.h"

#include <dirent.h>
#include <grp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/random.h"

#define ACL "system.posix_acl_access"
#define PATH_BYTES 32
#define REAL_BYTES 128
#define DIRS 4
#define FILES 4
#define USERS 3
#define GROUPS 3

static const char *const dirs[DIRS] = { "a", "b", "a/c", "a/c/d" };
static const char *const files[FILES] = { "f", "g", "h", "l" };

struct twin {
	struct stet_volume *vol;
	struct stet_random random;
	char root[64];
	bool acls; /* the system's directory has them */
	bool hard; /* and protects hard links as Debian does */
	struct stet_ll_who who;
	uint32_t groups[GROUPS];
	char text[256]; /* of the call, for messages */
};

static unsigned draw(struct twin *t, unsigned below)
{
	return (unsigned)stet_random_below(&t->random, below);
}

static const char *real(const struct twin *t, const char *path, char *buf)
{
	snprintf(buf, REAL_BYTES, "%s/%s", t->root, path);
	return buf;
}

/* As whom the kernel looks at the thread, and the library. */
static void become(struct twin *t, bool user)
{
	/* The raw call: only this thread. */
	assert_int_equal(syscall(SYS_setgroups, user ? t->who.group_count : 0, t->groups), 0);
	setfsgid(user ? t->who.gid : 0);
	setfsuid(user ? t->who.uid : 0);
	stet_ll_act_as(user ? &t->who : NULL);
}

static void draw_user(struct twin *t)
{
	static const uint32_t group[GROUPS] = { 3000, 3001, 3002 };

	t->who = (struct stet_ll_who){ .uid = 2000 + draw(t, USERS),
				       .gid = group[draw(t, GROUPS)] };
	for (unsigned i = 0; i < GROUPS; i++)
		if (draw(t, 3) == 0)
			t->groups[t->who.group_count++] = group[i];
	t->who.groups = t->groups;
}

static void draw_path(struct twin *t, char *ret)
{
	snprintf(ret, PATH_BYTES, "%s/%s", dirs[draw(t, DIRS)], files[draw(t, FILES)]);
}

static uint32_t draw_mode(struct twin *t)
{
	uint32_t mode = draw(t, 01000);

	mode |= draw(t, 2) ? 0700 : 0;
	mode |= draw(t, 6) ? 0 : S_ISVTX;
	mode |= draw(t, 5) ? 0 : S_ISGID;
	return mode | (draw(t, 8) ? 0 : S_ISUID);
}

/* A well-formed access ACL with a user, a group and a mask. */
static size_t draw_acl(struct twin *t, uint8_t *acl)
{
	const struct {
		uint16_t tag;
		uint32_t id;
	} entry[] = { { 1, UINT32_MAX },  { 2, 2000 + draw(t, USERS) },
		      { 4, UINT32_MAX },  { 8, 3000 + draw(t, GROUPS) },
		      { 16, UINT32_MAX }, { 32, UINT32_MAX } };
	size_t len = 4;

	memcpy(acl, "\2\0\0\0", 4);
	for (size_t i = 0; i < sizeof(entry) / sizeof(entry[0]); i++) {
		uint16_t perm = (uint16_t)draw(t, 8);

		memcpy(acl + len, &entry[i].tag, 2);
		memcpy(acl + len + 2, &perm, 2);
		memcpy(acl + len + 4, &entry[i].id, 4);
		len += 8;
	}
	return len;
}

/* Gives something in the tree another owner, mode or ACL, as root, on both sides. */
static void disturb(struct twin *t)
{
	struct stet_setattr attr = { .set = STET_SET_MODE | STET_SET_UID | STET_SET_GID,
				     .uid = 2000 + draw(t, USERS),
				     .gid = 3000 + draw(t, GROUPS) };
	char path[PATH_BYTES], buf[REAL_BYTES];
	uint8_t acl[64];
	struct stat st;

	if (draw(t, 2))
		snprintf(path, sizeof(path), "%s", dirs[draw(t, DIRS)]);
	else
		draw_path(t, path);
	if (lstat(real(t, path, buf), &st) || S_ISLNK(st.st_mode))
		return;
	attr.mode = draw_mode(t);
	if (S_ISDIR(st.st_mode) && draw(t, 3))
		attr.mode |= 0111;
	assert_int_equal(chown(buf, attr.uid, attr.gid), 0);
	assert_int_equal(chmod(buf, attr.mode), 0);
	OK(stet_setattrat(t->vol, NULL, STET_ROOT, path, 0, &attr));
	if (t->acls && draw(t, 3) == 0) {
		size_t len = draw_acl(t, acl);

		assert_int_equal(setxattr(buf, ACL, acl, len, 0), 0);
		OK(stet_setxattr(t->vol, NULL, STET_ROOT, path, 0, ACL, acl, len));
	}
}

/* --- calls: the errno value on each side --- */

static int error(long rc)
{
	return rc < 0 ? errno : 0;
}

struct result {
	int system, library;
};

static struct result call_open(struct twin *t, const char *path)
{
	static const int modes[] = { O_RDONLY, O_WRONLY, O_RDWR };
	int flags = modes[draw(t, 3)] | (draw(t, 3) ? 0 : O_CREAT);
	uint32_t mode = draw_mode(t);
	struct stet_file *file = NULL;
	struct result r;
	char buf[REAL_BYTES];

	if (flags & O_ACCMODE)
		flags |= draw(t, 4) ? 0 : O_TRUNC;
	snprintf(t->text, sizeof(t->text), "open(%s, 0%o, 0%o)", path, flags, mode);
	int fd = open(real(t, path, buf), flags, mode);
	r.system = error(fd);
	r.library = -stet_openat(t->vol, NULL, STET_ROOT, path, flags, mode, &file);
	if (r.library == EISDIR)
		r.system = EISDIR; /* the library does not open directories as files */
	if (fd >= 0 && file && (flags & O_ACCMODE) != O_RDONLY) {
		assert_int_equal(write(fd, "x", 1), 1);
		assert_int_equal(stet_pwrite(file, "x", 1, 0), 1);
	}
	if (fd >= 0)
		close(fd);
	stet_file_close(file);
	return r;
}

static struct result call_unlink(struct twin *t, const char *path)
{
	char buf[REAL_BYTES];
	struct result r;

	snprintf(t->text, sizeof(t->text), "unlink(%s)", path);
	r.system = error(unlink(real(t, path, buf)));
	r.library = -stet_unlinkat(t->vol, NULL, STET_ROOT, path, 0);
	return r;
}

static struct result call_rename(struct twin *t, const char *path)
{
	char from[REAL_BYTES], to[REAL_BYTES], other[PATH_BYTES];
	struct result r;

	draw_path(t, other);
	snprintf(t->text, sizeof(t->text), "rename(%s, %s)", path, other);
	r.system = error(rename(real(t, path, from), real(t, other, to)));
	r.library = -stet_renameat(t->vol, NULL, STET_ROOT, path, STET_ROOT, other, 0);
	return r;
}

static struct result call_link(struct twin *t, const char *path)
{
	char from[REAL_BYTES], to[REAL_BYTES], other[PATH_BYTES];
	struct result r = { 0 };

	draw_path(t, other);
	snprintf(t->text, sizeof(t->text), "link(%s, %s)", path, other);
	if (!t->hard)
		return r;
	r.system = error(link(real(t, path, from), real(t, other, to)));
	r.library = -stet_linkat(t->vol, NULL, STET_ROOT, path, STET_ROOT, other, 0);
	return r;
}

static struct result call_make(struct twin *t, const char *path)
{
	uint32_t mode = draw_mode(t);
	char buf[REAL_BYTES];
	struct result r;

	snprintf(t->text, sizeof(t->text), "mknod(%s, 0%o)", path, mode);
	switch (draw(t, 3)) {
	case 0:
		r.system = error(mknod(real(t, path, buf), S_IFREG | mode, 0));
		r.library = -stet_mknodat(t->vol, NULL, STET_ROOT, path, S_IFREG | mode, 0);
		break;
	case 1:
		r.system = error(symlink("f", real(t, path, buf)));
		r.library = -stet_symlinkat(t->vol, NULL, "f", STET_ROOT, path);
		break;
	default:
		r.system = error(mkdir(real(t, path, buf), 0755));
		r.library = -stet_mkdirat(t->vol, NULL, STET_ROOT, path, 0755);
		break;
	}
	return r;
}

static struct result call_rmdir(struct twin *t, const char *path)
{
	char buf[REAL_BYTES];
	struct result r;

	snprintf(t->text, sizeof(t->text), "rmdir(%s)", path);
	r.system = error(rmdir(real(t, path, buf)));
	r.library = -stet_unlinkat(t->vol, NULL, STET_ROOT, path, STET_AT_REMOVEDIR);
	return r;
}

static struct result call_attr(struct twin *t, const char *path)
{
	const struct timespec omit[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_NOW } };
	const struct timespec set[2] = { { .tv_sec = 5 }, { .tv_sec = 6 } };
	struct stet_setattr attr = { .mode = draw_mode(t),
				     .uid = draw(t, 2) ? UINT32_MAX : 2000 + draw(t, USERS),
				     .gid = 3000 + draw(t, GROUPS),
				     .atime_ns = 5000000000,
				     .mtime_ns = 6000000000 };
	char buf[REAL_BYTES];
	struct result r;

	real(t, path, buf);
	switch (draw(t, 5)) {
	case 0:
		attr.set = STET_SET_MODE;
		r.system = error(chmod(buf, attr.mode));
		break;
	case 1:
		attr.set = STET_SET_GID | (attr.uid == UINT32_MAX ? 0 : STET_SET_UID);
		r.system = error(chown(buf, attr.uid, attr.gid));
		break;
	case 2:
		attr.set = STET_SET_SIZE;
		attr.size = draw(t, 5000);
		r.system = error(truncate(buf, (off_t)attr.size));
		break;
	case 3:
		attr.set = STET_SET_ATIME | STET_SET_MTIME;
		r.system = error(utimensat(AT_FDCWD, buf, set, 0));
		break;
	default:
		attr.set = STET_SET_ATIME_NOW | STET_SET_MTIME_NOW;
		r.system = error(utimensat(AT_FDCWD, buf, omit, 0));
		break;
	}
	snprintf(t->text, sizeof(t->text), "setattr(%s, 0x%x, 0%o, %d, %u)", path, attr.set,
		 attr.mode, (int)attr.uid, attr.gid);
	r.library = -stet_setattrat(t->vol, NULL, STET_ROOT, path, 0, &attr);
	return r;
}

static struct result call_xattr(struct twin *t, const char *path)
{
	const char *name = draw(t, 3) && t->acls ? ACL : "user.x";
	uint8_t acl[64], was[256];
	size_t len = draw_acl(t, acl);
	char buf[REAL_BYTES];
	struct result r;

	real(t, path, buf);
	if (draw(t, 2)) {
		snprintf(t->text, sizeof(t->text), "setxattr(%s, %s)", path, name);
		r.system = error(setxattr(buf, name, acl, len, 0));
		r.library = -stet_setxattr(t->vol, NULL, STET_ROOT, path, 0, name, acl, len);
	} else {
		snprintf(t->text, sizeof(t->text), "getxattr(%s, %s)", path, name);
		r.system = error(getxattr(buf, name, was, sizeof(was)));
		ssize_t n = stet_getxattr(t->vol, NULL, STET_ROOT, path, 0, name, was, sizeof(was));
		r.library = n < 0 ? (int)-n : 0;
	}
	return r;
}

static struct result call_look(struct twin *t, const char *path)
{
	char buf[REAL_BYTES], dir[PATH_BYTES];
	struct stet_dir *it = NULL;
	struct stet_stat st;
	struct stat sys;
	struct result r;

	if (draw(t, 2)) {
		snprintf(t->text, sizeof(t->text), "stat(%s)", path);
		r.system = error(stat(real(t, path, buf), &sys));
		r.library = -stet_statat(t->vol, NULL, STET_ROOT, path, 0, &st);
		return r;
	}
	snprintf(dir, sizeof(dir), "%s/..", dirs[draw(t, DIRS)]);
	snprintf(t->text, sizeof(t->text), "opendir(%s)", dir);
	DIR *d = opendir(real(t, dir, buf));
	r.system = d ? 0 : errno;
	if (d)
		closedir(d);
	r.library = -stet_dir_open(t->vol, NULL, STET_ROOT, dir, NULL, &it);
	stet_dir_close(it);
	return r;
}

typedef struct result call_fn(struct twin *t, const char *path);

/* --- comparing --- */

static void compare_one(struct twin *t, const char *path)
{
	char buf[REAL_BYTES];
	struct stet_stat st;
	struct stat sys;
	int a = lstat(real(t, path, buf), &sys) ? errno : 0;
	int b = -stet_statat(t->vol, NULL, STET_ROOT, path, STET_AT_NOFOLLOW, &st);

	if (a != b || (!a && (sys.st_mode != st.mode || sys.st_uid != st.uid ||
			      sys.st_gid != st.gid || sys.st_nlink != st.nlink ||
			      (S_ISREG(st.mode) && (uint64_t)sys.st_size != st.size))))
		fail_msg("%s: %s is %d 0%o %u:%u %u here, %d 0%o %u:%u %u there", t->text, path, b,
			 st.mode, st.uid, st.gid, (unsigned)st.size, a, sys.st_mode, sys.st_uid,
			 sys.st_gid, (unsigned)sys.st_size);
}

static void compare(struct twin *t)
{
	char path[PATH_BYTES];

	for (int d = 0; d < DIRS; d++) {
		compare_one(t, dirs[d]);
		for (int f = 0; f < FILES; f++) {
			snprintf(path, sizeof(path), "%s/%s", dirs[d], files[f]);
			compare_one(t, path);
		}
	}
}

static void one_call(struct twin *t, unsigned long long round)
{
	static call_fn *const calls[] = { call_open, call_open,  call_unlink, call_rename,
					  call_link, call_make,  call_rmdir,  call_attr,
					  call_attr, call_xattr, call_look };
	char path[PATH_BYTES];
	struct result r;

	for (unsigned i = draw(t, 3); i > 0; i--)
		disturb(t);
	draw_user(t);
	draw_path(t, path);
	become(t, true);
	r = calls[draw(t, sizeof(calls) / sizeof(calls[0]))](t, path);
	become(t, false);
	if (r.system != r.library)
		fail_msg("call %llu, by %u:%u: %s: %s here, %s there", round, t->who.uid,
			 t->who.gid, t->text, strerror(r.library), strerror(r.system));
	compare(t);
}

/* --- the twins --- */

static void make_twins(struct twin *t, struct stet_volume *vol)
{
	const char *tmp = getenv("TMPDIR");
	char buf[REAL_BYTES];
	uint8_t acl[64];
	int protect = 0;
	FILE *f = fopen("/proc/sys/fs/protected_hardlinks", "r");

	*t = (struct twin){ .vol = vol };
	stet_random_seed(&t->random, 7);
	if (f && fscanf(f, "%d", &protect) == 1)
		t->hard = protect == 1;
	if (f)
		fclose(f);
	snprintf(t->root, sizeof(t->root), "%s/who-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(t->root));
	assert_int_equal(chmod(t->root, 0755), 0);
	for (int d = 0; d < DIRS; d++) {
		assert_int_equal(mkdir(real(t, dirs[d], buf), 0777), 0);
		assert_int_equal(chmod(buf, 0777), 0);
		OK(stet_mkdirat(vol, NULL, STET_ROOT, dirs[d], 0777));
	}
	t->acls = setxattr(real(t, "b", buf), ACL, acl, draw_acl(t, acl), 0) == 0;
	if (t->acls)
		assert_int_equal(removexattr(buf, ACL), 0);
	assert_int_equal(chmod(buf, 0777), 0);
}

static void remove_system_twin(const struct twin *t)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", t->root);
	assert_int_equal(system(command), 0);
}

static void as_the_kernel(void **state)
{
	const char *runs = getenv("WHO_RUNS");
	unsigned long long count = runs ? strtoull(runs, NULL, 10) : 20000;
	struct twin t;

	if (geteuid() != 0) {
		print_message("only root can take on users: left out\n");
		skip();
	}
	umask(0);
	make_twins(&t, ((struct unit_volume *)*state)->vol);
	for (unsigned long long i = 0; i < count; i++)
		one_call(&t, i);
	remove_system_twin(&t);
}

/* A number opens no door that the way there does not. */
static void numbers(void **state)
{
	struct stet_volume *vol = ((struct unit_volume *)*state)->vol;
	struct stet_ll_who who = { .uid = 2000, .gid = 3000 };
	struct stet_file *file;
	struct stet_txn *txn;
	struct stet_stat st;

	OK(stet_mkdirat(vol, NULL, STET_ROOT, "shut", 0700));
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "shut/in", 0777));
	unit_write(vol, NULL, "shut/in/f", "x");
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "open", 0777));
	uint64_t in = unit_ino(vol, NULL, "shut/in"), f = unit_ino(vol, NULL, "shut/in/f");
	uint64_t open = unit_ino(vol, NULL, "open");

	stet_ll_act_as(&who);
	FAILS(-EPERM, stet_begin(vol, STET_BEGIN_LOCKING, &txn)); /* readers would lock */
	FAILS(-EACCES, stet_statat(vol, NULL, in, "f", 0, &st));
	FAILS(-EACCES, stet_statat(vol, NULL, in, "", 0, &st));
	FAILS(-EACCES, stet_statat(vol, NULL, f, "", 0, &st));
	OK(stet_statat(vol, NULL, open, "", 0, &st));
	OK(stet_openat(vol, NULL, open, "mine", O_WRONLY | O_CREAT, 0600, &file));
	OK(stet_file_stat(file, &st));
	stet_ll_act_as(NULL);
	stet_file_close(file);
	assert_int_equal(st.uid, 2000);
	assert_int_equal(st.gid, 3000);
	OK(stet_statat(vol, NULL, f, "", 0, &st));
}

struct told {
	unsigned before, after;
};

static void watch(void *arg, enum stet_ll_phase phase, const struct stet_ll_touched *touched)
{
	struct told *told = arg;

	assert_true(touched->ino_count > 0);
	told->before += phase == STET_LL_BEFORE;
	told->after += phase == STET_LL_AFTER && touched->result == 0;
}

/* Plain operations for a user are told to the watch; those of the program are not. */
static void plain_calls_are_told(void **state)
{
	struct stet_volume *vol = ((struct unit_volume *)*state)->vol;
	struct stet_ll_who who = { .uid = 0 };
	struct told told = { 0 };
	struct stet_file *file;
	struct stet_txn *txn;
	struct stet_stat st;

	OK(stet_ll_watch(vol, watch, &told));
	unit_write(vol, NULL, "f", "abc");
	assert_int_equal(told.before, 0);
	stet_ll_act_as(&who);
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_RDWR, 0, &file));
	assert_int_equal(told.before, 0);
	assert_int_equal(stet_pwrite(file, "d", 1, 1), 1);
	assert_int_equal(told.before, 1);
	assert_int_equal(told.after, 1);
	assert_int_equal(stet_append(file, "e", 1), 1);
	OK(stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	FAILS(-EEXIST, stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	assert_int_equal(told.after, 3);
	stet_file_close(file);
	/* A transaction is told once, when it commits; a plain call waits for it. */
	OK(stet_begin(vol, STET_BEGIN_SNAPSHOT, &txn));
	OK(stet_mkdirat(vol, txn, STET_ROOT, "e", 0755));
	assert_int_equal(told.after, 3);
	OK(stet_commit(txn, 0));
	assert_int_equal(told.after, 4);
	OK(stet_statat(vol, NULL, STET_ROOT, "e", 0, &st));
	stet_ll_act_as(NULL);
	unit_expect(vol, NULL, "f", "adce");
	OK(stet_ll_watch(vol, NULL, NULL));
}

struct writing {
	struct stet_file *file;
	_Atomic bool done;
};

static void *write_for_a_user(void *arg)
{
	const struct stet_ll_who who = { .uid = 0 };
	struct writing *w = arg;

	stet_ll_act_as(&who);
	assert_int_equal(stet_pwrite(w->file, "b", 1, 0), 1);
	w->done = true;
	stet_ll_act_as(NULL);
	return NULL;
}

/* What a server's own user has open for writing, perhaps mapped, is not changed under him. */
static void what_is_open_is_left_alone(void **state)
{
	struct stet_volume *vol = ((struct unit_volume *)*state)->vol;
	struct stet_ll_lock *lock;
	struct writing w = { 0 };
	struct told told = { 0 };
	pthread_t thread;

	OK(stet_ll_watch(vol, watch, &told));
	unit_write(vol, NULL, "f", "abc");
	OK(stet_ll_open_lock(vol, NULL, unit_ino(vol, NULL, "f"), 0, 0, NULL, NULL, &lock, NULL));
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_RDWR, 0, &w.file));
	assert_int_equal(pthread_create(&thread, NULL, write_for_a_user, &w), 0);
	unit_sleep_ms(50);
	assert_false(w.done);
	unit_expect(vol, NULL, "f", "abc");
	stet_ll_close_lock(vol, lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	unit_expect(vol, NULL, "f", "bbc");
	stet_file_close(w.file);
	OK(stet_ll_watch(vol, NULL, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(as_the_kernel, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(numbers, unit_set_up, unit_tear_down),
		cmocka_unit_test_setup_teardown(what_is_open_is_left_alone, unit_set_up,
						unit_tear_down),
		cmocka_unit_test_setup_teardown(plain_calls_are_told, unit_set_up, unit_tear_down),
	};

	return cmocka_run_group_tests_name("api/who", tests, NULL, NULL);
}
