/* waiting.c - who waits for a transaction, and that everybody gets on.
 *
 *	exercise_waiting [NAME...]	only these tests
 *	EXERCISE_WAITERS	opens that wait for one transaction (1000)
 *	EXERCISE_SECONDS	of the storm of renames, creates and commits (8)
 *	EXERCISE_MIB		mapped while it is committed (64)
 *
 * Only open(2) of an existing file waits. Whoever waits holds no thread of the daemon and no lock of
 * the kernel's that anybody needs who might end the wait; he can be interrupted, and gives up after
 * lock_timeout.
 */
#include "exercise.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK ((size_t)64 * 1024)
#define WAITERS_MAX 20000u

static double since(int64_t begun_ns)
{
	return (double)(ex_now_ns() - begun_ns) / EX_NS_PER_S;
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		ex_fail_errno("write %s", path);
	close(fd);
}

static void expect(const char *path, const char *text)
{
	char buf[64] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0 || read(fd, buf, sizeof(buf) - 1) < 0)
		ex_fail_errno("read %s", path);
	if (strcmp(buf, text) != 0)
		ex_fail("%s: \"%s\", wanted \"%s\"", path, buf, text);
	close(fd);
}

static const char *below(const struct stet_control_begun *begun, const char *name)
{
	static _Thread_local char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", begun->root, name);
	return path;
}

static void remount(const char *options)
{
	ex_umount();
	snprintf(ex_mount.options, sizeof(ex_mount.options), "%s", options);
	ex_do_mount();
}

static void start_thread(pthread_t *thread, void *(*work)(void *arg), void *arg)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (pthread_create(thread, &attr, work, arg) != 0)
		ex_fail_errno("no thread");
	pthread_attr_destroy(&attr);
}

/* Until the daemon has been asked so often. */
static void wait_requests(uint64_t count)
{
	for (unsigned i = 0; ex_counter("mount_requests") < count; i++) {
		if (i > 3000)
			ex_fail("the requests do not arrive");
		ex_sleep_ms(10);
	}
}

static void commit(struct stet_control *ctl, const struct stet_control_begun *begun)
{
	struct stet_control_end end;

	if (ex_commit(ctl, begun->id, &end) != 0)
		ex_fail("commit: %s: %s", strerror(-end.result), end.text);
}

/* --- a thousand that wait --- */

static _Atomic uint64_t got_through;

static void *open_and_look(void *arg)
{
	char buf[8] = "";
	int fd = open(ex_path("a"), O_RDWR);

	(void)arg;
	if (fd < 0)
		ex_fail_errno("an open that waited");
	if (pread(fd, buf, sizeof(buf) - 1, 0) != 3 || strcmp(buf, "two") != 0)
		ex_fail("an open that waited for the commit sees \"%s\"", buf);
	close(fd);
	got_through++;
	return NULL;
}

static void test_many(struct stet_control *ctl)
{
	uint64_t count = ex_env("EXERCISE_WAITERS", 1000), before;
	static pthread_t thread[WAITERS_MAX];
	struct stet_control_begun begun;
	int64_t start;

	if (count > WAITERS_MAX)
		ex_fail("at most %u waiters", WAITERS_MAX);
	put(ex_path("a"), "one");
	ex_begin(ctl, 0, &begun);
	put(below(&begun, "a"), "two");
	got_through = 0;
	before = ex_counter("mount_requests");
	for (uint64_t i = 0; i < count; i++)
		start_thread(&thread[i], open_and_look, NULL);
	wait_requests(before + count);
	ex_sleep_ms(100);
	if (got_through)
		ex_fail("%llu did not wait", (unsigned long long)got_through);
	expect(ex_path("a"), "one"); /* others are served: readers, and who makes something */
	put(ex_path("b"), "made meanwhile");
	start = ex_now_ns();
	commit(ctl, &begun);
	printf("  %llu waited; the commit took %.3f s, ", (unsigned long long)count, since(start));
	for (uint64_t i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
	printf("all got through after %.3f s\n", since(start));
	if (got_through != count)
		ex_fail("%llu of %llu", (unsigned long long)got_through, (unsigned long long)count);
}

/* --- signals --- */

static pid_t start_waiter(void)
{
	pid_t pid = fork();

	if (pid < 0)
		ex_fail_errno("fork");
	if (pid == 0) {
		if (open(ex_path("a"), O_RDWR) < 0)
			_exit(2);
		_exit(1); /* it did not wait */
	}
	return pid;
}

static void test_signals(struct stet_control *ctl)
{
	static const int signals[] = { SIGINT, SIGKILL, SIGTERM };
	enum { COUNT = 30 };
	struct stet_control_begun begun;
	pid_t pid[COUNT];
	uint64_t before;
	int64_t start;

	put(ex_path("a"), "one");
	ex_begin(ctl, 0, &begun);
	put(below(&begun, "a"), "two");
	before = ex_counter("mount_requests");
	for (unsigned i = 0; i < COUNT; i++)
		pid[i] = start_waiter();
	wait_requests(before + COUNT);
	ex_sleep_ms(100);
	start = ex_now_ns();
	for (unsigned i = 0; i < COUNT; i++)
		kill(pid[i], signals[i % 3]);
	for (unsigned i = 0; i < COUNT; i++) {
		int status = 0;

		waitpid(pid[i], &status, 0);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != signals[i % 3])
			ex_fail("waiter %u: status %x, wanted signal %d", i, status,
				signals[i % 3]);
	}
	if (since(start) > 3)
		ex_fail("ended by signals, but only after %.1f s", since(start));
	printf("  %d waiters ended by signals in %.3f s\n", COUNT, since(start));
	commit(ctl, &begun);
	expect(ex_path("a"), "two");
	/* None has left a lock behind. */
	ex_begin(ctl, 0, &begun);
	put(below(&begun, "a"), "three");
	commit(ctl, &begun);
	expect(ex_path("a"), "three");
}

/* --- lock_timeout --- */

static void *open_and_give_up(void *arg)
{
	int64_t start = ex_now_ns();
	int fd = open(ex_path("a"), O_RDWR);

	(void)arg;
	if (fd >= 0 || errno != EBUSY)
		ex_fail_errno("wanted EBUSY, got descriptor %d", fd);
	if (since(start) < 0.9 || since(start) > 4)
		ex_fail("gave up after %.2f s, lock_timeout is 1", since(start));
	return NULL;
}

static void test_timeout(struct stet_control *ctl)
{
	struct stet_control_begun begun;
	pthread_t thread[50];

	put(ex_path("a"), "one");
	ex_begin(ctl, 0, &begun);
	put(below(&begun, "a"), "two");
	for (unsigned i = 0; i < 50; i++)
		start_thread(&thread[i], open_and_give_up, NULL);
	for (unsigned i = 0; i < 50; i++)
		pthread_join(thread[i], NULL);
	expect(ex_path("a"), "one");
	commit(ctl, &begun);
	expect(ex_path("a"), "two");
	put(ex_path("a"), "six");
}

/* --- opens that wait for one transaction after the other --- */

static _Atomic bool queue_over;
static _Atomic uint64_t queue_opens, queue_busy, queue_reads, queue_commits;

/* Each commit gives the file a new node under them, as readers have the old one open. */
static void *open_on_and_on(void *arg)
{
	bool writes = arg != NULL;

	while (!queue_over) {
		int fd = open(ex_path("q"), writes ? O_RDWR : O_RDONLY);

		if (fd < 0 && !(writes && errno == EBUSY))
			ex_fail_errno("open for %s beside commits", writes ? "writing" : "reading");
		if (fd < 0) {
			queue_busy++;
			continue;
		}
		*(writes ? &queue_opens : &queue_reads) += 1;
		if (!writes)
			ex_sleep_ms(1);
		close(fd);
	}
	return NULL;
}

static void *change_on_and_on(void *arg)
{
	struct stet_control *ctl = ex_connect();

	(void)arg;
	while (!queue_over) {
		struct stet_control_begun begun;
		int fd;

		ex_begin(ctl, 0, &begun);
		fd = open(below(&begun, "q"), O_WRONLY | O_TRUNC);
		if (fd >= 0) {
			if (write(fd, "changed", 7) != 7)
				ex_fail_errno("write");
			close(fd);
			queue_commits += ex_commit(ctl, begun.id, NULL) == 0;
			continue;
		}
		if (errno != EBUSY && errno != EDEADLK)
			ex_fail_errno("open in a transaction");
		ex_abort(ctl, begun.id);
	}
	stet_control_close(ctl);
	return NULL;
}

static void test_queue(struct stet_control *ctl)
{
	enum {
		READERS = 6,
		WRITERS = 20,
		TRANSACTIONS = 3,
		ALL = READERS + WRITERS + TRANSACTIONS
	};
	pthread_t thread[ALL];

	put(ex_path("q"), "0");
	for (unsigned i = 0; i < ALL; i++)
		start_thread(&thread[i], i < TRANSACTIONS ? change_on_and_on : open_on_and_on,
			     i < TRANSACTIONS + READERS ? NULL : ctl);
	ex_sleep_ms(4000);
	queue_over = true;
	for (unsigned i = 0; i < ALL; i++)
		pthread_join(thread[i], NULL);
	printf("  %llu commits; opens: %llu for writing (%llu EBUSY), %llu for reading\n",
	       (unsigned long long)queue_commits, (unsigned long long)queue_opens,
	       (unsigned long long)queue_busy, (unsigned long long)queue_reads);
	if (!queue_commits || !queue_opens || !queue_reads)
		ex_fail("nothing was done of one kind");
}

/* --- whoever makes a file has it --- */

#define MADE 4u

static _Atomic bool making_over;
static _Atomic uint64_t made, opened_in_view;

/* Nobody else makes or removes this name: so the file can be made, and is then open. */
static void *make_on_and_on(void *arg)
{
	const char *path = ex_path("made%u", (unsigned)(uintptr_t)arg);

	while (!making_over) {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);

		if (fd < 0)
			ex_fail_errno("make %s", path);
		made++;
		close(fd);
		while (unlink(path) != 0)
			if (errno != EBUSY)
				ex_fail_errno("unlink %s", path);
	}
	return NULL;
}

/* Opens them for writing as soon as they are there. */
static void *open_what_is_made(void *arg)
{
	struct stet_control *ctl = ex_connect();

	(void)arg;
	while (!making_over) {
		struct stet_control_begun begun;

		ex_begin(ctl, 0, &begun);
		for (unsigned i = 0; i < MADE; i++) {
			char name[32];
			int fd;

			snprintf(name, sizeof(name), "made%u", i);
			fd = open(below(&begun, name), O_WRONLY);
			if (fd >= 0) {
				opened_in_view++;
				close(fd);
			} else if (errno != ENOENT && errno != EBUSY && errno != EDEADLK) {
				ex_fail_errno("open %s in a transaction", name);
			}
		}
		ex_abort(ctl, begun.id);
	}
	stet_control_close(ctl);
	return NULL;
}

static void test_made(struct stet_control *ctl)
{
	pthread_t thread[MADE + 3];

	(void)ctl;
	for (unsigned i = 0; i < MADE + 3; i++)
		start_thread(&thread[i], i < MADE ? make_on_and_on : open_what_is_made,
			     (void *)(uintptr_t)i);
	ex_sleep_ms(3000);
	making_over = true;
	for (unsigned i = 0; i < MADE + 3; i++)
		pthread_join(thread[i], NULL);
	printf("  %llu files made; %llu were opened in transactions\n", (unsigned long long)made,
	       (unsigned long long)opened_in_view);
	if (!made || !opened_in_view)
		ex_fail("nothing was done of one kind");
}

/* --- no lock of the kernel's --- */

#define STORM_FILES 8u

static _Atomic bool storm_over;
static _Atomic uint64_t renames, creates, commits, conflicts;

/* EBUSY: in the way of a transaction. Others: the other threads were faster. */
static bool is_expected(void)
{
	return errno == EBUSY || errno == ENOENT || errno == EEXIST;
}

static void *rename_to_and_fro(void *arg)
{
	struct ex_chance chance = { (uintptr_t)arg };

	while (!storm_over) {
		unsigned i = (unsigned)ex_below(&chance, STORM_FILES);
		bool back = ex_percent(&chance, 50);

		if (rename(ex_path("%s/r%u", back ? "d2" : "d1", i),
			   ex_path("%s/r%u", back ? "d1" : "d2", i)) == 0)
			renames++;
		else if (!is_expected())
			ex_fail_errno("rename");
	}
	return NULL;
}

static void *create_and_open(void *arg)
{
	struct ex_chance chance = { (uintptr_t)arg };

	while (!storm_over) {
		unsigned i = (unsigned)ex_below(&chance, STORM_FILES);
		const char *path = ex_path("%s/c%u", ex_percent(&chance, 50) ? "d1" : "d2", i);
		int fd = open(path, O_RDWR | O_CREAT, 0644);

		if (fd < 0 && !is_expected())
			ex_fail_errno("open %s", path);
		if (fd < 0)
			continue;
		creates++;
		if (write(fd, "x", 1) != 1)
			ex_fail_errno("write %s", path);
		close(fd);
		if (ex_percent(&chance, 30) && unlink(path) != 0 && !is_expected())
			ex_fail_errno("unlink %s", path);
	}
	return NULL;
}

/* Changes both directories, and files that others open and create. */
static void one_of_storm(struct stet_control *ctl, struct ex_chance *chance)
{
	struct stet_control_begun begun;
	bool lost = false;

	ex_begin(ctl, 0, &begun);
	for (unsigned i = 0; i < 4; i++) {
		unsigned file = (unsigned)ex_below(chance, STORM_FILES);
		const char *dir = ex_percent(chance, 50) ? "d1" : "d2";
		char name[32], other[PATH_MAX + 64];
		int fd;

		snprintf(name, sizeof(name), "%s/c%u", dir, file);
		fd = open(below(&begun, name), O_RDWR | O_CREAT, 0644);
		if (fd >= 0) {
			lost = write(fd, "yy", 2) != 2 || lost;
			close(fd);
		} else if (!is_expected() && errno != EDEADLK) {
			ex_fail_errno("open %s in a transaction", name);
		}
		snprintf(name, sizeof(name), "d1/r%u", file);
		snprintf(other, sizeof(other), "%s", below(&begun, name));
		snprintf(name, sizeof(name), "d2/r%u", file);
		if (rename(other, below(&begun, name)) != 0 && !is_expected() && errno != EDEADLK)
			ex_fail_errno("rename in a transaction");
	}
	if (ex_commit(ctl, begun.id, NULL) == 0 && !lost)
		commits++;
	else
		conflicts++;
}

static void *commit_on_and_on(void *arg)
{
	struct ex_chance chance = { (uintptr_t)arg };
	struct stet_control *ctl = ex_connect();

	while (!storm_over)
		one_of_storm(ctl, &chance);
	stet_control_close(ctl);
	return NULL;
}

static void test_storm(struct stet_control *ctl)
{
	static void *(*const works[])(void *arg) = { rename_to_and_fro, rename_to_and_fro,
						     create_and_open,   create_and_open,
						     create_and_open,   commit_on_and_on,
						     commit_on_and_on };
	pthread_t thread[sizeof(works) / sizeof(works[0])];
	uint64_t seed = ex_seed();
	unsigned seconds = (unsigned)ex_env("EXERCISE_SECONDS", 8);
	int64_t start;

	(void)ctl;
	if (mkdir(ex_path("d1"), 0755) != 0 || mkdir(ex_path("d2"), 0755) != 0)
		ex_fail_errno("mkdir");
	for (unsigned i = 0; i < STORM_FILES; i++)
		put(ex_path("d1/r%u", i), "r");
	for (unsigned i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		start_thread(&thread[i], works[i], (void *)(uintptr_t)(seed + i));
	ex_sleep_ms(seconds * 1000);
	storm_over = true;
	start = ex_now_ns();
	for (unsigned i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		pthread_join(thread[i], NULL);
	if (since(start) > 30)
		ex_fail("the last one ended after %.1f s", since(start));
	printf("  %llu renames, %llu opens, %llu commits, %llu conflicts in %u s\n",
	       (unsigned long long)renames, (unsigned long long)creates,
	       (unsigned long long)commits, (unsigned long long)conflicts, seconds);
	if (!renames || !creates || !commits)
		ex_fail("nothing was done of one kind");
}

/* --- a mapping that is stored to while it is committed --- */

#define PAGE 4096u

static void on_bus(int number)
{
	(void)number;
	_exit(0); /* the view has ended: as it should */
}

static pid_t start_storing(const char *path, size_t size, int ready)
{
	pid_t pid = fork();
	uint8_t *area;
	int fd;

	if (pid != 0)
		return pid;
	signal(SIGBUS, on_bus);
	fd = open(path, O_RDWR);
	area = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (area == MAP_FAILED)
		_exit(2);
	for (uint64_t round = 1;; round++) {
		for (size_t at = 0; at < size; at += PAGE)
			memcpy(area + at, &round, sizeof(round));
		if (round == 1 && write(ready, "x", 1) != 1)
			_exit(3);
	}
}

static void test_mapped(struct stet_control *ctl)
{
	size_t size = (size_t)ex_env("EXERCISE_MIB", 64) << 20;
	struct stet_control_begun begun;
	int ready[2], status = 0, fd;
	uint64_t stamp, highest = 0;
	int64_t start;
	pid_t pid;
	char c;

	if (pipe(ready) != 0)
		ex_fail_errno("pipe");
	put(ex_path("m"), "");
	if (truncate(ex_path("m"), (off_t)size) != 0)
		ex_fail_errno("truncate");
	ex_begin(ctl, 0, &begun);
	pid = start_storing(below(&begun, "m"), size, ready[1]);
	if (read(ready[0], &c, 1) != 1)
		ex_fail_errno("the process that stores");
	start = ex_now_ns();
	commit(ctl, &begun);
	printf("  commit with %zu MiB mapped and being stored to: %.3f s\n", size >> 20,
	       since(start));
	if (since(start) > 60)
		ex_fail("that took too long");
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		ex_fail("the process that stores: status %x", status);
	fd = open(ex_path("m"), O_RDONLY);
	for (size_t at = 0; at < size; at += PAGE) {
		if (pread(fd, &stamp, sizeof(stamp), (off_t)at) != sizeof(stamp))
			ex_fail_errno("read");
		if (stamp == 0)
			ex_fail("what was stored at %zu before the commit is not in it", at);
		highest = stamp > highest ? stamp : highest;
	}
	close(fd);
	close(ready[0]);
	close(ready[1]);
	printf("  stores up to round %llu are in it\n", (unsigned long long)highest);
}

/* --- fsync among signals --- */

static void on_alarm(int number)
{
	(void)number;
}

static void test_fsync(struct stet_control *ctl)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	int fd = open(ex_path("f"), O_RDWR | O_CREAT, 0644);

	(void)ctl;
	if (fd < 0)
		ex_fail_errno("open");
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; i < 200; i++) {
		while (pwrite(fd, &i, sizeof(i), 0) < 0)
			if (errno != EINTR)
				ex_fail_errno("pwrite");
		if (fsync(fd) != 0)
			ex_fail_errno("fsync %u, among signals", i);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	close(fd);
	printf("  200 times\n");
}

/* --- main --- */

static const struct {
	const char *name;
	void (*test)(struct stet_control *ctl);
	const char *options;
} tests[] = {
	{ "many", test_many, "lock_timeout=200" },
	{ "signals", test_signals, "lock_timeout=200" },
	{ "timeout", test_timeout, "lock_timeout=1" },
	{ "queue", test_queue, "lock_timeout=3" },
	{ "made", test_made, "lock_timeout=1" },
	{ "storm", test_storm, "lock_timeout=0.3" },
	{ "mapped", test_mapped, "lock_timeout=5" },
	{ "fsync", test_fsync, "lock_timeout=5" },
};

static bool is_chosen(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	ex_start("512M", "", "EXERCISE_SEED=%llu %s", (unsigned long long)ex_seed(), argv[0]);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		struct stet_control *ctl;
		int64_t start = ex_now_ns();

		if (!is_chosen(tests[i].name, argc, argv))
			continue;
		printf("%s\n", tests[i].name);
		remount(tests[i].options);
		ctl = ex_connect();
		tests[i].test(ctl);
		stet_control_close(ctl);
		printf("  ok, %.1f s\n", since(start));
		fflush(stdout);
	}
	ex_finish();
	return 0;
}
