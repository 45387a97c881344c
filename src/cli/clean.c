/* clean.c - `stetfs clean` and `stetfs sync`, of a volume or of the mount that has it.
 *
 * I1. Cleaning ends: at most as many segments are cleaned as are in use when it begins, for what
 *     is moved out of one makes another.
 */
#include "cli/cli_internal.h"

#include "fuse/control.h"

#include <stdio.h>

/* Cleaned at a time: between two of them progress is shown. */
#define STEP_SEGMENTS 8u

/* I1: the segments in use. 0 or a negative errno value. */
static int count_used(struct stet_cli_place *place, uint64_t *ret_count)
{
	struct stet_statfs fs;
	int rc = place->ctl ? stet_control_statfs(place->ctl, &fs) : stet_statfs(place->v.vol, &fs);

	if (!rc)
		*ret_count = fs.segments - fs.segments_free;
	return rc;
}

/* Cleans up to `segments`; *ret_count: how many. 0 or a negative errno value. */
static int clean_some(struct stet_cli_place *place, uint32_t segments, uint32_t *ret_count)
{
	int rc;

	if (place->ctl)
		return stet_control_clean(place->ctl, segments, ret_count);
	rc = stet_clean(place->v.vol, segments);
	if (rc < 0)
		return rc;
	*ret_count = (uint32_t)rc;
	return 0;
}

static int fail_place(const struct stet_cli_place *place, int rc)
{
	return place->ctl ? stet_cli_fail_control_(place->ctl, place->word, rc)
			  : stet_cli_fail_volume_(place->word, rc);
}

static int clean_all(struct stet_cli_place *place, uint64_t limit, uint64_t *ret_total)
{
	struct stet_cli_progress progress = { .verb = "segments cleaned:" };
	uint64_t total = 0;
	uint64_t used = 0;
	uint32_t count = 1;
	int rc = count_used(place, &used);

	if (limit > used)
		limit = used;
	while (!rc && count && total < limit) {
		uint64_t left = limit - total;

		count = 0;
		rc = clean_some(place, left < STEP_SEGMENTS ? (uint32_t)left : STEP_SEGMENTS,
				&count);
		total += count;
		progress.files = total;
		stet_cli_progress_(&progress);
	}
	stet_cli_status_(NULL);
	*ret_total = total;
	return rc ? fail_place(place, rc) : STET_CLI_OK;
}

static int run_clean(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct stet_cli_place place;
	struct stet_cli_json json = { 0 };
	uint64_t limit = UINT64_MAX;
	const struct stet_cli_option options[] = {
		{ 0, "segments", STET_CLI_NUMBER, &limit, "N", "at most so many (default: all)" },
		{ 0, "json", STET_CLI_FLAG, &json.on, NULL, "print JSON" },
		{ 0 },
	};
	uint64_t total = 0;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	code = stet_cli_place_open_(words->word[0], true, &place);
	if (code)
		return code;
	code = stet_cli_place_close_(&place, clean_all(&place, limit, &total));
	stet_cli_json_open_(&json, NULL, '{');
	stet_cli_json_number_(&json, "segments", total);
	stet_cli_json_close_(&json, '}');
	if (!json.on && !code)
		printf("%llu segment%s cleaned\n", (unsigned long long)total,
		       total == 1 ? "" : "s");
	return code;
}

const struct stet_cli_command stet_cli_clean_ = {
	.name = "clean",
	.synopsis = "VOLUME|DIR [--segments N] [--json]",
	.summary = "Make whole segments free by moving what lives in the emptiest ones",
	.details = "Not needed as a rule: cleaning goes on in the background.",
	.min_words = 1,
	.max_words = 1,
	.run = run_clean,
};

static int run_sync(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	const struct stet_cli_option options[] = { { 0 } };
	struct stet_cli_place place;
	int code;
	int rc;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	code = stet_cli_place_open_(words->word[0], true, &place);
	if (code)
		return code;
	rc = place.ctl ? stet_control_sync(place.ctl) : stet_sync(place.v.vol);
	if (rc)
		code = fail_place(&place, rc);
	return stet_cli_place_close_(&place, code);
}

const struct stet_cli_command stet_cli_sync_ = {
	.name = "sync",
	.synopsis = "VOLUME|DIR",
	.summary = "Make all that was done to a volume durable",
	.details = "The system's own sync does not reach a mounted volume; this does.",
	.min_words = 1,
	.max_words = 1,
	.run = run_sync,
};
