/* Every core operator with a gradient, against finite differences: first derivatives, second
 * derivatives, and inputs that are not row-major. An operator without a case is a failure. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "cases.h"

#define EACH_CASE(c) for (const case_t *c = cases; c < cases + sizeof cases / sizeof *cases; c++)

enum { LEAVES = 2 * CASE_INPUTS };
typedef struct call_t {
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  uint64_t results;
  int32_t input_count;
  /* The leaves, with the items of lists counted one by one. */
  int32_t leaf_count;
  int32_t list_size[CASE_INPUTS]; /* -1: not a list */
} call_t;

/* Joins all f64 results into one tensor: the only one, or all concatenated. Takes ownership of the
 * results. */
static tenon_status_t join(tenon_tensor_t **results, int32_t count, tenon_tensor_t **out) {
  enum { MOST = 16 };
  tenon_tensor_t *flat[MOST] = {NULL};
  tenon_tensor_t *list = NULL;
  tenon_tensor_t *shape = tensor_of("i64[1] -1");
  tenon_status_t status = TENON_OK;
  int32_t n = 0;
  for (int32_t o = 0; o < count; o++) {
    bool is_list = results[o] && tensor_has(results[o], TENON_LIST);
    for (int64_t i = 0; results[o] && i < (is_list ? results[o]->shape[0] : 1) && n < MOST; i++) {
      tenon_tensor_t *t = is_list ? tenon_item(results[o], i) : results[o];
      if (tensor_has(t, TENON_F64)) tenon_tensor_retain(flat[n++] = t);
    }
    tenon_tensor_release(results[o]);
  }
  for (int32_t i = 0; i < n && n > 1 && status == TENON_OK; i++) {
    tenon_tensor_t *line = NULL;
    status =
        tenon_op_call(op_of("core::reshape"), NULL, (tenon_tensor_t *[]){flat[i], shape}, &line, 0);
    tenon_tensor_release(flat[i]);
    flat[i] = line;
  }
  tenon_attrs_t *attrs = attrs_of(op_of("core::concat"), "axis=0");
  if (n > 1 && status == TENON_OK) status = tenon_tensor_list(flat, n, &list);
  if (list)
    status = tenon_op_call(op_of("core::concat"), attr_values(attrs), &list, out, 0);
  else if (n)
    tenon_tensor_retain(*out = flat[0]);
  for (int32_t i = 0; i < n; i++)
    tenon_tensor_release(flat[i]);
  tenon_tensor_release(list);
  tenon_tensor_release(shape);
  tenon_attrs_release(attrs);
  return status;
}

static tenon_status_t run(void *context, tenon_tensor_t *const *leaves, tenon_tensor_t **outputs) {
  enum { RESULTS = 8 };
  const call_t *c = context;
  tenon_tensor_t *inputs[CASE_INPUTS] = {NULL};
  tenon_tensor_t *results[RESULTS] = {NULL};
  tenon_status_t status = TENON_OK;
  int32_t at = 0;
  for (int32_t i = 0; i < c->input_count && status == TENON_OK; i++) {
    if (c->list_size[i] < 0)
      inputs[i] = leaves[at++];
    else {
      status = tenon_tensor_list(leaves + at, c->list_size[i], &inputs[i]);
      at += c->list_size[i];
    }
  }
  tenon_random_seed(3); /* The mask is the same each time. */
  if (status == TENON_OK) status = tenon_op_call(c->op, c->attrs, inputs, results, c->results);
  /* A sparse result has its elements in the parts. */
  if (status == TENON_OK && results[0] && results[0]->detail) {
    tenon_tensor_t *sparse = results[0];
    results[0] = NULL;
    status = tenon_op_call(op_of("core::to_dense"), NULL, &sparse, results, 0);
    tenon_tensor_release(sparse);
  }
  for (int32_t i = 0; i < c->input_count; i++)
    if (c->list_size[i] >= 0) tenon_tensor_release(inputs[i]);
  for (int32_t o = 0; o < RESULTS; o++)
    if (!(c->results >> o & 1)) {
      tenon_tensor_release(results[o]);
      results[o] = NULL;
    }
  return status == TENON_OK ? join(results, RESULTS, outputs) : status;
}

/* Computes the gradients of a weighted sum of squares of the result, as a function of the inputs;
 * the second derivatives are those of this function. */
static tenon_status_t run_gradient(void *context, tenon_tensor_t *const *inputs,
                                   tenon_tensor_t **outputs) {
  const call_t *c = context;
  tenon_tensor_t *result[8] = {NULL};
  tenon_tensor_t *square = NULL;
  tenon_tensor_t *wanted[LEAVES], *grads[LEAVES];
  int32_t count = 0;
  bool recorded = tenon_grad_mode_set(1);
  tenon_status_t status = run(context, inputs, result);
  if (status == TENON_OK)
    status = tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){result[0], result[0]},
                           &square, 0);
  for (int32_t i = 0; i < c->leaf_count; i++)
    if (tenon_tensor_requires_grad(inputs[i])) wanted[count++] = inputs[i];
  tenon_tensor_t *weights = NULL;
  if (status == TENON_OK)
    status = tenon_tensor_create(square->dtype, square->ndim, square->shape, &weights);
  for (int64_t i = 0; weights && i < tenon_count(weights); i++)
    ((double *)weights->data)[i] = 0.3 + 0.1 * (double)(i % 7);
  if (status == TENON_OK)
    status = tenon_gradients(&square, &weights, 1, wanted, count,
                             TENON_GRAD_UNUSED | (recorded ? TENON_GRAD_CREATE : 0), grads);
  for (int32_t i = 0; i < count && status == TENON_OK; i++) {
    /* A missing gradient becomes a number of i64, which `join` leaves out. */
    outputs[i] = grads[i];
    if (!outputs[i]) status = tenon_tensor_create(tenon_dtype(TENON_I64), 0, NULL, &outputs[i]);
  }
  tenon_tensor_release(result[0]);
  tenon_tensor_release(square);
  tenon_tensor_release(weights);
  tenon_grad_mode_set(recorded);
  return status;
}

static bool is_f64(const tenon_tensor_t *t) { return t && tenon_dtype_id(t->dtype) == TENON_F64; }

static void describe(const case_t *c, const char *what, const char *message) {
  char text[1500];
  size_t used = (size_t)snprintf(text, sizeof text, "%s(%s", c->op, c->attrs ? c->attrs : "");
  for (int i = 0; i < CASE_INPUTS && used < sizeof text; i++)
    if (c->inputs[i])
      used += (size_t)snprintf(text + used, sizeof text - used, "; %s", c->inputs[i]);
  snprintf(text + used, sizeof text - used, "), %s: %s", what, message);
  check_report(0, __FILE__, __LINE__, text, NULL);
}

enum {
  PLAIN,
  STRIDED,
  SECOND,
};

/* Returns how many inputs had a gradient, or -1 if the call failed. */
static int check_case(const case_t *c, int form) {
  const tenon_op_t *op = op_of(c->op);
  if (!op) return -1;
  uint64_t results = 1;
  const char *attrs_text = c->attrs;
  if (attrs_text && *attrs_text == '@') {
    char *end;
    results = strtoull(attrs_text + 1, &end, 10);
    attrs_text = end + strspn(end, " ");
  }
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_tensor_t *leaves[LEAVES] = {NULL};
  tenon_op_info_t info = op_info(op);
  call_t call = {
      .op = op, .attrs = attr_values(attrs), .results = results, .input_count = info.input_count};
  int count = 0;
  for (int32_t i = 0; i < info.input_count; i++) {
    const char *text = c->inputs[i];
    bool is_fixed = text && *text == '=';
    text += is_fixed;
    bool is_strided = form == STRIDED && text && strncmp(text, "f64", 3) == 0;
    tenon_tensor_t *t = is_strided ? tensor_strided(text) : tensor_of(text);
    bool is_list = t && tensor_has(t, TENON_LIST);
    call.list_size[i] = is_list ? (int32_t)t->shape[0] : -1;
    int32_t first = call.leaf_count;
    for (int32_t k = 0; is_list && k < t->shape[0]; k++)
      tenon_tensor_retain(leaves[call.leaf_count++] = tenon_item(t, k));
    if (is_list)
      tenon_tensor_release(t);
    else
      leaves[call.leaf_count++] = t;
    for (int32_t k = first; k < call.leaf_count; k++)
      if (is_f64(leaves[k]) && !is_fixed)
        CHECK_STATUS(tenon_tensor_require_grad(leaves[k], 1), TENON_OK), count++;
  }
  tenon_status_t status =
      form == SECOND
          ? tenon_gradient_check(run_gradient, &call, leaves, call.leaf_count, count, NULL)
          : tenon_gradient_check(run, &call, leaves, call.leaf_count, 1, NULL);
  const char *what = form == SECOND    ? "second derivative"
                     : form == STRIDED ? "strided"
                                       : "gradient";
  if (status != TENON_OK && (form != SECOND || status != TENON_UNIMPLEMENTED))
    describe(c, what, tenon_error());
  for (int32_t i = 0; i < call.leaf_count; i++)
    tenon_tensor_release(leaves[i]);
  tenon_attrs_release(attrs);
  return status == TENON_OK ? count : -1;
}

TEST("gradients of core operators agree with finite differences") {
  int count = 0;
  int all = 0;
  EACH_CASE(c) count += check_case(c, PLAIN) > 0;
  all++;
  printf("%d of %d cases have gradients\n", count, all);
}

TEST("gradients of inputs that are not row-major agree with finite differences") {
  EACH_CASE(c) check_case(c, STRIDED);
}

TEST("second derivatives agree with finite differences") {
  const char *last = "";
  int count = 0;
  EACH_CASE(c) {
    /* One case for each operator is enough. */
    if (strcmp(c->op, last) == 0) continue;
    last = c->op;
    if (check_case(c, SECOND) > 0)
      count++;
    else
      printf("no second derivative: %s\n", c->op);
  }
  printf("%d operators have second derivatives\n", count);
  CHECK(count >= 30);
}

static bool is_among(const char *name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i], name) == 0) return true;
  return false;
}

/* True if the operator has a gradient: by a text, by a kernel, or through the operators that it
 * calls. Operators that compute gradients are excluded. */
static bool has_gradient(const tenon_op_t *op, const tenon_op_info_t *info) {
  tenon_slot_info_t slot = {.size = sizeof slot};
  size_t size = strlen(info->name);
  if (info->gradient) return true;
  if (size > 9 && strcmp(info->name + size - 9, "_backward") == 0) return false;
  CHECK_STATUS(tenon_op_slot(op, "autograd", &slot), TENON_OK);
  return strcmp(slot.rule, "fallthrough") != 0;
}

TEST("every core operator with a gradient has a test case") {
  const tenon_op_t *const *ops;
  int32_t count;
  CHECK_STATUS(tenon_ops_list(&ops, &count), TENON_OK);
  for (int32_t i = 0; i < count; i++) {
    tenon_op_info_t info = op_info(ops[i]);
    bool found = !has_gradient(ops[i], &info) ||
                 is_among(info.name, without, sizeof without / sizeof *without);
    EACH_CASE(c) found |= strcmp(c->op, info.name) == 0;
    if (!found) check_report(0, __FILE__, __LINE__, "no case for", info.name);
  }
  tenon_ops_release(ops);
}

TEST("the gradient of softmax refuses a gradient whose shape differs from that of the result") {
  static const char *const names[] = {"core::softmax_backward", "core::log_softmax_backward"};
  static const char *const shapes[][2] = {{"f32[1,2] 1 2", "f32[2,2] 1 2 3 4"},
                                          {"f32[2,2] 1 2 3 4", "f32[2] 1 2"}};
  for (int k = 0; k < 4; k++) {
    tenon_tensor_t *inputs[] = {tensor_of(shapes[k / 2][0]), tensor_of(shapes[k / 2][1])};
    tenon_tensor_t *out = NULL;
    CHECK_STATUS(tenon_op_call(op_of(names[k % 2]), NULL, inputs, &out, 0), TENON_INVALID);
    CHECK(out == NULL && strstr(tenon_error(), "they must be equal") != NULL);
    tenon_tensor_release(inputs[0]);
    tenon_tensor_release(inputs[1]);
    tenon_tensor_release(out);
  }
}
