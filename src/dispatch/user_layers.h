/* Layers of users at one anchor, and modes. */
#ifndef TN_DISPATCH_USER_LAYERS_H
#define TN_DISPATCH_USER_LAYERS_H

#include "operator/frame.h"

tn_mutex_t *tn_layers_mutex(void); /* held over a fork: start.c */
void tn_layers_clear(void);        /* at shutdown */
/* Registers what the table runs for them. */
void tn_user_layers_install(void);

#endif
