/* structure.h - two transactions that meet, in every interleaving of their steps. */
#ifndef TEST_MODEL_STRUCTURE_H
#define TEST_MODEL_STRUCTURE_H

#include <stdbool.h>
#include <stddef.h>

size_t structure_case_count(void);
const char *structure_case_name(size_t no);
/** All levels and interleavings of one case. False: what is wrong was printed. */
bool structure_run_case(size_t no);
/** How many interleavings were run, and in how many of them both went through. */
void structure_totals(size_t *ret_runs, size_t *ret_both);

#endif
