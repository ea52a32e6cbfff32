/* A copy of this library that `tenon export` made: it provides the operators of one Tenon library.
 * libtenon is opened when the library is registered. */
#include <pthread.h>
#include <stdlib.h>

#include "register.h"

#include "common/exported.h"

#define EXPORT __attribute__((visibility("default")))

static chosen_t chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool open_operators(const manifest_t *manifest) {
  char room[4096];
  tenon_library_t *library = NULL; /* the reference is never released */
  const char *path = manifest->library ? manifest->library : "";
  const char *found = open_file_beside(path, room, sizeof room);
  if (host.tenon_library_load(found ? found : path, 0, &library) != TENON_OK)
    return fail_start(host.tenon_error());
  for (uint32_t i = 0; i < manifest->op_count; i++)
    if (chosen_add(&chosen, manifest->ops[i]) != TENON_OK) return fail_start(host.tenon_error());
  const int32_t count = manifest->op_count ? 0 : host.tenon_library_op_count(library);
  chosen.ops = manifest->op_count ? chosen.ops : calloc((size_t)count + 1, sizeof *chosen.ops);
  if (!chosen.ops) return fail_start("out of memory: the operators");
  for (int32_t i = 0; i < count; i++)
    chosen.ops[chosen.count++] = host.tenon_library_op(library, i);
  return true;
}

/* For `tenon export`: returns why the library cannot be used, or "". */
EXPORT const char *tenon_export_check(void);
const char *tenon_export_check(void) {
  (void)pthread_once(&once, start_exported);
  return failure;
}

/* For `tenon export`: what register_report returns, or NULL. */
EXPORT char *tenon_export_report(void);
char *tenon_export_report(void) { return register_report(&chosen); }

EXPORT OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  (void)pthread_once(&once, start_exported);
  if (*failure) return register_failure(base, failure);
  return register_operators(options, base, &chosen, false);
}
