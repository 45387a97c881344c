/* model.c - random operations against a table of bytes, one for each block.
 *
 * The model knows for each block whether it is live, held or dying, and for dying ones birth and
 * cut; for each slot what space.h says. It has no runs, no bitmaps, no heaps and no counts.
 * After each step the whole of both is compared.
 */
#include "space_unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_MAX 40u
#define VIEWS_MAX 3u
#define PAGES_MAX 8u

enum what { NOTHING, LIVE, HELD, DYING };

struct block {
	enum what what;
	uint64_t birth, cut;
	bool pinned; /* by a view at the last release */
};

struct mslot {
	uint64_t id, opened, last_death;
	enum stet_seg_state state;
	enum stet_seg_kind kind;
	bool log_pinned;
	bool mapped;
};

struct model {
	uint32_t slot_count, seg_blocks;
	struct mslot *slot;
	struct mslot *written; /* as of the last encode of the slot's page */
	uint8_t *written_live;
	struct block *block; /* slot_count * seg_blocks */
	uint64_t next_id, serial, older_cut;
	uint64_t view[VIEWS_MAX];
	bool recovering;
	struct stet_space *space;
	struct stet_random random;
};

static uint32_t below(struct model *m, uint32_t n)
{
	return (uint32_t)stet_random_below(&m->random, n);
}

static struct block *blocks_of(const struct model *m, uint32_t slot)
{
	return m->block + (size_t)slot * m->seg_blocks;
}

static uint32_t count(const struct model *m, uint32_t slot, enum what what)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->seg_blocks; i++)
		n += blocks_of(m, slot)[i].what == what;
	return n;
}

static bool empty(const struct model *m, uint32_t slot)
{
	return count(m, slot, NOTHING) == m->seg_blocks && !m->slot[slot].log_pinned;
}

static void settle(struct model *m, uint32_t slot)
{
	struct mslot *s = &m->slot[slot];

	if (!s->mapped || m->recovering || s->state == STET_SEG_OPEN || !empty(m, slot))
		return;
	s->mapped = false;
	if (s->state == STET_SEG_FULL)
		s->state = STET_SEG_FREE;
}

/* Whether all n blocks from first on are `what` (and lie in the segment). */
static bool all(const struct model *m, uint32_t slot, uint32_t first, uint32_t n, enum what what)
{
	if (first + n > m->seg_blocks || !m->slot[slot].mapped)
		return false;
	for (uint32_t i = first; i < first + n; i++) {
		if (blocks_of(m, slot)[i].what != what)
			return false;
	}
	return true;
}

static void set(struct model *m, uint32_t slot, uint32_t first, uint32_t n, struct block value)
{
	for (uint32_t i = first; i < first + n; i++)
		blocks_of(m, slot)[i] = value;
}

/* --- choosing --- */

static uint32_t any_slot(struct model *m)
{
	uint32_t slot = below(m, m->slot_count);

	for (int tries = 0; tries < 20 && !m->slot[slot].mapped; tries++)
		slot = below(m, m->slot_count);
	return slot;
}

struct choice {
	uint32_t slot, first, n;
	struct stet_addr addr;
};

/* A run that mostly is wholly `what`, if the slot has any; sometimes it is arbitrary. */
static struct choice choose(struct model *m, enum what what)
{
	struct choice c = { .slot = any_slot(m) };

	for (int tries = 0; tries < 30; tries++) {
		c.first = below(m, m->seg_blocks);
		if (m->slot[c.slot].mapped && blocks_of(m, c.slot)[c.first].what == what)
			break;
		c.slot = any_slot(m);
	}
	c.n = 1 + below(m, RUN_MAX);
	if (below(m, 8) > 0) {
		uint32_t n = 0;

		while (n < c.n && all(m, c.slot, c.first, n + 1, what))
			n++;
		c.n = n > 0 ? n : 1;
	}
	c.addr = stet_addr_make(m->slot[c.slot].id, c.first);
	return c;
}

/* --- operations --- */

static bool used_before(const struct model *m, uint32_t a, uint32_t b)
{
	const struct mslot *sa = &m->slot[a], *sb = &m->slot[b];

	if (sa->id == 0 || sb->id == 0)
		return sa->id == 0 && (sb->id != 0 || a < b);
	return sa->last_death != sb->last_death ? sa->last_death < sb->last_death : a < b;
}

static void do_open(struct model *m)
{
	enum stet_seg_kind kind = (enum stet_seg_kind)below(m, STET_SEGK_COUNT);
	uint32_t spare = below(m, 4), free_n = 0, next = 0;
	struct stet_place place;
	int rc;

	for (uint32_t i = 0; i < m->slot_count; i++) {
		if (m->slot[i].state != STET_SEG_FREE)
			continue;
		if (free_n++ == 0 || used_before(m, i, next))
			next = i;
	}
	rc = stet_space_open_segment(m->space, kind, m->serial, spare, &place);
	if (free_n <= spare) {
		assert_int_equal(rc, -ENOSPC);
		return;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(place.slot, next);
	assert_true(place.addr.v == stet_addr_make(m->next_id, 0).v);
	m->slot[next] = (struct mslot){ .id = m->next_id++,
					.opened = m->serial,
					.state = STET_SEG_OPEN,
					.kind = kind,
					.mapped = true };
}

static void do_close(struct model *m)
{
	uint32_t slot = any_slot(m);
	struct mslot *s = &m->slot[slot];

	stet_space_close_segment(m->space, s->id);
	if (s->state == STET_SEG_OPEN) {
		s->state = STET_SEG_FULL;
		settle(m, slot);
	}
}

static void do_retire(struct model *m)
{
	uint32_t slot = any_slot(m), bad = 0;
	struct mslot *s = &m->slot[slot];

	for (uint32_t i = 0; i < m->slot_count; i++)
		bad += m->slot[i].state == STET_SEG_BAD;
	if (bad >= m->slot_count / 4)
		return;
	stet_space_retire(m->space, s->id);
	if (s->mapped) {
		s->state = STET_SEG_BAD;
		settle(m, slot);
	}
}

static void do_pin(struct model *m)
{
	uint32_t slot = any_slot(m);
	struct mslot *s = &m->slot[slot];

	if (!s->mapped)
		return;
	if (!s->log_pinned) {
		stet_space_log_pin(m->space, s->id);
		s->log_pinned = true;
		return;
	}
	stet_space_log_unpin(m->space, s->id, m->serial);
	s->log_pinned = false;
	s->last_death = m->serial;
	settle(m, slot);
}

static void do_hold(struct model *m)
{
	struct choice c = choose(m, NOTHING);

	if (!all(m, c.slot, c.first, c.n, NOTHING))
		return;
	stet_space_hold(m->space, c.addr, c.n);
	set(m, c.slot, c.first, c.n, (struct block){ .what = HELD });
}

static void do_hold_checked(struct model *m)
{
	struct choice c = choose(m, below(m, 2) ? NOTHING : HELD);
	bool ok = c.first + c.n <= m->seg_blocks && m->slot[c.slot].mapped;

	for (uint32_t i = c.first; ok && i < c.first + c.n; i++) {
		enum what what = blocks_of(m, c.slot)[i].what;

		ok = what == NOTHING || what == HELD;
	}
	assert_int_equal(stet_space_hold_checked(m->space, c.addr, c.n), ok ? 0 : -EUCLEAN);
	if (ok)
		set(m, c.slot, c.first, c.n, (struct block){ .what = HELD });
}

static void do_make_live(struct model *m)
{
	struct choice c = choose(m, HELD);
	bool ok = all(m, c.slot, c.first, c.n, HELD);

	assert_int_equal(stet_space_make_live(m->space, c.addr, c.n), ok ? 0 : -EUCLEAN);
	if (ok)
		set(m, c.slot, c.first, c.n, (struct block){ .what = LIVE });
}

/* Gives up a run in pieces, so that they may join; in rising or falling order. */
static void give_up(struct model *m, const struct choice *c, enum what what, uint64_t birth,
		    uint64_t cut)
{
	uint32_t half = c->n / 2;
	bool falling = below(m, 2);

	for (int i = 0; i < 2; i++) {
		bool upper = (i == 0) == falling;
		struct stet_addr addr = stet_addr_add(c->addr, upper ? half : 0);
		uint32_t n = upper ? c->n - half : half;

		if (what == LIVE)
			assert_int_equal(stet_space_free(m->space, addr, n, birth, cut), 0);
		else
			assert_int_equal(stet_space_drop(m->space, addr, n, birth, cut), 0);
	}
	set(m, c->slot, c->first, c->n,
	    (struct block){ .what = DYING, .birth = birth, .cut = cut });
	if (m->slot[c->slot].last_death < cut)
		m->slot[c->slot].last_death = cut;
}

static uint64_t any_cut(struct model *m)
{
	uint64_t back = (uint64_t)below(m, 4) * below(m, 20);

	return m->serial > back ? m->serial - back : 1;
}

static void do_free(struct model *m)
{
	struct choice c = choose(m, LIVE);
	uint64_t cut = any_cut(m), birth = below(m, (uint32_t)cut);

	if (all(m, c.slot, c.first, c.n, LIVE))
		give_up(m, &c, LIVE, birth, cut);
	else
		assert_int_equal(stet_space_free(m->space, c.addr, c.n, birth, cut), -EUCLEAN);
}

static void do_drop(struct model *m)
{
	struct choice c = choose(m, HELD);
	uint64_t cut = any_cut(m), birth = below(m, (uint32_t)cut);

	if (!all(m, c.slot, c.first, c.n, HELD)) {
		assert_int_equal(stet_space_drop(m->space, c.addr, c.n, birth, cut), -EUCLEAN);
	} else if (below(m, 2)) {
		give_up(m, &c, HELD, birth, cut);
	} else {
		assert_int_equal(stet_space_drop(m->space, c.addr, c.n, birth, 0), 0);
		set(m, c.slot, c.first, c.n, (struct block){ .what = NOTHING });
		settle(m, c.slot);
	}
}

static bool pinned(void *arg, uint64_t birth, uint64_t cut, uint32_t blocks)
{
	(void)blocks;
	const struct model *m = arg;

	for (uint32_t i = 0; i < VIEWS_MAX; i++) {
		if (birth <= m->view[i] && m->view[i] < cut)
			return true;
	}
	return false;
}

static void do_release(struct model *m)
{
	m->view[below(m, VIEWS_MAX)] = below(m, (uint32_t)m->serial + 1);
	if (m->older_cut < m->serial)
		m->older_cut += below(m, (uint32_t)(m->serial - m->older_cut));
	stet_space_release(m->space, m->older_cut, pinned, m);
	for (uint32_t slot = 0; slot < m->slot_count; slot++) {
		for (uint32_t i = 0; i < m->seg_blocks; i++) {
			struct block *b = &blocks_of(m, slot)[i];

			if (b->what != DYING || b->cut > m->older_cut)
				continue;
			b->pinned = pinned(m, b->birth, b->cut, 0);
			if (!b->pinned)
				*b = (struct block){ .what = NOTHING };
		}
		settle(m, slot);
	}
}

static void do_adopt(struct model *m)
{
	uint32_t slot = below(m, m->slot_count);
	struct mslot *s = &m->slot[slot];
	uint64_t id = below(m, 3) ? m->next_id + below(m, 3) : 1 + below(m, (uint32_t)m->next_id);
	int wanted = 0;
	int rc;

	for (uint32_t i = 0; i < m->slot_count; i++) {
		if (m->slot[i].id != id || i == slot)
			continue;
		if (!m->slot[i].mapped)
			return; /* dead elsewhere: not even a damaged log names it here */
		wanted = -EUCLEAN;
	}
	if (!wanted && !(s->mapped && s->id == id)) {
		if (s->id > id)
			wanted = -ESTALE;
		else if (s->state == STET_SEG_BAD || !empty(m, slot))
			wanted = -EUCLEAN;
	}
	rc = stet_space_adopt(m->space, id, slot, STET_SEGK_COLD, m->serial);
	assert_int_equal(rc, wanted);
	m->recovering = true;
	if (rc)
		return;
	if (s->mapped && s->id == id) {
		if (s->state == STET_SEG_OPEN)
			s->state = STET_SEG_FULL;
		return;
	}
	*s = (struct mslot){ .id = id,
			     .opened = m->serial,
			     .state = STET_SEG_FULL,
			     .kind = STET_SEGK_COLD,
			     .mapped = true };
	if (m->next_id <= id)
		m->next_id = id + 1;
}

static void do_recovered(struct model *m)
{
	stet_space_recovered(m->space);
	m->recovering = false;
	for (uint32_t i = 0; i < m->slot_count; i++) {
		if (m->slot[i].state == STET_SEG_OPEN && !m->slot[i].log_pinned)
			m->slot[i].state = STET_SEG_FULL;
		settle(m, i);
	}
}

/* --- comparing --- */

static void compare_slot(struct model *m, uint32_t slot, struct stet_space_usage *sum)
{
	const struct mslot *s = &m->slot[slot];
	struct stet_seg_info info = info_of(m->space, slot);
	uint64_t bitmap[STET_SEG_BLOCKS_MAX / 64];
	uint32_t held = count(m, slot, HELD) + count(m, slot, DYING);

	assert_int_equal(info.id, s->id);
	assert_int_equal(info.state, s->state);
	assert_int_equal(info.kind, s->kind);
	assert_int_equal(info.opened, s->opened);
	assert_int_equal(info.last_death, s->last_death);
	assert_int_equal(info.log_pinned, s->log_pinned);
	assert_int_equal(info.held_blocks, held);
	stet_space_live_bitmap(m->space, slot, bitmap);
	for (uint32_t i = 0; i < m->seg_blocks; i++) {
		const struct block *b = &blocks_of(m, slot)[i];

		assert_int_equal(bitmap[i / 64] >> i % 64 & 1, b->what == LIVE);
		sum->live_blocks += b->what == LIVE;
		sum->pinned_blocks += b->what == DYING && b->pinned;
	}
	sum->held_blocks += held;
	sum->slots_free += s->state == STET_SEG_FREE;
	sum->slots_open += s->state == STET_SEG_OPEN;
	sum->slots_full += s->state == STET_SEG_FULL;
	sum->slots_bad += s->state == STET_SEG_BAD;
	if (s->id > 0)
		assert_int_equal(stet_space_slot(m->space, s->id),
				 s->mapped ? slot : STET_SLOT_NONE);
	if (s->mapped) {
		uint32_t i = below(m, m->seg_blocks);

		assert_int_equal(stet_space_is_live(m->space, stet_addr_make(s->id, i)),
				 blocks_of(m, slot)[i].what == LIVE);
	}
}

static void compare(struct model *m)
{
	struct stet_space_usage sum = { 0 }, usage = usage_of(m->space);

	stet_space_check(m->space);
	for (uint32_t i = 0; i < m->slot_count; i++)
		compare_slot(m, i, &sum);
	assert_int_equal(usage.live_blocks, sum.live_blocks);
	assert_int_equal(usage.held_blocks, sum.held_blocks);
	assert_int_equal(usage.pinned_blocks, sum.pinned_blocks);
	assert_int_equal(usage.slots_free, sum.slots_free);
	assert_int_equal(usage.slots_open, sum.slots_open);
	assert_int_equal(usage.slots_full, sum.slots_full);
	assert_int_equal(usage.slots_bad, sum.slots_bad);
	assert_int_equal(usage.slots_total, m->slot_count);
	assert_int_equal(usage.capacity_blocks,
			 (uint64_t)(m->slot_count - sum.slots_bad) * m->seg_blocks);
	assert_int_equal(stet_space_next_seg_id(m->space), m->next_id);
}

/* A slot differs from what its page says: then the page is dirty. */
static bool slot_changed(const struct model *m, uint32_t slot)
{
	const struct mslot *s = &m->slot[slot], *w = &m->written[slot];
	const uint8_t *live = m->written_live + (size_t)slot * m->seg_blocks;

	if (s->id != w->id || s->state != w->state || s->kind != w->kind || s->opened != w->opened)
		return true;
	for (uint32_t i = 0; i < m->seg_blocks; i++) {
		if ((blocks_of(m, slot)[i].what == LIVE) != live[i])
			return true;
	}
	return s->state == STET_SEG_FREE && s->last_death != w->last_death;
}

/* The page tells what the model knows; from now on it is what was written. */
static void encode_page(struct model *m, uint32_t page_no)
{
	uint8_t page[STET_BLOCK_SIZE];
	uint32_t first = page_no * stet_table_page_entries(m->seg_blocks);

	stet_space_page_encode(m->space, page_no, m->serial, page);
	assert_false(stet_space_page_dirty(m->space, page_no));
	assert_int_equal(
		stet_table_page_verify(page, VOLUME_ID, page_no, m->seg_blocks, m->slot_count), 0);
	for (uint32_t i = 0; i < stet_table_page_entries(m->seg_blocks); i++) {
		uint8_t *live = m->written_live + (size_t)(first + i) * m->seg_blocks;
		uint64_t bitmap[STET_SEG_BLOCKS_MAX / 64];
		struct stet_seg_entry entry;

		if (first + i >= m->slot_count)
			break;
		stet_table_page_get(page, i, &entry, bitmap);
		assert_int_equal(entry.id, m->slot[first + i].id);
		assert_int_equal(entry.state, m->slot[first + i].state);
		assert_int_equal(entry.last_death, m->slot[first + i].last_death);
		for (uint32_t k = 0; k < m->seg_blocks; k++) {
			live[k] = blocks_of(m, first + i)[k].what == LIVE;
			assert_int_equal(bitmap[k / 64] >> k % 64 & 1, live[k]);
		}
		m->written[first + i] = m->slot[first + i];
	}
}

static void check_dirty(struct model *m)
{
	uint32_t entries = stet_table_page_entries(m->seg_blocks);

	for (uint32_t slot = 0; slot < m->slot_count; slot++) {
		if (slot_changed(m, slot))
			assert_true(stet_space_page_dirty(m->space, slot / entries));
	}
	if (below(m, 20) == 0)
		encode_page(m, below(m, stet_space_page_count(m->space)));
}

static void step(struct model *m)
{
	static void (*const op[])(struct model *) = {
		do_open, do_open, do_close, do_hold,      do_hold,    do_hold,
		do_hold, do_hold, do_hold,  do_make_live, do_release, do_hold_checked,
		do_free, do_free, do_drop,  do_make_live, do_pin,
	};
	uint32_t dice = below(m, 200);

	m->serial += below(m, 3);
	if (m->recovering && dice < 10)
		do_recovered(m);
	else if (dice < 3 || (m->recovering && dice < 50))
		do_adopt(m);
	else if (dice == 4)
		do_retire(m);
	else
		op[below(m, sizeof(op) / sizeof(op[0]))](m);
}

static void run(uint32_t slot_count, uint32_t seg_blocks, uint64_t seed, uint32_t steps)
{
	size_t blocks = (size_t)slot_count * seg_blocks;
	struct model m = { .slot_count = slot_count,
			   .seg_blocks = seg_blocks,
			   .slot = calloc(slot_count, sizeof(struct mslot)),
			   .written = calloc(slot_count, sizeof(struct mslot)),
			   .written_live = calloc(blocks, 1),
			   .block = calloc(blocks, sizeof(struct block)),
			   .next_id = 1,
			   .serial = 1,
			   .space = create_ok(slot_count, seg_blocks) };

	print_message("seed %llu: %u slots of %u\n", (unsigned long long)seed, slot_count,
		      seg_blocks);
	stet_random_seed(&m.random, seed);
	assert_in_range(stet_space_page_count(m.space), 1, PAGES_MAX);
	for (uint32_t i = 0; i < stet_space_page_count(m.space); i++)
		assert_true(stet_space_page_dirty(m.space, i));
	for (uint32_t i = 0; i < steps; i++) {
		step(&m);
		compare(&m);
		check_dirty(&m);
	}
	/* Without views and with all checkpoints done, nothing waits any more. */
	stet_space_release(m.space, m.serial, NULL, NULL);
	stet_space_check(m.space);
	assert_int_equal(usage_of(m.space).pinned_blocks, 0);
	stet_space_destroy(m.space);
	free(m.slot);
	free(m.written);
	free(m.written_live);
	free(m.block);
}

static void test_small(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++)
		run(12, 64, seed, 2500);
}

static void test_many_slots(void **state)
{
	(void)state;
	run(230, 64, 100, 2000);
	run(60, 128, 101, 2000);
}

/* Segments as large as an address allows: the next block after one is in the next one. */
static void test_large_segments(void **state)
{
	(void)state;
	run(6, 4096, 200, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_many_slots),
		cmocka_unit_test(test_large_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
