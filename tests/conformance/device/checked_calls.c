/* Checked calls of the device table's functions: the call is noted on the board, and its result is
 * checked. */
#include "rig.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *direction_name(uint32_t direction) {
  static const char *const names[] = {"?", "IN", "OUT", "WITHIN", "PEER"};
  return names[direction <= TENON_COPY_PEER ? direction : 0];
}

void *must_allocate(tenon_on_t on, uint64_t bytes) {
  void *handle = NULL;
  doing("allocate(%llu bytes)", (unsigned long long)bytes);
  tenon_status_t status = rig.table->allocate(on, bytes, &handle);
  must(status, "allocate of %llu bytes", (unsigned long long)bytes);
  EXPECT(handle, "allocate of %llu bytes returned TENON_OK: expected a handle, found NULL",
         (unsigned long long)bytes);
  return handle;
}

void must_free(tenon_on_t on, void *handle) {
  doing("free(%p)", handle);
  rig.table->free(on, handle);
}

tenon_status_t try_copy(tenon_on_t on, void *stream, uint32_t direction, tenon_memory_t to,
                        tenon_memory_t from, uint64_t bytes, tenon_on_t peer) {
  tenon_copy_t copy = {.size = sizeof copy,
                       .direction = direction,
                       .ticket = ++rig.ticket,
                       .bytes = bytes,
                       .from = from,
                       .to = to,
                       .peer = peer};
  doing("copy(%s, %llu bytes, from offset %llu to offset %llu)", direction_name(direction),
        (unsigned long long)bytes, (unsigned long long)from.offset, (unsigned long long)to.offset);
  return rig.table->copy(on, stream, &copy);
}

static void must_copy(tenon_on_t on, void *stream, uint32_t direction, const void *to,
                      uint64_t to_offset, const void *from, uint64_t from_offset, uint64_t bytes,
                      tenon_on_t peer) {
  tenon_memory_t target = {(void *)(uintptr_t)to, to_offset};
  tenon_memory_t source = {(void *)(uintptr_t)from, from_offset};
  must(try_copy(on, stream, direction, target, source, bytes, peer), "copy(%s, %llu bytes)",
       direction_name(direction), (unsigned long long)bytes);
}

void must_in(tenon_on_t on, void *stream, void *to, uint64_t offset, const void *from,
             uint64_t bytes) {
  must_copy(on, stream, TENON_COPY_IN, to, offset, from, 0, bytes, NULL);
}
void must_out(tenon_on_t on, void *stream, void *to, const void *from, uint64_t offset,
              uint64_t bytes) {
  must_copy(on, stream, TENON_COPY_OUT, to, 0, from, offset, bytes, NULL);
}
void must_within(tenon_on_t on, void *stream, void *to, uint64_t to_offset, const void *from,
                 uint64_t from_offset, uint64_t bytes) {
  must_copy(on, stream, TENON_COPY_WITHIN, to, to_offset, from, from_offset, bytes, NULL);
}
void must_peer(tenon_on_t on, void *stream, void *to, uint64_t to_offset, tenon_on_t peer,
               const void *from, uint64_t from_offset, uint64_t bytes) {
  must_copy(on, stream, TENON_COPY_PEER, to, to_offset, from, from_offset, bytes, peer);
}

void must_fill(tenon_on_t on, void *stream, void *to, uint64_t offset, uint64_t bytes,
               const void *with, uint32_t width) {
  tenon_memory_t target = {to, offset};
  doing("fill(%llu bytes at offset %llu, pattern of %u bytes)", (unsigned long long)bytes,
        (unsigned long long)offset, width);
  must(rig.table->fill(on, stream, ++rig.ticket, target, bytes, with, width),
       "fill of %llu bytes with a pattern of %u", (unsigned long long)bytes, width);
}

void *must_pinned(tenon_on_t on, uint64_t bytes) {
  void *data = NULL;
  doing("host_allocate(%llu bytes)", (unsigned long long)bytes);
  must(rig.table->host_allocate(on, bytes, &data), "host_allocate of %llu bytes",
       (unsigned long long)bytes);
  EXPECT(data, "host_allocate of %llu bytes returned TENON_OK: expected an address, found NULL",
         (unsigned long long)bytes);
  return data;
}

void *must_stream(tenon_on_t on) {
  void *stream = NULL;
  doing("stream_create()");
  must(rig.table->stream_create(on, &stream), "stream_create");
  EXPECT(stream, "stream_create returned TENON_OK: expected a stream, found NULL, which denotes "
                 "the ordinal's default stream");
  return stream;
}

void must_stream_destroy(tenon_on_t on, void *stream) {
  doing("stream_destroy(%p)", stream);
  rig.table->stream_destroy(on, stream);
}

void must_finish(tenon_on_t on) {
  doing("synchronize()");
  must(rig.table->synchronize(on), "synchronize");
}

void must_pass(tenon_on_t on, void *stream) {
  tenon_fault_t fault = {.size = sizeof fault};
  if (!HAS(stream_synchronize)) {
    must_finish(on);
    return;
  }
  doing("stream_synchronize(%s)", stream ? "a stream" : "NULL");
  must(rig.table->stream_synchronize(on, stream, &fault), "stream_synchronize");
}

static void must_be_known(tenon_status_t status, const char *what) {
  if (status != TENON_OK && status != TENON_UNAVAILABLE)
    finding("%s: expected TENON_OK or TENON_UNAVAILABLE, found %s: %s", what, status_name(status),
            said());
}

/* No progress, because the query may be repeated endlessly. */
tenon_status_t ask_stream(tenon_on_t on, void *stream) {
  tenon_fault_t fault = {.size = sizeof fault};
  asking("stream_query()");
  tenon_status_t status = rig.table->stream_query(on, stream, &fault);
  must_be_known(status, "stream_query");
  return status;
}

void *must_event(tenon_on_t on) {
  void *event = NULL;
  doing("event_create()");
  must(rig.table->event_create(on, &event), "event_create");
  EXPECT(event, "event_create returned TENON_OK: expected an event, found NULL");
  return event;
}

void must_event_destroy(tenon_on_t on, void *event) {
  doing("event_destroy(%p)", event);
  rig.table->event_destroy(on, event);
}

void must_record(tenon_on_t on, void *event, void *stream) {
  doing("event_record()");
  must(rig.table->event_record(on, event, stream), "event_record");
}

void must_wait(tenon_on_t on, void *stream, tenon_on_t of, void *event) {
  doing("stream_wait(for an event of ordinal %d)", of->ordinal);
  must(rig.table->stream_wait(on, stream, of, event), "stream_wait for an event of ordinal %d",
       of->ordinal);
}

void must_event_pass(tenon_on_t on, void *event) {
  doing("event_synchronize()");
  must(rig.table->event_synchronize(on, event), "event_synchronize");
}

tenon_status_t ask_event(tenon_on_t on, void *event) {
  asking("event_query()");
  tenon_status_t status = rig.table->event_query(on, event);
  must_be_known(status, "event_query");
  return status;
}

void must_callback(tenon_on_t on, void *stream, void (*function)(void *, tenon_status_t),
                   void *argument) {
  doing("callback()");
  must(rig.table->callback(on, stream, function, argument), "callback");
}

void put(tenon_on_t on, void *handle, uint64_t offset, uint64_t bytes, uint64_t key) {
  void *from = host_new(bytes);
  pattern(from, bytes, key, 0);
  must_in(on, NULL, handle, offset, from, bytes);
  must_pass(on, NULL);
  free(from);
}

void *filled(tenon_on_t on, uint64_t bytes, uint64_t key) {
  void *handle = must_allocate(on, bytes);
  put(on, handle, 0, bytes, key);
  return handle;
}

void expect_holds(tenon_on_t on, const void *handle, uint64_t offset, uint64_t bytes, uint64_t key,
                  uint64_t first, uint64_t before, const char *format, ...) {
  char what[512];
  if (!bytes) return; /* a copy has at least one byte */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  uint8_t *found = host_new(bytes);
  memset(found, 0x77, bytes);
  must_out(on, NULL, found, handle, offset, bytes);
  must_pass(on, NULL);
  expect_pattern(found, bytes, key, first, before, "%s", what);
  free(found);
}

#define PLACES 8

static void *places[256][PLACES]; /* two halves of delay_bytes */
static uint64_t delay_bytes = (uint64_t)2 << 20;
static int delay_count;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void delay_of(tenon_on_t on, void *stream, void *memory, int count) {
  for (int i = 0; i < count; i++) {
    uint64_t to = i % 2 ? 0 : delay_bytes;
    must_within(on, stream, memory, to, memory, delay_bytes - to, delay_bytes);
  }
}

void delay_ready(tenon_on_t on) {
  if (rig.properties.memory && rig.properties.memory < (uint64_t)1 << 30)
    delay_bytes = rig.properties.memory / 512 & ~63u;
  for (int i = 0; i < PLACES; i++)
    if (!places[on->ordinal][i]) places[on->ordinal][i] = filled(on, 2 * delay_bytes, 1);
  if (delay_count) return;
  /* Calibrates the amount of work; no case depends on the time. */
  int64_t from = now();
  int64_t target = rig.quick ? 8000000 : 20000000;
  delay_of(on, NULL, places[on->ordinal][0], 16);
  must_pass(on, NULL);
  int64_t each = (now() - from) / 16;
  int64_t count = each > 0 ? target / each : 2000;
  if (count < 8) count = 8;
  if (count > 2000) count = 2000;
  delay_count = (int)count;
}

void delay(tenon_on_t on, void *stream, int place) {
  delay_of(on, stream, places[on->ordinal][place], delay_count);
}
