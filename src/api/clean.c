/* clean.c - the cleaner of a volume, and cleaning on demand.
 *
 * The background thread cleans when space runs short. stet_clean asks for more and makes the steps in
 * the caller's thread; both may step the same cleaner, each step under the lock.
 */
#include "api/api_internal.h"

#include "clean/clean.h"

/* A step that finds nothing may wait for a checkpoint; the cleaner asks for at most two in a row. */
#define IDLE_ROUNDS 3

int stet_api_clean_open_(struct stet_volume *vol)
{
	if (vol->read_only)
		return 0;
	return stet_cleaner_create(vol->fs, vol->engine, NULL, &vol->cleaner);
}

void stet_api_clean_close_(struct stet_volume *vol)
{
	stet_cleaner_destroy(vol->cleaner);
	vol->cleaner = NULL;
}

bool stet_api_clean_wanted_(const struct stet_volume *vol)
{
	return vol->cleaner && stet_cleaner_wants_work(vol->cleaner);
}

int stet_api_clean_step_(struct stet_volume *vol, struct stet_ticket *ticket)
{
	return vol->cleaner ? stet_clean_step(vol->cleaner, ticket) : 0;
}

static uint64_t victims(const struct stet_volume *vol)
{
	struct stet_clean_stats stats;

	stet_clean_stats(vol->cleaner, &stats);
	return stats.victims;
}

static uint32_t free_segments(const struct stet_volume *vol)
{
	struct stet_space_usage u;

	stet_space_usage(stet_engine_space(vol->engine), &u);
	return u.slots_free;
}

/* 1: go on; 0: nothing to do now. */
static int one_step(struct stet_volume *vol, struct stet_api_waiter *w)
{
	int rc;

	stet_api_assert_locked_(vol);
	rc = stet_clean_step(vol->cleaner, &w->ticket);
	if (rc != STET_WAIT)
		return rc;
	rc = stet_api_wait_(vol, w);
	stet_api_waiter_rearm_(w);
	return rc ? rc : 1;
}

int stet_clean(struct stet_volume *vol, uint32_t segments)
{
	struct stet_api_waiter w;
	uint64_t before, cleaned = 0;
	uint32_t free_before;
	int rc = stet_api_check_handle_(vol);

	if (rc)
		return rc;
	stet_error_clear();
	if (vol->read_only)
		return STET_FAIL(-EROFS, "the volume is open read-only");
	stet_api_lock_(vol);
	stet_api_waiter_init_(&w);
	before = victims(vol);
	free_before = free_segments(vol);
	stet_cleaner_request(vol->cleaner, segments);
	for (unsigned idle = 0; idle < IDLE_ROUNDS && cleaned < segments && rc >= 0;) {
		rc = one_step(vol, &w);
		idle = rc == 0 ? idle + 1 : 0;
		if (rc == 0)
			rc = stet_api_checkpoint_(vol);
		cleaned = victims(vol) - before;
		stet_api_unlock_(vol); /* let the others through */
		stet_api_lock_(vol);
	}
	/* What was emptied comes free when both checkpoint slots know. */
	for (unsigned slot = 0; slot < 2 && cleaned > 0 && rc >= 0; slot++)
		rc = stet_api_checkpoint_(vol);
	/* Cleaning writes too: where that took what it freed, to go on would never end. */
	if (free_segments(vol) <= free_before)
		cleaned = 0;
	stet_api_waiter_release_(&w);
	stet_api_unlock_(vol);
	return rc < 0 ? rc : (int)(cleaned < segments ? cleaned : segments);
}
