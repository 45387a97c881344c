/* hostile.c - what somebody does who can compute checksums: one field, or a few at once. */
#include "mutation.h"

void mutate_hostile(struct mutation *m)
{
	uint64_t n = mutation_chance(m, 80) ? 1 : 2 + mutation_pick(m, 2);
	unsigned tries = 0;

	while (n > 0 && tries++ < 20) {
		bool done = mutation_chance(m, 60) ? mutate_item(m) : mutate_header(m);

		if (done)
			n--;
	}
}
