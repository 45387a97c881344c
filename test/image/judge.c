/* judge.c - what an image must do after a mutation.
 *
 * J1. Damage (checksums not fixed): every answer is that of one of the states that a crash could have shown,
 *     the same one for all; else there is no answer. A state is possible as long as nothing that is still
 *     whole proves that a later one was flushed (legal_states).
 * J2. Hostile changes (checksums fixed): no crash, no hang. Who opens such an image gets a report from the
 *     check, or everything is as it was, unless the change is one that nobody can tell (m->free).
 * J3. In both: what cannot be read is reported by the check. Reading writes nothing. Memory never runs out.
 * J4. What there are two of, may be lost once: a superblock, a checkpoint, a copy of a node cost nothing.
 * J5. After operations on a damaged image, what they did not touch is as before.
 */
#include "judge.h"

#include "check/check.h"
#include "device/device.h"
#include "volume.h"
#include "walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct trial {
	struct mutation *m;
	struct judgement *ret;
	uint64_t states; /* that all answers so far agree with */
	uint64_t problems, errors;
	bool any_state;
	bool changed;     /* states became empty */
	uint64_t new_ino; /* not 0: operations were done; what they touched is not asked */
	char first_error[256], open_error[256];
};

static void bad(struct trial *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void bad(struct trial *t, const char *fmt, ...)
{
	va_list args;

	if (t->ret->verdict == VERDICT_BAD)
		return;
	t->ret->verdict = VERDICT_BAD;
	va_start(args, fmt);
	vsnprintf(t->ret->why, sizeof(t->ret->why), fmt, args);
	va_end(args);
}

/* --- J1: which states may be seen --- */

static bool touched(const struct mutation *m, uint64_t off, uint64_t len)
{
	for (uint64_t b = off / STET_BLOCK_SIZE; b <= (off + len - 1) / STET_BLOCK_SIZE; b++)
		if (m->touched[b / 8] >> b % 8 & 1)
			return true;
	return false;
}

/* What a summary proves to be durable: a COMMIT's word on its own batch does not count, as nobody says that
 * the COMMIT itself was written in time. */
static uint64_t claim_of(const uint8_t *summary)
{
	uint64_t durable = stet_get_le64(summary + offsetof(struct stet_pseg_disk, durable));
	uint64_t batch = stet_get_le64(summary + offsetof(struct stet_pseg_disk, batch));

	if (summary[offsetof(struct stet_pseg_disk, kind)] == STET_PSEG_COMMIT && durable >= batch)
		return batch - 1;
	return durable;
}

#define SLOTS_MAX 256u

/* What a reader of the log has learnt, by the rules of doc/format.md 14. */
struct reader {
	const struct mutation *m;
	bool slots[SLOTS_MAX]; /* where it looks for more */
	bool found;            /* something new in this round */
	uint64_t durable;      /* proved */
};

static void reader_look(struct reader *r, struct stet_place place)
{
	if (stet_addr_is_none(place.addr) || r->slots[place.slot % SLOTS_MAX])
		return;
	r->slots[place.slot % SLOTS_MAX] = true;
	r->found = true;
}

/* The summary, if it is whole; on the chain only the last one's places count. */
static bool reader_take(struct reader *r, const struct part *p, bool linked)
{
	const struct atlas *a = r->m->base->atlas;
	const uint8_t *summary = a->bytes + p->off;
	struct stet_pseg pseg;

	if (touched(r->m, p->off, p->len) ||
	    stet_pseg_decode(summary, a->sb.volume_id, a->sb.seg_blocks, &pseg))
		return false;
	if (!linked && !r->slots[pseg.self.slot % SLOTS_MAX])
		return false;
	if (linked)
		memset(r->slots, 0, sizeof(r->slots));
	reader_look(r, pseg.next1);
	reader_look(r, pseg.next2);
	if (claim_of(summary) > r->durable)
		r->durable = claim_of(summary);
	return true;
}

/* The highest serial that is proved to be durable to one who starts at the record's place: by the members of the
 * chain up to the first that is not whole, then by those in segments to which whole ones lead. */
static uint64_t proved_serial(const struct mutation *m, const struct stet_ckpt_record *from)
{
	const struct atlas *a = m->base->atlas;
	struct reader r = { .m = m };
	size_t i = 0;

	while (i < a->chain.n && a->parts.v[a->chain.v[i]].serial <= from->chain_serial)
		i++;
	reader_look(&r, from->chain_next1);
	reader_look(&r, from->chain_next2);
	while (i < a->chain.n && reader_take(&r, &a->parts.v[a->chain.v[i]], true))
		i++;
	do {
		r.found = false;
		for (size_t k = i; k < a->chain.n; k++)
			(void)reader_take(&r, &a->parts.v[a->chain.v[k]], false);
	} while (r.found);
	return r.durable;
}

/* What the batch that holds it says. */
static uint64_t cut_of_serial(const struct atlas *a, uint64_t serial)
{
	uint64_t cut = 0;

	for (size_t i = 0; i < a->chain.n; i++) {
		const struct part *p = &a->parts.v[a->chain.v[i]];

		if (p->serial <= serial)
			cut = stet_get_le64(a->bytes + p->off +
					    offsetof(struct stet_pseg_disk, cut)) > cut
				      ? stet_get_le64(a->bytes + p->off +
						      offsetof(struct stet_pseg_disk, cut))
				      : cut;
	}
	return cut;
}

/* The cut that is proved to be durable by what is still whole, whichever checkpoint recovery starts from. */
static uint64_t proved_cut(const struct mutation *m)
{
	const struct atlas *a = m->base->atlas;
	uint64_t least = UINT64_MAX, proved = 0;

	for (uint32_t i = 0; i < a->kind_n[PART_SLOT]; i++) {
		const struct part *p = &a->parts.v[a->kind_first[PART_SLOT][i]];
		uint64_t cut = stet_get_le64(a->bytes + p->off +
					     offsetof(struct stet_ckpt_slot_disk, cut));

		if (!touched(m, p->off, p->len) && cut > proved)
			proved = cut;
	}
	for (uint32_t i = 0; i < a->kind_n[PART_RECORD]; i++) {
		const struct part *p = &a->parts.v[a->kind_first[PART_RECORD][i]];
		struct stet_ckpt_record rec;
		uint64_t cut;

		if (stet_ckpt_record_decode(a->bytes + p->off, p->len, a->sb.volume_id, &rec))
			continue;
		cut = cut_of_serial(a, proved_serial(m, &rec));
		if (cut < rec.cut)
			cut = rec.cut;
		if (cut < least)
			least = cut;
	}
	return proved > least ? proved : least;
}

static uint64_t legal_states(const struct mutation *m)
{
	uint64_t proved = m->fixed ? 0 : proved_cut(m);
	uint64_t states = 0;

	for (unsigned s = 0; s < m->base->state_count; s++)
		if (m->base->cut[s] >= proved)
			states |= UINT64_C(1) << s;
	return states;
}

/* --- J4: what must be survived --- */

/* The sequence of a checkpoint that cannot be used without the part, 0 when there is none; both: UINT64_MAX. */
static uint64_t checkpoint_of(const struct atlas *a, uint32_t part)
{
	const struct part *p = &a->parts.v[part];
	uint64_t sequence = 0;

	if (p->kind == PART_SLOT || p->kind == PART_RECORD)
		return p->serial;
	for (size_t i = 0; p->kind == PART_PAGE && i < a->refs.n; i++) {
		const struct part *holder = &a->parts.v[a->refs.v[i].holder];

		if (a->refs.v[i].target == part && holder->kind == PART_RECORD)
			sequence = sequence && sequence != holder->serial ? UINT64_MAX
									  : holder->serial;
	}
	return sequence;
}

static bool must_survive(const struct mutation *m)
{
	const struct atlas *a = m->base->atlas;
	uint64_t lost = 0; /* a checkpoint */
	unsigned superblocks = 3;

	if (m->fixed || m->lessened)
		return false;
	for (uint32_t i = 0; i < a->parts.n; i++) {
		const struct part *p = &a->parts.v[i];
		uint64_t checkpoint;

		if (!p->live || !touched(m, p->off, p->len) ||
		    (p->off2 && !touched(m, p->off2, p->len)))
			continue;
		checkpoint = checkpoint_of(a, i);
		if (p->kind == PART_SUPERBLOCK)
			superblocks--;
		else if (checkpoint == 0 || (lost != 0 && lost != checkpoint))
			return false;
		else
			lost = checkpoint;
	}
	return superblocks > 0 && lost != UINT64_MAX;
}

static void check_survived(struct trial *t)
{
	unsigned last = t->m->base->state_count - 1;

	if (!must_survive(t->m))
		return;
	if (t->ret->verdict == VERDICT_REFUSED)
		bad(t, "nothing is lost, but it cannot be opened: %.300s", t->open_error);
	else if (t->errors > 0)
		bad(t, "nothing is lost, but %s", t->first_error);
	else if (!(t->states >> last & 1))
		bad(t, "nothing is lost, but it shows an earlier state");
}

/* --- asking --- */

static bool is_excluded(const struct trial *t, uint64_t ino)
{
	const struct base *b = t->m->base;

	if (t->new_ino == 0)
		return false;
	if (ino == STET_ROOT_INO || ino == b->victim_ino || ino == b->target_ino ||
	    ino >= t->new_ino)
		return true;
	for (size_t i = 0; i < b->ino_count; i++)
		if (b->inos[i] == ino)
			return true;
	return false;
}

static void answer(void *arg, enum question q, uint64_t ino, uint64_t sub, uint64_t value)
{
	struct trial *t = arg;
	uint64_t known;

	if (is_excluded(t, ino) || t->changed)
		return;
	known = facts_states(t->m->base->facts, q, ino, sub, value);
	if (t->states & known) {
		t->states &= known;
		return;
	}
	t->changed = true;
	if (!t->m->fixed)
		bad(t,
		    "wrong answer: question %d of inode %llu, %llx: known of states %llx, "
		    "so far %llx",
		    (int)q, (unsigned long long)ino, (unsigned long long)sub,
		    (unsigned long long)known, (unsigned long long)t->states);
	else
		snprintf(t->first_error, sizeof(t->first_error),
			 "question %d of inode %llu, %llx has another answer", (int)q,
			 (unsigned long long)ino, (unsigned long long)sub);
}

static void failed(void *arg, enum question q, uint64_t ino, uint64_t sub, int rc)
{
	struct trial *t = arg;

	if (t->errors++ == 0)
		snprintf(t->first_error, sizeof(t->first_error),
			 "question %d of inode %llu, %llx: %d (%.120s)", (int)q,
			 (unsigned long long)ino, (unsigned long long)sub, rc, stet_error_text());
	if (rc == -ENOMEM)
		bad(t, "no memory: %s", stet_error_text());
	if (!t->m->fixed && rc != -EIO && rc != -EUCLEAN)
		bad(t, "question %d of inode %llu: error %d (%s)", (int)q, (unsigned long long)ino,
		    rc, stet_error_text());
}

static void ask(struct trial *t, struct volume *v)
{
	const struct base *base = t->m->base;
	const struct walk_visitor visitor = { answer, failed, t };
	int rc;

	t->states = t->any_state ? UINT64_MAX : legal_states(t->m);
	t->changed = false;
	rc = walk_volume(v, base->inos, base->ino_count, &visitor);
	if (rc)
		bad(t, "the walk failed: %d (%s)", rc, stet_error_text());
}

static int on_problem(void *arg, enum stet_problem_id id, uint64_t ino, const char *detail)
{
	struct trial *t = arg;

	if (t->problems++ == 0 && t->ret->verdict != VERDICT_BAD)
		snprintf(t->ret->why, sizeof(t->ret->why), "%s inode %llu: %s", stet_check_name(id),
			 (unsigned long long)ino, detail);
	return 0;
}

static void check(struct trial *t, struct volume *v)
{
	struct stet_check_summary sum;
	int rc = stet_check_volume(v->fs, v->engine, 0, on_problem, t, &sum);

	if (rc == -ENOMEM)
		bad(t, "no memory for a check: %s", stet_error_text());
	else if (rc)
		t->problems++;
}

static void decide(struct trial *t)
{
	if (t->ret->verdict == VERDICT_BAD)
		return;
	if (t->problems > 0)
		t->ret->verdict = VERDICT_REPORTED;
	else if (t->errors > 0) /* J3 */
		bad(t, "the check reports nothing, but %s", t->first_error);
	else if (!t->changed)
		t->ret->verdict = VERDICT_RIGHT;
	else if (t->m->free) /* J2 */
		t->ret->verdict = VERDICT_CHANGED;
	else
		bad(t, "nobody noticed: %s", t->first_error);
}

static void note_refused(struct trial *t, int rc)
{
	if (rc == -ENOMEM)
		bad(t, "no memory to open: %s", stet_error_text());
	else if (rc != -EUCLEAN && rc != -EIO && rc != -EINVAL && rc != -EOPNOTSUPP &&
		 !(rc == -ENOSPC && t->m->fixed))
		bad(t, "open: error %d (%s)", rc, stet_error_text());
}

static void read_only(struct trial *t)
{
	struct stet_device_stats before, after;
	struct volume v;
	int rc;

	stet_device_stats(t->m->device, &before);
	rc = volume_open(t->m->device, VOLUME_READ, &v);
	if (rc) {
		t->ret->verdict = VERDICT_REFUSED;
		snprintf(t->ret->why, sizeof(t->ret->why), "%d %s", rc, stet_error_text());
		snprintf(t->open_error, sizeof(t->open_error), "%d %.200s", rc, stet_error_text());
		note_refused(t, rc);
	} else {
		check(t, &v);
		ask(t, &v);
		volume_close(&v);
		decide(t);
	}
	stet_device_stats(t->m->device, &after);
	if (after.writes != before.writes || after.discards != before.discards)
		bad(t, "reading wrote to the device"); /* J3 */
	check_survived(t);
}

/* --- changing --- */

static uint8_t some_bytes[50000];

/* Returns the first new inode's number, 0 when there is none. */
static uint64_t change(struct volume *v, const struct base *base)
{
	struct op dir = {
		.kind = OP_MAKE, .dir = STET_ROOT_INO, .mode = S_IFDIR | 0755, .name = "new dir"
	};
	struct op file = { .kind = OP_MAKE, .mode = S_IFREG | 0644, .name = "new file" };
	struct op more[] = {
		{ .kind = OP_UNLINK, .dir = STET_ROOT_INO, .name = "victim" },
		{ .kind = OP_WRITE, .ino = base->target_ino, .off = 5000, .len = 70 },
		{ .kind = OP_WRITE, .ino = base->target_ino, .off = 20000, .len = 40000 },
		{ .kind = OP_TRUNCATE, .ino = base->target_ino, .off = 30000 },
		{ .kind = OP_PUNCH, .ino = base->target_ino, .off = 4096, .len = 9000 },
		{ .kind = OP_XATTR_SET, .ino = base->target_ino, .name = "user.new", .len = 5000 },
		{ .kind = OP_RENAME,
		  .dir = STET_ROOT_INO,
		  .name = "target",
		  .to_dir = STET_ROOT_INO,
		  .to_name = "renamed" },
	};

	if (volume_op(v, NULL, &dir) == 0) {
		file.dir = dir.ino;
		if (volume_op(v, NULL, &file) == 0) {
			struct op write = { .kind = OP_WRITE,
					    .ino = file.ino,
					    .data = some_bytes,
					    .len = sizeof(some_bytes) };

			stet_ignore(volume_op(v, NULL, &write), "the volume may be damaged");
		}
	}
	for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
		more[i].data = some_bytes;
		stet_ignore(volume_op(v, NULL, &more[i]), "the volume may be damaged");
	}
	return dir.ino;
}

/* A name that some directory has, or had. */
static void some_name(struct mutation *m, uint64_t *ret_dir, char *name)
{
	const struct atlas *a = m->base->atlas;
	const struct item_place *item;
	struct stet_key key;

	do
		item = &a->items.v[mutation_pick(m, a->items.n)];
	while (item->kind != STET_KIND_DIRENT);
	atlas_key(a, item, &key);
	*ret_dir = stet_key_object(key.b);
	memcpy(name, key.b + 9, key.bytes - 9u);
	name[key.bytes - 9] = '\0';
}

/* Anything, anywhere. */
static void change_at_random(struct mutation *m, struct volume *v)
{
	static const enum op_kind kinds[] = { OP_LINK,   OP_UNLINK, OP_RMDIR,
					      OP_RENAME, OP_WRITE,  OP_TRUNCATE,
					      OP_PUNCH,  OP_APPEND, OP_XATTR_SET };

	for (int i = 0; i < 30; i++) {
		char name[STET_NAME_MAX + 1], to_name[STET_NAME_MAX + 1];
		struct op op = { .kind = kinds[mutation_pick(m, sizeof(kinds) / sizeof(kinds[0]))],
				 .ino = 1 + mutation_pick(m, m->base->ino_end),
				 .off = mutation_pick(m, 300000),
				 .len = mutation_pick(m, 20000),
				 .data = some_bytes,
				 .name = name,
				 .to_name = to_name };

		some_name(m, &op.dir, name);
		some_name(m, &op.to_dir, to_name);
		if (op.kind == OP_XATTR_SET)
			op.name = "user.large";
		stet_ignore(volume_op(v, NULL, &op), "the volume is damaged");
	}
}

/* J5 */
static void look_again(struct trial *t)
{
	struct volume v;
	int rc = volume_open(t->m->device, VOLUME_READ, &v);

	if (rc) {
		bad(t, "not to be opened after a checkpoint: %d (%s)", rc, stet_error_text());
		return;
	}
	if (!t->m->fixed)
		ask(t, &v);
	volume_close(&v);
}

static void read_write(struct trial *t)
{
	struct volume v;
	int rc = volume_open(t->m->device, VOLUME_WRITE, &v);

	t->ret->written = true;
	if (rc) {
		note_refused(t, rc);
		return;
	}
	t->ret->write_opened = true;
	if (!t->m->fixed)
		ask(t, &v);
	t->new_ino = change(&v, t->m->base);
	if (t->m->fixed)
		change_at_random(t->m, &v);
	volume_pump(&v, 40);
	if (mutation_chance(t->m, 50))
		volume_clean(&v, 2, 200);
	rc = volume_checkpoint(&v);
	volume_close(&v);
	if (rc == -ENOMEM)
		bad(t, "no memory for a checkpoint: %s", stet_error_text());
	if (t->new_ino == 0)
		t->new_ino = UINT64_MAX;
	if (!rc && !t->m->lessened)
		look_again(t);
}

/* A prefix of the log is asked for: whatever state that ends in. */
static void read_prefix(struct trial *t)
{
	struct volume v;
	int rc = volume_open(t->m->device, VOLUME_PREFIX, &v);

	if (rc) {
		note_refused(t, rc);
		return;
	}
	t->any_state = true;
	ask(t, &v);
	t->any_state = false;
	volume_close(&v);
}

static void through_library(struct trial *t)
{
	enum verdict verdict = t->ret->verdict;
	int rc = judge_public(t->m);

	if (rc == -ENOMEM)
		bad(t, "stet_check: no memory");
	if (t->m->lessened)
		return; /* a file is not like that */
	if ((verdict == VERDICT_REFUSED && rc == 0) || (verdict == VERDICT_REPORTED && rc <= 0) ||
	    (verdict == VERDICT_RIGHT && rc != 0))
		bad(t, "stet_check: %d (%s)", rc, stet_error_text());
}

void judge(struct mutation *m, bool publicly, bool writing, struct judgement *ret)
{
	struct trial t = { .m = m, .ret = ret };

	*ret = (struct judgement){ .verdict = VERDICT_REFUSED };
	read_only(&t);
	if (publicly) {
		read_prefix(&t);
		through_library(&t);
	}
	if (writing)
		read_write(&t);
}
