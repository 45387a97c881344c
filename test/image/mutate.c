/* mutate.c - thousands of mutations of an image: an error or right data; never a crash, a hang or wrong data.
 *
 *	MUTATIONS     how many (2000)
 *	MUTATE_SEED   the first one's number (1); each is repeated by its number
 *	MUTATE_JOBS   processes (as many as processors, at most 4)
 *	MUTATE_PRINT  1: what is done and what comes of it; 2: why, too
 *	MUTATE_FULL   1: each is also written to and goes through the public library, not only every 4th and 16th
 *
 * M1. Mutations are judged in child processes, so that a crash or a hang costs one of them. The number at hand
 *     lies in shared memory; the parent prints the line that repeats it, and goes on.
 * M2. Each has ALARM_SECONDS, and MEMORY_BYTES more than the process had before.
 */
#include "base.h"
#include "judge.h"
#include "mutation.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOBS_MAX 64u
#define BAD_MAX 20u
#define MEMORY_BYTES (UINT64_C(512) << 20)

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED
#define ALARM_SECONDS 60u
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=256:detect_leaks=1";
}
#else
#define ALARM_SECONDS 10u
#endif

struct shared {
	_Atomic uint64_t next;                  /* how many were begun */
	_Atomic uint64_t at[JOBS_MAX];          /* number at hand */
	_Atomic uint64_t verdicts[2][VERDICTS]; /* damage, hostile */
	_Atomic uint64_t written, write_opened;
	_Atomic uint64_t bad;
};

static struct base *bases[BASE_COUNT];
static struct shared *shared;
static uint64_t first_seed, count;
static unsigned print_level;
static bool full;
static const char *program;

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

static void print_repeat(uint64_t seed)
{
	fprintf(stderr, "  again: MUTATE_SEED=%llu MUTATIONS=1 MUTATE_PRINT=2 %s\n",
		(unsigned long long)seed, program);
}

static void run_one(uint64_t seed)
{
	static const char *const name[VERDICTS] = { "refused", "reported", "right", "changed",
						    "BAD" };
	struct mutation *m = mutation_create(bases, seed);
	struct judgement j;

	if (print_level)
		printf("%llu %s%s", (unsigned long long)seed, m->what, m->free ? " (free)" : "");
	fflush(stdout);
	judge(m, full || seed % 16 == 1, full || seed % 4 == 0, &j);
	if (print_level)
		printf(": %s%s%s\n", name[j.verdict], print_level > 1 ? ": " : "",
		       print_level > 1 ? j.why : "");
	shared->verdicts[m->fixed][j.verdict]++;
	shared->written += j.written;
	shared->write_opened += j.write_opened;
	if (j.verdict == VERDICT_BAD) {
		shared->bad++;
		fprintf(stderr, "mutation %llu: %s: %s\n", (unsigned long long)seed, m->what,
			j.why);
		print_repeat(seed);
	}
	mutation_destroy(m);
}

/* --- processes --- */

/* M2 */
static void limit_memory(void)
{
#ifndef SANITIZED
	struct rlimit limit;
	unsigned long long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%llu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	if (pages == 0)
		return;
	limit.rlim_cur = limit.rlim_max = pages * (unsigned long long)sysconf(_SC_PAGESIZE) +
					  MEMORY_BYTES;
	if (setrlimit(RLIMIT_AS, &limit))
		perror("setrlimit");
#endif
}

static void work(unsigned job)
{
	limit_memory();
	for (;;) {
		uint64_t no = shared->next++;

		if (no >= count || shared->bad >= BAD_MAX)
			return;
		shared->at[job] = first_seed + no;
		alarm(ALARM_SECONDS);
		run_one(first_seed + no);
		alarm(0);
	}
}

static pid_t start(unsigned job)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(1);
	}
	if (pid == 0) {
		work(job);
		for (unsigned i = 0; i < BASE_COUNT; i++)
			base_destroy(bases[i]);
		exit(0);
	}
	return pid;
}

/* M1. Whether the process that ended is to be replaced. */
static bool note_end(unsigned job, int status)
{
	uint64_t seed = shared->at[job];

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	shared->bad++;
	if (WIFSIGNALED(status))
		fprintf(stderr, "mutation %llu: %s\n", (unsigned long long)seed,
			WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
	else
		fprintf(stderr, "mutation %llu: exit %d\n", (unsigned long long)seed,
			WEXITSTATUS(status));
	print_repeat(seed);
	return shared->next < count && shared->bad < BAD_MAX;
}

static void run_all(unsigned jobs)
{
	pid_t pid[JOBS_MAX] = { 0 };
	unsigned running = jobs;

	for (unsigned i = 0; i < jobs; i++)
		pid[i] = start(i);
	while (running > 0) {
		int status;
		pid_t ended = wait(&status);

		if (ended < 0 && errno == EINTR)
			continue;
		for (unsigned i = 0; i < jobs; i++) {
			if (pid[i] != ended)
				continue;
			pid[i] = 0;
			if (note_end(i, status))
				pid[i] = start(i);
			else
				running--;
		}
	}
}

static void print_counts(void)
{
	static const char *const title[2] = { "damaged", "hostile" };

	for (int k = 0; k < 2; k++)
		printf("%s: %llu refused, %llu reported, %llu right, %llu changed, %llu bad\n",
		       title[k], (unsigned long long)shared->verdicts[k][VERDICT_REFUSED],
		       (unsigned long long)shared->verdicts[k][VERDICT_REPORTED],
		       (unsigned long long)shared->verdicts[k][VERDICT_RIGHT],
		       (unsigned long long)shared->verdicts[k][VERDICT_CHANGED],
		       (unsigned long long)shared->verdicts[k][VERDICT_BAD]);
	printf("written to: %llu of %llu tried; failures: %llu\n",
	       (unsigned long long)shared->write_opened, (unsigned long long)shared->written,
	       (unsigned long long)shared->bad);
}

int main(int argc, char **argv)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t jobs;

	program = argv[argc > 0 ? 0 : argc];
	first_seed = number_of("MUTATE_SEED", 1);
	count = number_of("MUTATIONS", 2000);
	print_level = (unsigned)number_of("MUTATE_PRINT", 0);
	full = number_of("MUTATE_FULL", 0) != 0;
	jobs = number_of("MUTATE_JOBS", processors < 1   ? 1
					: processors > 4 ? 4
							 : (uint64_t)processors);
	jobs = jobs < 1 ? 1 : jobs > JOBS_MAX ? JOBS_MAX : jobs;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	for (unsigned i = 0; i < BASE_COUNT; i++)
		bases[i] = base_build(i);
	if (count == 1)
		run_one(first_seed); /* for a debugger */
	else
		run_all((unsigned)jobs);
	print_counts();
	for (unsigned i = 0; i < BASE_COUNT; i++)
		base_destroy(bases[i]);
	return shared->bad ? 1 : 0;
}
