/* files.c - a file exerciser, in the manner of fsx: random operations on a few files, compared with
 * a model in memory.
 *
 *	exercise_files MODE	plain, direct, aio, aio_direct, uring, uring_direct
 *	EXERCISE_OPS		how many (50000)
 *
 * Between the operations the volume is unmounted and mounted again, its daemon is killed, and the
 * files are changed in a transaction's view that is then committed, aborted, or lost by a kill.
 *
 * I1. Everything that is read must be what the model says, and so must sizes.
 * I2. After a kill all files together must be as after some prefix of the operations since the
 *     last fsync that was answered; of a write that was in progress a part (model.c).
 *     Stores through mappings reach the daemon in the kernel's own time: either they are synced
 *     at once, or there is an fsync before the kill.
 * I3. After a commit the main tree is as the model, after an abort as it was; a descriptor that was
 *     open meanwhile shows one of the two, whole; a mapping the old bytes.
 * All is decided by the seed, but the moment of a kill during operations.
 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define IO_MAX (64u * EX_KIB)
#define LANE_MAX (16u * EX_KIB)
#define PAGE 4096u
#define ALIGN 512u
#define REDO_MAX 3000u /* operations without an fsync */
#define TAIL 100u
#define LINE 160u

static struct {
	const char *mode;
	bool direct;
	struct ex_chance chance;
	uint64_t ops, done;
	bool no_collapse;
	char root[PATH_MAX]; /* where the files are: the mount, or a view */
	bool in_view;
	int fd[FILES];
	struct state now;
	struct state durable; /* since when */
	struct op redo[REDO_MAX];
	size_t redo_count;   /* plain operations since */
	struct state saved;  /* the main tree, while in a view */
	bool leave_unsynced; /* stores through mappings may be (I2) */
	bool has_unsynced;
	bool dying;          /* the daemon may be killed at any moment */
	bool crashed;        /* it was */
	uint8_t *buf, *seen; /* IO_MAX and FILE_MAX, aligned */
	struct state actual;
	uint64_t remounts, kills, commits, aborts;
} x;

static char tail[TAIL][LINE];
static uint64_t tail_count;

#define note(...) ((void)snprintf(tail[tail_count % TAIL], LINE, __VA_ARGS__), (void)tail_count++)

static void print_tail(void)
{
	uint64_t from = tail_count > TAIL ? tail_count - TAIL : 0;

	for (uint64_t i = from; i < tail_count; i++)
		printf("  %s\n", tail[i % TAIL]);
	printf("  at operation %llu, %s\n", (unsigned long long)x.done,
	       x.in_view ? "in a view" : "in the main tree");
	for (unsigned i = 0; i < FILES; i++) {
		struct statx fresh;
		struct stat st;

		if (x.fd[i] >= 0 && fstat(x.fd[i], &st) == 0 &&
		    statx(x.fd[i], "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &fresh) ==
			    0)
			printf("  f%u: size %lld, asked again %llu, in the model %zu\n", i,
			       (long long)st.st_size, fresh.stx_size, x.now.file[i].size);
	}
}

/* The result of a call: true if it is none because the daemon is dead, as planned. */
static bool is_crash(ssize_t rc)
{
	if (!x.dying || (rc != -ENOTCONN && rc != -ECONNABORTED && rc != -EIO))
		return false;
	x.crashed = true;
	return true;
}

/* A read that ended before its end, because the daemon died meanwhile. */
static bool is_cut_off(ssize_t got, size_t wanted)
{
	if (!x.dying || got < 0 || (size_t)got >= wanted)
		return false;
	x.crashed = true;
	return true;
}

/* A call that must succeed. False: crash. */
static bool ok(ssize_t rc, const char *what)
{
	ssize_t err = rc < 0 ? -errno : 0;

	if (rc >= 0)
		return true;
	if (is_crash(err))
		return false;
	errno = (int)-err;
	ex_fail_errno("%s", what);
}

/* --- comparing --- */

static void compare(const uint8_t *seen, const uint8_t *wanted, size_t off, size_t len,
		    unsigned file, const char *how)
{
	if (memcmp(seen, wanted, len) == 0)
		return;
	for (size_t i = 0; i < len; i++)
		if (seen[i] != wanted[i])
			ex_fail("file %u, %s: at %zu (0x%zx) is %02x, wanted %02x; size %zu", file,
				how, off + i, off + i, seen[i], wanted[i], x.now.file[file].size);
}

/* What a file holds now, by read(2) of all of it. False: crash. */
static bool load(int fd, struct content *ret)
{
	struct stat st;
	size_t got = 0;

	if (!ok(fstat(fd, &st), "fstat"))
		return false;
	if ((size_t)st.st_size > FILE_MAX)
		ex_fail("a file of %lld bytes", (long long)st.st_size);
	memset(ret->byte, 0, FILE_MAX);
	ret->size = (size_t)st.st_size;
	while (got < FILE_MAX) {
		ssize_t n = pread(fd, x.seen, FILE_MAX - got, (off_t)got);

		if (!ok(n, "read"))
			return false;
		if (n == 0)
			break;
		memcpy(ret->byte + got, x.seen, (size_t)n);
		got += (size_t)n;
	}
	if (is_cut_off((ssize_t)got, ret->size))
		return false;
	if (got != ret->size)
		ex_fail("%zu bytes read, but size %zu", got, ret->size);
	return true;
}

static void verify(unsigned file)
{
	const struct content *c = &x.now.file[file];
	struct content *seen = &x.actual.file[file];

	if (!load(x.fd[file], seen))
		return;
	if (seen->size != c->size)
		ex_fail("file %u: size %zu, wanted %zu", file, seen->size, c->size);
	compare(seen->byte, c->byte, 0, c->size, file, "whole");
}

/* --- opening and closing --- */

static const char *name_of(unsigned file)
{
	static char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/f%u", x.root, file);
	return path;
}

static bool reopen(unsigned file)
{
	int flags = O_RDWR | O_CREAT | (x.direct ? O_DIRECT : 0);

	if (x.fd[file] >= 0)
		close(x.fd[file]);
	x.fd[file] = open(name_of(file), flags, 0644);
	return ok(x.fd[file], "open");
}

static void close_all(void)
{
	for (unsigned i = 0; i < FILES; i++) {
		if (x.fd[i] >= 0)
			close(x.fd[i]);
		x.fd[i] = -1;
	}
}

static void open_all(void)
{
	for (unsigned i = 0; i < FILES; i++)
		reopen(i);
}

static void in_main(void)
{
	snprintf(x.root, sizeof(x.root), "%s", ex_mount.dir);
	x.in_view = false;
}

/* All that was done so far is durable. */
static void is_durable(void)
{
	state_copy(&x.durable, &x.now);
	x.redo_count = 0;
	x.leave_unsynced = ex_percent(&x.chance, 50);
	x.has_unsynced = false;
}

/* --- operations: what they all do --- */

/* The operation has been done: in the model too, and in the list for I2. */
static void finished(const struct op *op)
{
	model_apply(&x.now, op);
	if (!x.in_view)
		x.redo[x.redo_count++] = *op;
}

/* It may have been done, in part or whole. */
static void in_progress(const struct op *op)
{
	if (!x.in_view)
		x.redo[x.redo_count++] = *op;
}

static void end(const struct op *op, bool done)
{
	if (done)
		finished(op);
	else
		in_progress(op);
}

/* In direct mode mostly aligned. */
static size_t shape(size_t n)
{
	return x.direct && !ex_percent(&x.chance, 20) ? n / ALIGN * ALIGN : n;
}

static size_t any_off(size_t limit)
{
	return shape(ex_below(&x.chance, limit));
}

/* At least 1, and off + len <= limit if off < limit. */
static size_t any_len(size_t off, size_t max, size_t limit)
{
	size_t len = 1 + ex_below(&x.chance, ex_percent(&x.chance, 50) ? max / 16 : max);
	size_t shaped;

	if (len > limit - off)
		len = limit - off;
	shaped = shape(len);
	return shaped ? shaped : len;
}

static unsigned any_file(void)
{
	return (unsigned)ex_below(&x.chance, FILES);
}

static void set_range(struct op *op)
{
	op->file = any_file();
	op->off = any_off(FILE_MAX - 1);
	op->len = any_len(op->off, IO_MAX, FILE_MAX);
	op->seed = ex_random(&x.chance);
}

/* --- reading and writing --- */

static void do_read(void)
{
	struct op op = { 0 };
	const struct content *c;
	struct request r;
	size_t wanted;

	set_range(&op);
	c = &x.now.file[op.file];
	if (c->size && ex_percent(&x.chance, 80))
		op.off = any_off(c->size);
	wanted = op.off >= c->size ? 0 : op.len < c->size - op.off ? op.len : c->size - op.off;
	note("%llu read f%u %zu+%zu", (unsigned long long)x.done, op.file, op.off, op.len);
	r = (struct request){ false, x.fd[op.file], x.buf, op.len, op.off, 0 };
	engine_run(&r, 1);
	if (is_crash(r.result) || is_cut_off(r.result, wanted))
		return;
	if (r.result != (ssize_t)wanted)
		ex_fail("read f%u %zu+%zu: result %zd, wanted %zu, size %zu", op.file, op.off,
			op.len, r.result, wanted, c->size);
	compare(x.buf, c->byte + op.off, op.off, wanted, op.file, "read");
}

static bool written(const struct request *r, const char *what)
{
	if (is_crash(r->result))
		return false;
	if (r->result == (ssize_t)r->len)
		return true;
	if (r->result > 0 && x.dying) {
		x.crashed = true;
		return false;
	}
	ex_fail("%s %zu+%zu: result %zd", what, r->off, r->len, r->result);
}

static void do_write(void)
{
	struct op op = { .kind = OP_WRITE };
	struct request r;

	set_range(&op);
	note("%llu write f%u %zu+%zu", (unsigned long long)x.done, op.file, op.off, op.len);
	ex_fill(x.buf, op.seed, op.off, op.len);
	r = (struct request){ true, x.fd[op.file], x.buf, op.len, op.off, 0 };
	engine_run(&r, 1);
	end(&op, written(&r, "write"));
}

static void do_append(void)
{
	struct op op = { .kind = OP_WRITE, .file = any_file() };
	struct request r;
	ssize_t n;
	int fd;

	op.off = x.now.file[op.file].size;
	if (op.off == FILE_MAX)
		return;
	op.len = any_len(op.off, LANE_MAX, FILE_MAX);
	op.seed = ex_random(&x.chance);
	note("%llu append f%u %zu+%zu", (unsigned long long)x.done, op.file, op.off, op.len);
	fd = open(name_of(op.file), O_WRONLY | O_APPEND);
	if (!ok(fd, "open for appending"))
		return;
	ex_fill(x.buf, op.seed, op.off, op.len);
	n = write(fd, x.buf, op.len);
	r = (struct request){ .len = op.len, .off = op.off, .result = n < 0 ? -errno : n };
	end(&op, written(&r, "append"));
	close(fd);
}

/* Several at once, at places apart from each other. What is read lies within the old size. */
static void do_batch(void)
{
	struct op op = { .kind = OP_BATCH, .file = any_file(), .seed = ex_random(&x.chance) };
	const struct content *c = &x.now.file[op.file];
	size_t count = 2 + ex_below(&x.chance, PIECES_MAX - 1),
	       step = IO_MAX / count / ALIGN * ALIGN;
	size_t base = any_off(FILE_MAX - IO_MAX);
	struct request r[PIECES_MAX];
	bool all = true;

	note("%llu batch f%u %zu+%zux%zu", (unsigned long long)x.done, op.file, base, step, count);
	for (size_t i = 0; i < count; i++) {
		struct piece p = { base + i * step, 0 };

		p.len = any_len(p.off, step, p.off + step);
		r[i] = (struct request){ true, x.fd[op.file], x.buf + i * step, p.len, p.off, 0 };
		r[i].write = p.off + p.len > c->size || ex_percent(&x.chance, 60);
		note("    %s %zu+%zu", r[i].write ? "write" : "read", p.off, p.len);
		if (!r[i].write)
			continue;
		ex_fill(r[i].buf, op.seed, p.off, p.len);
		op.piece[op.pieces++] = p;
	}
	engine_run(r, count);
	for (size_t i = 0; i < count; i++) {
		if (!written(&r[i], "in a batch"))
			all = false;
		else if (!r[i].write)
			compare(r[i].buf, c->byte + r[i].off, r[i].off, r[i].len, op.file, "batch");
	}
	end(&op, all);
}

/* --- mappings --- */

static uint8_t *map(unsigned file, size_t *off, size_t *len, int prot)
{
	size_t size = x.now.file[file].size, from;
	uint8_t *area;

	*off = ex_below(&x.chance, size);
	*len = 1 + ex_below(&x.chance, IO_MAX < size - *off ? IO_MAX : size - *off);
	if (*len > size - *off)
		*len = size - *off;
	from = *off / PAGE * PAGE;
	area = mmap(NULL, *off - from + *len, prot, MAP_SHARED, x.fd[file], (off_t)from);
	if (area == MAP_FAILED)
		ex_fail_errno("mmap f%u %zu+%zu", file, *off, *len);
	return area + (*off - from);
}

static void unmap(uint8_t *at, size_t len)
{
	size_t extra = (uintptr_t)at % PAGE;

	munmap(at - extra, len + extra);
}

static void do_map_read(void)
{
	unsigned file = any_file();
	size_t off, len;
	uint8_t *at;

	if (x.now.file[file].size == 0 || x.dying)
		return;
	at = map(file, &off, &len, PROT_READ);
	note("%llu mapread f%u %zu+%zu", (unsigned long long)x.done, file, off, len);
	compare(at, x.now.file[file].byte + off, off, len, file, "mapping");
	unmap(at, len);
}

static void do_map_write(void)
{
	struct op op = { .kind = OP_WRITE, .file = any_file(), .seed = ex_random(&x.chance) };
	bool sync = !x.in_view && !x.leave_unsynced;
	uint8_t *at;

	if (x.now.file[op.file].size == 0 || x.dying)
		return;
	at = map(op.file, &op.off, &op.len, PROT_READ | PROT_WRITE);
	note("%llu mapwrite f%u %zu+%zu%s", (unsigned long long)x.done, op.file, op.off, op.len,
	     sync ? " msync" : "");
	ex_fill(at, op.seed, op.off, op.len);
	finished(&op);
	x.has_unsynced = x.has_unsynced || !x.in_view;
	if (sync && msync(at - (uintptr_t)at % PAGE, op.len + (uintptr_t)at % PAGE, MS_SYNC) != 0)
		ex_fail_errno("msync");
	unmap(at, op.len);
	if (sync)
		is_durable();
}

/* --- sizes and space --- */

static void do_truncate(void)
{
	struct op op = { .kind = OP_TRUNCATE, .file = any_file(), .len = any_off(FILE_MAX) };
	bool by_path = ex_percent(&x.chance, 25);

	note("%llu truncate f%u %zu%s", (unsigned long long)x.done, op.file, op.len,
	     by_path ? " by path" : "");
	end(&op, ok(by_path ? truncate(name_of(op.file), (off_t)op.len)
			    : ftruncate(x.fd[op.file], (off_t)op.len),
		    "truncate"));
}

static void do_allocate(enum op_kind kind, int mode, const char *what)
{
	struct op op = { .kind = kind };

	set_range(&op);
	op.keep_size = mode & FALLOC_FL_PUNCH_HOLE || ex_percent(&x.chance, 50);
	if (op.keep_size)
		mode |= FALLOC_FL_KEEP_SIZE;
	note("%llu %s f%u %zu+%zu%s", (unsigned long long)x.done, what, op.file, op.off, op.len,
	     op.keep_size ? " keep" : "");
	end(&op, ok(fallocate(x.fd[op.file], mode, (off_t)op.off, (off_t)op.len), what));
}

static void do_collapse(void)
{
	struct op op = { .kind = OP_COLLAPSE, .file = any_file() };
	size_t size = x.now.file[op.file].size;

	if (x.no_collapse || size <= PAGE)
		return;
	op.off = ex_below(&x.chance, size / PAGE) * PAGE;
	op.len = (1 + ex_below(&x.chance, 4)) * PAGE;
	if (op.off + op.len >= size)
		return;
	note("%llu collapse f%u %zu+%zu", (unsigned long long)x.done, op.file, op.off, op.len);
	end(&op,
	    ok(fallocate(x.fd[op.file], FALLOC_FL_COLLAPSE_RANGE, (off_t)op.off, (off_t)op.len),
	       "collapse"));
}

static void do_insert(void)
{
	struct op op = { .kind = OP_INSERT, .file = any_file() };
	size_t size = x.now.file[op.file].size;

	if (x.no_collapse || size <= PAGE)
		return;
	op.off = ex_below(&x.chance, size / PAGE) * PAGE;
	op.len = (1 + ex_below(&x.chance, 4)) * PAGE;
	if (size + op.len > FILE_MAX)
		return;
	note("%llu insert f%u %zu+%zu", (unsigned long long)x.done, op.file, op.off, op.len);
	end(&op, ok(fallocate(x.fd[op.file], FALLOC_FL_INSERT_RANGE, (off_t)op.off, (off_t)op.len),
		    "insert"));
}

static void do_copy(void)
{
	struct op op = { .kind = OP_COPY };
	off_t from, to;
	ssize_t n;

	set_range(&op);
	op.from_file = any_file();
	if (x.now.file[op.from_file].size == 0)
		return;
	op.from_off = any_off(x.now.file[op.from_file].size);
	if (op.len > x.now.file[op.from_file].size - op.from_off)
		op.len = x.now.file[op.from_file].size - op.from_off;
	if (op.file == op.from_file && op.off < op.from_off + op.len &&
	    op.from_off < op.off + op.len)
		return; /* EINVAL */
	note("%llu copy f%u %zu+%zu to f%u %zu", (unsigned long long)x.done, op.from_file,
	     op.from_off, op.len, op.file, op.off);
	from = (off_t)op.from_off;
	to = (off_t)op.off;
	n = copy_file_range(x.fd[op.from_file], &from, x.fd[op.file], &to, op.len, 0);
	if (n >= 0 && n != (ssize_t)op.len)
		ex_fail("copy_file_range: %zd of %zu", n, op.len);
	end(&op, ok(n, "copy_file_range"));
}

/* What is a hole, reads as zeros; data ends where it says. */
static void do_seek(void)
{
	unsigned file = any_file();
	const struct content *c = &x.now.file[file];
	off_t off, data, hole;

	if (c->size == 0)
		return;
	off = (off_t)ex_below(&x.chance, c->size);
	note("%llu seek f%u %lld", (unsigned long long)x.done, file, (long long)off);
	data = lseek(x.fd[file], off, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		data = (off_t)c->size;
	hole = lseek(x.fd[file], off, SEEK_HOLE);
	if (!ok(data, "SEEK_DATA") || !ok(hole, "SEEK_HOLE"))
		return;
	if (data < off || hole < off || (size_t)hole > c->size || (size_t)data > c->size ||
	    (data > off && hole > off))
		ex_fail("seek f%u from %lld: data %lld, hole %lld, size %zu", file, (long long)off,
			(long long)data, (long long)hole, c->size);
	for (off_t i = off; i < data; i++)
		if (c->byte[i])
			ex_fail("f%u: a hole at %lld, where data is", file, (long long)i);
}

static void do_sync(void)
{
	unsigned file = any_file();
	bool data_only = ex_percent(&x.chance, 30);

	note("%llu fsync f%u", (unsigned long long)x.done, file);
	if (x.has_unsynced) /* those of the others too */
		for (unsigned i = 0; i < FILES; i++)
			ok(fsync(x.fd[i]), "fsync");
	if (ok(data_only ? fdatasync(x.fd[file]) : fsync(x.fd[file]), "fsync") && !x.in_view)
		is_durable();
}

static void do_reopen(void)
{
	unsigned file = any_file();

	note("%llu reopen f%u", (unsigned long long)x.done, file);
	if (reopen(file) && ex_percent(&x.chance, 20))
		verify(file);
}

static void step(void)
{
	unsigned dice = (unsigned)ex_below(&x.chance, 100);

	x.done++;
	if (!x.in_view && x.redo_count + 1 >= REDO_MAX)
		do_sync();
	else if (dice < 25)
		do_read();
	else if (dice < 37)
		do_map_read();
	else if (dice < 54)
		do_write();
	else if (dice < 60)
		do_append();
	else if (dice < 67)
		do_map_write();
	else if (dice < 74)
		do_batch();
	else if (dice < 79)
		do_truncate();
	else if (dice < 83)
		do_allocate(OP_PUNCH, FALLOC_FL_PUNCH_HOLE, "punch");
	else if (dice < 86)
		do_allocate(OP_ZERO, FALLOC_FL_ZERO_RANGE, "zero");
	else if (dice < 88)
		do_allocate(OP_ALLOCATE, 0, "allocate");
	else if (dice < 89)
		do_collapse();
	else if (dice < 90)
		do_insert();
	else if (dice < 94)
		do_copy();
	else if (dice < 96)
		do_seek();
	else if (dice < 98)
		do_reopen();
	else if (ex_percent(&x.chance, 40))
		do_sync();
}

/* --- mounting again, and kills --- */

static void load_all(void)
{
	for (unsigned i = 0; i < FILES; i++)
		load(x.fd[i], &x.actual.file[i]);
}

/* I2 */
static bool is_allowed(void)
{
	struct state *s = &x.now; /* it is made again */

	state_copy(s, &x.durable);
	for (size_t i = 0; i < x.redo_count; i++) {
		if (state_equal(s, &x.actual) || is_partly(s, &x.redo[i], &x.actual))
			return true;
		model_apply(s, &x.redo[i]);
	}
	return state_equal(s, &x.actual);
}

static size_t count_differences(const struct state *a, const struct state *b)
{
	size_t count = 0;

	for (unsigned i = 0; i < FILES; i++) {
		count += a->file[i].size != b->file[i].size;
		for (size_t at = 0; at < FILE_MAX; at++)
			count += a->file[i].byte[at] != b->file[i].byte[at];
	}
	return count;
}

static void print_differences(const struct state *wanted, const struct state *seen)
{
	for (unsigned i = 0; i < FILES; i++) {
		const uint8_t *a = wanted->file[i].byte, *b = seen->file[i].byte;

		if (wanted->file[i].size != seen->file[i].size)
			printf("    f%u: size %zu, wanted %zu\n", i, seen->file[i].size,
			       wanted->file[i].size);
		for (size_t at = 0; at < FILE_MAX; at++) {
			size_t from = at;

			while (at < FILE_MAX && a[at] != b[at])
				at++;
			if (at > from)
				printf("    f%u: %zu+%zu differ\n", i, from, at - from);
		}
	}
}

static void print_op(const struct op *op)
{
	static const char *const kinds[] = { "write",    "batch",    "truncate", "punch", "zero",
					     "allocate", "collapse", "insert",   "copy" };

	printf("    %s f%u %zu+%zu\n", kinds[op->kind], op->file, op->off, op->len);
	for (unsigned i = 0; i < op->pieces; i++)
		printf("      %zu+%zu\n", op->piece[i].off, op->piece[i].len);
}

/* The prefix that is nearest to what is there. */
static void explain(void)
{
	size_t best = SIZE_MAX, best_at = 0;
	struct state *s = &x.now;

	state_copy(s, &x.durable);
	for (size_t i = 0; i <= x.redo_count; i++) {
		size_t count = count_differences(s, &x.actual);

		if (count < best) {
			best = count;
			best_at = i;
		}
		if (i < x.redo_count)
			model_apply(s, &x.redo[i]);
	}
	printf("  nearest: the state after %zu of %zu operations\n", best_at, x.redo_count);
	state_copy(s, &x.durable);
	for (size_t i = 0; i < best_at; i++)
		model_apply(s, &x.redo[i]);
	print_differences(s, &x.actual);
	for (size_t i = best_at ? best_at - 1 : 0; i < x.redo_count && i < best_at + 3; i++)
		print_op(&x.redo[i]);
}

static void after_kill(void)
{
	struct state wanted;

	close_all();
	ex_clear_dead();
	ex_do_mount();
	in_main();
	x.dying = x.crashed = false;
	open_all();
	load_all();
	if (!is_allowed()) {
		explain();
		for (unsigned i = 0; i < FILES; i++)
			printf("  f%u: size %zu, durable %zu\n", i, x.actual.file[i].size,
			       x.durable.file[i].size);
		ex_fail("after a kill the files are as they never were since the last fsync "
			"(%zu operations)",
			x.redo_count);
	}
	wanted = x.now;
	x.now = x.actual;
	x.actual = wanted;
	is_durable();
	x.kills++;
}

static void remount(void)
{
	note("remount");
	close_all();
	ex_umount();
	ex_check();
	ex_do_mount();
	open_all();
	for (unsigned i = 0; i < FILES; i++)
		verify(i);
	is_durable();
	x.remounts++;
}

static void sync_stores(void)
{
	if (x.has_unsynced)
		do_sync();
}

static void kill_now(void)
{
	sync_stores();
	note("kill");
	ex_kill_only();
	after_kill();
}

static pid_t kill_later(unsigned us)
{
	pid_t pid = fork();

	if (pid < 0)
		ex_fail_errno("fork");
	if (pid == 0) {
		usleep(us);
		kill(ex_mount.daemon, SIGKILL);
		_exit(0);
	}
	return pid;
}

static void kill_meanwhile(void)
{
	unsigned us = (unsigned)ex_below(&x.chance, 20000);
	pid_t killer;

	sync_stores();
	note("kill within %u us", us);
	x.dying = true;
	killer = kill_later(us);
	for (unsigned i = 0; i < REDO_MAX && !x.crashed; i++)
		step();
	ex_wait_all(&killer, 1, "killer");
	after_kill();
}

/* --- a view --- */

struct held {
	int fd;
	uint8_t *area; /* NULL: nothing mapped */
};

static void hold(struct held *held)
{
	for (unsigned i = 0; i < FILES; i++) {
		size_t size = x.saved.file[i].size;

		held[i].area = NULL;
		held[i].fd = open(ex_path("f%u", i), O_RDONLY);
		ok(held[i].fd, "open for reading");
		if (size && ex_percent(&x.chance, 50)) {
			held[i].area = mmap(NULL, size, PROT_READ, MAP_SHARED, held[i].fd, 0);
			if (held[i].area == MAP_FAILED)
				ex_fail_errno("mmap");
		}
	}
}

/* I3; the actual state is that of the main tree. */
static void check_held(struct held *held, bool committed)
{
	for (unsigned i = 0; i < FILES; i++) {
		const struct content *saved = &x.saved.file[i];
		struct content *seen = &x.actual.file[i];

		load(held[i].fd, seen);
		if (!content_equal(seen, saved) &&
		    !(committed && content_equal(seen, &x.now.file[i])))
			ex_fail("f%u by an older descriptor is neither old nor new: size %zu, old "
				"%zu, new %zu",
				i, seen->size, saved->size, x.now.file[i].size);
		if (held[i].area) {
			compare(held[i].area, saved->byte, 0, saved->size, i, "older mapping");
			munmap(held[i].area, saved->size);
		}
		close(held[i].fd);
	}
}

static void end_view(struct stet_control *ctl, uint64_t id, struct held *held)
{
	bool commits = ex_percent(&x.chance, 70);
	struct stet_control_end end;

	note(commits ? "commit" : "abort");
	if (ex_percent(&x.chance, 50))
		close_all();
	if (commits && ex_commit(ctl, id, &end) != 0)
		ex_fail("commit: %s: %s", strerror(-end.result), end.text);
	if (!commits) {
		ex_abort(ctl, id);
		state_copy(&x.now, &x.saved);
	}
	close_all();
	in_main();
	check_held(held, commits);
	open_all();
	for (unsigned i = 0; i < FILES; i++)
		verify(i);
	if (commits)
		is_durable();
	x.commits += commits;
	x.aborts += !commits;
}

static void use_view(void)
{
	struct stet_control *ctl = ex_connect();
	struct stet_control_begun begun;
	struct held held[FILES];
	size_t count = 20 + ex_below(&x.chance, 600);

	note("begin");
	sync_stores();
	close_all();
	state_copy(&x.saved, &x.now);
	ex_begin(ctl, ex_percent(&x.chance, 50) ? STET_CONTROL_DETACHED : 0, &begun);
	hold(held);
	snprintf(x.root, sizeof(x.root), "%s", begun.root);
	x.in_view = true;
	open_all();
	for (size_t i = 0; i < count; i++)
		step();
	if (ex_percent(&x.chance, 15)) {
		note("kill in the view");
		for (unsigned i = 0; i < FILES; i++) {
			if (held[i].area)
				munmap(held[i].area, x.saved.file[i].size);
			close(held[i].fd);
		}
		ex_kill_only();
		after_kill();
	} else {
		end_view(ctl, begun.id, held);
	}
	stet_control_close(ctl);
}

/* --- main --- */

static void set_up(void)
{
	if (posix_memalign((void **)&x.buf, PAGE, IO_MAX + PAGE) != 0 ||
	    posix_memalign((void **)&x.seen, PAGE, FILE_MAX + PAGE) != 0)
		ex_fail("no memory");
	state_init(&x.now);
	state_init(&x.durable);
	state_init(&x.saved);
	state_init(&x.actual);
	for (unsigned i = 0; i < FILES; i++)
		x.fd[i] = -1;
	in_main();
	open_all();
	ok(fsync(x.fd[0]), "fsync");
	is_durable();
	if (ftruncate(x.fd[0], 4 * PAGE) != 0)
		ex_fail_errno("truncate");
	x.no_collapse = fallocate(x.fd[0], FALLOC_FL_COLLAPSE_RANGE, 0, PAGE) != 0;
	if (x.no_collapse && errno != EOPNOTSUPP)
		ex_fail_errno("collapse");
	if (x.no_collapse)
		printf("collapse and insert are refused by the kernel's FUSE: left out\n");
	if (ftruncate(x.fd[0], 0) != 0 || fsync(x.fd[0]) != 0)
		ex_fail_errno("truncate");
}

static void set_mode(const char *mode)
{
	static const struct {
		const char *name;
		enum engine_kind engine;
		bool direct;
	} modes[] = {
		{ "plain", ENGINE_PLAIN, false }, { "direct", ENGINE_PLAIN, true },
		{ "aio", ENGINE_AIO, false },     { "aio_direct", ENGINE_AIO, true },
		{ "uring", ENGINE_URING, false }, { "uring_direct", ENGINE_URING, true },
	};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(modes[i].name, mode) == 0) {
			x.mode = modes[i].name;
			x.direct = modes[i].direct;
			engine_init(modes[i].engine);
		}
	if (!x.mode) {
		fprintf(stderr, "no mode %s\n", mode);
		exit(2);
	}
}

static void turn(void)
{
	unsigned dice = (unsigned)ex_below(&x.chance, 5000);

	if (dice < 6)
		use_view();
	else if (dice < 8)
		remount();
	else if (dice < 10)
		kill_now();
	else if (dice < 12)
		kill_meanwhile();
	else
		step();
}

int main(int argc, char **argv)
{
	uint64_t seed = ex_seed();
	int64_t begun;

	set_mode(argc > 1 ? argv[1] : "plain");
	x.chance.state = seed;
	x.ops = ex_env("EXERCISE_OPS", 50000);
	ex_on_failure = print_tail;
	ex_start("128M", "flush=0.05", "EXERCISE_SEED=%llu EXERCISE_OPS=%llu %s %s",
		 (unsigned long long)seed, (unsigned long long)x.ops, argv[0], x.mode);
	set_up();
	begun = ex_now_ns();
	while (x.done < x.ops)
		turn();
	for (unsigned i = 0; i < FILES; i++)
		verify(i);
	close_all();
	ex_finish();
	printf("%llu operations in %.1f s; %llu remounts, %llu kills, %llu commits, %llu aborts\n",
	       (unsigned long long)x.done, (double)(ex_now_ns() - begun) / EX_NS_PER_S,
	       (unsigned long long)x.remounts, (unsigned long long)x.kills,
	       (unsigned long long)x.commits, (unsigned long long)x.aborts);
	return 0;
}
