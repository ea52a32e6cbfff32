/* The gradient of every core operator on a device where everything falls back: it equals the CPU's
 * gradient and is stored on the device. */
#define TENON_STATIC
#include "check.h"
#include "operator/op.h"
#include "tensors.h"

#include "operators.h"

#include "cases.h"
#include "npu.h"

enum { RESULTS = 8 };
typedef struct trial_t {
  const case_t *c;
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  uint64_t wanted;
} trial_t;

static tenon_tensor_t *to(tenon_tensor_t *t, tenon_device_t device) {
  tenon_tensor_t *moved = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(t, device, &moved), TENON_OK);
  return moved;
}

static bool is_f64(const tenon_tensor_t *t) { return tenon_dtype_id(t->dtype) == TENON_F64; }

/* Makes the inputs leaves, on the device unless the operator takes them on the host; items of lists
 * stay in their list. */
static void make_inputs(const trial_t *t, tenon_device_t device, tenon_tensor_t **inputs,
                        tenon_tensor_t **leaves, int *leaf_count) {
  *leaf_count = 0;
  for (uint32_t i = 0; i < t->op->input_count; i++) {
    const char *text = t->c->inputs[i];
    bool is_fixed = text && *text == '=';
    bool stays = t->op->schema.inputs[i].is_host;
    tenon_tensor_t *whole = text ? tensor_of(text + is_fixed) : NULL;
    tenon_tensor_t *items[16];
    bool is_list = whole && tensor_has(whole, TENON_LIST);
    int64_t count = !whole ? 0 : is_list ? whole->shape[0] : 1;
    inputs[i] = NULL;
    for (int64_t k = 0; k < count; k++) {
      tenon_tensor_t *item = is_list ? tenon_item(whole, k) : whole;
      items[k] =
          to(item, stays || tensor_has(item, TENON_STRING) ? (tenon_device_t){1, 0} : device);
      if (is_fixed || stays || !is_f64(items[k])) continue;
      CHECK_STATUS(tenon_tensor_require_grad(items[k], 1), TENON_OK);
      tenon_tensor_retain(leaves[(*leaf_count)++] = items[k]);
    }
    if (is_list)
      CHECK_STATUS(tenon_tensor_list(items, (int32_t)count, &inputs[i]), TENON_OK);
    else if (whole)
      tenon_tensor_retain(inputs[i] = items[0]);
    for (int64_t k = 0; k < count; k++)
      tenon_tensor_release(items[k]);
    tenon_tensor_release(whole);
  }
}

/* Computes the gradients of the leaves from weights for all f64 results. */
static tenon_status_t run(const trial_t *t, tenon_device_t device, tenon_tensor_t **grads,
                          int *count) {
  enum { MOST = 16 };
  tenon_tensor_t *inputs[CASE_INPUTS], *leaves[2 * CASE_INPUTS];
  tenon_tensor_t *results[RESULTS] = {NULL};
  tenon_tensor_t *flat[MOST], *weights[MOST];
  int n = 0;
  int leaf_count = 0;
  make_inputs(t, device, inputs, leaves, &leaf_count);
  tenon_random_seed(3);
  tenon_status_t status = tenon_op_call(t->op, t->attrs, inputs, results, t->wanted);
  for (int o = 0; o < RESULTS && status == TENON_OK; o++) {
    bool is_list = results[o] && tensor_has(results[o], TENON_LIST);
    for (int64_t k = 0;
         results[o] && t->wanted >> o & 1 && k < (is_list ? results[o]->shape[0] : 1); k++) {
      tenon_tensor_t *r = is_list ? tenon_item(results[o], k) : results[o];
      tenon_tensor_t *w = NULL;
      if (!is_f64(r) || !tenon_tensor_requires_grad(r) || n == MOST) continue;
      CHECK_STATUS(tenon_tensor_create(r->dtype, r->ndim, r->shape, &w), TENON_OK);
      for (int64_t i = 0; i < tenon_count(w); i++)
        ((double *)w->data)[i] = 0.3 + 0.1 * (double)(i % 7);
      flat[n] = r;
      weights[n++] = to(w, r->device);
      tenon_tensor_release(w);
    }
  }
  *count = n ? leaf_count : 0;
  if (status == TENON_OK && n)
    status = tenon_gradients(flat, weights, n, leaves, *count, TENON_GRAD_UNUSED, grads);
  for (int i = 0; i < n; i++)
    tenon_tensor_release(weights[i]);
  for (int o = 0; o < RESULTS; o++)
    tenon_tensor_release(results[o]);
  for (uint32_t i = 0; i < t->op->input_count; i++)
    tenon_tensor_release(inputs[i]);
  for (int i = 0; i < leaf_count; i++)
    tenon_tensor_release(leaves[i]);
  return status;
}

static void check_case(const case_t *c) {
  trial_t t = {c, op_of(c->op), NULL, 1};
  const char *text = c->attrs;
  char *end;
  if (text && *text == '@') {
    t.wanted = strtoull(text + 1, &end, 10);
    text = end + strspn(end, " ");
  }
  tenon_attrs_t *attrs = attrs_of(t.op, text);
  t.attrs = attr_values(attrs);
  tenon_tensor_t *here[2 * CASE_INPUTS] = {NULL};
  tenon_tensor_t *there[2 * CASE_INPUTS] = {NULL};
  int here_count = 0;
  int there_count = 0;
  tenon_status_t first = run(&t, (tenon_device_t){1, 0}, here, &here_count);
  tenon_status_t second = run(&t, npu_device, there, &there_count);
  /* Its result is sparse, and sparse tensors exist on the host only. */
  if (strcmp(c->op, "core::to_sparse") == 0) {
    CHECK(second == TENON_UNIMPLEMENTED);
    CHECK_TEXT(tenon_error(), "a result is sparse");
    second = TENON_OK;
    here_count = there_count = 0;
  }
  check_report(first == TENON_OK && second == TENON_OK, __FILE__, __LINE__, c->op,
               second == TENON_OK && first == TENON_OK ? NULL : tenon_error());
  CHECK(here_count == there_count || second != TENON_OK);
  for (int i = 0; i < here_count && i < there_count && second == TENON_OK; i++) {
    if (!check_report(!here[i] == !there[i], __FILE__, __LINE__, c->op,
                      "a gradient is there only once") ||
        !here[i])
      continue;
    check_report(there[i]->device.type == npu_device.type, __FILE__, __LINE__, c->op,
                 "the gradient is not there");
    tenon_tensor_t *back = to(there[i], (tenon_device_t){1, 0});
    check_report(tensor_equal(back, here[i], 1e-12), __FILE__, __LINE__, c->op,
                 "the gradients differ");
    tenon_tensor_release(back);
  }
  for (int i = 0; i < 2 * CASE_INPUTS; i++) {
    tenon_tensor_release(here[i]);
    tenon_tensor_release(there[i]);
  }
  tenon_attrs_release(attrs);
}

TEST("gradients of every operator on a device are those of the CPU") {
  npu_start();
  for (const case_t *c = cases; c < cases + sizeof cases / sizeof *cases; c++)
    check_case(c);
}

TEST("nothing is left behind") { tenon_shutdown(); }
