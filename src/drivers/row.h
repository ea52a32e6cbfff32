/* The driver of row kernels. */
#ifndef TN_DRIVERS_ROW_H
#define TN_DRIVERS_ROW_H

#include "operator/frame.h"

/* Runs the frame's row kernel over the rows of the arguments of a call. */
tenon_status_t tn_row_run(tenon_call_t *call);
/* Does the same for arguments that are rows of greater ones; `first` is the number of the first row
 * there. */
tenon_status_t tn_row_run_from(tenon_call_t *call, int64_t first);

#endif
