/* The host's service `launch`, which starts source kernels. */
#ifndef TN_DRIVERS_GRID_H
#define TN_DRIVERS_GRID_H

#include <tenon/device.h>

/* Sets the size of all groups on devices, as TENON_GROUP does; 0: kernels state it. */
void tn_grid_group_set(uint32_t items);
tenon_status_t tn_grid_launch(tenon_call_t *call, const tenon_grid_t *grid);

/* Enqueues a compiled kernel each item of which processes one element, and none beyond the last
 * one. */
struct tn_ordinal_t;
tenon_status_t tn_grid_launch_each(struct tn_ordinal_t *ordinal, void *stream, uint64_t ticket,
                                   void *kernel, uint64_t items,
                                   const tenon_kernel_argument_t *arguments, uint32_t count);

#endif
