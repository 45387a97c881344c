/* format_internal.h - what the files of this folder share. */
#ifndef STET_FORMAT_FORMAT_INTERNAL_H
#define STET_FORMAT_FORMAT_INTERNAL_H

#include "base/text.h"
#include "format/checkpoint.h"
#include "format/types.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

/* How messages and printers show an address: segment id:block. */
#define STET_ADDR_FMT "%" PRIu64 ":%" PRIu32
#define STET_ADDR_ARG(addr) stet_addr_seg(addr), stet_addr_block(addr)

/**
 * stet_crc64 of the buffer with the 8 bytes at field_offset taken as zero: how a structure is
 * checked that holds its own checksum. The buffer is whole blocks, the field in the first 256 bytes.
 */
uint64_t stet_format_check_(const uint8_t *buf, size_t len_bytes, size_t field_offset);

/** The place codec of slots, records and summaries. */
struct stet_place_disk stet_format_place_make_(const struct stet_place *place);
struct stet_place stet_format_place_get_(const struct stet_place_disk *in);

/** Whether the place names `blocks` blocks within one segment and a slot, or is wholly none. */
bool stet_format_place_valid_(const struct stet_place *place, uint32_t blocks, uint32_t seg_blocks);

/** Whether the node pointer's addresses can hold a node; none and equal ones cannot. */
bool stet_format_node_ptr_valid_(const struct stet_node_ptr *ptr);

/** Appends "name=address@slot" with a blank in front. */
void stet_format_place_print_(struct stet_text *t, const char *name,
			      const struct stet_place *place);

/** Appends "address [address2] birth check". */
void stet_format_node_ptr_print_(struct stet_text *t, const struct stet_node_ptr *ptr);

#endif
