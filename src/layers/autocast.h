/* Autocast. */
#ifndef TN_LAYERS_AUTOCAST_H
#define TN_LAYERS_AUTOCAST_H

#include "operator/frame.h"

void tn_autocast_clear(void); /* at shutdown */
/* Registers what the table runs for it. */
void tn_autocast_install(void);

#endif
