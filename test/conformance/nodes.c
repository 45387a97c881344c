/* nodes.c - see nodes.h. */
#include "nodes.h"

#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const node_names[NODES] = {
	"absent", "reg", "dir", "full", "lnk", "fifo", "sock", "chr",
};

const char *const node_scripts[NODES] = {
	"",
	"put % x",
	"mkdir %",
	"mkdir %; put %/f x",
	"symlink target %",
	"mkfifo %",
	"mknod % sock",
	"mknod % chr 644 1 3",
};

const char *script_for(const char *format, const char *name)
{
	size_t cap = strlen(format) + 1, used = 0;
	char *ret;

	for (const char *at = format; *at; at++)
		cap += *at == '%' ? strlen(name) : 0;
	ret = malloc(cap);
	if (!ret)
		abort();
	for (const char *at = format; *at; at++)
		if (*at == '%')
			used += (size_t)sprintf(ret + used, "%s", name);
		else
			ret[used++] = *at;
	ret[used] = 0;
	return text_kept(ret);
}
