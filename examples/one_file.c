/* one_file.c - keep one file in a volume: make the volume, write the file, read it back.
 *
 *	one_file IMAGE
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include <stetfs.h>

static int fail(const char *what, int rc)
{
	fprintf(stderr, "one_file: %s: %s (%s)\n", what, strerror(-rc), stet_error_text());
	return 1;
}

static int write_note(struct stet_volume *vol, const char *text)
{
	struct stet_file *file;
	ssize_t n;
	int rc = stet_openat(vol, NULL, STET_ROOT, "note.txt", O_WRONLY | O_CREAT | O_TRUNC, 0644,
			     &file);

	if (rc)
		return rc;
	n = stet_pwrite(file, text, strlen(text), 0);
	rc = n < 0 ? (int)n : stet_fsync(file); /* from here on it survives a power cut */
	stet_file_close(file);
	return rc;
}

static int print_note(struct stet_volume *vol)
{
	struct stet_file *file;
	char buf[256];
	ssize_t n;
	int rc = stet_openat(vol, NULL, STET_ROOT, "note.txt", O_RDONLY, 0, &file);

	if (rc)
		return rc;
	n = stet_pread(file, buf, sizeof(buf), 0);
	if (n > 0)
		printf("%.*s", (int)n, buf);
	stet_file_close(file);
	return n < 0 ? (int)n : 0;
}

int main(int argc, char **argv)
{
	struct stet_mkfs_options options = { .size_bytes = (uint64_t)16 << 20, .force = true };
	struct stet_volume *vol;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: one_file IMAGE (made anew; one that is mounted is used as "
				"it is, once)\n");
		return 2;
	}
	rc = stet_mkfs(argv[1], &options);
	if (rc && rc != -EBUSY && rc != -EACCES) /* busy: mounted, say; then it is used as it is */
		return fail("mkfs", rc);
	rc = stet_open(argv[1], NULL, &vol);
	if (rc)
		return fail("open", rc);
	rc = write_note(vol, "let it stand\n");
	if (!rc)
		rc = print_note(vol);
	if (rc)
		fail("note.txt", rc);
	int closed = stet_close(vol);
	if (closed)
		return fail("close", closed);
	return rc ? 1 : 0;
}
