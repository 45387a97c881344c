/* content.c - what lies in a file or on a device that somebody wants to make a volume of.
 *
 * I1. "Empty" is said only of what holds nothing but zeros: of an image file wherever it has data,
 *     of a block device at both ends, where file systems and partition tables have their marks.
 * I2. Nothing is written here, and nothing waits for a FIFO's other end.
 */
#include "cli/content_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)1 << 20)

static const struct {
	const char *name;
	uint32_t off;
	uint32_t len;
	const char *bytes;
} marks[] = {
	{ "an XFS file system", 0, 4, "XFSB" },
	{ "a LUKS volume", 0, 6, "LUKS\xba\xbe" },
	{ "a squashfs file system", 0, 4, "hsqs" },
	{ "a QCOW image", 0, 4, "QFI\xfb" },
	{ "an NTFS file system", 3, 8, "NTFS    " },
	{ "an exFAT file system", 3, 8, "EXFAT   " },
	{ "a FAT file system", 0x36, 3, "FAT" },
	{ "a FAT file system", 0x52, 5, "FAT32" },
	{ "an LVM volume", 0x218, 8, "LVM2 001" },
	{ "a GPT partition table", 512, 8, "EFI PART" },
	{ "an F2FS file system", 0x400, 4, "\x10\x20\xf5\xf2" },
	{ "an ext2, ext3 or ext4 file system", 0x438, 2, "\x53\xef" },
	{ "swap space", 4086, 10, "SWAPSPACE2" },
	{ "an ISO 9660 file system", 0x8001, 5, "CD001" },
	{ "a btrfs file system", 0x10040, 8, "_BHRfS_M" },
	{ "a partition table", 510, 2, "\x55\xaa" },
};

static ssize_t read_at(int fd, char *buf, size_t len, uint64_t off)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, buf + done, len - done, (off_t)(off + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static bool is_zero(const char *buf, size_t len)
{
	return len == 0 || (buf[0] == 0 && memcmp(buf, buf + 1, len - 1) == 0);
}

static const char *find_mark(const char *buf, size_t len)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		if (marks[i].off + marks[i].len <= len &&
		    memcmp(buf + marks[i].off, marks[i].bytes, marks[i].len) == 0)
			return marks[i].name;
	}
	return "data";
}

/* Looks for anything but zeros in [off, end). 0 or a negative errno value. */
static int scan(int fd, char *buf, uint64_t off, uint64_t end, struct stet_cli_content *ret)
{
	while (off < end && !ret->what) {
		size_t want = end - off < CHUNK_BYTES ? (size_t)(end - off) : CHUNK_BYTES;
		ssize_t n = read_at(fd, buf, want, off);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return 0;
		if (!is_zero(buf, (size_t)n))
			ret->what = off == 0 ? find_mark(buf, (size_t)n) : "data";
		off += (uint64_t)n;
	}
	return 0;
}

static int scan_file(int fd, char *buf, struct stet_cli_content *ret)
{
	off_t off = 0;
	int rc = 0;

	while (!rc && !ret->what) {
		off_t data = lseek(fd, off, SEEK_DATA);

		if (data < 0)
			return errno == ENXIO ? 0 : scan(fd, buf, 0, ret->size_bytes, ret);
		off = lseek(fd, data, SEEK_HOLE);
		if (off < 0)
			return -errno;
		rc = scan(fd, buf, (uint64_t)data, (uint64_t)off, ret);
	}
	return rc;
}

static int scan_device(int fd, char *buf, struct stet_cli_content *ret)
{
	uint64_t size = 0;
	int rc;

	if (ioctl(fd, BLKGETSIZE64, &size) < 0)
		return -errno;
	ret->size_bytes = size;
	rc = scan(fd, buf, 0, size < CHUNK_BYTES ? size : CHUNK_BYTES, ret);
	if (!rc && size > CHUNK_BYTES)
		rc = scan(fd, buf, size - CHUNK_BYTES, size, ret);
	return rc;
}

int stet_cli_inspect_(const char *path, struct stet_cli_content *ret)
{
	struct stet_cli_content content = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	char *buf;
	int rc;

	*ret = content;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) != 0) {
		rc = -errno;
		close(fd);
		return rc;
	}
	content.exists = true;
	content.is_device = S_ISBLK(st.st_mode);
	content.size_bytes = (uint64_t)st.st_size;
	buf = stet_cli_alloc_(CHUNK_BYTES);
	if (content.is_device)
		rc = scan_device(fd, buf, &content);
	else
		rc = S_ISREG(st.st_mode) ? scan_file(fd, buf, &content) : -EINVAL;
	free(buf);
	close(fd);
	if (!rc)
		*ret = content;
	return rc;
}
