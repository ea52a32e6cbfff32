/* The fallback of backends to the CPU. */
#ifndef TN_LAYERS_FALLBACK_H
#define TN_LAYERS_FALLBACK_H

#include "operator/frame.h"

/* Registers the function that tables run for the fallback, and reads TENON_STRICT. */
void tn_fallback_install(void);

#endif
