/* Streams, which are always finished. */
#include "plugin.h"

tenon_status_t null_create(tenon_on_t on, void **out_handle) { /* creates a stream or an event */
  *out_handle = null_handle(on, 1);
  return TENON_OK;
}

tenon_status_t null_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault) {
  (void)on;
  (void)stream;
  (void)fault;
  return TENON_OK;
}

tenon_status_t null_stream_import(tenon_on_t on, void *native, void **out_stream) {
  (void)on;
  *out_stream = native;
  return TENON_OK;
}

tenon_status_t null_synchronize(tenon_on_t on) {
  (void)on;
  return TENON_OK;
}

tenon_status_t null_callback(tenon_on_t on, void *stream,
                             void (*function)(void *argument, tenon_status_t status),
                             void *argument) {
  (void)on;
  (void)stream;
  function(argument, TENON_OK);
  return TENON_OK;
}
