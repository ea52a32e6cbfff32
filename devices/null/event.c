/* Events, which are always finished and have no time. */
#include "plugin.h"

tenon_status_t null_event_record(tenon_on_t on, void *event, void *stream) {
  (void)on;
  (void)event;
  (void)stream;
  return TENON_OK;
}

tenon_status_t null_event_query(tenon_on_t on, void *event) {
  (void)on;
  (void)event;
  return TENON_OK;
}

tenon_status_t null_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event) {
  (void)on;
  (void)stream;
  (void)of;
  (void)event;
  return TENON_OK;
}
