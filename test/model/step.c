/* step.c - random steps, chosen so that they often hit something.
 *
 * G1. Paths are walks from the root through what the actor sees: mostly to things that are there, and to
 *     free names in directories that are there.
 * G2. The names are few, so that operations meet each other.
 * G3. A step holds the seed of the background work behind it, so leaving out a step leaves the others'
 *     background work alone.
 */
#include "step.h"

#include "fs/fs.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#define LONG16 "nnnnnnnnnnnnnnnn"
#define LONG255                                                                                    \
	LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 LONG16 \
		LONG16 LONG16 "nnnnnnnnnnnnnnn"

#define ORDINARY_NAMES 18u

static const char *const names[] = {
	"a",
	"b",
	"c",
	"d",
	"e",
	"f",
	"g",
	"h",
	"aa",
	"ab",
	"a b",
	"file.txt",
	"\xff\xfe",
	"a\n",
	"...",
	"Z",
	LONG255,
	("\xc3\xa4" LONG16),
	/* not ordinary */
	".",
	"..",
	(LONG255 "n"),
	"",
};
static const char *const xattr_names[] = {
	"user.a", "user.b", ("user." LONG16), "trusted.overlay", "security.x", "user.ab",
};

#define NAMES (sizeof(names) / sizeof(names[0]))
#define XATTR_NAMES (sizeof(xattr_names) / sizeof(xattr_names[0]))

struct model_name step_name(uint8_t index)
{
	const char *s = names[index % NAMES];

	return (struct model_name){ s, strlen(s) };
}

struct model_name step_xattr_name(uint8_t index)
{
	const char *s = xattr_names[index % XATTR_NAMES];

	return (struct model_name){ s, strlen(s) };
}

/* Never "": but few of them, so that they meet. */
struct model_name step_key(uint8_t index)
{
	return step_name(index % (NAMES - 1));
}

/* --- choosing --- */

struct gen {
	struct stet_random *random;
	const struct step_mix *mix;
	const struct step_state *state;
	const struct model *m; /* of the actor */
	struct step *s;
};

static uint64_t below(struct gen *g, uint64_t n)
{
	return stet_random_below(g->random, n);
}

static bool chance(struct gen *g, unsigned percent)
{
	return below(g, 100) < percent;
}

static uint8_t any_name(struct gen *g)
{
	if (chance(g, 1))
		return (uint8_t)(ORDINARY_NAMES + below(g, NAMES - ORDINARY_NAMES));
	return (uint8_t)(chance(g, 70) ? below(g, 8) : below(g, ORDINARY_NAMES));
}

static int index_of(const struct model_blob *name)
{
	for (unsigned k = 0; k < NAMES; k++)
		if (strlen(names[k]) == name->len && memcmp(names[k], name->b, name->len) == 0)
			return (int)k;
	return 0;
}

/* G1: to something that is there. want: 0 anything, else a type. */
static void walk(struct gen *g, mode_t want, struct step_path *ret)
{
	const struct model_inode *at = model_find(g->m, STET_ROOT_INO);

	memset(ret, 0, sizeof(*ret));
	while (ret->n < STEP_PATH_MAX - 1 && at && at->entry_count > 0) {
		const struct model_entry *e = &at->entries[below(g, at->entry_count)];

		for (unsigned tries = 0; want && tries < 4; tries++) {
			if ((want & S_IFMT) >> 12 == e->type || (tries > 1 && e->type == 4))
				break;
			e = &at->entries[below(g, at->entry_count)];
		}
		ret->name[ret->n++] = (uint8_t)index_of(e->name);
		at = model_find(g->m, e->ino);
		if (!at || !S_ISDIR(at->mode))
			return;
		if (chance(g, S_ISDIR(want) ? 50 : 25))
			return;
	}
}

static void free_name(struct gen *g, struct step_path *ret)
{
	if (chance(g, 35))
		memset(ret, 0, sizeof(*ret));
	else
		walk(g, S_IFDIR, ret);
	if (ret->n >= STEP_PATH_MAX - 1)
		ret->n = 1;
	ret->name[ret->n++] = any_name(g);
}

static const struct model_inode *inode_at(const struct gen *g, const struct step_path *p)
{
	const struct model_inode *at = model_find(g->m, STET_ROOT_INO);

	for (unsigned k = 0; at && k < p->n; k++) {
		struct model_name name = step_name(p->name[k]);
		const struct model_entry *e = S_ISDIR(at->mode)
						      ? model_entry(at, name.bytes, name.len)
						      : NULL;

		at = e ? model_find(g->m, e->ino) : NULL;
	}
	return at;
}

#define NO_DIR 1u /* as a type: anything but a directory */
#define EMPTY_DIR 2u

static bool fits(const struct gen *g, const struct step_path *p, mode_t want)
{
	const struct model_inode *inode = inode_at(g, p);

	if (!inode || want == 0)
		return true;
	if (want == NO_DIR)
		return !S_ISDIR(inode->mode);
	if (want == EMPTY_DIR)
		return S_ISDIR(inode->mode) && inode->entry_count == 0;
	return (inode->mode & S_IFMT) == want;
}

/* Mostly what is wanted. */
static void target(struct gen *g, mode_t want, struct step_path *ret)
{
	uint8_t slot = (uint8_t)below(g, STEP_HELD);

	for (unsigned tries = 0; tries < 6; tries++) {
		if (chance(g, 3))
			free_name(g, ret);
		else
			walk(g, want == NO_DIR ? S_IFREG : want == EMPTY_DIR ? S_IFDIR : want, ret);
		if (fits(g, ret, want) || chance(g, 8))
			break;
	}
	if (chance(g, 8) && g->state->held[slot])
		ret->held = (uint8_t)(slot + 1);
}

static uint64_t pages_now(const struct gen *g)
{
	uint64_t inodes, pages;

	model_counts(g->state->now, &inodes, &pages);
	return pages;
}

static uint64_t some_len(struct gen *g)
{
	uint64_t max = g->mix->bytes_max;
	uint64_t len;

	if (pages_now(g) < g->mix->pages_min && chance(g, 50))
		return 1 + below(g, max);
	switch (below(g, 10)) {
	case 0 ... 3:
		len = 1 + below(g, 200);
		break;
	case 4 ... 5:
		len = 1 + below(g, 5000);
		break;
	case 6:
		len = STET_BLOCK_SIZE * (1 + below(g, 4));
		break;
	case 7 ... 8:
		len = 1 + below(g, 40000);
		break;
	default:
		len = 1 + below(g, max);
		break;
	}
	return len < max ? len : max;
}

static uint64_t some_off(struct gen *g)
{
	switch (below(g, 10)) {
	case 0 ... 2:
		return 0;
	case 3 ... 4:
		return below(g, 3000);
	case 5 ... 6:
		return STET_BLOCK_SIZE * below(g, 20);
	case 7 ... 8:
		return below(g, 100000);
	default:
		return chance(g, 20) ? below(g, UINT64_C(1) << 34) : below(g, 400000);
	}
}

/* --- operations --- */

static bool crowded(const struct gen *g)
{
	uint64_t inodes, pages;

	model_counts(g->state->now, &inodes, &pages);
	return inodes > g->mix->inodes_max || pages > g->mix->pages_max;
}

static bool sparse(const struct gen *g)
{
	uint64_t inodes, pages;

	model_counts(g->state->now, &inodes, &pages);
	return inodes < 20;
}

static enum model_kind change_kind(struct gen *g)
{
	static const uint8_t usual[] = {
		MODEL_MAKE,         MODEL_MAKE,       MODEL_MAKE,       MODEL_MAKE,
		MODEL_UNLINK,       MODEL_UNLINK,     MODEL_RMDIR,      MODEL_LINK,
		MODEL_RENAME,       MODEL_RENAME,     MODEL_SETATTR,    MODEL_XATTR_SET,
		MODEL_WRITE,        MODEL_WRITE,      MODEL_WRITE,      MODEL_WRITE,
		MODEL_APPEND,       MODEL_APPEND,     MODEL_TRUNCATE,   MODEL_PUNCH,
		MODEL_XATTR_REMOVE, MODEL_RECORD_PUT, MODEL_RECORD_PUT, MODEL_RECORD_PUT,
		MODEL_RECORD_DEL,
	};
	static const uint8_t shrinking[] = {
		MODEL_UNLINK, MODEL_UNLINK, MODEL_RMDIR, MODEL_TRUNCATE,   MODEL_PUNCH,
		MODEL_WRITE,  MODEL_RENAME, MODEL_MAKE,  MODEL_RECORD_DEL,
	};

	if (sparse(g) && chance(g, 50))
		return MODEL_MAKE;
	if (g->mix->long_txns && g->s->actor && chance(g, 30))
		return chance(g, 50) ? MODEL_XATTR_SET : MODEL_RECORD_PUT;
	if (pages_now(g) < g->mix->pages_min && chance(g, 40))
		return chance(g, 80) ? MODEL_WRITE : MODEL_APPEND;
	if (crowded(g))
		return shrinking[below(g, sizeof(shrinking))];
	return usual[below(g, sizeof(usual))];
}

static void gen_make(struct gen *g)
{
	static const uint32_t types[] = { S_IFREG,        S_IFREG, S_IFREG, S_IFREG,
					  S_IFDIR,        S_IFDIR, S_IFDIR, S_IFLNK,
					  S_IFLNK,        S_IFIFO, S_IFCHR, STET_MODE_TABLE,
					  STET_MODE_TABLE };
	struct step *s = g->s;

	free_name(g, &s->a);
	s->mode = types[below(g, sizeof(types) / sizeof(types[0]))] | (uint32_t)below(g, 01000);
	if (S_ISDIR(s->mode) && chance(g, 10))
		s->mode |= S_ISGID;
	s->uid = (uint32_t)below(g, 3);
	s->len = chance(g, 10) ? 2000 + below(g, 2095) : 1 + below(g, 60);
}

static void gen_setattr(struct gen *g)
{
	struct step *s = g->s;

	target(g, 0, &s->a);
	s->mode = (uint32_t)below(g, 01000);
	s->uid = (uint32_t)below(g, 1000);
	s->flags = 1u << below(g, 6);
	if (chance(g, 30))
		s->flags |= 1u << below(g, 6);
	if (s->flags & STET_FS_SET_SIZE)
		target(g, S_IFREG, &s->a);
	s->off = some_off(g);
}

static uint8_t some_key(struct gen *g)
{
	return (uint8_t)(chance(g, 70) ? below(g, 6) : below(g, NAMES - 1));
}

/* In the item, in a few blocks, or in many. */
static uint64_t record_len(struct gen *g)
{
	uint64_t dice = below(g, 100);

	if (dice < 60)
		return below(g, 100);
	if (dice < 75)
		return below(g, 3400);
	if (dice < 95)
		return below(g, 20000);
	return below(g, g->mix->bytes_max < STET_RECORD_SIZE_MAX ? g->mix->bytes_max
								 : STET_RECORD_SIZE_MAX);
}

static void gen_change(struct gen *g)
{
	struct step *s = g->s;

	switch (s->kind) {
	case MODEL_MAKE:
		gen_make(g);
		break;
	case MODEL_UNLINK:
		target(g, NO_DIR, &s->a);
		break;
	case MODEL_RMDIR:
		target(g, EMPTY_DIR, &s->a);
		break;
	case MODEL_LINK:
		target(g, NO_DIR, &s->a);
		free_name(g, &s->b);
		break;
	case MODEL_RENAME:
		target(g, chance(g, 50) ? S_IFDIR : 0, &s->a);
		if (chance(g, 60))
			free_name(g, &s->b);
		else
			target(g, 0, &s->b);
		s->flags = chance(g, 15)   ? STET_FS_RENAME_NOREPLACE
			   : chance(g, 20) ? STET_FS_RENAME_EXCHANGE
					   : 0;
		break;
	case MODEL_SETATTR:
		gen_setattr(g);
		break;
	case MODEL_XATTR_SET:
		target(g, 0, &s->a);
		s->flags = chance(g, 20) ? (uint32_t)below(g, 3) : 0;
		s->len = chance(g, g->mix->long_txns ? 50 : 80)
				 ? below(g, 100)
				 : below(g, chance(g, g->mix->long_txns ? 70 : 30) ? 65536 : 5000);
		break;
	case MODEL_XATTR_REMOVE:
		target(g, 0, &s->a);
		break;
	case MODEL_RECORD_PUT:
		s->flags = chance(g, 20) ? (uint32_t)below(g, 3) : 0;
		s->len = record_len(g);
		/* fall through */
	case MODEL_RECORD_DEL:
		target(g, STET_MODE_TABLE, &s->a);
		s->xattr = some_key(g);
		break;
	default:
		target(g, S_IFREG, &s->a);
		s->off = some_off(g);
		s->len = some_len(g);
		break;
	}
}

static void gen_read(struct gen *g)
{
	struct step *s = g->s;

	s->kind = (uint8_t)below(g, MODEL_MAKE);
	switch (s->kind) {
	case MODEL_LIST:
		target(g, S_IFDIR, &s->a);
		break;
	case MODEL_READ:
		target(g, S_IFREG, &s->a);
		s->off = some_off(g);
		s->len = chance(g, 30) ? 1000000 : some_len(g);
		break;
	case MODEL_READLINK:
		target(g, S_IFLNK, &s->a);
		break;
	case MODEL_RECORD_GET:
	case MODEL_RECORD_LIST:
		target(g, STET_MODE_TABLE, &s->a);
		s->xattr = some_key(g);
		s->flags = (uint32_t)below(g, 2);
		break;
	default:
		target(g, 0, &s->a);
		break;
	}
}

static void gen_other(struct gen *g)
{
	struct step *s = g->s;
	uint64_t dice = below(g, 1000);

	s->slot = (uint8_t)below(g, STEP_HELD);
	if (g->mix->long_txns && chance(g, 70))
		dice = 999;
	if (dice < 8 && g->mix->reopen)
		s->kind = STEP_REOPEN;
	else if (dice < 20 && g->mix->kill)
		s->kind = STEP_KILL;
	else if (dice < 60)
		s->kind = STEP_CHECKPOINT;
	else if (dice < 500)
		s->kind = g->state->held[s->slot] ? STEP_UNHOLD : STEP_HOLD;
	else
		s->kind = STEP_IDLE;
	s->actor = 0;
	g->m = g->state->now;
	if (s->kind == STEP_HOLD)
		target(g, S_IFREG, &s->a);
	if (s->kind == STEP_IDLE)
		s->pump = (uint8_t)(10 + below(g, 60));
}

static void gen_level(struct gen *g)
{
	static const uint8_t levels[] = { STET_LEVEL_SNAPSHOT, STET_LEVEL_SNAPSHOT,
					  STET_LEVEL_SERIALIZABLE, STET_LEVEL_SERIALIZABLE,
					  STET_LEVEL_LOCKING };

	g->s->kind = STEP_BEGIN;
	g->s->level = levels[below(g, g->mix->locking ? 5 : 4)];
	g->s->flags = chance(g, g->mix->short_txns ? 40 : 10);
}

static void gen_save(struct gen *g)
{
	uint64_t dice = below(g, 10);

	g->s->kind = dice < 5 ? STEP_SAVE : dice < 8 ? STEP_BACK : STEP_RELEASE;
	g->s->slot = (uint8_t)(chance(g, 60) ? 0 : below(g, chance(g, 80) ? 4 : 30));
	g->s->flags = chance(g, 20);
}

void step_random(struct stet_random *random, const struct step_mix *mix,
		 const struct step_state *state, uint64_t no, struct step *ret)
{
	struct gen g = { random, mix, state, state->now, ret };
	uint64_t dice = stet_random_below(random, 100);

	memset(ret, 0, sizeof(*ret));
	ret->seed = stet_random_next(random) >> 16;
	ret->pump_seed = stet_random_next(random) >> 16;
	ret->pump = (uint8_t)(chance(&g, 60) ? below(&g, 4) : below(&g, 25));
	if (mix->short_txns && chance(&g, 80))
		ret->pump = 0; /* much is ordered and not durable */
	ret->xattr = (uint8_t)below(&g, XATTR_NAMES);
	ret->actor = (uint8_t)(mix->txns && chance(&g, mix->txn_percent ? mix->txn_percent : 60)
				       ? 1 + below(&g, mix->txns)
				       : 0);
	ret->wait = mix->waits && chance(&g, 30);
	if (mix->compare_every && no % mix->compare_every == mix->compare_every - 1) {
		ret->kind = STEP_COMPARE;
		return;
	}
	if (mix->sync_every && below(&g, mix->sync_every) == 0) {
		ret->kind = STEP_SYNC;
		return;
	}
	if (dice < 5) {
		gen_other(&g);
		return;
	}
	if (ret->actor && !state->txn[ret->actor - 1]) {
		gen_level(&g);
		return;
	}
	g.m = ret->actor ? state->txn[ret->actor - 1] : state->now;
	if (ret->actor && mix->saves && chance(&g, 15)) {
		gen_save(&g);
		return;
	}
	if (ret->actor && (state->doomed[ret->actor - 1] || state->old[ret->actor - 1]) &&
	    chance(&g, 80)) {
		ret->kind = chance(&g, 50) ? STEP_ABORT : STEP_COMMIT;
		return;
	}
	if (ret->actor && mix->short_txns && dice < 25) {
		ret->kind = dice < 8 ? STEP_ABORT : STEP_COMMIT;
		ret->flags = chance(&g, 60);
	} else if (ret->actor && dice < (mix->long_txns ? 7u : 17u)) {
		ret->kind = dice < (mix->long_txns ? 6u : 8u) ? STEP_ABORT : STEP_COMMIT;
		ret->flags = chance(&g, 30);
	} else if (mix->short_txns && ret->actor && state->reads[ret->actor - 1]) {
		gen_read(&g);
	} else if (chance(&g, mix->reads_percent)) {
		gen_read(&g);
	} else {
		ret->kind = (uint8_t)change_kind(&g);
		gen_change(&g);
	}
}

/* --- printing --- */

static void print_path(struct stet_text *t, const struct step_path *p)
{
	if (p->held)
		stet_text_printf(t, " held%u", p->held - 1u);
	else
		stet_text_puts(t, " ");
	for (unsigned k = 0; k < p->n && !p->held; k++) {
		struct model_name name = step_name(p->name[k]);

		stet_text_puts(t, "/");
		if (name.len > 30)
			stet_text_printf(t, "<%zu bytes>", name.len);
		else
			stet_text_name(t, name.bytes, name.len);
	}
	if (p->n == 0 && !p->held)
		stet_text_puts(t, "/");
}

void step_print(struct stet_text *t, const struct step *s)
{
	static const char *const kinds[] = { "BEGIN",  "COMMIT", "ABORT", "SYNC",   "CHECKPOINT",
					     "REOPEN", "KILL",   "HOLD",  "UNHOLD", "COMPARE",
					     "IDLE",   "SAVE",   "BACK",  "RELEASE" };
	static const char *const levels[] = { "plain", "snapshot", "serializable", "locking" };

	if (s->actor)
		stet_text_printf(t, "T%u ", s->actor);
	stet_text_puts(t, s->kind < MODEL_KINDS ? model_kind_name(s->kind)
						: kinds[s->kind - MODEL_KINDS]);
	if (s->kind == STEP_BEGIN)
		stet_text_printf(t, " %s%s", levels[s->level], s->flags ? " read-only" : "");
	if (s->kind == STEP_BACK || s->kind == STEP_RELEASE)
		stet_text_printf(t, " -%u%s", s->slot, s->flags ? " and release" : "");
	if (s->kind == STEP_HOLD || s->kind == STEP_UNHOLD)
		stet_text_printf(t, " slot %u", s->slot);
	if (s->kind < MODEL_KINDS || s->kind == STEP_HOLD)
		print_path(t, &s->a);
	if (s->kind == MODEL_LINK || s->kind == MODEL_RENAME)
		print_path(t, &s->b);
	if (s->kind < MODEL_KINDS && !model_kind_reads(s->kind))
		stet_text_printf(t, " off=%" PRIu64 " len=%" PRIu64 " flags=%x mode=%o", s->off,
				 s->len, s->flags, s->mode);
	if (s->kind == MODEL_READ)
		stet_text_printf(t, " off=%" PRIu64 " len=%" PRIu64, s->off, s->len);
	if (s->kind == MODEL_XATTR_GET || s->kind == MODEL_XATTR_SET ||
	    s->kind == MODEL_XATTR_REMOVE || s->kind == MODEL_RECORD_GET ||
	    s->kind == MODEL_RECORD_PUT || s->kind == MODEL_RECORD_DEL)
		stet_text_printf(t, " x%u", s->xattr);
	if (s->wait)
		stet_text_puts(t, " wait");
	stet_text_printf(t, " seed=%" PRIu64 " pump=%u:%" PRIu64 "\n", s->seed, s->pump,
			 s->pump_seed);
}
