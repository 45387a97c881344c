/* script.c - running scripts. See script.h. */
#include "script.h"

#include "stetfs_lowlevel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCKED 1 /* the step waits */
#define VALUES 10u

struct run {
	struct stet_volume *vol;
	struct script *s;
	enum script_kind kind;
	struct stet_txn *txn[SCRIPT_TXNS + 1];
	bool read_only[SCRIPT_TXNS + 1];
	bool waits[SCRIPT_TXNS + 1];
	uint64_t dir;
	uint64_t file[2], list;     /* FILES */
	uint64_t value_ino[VALUES]; /* NAMES: the file that a value stands for */
#ifdef STET_KEY_MAX
	struct stet_table *table;
#endif
	unsigned inserted, now;
};

bool script_has(enum script_kind kind)
{
#ifdef STET_KEY_MAX
	(void)kind;
	return true;
#else
	return kind != SCRIPT_RECORDS;
#endif
}

static bool doomed_of(struct stet_txn *txn, const struct stet_txn_entry *e, bool *ret)
{
	if (e->id != stet_transaction_id(txn))
		return false;
	*ret = e->doomed;
	return true;
}

struct doom {
	struct stet_txn *txn;
	bool doomed;
};

static int find_doom(void *arg, const struct stet_txn_entry *e)
{
	struct doom *d = arg;

	return doomed_of(d->txn, e, &d->doomed);
}

/* Whether -EBUSY or the time that is over mean a lock that is not free. */
static bool is_wait(struct run *r, struct stet_txn *txn, int64_t rc)
{
	struct doom d = { .txn = txn };

	if (rc == -ETIMEDOUT)
		return true;
	if (rc != -EBUSY || !txn)
		return false;
	stet_txns(r->vol, find_doom, &d);
	return !d.doomed;
}

/* --- registers in files: the first bytes of a file --- */

static int64_t file_read(struct run *r, struct stet_txn *txn, unsigned x, uint64_t *ret)
{
	unsigned char byte = 0;
	ssize_t n = stet_ll_read(r->vol, txn, r->file[x], 0, &byte, 1, STET_LL_NOWAIT);

	*ret = byte;
	return n;
}

static int64_t file_write(struct run *r, struct stet_txn *txn, unsigned x, uint64_t value)
{
	unsigned char byte = (unsigned char)value;

	return stet_ll_write(r->vol, txn, r->file[x], 0, &byte, 1, STET_LL_NOWAIT);
}

/* --- registers that are names: which of some files they lead to --- */

static uint64_t value_of(const struct run *r, uint64_t ino)
{
	for (unsigned v = 1; v < VALUES; v++)
		if (r->value_ino[v] == ino)
			return v;
	return 0;
}

static const char *name_of(unsigned x)
{
	return x == 0 ? "x" : "y";
}

static int64_t name_read(struct run *r, struct stet_txn *txn, unsigned x, uint64_t *ret)
{
	struct stet_stat st;
	int rc = stet_ll_lookup(r->vol, txn, r->dir, name_of(x), STET_LL_NOWAIT, &st);

	*ret = rc ? 0 : value_of(r, st.ino);
	return rc == -ENOENT ? 0 : rc;
}

static int64_t name_write(struct run *r, struct stet_txn *txn, unsigned x, uint64_t value)
{
	char from[8];

	snprintf(from, sizeof(from), "v%u%s", (unsigned)value, name_of(x));
	return stet_ll_rename(r->vol, txn, r->dir, from, r->dir, name_of(x), STET_LL_NOWAIT, NULL);
}

struct listing {
	uint64_t x[2], others;
};

static int64_t names_list(struct run *r, struct stet_txn *txn, struct listing *ret)
{
	struct stet_ll_entry e[64];
	int n = stet_ll_readdir(r->vol, txn, r->dir, "", STET_LL_NOWAIT, e, 64);

	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < n; i++) {
		if (strcmp(e[i].name, "x") == 0)
			ret->x[0] = value_of(r, e[i].stat.ino);
		else if (strcmp(e[i].name, "y") == 0)
			ret->x[1] = value_of(r, e[i].stat.ino);
		else if (e[i].name[0] == 'n')
			ret->others++;
	}
	return n;
}

static int make(struct run *r, struct stet_txn *txn, uint64_t dir, const char *name, mode_t type,
		uint64_t *ret_ino)
{
	const struct stet_ll_new what = { .mode = type | 0755 };
	struct stet_stat st;
	int rc = stet_ll_make(r->vol, txn, dir, name, &what, STET_LL_NOWAIT, &st);

	if (!rc && ret_ino)
		*ret_ino = st.ino;
	return rc;
}

static int64_t name_insert(struct run *r, struct stet_txn *txn)
{
	char name[16];

	snprintf(name, sizeof(name), "n%u", r->inserted);
	return make(r, txn, r->dir, name, S_IFREG, NULL);
}

/* --- records --- */

#ifdef STET_KEY_MAX
static int64_t record_read(struct run *r, struct stet_txn *txn, unsigned x, uint64_t *ret)
{
	unsigned char byte = 0;
	ssize_t n = stet_get(r->table, txn, name_of(x), 1, &byte, 1, 0);

	*ret = byte;
	return n == -ENOENT ? 0 : n;
}

static int64_t record_write(struct run *r, struct stet_txn *txn, unsigned x, uint64_t value)
{
	unsigned char byte = (unsigned char)value;

	return stet_put(r->table, txn, name_of(x), 1, &byte, 1, 0);
}

static int add_record(void *arg, const struct stet_record *record)
{
	struct listing *l = arg;
	char first = *(const char *)record->key;

	if (first == 'x' || first == 'y')
		l->x[first == 'y'] = *(const unsigned char *)record->value;
	else
		l->others++;
	return 0;
}

static int64_t records_list(struct run *r, struct stet_txn *txn, struct listing *ret)
{
	memset(ret, 0, sizeof(*ret));
	return stet_scan(r->table, txn, NULL, add_record, ret);
}

static int64_t record_insert(struct run *r, struct stet_txn *txn)
{
	char name[16];

	snprintf(name, sizeof(name), "n%u", r->inserted);
	return stet_put(r->table, txn, name, strlen(name), "1", 1, STET_PUT_CREATE);
}
#endif

/* --- steps --- */

static int64_t do_read(struct run *r, struct stet_txn *txn, unsigned x, uint64_t *ret)
{
#ifdef STET_KEY_MAX
	if (r->kind == SCRIPT_RECORDS)
		return record_read(r, txn, x, ret);
#endif
	return r->kind == SCRIPT_FILES ? file_read(r, txn, x, ret) : name_read(r, txn, x, ret);
}

static int64_t do_write(struct run *r, struct stet_txn *txn, unsigned x, uint64_t value)
{
#ifdef STET_KEY_MAX
	if (r->kind == SCRIPT_RECORDS)
		return record_write(r, txn, x, value);
#endif
	return r->kind == SCRIPT_FILES ? file_write(r, txn, x, value)
				       : name_write(r, txn, x, value);
}

static int64_t list_all(struct run *r, struct stet_txn *txn, struct listing *ret)
{
#ifdef STET_KEY_MAX
	if (r->kind == SCRIPT_RECORDS)
		return records_list(r, txn, ret);
#endif
	return names_list(r, txn, ret);
}

/* Of a file: how long it is. */
static int64_t do_list(struct run *r, struct stet_txn *txn, uint64_t *ret)
{
	unsigned char bytes[64];
	struct listing l;
	int64_t rc;

	if (r->kind == SCRIPT_FILES) {
		rc = stet_ll_read(r->vol, txn, r->list, 0, bytes, sizeof(bytes), STET_LL_NOWAIT);
		*ret = rc > 0 ? (uint64_t)rc : 0;
		return rc;
	}
	rc = list_all(r, txn, &l);
	*ret = l.others;
	return rc;
}

static int64_t do_insert(struct run *r, struct stet_txn *txn)
{
#ifdef STET_KEY_MAX
	if (r->kind == SCRIPT_RECORDS)
		return record_insert(r, txn);
#endif
	if (r->kind == SCRIPT_FILES)
		return stet_ll_append(r->vol, txn, r->list, "1", 1, STET_LL_NOWAIT);
	return name_insert(r, txn);
}

static int64_t do_scan(struct run *r, struct stet_txn *txn, unsigned x, uint64_t *ret)
{
	struct listing l;
	int64_t rc;

	if (r->kind == SCRIPT_FILES)
		return file_read(r, txn, x, ret);
	rc = list_all(r, txn, &l);
	*ret = l.x[x];
	return rc;
}

/* Paths of the tree: names of one letter, "a/b". The directory of the last one. */
static int64_t walk(struct run *r, struct stet_txn *txn, const char *path, uint64_t *ret_dir,
		    const char **ret_name)
{
	struct stet_stat st = { .ino = r->dir };
	int rc = 0;

	for (; path[1] == '/' && !rc; path += 2) {
		const char name[2] = { path[0], 0 };

		rc = stet_ll_lookup(r->vol, txn, st.ino, name, STET_LL_NOWAIT, &st);
	}
	*ret_dir = st.ino;
	*ret_name = path;
	return rc;
}

static int64_t tree_two(struct run *r, struct stet_txn *txn, char words[][16], uint64_t dir,
			const char *name)
{
	struct stet_stat st;
	uint64_t to_dir;
	const char *to;
	int64_t rc = walk(r, txn, words[2], &to_dir, &to);

	if (rc)
		return rc;
	if (strcmp(words[0], "rename") == 0)
		return stet_ll_rename(r->vol, txn, dir, name, to_dir, to, STET_LL_NOWAIT, NULL);
	rc = stet_ll_lookup(r->vol, txn, dir, name, STET_LL_NOWAIT, &st);
	return rc ? rc : stet_ll_link(r->vol, txn, st.ino, to_dir, to, STET_LL_NOWAIT, NULL);
}

static int64_t tree_step(struct run *r, struct stet_txn *txn, struct script_step *step)
{
	char(*words)[16] = step->words;
	struct stet_stat st;
	const char *name;
	uint64_t dir;
	int64_t rc = walk(r, txn, words[1], &dir, &name);

	if (rc)
		return rc;
	if (strcmp(words[0], "mkdir") == 0)
		return make(r, txn, dir, name, S_IFDIR, NULL);
	if (strcmp(words[0], "create") == 0)
		return make(r, txn, dir, name, S_IFREG, NULL);
	if (strcmp(words[0], "rmdir") == 0)
		return stet_ll_rmdir(r->vol, txn, dir, name, STET_LL_NOWAIT, NULL);
	if (strcmp(words[0], "unlink") == 0)
		return stet_ll_unlink(r->vol, txn, dir, name, STET_LL_NOWAIT, NULL);
	if (words[2][0])
		return tree_two(r, txn, words, dir, name);
	rc = stet_ll_lookup(r->vol, txn, dir, name, STET_LL_NOWAIT, &st);
	if (!rc && strcmp(words[0], "put") == 0)
		return stet_ll_write(r->vol, txn, st.ino, 0, "content", 7, STET_LL_NOWAIT);
	if (!rc)
		step->value = st.ino;
	return rc;
}

/* 0 or more: done. */
static int64_t do_step(struct run *r, struct stet_txn *txn, struct script_step *step)
{
	const char *word = step->words[0];
	unsigned x = step->words[1][0] == 'y';

	if (strcmp(word, "read") == 0)
		return do_read(r, txn, x, &step->value);
	if (strcmp(word, "write") == 0)
		return do_write(r, txn, x, strtoull(step->words[2], NULL, 10));
	if (strcmp(word, "scan") == 0)
		return do_scan(r, txn, x, &step->value);
	if (strcmp(word, "list") == 0)
		return do_list(r, txn, &step->value);
	if (strcmp(word, "insert") == 0) {
		r->inserted++;
		return do_insert(r, txn);
	}
	return tree_step(r, txn, step);
}

/* --- running --- */

static void give_up(struct run *r, unsigned t, enum script_end end)
{
	stet_abort(r->txn[t]);
	r->txn[t] = NULL;
	r->s->end[t] = end;
}

static int64_t begin(struct run *r, unsigned t, unsigned level)
{
	int64_t rc = stet_begin(r->vol, level | (r->read_only[t] ? STET_BEGIN_READ_ONLY : 0),
				&r->txn[t]);

	r->s->end[t] = SCRIPT_RUNNING;
#ifdef STET_KEY_MAX
	if (!rc)
		rc = stet_lock_timeout(r->txn[t], 1);
#endif
	return rc;
}

static void finish_step(struct run *r, struct script_step *step)
{
	step->done = true;
	step->at = ++r->now;
	r->waits[step->txn] = false;
}

/* 0: done, or refused; BLOCKED; else the script cannot be run. */
static int64_t try_step(struct run *r, struct script_step *step, unsigned level)
{
	struct stet_txn *txn = r->txn[step->txn];
	unsigned t = step->txn;
	int64_t rc;

	if (strcmp(step->words[0], "begin") == 0) {
		rc = begin(r, t, level);
		finish_step(r, step);
		return rc;
	}
	if (!txn)
		return 0; /* it has given up */
	if (strcmp(step->words[0], "abort") == 0) {
		give_up(r, t, SCRIPT_ABORTED);
		finish_step(r, step);
		return 0;
	}
	rc = strcmp(step->words[0], "commit") == 0 ? stet_commit(txn, STET_COMMIT_NOSYNC)
						   : do_step(r, txn, step);
	if (is_wait(r, txn, rc) && strcmp(step->words[0], "commit") != 0)
		return BLOCKED;
	r->waits[t] = false;
	if (rc < 0) {
		give_up(r, t, SCRIPT_REFUSED);
		return 0;
	}
	if (strcmp(step->words[0], "commit") == 0) {
		r->txn[t] = NULL;
		r->s->end[t] = SCRIPT_COMMITTED;
	}
	finish_step(r, step);
	return 0;
}

/* Goes over the steps that are left, each transaction in its order; until nothing more can be done. */
static int64_t go_on(struct run *r, unsigned upto, unsigned level, bool *tried)
{
	bool again = true;

	while (again) {
		bool held[SCRIPT_TXNS + 1] = { false };

		again = false;
		for (unsigned i = 0; i <= upto; i++) {
			struct script_step *step = &r->s->steps[i];
			int64_t rc;

			if (tried[i] || held[step->txn])
				continue;
			rc = try_step(r, step, level);
			if (rc < 0)
				return rc;
			if (rc == BLOCKED) {
				held[step->txn] = r->waits[step->txn] = true;
				continue;
			}
			tried[i] = again = true;
		}
	}
	return 0;
}

static int64_t run_steps(struct run *r, unsigned level)
{
	bool tried[SCRIPT_STEPS] = { false };
	int64_t rc = 0;

	for (unsigned i = 0; i < r->s->count && !rc; i++)
		rc = go_on(r, i, level, tried);
	for (unsigned t = SCRIPT_TXNS; t > 0 && !rc; t--) {
		if (!r->txn[t])
			continue;
		give_up(r, t, SCRIPT_REFUSED); /* all wait: the youngest goes */
		rc = go_on(r, r->s->count - 1, level, tried);
	}
	return rc;
}

static unsigned parse(const char *text, bool numbered, struct script_step *steps)
{
	char copy[512], *save = NULL;
	unsigned n = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *one = strtok_r(copy, ";", &save); one && n < SCRIPT_STEPS;
	     one = strtok_r(NULL, ";", &save)) {
		struct script_step *step = &steps[n];
		char *inner = NULL, *word = strtok_r(one, " ", &inner);

		memset(step, 0, sizeof(*step));
		if (numbered && word) {
			step->txn = (unsigned)atoi(word) % (SCRIPT_TXNS + 1);
			step->value = strchr(word, 'r') != NULL; /* read-only; see prepare */
			word = strtok_r(NULL, " ", &inner);
		}
		for (unsigned k = 0; word && k < SCRIPT_WORDS; k++) {
			snprintf(step->words[k], sizeof(step->words[k]), "%s", word);
			word = strtok_r(NULL, " ", &inner);
		}
		n += step->words[0][0] != 0;
	}
	return n;
}

/* x and y hold SCRIPT_INITIAL, the list is empty. */
static int64_t make_objects(struct run *r)
{
	int64_t rc = 0;
	char name[8];

	if (r->kind == SCRIPT_FILES) {
		rc = make(r, NULL, r->dir, "list", S_IFREG, &r->list);
		for (unsigned x = 0; x < 2 && rc >= 0; x++) {
			rc = make(r, NULL, r->dir, name_of(x), S_IFREG, &r->file[x]);
			if (!rc)
				rc = file_write(r, NULL, x, SCRIPT_INITIAL);
		}
	} else if (r->kind == SCRIPT_NAMES) {
		/* A name of its own for each value of each register; they share the file. */
		for (unsigned v = 1; v < VALUES && rc >= 0; v++) {
			struct stet_stat st;

			snprintf(name, sizeof(name), "v%ux", v);
			rc = make(r, NULL, r->dir, name, S_IFREG, &r->value_ino[v]);
			snprintf(name, sizeof(name), "v%uy", v);
			if (!rc)
				rc = stet_ll_link(r->vol, NULL, r->value_ino[v], r->dir, name, 0,
						  &st);
			snprintf(name, sizeof(name), "v%uz", v); /* so that none is the last */
			if (!rc)
				rc = stet_ll_link(r->vol, NULL, r->value_ino[v], r->dir, name, 0,
						  &st);
		}
		for (unsigned x = 0; x < 2 && rc >= 0; x++)
			rc = name_write(r, NULL, x, SCRIPT_INITIAL);
	}
#ifdef STET_KEY_MAX
	if (r->kind == SCRIPT_RECORDS)
		rc = stet_table_open(r->vol, NULL, r->dir, "table", O_RDWR | O_CREAT, 0644,
				     &r->table);
	for (unsigned x = 0; x < 2 && rc >= 0 && r->kind == SCRIPT_RECORDS; x++)
		rc = record_write(r, NULL, x, SCRIPT_INITIAL);
#endif
	return rc < 0 ? rc : 0;
}

static int64_t set_up(struct run *r, const char *text)
{
	static unsigned number;
	struct script_step steps[SCRIPT_STEPS];
	unsigned n = text ? parse(text, false, steps) : 0;
	char name[32];
	int64_t rc;

	snprintf(name, sizeof(name), "script%u", number++);
	rc = make(r, NULL, STET_ROOT, name, S_IFDIR, &r->dir);
	if (!rc && !text)
		rc = make_objects(r);
	for (unsigned i = 0; i < n && rc >= 0; i++)
		rc = tree_step(r, NULL, &steps[i]);
	return rc < 0 ? rc : 0;
}

/* Who does not begin in the script begins before it. */
static int64_t prepare(struct run *r, unsigned level)
{
	int64_t rc = 0;

	for (unsigned t = 1; t <= SCRIPT_TXNS && !rc; t++) {
		bool used = false, begins = false;

		for (unsigned i = 0; i < r->s->count; i++) {
			const struct script_step *step = &r->s->steps[i];

			if (step->txn != t)
				continue;
			used = true;
			begins = begins || strcmp(step->words[0], "begin") == 0;
			r->read_only[t] = r->read_only[t] || step->value;
		}
		if (used && !begins)
			rc = begin(r, t, level);
	}
	for (unsigned i = 0; i < r->s->count; i++)
		r->s->steps[i].value = 0;
	return rc;
}

int script_run(struct stet_volume *vol, const char *set_up_text, const char *text,
	       enum script_kind kind, unsigned level, struct script *ret)
{
	struct run r = { .vol = vol, .s = ret, .kind = kind };
	int64_t rc;

	memset(ret, 0, sizeof(*ret));
	rc = set_up(&r, set_up_text);
	if (!rc) {
		ret->count = parse(text, true, ret->steps);
		ret->dir = r.dir;
		rc = prepare(&r, level);
	}
	if (!rc)
		rc = run_steps(&r, level);
	for (unsigned t = 1; t <= SCRIPT_TXNS; t++)
		stet_abort(r.txn[t]);
	if (!rc && !set_up_text) {
		rc = do_read(&r, NULL, 0, &ret->x);
		if (rc >= 0)
			rc = do_read(&r, NULL, 1, &ret->y);
		if (rc >= 0)
			rc = do_list(&r, NULL, &ret->listed);
	}
#ifdef STET_KEY_MAX
	stet_table_close(r.table);
#endif
	return rc < 0 ? (int)rc : 0;
}
