/* internal.h - between the files of the language. */
#ifndef INTERNAL_H
#define INTERNAL_H

#include "script.h"

extern int64_t script_index; /* {i} */

/* One statement in another process: agent.c. */
void agent_perform(const struct backend *backend, struct call *call, const char *statement,
		   struct result *ret);
void agent_wait(int agent, struct result *ret);
void agent_end_all(void);
/* How a statement is performed in the agent itself. */
void script_perform_here(struct call *call, const char *statement, struct result *ret);

/* Becomes the user of this letter, and root again: user.c. */
bool user_become(char who);
void user_be_root(void);

#endif
