/* mutant.c - switches that leave a safeguard out, to prove that the tests would notice.
 *
 * Only the build with STET_MUTANTS has the switch; elsewhere no mutant is ever on. The switch is one
 * atomic of the whole process: a test turns one mutant on before it opens a volume.
 */
#include "txn/engine.h"

#ifdef STET_MUTANTS
#include <stdatomic.h>

static _Atomic(int) active_mutant;

void stet_mutant_set(enum stet_mutant mutant)
{
	atomic_store(&active_mutant, (int)mutant);
}

bool stet_mutant_is(enum stet_mutant mutant)
{
	return atomic_load(&active_mutant) == (int)mutant;
}
#else
void stet_mutant_set(enum stet_mutant mutant)
{
	(void)mutant;
}

bool stet_mutant_is(enum stet_mutant mutant)
{
	(void)mutant;
	return false;
}
#endif
