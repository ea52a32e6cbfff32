/* Makes and releases statuses. A status is one block of memory. Called by every other file; if
 * memory is out, a constant status stands for all. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

struct OrtStatus {
  ort_code_t code;
  const char *message;
  char text[];
};

static OrtStatus no_memory = {.code = ORT_FAIL, .message = "out of memory"};

OrtStatus *ort_CreateStatus(ort_code_t code, const char *message) {
  const char *text = message ? message : "";
  const size_t size = strlen(text) + 1;
  OrtStatus *status = malloc(sizeof *status + size);
  if (!status) return &no_memory;
  status->code = code;
  status->message = memcpy(status->text, text, size);
  return status;
}

OrtStatus *status_make(ort_code_t code, const char *format, ...) {
  char text[WHY];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return ort_CreateStatus(code, text);
}

OrtStatus *status_of_tenon(const char *what) {
  return status_make(ORT_FAIL, "%s: %s", what, tenon_error());
}

OrtStatus *status_unserved(const char *function) {
  return status_make(ORT_NOT_IMPLEMENTED,
                     "Tenon does not serve the function %s of ONNX Runtime's interface", function);
}

bool status_take(OrtStatus *status, char *why, size_t capacity) {
  if (!status) return true;
  const size_t used = strlen(why);
  const char *reason = *status->message ? status->message : "it gave no reason";
  snprintf(why + used, capacity - used, "%s%s", used ? ": " : "", reason);
  ort_ReleaseStatus(status);
  return false;
}

ort_code_t ort_GetErrorCode(const OrtStatus *status) { return status ? status->code : ORT_OK; }

const char *ort_GetErrorMessage(const OrtStatus *status) { return status ? status->message : ""; }

void ort_ReleaseStatus(OrtStatus *status) {
  if (status != &no_memory) free(status);
}
