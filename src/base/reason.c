/* Completes failures of functions of libraries; see reason.h. */
#include "base/reason.h"

#include <stdio.h>

#include "base/status.h"
#include "base/thread.h"

tenon_status_t tn_reason_state(tenon_status_t status, bool has_reason, const char *name,
                               const char *function) {
  const char *colon = *name ? ": " : "";
  bool exists = tn_status_exists(status);
  if (exists && has_reason) return status;
  if (exists)
    return tn_fail(status, "%s%sits %s failed (%s) and gave no reason", name, colon, function,
                   tn_status_name(status));
  char reason[1024] = "";
  if (has_reason) snprintf(reason, sizeof reason, ": %s", tn_error());
  return tn_fail(TENON_INTERNAL, "%s%sits %s returned status %d, which does not exist%s", name,
                 colon, function, (int)status, reason);
}

tenon_status_t tn_reason_complete(tenon_status_t status, uint64_t errors_before, const char *name,
                                  const char *function) {
  if (status == TENON_OK) return status;
  return tn_reason_state(status, tn_error_count() != errors_before, name, function);
}
