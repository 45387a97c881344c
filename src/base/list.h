/* list.h - doubly linked circular list, woven into its members.
 *
 * I1. A head or member always points to something: alone, to itself. So deleting twice is harmless.
 * The same type serves as head and as member; the owner of the members is whoever allocated them.
 */
#ifndef STET_BASE_LIST_H
#define STET_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct stet_list {
	struct stet_list *next;
	struct stet_list *prev;
};

/** The struct of the given type whose member ptr points to. */
#define stet_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/** Walks the members in order; pos is a struct stet_list *. The list must not change meanwhile. */
#define STET_LIST_FOREACH(pos, head) \
	for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)

/** As STET_LIST_FOREACH, but pos (only) may be deleted or freed in the body. */
#define STET_LIST_FOREACH_SAFE(pos, tmp, head)                           \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head); \
	     (pos) = (tmp), (tmp) = (pos)->next)

/** Makes an empty head, or a member that is on no list. */
static inline void stet_list_init(struct stet_list *list)
{
	list->next = list;
	list->prev = list;
}

/** True when the head has no members. */
static inline bool stet_list_empty(const struct stet_list *head)
{
	return head->next == head;
}

/** True when the member is on a list. */
static inline bool stet_list_linked(const struct stet_list *member)
{
	return member->next != member;
}

/** Puts the member, which must be on no list, before pos. */
static inline void stet_list_add_before(struct stet_list *pos, struct stet_list *member)
{
	member->next = pos;
	member->prev = pos->prev;
	pos->prev->next = member;
	pos->prev = member;
}

/** Makes the member, which must be on no list, the first. */
static inline void stet_list_add_head(struct stet_list *head, struct stet_list *member)
{
	stet_list_add_before(head->next, member);
}

/** Makes the member, which must be on no list, the last. */
static inline void stet_list_add_tail(struct stet_list *head, struct stet_list *member)
{
	stet_list_add_before(head, member);
}

/** Takes the member off its list, if it is on one; it may be added again. */
static inline void stet_list_del(struct stet_list *member)
{
	member->prev->next = member->next;
	member->next->prev = member->prev;
	stet_list_init(member);
}

/** The first member, or NULL. Borrowed from its owner. */
static inline struct stet_list *stet_list_first(const struct stet_list *head)
{
	return stet_list_empty(head) ? NULL : head->next;
}

/** The last member, or NULL. Borrowed from its owner. */
static inline struct stet_list *stet_list_last(const struct stet_list *head)
{
	return stet_list_empty(head) ? NULL : head->prev;
}

/** Moves all members of from, in order, behind those of head; from is empty afterwards. */
static inline void stet_list_splice_tail(struct stet_list *head, struct stet_list *from)
{
	if (stet_list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	stet_list_init(from);
}

#endif
