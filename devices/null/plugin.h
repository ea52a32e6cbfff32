/* Declarations that the files of the null device share. */
#ifndef TENON_NULL_PLUGIN_H
#define TENON_NULL_PLUGIN_H

#include "null.h"

enum {
  NULL_ORDINALS = 2,
  NULL_ALIGNMENT = 64,
};
#define NULL_MEMORY ((uint64_t)1 << 40) /* bytes that each ordinal reports; nothing is allocated */

typedef struct null_ordinal_t {
  null_counts_t counts;
  _Atomic uintptr_t next; /* the next handle */
} null_ordinal_t;

extern null_ordinal_t null_ordinals[NULL_ORDINALS];

static inline void null_count(_Atomic uint64_t *what, uint64_t by) {
  atomic_fetch_add_explicit(what, by, memory_order_relaxed);
}
static inline null_ordinal_t *null_of(tenon_on_t on) { return on->state; }
/* Returns a distinct, aligned handle that is not an address. */
static inline void *null_handle(tenon_on_t on, uint64_t bytes) {
  return (void *)atomic_fetch_add_explicit(
      &null_of(on)->next, (bytes + NULL_ALIGNMENT - 1) & ~(uint64_t)(NULL_ALIGNMENT - 1),
      memory_order_relaxed);
}
static inline void null_enqueued(tenon_on_t on, _Atomic uint64_t *what, uint64_t ticket) {
  null_count(what, 1);
  atomic_store_explicit(&null_of(on)->counts.ticket, ticket, memory_order_relaxed);
}

/* Functions of the device table */

tenon_status_t null_allocate(tenon_on_t on, uint64_t bytes, void **out_handle);
void null_free(tenon_on_t on, void *handle);
tenon_status_t null_memory_left(tenon_on_t on, uint64_t *out_bytes);
tenon_status_t null_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
void null_forget(tenon_on_t on, void *handle);
tenon_status_t null_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy);
tenon_status_t null_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                         uint64_t bytes, const void *pattern, uint32_t pattern_bytes);
int32_t null_peers(tenon_on_t on, tenon_on_t from);
tenon_status_t null_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data);
void null_host_free(tenon_on_t on, void *data);
tenon_status_t null_create(tenon_on_t on, void **out_handle);
tenon_status_t null_stream_query(tenon_on_t on, void *stream, tenon_fault_t *fault);
tenon_status_t null_stream_import(tenon_on_t on, void *native, void **out_stream);
tenon_status_t null_synchronize(tenon_on_t on);
tenon_status_t null_callback(tenon_on_t on, void *stream,
                             void (*function)(void *argument, tenon_status_t status),
                             void *argument);
tenon_status_t null_event_record(tenon_on_t on, void *event, void *stream);
tenon_status_t null_event_query(tenon_on_t on, void *event);
tenon_status_t null_stream_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event);
tenon_status_t null_compile(tenon_on_t on, const tenon_source_t *source, tenon_sink_t *out_code);
tenon_status_t null_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                                 void **out_program);
tenon_status_t null_kernel_find(tenon_on_t on, void *program, const char *name, void **out_kernel);
tenon_status_t null_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch);
tenon_status_t null_record_begin(tenon_on_t on, void *stream);
tenon_status_t null_record_end(tenon_on_t on, void *stream, void **out_recording);
tenon_status_t null_replay(tenon_on_t on, void *stream, void *recording, uint64_t ticket);

#endif
