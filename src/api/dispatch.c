/* dispatch.c - the calls of stetfs.h that work on handles: each goes where its handle is from.
 *
 * I1. A handle begins with a struct stet_handle, which says whether it is of this process. NULL is: the local
 *     call knows what to say to it.
 * I2. Two handles of one call are from one place, or the call fails before anybody looks behind them.
 */
#include "stetfs.h"

#include "remote/handle.h"
#include "remote/remote.h"

/* I2 */
static int check_pair(const void *handle, const void *other, int error)
{
	if (!other || stet_handle_is_remote(handle) == stet_handle_is_remote(other))
		return 0;
	return STET_FAIL(error, "the handles are of different volumes");
}

#define DEFINE(type, name, handle, other, error, params, args)                 \
	type stet_local_##name params;                                         \
	type stet_##name params                                                \
	{                                                                      \
		int rc = check_pair(handle, other, error);                     \
                                                                               \
		if (rc)                                                        \
			return rc;                                             \
		return stet_handle_is_remote(handle) ? stet_remote_##name args \
						     : stet_local_##name args; \
	}
STET_CALLS(DEFINE)
#undef DEFINE

#define DEFINE(type, name, handle, params, args)                               \
	type stet_local_##name params;                                         \
	type stet_##name params                                                \
	{                                                                      \
		return stet_handle_is_remote(handle) ? stet_remote_##name args \
						     : stet_local_##name args; \
	}
STET_CALLS_PLAIN(DEFINE)
#undef DEFINE

#define DEFINE(name, handle, params, args)         \
	void stet_local_##name params;             \
	void stet_##name params                    \
	{                                          \
		if (stet_handle_is_remote(handle)) \
			stet_remote_##name args;   \
		else                               \
			stet_local_##name args;    \
	}
STET_CALLS_END(DEFINE)
#undef DEFINE
