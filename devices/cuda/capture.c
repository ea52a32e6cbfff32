/* Captured graphs: a stream is captured into a CUDA graph, which each replay launches. */
#include "capture.h"

#include "error.h"

tenon_status_t cu_record_begin(tenon_on_t on, void *handle) {
  cu_stream_t *stream = cu_stream(on, handle);
  bool pushed;
  TENON_TRY(cu_stream_check_direct(on, stream, "another capture"));
  cu_result_t error = cu_enter(stream->device, &pushed);
  if (error) return cu_fail(on, error, "cannot capture a stream");
  pthread_mutex_lock(&stream->lock);
  if (!stream->before) error = cu.EventCreate(&stream->before, CU_EVENT_DEFAULT);
  if (!error) error = cu.EventRecord(stream->before, stream->native);
  /* RELAXED: other threads and streams are not restricted, and memory may be allocated. Everything
   * that is enqueued in this stream is ours. */
  if (!error) error = cu.StreamBeginCapture(stream->native, CU_STREAM_CAPTURE_MODE_RELAXED);
  stream->capturing = !error;
  pthread_mutex_unlock(&stream->lock);
  cu_leave(pushed);
  return error ? cu_fail(on, error, "cannot capture a stream") : TENON_OK;
}

tenon_status_t cu_record_end(tenon_on_t on, void *handle, void **out_recording) {
  cu_stream_t *stream = cu_stream(on, handle);
  cu_graph_t graph = NULL;
  cu_graph_exec_t captured = NULL;
  bool pushed;
  if (!stream->capturing)
    return tenon_fail(on, TENON_PRECONDITION, "cuda:%d: the stream is not being captured",
                      on->ordinal);
  cu_result_t error = cu_enter(stream->device, &pushed);
  if (error) return cu_fail(on, error, "cannot end a capture");
  pthread_mutex_lock(&stream->lock);
  error = cu.StreamEndCapture(stream->native, &graph);
  stream->capturing = false; /* on an error too, because then the capture is lost */
  pthread_mutex_unlock(&stream->lock);
  if (!error) error = cu.GraphInstantiate(&captured, graph, 0);
  if (graph) cu.GraphDestroy(graph);
  cu_leave(pushed);
  if (error) return cu_fail(on, error, "cannot end a capture");
  *out_recording = captured;
  return TENON_OK;
}

tenon_status_t cu_replay(tenon_on_t on, void *handle, void *recording, uint64_t ticket) {
  cu_stream_t *stream = cu_stream(on, handle);
  cu_result_t error;
  (void)ticket;
  TENON_TRY(cu_stream_check(on, stream));
  CU_IN(stream->device, error, cu.GraphLaunch((cu_graph_exec_t)recording, stream->native));
  return error ? cu_fail(on, error, "cannot replay a captured graph") : TENON_OK;
}

/* CUDA destroys a running graph only after it has finished. */
void cu_recording_free(tenon_on_t on, void *recording) {
  cu_result_t error;
  if (recording) CU_IN(cu_device(on), error, cu.GraphExecDestroy((cu_graph_exec_t)recording));
}
