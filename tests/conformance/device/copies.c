/* Cases about copies in, out and within device memory, and random programs of copies. */
#include "groups.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MiB ((uint64_t)1 << 20)

/* Copies in and out again; `guard` bytes on both sides of the target must not change. */
static void there_and_back(tenon_on_t on, void *memory, uint64_t offset, uint64_t shift,
                           uint64_t bytes) {
  const uint64_t guard = 64;
  uint8_t *from = host_new(bytes + shift);
  uint8_t *to = host_new(bytes + 2 * guard + shift);
  pattern(from + shift, bytes, 2, 0);
  memset(to, 0x55, bytes + 2 * guard + shift);
  must_in(on, NULL, memory, offset, from + shift, bytes);
  must_pass(on, NULL);
  must_out(on, NULL, to + guard + shift, memory, offset, bytes);
  must_pass(on, NULL);
  expect_pattern(to + guard + shift, bytes, 2, 0, 0,
                 "%llu bytes copied IN to offset %llu and OUT again (host addresses %% 8 = %llu)",
                 (unsigned long long)bytes, (unsigned long long)offset,
                 (unsigned long long)((uintptr_t)(from + shift) % 8));
  for (uint64_t i = 0; i < guard + shift; i++)
    EXPECT(to[i] == 0x55, "copy(OUT, %llu bytes) wrote %llu bytes before its target in host memory",
           (unsigned long long)bytes, (unsigned long long)(guard + shift - i));
  for (uint64_t i = guard + shift + bytes; i < bytes + 2 * guard + shift; i++)
    EXPECT(to[i] == 0x55, "copy(OUT, %llu bytes) wrote %llu bytes after its target in host memory",
           (unsigned long long)bytes, (unsigned long long)(i - guard - shift - bytes + 1));
  free(from);
  free(to);
}

static void each_size(tenon_on_t on) {
  void *memory = filled(on, 4096, POISON);
  for (uint64_t bytes = 1; bytes <= 200; bytes++)
    there_and_back(on, memory, 0, 0, bytes);
  must_free(on, memory);
}

static void near_powers(tenon_on_t on) {
  void *memory = filled(on, MiB + 1, POISON);
  for (uint64_t bytes = 2; bytes <= MiB; bytes *= 2)
    for (int d = -1; d <= 1; d++)
      there_and_back(on, memory, 0, 0, bytes + (uint64_t)(int64_t)d);
  must_free(on, memory);
}

static void large(tenon_on_t on) {
  uint64_t bytes = (rig.quick ? 8 : 64) * MiB + 5;
  if (rig.properties.memory && bytes > rig.properties.memory / 4)
    bytes = rig.properties.memory / 4 - 3;
  void *memory = must_allocate(on, bytes);
  there_and_back(on, memory, 0, 0, bytes);
  must_free(on, memory);
}

static void offsets(tenon_on_t on) {
  void *memory = filled(on, 8192, POISON);
  for (uint64_t offset = 0; offset < 70; offset++)
    there_and_back(on, memory, offset, 0, 1 + offset * 3);
  for (uint64_t offset = 4000; offset < 4100; offset += 3)
    there_and_back(on, memory, offset, 0, 129);
  must_free(on, memory);
}

static void host_offsets(tenon_on_t on) {
  void *memory = filled(on, 8192, POISON);
  for (uint64_t shift = 0; shift < 32; shift++)
    there_and_back(on, memory, 64, shift, 1000 + shift);
  must_free(on, memory);
}

/* A copy into the middle of memory must not change the bytes around its target. */
static void guards_of(tenon_on_t on, uint32_t direction) {
  uint8_t *host_memory = host_new(5000);
  void *memory = filled(on, 5000, 7);
  void *source = filled(on, 5000, 8);
  pattern(host_memory, 5000, 8, 0);
  static const uint64_t at[][2] = {{1, 1},     {7, 9},      {64, 64},     {100, 3},
                                   {129, 130}, {1001, 255}, {2048, 1024}, {4000, 999}};
  for (int i = 0; i < 8; i++) {
    uint64_t offset = at[i][0];
    uint64_t bytes = at[i][1];
    const char *name = direction == TENON_COPY_IN ? "IN" : "WITHIN";
    if (direction == TENON_COPY_IN)
      must_in(on, NULL, memory, offset, host_memory + offset, bytes);
    else
      must_within(on, NULL, memory, offset, source, offset, bytes);
    must_pass(on, NULL);
    expect_holds(on, memory, 0, offset, 7, 0, 0,
                 "bytes before the target of copy(%s, %llu bytes at offset %llu)", name,
                 (unsigned long long)bytes, (unsigned long long)offset);
    expect_holds(on, memory, offset, bytes, 8, offset, 7,
                 "the target of copy(%s, %llu bytes at offset %llu)", name,
                 (unsigned long long)bytes, (unsigned long long)offset);
    expect_holds(on, memory, offset + bytes, 5000 - offset - bytes, 7, offset + bytes, 0,
                 "bytes after the target of copy(%s, %llu bytes at offset %llu)", name,
                 (unsigned long long)bytes, (unsigned long long)offset);
    put(on, memory, 0, 5000, 7);
  }
  expect_holds(on, source, 0, 5000, 8, 0, 0, "the source of the copies");
  expect_pattern(host_memory, 5000, 8, 0, 0, "host memory that was copied IN");
  must_free(on, memory);
  must_free(on, source);
  free(host_memory);
}
static void in_guards(tenon_on_t on) { guards_of(on, TENON_COPY_IN); }
static void within_guards(tenon_on_t on) { guards_of(on, TENON_COPY_WITHIN); }

static void within_sizes(tenon_on_t on) {
  void *a = filled(on, 300000, 3);
  void *b = filled(on, 300000, POISON);
  for (uint64_t bytes = 1; bytes < 290000; bytes += 1 + bytes / 2) {
    must_within(on, NULL, b, bytes % 13, a, bytes % 13, bytes);
    expect_holds(on, b, bytes % 13, bytes, 3, bytes % 13, POISON,
                 "the target of copy(WITHIN, %llu bytes)", (unsigned long long)bytes);
    put(on, b, 0, 300000, POISON);
  }
  expect_holds(on, a, 0, 300000, 3, 0, 0, "the source of copies WITHIN");
  must_free(on, a);
  must_free(on, b);
}

static void within_offsets(tenon_on_t on) {
  void *a = filled(on, 4096, 3);
  void *b = must_allocate(on, 4096);
  for (uint64_t from = 0; from < 20; from++)
    for (uint64_t to = 0; to < 20; to += 3) {
      must_within(on, NULL, b, to, a, from, 1000 + from);
      expect_holds(on, b, to, 1000 + from, 3, from, 0,
                   "the target of copy(WITHIN, from offset %llu to offset %llu)",
                   (unsigned long long)from, (unsigned long long)to);
    }
  must_free(on, a);
  must_free(on, b);
}

/* Copies between ranges that overlap must behave as memmove. */
static void overlap(tenon_on_t on, int64_t distance_sign) {
  static const uint64_t distances[] = {1, 2, 3, 4, 7, 8, 9, 16, 31, 64, 100, 1000, 4096, 5000};
  static const uint64_t sizes[] = {2, 9, 64, 257, 5001, 70001};
  void *memory = must_allocate(on, 80000);
  for (int d = 0; d < 14; d++)
    for (int s = 0; s < 6; s++) {
      uint64_t bytes = sizes[s];
      uint64_t distance = distances[d];
      uint64_t low = 5;
      uint64_t high = 5 + distance;
      put(on, memory, 0, 80000, 9);
      uint64_t to = distance_sign > 0 ? high : low;
      uint64_t from = distance_sign > 0 ? low : high;
      must_within(on, NULL, memory, to, memory, from, bytes);
      expect_holds(on, memory, to, bytes, 9, from, 0,
                   "copy(WITHIN, %llu bytes) %llu bytes %s, where source and target overlap "
                   "(expected as by memmove)",
                   (unsigned long long)bytes, (unsigned long long)distance,
                   distance_sign > 0 ? "up" : "down");
      expect_holds(on, memory, 0, 5, 9, 0, 0, "bytes before an overlapping copy WITHIN");
      expect_holds(on, memory, high + bytes, 100, 9, high + bytes, 0,
                   "bytes after an overlapping copy WITHIN");
    }
  must_free(on, memory);
}
static void overlap_up(tenon_on_t on) { overlap(on, 1); }
static void overlap_down(tenon_on_t on) { overlap(on, -1); }

static void overlap_large(tenon_on_t on) {
  const uint64_t bytes = 3 * MiB;
  for (int up = 0; up < 2; up++) {
    void *memory = filled(on, bytes + 70000, 9);
    uint64_t to = up ? 65537 : 0;
    uint64_t from = 65537 - to;
    must_within(on, NULL, memory, to, memory, from, bytes);
    expect_holds(on, memory, to, bytes, 9, from, 0,
                 "copy(WITHIN) of 3 MiB by 65537 bytes %s (expected as by memmove)",
                 up ? "up" : "down");
    must_free(on, memory);
  }
}

static void onto_itself(tenon_on_t on) {
  void *memory = filled(on, 10000, 4);
  must_within(on, NULL, memory, 100, memory, 100, 5000);
  expect_holds(on, memory, 0, 10000, 4, 0, 0, "memory that was copied WITHIN onto itself");
  must_free(on, memory);
}

static void reused(tenon_on_t on) {
  const uint64_t bytes = 50000;
  uint8_t *from = host_new(bytes);
  void *memory[30];
  for (int i = 0; i < 30; i++) {
    memory[i] = filled(on, bytes, POISON);
    pattern(from, bytes, 60 + (uint64_t)i, 0);
    must_in(on, NULL, memory[i], 0, from, bytes);
    must_pass(on, NULL);
    pattern(from, bytes, 999, 0); /* the host may reuse it now */
  }
  must_finish(on);
  for (int i = 0; i < 30; i++)
    expect_holds(on, memory[i], 0, bytes, 60 + (uint64_t)i, 0, 999,
                 "copy(IN) from host memory that was overwritten after the stream had completed "
                 "the copy (was it read too late?)");
  for (int i = 0; i < 30; i++)
    must_free(on, memory[i]);
  free(from);
}

static void not_stale(tenon_on_t on) {
  const uint64_t bytes = 5000;
  uint8_t *from = host_new(bytes);
  void *memory = must_allocate(on, bytes);
  for (uint64_t i = 0; i < 50; i++) {
    pattern(from, bytes, 60 + i, 0);
    must_in(on, NULL, memory, 0, from, bytes);
    must_pass(on, NULL);
    expect_holds(on, memory, 0, bytes, 60 + i, 0, 59 + i,
                 "copy(IN) number %llu from the same host memory with new contents",
                 (unsigned long long)i);
  }
  must_free(on, memory);
  free(from);
}

static void in_late(tenon_on_t on) {
  const uint64_t bytes = MiB;
  for (int round = 0; round < rig.rounds; round++) {
    uint8_t *from = host_new(bytes);
    void *stream = must_stream(on);
    void *memory = filled(on, bytes, POISON);
    pattern(from, bytes, 70, 0);
    delay(on, stream, 0);
    must_in(on, stream, memory, 0, from, bytes);
    must_pass(on, stream);
    pattern(from, bytes, 71, 0);
    must_finish(on);
    expect_holds(on, memory, 0, bytes, 70, 0, 71,
                 "copy(IN) after other work, from host memory that was overwritten after "
                 "stream_synchronize (was it read too late?)");
    must_stream_destroy(on, stream);
    must_free(on, memory);
    free(from);
  }
}

static void in_late_event(tenon_on_t on) {
  const uint64_t bytes = MiB;
  for (int round = 0; round < rig.rounds; round++) {
    uint8_t *from = host_new(bytes);
    void *stream = must_stream(on);
    void *memory = filled(on, bytes, POISON);
    void *event = must_event(on);
    pattern(from, bytes, 70, 0);
    delay(on, stream, 0);
    must_in(on, stream, memory, 0, from, bytes);
    must_record(on, event, stream);
    must_event_pass(on, event);
    pattern(from, bytes, 71, 0);
    must_finish(on);
    expect_holds(on, memory, 0, bytes, 70, 0, 71,
                 "copy(IN) from host memory that was overwritten when an event after the copy was "
                 "done (does the event come early?)");
    must_event_destroy(on, event);
    must_stream_destroy(on, stream);
    must_free(on, memory);
    free(from);
  }
}

/* Copies OUT after a delay, waits, and reads host memory at once. */
static void out_waited(tenon_on_t on, int how, const char *by) {
  const uint64_t bytes = 200000;
  for (int round = 0; round < rig.rounds; round++) {
    uint8_t *to = host_new(bytes);
    void *stream = must_stream(on);
    void *x = filled(on, bytes, 80);
    void *y = filled(on, bytes, POISON);
    void *event = NULL;
    pattern(to, bytes, 81, 0);
    delay(on, stream, 0);
    must_within(on, stream, y, 0, x, 0, bytes);
    must_out(on, stream, to, y, 0, bytes);
    if (how == 2) {
      event = must_event(on);
      must_record(on, event, stream);
      must_event_pass(on, event);
    } else if (how == 1)
      must_finish(on);
    else
      must_pass(on, stream);
    expect_pattern(to, bytes, 80, 0, 81,
                   "host memory after copy(OUT) and %s (does it wait for the copy?)", by);
    pattern(to, bytes, 82, 0);
    must_finish(on);
    expect_pattern(
        to, bytes, 82, 0, 0,
        "host memory that was overwritten after copy(OUT) and %s (does the copy write too late?)",
        by);
    if (event) must_event_destroy(on, event);
    must_stream_destroy(on, stream);
    must_free(on, x);
    must_free(on, y);
    free(to);
  }
}
static void out_stream(tenon_on_t on) { out_waited(on, 0, "stream_synchronize"); }
static void out_all(tenon_on_t on) { out_waited(on, 1, "synchronize"); }
static void out_event(tenon_on_t on) { out_waited(on, 2, "event_synchronize"); }

/* Copies host memory that is next to unmapped pages, or read-only. */
static void mapped(tenon_on_t on) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t bytes = 3 * page;
  uint8_t *at = mmap(NULL, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED || mprotect(at + page, bytes, PROT_READ | PROT_WRITE))
    skip_case("the host cannot map pages");
  uint8_t *inside = at + page;
  void *memory = filled(on, bytes, POISON);
  for (size_t part = 1; part <= 300; part += 23) {
    pattern(inside, bytes, part, 0);
    must_in(on, NULL, memory, 0, inside + bytes - part, part); /* up to the end */
    must_in(on, NULL, memory, 4096, inside, part);             /* from the start */
    must_pass(on, NULL);
    expect_holds(on, memory, 0, part, part, bytes - part, 0,
                 "copy(IN) of the last %zu bytes of mapped host memory", part);
    memset(inside, 0, bytes);
    must_out(on, NULL, inside + bytes - part, memory, 0, part);
    must_out(on, NULL, inside, memory, 4096, part);
    must_pass(on, NULL);
    expect_pattern(inside, part, part, 0, 0,
                   "copy(OUT) to the first %zu bytes of mapped host memory", part);
    expect_pattern(inside + bytes - part, part, part, bytes - part, 0,
                   "copy(OUT) to the last %zu bytes of mapped host memory", part);
  }
  must_free(on, memory);
  munmap(at, bytes + 2 * page);
}

static void read_only(tenon_on_t on) {
  const size_t bytes = 5 * (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) skip_case("the host cannot map pages");
  pattern(at, bytes, 6, 0);
  mprotect(at, bytes, PROT_READ);
  void *memory = filled(on, bytes, POISON);
  must_in(on, NULL, memory, 0, at, bytes);
  must_pass(on, NULL);
  expect_holds(on, memory, 0, bytes, 6, 0, POISON, "copy(IN) from read-only host memory");
  must_free(on, memory);
  munmap(at, bytes);
}

static void unmapped(tenon_on_t on) {
  const size_t bytes = 20 * (size_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < 20; i++) {
    uint8_t *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) skip_case("the host cannot map pages");
    void *memory = filled(on, bytes, POISON);
    pattern(at, bytes, 6, 0);
    must_in(on, NULL, memory, 0, at, bytes);
    must_pass(on, NULL);
    munmap(at, bytes);
    expect_holds(
        on, memory, 0, bytes, 6, 0, POISON,
        "copy(IN) from host memory that was unmapped after the stream had completed the copy");
    must_free(on, memory);
  }
}

static void tiny(tenon_on_t on) {
  const int count = rig.quick ? 1000 : 8000;
  uint8_t *from = host_new((uint64_t)count * 8);
  uint8_t *to = host_new((uint64_t)count * 8);
  void *memory = filled(on, (uint64_t)count * 8, POISON);
  pattern(from, (uint64_t)count * 8, 5, 0);
  for (int i = 0; i < count; i++)
    must_in(on, NULL, memory, (uint64_t)i * 8, from + i * 8, 8);
  for (int i = 0; i < count; i++)
    must_out(on, NULL, to + i * 8, memory, (uint64_t)i * 8, 8);
  must_pass(on, NULL);
  expect_pattern(to, (uint64_t)count * 8, 5, 0, POISON, "%d copies IN of 8 bytes and as many OUT",
                 count);
  must_free(on, memory);
  free(from);
  free(to);
}

/* Runs random copies in all directions and compares with the same copies in host memory. */
static void random_program(tenon_on_t on) {
  enum {
    SIZE = 30000,
    BUFFERS = 4,
    STEPS = 400,
  };
  uint64_t state = rig.seed * 77;
  uint8_t *model[BUFFERS];
  uint8_t *is = host_new(SIZE);
  uint8_t *fresh = host_new(2 * SIZE);
  void *memory[BUFFERS];
  pattern(fresh, 2 * SIZE, 700 + state, 0);
  for (uint64_t b = 0; b < BUFFERS; b++) {
    model[b] = host_new(SIZE);
    pattern(model[b], SIZE, b, 0);
    memory[b] = filled(on, SIZE, b);
  }
  for (int i = 0; i < STEPS; i++) {
    uint64_t a = any(&state, BUFFERS);
    uint64_t b = any(&state, BUFFERS);
    uint64_t n = 1 + any(&state, SIZE / 2);
    uint64_t from = any(&state, SIZE - n);
    uint64_t to = any(&state, SIZE - n);
    uint64_t what = any(&state, 8);
    if (what < 5) {
      must_within(on, NULL, memory[b], to, memory[a], from, n);
      memmove(model[b] + to, model[a] + from, n);
    } else if (what < 7) {
      must_in(on, NULL, memory[b], to, fresh + i * 30, n);
      memcpy(model[b] + to, fresh + i * 30, n);
    } else {
      must_out(on, NULL, is, memory[a], from, n);
      must_pass(on, NULL);
      EXPECT_DATA(memcmp(is, model[a] + from, n) == 0,
                  "a random program of copies on one stream: step %d: copy(OUT, %llu bytes) "
                  "differs from the same program in host memory",
                  i, (unsigned long long)n);
    }
  }
  for (int b = 0; b < BUFFERS; b++) {
    must_out(on, NULL, is, memory[b], 0, SIZE);
    must_pass(on, NULL);
    EXPECT_DATA(memcmp(is, model[b], SIZE) == 0,
                "a random program of copies on one stream: at its end memory %d of %d differs from "
                "the same program in host memory",
                b, BUFFERS);
    must_free(on, memory[b]);
    free(model[b]);
  }
  free(is);
  free(fresh);
}

const case_t copy_cases[] = {
    {"copies.each_size",
     "1 to 200 bytes are copied IN and OUT; host memory around the target of OUT does not change.",
     0, each_size},
    {"copies.near_powers",
     "Sizes of 1, 2, 4, ... 1 MiB, one less and one more, are copied IN and OUT.", 0, near_powers},
    {"copies.large", "64 MiB and some bytes are copied IN and OUT.", 0, large},
    {"copies.offsets", "Copies to and from odd offsets of device memory.", 0, offsets},
    {"copies.host_offsets", "Copies from and to unaligned host addresses.", 0, host_offsets},
    {"copies.in_guards", "A copy IN does not change the bytes around its target, nor its source.",
     0, in_guards},
    {"copies.within_guards",
     "A copy WITHIN does not change the bytes around its target, nor its source.", 0,
     within_guards},
    {"copies.within_sizes", "Copies WITHIN of 1 byte to 290 kB.", 0, within_sizes},
    {"copies.within_offsets", "Copies WITHIN between all offsets below 20.", 0, within_offsets},
    {"copies.overlap_up",
     "Copies WITHIN whose target overlaps the end of the source behave as memmove.", 0, overlap_up},
    {"copies.overlap_down",
     "Copies WITHIN whose target overlaps the start of the source behave as memmove.", 0,
     overlap_down},
    {"copies.overlap_large", "The same with 3 MiB.", 0, overlap_large},
    {"copies.onto_itself", "A copy WITHIN whose target is its source changes nothing.", 0,
     onto_itself},
    {"copies.reused", "Host memory may be overwritten after the stream has completed a copy IN.", 0,
     reused},
    {"copies.not_stale",
     "A copy IN reads the present contents of host memory, not those of an earlier copy.", 0,
     not_stale},
    {"copies.in_late",
     "A copy IN after other work has read host memory when stream_synchronize returns.",
     NEEDS_STREAMS, in_late},
    {"copies.in_late_event", "A copy IN has read host memory when an event after it is done.",
     NEEDS_EVENTS, in_late_event},
    {"copies.out_stream",
     "Host memory has the bytes of a copy OUT when stream_synchronize returns, and is not written "
     "later.",
     NEEDS_STREAMS, out_stream},
    {"copies.out_all",
     "Host memory has the bytes of a copy OUT when synchronize returns, and is not written later.",
     NEEDS_STREAMS, out_all},
    {"copies.out_event", "Host memory has the bytes of a copy OUT when an event after it is done.",
     NEEDS_EVENTS, out_event},
    {"copies.mapped",
     "Copies touch no host memory outside their range: the pages around it are not mapped.", 0,
     mapped},
    {"copies.read_only", "A copy IN works from read-only host memory.", 0, read_only},
    {"copies.unmapped", "Host memory may be unmapped after the stream has completed a copy IN.", 0,
     unmapped},
    {"copies.tiny", "Thousands of copies of 8 bytes.", 0, tiny},
    {"copies.random", "400 random copies have the same result as in host memory.", 0,
     random_program},
    {0}};
