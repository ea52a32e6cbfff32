/* Reductions over any set of axes, by the folds of fold.h: runs if the last axis is reduced, rows
 * if it is kept. They are stubs: the iterator provides the merged axes. If there are few results,
 * the elements of each are split into pieces that several threads fold. The pieces do not depend on
 * the number of threads, so neither does the result.
 * Invariant: every output element is emitted once, from one complete partial result. */
#include "../axes.h"
#include "../copy.h"
#include "fold.h"
#include "isa.h"
#include "math.h"
#include "wide.h"
#include <tenon/check.h>

#define T float
#define NAME(x) f32_##x
#define W double
#define MEMBER f
#define ABSOLUTE fabsf
#define SQUARE MAP_SQUARE
#define ADD OP_ADD
#define MULTIPLY OP_MUL
#define LARGER OP_MAX
#define SMALLER OP_MIN
#define LOWEST -HUGE_VAL
#define HIGHEST HUGE_VAL
#include "../folds_kernel.h"

#define T double
#define NAME(x) f64_##x
#define W double
#define MEMBER f
#define ABSOLUTE fabs
#define SQUARE MAP_SQUARE
#define ADD OP_ADD
#define MULTIPLY OP_MUL
#define LARGER OP_MAX
#define SMALLER OP_MIN
#define LOWEST -HUGE_VAL
#define HIGHEST HUGE_VAL
#include "../folds_kernel.h"

#define T int64_t
#define NAME(x) i64_##x
#define W int64_t
#define MEMBER i
#define ABSOLUTE MAP_ABS_I64
#define SQUARE MAP_SQUARE_I64
#define ADD OP_ADD_I64
#define MULTIPLY OP_MUL_I64
#define LARGER OP_MAX_INT
#define SMALLER OP_MIN_INT
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "../folds_kernel.h"

#define T uint64_t
#define NAME(x) u64_##x
#define W uint64_t
#define MEMBER u
#define ABSOLUTE MAP_SELF
#define SQUARE MAP_SQUARE
#define ADD OP_ADD_I64
#define MULTIPLY OP_MUL_I64
#define LARGER OP_MAX_INT
#define SMALLER OP_MIN_INT
#define LOWEST 0
#define HIGHEST UINT64_MAX
#include "../folds_kernel.h"

enum {
  CHUNK = 4096 /* numbers folded at a time */,
  UNITS = 64 /* parts to aim for, if there is enough work */
};

/* What happens to a complete result. */
enum { AS_IT_IS, MEAN, ROOT, LOGARITHM, LOG_OF_SHIFTED, SHIFT, /* stored, for exp(x - shift) */ };

typedef struct number_kind_t {
  uint32_t dtype;
  const fold_t *folds;
  int64_t wide;                                        /* bytes of a number that is folded */
  void (*load)(void *to, const void *from, int64_t n); /* NULL: elements are folded as they are */
  void (*store)(void *out, int64_t i, word_t word);
  word_t least;
  word_t most; /* results of max and min over no elements */
} number_kind_t;

#define LOAD(name, type, wide, get)                                                                \
  static void name##_load(void *to, const void *from, int64_t n) {                                 \
    wide *restrict y = (wide *)to;                                                                 \
    const type *restrict x = (const type *)from;                                                   \
    for (int64_t i = 0; i < n; i++)                                                                \
      y[i] = (wide)get(x[i]);                                                                      \
  }
#define STORE(name, type, member, set)                                                             \
  static void name##_store(void *out, int64_t i, word_t word) {                                    \
    ((type *)out)[i] = (type)set(word.member);                                                     \
  }
/* clang-format off */
#define SELF(x) (x)
#define F16_OF(x) f16_of_float((float)(x))
#define BF16_OF(x) bf16_of_float((float)(x))
/* X(id, name, type, class, type of class, member, get, set, least, most): dtypes that are loaded as
 * another */
#define NARROW(X)                                                                                  \
  X(F16, f16, uint16_t, f32, float, f, float_of_f16, F16_OF, -HUGE_VAL, HUGE_VAL)                  \
  X(BF16, bf16, uint16_t, f32, float, f, float_of_bf16, BF16_OF, -HUGE_VAL, HUGE_VAL)
#define SHORT(X)                                                                                   \
  X(I8, i8, int8_t, i64, int64_t, i, SELF, SELF, INT8_MIN, INT8_MAX)                               \
  X(I16, i16, int16_t, i64, int64_t, i, SELF, SELF, INT16_MIN, INT16_MAX)                          \
  X(I32, i32, int32_t, i64, int64_t, i, SELF, SELF, INT32_MIN, INT32_MAX)                          \
  X(U8, u8, uint8_t, u64, uint64_t, u, SELF, SELF, 0, UINT8_MAX)                                   \
  X(U16, u16, uint16_t, u64, uint64_t, u, SELF, SELF, 0, UINT16_MAX)                               \
  X(U32, u32, uint32_t, u64, uint64_t, u, SELF, SELF, 0, UINT32_MAX)                               \
  X(BOOL, bool, uint8_t, u64, uint64_t, u, SELF, SELF, 0, 1)
#define NATIVE(X)                                                                                  \
  X(F32, f32, float, f32, float, f, SELF, SELF, -HUGE_VAL, HUGE_VAL)                               \
  X(F64, f64, double, f64, double, f, SELF, SELF, -HUGE_VAL, HUGE_VAL)                             \
  X(I64, i64, int64_t, i64, int64_t, i, SELF, SELF, INT64_MIN, INT64_MAX)                          \
  X(U64, u64, uint64_t, u64, uint64_t, u, SELF, SELF, 0, UINT64_MAX)
#define LOAD_(id, name, type, class, wide, member, get, set, least, most)                          \
  LOAD(name, type, wide, get)
#define STORE_(id, name, type, class, wide, member, get, set, least, most)                         \
  STORE(name, type, member, set)
#define KIND_(id, name, type, class, wide, member, get, set, least, most)                          \
  {TENON_##id,                                                                                     \
   class##_folds,                                                                                  \
   sizeof(wide),                                                                                   \
   name##_load,                                                                                    \
   name##_store,                                                                                   \
   {.member = least},                                                                              \
   {.member = most}},
#define KIND_NATIVE_(id, name, type, class, wide, member, get, set, least, most)                   \
  {TENON_##id,                                                                                     \
   class##_folds,                                                                                  \
   sizeof(wide),                                                                                   \
   NULL,                                                                                           \
   name##_store,                                                                                   \
   {.member = least},                                                                              \
   {.member = most}},
/* clang-format on */

#define T float
#define NAME(x) f32_##x
#include "../exponentials_kernel.h"

#define T double
#define NAME(x) f64_##x
#include "../exponentials_kernel.h"

#define WIDEN_(id, name, type, class, wide, member, get, set, least, most)                         \
  static void name##_load(void *to, const void *from, int64_t n) {                                 \
    widen_run(tenon_dtype(TENON_##id), (float *)to, from, n);                                      \
  }
/* clang-format off */
NARROW(WIDEN_)
SHORT(LOAD_)
NARROW(STORE_)
SHORT(STORE_)
NATIVE(STORE_)
/* clang-format on */
static const number_kind_t kinds[] = {NARROW(KIND_) SHORT(KIND_) NATIVE(KIND_NATIVE_)};

typedef struct axes_t { /* the last axis varies fastest */
  int32_t count;
  int64_t shape[TENON_RANK_MAX];
  int64_t stride[TENON_RANK_MAX];
} axes_t;

typedef struct plan_t {
  const number_kind_t *kind;
  const fold_t *fold;
  const char *x;
  void *out;
  char *shift;     /* one number per result, or NULL */
  word_t *partial; /* results of pieces, if there are several */
  axes_t kept;
  axes_t reduced; /* without the axis that is closest in memory, which is `width` long */
  int64_t element;
  int64_t width; /* element: bytes of an element of x; width: numbers in a run or a row */
  int64_t rows;
  int64_t last; /* combinations of `reduced`, and of its last axis */
  int64_t outputs;
  int64_t block; /* numbers of a row that are folded at once, in whole groups, at most */
  int64_t blocks;
  int64_t pieces;
  int64_t chunks;
  int64_t reduced_count;
  int64_t group; /* adjacent numbers of a row that belong to one result; 1 for runs */
  int run;
  int how; /* run: the last axis is reduced */
} plan_t;

static word_t finished_word(const plan_t *p, word_t word, int64_t i) {
  double n = (double)p->reduced_count;
  int real = p->kind->folds == f32_folds || p->kind->folds == f64_folds;
  int natural = p->kind->folds == u64_folds;
  double value = natural ? (double)word.u : (double)word.i;
  if (real) value = word.f;
  switch (p->how) {
  case MEAN:
    if (!real && p->reduced_count == 0) return word;
    if (!real && natural) return (word_t){.u = word.u / (uint64_t)p->reduced_count};
    if (!real) return (word_t){.i = word.i / p->reduced_count};
    value /= n;
    break;
  case ROOT:
    value = sqrt(value);
    break;
  case LOGARITHM:
    value = log(value);
    break;
  case LOG_OF_SHIFTED:
    value = log(value) +
            (p->kind->wide == 4 ? (double)((float *)p->shift)[i] : ((double *)p->shift)[i]);
    break;
  default:
    return word;
  }
  if (!real && !(value >= 0 && value < 0x1p63)) value = 0; /* the root of a sum that overflowed */
  return real      ? (word_t){.f = value}
         : natural ? (word_t){.u = (uint64_t)value}
                   : (word_t){.i = (int64_t)value};
}

static void emit_results(const plan_t *p, const word_t *words, int64_t first, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (p->how == SHIFT) { /* an infinite shift would give NaN */
      double shift = isfinite(words[i].f) ? words[i].f : 0.0;
      if (p->kind->wide == 4)
        ((float *)p->shift)[first + i] = (float)shift;
      else
        ((double *)p->shift)[first + i] = shift;
    } else {
      p->kind->store(p->out, first + i, finished_word(p, words[i], first + i));
    }
  }
}

static int64_t offset_of(const axes_t *axes, int64_t index) {
  int64_t offset = 0;
  for (int32_t i = axes->count - 1; i >= 0; i--) {
    offset += index % axes->shape[i] * axes->stride[i];
    index /= axes->shape[i];
  }
  return offset;
}

/* Gives the n numbers to fold from x on. A row has its own shift per number (step 1) or one shift
 * (step 0). */
static const void *load_numbers(const plan_t *p, void *buffer, const char *x, int64_t n,
                                const char *shift, int64_t step) {
  const void *numbers = x;
  if (p->kind->load) {
    p->kind->load(buffer, x, n);
    numbers = buffer;
  }
  if (!shift) return numbers;
  (p->kind->wide == 4 ? f32_exponentials : f64_exponentials)(buffer, numbers, n, shift, step);
  return buffer;
}

/* Computes one result from chunks [begin, end) of its runs. */
static void fold_runs(const plan_t *p, word_t *acc, int64_t base, int64_t begin, int64_t end,
                      const char *shift) {
  double buffer[CHUNK];
  int64_t each = (p->width + CHUNK - 1) / CHUNK;
  for (int64_t c = begin; c < end; c++) {
    int64_t first = c % each * CHUNK;
    int64_t n = p->width - first < CHUNK ? p->width - first : CHUNK;
    const char *x = p->x + (base + offset_of(&p->reduced, c / each) + first) * p->element;
    p->fold->run(acc, load_numbers(p, buffer, x, n, shift, 0), n);
  }
}

/* Computes a row of n results from rows [begin, end). */
static void fold_rows(const plan_t *p, word_t *acc, int64_t base, int64_t n, int64_t begin,
                      int64_t end, const char *shift) {
  double buffer[CHUNK];
  int by_load = p->kind->load || shift;
  int64_t most = by_load || n <= 32 ? CHUNK / n : 64;
  int64_t stride = 0;
  if (p->reduced.count) stride = p->reduced.stride[p->reduced.count - 1];
  for (int64_t row = begin; row < end;) {
    int64_t left = p->last - row % p->last;
    int64_t rows = end - row < left ? end - row : left;
    if (rows > most) rows = most;
    const char *x = p->x + (base + offset_of(&p->reduced, row)) * p->element;
    for (int64_t r = 0; by_load && r < rows; r++)
      (void)load_numbers(p, (char *)buffer + r * n * p->kind->wide, x + r * stride * p->element, n,
                         shift, 1);
    if (by_load)
      p->fold->rows(acc, buffer, rows, n, n);
    else
      p->fold->rows(acc, x, rows, stride, n);
    row += rows;
  }
}

/* Combines the numbers of each group. Returns the number of results. */
static int64_t merge_groups(const plan_t *p, word_t *acc, int64_t n) {
  const int64_t group = p->group;
  const int64_t results = n / group;
  word_t total[FOLD_ROW / 2], more[FOLD_ROW / 2];
  if (group == 1) return n;
  for (int64_t k = 0; k < group; k++) {
    word_t *to = k ? more : total;
    for (int64_t i = 0; i < results; i++)
      to[i] = acc[i * group + k];
    if (k) p->fold->merge(total, more, results);
  }
  memcpy(acc, total, (size_t)results * sizeof *total);
  return results;
}

static tenon_status_t reduce_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const plan_t *p = (const plan_t *)argument;
  word_t acc[FOLD_ROW];
  (void)call;
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t piece = unit % p->pieces;
    int64_t block = unit / p->pieces % p->blocks;
    int64_t row = unit / p->pieces / p->blocks;
    int64_t from = p->chunks * piece / p->pieces;
    int64_t to = p->chunks * (piece + 1) / p->pieces;
    int64_t base = offset_of(&p->kept, row);
    int64_t first = row;
    int64_t n = 1;
    if (!p->run) {
      const int64_t at = block * p->block;
      first = row * (p->width / p->group) + at / p->group;
      base += at;
      n = p->width - at < p->block ? p->width - at : p->block;
    }
    const char *shift = p->shift && p->how != SHIFT ? p->shift + first * p->kind->wide : NULL;
    p->fold->start(acc, n);
    if (p->run)
      fold_runs(p, acc, base, from, to, shift);
    else
      fold_rows(p, acc, base, n, from, to, shift);
    n = merge_groups(p, acc, n);
    if (p->pieces == 1)
      emit_results(p, acc, first, n);
    else
      memcpy(p->partial + piece * p->outputs + first, acc, (size_t)n * sizeof *acc);
  }
  return TENON_OK;
}

static tenon_status_t fold_all(tenon_call_t *call, plan_t *p) {
  int64_t units = p->outputs;
  if (!p->run) {
    p->block = FOLD_ROW / p->group * p->group;
    p->blocks = (p->width + p->block - 1) / p->block;
    units = p->outputs * p->group / p->width * p->blocks;
  }
  int64_t work = p->reduced_count * (p->outputs / units);
  int64_t enough = units < UNITS ? UNITS / units : 1;
  p->pieces = work / 32768 < enough ? work / 32768 : enough;
  if (p->pieces > p->chunks) p->pieces = p->chunks;
  if (p->pieces < 1) p->pieces = 1;
  if (p->pieces > 1) {
    uint64_t bytes = (uint64_t)(p->pieces * p->outputs) * sizeof(word_t);
    if (!(p->partial = (word_t *)call->host->allocate(call, bytes))) return TENON_MEMORY;
  }
  int64_t grain = 65536 / (work / p->pieces + 1) + 1;
  TENON_TRY(call->host->parallel(call, units * p->pieces, grain, reduce_part, p));
  if (p->pieces == 1) return TENON_OK;
  for (int64_t i = 1; i < p->pieces; i++)
    p->fold->merge(p->partial, p->partial + i * p->outputs, p->outputs);
  emit_results(p, p->partial, 0, p->outputs);
  return TENON_OK;
}

/* Takes axes [first, first + count) of x, without those of extent 1. */
static void set_axes(axes_t *axes, const tenon_iterator_t *it, int32_t first, int32_t count,
                     int64_t element) {
  axes->count = 0;
  for (int32_t i = first; i < first + count; i++) {
    if (it->shape[i] == 1) continue;
    axes->shape[axes->count] = it->shape[i];
    axes->stride[axes->count++] = it->strides[0][i] / element;
  }
}

/* Short runs that are adjacent, as those of groups of channels or of the last axis, are folded as
 * one row: groups of numbers, which are combined at the end. Removes the axes of the row. Returns
 * the numbers of a group; 1: there are none. */
static int64_t take_group(plan_t *p) {
  enum { SHORT = 16 };
  const int32_t run = p->reduced.count - 1;
  const int32_t kept = p->kept.count - 1;
  if (!p->run || kept < 0) return 1;
  const int64_t count = p->reduced.shape[run];
  if (count > SHORT || p->kept.stride[kept] != count) return 1;
  p->width = p->kept.shape[kept] * count;
  p->reduced.count--;
  p->kept.count--;
  return count;
}

static tenon_status_t reduce_tensor(const tenon_iterator_t *it, int fold, int how) {
  const tenon_tensor_t *x = it->tensors[0];
  plan_t p;
  p.x = (const char *)x->data + it->offsets[0];
  p.out = (char *)it->tensors[2]->data + it->offsets[2];
  p.kind = NULL;
  p.shift = NULL;
  p.partial = NULL;
  p.element = element_size(x);
  p.how = how;
  p.blocks = p.pieces = 1;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].dtype == tenon_dtype_id(x->dtype)) p.kind = &kinds[i];
  if (!p.kind)
    return tenon_fail(it, TENON_UNIMPLEMENTED, "there is no reduction kernel for this dtype");
  p.fold = &p.kind->folds[fold];
  p.rows = p.width = p.last = p.group = 1;
  p.outputs = it->end;
  p.reduced_count = it->inner;
  set_axes(&p.kept, it, 0, it->ndim, p.element);
  set_axes(&p.reduced, it, it->ndim, it->reduced, p.element);
  if (p.reduced_count == 0) { /* the result is the identity */
    word_t none[1];
    p.fold->start(none, 1);
    if (fold == FOLD_MAX) none[0] = p.kind->least;
    if (fold == FOLD_MIN) none[0] = p.kind->most;
    if (how == LOG_OF_SHIFTED) p.how = LOGARITHM;
    for (int64_t i = 0; i < p.outputs; i++)
      emit_results(&p, none, i, 1);
    return TENON_OK;
  }
  p.run = p.reduced.count && p.reduced.stride[p.reduced.count - 1] == 1;
  axes_t *inner = p.run ? &p.reduced : &p.kept;
  if (how != LOG_OF_SHIFTED) p.group = take_group(&p);
  if (p.group > 1)
    p.run = 0;
  else if (inner->count)
    p.width = inner->shape[--inner->count];
  for (int32_t i = 0; i < p.reduced.count; i++)
    p.rows *= p.reduced.shape[i];
  if (p.reduced.count) p.last = p.reduced.shape[p.reduced.count - 1];
  p.chunks = p.run ? p.rows * ((p.width + CHUNK - 1) / CHUNK) : p.rows;
  if (how == LOG_OF_SHIFTED) {
    if (!(p.shift = (char *)it->host->allocate(it->call, (uint64_t)(p.outputs * p.kind->wide))))
      return TENON_MEMORY;
    p.fold = &p.kind->folds[FOLD_MAX];
    p.how = SHIFT;
    TENON_TRY(fold_all(it->call, &p));
    p.fold = &p.kind->folds[fold];
    p.how = how;
  }
  return fold_all(it->call, &p);
}

/* Sums to the shape of the output, from which the input was broadcast. */
static tenon_status_t sum_to_stub(const tenon_iterator_t *it) {
  return reduce_tensor(it, FOLD_SUM, AS_IT_IS);
}

#ifndef TENON_SIMD
static tenon_status_t reduce_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int keepdims = infer->attrs[0].as.i != 0;
  int known = 1;
  uint64_t mask = 0;
  ints_t axes = {0, 1, {{0}}};
  TENON_TRY(axes_read(infer, 1, x->ndim, &mask, &known));
  if (infer->inputs[1]) TENON_TRY(ints_read(infer, 1, &axes));
  if (axes.count > x->ndim)
    return tenon_fail(infer, TENON_INVALID, "axes lists %d axes, but x has only %d",
                      (int)axes.count, (int)x->ndim);
  if (!known) {
    int32_t rank = axes.count > 0 ? x->ndim - axes.count : -1;
    return out_unknown(infer, out, keepdims ? x->ndim : rank);
  }
  if (!mask && !infer->attrs[1].as.i) mask = axes_all(x->ndim);
  out->ndim = 0;
  for (int32_t i = 0; i < x->ndim; i++) {
    if (!(mask >> i & 1))
      out->dims[out->ndim++] = x->dims[i];
    else if (keepdims)
      out->dims[out->ndim++] = tenon_extent(1);
  }
  return TENON_OK;
}

/* Sums and products of known extents stay known. */
static tenon_status_t fold_values(tenon_infer_t *infer, uint32_t operation, int64_t identity) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(reduce_infer(infer));
  if (!x->values || x->ndim != 1 || out->ndim < 0 || (out->ndim == 1 && !dim_is(out->dims[0], 1)))
    return TENON_OK;
  out->values[0] = tenon_extent(identity);
  for (uint32_t i = 0; i < x->value_count; i++)
    out->values[0] = i ? tenon_dim(infer, operation, out->values[0], x->values[i]) : x->values[0];
  out->value_count = 1;
  return TENON_OK;
}
static tenon_status_t sum_infer(tenon_infer_t *infer) {
  return fold_values(infer, TENON_DIM_ADD, 0);
}
static tenon_status_t prod_infer(tenon_infer_t *infer) {
  return fold_values(infer, TENON_DIM_MUL, 1);
}

static tenon_status_t sum_to_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t shape;
  TENON_TRY(ints_read(infer, 1, &shape));
  if (shape.count > x->ndim)
    return tenon_fail(infer, TENON_INVALID,
                      "shape has %d extents, which cannot have been broadcast to rank %d",
                      shape.count, x->ndim);
  if (!shape.known) return out_unknown(infer, out, shape.count);
  out->ndim = shape.count;
  for (int32_t i = 0; i < shape.count; i++) {
    out->dims[i] = shape.at[i];
    if (!dim_is(shape.at[i], 1) && dim_differ(shape.at[i], x->dims[x->ndim - shape.count + i]))
      return tenon_fail(infer, TENON_INVALID, "shape %s cannot have been broadcast to %s",
                        dims_text(shape.at, shape.count).text, dims_text(x->dims, x->ndim).text);
  }
  return TENON_OK;
}
#endif

/* clang-format off */
#define ARGUMENTS                                                                                  \
  "(Tensor x, Tensor? @host axes=None, *, bool keepdims=True, "                                    \
  "bool noop_with_empty_axes=False) -> Tensor"
/* Elements that equal the result share the gradient. */
#define IS_IT "core::cast_like(core::equal(x, " SPREAD("out") "), x)"
#define SHARED                                                                                     \
  TENON_GRADIENT("x: core::mul(" IS_IT ", "                                                        \
                 SPREAD("core::div(grad, core::reduce_sum(" IS_IT                                  \
                        ", axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes))")  \
                 ")")
#define SPREAD(value)                                                                              \
  "core::spread(" value                                                                            \
  ", core::shape(x), axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)"
#define FACTS(doc, types, infer)                                                                   \
  TENON_DOC(doc),                                                                                  \
  TENON_TYPES("x: " types "; axes: i64|i32; out = x"),                                             \
  TENON_WHERE("axes: known"),                                                                      \
  TENON_REDUCES("x over axes"),                                                                    \
  TENON_TRAITS(TENON_PURE),                                                                        \
  TENON_INFER(infer)
/* X(name, fold, what happens to the result, facts) */
#define REDUCTIONS(X)                                                                              \
  X(reduce_sum, FOLD_SUM, AS_IT_IS,                                                                \
    (FACTS("The sum over axes.", "number", sum_infer), TENON_GRADIENT("x: " SPREAD("grad"))))      \
  X(reduce_mean, FOLD_SUM, MEAN,                                                                   \
    (FACTS("The mean over axes.", "number", reduce_infer),                                         \
     TENON_GRADIENT("x: " SPREAD("core::div(grad, core::size_ratio(x, out))"))))                   \
  X(reduce_max, FOLD_MAX, AS_IT_IS,                                                                \
    (FACTS("The largest element over axes.", "number|bool", reduce_infer), SHARED))                \
  X(reduce_min, FOLD_MIN, AS_IT_IS,                                                                \
    (FACTS("The smallest element over axes.", "number|bool", reduce_infer), SHARED))               \
  X(reduce_prod, FOLD_PROD, AS_IT_IS,                                                              \
    (FACTS("The product over axes.", "number", prod_infer),                                        \
     TENON_GRADIENT("x: core::reduce_prod_backward(grad, x, axes, keepdims=keepdims, "             \
                    "noop_with_empty_axes=noop_with_empty_axes)")))                                \
  X(reduce_l1, FOLD_ABS, AS_IT_IS,                                                                 \
    (FACTS("The sum of absolute values over axes.", "number", reduce_infer),                       \
     TENON_GRADIENT("x: core::mul(core::sign(x), " SPREAD("grad") ")")))                           \
  X(reduce_l2, FOLD_SQUARE, ROOT,                                                                  \
    (FACTS("The Euclidean norm over axes.", "number", reduce_infer),                               \
     TENON_GRADIENT("x: core::mul(core::div(x, " SPREAD("out") "), " SPREAD("grad") ")")))         \
  X(reduce_sum_square, FOLD_SQUARE, AS_IT_IS,                                                      \
    (FACTS("The sum of squares over axes.", "number", reduce_infer),                               \
     TENON_GRADIENT("x: core::mul(core::add(x, x), " SPREAD("grad") ")")))                         \
  X(reduce_log_sum, FOLD_SUM, LOGARITHM,                                                           \
    (FACTS("The logarithm of the sum over axes.", "float", reduce_infer),                          \
     TENON_GRADIENT("x: core::div(" SPREAD("grad") ", core::exp(" SPREAD("out") "))")))            \
  X(reduce_log_sum_exp, FOLD_SUM, LOG_OF_SHIFTED,                                                  \
    (FACTS("The logarithm of the sum of exponentials over axes.", "float", reduce_infer),          \
     TENON_GRADIENT("x: core::mul(core::exp(core::sub(x, " SPREAD("out") ")), " SPREAD("grad")     \
                    ")")))
/* clang-format on */

#define STUB_(name, fold, how, facts)                                                              \
  static tenon_status_t name##_stub(const tenon_iterator_t *it) {                                  \
    return reduce_tensor(it, fold, how);                                                           \
  }
/* clang-format off */
REDUCTIONS(STUB_)

#define OPERATOR_(name, fold, how, facts)                                                          \
  OPERATOR(name, ARGUMENTS, facts, STUB("number|bool", name##_stub))
FAMILY(core_reduction,
  REDUCTIONS(OPERATOR_)
  OPERATOR(sum_to, "(Tensor x, Tensor @host shape) -> Tensor",
    (TENON_DOC("The sum over all axes that broadcasting this shape to the shape of x added or "
               "stretched."),
     TENON_SAMPLES("x: [n, m], shape: [2] [n, 1]"),
     TENON_TYPES("x: number; shape: i64|i32; out = x"),
     TENON_WHERE("shape: known"),
     TENON_REDUCES("x"),
     TENON_TRAITS(TENON_PURE),
     TENON_INFER(sum_to_infer),
     TENON_GRADIENT("x: core::expand(grad, core::shape(x))")),
    STUB("number", sum_to_stub)))
/* clang-format on */
