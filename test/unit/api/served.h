/* served.h - a volume that threads of the test serve through a socket, and a client of it. */
#ifndef TEST_API_SERVED_H
#define TEST_API_SERVED_H

#include "stetfs.h"
#include "stetfs_lowlevel.h"

struct served;

/* Serves `local`, and opens a client of it. options as of stet_ll_service_create. 0 or a negative errno value. */
int served_start(struct stet_volume *local, const struct stet_ll_service_options *options,
		 struct served **ret, struct stet_volume **ret_client);
/* After the client has been closed. */
void served_stop(struct served *s);

#endif
