/* The groups of cases, in the order in which they run. */
#include "groups.h"

const case_t *const conformance_groups[] = {
    table_cases,   property_cases,  memory_cases,    copy_cases,   fill_cases,
    pinned_cases,  stream_cases,    event_cases,     order_cases,  callback_cases,
    peer_cases,    recording_cases, source_cases,    claim_cases,  part_cases,
    failure_cases, thread_cases,    lifecycle_cases, import_cases, NULL};
