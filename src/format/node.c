/* node.c - tree nodes: build, verify, search, print.
 *
 * I1. 64 + 2 * item_count <= items_start <= 16384: the offset table ends where the rest begins.
 * I2. From the end of the node down to items_start lie the prefix, the items, the low and the high
 *     fence, each right below the one before; keys and values are within their limits.
 * I3. Keys rise strictly, and low <= key < high for each; an empty low (high) is minus (plus)
 *     infinity.
 * I4. Above the leaves there is at least one item, and each value is a possible node pointer.
 * I5. Only leaves of runs hold tombstones; a tombstone has no value.
 * I6. The prefix is the longest that all keys have. As keys rise, it is what the first and the last
 *     begin with, and suffixes are ordered as the keys are.
 * stet_node_verify establishes I1-I6 on bytes from disk; all readers rely on them unchecked.
 *
 * The builder lays all this down in that order, and leaves everything else zero.
 */
#include "format/node.h"

#include "base/assert.h"
#include "base/crc.h"
#include "format/format_internal.h"
#include "format/value.h"

#include <string.h>

#define HEADER_BYTES ((uint32_t)sizeof(struct stet_node_disk))
#define OFFSET_BYTES 2u
#define SUFFIX_BYTES_MASK 0x7fffu

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
	return stet_get_le16(node + HEADER_BYTES + (size_t)OFFSET_BYTES * index);
}

/* Where the item ends. */
static uint32_t item_end(const uint8_t *node, uint32_t index)
{
	return index > 0 ? item_offset(node, index - 1)
			 : STET_NODE_SIZE - le16_get(header(node)->prefix_bytes);
}

static uint32_t item_suffix_bytes(const uint8_t *item)
{
	return stet_get_le16(item) & SUFFIX_BYTES_MASK;
}

int stet_key_cmp(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	size_t shorter = a_bytes < b_bytes ? a_bytes : b_bytes;
	int c = shorter > 0 ? memcmp(a, b, shorter) : 0;

	if (c != 0)
		return c < 0 ? -1 : 1;
	return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

size_t stet_key_common(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
	const uint8_t *x = a;
	const uint8_t *y = b;
	size_t shorter = a_bytes < b_bytes ? a_bytes : b_bytes;
	size_t n = 0;

	for (; n + sizeof(uint64_t) <= shorter; n += sizeof(uint64_t)) {
		uint64_t differ = stet_get_be64(x + n) ^ stet_get_be64(y + n);

		if (differ != 0)
			return n + (size_t)__builtin_clzll(differ) / 8;
	}
	while (n < shorter && x[n] == y[n])
		n++;
	return n;
}

/* --- suffixes --- */

/* A suffix, or what of a searched key follows the prefix. Its first 8 bytes, zeros behind its end, are
 * also a number: most compares are of two of these. */
struct suffix {
	const uint8_t *p;
	size_t bytes;
	uint64_t head;
};

/* The head of so many bytes, none of which is followed by others to read: of the ends of a short one,
 * which overlap. */
static uint64_t short_head(const uint8_t *p, size_t bytes)
{
	if (bytes >= sizeof(uint64_t))
		return stet_get_be64(p);
	if (bytes >= sizeof(uint32_t))
		return (uint64_t)stet_get_be32(p) << 32 | (uint64_t)stet_get_be32(p + bytes - 4)
								  << (64 - 8 * bytes);
	if (bytes == 0)
		return 0;
	return (uint64_t)p[0] << 56 | (uint64_t)p[bytes / 2] << (56 - 8 * (bytes / 2)) |
	       (uint64_t)p[bytes - 1] << (64 - 8 * bytes);
}

/* Of an item's suffix; what lies behind a short one is read with it, unless the node ends there. */
static uint64_t item_head(const uint8_t *node, uint32_t offset)
{
	const uint8_t *p = node + offset + STET_ITEM_HEADER_BYTES;
	uint32_t bytes = item_suffix_bytes(node + offset);

	if (offset > STET_NODE_SIZE - STET_ITEM_HEADER_BYTES - sizeof(uint64_t))
		return short_head(p, bytes);
	return stet_get_be64(p) &
	       (bytes < sizeof(uint64_t) ? ~(UINT64_MAX >> 8 * bytes) : UINT64_MAX);
}

static struct suffix item_suffix(const uint8_t *node, uint32_t index)
{
	uint32_t offset = item_offset(node, index);

	return (struct suffix){ node + offset + STET_ITEM_HEADER_BYTES,
				item_suffix_bytes(node + offset), item_head(node, offset) };
}

/* Equal heads: if one ends within its own, it is a prefix of the other, zeros or not. */
static int suffix_cmp(const struct suffix *a, const struct suffix *b)
{
	const size_t head = sizeof(a->head);

	if (a->head != b->head)
		return a->head < b->head ? -1 : 1;
	if (a->bytes > head && b->bytes > head)
		return stet_key_cmp(a->p + head, a->bytes - head, b->p + head, b->bytes - head);
	return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static const uint8_t *prefix_of(const uint8_t *node, uint32_t *ret_bytes)
{
	*ret_bytes = le16_get(header(node)->prefix_bytes);
	return node + STET_NODE_SIZE - *ret_bytes;
}

/* --- builder --- */

/* Lays bytes of a key below what is there. */
static void lay_key(struct stet_node_builder *b, const void *key, size_t key_bytes)
{
	STET_ASSERT_CMP(key_bytes, <=, STET_ITEM_KEY_MAX);
	b->items_start -= (uint32_t)key_bytes;
	STET_ASSERT_CMP(b->items_start, >=, HEADER_BYTES + OFFSET_BYTES * b->item_count); /* I1 */
	if (key_bytes > 0)
		memcpy(b->node + b->items_start, key, key_bytes);
}

void stet_node_begin(struct stet_node_builder *b, uint8_t *node, uint32_t tree, uint32_t level,
		     const void *prefix, size_t prefix_bytes)
{
	STET_ASSERT_CMP(level, <=, STET_TREE_LEVEL_MAX);
	memset(node, 0, STET_NODE_SIZE);
	header_mut(node)->magic = le64_make(STET_NODE_MAGIC);
	header_mut(node)->tree = le32_make(tree);
	header_mut(node)->level = le16_make((uint16_t)level);
	*b = (struct stet_node_builder){
		.node = node,
		.items_start = STET_NODE_SIZE,
		.prefix_bytes = (uint32_t)prefix_bytes,
	};
	lay_key(b, prefix, prefix_bytes);
	header_mut(node)->prefix_bytes = le16_make((uint16_t)prefix_bytes);
}

bool stet_node_fits(const struct stet_node_builder *b, size_t key_bytes, size_t value_bytes)
{
	size_t table_end = HEADER_BYTES + OFFSET_BYTES * ((size_t)b->item_count + 1);
	size_t room = b->items_start - table_end;

	if (key_bytes > STET_ITEM_KEY_MAX || value_bytes > STET_VALUE_MAX ||
	    table_end > b->items_start)
		return false;
	STET_ASSERT_CMP(key_bytes, >=, b->prefix_bytes);
	return STET_ITEM_HEADER_BYTES + key_bytes - b->prefix_bytes + value_bytes +
		       2 * (size_t)STET_ITEM_KEY_MAX <=
	       room;
}

void stet_node_add(struct stet_node_builder *b, const void *key, size_t key_bytes,
		   const void *value, size_t value_bytes, bool tombstone)
{
	size_t suffix_bytes = key_bytes - b->prefix_bytes;
	uint8_t *item;

	STET_ASSERT(stet_node_fits(b, key_bytes, value_bytes));
	STET_ASSERT(!tombstone || value_bytes == 0); /* I5 */
	b->items_start -= STET_ITEM_HEADER_BYTES + (uint32_t)(suffix_bytes + value_bytes);
	item = b->node + b->items_start;
	stet_put_le16(item, (uint16_t)(suffix_bytes | (tombstone ? STET_ITEM_TOMBSTONE : 0)));
	if (suffix_bytes > 0)
		memcpy(item + STET_ITEM_HEADER_BYTES, (const uint8_t *)key + b->prefix_bytes,
		       suffix_bytes);
	if (value_bytes > 0)
		memcpy(item + STET_ITEM_HEADER_BYTES + suffix_bytes, value, value_bytes);
	stet_put_le16(b->node + HEADER_BYTES + (size_t)OFFSET_BYTES * b->item_count,
		      (uint16_t)b->items_start);
	b->item_count++;
}

uint32_t stet_node_used(const struct stet_node_builder *b)
{
	return STET_NODE_SIZE - b->items_start + OFFSET_BYTES * b->item_count;
}

uint64_t stet_node_seal(struct stet_node_builder *b, uint64_t volume_id, uint64_t birth,
			const void *low, size_t low_bytes, const void *high, size_t high_bytes)
{
	struct stet_node_disk *h = header_mut(b->node);
	uint64_t check;

	lay_key(b, low, low_bytes);
	h->low_bytes = le16_make((uint16_t)low_bytes);
	lay_key(b, high, high_bytes);
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

static int verify_bounds(const struct stet_node_disk *h)
{
	uint32_t start = le16_get(h->items_start);
	uint32_t count = le16_get(h->item_count);

	if (start > STET_NODE_SIZE || HEADER_BYTES + OFFSET_BYTES * count > start) /* I1 */
		return STET_FAIL(-EUCLEAN, "node: %" PRIu32 " items start at %" PRIu32, count,
				 start);
	if (count == 0 && le16_get(h->level) > 0) /* I4 */
		return STET_FAIL(-EUCLEAN, "node: level %u without items", le16_get(h->level));
	if (le16_get(h->low_bytes) > STET_ITEM_KEY_MAX ||
	    le16_get(h->high_bytes) > STET_ITEM_KEY_MAX ||
	    le16_get(h->prefix_bytes) > STET_ITEM_KEY_MAX)
		return STET_FAIL(-EUCLEAN, "node: fence or prefix too long");
	return 0;
}

/* I2 of one item, which ends where those before it are known to begin; nothing of it is used before its
 * lengths are known to be right. */
static int verify_item_bounds(const uint8_t *node, uint32_t index)
{
	uint32_t offset = item_offset(node, index);
	uint32_t end = item_end(node, index);
	uint32_t suffix_bytes;

	if (offset + STET_ITEM_HEADER_BYTES > end)
		return STET_FAIL(-EUCLEAN, "node: item %" PRIu32 " from %" PRIu32 " to %" PRIu32,
				 index, offset, end);
	suffix_bytes = item_suffix_bytes(node + offset);
	end -= offset + STET_ITEM_HEADER_BYTES;
	if (suffix_bytes > STET_ITEM_KEY_MAX - le16_get(header(node)->prefix_bytes) ||
	    suffix_bytes > end || end - suffix_bytes > STET_VALUE_MAX)
		return STET_FAIL(-EUCLEAN,
				 "node: item %" PRIu32 " at %" PRIu32 ": %" PRIu32 " of %" PRIu32
				 " bytes",
				 index, offset, suffix_bytes, end);
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

/* I6; the keys are known to rise. */
static int verify_prefix(const struct stet_node_disk *h, uint32_t count, const struct suffix *first,
			 const struct suffix *last)
{
	bool longest = le16_get(h->prefix_bytes) == 0;

	if (count == 1)
		longest = first->bytes == 0;
	else if (count > 1)
		longest = first->bytes == 0 || first->p[0] != last->p[0];
	return longest ? 0 : STET_FAIL(-EUCLEAN, "node: prefix is not the longest");
}

/* I2 - I6 for all items; where the fences lie. */
static int verify_items(const uint8_t *node, uint32_t count)
{
	const struct stet_node_disk *h = header(node);
	uint32_t fence_bytes = (uint32_t)le16_get(h->low_bytes) + le16_get(h->high_bytes);
	struct suffix first = { .p = NULL };
	struct suffix prev = { .p = NULL };
	struct suffix suffix;
	struct stet_item item;
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		rc = verify_item_bounds(node, i);
		if (rc)
			return rc;
		stet_node_item(node, i, &item);
		rc = verify_item_form(node, i, &item);
		if (rc)
			return rc;
		suffix = item_suffix(node, i);
		if (i == 0)
			first = suffix;
		else if (suffix_cmp(&prev, &suffix) >= 0)
			return STET_FAIL(-EUCLEAN, "node: item %" PRIu32 ": key order", i);
		prev = suffix;
	}
	if (item_end(node, count) != le16_get(h->items_start) + fence_bytes)
		return STET_FAIL(-EUCLEAN,
				 "node: fences of %" PRIu32 " bytes do not fit below %" PRIu32,
				 fence_bytes, item_end(node, count));
	return verify_prefix(h, count, &first, &prev);
}

/* I3 for the fences; the keys are known to rise. */
static int verify_fences(const uint8_t *node, uint32_t count)
{
	const uint8_t *low, *high;
	uint32_t low_bytes, high_bytes;

	stet_node_low(node, &low, &low_bytes);
	stet_node_high(node, &high, &high_bytes);
	if (high_bytes > 0 && stet_key_cmp(low, low_bytes, high, high_bytes) >= 0)
		return STET_FAIL(-EUCLEAN, "node: low fence not below high fence");
	if (count == 0)
		return 0;
	if (stet_node_key_cmp(node, 0, low, low_bytes) < 0)
		return STET_FAIL(-EUCLEAN, "node: first key below low fence");
	if (high_bytes > 0 && stet_node_key_cmp(node, count - 1, high, high_bytes) >= 0)
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

	STET_DEBUG_ASSERT(index < stet_node_count(node));
	ret_item->value = p + STET_ITEM_HEADER_BYTES + item_suffix_bytes(p);
	ret_item->value_bytes = (uint16_t)(node + item_end(node, index) - ret_item->value);
	ret_item->tombstone = (stet_get_le16(p) & STET_ITEM_TOMBSTONE) != 0;
}

void stet_node_key(const uint8_t *node, uint32_t index, struct stet_key *ret_key)
{
	const uint8_t *item = node + item_offset(node, index);
	uint32_t suffix_bytes = item_suffix_bytes(item);
	uint32_t prefix_bytes;
	const uint8_t *prefix = prefix_of(node, &prefix_bytes);

	STET_DEBUG_ASSERT(index < stet_node_count(node));
	memcpy(ret_key->b, prefix, prefix_bytes);
	memcpy(ret_key->b + prefix_bytes, item + STET_ITEM_HEADER_BYTES, suffix_bytes);
	ret_key->bytes = (uint16_t)(prefix_bytes + suffix_bytes);
}

/* 0: the key begins with the prefix; else how all keys that do so compare with it. */
static int prefix_cmp(const uint8_t *prefix, size_t prefix_bytes, const uint8_t *key,
		      size_t key_bytes)
{
	size_t n = prefix_bytes < key_bytes ? prefix_bytes : key_bytes;

	for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
		uint64_t a = short_head(prefix + i, n - i);
		uint64_t b = short_head(key + i, n - i);

		if (a != b)
			return a < b ? -1 : 1;
	}
	return key_bytes < prefix_bytes; /* a proper prefix of it is below */
}

int stet_node_key_cmp(const uint8_t *node, uint32_t index, const void *key, size_t key_bytes)
{
	const uint8_t *item = node + item_offset(node, index);
	uint32_t prefix_bytes;
	const uint8_t *prefix = prefix_of(node, &prefix_bytes);
	int c = prefix_cmp(prefix, prefix_bytes, key, key_bytes);

	STET_DEBUG_ASSERT(index < stet_node_count(node));
	if (c != 0)
		return c;
	if (key_bytes == 0) /* key may be NULL */
		return item_suffix_bytes(item) > 0;
	return stet_key_cmp(item + STET_ITEM_HEADER_BYTES, item_suffix_bytes(item),
			    (const uint8_t *)key + prefix_bytes, key_bytes - prefix_bytes);
}

void stet_node_guide(const uint8_t *node, struct stet_node_guide *ret)
{
	uint32_t count = stet_node_count(node);

	ret->count = 0;
	if (count < 2 * (STET_NODE_SIGNS + 1))
		return;
	for (uint32_t i = 0; i < STET_NODE_SIGNS; i++) {
		uint32_t index = (i + 1) * count / (STET_NODE_SIGNS + 1);

		ret->index[i] = (uint16_t)index;
		ret->head[i] = item_suffix(node, index).head;
	}
	ret->count = STET_NODE_SIGNS;
}

/* Narrows [*low, *high) to where a key with this head may be. Equal heads say nothing. */
static void follow(const struct stet_node_guide *guide, uint64_t head, uint32_t *low,
		   uint32_t *high)
{
	uint32_t below = 0;
	uint32_t above;

	for (uint32_t i = 0; i < guide->count; i++)
		below += guide->head[i] < head;
	for (above = below; above < guide->count && guide->head[above] == head;)
		above++;
	if (below > 0)
		*low = guide->index[below - 1] + 1u;
	if (above < guide->count)
		*high = guide->index[above];
}

/* With branches on purpose: the processor follows its guess, and so fetches what it will compare next,
 * which a search without them cannot. Nodes are seldom in its caches. */
uint32_t stet_node_search(const uint8_t *node, const struct stet_node_guide *guide, const void *key,
			  size_t key_bytes, bool *ret_equal)
{
	uint32_t low = 0;
	uint32_t high = stet_node_count(node);
	struct suffix needle;
	uint32_t prefix_bytes;
	const uint8_t *prefix = prefix_of(node, &prefix_bytes);
	int c = prefix_cmp(prefix, prefix_bytes, key, key_bytes);

	*ret_equal = false;
	if (c != 0)
		return c < 0 ? high : 0;
	needle.p = key_bytes > 0 ? (const uint8_t *)key + prefix_bytes : prefix;
	needle.bytes = key_bytes - prefix_bytes;
	needle.head = short_head(needle.p, needle.bytes);
	if (guide)
		follow(guide, needle.head, &low, &high);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		struct suffix suffix = item_suffix(node, middle);

		c = suffix_cmp(&suffix, &needle);
		if (c == 0) {
			*ret_equal = true;
			return middle;
		}
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void stet_node_low(const uint8_t *node, const uint8_t **ret_key, uint32_t *ret_bytes)
{
	*ret_key = node + le16_get(header(node)->items_start) + le16_get(header(node)->high_bytes);
	*ret_bytes = le16_get(header(node)->low_bytes);
}

void stet_node_high(const uint8_t *node, const uint8_t **ret_key, uint32_t *ret_bytes)
{
	*ret_key = node + le16_get(header(node)->items_start);
	*ret_bytes = le16_get(header(node)->high_bytes);
}

/* --- print --- */

static void print_item(struct stet_text *t, const uint8_t *node, uint32_t index)
{
	struct stet_node_ptr ptr;
	struct stet_item item;
	struct stet_key key;

	stet_node_item(node, index, &item);
	stet_node_key(node, index, &key);
	stet_text_puts(t, "  ");
	stet_key_print(t, key.b, key.bytes);
	stet_text_puts(t, ": ");
	if (item.tombstone) {
		stet_text_puts(t, "(deleted)");
	} else if (stet_node_level(node) > 0) {
		stet_node_ptr_decode((const struct stet_node_ptr_disk *)item.value, &ptr);
		stet_format_node_ptr_print_(t, &ptr);
	} else {
		stet_value_print(t, key.b, key.bytes, item.value, item.value_bytes);
	}
	stet_text_puts(t, "\n");
}

void stet_node_print(struct stet_text *t, const uint8_t *node)
{
	const struct stet_node_disk *h = header(node);
	const uint8_t *fence;
	uint32_t bytes;

	stet_text_printf(t,
			 "node tree %" PRIu32 " level %" PRIu32 " items %" PRIu32
			 " prefix %u birth %" PRIu64 " check %016" PRIx64 " [",
			 le32_get(h->tree), stet_node_level(node), stet_node_count(node),
			 le16_get(h->prefix_bytes), le64_get(h->birth), le64_get(h->check));
	stet_node_low(node, &fence, &bytes);
	stet_key_print(t, fence, bytes);
	stet_text_puts(t, ", ");
	stet_node_high(node, &fence, &bytes);
	stet_key_print(t, fence, bytes);
	stet_text_puts(t, ")\n");
	for (uint32_t i = 0; i < stet_node_count(node); i++)
		print_item(t, node, i);
}
