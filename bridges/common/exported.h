/* How an exported library starts: it reads its manifest, opens libtenon and its operators. Each
 * kind of exported library includes this file once, after a header that declares `host` with a
 * member for each of HOST_FUNCTIONS. */
#ifndef BRIDGES_COMMON_EXPORTED_H
#define BRIDGES_COMMON_EXPORTED_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/manifest.h"
#include "common/open_tenon.h"

static char failure[4096]; /* why the library cannot be used; "": it can */

static bool fail_start(const char *text) {
  snprintf(failure, sizeof failure, "%s", text);
  return false;
}

static bool open_host(const manifest_t *manifest) {
  char missing[1000] = "";
  void *library = open_tenon(manifest->tenon ? manifest->tenon : "", failure, sizeof failure);
  if (!library) return false;
#define HOST_FIND_(name)                                                                           \
  if (!open_function(library, #name, &host.name))                                                  \
    snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", #name);
  HOST_FUNCTIONS(HOST_FIND_)
#undef HOST_FIND_
  if (*missing)
    snprintf(failure, sizeof failure,
             "libtenon is older than this library and lacks%s: use the version of Tenon that "
             "exported it (%s)",
             missing, manifest->tenon ? manifest->tenon : "not stated");
  return !*missing;
}

/* Finds the operators of the manifest. Defined by the file that includes this one. */
static bool open_operators(const manifest_t *manifest);

static void start_exported(void) {
  static const manifest_t *manifest; /* operators keep its texts */
  manifest = manifest_read();
  if (!manifest)
    (void)fail_start("out of memory: what this library exports");
  else if (open_host(manifest))
    (void)open_operators(manifest);
}

#endif
