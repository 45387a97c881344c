/* names.c - operations on names: each is logged as what it must have found and what it left.
 *
 * A name is a register whose value is an inode number, 0 when there is no such name. That a directory lives, and
 * that one which is removed is empty, are structural checks: they hold at the commit at every level. What is in a
 * file is a register of its own; with the last name it goes (WORK_CONTENT_GONE; work.c takes that back for files
 * that had two).
 */
#include "work.h"

#include <errno.h>
#include <string.h>

#define ENTRIES_MAX 16u

struct place {
	uint64_t dir;
	unsigned no;
};

static uint64_t name_key(uint64_t dir, unsigned no)
{
	return work_key(KEY_NAME, dir, no);
}

/* The inode, 0: none. False: refused. *ret_mode (may be NULL): its type. */
static bool look_up(struct actor *a, uint64_t dir, unsigned no, uint64_t *ret_ino)
{
	uint64_t call = work_tick(a), ino = 0;
	int rc = work_find(a, dir, work_name(no), &ino);

	work_note(a, "lookup", rc);
	if (rc && rc != -ENOENT)
		return false;
	*ret_ino = ino;
	hist_log(a->log, HIST_READ, name_key(dir, no), *ret_ino, call, work_tick(a));
	return true;
}

static unsigned some_name(struct actor *a, uint64_t dir)
{
	(void)dir;
	return (unsigned)work_random(a, WORK_FILE_NAMES);
}

/* The round's directory, or one in it that is found by name. Plain operations each stand alone: they stay in
 * the first. */
static bool some_place(struct actor *a, struct place *ret)
{
	uint64_t ino;

	ret->dir = a->work->dir;
	if (a->txn && work_random(a, 2) == 0) {
		if (!look_up(a, a->work->dir,
			     WORK_FILE_NAMES + (unsigned)work_random(a, WORK_DIR_NAMES), &ino))
			return false;
		if (ino)
			ret->dir = ino;
	}
	ret->no = some_name(a, ret->dir);
	return true;
}

/* A name was added or taken: its directory lives. */
static void found_alive(struct actor *a, uint64_t dir, uint64_t call, uint64_t ret)
{
	if (dir != a->work->dir)
		hist_log(a->log, HIST_FOUND, work_key(KEY_DIR, dir, 0), WORK_DIR_ALIVE, call, ret);
}

static void replaced(struct actor *a, uint64_t dir, unsigned no, uint64_t was, uint64_t is,
		     uint64_t call, uint64_t ret)
{
	hist_log(a->log, HIST_READ, name_key(dir, no), was, call, ret);
	hist_log(a->log, HIST_WRITE, name_key(dir, no), is, call, ret);
	found_alive(a, dir, call, ret);
}

static void content_goes(struct actor *a, uint64_t ino, uint64_t call, uint64_t ret)
{
	hist_log(a->log, HIST_WRITE, work_key(KEY_CONTENT, ino, 0), WORK_CONTENT_GONE, call, ret);
}

static void directory_goes(struct actor *a, uint64_t ino, uint64_t call, uint64_t ret)
{
	hist_log(a->log, HIST_WRITE, work_key(KEY_DIR, ino, 0), WORK_DIR_GONE, call, ret);
	for (unsigned k = 0; k < WORK_FILE_NAMES; k++)
		hist_log(a->log, HIST_FOUND, name_key(ino, k), 0, call, ret);
}

/* --- changes --- */

static void make(struct actor *a, struct place p, bool is_dir)
{
	uint64_t call = work_tick(a), ret, ino;
	int rc = work_make(a, p.dir, work_name(p.no), is_dir, &ino);

	ret = work_tick(a);
	work_note(a, "make", rc);
	if (rc)
		return;
	replaced(a, p.dir, p.no, 0, ino, call, ret);
	if (is_dir)
		hist_log(a->log, HIST_WRITE, work_key(KEY_DIR, ino, 0), WORK_DIR_ALIVE, call, ret);
}

static void take(struct actor *a, struct place p, bool is_dir)
{
	uint64_t call = work_tick(a), ret, ino = 0;
	int rc = work_remove(a, p.dir, work_name(p.no), is_dir, &ino);

	ret = work_tick(a);
	work_note(a, "remove", rc);
	if (rc == -ENOENT && p.dir == a->work->dir)
		hist_log(a->log, HIST_READ, name_key(p.dir, p.no), 0, call, ret);
	if (rc)
		return;
	replaced(a, p.dir, p.no, ino, 0, call, ret);
	if (is_dir)
		directory_goes(a, ino, call, ret);
	else
		content_goes(a, ino, call, ret);
}

static void do_rename(struct actor *a, struct place from, struct place to, bool is_dir)
{
	uint64_t ino, there, gone = 0, call, ret;
	int rc;

	if (!look_up(a, from.dir, from.no, &ino) || !look_up(a, to.dir, to.no, &there) || !ino)
		return;
	call = work_tick(a);
	rc = work_rename(a, from.dir, work_name(from.no), to.dir, work_name(to.no), there, &gone);
	ret = work_tick(a);
	work_note(a, "rename", rc);
	if (rc || ino == there)
		return; /* two names of one inode: nothing happens */
	replaced(a, to.dir, to.no, gone, ino, call, ret);
	replaced(a, from.dir, from.no, ino, 0, call, ret);
	if (gone && is_dir)
		directory_goes(a, gone, call, ret);
	else if (gone)
		content_goes(a, gone, call, ret);
}

static void do_link(struct actor *a, struct place from, struct place to)
{
	uint64_t ino, call, ret;
	int rc;

	if (!look_up(a, from.dir, from.no, &ino) || !ino)
		return;
	hist_push(&a->linked, ino); /* whether that succeeds or not */
	call = work_tick(a);
	rc = work_link(a, from.dir, work_name(from.no), ino, to.dir, work_name(to.no));
	ret = work_tick(a);
	work_note(a, "link", rc);
	if (!rc)
		replaced(a, to.dir, to.no, 0, ino, call, ret);
}

/* --- contents --- */

static bool content_read(struct actor *a, uint64_t ino)
{
	uint64_t value = 0, call = work_tick(a);
	ssize_t got = work_read(a, ino, 0, &value, sizeof(value));

	work_note(a, "reading a file", got);
	if (got < 0)
		return false;
	hist_log(a->log, HIST_READ, work_key(KEY_CONTENT, ino, 0), value, call, work_tick(a));
	return true;
}

static void content_change(struct actor *a, struct place p)
{
	uint64_t ino, value, call;
	ssize_t put;

	if (!look_up(a, p.dir, p.no, &ino) || !ino || !content_read(a, ino))
		return;
	value = work_value(a);
	call = work_tick(a);
	put = work_write(a, ino, 0, &value, sizeof(value));
	work_note(a, "writing a file", put);
	if (put == (ssize_t)sizeof(value))
		hist_log(a->log, HIST_WRITE, work_key(KEY_CONTENT, ino, 0), value, call,
			 work_tick(a));
}

static void some_dir(struct actor *a, struct place *ret)
{
	ret->dir = a->work->dir;
	ret->no = WORK_FILE_NAMES + (unsigned)work_random(a, WORK_DIR_NAMES);
}

static void directory_op(struct actor *a)
{
	struct place p, q;

	some_dir(a, &p);
	some_dir(a, &q);
	switch (work_random(a, a->txn ? 5 : 4)) {
	case 0 ... 1:
		make(a, p, true);
		break;
	case 2 ... 3:
		take(a, p, true);
		break;
	default:
		do_rename(a, p, q, true);
		break;
	}
}

void work_name_op(struct actor *a)
{
	unsigned kind = (unsigned)work_random(a, a->txn ? 10 : 5);
	struct place p, q;

	if (a->work->client && !a->txn)
		kind = 0; /* work_make */
	if (kind == 4) {
		directory_op(a);
		return;
	}
	if (!some_place(a, &p))
		return;
	if (kind < 4) {
		if (kind < 2)
			make(a, p, false);
		else
			take(a, p, false);
	} else if (kind < 7) {
		content_change(a, p);
	} else if (some_place(a, &q)) {
		if (kind < 9)
			do_rename(a, p, q, false);
		else
			do_link(a, p, q);
	}
}

/* --- looking --- */

static void log_listing(struct actor *a, uint64_t dir, const struct stet_ll_entry *e, int n,
			uint64_t call, uint64_t ret)
{
	unsigned names = dir == a->work->dir ? WORK_NAMES : WORK_FILE_NAMES;

	for (unsigned k = 0; k < names; k++) {
		uint64_t ino = 0;

		for (int i = 0; i < n; i++)
			if (strcmp(e[i].name, work_name(k)) == 0)
				ino = e[i].stat.ino;
		hist_log(a->log, HIST_READ, name_key(dir, k), ino, call, ret);
	}
}

static bool list_dir(struct actor *a, uint64_t dir)
{
	struct stet_ll_entry entries[ENTRIES_MAX];
	uint64_t call = work_tick(a);
	int n = work_list(a, dir, entries, ENTRIES_MAX);

	work_note(a, "listing", n);
	if (n >= 0)
		log_listing(a, dir, entries, n, call, work_tick(a));
	return n >= 0;
}

void work_name_read(struct actor *a)
{
	struct place p;
	uint64_t ino;

	if (!some_place(a, &p))
		return;
	if (work_random(a, 2) == 0)
		list_dir(a, p.dir);
	else if (look_up(a, p.dir, p.no, &ino) && ino && a->txn && work_random(a, 2) == 0)
		content_read(a, ino);
}

static void read_dir_all(struct actor *a, uint64_t dir, unsigned names)
{
	uint64_t ino;

	if (!list_dir(a, dir))
		return;
	for (unsigned k = 0; k < names; k++) {
		if (!look_up(a, dir, k, &ino) || !ino)
			continue;
		if (k < WORK_FILE_NAMES)
			content_read(a, ino);
		else
			read_dir_all(a, ino, WORK_FILE_NAMES);
	}
}

void work_read_names(struct actor *a)
{
	read_dir_all(a, a->work->dir, WORK_NAMES);
}
