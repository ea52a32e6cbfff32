/* THE HOOK for custom calls that a program of JAX makes to operators of Tenon: hlo_lower_own_call
 * is the only function to change. The operator is stated by the attribute `call`. Called by
 * lower_call.c. */
#include "lower/own_call.h"

#include <string.h>

bool hlo_is_own_call(const char *target) { return strncmp(target, "tenon", 5) == 0; }

void hlo_lower_own_call(hlo_lower_t *lower, const char *target) {
  hlo_missing(lower, "the target %.80s: calls of Tenon's operators from JAX cannot be read yet",
              target);
}
