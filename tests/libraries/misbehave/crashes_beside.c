/* Writes to address 0 while other threads make system calls that the filter answers by a signal
 * handler instead of ending the process. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "misbehave.h"

static int opened;

static void *open_forever(void *none) {
  for (;;) {
    close(open("/proc/self/status", O_RDONLY));
    __atomic_add_fetch(&opened, 1, __ATOMIC_SEQ_CST);
  }
  return none;
}

static tenon_status_t act(tenon_call_t *call) {
  enum { THREADS = 4 };
  for (int i = 0; i < THREADS; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, open_forever, NULL);
  }
  while (__atomic_load_n(&opened, __ATOMIC_SEQ_CST) < 100)
    usleep(100);
  volatile int *nowhere =
      (volatile int *)(call->outputs[0]->shape[0] < 0 ? call->outputs[0]->data : 0);
  *nowhere = 1;
  return TENON_OK;
}

MISBEHAVE(crashes_beside, act)
