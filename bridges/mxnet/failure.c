#include "failure.h"

#include <stdio.h>
#include <stdlib.h>

tenon_status_t mxnet_fail_list(tenon_status_t status, const char *format, va_list arguments) {
  char *text = NULL;
  if (vasprintf(&text, format, arguments) < 0) return tenon_error_set(TENON_MEMORY, "out of memory: a message");
  status = tenon_error_set(status, text);
  free(text);
  return status;
}

tenon_status_t mxnet_fail(tenon_status_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  status = mxnet_fail_list(status, format, arguments);
  va_end(arguments);
  return status;
}

tenon_status_t mxnet_prefix(tenon_status_t status, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int size = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (size < 0) return status;
  status = mxnet_fail(status, "%s%s", text, tenon_error());
  free(text);
  return status;
}

tenon_status_t mxnet_no_memory(const char *what) { return mxnet_fail(TENON_MEMORY, "out of memory: %s", what); }
