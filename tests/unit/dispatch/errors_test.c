/* Errors of dispatch with their exact messages: a missing kernel, arguments on two devices, an
 * override of nothing, kernels that wait or do not fit, and endless recursion. */
#include <pthread.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"
#include "probes.h"

static double id[4] = {0, 1, 2, 3};

static void said(const char *expected, int line) {
  check_report(strcmp(tenon_error(), expected) == 0, __FILE__, line, expected, tenon_error());
}
#define CHECK_SAID(expected) said((expected), __LINE__)

static tenon_status_t call_with(const char *name, const char *backend, const char *second) {
  double in = 1;
  double more = 2;
  double out = PROBE_NOTHING;
  tenon_tensor_t *x[2] = {probe_tensor(backend, &in), second ? probe_tensor(second, &more) : NULL};
  tenon_tensor_t *y = probe_tensor(backend, &out);
  tenon_status_t status = tenon_op_run(op_of(name), NULL, x, &y);
  CHECK(status == TENON_OK || out == PROBE_NOTHING);
  tenon_tensor_release(x[0]);
  tenon_tensor_release(x[1]);
  tenon_tensor_release(y);
  return status;
}

TEST("a missing kernel is reported with operator, key, dtype, existing kernels, their keys, and "
     "the whole table") {
  probe_start();
  unsigned long long first = probe_slot("probe::plain", "elsewhere").number;
  char expected[700];
  CHECK_STATUS(call_with("probe::plain", "cpu", NULL), TENON_UNIMPLEMENTED);
  snprintf(expected, sizeof expected,
           "probe::plain: no kernel for cpu and dtype f64; it has: elsewhere; keys with kernels: "
           "elsewhere; its table:\n"
           "meta                 infer\n"
           "elsewhere            kernel: elsewhere [probe, number %llu]\nother backends       "
           "missing\nlayout               layer\n",
           first);
  CHECK(strncmp(tenon_error(), expected, strlen(expected)) == 0);
  tenon_registration_t *float_only = probe_add("probe::plain", "npu f32", &id[1], 0);
  tenon_registration_t *newer = probe_add("probe::plain", "npu f32", &id[2], TENON_OVERRIDE);
  tenon_registration_t *own = probe_add("probe::plain", "autograd npu", &id[2], 0);
  tenon_registration_t *pass = probe_add("probe::plain", "gpu fallthrough", NULL, 0);
  CHECK_STATUS(call_with("probe::plain", "npu", NULL), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "probe::plain: no kernel for npu and dtype f64; it has: gpu "
                            "fallthrough, autograd npu, npu f32, npu f32, elsewhere; keys with "
                            "kernels: autograd npu, npu, elsewhere; its table:\nmeta  ");
  snprintf(expected, sizeof expected,
           "\nnpu                  kernel: npu f32 [program, number %llu] for f32\n",
           (unsigned long long)probe_slot("probe::plain", "npu").number);
  CHECK_TEXT(tenon_error(), expected);
  CHECK_TEXT(tenon_error(), "\ngpu                  fallthrough\n");
  tenon_registration_release(float_only);
  tenon_registration_release(newer);
  tenon_registration_release(own);
  tenon_registration_release(pass);
}

TEST("arguments on two devices are reported with the device of each, and with the remedy") {
  probe_start();
  tenon_registration_t *npu = probe_add("probe::pair", "npu", &id[1], 0);
  tenon_registration_t *gpu = probe_add("probe::pair", "gpu", &id[2], 0);
  CHECK_STATUS(call_with("probe::pair", "npu", "gpu"), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "probe::pair: arguments on several devices: x on npu:0, y on gpu:0");
  tenon_registration_release(npu);
  tenon_registration_release(gpu);
}

TEST("an override of nothing is refused, and so is a second kernel without TENON_OVERRIDE") {
  static double unused;
  tenon_registration_t *r = NULL;
  tenon_registration_t *first;
  probe_start();
  CHECK_STATUS(
      tenon_kernel_add("probe::plain", "npu f64", probe_kernel, &unused, NULL, TENON_OVERRIDE, &r),
      TENON_NOT_FOUND);
  CHECK_SAID(
      "cannot add a kernel: probe::plain: 'npu f64' overrides nothing: there is no such kernel");
  first = probe_add("probe::plain", "npu f64", &id[1], 0);
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu f64", probe_kernel, &unused, NULL, 0, &r),
               TENON_EXISTS);
  CHECK_SAID("cannot add a kernel: probe::plain: a kernel 'npu f64' is there already, from library "
             "program: say TENON_OVERRIDE to take its place");
  CHECK(!r);
  tenon_registration_release(first);
}

/* kernels and their operators */

static tenon_status_t one_loop(const tenon_loop_t *loop) {
  (void)loop;
  return TENON_OK;
}

/* clang-format off */
static const tenon_item_t later_items[] = {
  TENON_OP("later(Tensor x, Tensor y) -> Tensor",
    TENON_TYPES("x, y: f32; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_LOOP("f32, f32 -> f32", one_loop)),
  {TENON_TAG_END, 0, 0, 0, 0}};
static const tenon_item_t early_items[] = {
  TENON_EXTEND("later::later", TENON_LOOP("f32 -> f32", one_loop)), {TENON_TAG_END, 0, 0, 0, 0}};
static const tenon_item_t wrong_items[] = {
  TENON_EXTEND("probe::plain", TENON_LOOP("f32, f32 -> f32", one_loop)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t later = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "later", "1.0.0", later_items};
static const tenon_descriptor_t early = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "early", "1.0.0", early_items};
static const tenon_descriptor_t wrong = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "wrong", "1.0.0", wrong_items};

TEST("messages for a kernel that waits for its operator, that does not fit when it comes, or that "
     "does not fit at once") {
  char *text = NULL;
  probe_start();
  CHECK_STATUS(tenon_library_add(&early, NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_dangling(&text), TENON_OK);
  check_report(
      !strcmp(text, "later::later: kernels of library early wait: no library defines it\n"),
      __FILE__, __LINE__, "dangling", text);
  tenon_text_release(text);
  CHECK_STATUS(tenon_library_add(&later, NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_dangling(&text), TENON_OK);
  check_report(
      !strcmp(text,
              "later::later: kernels of library early do not fit: later::later: loop 'f32 -> f32': "
              "column 5: expected ',' and the dtype of input 'y', found '->'\n"),
      __FILE__, __LINE__, "dangling", text);
  tenon_text_release(text);
  CHECK_STATUS(tenon_library_add(&wrong, NULL, NULL, NULL), TENON_INVALID);
  CHECK_SAID("cannot add library wrong: probe::plain: loop 'f32, f32 -> f32': column 4: more "
             "dtypes than the 1 inputs of the schema");
}

/* recursion */

static int64_t deepest, depth;
enum {
  BY_RUN,
  BY_CALL,
  BY_CALL_INTO,
};
static int by;

static tenon_status_t calls_itself(tenon_call_t *call) {
  tenon_tensor_t *made[1] = {NULL};
  tenon_status_t status;
  if (++depth > deepest) deepest = depth;
  if (by == BY_RUN)
    status = tenon_op_run(call->op, NULL, call->inputs, call->outputs);
  else if (by == BY_CALL)
    status = tenon_op_call(call->op, NULL, call->inputs, made, 0);
  else
    status = tenon_op_call_into(call->op, NULL, call->inputs, call->outputs);
  depth--;
  tenon_tensor_release(made[0]);
  return status;
}

static void recur(int how) {
  double in = 1;
  double out = PROBE_NOTHING;
  tenon_tensor_t *x = probe_tensor("cpu", &in);
  tenon_tensor_t *y = probe_tensor("cpu", &out);
  deepest = 0;
  by = how;
  CHECK_STATUS(tenon_op_run(op_of("probe::plain"), NULL, &x, &y), TENON_RANGE);
  CHECK_SAID("probe::plain: calls are nested until the thread's stack is nearly full: a kernel, a "
             "layer or a composite calls the operator that it was called for, instead of passing "
             "the call on (tenon_call_next)");
  CHECK(depth == 0 && deepest > 20 && out == PROBE_NOTHING);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
}

TEST("a kernel that calls its own operator is stopped before the stack is full, and later calls "
     "work") {
  probe_start();
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("probe::plain", "cpu", calls_itself, NULL, NULL, 0, &r), TENON_OK);
  for (int how = BY_RUN; how <= BY_CALL_INTO; how++)
    recur(how);
  tenon_registration_release(r);
  tenon_registration_t *fine = probe_add("probe::plain", "cpu", &id[3], 0);
  CHECK_ANSWER("probe::plain", "cpu", 3);
  tenon_registration_release(fine);
}

static void *recur_here(void *argument) {
  (void)argument;
  recur(BY_CALL);
  return NULL;
}

TEST("the limit is that of each thread's own stack, and any other stack has none") {
  probe_start();
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_kernel_add("probe::plain", "cpu", calls_itself, NULL, NULL, 0, &r), TENON_OK);
  static const size_t sizes[] = {1 << 20, 8 << 20};
  int64_t depths[2];
  for (int i = 0; i < 2; i++) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_attr_init(&attributes) == 0 &&
          pthread_attr_setstacksize(&attributes, sizes[i]) == 0);
    CHECK(pthread_create(&thread, &attributes, recur_here, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attributes);
    depths[i] = deepest;
  }
  CHECK(depths[1] > 3 * depths[0]);
  tenon_registration_release(r);
  tenon_shutdown();
}
