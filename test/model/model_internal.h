/* model_internal.h - what model.c, model_op.c and model_print.c share. */
#ifndef TEST_MODEL_MODEL_INTERNAL_H
#define TEST_MODEL_MODEL_INTERNAL_H

#include "model.h"

/* Memory that never runs out: a test that has none left is over. */
void *model_alloc_(size_t bytes);
void *model_realloc_(void *p, size_t bytes);

struct model_blob *model_blob_(const void *bytes, size_t len);
struct model_blob *model_blob_get_(struct model_blob *blob);
void model_blob_put_(struct model_blob *blob); /* NULL: nothing */

struct model *model_copy_(const struct model *m);
/* The inode, for changing: nobody else sees it. Its hash is taken out of the state until model_seal_. The
 * inode must exist. */
struct model_inode *model_edit_(struct model *m, uint64_t ino);
void model_seal_(struct model *m, struct model_inode *inode);
void model_drop_(struct model *m, uint64_t ino);

bool model_remove_entry_(struct model_inode *dir, const void *name, size_t len);
bool model_remove_xattr_(struct model_inode *inode, const void *name, size_t len);
bool model_remove_record_(struct model_inode *inode, const void *key, size_t len);
/* Zeroes [off, end). */
void model_zero_(struct model_inode *inode, uint64_t off, uint64_t end);
void model_read_(const struct model_inode *inode, uint64_t off, uint8_t *out, size_t len);

#endif
