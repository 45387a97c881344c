/* isolation.c - what readers see while transactions are committed.
 *
 *	exercise_isolation
 *	EXERCISE_COMMITS	how many (10000)
 *	EXERCISE_READERS	processes that read (4)
 *
 * One process commits transactions, each of which changes some of a set of objects (isolation.h);
 * others look at them by path, by descriptors and directories that they hold, by mappings, and in
 * read-only views.
 *
 * I1. Each object is whole: of one version. One descriptor, or mapping, of a file whose bytes
 *     change shows one version for as long as it is held.
 * I2. Once a commit was answered, and once anybody has seen any part of it, whoever looks at
 *     anything from then on sees that commit, or a later one.
 * I3. What is always there is always found: no ENOENT, no ESTALE, no other failure.
 * I4. In a read-only view everything is as of one commit.
 */
#include "isolation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define READERS_MAX 64u
#define STAGE 2000u
#define READER_NICE 5 /* commits are what there should be many of */

/* Shared by all processes. */
struct board {
	_Atomic uint64_t begun; /* the commit that is being made */
	_Atomic uint64_t known; /* the latest of which somebody knows */
	_Atomic uint64_t looks, slow_looks, view_looks;
	_Atomic bool stop;
};

static struct board *board;

static void learn(uint64_t version)
{
	uint64_t known = board->known;

	while (known < version && !atomic_compare_exchange_weak(&board->known, &known, version))
		;
}

/* I2: seen by a look that began when `known` was known. */
static void check_version(unsigned object, uint64_t version, uint64_t known, const char *how)
{
	if (version > board->begun)
		ex_fail("%s, %s: version %llu before it was made", objects[object].name, how,
			(unsigned long long)version);
	if (version < version_in(object, known))
		ex_fail("%s, %s: version %llu, but commit %llu was known before, which had %llu",
			objects[object].name, how, (unsigned long long)version,
			(unsigned long long)known, (unsigned long long)version_in(object, known));
	learn(version);
}

/* --- readers --- */

static void read_by_path(struct ex_chance *chance)
{
	while (!board->stop) {
		unsigned object = (unsigned)ex_below(chance, OBJECTS);
		uint64_t known = board->known;

		check_version(object, object_look(ex_mount.dir, object, chance), known, "by path");
		board->looks++;
	}
}

static void read_slowly(struct ex_chance *chance)
{
	while (!board->stop) {
		unsigned object = (unsigned)ex_below(chance, OBJECTS);
		uint64_t known = board->known;

		check_version(object, object_look_slowly(ex_mount.dir, object, chance), known,
			      "slowly");
		board->slow_looks++;
	}
}

static void check_size(int dir, unsigned object)
{
	uint64_t known = board->known, version;
	struct stat st;

	if (objects[object].kind > OBJECT_REPLACED)
		return;
	if (fstatat(dir, objects[object].name, &st, 0) != 0)
		ex_fail_errno("stat %s", objects[object].name);
	version = version_in(object, known);
	while (version <= board->begun && size_of(object, version) != (size_t)st.st_size)
		version = next_change(object, version, board->begun + 1);
	if (version > board->begun)
		ex_fail("%s: %lld bytes, which no version from %llu on has", objects[object].name,
			(long long)st.st_size, (unsigned long long)known);
}

static void read_from_held(struct ex_chance *chance)
{
	int dir = open(ex_mount.dir, O_RDONLY | O_DIRECTORY);

	if (dir < 0 || chdir(ex_mount.dir) != 0)
		ex_fail_errno("open %s", ex_mount.dir);
	while (!board->stop) {
		unsigned object = (unsigned)ex_below(chance, OBJECTS);
		uint64_t known = board->known;

		check_version(object,
			      object_look_at(ex_percent(chance, 50) ? dir : AT_FDCWD, object),
			      known, "from a directory held");
		check_size(dir, object);
		board->looks++;
	}
}

/* I4: commits first .. last are those whose state it may be. */
static void read_in_view(struct stet_control *ctl, struct ex_chance *chance)
{
	uint64_t known = board->known, first = 0, last = UINT64_MAX;
	struct stet_control_begun begun;
	int rc = stet_control_begin(ctl, STET_BEGIN_SNAPSHOT | STET_BEGIN_READ_ONLY, 0, &begun);

	if (rc)
		ex_fail("begin, read-only: %s: %s", strerror(-rc), stet_control_why(ctl));
	for (unsigned object = 0; object < OBJECTS; object++) {
		uint64_t version = object_look_slowly(begun.root, object, chance);
		uint64_t next = next_change(object, version, board->begun + 1);

		check_version(object, version, known, "in a view");
		first = version > first ? version : first;
		last = next - 1 < last ? next - 1 : last;
		if (first > last)
			ex_fail("a view shows commit %llu, and %s of version %llu",
				(unsigned long long)first, objects[object].name,
				(unsigned long long)version);
	}
	ex_abort(ctl, begun.id);
	board->view_looks++;
}

static void read_in_views(struct ex_chance *chance)
{
	struct stet_control *ctl = ex_connect();

	while (!board->stop)
		read_in_view(ctl, chance);
	stet_control_close(ctl);
}

static const char *reader;

static void print_reader(void)
{
	printf("  by the reader %s; commit %llu is known, %llu is being made\n", reader,
	       (unsigned long long)board->known, (unsigned long long)board->begun);
}

static pid_t start_reader(unsigned number, uint64_t seed)
{
	static const struct {
		const char *name;
		void (*read)(struct ex_chance *chance);
	} kinds[] = {
		{ "by path", read_by_path },
		{ "that takes its time", read_slowly },
		{ "in directories held", read_from_held },
		{ "in views", read_in_views },
	};
	struct ex_chance chance = { seed };
	pid_t pid = fork();

	if (pid < 0)
		ex_fail_errno("fork");
	if (pid == 0) {
		errno = 0;
		if (nice(READER_NICE) == -1 && errno)
			ex_fail_errno("nice");
		reader = kinds[number % 4].name;
		ex_on_failure = print_reader;
		kinds[number % 4].read(&chance);
		_exit(0);
	}
	return pid;
}

/* --- the writer --- */

static void commit_one(struct stet_control *ctl, uint64_t version, struct ex_chance *chance)
{
	struct stet_control_begun begun;
	struct stet_control_end end;
	unsigned object = (unsigned)ex_below(chance, OBJECTS);
	int rc;

	ex_begin(ctl, 0, &begun);
	for (unsigned i = 0; i < OBJECTS; i++)
		if (changes_at(i, version))
			object_make(begun.root, i, version);
	board->begun = version;
	/* Most without a flush: what is seen does not depend on it. */
	rc = stet_control_commit(ctl, begun.id, version % 8 ? STET_COMMIT_NOSYNC : 0, &end);
	if (rc || end.result)
		ex_fail("commit %llu: %s: %s", (unsigned long long)version,
			strerror(rc ? -rc : -end.result), end.text);
	learn(version);
	check_version(object, object_look(ex_mount.dir, object, chance), version, "afterwards");
}

/* Readers that failed have said so: the writer need not go on. */
static bool reader_failed(const pid_t *pid, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		siginfo_t info = { 0 };

		if (waitid(P_PID, (id_t)pid[i], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
		    info.si_pid)
			return true;
	}
	return false;
}

static void commit_all(uint64_t commits, uint64_t readers, struct ex_chance *chance)
{
	struct stet_control *ctl = ex_connect();
	int64_t stage_ns = ex_now_ns();
	pid_t pid[READERS_MAX];
	uint64_t version;

	for (unsigned i = 0; i < readers; i++)
		pid[i] = start_reader(i, ex_random(chance));
	for (version = 1; version <= commits; version++) {
		commit_one(ctl, version, chance);
		if (version % STAGE == 0) {
			printf("  %llu commits, the last %u at %.0f a second\n",
			       (unsigned long long)version, STAGE,
			       (double)STAGE * EX_NS_PER_S / (double)(ex_now_ns() - stage_ns));
			fflush(stdout);
			stage_ns = ex_now_ns();
		}
		if (version % 64 == 0 && reader_failed(pid, (unsigned)readers))
			break;
	}
	board->stop = true;
	ex_wait_all(pid, readers, "readers");
	stet_control_close(ctl);
}

int main(int argc, char **argv)
{
	uint64_t seed = ex_seed(), commits = ex_env("EXERCISE_COMMITS", 10000);
	uint64_t readers = ex_env("EXERCISE_READERS", 4);
	struct ex_chance chance = { seed };
	int64_t begun;
	double seconds;

	(void)argc;
	if (readers > READERS_MAX) {
		fprintf(stderr, "at most %u readers\n", READERS_MAX);
		return 2;
	}
	ex_start("512M", "", "EXERCISE_SEED=%llu EXERCISE_COMMITS=%llu EXERCISE_READERS=%llu %s",
		 (unsigned long long)seed, (unsigned long long)commits, (unsigned long long)readers,
		 argv[0]);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED)
		ex_fail_errno("mmap");
	objects_init(seed);
	for (unsigned i = 0; i < OBJECTS; i++)
		object_make(ex_mount.dir, i, 0);
	begun = ex_now_ns();
	commit_all(commits, readers, &chance);
	seconds = (double)(ex_now_ns() - begun) / EX_NS_PER_S;
	printf("%llu commits in %.1f s, %.0f a second; looks: %llu, slow ones %llu, whole views "
	       "%llu\n",
	       (unsigned long long)commits, seconds, (double)commits / seconds,
	       (unsigned long long)board->looks, (unsigned long long)board->slow_looks,
	       (unsigned long long)board->view_looks);
	printf("opens held up: %llu, files replaced under readers: %llu\n",
	       (unsigned long long)ex_counter("mount_opens_parked"),
	       (unsigned long long)ex_counter("mount_nodes_replaced"));
	ex_finish();
	return 0;
}
