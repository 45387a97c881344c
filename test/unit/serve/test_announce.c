/* test_announce.c - any program can serve a volume: it announces it, others find it by the image's path. */
#include "api_unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program that holds a volume and serves it. */
struct program {
	char image[64];
	struct stet_volume *vol;
	struct stet_ll_service *service;
	struct stet_ll_server server;
	struct stet_ll_announced *announced;
	int listen_fd;
	pthread_t thread;
};

static void make_image(struct program *p)
{
	struct stet_mkfs_options options = { .size_bytes = 32 << 20, .force = true };
	int fd;

	snprintf(p->image, sizeof(p->image), "/tmp/stet-serve.XXXXXX");
	fd = mkstemp(p->image);
	assert_true(fd >= 0);
	close(fd);
	OK(stet_mkfs(p->image, &options));
}

static void announce(struct program *p)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memset(&p->server, 0, sizeof(p->server));
	snprintf(p->server.volume, sizeof(p->server.volume), "%s", p->image);
	OK(stet_ll_announce(&p->server, &p->announced));
	memcpy(address.sun_path, p->server.socket, sizeof(p->server.socket));
	p->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(p->listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(p->listen_fd, 8), 0);
}

/* One connection after the other. */
static void *serve(void *arg)
{
	struct program *p = arg;
	struct stet_ll_who who = { .uid = geteuid(), .gid = getegid() };
	int fd;

	while ((fd = accept(p->listen_fd, NULL, NULL)) >= 0) {
		if (stet_ll_is_client(fd) == 1)
			stet_ll_serve(p->service, fd, &who);
		close(fd);
	}
	return NULL;
}

static int start(void **state)
{
	struct stet_open_options options = { .no_remote = true };
	struct program *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	make_image(p);
	OK(stet_open(p->image, &options, &p->vol));
	OK(stet_ll_service_create(p->vol, NULL, &p->service));
	announce(p);
	assert_int_equal(pthread_create(&p->thread, NULL, serve, p), 0);
	*state = p;
	return 0;
}

static int stop(void **state)
{
	struct program *p = *state;

	stet_ll_service_stop(p->service);
	shutdown(p->listen_fd, SHUT_RDWR);
	pthread_join(p->thread, NULL);
	close(p->listen_fd);
	stet_ll_announce_end(p->announced);
	stet_ll_service_destroy(p->service);
	OK(stet_close(p->vol));
	unlink(p->image);
	free(p);
	return 0;
}

static void found_by_path(void **state)
{
	struct program *p = *state;
	struct stet_open_options alone = { .no_remote = true }, reader = { .read_only = true };
	struct stet_volume *vol;
	struct stet_statfs st;

	OK(stet_statfs(p->vol, &st));
	assert_false(st.remote);
	FAILS(-EBUSY, stet_open(p->image, &alone, &vol));
	OK(stet_open(p->image, NULL, &vol));
	assert_string_equal(stet_error_text(), "");
	OK(stet_statfs(vol, &st));
	assert_true(st.remote);
	assert_false(st.read_only);
	unit_write(vol, NULL, "a", "text");
	unit_expect(p->vol, NULL, "a", "text");
	OK(stet_close(vol));
	OK(stet_open(p->image, &reader, &vol));
	OK(stet_statfs(vol, &st));
	assert_true(st.read_only);
	FAILS(-EROFS, stet_mkdirat(vol, NULL, STET_ROOT, "d", 0755));
	OK(stet_close(vol));
	FAILS(-EBUSY, stet_mkfs(p->image, NULL));
	FAILS(-EBUSY, stet_check(p->image, 0, NULL, NULL));
}

/* What is for volumes and handles of one process says so of others. */
static void not_by_number(void **state)
{
	struct program *p = *state;
	struct stet_volume *vol;
	struct stet_txn *txn, *local;
	struct stet_file *file, *other;
	struct stet_stat st;

	unit_write(p->vol, NULL, "f", "text");
	OK(stet_open(p->image, NULL, &vol));
	OK(stet_begin(vol, 0, &txn));
	OK(stet_begin(p->vol, 0, &local));
	FAILS(-EOPNOTSUPP, stet_ll_hold(vol, 1));
	FAILS(-EOPNOTSUPP, stet_ll_getattr(vol, NULL, 1, 0, &st));
	FAILS(-EOPNOTSUPP, stet_ll_fsync(vol, NULL));
	FAILS(-EOPNOTSUPP, stet_ll_watch(vol, NULL, NULL));
	FAILS(-EOPNOTSUPP, stet_ll_commit(txn, 0, NULL, NULL));
	FAILS(-EINVAL, stet_ll_getattr(p->vol, txn, 1, 0, &st));
	FAILS(-EINVAL, stet_statat(vol, local, STET_ROOT, "", 0, &st));
	FAILS(-EINVAL, stet_statat(p->vol, txn, STET_ROOT, "", 0, &st));
	OK(stet_openat(vol, NULL, STET_ROOT, "f", O_RDWR, 0, &file));
	OK(stet_openat(p->vol, NULL, STET_ROOT, "f", O_RDWR, 0, &other));
	FAILS(-EXDEV, (int)stet_copy_range(file, 0, other, 10, 4));
	FAILS(-EXDEV, (int)stet_copy_range(other, 0, file, 10, 4));
	stet_file_close(file);
	stet_file_close(other);
	stet_abort(txn);
	stet_abort(local);
	OK(stet_close(vol));
}

static bool count(void *arg, const struct stet_ll_server *server)
{
	struct program *p = arg;

	if (strcmp(server->volume, p->image) == 0)
		p->listen_fd++;
	return false;
}

/* What one who was killed has left says nothing, and goes when the next one comes. */
static void left_behind(void **state)
{
	struct program p = { 0 };
	struct stet_ll_server found;
	struct stet_volume *vol;
	char left[sizeof(p.server.socket)];
	pid_t child;
	int fd[2];

	(void)state;
	make_image(&p);
	assert_int_equal(pipe(fd), 0);
	child = fork();
	if (child == 0) {
		announce(&p);
		if (write(fd[1], p.server.socket, sizeof(left)) != sizeof(left))
			_exit(1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(fd[0], left, sizeof(left)), sizeof(left));
	OK(stet_ll_find_server(p.image, &found));
	assert_int_equal(found.pid, child);
	assert_string_equal(found.socket, left);
	assert_int_equal(access(left, F_OK), 0);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	FAILS(-ENOENT, stet_ll_find_server(p.image, &found));
	announce(&p);
	assert_int_not_equal(access(left, F_OK), 0);
	OK(stet_ll_find_server(p.image, &found));
	assert_int_equal(found.pid, getpid());
	close(p.listen_fd);
	p.listen_fd = 0;
	assert_false(stet_ll_servers(count, &p));
	assert_int_equal(p.listen_fd, 1);
	OK(stet_open(p.image, NULL, &vol)); /* nobody holds it, whatever the record says */
	OK(stet_close(vol));
	stet_ll_announce_end(p.announced);
	FAILS(-ENOENT, stet_ll_find_server(p.image, &found));
	close(fd[0]);
	close(fd[1]);
	unlink(p.image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(found_by_path, start, stop),
		cmocka_unit_test_setup_teardown(not_by_number, start, stop),
		cmocka_unit_test(left_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
