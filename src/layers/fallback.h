/* The fallback of backends to the CPU. */
#ifndef TN_LAYERS_FALLBACK_H
#define TN_LAYERS_FALLBACK_H

#include "operator/frame.h"

/* Registers what the table runs for it, and reads the environment. */
void tn_fallback_install(void);

#endif
