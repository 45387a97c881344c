/* fault.h - a device that fails as told, above another one.
 *
 * What to do is a script, which can be printed and used again:
 *
 *	write#12:eio,flush#3:lie,read@4096-8192:rot=2
 *
 *	script := [rule {"," rule}]
 *	rule   := call ["#" N ["+"]] ["@" first "-" end] ":" fault ["=" argument]
 *	call   := "read" | "write" | "flush" | "discard" | "any"
 *
 * #N: only the N-th such call from when the script was set (1: the first); #N+: that and all later
 * ones; neither: all. @first-end: only calls that touch the bytes first..end-1, and only those are
 * counted for N (no flush touches any). When several rules fit a call, the first one does its work;
 * all of them count it. "any#N+:eio" fails everything after N - 1 calls.
 *
 *	eio         the call fails with -EIO and does nothing
 *	enospc      the same with -ENOSPC
 *	short=K     write: the first K sectors (default 1) land, then -EIO
 *	tear=K      write: the first K sectors (default 1) land, and 0 is returned
 *	lose        write: 0 is returned, nothing is written
 *	misdirect=O write: lands at byte O (default: a sector chosen by the seed) instead
 *	flip=B      read: B bits (default 1) of the buffer are flipped, this time only
 *	rot=B       read: the same, and those bits stay wrong until they are written again
 *	lie         flush: 0 is returned, nothing is flushed
 *
 * The numbers of calls and of faults are the same for the same calls, and the same seed makes the
 * same faults.
 */
#ifndef SIM_FAULT_H
#define SIM_FAULT_H

#include "base/text.h"
#include "device/device.h"

/** Rank of a fault device's lock. It is not held while the device below is called, so a fault device
 * may be above or below a recorder, or another one. */
#define SIM_FAULT_LOCK_RANK (STET_DEVICE_LOCK_RANK - 5)

/** Limits of a script, and of the bits that are rotten at once. */
#define SIM_FAULT_MAX_RULES 32
#define SIM_FAULT_MAX_ROTTEN 256

enum sim_fault_call {
	SIM_CALL_READ,
	SIM_CALL_WRITE,
	SIM_CALL_FLUSH,
	SIM_CALL_DISCARD,
	SIM_CALL_COUNT,
	SIM_CALL_ANY = SIM_CALL_COUNT,
};

/* X(constant, word in scripts, bits of the calls it goes with, has an argument, its default) */
#define SIM_FAULT_KINDS(X)                                                          \
	X(SIM_FAULT_EIO, "eio", 0x1f, false, 0)                                     \
	X(SIM_FAULT_ENOSPC, "enospc", 0x1f, false, 0)                               \
	X(SIM_FAULT_SHORT, "short", 1U << SIM_CALL_WRITE, true, 1)                  \
	X(SIM_FAULT_TEAR, "tear", 1U << SIM_CALL_WRITE, true, 1)                    \
	X(SIM_FAULT_LOSE, "lose", 1U << SIM_CALL_WRITE, false, 0)                   \
	X(SIM_FAULT_MISDIRECT, "misdirect", 1U << SIM_CALL_WRITE, true, UINT64_MAX) \
	X(SIM_FAULT_FLIP, "flip", 1U << SIM_CALL_READ, true, 1)                     \
	X(SIM_FAULT_ROT, "rot", 1U << SIM_CALL_READ, true, 1)                       \
	X(SIM_FAULT_LIE, "lie", 1U << SIM_CALL_FLUSH, false, 0)

enum sim_fault_kind {
#define X(constant, word, calls, has_arg, default_arg) constant,
	SIM_FAULT_KINDS(X)
#undef X
		SIM_FAULT_KIND_COUNT,
};

struct sim_fault_rule {
	enum sim_fault_call call;
	enum sim_fault_kind kind;
	uint64_t nth; /* 1: the first; 0: all */
	bool sticky;  /* from the nth on */
	bool has_range;
	uint64_t first_bytes; /* the range, its end not included */
	uint64_t end_bytes;
	uint64_t arg; /* UINT64_MAX of MISDIRECT: chosen by the seed */
};

struct sim_fault_script {
	struct sim_fault_rule rule[SIM_FAULT_MAX_RULES];
	size_t count;
};

/** Since the script was set. */
struct sim_fault_stats {
	uint64_t calls[SIM_CALL_COUNT];      /* calls of each kind, faulty ones too */
	uint64_t hits[SIM_FAULT_KIND_COUNT]; /* faults that were done, of each kind */
	uint64_t total_hits;
};

/// Scripts ///

/** Reads a script. -EINVAL: it is not one; the error's text says where. */
STET_CHECKED int sim_fault_script_parse(const char *text, struct sim_fault_script *ret);

/** Prints the script so that sim_fault_script_parse gives it back. */
void sim_fault_script_print(struct stet_text *text, const struct sim_fault_script *script);

/// The device ///

struct sim_fault;

/**
 * Makes a fault device with an empty script. lower stays the caller's and must outlive it. -ENOMEM.
 * The caller owns *ret (sim_fault_destroy).
 */
STET_CHECKED int sim_fault_create(struct stet_device *lower, uint64_t seed, struct sim_fault **ret);

/** Frees the fault device, not the device below. NULL is accepted. */
void sim_fault_destroy(struct sim_fault *fault);

/**
 * The device to use. Borrowed: it lives as long as fault; closing it is allowed and does nothing,
 * so it may be "opened" by asking for it again.
 */
struct stet_device *sim_fault_device(struct sim_fault *fault);

/** Sets the script, and all counters to 0; rotten bits stay. -EINVAL: nothing is changed. */
STET_CHECKED int sim_fault_set(struct sim_fault *fault, const char *script);

/** The counters now. Any thread. */
void sim_fault_stats(struct sim_fault *fault, struct sim_fault_stats *ret);

/** Prints seed, script, calls and hits. */
void sim_fault_print(struct stet_text *text, struct sim_fault *fault);

#endif
