/* Keeps libraries loaded whose operators JAX can call. */
#include "common/hold.h"

#define EXPORT __attribute__((visibility("default")))

/* Keeps the library of a namespace loaded until the process ends. Returns NULL, or the reason of a
 * failure, which is valid until the thread's next call. */
EXPORT const char *tenon_jax_hold(const char *library);
EXPORT const char *tenon_jax_hold(const char *library) {
  return hold_namespace(library) == TENON_OK ? NULL : tenon_error();
}
