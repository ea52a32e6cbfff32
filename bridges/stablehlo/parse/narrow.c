/* Rounds numbers to floats of 8 and 16 bits, for the decimal elements of constants, and brings
 * integers below a byte into range. Called by literal.c and by the reader of bytecode. Invariant:
 * rounding is to the nearest value, and to the even one of two. */
#include <math.h>
#include <stddef.h>

#include "parse/parse.h"

typedef struct format_t { /* One format, by the code of its dtype. */
  uint8_t code;
  uint8_t bits;
  uint8_t mantissa;  /* Bits of the mantissa. */
  int16_t least;     /* The exponent of the least normal number. */
  uint16_t largest;  /* The greatest bits of a finite number. */
  uint16_t overflow; /* The bits of a greater number: infinity or NaN. */
  uint16_t nan;
  bool is_unsigned_zero; /* There is no -0. */
} format_t;

static const format_t formats[] = {
    {2, 16, 10, -14, 0x7BFF, 0x7C00, 0x7E00, false}, /* f16 */
    {4, 16, 7, -126, 0x7F7F, 0x7F80, 0x7FC0, false}, /* bf16 */
    {7, 8, 4, -2, 0x6F, 0x70, 0x78, false},          /* f8E3M4 */
    {8, 8, 3, -6, 0x77, 0x78, 0x7C, false},          /* f8E4M3 */
    {9, 8, 3, -10, 0x7F, 0x80, 0x80, true},          /* f8E4M3B11FNUZ */
    {10, 8, 3, -6, 0x7E, 0x7F, 0x7F, false},         /* f8E4M3FN */
    {11, 8, 3, -7, 0x7F, 0x80, 0x80, true},          /* f8E4M3FNUZ */
    {12, 8, 2, -14, 0x7B, 0x7C, 0x7E, false},        /* f8E5M2 */
    {13, 8, 2, -15, 0x7F, 0x80, 0x80, true},         /* f8E5M2FNUZ */
};

/* f8E8M0FNU has powers of 2 only: neither a sign nor 0. */
static uint16_t power_of_2(double value) {
  int exponent = 0;
  if (!isfinite(value) || value < 0) return 0xFF;
  double fraction = frexp(value, &exponent); /* value = fraction * 2^exponent, from 0.5 to 1 */
  exponent += 126;
  /* Halfway between two powers, the even code is the nearer one. */
  if (fraction > 0.75 || (fraction == 0.75 && exponent % 2 != 0)) exponent++;
  if (value == 0 || exponent < 0) return 0;
  return exponent > 254 ? 0xFF : (uint16_t)exponent;
}

static uint16_t round_to(const format_t *format, double value) {
  uint16_t sign = (uint16_t)(signbit(value) ? 1 << (format->bits - 1) : 0);
  int exponent = 0;
  if (isnan(value)) return format->nan;
  if (value == 0) return format->is_unsigned_zero ? 0 : sign;
  if (isinf(value)) return sign | format->overflow;
  (void)frexp(fabs(value), &exponent);
  exponent--; /* value = 1.m * 2^exponent */
  int step = (exponent > format->least ? exponent : format->least) - format->mantissa;
  double scaled = nearbyint(ldexp(fabs(value), -step));
  uint64_t above = exponent > format->least ? (uint64_t)(exponent - format->least) : 0;
  uint64_t bits = (above << format->mantissa) + (uint64_t)scaled;
  if (bits == 0 && format->is_unsigned_zero) return 0;
  return (uint16_t)(sign | (bits > format->largest ? format->overflow : bits));
}

bool hlo_narrow_float(tenon_dtype_t dtype, double value, uint16_t *out_bits) {
  if (tenon_dtype_id(dtype) == TENON_F8E8M0) {
    *out_bits = power_of_2(value);
    return true;
  }
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (formats[i].code != dtype.code || formats[i].bits != dtype.bits) continue;
    *out_bits = round_to(&formats[i], value);
    return true;
  }
  return false;
}

/* Integers are read as signed or unsigned: MLIR writes -1 of i4 as 0x0F. */
bool hlo_narrow_integers(const hlo_type_t *type, tenon_tensor_t *tensor) {
  uint8_t *bytes = tensor->data;
  if (!type->bits) return true;
  const uint8_t mask = (uint8_t)((1u << type->bits) - 1);
  const uint8_t sign = (uint8_t)(type->dtype.code == 0 ? 1u << (type->bits - 1) : 0u);
  for (int64_t i = 0; i < tenon_count(tensor); i++) {
    const uint8_t low = bytes[i] & mask;
    const uint8_t value = (uint8_t)((low ^ sign) - sign);
    if (bytes[i] != low && bytes[i] != value) return false;
    bytes[i] = value;
  }
  return true;
}
