/* Per-thread scratch memory: a stack for data that lives no longer than one call. Take a mark,
 * allocate, then reset to the mark. The thread keeps the first block, so that repeated calls
 * allocate nothing. */
#ifndef TN_BASE_SCRATCH_H
#define TN_BASE_SCRATCH_H

#include <stddef.h>

typedef struct tn_scratch_mark_t {
  struct tn_scratch_block_t *block;
  size_t used;
} tn_scratch_mark_t;

tn_scratch_mark_t tn_scratch_mark(void);
/* Returns memory aligned to 64 bytes with undefined contents, or NULL when memory runs out. */
void *tn_scratch(size_t size);
void tn_scratch_reset(tn_scratch_mark_t mark);

#endif
