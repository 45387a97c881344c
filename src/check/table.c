/* table.c - records: do they lie in a table, and is each value that lies in blocks whole, and alone there?
 *
 * A table's extents come before its records, by block; those of one value are next to each other (doc/format.md,
 * 13). They are collected per value; a record takes its value's; what is left at the end of the inode belongs to
 * nobody. A table that is being reclaimed may have lost any of them. Memory: 24 bytes for each such value of one
 * table.
 */
#include "check/check_internal.h"
#include "format/key.h"
#include "format/value.h"

static struct stet_check_inode *table_at_hand(struct stet_checker *c)
{
	return c->inodes.n > 0 ? &c->inodes.v[c->inodes.n - 1] : NULL;
}

static bool being_reclaimed(struct stet_checker *c)
{
	const struct stet_check_inode *table = table_at_hand(c);

	return table && table->nlink == 0;
}

int stet_check_table_extent_(struct stet_checker *c, uint64_t first, uint32_t blocks)
{
	struct stet_check_blocks *last = c->blocks.n > 0 ? &c->blocks.v[c->blocks.n - 1] : NULL;
	struct stet_check_blocks fresh = { .number = first / STET_RECORD_BLOCKS };

	if (!last || last->number != fresh.number) {
		int rc = stet_vec_push(&c->blocks, fresh);

		if (rc)
			return rc;
		last = &c->blocks.v[c->blocks.n - 1];
	}
	if (first % STET_RECORD_BLOCKS != last->blocks ||
	    last->blocks + blocks > STET_RECORD_BLOCKS)
		last->broken = true;
	last->blocks += blocks;
	return 0;
}

static struct stet_check_blocks *find_blocks(struct stet_checker *c, uint64_t number)
{
	size_t low = 0, high = c->blocks.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (c->blocks.v[mid].number < number)
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->blocks.n && c->blocks.v[low].number == number ? &c->blocks.v[low] : NULL;
}

static int take_blocks(struct stet_checker *c, uint64_t ino, const struct stet_xattr *x)
{
	struct stet_check_blocks *blocks = find_blocks(c, x->chunks / STET_RECORD_BLOCKS);
	uint64_t want = ((uint64_t)x->size_bytes + STET_BLOCK_SIZE - 1) / STET_BLOCK_SIZE;

	if (blocks && !blocks->broken && !blocks->taken && blocks->blocks == want) {
		blocks->taken = true;
		return 0;
	}
	if (being_reclaimed(c))
		return 0;
	if (blocks)
		blocks->taken = true;
	return stet_check_report_(c, STET_PROBLEM_RECORD_VALUE, ino, "%u bytes from block %llu",
				  x->size_bytes, (unsigned long long)x->chunks);
}

int stet_check_record_(struct stet_checker *c, uint64_t ino, const struct stet_key *key,
		       const struct stet_val *val)
{
	struct stet_check_inode *table = table_at_hand(c);
	struct stet_xattr x;

	if (stet_xattr_decode(val->b, val->bytes, STET_KIND_RECORD,
			      stet_engine_superblock(c->engine)->seg_blocks, &x))
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino, "%s", stet_error_text());
	if (!table || table->ino != ino)
		return stet_check_report_(c, STET_PROBLEM_NO_INODE, ino, "a record");
	if (!STET_MODE_IS_TABLE(table->mode))
		return stet_check_report_(c, STET_PROBLEM_RECORD_NOT_TABLE, ino,
					  "mode %o, a key of %u bytes", table->mode,
					  key->bytes - 9u);
	table->found_records++;
	c->sum.records++;
	if (x.chunks != 0)
		return take_blocks(c, ino, &x);
	if (!x.data) /* nobody writes that */
		return stet_check_report_(c, STET_PROBLEM_ITEM_BAD, ino,
					  "a record's value in an extent");
	return 0;
}

int stet_check_records_end_(struct stet_checker *c)
{
	const struct stet_check_inode *table = table_at_hand(c);
	int rc = 0;

	for (size_t i = 0; i < c->blocks.n && !rc && !being_reclaimed(c); i++) {
		const struct stet_check_blocks *blocks = &c->blocks.v[i];

		if (!blocks->taken)
			rc = stet_check_report_(
				c, STET_PROBLEM_RECORD_LEFTOVER, table ? table->ino : 0,
				"%u blocks from %llu", blocks->blocks,
				(unsigned long long)(blocks->number * STET_RECORD_BLOCKS));
	}
	stet_vec_clear(&c->blocks);
	return rc;
}
