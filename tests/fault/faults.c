/* The functions to which the linker redirects requests, and the plan that decides which of them
 * fail. */
#include "faults.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/large_block.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/pool.h"
#include "foreign.h"

static fault_plan_t
    /* Guarded by the lock: threads of devices may still make requests while the next plan is
     * made. */
    plan;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool armed, limited;
static atomic_llong asked[FAULT_KINDS], turn, failures, left;
static _Thread_local int paused;

/* A cached block is given out without a request that could fail. */
static void cache_large_blocks(bool on) {
  tn_large_blocks_limit(on ? TN_LARGE_MOST : 0);
  if (!on) tn_large_blocks_free();
}

void fault_begin(const fault_plan_t *wanted) {
  tn_thread_t *thread = tn_thread();
  atomic_store(&armed, false);
  pthread_mutex_lock(&lock);
  plan = *wanted;
  pthread_mutex_unlock(&lock);
  for (int kind = 0; kind < FAULT_KINDS; kind++)
    atomic_store(&asked[kind], 0);
  atomic_store(&turn, 0);
  atomic_store(&failures, 0);
  tn_kept_clear(thread);
  thread->most_kept = 0;
  cache_large_blocks(false);
  atomic_store(&armed, true);
}

void fault_end(void) {
  atomic_store(&armed, false);
  tn_thread_t *thread = tn_thread();
  if (!thread->is_shared) thread->most_kept = TN_KEPT_MOST;
  cache_large_blocks(true);
}

int64_t fault_count(fault_kind_t kind) {
  return kind == FAULT_KINDS ? atomic_load(&turn) : atomic_load(&asked[kind]);
}

int64_t fault_failures(void) { return atomic_load(&failures); }

static fault_plan_t plan_now(void) {
  pthread_mutex_lock(&lock);
  const fault_plan_t now = plan;
  pthread_mutex_unlock(&lock);
  return now;
}

static bool by_chance(const fault_plan_t *now, uint64_t n) { /* SplitMix64's mixing */
  uint64_t x = now->seed + n * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return now->share && (x ^ (x >> 31)) % now->share == 0;
}

bool fault_ask(fault_kind_t kind) {
  if (!atomic_load_explicit(&armed, memory_order_relaxed) || paused) return false;
  const fault_plan_t now = plan_now();
  if (!(now.kinds >> kind & 1)) return false;
  atomic_fetch_add(&asked[kind], 1);
  int64_t n = atomic_fetch_add(&turn, 1) + 1;
  int64_t times = now.times ? now.times : 1;
  bool fails = now.at ? n >= now.at && n - now.at < times : by_chance(&now, (uint64_t)n);
  if (fails && atomic_fetch_add(&failures, 1) == 0 &&
      /* Prints the first failing request of each plan. */
      getenv("FAULT_SAY")) {
    void *callers[32];
    paused++;
    fprintf(stderr, "request %lld fails (%s):\n", (long long)n, fault_name(kind));
    backtrace_symbols_fd(callers, backtrace(callers, 32), 2);
    paused--;
  }
  return fails;
}

const char *fault_name(fault_kind_t kind) {
#define FAULT_TEXT(name, text) text,
  static const char *const names[] = {FAULT_EACH_KIND(FAULT_TEXT)};
#undef FAULT_TEXT
  return names[kind];
}

void fault_pause(void) { paused++; }
void fault_resume(void) { paused--; }

void fault_limit(int64_t bytes) {
  cache_large_blocks(bytes == 0);
  atomic_store(&left, bytes);
  atomic_store(&limited, bytes > 0);
}

static bool is_refused(size_t size) {
  if (atomic_load_explicit(&limited, memory_order_relaxed)) {
    if ((long long)size < 0 || atomic_load(&left) < (long long)size) return true;
    atomic_fetch_sub(&left, (long long)size);
  }
  return fault_ask(FAULT_MEMORY);
}

/* requests */

/* Parameters, and arguments in parentheses. */
#define WRAP(type, name, parameters, arguments, fails, code, none)                                 \
  type __real_##name parameters;                                                                   \
  type __wrap_##name parameters;                                                                   \
  type __wrap_##name parameters {                                                                  \
    if (fails) {                                                                                   \
      errno = (code);                                                                              \
      return (none);                                                                               \
    }                                                                                              \
    int depth = foreign_leave();                                                                   \
    type found = __real_##name arguments;                                                          \
    foreign_return(depth);                                                                         \
    return found;                                                                                  \
  }
#define FAILS(kind) fault_ask(FAULT_##kind)

WRAP(void *, malloc, (size_t size), (size), is_refused(size), ENOMEM, NULL)
WRAP(void *, calloc, (size_t count, size_t size), (count, size), is_refused(count *size), ENOMEM,
     NULL)
WRAP(void *, realloc, (void *pointer, size_t size), (pointer, size), is_refused(size), ENOMEM, NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), is_refused(size),
     ENOMEM, NULL)
WRAP(char *, strdup, (const char *text), (text), is_refused(1), ENOMEM, NULL)
WRAP(char *, strndup, (const char *text, size_t size), (text, size), is_refused(1), ENOMEM, NULL)
WRAP(FILE *, open_memstream, (char **text, size_t *size), (text, size), is_refused(1), ENOMEM, NULL)
int __real_posix_memalign(void **out_block, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out_block, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out_block, size_t alignment, size_t size) {
  if (is_refused(size)) return ENOMEM;
  int depth = foreign_leave();
  int status = __real_posix_memalign(out_block, alignment, size);
  foreign_return(depth);
  return status;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  /* If the mode is not passed, it is not used. */
  unsigned mode = va_arg(arguments, unsigned);
  va_end(arguments);
  if (FAILS(FILE)) {
    errno = EMFILE;
    return -1;
  }
  return __real_open(path, flags, mode);
}
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode), FAILS(FILE), EMFILE, NULL)
WRAP(DIR *, opendir, (const char *path), (path), FAILS(FILE), EMFILE, NULL)
typedef int (*fault_filter_fn)(const struct dirent *);
typedef int (*fault_order_fn)(const struct dirent **, const struct dirent **);
WRAP(int, scandir,
     (const char *path, struct dirent ***out_entries, fault_filter_fn filter, fault_order_fn order),
     (path, out_entries, filter, order), FAILS(FILE), EMFILE, -1)
WRAP(char *, realpath, (const char *path, char *out_path), (path, out_path), FAILS(FILE), ENOMEM,
     NULL)
WRAP(char *, mkdtemp, (char *path), (path), FAILS(FILE), EMFILE, NULL)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), FAILS(FILE), EMFILE, -1)
WRAP(int, pipe, (int ends[2]), (ends), FAILS(FILE), EMFILE, -1)
WRAP(int, socketpair, (int domain, int type, int protocol, int ends[2]),
     (domain, type, protocol, ends), FAILS(FILE), EMFILE, -1)

WRAP(void *, mmap, (void *at, size_t size, int protection, int flags, int file, off_t offset),
     (at, size, protection, flags, file, offset), FAILS(MAP), ENOMEM, MAP_FAILED)

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags) {
  return __real_dlopen(FAILS(LIBRARY) ? "/a/test/refuses/it" : path,
                       /* This makes dlerror return a message. */
                       flags);
}

typedef void *(*fault_thread_fn)(void *);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          fault_thread_fn start, void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          fault_thread_fn start, void *argument);
#ifdef FOREIGN_IS_PASSED_OVER
typedef struct own_thread_t {
  fault_thread_fn start;
  void *argument;
} own_thread_t;

static void *run_own_thread(void *pointer) {
  own_thread_t own = *(own_thread_t *)pointer;
  foreign_is_own_thread();
  free(pointer);
  return own.start(own.argument);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          fault_thread_fn start, void *argument) {
  if (FAILS(THREAD)) return EAGAIN;
  own_thread_t *own = __real_malloc(sizeof *own);
  if (!own) return EAGAIN;
  *own = (own_thread_t){start, argument};
  int depth = foreign_leave();
  int status = __real_pthread_create(thread, attributes, run_own_thread, own);
  foreign_return(depth);
  if (status) free(own);
  return status;
}
#else
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          fault_thread_fn start, void *argument) {
  return FAILS(THREAD) ? EAGAIN : __real_pthread_create(thread, attributes, start, argument);
}
#endif

#define WRAP_SPAWN(name)                                                                           \
  WRAP(int, name,                                                                                  \
       (pid_t * id, const char *file, const posix_spawn_file_actions_t *actions,                   \
        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]),  \
       (id, file, actions, attributes, arguments, environment), FAILS(PROCESS), EAGAIN, EAGAIN)
WRAP_SPAWN(posix_spawn)
WRAP_SPAWN(posix_spawnp)
WRAP(pid_t, fork, (void), (), FAILS(PROCESS), EAGAIN, -1)

tenon_status_t tn_fail(tenon_status_t status, const char *format, ...);
WRAP(tenon_status_t, tn_pool_take,
     (tn_pool_t * pool, tenon_stream_t *stream, uint64_t size, tn_memory_t **out_memory),
     (pool, stream, size, out_memory), !pool->is_pinned && FAILS(PIECE), ENOMEM,
     tn_fail(TENON_MEMORY, "a test refuses it"))
