/* Operators of the library `contract` about shapes: a declared number of results, inferred weights,
 * values that infer needs, and shapes known only after run, with a bound and without. */
#include <string.h>

#include "contract.h"

static size_t element_size(const tenon_tensor_t *x) { return (size_t)(x->dtype.bits / 8); }

/* split */

static tenon_status_t split_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *out = infer->outputs[0];
  int64_t axis = infer->attrs[1].as.i;
  tenon_dim_t n = tenon_extent((int64_t)out->count);
  if (axis < 0) axis += x->ndim;
  if (axis < 0 || axis >= x->ndim)
    return tenon_fail(infer, TENON_INVALID, "axis %lld of a tensor of rank %d", (long long)axis,
                      (int)x->ndim);
  tenon_dim_t part = tenon_dim(infer, TENON_DIM_DIV, x->dims[axis], n);
  tenon_dim(infer, TENON_DIM_EQUAL, tenon_dim(infer, TENON_DIM_MUL, part, n), x->dims[axis]);
  for (uint32_t i = 0; i < out->count; i++) {
    out->items[i]->ndim = x->ndim;
    for (int32_t d = 0; d < x->ndim; d++)
      out->items[i]->dims[d] = d == axis ? part : x->dims[d];
  }
  return TENON_OK;
}

static tenon_status_t split_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *list = call->outputs[0];
  int64_t axis = call->attrs[1].as.i;
  int64_t outer = 1;
  int64_t n = list->shape[0];
  if (axis < 0) axis += x->ndim;
  for (int64_t d = 0; d < axis; d++)
    outer *= x->shape[d];
  const char *from = (const char *)x->data;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < n; i++) {
      size_t bytes =
          (size_t)(tenon_count(tenon_item(list, i)) / (outer ? outer : 1)) * element_size(x);
      memcpy((char *)tenon_item(list, i)->data + (size_t)o * bytes, from, bytes);
      from += bytes;
    }
  return TENON_OK;
}

/* The inverse of split: a list as an input. */
static tenon_status_t stack_infer(tenon_infer_t *infer) {
  const tenon_meta_t *xs = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (xs->count == 0) return tenon_fail(infer, TENON_INVALID, "nothing to stack");
  out->ndim = xs->items[0]->ndim + 1;
  out->dims[0] = tenon_extent((int64_t)xs->count);
  for (uint32_t i = 0; i < xs->count; i++) {
    if (xs->items[i]->ndim + 1 != out->ndim)
      return tenon_fail(infer, TENON_INVALID, "item %u has another rank", i);
    for (int32_t d = 1; d < out->ndim; d++) {
      tenon_dim_t extent = xs->items[i]->dims[d - 1];
      out->dims[d] = i ? tenon_dim(infer, TENON_DIM_EQUAL, out->dims[d], extent) : extent;
    }
  }
  return TENON_OK;
}

static tenon_status_t stack_run(tenon_call_t *call) {
  const tenon_tensor_t *xs = call->inputs[0];
  char *to = (char *)call->outputs[0]->data;
  for (int64_t i = 0; i < xs->shape[0]; i++) {
    size_t bytes = (size_t)tenon_count(tenon_item(xs, i)) * element_size(call->outputs[0]);
    memcpy(to, tenon_item(xs, i)->data, bytes);
    to += bytes;
  }
  return TENON_OK;
}

/* inferred weights */

static tenon_status_t project_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *weight = call->inputs[1];
  const float *a = (const float *)x->data;
  const float *w = (const float *)weight->data;
  float *out = (float *)call->outputs[0]->data;
  int64_t units = weight->shape[0];
  int64_t width = weight->shape[1];
  int64_t rows = units ? tenon_count(call->outputs[0]) / units : 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t u = 0; u < units; u++) {
      float sum = 0;
      for (int64_t k = 0; k < width; k++)
        sum += a[r * width + k] * w[u * width + k];
      out[r * units + u] = sum;
    }
  return TENON_OK;
}

/* The same rule as a function: the weight [units, x's last extent] is inferred. */
static tenon_status_t project_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *weight = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  tenon_dim_t units = tenon_extent(infer->attrs[0].as.i);
  if (x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "x is a scalar: expected at least one dimension");
  tenon_dim_t want[2] = {units, x->dims[x->ndim - 1]};
  if (weight->ndim >= 0 && weight->ndim != 2)
    return tenon_fail(infer, TENON_INVALID, "weight has %d dimensions: expected [units, inputs]",
                      (int)weight->ndim);
  for (int32_t d = 0; d < 2; d++)
    weight->dims[d] =
        weight->ndim < 0 ? want[d] : tenon_dim(infer, TENON_DIM_EQUAL, want[d], weight->dims[d]);
  weight->ndim = 2;
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[d] = d == x->ndim - 1 ? units : x->dims[d];
  return TENON_OK;
}

/* values that infer needs */

static tenon_status_t fill_infer(tenon_infer_t *infer) {
  const tenon_meta_t *shape = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  if (shape->ndim != 1)
    return tenon_fail(infer, TENON_INVALID, "shape has rank %d: expected 1", (int)shape->ndim);
  /* During compilation at most the number of extents is known. */
  if (!shape->values) {
    if (!tenon_is_known(shape->dims[0])) return TENON_OK;
    out->ndim = (int32_t)shape->dims[0].value;
    for (int32_t d = 0; d < out->ndim; d++)
      out->dims[d] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
    return TENON_OK;
  }
  out->ndim = (int32_t)shape->value_count;
  for (int32_t d = 0; d < out->ndim; d++)
    out->dims[d] = shape->values[d];
  return TENON_OK;
}

static tenon_status_t fill_run(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  float *out = (float *)call->outputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->outputs[0]); i < n; i++)
    out[i] = *x;
  return TENON_OK;
}

/* shapes known only after run */

static int64_t count_above(const tenon_tensor_t *x, float above) {
  int64_t found = 0;
  for (int64_t i = 0, n = tenon_count(x); i < n; i++)
    found += ((const float *)x->data)[i] > above;
  return found;
}

static tenon_status_t nonzero_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  tenon_dim_t count = tenon_extent(1);
  for (int32_t d = 0; d < infer->inputs[0]->ndim; d++)
    count = tenon_dim(infer, TENON_DIM_MUL, count, infer->inputs[0]->dims[d]);
  out->ndim = 1;
  out->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, count, tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t nonzero_run(tenon_call_t *call) {
  const float *x = (const float *)call->inputs[0]->data;
  int64_t *out = (int64_t *)call->outputs[0]->data;
  int64_t found = 0;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    if (x[i] != 0) out[found++] = i;
  return call->host->resize(call, 0, 1, &found);
}

static tenon_status_t collect_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t collect_run(tenon_call_t *call) {
  float above = (float)call->attrs[0].as.f;
  float *out;
  int64_t count = count_above(call->inputs[0], above);
  TENON_TRY(call->host->resize(call, 0, 1, &count));
  out = (float *)call->outputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++)
    if (((const float *)call->inputs[0]->data)[i] > above)
      *out++ = ((const float *)call->inputs[0]->data)[i];
  return TENON_OK;
}

/* Removes axes of extent 1, so the rank is known only after run. */
static tenon_status_t strip_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = -1;
  return TENON_OK;
}

static tenon_status_t strip_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim = 0;
  for (int32_t d = 0; d < x->ndim; d++)
    if (x->shape[d] != 1) shape[ndim++] = x->shape[d];
  TENON_TRY(call->host->resize(call, 0, ndim, shape));
  memcpy(call->outputs[0]->data, x->data, (size_t)tenon_count(x) * element_size(x));
  return TENON_OK;
}

/* infer declares fewer elements than run returns; the host must refuse that. */
static tenon_status_t liar_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(1), tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t liar_run(tenon_call_t *call) {
  int64_t shape[2] = {2, 1};
  return call->host->resize(call, 0, (int32_t)call->attrs[0].as.i, shape);
}

/* It never reports the shape. */
static tenon_status_t silent_run(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}

/* several results */

static tenon_status_t top_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim < 1) return tenon_fail(infer, TENON_INVALID, "x is a scalar");
  for (int o = 0; o < 2; o++) {
    tenon_meta_t *out = infer->outputs[o];
    if (!out) continue;
    out->ndim = x->ndim;
    for (int32_t d = 0; d < x->ndim - 1; d++)
      out->dims[d] = x->dims[d];
    out->dims[x->ndim - 1] = tenon_extent(infer->attrs[0].as.i);
  }
  if (tenon_is_known(x->dims[x->ndim - 1]) && x->dims[x->ndim - 1].value < infer->attrs[0].as.i)
    return tenon_fail(infer, TENON_INVALID, "the %lld largest of %lld",
                      (long long)infer->attrs[0].as.i, (long long)x->dims[x->ndim - 1].value);
  return TENON_OK;
}

static tenon_status_t top_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int64_t width = x->shape[x->ndim - 1];
  int64_t k = call->attrs[0].as.i;
  int64_t rows = width ? tenon_count(x) / width : 0;
  float *values = (float *)call->outputs[0]->data;
  int64_t *indices = call->outputs[1] ? (int64_t *)call->outputs[1]->data : NULL;
  for (int64_t r = 0; r < rows; r++) {
    const float *row = (const float *)x->data + r * width;
    for (int64_t i = 0; i < k; i++) {
      int64_t best = -1;
      for (int64_t j = 0; j < width;
           /* Finds the largest element after the one found last; of equal elements, the first. */
           j++) {
        int after = i == 0 || row[j] < values[r * k + i - 1];
        if (after && (best < 0 || row[j] > row[best])) best = j;
      }
      if (best < 0)
        return tenon_fail(call, TENON_INVALID, "row %lld has fewer than %lld different values",
                          (long long)r, (long long)k);
      values[r * k + i] = row[best];
      if (indices) indices[r * k + i] = best;
    }
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_shapes,
  TENON_OP("split(Tensor x, *, int n, int axis=0) -> Tensor[n]",
    TENON_DOC("Cuts a tensor into n equal parts"),
    TENON_TYPES("x: any; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(split_infer),
    TENON_KERNEL("cpu", split_run)),
  TENON_OP("stack(Tensor[] xs) -> Tensor",
    TENON_TYPES("xs: number; out = xs"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(stack_infer),
    TENON_KERNEL("cpu", stack_run)),
  TENON_OP("project(Tensor x, Tensor weight, *, int units) -> Tensor",
    TENON_TYPES("x, weight: f32; out = x"),
    TENON_SHAPES("x: [..., k]; weight: [units, k]; out: [..., units]"),
    TENON_WHERE("weight: deduced"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", project_run)),
  TENON_OP("project_by_function(Tensor x, Tensor weight, *, int units) -> Tensor",
    TENON_TYPES("x, weight: f32; out = x"),
    TENON_WHERE("weight: deduced"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(project_infer),
    TENON_KERNEL("cpu", project_run)),
  TENON_OP("fill(Tensor x, Tensor @host shape) -> Tensor",
    TENON_TYPES("x: f32; shape: i64; out = x"),
    TENON_WHERE("shape: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(fill_infer),
    TENON_KERNEL("cpu", fill_run)),
  TENON_OP("nonzero(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(nonzero_infer),
    TENON_KERNEL("cpu", nonzero_run)),
  TENON_OP("collect(Tensor x, *, float above=0.0) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(collect_infer),
    TENON_KERNEL("cpu", collect_run)),
  TENON_OP("strip(Tensor x) -> Tensor",
    TENON_TYPES("x: number; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(strip_infer),
    TENON_KERNEL("cpu", strip_run)),
  TENON_OP("liar(Tensor x, *, int rank=1) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_INFER(liar_infer),
    TENON_KERNEL("cpu", liar_run)),
  TENON_OP("silent(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_INFER(collect_infer),
    TENON_KERNEL("cpu", silent_run)),
  TENON_OP("top(Tensor x, *, int k) -> (Tensor values, Tensor? indices)",
    TENON_TYPES("x: f32; values = x; indices = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(top_infer),
    TENON_KERNEL("cpu", top_run)))
