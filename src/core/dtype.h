/* Element types: those of DLPack plus strings and lists. One list defines names, codes and sizes. A
 * type's index in the list is its bit in a set of types. */
#ifndef TN_CORE_DTYPE_H
#define TN_CORE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

/* The name in declarations and the enumerator in op.h. Narrower floats must come before wider ones;
 * the order has no other meaning. */
/* clang-format off */
#define TN_DTYPES(X)                                                                               \
  X(bool, BOOL)                                                                                    \
  X(i2, I2) X(i4, I4) X(i8, I8) X(i16, I16) X(i32, I32) X(i64, I64)                                \
  X(u2, U2) X(u4, U4) X(u8, U8) X(u16, U16) X(u32, U32) X(u64, U64)                                \
  X(f4e2m1, F4E2M1) X(f6e2m3, F6E2M3) X(f6e3m2, F6E3M2)                                            \
  X(f8e3m4, F8E3M4) X(f8e4m3, F8E4M3) X(f8e4m3b11fnuz, F8E4M3B11FNUZ)                              \
  X(f8e4m3fn, F8E4M3FN) X(f8e4m3fnuz, F8E4M3FNUZ) X(f8e5m2, F8E5M2)                                \
  X(f8e5m2fnuz, F8E5M2FNUZ) X(f8e8m0, F8E8M0)                                                      \
  X(bf16, BF16) X(f16, F16) X(f32, F32) X(f64, F64)                                                \
  X(c64, C64) X(c128, C128)                                                                        \
  X(string, STRING) X(list, LIST)
/* clang-format on */

enum {
#define TN_X(name, NAME) TN_DTYPE_##NAME,
  TN_DTYPES(TN_X)
#undef TN_X
      TN_DTYPE_COUNT
};

/* tn_dtype_slots maps a code and a number of bits to 1 + index, or 0 for none. tn_dtype_ids gives
 * the type for 1 + index. */
extern const uint8_t tn_dtype_slots[32 * 8];
extern const uint32_t tn_dtype_ids[1 + TN_DTYPE_COUNT];

/* Index of a dtype in TN_DTYPES; -1 if contract 1 has no such dtype. */
static inline int tn_dtype_index(tenon_dtype_t dtype) {
  int slot = tn_dtype_slots[(dtype.code & 31) * 8 + __builtin_ctz(dtype.bits | 128u)];
  return tn_dtype_ids[slot] == tenon_dtype_id(dtype) ? slot - 1 : -1;
}
static inline tenon_dtype_t tn_dtype_at(int index) { return tenon_dtype(tn_dtype_ids[1 + index]); }
const char *tn_dtype_name(tenon_dtype_t dtype); /* "f32"; "?" for an unknown dtype */
/* Parses a dtype's name. No name denotes the type of lists. */
bool tn_dtype_parse(const char *text, size_t size, tenon_dtype_t *out_dtype);
/* The same for a value of a graph, which may also be a list. */
bool tn_dtype_parse_value(const char *text, size_t size, tenon_dtype_t *out_dtype);
/* The set of types for a name: one type, or a class ("any", "float", "int", "uint", "complex",
 * "number"). Returns 0 for an unknown name. */
uint64_t tn_dtype_set(const char *text, size_t size);
/* Names that tn_dtype_set knows, for suggestions: types, then classes; NULL at the end. */
const char *tn_dtype_word(int index);
void tn_dtype_set_print(uint64_t set, char *out_text, size_t capacity); /* "f16|bf16|f32" */
static inline bool tn_dtype_same(tenon_dtype_t a, tenon_dtype_t b) {
  return tenon_dtype_id(a) == tenon_dtype_id(b);
}
static inline bool tn_dtype_is(tenon_dtype_t a, uint32_t id) { return tenon_dtype_id(a) == id; }
/* Whether a tensor can have a gradient: floats of any width, and complex numbers. */
static inline bool tn_is_differentiable(tenon_dtype_t dtype) {
  return dtype.code >= 2 && dtype.code != 3 && dtype.code != 6 && dtype.code < 18;
}
/* The alignment of one number in bytes; a complex element has two numbers. */
static inline uint64_t tn_dtype_alignment(tenon_dtype_t dtype) {
  uint64_t bits = dtype.code == 5 ? dtype.bits / 2u : dtype.bits;
  return bits < 16 ? 1 : bits / 8;
}
/* Size of `count` elements in bytes; sub-byte types are packed. Returns false on overflow or for a
 * negative count. */
bool tn_dtype_bytes(tenon_dtype_t dtype, int64_t count, uint64_t *out_size);

#endif
