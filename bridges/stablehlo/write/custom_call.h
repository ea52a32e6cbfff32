/* Operators of libraries in the program. */
#ifndef BRIDGES_STABLEHLO_WRITE_CUSTOM_CALL_H
#define BRIDGES_STABLEHLO_WRITE_CUSTOM_CALL_H

#include "write/write.h"

/* Writes the node as a custom call of domain.name, with the attributes in backend_config, as
 * lower/lower_call.c reads it. */
void hlo_write_custom_call(hlo_write_t *w);

#endif
