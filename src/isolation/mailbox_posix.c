/* Shared memory and futexes, over Linux. */
#include "isolation/mailbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include "base/status.h"
#include "base/thread.h"

_Static_assert(sizeof(tn_bell_t) == 128 && sizeof(tn_post_t) <= TN_POST_HEAD,
               "the layout that both sides know");

/* bells */

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static uint32_t look(uint32_t *word, uint32_t value, tn_patience_t *patience) {
  uint32_t found;
  for (int64_t end = tn_now() + patience->now;;) {
    for (int i = 0; i < 32; i++) {
      if ((found = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value) return found;
      pause_briefly();
    }
    if (tn_now() >= end) return value;
  }
}

static void nap(uint32_t *word, uint32_t value, int64_t until) {
  struct timespec left;
  struct timespec *limit = NULL;
  if (until) {
    int64_t time = until - tn_now();
    if (time < 0) time = 0;
    left = (struct timespec){time / 1000000000, time % 1000000000};
    limit = &left;
  }
  syscall(SYS_futex, word, FUTEX_WAIT, value, limit, NULL, 0);
}

/* The thread sanitizer sees one process.  That a call to one thread of it comes after the reply of
 * another one, because the other process waited for that, is what it is told here. */
#ifdef __SANITIZE_THREAD__
static char order;
static void before_ring(void) { __tsan_release(&order); }
static uint32_t heard(uint32_t found) {
  __tsan_acquire(&order);
  return found;
}
#else
static inline void before_ring(void) {}
static inline uint32_t heard(uint32_t found) { return found; }
#endif

uint32_t tn_bell_wait(uint32_t *word, uint32_t value, uint32_t *sleeps, tn_patience_t *patience,
                      int64_t until) {
  uint32_t found = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  if (found != value) return heard(found);
  if (patience->now > 0) {
    if ((found = look(word, value, patience)) != value) {
      patience->now = patience->most;
      return heard(found);
    }
    patience->now = ++patience->count % 16 == 0 ? patience->most : patience->now / 2 + 1;
  }
  for (int64_t now = tn_now(); found == value && (!until || now < until); now = tn_now()) {
    __atomic_store_n(sleeps, 1, __ATOMIC_SEQ_CST);
    if ((found = __atomic_load_n(word, __ATOMIC_SEQ_CST)) == value) nap(word, value, until);
    found = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }
  __atomic_store_n(sleeps, 0, __ATOMIC_RELAXED);
  return heard(found);
}

bool tn_bell_ring(uint32_t *word, uint32_t from, uint32_t to, uint32_t *sleeps) {
  before_ring();
  if (!__atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
    return false;
  if (__atomic_load_n(sleeps, __ATOMIC_SEQ_CST)) tn_bell_wake(word);
  return true;
}

void tn_bell_wake(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

/* memory */

static tenon_status_t failed(const char *what, uint64_t size) {
  return tn_fail(TENON_MEMORY, "%s of %llu bytes of shared memory: %s", what,
                 (unsigned long long)size, strerror(errno));
}

tenon_status_t tn_shared_create(uint64_t size, int *out_descriptor) {
  int descriptor = memfd_create("tenon", MFD_CLOEXEC);
  if (descriptor < 0) return failed("making", size);
  if (!tn_shared_grow(descriptor, size)) {
    tenon_status_t status = failed("making", size);
    close(descriptor);
    return status;
  }
  *out_descriptor = descriptor;
  return TENON_OK;
}

bool tn_shared_grow(int descriptor, uint64_t size) {
  return ftruncate(descriptor, (off_t)size) == 0;
}

tenon_status_t tn_shared_map(int descriptor, uint64_t size, void **out_memory) {
  void *memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (memory == MAP_FAILED) return failed("mapping", size);
  madvise(memory, size, MADV_DONTDUMP);
  *out_memory = memory;
  return TENON_OK;
}

void tn_shared_unmap(void *memory, uint64_t size) {
  if (memory) munmap(memory, size);
}

void tn_shared_forget(int descriptor, uint64_t offset, uint64_t size) {
  if (fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size))
    return;
}

void tn_shared_close(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}
