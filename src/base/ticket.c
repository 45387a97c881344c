/* ticket.c - tickets and the queues they wait on. The theory is in ticket.h.
 *
 * I1. A ticket's function may do anything to its own ticket and to others: it is called last, when
 *     the ticket is off all queues, and queues are not touched by what follows it.
 */
#include "base/ticket.h"

#include "base/assert.h"

void stet_ticket_init(struct stet_ticket *ticket, void (*fn)(struct stet_ticket *ticket, void *arg),
		      void *arg)
{
	*ticket = (struct stet_ticket){ .fn = fn, .arg = arg };
	stet_list_init(&ticket->link);
}

void stet_ticket_fire(struct stet_ticket *ticket, int result)
{
	if (ticket->fired)
		return;
	stet_list_del(&ticket->link);
	ticket->fired = true;
	ticket->result = result;
	if (ticket->fn)
		ticket->fn(ticket, ticket->arg); /* I1: may have freed the ticket */
}

void stet_ticket_cancel(struct stet_ticket *ticket)
{
	stet_list_del(&ticket->link);
}

void stet_ticket_queue_init(struct stet_ticket_queue *queue)
{
	stet_list_init(&queue->list);
}

bool stet_ticket_queue_empty(const struct stet_ticket_queue *queue)
{
	return stet_list_empty(&queue->list);
}

void stet_ticket_enqueue(struct stet_ticket_queue *queue, struct stet_ticket *ticket)
{
	STET_ASSERT(!ticket->fired);
	STET_ASSERT(!stet_list_linked(&ticket->link));
	stet_list_add_tail(&queue->list, &ticket->link);
}

bool stet_ticket_fire_first(struct stet_ticket_queue *queue, int result)
{
	struct stet_list *first = stet_list_first(&queue->list);

	if (!first)
		return false;
	stet_ticket_fire(stet_container_of(first, struct stet_ticket, link), result);
	return true;
}

void stet_ticket_fire_all(struct stet_ticket_queue *queue, int result)
{
	struct stet_ticket_queue now;

	stet_ticket_queue_init(&now);
	stet_list_splice_tail(&now.list, &queue->list);
	while (stet_ticket_fire_first(&now, result))
		continue;
}
