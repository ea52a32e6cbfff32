/* The threads of the session help with the parallel loops of a run, so that these loops and ONNX
 * Runtime's own operators take turns on the same threads. ONNX Runtime does not tell their number:
 * loops are cut for as many threads as Tenon would use, and the session runs the parts on those
 * that it has. */
#include "provider.h"

typedef struct lent_help_t {
  void (*help)(void *argument);
  void *argument;
} lent_help_t;

static int32_t count_loop_threads(void *state) { return ((const threads_t *)state)->count; }

static void help_with(void *data, size_t index) {
  const lent_help_t *lent = data;
  (void)index;
  lent->help(lent->argument);
}

/* ONNX Runtime gives the calling thread one of the calls, and returns when all of them have. */
static void lend_threads(void *state, int32_t helpers, void (*help)(void *argument),
                         void *argument) {
  const threads_t *threads = state;
  lent_help_t lent = {help, argument};
  (void)API(KernelContext_ParallelFor, threads->context, help_with, (size_t)helpers + 1, 0, &lent);
}

void threads_enter(threads_t *threads, const OrtKernelContext *context, int32_t count) {
  *threads = (threads_t){.pool = {sizeof threads->pool, count_loop_threads, lend_threads, threads},
                         .before = tenon_thread_pool_get(0),
                         .context = context,
                         .count = count ? count : tenon_threads_get()};
  (void)tenon_thread_pool_set(&threads->pool, 0);
}

void threads_leave(const threads_t *threads) { (void)tenon_thread_pool_set(threads->before, 0); }
