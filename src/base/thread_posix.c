/* Threads over POSIX: locks, the lifetime of the thread block, sleeping, the clock. Only this file
 * and the file for the barrier use pthreads directly. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#include "base/memory.h"
#include "base/thread.h"

_Static_assert(sizeof(pthread_mutex_t) <= sizeof(tn_mutex_t),
               "tn_mutex_t must have room for a pthread_mutex_t");
_Static_assert(sizeof(pthread_t) <= sizeof(tn_spawned_t),
               "tn_spawned_t must have room for a pthread_t");

_Thread_local tn_thread_t *tn_thread_block;
static tn_thread_t shared_block = {.is_shared = 1};
static pthread_key_t at_end;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int have_key;

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static tn_thread_t *blocks = &shared_block;
static uint64_t ended_lookups; /* sum over the threads that have ended */

static void *(*begin_hook)(void); /* both hooks are accessed atomically */
static void (*end_hook)(void *begun);

void tn_thread_hooks_set(void *(*begin)(void), void (*end)(void *begun)) {
  __atomic_store_n(&end_hook, end, __ATOMIC_RELEASE);
  __atomic_store_n(&begin_hook, begin, __ATOMIC_RELEASE);
  tn_thread_t *mine = tn_thread();
  if (begin && !mine->begun && !mine->is_shared) mine->begun = begin();
}

static void free_thread_block(void *pointer) {
  tn_thread_t *block = pointer;
  void (*end)(void *begun) = __atomic_load_n(&end_hook, __ATOMIC_ACQUIRE);
  if (tn_thread_block == block) tn_thread_block = NULL;
  if (block == &shared_block) return;
  if (end && block->begun) end(block->begun);
  pthread_mutex_lock(&blocks_lock);
  tn_thread_t **at = &blocks;
  while (*at != block)
    at = &(*at)->next;
  *at = block->next;
  ended_lookups += block->lookups;
  pthread_mutex_unlock(&blocks_lock);
  for (int i = 0; i < (int)(sizeof block->cache / sizeof *block->cache); i++)
    tn_release_aligned(block->cache[i]);
  tn_kept_clear(block);
  free(block->own_streams);
  free(block->error);
  free(block);
}

/* Sets the stack limit. A sixteenth of the stack, at most 256 KiB, is reserved for the innermost
 * kernels. On an unlimited stack, calls may use 64 MiB. */
static void find_stack(tn_thread_t *block) {
#if defined(__linux__)
  enum {
    RESERVE_MOST = 256 << 10,
    CALLS_MOST = 64 << 20,
  };
  pthread_attr_t attributes;
  void *low;
  size_t size;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    uintptr_t here = (uintptr_t)&attributes;
    size_t reserve = size / 16 < RESERVE_MOST ? size / 16 : RESERVE_MOST;
    block->stack_low = (uintptr_t)low;
    block->stack_limit = (uintptr_t)low + reserve;
    if (here > CALLS_MOST && block->stack_limit < here - CALLS_MOST)
      block->stack_limit = here - CALLS_MOST;
    block->stack_limit_found = block->stack_limit;
  }
  pthread_attr_destroy(&attributes);
#else
  (void)block;
#endif
}

static void make_key(void) { have_key = pthread_key_create(&at_end, free_thread_block) == 0; }

tn_thread_t *tn_thread_make(void) {
  pthread_once(&once, make_key);
  /* not tn_allocate, because reporting a failure must not fail */
  tn_thread_t *block = calloc(1, sizeof *block);
  if (!block) /* the block is shared by several threads, so it caches no memory */
    return tn_thread_block = &shared_block;
  block->most_kept = TN_KEPT_MOST;
  find_stack(block);
  void *(*begin)(void) = __atomic_load_n(&begin_hook, __ATOMIC_ACQUIRE);
  if (begin) block->begun = begin();
  pthread_mutex_lock(&blocks_lock);
  block->next = blocks;
  blocks = block;
  pthread_mutex_unlock(&blocks_lock);
  if (have_key) pthread_setspecific(at_end, block);
  return tn_thread_block = block;
}

void tn_thread_drop(void) {
  if (!tn_thread_block) return;
  if (have_key) pthread_setspecific(at_end, NULL);
  free_thread_block(tn_thread_block);
}

uint64_t tn_thread_lookups(void) {
  pthread_mutex_lock(&blocks_lock);
  uint64_t sum = ended_lookups;
  for (tn_thread_t *block = blocks; block; block = block->next)
    sum += __atomic_load_n(&block->lookups, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&blocks_lock);
  return sum;
}

void tn_threads_hold(void) { pthread_mutex_lock(&blocks_lock); }
void tn_threads_let_go(void) { pthread_mutex_unlock(&blocks_lock); }

/* the memory of the other threads' blocks is not freed: the fork may have interrupted a change */
void tn_threads_forget_others(void) {
  tn_thread_t *mine = tn_thread_block;
  blocks = &shared_block;
  memset(shared_block.gates, 0, sizeof shared_block.gates);
  if (mine && mine != &shared_block) {
    mine->next = &shared_block;
    blocks = mine;
  }
}

int tn_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void)) {
  return pthread_atfork(before, in_parent, in_child) == 0;
}

uint64_t tn_thread_gate(int gate) {
  uint64_t sum = 0;
  pthread_mutex_lock(&blocks_lock);
  for (tn_thread_t *block = blocks; block; block = block->next)
    sum += __atomic_load_n(&block->gates[gate], __ATOMIC_ACQUIRE);
  pthread_mutex_unlock(&blocks_lock);
  return sum;
}

void tn_mutex_lock(tn_mutex_t *mutex) { pthread_mutex_lock((pthread_mutex_t *)(void *)mutex); }
void tn_mutex_unlock(tn_mutex_t *mutex) { pthread_mutex_unlock((pthread_mutex_t *)(void *)mutex); }

typedef struct spawned_call_t {
  void (*function)(void *);
  void *argument;
} spawned_call_t;

static void *run_spawned(void *pointer) {
  spawned_call_t begin = *(spawned_call_t *)pointer;
  free(pointer);
  begin.function(begin.argument);
  return NULL;
}

int tn_spawn(tn_spawned_t *thread, void (*function)(void *), void *argument) {
  spawned_call_t *begin = tn_allocate(sizeof *begin);
  if (!begin) return 0;
  *begin = (spawned_call_t){function, argument};
  if (pthread_create((pthread_t *)(void *)thread, NULL, run_spawned, begin) == 0) return 1;
  free(begin);
  return 0;
}

void tn_join(tn_spawned_t *thread) { pthread_join(*(pthread_t *)(void *)thread, NULL); }

void tn_thread_yield(void) { sched_yield(); }

#if defined(__linux__)
_Static_assert(sizeof(cpu_set_t) == sizeof((tn_processor_set_t *)NULL)->last,
               "the words of a tn_processor_set_t are those of a cpu_set_t");

int32_t tn_thread_processor(void) { return sched_getcpu(); }

int tn_thread_leave(tn_processor_set_t *set, int32_t processor) {
  cpu_set_t mask;
  if (processor < 0 || processor >= CPU_SETSIZE) return 0;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 0;
  /* A mask that is not the last one was set by the program or its user, whose choice counts. */
  if (memcmp(&mask, set->last, sizeof mask) != 0) memcpy(set->allowed, &mask, sizeof mask);
  memcpy(&mask, set->allowed, sizeof mask);
  CPU_CLR((size_t)processor, &mask);
  if (CPU_COUNT(&mask) == 0 || sched_setaffinity(0, sizeof mask, &mask) != 0) return 0;
  memcpy(set->last, &mask, sizeof mask);
  return 1;
}
#else
int32_t tn_thread_processor(void) { return -1; }

int tn_thread_leave(tn_processor_set_t *set, int32_t processor) {
  (void)set;
  (void)processor;
  return 0;
}
#endif

int64_t tn_thread_id(void) {
#if defined(__linux__)
  return gettid();
#else
  return (int64_t)(uintptr_t)pthread_self();
#endif
}

#if defined(__linux__)
void tn_word_sleep(uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void tn_word_wake(uint32_t *word, int32_t count) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#else
static pthread_mutex_t word_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t word_changed = PTHREAD_COND_INITIALIZER;

void tn_word_sleep(uint32_t *word, uint32_t value) {
  pthread_mutex_lock(&word_lock);
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value)
    pthread_cond_wait(&word_changed, &word_lock);
  pthread_mutex_unlock(&word_lock);
}

void tn_word_wake(uint32_t *word, int32_t count) {
  (void)word;
  (void)count;
  pthread_mutex_lock(&word_lock);
  pthread_cond_broadcast(&word_changed);
  pthread_mutex_unlock(&word_lock);
}
#endif

int64_t tn_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int tn_entropy(void *out_bytes, size_t size) { return getentropy(out_bytes, size) == 0; }
