/* pad: for each axis a table says which element of the input each position takes, or that it takes the value.
 * All modes differ in the tables only; rows are then copied in one piece where the last axis's table allows it.
 * Invariant: a table's entry is -1 or a valid index. */
#include "axes.h"
#include "copy.h"
#include <string.h>

enum { CONSTANT, REFLECT, EDGE, WRAP };

typedef struct padding_t {
  const tenon_tensor_t *value;    /* NULL: zero */
  int64_t *table[TENON_RANK_MAX]; /* by axis of the result */
  int64_t plain, plain_end;       /* of the last axis: positions whose elements are consecutive */
  int64_t columns, size;
  int by_one; /* strings and packed dtypes */
} padding_t;

static tenon_status_t pad_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  ints_t pads, axes;
  int64_t axis_of[INTS_MAX];
  uint64_t mask = 0;
  TENON_TRY(ints_read(infer, 1, &pads));
  axes.count = x->ndim;
  int known = pads.known;
  for (int32_t i = 0; i < x->ndim; i++) axis_of[i] = i;
  if (infer->inputs[3]) {
    TENON_TRY(ints_read(infer, 3, &axes));
    known = ints_numbers(&axes, axis_of) && known;
  }
  if (!known) return out_unknown(infer, out, x->ndim);
  if (pads.count != 2 * axes.count)
    return tenon_fail(infer, TENON_INVALID, "%d pads for %d axes: two for each are wanted, all begins, then all ends",
                      pads.count, axes.count);
  TENON_TRY(axes_mask(infer, axis_of, axes.count, x->ndim, &mask));
  out_like(out, x);
  for (int32_t i = 0; i < axes.count; i++) {
    int32_t axis = (int32_t)(axis_of[i] < 0 ? axis_of[i] + x->ndim : axis_of[i]);
    tenon_dim_t both = dim_add(infer, pads.at[i], pads.at[i + axes.count]);
    out->dims[axis] = dim_add(infer, x->dims[axis], both);
    if (tenon_is_known(out->dims[axis]) && out->dims[axis].value < 0)
      return tenon_fail(infer, TENON_INVALID, "axis %d, of extent %" PRId64 ", cannot lose %" PRId64, axis,
                        x->dims[axis].value, -both.value);
    if (infer->attrs[0].as.i != CONSTANT && dim_is(x->dims[axis], 0) && !dim_is(out->dims[axis], 0))
      return tenon_fail(infer, TENON_INVALID, "axis %d is empty; only mode 'constant' can pad it", axis);
  }
  return TENON_OK;
}

static int64_t source(int64_t i, int64_t n, int64_t mode) {
  int64_t period = mode == REFLECT ? 2 * (n - 1) : n;
  if (i >= 0 && i < n) return i;
  if (mode == CONSTANT) return -1;
  if (mode == EDGE) return i < 0 ? 0 : n - 1;
  if (period == 0) return 0;
  i %= period;
  if (i < 0) i += period;
  return i < n ? i : period - i;
}

static void fill(char *to, int64_t count, int64_t size, const tenon_tensor_t *value) {
  if (!value) {
    memset(to, 0, (size_t)(count * size));
  } else if (count > 0) { /* copies of what is there already */
    memcpy(to, value->data, (size_t)size);
    for (int64_t done = 1; done < count; done *= 2)
      memcpy(to + done * size, to, (size_t)((done * 2 < count ? done : count - done) * size));
  }
}

static tenon_status_t pad_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const padding_t *p = (const padding_t *)argument;
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *out = call->outputs[0];
  int32_t last = out->ndim - 1;
  const int64_t *table = p->table[last];
  for (int64_t row = begin; row < end; row++) {
    int64_t rest = row, from = 0;
    for (int32_t i = last - 1; i >= 0 && from >= 0; i--) {
      int64_t at = p->table[i][rest % out->shape[i]];
      rest /= out->shape[i];
      from = at < 0 ? -1 : from + at * x->strides[i];
    }
    if (p->by_one) {
      for (int64_t j = 0; j < p->columns; j++) {
        int inside = from >= 0 && table[j] >= 0;
        if (inside || p->value)
          TENON_TRY(
              core_move_run(call, out, row * p->columns + j, inside ? x : p->value, inside ? from + table[j] : 0, 1));
      }
      continue;
    }
    char *to = (char *)out->data + row * p->columns * p->size;
    const char *source_row = (const char *)x->data + from * p->size;
    if (from < 0) {
      fill(to, p->columns, p->size, p->value);
      continue;
    }
    for (int64_t j = 0; j < p->columns; j++) {
      if (j == p->plain && p->plain < p->plain_end) {
        memcpy(to + j * p->size, source_row + table[j] * p->size, (size_t)((p->plain_end - j) * p->size));
        j = p->plain_end - 1;
      } else if (table[j] < 0) {
        fill(to + j * p->size, 1, p->size, p->value);
      } else {
        memcpy(to + j * p->size, source_row + table[j] * p->size, (size_t)p->size);
      }
    }
  }
  return TENON_OK;
}

static tenon_status_t pad_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0], *pads = call->inputs[1], *axes = call->inputs[3];
  tenon_tensor_t *out = call->outputs[0];
  int64_t count = tenon_count(out), named = axes ? tenon_count(axes) : x->ndim, extents = 0, mode = call->attrs[0].as.i;
  int64_t before[TENON_RANK_MAX] = {0};
  padding_t p;
  if (count == 0) return TENON_OK;
  if (x->ndim == 0) return core_move_run(call, out, 0, x, 0, 1);
  for (int64_t i = 0; i < named; i++) {
    int64_t axis = axes ? tensor_int(axes, i) : i;
    before[axis < 0 ? axis + x->ndim : axis] = tensor_int(pads, i);
  }
  for (int32_t i = 0; i < out->ndim; i++) extents += out->shape[i];
  int64_t *tables = (int64_t *)call->host->allocate(call, (uint64_t)extents * sizeof *tables);
  if (!tables) return TENON_MEMORY;
  for (int32_t i = 0; i < out->ndim; i++) {
    p.table[i] = tables;
    for (int64_t j = 0; j < out->shape[i]; j++) *tables++ = source(j - before[i], x->shape[i], mode);
  }
  int32_t last = out->ndim - 1;
  p.value = call->inputs[2];
  if (p.value && tenon_count(p.value) != 1)
    return tenon_fail(call, TENON_INVALID, "the value has %" PRId64 " elements; it must have one",
                      tenon_count(p.value));
  p.columns = out->shape[last], p.size = element_size(x);
  p.by_one = tenon_dtype_id(x->dtype) == TENON_STRING || x->dtype.bits < 8;
  p.plain = before[last] > 0 ? before[last] : 0;
  p.plain_end = before[last] + x->shape[last] < p.columns ? before[last] + x->shape[last] : p.columns;
  int64_t rows = count / p.columns, grain = p.by_one ? rows : 65536 / (p.columns * p.size) + 1;
  if (p.by_one && p.value == NULL && x->dtype.bits < 8) memset(out->data, 0, (size_t)(count * x->dtype.bits + 7) / 8);
  return call->host->parallel(call, rows, grain, pad_part, &p);
}

/* clang-format off */
TENON_ITEMS(core_pad,
  TENON_OP("pad(Tensor x, Tensor @host pads, Tensor? value=None, Tensor? @host axes=None, *, "
           "str['constant', 'reflect', 'edge', 'wrap'] mode='constant') -> Tensor",
    TENON_DOC("Adds (or, if negative, removes) pads at the begins and ends of the axes."),
    TENON_TYPES("x, value: any; pads: i64|i32; axes: i64|i32; out = x"), TENON_WHERE("pads: known; axes: known"),
    TENON_TRAITS(TENON_PURE), TENON_INFER(pad_infer),
    TENON_KERNEL("cpu", pad_run))
)
