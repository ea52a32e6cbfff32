/* Fault: its entry function returns no descriptor. */
#include "planted.h"

TENON_EXPORT const tenon_descriptor_t *tenon_library(void);
const tenon_descriptor_t *tenon_library(void) { return 0; }
