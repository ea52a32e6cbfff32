#include "error.h"

#include <stdarg.h>
#include <stdio.h>

#include "ordinal.h"

tenon_status_t cu_error_status(cu_result_t error) {
  switch (error) {
#define CU_STATUS_(name, value, status)                                                            \
  case value:                                                                                      \
    return TENON_##status;
    CU_ERRORS(CU_STATUS_)
  }
  return TENON_UNKNOWN;
}

const char *cu_error_name(cu_result_t error) {
  const char *name = NULL;
  return cu.GetErrorName && !cu.GetErrorName(error, &name) && name ? name
                                                                   : "an error without a name";
}

static const char *text_of(cu_result_t error) {
  const char *text = NULL;
  return cu.GetErrorString && !cu.GetErrorString(error, &text) && text
             ? text
             : "the driver says nothing more";
}

tenon_status_t cu_fail(tenon_on_t on, cu_result_t error, const char *format, ...) {
  char what[400];
  va_list list;
  cu_device_t *device = cu_device(on);
  cu_result_t failure = device && device->service ? cu_device_failure(device) : CUDA_SUCCESS;
  if (failure) return cu_fail_lost(on, device, failure);
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  return tenon_fail(on, cu_error_status(error), "cuda:%d: %s: %s (%u): %s", on->ordinal, what,
                    cu_error_name(error), error, text_of(error));
}

/* the loss of a context */

cu_result_t cu_device_failure(cu_device_t *device) {
  cu_result_t failure = cu_failures[device->ordinal];
  cu_result_t error;
  if (failure) return failure;
  CU_IN(device, error,
        cu.StreamQuery(
            /* the stream has no work of its own: it reports only the loss of the context */
            device->service));
  if (error && error != CUDA_ERROR_NOT_READY)
    atomic_compare_exchange_strong(&cu_failures[device->ordinal], &failure, error);
  return cu_failures[device->ordinal];
}

/* UNAVAILABLE would mean "not finished yet" */
tenon_status_t cu_failure_status(cu_result_t failure) {
  return failure == CUDA_ERROR_OUT_OF_MEMORY ? TENON_MEMORY : TENON_ABORTED;
}

tenon_status_t cu_fail_lost(tenon_on_t on, const cu_device_t *lost, cu_result_t failure) {
  return tenon_fail(on, cu_failure_status(failure),
                    "cuda:%d: work of cuda:%d, in one of its streams, failed with %s (%u): %s; "
                    "CUDA does nothing more on that GPU in this process: start it anew",
                    on->ordinal, lost->ordinal, cu_error_name(failure), failure, text_of(failure));
}
