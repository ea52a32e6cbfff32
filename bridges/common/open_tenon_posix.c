/* Finds libtenon through dlopen; see open_tenon.h. */
#include "common/open_tenon.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const soname = "libtenon.so.1";

bool open_function(void *library, const char *name, void *out_function) {
  void *address = dlsym(library, name);
  /* ISO C has no cast from an object pointer to a function pointer. */
  memcpy(out_function, &address, sizeof address);
  return address != NULL;
}

/* Finds the folder of this library, including the last separator. Returns the length of the
 * folder's name; the path is "" if the system does not report it. */
static int folder_of(const char **out_path) {
  Dl_info info;
  if (!dladdr((const void *)&soname, &info) || !info.dli_fname) {
    *out_path = "";
    return 0;
  }
  const char *separator = strrchr(info.dli_fname, '/');
  *out_path = info.dli_fname;
  return separator ? (int)(separator + 1 - info.dli_fname) : 0;
}

const char *open_file_beside(const char *path, char *room, size_t capacity) {
  const char *own;
  const char *separator = strrchr(path, '/');
  int size = folder_of(&own);
  if (access(path, R_OK) == 0) return path;
  int length = snprintf(room, capacity, "%.*s%s", size, own, separator ? separator + 1 : path);
  return length > 0 && (size_t)length < capacity && access(room, R_OK) == 0 ? room : NULL;
}

void *open_tenon(const char *path, char *why, size_t capacity) {
  const char *own;
  char beside[4096];
  char reason[1000] = "";
  int size = folder_of(&own);
  void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  snprintf(beside, sizeof beside, "%.*s%s", size, own, soname);
  const char *const candidates[] = {path, beside, soname};
  for (size_t i = 0; !library && i < sizeof candidates / sizeof *candidates; i++) {
    bool is_there = i == 2 || access(candidates[i], R_OK) == 0;
    if (is_there && !(library = dlopen(candidates[i], RTLD_NOW | RTLD_LOCAL)) && !*reason)
      snprintf(reason, sizeof reason, "%s", dlerror());
  }
  if (!library)
    snprintf(why, capacity,
             "cannot load libtenon: %s; it was at %s when this library was exported: install "
             "Tenon, put %s beside this library, add its folder to LD_LIBRARY_PATH, or export the "
             "library again",
             reason, path, soname);
  return library;
}
