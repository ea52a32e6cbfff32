/* How fast devices are, measured once in a process: what a call costs, multiplications and memory,
 * and copies between two. Called where a graph is placed on several devices.  The figures are for
 * estimates: they are of this moment. */
#ifndef TN_GRAPH_RATES_H
#define TN_GRAPH_RATES_H

#include <tenon/op.h>

typedef struct tn_rate_t { /* of a device */
  double call;             /* seconds of a call that has little to do */
  double flops; /* a second: f32 multiplications and additions of a product of matrices */
  double bytes; /* a second: read and written by a pointwise operator */
} tn_rate_t;

typedef struct tn_link_t { /* from one device to another */
  double latency;          /* seconds of a copy of few bytes */
  double bytes;            /* a second, of large ones */
} tn_link_t;

tenon_status_t tn_rate_measure(tenon_device_t device, tn_rate_t *out_rate);
tenon_status_t tn_link_measure(tenon_device_t from, tenon_device_t to, tn_link_t *out_link);

void tn_rates_clear(void);    /* at shutdown: what was measured is forgotten */
void tn_rates_in_child(void); /* after a fork: no other thread has the lock */

#endif
