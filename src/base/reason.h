/* The reason of a failure of a library's function. A function may fail without one, or return a
 * status that does not exist. The text of an earlier failure on the thread must not become its
 * reason. All of this is on the path of failures. */
#ifndef TN_BASE_REASON_H
#define TN_BASE_REASON_H

#include <stdbool.h>
#include <stdint.h>
#include <tenon/op.h>

/* Completes a failure of `function` ("infer") of `name` ("demo::gelu"; may be ""). Arguments:
 * `errors_before` is tn_error_count() before the function was called. Returns: `status`, or
 * TENON_INTERNAL if that is no status. */
tenon_status_t tn_reason_complete(tenon_status_t status, uint64_t errors_before, const char *name,
                                  const char *function);
/* The same, if the caller knows whether the message of this thread is that of this failure. Here
 * `status` is not TENON_OK. */
tenon_status_t tn_reason_state(tenon_status_t status, bool has_reason, const char *name,
                               const char *function);

#endif
