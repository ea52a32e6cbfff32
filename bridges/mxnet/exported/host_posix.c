/* Finds libtenon, and functions of MXNet, through dlopen; see host.h. */
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "message.h"

static const char *const soname = "libtenon.so.1";

host_t host;

static bool find(void *library, const char *name, void *out_function) {
  void *address = dlsym(library, name);
  /* ISO C has no cast from an object pointer to a function pointer. */
  memcpy(out_function, &address, sizeof address);
  return address != NULL;
}

/* Finds the folder of this library, including the last separator. Returns the length of the
 * folder's name; the path is "" if the system does not report it. */
static int folder_of(const char **out_path) {
  Dl_info info;
  if (!dladdr(&host, &info) || !info.dli_fname) {
    *out_path = "";
    return 0;
  }
  const char *separator = strrchr(info.dli_fname, '/');
  *out_path = info.dli_fname;
  return separator ? (int)(separator + 1 - info.dli_fname) : 0;
}

const char *host_file(const char *path, char *room, size_t capacity) {
  const char *own;
  const char *separator = strrchr(path, '/');
  int size = folder_of(&own);
  if (access(path, R_OK) == 0) return path;
  int length = snprintf(room, capacity, "%.*s%s", size, own, separator ? separator + 1 : path);
  return length > 0 && (size_t)length < capacity && access(room, R_OK) == 0 ? room : NULL;
}

static void *open_tenon_library(const char *path, char *why, size_t capacity) {
  const char *own;
  char beside[4096];
  int size = folder_of(&own);
  void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  snprintf(beside, sizeof beside, "%.*s%s", size, own, soname);
  const char *const candidates[] = {path, beside, soname};
  for (size_t i = 0; !library && i < sizeof candidates / sizeof *candidates; i++) {
    bool is_there = i == 2 || access(candidates[i], R_OK) == 0;
    if (is_there && !(library = dlopen(candidates[i], RTLD_NOW | RTLD_LOCAL)) && !*why)
      snprintf(why, capacity, "%s", dlerror());
  }
  return library;
}

bool host_open(const char *path) {
  char why[1000] = "";
  char missing[1000] = "";
  void *library = open_tenon_library(path, why, sizeof why);
  if (!library)
    return message_set(
        "cannot load libtenon: %s; it was at %s when this library was exported: install Tenon, put "
        "%s beside this library, add its folder to LD_LIBRARY_PATH, or export the library again",
        why, path, soname);
#define HOST_FIND_(name)                                                                           \
  if (!find(library, #name, &host.name))                                                           \
    snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", #name);
  HOST_FUNCTIONS(HOST_FIND_)
  return !*missing || message_set("libtenon is older than this library and lacks%s: use the "
                                  "version of Tenon that exported it (%s)",
                                  missing, path);
}

uint32_t host_names(const char *const **out_names) {
  int (*list)(uint32_t *, const char ***) = NULL;
  const char **names = NULL;
  uint32_t count = 0;
  void *mxnet = dlopen("libmxnet.so", RTLD_LAZY | RTLD_NOLOAD);
  if (mxnet && (!find(mxnet, "MXListAllOpNames", &list) || list(&count, &names) != 0)) count = 0;
  /* The library was loaded before, so it stays loaded. */
  if (mxnet) dlclose(mxnet);
  *out_names = names;
  return count;
}
