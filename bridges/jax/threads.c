/* XLA's threads help with the parallel loops of calls that come from XLA, so that these calls and
 * XLA's own operations take turns on the same threads. Version 0.1 of the interface does not state
 * the number of threads at a fixed place; Tenon's own threads are used there. */
#include <stdlib.h>

#include "call.h"

typedef struct help_t {
  void (*help)(void *argument);
  void *argument;
} help_t;

static void destroy_error(const xla_api_t *api, xla_error_t *error) {
  xla_error_destroy_t destroy = {.size = sizeof destroy, .error = error};
  if (error) api->error_destroy(&destroy);
}

static int32_t count_threads(void *state) {
  const xla_frame_t *frame = state;
  int64_t count = 1;
  xla_thread_count_t query = {.size = sizeof query, .context = frame->context, .count = &count};
  xla_error_t *error = frame->api->thread_count(&query);
  destroy_error(frame->api, error);
  return error || count < 1 ? 1 : (int32_t)count;
}

static void help_once(void *data) {
  const help_t help = *(help_t *)data;
  free(data);
  help.help(help.argument);
}

static void lend(void *state, int32_t helpers, void (*help)(void *argument), void *argument) {
  const xla_frame_t *frame = state;
  for (int32_t i = 0; i < helpers; i++) {
    help_t *task = malloc(sizeof *task);
    if (!task) return; /* The thread that began the loop does the work alone. */
    *task = (help_t){help, argument};
    xla_schedule_t schedule = {
        .size = sizeof schedule, .context = frame->context, .task = help_once, .data = task};
    xla_error_t *error = frame->api->schedule(&schedule);
    if (!error) continue;
    destroy_error(frame->api, error);
    free(task);
    return;
  }
}

void call_enter_threads(call_threads_t *threads, const xla_frame_t *frame) {
  const bool has_count = frame->api->version.major > 0 || frame->api->version.minor >= 2;
  threads->before = tenon_thread_pool_get(0);
  threads->pool = (tenon_thread_pool_t){sizeof threads->pool, count_threads, lend, (void *)frame};
  if (has_count) (void)tenon_thread_pool_set(&threads->pool, 0);
}

void call_leave_threads(const call_threads_t *threads) {
  (void)tenon_thread_pool_set(threads->before, 0);
}
