/* raw.c - damage: what failing devices, cables and careless people do to an image. No checksum is fixed.
 *
 * Most of it goes where something lies. Where there are two copies of a node, one of them is hit, or both.
 */
#include "mutation.h"

#include <stdlib.h>
#include <string.h>

/* A block in which something lies, or any. */
static uint64_t some_block(struct mutation *m)
{
	const struct atlas *a = m->base->atlas;
	uint32_t part;
	uint64_t off;

	if (mutation_chance(m, 20))
		return mutation_pick(m, m->image->size_bytes / STET_BLOCK_SIZE);
	if (!mutation_part(m, (enum part_kind)mutation_pick(m, PART_KINDS), &part))
		part = (uint32_t)mutation_pick(m, a->parts.n);
	off = a->parts.v[part].off;
	if (a->parts.v[part].off2 && mutation_chance(m, 50))
		off = a->parts.v[part].off2;
	return (off + mutation_pick(m, a->parts.v[part].len)) / STET_BLOCK_SIZE;
}

/* The other copy of what lies there, or the block itself. */
static uint64_t twin_of(const struct mutation *m, uint64_t block)
{
	const struct atlas *a = m->base->atlas;
	uint64_t off = block * STET_BLOCK_SIZE;

	for (size_t i = 0; i < a->parts.n; i++) {
		const struct part *p = &a->parts.v[i];

		if (!p->off2)
			continue;
		if (off >= p->off && off < p->off + p->len)
			return (p->off2 + (off - p->off)) / STET_BLOCK_SIZE;
		if (off >= p->off2 && off < p->off2 + p->len)
			return (p->off + (off - p->off2)) / STET_BLOCK_SIZE;
	}
	return block;
}

enum damage { ZERO, RANDOM, FLIP, BYTES, SECTOR, DAMAGES };

static void damage_block(struct mutation *m, enum damage what, uint64_t block)
{
	uint8_t buf[STET_BLOCK_SIZE];
	size_t at = mutation_pick(m, sizeof(buf));
	size_t n = 1 + mutation_pick(m, 64);

	mutation_read(m, block * STET_BLOCK_SIZE, buf, sizeof(buf));
	switch (what) {
	case ZERO:
		memset(buf, 0, sizeof(buf));
		break;
	case RANDOM:
		stet_random_bytes(&m->random, buf, sizeof(buf));
		break;
	case FLIP:
		buf[at] ^= (uint8_t)(1u << mutation_pick(m, 8));
		break;
	case BYTES:
		if (n > sizeof(buf) - at)
			n = sizeof(buf) - at;
		stet_random_bytes(&m->random, buf + at, n);
		break;
	default:
		memset(buf + at / 512 * 512, 0, 512);
		break;
	}
	mutation_write(m, block * STET_BLOCK_SIZE, buf, sizeof(buf));
}

static void damage_blocks(struct mutation *m)
{
	static const char *const name[DAMAGES] = { "zero", "random", "flip", "bytes", "sector" };
	enum damage what = (enum damage)mutation_pick(m, DAMAGES);
	uint64_t n = mutation_chance(m, 60) ? 1 : 1 + mutation_pick(m, 16);
	bool twins = mutation_chance(m, 40);

	mutation_note(m, " %s%s:", name[what], twins ? " with twins" : "");
	while (n-- > 0) {
		uint64_t block = some_block(m);

		mutation_note(m, " %llu", (unsigned long long)block);
		damage_block(m, what, block);
		if (twins && twin_of(m, block) != block)
			damage_block(m, what, twin_of(m, block));
	}
}

static void copy_blocks(struct mutation *m, bool swap)
{
	uint8_t a[STET_BLOCK_SIZE], b[STET_BLOCK_SIZE];
	uint64_t from = some_block(m), to = some_block(m);

	mutation_note(m, " block %llu %s %llu", (unsigned long long)from, swap ? "<->" : "->",
		      (unsigned long long)to);
	mutation_read(m, from * STET_BLOCK_SIZE, a, sizeof(a));
	mutation_read(m, to * STET_BLOCK_SIZE, b, sizeof(b));
	mutation_write(m, to * STET_BLOCK_SIZE, a, sizeof(a));
	if (swap)
		mutation_write(m, from * STET_BLOCK_SIZE, b, sizeof(b));
}

/* A range of blocks, as a lost write or a trimmed range leaves it. */
static void zero_range(struct mutation *m)
{
	uint64_t n = 1 + mutation_pick(m, 200);
	uint64_t blocks = m->image->size_bytes / STET_BLOCK_SIZE;
	uint64_t first = some_block(m);

	mutation_note(m, " zero %llu blocks from %llu on", (unsigned long long)n,
		      (unsigned long long)first);
	for (uint64_t b = first; b < first + n && b < blocks; b++)
		damage_block(m, ZERO, b);
}

static void lessen(struct mutation *m)
{
	uint64_t size = m->image->size_bytes;
	uint64_t less;

	switch (mutation_pick(m, 3)) {
	case 0:
		less = mutation_pick(m, size);
		break;
	case 1:
		less = some_block(m) * STET_BLOCK_SIZE;
		break;
	default:
		less = size - 1 - mutation_pick(m, 100000);
		break;
	}
	if (mutation_chance(m, 50)) {
		mutation_note(m, " truncated to %llu", (unsigned long long)less);
		mutation_lessen(m, less ? less : 1, less);
	} else {
		mutation_note(m, " not readable from %llu on", (unsigned long long)less);
		mutation_lessen(m, size, less);
	}
}

void mutate_raw(struct mutation *m)
{
	switch (mutation_pick(m, 16)) {
	case 0:
		lessen(m);
		break;
	case 1:
		zero_range(m);
		break;
	case 2:
	case 3:
		copy_blocks(m, false);
		break;
	case 4:
		copy_blocks(m, true);
		break;
	default:
		damage_blocks(m);
		break;
	}
}
