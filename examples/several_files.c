/* several_files.c - change several files together: all of it, or nothing.
 *
 *	several_files IMAGE
 *
 * A release is published: a new directory with its files, and the link "current" that points to it. A
 * reader, or somebody who opens the image after a power cut, finds the old release or the new one,
 * never half of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <stetfs.h>

static int put(struct stet_volume *vol, struct stet_txn *txn, const char *path, const char *text)
{
	struct stet_file *file;
	ssize_t n;
	int rc = stet_openat(vol, txn, STET_ROOT, path, O_WRONLY | O_CREAT | O_EXCL, 0644, &file);

	if (rc)
		return rc;
	n = stet_pwrite(file, text, strlen(text), 0);
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

/* Everything that belongs together, in one transaction. */
static int stage(struct stet_volume *vol, struct stet_txn *txn, const char *release)
{
	char path[64];
	int rc = stet_mkdirat(vol, txn, STET_ROOT, release, 0755);

	snprintf(path, sizeof(path), "%s/program", release);
	if (!rc)
		rc = put(vol, txn, path, "the program\n");
	snprintf(path, sizeof(path), "%s/version", release);
	if (!rc)
		rc = put(vol, txn, path, release);
	if (!rc)
		rc = stet_unlinkat(vol, txn, STET_ROOT, "current", 0);
	if (rc == -ENOENT)
		rc = 0; /* the first release */
	if (!rc)
		rc = stet_symlinkat(vol, txn, release, STET_ROOT, "current");
	return rc;
}

static int publish(struct stet_volume *vol, const char *release, int keep)
{
	struct stet_txn *txn;
	int rc = stet_begin(vol, 0, &txn);

	if (rc)
		return rc;
	rc = stage(vol, txn, release);
	if (!rc && keep)
		rc = stet_commit(txn, 0);
	if (rc || !keep)
		stet_abort(txn); /* as if it had never been */
	return rc;
}

static int print_current(struct stet_volume *vol)
{
	struct stet_file *file;
	char buf[64];
	ssize_t n;
	int rc = stet_openat(vol, NULL, STET_ROOT, "current/version", O_RDONLY, 0, &file);

	if (rc)
		return rc;
	n = stet_pread(file, buf, sizeof(buf), 0);
	if (n > 0)
		printf("current: %.*s\n", (int)n, buf);
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = (uint64_t)16 << 20, .force = true };
	struct stet_volume *vol;
	int rc, closed;

	if (argc != 2) {
		fprintf(stderr, "usage: several_files IMAGE (made anew; one that is mounted is "
				"used as it is, once)\n");
		return 2;
	}
	rc = stet_mkfs(argv[1], &options);
	if (!rc || rc == -EBUSY || rc == -EACCES) /* busy: mounted, say; then it is used as it is */
		rc = stet_open(argv[1], NULL, &vol);
	if (rc) {
		fprintf(stderr, "several_files: %s: %s (%s)\n", argv[1], strerror(-rc),
			stet_error_text());
		return 1;
	}
	rc = publish(vol, "release-1", 1);
	if (!rc)
		rc = publish(vol, "release-2", 0); /* somebody changed their mind */
	if (!rc)
		rc = print_current(vol);
	if (!rc)
		rc = publish(vol, "release-2", 1);
	if (!rc)
		rc = print_current(vol);
	if (rc)
		fprintf(stderr, "several_files: %s (%s)\n", strerror(-rc), stet_error_text());
	closed = stet_close(vol);
	return rc || closed ? 1 : 0;
}
