/* The host's service `launch`, which starts source kernels. */
#ifndef TN_DRIVERS_GRID_H
#define TN_DRIVERS_GRID_H

#include <tenon/op.h>

/* All groups on devices have that size, as by TENON_GROUP; 0: as kernels say. */
void tn_grid_group_set(uint32_t items);
tenon_status_t tn_grid_launch(tenon_call_t *call, const tenon_grid_t *grid);

#endif
