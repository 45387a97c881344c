/* public.c - what people do with an image that does not work: check it, and look inside.
 *
 * The image becomes a file in memory, and goes through the library's own doors. They must come back, with an
 * answer or an error; and the check must not be better pleased than the one below was.
 */
#include "judge.h"

#include "base/assert.h"
#include "device/device.h"
#include "stetfs.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK_BYTES (UINT64_C(64) << 10)

static void save(struct stet_device *device, int fd)
{
	static uint8_t buf[CHUNK_BYTES];

	STET_ASSERT(ftruncate(fd, (off_t)device->size_bytes) == 0);
	for (uint64_t off = 0; off < device->size_bytes; off += CHUNK_BYTES) {
		size_t n = device->size_bytes - off < CHUNK_BYTES
				   ? (size_t)(device->size_bytes - off)
				   : CHUNK_BYTES;

		if (stet_device_read(device, off, buf, n))
			continue; /* the rest cannot be read: holes */
		if (buf[0] != 0 || memcmp(buf, buf + 1, n - 1) != 0)
			STET_ASSERT(pwrite(fd, buf, n, (off_t)off) == (ssize_t)n);
	}
}

static int on_problem(void *arg, const struct stet_problem *problem)
{
	size_t *bytes = arg;

	*bytes += strlen(problem->id) + strlen(problem->text) + strlen(problem->path);
	return 0;
}

static int on_line(void *arg, const char *line)
{
	size_t *bytes = arg;

	*bytes += strlen(line);
	return 0;
}

int judge_public(struct mutation *m)
{
	static const char *const what[] = { "superblock", "slots", "checkpoint", "segments",
					    "log",        "tree",  "items" };
	int fd = memfd_create("image", MFD_CLOEXEC);
	size_t bytes = 0;
	char path[64];
	int problems;

	STET_ASSERT(fd >= 0);
	save(m->device, fd);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	problems = stet_check(path, 0, on_problem, &bytes);
	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++)
		(void)!stet_dump(path, what[i], on_line, &bytes);
	close(fd);
	return problems;
}
