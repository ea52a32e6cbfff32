/* Fault: linked against (what calls itself) libtenon. */
#include "planted.h"

extern int gone(void);
TENON_EXPORT int call_gone(void);
int call_gone(void) { return gone(); }

TENON_LIBRARY(links_host, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
