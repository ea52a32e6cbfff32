/* A backend of a program: memory that only its own functions may access (addresses are disguised,
 * so that any other access faults), the required operators, native kernels, and the fallback to the
 * CPU. */
#include <stdlib.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "npu.h"

static int64_t natives;

static tenon_status_t npu_negate(tenon_call_t *call) {
  natives++;
  CHECK(call->inputs[0]->device.type == 12 && call->context == &natives);
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    ((float *)show(call->outputs[0]))[i] = -((float *)show(call->inputs[0]))[i];
  return TENON_OK;
}

static tenon_registration_t *negates;

static void start(void) {
  npu_start();
  CHECK_STATUS(tenon_kernel_add("core::neg", "npu f32", npu_negate, &natives, NULL, 0, &negates),
               TENON_OK);
}

static tenon_tensor_t *on_npu(const char *text) {
  tenon_tensor_t *host = tensor_of(text);
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(host, npu_device, &made), TENON_OK);
  tenon_tensor_release(host);
  return made;
}

static void check_npu(const tenon_tensor_t *tensor, const char *expected) {
  tenon_tensor_t *host = NULL;
  CHECK(tensor->device.type == 12 && tensor->device.id == npu_device.id);
  CHECK_STATUS(tenon_tensor_copy_to(tensor, (tenon_device_t){1, 0}, &host), TENON_OK);
  CHECK_TENSOR(host, expected);
  tenon_tensor_release(host);
}

TEST("memory of a backend comes from its kernel of core::allocate and is given back to it") {
  start();
  tenon_tensor_t *x = on_npu("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *empty = on_npu("f32[0,3]");
  CHECK(blocks == 2 && x->device.type == 12);
  char *keys = NULL;
  CHECK_STATUS(tenon_keys_of(x, &keys), TENON_OK);
  CHECK_TEXT(keys, "{npu}");
  tenon_text_release(keys);
  check_npu(x, "f32[2,3] 1 2 3 4 5 6");
  check_npu(empty, "f32[0,3]");
  tenon_tensor_t *copied = NULL;
  CHECK_STATUS(tenon_tensor_copy(x, &copied), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "expected host memory; use tenon_tensor_copy_to");
  tenon_tensor_release(x);
  tenon_tensor_release(empty);
  CHECK(blocks == 0);
}

TEST("a native kernel runs on its device, and another operator falls back and is counted") {
  tenon_tensor_t *x = on_npu("f32[3] 1 -2 3");
  tenon_tensor_t *y = on_npu("f32[3] 0 0 0");
  tenon_tensor_t *in[2] = {x, y};
  tenon_tensor_t *out[1] = {y};
  CHECK_STATUS(tenon_op_run(op_of("core::neg"), NULL, in, out), TENON_OK);
  CHECK(natives == 1);
  check_npu(y, "f32[3] -1 2 -3");
  copies = 0;
  CHECK_STATUS(tenon_op_run(op_of("core::abs"), NULL, in, out), TENON_OK);
  check_npu(y, "f32[3] 1 2 3");
  /* x to the host, y back, and the copy that check_npu makes */
  CHECK(natives == 1 && copies == 3);
  char *report = NULL;
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  CHECK_TEXT(report, "core::abs ");
  CHECK_TEXT(report, "1 calls             24 bytes copied");
  CHECK(!strstr(report, "core::neg"));
  tenon_text_release(report);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
}

TEST("the fallback copies the same memory once, and keeps strides and overlap") {
  tenon_tensor_t *base = on_npu("f32[6] 1 2 3 4 5 6");
  tenon_tensor_t *y = on_npu("f32[2,3] 0 0 0 0 0 0");
  tenon_tensor_t a = *base;
  tenon_tensor_t b = *base;
  int64_t shape[2] = {2, 3};
  int64_t columns[2] = {1, 2};
  int64_t rows[2] = {3, 1};
  a.keys = (base->keys & ~TN_TENSOR_OWNED) | TN_KEY_STRIDED;
  b.keys = base->keys & ~TN_TENSOR_OWNED;
  a.ndim = b.ndim = 2;
  a.shape = b.shape = shape;
  a.strides = columns;
  b.strides = rows;
  tenon_tensor_t *in[2] = {&a, &b};
  tenon_tensor_t *out[1] = {y};
  copies = 0;
  CHECK_STATUS(tenon_op_run(op_of("core::add"), NULL, in, out), TENON_OK);
  CHECK(copies == 2);
  check_npu(y, "f32[2,3] 2 5 8 6 9 12");
  tenon_tensor_release(base);
  tenon_tensor_release(y);
}

TEST("the gaps between the elements of a result keep their content") {
  tenon_tensor_t *x = on_npu("f32[3] -1 -2 -3");
  tenon_tensor_t *base = on_npu("f32[6] 10 20 30 40 50 60");
  tenon_tensor_t every_second = *base;
  int64_t extent = 3;
  int64_t stride = 2;
  every_second.keys = (base->keys & ~TN_TENSOR_OWNED) | TN_KEY_STRIDED;
  every_second.shape = &extent;
  every_second.strides = &stride;
  tenon_tensor_t *in[1] = {x};
  tenon_tensor_t *out[1] = {&every_second};
  CHECK_STATUS(tenon_op_run(op_of("core::abs"), NULL, in, out), TENON_OK);
  check_npu(base, "f32[6] 1 20 2 40 3 60");
  tenon_tensor_release(x);
  tenon_tensor_release(base);
}

TEST("a scalar on the host may be an argument, and strict mode makes the fallback an error") {
  tenon_tensor_t *x = on_npu("f32[3] 1 2 3");
  tenon_tensor_t *y = on_npu("f32[3] 0 0 0");
  tenon_tensor_t *two = tensor_of("f32[] 2");
  tenon_tensor_t *in[2] = {x, two};
  tenon_tensor_t *out[1] = {y};
  CHECK_STATUS(tenon_op_run(op_of("core::mul"), NULL, in, out), TENON_OK);
  check_npu(y, "f32[3] 2 4 6");
  tenon_strict_set(1);
  CHECK_STATUS(tenon_op_run(op_of("core::mul"), NULL, in, out), TENON_UNIMPLEMENTED);
  CHECK_TEXT(
      tenon_error(),
      "core::mul: no kernel for {npu}, and falling back to the CPU is switched off (strict)");
  tenon_strict_set(0);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(two);
}

TEST("a failed copy leaves the device as it was, or the message says which results are undefined") {
  tenon_tensor_t *x = on_npu("f32[3] 1 2 3");
  tenon_tensor_t *y = on_npu("f32[3] 7 8 9");
  tenon_tensor_t *in[1] = {x};
  tenon_tensor_t *out[1] = {y};
  copies = 0;
  copy_fails_at = 1;
  CHECK_STATUS(tenon_op_run(op_of("core::abs"), NULL, in, out), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "the bus is down");
  check_npu(y, "f32[3] 7 8 9");
  copies = 0;
  copy_fails_at = 2;
  CHECK_STATUS(tenon_op_run(op_of("core::abs"), NULL, in, out), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "core::abs: copying back failed (undefined now: out): ");
  copy_fails_at = 0;
  tenon_tensor_release(x);
  tenon_tensor_release(y);
}

TEST("a device without a required operator is refused, and the message names the operator") {
  tenon_device_t bare;
  tenon_registration_t *fallback;
  tenon_tensor_t *host = tensor_of("f32[1] 1");
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_device_find("bare", 0, &bare), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_to(host, bare, &made), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), "there is no device 'bare'; there are: cpu, meta, ");
  CHECK_STATUS(tenon_fallback_add("bare", tenon_fallback_cpu, NULL, NULL, 0, &fallback), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_to(host, bare, &made), TENON_UNIMPLEMENTED);
  CHECK_TEXT(
      tenon_error(),
      "core::allocate: no kernel for {bare}: each device must have one, it cannot fall back");
  tenon_registration_release(fallback);
  tenon_tensor_release(host);
}

TEST("nothing is left behind") {
  tenon_registration_release(npu_falls);
  tenon_registration_release(negates);
  tenon_shutdown();
  CHECK(blocks == 0);
}
