/* cp.c - `stetfs cp`: copies into volumes, out of them, within and between them.
 *
 * I1. What goes into a volume goes in one transaction: a copy that fails or is killed leaves
 *     nothing.
 * I2. A volume is open only once: a copy within it reads through the transaction that it writes.
 * I3. As cp(1): into a directory that exists, under the source's own name. A source without a name
 *     of its own (the root of a volume, or what ends in "." or "..") is not put into the target
 *     but makes it.
 */
#include "cli/site_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* A side of the copy: a path of the host, or in a volume. */
struct side {
	struct stet_cli_target target; /* volume NULL: of the host */
	const char *path;
	const char *word;
};

struct cp {
	bool recursive;
	struct side to;
	struct stet_cli_volume to_volume;   /* open when `to` is in one */
	struct stet_cli_volume from_volume; /* the last source's, if it is another one */
	struct stet_cli_site to_site, from_site;
	struct stet_cli_text dir;  /* the path of the target, links resolved */
	struct stet_cli_text word; /* the same, as given */
	bool into_dir;             /* it is a directory */
	struct stet_cli_copy copy;
};

static void parse_side(const char *word, struct side *ret)
{
	*ret = (struct side){ .path = word, .word = word };
	if (stet_cli_target_parse_(word, &ret->target))
		ret->path = ret->target.path;
}

/// The target ///

static int open_target(struct cp *cp)
{
	const struct stet_cli_site_ops *ops;
	struct stet_cli_attr attr;
	int code;

	if (cp->to.target.volume) {
		code = stet_cli_open_change_(cp->to.target.volume, &cp->to_volume);
		if (code)
			return code;
		stet_cli_site_volume_(&cp->to_volume, &cp->to_site);
	} else {
		stet_cli_site_host_(&cp->to_site);
	}
	ops = cp->to_site.ops;
	ops->resolve(&cp->to_site, cp->to.path, &cp->dir);
	stet_cli_text_adds_(&cp->word, cp->to.word);
	cp->into_dir = ops->stat(&cp->to_site, ops->start(&cp->to_site), cp->dir.s, &attr) == 0 &&
		       S_ISDIR(attr.mode);
	return STET_CLI_OK;
}

/// Sources ///

/* Has the site of a source ready in from_site, or finds that it is the target's. */
static int open_source(struct cp *cp, const struct side *from, struct stet_cli_site **ret)
{
	const char *volume = from->target.volume;
	int code = STET_CLI_OK;

	*ret = &cp->from_site;
	if (!volume) {
		stet_cli_site_host_(&cp->from_site);
		return STET_CLI_OK;
	}
	if (cp->to.target.volume && stet_cli_same_volume_(volume, cp->to.target.volume)) {
		*ret = &cp->to_site; /* I2 */
		return STET_CLI_OK;
	}
	if (cp->from_volume.path && strcmp(cp->from_volume.path, volume) != 0)
		code = stet_cli_close_(&cp->from_volume, STET_CLI_OK);
	if (!code && !cp->from_volume.path)
		code = stet_cli_open_read_(volume, &cp->from_volume);
	if (!code)
		stet_cli_site_volume_(&cp->from_volume, &cp->from_site);
	return code;
}

/* I3. */
static void add_own_name(struct cp *cp, const char *path)
{
	struct stet_cli_text name = { 0 };
	size_t len;
	const char *last = stet_cli_basename_(path, &len);

	stet_cli_text_add_(&name, last, len);
	if (len && strcmp(name.s, ".") != 0 && strcmp(name.s, "..") != 0) {
		stet_cli_text_join_(&cp->dir, name.s);
		stet_cli_text_join_(&cp->word, name.s);
	}
	stet_cli_text_release_(&name);
}

static int copy_source(struct cp *cp, const struct side *from)
{
	struct stet_cli_text path = { 0 };
	struct stet_cli_site *site;
	size_t dir_len = cp->dir.len;
	size_t word_len = cp->word.len;
	int code = open_source(cp, from, &site);

	if (code)
		return code;
	if (cp->recursive)
		stet_cli_text_adds_(&path, from->path);
	else
		site->ops->resolve(site, from->path, &path);
	if (cp->into_dir)
		add_own_name(cp, from->path);
	cp->copy.from = site;
	cp->copy.to = &cp->to_site;
	code = stet_cli_copy_(&cp->copy, path.s, from->word, cp->dir.s, cp->word.s);
	stet_cli_text_cut_(&cp->dir, dir_len);
	stet_cli_text_cut_(&cp->word, word_len);
	stet_cli_text_release_(&path);
	return code;
}

static int copy_sources(struct cp *cp, const struct side *sides, int count)
{
	int code = STET_CLI_OK;

	if (count > 1 && !cp->into_dir)
		return stet_cli_fail_(cp->to.word, -ENOTDIR);
	for (int i = 0; i < count; i++) {
		int one = copy_source(cp, &sides[i]);

		if (one && !code)
			code = one;
		if (one && cp->copy.stop)
			break;
	}
	return code ? code : cp->copy.code;
}

static int copy_all(struct cp *cp, const struct side *sides, int count)
{
	int code = open_target(cp);

	cp->copy.recursive = cp->recursive;
	cp->copy.stop = cp->to.target.volume != NULL;
	if (!code)
		code = copy_sources(cp, sides, count);
	stet_cli_status_(NULL);
	if (cp->copy.xattrs_lost) {
		stet_cli_error_(cp->to.word, "some extended attributes could not be copied");
		code = code ? code : STET_CLI_FAILED;
	}
	if (cp->from_volume.path)
		code = stet_cli_close_(&cp->from_volume, code);
	if (cp->to_volume.path)
		code = stet_cli_close_(&cp->to_volume, code);
	stet_cli_copy_release_(&cp->copy);
	stet_cli_text_release_(&cp->dir);
	stet_cli_text_release_(&cp->word);
	return code;
}

/* A descriptor for each level of a tree on the host, so as many as we may have. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int check_sides(const struct stet_cli_command *cmd, const struct side *sides, int count,
		       const struct side *to)
{
	for (int i = 0; i < count; i++) {
		if (!sides[i].target.volume && !to->target.volume)
			return stet_cli_misuse_(cmd, "neither '%s' nor '%s' is VOLUME:/path",
						sides[i].word, to->word);
	}
	return STET_CLI_OK;
}

static int run_cp(const struct stet_cli_command *cmd, struct stet_cli_words *words)
{
	struct cp cp = { 0 };
	const struct stet_cli_option options[] = {
		{ 'r', "recursive", STET_CLI_FLAG, &cp.recursive, NULL,
		  "directories too, with all they hold" },
		{ 'R', NULL, STET_CLI_FLAG, &cp.recursive, NULL, NULL },
		{ 'a', NULL, STET_CLI_FLAG, &cp.recursive, NULL, "the same as -r" },
		{ 'p', NULL, STET_CLI_IGNORED, NULL, NULL, NULL },
		{ 0 },
	};
	struct side *sides;
	int last;
	int code;

	if (!stet_cli_parse_(cmd, options, words, &code))
		return code;
	last = words->count - 1;
	sides = stet_cli_alloc_((size_t)words->count * sizeof(*sides));
	for (int i = 0; i <= last; i++)
		parse_side(words->word[i], &sides[i]);
	cp.to = sides[last];
	code = check_sides(cmd, sides, last, &cp.to);
	if (!code) {
		raise_limit();
		code = copy_all(&cp, sides, last);
	}
	for (int i = 0; i <= last; i++)
		stet_cli_target_release_(&sides[i].target);
	free(sides);
	return code;
}

const struct stet_cli_command stet_cli_cp_ = {
	.name = "cp",
	.synopsis = "[-r] SOURCE... TARGET",
	.summary = "Copy files and trees into a volume, out of it, or within it",
	.details = "SOURCE and TARGET are paths of the host or VOLUME:/path. Permissions, times, "
		   "links, "
		   "extended\nattributes and holes are kept, by root owners too. What goes into a "
		   "volume is one transaction: all\nof it is there afterwards, or nothing.\n"
		   "The first \":/\" of a word divides the volume from the path.",
	.min_words = 2,
	.max_words = STET_CLI_NO_LIMIT,
	.run = run_cp,
};
