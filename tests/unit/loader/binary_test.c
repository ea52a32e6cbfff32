/* The reader of library files: it names the kind of a file, and survives arbitrary bytes. Files are
 * held in memory, in blocks of exactly their size, so that the address sanitizer sees every access
 * outside. The valid file is the planted library `good`. */
#include "loader/binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

typedef struct bytes_t {
  unsigned char *data;
  size_t size;
} bytes_t;

static bytes_t read_planted(const char *name) {
  char path[1024];
  bytes_t bytes = {NULL, 0};
  snprintf(path, sizeof path, TEST_LIBRARIES "/lib%s.so", name);
  FILE *file = fopen(path, "rb");
  CHECK(file);
  if (!file) return bytes;
  fseek(file, 0, SEEK_END);
  bytes.size = (size_t)ftell(file);
  rewind(file);
  bytes.data = malloc(bytes.size);
  CHECK(fread(bytes.data, 1, bytes.size, file) == bytes.size);
  fclose(file);
  return bytes;
}

static bytes_t copy_of(bytes_t from, size_t size) {
  bytes_t copy = {malloc(size ? size : 1), size};
  memcpy(copy.data, from.data, size);
  return copy;
}

/* Reads the bytes and returns the problems, which the caller frees with tn_text_clear. */
static tn_text_t offences_of(bytes_t bytes, tn_binary_t *binary) {
  tn_file_t file = {bytes.size ? bytes.data : NULL, bytes.size};
  tn_text_t offences = {0};
  tn_binary_read(&file, binary, &offences);
  tn_binary_check(binary, &offences);
  return offences;
}

static void check_offence(bytes_t bytes, const char *expected) {
  tn_binary_t binary;
  tn_text_t offences = offences_of(bytes, &binary);
  CHECK_TEXT(tn_text_get(&offences), expected);
  tn_text_clear(&offences);
}

TEST("a valid library has no problem") {
  bytes_t good = read_planted("good");
  tn_binary_t binary;
  tn_text_t offences = offences_of(good, &binary);
  CHECK(!strcmp(tn_text_get(&offences), ""));
  CHECK(!strcmp(binary.kind, "shared object"));
  CHECK(!strcmp(binary.format, "ELF, 64 bits, little-endian"));
  CHECK(binary.has_entry);
  CHECK(binary.exports.count == 0);
  CHECK(binary.initialiser_count == 0);
  CHECK(binary.pins.count == 0);
  tn_text_clear(&offences);
  free(good.data);
}

TEST("the initialisers of a library are listed") {
  tn_binary_t binary;
  bytes_t bytes = read_planted("constructor");
  tn_text_t offences = offences_of(bytes, &binary);
  tn_text_t text = {0};
  tn_binary_initialisers(&text, &binary);
  CHECK(!strcmp(tn_text_get(&text), "set_up by DT_INIT_ARRAY, set_up_more by DT_INIT_ARRAY"));
  CHECK(!strcmp(tn_text_get(&offences), ""));
  tn_text_clear(&text);
  free(bytes.data);
  bytes = read_planted("init");
  offences = offences_of(bytes, &binary);
  tn_binary_initialisers(&text, &binary);
  CHECK(!strcmp(tn_text_get(&text), "begin by DT_INIT"));
  tn_text_clear(&text);
  free(bytes.data);
  bytes = read_planted("resolver");
  offences = offences_of(bytes, &binary);
  tn_binary_initialisers(&text, &binary);
  CHECK(!strcmp(tn_text_get(&text), "1 unnamed function by GNU_IFUNC"));
  tn_text_clear(&text);
  free(bytes.data);
}

TEST("exports and needed libraries are listed") {
  tn_binary_t binary;
  bytes_t bytes = read_planted("needs_gone");
  tn_text_t offences = offences_of(bytes, &binary);
  tn_text_t text = {0};
  CHECK(!strcmp(tn_text_get(&offences), ""));
  CHECK(binary.exports.count == 1);
  CHECK(!strcmp(binary.exports.names[0], "call_gone"));
  tn_binary_names(&text, &binary.needed);
  CHECK_TEXT(tn_text_get(&text), "libplanted_gone.so.1, libplanted_gone_too.so.1");
  tn_text_clear(&text);
  free(bytes.data);
  bytes = read_planted("pinned");
  offences = offences_of(bytes, &binary);
  CHECK(binary.pins.count == 1);
  free(bytes.data);
}

TEST("a file that is not a library is reported as what it is") {
  static const struct {
    const char *bytes;
    size_t size;
    const char *expected;
  } cases[] = {
      {"", 0, "it is empty"},
      {"#!/bin/sh\necho 1\n", 17, "it starts with '#!/bin/sh'"},
      {"version https://git-lfs.github.com/spec/v1\n", 43,
       "it starts with 'version https://git-lfs.github.com/spec/'..."},
      {"\1\2\3", 3, "it starts with bytes 01 02 03"},
      {"\n", 1, "it starts with bytes 0a"},
      {"!<arch>\nfoo.o/", 14, "static archive; link its objects"},
      {"MZ\x90\0\3\0\0\0", 8, "Windows program or library"},
      {"\xcf\xfa\xed\xfe\7\0\0\1", 8, "Mach-O"},
      {"PK\3\4\n\0\0\0", 8, "zip archive"},
      {"BC\xc0\xde\x35\x14\0\0", 8, "LLVM bitcode"},
      {"\177ELF", 4, "truncated: it has 4 bytes"},
      {"\177EL", 3, "it starts with bytes 7f 45 4c"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bytes_t from = {(unsigned char *)(uintptr_t)cases[i].bytes, cases[i].size};
    bytes_t bytes = copy_of(from, from.size);
    check_offence(bytes, cases[i].expected);
    free(bytes.data);
  }
}

/* Changes one field in the header of a valid library; the offsets are those of the ELF
 * specification. */
TEST("a library of another kind or for another machine is reported as what it is") {
  static const struct {
    size_t offset;
    unsigned char value;
    const char *expected;
  } cases[] = {
      {4, 1, "a file of 32 bits, this process has 64"},
      {5, 2, "a big-endian file"},
      {16, 1, "it is an object file; link it into one"},
      {16, 2, "it is a program; build it with -shared"},
      {16, 4, "it is a core dump"},
      {18, 8, "built for mips, this process is "},
      {18, 249, "built for machine number 249, this process is "},
      {54, 55, "damaged or truncated: its table of segments"},
      {56, 0, "damaged or truncated: its table of segments"},
      {56, 255, "damaged or truncated: its table of segments"},
      {39, 255, "damaged or truncated: its table of segments"},
      {47, 1, "truncated: its parts end at byte "},
  };
  bytes_t good = read_planted("good");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bytes_t bytes = copy_of(good, good.size);
    if (cases[i].offset == 56 && cases[i].value == 255) bytes.data[57] = 255;
    bytes.data[cases[i].offset] = cases[i].value;
    check_offence(bytes, cases[i].expected);
    free(bytes.data);
  }
  free(good.data);
}

TEST("a file truncated at any byte is refused") {
  bytes_t good = read_planted("good");
  for (size_t size = 0; size < good.size; size += size < 4096 ? 1 : 7) {
    tn_binary_t binary;
    bytes_t cut = copy_of(good, size);
    tn_text_t offences = offences_of(cut, &binary);
    CHECK(offences.size > 0);
    tn_text_clear(&offences);
    free(cut.data);
  }
  free(good.data);
}

TEST("a missing entry function is explained") {
  static const char *const cases[][2] = {
      {"no_entry", "it does not export the function tenon_library: write TENON_LIBRARY"},
      {"static_entry", "build it without -DTENON_STATIC"},
      {"entry_data", "its symbol tenon_library is not a function"},
      {"links_host", "it links to libtenon.so.99: an operator library must not link to Tenon"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bytes_t bytes = read_planted(cases[i][0]);
    check_offence(bytes, cases[i][1]);
    free(bytes.data);
  }
}

static uint64_t next_random(uint64_t *state) { /* xorshift64* (Vigna 2016) */
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return *state * 0x2545F4914F6CDD1DULL;
}

/* Flips bits where the reader looks: the header, the segments, the dynamic section and its tables,
 * and the section headers. */
TEST("mutated files are read without a crash") {
  enum { ROUNDS = 2000 };
  bytes_t good = read_planted("constructor");
  uint64_t state = 20240229;
  uint64_t sections;
  memcpy(&sections, good.data + 40, sizeof sections);
  int refused = 0;
  for (int round = 0; round < ROUNDS; round++) {
    bytes_t bytes = copy_of(good, good.size);
    int flips = 1 + (int)(next_random(&state) % 8);
    for (int i = 0; i < flips; i++) {
      uint64_t kind = next_random(&state) % 4;
      uint64_t at = next_random(&state);
      uint64_t first = 0;
      uint64_t size = 64 + 11 * 56;
      if (kind == 1) {
        first = 0;
        size = 2048;
      }
      if (kind == 2) {
        first = sections;
        size = good.size - sections;
      }
      if (kind == 3) {
        /* data: dynamic section, names */
        first = good.size / 2;
        size = good.size / 2;
      }
      at = first + at % size;
      if (at < bytes.size) bytes.data[at] ^= (unsigned char)(1u << next_random(&state) % 8);
    }
    tn_binary_t binary;
    tn_text_t offences = offences_of(bytes, &binary);
    tn_text_t text = {0};
    tn_binary_initialisers(&text, &binary);
    tn_binary_names(&text, &binary.needed);
    tn_binary_names(&text, &binary.exports);
    refused += offences.size > 0;
    CHECK(!offences.failed && !text.failed);
    tn_text_clear(&text);
    tn_text_clear(&offences);
    free(bytes.data);
  }
  CHECK(refused > ROUNDS / 10 && refused < ROUNDS);
  free(good.data);
}
