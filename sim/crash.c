/* crash.c - replays a record up to a crash.
 *
 * An image is made in two steps. The certain part, the base plus all events below the floor (what
 * the flushes before the crash cover), is `head`, which only rolls forward; to go back, it starts
 * again from a snapshot. A copy of head then gets the unflushed writes, each with its fate.
 *
 * I1. head and the snapshots hold exactly the writes among events 0..pos-1.
 * I2. snapshot[0] is the base; the others are at the multiples of snapshot_step, without gaps.
 * I3. Same record and same spec give the same image, whatever was asked before.
 */
#include "base/assert.h"
#include "base/random.h"
#include "sim/image.h"
#include "sim/record.h"
#include "sim/record_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Garbage is made in pieces of this size. */
#define GARBAGE_BYTES 4096

void sim_record_forget_(struct sim_record *rec)
{
	for (size_t i = 0; i < rec->snapshot_count; i++)
		stet_device_close(rec->snapshot[i].image);
	rec->snapshot_count = 0;
	stet_device_close(rec->head.image);
	rec->head.image = NULL;
}

static bool changes_bytes(const struct sim_event *event)
{
	return event->kind == SIM_EVENT_WRITE || event->kind == SIM_EVENT_DISCARD;
}

/* Applies the bytes from..to (absolute offsets) of the event. */
static int apply_part(struct stet_device *image, const struct sim_event *event, uint64_t from,
		      uint64_t to)
{
	if (event->kind == SIM_EVENT_DISCARD)
		return stet_device_discard(image, from, to - from);
	return stet_device_write(image, from, event->data + (from - event->off_bytes),
				 (size_t)(to - from));
}

static int apply_whole(struct stet_device *image, const struct sim_event *event)
{
	return apply_part(image, event, event->off_bytes, event->off_bytes + event->len_bytes);
}

/// The certain part ///

/* Lets every other snapshot go (I2). */
static void thin_snapshots(struct sim_record *rec)
{
	size_t kept = 0;

	rec->snapshot_step *= 2;
	for (size_t i = 0; i < rec->snapshot_count; i++) {
		if (rec->snapshot[i].pos % rec->snapshot_step == 0)
			rec->snapshot[kept++] = rec->snapshot[i];
		else
			stet_device_close(rec->snapshot[i].image);
	}
	rec->snapshot_count = kept;
}

/* Keeps head as a snapshot if it is at the next place for one. */
static int keep_snapshot(struct sim_record *rec)
{
	struct stet_device *copy;
	int rc;

	if (rec->head.pos != rec->snapshot_count * rec->snapshot_step)
		return 0;
	if (rec->snapshot_count == SIM_SNAPSHOTS)
		thin_snapshots(rec); /* an even number: the place stays the next one */
	rc = sim_image_copy(rec->head.image, &copy);
	if (rc)
		return rc;
	rec->snapshot[rec->snapshot_count++] = (struct sim_snapshot){ .pos = rec->head.pos,
								      .image = copy };
	return 0;
}

/* Makes head stand at or before floor, as late as can be had without replaying. */
static int choose_start(struct sim_record *rec, size_t floor)
{
	size_t i = rec->snapshot_count - 1;
	struct stet_device *copy;
	int rc;

	while (rec->snapshot[i].pos > floor)
		i--; /* ends at [0], which is at 0 */
	if (rec->head.image && rec->head.pos <= floor && rec->head.pos >= rec->snapshot[i].pos)
		return 0;
	rc = sim_image_copy(rec->snapshot[i].image, &copy);
	if (rc)
		return rc;
	stet_device_close(rec->head.image);
	rec->head = (struct sim_snapshot){ .pos = rec->snapshot[i].pos, .image = copy };
	return 0;
}

/* Moves head to exactly floor. */
static int roll_to(struct sim_record *rec, size_t floor)
{
	int rc = choose_start(rec, floor);

	while (!rc && rec->head.pos < floor) {
		const struct sim_event *event = &rec->events[rec->head.pos].event;

		if (changes_bytes(event))
			rc = apply_whole(rec->head.image, event);
		if (rc)
			return rc; /* a failed write changed nothing or will be redone */
		rec->head.pos++;
		rc = keep_snapshot(rec);
	}
	return rc;
}

/// The unflushed part ///

static size_t floor_of(const struct sim_record *rec, size_t k)
{
	return k ? rec->events[k - 1].floor : 0;
}

static size_t count_unflushed(const struct sim_record *rec, size_t k)
{
	size_t n = 0;

	for (size_t no = floor_of(rec, k); no < k; no++)
		n += changes_bytes(&rec->events[no].event);
	return n;
}

static uint64_t sector_count(const struct sim_event *event)
{
	uint64_t last = event->off_bytes + event->len_bytes - 1;

	return last / SIM_SECTOR_BYTES - event->off_bytes / SIM_SECTOR_BYTES + 1;
}

/* Where sector i (0..sector_count) of the event starts, as an absolute offset. */
static uint64_t sector_start(const struct sim_event *event, uint64_t i)
{
	uint64_t start = (event->off_bytes / SIM_SECTOR_BYTES + i) * SIM_SECTOR_BYTES;
	uint64_t end = event->off_bytes + event->len_bytes;

	if (i == 0)
		return event->off_bytes;
	return start < end ? start : end;
}

static int apply_garbage(struct stet_device *image, uint64_t from, uint64_t to,
			 struct stet_random *random)
{
	uint8_t buf[GARBAGE_BYTES];

	while (from < to) {
		size_t n = to - from < sizeof(buf) ? (size_t)(to - from) : sizeof(buf);
		int rc;

		stet_random_bytes(random, buf, n);
		rc = stet_device_write(image, from, buf, n);
		if (rc)
			return rc;
		from += n;
	}
	return 0;
}

static int apply_scattered(struct stet_device *image, const struct sim_event *event,
			   struct stet_random *random)
{
	uint64_t n = sector_count(event);

	for (uint64_t i = 0; i < n; i++) {
		int rc;

		if (stet_random_below(random, 2) == 0)
			continue;
		rc = apply_part(image, event, sector_start(event, i), sector_start(event, i + 1));
		if (rc)
			return rc;
	}
	return 0;
}

/* An unflushed write and what becomes of it. */
struct doubt {
	const struct sim_event *event; /* borrowed from the record */
	enum sim_fate fate;
	uint64_t seed; /* its own, so that the order does not matter */
};

static int apply_fate(struct stet_device *image, const struct doubt *doubt)
{
	const struct sim_event *event = doubt->event;
	struct stet_random random;
	uint64_t n;
	uint64_t end;
	uint64_t cut;
	int rc;

	STET_ASSERT(event);
	n = sector_count(event);
	end = sector_start(event, n);
	stet_random_seed(&random, doubt->seed);
	switch (doubt->fate) {
	case SIM_FATE_APPLY:
		return apply_whole(image, event);
	case SIM_FATE_TEAR: /* a single sector cannot be torn: it is not there */
		cut = n > 1 ? 1 + stet_random_below(&random, n - 1) : 0;
		return apply_part(image, event, event->off_bytes, sector_start(event, cut));
	case SIM_FATE_SCATTER:
		return apply_scattered(image, event, &random);
	case SIM_FATE_GARBAGE:
		cut = sector_start(event, stet_random_below(&random, n));
		rc = apply_part(image, event, event->off_bytes, cut);
		return rc ? rc : apply_garbage(image, cut, end, &random);
	case SIM_FATE_DROP:
	case SIM_FATE_COUNT:
		break;
	}
	return 0;
}

/* One of the fates, each as often as its weight says. */
static enum sim_fate draw_fate(const struct sim_crash_spec *spec, struct stet_random *random)
{
	uint64_t sum = 0;
	uint64_t at;
	int fate = 0;

	for (int i = 0; i < SIM_FATE_COUNT; i++)
		sum += spec->weight[i];
	STET_ASSERT_CMP(sum, >, 0);
	at = stet_random_below(random, sum);
	while (at >= spec->weight[fate])
		at -= spec->weight[fate++];
	return (enum sim_fate)fate;
}

/* The fate of the i-th of n unflushed writes. */
static enum sim_fate choose_fate(const struct sim_crash_spec *spec, size_t i, size_t n,
				 struct stet_random *random)
{
	bool there = false;

	switch (spec->mode) {
	case SIM_CRASH_ALL:
		there = true;
		break;
	case SIM_CRASH_NONE:
		break;
	case SIM_CRASH_SUBSET:
		there = i < 64 && (spec->mask >> i & 1);
		break;
	case SIM_CRASH_SEEDED:
		if (!spec->keep_last || n - i <= spec->keep_last)
			return draw_fate(spec, random);
		there = true;
		break;
	}
	return there ? SIM_FATE_APPLY : SIM_FATE_DROP;
}

static void shuffle(struct doubt *doubt, size_t n, struct stet_random *random)
{
	for (size_t i = n; i > 1; i--) {
		size_t other = (size_t)stet_random_below(random, i);
		struct doubt saved = doubt[i - 1];

		doubt[i - 1] = doubt[other];
		doubt[other] = saved;
	}
}

static int apply_unflushed(const struct sim_record *rec, const struct sim_crash_spec *spec,
			   struct stet_device *image)
{
	size_t n = count_unflushed(rec, spec->event);
	struct doubt *doubt = calloc(n + 1, sizeof(*doubt));
	struct stet_random random;
	size_t i = 0;
	int rc = 0;

	if (!doubt)
		return STET_FAIL(-ENOMEM, "crash: no memory");
	stet_random_seed(&random, spec->seed);
	for (size_t no = floor_of(rec, spec->event); no < spec->event; no++) {
		if (!changes_bytes(&rec->events[no].event))
			continue;
		doubt[i].event = &rec->events[no].event;
		doubt[i].fate = choose_fate(spec, i, n, &random);
		doubt[i].seed = stet_random_next(&random);
		i++;
	}
	STET_ASSERT_CMP(i, ==, n);
	if (spec->mode == SIM_CRASH_SEEDED && spec->reorder)
		shuffle(doubt, n, &random);
	for (i = 0; i < n && !rc; i++)
		rc = apply_fate(image, &doubt[i]);
	free(doubt);
	return rc;
}

static int make_image_locked(struct sim_record *rec, const struct sim_crash_spec *spec,
			     struct stet_device **ret)
{
	struct stet_device *image;
	int rc;

	stet_assert_held(&rec->lock);
	STET_ASSERT_CMP(spec->event, <=, rec->count);
	if (rec->broken)
		return STET_FAIL(-EIO, "crash: the device below the record had failed");
	rc = roll_to(rec, floor_of(rec, spec->event));
	if (!rc)
		rc = sim_image_copy(rec->head.image, &image);
	if (rc)
		return rc;
	rc = apply_unflushed(rec, spec, image);
	if (rc) {
		stet_device_close(image);
		return rc;
	}
	*ret = image;
	return 0;
}

int sim_record_crash_image(struct sim_record *rec, const struct sim_crash_spec *spec,
			   struct stet_device **ret)
{
	int rc;

	stet_mutex_lock(&rec->lock);
	rc = make_image_locked(rec, spec, ret);
	stet_mutex_unlock(&rec->lock);
	return rc;
}

size_t sim_record_unflushed(struct sim_record *rec, size_t k)
{
	size_t n;

	stet_mutex_lock(&rec->lock);
	STET_ASSERT_CMP(k, <=, rec->count);
	n = count_unflushed(rec, k);
	stet_mutex_unlock(&rec->lock);
	return n;
}

/// Specs ///

struct sim_crash_spec sim_crash_random(size_t k, uint64_t seed)
{
	/* apply, drop, tear, scatter, garbage */
	static const uint32_t mixture[][SIM_FATE_COUNT] = {
		{ 90, 4, 2, 2, 2 },     /* nearly all there */
		{ 4, 90, 2, 2, 2 },     /* nearly none */
		{ 50, 50, 0, 0, 0 },    /* whole or gone */
		{ 20, 20, 20, 20, 20 }, /* everything at once */
		{ 10, 30, 20, 20, 20 }, /* the same, at the end only */
	};
	const size_t count = sizeof(mixture) / sizeof(mixture[0]);
	struct sim_crash_spec spec = { .event = k, .mode = SIM_CRASH_SEEDED, .seed = seed };
	struct stet_random random;
	size_t which;

	stet_random_seed(&random, seed);
	which = (size_t)stet_random_below(&random, count);
	memcpy(spec.weight, mixture[which], sizeof(spec.weight));
	if (which == count - 1)
		spec.keep_last = 1 + (uint32_t)stet_random_below(&random, 4);
	spec.reorder = stet_random_below(&random, 2) == 1;
	return spec;
}

void sim_crash_spec_print(struct stet_text *text, const struct sim_crash_spec *spec)
{
	static const char *const mode_name[] = {
		[SIM_CRASH_ALL] = "all",
		[SIM_CRASH_NONE] = "none",
		[SIM_CRASH_SUBSET] = "subset",
		[SIM_CRASH_SEEDED] = "seeded",
	};

	stet_text_printf(text, "event=%zu mode=%s", spec->event, mode_name[spec->mode]);
	if (spec->mode == SIM_CRASH_SUBSET)
		stet_text_printf(text, " mask=%#" PRIx64, spec->mask);
	if (spec->mode != SIM_CRASH_SEEDED)
		return;
	stet_text_printf(text, " seed=%" PRIu64 " weight=", spec->seed);
	for (int i = 0; i < SIM_FATE_COUNT; i++)
		stet_text_printf(text, "%s%" PRIu32, i ? "," : "", spec->weight[i]);
	stet_text_printf(text, " keep_last=%" PRIu32 " reorder=%d", spec->keep_last, spec->reorder);
}
