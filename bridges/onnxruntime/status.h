/* Statuses, by which functions of ONNX Runtime's interface report failures. NULL means success. */
#ifndef BRIDGES_ONNXRUNTIME_STATUS_H
#define BRIDGES_ONNXRUNTIME_STATUS_H

#include <stdbool.h>
#include <tenon/op.h>

#include "common/ort_interface.h"

enum { WHY = 900 }; /* the size of a message in bytes */

/* Makes a status with a message. Never returns NULL. */
OrtStatus *status_make(ort_code_t code, const char *format, ...) TENON_FORMAT(2, 3);
/* Makes a status with the last error of Tenon on this thread, after `what`. */
OrtStatus *status_of_tenon(const char *what);
/* Makes the status of a function that the bridge does not serve. */
OrtStatus *status_unserved(const char *function);
/* Moves the message of a status to `why`, after what is there, and releases the status. Returns
 * whether the status is a success. */
bool status_take(OrtStatus *status, char *why, size_t capacity);

OrtStatus *ort_CreateStatus(ort_code_t code, const char *message);
ort_code_t ort_GetErrorCode(const OrtStatus *status);
const char *ort_GetErrorMessage(const OrtStatus *status);
void ort_ReleaseStatus(OrtStatus *status);

#endif
