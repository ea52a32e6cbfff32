/* Short functions for the tests of gradients. Include after operators.h. */
#ifndef TENON_TESTS_AUTOGRAD_TAPE_H
#define TENON_TESTS_AUTOGRAD_TAPE_H

static inline tenon_tensor_t *leaf(const char *text) {
  tenon_tensor_t *t = tensor_of(text);
  CHECK_STATUS(tenon_tensor_require_grad(t, 1), TENON_OK);
  return t;
}

static inline tenon_status_t try_op(const char *name, const char *attrs_text, tenon_tensor_t *a,
                                    tenon_tensor_t *b, tenon_tensor_t **out) {
  const tenon_op_t *op = op_of(name);
  tenon_attrs_t *attrs = op ? attrs_of(op, attrs_text) : NULL;
  tenon_tensor_t *inputs[8] = {a, b};
  tenon_tensor_t *outputs[8] = {NULL};
  tenon_status_t status =
      op ? tenon_op_call(op, attr_values(attrs), inputs, outputs, 1) : TENON_NOT_FOUND;
  *out = outputs[0];
  tenon_attrs_release(attrs);
  return status;
}

static inline tenon_tensor_t *apply(const char *name, tenon_tensor_t *a, tenon_tensor_t *b) {
  tenon_tensor_t *out;
  CHECK_STATUS(try_op(name, NULL, a, b, &out), TENON_OK);
  return out;
}

/* Calls an operator like `apply`, and releases the first input. */
static inline tenon_tensor_t *then(tenon_tensor_t *a, const char *name, tenon_tensor_t *b) {
  tenon_tensor_t *out = apply(name, a, b);
  tenon_tensor_release(a);
  return out;
}

static inline tenon_status_t backward(tenon_tensor_t *output, uint32_t flags) {
  return tenon_backward(&output, NULL, 1, flags);
}

#define RELEASE(...)                                                                               \
  do {                                                                                             \
    tenon_tensor_t *all_[] = {__VA_ARGS__};                                                        \
    for (size_t i_ = 0; i_ < sizeof all_ / sizeof *all_; i_++)                                     \
      tenon_tensor_release(all_[i_]);                                                              \
  } while (0)

#endif
