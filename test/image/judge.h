/* judge.h - opens a mutated image, asks it everything, and decides whether it behaved. */
#ifndef TEST_IMAGE_JUDGE_H
#define TEST_IMAGE_JUDGE_H

#include "mutation.h"

enum verdict {
	VERDICT_REFUSED,  /* it could not be opened */
	VERDICT_REPORTED, /* opened, and the check told what is wrong */
	VERDICT_RIGHT,    /* opened, and everything is as it was in one of the states */
	VERDICT_CHANGED,  /* opened as another volume: nobody can tell */
	VERDICT_BAD,      /* wrong data, a problem that nobody reports, no memory, ... */
	VERDICTS
};

struct judgement {
	enum verdict verdict;
	bool written;      /* the read-write part took place */
	bool write_opened; /* and it could be opened for that */
	char why[1024];    /* VERDICT_BAD: what; else what the checker or open said first */
};

/** Through the public library: check, and print every structure. What stet_check returned. */
int judge_public(struct mutation *m); /* public.c */

/** publicly: also that; writing: also opens it for writing, changes a few things, closes and looks again. */
void judge(struct mutation *m, bool publicly, bool writing, struct judgement *ret);

#endif
