/* Opens and closes libraries of functions; see module.h. */
#include "module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "describe.h"
#include "symbols.h"
#include "thunk.h"

/* A library that uses one of these functions registers pointers to its own code or data in
 * libtvm_ffi, which has no way to remove them. */
static const char *const registering[] = {"TVMFFIFunctionSetGlobal",
                                          "TVMFFIFunctionSetGlobalFromMethodInfo",
                                          "TVMFFITypeRegisterField",
                                          "TVMFFITypeRegisterMethod",
                                          "TVMFFITypeRegisterMetadata",
                                          "TVMFFITypeRegisterAttr",
                                          "TVMFFIEnvRegisterCAPI",
                                          "TVMFFIEnvModRegisterContextSymbol",
                                          "TVMFFIEnvModRegisterSystemLibSymbol",
                                          "TVMFFIHandleInitOnce"};

static void note_registering(void *context, const char *name, bool is_defined) {
  module_t *module = context;
  for (size_t i = 0; i < sizeof registering / sizeof *registering && !is_defined; i++)
    if (strcmp(name, registering[i]) == 0) module->is_pinned = true;
}

void module_retain(module_t *module) {
  __atomic_fetch_add(&module->references, 1, __ATOMIC_RELAXED);
}

void module_release(module_t *module) {
  if (__atomic_fetch_sub(&module->references, 1, __ATOMIC_ACQ_REL) != 1) return;
  for (uint32_t i = 0; i < module->function_count; i++)
    thunk_release(&module->functions[i]);
  if (module->handle && !module->is_pinned) dlclose(module->handle);
  tn_arena_clear(&module->arena);
  free(module->path);
  free(module);
}

/* Makes a namespace from the name of a file: "libflash-attn.so" becomes flash_attn. */
static char *namespace_of(module_t *module) {
  const char *slash = strrchr(module->path, '/');
  const char *name = slash ? slash + 1 : module->path;
  if (strncmp(name, "lib", 3) == 0 && name[3] && name[3] != '.') name += 3;
  size_t size = strcspn(name, ".");
  bool is_prefixed = size == 0 || (*name >= '0' && *name <= '9');
  char *ns = tn_arena_allocate(&module->arena, size + 2);
  if (!ns) return NULL;
  if (is_prefixed) *ns = '_';
  char *out = ns + is_prefixed;
  for (size_t i = 0; i < size; i++) {
    const char c = name[i];
    const bool is_fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out[i] = is_fine ? c : '_';
  }
  return ns;
}

static tenon_status_t fill_module(module_t *module, const tenon_tvm_ffi_function_t *declared,
                                  uint32_t count, char *why, size_t capacity) {
  module->handle = runtime_open(module->path, why, capacity);
  if (!module->handle) return TENON_UNAVAILABLE;
  if (!symbols_each(module->handle, note_registering, module)) module->is_pinned = true;
  runtime_find(module->handle, &module->runtime);
  module->ns = namespace_of(module);
  if (!module->ns) {
    snprintf(why, capacity, "out of memory");
    return TENON_MEMORY;
  }
  return describe_module(module, declared, count, why, capacity);
}

tenon_status_t module_open(const char *path, const tenon_tvm_ffi_function_t *declared,
                           uint32_t count, module_t **out_module, char *why, size_t capacity) {
  module_t *module = calloc(1, sizeof *module);
  tenon_status_t status = TENON_MEMORY;
  snprintf(why, capacity, "out of memory");
  if (!module) return status;
  module->references = 1;
  module->path = strdup(path);
  if (module->path) status = fill_module(module, declared, count, why, capacity);
  if (status == TENON_OK)
    *out_module = module;
  else
    module_release(module);
  return status;
}
