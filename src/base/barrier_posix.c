/* tn_thread_barrier: a memory barrier on all threads of the process at once, by Linux's membarrier
 * system call. Threads on the hot path use plain loads and stores; the thread that changes shared
 * data pays for the barrier, a fraction of a microsecond. */
#include <pthread.h>
#include <unistd.h>

#include "base/thread.h"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int is_registered;

static void register_barrier(void) {
  is_registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

int tn_thread_barrier(void) {
  pthread_once(&once, register_barrier);
  return is_registered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}
#else
int tn_thread_barrier(void) { return 0; }
#endif
