/* mem.c - malloc and friends behind a hook that makes them fail.
 *
 * I1. Each allocating call counts as exactly one try, whether it succeeds or not; so "fail the
 *     n-th" for n = 1, 2, ... until the operation succeeds meets every call once.
 * I2. The hook is per thread: tests in other threads are not disturbed, and no lock is needed.
 */
#include "base/mem.h"

#include "base/assert.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
	uint64_t tried;     /* since the hook was set */
	uint64_t fail_from; /* this try and later ones fail; 0: none */
} hook;

/* Counts a try; false when it must fail. */
static bool may_allocate(void)
{
	hook.tried++;
	return hook.fail_from == 0 || hook.tried < hook.fail_from;
}

void stet_free(void *p)
{
	free(p);
}

void *stet_alloc(size_t size_bytes)
{
	return may_allocate() ? malloc(size_bytes ? size_bytes : 1) : NULL;
}

void *stet_calloc(size_t n, size_t size_bytes)
{
	size_t total_bytes;

	if (n == 0 || size_bytes == 0)
		n = size_bytes = 1;
	if (!may_allocate() || __builtin_mul_overflow(n, size_bytes, &total_bytes))
		return NULL;
	return calloc(1, total_bytes);
}

void *stet_realloc(void *p, size_t size_bytes)
{
	return may_allocate() ? realloc(p, size_bytes ? size_bytes : 1) : NULL;
}

void *stet_alloc_aligned(size_t align_bytes, size_t size_bytes)
{
	void *p = NULL;

	STET_ASSERT(align_bytes >= sizeof(void *) && (align_bytes & (align_bytes - 1)) == 0);
	if (!may_allocate() || posix_memalign(&p, align_bytes, size_bytes ? size_bytes : 1) != 0)
		return NULL;
	return p;
}

void *stet_memdup(const void *p, size_t size_bytes)
{
	void *copy = stet_alloc(size_bytes);

	if (copy && size_bytes > 0)
		memcpy(copy, p, size_bytes);
	return copy;
}

char *stet_strdup(const char *s)
{
	return stet_memdup(s, strlen(s) + 1);
}

void stet_mem_fail_after(int64_t n)
{
	hook.tried = 0;
	hook.fail_from = n < 0 ? 0 : n == 0 ? 1 : (uint64_t)n;
}

uint64_t stet_mem_count(void)
{
	return hook.tried;
}
