/* The driver of loop kernels. */
#ifndef TN_DRIVERS_LOOP_H
#define TN_DRIVERS_LOOP_H

#include "operator/frame.h"

/* Runs the frame's loop kernel over the broadcast arguments of a call. */
tenon_status_t tn_loop_run(tenon_call_t *call);

#endif
