/* test_mutants.c - the proof that the tests have teeth: with a safeguard left out, they must fail.
 *
 * Each mutant is turned on in this process, which then runs, in children, the same runs as the tests of
 * the model, of crashes, of structure and of histories do, seed by seed, until one fails. None that does within the
 * bound is a failure of the tests.
 * Only in a build with -Dmutants=true; elsewhere skipped. MUTANTS_SHOW=1 prints what the histories show.
 */
#include "crash.h"
#include "run.h"
#include "structure.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define MODEL_SEEDS 40u
#define MODEL_STEPS 3000u
#define SAVE_STEPS 1500u
#define CRASH_SEEDS 40u
#define CRASH_IMAGES 300u
#define CRASH_TXNS_IMAGES 60u
#define HISTORY_SEEDS 20u
#define HISTORY_ROUNDS 24u /* each choice of levels, with threads and in turn */
#define HISTORY_TXNS 300u

static bool model_finds(uint64_t seed)
{
	struct run run;

	run_by_seed(seed, MODEL_STEPS, &run);
	run.mix.txns = STEP_TXNS;
	return !run_quiet(&run);
}

static bool savepoint_finds(uint64_t seed)
{
	struct run run;

	run_savepoints_by_seed(seed, SAVE_STEPS, &run);
	return !run_quiet(&run);
}

static bool crash_finds(uint64_t seed)
{
	struct crash_counts counts = { 0 };
	struct crash_plan plan;

	crash_by_seed(seed, CRASH_IMAGES, &plan);
	plan.quiet = true;
	return !crash_run(&plan, &counts);
}

static bool crash_txns_finds(uint64_t seed)
{
	struct crash_counts counts = { 0 };
	struct crash_plan plan;

	crash_txns_by_seed(seed, CRASH_TXNS_IMAGES, &plan);
	plan.quiet = true;
	return !crash_run(&plan, &counts);
}

static bool structure_one(void *arg)
{
	return structure_run_case(*(const size_t *)arg);
}

static bool structure_finds(uint64_t no)
{
	size_t at = (size_t)no - 1;

	return at < structure_case_count() && !run_child(structure_one, &at, 60, true, NULL);
}

static bool history_one(void *arg)
{
	struct work_run run = { .path = "history.mutant",
				.seed = *(const uint64_t *)arg,
				.count = HISTORY_ROUNDS,
				.txns = HISTORY_TXNS,
				.threads = true,
				.out = run_env("MUTANTS_SHOW", 0) ? stdout : NULL };
	struct work_totals totals = { 0 };

	return work_run(&run, &totals) == WORK_RIGHT;
}

static bool history_finds(uint64_t seed)
{
	bool right = run_child(history_one, &seed, 60, !run_env("MUTANTS_SHOW", 0), NULL);

	unlink("history.mutant");
	return !right;
}

struct hunt {
	const char *by;
	bool (*finds)(uint64_t seed);
	uint64_t seeds;
};

static const struct hunt by_model = { "model", model_finds, MODEL_SEEDS };
static const struct hunt by_savepoint = { "savepoint", savepoint_finds, MODEL_SEEDS };
static const struct hunt by_crash = { "crash", crash_finds, CRASH_SEEDS };
static const struct hunt by_crash_txns = { "crash of transactions", crash_txns_finds, CRASH_SEEDS };
static const struct hunt by_structure = { "structure", structure_finds, 100 };
static const struct hunt by_history = { "history", history_finds, HISTORY_SEEDS };

#define HUNTS_MAX 3u

static const struct {
	enum stet_mutant mutant;
	const char *name;
	const struct hunt *hunts[HUNTS_MAX];
} mutants[] = {
	{ STET_MUTANT_NO_FLUSH, "no flush", { &by_crash, &by_crash_txns } },
	{ STET_MUTANT_NO_LOCK, "no lock", { &by_model, &by_structure, &by_history } },
	{ STET_MUTANT_NO_STRUCTURE,
	  "no structural checks",
	  { &by_model, &by_structure, &by_history } },
	{ STET_MUTANT_NO_VALIDATE, "no validation", { &by_model, &by_structure, &by_history } },
	{ STET_MUTANT_NO_FIRST_UPDATER,
	  "no first updater",
	  { &by_model, &by_structure, &by_history } },
	{ STET_MUTANT_EARLY_REUSE, "early reuse", { &by_crash } },
	{ STET_MUTANT_NO_READ_LOCK, "no locks of readers", { &by_history } },
	{ STET_MUTANT_NO_NAMES_LOCK, "no lock of listings", { &by_history } },
	{ STET_MUTANT_EARLY_RELEASE, "early release", { &by_history } },
	{ STET_MUTANT_NO_RANGE, "no validation of listings", { &by_history } },
	{ STET_MUTANT_NO_KEY, "no validation of keys", { &by_history } },
	{ STET_MUTANT_NO_MERGE, "no merging", { &by_history } },
	{ STET_MUTANT_NO_APPEND_MERGE, "no merging of appends", { &by_history } },
	{ STET_MUTANT_READ_CURRENT, "no view", { &by_history } },
	{ STET_MUTANT_NO_RANGE_LOCK, "no lock of a range", { &by_model, &by_history } },
	{ STET_MUTANT_NO_BYTE_MERGE, "no merge of bytes", { &by_model, &by_history } },
	{ STET_MUTANT_NO_READ_WAIT, "no waiting for what was read", { &by_crash_txns } },
	{ STET_MUTANT_ANSWER_ALL, "a flush answers all", { &by_crash_txns } },
	{ STET_MUTANT_SAVE_IN_PLACE, "savepoints' buffers in place", { &by_savepoint } },
	{ STET_MUTANT_SAVE_NO_KEEP, "savepoints keep no runs", { &by_savepoint } },
	{ STET_MUTANT_SAVE_NO_STATE, "savepoints keep no state", { &by_savepoint, &by_history } },
};

static bool hunt(const char *name, const struct hunt *h)
{
	for (uint64_t seed = 1; seed <= h->seeds; seed++) {
		if (!h->finds(seed))
			continue;
		printf("%s: found by %s, number %" PRIu64 "\n", name, h->by, seed);
		return true;
	}
	printf("%s: NOT found by %s\n", name, h->by);
	return false;
}

/* Without a mutant the same runs find nothing; else what follows proves nothing. */
static bool sound(void)
{
	stet_mutant_set(STET_MUTANT_NONE);
	for (uint64_t seed = 1; seed <= 5; seed++)
		if (model_finds(seed) || crash_finds(seed) || structure_finds(seed) ||
		    history_finds(seed) || crash_txns_finds(seed)) {
			printf("something fails without any mutant, number %" PRIu64 "\n", seed);
			return false;
		}
	return true;
}

int main(void)
{
	bool ok;

	stet_mutant_set(STET_MUTANT_NO_FLUSH);
	if (!stet_mutant_is(STET_MUTANT_NO_FLUSH)) {
		printf("this build has no mutants\n");
		return 77;
	}
	ok = sound();
	for (size_t k = 0; ok && k < sizeof(mutants) / sizeof(mutants[0]); k++) {
		stet_mutant_set(mutants[k].mutant);
		for (unsigned i = 0; i < HUNTS_MAX && mutants[k].hunts[i]; i++)
			ok = hunt(mutants[k].name, mutants[k].hunts[i]) && ok;
	}
	return ok ? 0 : 1;
}
