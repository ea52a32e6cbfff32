/* Errors: a code and a text, which the caller destroys. PJRT's codes and Tenon's are those of
 * absl::StatusCode. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin.h"

struct pjrt_error_t {
  int32_t code;
  char text[];
};

/* Used when memory is short; never freed. */
static pjrt_error_t no_memory = {.code = TENON_MEMORY};

static pjrt_error_t *make_error(tenon_status_t code, const char *text) {
  const size_t size = strlen(text);
  pjrt_error_t *error = malloc(sizeof *error + size + 1);
  if (!error) return &no_memory;
  error->code = code;
  memcpy(error->text, text, size + 1);
  return error;
}

pjrt_error_t *fail_call(tenon_status_t code, const char *format, ...) {
  char text[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return make_error(code, text);
}

pjrt_error_t *error_of(tenon_status_t status) {
  return status == TENON_OK ? NULL : make_error(status, tenon_error());
}

pjrt_error_t *error_destroy(void *arguments) {
  const pjrt_object_t *call = arguments;
  if (call->object != &no_memory) free(call->object);
  return NULL;
}

pjrt_error_t *error_message(void *arguments) {
  pjrt_list_t *call = arguments;
  const pjrt_error_t *error = call->object;
  const char *text = error == &no_memory ? "out of memory: an error message" : error->text;
  call->items = text;
  call->count = strlen(text);
  return NULL;
}

pjrt_error_t *error_code(void *arguments) {
  pjrt_number_t *call = arguments;
  const pjrt_error_t *error = call->object;
  call->number = error->code;
  return NULL;
}
