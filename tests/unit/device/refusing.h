/* A table before a device's own, of which one call of a kind is refused as device.h says: with a reason, and nothing
 * changed.  Memory is refused twice, since the host flushes its cache and asks again.  Include after there.h. */
#ifndef TENON_TESTS_REFUSING_H
#define TENON_TESTS_REFUSING_H

enum { REFUSE_ALLOCATE, REFUSE_COPY, REFUSE_LAUNCH, REFUSE_STREAM, REFUSE_EVENT, REFUSE_KINDS };
static const char *const refusing_names[REFUSE_KINDS] = {"allocation", "copy", "launch", "stream", "event"};

static struct {
  const tenon_device_table_t *own;
  tenon_device_table_t table;
  uint64_t calls[REFUSE_KINDS]; /* so far */
  int kind;
  uint64_t at; /* of that kind, from 1; 0: none */
} refusing;

static inline tenon_status_t refusing_ask(tenon_on_t on, int kind) {
  uint64_t call = ++refusing.calls[kind], last = refusing.at + (kind == REFUSE_ALLOCATE);
  if (!refusing.at || kind != refusing.kind || call < refusing.at || call > last) return TENON_OK;
  return tenon_fail(on, kind == REFUSE_ALLOCATE ? TENON_MEMORY : TENON_UNAVAILABLE, "%s %d is refused",
                    refusing_names[kind], (int)call);
}

static inline tenon_status_t refusing_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  TENON_TRY(refusing_ask(on, REFUSE_ALLOCATE));
  return refusing.own->allocate(on, bytes, out_handle);
}
static inline tenon_status_t refusing_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy) {
  TENON_TRY(refusing_ask(on, REFUSE_COPY));
  return refusing.own->copy(on, stream, copy);
}
static inline tenon_status_t refusing_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch) {
  TENON_TRY(refusing_ask(on, REFUSE_LAUNCH));
  return refusing.own->launch(on, stream, launch);
}
static inline tenon_status_t refusing_stream(tenon_on_t on, void **out_stream) {
  TENON_TRY(refusing_ask(on, REFUSE_STREAM));
  return refusing.own->stream_create(on, out_stream);
}
static inline tenon_status_t refusing_event(tenon_on_t on, void **out_event) {
  TENON_TRY(refusing_ask(on, REFUSE_EVENT));
  return refusing.own->event_create(on, out_event);
}

/* Stands before the table of a device that works until refusing_end, which comes before its shutdown. */
static inline void refusing_begin(tenon_device_t device) {
  tn_ordinal_t *o = ordinal_of(device);
  memset(&refusing, 0, sizeof refusing);
  memcpy(&refusing.table, o->table, o->table->size < sizeof refusing.table ? o->table->size : sizeof refusing.table);
  refusing.own = o->table, o->table = &refusing.table;
  refusing.table.allocate = refusing_allocate, refusing.table.copy = refusing_copy;
  refusing.table.launch = refusing_launch;
  refusing.table.stream_create = refusing_stream, refusing.table.event_create = refusing_event;
}
static inline void refusing_end(tenon_device_t device) { ordinal_of(device)->table = refusing.own; }

/* The n-th call of that kind from now on; 0: none. */
static inline void refuse(int kind, uint64_t n) {
  memset(refusing.calls, 0, sizeof refusing.calls);
  refusing.kind = kind, refusing.at = n;
}

#endif
