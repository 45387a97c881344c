/* recover.c - roll-forward: which batches after the checkpoint count, in two passes over the chain.
 *
 * The first pass (survey) walks summaries only, to learn where the chain ends and the highest `durable`.
 * It also looks behind the end: a summary found there may claim that something before it was durable.
 * The second pass (deliver) walks again, as far as it may, and hands batches to the visitor.
 *
 * R1. What lies at or below the highest `durable` was flushed: it is trusted without reading its
 *     payload, and if the chain ends before it, that is corruption, not a torn tail.
 * R2. Except for what a COMMIT says of its own group: nothing tells that the COMMIT was durable, and
 *     when its write was reported as failed, what came before it may have been given up (heads.c, H5).
 * R3. Above the highest `durable`, a partial segment counts only if its payload verifies too; the first
 *     one that does not ends the log, whatever follows.
 * R4. The records of a batch are delivered when its COMMIT counts, not before: they are read again
 *     from the batch's first RECORDS on. Memory: one summary of the walk, one of the reading again.
 * R5. Afterwards the log goes on behind the last partial segment that counts, also when that is not a
 *     COMMIT (it may hold a checkpoint's record, which must not be overwritten). RECORDS without their
 *     COMMIT stay behind; the next batch has another number and drops them.
 * R6. What was not accepted is outdated by the new generation, not erased. Nothing is written here.
 */
#include "log/log_internal.h"

#include "base/bitmap.h"

struct survey {
	uint64_t last_serial; /* of the last one in the chain */
	uint64_t last_generation;
	uint64_t durable; /* R1 */
	uint64_t claimed; /* of that, what a lost end would be missed from */
	uint64_t max_serial, max_generation;
	bool beyond;     /* something newer lies behind the end */
	bool unreadable; /* the end is where a candidate could not be read */
};

struct roll {
	struct stet_log *log;
	const struct stet_log_visitor *visitor;
	struct stet_log_recovery *stats;
	struct survey survey;
	bool accept_prefix;
	struct stet_log_walk walk;        /* behind the last one accepted */
	bool ended;                       /* before survey.last_serial (R3) */
	uint64_t batch;                   /* the open batch; 0: none */
	struct stet_log_walk batch_start; /* before its first RECORDS */
};

/* --- the first pass --- */
static void note(struct survey *s, const struct stet_pseg *pseg)
{
	uint64_t claimed = pseg->durable;

	if (pseg->kind == STET_PSEG_COMMIT && claimed >= pseg->batch)
		claimed = pseg->batch - 1; /* R2 */
	if (s->claimed < claimed)
		s->claimed = claimed;
	if (s->durable < pseg->durable)
		s->durable = pseg->durable;
	if (s->max_serial < pseg->serial)
		s->max_serial = pseg->serial;
	if (s->max_generation < pseg->generation)
		s->max_generation = pseg->generation;
}

/* Behind the end of the chain: where to look, each slot once. */
struct beyond {
	struct stet_log *log;
	struct survey *survey;
	STET_VEC(struct stet_place) todo;
	struct stet_bitmap slots; /* those in todo */
};

static int beyond_add(struct beyond *b, struct stet_place place)
{
	if (!stet_log_place_valid_(&b->log->sb, place, 1) ||
	    stet_bitmap_test(&b->slots, place.slot))
		return 0;
	stet_bitmap_set(&b->slots, place.slot);
	return stet_vec_push(&b->todo, place);
}

/* A summary behind the end of the chain; those behind it lie where it says. */
static int note_beyond(void *arg, const struct stet_pseg *pseg, const uint8_t *summary)
{
	struct beyond *b = arg;
	struct survey *s = b->survey;
	int rc;

	(void)summary;
	if (pseg->serial <= s->last_serial || pseg->generation < s->last_generation)
		return 0;
	s->beyond = true;
	note(s, pseg);
	rc = beyond_add(b, pseg->next1);
	return rc ? rc : beyond_add(b, pseg->next2);
}

/* Looks through the rest of the segments in which the next one should lie, and of those in which the ones
 * behind it should. */
static int look_beyond(struct stet_log *log, const struct stet_log_walk *end, struct survey *s)
{
	struct beyond b = { .log = log, .survey = s };
	uint64_t *words = stet_calloc(STET_BITMAP_WORDS(log->sb.slot_count), sizeof(*words));
	int rc;

	if (!words)
		return STET_FAIL(-ENOMEM, "no memory to look behind the log's end");
	stet_bitmap_init(&b.slots, words, log->sb.slot_count);
	rc = beyond_add(&b, end->next1);
	if (!rc)
		rc = beyond_add(&b, end->next2);
	for (size_t i = 0; i < b.todo.n && !rc; i++) {
		rc = stet_log_scan_(log, b.todo.v[i], note_beyond, &b);
		if (rc != -ENOMEM)
			rc = 0; /* unreadable blocks prove nothing */
	}
	s->beyond = s->beyond || stet_log_torn_(log, end);
	stet_vec_release(&b.todo);
	stet_free(words);
	return rc;
}

static int survey(struct roll *roll)
{
	struct stet_log_walk walk = roll->walk;
	struct stet_log_found found = { 0 };
	struct survey *s = &roll->survey;
	int rc;

	*s = (struct survey){
		.durable = walk.serial, /* a checkpoint slot names it */
		.max_serial = walk.serial,
		.max_generation = walk.generation,
	};
	do {
		rc = stet_log_step_(roll->log, &walk, &found);
		if (!rc)
			note(s, &found.pseg);
	} while (!rc);
	stet_log_found_release_(&found);
	s->last_serial = walk.serial;
	s->last_generation = walk.generation;
	s->unreadable = rc != -ENOENT;
	if (rc == -ENOMEM || (s->unreadable && !roll->accept_prefix))
		return rc;
	return look_beyond(roll->log, &walk, s);
}

/* --- segments --- */
static int adopt_chain(struct stet_log *log, struct stet_place place, uint64_t serial)
{
	uint64_t seg_id = stet_addr_seg(place.addr);
	int rc;

	if (stet_log_pin_find_(log, seg_id)) {
		if (stet_space_slot(log->space, seg_id) == place.slot)
			return 0;
		return STET_FAIL(-EUCLEAN, "log: segment %" PRIu64 " is not in slot %" PRIu32,
				 seg_id, place.slot);
	}
	rc = stet_vec_reserve(&log->pins, 1);
	if (!rc)
		rc = stet_space_adopt(log->space, seg_id, place.slot, STET_SEGK_LOG, serial);
	if (rc)
		return rc == -ESTALE ? STET_FAIL(-EUCLEAN,
						 "log: segment %" PRIu64 " was given away", seg_id)
				     : rc;
	stet_log_pin_(log, seg_id);
	return 0;
}

static bool slot_is_bad(const struct stet_log *log, uint32_t slot)
{
	struct stet_seg_info info;

	if (slot >= log->sb.slot_count)
		return false;
	stet_space_info(log->space, slot, &info);
	return info.state == STET_SEG_BAD;
}

static int adopt_record(struct stet_log *log, const struct stet_log_record *rec, uint64_t serial)
{
	struct stet_rec_segment seg;
	int rc = stet_rec_segment_decode(rec->value, rec->value_bytes, &seg);

	if (rc)
		return rc;
	if (slot_is_bad(log, seg.slot))
		return 0; /* the table knows what became of it */
	rc = stet_space_adopt(log->space, seg.id, seg.slot, (enum stet_seg_kind)seg.kind, serial);
	return rc == -ESTALE ? 0 : rc; /* gone before the table was written */
}

/* --- the second pass --- */
static int deliver_records(struct roll *roll, const struct stet_pseg *commit,
			   const struct stet_pseg *pseg, const uint8_t *summary)
{
	const struct stet_log_visitor *v = roll->visitor;
	struct stet_log_record rec;
	uint32_t pos = 0;

	while (stet_record_next(summary, pseg, &pos, &rec)) {
		int rc = rec.type == STET_REC_SEGMENT
				 ? adopt_record(roll->log, &rec, pseg->serial)
				 : v->record(v->arg, commit->cut, commit->wall_ns, &rec);

		if (rc)
			return rc;
		roll->stats->records++;
	}
	return 0;
}

/* A step that was taken before. */
static int step_known(struct stet_log *log, struct stet_log_walk *walk,
		      struct stet_log_found *found)
{
	int rc = stet_log_step_(log, walk, found);

	return rc == -ENOENT ? STET_FAIL(-EUCLEAN, "log: the chain changed while it was read") : rc;
}

/* The RECORDS of the COMMIT's batch, read again (R4). */
static int deliver_earlier(struct roll *roll, const struct stet_pseg *commit)
{
	struct stet_log_walk walk = roll->batch_start;
	struct stet_log_found found = { 0 };
	int rc;

	for (;;) {
		rc = step_known(roll->log, &walk, &found);
		if (rc || found.pseg.serial >= commit->serial)
			break;
		if (found.pseg.kind == STET_PSEG_RECORDS)
			rc = deliver_records(roll, commit, &found.pseg, found.summary.p);
		if (rc)
			break;
	}
	stet_log_found_release_(&found);
	return rc;
}

static int deliver_batch(struct roll *roll, const struct stet_pseg *commit, const uint8_t *summary)
{
	const struct stet_log_visitor *v = roll->visitor;
	int rc = 0;

	if (roll->batch == commit->batch)
		rc = deliver_earlier(roll, commit);
	roll->batch = 0;
	if (!rc)
		rc = deliver_records(roll, commit, commit, summary);
	if (!rc)
		rc = v->batch_end(v->arg, commit->cut, commit->wall_ns);
	if (!rc)
		roll->stats->batches++;
	return rc;
}

/* Sets `ended` when the log ends before this one (R3). */
static int examine(struct roll *roll, const struct stet_log_found *found)
{
	int rc;

	if (found->pseg.serial <= roll->survey.durable) /* R1 */
		return 0;
	rc = stet_log_verify_payload_(roll->log, &found->pseg, found->summary.p);
	if (rc == 0 || rc == -ENOMEM)
		return rc;
	if (rc != -EUCLEAN) { /* unreadable is not torn */
		if (!roll->accept_prefix)
			return rc;
		roll->stats->corrupt = true;
	}
	roll->stats->torn_tail = true;
	roll->ended = true;
	return 0;
}

static int accept(struct roll *roll, const struct stet_log_walk *before,
		  const struct stet_log_found *found)
{
	const struct stet_pseg *pseg = &found->pseg;
	int rc = adopt_chain(roll->log, pseg->self, pseg->serial);

	if (rc)
		return rc;
	stet_log_advance_(roll->log, pseg);
	roll->stats->psegs++;
	roll->stats->bytes += (uint64_t)stet_log_pseg_blocks_(pseg) * STET_BLOCK_SIZE;
	if (pseg->kind == STET_PSEG_COMMIT)
		return deliver_batch(roll, pseg, found->summary.p);
	if (pseg->kind == STET_PSEG_RECORDS && roll->batch != pseg->batch) {
		roll->batch = pseg->batch;
		roll->batch_start = *before;
	}
	return 0;
}

static int deliver(struct roll *roll)
{
	struct stet_log_found found = { 0 };
	int rc = 0;

	while (!rc && roll->walk.serial < roll->survey.last_serial) {
		struct stet_log_walk next = roll->walk;

		rc = step_known(roll->log, &next, &found);
		if (!rc)
			rc = examine(roll, &found);
		if (rc || roll->ended)
			break;
		rc = accept(roll, &roll->walk, &found);
		roll->walk = next;
	}
	stet_log_found_release_(&found);
	if (roll->batch != 0)
		roll->stats->torn_tail = true;
	return rc;
}

/* --- the log goes on --- */

/* Whether nobody needs what lies from the place on in its segment; a table that was tampered with may say so. */
static bool rest_is_free(const struct stet_log *log, struct stet_place place)
{
	for (uint32_t b = stet_addr_block(place.addr); b < log->sb.seg_blocks; b++) {
		struct stet_addr addr = stet_addr_make(stet_addr_seg(place.addr), b);

		if (stet_space_is_live(log->space, addr) || stet_space_is_held(log->space, addr))
			return false;
	}
	return true;
}

static int reopen(struct stet_log *log, struct stet_place place, struct stet_log_spot *ret)
{
	int rc;

	*ret = (struct stet_log_spot){ 0 };
	if (stet_addr_is_none(place.addr) || slot_is_bad(log, place.slot))
		return 0;
	rc = adopt_chain(log, place, log->tail_serial);
	if (rc)
		return rc;
	if (rest_is_free(log, place) && stet_space_reopen(log->space, stet_addr_seg(place.addr)))
		*ret = stet_log_spot_(place);
	return 0;
}

static int restore(struct roll *roll)
{
	struct stet_log *log = roll->log;
	const struct survey *s = &roll->survey;
	struct stet_log_head *head = &log->head[STET_SEGK_LOG];
	int rc;

	log->serial = s->max_serial;
	log->generation = s->max_generation + 1; /* R6 */
	log->durable = s->durable < log->tail_serial ? s->durable : log->tail_serial;
	rc = reopen(log, log->next1, &head->at);
	if (!rc)
		rc = reopen(log, log->next2, &head->spare);
	if (rc)
		return rc;
	if (head->at.seg_id == 0) {
		head->at = head->spare;
		head->spare = (struct stet_log_spot){ 0 };
	}
	log->fence = head->spare.seg_id == 0; /* heads.c, H2 */
	return 0;
}

static void start(struct roll *roll, const struct stet_ckpt_record *rec)
{
	struct stet_log *log = roll->log;

	log->next1 = rec->chain_next1;
	log->next2 = rec->chain_next2;
	log->tail_check = rec->chain_check;
	log->tail_serial = rec->chain_serial;
	roll->walk = (struct stet_log_walk){
		.next1 = rec->chain_next1,
		.next2 = rec->chain_next2,
		.check = rec->chain_check,
		.serial = rec->chain_serial,
		.generation = rec->generation,
	};
}

int stet_log_recover(struct stet_log *log, const struct stet_ckpt_record *rec,
		     const struct stet_log_visitor *visitor, bool accept_prefix,
		     struct stet_log_recovery *ret)
{
	struct roll roll = {
		.log = log,
		.visitor = visitor,
		.stats = ret,
		.accept_prefix = accept_prefix,
	};
	int rc;

	STET_ASSERT_CMP(log->generation, ==, 0);
	*ret = (struct stet_log_recovery){ 0 };
	start(&roll, rec);
	rc = survey(&roll);
	if (rc)
		return rc;
	if (roll.survey.max_serial < rec->cut)
		roll.survey.max_serial = rec->cut;
	ret->torn_tail = roll.survey.beyond;
	ret->corrupt = roll.survey.unreadable || roll.survey.claimed > roll.survey.last_serial;
	if (ret->corrupt && !accept_prefix) /* R1 */
		return STET_FAIL(-EUCLEAN,
				 "log: damaged behind serial %" PRIu64 ", but durable to %" PRIu64,
				 roll.survey.last_serial, roll.survey.claimed);
	rc = deliver(&roll);
	return rc ? rc : restore(&roll);
}
