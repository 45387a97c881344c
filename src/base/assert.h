/* assert.h - three levels of assertion.
 *
 * An assertion means "the program is wrong"; it is never applied to bytes from disk (those give
 * -EUCLEAN). A failed one prints what it saw to stderr and aborts.
 *
 *   STET_ASSERT, STET_ASSERT_CMP   always on: cheap
 *   STET_DEBUG_ASSERT              when STET_DEBUG is defined
 *   STET_PARANOID                  when STET_PARANOID_BUILD is defined: walks whole structures
 *
 * What is switched off is still compiled, but not evaluated.
 */
#ifndef STET_BASE_ASSERT_H
#define STET_BASE_ASSERT_H

#include <stdbool.h>
#include <stdint.h>

/** Aborts unless cond holds. */
#define STET_ASSERT(cond)                                                                       \
	(__builtin_expect(!(cond), 0) ? stet_assert_failed(#cond, __FILE__, __LINE__, __func__) \
				      : (void)0)

/**
 * Aborts unless `a op b` holds, printing both values: STET_ASSERT_CMP(live, <=, size).
 * a and b are integers or pointers; they are evaluated again when the assertion fails.
 */
#define STET_ASSERT_CMP(a, op, b)                                                               \
	(__builtin_expect(!((a)op(b)), 0)                                                       \
		 ? stet_assert_cmp_failed(                                                      \
			   #a " " #op " " #b,                                                   \
			   (struct stet_assert_value){ (uint64_t)(a), STET_ASSERT_SIGNED_(a) }, \
			   (struct stet_assert_value){ (uint64_t)(b), STET_ASSERT_SIGNED_(b) }, \
			   __FILE__, __LINE__, __func__)                                        \
		 : (void)0)

#ifdef STET_DEBUG
#define STET_DEBUG_ASSERT(cond) STET_ASSERT(cond)
#else
#define STET_DEBUG_ASSERT(cond) ((void)sizeof(!(cond)))
#endif

/** Runs the statement (usually a call of an x_check function) in paranoid builds only. */
#ifdef STET_PARANOID_BUILD
#define STET_PARANOID(...)   \
	do {                 \
		__VA_ARGS__; \
	} while (0)
#else
#define STET_PARANOID(...)           \
	do {                         \
		if (0) {             \
			__VA_ARGS__; \
		}                    \
	} while (0)
#endif

/** One side of a failed comparison: its bits, and whether its type is signed. */
struct stet_assert_value {
	uint64_t bits;
	bool is_signed;
};

/** True when the type of the expression is a signed integer type. Internal to this header. */
/* clang-format off */
#define STET_ASSERT_SIGNED_(x) \
	_Generic((x), \
		char: true, \
		signed char: true, \
		short: true, \
		int: true, \
		long: true, \
		long long: true, \
		default: false)
/* clang-format on */

/** What STET_ASSERT calls: prints and aborts. */
_Noreturn void stet_assert_failed(const char *expr, const char *file, int line, const char *func);

/** What STET_ASSERT_CMP calls: prints with both values and aborts. */
_Noreturn void stet_assert_cmp_failed(const char *expr, struct stet_assert_value a,
				      struct stet_assert_value b, const char *file, int line,
				      const char *func);

#endif
