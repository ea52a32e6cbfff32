/* Fault: it calls a function that no library defines. */
#include "planted.h"

extern int nobody_defines_this(void);
TENON_EXPORT int call_nobody(void);
int call_nobody(void) { return nobody_defines_this(); }

TENON_LIBRARY(undefined, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
