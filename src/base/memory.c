/* Host memory over the C library, with the counter that lets tests fail the n-th allocation.  Called by every layer. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong countdown; /* allocations until failure; 0: off */
static atomic_llong made;
static atomic_bool armed, stays;
static atomic_llong left; /* bytes until the limit */
static atomic_bool limited;

static bool refuse(size_t size) {
  if (atomic_load_explicit(&limited, memory_order_relaxed)) {
    if ((long long)size < 0 || atomic_load(&left) < (long long)size) return true;
    atomic_fetch_sub(&left, (long long)size);
  }
  if (!atomic_load_explicit(&armed, memory_order_relaxed)) return false;
  atomic_fetch_add(&made, 1);
  long long more = atomic_fetch_sub(&countdown, 1);
  return more == 1 || (more < 1 && atomic_load(&stays));
}

void tn_memory_fail_after(int64_t n, bool sticky) {
  atomic_store(&made, 0);
  atomic_store(&stays, sticky);
  atomic_store(&countdown, n > 0 ? n : INT64_MAX);
  atomic_store(&armed, n >= 0);
  if (n == 0) atomic_store(&armed, false);
}

void tn_memory_limit(int64_t bytes) {
  atomic_store(&left, bytes);
  atomic_store(&limited, bytes > 0);
}

int64_t tn_memory_count(void) { return atomic_load(&made); }

void *tn_allocate(size_t size) { return refuse(size) ? NULL : malloc(size ? size : 1); }

void *tn_allocate_zero(size_t count, size_t size) {
  size_t bytes;
  bool overflows = __builtin_mul_overflow(count, size, &bytes);
  if (refuse(overflows ? SIZE_MAX : bytes) || overflows) return NULL;
  return calloc(count ? count : 1, size ? size : 1);
}

void *tn_reallocate(void *pointer, size_t size) { return refuse(size) ? NULL : realloc(pointer, size ? size : 1); }

void tn_release_memory(void *pointer) { free(pointer); }

void *tn_allocate_aligned(size_t size) {
  if (size > SIZE_MAX / 2 || refuse(size)) return NULL;
  char *block =
      malloc(size + 2 * TN_ALIGNMENT); /* room for the block's own address in front; aligned_alloc is not portable */
  if (!block) return NULL;
  char *aligned = block + TN_ALIGNMENT - (uintptr_t)block % TN_ALIGNMENT;
  if ((size_t)(aligned - block) < sizeof(void *)) aligned += TN_ALIGNMENT;
  memcpy(aligned - sizeof(void *), &block, sizeof block);
  return aligned;
}

void tn_release_aligned(void *pointer) {
  if (!pointer) return;
  void *block;
  memcpy(&block, (char *)pointer - sizeof(void *), sizeof block);
  free(block);
}

char *tn_copy_text(const char *text, size_t size) {
  char *copy = tn_allocate(size + 1);
  if (!copy) return NULL;
  if (size) memcpy(copy, text, size);
  copy[size] = 0;
  return copy;
}

bool tn_grow(void **items, size_t *capacity, size_t count, size_t item_size) {
  if (count < *capacity) return true;
  size_t room = *capacity ? *capacity * 2 : 8;
  if (room > SIZE_MAX / item_size) return false;
  void *bigger = tn_reallocate(*items, room * item_size);
  if (!bigger) return false;
  *items = bigger, *capacity = room;
  return true;
}
