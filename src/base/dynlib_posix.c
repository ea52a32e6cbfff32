/* Dynamic libraries over dlopen, dlsym and dlclose. */
#include "base/dynlib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/status.h"

struct tn_dynlib_t {
  void *handle;
  /* Descriptor of the sealed copy, or -1. It stays open while the library is loaded, because the
   * system's loader identifies libraries by path and the path names this descriptor. */
  int copy;
};

static tenon_status_t open_path(const char *path, int copy, tn_dynlib_t **out_library) {
  tn_dynlib_t *library = tn_allocate_zero(1, sizeof *library);
  if (!library) return tn_no_memory("a library", sizeof *library);
  library->copy = copy;
  library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library->handle) {
    *out_library = library;
    return TENON_OK;
  }
  const char *reason = dlerror();
  tn_release_memory(library);
  return tn_fail(TENON_UNAVAILABLE, "%s", reason ? reason : "dlopen failed without a reason");
}

tenon_status_t tn_dynlib_open(const char *path, tn_dynlib_t **out_library) {
  return open_path(path, -1, out_library);
}

tenon_status_t tn_dynlib_open_copy(int copy, tn_dynlib_t **out_library) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
  return open_path(path, copy, out_library);
}

tenon_any_fn tn_dynlib_function(tn_dynlib_t *library, const char *name) {
  void *address = dlsym(library->handle, name);
  tenon_any_fn function = NULL;
  /* ISO C has no cast from an object pointer to a function pointer */
  memcpy(&function, &address, sizeof function);
  return function;
}

tenon_any_fn tn_dynlib_global(const char *name) {
  void *address = dlsym(RTLD_DEFAULT, name);
  tenon_any_fn function = NULL;
  memcpy(&function, &address, sizeof function);
  return function;
}

bool tn_dynlib_same(const tn_dynlib_t *a, const tn_dynlib_t *b) {
  return a && b && a->handle == b->handle;
}

void tn_dynlib_close(tn_dynlib_t *library) {
  if (!library) return;
  dlclose(library->handle);
  if (library->copy >= 0) close(library->copy);
  tn_release_memory(library);
}

void tn_dynlib_keep(tn_dynlib_t *library) { tn_release_memory(library); }
