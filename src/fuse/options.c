/* options.c - mount options, as they come from -o, fstab and mount(8).
 *
 * I1. Every word is understood, passed on to the kernel, or knowingly dropped; anything else is
 *     an error that names it. So a typing error never mounts something else than was meant.
 * I2. What would be refused or ignored later without a word (suid of a user, remount) is refused
 *     here with one.
 * I3. mount(8) takes some words for its own and passes them on neither here nor in their order:
 *     those of propagation (private), and those that undo its flags (suid, dev). So no word of ours
 *     is one of them, or there is another for the same.
 */
#include "fuse/fuse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the kernel understands for any file system. */
static const char *const kernel_words[] = {
	"atime", "noatime", "exec", "noexec", "nosuid", "nodev", "sync", "async", "dirsync",
};

/* What only mount(8), fstab or systemd look at; with "=" or "-" at the end, whatever follows. */
static const char *const dropped_words[] = {
	"defaults",
	"auto",
	"noauto",
	"user",
	"nouser",
	"users",
	"_netdev",
	"owner",
	"group",
	"silent",
	"loud",
	"nomand",
	"noiversion",
	"default_permissions",
	"fsname=",
	"subtype=",
	"user=",
	"x-",
	"X-",
	"comment=",
	/* When reading changes access times: not the kernel's business here (note_atime). */
	"diratime",
	"nodiratime",
	"relatime",
	"norelatime",
	"strictatime",
	"nostrictatime",
	"lazytime",
	"nolazytime",
};

static bool starts_with(const char *word, const char *start)
{
	return strncmp(word, start, strlen(start)) == 0;
}

static bool is_kernel_word(const char *word)
{
	for (size_t i = 0; i < sizeof(kernel_words) / sizeof(kernel_words[0]); i++)
		if (strcmp(word, kernel_words[i]) == 0)
			return true;
	return false;
}

static bool is_dropped(const char *word)
{
	for (size_t i = 0; i < sizeof(dropped_words) / sizeof(dropped_words[0]); i++) {
		const char *known = dropped_words[i];
		char last = known[strlen(known) - 1];

		if (last == '=' || last == '-' ? starts_with(word, known)
					       : strcmp(word, known) == 0)
			return true;
	}
	return *word == 0; /* two commas */
}

/* What was wrong with a word, for people. */
struct complaint {
	char *why;
	size_t cap;
};

static int complain(const struct complaint *c, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int complain(const struct complaint *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (c->cap)
		vsnprintf(c->why, c->cap, format, args);
	va_end(args);
	return -EINVAL;
}

/* --- values --- */

static bool parse_size(const char *text, uint64_t *ret)
{
	static const char units[] = "KMGT";
	unsigned shift = 0;
	const char *unit;
	uint64_t n;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end & ~0x20 ? strchr(units, *end & ~0x20) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
	}
	if (errno || *end || n == 0 || n > UINT64_MAX >> shift)
		return false;
	*ret = n << shift;
	return true;
}

static bool parse_ms(const char *text, uint32_t *ret)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s > 0 && s <= 1e6))
		return false;
	*ret = (uint32_t)(s * 1000 + 0.5);
	if (*ret == 0)
		*ret = 1;
	return true;
}

/* A number only: what a name means here need not be what it means where the volume is from. */
static bool parse_id(const char *text, uint32_t *ret)
{
	unsigned long long n;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno || *end || n >= UINT32_MAX) /* the largest one means "none" */
		return false;
	*ret = (uint32_t)n;
	return true;
}

static int take_size(const struct complaint *c, const char *word, uint64_t *ret)
{
	return parse_size(strchr(word, '=') + 1, ret)
		       ? 0
		       : complain(c, "%s: not a size, such as 64M", word);
}

static int take_ms(const struct complaint *c, const char *word, uint32_t *ret)
{
	return parse_ms(strchr(word, '=') + 1, ret)
		       ? 0
		       : complain(c, "%s: not a number of seconds above 0", word);
}

static int take_id(const struct complaint *c, const char *word, uint32_t *ret, bool *is_set)
{
	*is_set = parse_id(strchr(word, '=') + 1, ret);
	return *is_set ? 0 : complain(c, "%s: not a number of a user or group", word);
}

/* --- words --- */

static int pass_on(struct stet_fuse_options *o, const char *word, const struct complaint *c)
{
	size_t len = strlen(o->kernel);
	int n = snprintf(o->kernel + len, sizeof(o->kernel) - len, "%s%s", len ? "," : "", word);

	if (n > 0 && (size_t)n < sizeof(o->kernel) - len)
		return 0;
	return complain(c, "%s: too many options", word);
}

/* A word without a value that is ours; false: it is none. */
static bool take_flag(struct stet_fuse_options *o, const char *word)
{
	if (strcmp(word, "ro") == 0)
		o->read_only = true;
	else if (strcmp(word, "rw") == 0)
		o->read_only = false;
	else if (strcmp(word, "recovery=prefix") == 0)
		o->recover_prefix = o->read_only = true;
	else if (strcmp(word, "allow_other") == 0)
		o->allow_other = true;
	else if (strcmp(word, "noallow_other") == 0)
		o->noallow_other = true;
	else if (strcmp(word, "nofail") == 0)
		o->no_fail = true;
	else if (strcmp(word, "nodotstet") == 0)
		o->no_dot_stet = true;
	else if (strcmp(word, "debug") == 0)
		o->debug = o->foreground = true;
	else if (strcmp(word, "foreground") == 0)
		o->foreground = true;
	else
		return false;
	return true;
}

/* Is this word among those for the kernel? The last one counts. */
static bool has_kernel_word(const struct stet_fuse_options *o, const char *yes, const char *no)
{
	bool found = false;

	for (const char *at = o->kernel; *at; at += strcspn(at, ","), at += *at == ',') {
		size_t len = strcspn(at, ",");

		if (len == strlen(yes) && memcmp(at, yes, len) == 0)
			found = true;
		else if (len == strlen(no) && memcmp(at, no, len) == 0)
			found = false;
	}
	return found;
}

/* suid, dev, and I3 allow_suid, allow_dev. As mount(8) does not keep the order, nosuid and nodev
 * count over the latter wherever they stand. 1: it is none of these. */
static int take_trust(struct stet_fuse_options *o, const char *word, const struct complaint *c)
{
	static const struct {
		const char *yes, *also, *no;
	} words[] = { { "suid", "allow_suid", "nosuid" }, { "dev", "allow_dev", "nodev" } };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		bool allows = strcmp(word, words[i].also) == 0;

		if (!allows && strcmp(word, words[i].yes) != 0)
			continue;
		if (geteuid() != 0)
			return complain(c, "%s: only root may ask for that", word);
		if (allows && has_kernel_word(o, words[i].no, words[i].yes))
			return 0;
		return pass_on(o, words[i].yes, c);
	}
	return 1;
}

/* I2. 1: it is none of these. */
static int take_refused(const char *word, const struct complaint *c)
{
	if (strcmp(word, "remount") == 0)
		return complain(c, "remount: options cannot be changed while it is mounted; "
				   "unmount it, and mount it again");
	if (strcmp(word, "keep") == 0 || starts_with(word, "keep="))
		return complain(c, "keep: this version protects no old segments");
	if (strcmp(word, "private") == 0)
		return complain(c,
				"private: a mount for nobody else is asked for by noallow_other");
	return 1;
}

/* The daemon keeps access times (attr.c, I5). The words may go elsewhere too. */
static void note_atime(struct stet_fuse_options *o, const char *word)
{
	bool strict = strcmp(word, "strictatime") == 0;

	if (strcmp(word, "noatime") == 0) {
		o->no_atime = true;
	} else if (strict || strcmp(word, "atime") == 0 || strcmp(word, "relatime") == 0) {
		o->no_atime = false;
		o->strict_atime = strict;
	} else if (strcmp(word, "nodiratime") == 0) {
		o->no_diratime = true;
	} else if (strcmp(word, "diratime") == 0) {
		o->no_diratime = false;
	}
}

static int take(struct stet_fuse_options *o, const char *word, const struct complaint *c)
{
	int rc;

	note_atime(o, word);
	if (take_flag(o, word) || is_dropped(word))
		return 0;
	if (starts_with(word, "cache="))
		return take_size(c, word, &o->cache_bytes);
	if (starts_with(word, "checkpoint="))
		return take_size(c, word, &o->checkpoint_bytes);
	if (starts_with(word, "flush="))
		return take_ms(c, word, &o->flush_interval_ms);
	if (starts_with(word, "lock_timeout="))
		return take_ms(c, word, &o->lock_timeout_ms);
	if (starts_with(word, "max_age="))
		return take_ms(c, word, &o->max_age_ms);
	if (starts_with(word, "max_staged="))
		return take_size(c, word, &o->max_staged_bytes);
	if (starts_with(word, "uid="))
		return take_id(c, word, &o->uid, &o->has_uid);
	if (starts_with(word, "gid="))
		return take_id(c, word, &o->gid, &o->has_gid);
	rc = take_refused(word, c);
	if (rc > 0)
		rc = take_trust(o, word, c);
	if (rc <= 0)
		return rc;
	if (is_kernel_word(word))
		return pass_on(o, word, c);
	return o->sloppy ? 0 : complain(c, "%s: not known", word);
}

int stet_fuse_option(struct stet_fuse_options *options, const char *list, char *why, size_t cap)
{
	const struct complaint c = { .why = why, .cap = cap };

	while (*list) {
		size_t len = strcspn(list, ",");
		char word[256];
		int rc;

		snprintf(word, sizeof(word), "%.*s", (int)len, list);
		rc = len < sizeof(word) ? take(options, word, &c)
					: complain(&c, "%s...: too long", word);
		if (rc)
			return rc;
		list += len + (list[len] == ',');
	}
	return 0;
}

int stet_fuse_options_check(const struct stet_fuse_options *options, char *why, size_t cap)
{
	const struct complaint c = { .why = why, .cap = cap };

	/* Somebody else's program would run as the one to whom all files are given. */
	if ((options->has_uid || options->has_gid) && has_kernel_word(options, "suid", "nosuid"))
		return complain(&c, "suid, allow_suid: not together with uid= or gid=");
	if (options->recover_prefix && !options->read_only)
		return complain(&c, "recovery=prefix: only together with ro");
	if (options->noallow_other && options->allow_other)
		return complain(&c, "noallow_other and allow_other contradict each other");
	return 0;
}
