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
#include <sys/mman.h>

#define PAGE_BYTES 4096u

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

/* The address sanitizer watches over the heap only. */
#if defined(__SANITIZE_ADDRESS__)
#define PAGES_FROM_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PAGES_FROM_HEAP 1
#endif
#endif

#ifdef PAGES_FROM_HEAP
void *stet_alloc_pages(size_t size_bytes)
{
	void *p = stet_alloc_aligned(PAGE_BYTES, size_bytes);

	return p ? memset(p, 0, size_bytes) : NULL;
}

void stet_free_pages(void *p, size_t size_bytes)
{
	(void)size_bytes;
	free(p);
}
#else
/* The heap keeps what is freed between pieces that live on; of these, nothing. */
void *stet_alloc_pages(size_t size_bytes)
{
	void *p = MAP_FAILED;

	STET_ASSERT_CMP(size_bytes, >, 0);
	if (may_allocate())
		p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	return p == MAP_FAILED ? NULL : p;
}

void stet_free_pages(void *p, size_t size_bytes)
{
	int rc = p ? munmap(p, size_bytes) : 0;

	STET_ASSERT_CMP(rc, ==, 0);
}
#endif

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
