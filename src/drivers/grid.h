/* The host's service `launch`, which starts source kernels. */
#ifndef TN_DRIVERS_GRID_H
#define TN_DRIVERS_GRID_H

#include <tenon/op.h>

/* Sets the size of all groups on devices, as TENON_GROUP does; 0: kernels state it. */
void tn_grid_group_set(uint32_t items);
tenon_status_t tn_grid_launch(tenon_call_t *call, const tenon_grid_t *grid);

#endif
