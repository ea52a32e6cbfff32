/* Settings of a thread for gradients: recording, inference mode, and the policy for operators
 * without a gradient. Applications set them; recording reads them. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "autograd/tape.h"
#include "base/map.h"
#include "base/status.h"
#include "base/thread.h"

static int32_t process_policy = TENON_GRAD_MISSING_ERROR;
static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_map_t warned; /* names of operators */

int32_t tenon_grad_mode_set(int32_t is_on) { return tn_tape_set(is_on != 0); }
int32_t tenon_grad_mode_get(void) { return tn_tape_is_on(); }

/* Recording is off in inference mode. The upper bit remembers whether it was on before. */
int32_t tenon_inference_mode_set(int32_t is_on) {
  enum {
    ON = 1,
    RECORDED = 2,
  };
  tn_thread_calls_t *calls = &tn_thread()->calls;
  int32_t before = calls->is_inference & ON;
  if (is_on && !before) calls->is_inference = ON | (tn_tape_set(false) ? RECORDED : 0);
  if (!is_on && before) {
    tn_tape_set(calls->is_inference & RECORDED);
    calls->is_inference = 0;
  }
  return before;
}

int32_t tenon_inference_mode_get(void) { return tn_thread()->calls.is_inference != 0; }

tenon_status_t tenon_grad_missing_set(int32_t policy, int32_t is_process) {
  if (policy < (is_process ? TENON_GRAD_MISSING_ERROR : 0) || policy > TENON_GRAD_MISSING_PASS)
    return tn_fail(TENON_INVALID, "policy %d: expected TENON_GRAD_MISSING_ERROR, WARN or PASS",
                   (int)policy);
  if (is_process)
    __atomic_store_n(&process_policy, policy, __ATOMIC_RELAXED);
  else
    tn_thread()->no_gradient = policy;
  return TENON_OK;
}

int32_t tenon_grad_missing_get(void) {
  int32_t own = tn_thread()->no_gradient;
  return own ? own : __atomic_load_n(&process_policy, __ATOMIC_RELAXED);
}

void tn_warn_no_gradient(const char *op) {
  tn_mutex_lock(&lock);
  bool is_new = !tn_map_get(&warned, op, strlen(op));
  if (is_new) (void)tn_map_put(&warned, op, strlen(op), &warned);
  tn_mutex_unlock(&lock);
  if (is_new)
    fprintf(stderr,
            "tenon: warning: %s has no gradient, so backward passes no gradient through it\n", op);
}

void tn_autograd_clear(void) {
  tn_mutex_lock(&lock);
  tn_map_clear(&warned);
  tn_mutex_unlock(&lock);
}
