/* Events. The times of all events of an ordinal are from one clock. */
#ifndef TENON_CUDA_EVENT_H
#define TENON_CUDA_EVENT_H

#include "stream.h"

tenon_status_t cu_event_create(tenon_on_t on, void **out_event);
void cu_event_destroy(tenon_on_t on, void *event);
tenon_status_t cu_event_record(tenon_on_t on, void *event, void *stream);
tenon_status_t cu_event_query(tenon_on_t on, void *event);
tenon_status_t cu_event_synchronize(tenon_on_t on, void *event);
tenon_status_t cu_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
tenon_status_t cu_event_time(tenon_on_t on, void *event, int64_t *out_time);

#endif
