/* Layers of programs at their anchors, and modes. */
#ifndef TN_DISPATCH_USER_LAYERS_H
#define TN_DISPATCH_USER_LAYERS_H

#include "operator/frame.h"

tn_mutex_t *tn_layers_mutex(void); /* start.c holds it over a fork */
void tn_layers_clear(void);        /* called at shutdown */
/* Registers the run functions of this unit with the table. */
void tn_user_layers_install(void);

#endif
