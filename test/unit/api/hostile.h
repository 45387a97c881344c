/* hostile.h - volumes with directories that no operation of ours would make: /a, in it b, and one name more. */
#ifndef API_UNIT_HOSTILE_H
#define API_UNIT_HOSTILE_H

#include "device/device.h"

enum hostile {
	HOSTILE_UP,     /* /a/b/more leads to a */
	HOSTILE_CIRCLE, /* likewise, and a says that b is its parent */
	HOSTILE_ROOT,   /* /a/b/more leads to the root */
	HOSTILE_TWICE,  /* /a/more leads to b, too */
	HOSTILE_TWO,    /* /more leads to b, too */
};

/** The caller owns *ret. */
void hostile_make(enum hostile what, struct stet_device **ret);

#endif
