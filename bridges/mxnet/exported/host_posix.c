/* Finds libtenon, and functions of MXNet, through dlopen; see host.h. */
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "common/open_tenon.h"
#include "message.h"

host_t host;

const char *host_file(const char *path, char *room, size_t capacity) {
  return open_file_beside(path, room, capacity);
}

bool host_open(const char *path) {
  char why[2000] = "";
  char missing[1000] = "";
  void *library = open_tenon(path, why, sizeof why);
  if (!library) return message_set("%s", why);
#define HOST_FIND_(name)                                                                           \
  if (!open_function(library, #name, &host.name))                                                  \
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
  if (mxnet && (!open_function(mxnet, "MXListAllOpNames", &list) || list(&count, &names) != 0))
    count = 0;
  /* The library was loaded before, so it stays loaded. */
  if (mxnet) dlclose(mxnet);
  *out_names = names;
  return count;
}
