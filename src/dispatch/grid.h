/* The host's service `launch`. */
#ifndef TN_DISPATCH_GRID_H
#define TN_DISPATCH_GRID_H

#include <tenon/op.h>

tenon_status_t tn_grid_launch(tenon_call_t *call, const tenon_grid_t *grid);

#endif
