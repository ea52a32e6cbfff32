/* Fault: it is linked against `gone` and `gone_too`, libraries that are missing when it is
 * loaded. */
#include "planted.h"

extern int gone(void);
TENON_EXPORT int call_gone(void);
int call_gone(void) { return gone(); }

TENON_LIBRARY(needs_gone, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
