/* Fault under TENON_LOAD_UNLOADABLE: linked with -z nodelete, the system never unloads it. */
#include "planted.h"

TENON_LIBRARY(pinned, "1.0.0",
              TENON_OP("op(Tensor x) -> Tensor", SAME, TENON_GRADIENT("x: none"), NOTHING))
