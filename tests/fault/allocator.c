/* Replaces malloc and related functions for a whole process: the names below are found before those
 * of libc. */
#include "allocator.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size), *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size),
    *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);
extern char __executable_start[], etext[];

static atomic_llong held, asked, failures;
static _Atomic uint64_t seed;
static _Atomic uint32_t share;

void allocator_fail(uint64_t new_seed, uint32_t new_share) {
  atomic_store(&share, 0);
  atomic_store(&asked, 0);
  atomic_store(&failures, 0);
  atomic_store(&seed, new_seed);
  atomic_store(&share, new_share);
}

int64_t allocator_failures(void) { return failures; }
int64_t allocator_asked(void) { return asked; }
int64_t allocator_held(void) { return held; }

/* Requests of the program's own code; faults.c makes those fail. */
static bool fails(const void *caller) {
  if (!share || ((const char *)caller >= __executable_start && (const char *)caller < etext))
    return false;
  uint64_t x = seed + (uint64_t)++asked * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  if ((x ^ (x >> 31)) % share) return false;
  failures++;
  errno = ENOMEM;
  return true;
}

static void *got(void *block) {
  held += (long long)malloc_usable_size(block);
  return block;
}

#define CALLER __builtin_return_address(0)
#pragma GCC visibility push(default) /* for other libraries */

void *malloc(size_t size) { return fails(CALLER) ? NULL : got(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) {
  return fails(CALLER) ? NULL : got(__libc_calloc(count, size));
}
void *memalign(size_t alignment, size_t size) {
  return fails(CALLER) ? NULL : got(__libc_memalign(alignment, size));
}
void *aligned_alloc(size_t alignment, size_t size) {
  return fails(CALLER) ? NULL : got(__libc_memalign(alignment, size));
}
int posix_memalign(void **out_block, size_t alignment, size_t size) {
  void *block = fails(CALLER) ? NULL : got(__libc_memalign(alignment, size));
  if (block) *out_block = block;
  return block ? 0 : ENOMEM;
}
void *realloc(void *block, size_t size) {
  if (fails(CALLER)) return NULL;
  long long before = (long long)malloc_usable_size(block);
  void *bigger = __libc_realloc(block, size);
  if (bigger || !size) held += (long long)malloc_usable_size(bigger) - before;
  return bigger;
}
void free(void *block) {
  held -= (long long)malloc_usable_size(block);
  __libc_free(block);
}
