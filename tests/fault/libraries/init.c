/* Fault under TENON_LOAD_STRICT: linked with -init=begin. */
#include "planted.h"

TENON_EXPORT void begin(void);
void begin(void) {}

TENON_LIBRARY(init, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
