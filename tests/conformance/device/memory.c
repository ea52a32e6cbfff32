/* Cases about allocate and free. */
#include "groups.h"
#include <stdlib.h>
#include <string.h>

#define KiB ((uint64_t)1 << 10)
#define MiB ((uint64_t)1 << 20)
#define GiB ((uint64_t)1 << 30)

static void alignment(tenon_on_t on) {
  static const uint64_t sizes[] = {1,   2,   3,   7,    8,    63,   64,   65,    100,
                                   255, 256, 257, 1000, 4095, 4096, 4097, 65537, 1000003};
  void *handles[54];
  for (int i = 0; i < 54; i++) {
    uint64_t bytes = sizes[i % 18];
    handles[i] = must_allocate(on, bytes);
    EXPECT((uintptr_t)handles[i] % rig.properties.alignment == 0,
           "allocate of %llu bytes returned %p: expected a multiple of properties.alignment, %u",
           (unsigned long long)bytes, handles[i], rig.properties.alignment);
  }
  for (int i = 0; i < 54; i++)
    must_free(on, handles[i]);
}

static void sizes(tenon_on_t on) {
  for (uint64_t bytes = 1; bytes <= 3 * MiB; bytes += 1 + bytes / 3) {
    void *handle = filled(on, bytes, bytes);
    expect_holds(on, handle, 0, bytes, bytes, 0, 0,
                 "an allocation of %llu bytes, written completely", (unsigned long long)bytes);
    must_free(on, handle);
  }
}

static void large(tenon_on_t on) {
  uint64_t bytes = (rig.quick ? 16 : 64) * MiB + 13;
  if (rig.properties.memory && bytes > rig.properties.memory / 4)
    bytes = rig.properties.memory / 4 - 3;
  void *handle = filled(on, bytes, 5);
  expect_holds(on, handle, 0, bytes, 5, 0, 0, "an allocation of %llu bytes, written completely",
               (unsigned long long)bytes);
  must_free(on, handle);
}

/* Makes allocations of random sizes, each with its own pattern. */
static void many(tenon_on_t on, void **handles, uint64_t *bytes, int count, uint64_t most) {
  uint64_t state = rig.seed;
  for (int i = 0; i < count; i++) {
    bytes[i] = 1 + any(&state, most);
    handles[i] = must_allocate(on, bytes[i]);
  }
  for (int i = 0; i < count; i++)
    put(on, handles[i], 0, bytes[i], 100 + (uint64_t)i);
}

static void distinct(tenon_on_t on) {
  void *handles[64];
  uint64_t bytes[64];
  many(on, handles, bytes, 64, 40000);
  for (int i = 0; i < 64; i++)
    expect_holds(on, handles[i], 0, bytes[i], 100 + (uint64_t)i, 0, 0,
                 "allocation %d of 64 that live at once, after all were written (do two overlap?)",
                 i);
  for (int i = 0; i < 64; i++)
    must_free(on, handles[i]);
}

static void distinct_handles(tenon_on_t on) {
  void *handles[200];
  for (int i = 0; i < 200; i++)
    handles[i] = must_allocate(on, 64 + (uint64_t)i * 8);
  for (int i = 0; i < 200; i++)
    for (int k = 0; k < i; k++)
      EXPECT(handles[i] != handles[k],
             "allocate returned the handle %p twice while both allocations live", handles[i]);
  for (int i = 0; i < 200; i++)
    must_free(on, handles[i]);
}

static void distinct_ranges(tenon_on_t on) {
  uintptr_t at[128];
  uint64_t bytes[128];
  uint64_t state = rig.seed;
  for (int i = 0; i < 128; i++) {
    bytes[i] = 1 + any(&state, 70000);
    at[i] = (uintptr_t)must_allocate(on, bytes[i]);
  }
  for (int i = 0; i < 128; i++)
    for (int k = 0; k < i; k++)
      EXPECT(at[i] + bytes[i] <= at[k] || at[k] + bytes[k] <= at[i],
             "two allocations overlap: %llu bytes at %p and %llu bytes at %p",
             (unsigned long long)bytes[k], (void *)at[k], (unsigned long long)bytes[i],
             (void *)at[i]);
  for (int i = 0; i < 128; i++)
    must_free(on, (void *)at[i]);
}

static void kept(tenon_on_t on) {
  void *handles[60];
  uint64_t bytes[60];
  many(on, handles, bytes, 60, 30000);
  for (int i = 0; i < 60; i += 2)
    must_free(on, handles[i]);
  for (int i = 1; i < 60; i += 2)
    expect_holds(on, handles[i], 0, bytes[i], 100 + (uint64_t)i, 0, 0,
                 "an allocation, after its neighbours were freed");
  for (int i = 0; i < 60; i += 2)
    handles[i] = filled(on, bytes[i], 300 + (uint64_t)i);
  for (int i = 1; i < 60; i += 2)
    expect_holds(on, handles[i], 0, bytes[i], 100 + (uint64_t)i, 0, 0,
                 "an allocation, after its neighbours were freed and others allocated and written");
  for (int i = 0; i < 60; i++)
    must_free(on, handles[i]);
}

static void any_order(tenon_on_t on) {
  void *handles[100];
  uint64_t bytes[100];
  uint64_t state = rig.seed + 1;
  many(on, handles, bytes, 100, 5000);
  for (int left = 100; left; left--) {
    int i = (int)any(&state, (uint64_t)left);
    must_free(on, handles[i]);
    handles[i] = handles[left - 1];
    bytes[i] = bytes[left - 1];
  }
  void *handle = filled(on, 100000, 7);
  expect_holds(on, handle, 0, 100000, 7, 0, 0,
               "an allocation, after 100 others were freed in random order");
  must_free(on, handle);
}

static void fragments(tenon_on_t on) {
  void *small[64], *big[8];
  for (int i = 0; i < 64; i++)
    small[i] = must_allocate(on, 256 * KiB);
  for (int i = 1; i < 64; i += 2)
    put(on, small[i], 0, 256 * KiB, 100 + (uint64_t)i);
  for (int i = 0; i < 64; i += 2)
    must_free(on, small[i]);
  for (int i = 0; i < 8; i++)
    big[i] = filled(on, 640 * KiB, 500 + (uint64_t)i);
  for (int i = 0; i < 8; i++)
    expect_holds(on, big[i], 0, 640 * KiB, 500 + (uint64_t)i, 0, 0,
                 "640 KiB allocated among freed pieces of 256 KiB");
  for (int i = 1; i < 64; i += 2)
    expect_holds(on, small[i], 0, 256 * KiB, 100 + (uint64_t)i, 0, 0,
                 "256 KiB that were kept while 640 KiB were allocated between them");
  for (int i = 0; i < 8; i++)
    must_free(on, big[i]);
  for (int i = 1; i < 64; i += 2)
    must_free(on, small[i]);
}

static void must_refuse(tenon_on_t on, uint64_t bytes) {
  void *handle = NULL;
  doing("allocate(%llu bytes)", (unsigned long long)bytes);
  tenon_status_t status = rig.table->allocate(on, bytes, &handle);
  EXPECT(status != TENON_OK,
         "allocate of %llu bytes gave TENON_OK, but the ordinal has %llu and its largest "
         "allocation is %llu",
         (unsigned long long)bytes, (unsigned long long)rig.properties.memory,
         (unsigned long long)rig.properties.largest);
  EXPECT(status == TENON_MEMORY,
         "allocate of %llu bytes, which is too much: expected TENON_MEMORY (8), found %s (%d): %s",
         (unsigned long long)bytes, status_name(status), status, said());
  EXPECT(strcmp(said(), "(no message by tenon_fail)") != 0,
         "allocate of %llu bytes returned TENON_MEMORY without saying why by tenon_fail",
         (unsigned long long)bytes);
}

static void too_much(tenon_on_t on) {
  uint64_t most = rig.properties.memory;
  void *kept_handle = filled(on, 5000, 3);
  if (most) {
    must_refuse(on, most + 1);
    must_refuse(on, most + 100 * GiB);
  }
  must_refuse(on, (uint64_t)1 << 60);
  void *handle = filled(on, 70000, 4);
  expect_holds(on, handle, 0, 70000, 4, 0, 0, "the allocation after one that was refused");
  expect_holds(on, kept_handle, 0, 5000, 3, 0, 0, "an allocation from before one that was refused");
  must_free(on, handle);
  must_free(on, kept_handle);
}

static void overflow(tenon_on_t on) {
  static const uint64_t sizes_of[] = {
      UINT64_MAX,        UINT64_MAX - 1,    UINT64_MAX - 62,
      UINT64_MAX - 63,   UINT64_MAX - 255,  UINT64_MAX - 256,
      UINT64_MAX - 4095, (uint64_t)1 << 63, ((uint64_t)1 << 63) - 1};
  for (size_t i = 0; i < sizeof sizes_of / sizeof *sizes_of; i++)
    must_refuse(on, sizes_of[i]);
}

static void largest(tenon_on_t on) {
  if (!rig.properties.largest) skip_case("properties.largest is 0");
  must_refuse(on, rig.properties.largest + 1);
  must_free(on, must_allocate(on, 4096));
}

static void again(tenon_on_t on) {
  for (int i = 0; i < (rig.quick ? 300 : 2000); i++)
    must_free(on, must_allocate(on, 1 + (uint64_t)i * 37 % 100000));
}

static void returned(tenon_on_t on) {
  uint64_t most = rig.properties.memory;
  uint64_t bytes = most / 4;
  if (!most) skip_case("properties.memory is 0");
  if (rig.properties.largest && rig.properties.largest < bytes) bytes = rig.properties.largest;
  for (uint64_t total = 0; total <= 3 * most; total += bytes) {
    void *handle = NULL;
    must_finish(on);
    doing("allocate(%llu bytes)", (unsigned long long)bytes);
    tenon_status_t status = rig.table->allocate(on, bytes, &handle);
    if (status == TENON_MEMORY && total == 0)
      skip_case("a quarter of properties.memory is not available");
    EXPECT(status != TENON_MEMORY,
           "memory leaks: allocate of %llu bytes fails although all that was allocated before "
           "(%llu bytes in all) is freed: %s",
           (unsigned long long)bytes, (unsigned long long)total, said());
    must(status, "allocate of %llu bytes", (unsigned long long)bytes);
    must_free(on, handle);
  }
}

static uint64_t chunk(void) { /* the amount by which a level should change */
  uint64_t part = rig.properties.memory / 16;
  return part && part < 128 * MiB ? part : 128 * MiB;
}

static uint64_t level_of(tenon_on_t on) {
  uint64_t bytes = UINT64_MAX;
  must_finish(on);
  doing("memory_free()");
  must(rig.table->memory_free(on, &bytes), "memory_free");
  return bytes;
}

static void level(tenon_on_t on) {
  for (int i = 0; i < 10; i++)
    must_free(on, must_allocate(on, MiB));
  /* Other processes may allocate and free memory: only a fall in each of three windows is a
   * leak. */
  uint64_t least = UINT64_MAX;
  int falls = 0;
  uint64_t first = level_of(on);
  uint64_t before = first;
  for (int window = 0; window < 3; window++, before = least) {
    for (int i = 0; i < 40; i++)
      must_free(on, must_allocate(on, MiB));
    least = level_of(on);
    falls += least + 20 * MiB <= before;
  }
  EXPECT(falls < 3,
         "memory leaks: memory_free returns %llu bytes less after 120 times allocate and free of 1 "
         "MiB",
         (unsigned long long)(first - least));
}

static void level_below(tenon_on_t on) {
  uint64_t is = level_of(on);
  EXPECT(!rig.properties.memory || is <= rig.properties.memory,
         "memory_free returned %llu bytes: expected at most properties.memory, %llu",
         (unsigned long long)is, (unsigned long long)rig.properties.memory);
}

static void level_falls(tenon_on_t on) {
  int falls = 0; /* other processes may free memory meanwhile */
  for (int i = 0; i < 5 && !falls; i++) {
    uint64_t before = level_of(on);
    void *handle = must_allocate(on, chunk());
    falls = level_of(on) + chunk() / 2 <= before;
    must_free(on, handle);
  }
  EXPECT_DATA(falls, "memory_free does not fall while %llu bytes more are allocated",
              (unsigned long long)chunk());
}

static void by_thread(void *argument, int index) {
  tenon_on_t on = argument;
  uint64_t state = rig.seed + (uint64_t)index * 1000;
  for (int i = 0; i < 40; i++) {
    uint64_t bytes = 1 + any(&state, 20000);
    uint64_t key = state;
    void *handle = filled(on, bytes, key);
    expect_holds(on, handle, 0, bytes, key, 0, 0,
                 "an allocation of a thread, while three others allocate and free");
    must_free(on, handle);
  }
}
static void threads(tenon_on_t on) { in_threads(4, by_thread, (void *)(uintptr_t)on); }

static void *pass_on[64];
static void free_one(void *argument, int index) {
  tenon_on_t on = argument;
  for (int i = index; i < 64; i += 4)
    must_free(on, pass_on[i]);
}
static void other_thread(tenon_on_t on) {
  for (int i = 0; i < 64; i++)
    pass_on[i] = must_allocate(on, 1000 + (uint64_t)i);
  in_threads(4, free_one, (void *)(uintptr_t)on);
  by_thread((void *)(uintptr_t)on, 9);
}

/* Frees memory while a stream still reads or writes it; the next owner of the memory writes to it
 * at once. */
static void freed_while(tenon_on_t on, int written) {
  const uint64_t bytes = 100000;
  for (int round = 0; round < rig.rounds; round++) {
    void *busy = must_stream(on);
    void *own = must_stream(on);
    void *x = filled(on, bytes, 11);
    void *y = filled(on, bytes, POISON);
    void *next[4];
    void *from = host_new(bytes);
    pattern(from, bytes, 12, 0);
    delay(on, busy, 0);
    must_within(on, busy, y, 0, x, 0, bytes);
    must_free(on, written ? y : x);
    for (int i = 0; i < 4; i++) {
      next[i] = must_allocate(on, bytes);
      must_in(on, own, next[i], 0, from, bytes);
    }
    must_pass(on, own);
    must_pass(on, busy);
    if (!written)
      expect_holds(on, y, 0, bytes, 11, 0, 12,
                   "a copy from memory that was freed while the copy was enqueued: its memory was "
                   "given away too early");
    for (int i = 0; i < 4; i++)
      expect_holds(on, next[i], 0, bytes, 12, 0, 11,
                   "a new allocation after memory was freed that a stream still used: its memory "
                   "was given away too early");
    for (int i = 0; i < 4; i++)
      must_free(on, next[i]);
    must_free(on, written ? x : y);
    must_stream_destroy(on, busy);
    must_stream_destroy(on, own);
    free(from);
  }
}
static void freed_while_read(tenon_on_t on) { freed_while(on, 0); }
static void freed_while_written(tenon_on_t on) { freed_while(on, 1); }

static void freed_null(tenon_on_t on) {
  const uint64_t bytes = 300000;
  for (int round = 0; round < 20; round++) {
    void *x = filled(on, bytes, 21);
    void *y = filled(on, bytes, POISON);
    must_within(on, NULL, y, 0, x, 0, bytes);
    must_free(on, x);
    x = filled(on, bytes, 22);
    expect_holds(on, y, 0, bytes, 21, 0, 22,
                 "a copy on the stream NULL, whose source was freed after it was enqueued");
    must_free(on, x);
    must_free(on, y);
  }
}

static void parts(tenon_on_t on) {
  const uint64_t part = 10000 + 64;
  void *memory = filled(on, 16 * part, POISON);
  void *streams[16];
  void *from = host_new(part);
  pattern(from, part, 31, 0);
  for (int i = 0; i < 16; i++) {
    streams[i] = must_stream(on);
    must_in(on, streams[i], memory, (uint64_t)i * part, from, part);
  }
  must_finish(on);
  for (int i = 0; i < 16; i++)
    expect_holds(on, memory, (uint64_t)i * part, part, 31, 0, 0,
                 "part %d of an allocation, each part written by its own stream", i);
  for (int i = 0; i < 16; i++)
    must_stream_destroy(on, streams[i]);
  must_free(on, memory);
  free(from);
}

static void beyond_4_gib(tenon_on_t on) {
  const uint64_t bytes = 4 * GiB + MiB;
  const uint64_t n = 3000;
  if (rig.properties.memory < bytes + 256 * MiB)
    skip_case("properties.memory is less than 4.25 GiB");
  if (rig.properties.largest && rig.properties.largest < bytes)
    skip_case("properties.largest is less than 4 GiB");
  void *memory = NULL;
  tenon_status_t status = rig.table->allocate(on, bytes, &memory);
  if (status == TENON_MEMORY) skip_case("4 GiB are not available");
  must(status, "allocate of 4 GiB + 1 MiB");
  /* Each offset above 4 GiB has a counterpart with the same low 32 bits, which is written first. */
  static const uint64_t at[] = {10000,          20000,           4 * GiB - 5000,
                                4 * GiB - 1000, 4 * GiB + 10000, 4 * GiB + MiB - 3000};
  for (uint64_t i = 0; i < 6; i++)
    put(on, memory, at[i], n, 40 + i);
  must_within(on, NULL, memory, 4 * GiB + 20000, memory, 4 * GiB + 10000, n);
  for (uint64_t i = 0; i < 6; i++)
    expect_holds(
        on, memory, at[i], n, 40 + i, 0, 0,
        "bytes from offset %llu of an allocation of more than 4 GiB (are offsets cut to 32 bits?)",
        (unsigned long long)at[i]);
  expect_holds(on, memory, 4 * GiB + 20000, n, 44, 0, 0,
               "the target of a copy WITHIN above 4 GiB (are offsets cut to 32 bits?)");
  must_free(on, memory);
}

static void of_ordinal(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  void *a[16], *b[16];
  for (int i = 0; i < 16; i++) {
    a[i] = filled(on, 50000, 50 + (uint64_t)i);
    b[i] = filled(other, 50000, 80 + (uint64_t)i);
  }
  for (int i = 0; i < 16; i++) {
    expect_holds(on, a[i], 0, 50000, 50 + (uint64_t)i, 0, 80 + (uint64_t)i,
                 "memory of ordinal %d, after memory of ordinal %d was written", on->ordinal,
                 other->ordinal);
    expect_holds(other, b[i], 0, 50000, 80 + (uint64_t)i, 0, 50 + (uint64_t)i,
                 "memory of ordinal %d, after memory of ordinal %d was written", other->ordinal,
                 on->ordinal);
  }
  for (int i = 0; i < 16; i++) {
    must_free(on, a[i]);
    must_free(other, b[i]);
  }
}

static void level_of_ordinal(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  int mine = 0;
  for (int i = 0; i < 5 && !mine; i++) {
    uint64_t before = level_of(on);
    uint64_t others = level_of(other);
    void *handle = must_allocate(on, chunk());
    mine = level_of(on) + chunk() / 2 <= before && level_of(other) + chunk() / 2 > others;
    must_free(on, handle);
  }
  EXPECT_DATA(mine,
              "much memory was allocated on ordinal %d: expected its memory_free to fall, and that "
              "of ordinal %d not to (wrong ordinal?)",
              on->ordinal, other->ordinal);
}

const case_t memory_cases[] = {
    {"memory.alignment", "Handles that are addresses are multiples of properties.alignment.",
     NEEDS_ADDRESSES, alignment},
    {"memory.sizes", "Allocations of 1 byte to 3 MiB can be written and read completely.", 0,
     sizes},
    {"memory.large", "An allocation of 64 MiB and some bytes can be written and read completely.",
     0, large},
    {"memory.distinct", "64 allocations that live at once do not share memory.", 0, distinct},
    {"memory.distinct_handles", "200 allocations that live at once have distinct handles.", 0,
     distinct_handles},
    {"memory.distinct_ranges", "Address ranges of allocations that live at once do not overlap.",
     NEEDS_ADDRESSES, distinct_ranges},
    {"memory.kept", "Contents are kept while other allocations are freed and created.", 0, kept},
    {"memory.any_order", "Allocations can be freed in any order.", 0, any_order},
    {"memory.fragments",
     "Allocations fit into holes that freed ones left, and keep their contents.", 0, fragments},
    {"memory.too_much",
     "An allocation that is too large returns TENON_MEMORY with a reason; the next one works.", 0,
     too_much},
    {"memory.overflow", "Sizes near 2^64 return TENON_MEMORY, whatever is added to them.", 0,
     overflow},
    {"memory.largest", "An allocation larger than properties.largest returns TENON_MEMORY.", 0,
     largest},
    {"memory.again", "Allocating and freeing thousands of times works.", 0, again},
    {"memory.returned",
     "Freed memory can be allocated again: three times all memory passes through.", 0, returned},
    {"memory.level", "memory_free returns to its level after all allocations are freed.",
     NEEDS_LEVEL, level},
    {"memory.level_below", "memory_free is at most properties.memory.", NEEDS_LEVEL, level_below},
    {"memory.level_falls", "memory_free falls while much is allocated.", NEEDS_LEVEL, level_falls},
    {"memory.level_of_ordinal", "memory_free counts the memory of its own ordinal.",
     NEEDS_LEVEL | NEEDS_PEER, level_of_ordinal},
    {"memory.threads", "Four threads allocate, write, read and free at once.", 0, threads},
    {"memory.other_thread", "Memory is freed by other threads than the one that allocated it.", 0,
     other_thread},
    {"memory.freed_while_read",
     "Memory that is freed while a stream still reads it is not reused before.", NEEDS_STREAMS,
     freed_while_read},
    {"memory.freed_while_written",
     "Memory that is freed while a stream still writes to it is not reused before.", NEEDS_STREAMS,
     freed_while_written},
    {"memory.freed_behind_work",
     "Memory that is freed after a copy on the stream NULL is read by the copy first.", 0,
     freed_null},
    {"memory.parts", "Parts of one allocation are written by 16 streams at once.", NEEDS_STREAMS,
     parts},
    {"memory.beyond_4_gib", "Offsets beyond 4 GiB are not cut to 32 bits.", 0, beyond_4_gib},
    {"memory.of_ordinal", "Memory of two ordinals is separate.", NEEDS_PEER, of_ordinal},
    {0}};
