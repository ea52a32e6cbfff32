/* The wire reader.  Bytes are those of the encoding's specification
 * (protobuf.dev/programming-guides/encoding). */
#include "base/status.h"
#include "import/onnx/wire.h"

#include <tenon/op.h>

#include "check.h"

static tn_wire_t open_bytes(const void *data, size_t size) {
  return tn_wire_open(data, (tn_bytes_t){data, size});
}
#define OPEN(text) open_bytes(text, sizeof(text) - 1)

TEST("the examples of the specification are read: 150, a string, fixed-size numbers") {
  tn_field_t field;
  tn_wire_t wire = OPEN("\x08\x96\x01\x12\x07testing\x1d\x01\x02\x03\x04\x21\x01\0\0\0\0\0\0\x80");
  CHECK(tn_wire_next(&wire, &field) && field.number == 1 && field.kind == TN_WIRE_VARINT &&
        field.value == 150);
  CHECK(tn_wire_next(&wire, &field) && field.number == 2 && field.bytes.size == 7 &&
        memcmp(field.bytes.data, "testing", 7) == 0);
  CHECK(tn_wire_next(&wire, &field) && field.number == 3 && field.kind == TN_WIRE_32 &&
        field.value == 0x04030201);
  CHECK(tn_wire_next(&wire, &field) && field.number == 4 && field.value == 0x8000000000000001u);
  CHECK(!tn_wire_next(&wire, &field));
  CHECK_STATUS(tn_wire_status(&wire), TENON_OK);
}

TEST("a varint of ten bytes is -1, and one that does not fit 64 bits is refused") {
  uint64_t value = 0;
  tn_wire_t wire = OPEN("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  CHECK(tn_wire_varint(&wire, &value) && value == UINT64_MAX);
  wire = OPEN("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
  CHECK(!tn_wire_varint(&wire, &value));
  CHECK_STATUS(tn_wire_status(&wire), TENON_INVALID);
  wire = OPEN("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  CHECK(!tn_wire_varint(&wire, &value));
  CHECK_TEXT(tn_error(), "64 bits");
}

TEST("a field that is truncated anywhere is an error that says where") {
  static const char bytes[] =
      "\x08\x96\x01\x12\x07testing\x1d\x01\x02\x03\x04\x21\x01\0\0\0\0\0\0\x80";
  static const size_t ends[] = {0, 3, 12, 17, 26}; /* where a field ends */
  for (size_t size = 0; size < sizeof bytes - 1; size++) {
    tn_field_t field;
    tn_wire_t wire = open_bytes(bytes, size);
    bool whole = false;
    while (tn_wire_next(&wire, &field)) {
    }
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
      whole |= ends[i] == size;
    if (!CHECK((tn_wire_status(&wire) == TENON_OK) == whole))
      fprintf(stderr, "  of %zu bytes\n", size);
    if (!whole) CHECK_TEXT(tn_error(), "byte ");
  }
}

TEST("groups, unknown wire types, field number 0 and lengths past the end are refused") {
  static const char *const bad[] = {"\x0b", "\x0c", "\x0e", "\x0f", "\x02\x01x", "\x0a\x05xyz"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tn_field_t field;
    tn_wire_t wire = open_bytes(bad[i], strlen(bad[i]));
    CHECK(!tn_wire_next(&wire, &field));
    CHECK_STATUS(tn_wire_status(&wire), TENON_INVALID);
  }
}
