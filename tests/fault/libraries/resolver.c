/* Fault under TENON_LOAD_STRICT: opening the library calls a function that selects another one
 * (GNU_IFUNC). */
#include "planted.h"

static int plain(void) { return 1; }
__attribute__((used)) static int (*choose(void))(void) { return plain; }
TENON_EXPORT int chosen(void) __attribute__((ifunc("choose")));

TENON_LIBRARY(resolver, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
