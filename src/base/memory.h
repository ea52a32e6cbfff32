/* Host memory: every allocation of libtenon goes through here.  NULL means out of memory, with no
 * message set. */
#ifndef TN_BASE_MEMORY_H
#define TN_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN_ALIGNMENT = 64 }; /* bytes, of tensors and workspaces */

void *tn_allocate(size_t size); /* undefined contents; size 0 gives a unique pointer */
void *tn_allocate_zero(size_t count, size_t size); /* zeroed; NULL when count * size overflows */
void *tn_reallocate(void *pointer, size_t size);   /* the old block stays on failure */
void tn_release_memory(void *pointer);             /* NULL is fine */
void *tn_allocate_aligned(size_t size);            /* TN_ALIGNMENT; freed by tn_release_aligned */
void tn_release_aligned(void *pointer);
/* Blocks that come and go with calls, aligned like the above: a thread keeps a few of each small
 * size, so that steady calls reach no allocator.  `size` is the same at both ends. */
void *tn_block_get(size_t size);
void tn_block_put(void *block, size_t size); /* on any thread; NULL is fine */
/* The same for blocks of which many come, and go again together: a thread keeps more of them. */
void *tn_many_get(size_t size);
void tn_many_put(void *block, size_t size);
char *tn_copy_text(const char *text, size_t size); /* terminated copy of `size` bytes */

/* Overflow-checked arithmetic: false when the result does not fit. */
static inline bool tn_mul(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_mul_overflow(a, b, out);
}
static inline bool tn_add(int64_t a, int64_t b, int64_t *out) {
  return !__builtin_add_overflow(a, b, out);
}

/* Doubles the room of a growing array when it is full: items, count, capacity are the array's own
 * variables. */
bool tn_grow(void **items, size_t *capacity, size_t count, size_t item_size);

#endif
