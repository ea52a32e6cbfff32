/* Results as layers see them: unallocated outputs, which are created once the call has passed all
 * layers, from what the layers made of it. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "autograd/tape.h"

/* The results of the last call, as a layer saw them before the call. */
static tenon_tensor_t *seen[4];
static int count;

static tenon_status_t look(tenon_call_t *c) {
  count++;
  for (uint32_t o = 0; o < 2; o++)
    seen[o] = c->outputs[o];
  return tenon_call_next(c);
}

static tenon_layer_t *switch_on(const char *anchor, tenon_run_fn run, void *context) {
  tenon_layer_t *layer = NULL;
  CHECK_STATUS(tenon_layer_create("layer", anchor, run, context, &layer), TENON_OK);
  tenon_layer_enable(layer, 1);
  return layer;
}

static void drop(tenon_layer_t *layer) {
  tenon_layer_enable(layer, 0);
  tenon_layer_release(layer);
}

/* Passes another input on: the tensor in the context. */
static tenon_status_t swap(tenon_call_t *c) {
  tenon_tensor_t *const *before = c->inputs;
  tenon_tensor_t *inputs[8] = {c->context};
  c->inputs = inputs;
  tenon_status_t status = tenon_call_next(c);
  c->inputs = before;
  return status;
}

TEST("results follow what a layer passes on in dtype, shape and layout") {
  static const char *const anchors[] = {"below view", "below autograd", "above autograd",
                                        "above autocast", "above functional"};
  tenon_tensor_t *x = tensor_of("f32[2] 1 -2");
  tenon_tensor_t *y = tensor_of("f64[1, 3] 4 -5 6");
  tenon_tensor_t *out;
  for (int i = 0; i < 6; i++) {
    tenon_layer_t *layer = i < 5 ? switch_on(anchors[i], swap, y) : NULL;
    if (!layer) CHECK_STATUS(tenon_mode_push(swap, y), TENON_OK);
    out = apply("core::relu", x, NULL);
    CHECK_TENSOR(out, "f64[1, 3] 4 0 6");
    tenon_tensor_release(out);
    if (layer)
      drop(layer);
    else
      tenon_mode_pop();
  }
  out = apply("core::relu", x, NULL);
  CHECK_TENSOR(out, "f32[2] 1 0");
  RELEASE(x, y, out);
}

TEST("a layer sees unallocated outputs without memory, unwanted results as absent, and given "
     "results as they are") {
  tenon_tensor_t *x = tensor_of("f32[3] 3 1 2");
  tenon_tensor_t *k = tensor_of("i64[1] 2");
  tenon_tensor_t *inputs[2] = {x, k};
  tenon_tensor_t *out[2] = {NULL, NULL};
  tenon_layer_t *layer = switch_on("above autograd", look, NULL);
  CHECK_STATUS(tenon_op_call(op_of("core::top_k"), NULL, inputs, out, 0), TENON_OK);
  CHECK(seen[0] == out[0] && seen[1] == out[1]);
  CHECK_TENSOR(out[0], "f32[2] 3 2");
  CHECK_TENSOR(out[1], "i64[2] 0 2");
  tenon_tensor_t *given[2] = {tensor_of("f32[2] 0 0"), tensor_of("i64[2] 0 0")};
  CHECK_STATUS(tenon_op_call_into(op_of("core::top_k"), NULL, inputs, given), TENON_OK);
  CHECK(seen[0] == given[0]);
  CHECK_TENSOR(given[0], "f32[2] 3 2");
  RELEASE(given[0], out[0], out[1]);
  given[0] = tensor_of("f32[3] 0 0 0"); /* The call finds at its end that it does not fit. */
  CHECK_STATUS(tenon_op_call_into(op_of("core::top_k"), NULL, inputs, given), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::top_k: result values: expected shape [2], found [3]");
  drop(layer);
  RELEASE(given[0], given[1], x, k);
}

static tenon_status_t answer(tenon_call_t *c) {
  int64_t shape[1] = {2};
  /* The result has no dtype yet, so this is refused. */
  (void)c->host->resize(c, 0, 1, shape);
  return c->host->assign(c, 0, c->context);
}

static tenon_status_t nothing(tenon_call_t *c) {
  (void)c;
  return TENON_OK;
}

TEST("a layer answers by giving a tensor; an answer of nothing is an error") {
  tenon_tensor_t *x = tensor_of("f32[2] 1 -2");
  tenon_tensor_t *y = tensor_of("i64[1] 42");
  tenon_tensor_t *out;
  tenon_layer_t *layer = switch_on("below autograd", answer, y);
  out = apply("core::relu", x, NULL);
  CHECK_TENSOR(out, "i64[1] 42");
  tenon_tensor_release(out);
  drop(layer);
  layer = switch_on("below autograd", nothing, NULL);
  CHECK_STATUS(try_op("core::relu", NULL, x, NULL, &out), TENON_INTERNAL);
  CHECK_TEXT(tenon_error(), "core::relu: a layer or run did not state the shape of result out");
  CHECK(!out);
  drop(layer);
  RELEASE(x, y);
}

static tenon_status_t twice(tenon_call_t *c) {
  TENON_TRY(tenon_call_next(c));
  tenon_tensor_t *const *before = c->inputs;
  c->inputs = c->outputs;
  tenon_status_t status = tenon_call_next(c);
  c->inputs = before;
  return status;
}

TEST("a layer can pass a call on twice, the second time with the results of the first") {
  tenon_tensor_t *x = tensor_of("f32[2] 1 2");
  tenon_tensor_t *out;
  tenon_layer_t *layer = switch_on("below autograd", twice, NULL);
  out = apply("core::neg", x, NULL);
  CHECK_TENSOR(out, "f32[2] 1 2");
  drop(layer);
  RELEASE(x, out);
}

TEST("views of what a layer passes on are views, also of tensors that are not row-major and of "
     "borrowed memory") {
  float data[4] = {1, 2, 3, 4};
  int64_t shape[2] = {2, 2};
  tenon_tensor_t *x = tensor_of("f32[1] 9");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *to = tensor_of("i64[1] 4");
  tenon_tensor_t *turned = tensor_strided("f32[2, 2] 1 2 3 4");
  tenon_tensor_t *out;
  CHECK_STATUS(tenon_tensor_borrow(data, tenon_dtype(TENON_F32), 2, shape, NULL, NULL, NULL, &y),
               TENON_OK);
  tenon_layer_t *layer = switch_on("below autograd", look, NULL);
  count = 0;
  out = apply("core::reshape", y, to);
  CHECK_TENSOR(out, "f32[4] 1 2 3 4");
  CHECK(out->data == data && count == 1);
  tenon_tensor_release(out);
  out = apply("core::reshape", turned, to);
  CHECK_TENSOR(out, "f32[4] 1 2 3 4");
  CHECK(out->data != turned->data);
  tenon_tensor_release(out);
  out = apply("core::transpose", turned, NULL);
  CHECK_TENSOR(out, "f32[2, 2] 1 3 2 4");
  drop(layer);
  RELEASE(x, y, to, turned, out);
}

TEST(
    "operators with run-time shapes, random numbers, lists or written inputs work through layers") {
  tenon_tensor_t *x = tensor_of("f32[4] 0 1 0 2");
  tenon_tensor_t *shape = tensor_of("i64[1] 3");
  tenon_tensor_t *out, *plain;
  tenon_random_seed(7);
  CHECK_STATUS(try_op("core::uniform", NULL, shape, NULL, &plain), TENON_OK);
  tenon_layer_t *layer = switch_on("above functional", look, NULL);
  out = apply("core::nonzero", x, NULL);
  CHECK_TENSOR(out, "i64[1, 2] 1 3");
  tenon_tensor_release(out);
  tenon_random_seed(7);
  CHECK_STATUS(try_op("core::uniform", NULL, shape, NULL, &out), TENON_OK);
  CHECK(tensor_equal(out, plain, 0));
  tenon_tensor_release(out);
  count = 0;
  CHECK_STATUS(try_op("core::split", "count=2", x, NULL, &out), TENON_OK);
  CHECK_TENSOR(out, "{f32[2] 0 1; f32[2] 0 2}");
  CHECK(count == 1);
  drop(layer);
  RELEASE(x, shape, plain, out);
}

TEST("gradients flow through a layer that changes the call") {
  tenon_tensor_t *x = leaf("f32[2] 1 -2");
  tenon_tensor_t *y = leaf("f64[3] 4 -5 6");
  tenon_tensor_t *out;
  tenon_layer_t *layer = switch_on("above autograd", swap, y);
  out = apply("core::relu", x, NULL);
  CHECK_TENSOR(out, "f64[3] 4 0 6");
  drop(layer);
  tenon_tensor_t *ones = tensor_of("f64[3] 1 1 1");
  CHECK_STATUS(tenon_backward(&out, &ones, 1, 0), TENON_OK);
  CHECK(!tenon_tensor_grad(x));
  CHECK_TENSOR(tenon_tensor_grad(y), "f64[3] 1 0 1");
  RELEASE(x, y, out, ones);
}

TEST("nothing is left behind") { tenon_shutdown(); }
