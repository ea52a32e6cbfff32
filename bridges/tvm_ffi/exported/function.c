/* Operators of this process as function objects: tenon.tvm_ffi.function calls the function that the
 * bridge exports for it. */
#include <stdlib.h>
#include <string.h>

#include "common/hold.h"
#include "error.h"
#include "object.h"
#include "operator.h"

#define EXPORT __attribute__((visibility("default")))

typedef struct operator_function_t {
  ffi_function_t base;
  exported_t exported;
  char name[]; /* in Tenon */
} operator_function_t;

static int call_operator_function(void *self, const ffi_any_t *arguments, int32_t count,
                                  ffi_any_t *result) {
  return exported_call(&((operator_function_t *)self)->exported, arguments, count, result);
}

/* The library of the operator stays loaded until the process ends: somebody may keep the function
 * where no destructor runs. */
static int create_function(ffi_bytes_t name, ffi_any_t *result) {
  operator_function_t *made = ffi_create(sizeof *made + name.size + 1, FFI_FUNCTION, NULL);
  if (!made) return raise_text("MemoryError", "out of memory: a function");
  memcpy(made->name, name.data, name.size);
  made->base.call = call_operator_function;
  tenon_status_t status = exported_describe(made->name, &made->exported);
  if (status == TENON_OK) status = hold_library(made->exported.op);
  if (status != TENON_OK) {
    ffi_release(&made->base.head);
    return exported_raise(status);
  }
  *result = (ffi_any_t){.kind = FFI_FUNCTION, .as.object = &made->base.head};
  return 0;
}

/* operator(name) -> Function; metadata(name) -> str; documentation(name) -> str */

static int check_name(const ffi_any_t *arguments, int32_t count, ffi_bytes_t *out) {
  env_find();
  if (count == 1) *out = ffi_text_get(&arguments[0]);
  if (count != 1 || !out->data)
    return raise_text("TypeError", "expected the name of an operator, such as \"demo::gelu\"");
  return 0;
}

static int describe_named(const ffi_any_t *arguments, int32_t count,
                          int (*describe)(const exported_t *, ffi_any_t *), ffi_any_t *result) {
  ffi_bytes_t name;
  exported_t *exported = malloc(sizeof *exported);
  if (!exported) return raise_text("MemoryError", "out of memory: an operator");
  int code = check_name(arguments, count, &name);
  char *copy = code == 0 ? strndup(name.data, name.size) : NULL;
  if (copy) {
    tenon_status_t status = exported_describe(copy, exported);
    code = status == TENON_OK ? describe(exported, result) : exported_raise(status);
  } else if (code == 0) {
    code = raise_text("MemoryError", "out of memory: an operator");
  }
  free(copy);
  free(exported);
  return code;
}

#define EXPORT_FUNCTION(name)                                                                      \
  EXPORT int __tvm_ffi_##name(void *self, const ffi_any_t *arguments, int32_t count,               \
                              ffi_any_t *result);                                                  \
  int __tvm_ffi_##name(void *self, const ffi_any_t *arguments, int32_t count, ffi_any_t *result)

EXPORT_FUNCTION(operator) {
  ffi_bytes_t name;
  (void)self;
  return check_name(arguments, count, &name) == 0 ? create_function(name, result) : -1;
}

EXPORT_FUNCTION(metadata) {
  (void)self;
  return describe_named(arguments, count, exported_metadata, result);
}

EXPORT_FUNCTION(documentation) {
  (void)self;
  return describe_named(arguments, count, exported_doc, result);
}
