/* mem.h - allocation that can fail, and can be made to fail.
 *
 * All memory of the library comes from here, so that a test can let the n-th allocation of an
 * operation fail, for each n. All functions return NULL on failure. A size of 0 is taken as 1.
 */
#ifndef STET_BASE_MEM_H
#define STET_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/** Frees what any function of this header returned; NULL is accepted. */
void stet_free(void *p);

/** Memory of the given size, not initialised. The caller owns it (stet_free). */
__attribute__((malloc, warn_unused_result)) void *stet_alloc(size_t size_bytes);

/** Zeroed memory for n items; NULL when n * size_bytes overflows. The caller owns it. */
__attribute__((malloc, warn_unused_result)) void *stet_calloc(size_t n, size_t size_bytes);

/** Resizes p (NULL: allocates). On failure p stays as it was and still belongs to the caller. */
__attribute__((warn_unused_result)) void *stet_realloc(void *p, size_t size_bytes);

/**
 * Zeroed memory of whole pages, for large buffers that come and go: it leaves no holes in the heap. The caller
 * owns it, and gives it back with its size.
 */
__attribute__((warn_unused_result)) void *stet_alloc_pages(size_t size_bytes);
void stet_free_pages(void *p, size_t size_bytes); /* NULL ok */

/** Memory aligned to align_bytes, a power of two >= sizeof(void *). The caller owns it. */
__attribute__((malloc, warn_unused_result)) void *stet_alloc_aligned(size_t align_bytes,
								     size_t size_bytes);

/** A copy of the string. The caller owns it. */
__attribute__((malloc, warn_unused_result)) char *stet_strdup(const char *s);

/** A copy of size_bytes bytes at p. The caller owns it. */
__attribute__((malloc, warn_unused_result)) void *stet_memdup(const void *p, size_t size_bytes);

/**
 * Test hook, for the calling thread: the n-th allocation from now (1: the next; 0 is taken as 1)
 * and all later ones fail, until the hook is set again. -1: none fails. Resets stet_mem_count.
 */
void stet_mem_fail_after(int64_t n);

/** How many allocations this thread tried (failed ones too) since stet_mem_fail_after. */
uint64_t stet_mem_count(void);

#endif
