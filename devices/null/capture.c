/* Captured graphs, which hold nothing. Work that is enqueued during a capture counts as done. */
#include "plugin.h"

tenon_status_t null_record_begin(tenon_on_t on, void *stream) {
  (void)on;
  (void)stream;
  return TENON_OK;
}

tenon_status_t null_record_end(tenon_on_t on, void *stream, void **out_recording) {
  (void)stream;
  *out_recording = null_handle(on, 1);
  return TENON_OK;
}

tenon_status_t null_replay(tenon_on_t on, void *stream, void *recording, uint64_t ticket) {
  (void)stream;
  (void)recording;
  null_enqueued(on, &null_of(on)->counts.replays, ticket);
  return TENON_OK;
}
