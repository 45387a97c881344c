/* flush.c - having the kernel write back what mappings of a view's files hold, and dropping what
 * it has.
 *
 * Without a writeback cache only stores through shared writable mappings are in the kernel alone;
 * they need a descriptor that was opened for reading and writing, and that stays open while the
 * mapping lives.
 *
 * I1. Invalidating an inode writes its dirty pages back first and waits for that. This is enough;
 *     but it sends one request a page. So, where we may (root), each file is opened by its handle
 *     and synced first, which sends large requests; if that does not work, nothing is lost but
 *     time.
 * I2. The thread that does this answers no requests and holds no lock.
 * I3. Errors show where the pages arrive (file.c: view.write_error), not here; but what is not
 *     even asked for, for want of memory, is such an error as well.
 * I4. Another file system may be mounted over ours: a handle is used only on our own.
 */
#include "fuse/fuse_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is it open, other than as a directory; mapped: so that it may be written by mappings? */
static bool is_open_locked(const struct stet_fuse_node *node, bool mapped)
{
	for (struct stet_fuse_list *l = node->open.next; l != &node->open; l = l->next) {
		const struct stet_fuse_handle *handle =
			stet_fuse_container_of(l, struct stet_fuse_handle, link);

		if (!mapped || (!handle->listing && (handle->flags & O_ACCMODE) == O_RDWR))
			return true;
	}
	return false;
}

static bool take_locked(const struct stet_fuse_node *node, bool mapped, struct stet_fuse_ids *ret)
{
	if (node->kind != STET_FUSE_NODE_INO || !is_open_locked(node, mapped))
		return true;
	return stet_fuse_ids_add_(ret, node->id);
}

/* All nodes: only a transaction's are listed. */
static bool collect_all_locked(struct stet_fuse_server *server, const struct stet_fuse_view *view,
			       bool mapped, struct stet_fuse_ids *ret)
{
	bool all = true;

	for (size_t i = 0; i <= server->by_id.mask; i++)
		for (struct stet_fuse_link *l = server->by_id.slot[i]; l; l = l->next) {
			const struct stet_fuse_node *node =
				stet_fuse_container_of(l, struct stet_fuse_node, by_id);

			if (node->view == view)
				all = take_locked(node, mapped, ret) && all;
		}
	return all;
}

/* The nodes of a view's open files; mapped: only of those that may be written by mappings. False:
 * no memory for all of them. */
static bool collect(struct stet_fuse_server *server, const struct stet_fuse_view *view, bool mapped,
		    struct stet_fuse_ids *ret)
{
	bool all = true;

	pthread_mutex_lock(&server->lock);
	if (view->kind != STET_FUSE_TXN)
		all = collect_all_locked(server, view, mapped, ret);
	else
		for (struct stet_fuse_list *l = view->nodes.next; l != &view->nodes; l = l->next)
			all = take_locked(stet_fuse_container_of(l, struct stet_fuse_node, of_view),
					  mapped, ret) &&
			      all;
	pthread_mutex_unlock(&server->lock);
	return all;
}

/* --- syncing by handle (I1) --- */

#define FUSE_HANDLE_TYPE 0x81 /* node id, high half first, and generation */

static void sync_by_handle(int mount_fd, uint64_t id)
{
	uint32_t word[3] = { (uint32_t)(id >> 32), (uint32_t)id, STET_FUSE_GENERATION };
	_Alignas(struct file_handle) char space[sizeof(struct file_handle) + sizeof(word)];
	struct file_handle *handle = (struct file_handle *)space;
	int fd;

	handle->handle_bytes = sizeof(word);
	handle->handle_type = FUSE_HANDLE_TYPE;
	memcpy(handle->f_handle, word, sizeof(word));
	fd = open_by_handle_at(mount_fd, handle, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!fsync(fd); /* I3 */
	close(fd);
}

/* I4. -1: it cannot be opened here. */
static int open_mount(const struct stet_fuse_server *server)
{
	int fd = open(server->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_dev != server->dev)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void note_no_memory(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	pthread_mutex_lock(&server->lock);
	if (!view->write_error)
		view->write_error = -ENOMEM;
	pthread_mutex_unlock(&server->lock);
}

void stet_fuse_flush_view_(struct stet_fuse_server *server, struct stet_fuse_view *view)
{
	struct stet_fuse_ids ids = { 0 };
	int mount_fd = -1;

	if (!collect(server, view, true, &ids))
		note_no_memory(server, view); /* I3 */
	if (server->is_root && ids.count > 0)
		mount_fd = open_mount(server);
	for (size_t i = 0; i < ids.count; i++) {
		if (mount_fd >= 0)
			sync_by_handle(mount_fd, ids.id[i]);
		stet_fuse_inval_inode_(server, ids.id[i], true);
	}
	if (mount_fd >= 0)
		close(mount_fd);
	stet_fuse_ids_release_(&ids);
}

void stet_fuse_drop_view_(struct stet_fuse_server *server, const struct stet_fuse_view *view)
{
	struct stet_fuse_ids ids = { 0 };

	collect(server, view, false, &ids);
	for (size_t i = 0; i < ids.count; i++)
		stet_fuse_inval_inode_(server, ids.id[i], true);
	stet_fuse_ids_release_(&ids);
}
