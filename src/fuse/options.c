/* options.c - mount options, as they come from -o, fstab and mount(8).
 *
 * I1. Every word is understood, passed on to the kernel, or knowingly dropped; anything else is
 *     an error that names it. So a typing error never mounts something else than was meant.
 */
#include "fuse/fuse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the kernel understands for any file system. */
static const char *const kernel_words[] = {
	"atime",      "noatime",     "diratime",   "nodiratime",    "relatime",
	"norelatime", "strictatime", "lazytime",   "suid",          "nosuid",
	"dev",        "nodev",       "exec",       "noexec",        "sync",
	"async",      "dirsync",     "nolazytime", "nostrictatime",
};

/* What only mount(8), fstab or systemd look at. */
static const char *const dropped_words[] = {
	"defaults",
	"auto",
	"noauto",
	"user",
	"nouser",
	"users",
	"nofail",
	"_netdev",
	"owner",
	"group",
	"default_permissions",
	"fsname=",
	"subtype=",
	"x-",
	"comment=",
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

static int parse_size(const char *text, uint64_t *ret)
{
	static const char units[] = "KMGT";
	unsigned shift = 0;
	const char *unit;
	uint64_t n;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end & ~0x20 ? strchr(units, *end & ~0x20) : NULL;
	if (unit) {
		shift = 10 * (unsigned)(unit - units + 1);
		end++;
	}
	if (errno || *end || n > UINT64_MAX >> shift)
		return -EINVAL;
	*ret = n << shift;
	return 0;
}

static int parse_ms(const char *text, uint32_t *ret)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s > 0 && s <= 1e6))
		return -EINVAL;
	*ret = (uint32_t)(s * 1000 + 0.5);
	if (*ret == 0)
		*ret = 1;
	return 0;
}

static int pass_on(struct stet_fuse_options *o, const char *word)
{
	size_t len = strlen(o->kernel);
	int n = snprintf(o->kernel + len, sizeof(o->kernel) - len, "%s%s", len ? "," : "", word);

	return n > 0 && (size_t)n < sizeof(o->kernel) - len ? 0 : -EINVAL;
}

/* A word without a value that is ours; false: it is none. */
static bool take_flag(struct stet_fuse_options *o, const char *word)
{
	if (strcmp(word, "ro") == 0)
		o->read_only = true;
	else if (strcmp(word, "rw") == 0)
		o->read_only = false;
	else if (strcmp(word, "recovery=prefix") == 0 || strcmp(word, "recovery") == 0)
		o->recover_prefix = o->read_only = true;
	else if (strcmp(word, "allow_other") == 0)
		o->allow_other = true;
	else if (strcmp(word, "private") == 0)
		o->private_mount = true;
	else if (strcmp(word, "debug") == 0)
		o->debug = o->foreground = true;
	else if (strcmp(word, "foreground") == 0)
		o->foreground = true;
	else
		return false;
	return true;
}

static int take(struct stet_fuse_options *o, const char *word)
{
	if (take_flag(o, word) || is_dropped(word))
		return 0;
	if (starts_with(word, "cache="))
		return parse_size(word + 6, &o->cache_bytes);
	if (starts_with(word, "checkpoint="))
		return parse_size(word + 11, &o->checkpoint_bytes);
	if (starts_with(word, "flush_interval="))
		return parse_ms(word + 15, &o->flush_interval_ms);
	if (starts_with(word, "lock_timeout="))
		return parse_ms(word + 13, &o->lock_timeout_ms);
	return is_kernel_word(word) ? pass_on(o, word) : -EINVAL;
}

int stet_fuse_option(struct stet_fuse_options *options, const char *list, char *ret_bad, size_t cap)
{
	while (*list) {
		size_t len = strcspn(list, ",");
		char word[256];

		snprintf(word, sizeof(word), "%.*s", (int)len, list);
		if (len >= sizeof(word) || take(options, word) != 0) {
			if (cap)
				snprintf(ret_bad, cap, "%s", word);
			return -EINVAL;
		}
		list += len + (list[len] == ',');
	}
	return 0;
}
