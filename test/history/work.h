/* work.h - random transactions over a few objects, logged, and judged round by round.
 *
 * A round has a directory of its own, with
 *	cells     files of registers of 16 bytes: many in a block, one in each block, and within the inode
 *	lists     files that are appended to
 *	names     of files and directories, which are made, linked, renamed and removed, and what is in them
 *	xattrs    of one of the files
 *	records   of a table, where the library has them
 * All is seeded by the round. With one thread, that steps k open transactions in turn and never waits for a
 * lock, a round is the same each time; with threads only what each of them tries is.
 */
#ifndef TEST_HISTORY_WORK_H
#define TEST_HISTORY_WORK_H

#include "run.h"

#include "stetfs.h"
#include "stetfs_lowlevel.h"

#include <stdatomic.h>

/* --- plans --- */
struct work_plan {
	uint64_t seed;   /* of the round */
	uint64_t txns;   /* how many are begun, about */
	unsigned actors; /* threads, or transactions that are stepped in turn */
	bool threads;
	unsigned levels;      /* bit (1 << enum hist_level): from which each transaction chooses */
	unsigned sync_one_in; /* commits that wait until they are durable; 0: none */
	bool client;          /* see work */
};

/** The plan of round `no` of a run: every second one with threads (if wanted), levels in turn. */
void work_plan_by_seed(uint64_t seed, uint64_t no, struct work_plan *ret);

/** One round on an open volume. What is wrong is printed to out (NULL: not). */
enum work_verdict work_round(struct stet_volume *vol, const struct work_plan *plan, FILE *out,
			     struct work_totals *totals);

/* --- internals: objects (objects.c), operations (ops.c, names.c, records.c) and the calls they make (calls.c),
 * rounds (work.c) --- */

enum work_key {
	KEY_CELL = 1,
	KEY_LIST,
	KEY_NAME,
	KEY_DIR,
	KEY_CONTENT,
	KEY_XATTR,
	KEY_OWNER,
	KEY_RECORD,
	KEY_BALLAST
};

static inline uint64_t work_key(enum work_key kind, uint64_t a, uint64_t b)
{
	return (uint64_t)kind << 56 | a << 16 | b;
}
void work_print_key(FILE *out, uint64_t key);

#define WORK_CELL_FILES 3u
#define WORK_CELLS_MAX 12u
#define WORK_LISTS 2u
#define WORK_FILE_NAMES 4u /* in every directory */
#define WORK_DIR_NAMES 2u  /* in the round's directory only */
#define WORK_NAMES (WORK_FILE_NAMES + WORK_DIR_NAMES)
#define WORK_XATTRS 2u
#define WORK_RECORDS 8u
#define WORK_SAVEPOINTS 3u
/* Values of KEY_DIR and KEY_CONTENT. */
#define WORK_DIR_ALIVE 1u
#define WORK_DIR_GONE 2u
#define WORK_CONTENT_GONE UINT64_MAX

struct work_cells {
	unsigned count;
	uint64_t stride, size;
};
extern const struct work_cells work_cells[WORK_CELL_FILES];
const char *work_name(unsigned no);
const char *work_xattr(unsigned no);

struct work {
	struct stet_volume *vol;
	bool client; /* of a volume that another one holds: the calls of stetfs.h only */
	const struct work_plan *plan;
	uint64_t dir;
	uint64_t cells[WORK_CELL_FILES], lists[WORK_LISTS];
	void *records;
	/* --- atomic --- */
	_Atomic uint64_t clock, next_txn, left;
	_Atomic bool failed;
};

struct actor {
	struct work *work;
	uint64_t random;
	unsigned flags; /* STET_LL_NOWAIT or 0 */
	struct stet_txn *txn;
	struct hist_txn *log; /* of the open transaction, or of the plain operation */
	enum hist_level level;
	unsigned ops_left;
	bool refused; /* an operation has met a conflict */
	bool spoiled; /* it must not be committed */
	uint64_t savepoints[WORK_SAVEPOINTS];
	size_t saved_ops[WORK_SAVEPOINTS]; /* how many there were */
	unsigned saved;
	HIST_VEC(struct hist_txn *) done;
	HIST_VEC(uint64_t) linked; /* inodes that got a second name */
	struct work_totals totals;
	const char *what; /* the operation, for messages */
	int error;        /* that nobody expected */
	char why[200];
};

/* In the open transaction or plain; errors as of the calls below them. */
ssize_t work_read(struct actor *a, uint64_t ino, uint64_t off, void *buf, size_t len);
ssize_t work_write(struct actor *a, uint64_t ino, uint64_t off, const void *buf, size_t len);
ssize_t work_append(struct actor *a, uint64_t ino, const void *buf, size_t len);
int work_cut(struct actor *a, uint64_t ino, uint64_t size);
int work_punch(struct actor *a, uint64_t ino, uint64_t off, uint64_t len);
int work_stat(struct actor *a, uint64_t ino, struct stet_stat *ret);
int work_set_owner(struct actor *a, uint64_t ino, uint32_t uid);
ssize_t work_get_xattr(struct actor *a, uint64_t ino, const char *name, void *buf, size_t cap);
int work_set_xattr(struct actor *a, uint64_t ino, const char *name, const void *buf, size_t len);
int work_find(struct actor *a, uint64_t dir, const char *name, uint64_t *ret_ino);
/* A client's number of what a plain operation makes or removes is not sure: but of a file that it makes. */
int work_make(struct actor *a, uint64_t dir, const char *name, bool is_dir, uint64_t *ret_ino);
int work_remove(struct actor *a, uint64_t dir, const char *name, bool is_dir, uint64_t *ret_ino);
/* there: what has the other name, 0: nothing. */
int work_rename(struct actor *a, uint64_t from_dir, const char *from, uint64_t to_dir,
		const char *to, uint64_t there, uint64_t *ret_gone);
/* `from` is a name of ino. */
int work_link(struct actor *a, uint64_t from_dir, const char *from, uint64_t ino, uint64_t to_dir,
	      const char *to);
int work_list(struct actor *a, uint64_t dir, struct stet_ll_entry *entries, int cap);

uint64_t work_random(struct actor *a, uint64_t below);
uint64_t work_tick(struct actor *a);
/* A value that nobody else writes. */
uint64_t work_value(struct actor *a);
/* The result of a call: 0 or positive, or an error that operations may give; else the round has failed. */
void work_note(struct actor *a, const char *what, int64_t rc);

/* One operation, in the open transaction or plain. */
void work_op(struct actor *a);
void work_name_op(struct actor *a);
void work_name_read(struct actor *a);
/* All there is, in a read-only transaction. */
void work_read_all(struct actor *a);
void work_read_names(struct actor *a);
int work_set_up(struct work *w);

/* records.c; without records they do nothing. */
bool work_have_records(void);
int work_records_set_up(struct work *w);
void work_records_release(struct work *w);
void work_record_op(struct actor *a);
void work_record_read(struct actor *a);
void work_read_records(struct actor *a);
/* What a transaction needs to use them without waiting. */
int work_records_begin(struct actor *a);

#endif
