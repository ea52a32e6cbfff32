/* The conformance cases of devices, for the CPU and for a test backend whose addresses are
 * disguised; and the operators that a plug-in may override or must bring. library_test.c tests
 * backends of libraries. */
#include <stdlib.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "npu.h"

#include "device.h"

TEST("the CPU passes the conformance cases of backends") { conform((tenon_device_t){1, 0}); }

TEST("a backend that brings only memory and copies conforms, and all its memory is freed") {
  npu_start();
  conform(npu_device);
  CHECK(blocks == 0);
}

TEST("operators that the host builds from memory and copies do not fall back") {
  char *report = NULL;
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  CHECK_TEXT(report, "core::sqrt                                        1 calls");
  /* The report has one line. */
  CHECK(strchr(report, '\n') == report + strlen(report) - 1);
  tenon_text_release(report);
}

/* overriding */

static int64_t own;
static tenon_status_t own_empty(tenon_call_t *call) {
  CHECK(call->outputs[0]->device.type == 12);
  memset(show(call->outputs[0]), 0, (size_t)tenon_count(call->outputs[0]) * 4);
  own++;
  return TENON_OK;
}
static tenon_status_t own_pinned(tenon_call_t *call) {
  void *memory = calloc(1, 64);
  int64_t size = 4;
  own++;
  return call->host->adopt(call, 0, 1, &size, memory, free, memory);
}
/* Transposes [2, 3] to [3, 2] into new memory. */
static tenon_status_t own_transpose(tenon_call_t *call) {
  const float *x = show(call->inputs[0]);
  float *y = show(call->outputs[0]);
  CHECK(x != y && call->outputs[0]->strides[0] == 2 && call->outputs[0]->strides[1] == 1);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 3; k++)
      y[k * 2 + i] = x[i * 3 + k];
  own++;
  return TENON_OK;
}
static tenon_status_t own_scalar(tenon_call_t *call) {
  CHECK(call->inputs[0]->device.type == 12 && call->outputs[0]->device.type == 1);
  *(float *)call->outputs[0]->data = 42;
  own++;
  return TENON_OK;
}
static tenon_status_t own_copy_from(tenon_call_t *call) {
  CHECK(call->inputs[0]->device.type == 1 &&
        /* The arguments are on two devices, as this operator allows. */
        call->inputs[1]->device.type == 12);
  *(float *)show(call->inputs[1]) = 43;
  own++;
  return TENON_OK;
}

TEST(
    "a plug-in can override each of these operators, and its views then have memory of their own") {
  static const struct {
    const char *op;
    tenon_run_fn run;
  } kernels[] = {{"core::empty", own_empty},
                 {"core::empty_pinned", own_pinned},
                 {"core::transpose", own_transpose},
                 {"core::local_scalar", own_scalar},
                 {"core::copy_from", own_copy_from}};
  tenon_registration_t *r[5];
  tenon_tensor_t *t;
  tenon_tensor_t *x = conform_on(npu_device, "f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *one = conform_on(npu_device, "f32[1] 5");
  for (int i = 0; i < 5; i++)
    CHECK_STATUS(tenon_kernel_add(kernels[i].op, "npu", kernels[i].run, NULL, NULL, 0, &r[i]),
                 TENON_OK);
  t = conform_made("core::empty", conform_text("shape=[3]; device='%s'", npu_device), NULL);
  conform_holds(t, npu_device, "f32[3] 0 0 0");
  tenon_tensor_release(t);
  t = conform_made("core::empty_pinned", conform_text("shape=[4]; device='%s'", npu_device), NULL);
  conform_holds(t, conform_cpu, "f32[4] 0 0 0 0");
  tenon_tensor_release(t);
  t = conform_made("core::transpose", NULL, x);
  conform_holds(t, npu_device, "f32[3,2] 1 4 2 5 3 6");
  conform_holds(x, npu_device, "f32[2,3] 1 2 3 4 5 6");
  CHECK(t->data != x->data);
  tenon_tensor_release(t);
  t = conform_made("core::local_scalar", NULL, one);
  conform_holds(t, conform_cpu, "f32[] 42");
  tenon_tensor_t *host = tensor_of("f32[1] 8");
  tenon_tensor_t *in[2] = {host, one};
  conform_call("core::copy_from", NULL, in, NULL, TENON_OK, NULL);
  conform_holds(one, npu_device, "f32[1] 43");
  CHECK(own == 5);
  tenon_tensor_release(t);
  tenon_tensor_release(host);
  for (int i = 0; i < 5; i++)
    tenon_registration_release(r[i]);
  t = conform_made("core::transpose", NULL, x);
  CHECK(t->data == x->data && own == 5);
  tenon_tensor_release(t);
  t = conform_made("core::local_scalar", NULL, one);
  conform_holds(t, conform_cpu, "f32[] 43");
  tenon_tensor_release(t);
  tenon_tensor_release(x);
  tenon_tensor_release(one);
}

/* the operators that a plug-in must bring */

/* clang-format off */
static const tenon_item_t half_items[] = {
  TENON_EXTEND("core::allocate", TENON_KERNEL("half", npu_allocate)), {TENON_TAG_END, 0, 0, 0, 0}};
static const tenon_item_t rest_items[] = {
  TENON_EXTEND("core::copy", TENON_KERNEL("half", npu_copy)), {TENON_TAG_END, 0, 0, 0, 0}};
static const tenon_item_t whole_items[] = {
  TENON_EXTEND("core::copy", TENON_KERNEL("whole", npu_copy)),
  TENON_EXTEND("core::allocate", TENON_KERNEL("whole", npu_allocate)), {TENON_TAG_END, 0, 0, 0, 0}};
static const tenon_item_t neither_items[] = {
  TENON_EXTEND("core::neg", TENON_KERNEL("neither", npu_copy)), {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */

static tenon_status_t add_library(const char *name, const tenon_item_t *items) {
  const tenon_descriptor_t d = {sizeof d, TENON_ABI, TENON_LAYOUT, 0, name, "1.0.0", items};
  return tenon_library_add(&d, NULL, NULL, NULL);
}

TEST("a library that brings only half of a device's kernels is refused, with those that it lacks") {
  CHECK_STATUS(add_library("half", half_items), TENON_UNIMPLEMENTED);
  CHECK_TEXT(
      tenon_error(),
      "backend half lacks core::copy: a device brings kernels of core::allocate and core::copy");
  CHECK_STATUS(add_library("rest", rest_items), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "backend half lacks core::allocate");
  CHECK_STATUS(add_library("whole", whole_items), TENON_OK);
  CHECK_STATUS(tenon_backend_check("whole"), TENON_OK);
  CHECK_STATUS(add_library("neither", neither_items),
               /* The library has kernels only: its memory may come later. */
               TENON_OK);
  CHECK_STATUS(tenon_backend_check("neither"), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "backend neither lacks core::allocate (memory), core::copy (copies of "
                            "bytes): a device brings");
  CHECK_STATUS(tenon_backend_check("nobody"), TENON_NOT_FOUND);
  CHECK_STATUS(tenon_backend_check("cpu"), TENON_OK);
  CHECK_STATUS(tenon_backend_check("meta"), TENON_OK);
}

TEST("operators that change a tensor in place refuse a tensor that cannot change") {
  int64_t extent = 2;
  int64_t stride;
  float values[2] = {1, 2};
  tenon_tensor_t stack;
  tenon_tensor_t *on_stack = &stack;
  tenon_tensor_t *leaf = tensor_of("f32[2] 1 2");
  tenon_tensor_t *words = NULL;
  tenon_tensor_t *in[2] = {leaf, &stack};
  CHECK_STATUS(tenon_tensor_view(&stack, values, tenon_dtype(TENON_F32), 1, &extent, NULL, &stride),
               TENON_OK);
  conform_call("core::resize_", "shape=[1]", &on_stack, NULL, TENON_INVALID,
               "x is a view on a caller's stack");
  conform_call("core::set_.tensor", NULL, in, NULL, TENON_INVALID,
               "source is a view on a caller's stack");
  conform_call("core::set_.strided", "shape=[1]; strides=[1]", in, NULL, TENON_INVALID,
               "source is a view on a caller's stack");
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_STRING), 1, &extent, &words), TENON_OK);
  conform_call("core::resize_", "shape=[1]", &words, NULL, TENON_UNIMPLEMENTED,
               "x is string: its memory is not only elements");
  tenon_tensor_release(words);
  tenon_tensor_release(leaf);
}

TEST("nothing is left behind") {
  tenon_shutdown();
  CHECK(blocks == 0);
}
