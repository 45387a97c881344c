/* api_unit.h - what the tests of api/ share: volumes in memory, and shorthands.
 *
 * With STET_API_REMOTE in the environment the calls of stetfs.h go through a socket: the volume is served by
 * threads of the test, and unit_volume.vol is a client's. unit_volume.local is the volume itself.
 */
#ifndef API_UNIT_H
#define API_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/volume.h"
#include "stetfs.h"
#include "stetfs_lowlevel.h"

#define UNIT_DEVICE_BYTES ((uint64_t)64 << 20)

/* Fails the test with the library's own text. */
#define OK(call) unit_ok((call), #call, __FILE__, __LINE__)
#define FAILS(err, call) unit_fails((err), (call), #call, __FILE__, __LINE__)

void unit_ok(int rc, const char *call, const char *file, int line);
void unit_fails(int err, long rc, const char *call, const char *file, int line);

/* A device in front of another one, that can be slow and can fail. */
struct unit_device {
	struct stet_device base;
	struct stet_device *inner; /* owned */
	/* --- atomic --- */
	_Atomic unsigned flush_ms; /* how long a flush takes */
	_Atomic bool fail_flush;
	_Atomic bool no_room; /* writes give ENOSPC, as on a full host */
	_Atomic bool dead;    /* power is gone: what is written now is lost */
};

struct unit_volume {
	struct unit_device *wrap;
	struct stet_device *device; /* &wrap->base */
	struct stet_volume *vol;    /* for the calls of stetfs.h */
	struct stet_volume *local;  /* for those of stetfs_lowlevel.h */
	struct served *server;      /* NULL: vol is local */
};

/* cmocka set-up and tear-down: *state is a struct unit_volume on a fresh device in memory. */
int unit_set_up(void **state);
int unit_tear_down(void **state);

/* Closes the volume (crash: after the device has lost its power) and opens it again. */
void unit_reopen(struct unit_volume *u, bool crash);

/* The same by hand; options as of stet_open. */
void unit_close(struct unit_volume *u);
int unit_try_close(struct unit_volume *u); /* the result of stet_close */
void unit_open(struct unit_volume *u, const struct stet_open_options *options);
/* The calls go through a socket. */
bool unit_is_remote(void);

/* The volume of a test's state; a transaction of it. */
struct stet_volume *unit_vol(void **state);
struct stet_txn *unit_begin(struct stet_volume *vol, unsigned flags);

/* Writes a whole file, making it; reads one as a string and compares. */
void unit_write(struct stet_volume *vol, struct stet_txn *txn, const char *path, const char *text);
void unit_expect(struct stet_volume *vol, struct stet_txn *txn, const char *path, const char *text);
void unit_expect_none(struct stet_volume *vol, struct stet_txn *txn, const char *path);
bool unit_exists(struct stet_volume *vol, struct stet_txn *txn, const char *path);
uint64_t unit_ino(struct stet_volume *vol, struct stet_txn *txn, const char *path);
/* The value of a counter. */
uint64_t unit_counter(struct stet_volume *vol, const char *name);
/* Writes a checkpoint. */
void unit_checkpoint(struct stet_volume *vol);
/* Monotonic milliseconds; sleeping. */
int64_t unit_now_ms(void);
void unit_sleep_ms(unsigned ms);

#endif
