/* mkfs.c - `stetfs mkfs`, also as mkfs.stetfs.
 *
 * I1. What holds anything but zeros is overwritten only with --force, and what somebody has open,
 *     never.
 * I2. A command that fails leaves an image file with the size that it had, and none where none was.
 */
#include "cli/cli_internal.h"

#include "cli/content_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT_MIN (UINT64_C(256) << 10)
#define SEGMENT_MAX (UINT64_C(16) << 20)
#define LABEL_MAX 64

struct mkfs {
	const char *path;
	struct stet_mkfs_options options;
	uint64_t segment_bytes, meta_copies, data_copies;
	const char *compress;
	bool quiet;
	struct stet_cli_json json;
	struct stet_cli_content content;
};

static int check_options(const struct stet_cli_command *cmd, struct mkfs *m)
{
	uint64_t segment = m->segment_bytes;

	if (segment &&
	    (segment < SEGMENT_MIN || segment > SEGMENT_MAX || (segment & (segment - 1))))
		return stet_cli_misuse_(cmd, "--segment-size: a power of two from 256K to 16M");
	if (m->options.label && strlen(m->options.label) > LABEL_MAX)
		return stet_cli_misuse_(cmd, "--label: at most 64 bytes");
	if (m->meta_copies > 2 || m->data_copies > 2)
		return stet_cli_misuse_(cmd, "copies: 1 or 2");
	if (m->compress && strcmp(m->compress, "none") != 0)
		return stet_cli_misuse_(cmd, "--compress: this version has only 'none'");
	m->options.segment_bytes = (uint32_t)m->segment_bytes;
	m->options.meta_copies = (uint32_t)m->meta_copies;
	m->options.data_copies = (uint32_t)m->data_copies;
	m->options.root_uid = geteuid();
	m->options.root_gid = getegid();
	return STET_CLI_OK;
}

/* I1. Is there a volume, and has nobody got it? */
static int check_in_use(const struct mkfs *m, bool *ret_is_volume)
{
	const struct stet_open_options options = { .read_only = true, .no_remote = true };
	struct stet_volume *vol = NULL;
	int rc;

	*ret_is_volume = false;
	if (!m->content.exists || (!m->content.what && !m->options.size_bytes))
		return STET_CLI_OK;
	rc = stet_open(m->path, &options, &vol);
	if (rc == -EBUSY)
		return stet_cli_fail_open_(m->path, rc);
	*ret_is_volume = rc == 0 || rc == -EUCLEAN || rc == -EOPNOTSUPP;
	if (!rc)
		stet_close(vol);
	return STET_CLI_OK;
}

static int check_content(struct mkfs *m)
{
	bool is_volume;
	int rc = stet_cli_inspect_(m->path, &m->content);
	int code;

	if (rc == -EINVAL) {
		stet_cli_error_(m->path, "neither a regular file nor a block device");
		return STET_CLI_FAILED;
	}
	if (rc)
		return stet_cli_fail_(m->path, rc);
	code = check_in_use(m, &is_volume);
	if (code)
		return code;
	if (m->content.what && !m->options.force) {
		stet_cli_error_(m->path, "holds %s; --force overwrites it",
				is_volume ? "a StetFS volume" : m->content.what);
		return STET_CLI_FAILED;
	}
	if (m->content.is_device && m->options.size_bytes) {
		stet_cli_error_(m->path, "is a block device; --size is for image files");
		return STET_CLI_FAILED;
	}
	if (!m->content.size_bytes && !m->options.size_bytes) {
		stet_cli_error_(m->path, m->content.exists ? "is empty; --size is needed"
							   : "does not exist; --size makes it");
		return STET_CLI_FAILED;
	}
	return STET_CLI_OK;
}

/* Gives an image file that has a size already the one that is asked for. */
static bool needs_resize(const struct mkfs *m)
{
	return m->content.exists && m->content.size_bytes && m->options.size_bytes &&
	       m->content.size_bytes != m->options.size_bytes;
}

static int make(struct mkfs *m)
{
	bool resized = needs_resize(m);
	int rc;

	if (resized && truncate(m->path, (off_t)m->options.size_bytes) != 0)
		return stet_cli_fail_(m->path, -errno);
	rc = stet_mkfs(m->path, &m->options);
	if (!rc)
		return STET_CLI_OK;
	if (resized && truncate(m->path, (off_t)m->content.size_bytes) != 0) /* I2 */
		stet_cli_fail_(m->path, -errno);
	if (rc == -EBUSY)
		return stet_cli_fail_open_(m->path, rc);
	if (rc == -ENOSPC && m->options.size_bytes < (UINT64_C(16) << 20))
		stet_cli_error_(m->path, "too small: a volume has at least 16 MiB");
	else
		stet_cli_fail_volume_(m->path, rc);
	return STET_CLI_FAILED;
}

static void format_uuid(const uint8_t uuid[16], char buf[37])
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0;

	for (unsigned i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			buf[at++] = '-';
		buf[at++] = hex[uuid[i] >> 4];
		buf[at++] = hex[uuid[i] & 15];
	}
	buf[at] = '\0';
}

static void report(struct mkfs *m, const struct stet_statfs *fs)
{
	char capacity[STET_CLI_SIZE_MAX], segment[STET_CLI_SIZE_MAX];
	char uuid[37];

	format_uuid(fs->uuid, uuid);
	stet_cli_json_open_(&m->json, NULL, '{');
	stet_cli_json_string_(&m->json, "volume", m->path);
	stet_cli_json_string_(&m->json, "uuid", uuid);
	stet_cli_json_string_(&m->json, "label", fs->label);
	stet_cli_json_number_(&m->json, "capacity_bytes", fs->capacity_bytes);
	stet_cli_json_number_(&m->json, "segment_bytes", fs->segment_bytes);
	stet_cli_json_number_(&m->json, "segments", fs->segments);
	stet_cli_json_number_(&m->json, "meta_copies", fs->meta_copies);
	stet_cli_json_number_(&m->json, "data_copies", fs->data_copies);
	stet_cli_json_close_(&m->json, '}');
	if (m->json.on)
		return;
	stet_cli_format_size_(fs->capacity_bytes, capacity);
	stet_cli_format_size_(fs->segment_bytes, segment);
	stet_cli_print_name_(m->path);
	printf(": %s in %u segments of %s, UUID %s\n", capacity, fs->segments, segment, uuid);
}

/* Opens what was made: the proof that it can be. */
static int show(struct mkfs *m)
{
	struct stet_cli_volume v;
	struct stet_statfs fs;
	int code = stet_cli_open_(m->path, false, &v);
	int rc;

	if (code)
		return code;
	rc = stet_statfs(v.vol, &fs);
	if (rc)
		code = stet_cli_fail_volume_(m->path, rc);
	else if (!m->quiet)
		report(m, &fs);
	return stet_cli_close_(&v, code);
}

static int run_mkfs(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct mkfs m = { 0 };
	const struct stet_cli_option options[] = {
		{ 's', "size", STET_CLI_SIZE, &m.options.size_bytes, "SIZE",
		  "of an image file, which is made, or made so large" },
		{ 0, "segment-size", STET_CLI_SIZE, &m.segment_bytes, "SIZE",
		  "256K to 16M, a power of two (default: by the size)" },
		{ 0, "meta-copies", STET_CLI_NUMBER, &m.meta_copies, "1|2",
		  "copies of metadata (default: 2)" },
		{ 0, "data-copies", STET_CLI_NUMBER, &m.data_copies, "1",
		  "copies of file data (default: 1)" },
		{ 0, "compress", STET_CLI_STRING, &m.compress, "none", "no compression yet" },
		{ 'L', "label", STET_CLI_STRING, &m.options.label, "TEXT", "at most 64 bytes" },
		{ 'f', "force", STET_CLI_FLAG, &m.options.force, NULL, "whatever is there" },
		{ 'q', "quiet", STET_CLI_FLAG, &m.quiet, NULL, "print nothing" },
		{ 'V', NULL, STET_CLI_IGNORED, NULL, NULL, NULL },
		{ 'v', NULL, STET_CLI_IGNORED, NULL, NULL, NULL },
		{ 0, "json", STET_CLI_FLAG, &m.json.on, NULL, "print JSON" },
		{ 0 },
	};
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	m.path = words->word[0];
	code = check_options(cmd, &m);
	if (!code)
		code = check_content(&m);
	if (!code)
		code = make(&m);
	return code ? code : show(&m);
}

const struct stet_cli_command stet_cli_mkfs_ = {
	.name = "mkfs",
	.synopsis = "VOLUME [--size SIZE] [--segment-size SIZE] [--meta-copies 1|2] "
		    "[--data-copies 1]\n       [--label TEXT] [--force] [--json]",
	.summary = "Make an empty volume in an image file or on a block device",
	.details =
		"Refuses what holds anything but zeros, unless --force is given. SIZE takes K, M, "
		"G and T.",
	.min_words = 1,
	.max_words = 1,
	.run = run_mkfs,
};
