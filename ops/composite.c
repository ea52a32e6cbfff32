/* Calls of other operators from inside an operator; see composite.h. */
#include "composite.h"
#include "axes.h"
#include "dtype_scalar.h"
#include <string.h>

tenon_status_t core_invoke(tenon_call_t *call, int use, const tenon_value_t *attrs,
                           tenon_tensor_t *const *inputs, tenon_tensor_t **out) {
  tenon_tensor_t *results[8] = {NULL};
  tenon_status_t status = call->host->invoke(call, call->uses[use], attrs, inputs, results);
  *out = results[0];
  return status;
}

tenon_tensor_t *core_ints(tenon_call_t *call, int64_t count, const int64_t *values) {
  tenon_tensor_t *t = call->host->temporary(call, tenon_dtype(TENON_I64), 1, &count);
  if (t && count) memcpy(t->data, values, (size_t)count * sizeof *values);
  return t;
}

tenon_tensor_t *core_number(tenon_call_t *call, tenon_dtype_t dtype, double value) {
  tenon_tensor_t *t = call->host->temporary(call, dtype, 0, NULL);
  if (t) number_set(dtype, t->data, 0, value);
  return t;
}

tenon_status_t core_reshape(tenon_call_t *call, int use, tenon_tensor_t *t, int32_t ndim,
                            const int64_t *shape, tenon_tensor_t **out) {
  tenon_tensor_t *to = core_ints(call, ndim, shape);
  tenon_value_t allow_zero = value_flag(1);
  return to ? INVOKE(call, use, &allow_zero, out, t, to) : TENON_MEMORY;
}

tenon_status_t core_with(tenon_call_t *call, int use, tenon_tensor_t *t, double number,
                         tenon_tensor_t **out) {
  tenon_tensor_t *other = core_number(call, t->dtype, number);
  return other ? INVOKE(call, use, NULL, out, t, other) : TENON_MEMORY;
}

tenon_status_t core_slice(tenon_call_t *call, int use, tenon_tensor_t *t, int64_t axis,
                          int64_t begin, int64_t end, tenon_tensor_t **out) {
  tenon_tensor_t *from = core_ints(call, 1, &begin);
  tenon_tensor_t *to = core_ints(call, 1, &end);
  tenon_tensor_t *along = core_ints(call, 1, &axis);
  return from && to && along ? INVOKE(call, use, NULL, out, t, from, to, along) : TENON_MEMORY;
}

tenon_status_t core_along(tenon_call_t *call, int use, tenon_tensor_t *t, int64_t axis,
                          tenon_tensor_t **out) {
  tenon_tensor_t *axes = core_ints(call, 1, &axis);
  return axes ? INVOKE(call, use, NULL, out, t, axes) : TENON_MEMORY;
}

tenon_status_t core_concat(tenon_call_t *call, int use, int64_t axis, int64_t count,
                           tenon_tensor_t **items, tenon_tensor_t **out) {
  int64_t stride = 1;
  tenon_value_t along = value_int(axis);
  tenon_tensor_t list = {.data = items,
                         .device = {1, 0},
                         .ndim = 1,
                         .dtype = tenon_dtype(TENON_LIST),
                         .shape = &count,
                         .strides = &stride};
  for (int64_t i = 0; i < count; i++)
    list.keys |= items[i]->keys; /* the list has the dispatch keys of its items */
  return INVOKE(call, use, &along, out, &list);
}

tenon_status_t core_product(tenon_call_t *call, int use, tenon_tensor_t *a, tenon_tensor_t *b,
                            int transpose_b, tenon_tensor_t **out) {
  tenon_value_t attrs[5] = {value_flag(0), value_flag(transpose_b), value_choice(0), value_float(0),
                            value_float(0)};
  return INVOKE(call, use, attrs, out, a, b);
}

tenon_status_t core_gradient_check(tenon_infer_t *infer, tenon_infer_fn forward,
                                   tenon_meta_t *const *of) {
  const tenon_meta_t *dy = infer->inputs[0];
  const tenon_meta_t *x = of[0];
  tenon_dim_t dims[TENON_RANK_MAX], strides[TENON_RANK_MAX], values[64];
  tenon_meta_t result = {.size = sizeof result,
                         .dtype = x->dtype,
                         .device = x->device,
                         .dims = dims,
                         .strides = strides};
  tenon_meta_t *results[64] = {&result};
  tenon_meta_t *const *inputs = infer->inputs;
  tenon_meta_t *const *outputs = infer->outputs;
  tenon_status_t status = TENON_OK;
  result.values = values;
  result.ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++)
    dims[d] = x->dims[d];
  /* Modifies infer in place, because the host keeps its own data around the structure. */
  infer->inputs = of;
  infer->outputs = results;
  if (forward) status = forward(infer);
  infer->inputs = inputs;
  infer->outputs = outputs;
  TENON_TRY(status);
  if (result.ndim < 0) return TENON_OK;
  int wrong = dy->ndim != result.ndim;
  for (int32_t d = 0; !wrong && d < dy->ndim; d++)
    wrong = dim_differ(dy->dims[d], dims[d]);
  if (!wrong) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID,
                    "the gradient has shape %s, which is not the shape of the forward result, %s",
                    dims_text(dy->dims, dy->ndim).text, dims_text(dims, result.ndim).text);
}

tenon_status_t core_backward_infer(tenon_infer_t *infer, uint32_t count, int32_t least,
                                   tenon_infer_fn forward) {
  const tenon_meta_t *x = infer->inputs[1];
  if (x->ndim < least)
    return tenon_fail(infer, TENON_INVALID, "%s has %d axes; expected at least %d",
                      dims_text(x->dims, x->ndim).text, x->ndim, least);
  TENON_TRY(core_gradient_check(infer, forward, infer->inputs + 1));
  return core_gradients_infer(infer, 1, count);
}

tenon_status_t core_shaped_infer(tenon_infer_t *infer, uint32_t shape, tenon_infer_fn forward,
                                 tenon_meta_t **of, uint32_t at) {
  const tenon_meta_t *dy = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  tenon_meta_t x = {.size = sizeof x, .dtype = dy->dtype, .device = dy->device};
  ints_t list;
  TENON_TRY(ints_read(infer, shape, &list));
  if (list.count > TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID, "the shape has %d extents; a tensor has at most %d",
                      list.count, (int)TENON_RANK_MAX);
  if (!list.known) return out_unknown(infer, out, list.count);
  out->ndim = x.ndim = list.count;
  x.dims = list.at;
  for (int32_t i = 0; i < list.count; i++) {
    if (tenon_is_known(list.at[i]) && list.at[i].value < 0)
      return tenon_fail(infer, TENON_INVALID, "extent %d of the shape is %" PRId64, i,
                        list.at[i].value);
    out->dims[i] = list.at[i];
  }
  int64_t numbers[INTS_MAX];
  /* not every operator can infer from symbols */
  if (!ints_numbers(&list, numbers)) return TENON_OK;
  of[at] = &x;
  tenon_status_t status = core_gradient_check(infer, forward, of);
  of[at] = NULL;
  return status;
}

tenon_status_t core_gradients_infer(tenon_infer_t *infer, uint32_t first, uint32_t count) {
  for (uint32_t o = 0; o < count; o++) {
    const tenon_meta_t *of = infer->inputs[first + o];
    tenon_meta_t *out = infer->outputs[o];
    if (out && !of)
      return tenon_fail(infer, TENON_INVALID,
                        "a gradient is requested for an input that is absent");
    if (!out) continue;
    out->ndim = of->ndim;
    for (int32_t d = 0; d < of->ndim; d++)
      out->dims[d] = of->dims[d];
  }
  return TENON_OK;
}
