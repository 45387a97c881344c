/* ticket.h - how an operation waits without blocking a thread.
 *
 * An operation first takes all the locks and reservations it needs. If it must wait for something,
 * it changes nothing, queues its ticket on the queue of that something and returns STET_WAIT. When
 * the ticket fires, the operation is restarted from the start (and may have to wait again, with
 * the ticket initialised anew). What "restart" means is the affair of the ticket's function:
 * api/ wakes a thread, fuse/ re-queues a request, the simulator schedules it.
 *
 * I1. A ticket is on at most one queue, and on none once it has fired or was cancelled.
 * I2. fn is called at most once for each stet_ticket_init.
 * Not thread-safe: guarded by the volume's lock.
 */
#ifndef STET_BASE_TICKET_H
#define STET_BASE_TICKET_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>

struct stet_ticket {
	bool fired;
	int result; /* valid once fired: 0 or a negative errno value */
	void (*fn)(struct stet_ticket *ticket, void *arg);
	void *arg;
	struct stet_list link; /* on a queue, or alone */
};

struct stet_ticket_queue {
	struct stet_list list; /* of stet_ticket.link, first come first */
};

/** Makes an unfired ticket on no queue. fn may be NULL: then look at fired. Allocates nothing. */
void stet_ticket_init(struct stet_ticket *ticket, void (*fn)(struct stet_ticket *ticket, void *arg),
		      void *arg);

/**
 * Takes the ticket off its queue, if any, notes the result and calls fn. Fired already: does
 * nothing. fn may free the ticket, initialise and queue it anew, or cancel others.
 */
void stet_ticket_fire(struct stet_ticket *ticket, int result);

/** Takes the ticket off its queue, if any, without firing it. fn will not be called. */
void stet_ticket_cancel(struct stet_ticket *ticket);

/** Makes an empty queue; allocates nothing. */
void stet_ticket_queue_init(struct stet_ticket_queue *queue);

/** True when nobody waits. */
bool stet_ticket_queue_empty(const struct stet_ticket_queue *queue);

/** Appends the ticket, which must be neither fired nor on a queue. Its memory stays the caller's. */
void stet_ticket_enqueue(struct stet_ticket_queue *queue, struct stet_ticket *ticket);

/** Fires the tickets that are on the queue now, in order; those queued meanwhile stay. */
void stet_ticket_fire_all(struct stet_ticket_queue *queue, int result);

/** Fires the first ticket; false when there was none. */
bool stet_ticket_fire_first(struct stet_ticket_queue *queue, int result);

#endif
