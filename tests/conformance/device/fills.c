/* Cases about fill. Sizes and offsets are multiples of the size of the pattern. */
#include "groups.h"
#include <stdlib.h>
#include <string.h>

static const uint8_t word[8] = {0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88};

/* Fills [offset, offset + bytes) of memory that holds a pattern of `size` bytes, and checks all of
 * it. */
static void fill_and_look(tenon_on_t on, void *memory, uint64_t size, uint64_t offset,
                          uint64_t bytes, uint32_t width) {
  uint8_t *is = host_new(size);
  put(on, memory, 0, size, 7);
  must_fill(on, NULL, memory, offset, bytes, word, width);
  must_out(on, NULL, is, memory, 0, size);
  must_pass(on, NULL);
  for (uint64_t i = 0; i < bytes; i++)
    EXPECT_DATA(
        is[offset + i] == word[i % width],
        "fill(%llu bytes at offset %llu, pattern of %u): byte %llu: expected 0x%02x, found 0x%02x",
        (unsigned long long)bytes, (unsigned long long)offset, width, (unsigned long long)i,
        word[i % width], is[offset + i]);
  expect_pattern(is, offset, 7, 0, 0, "bytes before fill(%llu bytes at offset %llu, pattern of %u)",
                 (unsigned long long)bytes, (unsigned long long)offset, width);
  expect_pattern(is + offset + bytes, size - offset - bytes, 7, offset + bytes, 0,
                 "bytes after fill(%llu bytes at offset %llu, pattern of %u)",
                 (unsigned long long)bytes, (unsigned long long)offset, width);
  free(is);
}

static void lengths_of(tenon_on_t on, uint32_t width) {
  void *memory = must_allocate(on, 4096);
  for (uint64_t n = 1; n <= 100; n += 1 + n / 10)
    for (uint64_t offset = 0; offset < 5; offset++)
      fill_and_look(on, memory, 4096, offset * width, n * width, width);
  must_free(on, memory);
}
static void width_1(tenon_on_t on) { lengths_of(on, 1); }
static void width_2(tenon_on_t on) { lengths_of(on, 2); }
static void width_4(tenon_on_t on) { lengths_of(on, 4); }
static void width_8(tenon_on_t on) { lengths_of(on, 8); }

static void large(tenon_on_t on) {
  const uint64_t size = 4000024;
  void *memory = must_allocate(on, size);
  for (uint32_t width = 1; width <= 8; width *= 2)
    fill_and_look(on, memory, size, 8, size - 16, width);
  must_free(on, memory);
}

static void order(tenon_on_t on) {
  void *memory = filled(on, 50000, 5);
  void *copy = filled(on, 50000, POISON);
  void *other = filled(on, 50000, POISON);
  must_within(on, NULL, copy, 0, memory, 0, 50000);
  must_fill(on, NULL, memory, 0, 50000, word, 4);
  must_within(on, NULL, other, 0, memory, 0, 50000);
  must_pass(on, NULL);
  expect_holds(on, copy, 0, 50000, 5, 0, POISON,
               "a copy WITHIN before fill of its source (is the order kept?)");
  uint8_t *is = host_new(50000);
  must_out(on, NULL, is, other, 0, 50000);
  must_pass(on, NULL);
  for (uint64_t i = 0; i < 50000; i++)
    EXPECT_DATA(is[i] == word[i % 4],
                "a copy WITHIN after fill of its source: byte %llu: expected 0x%02x, found 0x%02x "
                "(is the order kept?)",
                (unsigned long long)i, word[i % 4], is[i]);
  must_free(on, memory);
  must_free(on, copy);
  must_free(on, other);
  free(is);
}

static void pattern_kept(tenon_on_t on) { /* the pattern is read before fill returns */
  uint8_t *is = host_new(1000);
  void *stream = must_stream(on);
  void *memory = filled(on, 1000, POISON);
  for (int round = 0; round < rig.rounds; round++) {
    uint8_t with[8];
    memset(with, 0x42, sizeof with);
    delay(on, stream, 0);
    must_fill(on, stream, memory, 0, 1000, with, 8);
    memset(with, 0x99, sizeof with);
    must_out(on, stream, is, memory, 0, 1000);
    must_pass(on, stream);
    for (int i = 0; i < 1000; i++)
      EXPECT_DATA(is[i] == 0x42,
                  "fill after other work, whose pattern was overwritten after fill had returned: "
                  "byte %d: expected 0x42, found 0x%02x",
                  i, is[i]);
  }
  must_stream_destroy(on, stream);
  must_free(on, memory);
  free(is);
}

const case_t fill_cases[] = {
    {"fills.width_1",
     "Fills with a pattern of 1 byte, of many lengths and offsets, do not change the bytes around.",
     NEEDS_FILL, width_1},
    {"fills.width_2", "The same with 2 bytes.", NEEDS_FILL, width_2},
    {"fills.width_4", "The same with 4 bytes.", NEEDS_FILL, width_4},
    {"fills.width_8", "The same with 8 bytes.", NEEDS_FILL, width_8},
    {"fills.large", "Fills of 4 MB.", NEEDS_FILL, large},
    {"fills.order", "Fills keep their order among copies of the same stream.", NEEDS_FILL, order},
    {"fills.pattern_kept", "The pattern is read before fill returns.", NEEDS_FILL | NEEDS_STREAMS,
     pattern_kept},
    {0}};
