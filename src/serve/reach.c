/* reach.c - clients show that they reach the mount (remote/reach.h says why, and how).
 *
 * Each is given a word that nobody can guess, and has it asked for by way of the mount. The mount's server tells us that
 * it was, where, and by whom.
 *
 * A word is good once, for who was given it, from when it was given out until he says that he has shown it.
 */
#include "serve/serve_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

int stet_serve_reach_begin_(struct stet_ll_service *service, uint32_t uid,
			    struct stet_serve_reach *reach)
{
	uint64_t random[2];

	*reach = (struct stet_serve_reach){ .uid = uid };
	stet_list_init(&reach->link);
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return STET_FAIL(-EIO, "no random numbers");
	snprintf(reach->word, sizeof(reach->word), "%016llx%016llx", (unsigned long long)random[0],
		 (unsigned long long)random[1]);
	stet_mutex_lock(&service->lock);
	stet_list_add_tail(&service->reaches, &reach->link);
	stet_mutex_unlock(&service->lock);
	return 0;
}

bool stet_serve_reach_end_(struct stet_ll_service *service, struct stet_serve_reach *reach)
{
	stet_mutex_lock(&service->lock);
	stet_list_del(&reach->link);
	stet_mutex_unlock(&service->lock);
	return reach->reached;
}

static bool reached_locked(struct stet_serve_reach *reach, bool writable, void *within)
{
	if (reach->reached)
		return false;
	reach->reached = true;
	reach->writable = writable;
	reach->within = within;
	return true;
}

bool stet_ll_service_reached(struct stet_ll_service *service, const char *word, uint32_t uid,
			     bool writable, void *within)
{
	struct stet_list *pos;
	bool taken = false;

	stet_mutex_lock(&service->lock);
	STET_LIST_FOREACH(pos, &service->reaches) {
		struct stet_serve_reach *reach = stet_container_of(pos, struct stet_serve_reach,
								   link);

		if (reach->uid != uid || strcmp(reach->word, word) != 0)
			continue;
		taken = reached_locked(reach, writable, within);
		break;
	}
	stet_mutex_unlock(&service->lock);
	return taken;
}
