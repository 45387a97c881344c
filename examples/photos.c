/* photos.c - a photo store: a row, an index entry and an image that are there together or not at all.
 *
 *	photos IMAGE
 *
 * A volume holds two tables and a directory:
 *
 *	photos    number (8 bytes, highest first) -> title
 *	by-title  title NUL number -> nothing
 *	images/   NUMBER.jpg
 *
 * Adding a photo writes to all three, in one transaction. The image, however large, goes to the disk once.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stetfs.h>

#define TITLE_MAX 255

struct store {
	struct stet_volume *vol;
	struct stet_table *photos, *by_title;
};

static _Noreturn void die(const char *what, int rc)
{
	const char *text = stet_error_text();

	fprintf(stderr, "photos: %s%s%s\n", what, rc ? ": " : "",
		!rc     ? ""
		: *text ? text
			: strerror(-rc));
	exit(1);
}

/* Numbers sort as bytes when the highest comes first. */
static void number_key(uint64_t number, uint8_t key[8])
{
	for (int i = 0; i < 8; i++)
		key[i] = (uint8_t)(number >> (56 - 8 * i));
}

static uint64_t key_number(const uint8_t *key)
{
	uint64_t number = 0;

	for (int i = 0; i < 8; i++)
		number = number << 8 | key[i];
	return number;
}

static size_t title_key(const char *title, uint64_t number, uint8_t key[STET_KEY_MAX])
{
	size_t len = strlen(title) + 1;

	memcpy(key, title, len);
	number_key(number, key + len);
	return len + 8;
}

static void image_path(uint64_t number, char path[32])
{
	snprintf(path, 32, "images/%" PRIu64 ".jpg", number);
}

static int open_store(struct store *store, struct stet_volume *vol)
{
	int rc = stet_table_open(vol, NULL, STET_ROOT, "photos", O_RDWR | O_CREAT, 0644,
				 &store->photos);

	store->vol = vol;
	if (!rc)
		rc = stet_table_open(vol, NULL, STET_ROOT, "by-title", O_RDWR | O_CREAT, 0644,
				     &store->by_title);
	if (!rc)
		rc = stet_mkdirat(vol, NULL, STET_ROOT, "images", 0755);
	return rc == -EEXIST ? 0 : rc;
}

/* One more than the last one. */
static int next_number(struct store *store, struct stet_txn *txn, uint64_t *ret)
{
	const struct stet_bounds last = { .reverse = true, .keys_only = true };
	struct stet_cursor *cursor;
	struct stet_record record;
	int rc = stet_cursor_open(store->photos, txn, &last, &cursor);

	if (rc)
		return rc;
	rc = stet_cursor_next(cursor, &record);
	if (rc == 1 && record.key_len != 8)
		rc = -EUCLEAN; /* not written by this program */
	*ret = rc == 1 ? key_number(record.key) + 1 : 1;
	stet_cursor_close(cursor);
	return rc < 0 ? rc : 0;
}

static int write_image(struct store *store, struct stet_txn *txn, uint64_t number,
		       const void *image, size_t len)
{
	struct stet_file *file;
	char path[32];
	ssize_t n = 0;
	int rc;

	image_path(number, path);
	rc = stet_openat(store->vol, txn, STET_ROOT, path, O_WRONLY | O_CREAT | O_EXCL, 0644,
			 &file);
	if (rc)
		return rc;
	for (size_t done = 0; done < len && n >= 0;
	     done += (size_t)n) /* a long one may stop short */
		n = stet_pwrite(file, (const char *)image + done, len - done, done);
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

/* [add] */
static int add_in(struct store *store, struct stet_txn *txn, const char *title, const void *image,
		  size_t len, uint64_t *ret_number)
{
	uint8_t key[8], index[STET_KEY_MAX];
	int rc = strlen(title) <= TITLE_MAX ? next_number(store, txn, ret_number) : -ENAMETOOLONG;

	if (rc)
		return rc;
	number_key(*ret_number, key);
	rc = stet_put(store->photos, txn, key, sizeof(key), title, strlen(title), STET_PUT_CREATE);
	if (!rc)
		rc = stet_put(store->by_title, txn, index, title_key(title, *ret_number, index), "",
			      0, STET_PUT_CREATE);
	if (!rc)
		rc = write_image(store, txn, *ret_number, image, len);
	return rc;
}

static int add(struct store *store, const char *title, const void *image, size_t len,
	       uint64_t *ret_number)
{
	struct stet_txn *txn;
	int rc;

	do { /* again, if another took the same number */
		rc = stet_begin(store->vol, 0, &txn);
		if (rc)
			return rc;
		rc = add_in(store, txn, title, image, len, ret_number);
		if (!rc)
			rc = stet_commit(txn, 0);
		if (rc)
			stet_abort(txn);
	} while (rc == -EBUSY);
	return rc;
}
/* [end] */

/* [forget] */
static int forget_in(struct store *store, struct stet_txn *txn, uint64_t number)
{
	uint8_t key[8], index[STET_KEY_MAX];
	char path[32], title[TITLE_MAX + 1];
	ssize_t len;
	int rc;

	number_key(number, key);
	image_path(number, path);
	len = stet_get(store->photos, txn, key, sizeof(key), title, TITLE_MAX, 0);
	if (len < 0 || len > TITLE_MAX)
		return len < 0 ? (int)len : -EUCLEAN;
	title[len] = 0;
	rc = stet_del(store->photos, txn, key, sizeof(key));
	if (!rc)
		rc = stet_del(store->by_title, txn, index, title_key(title, number, index));
	if (!rc)
		rc = stet_unlinkat(store->vol, txn, STET_ROOT, path, 0);
	return rc;
}
/* [end] */

/* [find] */
static int print_match(void *arg, const struct stet_record *record)
{
	const char *title = record->key;
	size_t len = strnlen(title, record->key_len);

	(void)arg;
	if (record->key_len != len + 1 + 8)
		return -EUCLEAN;
	printf("%4" PRIu64 "  %s\n", key_number((const uint8_t *)title + len + 1), title);
	return 0;
}

static int find(struct store *store, const char *prefix)
{
	const struct stet_bounds bounds = { .prefix = prefix, .prefix_len = strlen(prefix) };

	return stet_scan(store->by_title, NULL, &bounds, print_match, NULL);
}
/* [end] */

/* Every row has its image and its index entry, and there are no others. */
static void verify(struct store *store, uint64_t expected)
{
	const struct stet_dir_filter images = { .glob = "*.jpg" };
	struct stet_dir_entry entry;
	uint64_t rows, titles, files = 0;
	struct stet_dir *dir;
	int rc = stet_count(store->photos, NULL, NULL, &rows);

	if (!rc)
		rc = stet_count(store->by_title, NULL, NULL, &titles);
	if (!rc)
		rc = stet_dir_open(store->vol, NULL, STET_ROOT, "images", &images, &dir);
	if (rc)
		die("verify", rc);
	while ((rc = stet_dir_next(dir, &entry)) == 1)
		files++;
	stet_dir_close(dir);
	if (rc || rows != expected || titles != expected || files != expected)
		die("the store does not fit together", rc);
}

static void show(struct store *store)
{
	static const char *const titles[] = { "harbour at dawn", "harbour at night",
					      "the old mill" };
	static uint8_t image[300000];
	struct stet_txn *txn;
	uint64_t number;
	int rc = 0;

	for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]) && !rc; i++) {
		memset(image, (int)i, sizeof(image));
		rc = add(store, titles[i], image, sizeof(image), &number);
	}
	if (rc)
		die("add", rc);
	verify(store, 3);

	/* What is not committed never was. */
	rc = stet_begin(store->vol, 0, &txn);
	if (!rc)
		rc = add_in(store, txn, "never", image, sizeof(image), &number);
	if (rc)
		die("begin", rc);
	stet_abort(txn);
	verify(store, 3);

	rc = stet_begin(store->vol, 0, &txn);
	if (!rc)
		rc = forget_in(store, txn, 2);
	if (!rc)
		rc = stet_commit(txn, 0);
	if (rc)
		die("forget", rc);
	verify(store, 2);
	rc = find(store, "harbour");
	if (rc)
		die("find", rc);
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = (uint64_t)64 << 20, .force = true };
	struct stet_volume *vol;
	struct store store;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: photos IMAGE (made anew; one that is mounted is used as it "
				"is, once)\n");
		return 2;
	}
	rc = stet_mkfs(argv[1], &options);
	if (!rc || rc == -EBUSY || rc == -EACCES) /* it is mounted: then its daemon does the work */
		rc = stet_open(argv[1], NULL, &vol);
	if (!rc)
		rc = open_store(&store, vol);
	if (rc)
		die(argv[1], rc);
	show(&store);
	stet_table_close(store.photos);
	stet_table_close(store.by_title);
	rc = stet_close(vol);
	if (rc)
		die(argv[1], rc);
	return 0;
}
