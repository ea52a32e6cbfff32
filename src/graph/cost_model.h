/* The cost model: how long calls, matrix products, memory traffic and copies take on each device,
 * measured once in a process. Used when a graph is placed on several devices. The figures are
 * estimates: they show the load of the machine at the moment of the measurement. */
#ifndef TN_GRAPH_COST_MODEL_H
#define TN_GRAPH_COST_MODEL_H

#include <tenon/op.h>

/* Costs of one device. */
typedef struct tn_device_cost_t {
  double call;  /* seconds of a call that has little to do */
  double flops; /* f32 multiplications and additions a second, in a matrix product */
  double bytes; /* bytes a second, read and written by a pointwise operator */
} tn_device_cost_t;

/* Costs of copies from one device to another. */
typedef struct tn_copy_cost_t {
  double latency; /* seconds of a copy of few bytes */
  double bytes;   /* bytes a second, for large copies */
} tn_copy_cost_t;

tenon_status_t tn_device_cost_measure(tenon_device_t device, tn_device_cost_t *out_cost);
tenon_status_t tn_copy_cost_measure(tenon_device_t from, tenon_device_t to,
                                    tn_copy_cost_t *out_cost);

void tn_cost_model_clear(void); /* at shutdown: forgets all measurements */
/* after a fork: unlocks what another thread of the parent may have locked */
void tn_cost_model_in_child(void);

#endif
