/* Shared memory and futexes on Linux. */
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

_Static_assert(sizeof(tn_doorbell_t) == 128 && sizeof(tn_channel_t) <= TN_CHANNEL_HEAD,
               "both sides rely on this layout");

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static uint32_t spin_while(uint32_t *word, uint32_t value, tn_spin_t *spin) {
  uint32_t found;
  for (int64_t end = tn_now() + spin->now;;) {
    for (int i = 0; i < 32; i++) {
      if ((found = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value) return found;
      pause_briefly();
    }
    if (tn_now() >= end) return value;
  }
}

static void futex_sleep(uint32_t *word, uint32_t value, int64_t until) {
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

/* The thread sanitizer observes one process only. This synchronisation tells it that a call by one
 * thread happens after the reply to another thread, because the other process waited for that
 * reply. */
#ifdef __SANITIZE_THREAD__
static char tsan_order;
static void before_ring(void) { __tsan_release(&tsan_order); }
static uint32_t after_ring(uint32_t found) {
  __tsan_acquire(&tsan_order);
  return found;
}
#else
static inline void before_ring(void) {}
static inline uint32_t after_ring(uint32_t found) { return found; }
#endif

uint32_t tn_doorbell_wait(uint32_t *word, uint32_t value, uint32_t *sleeps, tn_spin_t *spin,
                          int64_t until) {
  uint32_t found = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  if (found != value) return after_ring(found);
  if (spin->now > 0) {
    if ((found = spin_while(word, value, spin)) != value) {
      spin->now = spin->most;
      return after_ring(found);
    }
    spin->now = ++spin->count % 16 == 0 ? spin->most : spin->now / 2 + 1;
  }
  for (int64_t now = tn_now(); found == value && (!until || now < until); now = tn_now()) {
    __atomic_store_n(sleeps, 1, __ATOMIC_SEQ_CST);
    if ((found = __atomic_load_n(word, __ATOMIC_SEQ_CST)) == value) futex_sleep(word, value, until);
    found = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  }
  __atomic_store_n(sleeps, 0, __ATOMIC_RELAXED);
  return after_ring(found);
}

bool tn_doorbell_ring(uint32_t *word, uint32_t from, uint32_t to, uint32_t *sleeps) {
  before_ring();
  if (!__atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
    return false;
  if (__atomic_load_n(sleeps, __ATOMIC_SEQ_CST)) tn_doorbell_wake(word);
  return true;
}

void tn_doorbell_wake(uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static tenon_status_t shared_memory_failed(const char *what, uint64_t size) {
  return tn_fail(TENON_MEMORY, "%s %llu bytes of shared memory failed: %s", what,
                 (unsigned long long)size, strerror(errno));
}

tenon_status_t tn_shared_create(uint64_t size, int *out_descriptor) {
  int descriptor = memfd_create("tenon", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return shared_memory_failed("making", size);
  if (!tn_shared_grow(descriptor, size) ||
      fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    tenon_status_t status = shared_memory_failed("making", size);
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
  if (memory == MAP_FAILED) return shared_memory_failed("mapping", size);
  madvise(memory, size, MADV_DONTDUMP);
  *out_memory = memory;
  return TENON_OK;
}

void tn_shared_unmap(void *memory, uint64_t size) {
  if (memory) munmap(memory, size);
}

void tn_shared_discard(int descriptor, uint64_t offset, uint64_t size) {
  if (fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size))
    return;
}

void tn_shared_close(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}
