/* Finds libtvm_ffi; see runtime.h. A library may be linked to libtvm_ffi.so, which the system's
 * loader then looks for, or leave its functions undefined. In both cases a libtvm_ffi whose symbols
 * are global serves it. */
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"

static const char *const soname = "libtvm_ffi.so";

/* Writes the path of the stand-in, tvm_ffi/libtvm_ffi.so beside this bridge. */
static bool find_stand_in(char *path, size_t capacity) {
  Dl_info info;
  if (!dladdr((void *)&soname, &info) || !info.dli_fname) return false;
  const char *slash = strrchr(info.dli_fname, '/');
  int folder = slash ? (int)(slash + 1 - info.dli_fname) : 0;
  int size = snprintf(path, capacity, "%.*stvm_ffi/%s", folder, info.dli_fname, soname);
  return size > 0 && (size_t)size < capacity;
}

/* Opens some libtvm_ffi. It stays open, because libraries hold its objects.
 *
 * Arguments: `scope`: RTLD_LOCAL for a library that is linked to libtvm_ffi.so, which the loader
 * then finds by its name; RTLD_GLOBAL for a library that only leaves symbols undefined. A stand-in
 * whose symbols are global excludes the real libtvm_ffi from the process, because the symbols of
 * the stand-in would replace its own. */
static bool open_runtime(int scope, char *why, size_t capacity) {
  char path[4096];
  const char *stated = secure_getenv("TENON_TVM_FFI");
  if (dlopen(soname, RTLD_NOW | RTLD_NOLOAD | scope)) return true;
  if (stated && *stated) {
    if (dlopen(stated, RTLD_NOW | RTLD_GLOBAL)) return true;
    snprintf(why, capacity, "TENON_TVM_FFI='%s': expected the file of libtvm_ffi.so: %s", stated,
             dlerror());
    return false;
  }
  if (dlopen(soname, RTLD_NOW | RTLD_GLOBAL)) return true;
  if (find_stand_in(path, sizeof path) && dlopen(path, RTLD_NOW | scope)) return true;
  snprintf(why, capacity,
           "it needs libtvm_ffi.so, and Tenon's replacement for it cannot be opened: %s: reinstall "
           "Tenon, or set TENON_TVM_FFI to the file of libtvm_ffi.so",
           dlerror());
  return false;
}

/* Opens the library. The symbols must not become global, because libraries share names. RTLD_NOW: a
 * function that is missing must not end the process later. */
static void *open_tvm_ffi(const char *path, char *reason, size_t capacity) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *text = library ? NULL : dlerror();
  if (!library) snprintf(reason, capacity, "%s", text ? text : "no reason given");
  return library;
}

void *runtime_open(const char *path, char *why, size_t capacity) {
  static const int scopes[] = {RTLD_LOCAL, RTLD_GLOBAL};
  static const char *const missing[] = {"libtvm_ffi.so: cannot open shared object file",
                                        "undefined symbol: TVMFFI"};
  char reason[1000] = "";
  void *library = open_tvm_ffi(path, reason, sizeof reason);
  for (int i = 0; i < 2 && !library; i++) {
    if (!strstr(reason, missing[i])) continue;
    if (!open_runtime(scopes[i], why, capacity)) return NULL;
    library = open_tvm_ffi(path, reason, sizeof reason);
  }
  if (library) return library;
  const char *hint = "";
  if (strstr(reason, missing[1]))
    hint = ": the libtvm_ffi.so in this process lacks this function: load the one that the library "
           "was built with, by importing tvm_ffi first or by TENON_TVM_FFI=FILE";
  snprintf(why, capacity, "the system cannot load it: %s%s", reason, hint);
  return NULL;
}

/* Finds a function in the order of the system's loader: global symbols, then the library's own
 * dependencies. */
static void find_function(void *library, const char *name, void *out_function) {
  void *address = dlsym(RTLD_DEFAULT, name);
  if (!address) address = dlsym(library, name);
  /* ISO C has no cast from an object pointer to a function pointer. */
  memcpy(out_function, &address, sizeof address);
}

void runtime_find(void *library, runtime_t *out) {
  find_function(library, "TVMFFIErrorMoveFromRaised", &out->take_error);
  find_function(library, "TVMFFIEnvSetStream", &out->set_stream);
  find_function(library, "TVMFFIEnvSetDLPackManagedTensorAllocator", &out->set_allocator);
  find_function(library, "TVMFFIEnvGetDLPackManagedTensorAllocator", &out->get_allocator);
  if (!out->set_allocator || !out->get_allocator || out->get_allocator()) return;
  /* The function sets the allocator of this thread as well, which must stay as it was. */
  ffi_allocator_fn before = NULL;
  out->set_allocator(allocator_create, 1, &before);
  out->set_allocator(before, 0, NULL);
}
