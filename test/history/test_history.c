/* test_history.c - random transactions, logged and judged.
 *
 *	HISTORY_SEED	of the run
 *	HISTORY_TXNS	how many transactions, about
 *	HISTORY_ROUND	this round only
 *	HISTORY_LEVEL	snapshot, serializable or locking: all have it
 *	HISTORY_DIR	where the volume is made (default: the current directory)
 *	HISTORY_CLIENT	not empty: threads of the test serve the volume, and the transactions are a client's
 */
#include "run.h"

#include "served.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TXNS 100000u
#define CLIENT_TXNS 10000u
#define ROUND_TXNS 500u

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static unsigned level(void)
{
	static const char *const words[] = { "plain", "snapshot", "serializable", "locking" };
	const char *text = getenv("HISTORY_LEVEL");

	for (unsigned k = 0; k < 4; k++)
		if (text && strcmp(text, words[k]) == 0)
			return k + 1;
	return 0;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void print_totals(const struct work_totals *t, double took)
{
	printf("%" PRIu64 " transactions in %" PRIu64 " rounds (%" PRIu64
	       " of them in turn), %.1f s: %" PRIu64 " committed (%" PRIu64 " plain, %" PRIu64
	       " SNAPSHOT, %" PRIu64 " SERIALIZABLE, %" PRIu64 " LOCKING)\n",
	       t->counts.txns, t->rounds, t->steps, took, t->counts.committed, t->commits[0],
	       t->commits[1], t->commits[2], t->commits[3]);
	printf("%" PRIu64 " operations, %" PRIu64 " refused, %" PRIu64
	       " conflicts at commit, %" PRIu64 " deadlocks, %" PRIu64 " rollbacks; %" PRIu64
	       " edges; unsure: %" PRIu64 " of %" PRIu64 " reads, %" PRIu64 " of %" PRIu64
	       " versions; %" PRIu64 " spills, %" PRIu64 " checkpoints, %" PRIu64 " overlays\n",
	       t->operations, t->busy, t->conflicts, t->deadlocks, t->rollbacks, t->counts.edges,
	       t->counts.unsure_reads, t->counts.reads, t->counts.unsure_versions,
	       t->counts.versions, t->spills, t->checkpoints, t->overlays);
}

static void look_on(void *arg, enum stet_ll_phase phase, const struct stet_ll_touched *touched)
{
	(void)arg;
	(void)phase;
	(void)touched;
}

/* As a mount serves: with the locks of opened files, and with a watch, which plain changes are told to. Or with
 * one of the two, or none. */
static int serve(struct stet_volume *vol, uint64_t no, struct stet_volume **ret_client,
		 void **ret_server)
{
	const struct stet_ll_service_options options = { .open_locks = no % 2 == 0 };
	struct served *server;
	int rc = no % 4 == 0 || no % 4 == 3 ? stet_ll_watch(vol, look_on, NULL) : 0;

	if (rc)
		return rc;
	rc = served_start(vol, &options, &server, ret_client);

	*ret_server = server;
	return rc;
}

static void stop(void *server)
{
	served_stop(server);
}

int main(void)
{
	const char *dir = getenv("HISTORY_DIR"), *client = getenv("HISTORY_CLIENT");
	bool is_client = client && *client;
	uint64_t round = number("HISTORY_ROUND", UINT64_MAX);
	struct work_totals totals = { 0 };
	char path[512];
	struct work_run run = {
		.path = path,
		.seed = number("HISTORY_SEED", 1),
		.count = number("HISTORY_TXNS", is_client ? CLIENT_TXNS : TXNS) / ROUND_TXNS + 1,
		.txns = ROUND_TXNS,
		.threads = true,
		.level = level(),
		.out = stdout,
		.serve = is_client ? serve : NULL,
		.stop = stop,
	};
	double start = seconds();
	enum work_verdict verdict;

	snprintf(path, sizeof(path), "%s/history.%d", dir ? dir : ".", (int)getpid());
	if (round != UINT64_MAX) {
		run.first = round;
		run.count = 1;
	}
	verdict = work_run(&run, &totals);
	unlink(path);
	print_totals(&totals, seconds() - start);
	/* A checker that cannot tell the versions apart proves nothing. */
	if (totals.counts.unsure_reads * 50 > totals.counts.reads ||
	    totals.counts.unsure_versions * 20 > totals.counts.versions) {
		printf("too much is unsure\n");
		verdict = WORK_WRONG;
	}
	return verdict == WORK_RIGHT ? 0 : 1;
}
