/* changes.c - the changes of a transaction, as the daemon tells them, and as JSON. */
#include "cli/changes_internal.h"

#include "fuse/control.h"

#include <stdlib.h>

static int take(void *arg, const struct stet_change *change)
{
	struct stet_cli_changes *all = arg;
	struct stet_change *mine;

	if (all->count == all->cap) {
		all->cap = all->cap ? all->cap * 2 : 64;
		all->change = stet_cli_realloc_(all->change, all->cap * sizeof(*all->change));
	}
	mine = &all->change[all->count++];
	*mine = *change;
	mine->path = stet_cli_strdup_(change->path);
	if (change->old_path)
		mine->old_path = stet_cli_strdup_(change->old_path);
	return 0;
}

int stet_cli_changes_load_(struct stet_control *ctl, uint64_t id, struct stet_cli_changes *ret)
{
	*ret = (struct stet_cli_changes){ .id = id };
	return stet_control_changes(ctl, id, take, ret);
}

void stet_cli_changes_release_(struct stet_cli_changes *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		free((void *)(uintptr_t)changes->change[i].path);
		free((void *)(uintptr_t)changes->change[i].old_path);
	}
	free(changes->change);
	*changes = (struct stet_cli_changes){ 0 };
}

/// JSON ///

static const char *kind_name(enum stet_change_kind kind)
{
	switch (kind) {
	case STET_CHANGE_ADDED:
		return "added";
	case STET_CHANGE_REMOVED:
		return "removed";
	case STET_CHANGE_REPLACED:
		return "replaced";
	case STET_CHANGE_RENAMED:
		return "renamed";
	case STET_CHANGE_MODIFIED:
		break;
	}
	return "modified";
}

static void json_attr(struct stet_cli_json *json, const char *key,
		      const struct stet_change_attr *attr)
{
	char mode[8];

	if (!attr->mode)
		return;
	snprintf(mode, sizeof(mode), "%04o", attr->mode & 07777u);
	stet_cli_json_open_(json, key, '{');
	stet_cli_json_string_(json, "type", stet_cli_type_name_(attr->mode));
	stet_cli_json_string_(json, "mode", mode);
	stet_cli_json_number_(json, "uid", attr->uid);
	stet_cli_json_number_(json, "gid", attr->gid);
	stet_cli_json_number_(json, "size", attr->size);
	stet_cli_json_number_(json, "links", attr->nlink);
	stet_cli_json_close_(json, '}');
}

static void json_change(struct stet_cli_json *json, const struct stet_change *change)
{
	stet_cli_json_open_(json, NULL, '{');
	stet_cli_json_string_(json, "change", kind_name(change->kind));
	stet_cli_json_string_(json, "path", change->path);
	if (change->old_path)
		stet_cli_json_string_(json, "old_path", change->old_path);
	stet_cli_json_string_(json, "type", stet_cli_entry_type_name_(change->type));
	if (change->old_type)
		stet_cli_json_string_(json, "old_type",
				      stet_cli_entry_type_name_(change->old_type));
	stet_cli_json_number_(json, "ino", change->ino);
	stet_cli_json_bool_(json, "data", change->what & STET_CHANGED_DATA);
	stet_cli_json_bool_(json, "attributes", change->what & STET_CHANGED_ATTR);
	stet_cli_json_bool_(json, "xattrs", change->what & STET_CHANGED_XATTR);
	json_attr(json, "before", &change->before);
	json_attr(json, "after", &change->after);
	if (change->replaced_ino) {
		stet_cli_json_number_(json, "replaced_ino", change->replaced_ino);
		json_attr(json, "replaced", &change->replaced);
	}
	stet_cli_json_close_(json, '}');
}

void stet_cli_changes_json_(const struct stet_cli_changes *changes)
{
	uint64_t count[STET_CHANGE_MODIFIED + 1] = { 0 };
	struct stet_cli_json json = { .on = true };

	stet_cli_json_open_(&json, NULL, '{');
	stet_cli_json_number_(&json, "transaction", changes->id);
	stet_cli_json_open_(&json, "changes", '[');
	for (size_t i = 0; i < changes->count; i++) {
		json_change(&json, &changes->change[i]);
		count[changes->change[i].kind]++;
	}
	stet_cli_json_close_(&json, ']');
	stet_cli_json_open_(&json, "totals", '{');
	for (unsigned kind = 0; kind <= STET_CHANGE_MODIFIED; kind++)
		stet_cli_json_number_(&json, kind_name((enum stet_change_kind)kind), count[kind]);
	stet_cli_json_close_(&json, '}');
	stet_cli_json_close_(&json, '}');
}
