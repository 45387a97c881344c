/* chain.c - the chain as others see it: its position, its length, the segments it pins.
 *
 * C1. A pinned segment holds completed partial segments of the chain that roll-forward from the older
 *     checkpoint slot may read, or is where the chain goes on, or is kept for that.
 * C2. marks rise; the bytes between two marks are known to 64 KiB.
 */
#include "log/log_internal.h"

#define MARK_BYTES (UINT64_C(64) << 10)

/* --- pins --- */
struct stet_log_pin *stet_log_pin_find_(struct stet_log *log, uint64_t seg_id)
{
	for (size_t i = log->pins.n; i > 0; i--) /* mostly one of the last */
		if (log->pins.v[i - 1].seg_id == seg_id)
			return &log->pins.v[i - 1];
	return NULL;
}

void stet_log_pin_(struct stet_log *log, uint64_t seg_id)
{
	STET_ASSERT_CMP(log->pins.n, <, log->pins.cap);
	stet_space_log_pin(log->space, seg_id);
	log->pins.v[log->pins.n++] = (struct stet_log_pin){ .seg_id = seg_id };
}

void stet_log_unpin_(struct stet_log *log, uint64_t seg_id)
{
	size_t kept = 0;

	for (size_t i = 0; i < log->pins.n; i++)
		if (log->pins.v[i].seg_id != seg_id)
			log->pins.v[kept++] = log->pins.v[i];
	STET_ASSERT_CMP(kept + 1, ==, log->pins.n);
	log->pins.n = kept;
	stet_space_log_unpin(log->space, seg_id, log->serial);
}

static bool trimmable(const struct stet_log *log, const struct stet_log_pin *pin,
		      uint64_t chain_serial)
{
	const struct stet_log_head *head = &log->head[STET_SEGK_LOG];

	return pin->last_serial != 0 && pin->last_serial <= chain_serial &&
	       pin->seg_id != head->at.seg_id && pin->seg_id != head->spare.seg_id;
}

void stet_log_trim(struct stet_log *log, uint64_t chain_serial)
{
	size_t kept = 0;
	size_t old = 0;

	for (size_t i = 0; i < log->pins.n; i++) {
		struct stet_log_pin pin = log->pins.v[i];

		if (trimmable(log, &pin, chain_serial))
			stet_space_log_unpin(log->space, pin.seg_id, log->serial);
		else
			log->pins.v[kept++] = pin;
	}
	log->pins.n = kept;
	/* The last mark at or below the serial is still asked for. */
	while (old + 1 < log->marks.n && log->marks.v[old + 1].serial <= chain_serial)
		old++;
	for (size_t i = old; i < log->marks.n; i++)
		log->marks.v[i - old] = log->marks.v[i];
	log->marks.n -= old;
}

/* --- position and length --- */
void stet_log_advance_(struct stet_log *log, const struct stet_pseg *pseg)
{
	struct stet_log_mark mark = { pseg->serial, 0 };
	struct stet_log_pin *pin = stet_log_pin_find_(log, stet_addr_seg(pseg->self.addr));
	uint64_t marked = log->marks.n > 0 ? log->marks.v[log->marks.n - 1].chain_bytes : 0;

	STET_ASSERT_CMP(pseg->serial, >, log->tail_serial);
	STET_ASSERT(pin);
	pin->last_serial = pseg->serial;
	log->tail_serial = pseg->serial;
	log->tail_check = pseg->check;
	log->next1 = pseg->next1;
	log->next2 = pseg->next2;
	log->chain_bytes += (uint64_t)stet_log_pseg_blocks_(pseg) * STET_BLOCK_SIZE;
	mark.chain_bytes = log->chain_bytes;
	if (mark.chain_bytes - marked >= MARK_BYTES)
		stet_ignore(stet_vec_push(&log->marks, mark), "only makes lengths less exact");
}

void stet_log_position(const struct stet_log *log, struct stet_ckpt_record *rec)
{
	rec->chain_next1 = log->next1;
	rec->chain_next2 = log->next2;
	rec->chain_check = log->tail_check;
	rec->chain_serial = log->tail_serial;
	rec->generation = log->generation;
}

uint64_t stet_log_bytes_since(const struct stet_log *log, uint64_t chain_serial)
{
	uint64_t then = 0;

	if (chain_serial >= log->tail_serial)
		return 0;
	for (size_t i = log->marks.n; i > 0; i--) {
		if (log->marks.v[i - 1].serial <= chain_serial) {
			then = log->marks.v[i - 1].chain_bytes;
			break;
		}
	}
	return log->chain_bytes - then;
}
