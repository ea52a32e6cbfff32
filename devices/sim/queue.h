/* The queue of a stream: pieces of work are appended to it, and the thread of the stream runs them
 * in order. */
#ifndef TENON_SIM_QUEUE_H
#define TENON_SIM_QUEUE_H

#include "stream.h"

/* Creates a piece of work and appends it to the stream or to its captured graph. Takes the lock
 * itself. */
tenon_status_t sim_work_enqueue(tenon_on_t on, void *stream, uint64_t ticket, const char *kind,
                                sim_work_fn function, const void *argument, uint64_t bytes,
                                uint32_t range_count, const sim_use_t *ranges, int call);
/* Takes ownership of the work. */
tenon_status_t sim_work_submit(tenon_on_t on, struct sim_stream_t *stream, sim_work_t *work);

#endif
