/* PyTorch's threads help with the parallel loops of calls that come from PyTorch, so that these
 * calls and PyTorch's own take turns on the same threads. Releases without torch_parallel_for, and
 * the child of a fork, where OpenMP's threads do not exist, use Tenon's own threads. */
#include "threads.h"

#include <pthread.h>

#include <tenon/torch.h>

#include "shim.h"

typedef struct help_t {
  void (*help)(void *argument);
  void *argument;
} help_t;

static bool is_forked;

static int32_t count_threads(void *state) {
  uint32_t count;
  (void)state;
  return is_forked || torch.torch_get_num_threads(&count) ? 1 : (int32_t)count;
}

static void help_each(int64_t begin, int64_t end, void *context) {
  const help_t *call = context;
  for (int64_t i = begin; i < end; i++)
    call->help(call->argument);
}

/* PyTorch gives the calling thread one of the calls, and returns when all of them have. */
static void lend(void *state, int32_t helpers, void (*help)(void *argument), void *argument) {
  help_t call = {help, argument};
  (void)state;
  (void)torch.torch_parallel_for(0, (int64_t)helpers + 1, 1, help_each, &call);
}

static const tenon_thread_pool_t pool = {sizeof pool, count_threads, lend, NULL};
static void note_fork(void) { is_forked = true; }

void threads_watch_forks(void) { (void)pthread_atfork(NULL, NULL, note_fork); }

static bool has_threads(void) { return torch.torch_get_num_threads && torch.torch_parallel_for; }

const tenon_thread_pool_t *threads_enter(void) {
  const tenon_thread_pool_t *before = tenon_thread_pool_get(0);
  if (has_threads() && !is_forked) (void)tenon_thread_pool_set(&pool, 0);
  return before;
}

const tenon_thread_pool_t *tenon_torch_threads(void) {
  char error[700];
  torch_lock();
  const bool is_open = torch_open(error, sizeof error);
  torch_unlock();
  return is_open && has_threads() ? &pool : NULL;
}

void threads_leave(const tenon_thread_pool_t *before) { (void)tenon_thread_pool_set(before, 0); }
