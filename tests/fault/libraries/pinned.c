/* Fault under TENON_LOAD_UNLOADABLE: it is linked with -z nodelete, so the system never unloads
 * it. */
#include "planted.h"

TENON_LIBRARY(pinned, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
