/* The faulty devices: the example device (examples/08_device) with one fault. FAULT=NAME in the
 * environment selects it; without it the device is correct and takes the same path. */
#ifndef TENON_CONFORMANCE_FAULTS_H
#define TENON_CONFORMANCE_FAULTS_H

#include "../../../../examples/08_device/vx.h"

typedef struct fault_t {
  const char *name;
  void (*apply)(tenon_device_table_t *table); /* applied to a copy of the correct table */
} fault_t;

extern const fault_t copy_faults[], order_faults[], claim_faults[],
    other_faults[];                  /* each list ends with an entry without name */
extern tenon_device_table_t correct; /* the table of the example */

/* Groups of graphs, which the example device lacks; see claims.c. */
void claims_add(tenon_device_table_t *table);

#endif
