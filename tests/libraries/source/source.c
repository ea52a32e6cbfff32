/* One source with three kernels, for the CPU and for every device that compiles: a pointwise one
 * with attributes, a reduction of rows with group memory, and a scatter with atomic additions. A
 * fourth kernel cannot be compiled by a device. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

TENON_SOURCE_5(blend, TENON_IN, float, x, TENON_OUT, float, y, TENON_BY_VALUE, int64_t, n,
               TENON_BY_VALUE, float, scale, TENON_BY_VALUE, int32_t, shift) {
  TENON_EACH(i, n) y[i] = x[i] * scale + (float)((i + shift) % 7);
}

/* One group for each row; its items process the row together. */
TENON_SOURCE_4(row_sums, TENON_IN, float, x, TENON_OUT, float, sums, TENON_BY_VALUE, int64_t, width,
               TENON_SHARED, float, part) {
  uint32_t me = get_local_id(0);
  uint32_t all = get_local_size(0);
  TENON_GLOBAL const float *row = x + (int64_t)get_group_id(0) * width;
  float sum = 0;
  for (int64_t i = me; i < width; i += all)
    sum += row[i];
  part[me] = sum;
  TENON_BARRIER();
  for (uint32_t k = 1; k < all; k *= 2) {
    if (me % (2 * k) == 0 && me + k < all) part[me] += part[me + k];
    TENON_BARRIER();
  }
  if (me == 0) sums[get_group_id(0)] = part[0];
}

TENON_SOURCE_3(clear, TENON_OUT, int32_t, counts, TENON_OUT, float, sums, TENON_BY_VALUE, int64_t,
               n) {
  TENON_EACH(i, n) {
    counts[i] = 0;
    sums[i] = 0;
  }
}

TENON_SOURCE_5(scatter, TENON_IN, int32_t, index, TENON_IN, float, x, TENON_INOUT, int32_t, counts,
               TENON_INOUT, float, sums, TENON_BY_VALUE, int64_t, n) {
  TENON_EACH(i, n) {
    atomic_add_i32(&counts[index[i]], 1);
    atomic_add_f32(&sums[index[i]], x[i]);
  }
}

TENON_SOURCE_3(copy_bf16, TENON_IN, uint16_t, x, TENON_OUT, uint16_t, y, TENON_BY_VALUE, int64_t,
               n) {
  TENON_EACH(i, n) store_bf16(y, i, load_bf16(x, i) * 1.5f);
}

/* Pieces of 29 elements, so that vectors lie at any position: vectors of 4, 8 and 16 elements;
 * those of 16 go through the group's memory. */
TENON_SOURCE_4(by_vectors, TENON_IN, float, x, TENON_OUT, float, y, TENON_BY_VALUE, int64_t, pieces,
               TENON_SHARED, float, room) {
  TENON_LOCAL float *own = room + 16 * get_local_id(0);
  TENON_EACH(i, pieces) {
    int64_t at = i * 29;
    float4 a = load4(x, at);
    a = 2.0f - a * a;
    a += splat4(x[at + 28]);
    lane(a, 2) = lane(a, 1) - 3;
    store4(y, at, a / 4.0f);
    float8 b = mad8(0.5f, load8(x, at + 4), load8(x, at));
    b -= mad8(splat8(-2), b, splat8(0));
    store8(y, at + 4, -b);
    float16 c = load16(x, at + 12);
    store16(own, 0, c * 3.0f);
    store16(y, at + 12, load16(own, 0) + c);
    y[at + 28] = x[at + 28];
  }
}

/* Devices compile it once for each value of BY. The CPU's kernel, which is compiled with the
 * library, has no constant, and shows that by the sign of its result. */
TENON_SOURCE_4(by_constant, TENON_IN, float, x, TENON_OUT, float, y, TENON_BY_VALUE, int64_t, n,
               TENON_BY_VALUE, int32_t, by) {
#ifdef BY
  TENON_EACH(i, n) y[i] = x[i] * BY + (KIND)by;
#else
  TENON_EACH(i, n) y[i] = -(x[i] * (float)by + (float)by);
#endif
}

TENON_SOURCE_4(function_of, TENON_IN, float, x, TENON_OUT, float, y, TENON_BY_VALUE, int64_t, n,
               TENON_BY_VALUE, int32_t, which) {
  TENON_EACH(i, n) {
    float v = x[i];
    float r = v;
    switch (which) {
    case 0:
      r = exp(v);
      break;
    case 1:
      r = log(v);
      break;
    case 2:
      r = sqrt(v);
      break;
    case 3:
      r = 1 / v;
      break;
    case 4:
      r = sin(v);
      break;
    case 5:
      r = cos(v);
      break;
    case 6:
      r = tan(v);
      break;
    case 7:
      r = tanh(v);
      break;
    case 8:
      r = sinh(v);
      break;
    case 9:
      r = cosh(v);
      break;
    case 10:
      r = asin(v);
      break;
    case 11:
      r = acos(v);
      break;
    case 12:
      r = atan(v);
      break;
    case 13:
      r = asinh(v);
      break;
    case 14:
      r = acosh(v);
      break;
    case 15:
      r = atanh(v);
      break;
    case 16:
      r = erf(v);
      break;
    case 17:
      r = expm1(v);
      break;
    case 18:
      r = log1p(v);
      break;
    case 19:
      r = pow(v, 2.5f);
      break;
    }
    y[i] = r;
  }
}

TENON_POINTWISE_2(farther, float, TENON_IN, float, a, TENON_IN, float, b) {
  return a * a > b * b ? a : b;
}
TENON_POINTWISE_3(chosen, int32_t, TENON_IN, int32_t, which, TENON_IN, int32_t, a, TENON_IN,
                  int32_t, b) {
  return which ? a : b;
}
TENON_POINTWISE_4(mixed, float, TENON_IN, float, a, TENON_IN, float, b, TENON_BY_VALUE, float, by,
                  TENON_BY_VALUE, int32_t, more) {
  return a + (b - a) * by + (float)more;
}
TENON_POINTWISE_5(digits, int32_t, TENON_IN, int32_t, a, TENON_IN, int32_t, b, TENON_IN, int32_t, c,
                  TENON_IN, int32_t, d, TENON_IN, int32_t, e) {
  return a * 10000 + b * 1000 + c * 100 + d * 10 + e;
}
TENON_POINTWISE_8(all_eight, int64_t, TENON_IN, int32_t, a, TENON_IN, int64_t, b, TENON_IN, uint8_t,
                  c, TENON_IN, int32_t, d, TENON_IN, int32_t, e, TENON_BY_VALUE, int64_t, times,
                  TENON_BY_VALUE, uint8_t, negative, TENON_BY_VALUE, float, by) {
  int64_t sum = a + b * 10 + c * 100 + d * 1000 + e * 10000 + times + (int64_t)(by * 4);
  return negative ? -sum : sum;
}

#ifndef TENON_ON_DEVICE
enum {
  BLEND,
  ROW_SUMS,
  CLEAR,
  SCATTER,
  COPY_BF16,
  FARTHER,
  CHOSEN,
  FUNCTION_OF,
  BY_VECTORS,
  BY_CONSTANT,
  MIXED,
  DIGITS,
  ALL_EIGHT,
};
TENON_CODE(code, {"blend", blend}, {"row_sums", row_sums}, {"clear", clear}, {"scatter", scatter},
           {"copy_bf16", copy_bf16}, {"farther", farther}, {"chosen", chosen},
           {"function_of", function_of}, {"by_vectors", by_vectors}, {"by_constant", by_constant},
           {"mixed", mixed}, {"digits", digits}, {"all_eight", all_eight})
TENON_POINTWISE_RUN(code, FARTHER, farther)
TENON_POINTWISE_RUN(code, CHOSEN, chosen)
TENON_POINTWISE_RUN(code, MIXED, mixed)
TENON_POINTWISE_RUN(code, DIGITS, digits)
TENON_POINTWISE_RUN(code, ALL_EIGHT, all_eight)

static tenon_status_t blend_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  float scale = (float)call->attrs[0].as.f;
  int32_t shift = (int32_t)call->attrs[1].as.i;
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n),
                                               TENON_VALUE(scale), TENON_VALUE(shift)};
  return tenon_each(call, &code, BLEND, n, arguments, 5);
}

static tenon_status_t row_sums_run(tenon_call_t *call) {
  int64_t rows = call->inputs[0]->shape[0];
  int64_t width = call->inputs[0]->shape[1];
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(width),
                                               tenon_shared(sizeof(float))};
  return tenon_groups(call, &code, ROW_SUMS, rows, arguments, 4);
}

static tenon_status_t scatter_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  int64_t size = call->attrs[0].as.i;
  const tenon_kernel_argument_t first[] = {tenon_out(call->outputs[0]), tenon_out(call->outputs[1]),
                                           TENON_VALUE(size)};
  TENON_TRY(tenon_each(call, &code, CLEAR, size, first, 3));
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]), tenon_in(call->inputs[1]),
                                               tenon_inout(call->outputs[0]),
                                               tenon_inout(call->outputs[1]), TENON_VALUE(n)};
  return tenon_each(call, &code, SCATTER, n, arguments, 5);
}

static tenon_status_t function_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  int32_t which = (int32_t)call->attrs[0].as.i;
  const tenon_kernel_argument_t arguments[] = {
      tenon_in(call->inputs[0]), tenon_out(call->outputs[0]), TENON_VALUE(n), TENON_VALUE(which)};
  return tenon_each(call, &code, FUNCTION_OF, n, arguments, 4);
}

static tenon_status_t vectors_run(tenon_call_t *call) {
  int64_t pieces = tenon_count(call->inputs[0]) / 29;
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(pieces),
                                               tenon_shared(16 * sizeof(float))};
  return tenon_each(call, &code, BY_VECTORS, pieces, arguments, 4);
}

static tenon_status_t constant_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  int32_t by = (int32_t)call->attrs[0].as.i;
  const tenon_kernel_argument_t arguments[] = {
      tenon_in(call->inputs[0]), tenon_out(call->outputs[0]), TENON_VALUE(n), TENON_VALUE(by)};
  tenon_grid_t grid = {
      .size = sizeof grid, .kernel = BY_CONSTANT, .code = &code, .items = n, .argument_count = 4};
  grid.constants = by == 2 ? "BY=2 KIND=float" : "BY=5 KIND=float";
  grid.arguments = arguments;
  return call->host->launch(call, &grid);
}

static tenon_status_t bf16_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each(call, &code, COPY_BF16, n, arguments, 3);
}

/* A device's own kernel, which declines every call: the source kernel serves instead. */
static tenon_status_t declining_run(tenon_call_t *call) {
  return tenon_fail(call, TENON_UNIMPLEMENTED, "this kernel takes nothing");
}

extern const tenon_item_t broken[], needing[];
/* clang-format off */
TENON_LIBRARY(source, "1.0.0",
  TENON_OP("blend(Tensor x, *, float scale, int shift) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("f32", blend_run)),
  TENON_OP("row_sums(Tensor x) -> Tensor",
    TENON_TYPES("x: f32|f64; out = x"), TENON_SHAPES("x: [n, m]; out: [n]"),
    TENON_TRAITS(TENON_PURE), TENON_SOURCE("f32", row_sums_run),
    TENON_KERNEL("sim f32|f64 strided", declining_run)),
  TENON_OP("scatter(Tensor index, Tensor x, *, dim size) -> (Tensor counts, Tensor sums)",
    TENON_TYPES("index: i32; x: f32; counts = index; sums = x"),
    TENON_SHAPES("index: [n]; x: [n]; counts: [size]; sums: [size]"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("", scatter_run)),
  TENON_OP("function(Tensor x, *, int which) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("f32", function_run)),
  TENON_OP("vectors(Tensor x) -> Tensor", TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE), TENON_SOURCE("f32", vectors_run)),
  TENON_OP("by_constant(Tensor x, *, int by) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("f32", constant_run)),
  TENON_OP("half_more(Tensor x) -> Tensor",
    TENON_TYPES("x: bf16; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_SOURCE("bf16", bf16_run)),
  TENON_OP("farther(Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("a: f32; b = a; out = a"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32, f32 -> f32", farther_loop), TENON_SOURCE("f32 strided", farther_run)),
  TENON_OP("chosen(Tensor which, Tensor a, Tensor b) -> Tensor",
    TENON_TYPES("which: i32; a = which; b = which; out = which"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP("i32, i32, i32 -> i32", chosen_loop),
    TENON_SOURCE("i32 strided", chosen_run)),
  TENON_OP("mixed(Tensor a, Tensor b, *, float by, int more=0) -> Tensor",
    TENON_TYPES("a: f32; b = a; out = a"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32, f32 -> f32", mixed_loop), TENON_SOURCE("f32 strided", mixed_run)),
  TENON_OP("digits(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e) -> Tensor",
    TENON_TYPES("a: i32; b = a; c = a; d = a; e = a; out = a"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("i32, i32, i32, i32, i32 -> i32", digits_loop),
    TENON_SOURCE("i32 strided", digits_run)),
  TENON_OP("all_eight(Tensor a, Tensor b, Tensor c, Tensor d, Tensor e, *, int times, "
           "bool negative, float by) -> Tensor",
    TENON_TYPES("a: i32; b: i64; c: u8; d: i32; e: i32; out = b"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("i32, i64, u8, i32, i32 -> i64", all_eight_loop),
    TENON_SOURCE("strided", all_eight_run)),
  TENON_GROUP(broken), TENON_GROUP(needing))
/* clang-format on */
#endif
