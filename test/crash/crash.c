/* crash.c - recording, choosing images, judging them.
 *
 * C1. The model's state is kept for every flush that was started, with the number of events recorded
 *     before it. Acknowledgements are marks between the events.
 * C2. First all images at flush boundaries (everything before the flush there, or nothing unflushed), then
 *     those with garbage in all free segments, then random ones: dropped, torn, scattered, garbage,
 *     reordered.
 * C3. The number of an image says which it is; together with the seed it can be looked at again alone.
 */
#include "crash.h"

#include "base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LIMIT_S 120u
#define DEEP_EVENTS_MAX 60u

struct shared {
	struct crash_plan plan;
	struct crash_counts counts;
	uint64_t image; /* being looked at */
	char spec[200];
};

/* Which slots were free at an event: the next write may go there. */
struct free_note {
	size_t event;
	uint64_t slots; /* bit i: slot i */
};

/* What is done to an image besides. */
enum damage {
	DAMAGE_NEWEST_SLOT = 1, /* X4 */
	DAMAGE_FREE = 2,        /* X5 */
};

struct judge {
	struct shared *shared;
	struct duel *d; /* the recorded run; its volume is closed */
	struct sim_record *record;
	int64_t wall_ns; /* at its end */
	STET_VEC(struct free_note) notes;
	struct stet_text why;
};

static bool wrong(struct judge *j, const char *what, const char *detail)
{
	stet_text_printf(&j->why, "%s: %s\n", what, detail);
	return false;
}

/* --- recording --- */

static void on_ack(void *arg, uint64_t serial)
{
	struct duel *d = arg;

	STET_ASSERT(sim_record_mark(d->w->record, serial) == 0);
}

static void note_free(struct judge *j)
{
	const struct stet_space *space = stet_engine_space(j->d->w->engine);
	struct free_note note = { sim_record_count(j->d->w->record), 0 };
	struct stet_space_usage usage;
	struct stet_seg_info info;

	if (j->notes.n > 0 && j->notes.v[j->notes.n - 1].event == note.event)
		j->notes.n--;
	stet_space_usage(space, &usage);
	for (uint32_t slot = 0; slot < usage.slots_total && slot < 64; slot++) {
		stet_space_info(space, slot, &info);
		if (info.state == STET_SEG_FREE)
			note.slots |= UINT64_C(1) << slot;
	}
	STET_ASSERT(stet_vec_push(&j->notes, note) == 0);
}

static bool record_run(struct judge *j)
{
	const struct run *run = &j->shared->plan.run;
	struct stet_random random;
	struct step step;
	bool ok = true;

	if (duel_create(&run->config, &j->d))
		return wrong(j, "no volume", stet_error_text());
	j->d->keep_boundaries = true;
	j->d->boundaries.v[0].event = 0; /* as formatted: before the volume was opened */
	j->d->on_ack = on_ack;
	j->d->on_ack_arg = j->d;
	j->d->late_acks = j->shared->plan.late_acks;
	duel_note_state_(j->d);
	stet_random_seed(&random, run->seed);
	for (size_t k = 0; ok && k < run->step_count; k++) {
		struct step_state state;

		duel_state(j->d, &state);
		step_random(&random, &run->mix, &state, k, &step);
		ok = duel_step(j->d, &step);
		note_free(j);
	}
	if (!ok)
		return wrong(j, "the run itself fails", stet_text_cstr(&j->d->why));
	duel_end_all_(j->d);
	j->wall_ns = stet_engine_now(j->d->w->engine);
	world_close(j->d->w);
	j->record = j->d->w->record;
	j->shared->counts.events += sim_record_count(j->record);
	j->shared->counts.boundaries += j->d->boundaries.n;
	j->shared->counts.acks += j->d->counts.acks;
	return true;
}

/* --- judging --- */

static uint64_t acked_at(const struct judge *j, size_t event)
{
	uint64_t serial;

	return sim_record_last_mark(j->record, event, &serial) ? serial : 0;
}

/* X1: the boundary that is shown, or NULL. */
static const struct duel_boundary *find_boundary(const struct judge *j, size_t event,
						 const struct model *have)
{
	uint64_t acked = acked_at(j, event);

	for (size_t k = j->d->boundaries.n; k-- > 0;) {
		const struct duel_boundary *b = &j->d->boundaries.v[k];

		if (b->event > event)
			continue;
		if (b->cut < acked)
			break;
		if (model_hash_equal(model_state_hash(b->state), model_state_hash(have)))
			return b;
	}
	return NULL;
}

static bool no_boundary(struct judge *j, size_t event, const struct model *have)
{
	const struct duel_boundary *last = &j->d->boundaries.v[0];
	struct stet_text t;

	stet_text_init(&t);
	for (size_t k = 0; k < j->d->boundaries.n; k++) {
		const struct duel_boundary *b = &j->d->boundaries.v[k];

		if (b->event <= event)
			last = b;
		if (model_hash_equal(model_state_hash(b->state), model_state_hash(have)))
			stet_text_printf(&t,
					 "it is the state of serial %" PRIu64
					 ", flushed from event %zu on; ",
					 b->cut, b->event);
	}
	stet_text_printf(&t,
			 "acknowledged was %" PRIu64 "; compared with the last (%" PRIu64 "):\n",
			 acked_at(j, event), last->cut);
	model_diff(&t, last->state, have);
	wrong(j, "no allowed state", stet_text_cstr(&t));
	stet_text_release(&t);
	return false;
}

static int open_image(const struct judge *j, struct stet_device *image, bool record,
		      struct world **ret)
{
	struct world_config config = j->shared->plan.run.config;
	int rc;

	config.record = record;
	rc = world_create_on(&config, image, ret);
	if (rc)
		return rc;
	sim_clock_set_wall(&(*ret)->clock, j->wall_ns);
	rc = world_open(*ret);
	if (rc)
		world_destroy(*ret);
	return rc;
}

/* X2 */
static bool check_all(struct judge *j, struct world *w)
{
	struct stet_text t;
	bool ok;

	stet_text_init(&t);
	ok = world_check_catalog(w, &t) == 0 ||
	     wrong(j, "the catalog is damaged", stet_text_cstr(&t));
	stet_text_release(&t);
	stet_space_check(stet_engine_space(w->engine));
	return ok;
}

/* Takes the world. */
static bool go_on(struct judge *j, struct world *take_world, struct model *state, uint64_t seed)
{
	struct stet_random random;
	struct step step;
	struct duel *d;
	bool ok = true;

	duel_adopt(take_world, state, &d);
	stet_random_seed(&random, seed);
	for (unsigned k = 0; ok && k < 20; k++) {
		struct step_state seen;

		duel_state(d, &seen);
		step_random(&random, &j->shared->plan.run.mix, &seen, k, &step);
		ok = duel_step(d, &step);
	}
	if (ok)
		ok = duel_finish(d);
	if (!ok)
		wrong(j, "after recovery", stet_text_cstr(&d->why));
	duel_destroy(d);
	return ok;
}

/* X3: crashes of a recovery that was recorded. */
static bool deep(struct judge *j, struct sim_record *record, const struct model *want)
{
	size_t count = sim_record_count(record);
	size_t step = count / DEEP_EVENTS_MAX + 1;
	bool ok = true;

	for (size_t k = 0; k <= count && ok; k += step) {
		for (uint64_t seed = 0; seed < 3 && ok; seed++) {
			struct sim_crash_spec spec = sim_crash_random(k, seed);
			struct stet_device *image;
			struct model *have;
			struct world *w;

			if (seed == 0)
				spec.mode = SIM_CRASH_ALL;
			if (sim_record_crash_image(record, &spec, &image))
				return wrong(j, "no image", stet_error_text());
			j->shared->counts.deep_images++;
			ok = open_image(j, image, false, &w) == 0;
			stet_device_close(image);
			if (!ok) {
				stet_text_printf(&j->why,
						 "recovery crashed at its event %zu/%zu: ", k,
						 count);
				return wrong(j, "the next one fails", stet_error_text());
			}
			if (world_read_tree(w, NULL, &have)) {
				ok = wrong(j, "reading after two crashes", stet_error_text());
			} else {
				if (!model_hash_equal(model_state_hash(want),
						      model_state_hash(have))) {
					struct stet_text t;

					stet_text_init(&t);
					model_diff(&t, want, have);
					ok = wrong(j, "a crash of recovery changes the state",
						   stet_text_cstr(&t));
					stet_text_release(&t);
				}
				model_put(have);
			}
			world_destroy(w);
		}
	}
	return ok;
}

static bool judge_open(struct judge *j, struct world *w, size_t event, uint64_t no)
{
	const struct crash_plan *plan = &j->shared->plan;
	struct stet_engine_stats stats;
	struct model *have;
	bool ok;

	stet_engine_stats(w->engine, &stats);
	j->shared->counts.torn += stats.torn_tail;
	if (world_read_tree(w, NULL, &have)) {
		wrong(j, "the tree cannot be read", stet_error_text());
		world_destroy(w);
		return false;
	}
	ok = (find_boundary(j, event, have) || no_boundary(j, event, have)) && check_all(j, w);
	if (ok && w->record) {
		struct sim_record *record = w->record;

		world_close(w);
		ok = deep(j, record, have);
	}
	if (ok && !w->record && plan->go_on_every && no % plan->go_on_every == 0)
		ok = go_on(j, w, have, no);
	else
		world_destroy(w);
	model_put(have);
	return ok;
}

/* X4: the newest checkpoint slot becomes unreadable, if there is an older one. */
static int damage_newest_slot(const struct judge *j, struct stet_device *image)
{
	static const uint8_t garbage[512] = { 0x5a, 0xa5 };
	static const uint64_t place[2] = { STET_CKPT_SLOT_BLOCK_0, STET_CKPT_SLOT_BLOCK_1 };
	struct stet_ckpt_slot slot[2];
	int slot_rc[2];

	stet_log_read_slots(image, world_volume_id(&j->shared->plan.run.config), slot, slot_rc);
	if (slot_rc[0] || slot_rc[1])
		return 0;
	return stet_device_write(image,
				 place[slot[1].sequence > slot[0].sequence] * STET_BLOCK_SIZE,
				 garbage, sizeof(garbage));
}

/* X5: what is free may be overwritten at any time. */
static int damage_free(const struct judge *j, struct stet_device *image, uint64_t slots)
{
	uint64_t bytes = (uint64_t)j->shared->plan.run.config.seg_blocks * STET_BLOCK_SIZE;
	uint8_t garbage[STET_BLOCK_SIZE];
	int rc = 0;

	memset(garbage, 0xa7, sizeof(garbage));
	for (unsigned slot = 0; slot < 64; slot++)
		for (uint64_t at = 0; slots >> slot & 1 && at < bytes && !rc; at += sizeof(garbage))
			rc = stet_device_write(
				image, STET_HEAD_BLOCKS * STET_BLOCK_SIZE + slot * bytes + at,
				garbage, sizeof(garbage));
	return rc;
}

static bool judge_image(struct judge *j, const struct sim_crash_spec *spec, unsigned damage,
			uint64_t free_slots)
{
	const struct crash_plan *plan = &j->shared->plan;
	uint64_t no = ++j->shared->image;
	bool is_deep = plan->deep_every && no % plan->deep_every == 0;
	struct stet_device *image;
	struct stet_text t;
	struct world *w;
	int rc;

	if (plan->only && no != plan->only)
		return true;
	stet_text_init(&t);
	sim_crash_spec_print(&t, spec);
	snprintf(j->shared->spec, sizeof(j->shared->spec), "%s", stet_text_cstr(&t));
	stet_text_release(&t);
	if (sim_record_crash_image(j->record, spec, &image))
		return wrong(j, "no image", stet_error_text());
	if (plan->damage_every && no % plan->damage_every == 0)
		damage |= DAMAGE_NEWEST_SLOT;
	if (((damage & DAMAGE_NEWEST_SLOT) && damage_newest_slot(j, image)) ||
	    ((damage & DAMAGE_FREE) && damage_free(j, image, free_slots)))
		return wrong(j, "no image", stet_error_text());
	j->shared->counts.images++;
	rc = open_image(j, image, is_deep, &w);
	stet_device_close(image);
	if (rc)
		return wrong(j, "it does not open", stet_error_text());
	return judge_open(j, w, spec->event, no);
}

/* C2 */
static bool judge_boundaries(struct judge *j)
{
	size_t count = sim_record_count(j->record);
	bool ok = true;

	for (size_t k = 0; k <= count && ok; k++) {
		bool at = k == count || sim_record_event(j->record, k).kind == SIM_EVENT_FLUSH;
		bool after = k > 0 && sim_record_event(j->record, k - 1).kind == SIM_EVENT_FLUSH;
		struct sim_crash_spec spec = { .event = k, .mode = SIM_CRASH_ALL };

		if (at || after)
			ok = judge_image(j, &spec, 0, 0);
		spec.mode = SIM_CRASH_NONE;
		if (ok && at)
			ok = judge_image(j, &spec, 0, 0);
	}
	return ok;
}

static bool judge_free(struct judge *j)
{
	bool ok = true;
	size_t step = j->notes.n * 4 / (j->shared->plan.images + 1) + 1;

	for (size_t i = 0; i < j->notes.n && ok; i += step) {
		const struct free_note *note = &j->notes.v[i];
		struct sim_crash_spec spec = sim_crash_random(note->event, i);

		if (i % 2)
			spec = (struct sim_crash_spec){ .event = note->event,
							.mode = SIM_CRASH_ALL };
		ok = judge_image(j, &spec, DAMAGE_FREE | (i % 3 ? DAMAGE_NEWEST_SLOT : 0),
				 note->slots);
	}
	return ok;
}

static bool judge_random(struct judge *j)
{
	uint64_t left = j->shared->plan.images;
	size_t count = sim_record_count(j->record);
	bool ok = true;

	left = left > j->shared->image ? left - j->shared->image : 0;
	/* Rising events: images are cheaper then. */
	for (uint64_t i = 0; i < left && ok; i++) {
		size_t k = (size_t)((count * i) / left) + 1;
		struct sim_crash_spec spec = sim_crash_random(k < count ? k : count, i);

		ok = judge_image(j, &spec, 0, 0);
	}
	return ok;
}

static bool run_child_part(void *arg)
{
	struct judge j = { .shared = arg };
	bool ok;

	stet_text_init(&j.why);
	ok = record_run(&j) && judge_boundaries(&j) && judge_free(&j) && judge_random(&j);
	if (!ok)
		printf("%s", stet_text_cstr(&j.why));
	stet_text_release(&j.why);
	stet_vec_release(&j.notes);
	duel_destroy(j.d);
	return ok;
}

bool crash_run(const struct crash_plan *plan, struct crash_counts *counts)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	bool ok;

	if (shared == MAP_FAILED)
		return false;
	memset(shared, 0, sizeof(*shared));
	shared->plan = *plan;
	shared->counts = *counts;
	ok = run_child(run_child_part, shared, LIMIT_S, plan->quiet, NULL);
	*counts = shared->counts;
	if (!ok && !plan->quiet)
		printf("image %" PRIu64 ": %s\n", shared->image, shared->spec);
	munmap(shared, sizeof(*shared));
	return ok;
}

void crash_by_seed(uint64_t seed, uint64_t images, struct crash_plan *ret)
{
	struct stet_random random;

	stet_random_seed(&random, seed);
	memset(ret, 0, sizeof(*ret));
	ret->run.seed = seed;
	ret->run.step_count = 120 + stet_random_below(&random, 100);
	ret->run.config = (struct world_config){
		.size_bytes = UINT64_C(16) << 20,
		.seg_blocks = 64,
		.meta_copies = (uint8_t)(1 + stet_random_below(&random, 2)),
		.cache_bytes = UINT64_C(4) << 20,
		.checkpoint_bytes = UINT64_C(64) << (10 + stet_random_below(&random, 4)),
		.delta_bytes = seed % 3 == 1 ? UINT64_C(16) << 10 : 0,
		.seed = seed,
		.record = true,
	};
	ret->run.mix = (struct step_mix){
		.txns = (unsigned)stet_random_below(&random, STEP_TXNS),
		.locking = seed % 3 == 0,
		.reopen = true,
		.reads_percent = 5,
		.pages_max = 300,
		.inodes_max = 40,
		.bytes_max = stet_random_below(&random, 3) == 0 ? 300000 : 30000,
		.sync_every = (unsigned)(4 + stet_random_below(&random, 20)),
	};
	ret->images = images;
	if (seed % 5 == 0) { /* so full that segments are soon used again */
		ret->run.step_count = 700;
		ret->run.mix.bytes_max = 1000000;
		ret->run.mix.pages_min = 2000;
		ret->run.mix.pages_max = 2300;
	}
	ret->go_on_every = 9;
	ret->deep_every = 40;
	ret->damage_every = 4;
}

void crash_txns_by_seed(uint64_t seed, uint64_t images, struct crash_plan *ret)
{
	struct stet_random random;

	crash_by_seed(seed, images, ret);
	stet_random_seed(&random, seed ^ UINT64_C(0x7478));
	ret->late_acks = true;
	ret->run.step_count = 500;
	ret->run.mix = (struct step_mix){
		.txns = STEP_TXNS,
		.locking = seed % 2,
		.waits = seed % 4 > 1,
		.short_txns = true,
		.reads_percent = 20,
		.pages_max = 300,
		.inodes_max = 30,
		.bytes_max = 12000,
		.sync_every = 100,
	};
}
