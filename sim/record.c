/* record.c - the recording device; crash.c replays what it wrote down.
 *
 * I1. The lock is held from the call below until the event is noted, so the events are in the
 *     order in which the device below saw them.
 * I2. A flush covers the events that were there when it was called; those noted while it was
 *     under way are not covered, though they come before it.
 * I3. The device below is the base plus all events, unless the record is broken.
 * I4. Nothing in the record is changed or removed, so what sim_record_event lends stays valid.
 */
#include "sim/record.h"

#include "base/assert.h"
#include "base/list.h"
#include "sim/image.h"
#include "sim/record_internal.h"

#include <stdlib.h>
#include <string.h>

/* First guess; doubles as the record grows. */
#define FIRST_SNAPSHOT_STEP 64

#define FIRST_ROOM 256

/* Zeros are written in pieces of this size. */
#define ZERO_BYTES ((size_t)64 << 10)

static struct sim_record *record_of(struct stet_device *dev)
{
	return stet_container_of(dev, struct sim_record, dev);
}

/* Makes room for one more event, so that noting what was done cannot fail. Holds the lock. */
static int reserve_locked(struct sim_record *rec)
{
	size_t room = rec->room ? 2 * rec->room : FIRST_ROOM;
	struct sim_event_entry *events;

	stet_assert_held(&rec->lock);
	if (rec->count < rec->room)
		return 0;
	events = realloc(rec->events, room * sizeof(*events));
	if (!events)
		return STET_FAIL(-ENOMEM, "record: no memory");
	rec->events = events;
	rec->room = room;
	return 0;
}

/* Appends the event, for which there is room. The data becomes the record's. Holds the lock. */
static void note_take_locked(struct sim_record *rec, struct sim_event event)
{
	struct sim_event_entry entry = { .event = event };
	size_t n = rec->count;

	stet_assert_held(&rec->lock);
	STET_ASSERT_CMP(n, <, rec->room);
	if (n) {
		entry.floor = rec->events[n - 1].floor;
		entry.mark_end = rec->events[n - 1].mark_end;
	}
	if (event.kind == SIM_EVENT_FLUSH && event.covers > entry.floor)
		entry.floor = event.covers;
	if (event.kind == SIM_EVENT_MARK)
		entry.mark_end = n + 1;
	rec->events[rec->count++] = entry;
}

/// The device ///

static int record_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	return stet_device_read(record_of(dev)->lower, off_bytes, buf, len_bytes);
}

/* All buffers in one; NULL: no memory. */
static uint8_t *gather(const struct iovec *iov, int iov_count, uint64_t *ret_len_bytes)
{
	size_t len_bytes = 0;
	uint8_t *data;
	uint8_t *to;

	for (int i = 0; i < iov_count; i++)
		len_bytes += iov[i].iov_len;
	data = malloc(len_bytes);
	if (!data)
		return NULL;
	to = data;
	for (int i = 0; i < iov_count; i++) {
		if (iov[i].iov_len)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	*ret_len_bytes = len_bytes;
	return data;
}

static int record_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
			 int iov_count)
{
	struct sim_record *rec = record_of(dev);
	struct sim_event event = { .kind = SIM_EVENT_WRITE, .off_bytes = off_bytes };
	uint8_t *data = gather(iov, iov_count, &event.len_bytes);
	int rc;

	if (!data)
		return STET_FAIL(-ENOMEM, "record: no memory");
	event.data = data;
	stet_mutex_lock(&rec->lock);
	rc = reserve_locked(rec);
	if (!rc) {
		rc = stet_device_write(rec->lower, off_bytes, data, (size_t)event.len_bytes);
		rec->broken |= rc != 0;
	}
	if (!rc)
		note_take_locked(rec, event);
	else
		free(data);
	stet_mutex_unlock(&rec->lock);
	return rc;
}

static int record_flush(struct stet_device *dev)
{
	struct sim_record *rec = record_of(dev);
	struct sim_event event = { .kind = SIM_EVENT_FLUSH };
	int rc;

	stet_mutex_lock(&rec->lock);
	event.covers = rec->count; /* I2 */
	stet_mutex_unlock(&rec->lock);
	rc = stet_device_flush(rec->lower);
	stet_mutex_lock(&rec->lock);
	rec->broken |= rc != 0;
	if (!rc)
		rc = reserve_locked(rec);
	if (!rc)
		note_take_locked(rec, event);
	stet_mutex_unlock(&rec->lock);
	return rc;
}

/* Writes zeros, as what a discard leaves is otherwise left to the device below (I3). */
static int write_zeros(struct stet_device *lower, uint64_t off_bytes, uint64_t len_bytes)
{
	static const uint8_t zeros[ZERO_BYTES];
	int rc = stet_device_discard(lower, off_bytes, len_bytes);

	while (len_bytes && !rc) {
		size_t n = len_bytes < ZERO_BYTES ? (size_t)len_bytes : ZERO_BYTES;

		rc = stet_device_write(lower, off_bytes, zeros, n);
		off_bytes += n;
		len_bytes -= n;
	}
	return rc;
}

static int record_discard(struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes)
{
	struct sim_record *rec = record_of(dev);
	const struct sim_event event = {
		.kind = SIM_EVENT_DISCARD,
		.off_bytes = off_bytes,
		.len_bytes = len_bytes,
	};
	int rc;

	stet_mutex_lock(&rec->lock);
	rc = reserve_locked(rec);
	if (!rc) {
		rc = sim_image_is(rec->lower)
			     ? stet_device_discard(rec->lower, off_bytes, len_bytes)
			     : write_zeros(rec->lower, off_bytes, len_bytes);
		rec->broken |= rc != 0;
	}
	if (!rc)
		note_take_locked(rec, event);
	stet_mutex_unlock(&rec->lock);
	return rc;
}

static void record_close(struct stet_device *dev)
{
	(void)dev; /* the record owns it */
}

static const struct stet_device_ops record_ops = {
	.read = record_read,
	.writev = record_writev,
	.flush = record_flush,
	.discard = record_discard,
	.close = record_close,
};

/// The record ///

int sim_record_create(struct stet_device *lower, struct sim_record **ret)
{
	struct sim_record *rec = calloc(1, sizeof(*rec));
	struct stet_device *base;
	int rc;

	if (!rec)
		return STET_FAIL(-ENOMEM, "record: no memory");
	rc = sim_image_copy(lower, &base);
	if (rc)
		goto fail;
	rc = stet_device_init(&rec->dev, &record_ops, lower->size_bytes, lower->read_only,
			      "record");
	if (rc) {
		stet_device_close(base);
		goto fail;
	}
	rec->lower = lower;
	rec->snapshot[0] = (struct sim_snapshot){ .pos = 0, .image = base };
	rec->snapshot_count = 1;
	rec->snapshot_step = FIRST_SNAPSHOT_STEP;
	stet_mutex_init(&rec->lock, SIM_RECORD_LOCK_RANK, "record");
	*ret = rec;
	return 0;
fail:
	free(rec);
	return rc;
}

void sim_record_destroy(struct sim_record *rec)
{
	if (!rec)
		return;
	for (size_t i = 0; i < rec->count; i++)
		free((void *)(uintptr_t)rec->events[i].event.data);
	free(rec->events);
	sim_record_forget_(rec);
	stet_mutex_destroy(&rec->lock);
	stet_device_release(&rec->dev);
	free(rec);
}

struct stet_device *sim_record_device(struct sim_record *rec)
{
	return &rec->dev;
}

int sim_record_mark(struct sim_record *rec, uint64_t tag)
{
	const struct sim_event event = { .kind = SIM_EVENT_MARK, .tag = tag };
	int rc;

	stet_mutex_lock(&rec->lock);
	rc = reserve_locked(rec);
	if (!rc)
		note_take_locked(rec, event);
	stet_mutex_unlock(&rec->lock);
	return rc;
}

size_t sim_record_count(struct sim_record *rec)
{
	size_t n;

	stet_mutex_lock(&rec->lock);
	n = rec->count;
	stet_mutex_unlock(&rec->lock);
	return n;
}

struct sim_event sim_record_event(struct sim_record *rec, size_t no)
{
	struct sim_event event;

	stet_mutex_lock(&rec->lock);
	STET_ASSERT_CMP(no, <, rec->count);
	event = rec->events[no].event;
	stet_mutex_unlock(&rec->lock);
	return event;
}

bool sim_record_last_mark(struct sim_record *rec, size_t k, uint64_t *ret_tag)
{
	size_t mark_end = 0;

	stet_mutex_lock(&rec->lock);
	STET_ASSERT_CMP(k, <=, rec->count);
	if (k)
		mark_end = rec->events[k - 1].mark_end;
	if (mark_end)
		*ret_tag = rec->events[mark_end - 1].event.tag;
	stet_mutex_unlock(&rec->lock);
	return mark_end != 0;
}

size_t sim_record_next_flush(struct sim_record *rec, size_t k)
{
	stet_mutex_lock(&rec->lock);
	while (k < rec->count && rec->events[k].event.kind != SIM_EVENT_FLUSH)
		k++;
	stet_mutex_unlock(&rec->lock);
	return k;
}
