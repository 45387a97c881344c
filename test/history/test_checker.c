/* test_checker.c - the checker is checked: histories with each anomaly are found out, sound ones are not.
 *
 * Histories are written in words, in the order in which things happen:
 *	1 begin snapshot|serializable|locking [ro]   or plain (begin and commit in one, with its operations between)
 *	1 r x 0   reads        1 f x 0   finds (a structural check)
 *	1 w x 5   writes       1 a l 7   appends    1 l l 7,8   reads a list    1 n l 2   its length
 *	1 u x 5   writes x and takes it back
 *	1 commit   1 abort     1 commit( ... 1 )   a commit that takes long: others happen meanwhile
 * Numbers are hexadecimal; a list without elements is "-".
 */
#include "history.h"

#include <stdlib.h>
#include <string.h>

#define TXNS_MAX 16u

struct parser {
	struct history h;
	struct hist_txn *txn[TXNS_MAX];
	uint64_t now;
};

static const char *const level_words[] = { "plain", "snapshot", "serializable", "locking" };

static void begin(struct parser *p, unsigned no, char **words)
{
	struct hist_txn *txn;

	for (unsigned k = 0; k < 4; k++) {
		if (strcmp(words[2], level_words[k]) != 0)
			continue;
		txn = hist_txn_new(no, (enum hist_level)k);
		txn->read_only = words[3] != NULL;
		txn->begin_call = ++p->now;
		txn->begin_ret = ++p->now;
		p->txn[no] = txn;
		hist_push(&p->h.txns, txn);
	}
}

static void end(struct parser *p, struct hist_txn *txn, const char *word)
{
	if (strcmp(word, ")") == 0) {
		txn->commit_ret = ++p->now;
		return;
	}
	txn->outcome = word[0] == 'a' ? HIST_ABORTED : HIST_COMMITTED;
	/* A plain operation is all of it. */
	txn->commit_call = txn->level == HIST_PLAIN ? txn->begin_call : ++p->now;
	if (!strchr(word, '('))
		txn->commit_ret = ++p->now;
}

static void read_list(struct parser *p, struct hist_txn *txn, uint64_t key, char *text)
{
	uint64_t list[16];
	size_t n = 0;

	while (text && *text && *text != '-') {
		list[n++] = strtoull(text, &text, 16);
		text += *text == ',';
	}
	p->now += 2;
	hist_log_list(txn, key, list, n, p->now - 1, p->now);
}

static void operation(struct parser *p, struct hist_txn *txn, char **words)
{
	static const char letters[] = "rfwalnu";
	enum hist_kind kind = (enum hist_kind)(strchr(letters, words[1][0]) - letters);
	uint64_t key = (unsigned char)words[2][0];

	if (kind == HIST_LIST) {
		read_list(p, txn, key, words[3]);
		return;
	}
	p->now += 2;
	hist_log(txn, kind, key, strtoull(words[3], NULL, 16), p->now - 1, p->now);
}

static void parse(struct parser *p, const char *text)
{
	char copy[2000], *line, *save = NULL;

	snprintf(copy, sizeof(copy), "%s", text);
	for (line = strtok_r(copy, ";", &save); line; line = strtok_r(NULL, ";", &save)) {
		char *words[6] = { NULL }, *inner = NULL;
		unsigned n = 0, no;

		for (char *w = strtok_r(line, " ", &inner); w && n < 5;
		     w = strtok_r(NULL, " ", &inner))
			words[n++] = w;
		if (n < 2)
			continue;
		no = (unsigned)atoi(words[0]) % TXNS_MAX;
		if (strcmp(words[1], "begin") == 0)
			begin(p, no, words);
		else if (words[1][0] == ')' || strncmp(words[1], "commit", 6) == 0 ||
			 strcmp(words[1], "abort") == 0)
			end(p, p->txn[no], words[1]);
		else
			operation(p, p->txn[no], words);
	}
}

#define TWO(level) "1 begin " level "; 2 begin " level "; "
#define SI "snapshot"
#define SER "serializable"
#define LOCK "locking"

static const struct {
	const char *name, *text;
	enum hist_anomaly want;
} cases[] = {
	/* what is sound */
	{ "one after the other",
	  "1 begin " SER "; 1 r x 0; 1 w x 1; 1 commit; 2 begin " SER
	  "; 2 r x 1; 2 w x 2; 2 commit; 3 begin " SI "; 3 r x 2; 3 commit",
	  HIST_NONE },
	{ "a snapshot does not see what came later",
	  "1 begin " SI "; 2 begin " SI "; 2 r x 0; 2 w x 1; 2 commit; 1 r x 0; 1 r y 0; 1 commit",
	  HIST_NONE },
	{ "write skew, at SNAPSHOT",
	  TWO(SI) "1 r x 0; 1 r y 0; 2 r x 0; 2 r y 0; 1 w x 1; 2 w y 2; 1 commit; 2 commit",
	  HIST_NONE },
	{ "the read-only anomaly, at SNAPSHOT",
	  TWO(SI) "1 r y 0; 1 r x 0; 2 r y 0; 2 w y 2; 2 commit; 3 begin " SI
		  " ro; 3 r x 0; 3 r y 2; 3 commit; 1 w x 1; 1 commit",
	  HIST_NONE },
	{ "appends meet, at SNAPSHOT",
	  TWO(SI) "1 l l -; 1 a l 1; 2 a l 2; 2 commit; 1 commit; "
		  "3 begin " SI "; 3 l l 2,1; 3 commit",
	  HIST_NONE },
	{ "blind appends, at SERIALIZABLE",
	  TWO(SER) "1 a l 1; 2 a l 2; 2 commit; 1 commit; "
		   "3 begin " SER "; 3 n l 2; 3 l l 2,1; 3 commit",
	  HIST_NONE },
	{ "a name that was made and removed again has not changed",
	  TWO(SER) "1 r x 0; 2 r x 0; 2 w x 5; 2 commit; 3 begin " SER
		   "; 3 r x 5; 3 w x 0; 3 commit; 1 w y 1; 1 commit",
	  HIST_NONE },
	{ "the same, written again by the first, at SNAPSHOT",
	  TWO(SI) "2 r x 0; 2 w x 5; 2 commit; 3 begin " SI
		  "; 3 r x 5; 3 w x 0; 3 commit; 1 r x 0; 1 w x 1; 1 commit",
	  HIST_NONE },
	{ "commits that overlap, in the order of what was read",
	  "1 begin " LOCK "; 1 r x 0; 1 w x 1; 1 commit(; 2 begin " LOCK
	  "; 2 r x 1; 2 w x 2; 2 commit; 1 ); 3 begin " SI "; 3 r x 2; 3 commit",
	  HIST_NONE },
	{ "a blind removal that took long may have been at any time of it",
	  "1 begin " LOCK "; 2 begin plain; 1 r x 0; 1 w x 1; 1 commit; 3 begin " LOCK
	  "; 3 r x 1; 3 w x 3; 3 commit; 2 w x 0; 2 commit; 4 begin " LOCK "; 4 r x 0; 4 commit",
	  HIST_NONE },
	{ "LOCKING reads what was committed after it began",
	  "1 begin " LOCK "; 2 begin " LOCK "; 2 r x 0; 2 w x 1; 2 commit; 1 r x 1; 1 commit",
	  HIST_NONE },
	{ "levels mixed: SNAPSHOT is skewed with what is serializable",
	  "1 begin " SI "; 2 begin " SER "; 1 r y 0; 1 w x 1; 2 r x 0; 2 w y 2; 2 commit; 1 commit",
	  HIST_NONE },
	/* single operations */
	{ "it does not see what it wrote itself", "1 begin " SI "; 1 w x 1; 1 r x 0; 1 commit",
	  HIST_INTERNAL },
	{ "its own element is missing", "1 begin " SI "; 1 a l 1; 1 l l -; 1 commit",
	  HIST_INTERNAL },
	{ "non-repeatable read", TWO(LOCK) "1 r x 0; 2 w x 1; 2 commit; 1 r x 1; 1 commit",
	  HIST_NON_REPEATABLE },
	{ "phantom: a list grows", TWO(LOCK) "1 n l 0; 2 a l 1; 2 commit; 1 n l 1; 1 commit",
	  HIST_NON_REPEATABLE },
	{ "dirty read of what is then aborted", TWO(LOCK) "1 w x 1; 2 r x 1; 1 abort; 2 commit",
	  HIST_ABORTED_READ },
	{ "dirty read by one that is aborted itself",
	  TWO(LOCK) "1 w x 1; 2 r x 1; 1 abort; 2 abort", HIST_ABORTED_READ },
	{ "what was taken back is not there",
	  "1 begin " SI "; 1 u x 1; 1 r x 0; 1 commit; 2 begin " SI "; 2 r x 0; 2 commit",
	  HIST_NONE },
	{ "a read of what was taken back",
	  "1 begin " SI "; 1 u x 1; 1 commit; 2 begin " SI "; 2 r x 1; 2 commit",
	  HIST_ABORTED_READ },
	{ "aborted append", TWO(SI) "1 a l 1; 1 abort; 2 l l 1; 2 commit", HIST_ABORTED_READ },
	{ "intermediate read", TWO(LOCK) "1 w x 1; 2 r x 1; 1 w x 2; 1 commit; 2 commit",
	  HIST_INTERMEDIATE_READ },
	{ "a value out of nowhere", "1 begin " SI "; 1 r x 9; 1 commit", HIST_UNKNOWN_VALUE },
	{ "an element out of nowhere", "1 begin " SI "; 1 l l 9; 1 commit", HIST_UNKNOWN_VALUE },
	{ "a name that is no longer, or not yet",
	  "1 begin " SER "; 1 w x 5; 1 commit; 2 begin " SER
	  "; 2 r x 5; 2 w x 0; 2 commit; 3 begin " SER "; 3 w x 6; 3 commit; 4 begin " SI
	  "; 4 r x 0; 4 commit",
	  HIST_NOT_CURRENT },
	{ "lists that do not agree",
	  "1 begin " SI "; 1 a l 1; 1 commit; 2 begin " SI "; 2 a l 2; 2 commit; 3 begin " SI
	  "; 3 l l 2; 3 commit; 4 begin " SI "; 4 l l 1,2; 4 commit",
	  HIST_TORN_LIST },
	{ "appends of one transaction lie apart",
	  TWO(SI) "1 a l 1; 1 a l 3; 2 a l 2; 1 commit; 2 commit; 3 begin " SI
		  "; 3 l l 1,2,3; 3 commit",
	  HIST_TORN_LIST },
	{ "an append that was committed is lost",
	  "1 begin " SI "; 1 a l 1; 1 commit; 2 begin " SI "; 2 l l -; 2 commit",
	  HIST_LOST_ELEMENT },
	/* cycles */
	{ "lost update, at SNAPSHOT",
	  TWO(SI) "1 r x 0; 2 r x 0; 1 w x 1; 2 w x 2; 1 commit; 2 commit", HIST_LOST_UPDATE },
	{ "lost update, at LOCKING",
	  TWO(LOCK) "1 r x 0; 2 r x 0; 1 w x 1; 1 commit; 2 w x 2; 2 commit", HIST_LOST_UPDATE },
	{ "lost update, commits at the same time",
	  TWO(LOCK) "1 r x 0; 2 r x 0; 1 w x 1; 2 w x 2; 1 commit(; 2 commit; 1 )",
	  HIST_LOST_UPDATE },
	{ "dirty write",
	  TWO(LOCK) "1 w l 1; 1 a m 1; 2 a m 2; 2 w l 2; 1 commit(; 2 commit(; 1 ); 2 ); "
		    "3 begin " SI "; 3 l m 2,1; 3 r l 2; 3 commit; 4 begin " LOCK
		    "; 4 r l 2; 4 w l 4; 4 commit",
	  HIST_NONE }, /* unsure which of the blind writes of l came first */
	{ "dirty write of two lists",
	  TWO(LOCK) "1 a l 1; 2 a m 2; 1 a m 1; 2 a l 2; 1 commit; 2 commit; 3 begin " SI
		    "; 3 l l 1,2; 3 l m 2,1; 3 commit",
	  HIST_WRITE_CYCLE },
	{ "first updater: a blind write over what was committed since",
	  TWO(SI) "1 w x 1; 1 commit; 2 w x 2; 2 commit", HIST_REAL_TIME },
	{ "circular information flow",
	  TWO(LOCK) "1 w x 1; 2 w y 2; 1 r y 2; 2 r x 1; 1 commit; 2 commit",
	  HIST_DEPENDENCY_CYCLE },
	{ "read skew, at SNAPSHOT",
	  TWO(SI) "1 r x 0; 2 r x 0; 2 w x 2; 2 r y 0; 2 w y 3; 2 commit; 1 r y 3; 1 commit",
	  HIST_SINGLE },
	{ "read skew, by one that is aborted",
	  TWO(SI) "1 r x 0; 2 r x 0; 2 w x 2; 2 w y 3; 2 commit; 1 r y 3; 1 abort", HIST_SINGLE },
	{ "a long fork: two readers see two writers in different orders",
	  "1 begin " SI "; 2 begin " SI "; 3 begin " SI "; 4 begin " SI
	  "; 1 w x 1; 2 w y 2; 1 commit(; 2 commit(; 3 r x 1; 3 r y 0; 4 r x 0; 4 r y 2; 1 ); 2 ); "
	  "3 commit; 4 commit",
	  HIST_NONADJACENT },
	{ "a stale snapshot: real time",
	  "1 begin " SER "; 1 r x 0; 1 w x 1; 1 commit; 2 begin " SI "; 2 r x 0; 2 commit",
	  HIST_REAL_TIME },
	{ "write skew, at SERIALIZABLE",
	  TWO(SER) "1 r x 0; 1 r y 0; 2 r x 0; 2 r y 0; 1 w x 1; 2 w y 2; 1 commit; 2 commit",
	  HIST_WRITE_SKEW },
	{ "write skew, at LOCKING",
	  TWO(LOCK) "1 r x 0; 1 r y 0; 2 r x 0; 2 r y 0; 1 w x 1; 2 w y 2; 1 commit; 2 commit",
	  HIST_WRITE_SKEW },
	{ "write skew of two that are serializable, among others that are not",
	  TWO(SER) "3 begin " SI "; 1 r x 0; 2 r y 0; 3 r z 0; 3 w z 3; 1 w y 1; 2 w x 2; 1 "
		   "commit; 2 commit; 3 commit",
	  HIST_WRITE_SKEW },
	{ "phantom: skew of a list's length",
	  TWO(SER) "1 n l 0; 2 n m 0; 1 a m 1; 2 a l 2; 1 commit; 2 commit; 3 begin " SI
		   "; 3 l l 2; 3 l m 1; 3 commit",
	  HIST_WRITE_SKEW },
	{ "the read-only anomaly, at SERIALIZABLE",
	  TWO(SER) "1 r y 0; 1 r x 0; 2 r y 0; 2 w y 2; 2 commit; 3 begin " SER
		   " ro; 3 r x 0; 3 r y 2; 3 commit; 1 w x 1; 1 commit",
	  HIST_WRITE_SKEW },
	{ "a structural check left out, at SNAPSHOT: made in a directory that another removed",
	  TWO(SI) "1 f a 0; 1 w d 2; 2 f d 0; 2 r a 0; 2 w a 5; 2 commit; 1 commit",
	  HIST_WRITE_SKEW },
	{ "appends after a stale read, at SERIALIZABLE",
	  TWO(SER) "1 l l -; 1 a l 1; 2 a l 2; 2 commit; 1 commit; 3 begin " SI
		   "; 3 l l 2,1; 3 commit",
	  HIST_LOST_UPDATE },
};

int main(void)
{
	unsigned failed = 0, n = sizeof(cases) / sizeof(cases[0]);

	for (unsigned k = 0; k < n; k++) {
		struct hist_counts counts = { 0 };
		struct parser p = { .now = 0 };
		enum hist_anomaly have;

		parse(&p, cases[k].text);
		have = hist_check(&p.h, NULL, &counts);
		if (have != cases[k].want) {
			printf("%s: found \"%s\", want \"%s\"\n", cases[k].name,
			       hist_anomaly_name(have), hist_anomaly_name(cases[k].want));
			hist_check(&p.h, stdout, &counts);
			failed++;
		}
		hist_release(&p.h);
	}
	printf("%u histories, %u judged wrongly\n", n, failed);
	return failed ? 1 : 0;
}
