/* node.c - tree nodes: build, verify, search, print.
 *
 * I1. 64 + 2 * item_count <= items_start <= 16384: the offset table ends where the items begin.
 * I2. Every item and fence lies wholly in [items_start, 16384), key and value within their limits.
 * I3. Keys rise strictly, and low <= key < high for each; an empty low (high) is minus (plus)
 *     infinity.
 * I4. Above the leaves there is at least one item, and each value is a possible node pointer.
 * I5. Only leaves of runs hold tombstones; a tombstone has no value.
 * stet_node_verify establishes I1-I5 on bytes from disk; all readers rely on them unchecked.
 *
 * The builder lays items down from the end of the node, the fences below the last of them, and
 * leaves everything else zero.
 */
#include "format/node.h"

#include "base/assert.h"
#include "base/crc.h"
#include "format/format_internal.h"
#include "format/key.h"
#include "format/value.h"

#include <string.h>

#define HEADER_BYTES ((uint32_t)sizeof(struct stet_node_disk))
#define OFFSET_BYTES 2u
#define VALUE_BYTES_MASK 0x7fffu

static const struct stet_node_disk *header(const uint8_t *node)
{
	return (const struct stet_node_disk *)node;
}

static struct stet_node_disk *header_mut(uint8_t *node)
{
	return (struct stet_node_disk *)node;
}

static uint32_t item_offset(const uint8_t *node, uint32_t index)
{
	return stet_get_le16(node + HEADER_BYTES + OFFSET_BYTES * index);
}

int stet_key_cmp(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	size_t shorter = a_bytes < b_bytes ? a_bytes : b_bytes;
	int c = shorter > 0 ? memcmp(a, b, shorter) : 0;

	if (c != 0)
		return c < 0 ? -1 : 1;
	return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* --- builder --- */

void stet_node_begin(struct stet_node_builder *b, uint8_t *node, uint32_t tree, uint32_t level)
{
	STET_ASSERT_CMP(level, <=, STET_TREE_LEVEL_MAX);
	memset(node, 0, STET_NODE_SIZE);
	header_mut(node)->magic = le64_make(STET_NODE_MAGIC);
	header_mut(node)->tree = le32_make(tree);
	header_mut(node)->level = le16_make((uint16_t)level);
	*b = (struct stet_node_builder){ .node = node, .items_start = STET_NODE_SIZE };
}

bool stet_node_fits(const struct stet_node_builder *b, size_t key_bytes, size_t value_bytes)
{
	size_t table_end = HEADER_BYTES + OFFSET_BYTES * ((size_t)b->item_count + 1);
	size_t room = b->items_start - table_end;

	if (key_bytes > STET_KEY_MAX || value_bytes > STET_VALUE_MAX || table_end > b->items_start)
		return false;
	return STET_ITEM_HEADER_BYTES + key_bytes + value_bytes + 2 * (size_t)STET_KEY_MAX <= room;
}

void stet_node_add(struct stet_node_builder *b, const void *key, size_t key_bytes,
		   const void *value, size_t value_bytes, bool tombstone)
{
	uint8_t *item;

	STET_ASSERT(stet_node_fits(b, key_bytes, value_bytes));
	STET_ASSERT(!tombstone || value_bytes == 0); /* I5 */
	b->items_start -= STET_ITEM_HEADER_BYTES + (uint32_t)(key_bytes + value_bytes);
	item = b->node + b->items_start;
	stet_put_le16(item, (uint16_t)key_bytes);
	stet_put_le16(item + 2, (uint16_t)(value_bytes | (tombstone ? STET_ITEM_TOMBSTONE : 0)));
	if (key_bytes > 0)
		memcpy(item + STET_ITEM_HEADER_BYTES, key, key_bytes);
	if (value_bytes > 0)
		memcpy(item + STET_ITEM_HEADER_BYTES + key_bytes, value, value_bytes);
	stet_put_le16(b->node + HEADER_BYTES + OFFSET_BYTES * b->item_count,
		      (uint16_t)b->items_start);
	b->item_count++;
}

uint32_t stet_node_used(const struct stet_node_builder *b)
{
	return STET_NODE_SIZE - b->items_start + OFFSET_BYTES * b->item_count;
}

/* Lays a fence below the items; returns its offset, 0 for an empty one. */
static uint16_t add_fence(struct stet_node_builder *b, const void *key, size_t key_bytes)
{
	STET_ASSERT_CMP(key_bytes, <=, STET_KEY_MAX);
	if (key_bytes == 0)
		return 0;
	b->items_start -= (uint32_t)key_bytes;
	STET_ASSERT_CMP(b->items_start, >=, HEADER_BYTES + OFFSET_BYTES * b->item_count); /* I1 */
	memcpy(b->node + b->items_start, key, key_bytes);
	return (uint16_t)b->items_start;
}

uint64_t stet_node_seal(struct stet_node_builder *b, uint64_t volume_id, uint64_t birth,
			const void *low, size_t low_bytes, const void *high, size_t high_bytes)
{
	struct stet_node_disk *h = header_mut(b->node);
	uint64_t check;

	h->low_offset = le16_make(add_fence(b, low, low_bytes));
	h->low_bytes = le16_make((uint16_t)low_bytes);
	h->high_offset = le16_make(add_fence(b, high, high_bytes));
	h->high_bytes = le16_make((uint16_t)high_bytes);
	h->volume_id = le64_make(volume_id);
	h->birth = le64_make(birth);
	h->item_count = le16_make((uint16_t)b->item_count);
	h->items_start = le16_make((uint16_t)b->items_start);
	h->check = le64_make(0);
	check = stet_crc64(b->node, STET_NODE_SIZE);
	h->check = le64_make(check);
	return check;
}

/* --- verify --- */

static int verify_identity(const struct stet_node_disk *h, uint64_t volume_id, uint32_t tree,
			   uint32_t level, const struct stet_node_ptr *expect)
{
	uint64_t check = le64_get(h->check);

	if (le64_get(h->magic) != STET_NODE_MAGIC)
		return STET_FAIL(-EUCLEAN, "node: bad magic");
	if (stet_format_check_((const uint8_t *)h, STET_NODE_SIZE,
			       offsetof(struct stet_node_disk, check)) != check)
		return STET_FAIL(-EUCLEAN, "node: bad checksum");
	if (le64_get(h->volume_id) != volume_id)
		return STET_FAIL(-EUCLEAN, "node: of volume %016" PRIx64, le64_get(h->volume_id));
	if (expect && (expect->check != check || expect->birth != le64_get(h->birth)))
		return STET_FAIL(-EUCLEAN, "node: not the one that its pointer names");
	if (le32_get(h->tree) != tree)
		return STET_FAIL(-EUCLEAN, "node: of tree %" PRIu32 ", expected %" PRIu32,
				 le32_get(h->tree), tree);
	if (level > STET_TREE_LEVEL_MAX || le16_get(h->level) != level)
		return STET_FAIL(-EUCLEAN, "node: level %u, expected %" PRIu32, le16_get(h->level),
				 level);
	return 0;
}

static bool fence_in_bounds(uint32_t start, uint32_t offset, uint32_t bytes)
{
	if (bytes == 0)
		return offset == 0;
	return bytes <= STET_KEY_MAX && offset >= start &&
	       offset <= STET_NODE_SIZE - bytes; /* I2 */
}

static int verify_bounds(const struct stet_node_disk *h)
{
	uint32_t start = le16_get(h->items_start);
	uint32_t count = le16_get(h->item_count);
	const uint8_t *node = (const uint8_t *)h;

	if (start > STET_NODE_SIZE || HEADER_BYTES + OFFSET_BYTES * count > start) /* I1 */
		return STET_FAIL(-EUCLEAN, "node: %" PRIu32 " items start at %" PRIu32, count,
				 start);
	if (count == 0 && le16_get(h->level) > 0) /* I4 */
		return STET_FAIL(-EUCLEAN, "node: level %u without items", le16_get(h->level));
	if (!fence_in_bounds(start, le16_get(h->low_offset), le16_get(h->low_bytes)) ||
	    !fence_in_bounds(start, le16_get(h->high_offset), le16_get(h->high_bytes)))
		return STET_FAIL(-EUCLEAN, "node: fence out of bounds");
	if (le16_get(h->low_bytes) > 0 && le16_get(h->high_bytes) > 0 &&
	    stet_key_cmp(node + le16_get(h->low_offset), le16_get(h->low_bytes),
			 node + le16_get(h->high_offset), le16_get(h->high_bytes)) >= 0)
		return STET_FAIL(-EUCLEAN, "node: low fence not below high fence"); /* I3 */
	return 0;
}

/* I2 of one item; nothing of it is used before its lengths are known to be right. */
static int verify_item_bounds(const uint8_t *node, uint32_t index)
{
	uint32_t offset = item_offset(node, index);
	uint32_t key_bytes;
	uint32_t value_bytes;

	if (offset < le16_get(header(node)->items_start) ||
	    offset > STET_NODE_SIZE - STET_ITEM_HEADER_BYTES)
		return STET_FAIL(-EUCLEAN, "node: item %" PRIu32 " at %" PRIu32, index, offset);
	key_bytes = stet_get_le16(node + offset);
	value_bytes = stet_get_le16(node + offset + 2) & VALUE_BYTES_MASK;
	if (key_bytes > STET_KEY_MAX || value_bytes > STET_VALUE_MAX ||
	    offset + STET_ITEM_HEADER_BYTES + key_bytes + value_bytes > STET_NODE_SIZE)
		return STET_FAIL(-EUCLEAN,
				 "node: item %" PRIu32 " at %" PRIu32 ": %" PRIu32 " + %" PRIu32
				 " bytes",
				 index, offset, key_bytes, value_bytes);
	return 0;
}

/* I4, I5 of one item. */
static int verify_item_form(const uint8_t *node, uint32_t index, const struct stet_item *item)
{
	const struct stet_node_disk *h = header(node);
	struct stet_node_ptr ptr;

	if (item->tombstone &&
	    (le16_get(h->level) > 0 || item->value_bytes > 0 || le32_get(h->tree) != STET_TREE_RUN))
		return STET_FAIL(-EUCLEAN, "node: item %" PRIu32 ": tombstone", index);
	if (le16_get(h->level) == 0)
		return 0;
	if (item->value_bytes != sizeof(struct stet_node_ptr_disk))
		return STET_FAIL(-EUCLEAN, "node: item %" PRIu32 ": pointer of %u bytes", index,
				 item->value_bytes);
	stet_node_ptr_decode((const struct stet_node_ptr_disk *)item->value, &ptr);
	if (!stet_format_node_ptr_valid_(&ptr))
		return STET_FAIL(-EUCLEAN, "node: item %" PRIu32 ": bad pointer", index);
	return 0;
}

/* I2 - I5 for all items, but for the fences. */
static int verify_items(const uint8_t *node, uint32_t count)
{
	struct stet_item prev = { .key = NULL };
	struct stet_item item;
	uint32_t bytes = 0;
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		rc = verify_item_bounds(node, i);
		if (rc)
			return rc;
		stet_node_item(node, i, &item);
		rc = verify_item_form(node, i, &item);
		if (rc)
			return rc;
		if (i > 0 && stet_key_cmp(prev.key, prev.key_bytes, item.key, item.key_bytes) >= 0)
			return STET_FAIL(-EUCLEAN, "node: item %" PRIu32 ": key order", i);
		bytes += STET_ITEM_HEADER_BYTES + item.key_bytes + item.value_bytes;
		prev = item;
	}
	/* Items that share bytes would let a node unfold to many times its size. */
	if (bytes > STET_NODE_SIZE - le16_get(header(node)->items_start))
		return STET_FAIL(-EUCLEAN, "node: items overlap");
	return 0;
}

/* I3 for the fences; the keys are known to rise. */
static int verify_fences(const uint8_t *node, uint32_t count)
{
	const uint8_t *fence;
	struct stet_item item;
	uint32_t bytes;

	if (count == 0)
		return 0;
	stet_node_low(node, &fence, &bytes);
	stet_node_item(node, 0, &item);
	if (stet_key_cmp(item.key, item.key_bytes, fence, bytes) < 0)
		return STET_FAIL(-EUCLEAN, "node: first key below low fence");
	stet_node_high(node, &fence, &bytes);
	stet_node_item(node, count - 1, &item);
	if (bytes > 0 && stet_key_cmp(item.key, item.key_bytes, fence, bytes) >= 0)
		return STET_FAIL(-EUCLEAN, "node: last key not below high fence");
	return 0;
}

int stet_node_verify(const uint8_t *node, uint64_t volume_id, uint32_t tree, uint32_t level,
		     const struct stet_node_ptr *expect)
{
	uint32_t count = stet_node_count(node);
	int rc;

	rc = verify_identity(header(node), volume_id, tree, level, expect);
	if (rc)
		return rc;
	rc = verify_bounds(header(node));
	if (rc)
		return rc;
	rc = verify_items(node, count);
	if (rc)
		return rc;
	return verify_fences(node, count);
}

/* --- read --- */

uint32_t stet_node_count(const uint8_t *node)
{
	return le16_get(header(node)->item_count);
}

uint32_t stet_node_level(const uint8_t *node)
{
	return le16_get(header(node)->level);
}

void stet_node_item(const uint8_t *node, uint32_t index, struct stet_item *ret_item)
{
	const uint8_t *p = node + item_offset(node, index);
	uint16_t value_word = stet_get_le16(p + 2);

	STET_DEBUG_ASSERT(index < stet_node_count(node));
	ret_item->key_bytes = stet_get_le16(p);
	ret_item->value_bytes = value_word & VALUE_BYTES_MASK;
	ret_item->tombstone = (value_word & STET_ITEM_TOMBSTONE) != 0;
	ret_item->key = p + STET_ITEM_HEADER_BYTES;
	ret_item->value = ret_item->key + ret_item->key_bytes;
}

/* The searched key, its first 8 bytes as a number: one compare decides between objects. */
struct needle {
	const uint8_t *key;
	size_t bytes;
	uint64_t prefix; /* valid when bytes >= 8 */
};

static int compare(const uint8_t *item, const struct needle *needle)
{
	const uint8_t *key = item + STET_ITEM_HEADER_BYTES;
	size_t bytes = stet_get_le16(item);
	uint64_t prefix;

	if (bytes < sizeof(prefix) || needle->bytes < sizeof(prefix))
		return stet_key_cmp(key, bytes, needle->key, needle->bytes);
	prefix = stet_get_be64(key);
	if (prefix != needle->prefix)
		return prefix < needle->prefix ? -1 : 1;
	return stet_key_cmp(key + sizeof(prefix), bytes - sizeof(prefix),
			    needle->key + sizeof(prefix), needle->bytes - sizeof(prefix));
}

uint32_t stet_node_search(const uint8_t *node, const void *key, size_t key_bytes, bool *ret_equal)
{
	struct needle needle = { .key = key, .bytes = key_bytes };
	uint32_t low = 0;
	uint32_t high = stet_node_count(node);

	if (key_bytes >= sizeof(needle.prefix))
		needle.prefix = stet_get_be64(key);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int c = compare(node + item_offset(node, middle), &needle);

		if (c == 0) {
			*ret_equal = true;
			return middle;
		}
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_equal = false;
	return low;
}

void stet_node_low(const uint8_t *node, const uint8_t **ret_key, uint32_t *ret_bytes)
{
	*ret_key = node + le16_get(header(node)->low_offset);
	*ret_bytes = le16_get(header(node)->low_bytes);
}

void stet_node_high(const uint8_t *node, const uint8_t **ret_key, uint32_t *ret_bytes)
{
	*ret_key = node + le16_get(header(node)->high_offset);
	*ret_bytes = le16_get(header(node)->high_bytes);
}

/* --- print --- */

static void print_item(struct stet_text *t, const struct stet_item *item, uint32_t level)
{
	struct stet_node_ptr ptr;

	stet_text_puts(t, "  ");
	stet_key_print(t, item->key, item->key_bytes);
	stet_text_puts(t, ": ");
	if (item->tombstone) {
		stet_text_puts(t, "(deleted)");
	} else if (level > 0) {
		stet_node_ptr_decode((const struct stet_node_ptr_disk *)item->value, &ptr);
		stet_format_node_ptr_print_(t, &ptr);
	} else {
		stet_value_print(t, item->key, item->key_bytes, item->value, item->value_bytes);
	}
	stet_text_puts(t, "\n");
}

void stet_node_print(struct stet_text *t, const uint8_t *node)
{
	const struct stet_node_disk *h = header(node);
	const uint8_t *fence;
	struct stet_item item;
	uint32_t bytes;

	stet_text_printf(t,
			 "node tree %" PRIu32 " level %" PRIu32 " items %" PRIu32 " birth %" PRIu64
			 " check %016" PRIx64 " [",
			 le32_get(h->tree), stet_node_level(node), stet_node_count(node),
			 le64_get(h->birth), le64_get(h->check));
	stet_node_low(node, &fence, &bytes);
	stet_key_print(t, fence, bytes);
	stet_text_puts(t, ", ");
	stet_node_high(node, &fence, &bytes);
	stet_key_print(t, fence, bytes);
	stet_text_puts(t, ")\n");
	for (uint32_t i = 0; i < stet_node_count(node); i++) {
		stet_node_item(node, i, &item);
		print_item(t, &item, stet_node_level(node));
	}
}
