/* The functions that src/base/arena.c and json.c need, implemented over the public interface. Both
 * files are compiled into the bridge, which cannot call libtenon's internal functions. Error
 * messages become tenon_error(). */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"

void *tn_allocate(size_t size) { return malloc(size ? size : 1); }
void *tn_reallocate(void *pointer, size_t size) { return realloc(pointer, size ? size : 1); }
void tn_release_memory(void *pointer) { free(pointer); }

tenon_status_t tn_fail_list(tenon_status_t status, const char *format, va_list arguments) {
  char *text = NULL;
  if (vasprintf(&text, format, arguments) < 0)
    return tenon_error_set(TENON_MEMORY, "out of memory: a message");
  status = tenon_error_set(status, text);
  free(text);
  return status;
}

tenon_status_t tn_fail(tenon_status_t status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  status = tn_fail_list(status, format, arguments);
  va_end(arguments);
  return status;
}

tenon_status_t tn_prefix(tenon_status_t status, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int size = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (size < 0) return status;
  status = tn_fail(status, "%s%s", text, tenon_error());
  free(text);
  return status;
}

tenon_status_t tn_no_memory(const char *what, size_t size) {
  if (!size) return tn_fail(TENON_MEMORY, "out of memory: %s", what);
  return tn_fail(TENON_MEMORY, "out of memory: %s needs %zu bytes", what, size);
}

const char *tn_error(void) { return tenon_error(); }
