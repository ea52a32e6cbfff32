/* Waits for streams, and callbacks when a stream has come to a point. */
#ifndef TENON_SIM_SYNCHRONIZE_H
#define TENON_SIM_SYNCHRONIZE_H

#include "queue.h"

/* Creates a mark at the end of the stream and enqueues it. The caller gets one reference, which
 * sim_mark_wait gives up. */
tenon_status_t sim_mark_push(tenon_on_t on, sim_stream_t *stream, sim_mark_t **out_mark);

/* Functions of the device table */

tenon_status_t sim_stream_synchronize(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t sim_synchronize(tenon_on_t on);
tenon_status_t sim_callback(tenon_on_t on, void *stream,
                            void (*function)(void *argument, tenon_status_t status),
                            void *argument);

#endif
