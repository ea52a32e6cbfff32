/* Scratch memory of one thread: a stack of bytes for what lives no longer than a call.  Take a
 * mark, allocate, reset to the mark.  The first block is kept by the thread, so that steady calls
 * allocate nothing. */
#ifndef TN_BASE_SCRATCH_H
#define TN_BASE_SCRATCH_H

#include <stddef.h>

typedef struct tn_scratch_mark_t {
  struct tn_scratch_block_t *block;
  size_t used;
} tn_scratch_mark_t;

tn_scratch_mark_t tn_scratch_mark(void);
void *tn_scratch(size_t size); /* aligned to 64, undefined contents; NULL: out of memory */
void tn_scratch_reset(tn_scratch_mark_t mark);

#endif
