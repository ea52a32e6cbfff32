/* Arguments on several devices: host tensors beside those of a device, two devices, @host
 * arguments; errors, moves, and the copies with their counts. Memory of the device is disguised, so
 * a kernel that gets the wrong memory faults. */
#include <stdlib.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "npu.h"

static int32_t given[3]; /* device types of the last call's inputs */
static int64_t calls;

/* Computes y = x + a, and x += 1 if the schema says so; the shapes are equal. */
static tenon_status_t npu_add(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *a = call->inputs[1];
  calls++;
  for (int i = 0; i < 2; i++)
    given[i] = call->inputs[i]->device.type;
  CHECK(call->outputs[0]->device.type == 12);
  for (int64_t i = 0; i < tenon_count(call->outputs[0]); i++)
    ((float *)show(call->outputs[0]))[i] =
        ((const float *)show(x))[x->ndim ? i : 0] + ((const float *)show(a))[a->ndim ? i : 0];
  return TENON_OK;
}

static tenon_status_t npu_raise(tenon_call_t *call) {
  const tenon_tensor_t *list = call->inputs[1];
  float *x = show(call->inputs[0]);
  calls++;
  for (int64_t k = 0; k < list->shape[0]; k++)
    for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
      x[i] += ((const float *)show(tenon_item(list, k)))[i];
  return TENON_OK;
}

static tenon_status_t raise(tenon_call_t *call) {
  return tenon_fail(call, TENON_INTERNAL, "not on the CPU");
}

static tenon_status_t
more(tenon_call_t *call) { /* returns x + by + a tensor of ones that it creates on the host */
  const tenon_tensor_t *x = call->inputs[0];
  tenon_tensor_t *ones = call->host->temporary(call, x->dtype, x->ndim, x->shape);
  tenon_tensor_t *sum[1] = {NULL};
  if (!ones) return TENON_MEMORY;
  for (int64_t i = 0; i < tenon_count(ones); i++)
    ((float *)ones->data)[i] = 1;
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, call->inputs, sum));
  tenon_tensor_t *parts[2] = {sum[0], ones};
  tenon_tensor_t *all[1] = {call->outputs[0]};
  return call->host->invoke(call, call->uses[0], NULL, parts, all);
}

/* clang-format off */
TENON_LIBRARY(mixed, "1.0.0",
  TENON_OP("raise(Tensor(a!) x, Tensor[] by) -> ()",
    TENON_TYPES("x: f32; by = x"), TENON_KERNEL("cpu", raise)),
  TENON_OP("more(Tensor x, Tensor by) -> Tensor",
    TENON_TYPES("x, by: f32; out = x"), TENON_SHAPES("x, by: [n]; out = x"),
    TENON_USES("core::add"), TENON_COMPOSITE(more)),
  TENON_EXTEND("core::add", TENON_KERNEL("npu f32", npu_add)),
  TENON_EXTEND("mixed::raise", TENON_KERNEL("npu", npu_raise)))
/* clang-format on */

static tenon_library_t *library;

static tenon_tensor_t *at(const char *text, int32_t ordinal) {
  tenon_tensor_t *host = tensor_of(text);
  tenon_tensor_t *made = NULL;
  tenon_device_t device;
  CHECK_STATUS(tenon_device_find("npu", ordinal, &device), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_to(host, device, &made), TENON_OK);
  tenon_tensor_release(host);
  return made;
}
static tenon_tensor_t *on_npu(const char *text) { return at(text, 0); }

static void check_npu(const tenon_tensor_t *t, const char *expected) {
  tenon_tensor_t *host = NULL;
  CHECK(t->device.type == 12);
  CHECK_STATUS(tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &host), TENON_OK);
  CHECK_TENSOR(host, expected);
  tenon_tensor_release(host);
}

static void check_moves(const char *expected) { /* NULL: no moves */
  char *report = NULL;
  CHECK_STATUS(tenon_move_report(&report), TENON_OK);
  if (expected)
    CHECK_TEXT(report, expected);
  else
    CHECK(report && !*report);
  tenon_text_release(report);
}

/* Returns the result, or NULL after a failure. */
static tenon_tensor_t *add(const char *op, tenon_tensor_t *x, tenon_tensor_t *y,
                           tenon_status_t expected) {
  tenon_tensor_t *in[2] = {x, y};
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of(op), NULL, in, out, 0), expected);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return out[0];
}

TEST("a host tensor with axes is refused beside a device's tensor, by kernels and by the fallback, "
     "without a copy") {
  npu_start();
  CHECK_STATUS(tenon_library_add(tenon_library(), NULL, NULL, &library), TENON_OK);
  CHECK(!add("core::add", on_npu("f32[2] 1 2"), tensor_of("f32[2] 3 4"), TENON_INVALID));
  CHECK_TEXT(tenon_error(), "core::add: arguments in host memory: b, beside a on npu:0");
  CHECK_TEXT(tenon_error(),
             "copy them there (tenon_tensor_copy_to), or let calls do that (tenon_mixed_set)");
  CHECK(!add("core::sub", tensor_of("f32[2] 1 2"), on_npu("f32[2] 3 4"), TENON_INVALID));
  CHECK_TEXT(tenon_error(), "core::sub: arguments in host memory: a, beside b on npu:0");
  CHECK(calls == 0 && blocks == 0);
  check_moves(NULL);
}

TEST("a host scalar is copied for a kernel, and passed as it is to a fallback and to a kernel that "
     "declares scalars") {
  tenon_tensor_t *y = add("core::add", on_npu("f32[2] 1 2"), tensor_of("f32[] 3"), TENON_OK);
  check_npu(y, "f32[2] 4 5");
  CHECK(given[0] == 12 && given[1] == 12);
  check_moves(
      "core::add                                         1 moves              4 bytes copied\n");
  tenon_tensor_release(y);
  y = add("core::mul", on_npu("f32[2] 1 2"), tensor_of("f32[] 3"), TENON_OK);
  check_npu(y, "f32[2] 3 6");
  tenon_tensor_release(y);
  tenon_registration_t *takes;
  CHECK_STATUS(tenon_kernel_add("core::sub", "npu f32 scalars", npu_add, NULL, NULL, 0, &takes),
               TENON_OK);
  y = add("core::sub", tensor_of("f32[] 3"), on_npu("f32[2] 1 2"), TENON_OK);
  check_npu(y, "f32[2] 4 5");
  CHECK(given[0] == 1 && given[1] == 12);
  check_moves(
      "core::add                                         1 moves              4 bytes copied\n");
  tenon_tensor_release(y);
  tenon_registration_release(takes);
}

TEST("moving can be switched by thread, operator and call, the narrowest setting wins, and each "
     "copy is counted") {
  CHECK_STATUS(tenon_mixed_set(TENON_MIXED_MOVE), TENON_OK);
  tenon_tensor_t *y = add("core::add", on_npu("f32[2] 1 2"), tensor_of("f32[2] 3 4"), TENON_OK);
  check_npu(y, "f32[2] 4 6");
  check_moves(
      "core::add                                         2 moves             12 bytes copied\n");
  tenon_tensor_release(y);
  CHECK_STATUS(tenon_op_mixed_set(op_of("core::add"), TENON_MIXED_ERROR), TENON_OK);
  CHECK(!add("core::add", on_npu("f32[2] 1 2"), tensor_of("f32[2] 3 4"), TENON_INVALID));
  tenon_tensor_t *in[2] = {on_npu("f32[2] 1 2"), tensor_of("f32[2] 5 6")};
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_op_call_mixed(op_of("core::add"), NULL, in, out, 0, TENON_MIXED_MOVE),
               TENON_OK);
  check_npu(out[0], "f32[2] 6 8");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(tenon_op_mixed_set(op_of("core::add"), 0), TENON_OK);
  CHECK_STATUS(tenon_op_call_mixed(op_of("core::add"), NULL, in, out, 0, TENON_MIXED_ERROR),
               TENON_INVALID);
  CHECK_STATUS(tenon_op_call_mixed(op_of("core::add"), NULL, in, out, 0, 7), TENON_INVALID);
  tenon_tensor_release(in[0]);
  tenon_tensor_release(in[1]);
  CHECK_STATUS(tenon_mixed_set(-1), TENON_INVALID);
  CHECK_STATUS(tenon_mixed_set(0), TENON_OK);
  CHECK(!add("core::add", on_npu("f32[2] 1 2"), tensor_of("f32[2] 3 4"), TENON_INVALID));
  CHECK_STATUS(tenon_op_mixed_set(op_of("core::add"), TENON_MIXED_MOVE), TENON_OK);
  y = add("core::add", tensor_of("f32[2] 1 2"), on_npu("f32[2] 3 4"), TENON_OK);
  check_npu(y, "f32[2] 4 6");
  tenon_tensor_release(y);
  CHECK_STATUS(tenon_op_mixed_set(op_of("core::add"), 0), TENON_OK);
  CHECK(blocks == 0);
}

TEST("results and written arguments on the host are copied back, strided ones, too, and items of "
     "lists are moved") {
  tenon_tensor_t *x = on_npu("f32[2] 1 2");
  tenon_tensor_t *a = on_npu("f32[2] 3 4");
  tenon_tensor_t *base = tensor_of("f32[4] 0 9 0 9");
  tenon_tensor_t every;
  int64_t extent = 2;
  int64_t stride = 2;
  CHECK_STATUS(tenon_tensor_view(&every, base->data, base->dtype, 1, &extent, &stride, NULL),
               TENON_OK);
  tenon_tensor_t *in[2] = {x, a};
  tenon_tensor_t *out[1] = {&every};
  CHECK_STATUS(tenon_op_run(op_of("core::add"), NULL, in, out), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "core::add: arguments in host memory: out, beside a on npu:0, b on npu:0");
  CHECK_STATUS(tenon_mixed_set(TENON_MIXED_MOVE), TENON_OK);
  CHECK_STATUS(tenon_op_run(op_of("core::add"), NULL, in, out), TENON_OK);
  CHECK_TENSOR(base, "f32[4] 4 9 6 9");
  tenon_tensor_t *items[2] = {x, tensor_of("f32[2] 10 20")};
  tenon_tensor_t *list = NULL;
  tenon_tensor_t *sum = tensor_of("f32[2] 100 200");
  CHECK_STATUS(tenon_tensor_list(items, 2, &list), TENON_OK);
  in[0] = sum;
  in[1] = list;
  CHECK_STATUS(tenon_op_run(op_of("mixed::raise"), NULL, in, NULL), TENON_OK);
  CHECK_TENSOR(sum, "f32[2] 111 222");
  check_moves(
      "mixed::raise                                      3 moves             24 bytes copied\n");
  CHECK_STATUS(tenon_mixed_set(TENON_MIXED_ERROR), TENON_OK);
  CHECK_STATUS(tenon_op_run(op_of("mixed::raise"), NULL, in, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(),
             "mixed::raise: arguments in host memory: x, by[1], beside by[0] on npu:0");
  tenon_tensor_release(list);
  tenon_tensor_release(items[1]);
  tenon_tensor_release(sum);
  tenon_tensor_release(x);
  tenon_tensor_release(a);
  tenon_tensor_release(base);
  CHECK(blocks == 0);
}

TEST("two ordinals of a backend are two devices, under every policy") {
  CHECK_STATUS(tenon_mixed_set(TENON_MIXED_MOVE), TENON_OK);
  CHECK(!add("core::add", on_npu("f32[2] 1 2"), at("f32[2] 3 4", 1), TENON_INVALID));
  CHECK_TEXT(tenon_error(), "core::add: arguments on several devices: a on npu:0, b on npu:1");
  CHECK(!add("core::sub", on_npu("f32[2] 1 2"), at("f32[] 3", 1), TENON_INVALID));
  CHECK_TEXT(tenon_error(), "core::sub: arguments on several devices: a on npu:0, b on npu:1");
  tenon_tensor_t *y = add("core::add", at("f32[2] 1 2", 1), tensor_of("f32[2] 3 4"), TENON_OK);
  CHECK(y->device.id == npu_device.id + 1);
  check_npu(y, "f32[2] 4 6");
  tenon_tensor_release(y);
  CHECK_STATUS(tenon_mixed_set(0), TENON_OK);
}

TEST("an @host argument does not determine the device, and is refused on a device") {
  tenon_tensor_t *x = on_npu("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *shape = tensor_of("i64[2] 3 2");
  tenon_tensor_t *out[1] = {NULL};
  tenon_tensor_t *in[2] = {x, shape};
  CHECK_STATUS(tenon_op_call(op_of("core::reshape"), NULL, in, out, 0), TENON_OK);
  check_npu(out[0], "f32[3,2] 1 2 3 4 5 6");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  in[1] = on_npu("i64[2] 3 2");
  CHECK_STATUS(tenon_op_call(op_of("core::reshape"), NULL, in, out, 0), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "core::reshape: arguments that are read in host memory (@host) are on "
                            "a device: shape on npu:0");
  tenon_tensor_release(x);
  tenon_tensor_release(shape);
  tenon_tensor_release(in[1]);
}

TEST("shapes and counts of a device's tensors are computed on the host, without a fallback") {
  tenon_tensor_t *x = on_npu("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *in[2] = {x, x};
  tenon_tensor_t *out[1] = {NULL};
  copies = 0;
  CHECK_STATUS(tenon_op_call(op_of("core::shape"), NULL, in, out, 0), TENON_OK);
  CHECK_TENSOR(out[0], "i64[2] 2 3");
  CHECK(out[0]->device.type == 1);
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::size"), NULL, in, out, 0), TENON_OK);
  CHECK_TENSOR(out[0], "i64[] 6");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::size_ratio"), NULL, in, out, 0), TENON_OK);
  CHECK_TENSOR(out[0], "f32[] 1");
  tenon_tensor_release(out[0]);
  CHECK(copies == 0 && !tenon_op_has_kernel(op_of("core::shape"), "npu"));
  char *report = NULL;
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  CHECK(!strstr(report, "core::shape") && !strstr(report, "core::size"));
  tenon_text_release(report);
  tenon_tensor_release(x);
}

TEST("a composite may pass its own host tensors on, but may get mixed arguments only where that is "
     "allowed") {
  tenon_tensor_t *x = on_npu("f32[2] 1 2");
  tenon_tensor_t *y = on_npu("f32[2] 3 4");
  tenon_tensor_t *host = tensor_of("f32[2] 3 4");
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("mixed::more"), NULL, (tenon_tensor_t *[]){x, y}, &out, 0),
               TENON_OK);
  check_npu(out, "f32[2] 5 7");
  tenon_tensor_release(out);
  out = NULL;
  CHECK_STATUS(tenon_op_call(op_of("mixed::more"), NULL, (tenon_tensor_t *[]){x, host}, &out, 0),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "mixed::more: arguments in host memory: by, beside x on npu:0");
  CHECK(!out);
  CHECK_STATUS(tenon_op_call_mixed(op_of("mixed::more"), NULL, (tenon_tensor_t *[]){x, host}, &out,
                                   0, TENON_MIXED_MOVE),
               TENON_OK);
  check_npu(out, "f32[2] 5 7");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(host);
  tenon_tensor_release(out);
}

TEST("nothing is left behind") {
  tenon_library_release(library);
  tenon_shutdown();
  CHECK(blocks == 0);
}
