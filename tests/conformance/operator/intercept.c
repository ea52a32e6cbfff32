/* Replacements for functions of the C library that record requests; see intercept.h. They work with
 * glibc only, because they call its internal names, and not with sanitizers, which replace the same
 * functions. Elsewhere nothing is recorded. */
#include "intercept.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

enum { LIVE_MOST = 1 << 15, NEAR = 64, /* table entries in which a block may be stored */ };

typedef struct live_t {
  void *block;
  size_t size;
  void *address;
} live_t;

static bool is_on, follows_blocks;
static request_place_t places[REQUEST_PLACES_MOST];
static int32_t place_count;
static live_t live[LIVE_MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void intercept_begin(bool follows) {
  place_count = 0;
  follows_blocks = follows;
  memset(live, 0, sizeof live);
  __atomic_store_n(&is_on, true, __ATOMIC_SEQ_CST);
}

void intercept_end(void) { __atomic_store_n(&is_on, false, __ATOMIC_SEQ_CST); }

int32_t intercept_requests(const request_place_t **out_places) {
  *out_places = places;
  return place_count;
}

int64_t intercept_live(int64_t *out_bytes, void **out_address) {
  int64_t count = 0;
  *out_bytes = 0;
  *out_address = NULL;
  for (int i = 0; i < LIVE_MOST; i++)
    if (live[i].block) {
      count++;
      *out_bytes += (int64_t)live[i].size;
      *out_address = live[i].address;
    }
  return count;
}

#if defined(__GLIBC__) && !defined(CHECK_SANITIZED) && !defined(__SANITIZE_ADDRESS__) &&           \
    !defined(__SANITIZE_THREAD__)
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static bool is_asked(void) { return __atomic_load_n(&is_on, __ATOMIC_RELAXED) && probe_inside > 0; }

static void record_request(const char *what, void *address, size_t size) {
  pthread_mutex_lock(&lock);
  int32_t i = 0;
  while (i < place_count && (places[i].address != address || strcmp(places[i].what, what) != 0))
    i++;
  if (i == place_count && i < REQUEST_PLACES_MOST)
    places[place_count++] = (request_place_t){what, address, 0, 0};
  if (i < place_count) {
    places[i].count++;
    places[i].bytes += (int64_t)size;
  }
  pthread_mutex_unlock(&lock);
}

static size_t table_index(const void *block) {
  return ((uintptr_t)block >> 4) * 0x9E3779B97F4A7C15u >> 49;
}

static void *track_block(void *block, size_t size, void *address) {
  if (!block || !follows_blocks) return block;
  pthread_mutex_lock(&lock);
  for (size_t i = table_index(block), n = 0; n < NEAR; i = (i + 1) % LIVE_MOST, n++) {
    if (live[i].block) continue;
    live[i] = (live_t){block, size, address};
    break;
  }
  pthread_mutex_unlock(&lock);
  return block;
}

static void untrack_block(const void *block) {
  if (!block || !__atomic_load_n(&is_on, __ATOMIC_RELAXED) || !follows_blocks) return;
  pthread_mutex_lock(&lock);
  for (size_t i = table_index(block), n = 0; n < NEAR; i = (i + 1) % LIVE_MOST, n++)
    if (live[i].block == block) {
      live[i].block = NULL;
      break;
    }
  pthread_mutex_unlock(&lock);
}

/* Loaded libraries bind to these functions instead of the C library's. */
#pragma GCC visibility push(default)
#define ASKED(what, size)                                                                          \
  (is_asked() ? record_request(what, __builtin_return_address(0), size) : (void)0)
#define FOLLOW(block, size)                                                                        \
  (is_asked() ? track_block(block, size, __builtin_return_address(0)) : (block))

void *malloc(size_t size) {
  ASKED("malloc", size);
  void *block = __libc_malloc(size);
  return FOLLOW(block, size);
}

void free(void *block) {
  untrack_block(block);
  __libc_free(block);
}

void *calloc(size_t count, size_t size) {
  ASKED("calloc", count * size);
  void *block = __libc_calloc(count, size);
  return FOLLOW(block, count * size);
}

void *realloc(void *old, size_t size) {
  ASKED("realloc", size);
  untrack_block(old);
  void *block = __libc_realloc(old, size);
  return FOLLOW(block, size);
}

void *memalign(size_t alignment, size_t size) {
  ASKED("memalign", size);
  void *block = __libc_memalign(alignment, size);
  return FOLLOW(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  ASKED("aligned_alloc", size);
  void *block = __libc_memalign(alignment, size);
  return FOLLOW(block, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  ASKED("posix_memalign", size);
  void *block = __libc_memalign(alignment, size);
  if (!block) return ENOMEM;
  *out = FOLLOW(block, size);
  return 0;
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  ASKED("mmap", size);
  return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
  static int (*own)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  ASKED("pthread_create", 0);
  if (!own) *(void **)&own = dlsym(RTLD_NEXT, "pthread_create");
  return own(thread, attributes, start, argument);
}

int open(const char *path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  ASKED("open", 0);
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
#endif
#pragma GCC visibility pop
