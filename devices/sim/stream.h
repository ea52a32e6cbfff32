/* Streams. */
#ifndef TENON_SIM_STREAM_H
#define TENON_SIM_STREAM_H

#include "work.h"

typedef struct sim_stream_t {
  sim_object_t object;
  struct sim_stream_t *next;
  int32_t number;
  uint32_t users; /* the host, and importers */
  uint32_t slot;
  uint64_t tick;
  sim_clock_t clock;
  sim_piece_t last;
  sim_mark_t *fresh[8]; /* waits since the last piece of work */
  uint32_t fresh_count;
  sim_work_t *first; /* the queue; its first piece of work may be running */
  sim_work_t **end;
  bool has_thread;
  bool closed;
  bool ended;
  pthread_t thread;
  pthread_cond_t came;
  uint64_t random;
  sim_failure_t failure;
  sim_captured_t *captured;
} sim_stream_t;

/* Creates a stream without a handle. */
tenon_status_t sim_stream_start(tenon_on_t on, sim_stream_t **out_stream);
tenon_status_t sim_stream_find(tenon_on_t on, void *handle, sim_stream_t **out_stream);
/* Finds the stream. Fails with the failure of the stream if it has one. */
tenon_status_t sim_stream_enter(tenon_on_t on, void *handle, sim_stream_t **out_stream);
void sim_stream_close(sim_stream_t *stream);
/* Closes all streams of the ordinal and waits until their work is finished. */
void sim_stream_stop(int32_t ordinal);
/* Records the failure of the stream if it is the first. */
void sim_stream_fail(sim_stream_t *stream, const sim_failure_t *failure);
/* Fails with this failure, and says in `fault`, which may be NULL, which work has failed. Returns
 * TENON_OK if there is no failure. */
tenon_status_t sim_failure_say(const void *on, const sim_failure_t *failure, tenon_fault_t *fault);

/* Functions of the device table */

tenon_status_t sim_stream_create(tenon_on_t on, void **out_stream);
void sim_stream_destroy(tenon_on_t on, void *stream);
tenon_status_t sim_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t sim_stream_import(tenon_on_t on, void *native, void **out_stream);

#endif
