/* Opens a library and lets it register its operators, once. The library stays open: the domains and
 * operators are its static objects, and what C++ libraries leave behind keeps them mapped anyway.
 * Called by bridge.c alone, because this file calls the files for all that a library registers. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "describe.h"
#include "status.h"
#include "table.h"

/* The open libraries. The loader opens one at a time. */
static library_t *first;

/* Makes a namespace from the name of a file: "libcustom-op.so" becomes custom_op. */
static char *namespace_of_file(const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash ? slash + 1 : path;
  if (strncmp(name, "lib", 3) == 0 && name[3] && name[3] != '.') name += 3;
  const size_t size = strcspn(name, ".");
  char *ns = malloc(size + 2);
  char *out = ns;
  if (!ns) return NULL;
  if (size == 0 || (*name >= '0' && *name <= '9')) *out++ = '_';
  for (size_t i = 0; i < size; i++) {
    const char c = name[i];
    const bool is_fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    *out++ = is_fine ? c : '_';
  }
  *out = 0;
  return ns;
}

typedef struct registering_t {
  register_fn function;
  library_t *library;
  OrtStatus *status;
} registering_t;

static int call_register(void *argument) {
  registering_t *r = argument;
  r->status = r->function(&r->library->options, table_base());
  return 1;
}

static tenon_status_t register_ops(library_t *l, char *why, size_t capacity) {
  registering_t r = {.library = l};
  char reason[WHY / 2] = "";
  *(void **)&r.function = dlsym(l->handle, "RegisterCustomOps");
  if (!r.function) {
    snprintf(why, capacity, "it does not export RegisterCustomOps");
    return TENON_INVALID;
  }
  const bool good = guard_call(call_register, &r, reason, sizeof reason) > 0 &&
                    status_take(r.status, reason, sizeof reason);
  if (!good) {
    snprintf(why, capacity, "its function RegisterCustomOps failed: %s", reason);
    return TENON_PRECONDITION;
  }
  const uint32_t version = table_refused();
  if (!l->options.count && !l->options.is_early) {
    snprintf(why, capacity, "its function RegisterCustomOps registered no operators");
    const size_t used = strlen(why);
    if (version)
      snprintf(why + used, capacity - used,
               ": it asks for version %u of ONNX Runtime's interface, and Tenon has versions 1 to "
               "%d",
               version, ORT_VERSION_NEWEST);
    return TENON_INVALID;
  }
  if (l->options.is_early) {
    snprintf(why, capacity,
             "its function RegisterCustomOps released a domain that it had registered: the domain "
             "must live as long as the library");
    return TENON_INVALID;
  }
  return TENON_OK;
}

static tenon_status_t read_all(library_t *l, char *why, size_t capacity) {
  /* The symbols must not become global, because libraries share names. */
  l->handle = dlopen(l->path, RTLD_NOW | RTLD_LOCAL);
  if (!l->handle) {
    const char *reason = dlerror();
    const char *hint = "";
    if (reason && strstr(reason, "libonnxruntime"))
      hint = " (it is linked against ONNX Runtime itself: build it with ORT_API_MANUAL_INIT and "
             "without -lonnxruntime)";
    if (reason && strstr(reason, "undefined symbol: Py"))
      hint = " (it is an extension module of CPython: load it from Python)";
    snprintf(why, capacity, "the system cannot load it: %s%s", reason ? reason : "no reason given",
             hint);
    return TENON_UNAVAILABLE;
  }
  tenon_status_t status = register_ops(l, why, capacity);
  if (status != TENON_OK) return status;
  if (!operators_read(l, why, capacity)) return TENON_INVALID;
  if (describe_library(l)) return TENON_OK;
  snprintf(why, capacity, "out of memory");
  return TENON_MEMORY;
}

static void release_library(library_t *l) {
  registration_clear(&l->options);
  for (size_t i = 0; i < l->text_count; i++)
    free(l->texts[i]);
  operators_free(l);
  free(l->texts);
  free(l->items);
  free(l->path);
  free(l->ns);
  if (l->handle) dlclose(l->handle);
  free(l);
}

tenon_status_t library_open(const char *path, library_t **out, char *why, size_t capacity) {
  for (*out = first; *out; *out = (*out)->next)
    if (strcmp((*out)->path, path) == 0) return TENON_OK;
  library_t *l = calloc(1, sizeof *l);
  tenon_status_t status = TENON_MEMORY;
  snprintf(why, capacity, "out of memory");
  if (!l) return status;
  if ((l->path = strdup(path)) && (l->ns = namespace_of_file(path)))
    status = read_all(l, why, capacity);
  if (status != TENON_OK) {
    release_library(l);
    return status;
  }
  l->next = first;
  first = l;
  *out = l;
  return TENON_OK;
}
