/* Autocast. */
#ifndef TN_LAYERS_AUTOCAST_H
#define TN_LAYERS_AUTOCAST_H

#include "operator/frame.h"

void tn_autocast_clear(void); /* at shutdown */
/* Registers the functions that tables run for autocast. */
void tn_autocast_install(void);

#endif
