/* facts.c - see facts.h. */
#include "facts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

static const char *const fact_names[FACTS] = {
	"type", "mode", "nlink", "uid",   "gid",   "size",  "blocks",
	"ino",  "dev",  "rdev",  "atime", "mtime", "ctime", "btime",
};

static const struct flag types[] = {
	{ "reg", S_IFREG },   { "dir", S_IFDIR }, { "lnk", S_IFLNK }, { "fifo", S_IFIFO },
	{ "sock", S_IFSOCK }, { "chr", S_IFCHR }, { "blk", S_IFBLK }, { 0 },
};

static struct facts notes[26];

static int64_t ns_of(const struct statx_timestamp *ts)
{
	return ts->tv_sec * SECOND + ts->tv_nsec;
}

void facts_of_statx(const struct statx *st, struct facts *ret)
{
	*ret = (struct facts){ {
		[FACT_TYPE] = st->stx_mode & S_IFMT,
		[FACT_MODE] = st->stx_mode & 07777,
		[FACT_NLINK] = st->stx_nlink,
		[FACT_UID] = st->stx_uid,
		[FACT_GID] = st->stx_gid,
		[FACT_SIZE] = (int64_t)st->stx_size,
		[FACT_BLOCKS] = (int64_t)st->stx_blocks,
		[FACT_INO] = (int64_t)st->stx_ino,
		[FACT_DEV] = (int64_t)makedev(st->stx_dev_major, st->stx_dev_minor),
		[FACT_RDEV] = (int64_t)makedev(st->stx_rdev_major, st->stx_rdev_minor),
		[FACT_ATIME] = ns_of(&st->stx_atime),
		[FACT_MTIME] = ns_of(&st->stx_mtime),
		[FACT_CTIME] = ns_of(&st->stx_ctime),
		[FACT_BTIME] = st->stx_mask & STATX_BTIME ? ns_of(&st->stx_btime) : 0,
	} };
}

void facts_note(struct call *call, char letter, const struct facts *facts)
{
	if (letter < 'A' || letter > 'Z')
		call->bad = "notes are A to Z";
	else
		notes[letter - 'A'] = *facts;
}

bool facts_parse_time(const char *text, int64_t *ret_ns)
{
	char *end;
	int64_t ns = strtoll(text, &end, 10);

	if (end == text)
		return false;
	ns *= SECOND;
	if (*end == '.') {
		int64_t unit = SECOND / 10;

		for (end++; isdigit((unsigned char)*end); end++, unit /= 10)
			ns += unit * (*end - '0');
	}
	*ret_ns = ns;
	return *end == 0;
}

static int find_fact(const char *name, size_t len)
{
	for (int i = 0; i < FACTS; i++)
		if (strlen(fact_names[i]) == len && memcmp(fact_names[i], name, len) == 0)
			return i;
	return -1;
}

/* What the value of a check stands for. */
static bool wanted_value(int fact, const char *text, const struct facts *facts, int64_t *ret)
{
	int other = find_fact(text, strlen(text));

	if (text[0] >= 'A' && text[0] <= 'Z' && !text[1]) {
		*ret = notes[text[0] - 'A'].value[fact];
		return true;
	}
	if (other >= 0) {
		*ret = facts->value[other];
		return true;
	}
	if (fact == FACT_TYPE)
		return find_flags(text, types, ret);
	if (fact == FACT_MODE) {
		char *end;

		*ret = (int64_t)strtoul(text, &end, 8);
		return end != text && !*end;
	}
	if (fact >= FACT_ATIME)
		return facts_parse_time(text, ret);
	return parse_number(text, ret);
}

static bool holds(int64_t value, char op, int64_t wanted)
{
	switch (op) {
	case '=':
		return value == wanted;
	case '!':
		return value != wanted;
	case '<':
		return value < wanted;
	default:
		return value > wanted;
	}
}

static bool is_now(int64_t ns)
{
	struct timespec ts;
	int64_t now;

	clock_gettime(CLOCK_REALTIME, &ts);
	now = ts.tv_sec * SECOND + ts.tv_nsec;
	return ns <= now + SECOND && ns > now - 60 * SECOND;
}

static void check_one(struct call *call, const char *word, const struct facts *facts,
		      struct result *ret)
{
	size_t len = strcspn(word, "=!<>");
	int fact = find_fact(word, len);
	int64_t wanted;

	if (fact < 0 || !word[len]) {
		call->bad = "no such fact";
		return;
	}
	if (fact >= FACT_ATIME && strcmp(word + len, "=now") == 0) {
		if (!is_now(facts->value[fact]))
			result_failed(ret, "%s is not now", fact_names[fact]);
		return;
	}
	if (!wanted_value(fact, word + len + 1, facts, &wanted))
		call->bad = "no such value";
	else if (!holds(facts->value[fact], word[len], wanted))
		result_failed(ret,
			      fact == FACT_MODE || fact == FACT_TYPE
				      ? "%s is 0%llo, and 0%llo is the other"
				      : "%s is %lld, and %lld is the other",
			      fact_names[fact], (long long)facts->value[fact], (long long)wanted);
}

void facts_check(struct call *call, size_t first, const struct facts *facts, struct result *ret)
{
	for (size_t i = first; i < call->count && !call->bad && !ret->error; i++)
		check_one(call, word_text(call, i), facts, ret);
}
