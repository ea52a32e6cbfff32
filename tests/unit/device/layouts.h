/* Tensors from text with different layouts in memory: views of larger tensors. Include after
 * operators.h. */
#ifndef TENON_TESTS_LAYOUTS_H
#define TENON_TESTS_LAYOUTS_H

enum {
  DENSE,
  TURNED,
  REVERSED,
  INSIDE,
  LAYOUTS,
};
static const char *const layouts[] = {"dense", "with its axes in reverse order", "backwards",
                                      "inside a larger one"};

static inline tenon_tensor_t *layout_call(const char *name, const char *attrs_text,
                                          tenon_tensor_t *x, const char *const *more) {
  const tenon_op_t *op = op_of(name);
  tenon_tensor_t *inputs[8] = {x};
  tenon_tensor_t *out[1] = {NULL};
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  int32_t count = op_info(op).input_count;
  for (int32_t i = 1; i < count; i++)
    inputs[i] = more && more[i - 1] ? tensor_of(more[i - 1]) : NULL;
  CHECK_STATUS(tenon_op_call(op, attr_values(attrs), inputs, out, 0), TENON_OK);
  for (int32_t i = 1; i < count; i++)
    tenon_tensor_release(inputs[i]);
  tenon_attrs_release(attrs);
  return out[0];
}

static inline void layout_list(char *out, int32_t ndim, int step,
                               int base) { /* Formats "i64[3] base base+step ...". */
  int used = sprintf(out, "i64[%d]", ndim);
  for (int32_t i = 0; i < ndim; i++)
    used += sprintf(out + used, " %d", base + step * i);
}

/* Makes the view that gives a tensor this layout. INSIDE leaves one element before and one behind
 * the tensor on every axis. */
static inline tenon_tensor_t *layout_view(tenon_tensor_t *x, int layout) {
  char a[200], b[200], c[200], d[200];
  if (layout == TURNED) return layout_call("core::transpose", NULL, x, NULL);
  layout_list(a, x->ndim, 0, layout == REVERSED ? -1 : 1);
  layout_list(b, x->ndim, 0, layout == REVERSED ? INT32_MIN : -1);
  layout_list(c, x->ndim, 1, 0);
  layout_list(d, x->ndim, 0, layout == REVERSED ? -1 : 1);
  const char *const more[] = {a, b, c, d};
  return layout_call("core::slice", NULL, x, more);
}

/* Copies a tensor to the device in that layout, with the same elements. */
static inline tenon_tensor_t *layout_place(tenon_tensor_t *x, tenon_device_t device, int layout) {
  tenon_tensor_t *there = NULL;
  tenon_tensor_t *out, *lying;
  if (tensor_has(x, TENON_LIST)) {
    tenon_tensor_t *items[16];
    tenon_tensor_t *all = NULL;
    for (int64_t i = 0; i < x->shape[0]; i++)
      items[i] = layout_place(tenon_item(x, i), device, layout);
    CHECK_STATUS(tenon_tensor_list(items, (int32_t)x->shape[0], &all), TENON_OK);
    for (int64_t i = 0; i < x->shape[0]; i++)
      tenon_tensor_release(items[i]);
    return all;
  }
  if (layout == DENSE || x->ndim == 0 || tenon_count(x) == 0) {
    CHECK_STATUS(tenon_tensor_copy_to(x, device, &out), TENON_OK);
    return out;
  }
  if (layout == INSIDE) {
    char pads[400];
    layout_list(pads, 2 * x->ndim, 0, 1);
    const char *const more[] = {pads, NULL, NULL};
    lying = layout_call("core::pad", NULL, x, more);
  } else {
    lying = layout_view(x, layout);
  }
  CHECK_STATUS(tenon_tensor_copy_to(lying, device, &there), TENON_OK);
  out = layout_view(there, layout);
  tenon_tensor_release(lying);
  tenon_tensor_release(there);
  return out;
}

#endif
