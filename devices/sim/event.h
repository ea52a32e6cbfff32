/* Events. An event refers to the mark (mark.h) that it recorded last. */
#ifndef TENON_SIM_EVENT_H
#define TENON_SIM_EVENT_H

#include "handle.h"

void sim_event_free(sim_object_t *event); /* frees an event whose handle is invalid */

/* Functions of the device table */

tenon_status_t sim_event_create(tenon_on_t on, void **out_event);
void sim_event_destroy(tenon_on_t on, void *event);
tenon_status_t sim_event_record(tenon_on_t on, void *event, void *stream);
tenon_status_t sim_event_query(tenon_on_t on, void *event);
tenon_status_t sim_event_synchronize(tenon_on_t on, void *event);
tenon_status_t sim_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
tenon_status_t sim_event_time(tenon_on_t on, void *event, int64_t *out_time);

#endif
