/* Lowers element-wise operations: most by a text, the others by functions here. Operands that were
 * broadcast before are used without their copies, because core operators broadcast by themselves.
 */
#include <stdio.h>
#include <string.h>

#include "lower/arguments.h"
#include "lower/expression.h"
#include "lower/lower.h"
#include "lower/math.h"
#include "lower/narrow.h"
#include "lower/quantised.h"

/* texts */

/* Lists the edges of the operands. An operand that was broadcast is replaced by what it was before
 * if another operand has all extents. */
static size_t operand_edges(hlo_lower_t *lower, tenon_edge_t *edges) {
  size_t count = 0;
  bool has_full = false;
  for (int32_t i = 0; i < lower->op->operand_count; i++) {
    const hlo_bound_t *bound = hlo_operand(lower, i);
    has_full |= bound->narrow == EDGE_NONE &&
                lower->op->operands[i]->type->ndim == hlo_result_type(lower, 0)->ndim;
  }
  for (int32_t i = 0; i < lower->op->operand_count && count < 6; i++) {
    const hlo_bound_t *bound = hlo_operand(lower, i);
    edges[count++] = has_full && bound->narrow != EDGE_NONE ? bound->narrow : bound->edge;
    if (bound->imaginary != EDGE_NONE) edges[count++] = bound->imaginary;
    if (bound->edge == EDGE_NONE) hlo_wrong(lower, "operand %d is not a tensor", (int)i);
    if (!has_full && bound->imaginary == EDGE_NONE) has_full = true;
  }
  return count;
}

void hlo_lower_text(hlo_lower_t *lower) {
  tenon_edge_t edges[8];
  tenon_edge_t imaginary = EDGE_NONE;
  const hlo_row_t *row = lower->row;
  const char *text = row->text;
  bool is_complex = false;
  if (lower->op->operand_count != hlo_text_operands(row->text)) {
    hlo_wrong(lower, "expected %d operands, found %d", (int)hlo_text_operands(row->text),
              (int)lower->op->operand_count);
    return;
  }
  for (int32_t i = 0; i < lower->op->operand_count; i++)
    is_complex |= hlo_operand(lower, i)->imaginary != EDGE_NONE;
  if (is_complex) {
    text = row->complex_text;
    if (!text) hlo_missing(lower, "operands that are complex");
  } else if (row->bool_text && hlo_is_bool(hlo_operand_type(lower, 0)->dtype)) {
    text = row->bool_text;
  }
  size_t count = operand_edges(lower, edges);
  if (is_complex && count < 2 * (size_t)lower->op->operand_count)
    hlo_missing(lower, "operands of which only one is complex");
  if (hlo_stopped(lower)) return;
  tenon_edge_t real = hlo_run_text(lower, edges, count, text, &imaginary);
  hlo_give_bound(lower, 0, hlo_complex(real, imaginary));
}

/* integers and bits */

tenon_dtype_t hlo_integers_like(tenon_dtype_t dtype, bool is_signed) {
  return (tenon_dtype_t){.code = is_signed ? 0 : 1, .bits = dtype.bits, .lanes = 1};
}

/* Returns the bits of an operand as integers with or without a sign. */
static tenon_edge_t operand_bits(hlo_lower_t *lower, int32_t index, bool is_signed) {
  const hlo_type_t *type = hlo_operand_type(lower, index);
  tenon_edge_t bits = hlo_run(lower, EDGES(hlo_edge(lower, index)), "bit_cast(a, to=%s)",
                              tenon_dtype_name(hlo_integers_like(type->dtype, is_signed)));
  return hlo_narrow(lower, bits, type->bits, is_signed);
}

/* Shifts. The core operators fill with the sign if the dtype has one, and give 0 for shifts by the
 * width or more. */
static void lower_shift_logical(hlo_lower_t *lower) {
  tenon_dtype_t dtype = hlo_operand_type(lower, 0)->dtype;
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(operand_bits(lower, 0, false), operand_bits(lower, 1, false)),
                   "bit_cast(shift_right(a, b), to=%s)", tenon_dtype_name(dtype)));
}

static void lower_shift_arithmetic(hlo_lower_t *lower) {
  tenon_dtype_t dtype = hlo_operand_type(lower, 0)->dtype;
  const char *bits = tenon_dtype_name(hlo_integers_like(dtype, true));
  int most = dtype.bits - 1;
  /* A shift by the width or more is a shift by one bit less. */
  hlo_give(lower, 0,
           hlo_run(lower, EDGES(operand_bits(lower, 0, true), operand_bits(lower, 1, false)),
                   "bit_cast(shift_right(a, bit_cast(min(b, %d:b), to=%s)), to=%s)", most, bits,
                   tenon_dtype_name(dtype)));
}

/* Counts the bits that are 1, by sums of ever wider groups. `x` is unsigned. */
static tenon_edge_t count_bits(hlo_lower_t *lower, tenon_edge_t x) {
  tenon_dtype_t dtype = hlo_dtype(lower, x);
  uint64_t all = dtype.bits == 64 ? UINT64_MAX : (UINT64_C(1) << dtype.bits) - 1;
  for (int width = 1; width < dtype.bits; width *= 2) {
    uint64_t mask = all / ((UINT64_C(1) << width) + 1);
    /* A mask of 64 bits has too many digits for a number of a text. */
    tenon_tensor_t *tensor = NULL;
    if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_tensor_create(dtype, 0, NULL, &tensor)))
      return EDGE_NONE;
    memcpy(tensor->data, &mask, dtype.bits / 8);
    tenon_edge_t kept = hlo_tensor(lower, tensor);
    x = hlo_run(lower, EDGES(x, kept),
                "add(bitwise_and(a, b), bitwise_and(shift_right(a, %d:a), b))", width);
  }
  return x;
}

static void lower_popcnt(hlo_lower_t *lower) {
  tenon_dtype_t dtype = hlo_operand_type(lower, 0)->dtype;
  tenon_edge_t x = count_bits(lower, operand_bits(lower, 0, false));
  hlo_give(lower, 0, hlo_run(lower, EDGES(x), "bit_cast(a, to=%s)", tenon_dtype_name(dtype)));
}

/* Sets all bits below the highest one, and counts the others. */
static void lower_leading_zeros(hlo_lower_t *lower) {
  tenon_dtype_t dtype = hlo_operand_type(lower, 0)->dtype;
  int bits = hlo_operand_type(lower, 0)->bits;
  tenon_edge_t x = operand_bits(lower, 0, false);
  for (int width = 1; width < dtype.bits; width *= 2)
    x = hlo_run(lower, EDGES(x), "bitwise_or(a, shift_right(a, %d:a))", width);
  x = count_bits(lower, hlo_run(lower, EDGES(x), "bitwise_not(a)"));
  if (bits) x = hlo_run(lower, EDGES(x), "sub(a, %d:a)", 8 - bits);
  hlo_give(lower, 0, hlo_run(lower, EDGES(x), "bit_cast(a, to=%s)", tenon_dtype_name(dtype)));
}

/* comparison */

tenon_edge_t hlo_total_order(hlo_lower_t *lower, tenon_edge_t x) {
  tenon_dtype_t dtype = hlo_dtype(lower, x);
  if (!hlo_is_float(dtype) || hlo_stopped(lower)) return x;
  tenon_dtype_t integers = hlo_integers_like(dtype, true);
  tenon_edge_t bits = hlo_run(lower, EDGES(x), "bit_cast(a, to=%s)", tenon_dtype_name(integers));
  /* Negative floats grow downwards: all bits but the sign are inverted. */
  tenon_edge_t flipped = hlo_run(
      lower, EDGES(bits), "bitwise_not(bitwise_xor(a, shift_left(1:a, %d:a)))", dtype.bits - 1);
  return hlo_run(lower, EDGES(bits, flipped), "where(less(a, 0:a), b, a)");
}

tenon_edge_t hlo_compare(hlo_lower_t *lower, const char *direction, tenon_edge_t a,
                         tenon_edge_t b) {
  static const struct {
    const char *direction;
    const char *text;
    const char *bool_text;
  } texts[] = {
      {"EQ", "equal(a, b)", "equal(a, b)"},      {"NE", "not_equal(a, b)", "not_equal(a, b)"},
      {"LT", "less(a, b)", "and(not(a), b)"},    {"LE", "less_equal(a, b)", "or(not(a), b)"},
      {"GT", "greater(a, b)", "and(a, not(b))"}, {"GE", "greater_equal(a, b)", "or(a, not(b))"},
  };
  if (hlo_stopped(lower)) return EDGE_NONE;
  bool is_bool = hlo_is_bool(hlo_dtype(lower, a));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strcmp(texts[i].direction, direction) == 0)
      return hlo_run_text(lower, EDGES(a, b), is_bool ? texts[i].bool_text : texts[i].text, NULL);
  hlo_wrong(lower, "expected a direction EQ, NE, LT, LE, GT or GE, found %.30s", direction);
  return EDGE_NONE;
}

static void lower_compare(hlo_lower_t *lower) {
  tenon_edge_t edges[8] = {EDGE_NONE};
  const char *direction = hlo_attr_word(lower, "word0", "comparison_direction", "");
  const char *kind = hlo_attr_word(lower, "word1", "compare_type", "");
  if (lower->op->operand_count != 2) hlo_wrong(lower, "expected 2 operands");
  if (hlo_stopped(lower)) return;
  size_t count = operand_edges(lower, edges);
  if (count == 4) {
    bool is_equal = strcmp(direction, "EQ") == 0;
    if (!is_equal && strcmp(direction, "NE") != 0)
      hlo_wrong(lower, "complex numbers have no order");
    tenon_edge_t real = hlo_compare(lower, direction, edges[0], edges[2]);
    tenon_edge_t imaginary = hlo_compare(lower, direction, edges[1], edges[3]);
    hlo_give(lower, 0, hlo_run(lower, EDGES(real, imaginary), is_equal ? "and(a, b)" : "or(a, b)"));
    return;
  }
  if (count != 2) hlo_wrong(lower, "the operands have different element types");
  if (strcmp(kind, "TOTALORDER") == 0) {
    edges[0] = hlo_total_order(lower, edges[0]);
    edges[1] = hlo_total_order(lower, edges[1]);
  }
  hlo_give(lower, 0, hlo_compare(lower, direction, edges[0], edges[1]));
}

/* conversion */

/* A constant that is converted remains a constant if it has integers. */
static void lower_convert(hlo_lower_t *lower) {
  const hlo_bound_t *bound = hlo_operand(lower, 0);
  const hlo_type_t *type = hlo_result_type(lower, 0);
  if (hlo_stopped(lower) || type->kind != HLO_TENSOR) return;
  tenon_dtype_t dtype = hlo_part_dtype(type->dtype);
  tenon_edge_t real = hlo_cast(lower, bound->edge, dtype);
  tenon_edge_t imaginary = EDGE_NONE;
  if (hlo_is_complex(type))
    imaginary = bound->imaginary == EDGE_NONE ? hlo_run(lower, EDGES(real), "expand(0:a, shape(a))")
                                              : hlo_cast(lower, bound->imaginary, dtype);
  hlo_bound_t made = hlo_complex(real, imaginary);
  if (bound->narrow != EDGE_NONE && imaginary == EDGE_NONE)
    made.narrow = hlo_cast(lower, bound->narrow, dtype);
  /* Fewer bits might not hold the numbers. */
  if (dtype.code <= 1 && dtype.bits >= 32 && bound->constant &&
      bound->constant->tensor->dtype.code <= 1)
    made.constant = bound->constant;
  hlo_give_bound(lower, 0, made);
}

/* The bits of one element: bools have a byte each, but are one bit. */
static int element_bits(tenon_dtype_t dtype) { return hlo_is_bool(dtype) ? 1 : dtype.bits; }

/* Takes wider elements apart into a new last axis, the lowest bits first. */
static tenon_edge_t split_bits(hlo_lower_t *lower, tenon_edge_t x, tenon_dtype_t from,
                               tenon_dtype_t to) {
  int bits = element_bits(to);
  const char *wide = tenon_dtype_name(hlo_integers_like(from, false));
  const char *narrow = tenon_dtype_name(hlo_is_bool(to) ? to : hlo_integers_like(to, false));
  x = hlo_run(lower, EDGES(x), "bit_cast(a, to=%s)", wide);
  tenon_edge_t shifts = hlo_run(lower, EDGES(hlo_iota(lower, from.bits / bits, 0, 1)),
                                "cast(mul(a, %d:a), to=%s)", bits, wide);
  tenon_edge_t mask = hlo_run(lower, NULL, 0, "%llu:%s", (1ULL << bits) - 1, wide);
  return hlo_run(lower, EDGES(x, shifts, mask),
                 "cast(bitwise_and(shift_right(unsqueeze(a, [-1]), b), c), to=%s)", narrow);
}

/* Puts the elements of the last axis together. */
static tenon_edge_t join_bits(hlo_lower_t *lower, tenon_edge_t x, tenon_dtype_t from,
                              tenon_dtype_t to) {
  int bits = element_bits(from);
  const char *wide = tenon_dtype_name(hlo_integers_like(to, false));
  if (!hlo_is_bool(from))
    x = hlo_run(lower, EDGES(x), "bit_cast(a, to=%s)",
                tenon_dtype_name(hlo_integers_like(from, false)));
  tenon_edge_t shifts = hlo_run(lower, EDGES(hlo_iota(lower, to.bits / bits, 0, 1)),
                                "cast(mul(a, %d:a), to=%s)", bits, wide);
  return hlo_run(lower, EDGES(x, shifts),
                 "reduce_sum(shift_left(cast(a, to=%s), b), [-1], keepdims=False)", wide);
}

/* One of the two elements of the last axis. */
static tenon_edge_t half_of_pairs(hlo_lower_t *lower, tenon_edge_t pairs, int index) {
  return hlo_run(lower, EDGES(pairs), "squeeze(slice(a, [%d], [%d], [-1]), [-1])", index,
                 index + 1);
}

/* A complex number is its real part, then its imaginary part. */
static void bitcast_complex(hlo_lower_t *lower, tenon_dtype_t from, tenon_dtype_t to) {
  const hlo_bound_t *x = hlo_operand(lower, 0);
  tenon_dtype_t part = hlo_part_dtype(to);
  if (!hlo_stopped(lower) && x->imaginary == EDGE_NONE)
    hlo_wrong(lower, "expected complex numbers");
  if (hlo_stopped(lower)) return;
  if (from.bits == to.bits) {
    hlo_give_bound(lower, 0, hlo_complex(x->edge, x->imaginary));
    return;
  }
  tenon_edge_t pairs = hlo_run(lower, EDGES(x->edge, x->imaginary),
                               "concat([unsqueeze(a, [-1]), unsqueeze(b, [-1])], axis=-1)");
  bool is_split = from.bits > to.bits;
  pairs = is_split ? split_bits(lower, pairs, hlo_part_dtype(from), part)
                   : join_bits(lower, pairs, hlo_part_dtype(from), part);
  pairs = hlo_run(lower, EDGES(pairs), "bit_cast(a, to=%s)", tenon_dtype_name(part));
  hlo_give_bound(lower, 0,
                 hlo_complex(half_of_pairs(lower, pairs, 0), half_of_pairs(lower, pairs, 1)));
}

/* Parts of wider elements become a new last axis, or the last axis becomes wider elements. The
 * parts are taken from the integer with the same bits, the lowest first. */
static void lower_bitcast(hlo_lower_t *lower) {
  tenon_dtype_t to = hlo_result_type(lower, 0)->dtype;
  tenon_dtype_t from = hlo_operand_type(lower, 0)->dtype;
  if (hlo_is_complex(hlo_result_type(lower, 0)) && hlo_is_complex(hlo_operand_type(lower, 0))) {
    bitcast_complex(lower, from, to);
    return;
  }
  tenon_edge_t x = hlo_edge(lower, 0);
  if (hlo_is_complex(hlo_result_type(lower, 0))) hlo_missing(lower, "a result that is complex");
  if (hlo_stopped(lower)) return;
  int difference = element_bits(from) - element_bits(to);
  if (hlo_operand_type(lower, 0)->bits != hlo_result_type(lower, 0)->bits)
    hlo_missing(lower, "elements of fewer than 8 bits and those of another width");
  if (lower->elements && difference) hlo_missing(lower, "another width of elements in a region");
  if (difference > 0)
    x = split_bits(lower, x, from, to);
  else if (difference < 0)
    x = join_bits(lower, x, from, to);
  if (!hlo_is_bool(to)) x = hlo_run(lower, EDGES(x), "bit_cast(a, to=%s)", tenon_dtype_name(to));
  hlo_give(lower, 0, x);
}

/* complex numbers */

static void lower_complex(hlo_lower_t *lower) {
  tenon_edge_t real = hlo_edge(lower, 0);
  hlo_give_bound(lower, 0, hlo_complex(real, hlo_edge(lower, 1)));
}

static void lower_real(hlo_lower_t *lower) { hlo_give(lower, 0, hlo_operand(lower, 0)->edge); }

static void lower_imaginary(hlo_lower_t *lower) {
  const hlo_bound_t *bound = hlo_operand(lower, 0);
  hlo_give(lower, 0,
           bound->imaginary != EDGE_NONE
               ? bound->imaginary
               : hlo_run(lower, EDGES(bound->edge), "expand(0:a, shape(a))"));
}

/* precision */

static int mantissa_bits(tenon_dtype_t dtype) {
  if (dtype.bits == 64) return 52;
  if (dtype.bits == 32) return 23;
  return dtype.code == 4 ? 7 : 10;
}

/* Rounds a float to a mantissa and an exponent of fewer bits. Numbers below the least normal one
 * of the format become 0, and those above the greatest one become infinity. */
static tenon_edge_t round_bits(hlo_lower_t *lower, tenon_edge_t x, int exponent, int mantissa) {
  tenon_dtype_t dtype = hlo_dtype(lower, x);
  const char *integers = tenon_dtype_name(hlo_integers_like(dtype, false));
  const char *own_name = tenon_dtype_name(dtype);
  int own = mantissa_bits(dtype);
  int bias = (1 << (dtype.bits - own - 2)) - 1;
  int format_bias = (1 << (exponent - 1)) - 1;
  int dropped = own - mantissa;
  tenon_edge_t bits = hlo_run(lower, EDGES(x), "bit_cast(abs(a), to=%s)", integers);
  if (dropped > 0) /* to nearest, ties to even */
    bits = hlo_run(lower, EDGES(bits),
                   "shift_left(shift_right(add(a, add(sub(shift_left(1:a, %d:a), 1:a), "
                   "bitwise_and(shift_right(a, %d:a), 1:a))), %d:a), %d:a)",
                   dropped - 1, dropped, dropped, dropped);
  tenon_edge_t scale = hlo_run(lower, EDGES(bits), "shift_right(a, %d:a)", own);
  tenon_edge_t size = hlo_run(lower, EDGES(bits), "bit_cast(a, to=%s)", own_name);
  if (format_bias < bias) {
    size = hlo_run(lower, EDGES(size, scale), "where(greater(b, %d:b), reciprocal(0:a), a)",
                   bias + format_bias);
    size = hlo_run(lower, EDGES(size, scale), "where(less_equal(b, %d:b), 0:a, a)",
                   bias - format_bias);
  }
  /* Without a bit of mantissa there is no NaN. */
  tenon_edge_t invalid = mantissa ? x : hlo_run(lower, EDGES(x), "reciprocal(0:a)");
  tenon_edge_t is_negative =
      hlo_run(lower, EDGES(x), "not_equal(shift_right(bit_cast(a, to=%s), %d:%s), 0:%s)", integers,
              dtype.bits - 1, integers, integers);
  return hlo_run(lower, EDGES(x, size, invalid, is_negative),
                 "where(is_nan(a), c, where(d, neg(b), b))");
}

/* Formats of other dtypes are conversions to these, which keep numbers below the least normal. */
static void lower_reduce_precision(hlo_lower_t *lower) {
  tenon_edge_t x = hlo_edge(lower, 0);
  const char *format = hlo_attr_word(lower, "format", NULL, "");
  int exponent = 0;
  int mantissa = 0;
  if (sscanf(format, "e%dm%d", &exponent, &mantissa) != 2) {
    exponent = (int)hlo_attr_int(lower, "exponent_bits", NULL, 0);
    mantissa = (int)hlo_attr_int(lower, "mantissa_bits", NULL, -1);
  }
  const char *own = tenon_dtype_name(hlo_result_type(lower, 0)->dtype);
  if (hlo_stopped(lower)) return;
  tenon_dtype_t dtype = hlo_dtype(lower, x);
  if (!hlo_is_float(dtype) || dtype.bits < 16) {
    hlo_wrong(lower, "expected an operand of f16, bf16, f32 or f64, found %s",
              tenon_dtype_name(dtype));
    return;
  }
  if (exponent < 1 || exponent > 11 || mantissa < 0 || mantissa > 52) {
    hlo_wrong(lower, "expected a format from e1m0 to e11m52, found e%dm%d", exponent, mantissa);
    return;
  }
  if (exponent == 8 && mantissa == 23)
    hlo_give(lower, 0, hlo_run(lower, EDGES(x), "cast(cast(a, to=f32), to=%s)", own));
  else if (exponent == 8 && mantissa == 7)
    hlo_give(lower, 0, hlo_run(lower, EDGES(x), "cast(cast(a, to=bf16), to=%s)", own));
  else if (exponent == 5 && mantissa == 10)
    hlo_give(lower, 0, hlo_run(lower, EDGES(x), "cast(cast(a, to=f16), to=%s)", own));
  else if (exponent == 11 && mantissa == 52)
    hlo_give(lower, 0, x);
  else
    hlo_give(lower, 0, round_bits(lower, x, exponent, mantissa));
}

static void lower_select(hlo_lower_t *lower) {
  tenon_edge_t edges[8];
  if (lower->op->operand_count != 3) hlo_wrong(lower, "expected 3 operands");
  if (hlo_stopped(lower)) return;
  if (lower->part >= 0) {
    hlo_give(lower, 0,
             hlo_run(lower, EDGES(hlo_edge(lower, 0), hlo_edge(lower, 1), hlo_edge(lower, 2)),
                     "where(a, b, c)"));
    return;
  }
  size_t count = operand_edges(lower, edges);
  hlo_give(lower, 0, hlo_run(lower, edges, count, "where(a, b, c)"));
}

/* Texts of complex numbers a + ib and c + id. */
#define SIZE "sqrt(add(mul(a, a), mul(b, b)))"
#define ROOT_REAL "sqrt(mul(0.5:a, max(0:a, add(" SIZE ", a))))"
#define ROOT_IMAGINARY                                                                             \
  "mul(where(less(b, 0:b), -1:b, 1:b), sqrt(mul(0.5:a, max(0:a, sub(" SIZE ", a)))))"
/* |1 + exp(-z)|^2 */
#define LOGISTIC_SIZE "add(add(1:a, mul(2:a, mul(exp(neg(a)), cos(b)))), exp(mul(-2:a, a)))"
/* Complex numbers are ordered by their real parts, then by their imaginary parts. */
#define FIRST(order) "or(" order "(a, c), and(equal(a, c), " order "(b, d)))"
#define ORDERED(order) "where(" FIRST(order) ", a, c); where(" FIRST(order) ", b, d)"

static const hlo_row_t rows[] = {
    {"stablehlo.abs", "abs(a)", NULL, "sqrt(add(mul(a, a), mul(b, b)))", hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.add", "add(a, b)", "or(a, b)", "add(a, c); add(b, d)", hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.and", "bitwise_and(a, b)", "and(a, b)", NULL, hlo_lower_text, HLO_ELEMENTWISE,
     NULL},
    {"stablehlo.bitcast_convert", NULL, NULL, NULL, lower_bitcast, HLO_ELEMENTWISE, NULL},
    {"stablehlo.ceil", "ceil(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.clamp", "min(max(b, a), c)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.compare", NULL, NULL, NULL, lower_compare, HLO_ELEMENTWISE, NULL},
    {"stablehlo.complex", NULL, NULL, NULL, lower_complex, HLO_ELEMENTWISE, NULL},
    {"stablehlo.convert", NULL, NULL, NULL, lower_convert, HLO_ELEMENTWISE, NULL},
    {"stablehlo.cosine", "cos(a)", NULL, "mul(cos(a), cosh(b)); neg(mul(sin(a), sinh(b)))",
     hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.count_leading_zeros", NULL, NULL, NULL, lower_leading_zeros, HLO_ELEMENTWISE, NULL},
    {"stablehlo.divide", "div(a, b)", NULL,
     "div(add(mul(a, c), mul(b, d)), add(mul(c, c), mul(d, d))); div(sub(mul(b, c), mul(a, d)), "
     "add(mul(c, c), mul(d, d)))",
     hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.exponential", "exp(a)", NULL, "mul(exp(a), cos(b)); mul(exp(a), sin(b))",
     hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.exponential_minus_one", "mul(tanh(mul(a, 0.5:a)), add(exp(a), 1:a))", NULL,
     "sub(mul(exp(a), cos(b)), 1:a); mul(exp(a), sin(b))", hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.floor", "floor(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.imag", NULL, NULL, NULL, lower_imaginary, HLO_ELEMENTWISE, NULL},
    {"stablehlo.is_finite", "not(or(is_nan(a), is_inf(a)))", NULL, NULL, hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.logistic", "sigmoid(a)", NULL,
     "div(add(1:a, mul(exp(neg(a)), cos(b))), " LOGISTIC_SIZE
     "); div(mul(exp(neg(a)), sin(b)), " LOGISTIC_SIZE ")",
     hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.maximum", "max(a, b)", "or(a, b)", ORDERED("greater"), hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.minimum", "min(a, b)", "and(a, b)", ORDERED("less"), hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.multiply", "mul(a, b)", "and(a, b)",
     "sub(mul(a, c), mul(b, d)); add(mul(a, d), mul(b, c))", hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.negate", "neg(a)", NULL, "neg(a); neg(b)", hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.not", "bitwise_not(a)", "not(a)", NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.or", "bitwise_or(a, b)", "or(a, b)", NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.popcnt", NULL, NULL, NULL, lower_popcnt, HLO_ELEMENTWISE, NULL},
    {"stablehlo.real", NULL, NULL, NULL, lower_real, HLO_ELEMENTWISE, NULL},
    {"stablehlo.reduce_precision", NULL, NULL, NULL, lower_reduce_precision, HLO_ELEMENTWISE, NULL},
    {"stablehlo.remainder", "mod(a, b, fmod=True)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE,
     NULL},
    {"stablehlo.round_nearest_afz",
     "mul(sign(a), add(floor(abs(a)), where(greater_equal(sub(abs(a), floor(abs(a))), 0.5:a), 1:a, "
     "0:a)))",
     NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.round_nearest_even", "round(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.rsqrt", "rsqrt(a)", NULL,
     "div(" ROOT_REAL ", " SIZE "); neg(div(" ROOT_IMAGINARY ", " SIZE "))", hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.select", NULL, NULL, NULL, lower_select, HLO_ELEMENTWISE | HLO_BY_PARTS, NULL},
    {"stablehlo.shift_left", "shift_left(a, b)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.shift_right_arithmetic", NULL, NULL, NULL, lower_shift_arithmetic, HLO_ELEMENTWISE,
     NULL},
    {"stablehlo.shift_right_logical", NULL, NULL, NULL, lower_shift_logical, HLO_ELEMENTWISE, NULL},
    {"stablehlo.sign", "sign(a)", NULL,
     "where(and(equal(a, 0:a), equal(b, 0:b)), 0:a, div(a, sqrt(add(mul(a, a), mul(b, b))))); "
     "where(and(equal(a, 0:a), equal(b, 0:b)), 0:a, div(b, sqrt(add(mul(a, a), mul(b, b)))))",
     hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.sine", "sin(a)", NULL, "mul(sin(a), cosh(b)); mul(cos(a), sinh(b))", hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.sqrt", "sqrt(a)", NULL, ROOT_REAL "; " ROOT_IMAGINARY, hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.subtract", "sub(a, b)", NULL, "sub(a, c); sub(b, d)", hlo_lower_text,
     HLO_ELEMENTWISE, NULL},
    {"stablehlo.tan", "tan(a)", NULL, NULL, hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.tanh", "tanh(a)", NULL,
     "div(sinh(mul(2:a, a)), add(cosh(mul(2:a, a)), cos(mul(2:a, b)))); div(sin(mul(2:a, b)), "
     "add(cosh(mul(2:a, a)), cos(mul(2:a, b))))",
     hlo_lower_text, HLO_ELEMENTWISE, NULL},
    {"stablehlo.uniform_dequantize", NULL, NULL, NULL, hlo_lower_quantised, 0, NULL},
    {"stablehlo.uniform_quantize", NULL, NULL, NULL, hlo_lower_quantised, 0, NULL},
    {"stablehlo.xor", "bitwise_xor(a, b)", "xor(a, b)", NULL, hlo_lower_text, HLO_ELEMENTWISE,
     NULL},
};

HLO_ROWS(hlo_rows_pointwise);
