/* fault.c - a device that fails as its script says.
 *
 * I1. Each call is counted and its fault chosen under the lock, in one go; the call below is made
 *     without it. So with one thread a run repeats exactly; with many, the faults still come at
 *     the counted calls.
 * I2. A rotten bit is wrong in every read, and right again when its byte is written successfully
 *     where it lies.
 * I3. A fault that cannot show its effect on a call (no bit to flip) still counts as a hit.
 */
#include "sim/fault.h"

#include "base/assert.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/random.h"
#include "sim/image.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Places tried to rot a bit that is not rotten yet. */
#define ROT_TRIES 64

struct sim_fault {
	struct stet_device dev;
	/* --- set at creation, then constant --- */
	struct stet_device *lower; /* borrowed */
	uint64_t seed;
	/* --- under lock --- */
	struct stet_random random;
	struct sim_fault_script script;
	uint64_t seen[SIM_FAULT_MAX_RULES]; /* calls that fit the rule, apart from its number */
	struct sim_fault_stats stats;
	uint64_t rotten[SIM_FAULT_MAX_ROTTEN]; /* bits: 8 * offset + bit */
	size_t rotten_count;
	/* --- the lock --- */
	struct stet_mutex lock;
};

/* What happens to one call. */
struct verdict {
	bool faulty;
	enum sim_fault_kind kind;
	uint64_t arg;
	uint64_t first_bytes; /* the part of the call that the rule is about */
	uint64_t end_bytes;
};

static struct sim_fault *fault_of(struct stet_device *dev)
{
	return stet_container_of(dev, struct sim_fault, dev);
}

/// Choosing ///

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Apart from the number of the call. A flush has the empty range 0..0. */
static bool fits(const struct sim_fault_rule *rule, enum sim_fault_call call, uint64_t first_bytes,
		 uint64_t end_bytes)
{
	if (rule->call != call && rule->call != SIM_CALL_ANY)
		return false;
	return !rule->has_range || (first_bytes < rule->end_bytes && rule->first_bytes < end_bytes);
}

static bool is_due(const struct sim_fault_rule *rule, uint64_t seen)
{
	return rule->nth == 0 || seen == rule->nth || (rule->sticky && seen > rule->nth);
}

/* I1: counts the call and finds its fault. */
static struct verdict judge(struct sim_fault *fault, enum sim_fault_call call, uint64_t first_bytes,
			    uint64_t end_bytes)
{
	struct verdict verdict = { .faulty = false };

	stet_mutex_lock(&fault->lock);
	fault->stats.calls[call]++;
	for (size_t i = 0; i < fault->script.count; i++) {
		const struct sim_fault_rule *rule = &fault->script.rule[i];

		if (!fits(rule, call, first_bytes, end_bytes))
			continue;
		fault->seen[i]++;
		if (verdict.faulty || !is_due(rule, fault->seen[i]))
			continue;
		verdict = (struct verdict){
			.faulty = true,
			.kind = rule->kind,
			.arg = rule->arg,
			.first_bytes = first_bytes,
			.end_bytes = end_bytes,
		};
		if (rule->has_range) {
			verdict.first_bytes = max_u64(first_bytes, rule->first_bytes);
			verdict.end_bytes = min_u64(end_bytes, rule->end_bytes);
		}
		fault->stats.hits[rule->kind]++;
		fault->stats.total_hits++;
	}
	stet_mutex_unlock(&fault->lock);
	return verdict;
}

/* The error of a call that does nothing but fail; 0 for the other faults. */
static int plain_error(struct sim_fault *fault, const struct verdict *verdict, const char *what)
{
	if (!verdict->faulty)
		return 0;
	if (verdict->kind == SIM_FAULT_EIO)
		return STET_FAIL(-EIO, "%s: scripted error of a %s", fault->dev.name, what);
	if (verdict->kind == SIM_FAULT_ENOSPC)
		return STET_FAIL(-ENOSPC, "%s: scripted lack of space in a %s", fault->dev.name,
				 what);
	return 0;
}

/// Reading ///

static void flip(uint8_t *buf, uint64_t off_bytes, uint64_t bit)
{
	buf[bit / 8 - off_bytes] ^= (uint8_t)(1U << bit % 8);
}

static bool is_rotten_locked(const struct sim_fault *fault, uint64_t bit)
{
	for (size_t i = 0; i < fault->rotten_count; i++) {
		if (fault->rotten[i] == bit)
			return true;
	}
	return false;
}

static uint64_t draw_bit_locked(struct sim_fault *fault, const struct verdict *verdict)
{
	uint64_t n = (verdict->end_bytes - verdict->first_bytes) * 8;

	return verdict->first_bytes * 8 + stet_random_below(&fault->random, n);
}

/* Adds rotten bits where the verdict says; each is a different one, as far as there is room. */
static void rot_locked(struct sim_fault *fault, const struct verdict *verdict)
{
	uint64_t wanted = verdict->arg;

	for (int try = 0; try < ROT_TRIES && wanted; try++) {
		uint64_t bit = draw_bit_locked(fault, verdict);

		if (fault->rotten_count == SIM_FAULT_MAX_ROTTEN)
			return;
		if (is_rotten_locked(fault, bit))
			continue;
		fault->rotten[fault->rotten_count++] = bit;
		wanted--;
	}
}

/* Makes what was read wrong, as the verdict and the rotten bits say (I2). */
static void spoil(struct sim_fault *fault, const struct verdict *verdict, uint64_t off_bytes,
		  uint8_t *buf, size_t len_bytes)
{
	stet_mutex_lock(&fault->lock);
	if (verdict->faulty && verdict->kind == SIM_FAULT_ROT)
		rot_locked(fault, verdict);
	if (verdict->faulty && verdict->kind == SIM_FAULT_FLIP) {
		for (uint64_t i = 0; i < verdict->arg; i++)
			flip(buf, off_bytes, draw_bit_locked(fault, verdict));
	}
	for (size_t i = 0; i < fault->rotten_count; i++) {
		uint64_t at = fault->rotten[i] / 8;

		if (at >= off_bytes && at - off_bytes < len_bytes)
			flip(buf, off_bytes, fault->rotten[i]);
	}
	stet_mutex_unlock(&fault->lock);
}

static int fault_read(struct stet_device *dev, uint64_t off_bytes, void *buf, size_t len_bytes)
{
	struct sim_fault *fault = fault_of(dev);
	struct verdict verdict = judge(fault, SIM_CALL_READ, off_bytes, off_bytes + len_bytes);
	int rc = plain_error(fault, &verdict, "read");

	if (!rc)
		rc = stet_device_read(fault->lower, off_bytes, buf, len_bytes);
	if (!rc)
		spoil(fault, &verdict, off_bytes, buf, len_bytes);
	return rc;
}

/// Writing ///

/* I2: the bytes are right again. */
static void heal(struct sim_fault *fault, uint64_t off_bytes, uint64_t len_bytes)
{
	size_t kept = 0;

	stet_mutex_lock(&fault->lock);
	for (size_t i = 0; i < fault->rotten_count; i++) {
		uint64_t at = fault->rotten[i] / 8;

		if (at < off_bytes || at - off_bytes >= len_bytes)
			fault->rotten[kept++] = fault->rotten[i];
	}
	fault->rotten_count = kept;
	stet_mutex_unlock(&fault->lock);
}

/* Writes the first len_bytes of the buffers. */
static int write_first(struct sim_fault *fault, uint64_t off_bytes, const struct iovec *iov,
		       int iov_count, uint64_t len_bytes)
{
	uint64_t end_bytes = off_bytes + len_bytes;
	int rc = 0;

	for (int i = 0; i < iov_count && off_bytes < end_bytes && !rc; i++) {
		uint64_t n = min_u64(iov[i].iov_len, end_bytes - off_bytes);

		rc = stet_device_write(fault->lower, off_bytes, iov[i].iov_base, (size_t)n);
		if (!rc)
			heal(fault, off_bytes, n);
		off_bytes += n;
	}
	return rc;
}

/* How much of the call lies before the end of its first n sectors. */
static uint64_t sectors_len(uint64_t off_bytes, uint64_t len_bytes, uint64_t n)
{
	uint64_t whole = (off_bytes + len_bytes) / SIM_SECTOR_BYTES - off_bytes / SIM_SECTOR_BYTES;

	if (n > whole)
		return len_bytes;
	return n ? (off_bytes / SIM_SECTOR_BYTES + n) * SIM_SECTOR_BYTES - off_bytes : 0;
}

/* Where a stray write lands: inside the device, and not where it should. */
static uint64_t stray_offset(struct sim_fault *fault, const struct verdict *verdict,
			     uint64_t off_bytes, uint64_t len_bytes)
{
	uint64_t last = fault->dev.size_bytes - len_bytes;
	uint64_t at = verdict->arg;

	if (at == UINT64_MAX) {
		stet_mutex_lock(&fault->lock);
		at = stet_random_below(&fault->random, last / SIM_SECTOR_BYTES + 1) *
		     SIM_SECTOR_BYTES;
		stet_mutex_unlock(&fault->lock);
		if (at == off_bytes)
			at = at ? at - SIM_SECTOR_BYTES : SIM_SECTOR_BYTES;
	}
	return min_u64(at, last);
}

static int write_faulty(struct sim_fault *fault, const struct verdict *verdict, uint64_t off_bytes,
			const struct iovec *iov, int iov_count)
{
	uint64_t len_bytes = 0;
	int rc;

	for (int i = 0; i < iov_count; i++)
		len_bytes += iov[i].iov_len;
	switch (verdict->kind) {
	case SIM_FAULT_SHORT:
	case SIM_FAULT_TEAR:
		rc = write_first(fault, off_bytes, iov, iov_count,
				 sectors_len(off_bytes, len_bytes, verdict->arg));
		if (!rc && verdict->kind == SIM_FAULT_SHORT)
			rc = STET_FAIL(-EIO, "%s: scripted short write", fault->dev.name);
		return rc;
	case SIM_FAULT_MISDIRECT:
		off_bytes = stray_offset(fault, verdict, off_bytes, len_bytes);
		return write_first(fault, off_bytes, iov, iov_count, len_bytes);
	default:
		STET_ASSERT_CMP(verdict->kind, ==, SIM_FAULT_LOSE);
		return 0;
	}
}

static int fault_writev(struct stet_device *dev, uint64_t off_bytes, const struct iovec *iov,
			int iov_count)
{
	struct sim_fault *fault = fault_of(dev);
	struct verdict verdict;
	uint64_t len_bytes = 0;
	int rc;

	for (int i = 0; i < iov_count; i++)
		len_bytes += iov[i].iov_len;
	verdict = judge(fault, SIM_CALL_WRITE, off_bytes, off_bytes + len_bytes);
	rc = plain_error(fault, &verdict, "write");
	if (rc)
		return rc;
	if (verdict.faulty)
		return write_faulty(fault, &verdict, off_bytes, iov, iov_count);
	rc = stet_device_writev(fault->lower, off_bytes, iov, iov_count);
	if (!rc)
		heal(fault, off_bytes, len_bytes);
	return rc;
}

static int fault_flush(struct stet_device *dev)
{
	struct sim_fault *fault = fault_of(dev);
	struct verdict verdict = judge(fault, SIM_CALL_FLUSH, 0, 0);
	int rc = plain_error(fault, &verdict, "flush");

	if (rc || verdict.faulty) /* what is no error is a lie */
		return rc;
	return stet_device_flush(fault->lower);
}

static int fault_discard(struct stet_device *dev, uint64_t off_bytes, uint64_t len_bytes)
{
	struct sim_fault *fault = fault_of(dev);
	struct verdict verdict = judge(fault, SIM_CALL_DISCARD, off_bytes, off_bytes + len_bytes);
	int rc = plain_error(fault, &verdict, "discard");

	if (rc)
		return rc;
	return stet_device_discard(fault->lower, off_bytes, len_bytes);
}

static void fault_close(struct stet_device *dev)
{
	(void)dev; /* belongs to the sim_fault */
}

static const struct stet_device_ops fault_ops = {
	.read = fault_read,
	.writev = fault_writev,
	.flush = fault_flush,
	.discard = fault_discard,
	.close = fault_close,
};

/// Making and asking ///

int sim_fault_create(struct stet_device *lower, uint64_t seed, struct sim_fault **ret)
{
	struct sim_fault *fault = calloc(1, sizeof(*fault));
	int rc;

	if (!fault)
		return STET_FAIL(-ENOMEM, "fault: no memory");
	rc = stet_device_init(&fault->dev, &fault_ops, lower->size_bytes, lower->read_only,
			      "fault");
	if (rc) {
		free(fault);
		return rc;
	}
	fault->lower = lower;
	fault->seed = seed;
	stet_random_seed(&fault->random, seed);
	stet_mutex_init(&fault->lock, SIM_FAULT_LOCK_RANK, "fault");
	*ret = fault;
	return 0;
}

void sim_fault_destroy(struct sim_fault *fault)
{
	if (!fault)
		return;
	stet_mutex_destroy(&fault->lock);
	stet_device_release(&fault->dev);
	free(fault);
}

struct stet_device *sim_fault_device(struct sim_fault *fault)
{
	return &fault->dev;
}

int sim_fault_set(struct sim_fault *fault, const char *text)
{
	struct sim_fault_script script;
	int rc = sim_fault_script_parse(text, &script);

	if (rc)
		return rc;
	stet_mutex_lock(&fault->lock);
	fault->script = script;
	memset(fault->seen, 0, sizeof(fault->seen));
	memset(&fault->stats, 0, sizeof(fault->stats));
	stet_mutex_unlock(&fault->lock);
	return 0;
}

void sim_fault_stats(struct sim_fault *fault, struct sim_fault_stats *ret)
{
	stet_mutex_lock(&fault->lock);
	*ret = fault->stats;
	stet_mutex_unlock(&fault->lock);
}

void sim_fault_print(struct stet_text *text, struct sim_fault *fault)
{
	struct sim_fault_stats stats;

	sim_fault_stats(fault, &stats);
	stet_text_printf(text, "seed=%" PRIu64 " script=", fault->seed);
	stet_mutex_lock(&fault->lock);
	sim_fault_script_print(text, &fault->script);
	stet_mutex_unlock(&fault->lock);
	stet_text_printf(text,
			 " read=%" PRIu64 " write=%" PRIu64 " flush=%" PRIu64 " discard=%" PRIu64
			 " hits=%" PRIu64,
			 stats.calls[SIM_CALL_READ], stats.calls[SIM_CALL_WRITE],
			 stats.calls[SIM_CALL_FLUSH], stats.calls[SIM_CALL_DISCARD],
			 stats.total_hits);
}
