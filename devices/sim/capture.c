/* Recordings: pieces of work that a stream collects instead of doing them. Each replay appends
 * copies of them to a stream. */
#include "capture.h"

#include <stdlib.h>

#include "queue.h"

tenon_status_t sim_record_begin(tenon_on_t on, void *handle) {
  sim_stream_t *stream;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_stream_enter(on, handle, &stream);
  if (!status && stream->captured)
    status =
        tenon_fail(on, TENON_PRECONDITION, "sim: stream %d of ordinal %d captures work already",
                   stream->number, on->ordinal);
  if (status) return sim_leave(status);
  sim_captured_t *captured = calloc(1, sizeof *captured);
  if (!captured)
    return sim_leave(tenon_fail(on, TENON_MEMORY, "sim: no host memory for a captured graph"));
  captured->end = &captured->first;
  stream->captured = captured;
  return sim_leave(TENON_OK);
}

tenon_status_t sim_record_end(tenon_on_t on, void *handle, void **out_recording) {
  sim_stream_t *stream;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_stream_find(on, handle, &stream);
  if (!status && !stream->captured)
    status =
        tenon_fail(on, TENON_PRECONDITION, "sim: stream %d of ordinal %d does not capture work",
                   stream->number, on->ordinal);
  if (!status) status = sim_handle_create(on, SIM_CAPTURED, &stream->captured->object);
  if (status) return sim_leave(status);
  *out_recording = stream->captured->object.handle;
  stream->captured = NULL;
  return sim_leave(TENON_OK);
}

tenon_status_t sim_replay(tenon_on_t on, void *handle, void *recording_handle, uint64_t ticket) {
  sim_stream_t *stream;
  sim_captured_t *captured;
  sim_work_t *first = NULL;
  sim_work_t **end = &first;
  TENON_TRY(sim_enter(on));
  tenon_status_t status = sim_handle_find(on, SIM_CAPTURED, recording_handle, &captured);
  if (!status) status = sim_stream_enter(on, handle, &stream);
  for (const sim_work_t *work = status ? NULL : captured->first; work && !status;
       work = work->next) {
    if ((status = sim_work_copy(on, work, ticket, end))) break;
    if ((*end)->callback && !stream->captured)
      status = sim_mark_create(on, &stream->clock, &stream->last, &(*end)->reach);
    end = &(*end)->next;
  }
  while (first && !status) {
    sim_work_t *work = first;
    first = work->next;
    work->next = NULL;
    status = sim_work_submit(on, stream, work);
  }
  sim_works_free(first);
  return sim_leave(status);
}

void sim_recording_end(tenon_on_t on, void *handle) {
  sim_lock();
  sim_captured_t *captured = handle ? sim_handle_end(on, SIM_CAPTURED, handle) : NULL;
  if (captured) sim_captured_free(captured);
  sim_unlock();
}
