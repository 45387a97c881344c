/* stats.c - `stetfs stats`: how full a volume is, and its counters. */
#include "cli/cli_internal.h"

#include "fuse/control.h"

#include <inttypes.h>
#include <stdio.h>

static int add_json_counter(void *arg, const char *name, uint64_t value)
{
	stet_cli_json_number_(arg, name, value);
	return 0;
}

static int print_counter(void *arg, const char *name, uint64_t value)
{
	(void)arg;
	printf("%-32s %20" PRIu64 "\n", name, value);
	return 0;
}

static void print_size(const char *what, uint64_t bytes)
{
	char size[STET_CLI_SIZE_MAX];

	stet_cli_format_size_(bytes, size);
	printf("%-12s %12s  (%" PRIu64 ")\n", what, size, bytes);
}

static void print_statfs(const struct stet_statfs *fs)
{
	char time[STET_CLI_TIME_MAX];

	if (fs->label[0]) {
		printf("%-12s ", "label");
		stet_cli_print_name_(fs->label);
		putchar('\n');
	}
	stet_cli_format_local_(fs->created_ns, true, time);
	printf("%-12s %s\n", "created", time);
	print_size("capacity", fs->capacity_bytes);
	print_size("live", fs->live_bytes);
	print_size("held", fs->held_bytes);
	print_size("reserved", fs->reserved_bytes);
	print_size("reserve", fs->reserve_bytes);
	print_size("available", fs->avail_bytes);
	printf("%-12s %12u  (%u free, of %u bytes)\n", "segments", fs->segments, fs->segments_free,
	       fs->segment_bytes);
	printf("%-12s %12u  (of metadata; %u of data)\n", "copies", fs->meta_copies,
	       fs->data_copies);
	printf("%-12s %12" PRIu64 "  (durable: %" PRIu64 ")\n", "serial", fs->serial, fs->durable);
	if (fs->failed)
		printf("FAILED: %s; close it and open it again\n", fs->failure);
	putchar('\n');
}

static void json_statfs(struct stet_cli_json *json, const struct stet_statfs *fs)
{
	stet_cli_json_string_(json, "label", fs->label);
	stet_cli_json_time_(json, "created", fs->created_ns);
	stet_cli_json_number_(json, "capacity_bytes", fs->capacity_bytes);
	stet_cli_json_number_(json, "live_bytes", fs->live_bytes);
	stet_cli_json_number_(json, "held_bytes", fs->held_bytes);
	stet_cli_json_number_(json, "reserved_bytes", fs->reserved_bytes);
	stet_cli_json_number_(json, "reserve_bytes", fs->reserve_bytes);
	stet_cli_json_number_(json, "avail_bytes", fs->avail_bytes);
	stet_cli_json_number_(json, "block_bytes", fs->block_bytes);
	stet_cli_json_number_(json, "segment_bytes", fs->segment_bytes);
	stet_cli_json_number_(json, "segments", fs->segments);
	stet_cli_json_number_(json, "segments_free", fs->segments_free);
	stet_cli_json_number_(json, "meta_copies", fs->meta_copies);
	stet_cli_json_number_(json, "data_copies", fs->data_copies);
	stet_cli_json_number_(json, "serial", fs->serial);
	stet_cli_json_number_(json, "durable", fs->durable);
	stet_cli_json_bool_(json, "read_only", fs->read_only);
	stet_cli_json_bool_(json, "failed", fs->failed);
}

static int show(struct stet_cli_place *place, struct stet_cli_json *json)
{
	stet_stats_fn *fn = json->on ? add_json_counter : print_counter;
	struct stet_statfs fs;
	int rc = place->ctl ? stet_control_statfs(place->ctl, &fs) : stet_statfs(place->v.vol, &fs);

	if (rc)
		return rc;
	stet_cli_json_open_(json, NULL, '{');
	if (json->on)
		json_statfs(json, &fs);
	else
		print_statfs(&fs);
	stet_cli_json_open_(json, "counters", '{');
	rc = place->ctl ? stet_control_stats(place->ctl, fn, json)
			: stet_stats(place->v.vol, fn, json);
	stet_cli_json_close_(json, '}');
	stet_cli_json_close_(json, '}');
	return rc;
}

static int run_stats(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct stet_cli_json json = { 0 };
	const struct stet_cli_option options[] = {
		{ 0, "json", STET_CLI_FLAG, &json.on, NULL, "print JSON" },
		{ 0 },
	};
	struct stet_cli_place place;
	int code;
	int rc;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	code = stet_cli_place_open_(words->word[0], false, &place);
	if (code)
		return code;
	rc = show(&place, &json);
	if (rc)
		code = place.ctl ? stet_cli_fail_control_(place.ctl, place.word, rc)
				 : stet_cli_fail_volume_(place.word, rc);
	return stet_cli_place_close_(&place, code);
}

const struct stet_cli_command stet_cli_stats_ = {
	.name = "stats",
	.synopsis = "VOLUME|DIR [--json]",
	.summary = "Print how full a volume is, and its counters",
	.min_words = 1,
	.max_words = 1,
	.run = run_stats,
};
