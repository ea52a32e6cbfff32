/* groups.c: the groups in the order they run. */
#include "groups.h"

const case_t *const conformance_groups[] = {table_cases, property_cases, memory_cases, copy_cases,   fill_cases,      stream_cases,
                                            event_cases,  order_cases,  callback_cases,  pinned_cases,
                                            peer_cases,   import_cases, recording_cases, failure_cases, NULL};
