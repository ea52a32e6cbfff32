/* CUDA errors by name, reported as failures that say what was requested; and the loss of a
 * context. */
#ifndef TENON_CUDA_ERROR_H
#define TENON_CUDA_ERROR_H

#include "api.h"

struct cu_device_t;

const char *
cu_error_name(cu_result_t error); /* "CUDA_ERROR_INVALID_VALUE"; "an error without a name" */
tenon_status_t cu_error_status(cu_result_t error); /* of our own codes */
/* Fails with "cuda:0: WHAT: CUDA_ERROR_INVALID_VALUE (1): invalid argument". If the context is
 * lost, the message names the failure that caused the loss. */
tenon_status_t cu_fail(tenon_on_t on, cu_result_t error, const char *format, ...)
    TENON_FORMAT(3, 4);
/* Returns the failure of this GPU's work, if any. After a failure CUDA refuses all later calls, so
 * the failure is permanent. Does not wait. */
cu_result_t cu_device_failure(struct cu_device_t *device);
tenon_status_t cu_failure_status(cu_result_t failure); /* of failed work: MEMORY or ABORTED */
tenon_status_t cu_fail_lost(tenon_on_t on, const struct cu_device_t *lost, cu_result_t failure);

#endif
