/* Keeps libraries loaded whose operators a framework can call until the process ends. Each bridge
 * that needs it compiles this file in. */
#ifndef BRIDGES_COMMON_HOLD_H
#define BRIDGES_COMMON_HOLD_H

#include <tenon/tenon.h>

/* Keeps the library of an operator loaded. */
tenon_status_t hold_library(const tenon_op_t *op);
/* Keeps the library of a namespace loaded.
 * Errors: TENON_NOT_FOUND if no loaded library has operators in the namespace. */
tenon_status_t hold_namespace(const char *name);

#endif
