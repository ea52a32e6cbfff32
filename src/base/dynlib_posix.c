/* Dynamic libraries over dlopen. */
#include "base/dynlib.h"

#include <dlfcn.h>
#include <string.h>

#include "base/status.h"

tenon_status_t tn_dynlib_open(const char *path, tn_dynlib_t **out_library) {
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return tn_fail(TENON_UNAVAILABLE, "%s", reason ? reason : "dlopen failed without a reason");
  }
  *out_library = handle;
  return TENON_OK;
}

tenon_any_fn tn_dynlib_function(tn_dynlib_t *library, const char *name) {
  void *address = dlsym(library, name);
  tenon_any_fn function = NULL;
  memcpy(&function, &address, sizeof function); /* ISO C has no cast between the two */
  return function;
}

tenon_any_fn tn_dynlib_global(const char *name) {
  void *address = dlsym(RTLD_DEFAULT, name);
  tenon_any_fn function = NULL;
  memcpy(&function, &address, sizeof function);
  return function;
}

void tn_dynlib_close(tn_dynlib_t *library) {
  if (library) dlclose(library);
}
