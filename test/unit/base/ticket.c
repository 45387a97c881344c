/* ticket.c - tickets fire once, in order, and may do anything to each other meanwhile. */
#include "base/ticket.h"

#include "base/mem.h"

#include "unit.h"

#define MAX_FIRED 16

struct fired {
	struct stet_ticket *ticket[MAX_FIRED];
	int n;
	struct stet_ticket_queue *queue; /* for those that queue themselves again */
	struct stet_ticket *victim;      /* for those that cancel another */
};

static void note(struct stet_ticket *ticket, void *arg)
{
	struct fired *fired = arg;

	assert_true(ticket->fired);
	assert_false(stet_list_linked(&ticket->link));
	assert_true(fired->n < MAX_FIRED);
	fired->ticket[fired->n++] = ticket;
}

static void note_and_queue_again(struct stet_ticket *ticket, void *arg)
{
	struct fired *fired = arg;

	note(ticket, arg);
	stet_ticket_init(ticket, note_and_queue_again, arg);
	stet_ticket_enqueue(fired->queue, ticket);
}

static void note_and_cancel_victim(struct stet_ticket *ticket, void *arg)
{
	struct fired *fired = arg;

	note(ticket, arg);
	stet_ticket_cancel(fired->victim);
}

static void note_and_free(struct stet_ticket *ticket, void *arg)
{
	note(ticket, arg);
	stet_free(ticket);
}

static void fires_once(void **state)
{
	struct fired fired = { 0 };
	struct stet_ticket ticket;

	(void)state;
	stet_ticket_init(&ticket, note, &fired);
	assert_false(ticket.fired);
	stet_ticket_fire(&ticket, -5);
	stet_ticket_fire(&ticket, -6);
	assert_int_equal(fired.n, 1);
	assert_int_equal(ticket.result, -5);
	stet_ticket_init(&ticket, NULL, NULL);
	stet_ticket_fire(&ticket, 0);
	assert_true(ticket.fired);
}

static void queue_fires_in_order(void **state)
{
	struct fired fired = { 0 };
	struct stet_ticket_queue queue;
	struct stet_ticket ticket[4];

	(void)state;
	stet_ticket_queue_init(&queue);
	assert_true(stet_ticket_queue_empty(&queue));
	assert_false(stet_ticket_fire_first(&queue, 0));
	for (int i = 0; i < 4; i++) {
		stet_ticket_init(&ticket[i], note, &fired);
		stet_ticket_enqueue(&queue, &ticket[i]);
	}
	assert_false(stet_ticket_queue_empty(&queue));
	stet_ticket_fire(&ticket[2], 1);
	stet_ticket_cancel(&ticket[1]);
	stet_ticket_cancel(&ticket[1]);
	assert_true(stet_ticket_fire_first(&queue, 2));
	stet_ticket_fire_all(&queue, 3);
	assert_true(stet_ticket_queue_empty(&queue));
	assert_int_equal(fired.n, 3);
	assert_ptr_equal(fired.ticket[0], &ticket[2]);
	assert_ptr_equal(fired.ticket[1], &ticket[0]);
	assert_ptr_equal(fired.ticket[2], &ticket[3]);
	assert_int_equal(ticket[3].result, 3);
	assert_false(ticket[1].fired);
}

static void queueing_again_waits_for_the_next_time(void **state)
{
	struct stet_ticket_queue queue;
	struct fired fired = { .queue = &queue };
	struct stet_ticket ticket[2];

	(void)state;
	stet_ticket_queue_init(&queue);
	for (int i = 0; i < 2; i++) {
		stet_ticket_init(&ticket[i], note_and_queue_again, &fired);
		stet_ticket_enqueue(&queue, &ticket[i]);
	}
	stet_ticket_fire_all(&queue, 0);
	assert_int_equal(fired.n, 2);
	stet_ticket_fire_all(&queue, 0);
	assert_int_equal(fired.n, 4);
	assert_false(stet_ticket_queue_empty(&queue));
	stet_ticket_cancel(&ticket[0]);
	stet_ticket_cancel(&ticket[1]);
	assert_true(stet_ticket_queue_empty(&queue));
}

static void functions_may_cancel_and_free(void **state)
{
	struct stet_ticket_queue queue;
	struct stet_ticket victim;
	struct fired fired = { .victim = &victim };
	struct stet_ticket canceller;
	struct stet_ticket *freed = stet_alloc(sizeof(*freed));

	(void)state;
	stet_ticket_queue_init(&queue);
	stet_ticket_init(&canceller, note_and_cancel_victim, &fired);
	stet_ticket_init(&victim, note, &fired);
	stet_ticket_init(freed, note_and_free, &fired);
	stet_ticket_enqueue(&queue, &canceller);
	stet_ticket_enqueue(&queue, &victim);
	stet_ticket_enqueue(&queue, freed);
	stet_ticket_fire_all(&queue, 0);
	assert_int_equal(fired.n, 2);
	assert_false(victim.fired);
	assert_true(stet_ticket_queue_empty(&queue));
}

static void queue_fired(void *arg)
{
	struct stet_ticket ticket;

	stet_ticket_init(&ticket, NULL, NULL);
	stet_ticket_fire(&ticket, 0);
	stet_ticket_enqueue(arg, &ticket);
}

static void queue_twice(void *arg)
{
	struct stet_ticket ticket;

	stet_ticket_init(&ticket, NULL, NULL);
	stet_ticket_enqueue(arg, &ticket);
	stet_ticket_enqueue(arg, &ticket);
}

static void misuse_aborts(void **state)
{
	struct stet_ticket_queue queue;

	(void)state;
	stet_ticket_queue_init(&queue);
	assert_true(unit_aborts(queue_fired, &queue));
	assert_true(unit_aborts(queue_twice, &queue));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fires_once),
		cmocka_unit_test(queue_fires_in_order),
		cmocka_unit_test(queueing_again_waits_for_the_next_time),
		cmocka_unit_test(functions_may_cancel_and_free),
		cmocka_unit_test(misuse_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
