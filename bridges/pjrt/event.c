/* Events. Work is complete when a function returns, so one event, which is always ready, stands for
 * everything. */
#include "plugin.h"

pjrt_error_t *event_destroy(void *arguments) {
  (void)arguments;
  return NULL;
}

pjrt_error_t *event_is_ready(void *arguments) {
  pjrt_flag_t *call = arguments;
  call->flag = true;
  return NULL;
}

pjrt_error_t *event_error(void *arguments) {
  (void)arguments;
  return NULL;
}

pjrt_error_t *event_on_ready(void *arguments) {
  const pjrt_ready_t *call = arguments;
  if (!call->call) return fail_call(TENON_INVALID, "PJRT_Event_OnReady: the callback is NULL");
  call->call(NULL, call->state);
  return NULL;
}
