/* Reads and writes single elements of any dtype as numbers; see element.h. Used to fill example
 * inputs and to check operators. */
#include "core/element.h"

#include <math.h>
#include <string.h>

#include "core/convert.h"
#include "core/dtype.h"

enum {
  CODE_INT = 0,
  CODE_UINT = 1,
  CODE_COMPLEX = 5,
  CODE_BOOL = 6,
};

static uint64_t read_bits(const unsigned char *data, int64_t index, uint32_t bits) {
  uint64_t value = 0;
  for (uint32_t i = 0; i < bits; i++) {
    uint64_t at = (uint64_t)index * bits + i;
    value |= (uint64_t)(data[at >> 3] >> (at & 7) & 1) << i;
  }
  return value;
}

static void write_bits(unsigned char *data, int64_t index, uint32_t bits, uint64_t value) {
  for (uint32_t i = 0; i < bits; i++) {
    uint64_t at = (uint64_t)index * bits + i;
    unsigned char mask = (unsigned char)(1u << (at & 7));
    data[at >> 3] = (unsigned char)((data[at >> 3] & ~mask) | (value >> i & 1 ? mask : 0));
  }
}

static uint64_t clamped_integer(tenon_dtype_t dtype, double number) {
  bool is_signed = dtype.code == CODE_INT;
  double most = ldexp(1, dtype.bits - is_signed);
  double least = is_signed ? -most : 0;
  if (!(number > least)) return number == number ? (uint64_t)(int64_t)least : 0;
  if (number >= most) return is_signed ? ~(uint64_t)0 >> (65 - dtype.bits) : ~(uint64_t)0;
  return number < 0 ? (uint64_t)(int64_t)nearbyint(number) : (uint64_t)nearbyint(number);
}

void tn_element_put(tenon_dtype_t dtype, void *data, int64_t index, double number,
                    double imaginary) {
  char *at = (char *)data + index * (dtype.bits / 8);
  float single = (float)number;
  float second = (float)imaginary;
  uint64_t value = dtype.code == CODE_BOOL ? number != 0 : clamped_integer(dtype, number);
  if (dtype.code == CODE_COMPLEX && dtype.bits == 64) {
    memcpy(at, &single, 4);
    memcpy(at + 4, &second, 4);
  } else if (dtype.code == CODE_COMPLEX) {
    memcpy(at, &number, 8);
    memcpy(at + 8, &imaginary, 8);
  } else if (dtype.bits < 8)
    write_bits(data, index, dtype.bits, value);
  else if (dtype.code == CODE_INT || dtype.code == CODE_UINT || dtype.code == CODE_BOOL)
    memcpy(at, &value, dtype.bits / 8); /* low bytes first */
  else if (tn_dtype_is(dtype, TENON_F64))
    memcpy(at, &number, 8);
  else if (tn_dtype_is(dtype, TENON_F32))
    memcpy(at, &single, 4);
  else
    tn_convert(&number, tenon_dtype(TENON_F64), at, dtype, 1);
}

double tn_element_get(tenon_dtype_t dtype, const void *data, int64_t index, double *out_imaginary) {
  const char *at = (const char *)data + index * (dtype.bits / 8);
  bool is_whole = dtype.code == CODE_INT || dtype.code == CODE_UINT || dtype.code == CODE_BOOL;
  float single, second;
  double number = 0;
  double imaginary = 0;
  if (dtype.code == CODE_COMPLEX && dtype.bits == 64) {
    memcpy(&single, at, 4);
    memcpy(&second, at + 4, 4);
    number = (double)single;
    imaginary = (double)second;
  } else if (dtype.code == CODE_COMPLEX) {
    memcpy(&number, at, 8);
    memcpy(&imaginary, at + 8, 8);
  } else if (dtype.bits < 8 || is_whole) {
    uint64_t value = 0;
    if (dtype.bits < 8)
      value = read_bits((const unsigned char *)data, index, dtype.bits);
    else
      memcpy(&value, at, dtype.bits / 8);
    int unused = 64 - dtype.bits;
    number =
        dtype.code == CODE_INT ? (double)((int64_t)(value << unused) >> unused) : (double)value;
  } else if (tn_dtype_is(dtype, TENON_F64))
    memcpy(&number, at, 8);
  else if (tn_dtype_is(dtype, TENON_F32)) {
    memcpy(&single, at, 4);
    number = (double)single;
  } else
    tn_convert(at, dtype, &number, tenon_dtype(TENON_F64), 1);
  if (out_imaginary) *out_imaginary = imaginary;
  return number;
}
