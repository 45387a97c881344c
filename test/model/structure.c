/* structure.c - pairs of transactions by name, and what may come of them.
 *
 * Each case is a set-up and two scripts. Both become transactions (or the second one plain operations), and
 * every interleaving of their steps, begin and commit included, is run on a volume of its own.
 *
 * R1. The duel's rules hold (duel.h), and at the end the catalog is whole: every inode is reached as often
 *     as its link count says, no loops, sizes of directories right.
 * R2. Where both read the same things they write (SERIALIZABLE, LOCKING), the outcome is that of the
 *     committed ones in some order, one after the other.
 * R3. COMMUTES: nothing is ever refused; COMMUTES_UNREAD: not at SNAPSHOT, where reading a name does not
 *     depend on it. EXCLUDES: at SNAPSHOT and SERIALIZABLE, two that overlap do not
 *     both commit. SKEWED: the same, at SERIALIZABLE only.
 * A transaction that is refused something gives up.
 */
#include "structure.h"

#include "duel.h"
#include "model_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define STEPS_MAX 6
#define SETUP_MAX 8
#define SIDES 2

enum rule { ANY, COMMUTES, COMMUTES_UNREAD, EXCLUDES, SKEWED };

struct pair {
	const char *name, *setup, *script[SIDES];
	enum rule rule;
};

/* Words: mkdir create symlink P; rmdir unlink P; link rename exchange noreplace P Q; chmod P MODE;
 * write append P OFF LEN; truncate punch P OFF LEN; setx P NO; list look stat read P. Names are one letter. */
static const struct pair pairs[] = {
	{ "two renames that would make a loop",
	  "mkdir /a; mkdir /b",
	  { "rename /a /b/c", "rename /b /a/c" },
	  EXCLUDES },
	{ "two renames that would make a long loop",
	  "mkdir /a; mkdir /a/c; mkdir /b; mkdir /b/d",
	  { "rename /a /b/d/e", "rename /b /a/c/f" },
	  EXCLUDES },
	{ "an exchange and a rename that would make a loop",
	  "mkdir /a; mkdir /a/c; mkdir /b",
	  { "exchange /a/c /b", "rename /a /b/d" },
	  EXCLUDES },
	{ "rmdir against create", "mkdir /d", { "rmdir /d", "create /d/f" }, EXCLUDES },
	{ "rmdir against mkdir", "mkdir /d", { "rmdir /d", "mkdir /d/e" }, EXCLUDES },
	{ "rmdir against a rename into it",
	  "mkdir /d; create /f",
	  { "rmdir /d", "rename /f /d/f" },
	  EXCLUDES },
	{ "rmdir against a link into it",
	  "mkdir /d; create /f",
	  { "rmdir /d", "link /f /d/f" },
	  EXCLUDES },
	{ "rmdir against rmdir", "mkdir /d", { "rmdir /d", "rmdir /d" }, EXCLUDES },
	{ "rmdir against chmod", "mkdir /d", { "rmdir /d", "chmod /d 700" }, ANY },
	{ "emptying and rmdir against create",
	  "mkdir /d; create /d/f",
	  { "unlink /d/f; rmdir /d", "create /d/g" },
	  EXCLUDES },
	{ "emptying and rmdir against a rename out",
	  "mkdir /d; create /d/f",
	  { "unlink /d/f; rmdir /d", "rename /d/f /g" },
	  EXCLUDES },
	{ "moving out and rmdir against moving in",
	  "mkdir /d; mkdir /d/a; mkdir /e",
	  { "rename /d/a /e/a; rmdir /d", "rename /e /d/e" },
	  EXCLUDES },
	{ "link against the last unlink", "create /f", { "link /f /g", "unlink /f" }, ANY },
	{ "link against a rename over the last name",
	  "create /f; create /a",
	  { "link /f /g", "rename /a /f" },
	  ANY },
	{ "link against unlink of another name",
	  "create /f; link /f /g",
	  { "link /g /h", "unlink /f" },
	  COMMUTES },
	{ "two unlinks of one inode",
	  "create /f; link /f /g",
	  { "unlink /f", "unlink /g" },
	  COMMUTES },
	{ "two links to one inode", "create /f", { "link /f /g", "link /f /h" }, COMMUTES },
	{ "two appends",
	  "create /f; write /f 0 100",
	  { "append /f 0 50", "append /f 0 70" },
	  COMMUTES },
	{ "two appends of whole blocks",
	  "create /f; write /f 0 9000",
	  { "append /f 0 9000", "append /f 0 5000" },
	  COMMUTES },
	{ "append against truncate",
	  "create /f; write /f 0 100",
	  { "append /f 0 50", "truncate /f 10 0" },
	  ANY },
	{ "append against write",
	  "create /f; write /f 0 9000",
	  { "append /f 0 50", "write /f 10 10" },
	  ANY },
	{ "two writes to one file",
	  "create /f; write /f 0 100",
	  { "write /f 0 50", "write /f 20 50" },
	  EXCLUDES },
	{ "two writes to different blocks",
	  "create /f; write /f 0 30000",
	  { "write /f 0 50", "write /f 20000 50" },
	  ANY },
	{ "a hole against a write",
	  "create /f; write /f 0 30000",
	  { "punch /f 0 20000", "write /f 5000 50" },
	  EXCLUDES },
	{ "chmod against write", "create /f", { "chmod /f 600", "write /f 0 50" }, COMMUTES },
	{ "chmod against append", "create /f", { "chmod /f 600", "append /f 0 50" }, COMMUTES },
	{ "chmod against chmod", "create /f", { "chmod /f 600", "chmod /f 640" }, EXCLUDES },
	{ "chmod against link", "create /f", { "chmod /f 600", "link /f /g" }, COMMUTES },
	{ "two creates with different names",
	  "mkdir /d",
	  { "create /d/a", "create /d/b" },
	  COMMUTES },
	{ "create against mkdir with different names",
	  "mkdir /d",
	  { "create /d/a", "mkdir /d/b" },
	  COMMUTES },
	{ "create against unlink in one directory",
	  "mkdir /d; create /d/b",
	  { "create /d/a", "unlink /d/b" },
	  COMMUTES },
	{ "two creates with the same name",
	  "mkdir /d",
	  { "create /d/a", "create /d/a" },
	  EXCLUDES },
	{ "create against mkdir with the same name", "", { "create /a", "mkdir /a" }, EXCLUDES },
	{ "two renames of one name", "create /f", { "rename /f /g", "rename /f /h" }, EXCLUDES },
	{ "two renames to one name",
	  "create /f; create /g",
	  { "rename /f /h", "rename /g /h" },
	  EXCLUDES },
	{ "unlink against rename of one name",
	  "create /f",
	  { "unlink /f", "rename /f /g" },
	  EXCLUDES },
	{ "unlink against write",
	  "create /f; write /f 0 100",
	  { "unlink /f", "write /f 0 50" },
	  ANY },
	{ "unlink against append",
	  "create /f; write /f 0 100",
	  { "unlink /f", "append /f 0 50" },
	  ANY },
	{ "unlink against setxattr", "create /f", { "unlink /f", "setx /f 0" }, ANY },
	{ "rename over a directory against create in it",
	  "mkdir /a; mkdir /d",
	  { "rename /a /d", "create /d/f" },
	  EXCLUDES },
	{ "rename of a directory against create in it",
	  "mkdir /a; mkdir /d",
	  { "rename /a /d/a", "create /a/f" },
	  COMMUTES_UNREAD },
	{ "exchange against create below",
	  "mkdir /a; mkdir /b",
	  { "exchange /a /b", "create /a/f" },
	  COMMUTES_UNREAD },
	{ "different xattrs", "create /f", { "setx /f 0", "setx /f 1" }, COMMUTES },
	{ "the same xattr", "create /f", { "setx /f 0", "setx /f 0" }, EXCLUDES },
	{ "write skew",
	  "create /f; create /g",
	  { "read /f; write /g 0 10", "read /g; write /f 0 10" },
	  SKEWED },
	{ "skew of listings",
	  "mkdir /a; mkdir /b",
	  { "list /a; create /b/f", "list /b; create /a/f" },
	  SKEWED },
	{ "skew of absent names", "", { "look /a; create /b", "look /b; create /a" }, SKEWED },
	{ "skew of attributes",
	  "create /f; create /g",
	  { "stat /f; chmod /g 600", "stat /g; chmod /f 600" },
	  SKEWED },
	{ "skew of sizes",
	  "create /f; create /g",
	  { "stat /f; append /g 0 10", "stat /g; append /f 0 10" },
	  SKEWED },
};

static const enum stet_level levels[][SIDES] = {
	{ STET_LEVEL_SNAPSHOT, STET_LEVEL_SNAPSHOT },
	{ STET_LEVEL_SERIALIZABLE, STET_LEVEL_SERIALIZABLE },
	{ STET_LEVEL_LOCKING, STET_LEVEL_LOCKING },
	{ STET_LEVEL_SNAPSHOT, STET_LEVEL_SERIALIZABLE },
	{ STET_LEVEL_SERIALIZABLE, STET_LEVEL_LOCKING },
	{ STET_LEVEL_SNAPSHOT, STET_LEVEL_PLAIN },
	{ STET_LEVEL_SERIALIZABLE, STET_LEVEL_PLAIN },
	{ STET_LEVEL_LOCKING, STET_LEVEL_PLAIN },
};

static size_t total_runs, total_both;

/* --- scripts --- */

static void parse_path(const char *word, struct step_path *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (; word && *word; word++)
		if (*word != '/')
			ret->name[ret->n++] = (uint8_t)(*word - 'a');
}

static const struct {
	const char *word;
	uint8_t kind;
	uint32_t mode, flags;
} words[] = {
	{ "mkdir", MODEL_MAKE, S_IFDIR | 0755, 0 },
	{ "create", MODEL_MAKE, S_IFREG | 0644, 0 },
	{ "rmdir", MODEL_RMDIR, 0, 0 },
	{ "unlink", MODEL_UNLINK, 0, 0 },
	{ "link", MODEL_LINK, 0, 0 },
	{ "rename", MODEL_RENAME, 0, 0 },
	{ "exchange", MODEL_RENAME, 0, STET_FS_RENAME_EXCHANGE },
	{ "chmod", MODEL_SETATTR, 0, STET_FS_SET_MODE },
	{ "write", MODEL_WRITE, 0, 0 },
	{ "append", MODEL_APPEND, 0, 0 },
	{ "truncate", MODEL_TRUNCATE, 0, 0 },
	{ "punch", MODEL_PUNCH, 0, 0 },
	{ "setx", MODEL_XATTR_SET, 0, 0 },
	{ "list", MODEL_LIST, 0, 0 },
	{ "look", MODEL_LOOKUP, 0, 0 },
	{ "stat", MODEL_GETATTR, 0, 0 },
	{ "read", MODEL_READ, 0, 0 },
};

static void parse_step(char *text, uint8_t actor, struct step *ret)
{
	char *save, *word = strtok_r(text, " ", &save);
	char *arg[3] = { NULL, NULL, NULL };
	size_t k = 0;

	memset(ret, 0, sizeof(*ret));
	ret->actor = actor;
	ret->seed = 17u + actor;
	while (strcmp(words[k].word, word) != 0)
		k++;
	ret->kind = words[k].kind;
	ret->mode = words[k].mode;
	ret->flags = words[k].flags;
	for (size_t i = 0; i < 3; i++)
		arg[i] = strtok_r(NULL, " ", &save);
	parse_path(arg[0], &ret->a);
	if (ret->kind == MODEL_LINK || ret->kind == MODEL_RENAME) {
		parse_path(arg[1], &ret->b);
		return;
	}
	ret->mode |= ret->kind == MODEL_SETATTR ? (uint32_t)strtoul(arg[1], NULL, 8) : 0;
	ret->xattr = ret->kind == MODEL_XATTR_SET ? (uint8_t)strtoul(arg[1], NULL, 10) : 0;
	ret->off = arg[1] ? strtoull(arg[1], NULL, 10) : 0;
	ret->len = arg[2] ? strtoull(arg[2], NULL, 10) : ret->kind == MODEL_READ ? 1000000 : 20;
}

static size_t parse(const char *script, uint8_t actor, struct step *ret, size_t max)
{
	char text[256];
	char *save, *part;
	size_t n = 0;

	snprintf(text, sizeof(text), "%s", script);
	for (part = strtok_r(text, ";", &save); part && n < max; part = strtok_r(NULL, ";", &save))
		parse_step(part, actor, &ret[n++]);
	return n;
}

/* --- what a tree is, but for numbers and times --- */

static void sign_inode(struct stet_text *t, const struct model *m, const struct model_inode *i)
{
	stet_text_printf(t, " %o %u %" PRIu64, i->mode, i->nlink, i->size);
	for (size_t k = 0; k < i->page_count; k++)
		stet_text_printf(t, " p%" PRIx64, i->pages[k].bytes->hash.a);
	for (size_t k = 0; k < i->xattr_count; k++)
		stet_text_printf(t, " x%" PRIx64 "=%" PRIx64, i->xattrs[k].name->hash.a,
				 i->xattrs[k].value->hash.a);
	stet_text_puts(t, " {");
	for (size_t k = 0; k < i->entry_count; k++) {
		stet_text_name(t, i->entries[k].name->b, i->entries[k].name->len);
		sign_inode(t, m, model_find(m, i->entries[k].ino));
	}
	stet_text_puts(t, "}");
}

static void sign(struct stet_text *t, const struct model *m)
{
	stet_text_clear(t);
	sign_inode(t, m, model_find(m, STET_ROOT_INO));
}

/* --- one run --- */

struct trial {
	const struct pair *pair;
	const enum stet_level *level;
	struct step setup[SETUP_MAX], script[SIDES][STEPS_MAX]; /* begin and commit included */
	size_t setup_count, count[SIDES];
	uint32_t order; /* bit i: which side the i-th step is of */
	/* --- how it went --- */
	struct duel *d;
	struct model *start;
	size_t at[SIDES];
	bool begun[SIDES], refused[SIDES], committed[SIDES], over[SIDES], overlap;
};

static bool plain_side(const struct trial *t, unsigned side)
{
	return t->level[side] == STET_LEVEL_PLAIN;
}

static void note_progress(struct trial *t, unsigned side, uint64_t refusals, uint64_t conflicts)
{
	const struct step *s = &t->script[side][t->at[side]];
	bool last = ++t->at[side] == t->count[side];

	t->begun[side] = true;
	t->overlap = t->overlap || (t->begun[0] && t->begun[1] && !t->over[0] && !t->over[1]);
	t->refused[side] = t->refused[side] || t->d->counts.refused > refusals ||
			   t->d->counts.conflicts > conflicts;
	if (!last)
		return;
	t->over[side] = true;
	t->committed[side] = !t->refused[side] && (plain_side(t, side) || s->kind == STEP_COMMIT);
}

/* Every name on the way is looked up by the transaction itself, as the calls by path do. */
static bool look_up(struct trial *t, const struct step *s, const struct step_path *p)
{
	bool by_number = s->kind == MODEL_LINK
				 ? p == &s->a
				 : s->kind != MODEL_MAKE && s->kind != MODEL_UNLINK &&
					   s->kind != MODEL_RMDIR && s->kind != MODEL_RENAME &&
					   s->kind != MODEL_LOOKUP;
	struct step look = { .kind = MODEL_LOOKUP, .actor = s->actor, .a = *p };
	uint8_t names = (uint8_t)(p->n - !by_number);
	bool ok = true;

	for (look.a.n = 1; p->n && look.a.n <= names && ok; look.a.n++)
		ok = duel_step(t->d, &look);
	return ok;
}

static bool do_step(struct trial *t, unsigned side)
{
	struct step s = t->script[side][t->at[side]];
	uint64_t refusals = t->d->counts.refused, conflicts = t->d->counts.conflicts;
	bool ok = true;

	if (s.kind == STEP_COMMIT && t->refused[side])
		s.kind = STEP_ABORT;
	if (s.kind < MODEL_KINDS && s.actor && !t->refused[side])
		ok = look_up(t, &s, &s.a) && look_up(t, &s, &s.b);
	if (ok && (!t->refused[side] || s.kind == STEP_ABORT))
		ok = duel_step(t->d, &s);
	note_progress(t, side, refusals, conflicts);
	return ok;
}

/* R2: the committed ones, one after the other, on the model alone. */
static void run_alone(struct trial *t, unsigned side, struct model **m)
{
	struct model *now = t->d->now;

	t->d->now = *m;
	for (size_t k = 0; k < t->count[side]; k++) {
		struct step s = t->script[side][k];
		struct model_op op;

		if (s.kind >= MODEL_KINDS)
			continue;
		duel_resolve_(t->d, *m, &s, &op);
		op.new_ino = 500 + side * 100 + k;
		model_apply(m, &op, op.now_ns, 1, &t->d->model);
		t->d->now = *m;
	}
	t->d->now = now;
	model_reclaim_all(m);
}

static bool is_serial(struct trial *t)
{
	struct stet_text have, want;
	bool found = false;

	stet_text_init(&have);
	stet_text_init(&want);
	sign(&have, t->d->now);
	for (unsigned first = 0; first < SIDES && !found; first++) {
		struct model *m = model_get(t->start);

		if (t->committed[first])
			run_alone(t, first, &m);
		if (t->committed[1 - first])
			run_alone(t, 1 - first, &m);
		sign(&want, m);
		found = strcmp(stet_text_cstr(&have), stet_text_cstr(&want)) == 0;
		model_put(m);
	}
	if (!found)
		duel_fail(t->d, "no serial order gives\n  %s", stet_text_cstr(&have));
	stet_text_release(&have);
	stet_text_release(&want);
	return found;
}

static bool strict(const struct trial *t, bool locking_too)
{
	for (unsigned side = 0; side < SIDES; side++)
		if (t->level[side] == STET_LEVEL_SNAPSHOT ||
		    (!locking_too && t->level[side] == STET_LEVEL_LOCKING))
			return false;
	return true;
}

static bool no_locking(const struct trial *t)
{
	return t->level[0] != STET_LEVEL_LOCKING && t->level[1] != STET_LEVEL_LOCKING;
}

/* Neither side depends on what it only reads. */
static bool unread(const struct trial *t)
{
	for (unsigned side = 0; side < SIDES; side++)
		if (t->level[side] != STET_LEVEL_SNAPSHOT && !plain_side(t, side))
			return false;
	return true;
}

static bool judge(struct trial *t)
{
	bool both = t->committed[0] && t->committed[1];
	enum rule rule = t->pair->rule;

	total_both += both;
	if ((rule == COMMUTES || (rule == COMMUTES_UNREAD && unread(t))) && !both)
		return duel_fail(t->d, "these two commute, and one was refused: %s",
				 stet_error_text());
	if (rule == EXCLUDES && both && t->overlap && no_locking(t))
		return duel_fail(t->d, "these two exclude each other, and both went through");
	if (rule == SKEWED && both && t->overlap && strict(t, false))
		return duel_fail(t->d, "a skew: both went through");
	if (strict(t, true) && !is_serial(t))
		return false;
	return duel_finish(t->d);
}

static void print_trial(const struct trial *t, unsigned n)
{
	static const char *const names[] = { "plain", "snapshot", "serializable", "locking" };

	printf("%s: %s and %s:", t->pair->name, names[t->level[0]], names[t->level[1]]);
	for (unsigned i = 0; i < n; i++)
		printf(" %c", t->order >> i & 1 ? 'B' : 'A');
	printf(" (A: %s; B: %s)\n  %s\n", t->pair->script[0], t->pair->script[1],
	       stet_text_cstr(&t->d->why));
}

static bool run_trial(struct trial *t)
{
	const struct world_config config = {
		.size_bytes = UINT64_C(16) << 20,
		.seg_blocks = 64,
		.meta_copies = 1,
		.cache_bytes = UINT64_C(4) << 20,
		.seed = 1,
	};
	unsigned n = (unsigned)(t->count[0] + t->count[1]);
	bool ok = true;

	if (duel_create(&config, &t->d)) {
		printf("no volume: %s\n", stet_error_text());
		return false;
	}
	memset(t->at, 0, sizeof(t->at));
	t->overlap = false;
	for (unsigned side = 0; side < SIDES; side++)
		t->begun[side] = t->refused[side] = t->committed[side] = t->over[side] = false;
	for (size_t k = 0; k < t->setup_count && ok; k++)
		ok = duel_step(t->d, &t->setup[k]);
	t->start = model_get(t->d->now);
	for (unsigned i = 0; i < n && ok; i++)
		ok = do_step(t, t->order >> i & 1);
	if (ok)
		ok = judge(t);
	if (!ok)
		print_trial(t, n);
	total_runs++;
	model_put(t->start);
	duel_destroy(t->d);
	return ok;
}

static void add_frame(struct trial *t, unsigned side)
{
	struct step *s = t->script[side];
	size_t n = t->count[side];

	if (plain_side(t, side)) {
		for (size_t k = 0; k < n; k++)
			s[k].actor = 0;
		return;
	}
	memmove(s + 1, s, n * sizeof(*s));
	s[0] = (struct step){ .kind = STEP_BEGIN,
			      .actor = (uint8_t)(side + 1),
			      .level = (uint8_t)t->level[side] };
	s[n + 1] = (struct step){ .kind = STEP_COMMIT, .actor = (uint8_t)(side + 1) };
	t->count[side] = n + 2;
}

static bool run_level(const struct pair *pair, const enum stet_level level[SIDES])
{
	struct trial t = { .pair = pair, .level = level };
	unsigned failed = 0;

	t.setup_count = parse(pair->setup, 0, t.setup, SETUP_MAX);
	for (unsigned side = 0; side < SIDES; side++) {
		t.count[side] = parse(pair->script[side], (uint8_t)(side + 1), t.script[side],
				      STEPS_MAX - 2);
		if (plain_side(&t, side) && t.count[side] > 1)
			return true; /* not one operation: no transaction to compare with */
		add_frame(&t, side);
	}
	for (t.order = 0; t.order < 1u << (t.count[0] + t.count[1]); t.order++) {
		if ((size_t)__builtin_popcount(t.order) != t.count[1])
			continue;
		failed += !run_trial(&t);
		if (failed >= 3)
			break;
	}
	return failed == 0;
}

size_t structure_case_count(void)
{
	return sizeof(pairs) / sizeof(pairs[0]);
}

const char *structure_case_name(size_t no)
{
	return pairs[no].name;
}

bool structure_run_case(size_t no)
{
	bool ok = true;

	for (size_t k = 0; k < sizeof(levels) / sizeof(levels[0]); k++)
		ok = run_level(&pairs[no], levels[k]) && ok;
	return ok;
}

void structure_totals(size_t *ret_runs, size_t *ret_both)
{
	*ret_runs = total_runs;
	*ret_both = total_both;
}
