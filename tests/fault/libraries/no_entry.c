/* Fault: it exports no entry function. */
#include "planted.h"

TENON_EXPORT int something_else(void);
int something_else(void) { return 1; }
