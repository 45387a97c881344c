/* record.h - a device that remembers everything done to it, and makes the states in which a crash
 * at any point may have left it.
 *
 *	sim_record_create(lower, &rec);
 *	... use sim_record_device(rec), with sim_record_mark(rec, n) at each acknowledgement ...
 *	for (size_t k = 0; k <= sim_record_count(rec); k++)
 *		for (seed = 0; seed < 10; seed++) {
 *			spec = sim_crash_random(k, seed);
 *			sim_record_crash_image(rec, &spec, &dev);
 *			... open dev: must show at least what sim_record_last_mark(rec, k) says ...
 *			stet_device_close(dev);
 *		}
 *
 * A crash image is a normal device; recorded in its turn, it gives crashes during recovery.
 *
 * A crash at event k happens just before event k: events 0..k-1 were seen, k = count is the end.
 * Certain are the writes that had returned before the call of a flush that is among them. Each
 * other write among them is unflushed: it may be whole, gone, torn, scattered or half garbage.
 * The write in progress at the crash is covered by k one higher, where it is unflushed.
 *
 * What lies below must not fail: put fault devices above, so that lost writes and lying flushes
 * are seen here as what really happened. After an error from below no crash image is made (-EIO).
 */
#ifndef SIM_RECORD_H
#define SIM_RECORD_H

#include "base/text.h"
#include "device/device.h"

/** Rank of a recorder's lock, which is held while it calls the device below. */
#define SIM_RECORD_LOCK_RANK (STET_DEVICE_LOCK_RANK - 10)

struct sim_record;

enum sim_event_kind {
	SIM_EVENT_WRITE,
	SIM_EVENT_DISCARD, /* a write of zeros */
	SIM_EVENT_FLUSH,
	SIM_EVENT_MARK, /* sim_record_mark */
};

struct sim_event {
	enum sim_event_kind kind;
	uint64_t off_bytes;  /* WRITE, DISCARD */
	uint64_t len_bytes;  /* WRITE, DISCARD */
	const uint8_t *data; /* WRITE; borrowed: valid as long as the record */
	size_t covers;       /* FLUSH: makes durable the writes among the events before this one */
	uint64_t tag;        /* MARK */
};

/// Recording ///

/**
 * Starts a record of what is done through sim_record_device. lower stays the caller's, must
 * outlive the record, and must not be used past it; what it holds now is the base. Recorders do not
 * stack (images do). Errors of reading lower; -ENOMEM. The caller owns *ret (sim_record_destroy).
 */
STET_CHECKED int sim_record_create(struct stet_device *lower, struct sim_record **ret);

/** Frees the record and its device, not the device below; crash images live on. NULL: nothing. */
void sim_record_destroy(struct sim_record *rec);

/**
 * The recording device. Borrowed: it lives as long as the record; closing it is allowed and does
 * nothing, so it may be "opened" by asking for it again.
 */
struct stet_device *sim_record_device(struct sim_record *rec);

/** Puts a tag between the events. Any thread. -ENOMEM. */
STET_CHECKED int sim_record_mark(struct sim_record *rec, uint64_t tag);

/// Looking; not during recording ///

/** How many events there are. */
size_t sim_record_count(struct sim_record *rec);

/** Event no < count. */
struct sim_event sim_record_event(struct sim_record *rec, size_t no);

/** The tag of the last mark among events 0..k-1; false when there is none. */
bool sim_record_last_mark(struct sim_record *rec, size_t k, uint64_t *ret_tag);

/** The first flush at or after event k; the count when there is none. */
size_t sim_record_next_flush(struct sim_record *rec, size_t k);

/** How many writes and discards are unflushed in a crash at event k. */
size_t sim_record_unflushed(struct sim_record *rec, size_t k);

/// Crashing; not during recording ///

enum sim_crash_mode {
	SIM_CRASH_ALL,    /* every unflushed write is there */
	SIM_CRASH_NONE,   /* none is */
	SIM_CRASH_SUBSET, /* the i-th is there if bit i of mask is set; those from 64 on are not */
	SIM_CRASH_SEEDED, /* each by chance */
};

/** What may become of an unflushed write: index of sim_crash_spec.weight. */
enum sim_fate {
	SIM_FATE_APPLY,   /* all of it */
	SIM_FATE_DROP,    /* nothing */
	SIM_FATE_TEAR,    /* its first sectors */
	SIM_FATE_SCATTER, /* some of its sectors */
	SIM_FATE_GARBAGE, /* its first sectors, then random bytes to its end */
	SIM_FATE_COUNT,
};

struct sim_crash_spec {
	size_t event; /* the crash happens just before it */
	enum sim_crash_mode mode;
	uint64_t mask;                   /* SUBSET */
	uint64_t seed;                   /* SEEDED: same record, same spec, same image */
	uint32_t weight[SIM_FATE_COUNT]; /* SEEDED: how often each fate; the sum is > 0 */
	uint32_t keep_last; /* SEEDED: all but the last so many are applied; 0: no limit */
	/* SEEDED: unflushed writes land in any order, overlapping ones too (a device that forgets
	 * which came last); otherwise in theirs. */
	bool reorder;
};

/**
 * A spec for event k chosen by the seed, so that over many seeds all mixtures come up: nearly all
 * there, nearly none, only the end in doubt, everything at once.
 */
struct sim_crash_spec sim_crash_random(size_t k, uint64_t seed);

/** One line from which the spec can be rebuilt. */
void sim_crash_spec_print(struct stet_text *text, const struct sim_crash_spec *spec);

/**
 * Makes what a crash may have left. Cheap when called with rising events, and bearable otherwise.
 * -EIO: the device below had failed. -ENOMEM. The caller owns *ret (stet_device_close).
 */
STET_CHECKED int sim_record_crash_image(struct sim_record *rec, const struct sim_crash_spec *spec,
					struct stet_device **ret);

#endif
