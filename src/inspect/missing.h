/* The message of a call that has no kernel. */
#ifndef TN_INSPECT_MISSING_H
#define TN_INSPECT_MISSING_H

#include "operator/op.h"

/* Sets tn_op_missing. */
void tn_missing_install(void);

#endif
