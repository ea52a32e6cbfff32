/* Copies and fills, which change no byte. Host memory is real, because the host writes to it. */
#include "plugin.h"

#include <stdlib.h>

tenon_status_t null_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  (void)stream;
  null_enqueued(on, &null_of(on)->counts.copies, copy->ticket);
  return TENON_OK;
}

tenon_status_t null_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                         uint64_t bytes, const void *pattern, uint32_t pattern_bytes) {
  (void)stream;
  (void)to;
  (void)bytes;
  (void)pattern;
  (void)pattern_bytes;
  null_enqueued(on, &null_of(on)->counts.fills, ticket);
  return TENON_OK;
}

int32_t null_peers(tenon_on_t on, tenon_on_t from) { return on->plugin == from->plugin; }

tenon_status_t null_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data) {
  *out_data = bytes < PTRDIFF_MAX
                  ? aligned_alloc(NULL_ALIGNMENT,
                                  (bytes + NULL_ALIGNMENT) / NULL_ALIGNMENT * NULL_ALIGNMENT)
                  : NULL;
  return *out_data ? TENON_OK
                   : tenon_fail(on, TENON_MEMORY, "null: no %llu bytes of host memory",
                                (unsigned long long)bytes);
}

void null_host_free(tenon_on_t on, void *data) {
  (void)on;
  free(data);
}
