/* exercise.c - what the exercisers share. See exercise.h. */
#include "exercise.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 16
#define UMOUNT_TRIES 10u
#define GONE_TRIES 2000u /* times 10 ms */

struct ex_mount ex_mount;
void (*ex_on_failure)(void);

static char again_line[512];
static pid_t main_pid;
static const char *program;

/* --- chance --- */

uint64_t ex_random(struct ex_chance *chance)
{
	uint64_t z = (chance->state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t ex_below(struct ex_chance *chance, uint64_t bound)
{
	return bound ? ex_random(chance) % bound : 0;
}

bool ex_percent(struct ex_chance *chance, unsigned percent)
{
	return ex_below(chance, 100) < percent;
}

void ex_fill(void *buf, uint64_t seed, uint64_t off, size_t len)
{
	uint8_t *to = buf;

	for (size_t i = 0; i < len;) {
		struct ex_chance word = { seed ^ ((off + i) / 8 * 8) };
		uint64_t value = ex_random(&word);
		size_t skip = (off + i) % 8;
		size_t n = 8 - skip < len - i ? 8 - skip : len - i;

		memcpy(to + i, (const uint8_t *)&value + skip, n);
		i += n;
	}
}

/* --- time and parameters --- */

int64_t ex_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * EX_NS_PER_S + ts.tv_nsec;
}

void ex_sleep_ms(unsigned ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };

	while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
		;
}

uint64_t ex_env(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	uint64_t value;

	if (!text || !*text)
		return otherwise;
	value = strtoull(text, &end, 0);
	if (*end) {
		fprintf(stderr, "%s: no number: %s\n", name, text);
		exit(2);
	}
	return value;
}

uint64_t ex_seed(void)
{
	return ex_env("EXERCISE_SEED", (uint64_t)time(NULL));
}

/* --- failing --- */

static void clear_away(bool failed)
{
	if (ex_mount.daemon)
		kill(ex_mount.daemon, SIGKILL);
	while (umount2(ex_mount.dir, MNT_DETACH) == 0)
		;
	if (failed && getenv("EXERCISE_KEEP")) {
		printf("kept: %s\n", ex_mount.folder);
		return;
	}
	unlink(ex_mount.image);
	rmdir(ex_mount.dir);
	rmdir(ex_mount.folder);
}

static _Noreturn void give_up(const char *text)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&once); /* for ever: one failure is told */
	printf("FAILED: %s\n", text);
	if (ex_on_failure)
		ex_on_failure();
	printf("again: %s\n", again_line);
	fflush(stdout);
	if (getpid() == main_pid)
		clear_away(true);
	_exit(1);
}

void ex_fail(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	give_up(text);
}

void ex_fail_errno(const char *format, ...)
{
	int err = errno;
	char text[1024];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0 && (size_t)n < sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n, ": %s", strerror(err));
	give_up(text);
}

static void on_bus_error(int number)
{
	(void)number; /* of this thread, in a mapping: it holds no lock of the C library */
	give_up("SIGBUS: a page of a mapping could not be read");
}

/* A request that never ends cannot be given up otherwise: the daemon is killed. */
static void *watch_time(void *arg)
{
	(void)arg;
	ex_sleep_ms((unsigned)ex_env("EXERCISE_LIMIT", 300) * 1000);
	give_up("it hangs, or takes too long (EXERCISE_LIMIT)");
}

/* --- the program --- */

static pid_t spawn(const char *const *words)
{
	pid_t pid = fork();

	if (pid < 0)
		ex_fail_errno("fork");
	if (pid == 0) {
		execv(program, (char *const *)(uintptr_t)words);
		fprintf(stderr, "%s: %s\n", program, strerror(errno));
		_exit(127);
	}
	return pid;
}

int ex_stetfs(const char *word, ...)
{
	const char *words[WORDS_MAX] = { program, word };
	size_t n = 2;
	int status;
	va_list args;
	pid_t pid;

	va_start(args, word);
	while (n < WORDS_MAX - 1 && (words[n] = va_arg(args, const char *)))
		n++;
	va_end(args);
	words[n] = NULL;
	fflush(stdout);
	pid = spawn(words);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			ex_fail_errno("waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void need(int code, const char *what)
{
	if (code)
		ex_fail("stetfs %s: exit code %d", what, code);
}

void ex_do_mount(void)
{
	struct stet_ll_server mount;

	if (ex_mount.options[0])
		need(ex_stetfs("mount", ex_mount.image, ex_mount.dir, "-o", ex_mount.options, NULL),
		     "mount");
	else
		need(ex_stetfs("mount", ex_mount.image, ex_mount.dir, NULL), "mount");
	if (stet_control_find_mount(ex_mount.dir, &mount) != 0)
		ex_fail("mounted, but no daemon is known");
	ex_mount.daemon = mount.pid;
}

/* Somebody who only asks all file systems how full they are makes it busy for a moment. */
void ex_umount(void)
{
	int code = ex_stetfs("umount", ex_mount.dir, NULL);

	for (unsigned tries = 0; code && tries < UMOUNT_TRIES; tries++) {
		ex_sleep_ms(200);
		code = ex_stetfs("umount", ex_mount.dir, NULL);
	}
	need(code, "umount");
	ex_mount.daemon = 0;
}

void ex_check(void)
{
	need(ex_stetfs("check", ex_mount.image, NULL), "check");
}

void ex_kill_only(void)
{
	if (kill(ex_mount.daemon, SIGKILL) != 0)
		ex_fail_errno("kill the daemon");
}

/* How many threads of it are left? */
static unsigned count_threads(pid_t pid)
{
	unsigned count = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	dir = opendir(path);
	if (!dir)
		return 0;
	for (struct dirent *e; (e = readdir(dir));)
		count += e->d_name[0] != '.';
	closedir(dir);
	return count;
}

/* Has it ended, with all its threads? A zombie counts as that. */
static bool is_gone(pid_t pid)
{
	char path[64], line[512];
	const char *state;
	FILE *f;

	if (count_threads(pid) > 1)
		return false;
	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	f = fopen(path, "re");
	if (!f)
		return true;
	line[0] = 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = 0;
	fclose(f);
	state = strrchr(line, ')');
	return !state || strlen(state) < 3 || state[2] == 'Z' || state[2] == 'X';
}

void ex_clear_dead(void)
{
	for (unsigned i = 0; i < GONE_TRIES && !is_gone(ex_mount.daemon); i++)
		ex_sleep_ms(10);
	if (umount2(ex_mount.dir, MNT_DETACH) != 0)
		ex_fail_errno("umount of the dead mount");
	ex_mount.daemon = 0;
}

void ex_kill(void)
{
	ex_kill_only();
	ex_clear_dead();
}

static void make_folder(void)
{
	const char *place = getenv("EXERCISE_DIR");
	int n = snprintf(ex_mount.folder, sizeof(ex_mount.folder), "%s/stet-exercise-XXXXXX",
			 place && *place ? place : "/tmp");

	if (n < 0 || (size_t)n >= sizeof(ex_mount.folder) || !mkdtemp(ex_mount.folder))
		ex_fail_errno("mkdtemp %s", ex_mount.folder);
	if (chmod(ex_mount.folder, 0755) != 0)
		ex_fail_errno("chmod %s", ex_mount.folder);
	snprintf(ex_mount.image, sizeof(ex_mount.image), "%s/volume", ex_mount.folder);
	snprintf(ex_mount.dir, sizeof(ex_mount.dir), "%s/mnt", ex_mount.folder);
	if (mkdir(ex_mount.dir, 0755) != 0)
		ex_fail_errno("mkdir %s", ex_mount.dir);
}

void ex_start(const char *size, const char *options, const char *again, ...)
{
	pthread_t thread;
	va_list args;

	program = getenv("STETFS");
	if (!program || access("/dev/fuse", R_OK | W_OK) != 0 || geteuid() != 0) {
		printf("needs STETFS, /dev/fuse and root\n");
		exit(EX_SKIP);
	}
	va_start(args, again);
	vsnprintf(again_line, sizeof(again_line), again, args);
	va_end(args);
	printf("%s\n", again_line);
	fflush(stdout);
	main_pid = getpid();
	signal(SIGBUS, on_bus_error);
	make_folder();
	snprintf(ex_mount.size, sizeof(ex_mount.size), "%s", size);
	snprintf(ex_mount.options, sizeof(ex_mount.options), "%s", options);
	need(ex_stetfs("mkfs", ex_mount.image, "--size", ex_mount.size, NULL), "mkfs");
	ex_do_mount();
	if (pthread_create(&thread, NULL, watch_time, NULL) != 0)
		ex_fail("no thread");
	pthread_detach(thread);
}

void ex_finish(void)
{
	if (ex_mount.daemon)
		ex_umount();
	ex_check();
	clear_away(false);
}

const char *ex_path(const char *format, ...)
{
	static _Thread_local char path[4][PATH_MAX];
	static _Thread_local unsigned next;
	char *ret = path[next++ % 4];
	int n = snprintf(ret, PATH_MAX, "%s/", ex_mount.dir);
	va_list args;

	va_start(args, format);
	vsnprintf(ret + n, PATH_MAX - (size_t)n, format, args);
	va_end(args);
	return ret;
}

/* --- transactions --- */

struct stet_control *ex_connect(void)
{
	struct stet_control *ctl;
	int rc = stet_control_open(ex_mount.dir, &ctl);

	if (rc)
		ex_fail("connect to the daemon: %s", strerror(-rc));
	return ctl;
}

void ex_begin(struct stet_control *ctl, unsigned flags, struct stet_control_begun *ret)
{
	int rc = stet_control_begin(ctl, 0, flags, ret);

	if (rc)
		ex_fail("begin: %s: %s", strerror(-rc), stet_control_why(ctl));
}

int ex_commit(struct stet_control *ctl, uint64_t id, struct stet_control_end *ret)
{
	struct stet_control_end end = { 0 };
	int rc = stet_control_commit(ctl, id, 0, &end);

	if (rc)
		ex_fail("commit: %s: %s", strerror(-rc), stet_control_why(ctl));
	if (ret)
		*ret = end;
	return end.result;
}

void ex_abort(struct stet_control *ctl, uint64_t id)
{
	int rc = stet_control_abort(ctl, id, NULL);

	if (rc)
		ex_fail("abort: %s: %s", strerror(-rc), stet_control_why(ctl));
}

struct counter {
	const char *name;
	uint64_t value;
	bool found;
};

static int see_counter(void *arg, const char *name, uint64_t value)
{
	struct counter *c = arg;

	if (strcmp(name, c->name) == 0) {
		c->value = value;
		c->found = true;
	}
	return 0;
}

uint64_t ex_counter(const char *name)
{
	struct counter c = { .name = name };
	struct stet_control *ctl = ex_connect();
	int rc = stet_control_stats(ctl, see_counter, &c);

	stet_control_close(ctl);
	if (rc || !c.found)
		ex_fail("no counter %s", name);
	return c.value;
}

/* --- children --- */

void ex_wait_all(const pid_t *pid, size_t count, const char *what)
{
	size_t failed = 0;

	for (size_t i = 0; i < count; i++) {
		int status = 0;

		while (waitpid(pid[i], &status, 0) < 0)
			if (errno != EINTR)
				ex_fail_errno("waitpid");
		failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	}
	if (failed)
		ex_fail("%zu of %zu processes failed (%s)", failed, count, what);
}
