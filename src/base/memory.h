/* Host memory: every allocation of libtenon goes through these functions. NULL means that memory
 * ran out; no error message is set. */
#ifndef TN_BASE_MEMORY_H
#define TN_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Alignment of tensors and workspaces in bytes. */
enum { TN_ALIGNMENT = 64 };

void *tn_allocate(size_t size); /* undefined contents; size 0 gives a unique pointer */
void *tn_allocate_zero(size_t count, size_t size); /* zeroed; NULL when count * size overflows */
void *tn_reallocate(void *pointer, size_t size);   /* the old block stays valid on failure */
void tn_release_memory(void *pointer);             /* NULL is allowed */
/* aligned to TN_ALIGNMENT; free by tn_release_aligned */
void *tn_allocate_aligned(size_t size);
void tn_release_aligned(void *pointer);
/* How many bytes all aligned blocks have together. They hold tensors, workspaces and the temporary
 * memory of calls, which is what grows in a run. tn_allocate_aligned returns NULL instead of
 * exceeding the limit, which is UINT64_MAX at first; other threads may exceed it by a MiB each. */
uint64_t tn_aligned_bytes(void);
uint64_t tn_aligned_limit(void);
void tn_aligned_limit_set(uint64_t bytes);
/* Short-lived blocks of calls, aligned to TN_ALIGNMENT. Each thread caches a few blocks of each
 * small size, so that repeated calls do not reach the allocator. `size` must be the same in both
 * functions. */
void *tn_block_get(size_t size);
void tn_block_put(void *block, size_t size); /* from any thread; NULL is allowed */
/* The same for blocks that are allocated and freed by the hundred: a thread caches more of them. */
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

/* Doubles the capacity of a growing array when the array is full. Returns false when memory runs
 * out. */
bool tn_grow(void **items, size_t *capacity, size_t count, size_t item_size);

#endif
