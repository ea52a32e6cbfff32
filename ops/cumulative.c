/* cum_sum and cum_prod: running sums and products along an axis. The tensor is viewed as [outer, n,
 * inner]. The running values of a block of columns are kept in wide numbers, so that f32 and
 * narrower floats do not drift.
 * Invariant: a part owns whole columns. */
#include "axes.h"
#include "copy.h"
#include "dtype_scalar.h"
#include "forward_infer.h"

enum { COLUMNS = 128 };

typedef struct running_t {
  int64_t n;
  int64_t inner;
  int64_t blocks;
  int exclusive;
  int reverse;
} running_t;

/* In gradient formulas: reverses the axis. */
#define FLIP(value) "core::slice(" value ", -1, -4611686018427387904, axis, -1)"

#define T float
#define W double
#define NAME(x) f32_##x
#include "cumulative_kernel.h"

#define T double
#define W double
#define NAME(x) f64_##x
#include "cumulative_kernel.h"

#define T uint16_t
#define W double
#define NAME(x) f16_##x
#define GET(x) float_of_f16(x)
#define SET(x) f16_of_float((float)(x))
#include "cumulative_kernel.h"

#define T uint16_t
#define W double
#define NAME(x) bf16_##x
#define GET(x) float_of_bf16(x)
#define SET(x) bf16_of_float((float)(x))
#include "cumulative_kernel.h"

/* integers, which wrap around */

#define T int8_t
#define W uint64_t
#define NAME(x) i8_##x
#include "cumulative_kernel.h"

#define T int16_t
#define W uint64_t
#define NAME(x) i16_##x
#include "cumulative_kernel.h"

#define T int32_t
#define W uint64_t
#define NAME(x) i32_##x
#include "cumulative_kernel.h"

#define T int64_t
#define W uint64_t
#define NAME(x) i64_##x
#include "cumulative_kernel.h"

#define T uint8_t
#define W uint64_t
#define NAME(x) u8_##x
#include "cumulative_kernel.h"

#define T uint16_t
#define W uint64_t
#define NAME(x) u16_##x
#include "cumulative_kernel.h"

#define T uint32_t
#define W uint64_t
#define NAME(x) u32_##x
#include "cumulative_kernel.h"

#define T uint64_t
#define W uint64_t
#define NAME(x) u64_##x
#include "cumulative_kernel.h"

static const struct {
  uint32_t dtype;
  tenon_part_fn sum;
  tenon_part_fn prod;
} kinds[] = {
    {TENON_F32, f32_sum, f32_prod}, {TENON_F64, f64_sum, f64_prod},
    {TENON_F16, f16_sum, f16_prod}, {TENON_BF16, bf16_sum, bf16_prod},
    {TENON_I8, i8_sum, i8_prod},    {TENON_I16, i16_sum, i16_prod},
    {TENON_I32, i32_sum, i32_prod}, {TENON_I64, i64_sum, i64_prod},
    {TENON_U8, u8_sum, u8_prod},    {TENON_U16, u16_sum, u16_prod},
    {TENON_U32, u32_sum, u32_prod}, {TENON_U64, u64_sum, u64_prod},
};

static tenon_status_t run_cumulative(tenon_call_t *call, int product) {
  const tenon_tensor_t *x = call->inputs[0];
  int32_t axis = 0;
  tenon_part_fn part = NULL;
  running_t p = {1, 1, 1, call->attrs[0].as.i != 0, call->attrs[1].as.i != 0};
  int64_t count = tenon_count(x);
  if (count == 0) return TENON_OK;
  if (x->ndim) {
    TENON_TRY(axis_wrap(call, tensor_int(call->inputs[1], 0), x->ndim, &axis));
    p.n = x->shape[axis];
    p.inner = extents_product(x->shape, axis + 1, x->ndim);
  }
  p.blocks = (p.inner + COLUMNS - 1) / COLUMNS;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].dtype == tenon_dtype_id(x->dtype)) part = product ? kinds[i].prod : kinds[i].sum;
  if (!part)
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "cum_sum and cum_prod have no kernel for this dtype");
  int64_t units = count / p.n / p.inner * p.blocks;
  return call->host->parallel(call, units, 4096 * units / count + 1, part, &p);
}

static tenon_status_t cum_sum_run(tenon_call_t *call) { return run_cumulative(call, 0); }
static tenon_status_t cum_prod_run(tenon_call_t *call) { return run_cumulative(call, 1); }

tenon_status_t core_cumulative_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  ints_t axis;
  int64_t number = 0;
  int32_t wrapped = 0;
  TENON_TRY(ints_read(infer, 1, &axis));
  if (axis.count >= 0 && axis.count != 1)
    return tenon_fail(infer, TENON_INVALID, "axis lists %d axes; expected one", axis.count);
  if (x->ndim && axis.known && ints_numbers(&axis, &number))
    TENON_TRY(axis_wrap(infer, number, x->ndim, &wrapped));
  return out_like(infer->outputs[0], x);
}

/* clang-format off */
#define FACTS(doc)                                                                                 \
  TENON_DOC(doc),                                                                                  \
  TENON_TYPES("x: number; axis: i64|i32; out = x"),                                                \
  TENON_WHERE("axis: known"),                                                                      \
  TENON_TRAITS(TENON_PURE),                                                                        \
  TENON_INFER(core_cumulative_infer),                                                              \
  TENON_REUSE("out: x")
TENON_ITEMS(core_cumulative,
  TENON_OP("cum_sum(Tensor x, Tensor @host axis, *, bool exclusive=False, "
           "bool reverse=False) -> Tensor",
    FACTS("Running sums along an axis; "
          "reverse starts at the other end, exclusive leaves out the element itself."),
    TENON_GRADIENT("x: "
                   FLIP("core::cum_sum(" FLIP("grad")
                        ", axis, exclusive=exclusive, reverse=reverse)")),
    TENON_KERNEL("cpu", cum_sum_run)),
  TENON_OP("cum_prod(Tensor x, Tensor @host axis, *, bool exclusive=False, "
           "bool reverse=False) -> Tensor",
    FACTS("Running products along an axis; "
          "reverse starts at the other end, exclusive leaves out the element itself."),
    TENON_GRADIENT("x: core::cum_prod_backward(grad, x, axis, exclusive=exclusive, "
                   "reverse=reverse)"),
    TENON_KERNEL("cpu", cum_prod_run)))
/* clang-format on */
