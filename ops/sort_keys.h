/* Converts every number to a 64-bit key that compares like the number, and sorts positions stably.
 * With keys, selection, sorting and searching are written once for all dtypes.
 * Invariant: equal numbers have equal keys, so -0 has the key of 0; NaN is above everything. */
#ifndef TENON_OPS_SORT_KEYS_H
#define TENON_OPS_SORT_KEYS_H

#include "dtype_scalar.h"
#include <string.h>

static inline uint64_t key_of_float(float x) {
  uint32_t u = tn_bits32(x + 0.0f);
  uint32_t key = u >> 31 ? ~u : u | 0x80000000u;
  return x != x ? UINT64_MAX : key;
}
static inline uint64_t key_of_double(double x) {
  uint64_t u = tn_bits64(x + 0.0);
  uint64_t key = u >> 63 ? ~u : u | (uint64_t)1 << 63;
  return x != x ? UINT64_MAX : key;
}
static inline uint64_t key_of_signed(int64_t x) { return (uint64_t)x + ((uint64_t)1 << 63); }
static inline uint64_t key_of_unsigned(uint64_t x) { return x; }
static inline uint64_t key_of_f16(uint16_t x) { return key_of_float(float_of_f16(x)); }
static inline uint64_t key_of_bf16(uint16_t x) { return key_of_float(float_of_bf16(x)); }

/* Computes the keys of n elements of dense memory from `first` on, `stride` apart. Returns 0 for
 * dtypes without an order. */
static inline int order_keys(tenon_dtype_t dtype, const void *data, int64_t first, int64_t stride,
                             int64_t n, uint64_t *restrict keys) {
  switch (tenon_dtype_id(dtype)) {
#define KEYS(id, type, key)                                                                        \
  case TENON_##id: {                                                                               \
    const type *x = (const type *)data + first;                                                    \
    for (int64_t i = 0; i < n; i++)                                                                \
      keys[i] = key(x[i * stride]);                                                                \
    return 1;                                                                                      \
  }
    KEYS(F32, float, key_of_float)
    KEYS(F64, double, key_of_double)
    KEYS(F16, uint16_t, key_of_f16)
    KEYS(BF16, uint16_t, key_of_bf16)
    KEYS(I8, int8_t, key_of_signed)
    KEYS(I16, int16_t, key_of_signed)
    KEYS(I32, int32_t, key_of_signed)
    KEYS(I64, int64_t, key_of_signed)
    KEYS(BOOL, uint8_t, key_of_unsigned)
    KEYS(U8, uint8_t, key_of_unsigned)
    KEYS(U16, uint16_t, key_of_unsigned)
    KEYS(U32, uint32_t, key_of_unsigned)
    KEYS(U64, uint64_t, key_of_unsigned)
#undef KEYS
  default:
    return 0;
  }
}

/* Sorts positions stably; `room` has space for as many. */
static inline void order_sort(int64_t *items, int64_t *room, int64_t n,
                              int (*less)(const void *context, int64_t a, int64_t b),
                              const void *context) {
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t begin = 0; begin < n; begin += 2 * width) {
      int64_t middle = begin + width < n ? begin + width : n;
      int64_t end = middle + width < n ? middle + width : n;
      for (int64_t i = begin, j = middle, k = begin; k < end; k++)
        room[k] = j >= end || (i < middle && !less(context, items[j], items[i])) ? items[i++]
                                                                                 : items[j++];
    }
    memcpy(items, room, (size_t)n * sizeof *items);
  }
}

#endif
