/* volume.c - operands VOLUME:/path, and the volume and transaction that a command works in.
 *
 * I1. An operand is cut at its first ":/". Commands that list take a volume alone for its root. So a path of the host that contains ":/" cannot be given
 *     as it is; a relative path or a link leads around that.
 * I2. A command that changes a volume changes it in one transaction: all or nothing, whatever the
 *     number of its operands. They must all be in one volume.
 * I3. A command that only reads opens the volume read-only: it writes nothing, and others may read
 *     at the same time.
 * I4. A volume that a daemon has mounted is used through the mount (mounted.c), in a transaction
 *     as well: I2 and I3 hold there too. Who may do what, is then the kernel's to say.
 *
 * I5. What a mount does not show (records of tables) is asked for by the library, also where a daemon has the
 *     volume: it asks that.
 *
 * A command that is killed leaves the volume as it was before: the transaction is gone with it.
 */
#include "cli/mounted_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/// Operands ///

bool stet_cli_target_parse_(const char *word, struct stet_cli_target *ret)
{
	const char *cut = strstr(word, ":/"); /* I1 */

	if (!cut || cut == word)
		return false;
	ret->volume = stet_cli_strdup_(word);
	ret->volume[cut - word] = '\0';
	ret->path = cut + 1;
	ret->word = word;
	return true;
}

static bool is_volume_word(const char *word)
{
	struct stat st;

	return stat(word, &st) == 0 && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
}

/* A volume without a path: its root. */
static bool take_root(const char *word, struct stet_cli_target *ret)
{
	size_t size = strlen(word) + 1;
	char *both;

	if (!is_volume_word(word))
		return false;
	both = stet_cli_alloc_(2 * size + 2); /* the volume, then as the operand should have been */
	memcpy(both, word, size);
	memcpy(both + size, word, size - 1);
	memcpy(both + 2 * size - 1, ":/", 3);
	*ret = (struct stet_cli_target){ .volume = both, .path = "/", .word = both + size };
	return true;
}

int stet_cli_misuse_target_(const struct stet_cli_command *cmd, const char *word)
{
	if (is_volume_word(word))
		return stet_cli_misuse_(cmd, "'%s' is not VOLUME:/path; its root is '%s:/'", word,
					word);
	return stet_cli_misuse_(cmd, "'%s' is not VOLUME:/path", word);
}

void stet_cli_target_release_(struct stet_cli_target *target)
{
	free(target->volume);
	*target = (struct stet_cli_target){ 0 };
}

bool stet_cli_same_volume_(const char *a, const char *b)
{
	struct stat sa, sb;

	if (strcmp(a, b) == 0)
		return true;
	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

/// Opening and closing ///

static void fail_busy(const char *path)
{
	struct stet_cli_text holder = { 0 };
	const char *origin = stet_cli_origin_(path);

	if (stet_cli_find_holder_(path, &holder))
		stet_cli_error_(path, "in use: %s", holder.s);
	else
		stet_cli_error_(path, "%s", origin[0] ? origin : "in use by another process");
	stet_cli_text_release_(&holder);
}

int stet_cli_fail_open_(const char *path, int rc)
{
	if (rc == -EBUSY)
		fail_busy(path);
	else if (rc == -EINVAL)
		stet_cli_error_(path, "not a StetFS volume");
	else
		stet_cli_fail_volume_(path, rc);
	return STET_CLI_FAILED;
}

static int open_by_library(const char *path, bool write, bool no_remote,
			   struct stet_cli_volume *ret)
{
	const struct stet_open_options options = { .read_only = !write, .no_remote = no_remote };
	struct stat st = { 0 };
	struct stet_volume *vol;
	int rc = stet_open(path, &options, &vol);

	if (rc)
		return rc;
	(void)!stat(path, &st);
	*ret = (struct stet_cli_volume){
		.path = stet_cli_strdup_(path),
		.vol = vol,
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	return 0;
}

static int open_alone(const char *path, bool write, struct stet_cli_volume *ret)
{
	return open_by_library(path, write, true, ret);
}

int stet_cli_open_(const char *path, bool write, struct stet_cli_volume *ret)
{
	int rc = open_alone(path, write, ret);

	return rc ? stet_cli_fail_open_(path, rc) : STET_CLI_OK;
}

int stet_cli_open_shared_(const char *path, bool write, struct stet_cli_volume *ret)
{
	int rc = open_by_library(path, write, false, ret);

	if (rc == -EACCES &&
	    stet_cli_origin_(path)[0]) { /* it may be the mount's daemon that refuses */
		stet_cli_error_(path, "%s", stet_cli_origin_(path));
		return STET_CLI_FAILED;
	}
	return rc ? stet_cli_fail_open_(path, rc) : STET_CLI_OK;
}

/* I4. Returns an exit code. */
static int open_any(const char *path, bool write, struct stet_cli_volume *ret)
{
	struct stet_cli_mounted *mounted;
	struct stat st = { 0 };
	int rc = open_alone(path, write, ret);
	int code;

	/* Who may not open the image itself, may still use the mount. */
	if (rc != -EBUSY && rc != -EACCES)
		return rc ? stet_cli_fail_open_(path, rc) : STET_CLI_OK;
	code = stet_cli_mounted_open_(path, write, &mounted);
	if (code < 0)
		return stet_cli_fail_open_(path, rc);
	if (code)
		return code;
	(void)!stat(path, &st);
	*ret = (struct stet_cli_volume){
		.path = stet_cli_strdup_(path),
		.mounted = mounted,
		.dev = st.st_dev,
		.ino = st.st_ino,
	};
	return STET_CLI_OK;
}

int stet_cli_open_read_(const char *path, struct stet_cli_volume *ret)
{
	return open_any(path, false, ret);
}

int stet_cli_open_change_(const char *path, struct stet_cli_volume *ret)
{
	int code = open_any(path, true, ret);
	int rc;

	if (code || ret->mounted)
		return code;
	/* Nobody else has the volume: the cheapest level is as good as any. */
	rc = stet_begin(ret->vol, STET_BEGIN_SNAPSHOT, &ret->txn);
	if (!rc)
		return STET_CLI_OK;
	ret->txn = NULL;
	return stet_cli_close_(ret, stet_cli_fail_volume_(path, rc));
}

static int commit(struct stet_cli_volume *v)
{
	char text[512] = "";
	int rc = stet_commit(v->txn, 0);

	if (rc == 0)
		return STET_CLI_OK;
	if (rc == -EIO)
		stet_cli_error_(v->path,
				"the commit failed; whether it is there shows when the volume is "
				"opened again (%s)",
				stet_cli_origin_(v->path));
	else if (stet_conflict_text(v->txn, text, sizeof(text)) > 0)
		stet_cli_error_(v->path, "conflict: %s", text);
	else
		stet_cli_fail_volume_(v->path, rc);
	stet_abort(v->txn);
	return STET_CLI_FAILED;
}

int stet_cli_close_(struct stet_cli_volume *v, int code)
{
	int rc = 0;

	if (v->txn && code == STET_CLI_OK)
		code = commit(v);
	else
		stet_abort(v->txn);
	if (v->mounted)
		code = stet_cli_mounted_close_(v->mounted, v->path, code);
	else
		rc = stet_close(v->vol);
	if (rc && code == STET_CLI_OK)
		code = stet_cli_fail_volume_(v->path, rc);
	free(v->path);
	*v = (struct stet_cli_volume){ 0 };
	return code;
}

/// Commands that read ///

/* Has the volume at path open in v, which is closed or has one open already. */
static int switch_volume(struct stet_cli_volume *v, const char *path)
{
	int code = STET_CLI_OK;

	if (v->path && strcmp(v->path, path) == 0)
		return STET_CLI_OK;
	if (v->path)
		code = stet_cli_close_(v, STET_CLI_OK);
	return code ? code : stet_cli_open_read_(path, v);
}

static int parse_all(const struct stet_cli_command *cmd, const struct stet_cli_words *words,
		     struct stet_cli_target *targets)
{
	for (int i = 0; i < words->count; i++) {
		if (stet_cli_target_parse_(words->word[i], &targets[i]))
			continue;
		if (!cmd->volume_words || !take_root(words->word[i], &targets[i]))
			return stet_cli_misuse_target_(cmd, words->word[i]);
	}
	return STET_CLI_OK;
}

static void release_all(struct stet_cli_target *targets, int count)
{
	for (int i = 0; i < count; i++)
		stet_cli_target_release_(&targets[i]);
	free(targets);
}

static struct stet_cli_target *alloc_targets(int count)
{
	return stet_cli_alloc_((size_t)count * sizeof(struct stet_cli_target));
}

int stet_cli_read_each_(const struct stet_cli_command *cmd, const struct stet_cli_words *words,
			stet_cli_read_fn *fn, void *arg)
{
	struct stet_cli_target *targets = alloc_targets(words->count);
	struct stet_cli_volume v = { 0 };
	const char *failed = NULL; /* a volume that could not be opened: said once is enough */
	int code = parse_all(cmd, words, targets);
	int count = code ? 0 : words->count;

	for (int i = 0; i < count; i++) {
		int one;

		if (failed && strcmp(failed, targets[i].volume) == 0)
			continue;
		one = switch_volume(&v, targets[i].volume);
		failed = one ? targets[i].volume : NULL;
		if (!one)
			one = fn(arg, &v, &targets[i]);
		if (one && !code)
			code = one;
	}
	if (v.path)
		code = stet_cli_close_(&v, code);
	release_all(targets, words->count);
	return code;
}

/// Commands that change ///

int stet_cli_change_(const struct stet_cli_command *cmd, const struct stet_cli_words *words,
		     stet_cli_change_fn *fn, void *arg)
{
	struct stet_cli_target *targets = alloc_targets(words->count);
	struct stet_cli_volume v;
	int code = parse_all(cmd, words, targets);

	for (int i = 1; i < words->count && !code; i++) {
		if (!stet_cli_same_volume_(targets[0].volume, targets[i].volume))
			code = stet_cli_fail_(targets[i].word, -EXDEV); /* I2 */
	}
	if (!code)
		code = stet_cli_open_change_(targets[0].volume, &v);
	if (!code)
		code = stet_cli_close_(&v, fn(arg, &v, targets, words->count));
	release_all(targets, words->count);
	return code;
}

/// Helpers for paths ///

int stet_cli_destination_(struct stet_cli_volume *v, const char *path, const char *source,
			  struct stet_cli_text *ret_path)
{
	struct stet_stat st;
	size_t len;
	const char *name = stet_cli_basename_(source, &len);
	int rc = stet_cli_statat_(v, STET_ROOT, path, 0, &st);

	if (rc && rc != -ENOENT)
		return rc;
	stet_cli_text_adds_(ret_path, path);
	if (rc || !S_ISDIR(st.mode))
		return 0;
	if (len && ret_path->s[ret_path->len - 1] != '/')
		stet_cli_text_add_(ret_path, "/", 1);
	stet_cli_text_add_(ret_path, name, len);
	return 0;
}
