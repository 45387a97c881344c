/* nodes.h - for tables that are computed: things of each type, and how one is made. */
#ifndef NODES_H
#define NODES_H

enum node {
	NODE_ABSENT,
	NODE_REG,
	NODE_DIR,
	NODE_FULL, /* a directory with a file in it */
	NODE_LNK,
	NODE_FIFO,
	NODE_SOCK,
	NODE_CHR,
	NODES,
};

extern const char *const node_names[NODES];
/* The set-up, with % for the name. */
extern const char *const node_scripts[NODES];

#define NODE_IS_DIR(node) ((node) == NODE_DIR || (node) == NODE_FULL)

/* A script with each % replaced by a name; lives as long as the program. */
const char *script_for(const char *format, const char *name);

#endif
