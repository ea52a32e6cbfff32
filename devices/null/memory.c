/* Invented handles in place of memory. */
#include "plugin.h"

tenon_status_t null_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  if (!bytes || bytes > NULL_MEMORY)
    return tenon_fail(on, bytes ? TENON_MEMORY : TENON_INVALID,
                      "null: an allocation has 1 to 2^40 bytes, not %llu",
                      (unsigned long long)bytes);
  null_count(&null_of(on)->counts.allocations, 1);
  null_count(&null_of(on)->counts.bytes, bytes);
  *out_handle = null_handle(on, bytes);
  return TENON_OK;
}

void null_free(tenon_on_t on, void *handle) {
  (void)handle;
  null_count(&null_of(on)->counts.frees, 1);
}

tenon_status_t null_memory_left(tenon_on_t on, uint64_t *out_bytes) {
  (void)on;
  *out_bytes = NULL_MEMORY;
  return TENON_OK;
}

tenon_status_t null_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle) {
  (void)on;
  (void)bytes;
  *out_handle = native;
  return TENON_OK;
}

void null_forget(tenon_on_t on, void *handle) {
  (void)on;
  (void)handle;
}
