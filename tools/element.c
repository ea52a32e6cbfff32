/* Reads and writes elements of tensors as numbers; see element.h. Narrow floats are described by
 * rows of a table: bits of exponent and mantissa, bias, and the meaning of the highest codes. */
#include "element.h"

#include <math.h>
#include <string.h>

enum {
  CODE_INT = 0,
  CODE_UINT = 1,
  CODE_FLOAT = 2,
  CODE_BFLOAT = 4,
  CODE_COMPLEX = 5,
  CODE_BOOL = 6,
  CODE_E8M0 = 14,
};

/* Meaning of the highest codes of a narrow float. */
typedef enum top_t {
  TOP_IEEE,     /* exponent all ones: infinity or NaN */
  TOP_ONE_NAN,  /* all ones: NaN; no infinity */
  TOP_ZERO_NAN, /* minus zero: NaN; no infinity */
  TOP_FINITE,   /* every code is a finite number */
} top_t;

typedef struct format_t {
  uint32_t id;
  int exponent;
  int mantissa;
  int bias;
  top_t top;
} format_t;

static const format_t formats[] = {
    {TENON_F16, 5, 10, 15, TOP_IEEE},
    {TENON_BF16, 8, 7, 127, TOP_IEEE},
    {TENON_F8E3M4, 3, 4, 3, TOP_IEEE},
    {TENON_F8E4M3, 4, 3, 7, TOP_IEEE},
    {TENON_F8E4M3B11FNUZ, 4, 3, 11, TOP_ZERO_NAN},
    {TENON_F8E4M3FN, 4, 3, 7, TOP_ONE_NAN},
    {TENON_F8E4M3FNUZ, 4, 3, 8, TOP_ZERO_NAN},
    {TENON_F8E5M2, 5, 2, 15, TOP_IEEE},
    {TENON_F8E5M2FNUZ, 5, 2, 16, TOP_ZERO_NAN},
    {TENON_F6E2M3, 2, 3, 1, TOP_FINITE},
    {TENON_F6E3M2, 3, 2, 3, TOP_FINITE},
    {TENON_F4E2M1, 2, 1, 1, TOP_FINITE},
};

static const format_t *find_format(tenon_dtype_t dtype) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (formats[i].id == tenon_dtype_id(dtype)) return &formats[i];
  return NULL;
}

element_class_t element_class(tenon_dtype_t dtype) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_STRING:
    return ELEMENT_STRING;
  case TENON_LIST:
    return ELEMENT_LIST;
  case TENON_BOOL:
    return ELEMENT_BOOL;
  case TENON_C64:
  case TENON_C128:
    return ELEMENT_COMPLEX;
  case TENON_F32:
  case TENON_F64:
  case TENON_F8E8M0:
    return ELEMENT_FLOAT;
  default:
    if (dtype.lanes != 1 || dtype.bits == 0 || dtype.bits > 64) return ELEMENT_OTHER;
    if (dtype.code == CODE_INT) return ELEMENT_INT;
    if (dtype.code == CODE_UINT) return ELEMENT_UINT;
    return find_format(dtype) ? ELEMENT_FLOAT : ELEMENT_OTHER;
  }
}

bool element_is_dense(const tenon_tensor_t *tensor) {
  int64_t expected = 1;
  if (tenon_count(tensor) == 0) return true;
  for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
    if (tensor->shape[i] != 1 && tensor->strides && tensor->strides[i] != expected) return false;
    expected *= tensor->shape[i];
  }
  return true;
}

static unsigned char *first_byte(const tenon_tensor_t *tensor) {
  return (unsigned char *)tensor->data + tensor->byte_offset;
}

uint64_t element_bits(const tenon_tensor_t *tensor, int64_t index) {
  unsigned bits = tensor->dtype.bits;
  const unsigned char *data = first_byte(tensor);
  if (bits == 64 || bits == 32 || bits == 16 || bits == 8) {
    uint64_t value = 0;
    uint32_t word = 0;
    uint16_t half = 0;
    const unsigned char *at = data + index * (bits / 8);
    if (bits == 64)
      memcpy(&value, at, sizeof value);
    else if (bits == 32) {
      memcpy(&word, at, sizeof word);
      value = word;
    } else if (bits == 16) {
      memcpy(&half, at, sizeof half);
      value = half;
    } else
      value = *at;
    return value;
  }
  /* Packed elements, low bits first. */
  uint64_t first = (uint64_t)index * bits;
  uint64_t value = 0;
  for (unsigned i = 0; i < bits; i++)
    value |= ((uint64_t)data[(first + i) / 8] >> (first + i) % 8 & 1) << i;
  return value;
}

static void set_bits(const tenon_tensor_t *tensor, int64_t index, uint64_t value) {
  unsigned bits = tensor->dtype.bits;
  unsigned char *data = first_byte(tensor);
  if (bits == 64 || bits == 32 || bits == 16 || bits == 8) {
    uint32_t word = (uint32_t)value;
    uint16_t half = (uint16_t)value;
    unsigned char *at = data + index * (bits / 8);
    if (bits == 64)
      memcpy(at, &value, sizeof value);
    else if (bits == 32)
      memcpy(at, &word, sizeof word);
    else if (bits == 16)
      memcpy(at, &half, sizeof half);
    else
      *at = (unsigned char)value;
    return;
  }
  uint64_t first = (uint64_t)index * bits;
  for (unsigned i = 0; i < bits; i++) {
    unsigned char *byte = &data[(first + i) / 8];
    unsigned mask = 1u << ((first + i) % 8);
    *byte = (unsigned char)(value >> i & 1u ? *byte | mask : *byte & ~mask);
  }
}

static double decode_float(const format_t *format, uint64_t bits) {
  uint64_t ones = ((uint64_t)1 << format->exponent) - 1;
  uint64_t mantissa = bits & (((uint64_t)1 << format->mantissa) - 1);
  uint64_t exponent = bits >> format->mantissa & ones;
  bool negative = bits >> (format->exponent + format->mantissa) & 1;
  if (format->top == TOP_IEEE && exponent == ones) {
    if (mantissa) return (double)NAN;
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  if (format->top == TOP_ONE_NAN && exponent == ones &&
      mantissa + 1 == (uint64_t)1 << format->mantissa)
    return (double)NAN;
  if (format->top == TOP_ZERO_NAN && negative && exponent == 0 && mantissa == 0) return (double)NAN;
  if (exponent > 0)
    mantissa |= (uint64_t)1 << format->mantissa;
  else
    exponent = 1;
  double number = ldexp((double)mantissa, (int)exponent - format->bias - format->mantissa);
  return negative ? -number : number;
}

static uint64_t encode_float(const format_t *format, double number) {
  int exponent = 0;
  int least = 1 - format->bias;
  uint64_t unit = (uint64_t)1 << format->mantissa;
  uint64_t all = ((uint64_t)1 << (format->exponent + format->mantissa)) - 1;
  uint64_t largest = all;
  if (format->top == TOP_IEEE) largest = all - unit;
  if (format->top == TOP_ONE_NAN) largest = all - 1;
  frexp(fabs(number), &exponent);
  exponent = exponent - 1 < least ? least : exponent - 1;
  double scaled = nearbyint(ldexp(fabs(number), format->mantissa - exponent));
  if (!(scaled < ldexp(1, format->mantissa + 1))) {
    scaled /= 2;
    exponent++;
  }
  uint64_t bits = largest;
  if (exponent - least < 1 << format->exponent) {
    uint64_t whole = (uint64_t)scaled; /* less than `unit` only at the smallest exponent */
    bits = whole < unit
               ? whole
               : ((uint64_t)(exponent + format->bias) << format->mantissa) | (whole - unit);
    if (bits > largest) bits = largest;
  }
  return number < 0 && bits > 0 ? bits | (all + 1) : bits;
}

int64_t element_integer(const tenon_tensor_t *tensor, int64_t index) {
  uint64_t value = element_bits(tensor, index);
  unsigned bits = tensor->dtype.bits;
  if (tensor->dtype.code == CODE_INT && bits < 64 && value >> (bits - 1) & 1)
    value |= ~(uint64_t)0 << bits;
  return (int64_t)value;
}

/* Reads element `index` of an array of f32 or f64. */
static double real_at(const tenon_tensor_t *tensor, int64_t index, bool is_double) {
  double number = 0;
  float single = 0;
  if (is_double)
    memcpy(&number, first_byte(tensor) + index * 8, sizeof number);
  else
    memcpy(&single, first_byte(tensor) + index * 4, sizeof single);
  return is_double ? number : (double)single;
}

double element_number(const tenon_tensor_t *tensor, int64_t index) {
  const format_t *format;
  switch (tenon_dtype_id(tensor->dtype)) {
  case TENON_F32:
    return real_at(tensor, index, false);
  case TENON_F64:
    return real_at(tensor, index, true);
  case TENON_C64:
    return real_at(tensor, index * 2, false);
  case TENON_C128:
    return real_at(tensor, index * 2, true);
  case TENON_BOOL:
    return element_bits(tensor, index) != 0;
  case TENON_U64:
    return (double)element_bits(tensor, index);
  case TENON_F8E8M0: {
    uint64_t bits = element_bits(tensor, index);
    return bits == 255 ? (double)NAN : ldexp(1, (int)bits - 127);
  }
  default:
    format = find_format(tensor->dtype);
    return format ? decode_float(format, element_bits(tensor, index))
                  : (double)element_integer(tensor, index);
  }
}

double element_imaginary(const tenon_tensor_t *tensor, int64_t index) {
  bool is_double = tensor->dtype.bits == 128;
  return tensor->dtype.code == CODE_COMPLEX ? real_at(tensor, index * 2 + 1, is_double) : 0;
}

tenon_string_t element_string(const tenon_tensor_t *tensor, int64_t index) {
  tenon_string_t string;
  memcpy(&string, first_byte(tensor) + (size_t)index * sizeof string, sizeof string);
  return string;
}

void element_set(const tenon_tensor_t *tensor, int64_t index, double number) {
  const format_t *format = find_format(tensor->dtype);
  float single = (float)number;
  int exponent = 0;
  switch (tenon_dtype_id(tensor->dtype)) {
  case TENON_F32:
    memcpy(first_byte(tensor) + index * 4, &single, sizeof single);
    return;
  case TENON_F64:
    memcpy(first_byte(tensor) + index * 8, &number, sizeof number);
    return;
  case TENON_C64:
    memcpy(first_byte(tensor) + index * 8, &single, sizeof single);
    return;
  case TENON_C128:
    memcpy(first_byte(tensor) + index * 16, &number, sizeof number);
    return;
  case TENON_BOOL:
    set_bits(tensor, index, number != 0);
    return;
  case TENON_F8E8M0:
    frexp(fabs(number), &exponent);
    exponent += 126;
    if (exponent < 0) exponent = 0;
    if (exponent > 254) exponent = 254;
    set_bits(tensor, index, (uint64_t)exponent);
    return;
  default:
    if (format)
      set_bits(tensor, index, encode_float(format, number));
    else if (tensor->dtype.code == CODE_INT)
      set_bits(tensor, index, (uint64_t)(int64_t)number);
    else
      set_bits(tensor, index, number > 0 ? (uint64_t)number : 0);
  }
}

double element_largest(tenon_dtype_t dtype) {
  if (element_class(dtype) == ELEMENT_BOOL) return 1;
  return ldexp(1, dtype.bits - (dtype.code == CODE_INT)) - 1;
}
