/* A memory barrier on all threads of the process at once, by the system call that Linux has for it.
 * Threads that only store and load pay nothing; whoever changes what they read pays a fraction of a
 * microsecond. */
#include <pthread.h>
#include <unistd.h>

#include "base/thread.h"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int is_there;

static void prepare(void) {
  is_there = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

int tn_thread_barrier(void) {
  pthread_once(&once, prepare);
  return is_there && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}
#else
int tn_thread_barrier(void) { return 0; }
#endif
