/* The operators that sim has: add, mul, relu and matmul of f32. */
#ifndef TENON_SIM_OPS_H
#define TENON_SIM_OPS_H

#include <tenon/op.h>

extern const tenon_item_t sim_ops[];

#endif
