/* A table in front of a device's own table. It refuses one call of a kind as device.h describes:
 * with a reason, and without any change. Memory is refused twice, since the host flushes its cache
 * and asks again. Include after there.h. */
#ifndef TENON_TESTS_REFUSING_H
#define TENON_TESTS_REFUSING_H

#include "faults.h"

static struct {
  const tenon_device_table_t *own;
  tenon_device_table_t table;
} refusing;

static inline tenon_status_t refusing_ask(tenon_on_t on, fault_kind_t kind) {
  if (!fault_ask(kind)) return TENON_OK;
  return tenon_fail(on, kind == FAULT_ALLOCATE ? TENON_MEMORY : TENON_UNAVAILABLE,
                    "%s %d is refused", fault_name(kind), (int)fault_count(kind));
}

static inline tenon_status_t refusing_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  TENON_TRY(refusing_ask(on, FAULT_ALLOCATE));
  return refusing.own->allocate(on, bytes, out_handle);
}
static inline tenon_status_t refusing_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  TENON_TRY(refusing_ask(on, FAULT_COPY));
  return refusing.own->copy(on, stream, copy);
}
static inline tenon_status_t refusing_launch(tenon_on_t on, void *stream,
                                             const tenon_launch_t *launch) {
  TENON_TRY(refusing_ask(on, FAULT_LAUNCH));
  return refusing.own->launch(on, stream, launch);
}
static inline tenon_status_t refusing_stream(tenon_on_t on, void **out_stream) {
  TENON_TRY(refusing_ask(on, FAULT_STREAM));
  return refusing.own->stream_create(on, out_stream);
}
static inline tenon_status_t refusing_event(tenon_on_t on, void **out_event) {
  TENON_TRY(refusing_ask(on, FAULT_EVENT));
  return refusing.own->event_create(on, out_event);
}

/* Puts the table in front of a working device until refusing_end, which must be called before
 * shutdown. */
static inline void refusing_begin(tenon_device_t device) {
  tn_ordinal_t *o = ordinal_of(device);
  memset(&refusing, 0, sizeof refusing);
  memcpy(&refusing.table, o->table,
         o->table->size < sizeof refusing.table ? o->table->size : sizeof refusing.table);
  refusing.own = o->table;
  o->table = &refusing.table;
  refusing.table.allocate = refusing_allocate;
  refusing.table.copy = refusing_copy;
  refusing.table.launch = refusing_launch;
  refusing.table.stream_create = refusing_stream;
  refusing.table.event_create = refusing_event;
}
static inline void refusing_end(tenon_device_t device) { ordinal_of(device)->table = refusing.own; }

/* Refuses the n-th call of that kind from now on; 0: refuses none and only counts. Memory is
 * refused twice. */
static inline void refuse(fault_kind_t kind, uint64_t n) {
  fault_plan_t plan = {.kinds = n ? 1u << kind : FAULT_ALL,
                       .at = (int64_t)n,
                       .times = kind == FAULT_ALLOCATE || kind == FAULT_PIECE ? 2 : 1};
  fault_begin(&plan);
}

#endif
