/* script.h - transactions whose steps are interleaved as a script says, on one kind of objects.
 *
 * Steps are done in their order by one thread. A step that has to wait for a lock waits: it and what follows of its
 * transaction come as soon as they can. When all that is left waits, the youngest gives up, as it would in a
 * deadlock. A transaction that is refused anything gives up.
 */
#ifndef TEST_HISTORY_SCRIPT_H
#define TEST_HISTORY_SCRIPT_H

#include "stetfs.h"

#define SCRIPT_TXNS 4u
#define SCRIPT_STEPS 16u
#define SCRIPT_WORDS 4u
#define SCRIPT_INITIAL 9u /* what x and y hold in the beginning */

enum script_end { SCRIPT_UNUSED, SCRIPT_RUNNING, SCRIPT_COMMITTED, SCRIPT_REFUSED, SCRIPT_ABORTED };

struct script_step {
	unsigned txn; /* from 1 */
	char words[SCRIPT_WORDS][16];
	bool done;      /* with success */
	unsigned at;    /* done as the n-th, from 1 */
	uint64_t value; /* what it has seen */
};

struct script {
	struct script_step steps[SCRIPT_STEPS];
	unsigned count;
	enum script_end end[SCRIPT_TXNS + 1];
	uint64_t x, y;   /* afterwards */
	uint64_t listed; /* how much there is afterwards */
	uint64_t dir;    /* where it all happened */
};

/* What x, y and lists are. */
enum script_kind { SCRIPT_FILES, SCRIPT_NAMES, SCRIPT_RECORDS, SCRIPT_KINDS };
bool script_has(enum script_kind kind);

/* Words of a step, behind the number of its transaction; steps are parted by ";":
 *	read x, write x V       a register: what is in a file, which file a name leads to, a record
 *	scan x                  reads it through a listing, or a range, of all
 *	list, insert            how much there is in a list; one more (an append, a name, a record)
 *	mkdir P, create P, rmdir P, unlink P, rename P Q, link P Q, put P (content), stat P
 *	begin                   for transactions that do not begin before all steps
 *	commit, abort
 * set_up: steps without a number, done plainly. level: STET_BEGIN_; a number followed by "r": read-only.
 * -errno: the script could not be run. */
int script_run(struct stet_volume *vol, const char *set_up, const char *text, enum script_kind kind,
	       unsigned level, struct script *ret);

#endif
