/* patch.c - the changes of a transaction as a patch: git's form, made with diff(1).
 *
 * U1. Files are found in the two trees without following a link or leaving the tree, and are given to
 *     diff as open descriptors: it sees no name, and what others do to the names meanwhile is no
 *     matter.
 * U2. What cannot be shown is said in its place: a patch never leaves a change of a file out silently.
 *     Modes have only git's three values; where they are others, a line before the change tells them.
 * U3. On a terminal no byte of a file's content is more than text: who reviews changes must see what
 *     is there, not what it wants to look like.
 */
#include "cli/changes_internal.h"

#include "fuse/control.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_BYTES ((size_t)32 * 1024)              /* in which a NUL makes a file binary */
#define SIZE_MAX_BYTES (UINT64_C(32) * 1024 * 1024) /* of a file that diff is asked about */
#define OUTPUT_BYTES ((size_t)64 * 1024)
#define NO_DIFF 127

/* A file at one end of a change. */
struct side {
	const char *path; /* from the root; NULL: there was, or is, none */
	uint32_t mode;
	uint64_t size;
	int fd; /* its content; -1: none */
};

struct patch {
	const struct stet_cli_trees *trees;
	FILE *out;
	bool visible;
	bool no_diff; /* there is no such program */
	bool begun;   /* of the current change: the first line was printed */
	int code;
	struct side from, to;
};

/// The trees ///

static int open_tree_at(const char *dir, uint64_t id, const char *name)
{
	struct stet_cli_text path = { 0 };
	int fd;

	stet_cli_text_addf_(&path, "%s/.stet/txn/%llu/%s", dir, (unsigned long long)id, name);
	fd = open(path.s, O_PATH | O_DIRECTORY | O_CLOEXEC);
	stet_cli_text_release_(&path);
	return fd;
}

int stet_cli_trees_open_(const char *dir, uint64_t id, struct stet_cli_trees *ret)
{
	ret->base_fd = open_tree_at(dir, id, "base");
	ret->root_fd = ret->base_fd < 0 ? -1 : open_tree_at(dir, id, "root");
	if (ret->root_fd >= 0)
		return STET_CLI_OK;
	stet_cli_error_(dir, "the files of transaction %llu cannot be reached: %s",
			(unsigned long long)id, strerror(errno));
	stet_cli_trees_close_(ret);
	return STET_CLI_FAILED;
}

void stet_cli_trees_close_(struct stet_cli_trees *trees)
{
	if (trees->base_fd >= 0)
		close(trees->base_fd);
	if (trees->root_fd >= 0)
		close(trees->root_fd);
	trees->base_fd = trees->root_fd = -1;
}

/* U1 */
static int open_in(int root_fd, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};

	while (*path == '/')
		path++;
	return (int)syscall(SYS_openat2, root_fd, *path ? path : ".", &how, sizeof(how));
}

/* The target of a link, as a file. */
static int open_target(int root_fd, const char *path)
{
	char target[PATH_MAX];
	int link_fd = open_in(root_fd, path, O_PATH);
	ssize_t n = link_fd < 0 ? -1 : readlinkat(link_fd, "", target, sizeof(target));
	int fd = n < 0 ? -1 : memfd_create("link", MFD_CLOEXEC);
	int cause;

	if (fd >= 0 && write(fd, target, (size_t)n) != n) {
		close(fd);
		fd = -1;
	}
	cause = errno;
	if (link_fd >= 0)
		close(link_fd);
	errno = cause;
	return fd;
}

/* 0, or what is in the way. */
static int open_side(int root_fd, struct side *side)
{
	struct stat st;

	side->fd = -1;
	if (!side->path)
		return 0;
	if (S_ISLNK(side->mode))
		side->fd = open_target(root_fd, side->path);
	else
		side->fd = open_in(root_fd, side->path, O_RDONLY | O_NONBLOCK);
	if (side->fd < 0 || fstat(side->fd, &st) != 0)
		return errno;
	side->size = (uint64_t)st.st_size;
	return S_ISREG(st.st_mode) ? 0 : ESTALE;
}

static void close_side(struct side *side)
{
	if (side->fd >= 0)
		close(side->fd);
	side->fd = -1;
}

/// Names and text ///

/* Quoted as git does where it must be: then it has no byte that ends a line or could be mistaken.
 * quote: in any case. */
static void add_quoted(struct stet_cli_text *text, const char *prefix, const char *path, bool quote)
{
	struct stet_cli_text escaped = { 0 };

	stet_cli_text_adds_(&escaped, "");
	stet_cli_escape_(&escaped, path, true);
	quote = quote || strcmp(escaped.s, path) != 0 || strchr(path, '"');
	if (quote)
		stet_cli_text_adds_(text, "\"");
	stet_cli_text_adds_(text, prefix);
	for (const char *c = escaped.s; *c; c++) {
		if (*c == '"')
			stet_cli_text_add_(text, "\\", 1);
		stet_cli_text_add_(text, c, 1);
	}
	if (quote)
		stet_cli_text_adds_(text, "\"");
	stet_cli_text_release_(&escaped);
}

/* Of a side, without the slash of the root; "/dev/null" when it has no file. */
static void add_label(struct stet_cli_text *text, char letter, const struct side *side)
{
	const char prefix[] = { letter, '/', '\0' };

	if (side->path)
		add_quoted(text, prefix, side->path + 1, false);
	else
		stet_cli_text_adds_(text, "/dev/null");
}

/* As in the lines before the content: a tab ends a name with a space in it. */
static void add_file_label(struct stet_cli_text *text, char letter, const struct side *side)
{
	add_label(text, letter, side);
	if (side->path && strchr(side->path, ' '))
		stet_cli_text_adds_(text, "\t");
}

static void print_path(struct patch *p, const char *what, const char *path)
{
	struct stet_cli_text text = { 0 };

	add_quoted(&text, "", path + 1, false);
	fprintf(p->out, "%s %s\n", what, text.s);
	stet_cli_text_release_(&text);
}

/* U3. Lines and tabs stay. */
static void print_visible(FILE *out, char *buf, size_t len)
{
	struct stet_cli_text text = { 0 };
	size_t start = 0;

	for (size_t at = 0; at < len; at++) {
		char c = buf[at];

		if (c != '\n' && c != '\t' && c != '\0')
			continue;
		buf[at] = '\0';
		stet_cli_escape_(&text, buf + start, false);
		stet_cli_text_add_(&text, c ? &c : "\\000", c ? 1 : 4);
		start = at + 1;
	}
	if (start < len) {
		buf[len] = '\0';
		stet_cli_escape_(&text, buf + start, false);
	}
	fwrite(text.s, 1, text.len, out);
	stet_cli_text_release_(&text);
}

/// The head of a change ///

/* Itself, or a directory above it. */
static bool is_moved(const struct patch *p)
{
	return p->from.path && p->to.path && strcmp(p->from.path, p->to.path) != 0;
}

/* As git has it: whether the owner may execute it is all that it keeps. */
static uint32_t git_mode(uint32_t mode)
{
	if (S_ISLNK(mode))
		return S_IFLNK;
	return S_IFREG | (mode & S_IXUSR ? 0755 : 0644);
}

/* U2. The patch itself does not have this line: programs skip it. */
static void print_modes(struct patch *p)
{
	uint32_t from = p->from.path ? p->from.mode : git_mode(p->to.mode);
	struct stet_cli_text text = { 0 };

	if (!p->to.path || S_ISLNK(p->to.mode) || from == p->to.mode ||
	    (from == git_mode(from) && p->to.mode == git_mode(p->to.mode)))
		return;
	stet_cli_text_adds_(&text, "Mode ");
	if (p->from.path)
		stet_cli_text_addf_(&text, "%04o -> ", from & 07777u);
	stet_cli_text_addf_(&text, "%04o: ", p->to.mode & 07777u);
	add_quoted(&text, "", p->to.path + 1, false);
	fprintf(p->out, "%s\n", text.s);
	stet_cli_text_release_(&text);
}

/* The first lines, once. For git names with spaces need no quotes in the first; patch(1) does not
 * find a file without them when the rest of the change does not name it. with_modes: also the same. */
static void begin(struct patch *p, bool with_modes)
{
	const struct side *from = p->from.path ? &p->from : &p->to;
	const struct side *to = p->to.path ? &p->to : &p->from;
	struct stet_cli_text text = { 0 };
	bool quote;

	if (p->begun)
		return;
	p->begun = true;
	quote = strchr(from->path, ' ') || strchr(to->path, ' ');
	stet_cli_text_adds_(&text, "diff --git ");
	add_quoted(&text, "a/", from->path + 1, quote);
	stet_cli_text_adds_(&text, " ");
	add_quoted(&text, "b/", to->path + 1, quote);
	fprintf(p->out, "%s\n", text.s);
	stet_cli_text_release_(&text);
	if (!p->from.path) {
		fprintf(p->out, "new file mode %06o\n", git_mode(p->to.mode));
	} else if (!p->to.path) {
		fprintf(p->out, "deleted file mode %06o\n", git_mode(p->from.mode));
	} else if (with_modes || git_mode(p->from.mode) != git_mode(p->to.mode)) {
		fprintf(p->out, "old mode %06o\nnew mode %06o\n", git_mode(p->from.mode),
			git_mode(p->to.mode));
	}
	if (is_moved(p)) {
		print_path(p, "rename from", p->from.path);
		print_path(p, "rename to", p->to.path);
	}
}

/* U2 */
__attribute__((format(printf, 2, 3))) static void print_instead(struct patch *p, const char *format,
								...)
{
	struct stet_cli_text text = { 0 };
	char why[256];
	va_list args;

	begin(p,
	      true); /* git skips a change whose head is one line, instead of refusing the patch */
	add_label(&text, 'a', &p->from);
	stet_cli_text_adds_(&text, " and ");
	add_label(&text, 'b', &p->to);
	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	fprintf(p->out, "Binary files %s differ\n(%s)\n", text.s, why); /* as git says it */
	stet_cli_text_release_(&text);
}

/// diff(1) ///

static bool is_binary(const struct side *side)
{
	char *buf;
	ssize_t n;
	bool found;

	if (side->fd < 0)
		return false;
	buf = stet_cli_alloc_(LOOK_BYTES);
	n = pread(side->fd, buf, LOOK_BYTES, 0);
	found = n > 0 && memchr(buf, '\0', (size_t)n);
	free(buf);
	return found;
}

__attribute__((noreturn)) static void be_diff(const struct patch *p, int out_fd)
{
	enum { FROM = 3, TO = 4 };
	struct stet_cli_text from = { 0 }, to = { 0 };
	/* None of them is where another shall go. */
	int from_fd = p->from.fd < 0 ? -1 : fcntl(p->from.fd, F_DUPFD_CLOEXEC, TO + 1);
	int to_fd = p->to.fd < 0 ? -1 : fcntl(p->to.fd, F_DUPFD_CLOEXEC, TO + 1);
	static char diff[] = "diff", unified[] = "-u", text[] = "-a", label[] = "-L";
	static char none[] = "/dev/null", from_file[] = "/dev/fd/3", to_file[] = "/dev/fd/4";
	char *argv[] = { diff, unified, text, label, NULL, label, NULL, none, none, NULL };

	add_file_label(&from, 'a', &p->from);
	add_file_label(&to, 'b', &p->to);
	argv[4] = from.s;
	argv[6] = to.s;
	dup2(out_fd, STDOUT_FILENO);
	if (from_fd >= 0 && dup2(from_fd, FROM) == FROM)
		argv[7] = from_file;
	if (to_fd >= 0 && dup2(to_fd, TO) == TO)
		argv[8] = to_file;
	setenv("LC_ALL", "C", 1);
	signal(SIGPIPE, SIG_DFL);
	execvp(argv[0], argv);
	_exit(errno == ENOENT ? NO_DIFF : 2);
}

/* How much of it can be printed now: characters must not be cut in two. */
static size_t whole_lines(const char *buf, size_t len, bool last)
{
	const char *end = memrchr(buf, '\n', len);

	if (last || (!end && len == OUTPUT_BYTES))
		return len;
	return end ? (size_t)(end - buf) + 1 : 0;
}

static void copy_output(struct patch *p, int fd)
{
	char *buf = stet_cli_alloc_(OUTPUT_BYTES + 1);
	size_t len = 0;
	ssize_t n = 1;

	while (n != 0 && !ferror(p->out)) { /* on error nobody reads it any more */
		size_t now;

		n = read(fd, buf + len, OUTPUT_BYTES - len);
		if (n < 0 && errno == EINTR)
			continue;
		len += n > 0 ? (size_t)n : 0;
		now = whole_lines(buf, len, n <= 0);
		if (len)
			begin(p, false);
		if (p->visible) {
			char kept = buf[now];

			print_visible(p->out, buf, now);
			buf[now] = kept;
		} else {
			fwrite(buf, 1, now, p->out);
		}
		memmove(buf, buf + now, len - now);
		len -= now;
		if (n < 0)
			break;
	}
	free(buf);
}

/* The exit code of diff; 2: it had trouble. */
static int run_diff(struct patch *p)
{
	int fds[2];
	int status = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return 2;
	fflush(p->out);
	pid = fork();
	if (pid == 0)
		be_diff(p, fds[1]);
	close(fds[1]);
	if (pid > 0)
		copy_output(p, fds[0]);
	close(fds[0]);
	if (pid < 0)
		return 2;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static void tell_no_diff(struct patch *p)
{
	if (!p->no_diff)
		stet_cli_error_("diff", "no such program: install diffutils to see the content of "
					"changes");
	p->no_diff = true;
	p->code = STET_CLI_FAILED;
	print_instead(p, "not shown: %llu -> %llu bytes", (unsigned long long)p->from.size,
		      (unsigned long long)p->to.size);
}

static void print_content(struct patch *p)
{
	int code;

	if (p->from.size > SIZE_MAX_BYTES || p->to.size > SIZE_MAX_BYTES) {
		print_instead(p, "large: %llu -> %llu bytes", (unsigned long long)p->from.size,
			      (unsigned long long)p->to.size);
	} else if (is_binary(&p->from) || is_binary(&p->to)) {
		print_instead(p, "binary: %llu -> %llu bytes", (unsigned long long)p->from.size,
			      (unsigned long long)p->to.size);
	} else {
		code = p->no_diff ? NO_DIFF : run_diff(p);
		if (code == NO_DIFF) {
			tell_no_diff(p);
		} else if (code > 1 && !ferror(p->out)) {
			print_instead(p, "diff failed");
			p->code = STET_CLI_FAILED;
		}
	}
}

/// Changes ///

static void print_pair(struct patch *p, bool content)
{
	int cause;

	p->begun = false;
	print_modes(p);
	if (!p->from.path || !p->to.path || git_mode(p->from.mode) != git_mode(p->to.mode) ||
	    is_moved(p))
		begin(p, false);
	if (!content)
		return;
	p->from.fd = p->to.fd = -1;
	cause = open_side(p->trees->base_fd, &p->from);
	if (!cause)
		cause = open_side(p->trees->root_fd, &p->to);
	if (cause) {
		print_instead(p, "cannot be read: %s", strerror(cause));
		p->code = STET_CLI_FAILED;
	} else {
		print_content(p);
	}
	close_side(&p->from);
	close_side(&p->to);
}

static bool has_content(uint32_t mode)
{
	return S_ISREG(mode) || S_ISLNK(mode);
}

/* What a patch has no words for. old_path may be NULL. */
static void print_other(struct patch *p, const char *what, const char *old_path, const char *path,
			uint32_t mode)
{
	struct stet_cli_text text = { 0 };

	if (old_path) {
		add_quoted(&text, "", old_path + 1, false);
		stet_cli_text_adds_(&text, " -> ");
	}
	add_quoted(&text, "", path + 1, false);
	fprintf(p->out, "%s %s: %s\n", what, stet_cli_type_name_(mode), text.s);
	stet_cli_text_release_(&text);
}

static void print_gone(struct patch *p, const char *path, uint32_t mode)
{
	p->from = (struct side){ .path = path, .mode = mode, .fd = -1 };
	p->to = (struct side){ .fd = -1 };
	if (has_content(mode))
		print_pair(p, true);
	else
		print_other(p, "Deleted", NULL, path, mode);
}

static void print_new(struct patch *p, const char *path, uint32_t mode)
{
	p->from = (struct side){ .fd = -1 };
	p->to = (struct side){ .path = path, .mode = mode, .fd = -1 };
	if (has_content(mode))
		print_pair(p, true);
	else
		print_other(p, "Added", NULL, path, mode);
}

static void print_both(struct patch *p, const struct stet_change *c, const char *old_path,
		       uint32_t old_mode, bool content)
{
	if (!has_content(c->after.mode)) {
		bool renamed = c->kind == STET_CHANGE_RENAMED;

		print_other(p, renamed ? "Renamed" : "Changed", renamed ? old_path : NULL, c->path,
			    c->after.mode);
		return;
	}
	p->from = (struct side){ .path = old_path, .mode = old_mode, .fd = -1 };
	p->to = (struct side){ .path = c->path, .mode = c->after.mode, .fd = -1 };
	print_pair(p, content);
}

static void print_change(struct patch *p, const struct stet_change *c)
{
	const char *old_path = c->old_path ? c->old_path : c->path;

	switch (c->kind) {
	case STET_CHANGE_ADDED:
		print_new(p, c->path, c->after.mode);
		break;
	case STET_CHANGE_REMOVED:
		print_gone(p, c->path, c->before.mode);
		break;
	case STET_CHANGE_REPLACED:
		if (c->replaced.mode && ((c->replaced.mode ^ c->after.mode) & S_IFMT) == 0) {
			print_both(p, c, old_path, c->replaced.mode, true);
		} else {
			if (c->replaced.mode)
				print_gone(p, old_path, c->replaced.mode);
			print_new(p, c->path, c->after.mode);
		}
		break;
	case STET_CHANGE_RENAMED:
	case STET_CHANGE_MODIFIED:
		print_both(p, c, old_path, c->before.mode, c->what & STET_CHANGED_DATA);
		break;
	}
}

int stet_cli_patch_(const struct stet_cli_changes *changes, const struct stet_cli_trees *trees,
		    FILE *out, bool visible)
{
	struct patch p = { .trees = trees, .out = out, .visible = visible };

	for (size_t i = 0; i < changes->count && !ferror(out); i++) {
		const struct stet_change *c = &changes->change[i];

		if (c->kind == STET_CHANGE_RENAMED && c->replaced.mode)
			print_gone(&p, c->path, c->replaced.mode);
		print_change(&p, c);
	}
	return p.code;
}
