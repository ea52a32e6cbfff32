/* The faulty devices: the example device (examples/08_device) with one thing broken.  FAULT=NAME in
 * the environment says which; without it the device is the correct one, by the same way. */
#ifndef TENON_CONFORMANCE_FAULTS_H
#define TENON_CONFORMANCE_FAULTS_H

#include "../../../../examples/08_device/vx.h"

typedef struct fault_t {
  const char *name;
  void (*apply)(tenon_device_table_t *table); /* which is a copy of the correct one */
} fault_t;

extern const fault_t copy_faults[], order_faults[], claim_faults[],
    other_faults[];                  /* up to one without name */
extern tenon_device_table_t correct; /* the table of the example */

/* Groups of graphs, which the example does not have: claims.c. */
void claims_add(tenon_device_table_t *table);

#endif
