/* record_internal.h - shared by record.c (which fills the record) and crash.c (which replays it). */
#ifndef SIM_RECORD_INTERNAL_H
#define SIM_RECORD_INTERNAL_H

#include "base/lock.h"
#include "sim/record.h"

/* Replayed states kept to start from; when they are full, every other one is let go. */
#define SIM_SNAPSHOTS 32

/* The base with the writes among events 0..pos-1. */
struct sim_snapshot {
	size_t pos;
	struct stet_device *image; /* owned */
};

struct sim_event_entry {
	struct sim_event event; /* data is owned */
	size_t floor;    /* the highest `covers` of the flushes up to this event, it included */
	size_t mark_end; /* 1 + number of the last mark up to this event, it included; 0: none */
};

struct sim_record {
	struct stet_device dev;
	/* --- set at creation, then constant --- */
	struct stet_device *lower; /* borrowed */
	/* --- under lock --- */
	struct sim_event_entry *events; /* owned; room for `room`, count in use */
	size_t count;
	size_t room;
	bool broken; /* the device below failed: the record does not tell its state */
	/* --- replay: one thread at a time, under lock --- */
	struct sim_snapshot snapshot[SIM_SNAPSHOTS]; /* rising; [0] is the base, pos 0 */
	size_t snapshot_count;
	size_t snapshot_step;     /* events between two snapshots */
	struct sim_snapshot head; /* the latest replayed state; image NULL: none */
	/* --- the lock --- */
	struct stet_mutex lock;
};

/* Frees the snapshots. */
void sim_record_forget_(struct sim_record *rec);

#endif
