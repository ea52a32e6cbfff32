/* Dtypes: indices, names, classes and sizes. The codes are DLPack's (dlpack.h 1.1); sizes follow
 * from the numbers of bits. */
#include "core/dtype.h"

#include <string.h>

#include "check.h"

TEST("each dtype of the contract has an index of its own, which leads back to the dtype") {
  uint64_t seen = 0;
  for (int i = 0; i < TN_DTYPE_COUNT; i++) {
    tenon_dtype_t dtype = tn_dtype_at(i);
    CHECK(tn_dtype_index(dtype) == i);
    CHECK(!(seen >> i & 1) && dtype.lanes == 1);
    seen |= (uint64_t)1 << i;
  }
  CHECK(tn_dtype_is(tn_dtype_at(TN_DTYPE_F32), TENON_F32) &&
        tn_dtype_is(tn_dtype_at(TN_DTYPE_BOOL), TENON_BOOL));
}

TEST("no other code, width or number of lanes has an index") {
  int found = 0;
  for (uint32_t code = 0; code < 256; code++)
    for (uint32_t bits = 0; bits < 256; bits++)
      found += tn_dtype_index(tenon_dtype(code | bits << 8 | 1u << 16)) >= 0;
  CHECK(found == TN_DTYPE_COUNT);
  for (uint32_t lanes = 0; lanes < 65536; lanes += lanes == 0 ? 2 : 1)
    if (!CHECK(tn_dtype_index(tenon_dtype(2 | 32 << 8 | lanes << 16)) == -1)) break;
  CHECK_TEXT(tn_dtype_name(tenon_dtype(0)), "?");
}

TEST("a dtype's name must match as a whole, and lists have no dtype") {
  tenon_dtype_t dtype;
  CHECK(tn_dtype_parse("f32", 3, &dtype) && tenon_dtype_id(dtype) == (2 | 32 << 8 | 1 << 16));
  CHECK(tn_dtype_parse("bf16", 4, &dtype) && tenon_dtype_id(dtype) == (4 | 16 << 8 | 1 << 16));
  CHECK(tn_dtype_parse("f8e4m3b11fnuz", 13, &dtype) && dtype.code == 9);
  CHECK(tn_dtype_parse("f4e2m1", 6, &dtype) && dtype.code == 17 && dtype.bits == 4);
  CHECK(tn_dtype_parse("bool", 4, &dtype) && dtype.code == 6 && dtype.bits == 8);
  CHECK(!tn_dtype_parse("f3", 2, &dtype) && !tn_dtype_parse("f322", 4, &dtype) &&
        !tn_dtype_parse("", 0, &dtype));
  CHECK(!tn_dtype_parse("list", 4, &dtype) && !tn_dtype_parse("f32\0", 4, &dtype) &&
        !tn_dtype_parse("F32", 3, &dtype));
}

TEST("classes of dtypes contain what the contract says") {
  char text[400];
  tn_dtype_set_print(tn_dtype_set("float", 5), text, sizeof text);
  CHECK(strcmp(text, "bf16|f16|f32|f64") == 0);
  tn_dtype_set_print(tn_dtype_set("int", 3) | tn_dtype_set("uint", 4), text, sizeof text);
  CHECK(strcmp(text, "i8|i16|i32|i64|u8|u16|u32|u64") == 0);
  tn_dtype_set_print(tn_dtype_set("complex", 7), text, sizeof text);
  CHECK(strcmp(text, "c64|c128") == 0);
  CHECK(tn_dtype_set("number", 6) ==
        (tn_dtype_set("float", 5) | tn_dtype_set("int", 3) | tn_dtype_set("uint", 4)));
  CHECK((tn_dtype_set("any", 3) >> TN_DTYPE_STRING & 1) &&
        !(tn_dtype_set("any", 3) >> TN_DTYPE_LIST & 1));
  CHECK(tn_dtype_set("u8", 2) == (uint64_t)1 << TN_DTYPE_U8 && tn_dtype_set("float32", 7) == 0);
  tn_dtype_set_print(tn_dtype_set("any", 3), text, sizeof text);
  CHECK(strcmp(text, "any") == 0);
  tn_dtype_set_print(0, text, sizeof text);
  CHECK(text[0] == 0);
}

TEST("a set of dtypes that does not fit the buffer is cut after a whole name") {
  char text[64];
  for (size_t capacity = 1; capacity < 40; capacity++) {
    memset(text, 'X', sizeof text);
    tn_dtype_set_print(tn_dtype_set("number", 6), text, capacity);
    CHECK(strlen(text) < capacity && text[capacity] == 'X');
  }
  tn_dtype_set_print(tn_dtype_set("number", 6), text, 12);
  CHECK(strcmp(text, "i8|...") == 0 || strcmp(text, "i8|i16|...") == 0);
  tn_dtype_set_print(tn_dtype_set("complex", 7), text, 9);
  CHECK(strcmp(text, "c64|c128") == 0);
}

TEST("sizes in bytes take packed dtypes into account, and overflow is reported") {
  uint64_t size = 0;
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_F32), 3, &size) && size == 12);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_I4), 3, &size) && size == 2);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_U2), 5, &size) && size == 2);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_F6E2M3), 3, &size) && size == 3);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_F6E2M3), 4, &size) && size == 3);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_C128), 0, &size) && size == 0);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_STRING), 2, &size) && size == 32);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_U8), INT64_MAX, &size) && size == INT64_MAX);
  CHECK(tn_dtype_bytes(tenon_dtype(TENON_I4), INT64_MAX, &size) && size == (uint64_t)1 << 62);
  CHECK(!tn_dtype_bytes(tenon_dtype(TENON_F32), INT64_MAX, &size) &&
        !tn_dtype_bytes(tenon_dtype(TENON_F32), -1, &size));
}
