/* records.c - operations on the records of a table, where the library has tables. */
#include "work.h"

bool work_have_records(void)
{
	return false;
}

int work_records_set_up(struct work *w)
{
	(void)w;
	return 0;
}

void work_records_release(struct work *w)
{
	(void)w;
}

void work_record_op(struct actor *a)
{
	(void)a;
}

void work_record_read(struct actor *a)
{
	(void)a;
}

void work_read_records(struct actor *a)
{
	(void)a;
}

int work_records_begin(struct actor *a)
{
	(void)a;
	return 0;
}
