/* Every core operator that states a gradient, against finite differences: first derivatives, second ones, and inputs that
 * are not row-major.  An operator without a case is a failure. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "cases.h"

enum { LEAVES = 2 * CASE_INPUTS };
typedef struct call_t {
  const tenon_op_t *op;
  const tenon_value_t *attrs;
  int32_t input_count, leaf_count; /* leaves: the items of lists one by one */
  int32_t list_size[CASE_INPUTS];  /* -1: no list */
} call_t;

static tenon_status_t run(void *context, tenon_tensor_t *const *leaves, tenon_tensor_t **outputs) {
  const call_t *c = context;
  tenon_tensor_t *inputs[CASE_INPUTS] = {NULL}, *results[8] = {NULL};
  tenon_status_t status = TENON_OK;
  int32_t at = 0;
  for (int32_t i = 0; i < c->input_count && status == TENON_OK; i++) {
    if (c->list_size[i] < 0) inputs[i] = leaves[at++];
    else status = tenon_tensor_list(leaves + at, c->list_size[i], &inputs[i]), at += c->list_size[i];
  }
  tenon_random_seed(3); /* the same mask each time */
  if (status == TENON_OK) status = tenon_op_call(c->op, c->attrs, inputs, results, 1);
  for (int32_t i = 0; i < c->input_count; i++)
    if (c->list_size[i] >= 0) tenon_tensor_release(inputs[i]);
  for (int32_t o = 1; o < 8; o++) tenon_tensor_release(results[o]); /* the first is what is looked at */
  if (status != TENON_OK || !tensor_has(results[0], TENON_LIST)) return *outputs = results[0], status;
  status =
      tenon_op_call(op_of("core::concat"), c->attrs, results, outputs, 0); /* of split, whose first attribute is axis */
  tenon_tensor_release(results[0]);
  return status;
}

/* The gradients of a weighted sum of squares of the result, as a function of the inputs: what a second derivative is of. */
static tenon_status_t run_gradient(void *context, tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  const call_t *c = context;
  tenon_tensor_t *result[8] = {NULL}, *square = NULL, *wanted[LEAVES], *grads[LEAVES];
  int32_t count = 0;
  bool recorded = tenon_grad_mode_set(1);
  tenon_status_t status = run(context, inputs, result);
  if (status == TENON_OK)
    status = tenon_op_call(op_of("core::mul"), NULL, (tenon_tensor_t *[]){result[0], result[0]}, &square, 0);
  for (int32_t i = 0; i < c->leaf_count; i++)
    if (tenon_tensor_requires_grad(inputs[i])) wanted[count++] = inputs[i];
  tenon_tensor_t *weights = NULL;
  if (status == TENON_OK) status = tenon_tensor_create(square->dtype, square->ndim, square->shape, &weights);
  for (int64_t i = 0; weights && i < tenon_count(weights); i++)
    ((double *)weights->data)[i] = 0.3 + 0.1 * (double)(i % 7);
  if (status == TENON_OK)
    status = tenon_gradients(&square, &weights, 1, wanted, count,
                             TENON_GRAD_UNUSED | (recorded ? TENON_GRAD_CREATE : 0), grads);
  for (int32_t i = 0; i < count && status == TENON_OK; i++) {
    outputs[i] = grads[i]; /* where there is none, what adds nothing */
    if (!outputs[i]) status = tenon_tensor_create(tenon_dtype(TENON_I64), 0, NULL, &outputs[i]);
  }
  tenon_tensor_release(result[0]), tenon_tensor_release(square), tenon_tensor_release(weights);
  tenon_grad_mode_set(recorded);
  return status;
}

static bool is_f64(const tenon_tensor_t *t) { return t && tenon_dtype_id(t->dtype) == TENON_F64; }

static void describe(const case_t *c, const char *what, const char *message) {
  char text[1500];
  size_t used = (size_t)snprintf(text, sizeof text, "%s(%s", c->op, c->attrs ? c->attrs : "");
  for (int i = 0; i < CASE_INPUTS && used < sizeof text; i++)
    if (c->inputs[i]) used += (size_t)snprintf(text + used, sizeof text - used, "; %s", c->inputs[i]);
  snprintf(text + used, sizeof text - used, "), %s: %s", what, message);
  check_report(0, __FILE__, __LINE__, text, NULL);
}

enum { PLAIN, STRIDED, SECOND };

/* How many inputs had a gradient; -1: it failed. */
static int check_case(const case_t *c, int form) {
  const tenon_op_t *op = op_of(c->op);
  if (!op) return -1;
  tenon_attrs_t *attrs = attrs_of(op, c->attrs);
  tenon_tensor_t *leaves[LEAVES] = {NULL};
  tenon_op_info_t info = op_info(op);
  call_t call = {.op = op, .attrs = attr_values(attrs), .input_count = info.input_count};
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
    if (is_list) tenon_tensor_release(t);
    else leaves[call.leaf_count++] = t;
    for (int32_t k = first; k < call.leaf_count; k++)
      if (is_f64(leaves[k]) && !is_fixed) CHECK_STATUS(tenon_tensor_require_grad(leaves[k], 1), TENON_OK), count++;
  }
  tenon_status_t status = form == SECOND
                              ? tenon_gradient_check(run_gradient, &call, leaves, call.leaf_count, count, NULL)
                              : tenon_gradient_check(run, &call, leaves, call.leaf_count, 1, NULL);
  const char *what = form == SECOND ? "second derivative" : form == STRIDED ? "strided" : "gradient";
  if (status != TENON_OK && (form != SECOND || status != TENON_UNIMPLEMENTED)) describe(c, what, tenon_error());
  for (int32_t i = 0; i < call.leaf_count; i++) tenon_tensor_release(leaves[i]);
  tenon_attrs_release(attrs);
  return status == TENON_OK ? count : -1;
}

TEST("gradients of core operators agree with differences") {
  int count = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) count += check_case(&cases[i], PLAIN) > 0;
  printf("%d of %zu cases have gradients\n", count, sizeof cases / sizeof *cases);
}

TEST("gradients of inputs that are not row-major agree with differences") {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i], STRIDED);
}

TEST("second derivatives agree with differences") {
  const char *last = "";
  int count = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (strcmp(cases[i].op, last) == 0) continue; /* one case each */
    last = cases[i].op;
    if (check_case(&cases[i], SECOND) > 0) count++;
    else printf("no second derivative: %s\n", cases[i].op);
  }
  printf("%d operators have second derivatives\n", count);
  CHECK(count >= 30);
}

static bool is_among(const char *name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i], name) == 0) return true;
  return false;
}

TEST("every core operator with a gradient has a case") {
  const tenon_op_t *const *ops;
  int32_t count;
  CHECK_STATUS(tenon_ops_list(&ops, &count), TENON_OK);
  for (int32_t i = 0; i < count; i++) {
    tenon_op_info_t info = op_info(ops[i]);
    bool found = !info.gradient || is_among(info.name, without, sizeof without / sizeof *without) ||
                 is_among(info.name, not_yet, sizeof not_yet / sizeof *not_yet);
    for (size_t k = 0; k < sizeof cases / sizeof *cases && !found; k++) found = strcmp(cases[k].op, info.name) == 0;
    if (!found) check_report(0, __FILE__, __LINE__, "no case for", info.name);
  }
  tenon_ops_release(ops);
}
