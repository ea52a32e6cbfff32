/* The groups of cases. Each file defines one group: memory.c defines memory_cases, and so on.
 * groups.c lists them in the order in which they run. */
#ifndef TENON_CONFORMANCE_GROUPS_H
#define TENON_CONFORMANCE_GROUPS_H

#include "rig.h"

extern const case_t table_cases[], property_cases[], memory_cases[], copy_cases[], fill_cases[],
    pinned_cases[], stream_cases[], event_cases[], order_cases[], callback_cases[], peer_cases[],
    import_cases[], recording_cases[], source_cases[], claim_cases[], part_cases[], failure_cases[],
    thread_cases[], lifecycle_cases[];

#endif
