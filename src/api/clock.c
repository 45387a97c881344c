/* clock.c - the real clock. */
#include "api/api_internal.h"

#include <time.h>

#define NS_PER_S 1000000000

static int64_t now_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int64_t wall_ns(struct stet_clock *clock)
{
	(void)clock;
	return now_ns(CLOCK_REALTIME);
}

static int64_t mono_ns(struct stet_clock *clock)
{
	(void)clock;
	return now_ns(CLOCK_MONOTONIC);
}

struct stet_clock *stet_api_real_clock_(void)
{
	static struct stet_clock clock = { .wall_ns = wall_ns, .mono_ns = mono_ns };

	return &clock;
}

int64_t stet_api_now_ns(void)
{
	return mono_ns(NULL);
}
