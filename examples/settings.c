/* settings.c - a configuration of several files: a reader sees one version of all of them.
 *
 *	settings IMAGE
 *
 * Saving writes every file anew, in one transaction. An optional part is tried behind a savepoint: if it
 * fails, only it is taken back, and the rest is saved.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stetfs.h>

#define SAVES 100

static const char *const files[] = { "etc/network.conf", "etc/users.conf", "etc/mail.conf" };

#define FILES (sizeof(files) / sizeof(files[0]))

static int put(struct stet_volume *vol, struct stet_txn *txn, const char *path, const char *text)
{
	struct stet_file *file;
	ssize_t n;
	int rc = stet_openat(vol, txn, STET_ROOT, path, O_WRONLY | O_CREAT | O_TRUNC, 0644, &file);

	if (rc)
		return rc;
	n = stet_pwrite(file, text, strlen(text), 0);
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

/* [save] */
/* Keeps the old files too, if that can be done. */
static int keep_old(struct stet_volume *vol, struct stet_txn *txn)
{
	int rc = stet_renameat(vol, txn, STET_ROOT, "etc", STET_ROOT, "etc.old",
			       STET_RENAME_NOREPLACE);

	return rc ? rc : stet_mkdirat(vol, txn, STET_ROOT, "etc", 0755);
}

static int save_in(struct stet_volume *vol, struct stet_txn *txn, const char *text)
{
	uint64_t before;
	int rc = stet_savepoint(txn, &before);

	if (rc)
		return rc;
	rc = keep_old(vol, txn);
	if (rc == -EEXIST) /* there are old ones already: go on without */
		rc = stet_rollback_to(txn, before);
	for (size_t i = 0; i < FILES && !rc; i++)
		rc = put(vol, txn, files[i], text);
	return rc;
}

static int save(struct stet_volume *vol, const char *text)
{
	struct stet_txn *txn;
	int rc;

	do {
		rc = stet_begin(vol, 0, &txn);
		if (rc)
			return rc;
		rc = save_in(vol, txn, text);
		if (!rc)
			rc = stet_commit(txn, 0);
		if (rc)
			stet_abort(txn);
	} while (rc == -EBUSY);
	return rc;
}
/* [end] */

static int get(struct stet_volume *vol, struct stet_txn *txn, const char *path, char text[32])
{
	struct stet_file *file;
	ssize_t n;
	int rc = stet_openat(vol, txn, STET_ROOT, path, O_RDONLY, 0, &file);

	if (rc)
		return rc;
	n = stet_pread(file, text, 31, 0);
	stet_file_close(file);
	if (n < 0)
		return (int)n;
	text[n] = 0;
	return 0;
}

/* [load] */
/* All files as they were at one moment: a read-only transaction waits for nobody. */
static int load(struct stet_volume *vol, char text[FILES][32])
{
	struct stet_txn *txn;
	int rc = stet_begin(vol, STET_BEGIN_READ_ONLY, &txn);

	if (rc)
		return rc;
	for (size_t i = 0; i < FILES && !rc; i++)
		rc = get(vol, txn, files[i], text[i]);
	stet_abort(txn);
	return rc;
}
/* [end] */

struct reader {
	struct stet_volume *vol;
	int rc, loads;
};

static void *read_on(void *arg)
{
	struct reader *reader = arg;
	char text[FILES][32];

	do {
		reader->rc = load(reader->vol, text);
		for (size_t i = 1; i < FILES && !reader->rc; i++)
			if (strcmp(text[0], text[i]) != 0)
				reader->rc = -EUCLEAN;
		reader->loads++;
	} while (!reader->rc && strcmp(text[0], "the last") != 0);
	return NULL;
}

static int run(struct stet_volume *vol)
{
	struct reader reader = { .vol = vol };
	pthread_t thread;
	char text[32];
	int rc = stet_mkdirat(vol, NULL, STET_ROOT, "etc", 0755);

	if (!rc)
		rc = save(vol, "the first");
	if (rc)
		return rc;
	if (pthread_create(&thread, NULL, read_on, &reader) != 0)
		abort();
	for (int i = 0; i < SAVES && !rc; i++) {
		snprintf(text, sizeof(text), "save %d", i);
		rc = save(vol, text);
	}
	if (!rc)
		rc = save(vol, "the last");
	if (rc)
		exit(1); /* the reader would wait for ever */
	pthread_join(thread, NULL);
	printf("%d saves, and no reader saw half of one\n", SAVES + 2);
	return reader.rc;
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = (uint64_t)32 << 20, .force = true };
	struct stet_volume *vol;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: settings IMAGE (made anew; one that is mounted is used as "
				"it is, once)\n");
		return 2;
	}
	rc = stet_mkfs(argv[1], &options);
	if (!rc || rc == -EBUSY || rc == -EACCES) /* it is mounted: then its daemon does the work */
		rc = stet_open(argv[1], NULL, &vol);
	if (!rc) {
		rc = run(vol);
		if (rc)
			fprintf(stderr, "settings: %s (%s)\n", strerror(-rc), stet_error_text());
		if (stet_close(vol) != 0)
			rc = -EIO;
	} else {
		fprintf(stderr, "settings: %s (%s)\n", strerror(-rc), stet_error_text());
	}
	return rc ? 1 : 0;
}
