/* Errors; see error.h. An exported library is not linked to libtvm_ffi, so that it can be opened
 * without it. */
#include "error.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "object.h"
#include "operator.h"

static void (*raise_error)(const char *kind, const char *text);
static void *(*get_stream)(int32_t type, int32_t id);
static int (*parse_dtype)(const ffi_bytes_t *name, tenon_dtype_t *out);
static void (*take_error)(ffi_object_t **out_error);

static void find_in_process(void *library, const char *name, void *out_function) {
  void *address = dlsym(RTLD_DEFAULT, name);
  if (!address && library) address = dlsym(library, name);
  /* ISO C has no cast from an object pointer to a function pointer. */
  memcpy(out_function, &address, sizeof address);
}

void env_find(void) {
  void *library = dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD);
  find_in_process(library, "TVMFFIErrorSetRaisedFromCStr", &raise_error);
  find_in_process(library, "TVMFFIEnvGetStream", &get_stream);
  find_in_process(library, "TVMFFIDataTypeFromString", &parse_dtype);
  find_in_process(library, "TVMFFIErrorMoveFromRaised", &take_error);
}

bool env_dtype(const char *name, size_t size, tenon_dtype_t *out) {
  const ffi_bytes_t text = {name, size};
  ffi_object_t *error = NULL;
  if (!parse_dtype || !take_error) return false;
  if (parse_dtype(&text, out) == 0) return true;
  take_error(&error);
  ffi_release(error);
  return false;
}

void *env_stream(tenon_device_t device) {
  return get_stream ? get_stream(device.type, device.id) : NULL;
}

int raise_text(const char *kind, const char *format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (raise_error) raise_error(kind, text);
  return -1;
}

int exported_raise(tenon_status_t status) {
  static const char *const kinds[] = {
      [TENON_INVALID] = "ValueError",
      [TENON_NOT_FOUND] = "KeyError",
      [TENON_MEMORY] = "MemoryError",
      [TENON_RANGE] = "IndexError",
      [TENON_UNIMPLEMENTED] = "NotImplementedError",
      [TENON_INTERNAL] = "AssertionError",
  };
  const bool is_listed = status >= 0 && status < (int)(sizeof kinds / sizeof *kinds);
  const char *kind = is_listed ? kinds[status] : NULL;
  return raise_text(kind ? kind : "RuntimeError", "%s", host.tenon_error());
}
