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
#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))
#define SAME(x) (x)
/* W is the type of the running value. */
#define RUNNING(function, type, W, OP, identity, get, set)                                         \
  static tenon_status_t function(tenon_call_t *call, void *argument, int64_t begin, int64_t end) { \
    const running_t *p = (const running_t *)argument;                                              \
    for (int64_t unit = begin; unit < end; unit++) {                                               \
      int64_t block = unit % p->blocks * COLUMNS;                                                  \
      int64_t width = p->inner - block < COLUMNS ? p->inner - block : COLUMNS;                     \
      int64_t at = unit / p->blocks * p->n * p->inner + block;                                     \
      int64_t step = p->reverse ? -p->inner : p->inner;                                            \
      W sum[COLUMNS];                                                                              \
      if (p->reverse) at += (p->n - 1) * p->inner;                                                 \
      for (int64_t i = 0; i < width; i++)                                                          \
        sum[i] = identity;                                                                         \
      for (int64_t r = 0; r < p->n; r++, at += step) {                                             \
        const type *x = (const type *)call->inputs[0]->data + at;                                  \
        type *y = (type *)call->outputs[0]->data + at;                                             \
        for (int64_t i = 0; i < width; i++) {                                                      \
          W next = OP(sum[i], (W)get(x[i]));                                                       \
          y[i] = (type)set(p->exclusive ? sum[i] : next);                                          \
          sum[i] = next;                                                                           \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
    return TENON_OK;                                                                               \
  }
/* clang-format off */
#define F16_OF(x) f16_of_float((float)(x))
#define BF16_OF(x) bf16_of_float((float)(x))
/* X(id, name, type, W, get, set); integers wrap around */
#define KINDS(X)                                                                                   \
  X(F32, f32, float, double, SAME, SAME)                                                           \
  X(F64, f64, double, double, SAME, SAME)                                                          \
  X(F16, f16, uint16_t, double, float_of_f16, F16_OF)                                              \
  X(BF16, bf16, uint16_t, double, float_of_bf16, BF16_OF)                                          \
  X(I8, i8, int8_t, uint64_t, SAME, SAME)                                                          \
  X(I16, i16, int16_t, uint64_t, SAME, SAME)                                                       \
  X(I32, i32, int32_t, uint64_t, SAME, SAME)                                                       \
  X(I64, i64, int64_t, uint64_t, SAME, SAME)                                                       \
  X(U8, u8, uint8_t, uint64_t, SAME, SAME)                                                         \
  X(U16, u16, uint16_t, uint64_t, SAME, SAME)                                                      \
  X(U32, u32, uint32_t, uint64_t, SAME, SAME)                                                      \
  X(U64, u64, uint64_t, uint64_t, SAME, SAME)
#define DEFINE(id, name, type, W, get, set)                                                        \
  RUNNING(name##_sum, type, W, ADD, 0, get, set)                                                   \
  RUNNING(name##_prod, type, W, MUL, 1, get, set)
KINDS(DEFINE)
/* clang-format on */
static const struct {
  uint32_t dtype;
  tenon_part_fn sum, prod;
} kinds[] = {
#define ROW(id, name, type, W, get, set) {TENON_##id, name##_sum, name##_prod},
    KINDS(ROW)
#undef ROW
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
  return call->host->parallel(call, units, 16384 * units / count + 1, part, &p);
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
