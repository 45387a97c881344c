/* test_structure.c - all cases of structure.h. STRUCTURE_CASE=N: one only, from 1 on. */
#include "structure.h"

#include "runner.h"

#include <stdio.h>

int main(void)
{
	size_t only = (size_t)run_env("STRUCTURE_CASE", 0);
	size_t runs, both, failed = 0;

	for (size_t k = 0; k < structure_case_count(); k++) {
		if (only && k + 1 != only)
			continue;
		if (structure_run_case(k))
			continue;
		failed++;
		printf("case %zu failed: %s\n", k + 1, structure_case_name(k));
	}
	structure_totals(&runs, &both);
	printf("%zu interleavings, both went through in %zu\n", runs, both);
	return failed ? 1 : 0;
}
