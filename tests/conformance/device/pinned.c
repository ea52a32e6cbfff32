/* Cases about pinned host memory. */
#include "groups.h"
#include <stdlib.h>
#include <string.h>

static void host_free(tenon_on_t on, void *data) {
  doing("host_free(%p)", data);
  rig.table->host_free(on, data);
}

static void usable(tenon_on_t on) {
  static const uint64_t sizes[] = {1, 3, 64, 100, 4095, 4096, 4097, 1000003};
  for (int i = 0; i < 8; i++) {
    uint8_t *data = must_pinned(on, sizes[i]);
    pattern(data, sizes[i], 5, 0);
    void *memory = filled(on, sizes[i], POISON);
    must_in(on, NULL, memory, 0, data, sizes[i]);
    must_pass(on, NULL);
    expect_holds(on, memory, 0, sizes[i], 5, 0, POISON, "copy(IN, %llu bytes) from pinned memory",
                 (unsigned long long)sizes[i]);
    memset(data, 0, sizes[i]);
    must_out(on, NULL, data, memory, 0, sizes[i]);
    must_pass(on, NULL);
    expect_pattern(data, sizes[i], 5, 0, 0, "copy(OUT, %llu bytes) to pinned memory",
                   (unsigned long long)sizes[i]);
    must_free(on, memory);
    host_free(on, data);
  }
}

/* Copies from and to odd offsets do not change the bytes around. */
static void parts(tenon_on_t on) {
  const uint64_t size = 10000;
  uint8_t *data = must_pinned(on, size);
  void *memory = filled(on, size, 8);
  for (uint64_t at = 1; at < 3000; at += 97) {
    uint64_t bytes = 1 + at * 2;
    pattern(data, size, 7, 0);
    must_out(on, NULL, data + at, memory, at, bytes);
    must_pass(on, NULL);
    expect_pattern(data, at, 7, 0, 0, "pinned memory before the target of copy(OUT, %llu bytes)",
                   (unsigned long long)bytes);
    expect_pattern(data + at, bytes, 8, at, 7,
                   "the target of copy(OUT, %llu bytes) in pinned memory",
                   (unsigned long long)bytes);
    expect_pattern(data + at + bytes, size - at - bytes, 7, at + bytes, 0,
                   "pinned memory after the target of copy(OUT, %llu bytes)",
                   (unsigned long long)bytes);
  }
  must_free(on, memory);
  host_free(on, data);
}

static void distinct(tenon_on_t on) {
  uint8_t *data[40];
  for (uint64_t i = 0; i < 40; i++) {
    data[i] = must_pinned(on, 5000);
    pattern(data[i], 5000, i, 0);
  }
  for (uint64_t i = 0; i < 40; i += 3) {
    host_free(on, data[i]);
    data[i] = NULL;
  }
  for (uint64_t i = 0; i < 40; i++) {
    if (!data[i]) continue;
    expect_pattern(
        data[i], 5000, i, 0, 0,
        "pinned memory, after other allocations were written and freed (do two overlap?)");
    host_free(on, data[i]);
  }
}

/* Copies of pinned memory do not block: it may be reused when an event after the copy is done. */
static void ring(tenon_on_t on) {
  const uint64_t bytes = 100000;
  void *stream = must_stream(on);
  void *memory[24], *events[3];
  uint8_t *slots[3];
  for (int i = 0; i < 3; i++) {
    slots[i] = must_pinned(on, bytes);
    events[i] = must_event(on);
  }
  for (int i = 0; i < 24; i++)
    memory[i] = filled(on, bytes, POISON);
  delay(on, stream, 0);
  for (int i = 0; i < 24; i++) {
    must_event_pass(on, events[i % 3]);
    pattern(slots[i % 3], bytes, (uint64_t)i, 0);
    must_in(on, stream, memory[i], 0, slots[i % 3], bytes);
    must_record(on, events[i % 3], stream);
  }
  must_pass(on, stream);
  for (int i = 0; i < 24; i++) {
    expect_holds(on, memory[i], 0, bytes, (uint64_t)i, 0, POISON,
                 "copy(IN) number %d through a ring of three pinned buffers, each reused when its "
                 "event is done (is the event early, or the copy late?)",
                 i);
    must_free(on, memory[i]);
  }
  for (int i = 0; i < 3; i++) {
    host_free(on, slots[i]);
    must_event_destroy(on, events[i]);
  }
  must_stream_destroy(on, stream);
}

static void out_ring(tenon_on_t on) {
  const uint64_t bytes = 100000;
  void *stream = must_stream(on);
  void *memory[12], *events[12];
  uint8_t *data = must_pinned(on, 12 * bytes);
  pattern(data, 12 * bytes, POISON, 0);
  for (int i = 0; i < 12; i++) {
    memory[i] = filled(on, bytes, (uint64_t)i);
    events[i] = must_event(on);
  }
  delay(on, stream, 0);
  for (uint64_t i = 0; i < 12; i++) {
    must_out(on, stream, data + i * bytes, memory[i], 0, bytes);
    must_record(on, events[i], stream);
  }
  for (uint64_t i = 0; i < 12; i++) {
    must_event_pass(on, events[i]);
    expect_pattern(data + i * bytes, bytes, i, 0, 0,
                   "pinned memory after copy(OUT) number %llu, when a later event is done (does "
                   "the event come early?)",
                   (unsigned long long)i);
  }
  for (int i = 0; i < 12; i++) {
    must_free(on, memory[i]);
    must_event_destroy(on, events[i]);
  }
  host_free(on, data);
  must_stream_destroy(on, stream);
}

static void refused(tenon_on_t on) {
  void *data = NULL;
  doing("host_allocate(2^62 bytes)");
  tenon_status_t status = rig.table->host_allocate(on, (uint64_t)1 << 62, &data);
  EXPECT(status == TENON_MEMORY, "host_allocate of 2^62 bytes: expected TENON_MEMORY, found %s: %s",
         status_name(status), said());
  host_free(on, must_pinned(on, 4096));
}

/* Pinned memory is host memory, so another ordinal can copy from it. */
static void of_other(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  uint8_t *data = must_pinned(on, 5000);
  void *memory = filled(other, 5000, POISON);
  pattern(data, 5000, 5, 0);
  must_in(other, NULL, memory, 0, data, 5000);
  must_pass(other, NULL);
  expect_holds(other, memory, 0, 5000, 5, 0, POISON,
               "copy(IN) on ordinal %d from pinned memory of ordinal %d", other->ordinal,
               on->ordinal);
  must_free(other, memory);
  host_free(on, data);
}

const case_t pinned_cases[] = {
    {"pinned.usable", "Pinned memory of many sizes is read and written by the host and by copies.",
     NEEDS_PINNED, usable},
    {"pinned.parts", "Copies to parts of pinned memory do not change the bytes around.",
     NEEDS_PINNED, parts},
    {"pinned.distinct", "40 pinned allocations do not share memory.", NEEDS_PINNED, distinct},
    {"pinned.ring", "Pinned memory may be overwritten when an event after a copy IN is done.",
     NEEDS_PINNED | NEEDS_EVENTS, ring},
    {"pinned.out_ring", "Pinned memory has the bytes of a copy OUT when an event after it is done.",
     NEEDS_PINNED | NEEDS_EVENTS, out_ring},
    {"pinned.refused",
     "A pinned allocation that is too large returns TENON_MEMORY; the next one works.",
     NEEDS_PINNED, refused},
    {"pinned.of_other", "Pinned memory of one ordinal is host memory for another.",
     NEEDS_PINNED | NEEDS_PEER, of_other},
    {0}};
