/* Fault under TENON_LOAD_STRICT: opening runs two functions of its own. */
#include "planted.h"

static volatile int ran;
__attribute__((constructor)) static void set_up(void) { ran = 1; }
__attribute__((constructor)) static void set_up_more(void) { ran = 2; }

TENON_LIBRARY(constructor, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
