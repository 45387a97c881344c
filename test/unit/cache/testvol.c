/* testvol.c - see testvol.h. Defines stet_space_locate itself, so space/ is not linked. */
#include "testvol.h"

struct stet_space {
	bool gone[TESTVOL_SEGS];
};

int stet_space_locate(const struct stet_space *space, struct stet_addr addr, uint32_t blocks,
		      uint64_t *ret_off_bytes)
{
	uint64_t seg = stet_addr_seg(addr);

	if (seg == 0 || seg >= TESTVOL_SEGS || space->gone[seg])
		return STET_FAIL(-ESTALE, "segment %llu is gone", (unsigned long long)seg);
	if (!stet_addr_fits(addr, blocks, TESTVOL_SEG_BLOCKS))
		return STET_FAIL(-EUCLEAN, "run leaves segment %llu", (unsigned long long)seg);
	*ret_off_bytes = testvol_offset(addr);
	return 0;
}

uint64_t testvol_offset(struct stet_addr addr)
{
	return (stet_addr_seg(addr) * TESTVOL_SEG_BLOCKS + stet_addr_block(addr)) * STET_BLOCK_SIZE;
}

static void make_cache(struct testvol *vol, uint64_t limit_bytes)
{
	assert_int_equal(
		stet_cache_create(vol->device, vol->space, &vol->sb, limit_bytes, &vol->cache), 0);
}

void testvol_open(struct testvol *vol, uint8_t data_copies, uint64_t limit_bytes)
{
	memset(vol, 0, sizeof(*vol));
	assert_int_equal(stet_device_open_memory((uint64_t)TESTVOL_SEGS * TESTVOL_SEG_BLOCKS *
							 STET_BLOCK_SIZE,
						 &vol->memory),
			 0);
	assert_int_equal(sim_fault_create(vol->memory, 1, &vol->fault), 0);
	vol->device = sim_fault_device(vol->fault);
	vol->space = calloc(1, sizeof(*vol->space));
	assert_non_null(vol->space);
	vol->sb.volume_id = TESTVOL_ID;
	vol->sb.seg_blocks = TESTVOL_SEG_BLOCKS;
	vol->sb.slot_count = TESTVOL_SEGS;
	vol->sb.meta_copies = 2;
	vol->sb.data_copies = data_copies;
	vol->next_block = TESTVOL_SEG_BLOCKS; /* segment 1 */
	make_cache(vol, limit_bytes);
}

void testvol_close(struct testvol *vol)
{
	stet_cache_check(vol->cache);
	stet_cache_destroy(vol->cache);
	free(vol->space);
	sim_fault_destroy(vol->fault);
	stet_device_close(vol->memory);
}

void testvol_drop_cache(struct testvol *vol, uint64_t limit_bytes)
{
	stet_cache_check(vol->cache);
	stet_cache_destroy(vol->cache);
	make_cache(vol, limit_bytes);
}

struct stet_addr testvol_place(struct testvol *vol, uint32_t blocks)
{
	uint64_t room = TESTVOL_SEG_BLOCKS - vol->next_block % TESTVOL_SEG_BLOCKS;
	uint64_t at;

	if (room < blocks)
		vol->next_block += room;
	at = vol->next_block;
	vol->next_block += blocks;
	assert_true(vol->next_block <= (uint64_t)TESTVOL_SEGS * TESTVOL_SEG_BLOCKS);
	return stet_addr_make(at / TESTVOL_SEG_BLOCKS, (uint32_t)(at % TESTVOL_SEG_BLOCKS));
}

void testvol_write(struct testvol *vol, struct stet_addr addr, const void *data, uint32_t blocks)
{
	assert_int_equal(stet_device_write(vol->memory, testvol_offset(addr), data,
					   (size_t)blocks * STET_BLOCK_SIZE),
			 0);
}

void testvol_flip(struct testvol *vol, struct stet_addr addr, uint32_t bit)
{
	uint64_t off_bytes = testvol_offset(addr) + bit / 8;
	uint8_t byte;

	assert_int_equal(stet_device_read(vol->memory, off_bytes, &byte, 1), 0);
	byte = (uint8_t)(byte ^ (1u << bit % 8));
	assert_int_equal(stet_device_write(vol->memory, off_bytes, &byte, 1), 0);
}

void testvol_set_gone(struct testvol *vol, struct stet_addr addr, bool gone)
{
	vol->space->gone[stet_addr_seg(addr)] = gone;
}

struct stet_cache_usage testvol_usage(const struct testvol *vol)
{
	struct stet_cache_usage usage;

	stet_cache_usage(vol->cache, &usage);
	return usage;
}
