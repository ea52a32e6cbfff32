/* An event refers to the newest driver event of a stream at the time of the recording, or to the
 * driver event of a marker. */
#ifndef TENON_OPENCL_EVENT_H
#define TENON_OPENCL_EVENT_H

#include "stream.h"

tenon_status_t ocl_event_create(tenon_on_t on, void **out_event);
void ocl_event_destroy(tenon_on_t on, void *event);
tenon_status_t ocl_event_record(tenon_on_t on, void *event, void *stream);
tenon_status_t ocl_event_query(tenon_on_t on, void *event);
tenon_status_t ocl_event_synchronize(tenon_on_t on, void *event);
tenon_status_t ocl_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
tenon_status_t ocl_event_time(tenon_on_t on, void *event, int64_t *out_time);
/* For tests, available as the native object "enqueue_failure": work that fails when the stream
 * reaches it. */
tenon_status_t ocl_enqueue_failure(tenon_on_t on, void *stream, uint64_t ticket);

#endif
