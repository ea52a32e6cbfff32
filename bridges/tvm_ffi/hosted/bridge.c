/* The entry of the bridge: recognises libraries of tvm-ffi functions and opens them. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/bridge.h>
#include <tenon/tvm_ffi.h>

#include "module.h"

static const char *const prefixes[] = {FFI_PREFIX, NULL};

/* What tenon_tvm_ffi_load says about the library that this thread loads. */
static _Thread_local struct {
  const tenon_tvm_ffi_function_t *functions;
  uint32_t count;
  bool is_open; /* the library was opened */
} declared;

static tenon_status_t inspect(tenon_bridge_call_t *call,
                              void (*say)(void *context, const char *line), void *context) {
  (void)call;
  say(context, "a library of functions for tvm-ffi: `tenon ops FILE` loads it and lists those that "
               "have metadata");
  return TENON_OK;
}

static void destroy_module(void *context) { module_release(context); }

static tenon_status_t open_module(tenon_bridge_call_t *call, tenon_bridged_t *out) {
  char why[WHY] = "";
  module_t *module = NULL;
  declared.is_open = true;
  tenon_status_t status =
      module_open(call->path, declared.functions, declared.count, &module, why, sizeof why);
  if (status != TENON_OK) return tenon_fail(call, status, "%s", why);
  out->descriptor = &module->descriptor;
  out->context = module;
  out->destroy = destroy_module;
  return TENON_OK;
}

int tenon_tvm_ffi_declare(const tenon_tvm_ffi_function_t *functions, uint32_t count) {
  const bool was_open = declared.is_open;
  declared.functions = functions;
  declared.count = count;
  declared.is_open = false;
  return was_open;
}

tenon_status_t tenon_tvm_ffi_load(const char *path, uint32_t flags,
                                  const tenon_tvm_ffi_function_t *functions, uint32_t count,
                                  tenon_library_t **out_library) {
  tenon_library_t *library = NULL;
  if (out_library) *out_library = NULL;
  if (flags & TENON_LOAD_ISOLATED)
    return tenon_error_set(TENON_UNIMPLEMENTED,
                           "tenon_tvm_ffi_load: a library with declarations cannot be isolated: "
                           "load one with metadata by tenon_library_load");
  if (count && !functions)
    return tenon_error_set(TENON_INVALID, "tenon_tvm_ffi_load: functions is NULL");
  (void)tenon_tvm_ffi_declare(functions, count);
  tenon_status_t status = tenon_library_load(path, flags, out_library ? &library : NULL);
  const bool is_open = tenon_tvm_ffi_declare(NULL, 0);
  if (status == TENON_OK && !is_open) {
    tenon_library_release(library);
    return tenon_error_set(TENON_EXISTS, "tenon_tvm_ffi_load: the file is loaded already, or is a "
                                         "library of another kind: unload it first");
  }
  if (status == TENON_OK && out_library) *out_library = library;
  return status;
}

static const tenon_bridge_table_t table = {.size = sizeof table,
                                           .abi = TENON_BRIDGE_ABI,
                                           .name = "tvm_ffi",
                                           .inspect = inspect,
                                           .open = open_module,
                                           .prefixes = prefixes};

TENON_LIBRARY(tvm_ffi_bridge, "1.0", TENON_BRIDGE(&table))
