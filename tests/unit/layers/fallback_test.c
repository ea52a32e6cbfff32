/* Fallbacks of single operators, and operators that must not fall back, declared by words of
 * kernels: by a library and by a program, before and after other registrations, by dtype, and
 * beside composites. Also random operators, whose numbers stay the same. */
#include <stdlib.h>

#include "check.h"
#include "core/tensor.h"
#include "tensors.h"

#include "operators.h"

#include "npu.h"

#include "probes.h"

static double id[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

static tenon_status_t halve(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    ((float *)show(call->outputs[0]))[i] = ((const float *)show(call->inputs[0]))[i] / 2;
  return TENON_OK;
}

static tenon_status_t noise(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    ((float *)call->outputs[0]->data)[i] =
        (float)(tenon_random(call->random->seed, call->random->offset + (uint64_t)i) >> 8);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(vendor, "1.0.0",
  TENON_OP("noise(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_TRAITS(TENON_PURE | TENON_RANDOM),
    TENON_SHAPES("out = x"), TENON_KERNEL("cpu", noise)),
  TENON_EXTEND("core::abs", TENON_RULE("npu fallback")),
  TENON_EXTEND("core::neg", TENON_KERNEL("npu f32", halve), TENON_RULE("npu no_fallback")),
  TENON_EXTEND("core::sin", TENON_RULE("npu no_fallback")),
  TENON_EXTEND("core::cos", TENON_RULE("npu no_fallback")),
  TENON_EXTEND("core::shape", TENON_RULE("npu no_fallback")),
  TENON_EXTEND("core::transpose", TENON_RULE("npu no_fallback")),
  TENON_EXTEND("late::late", TENON_RULE("npu no_fallback")))
/* clang-format on */

static tenon_library_t *library;

static tenon_tensor_t *on_npu(const char *text) {
  tenon_tensor_t *host = tensor_of(text);
  tenon_tensor_t *made = NULL;
  CHECK_STATUS(tenon_tensor_copy_to(host, npu_device, &made), TENON_OK);
  tenon_tensor_release(host);
  return made;
}

static void check_call(const char *op, const char *attrs_text, const char *in,
                       const char *expected) {
  tenon_tensor_t *x = on_npu(in);
  tenon_tensor_t *out[1] = {NULL};
  tenon_tensor_t *host = NULL;
  tenon_attrs_t *attrs = attrs_of(op_of(op), attrs_text);
  CHECK_STATUS(tenon_op_call(op_of(op), attr_values(attrs), &x, out, 0), TENON_OK);
  if (out[0]) {
    CHECK(out[0]->device.type == 12);
    CHECK_STATUS(tenon_tensor_copy_to(out[0], (tenon_device_t){1, 0}, &host), TENON_OK);
    CHECK_TENSOR(host, expected);
  }
  tenon_attrs_release(attrs);
  tenon_tensor_release(x);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(host);
}

static void refuse_call(const char *op, const char *in, const char *part) {
  tenon_tensor_t *x = on_npu(in);
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_op_call(op_of(op), NULL, &x, out, 0), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tenon_error(), part);
  tenon_tensor_release(x);
}

TEST("a library can let one operator fall back, without a fallback of the whole backend") {
  npu_start();
  tenon_registration_release(npu_falls);
  CHECK_STATUS(tenon_library_add(tenon_library(), NULL, NULL, &library), TENON_OK);
  CHECK_RULE("core::abs", "npu", "kernel");
  CHECK(tenon_op_has_kernel(op_of("core::abs"), "npu"));
  check_call("core::abs", NULL, "f32[2] -1 2", "f32[2] 1 2");
  refuse_call("core::sqrt", "f32[2] 1 4", "core::sqrt: no kernel for npu");
  char *report = NULL;
  CHECK_STATUS(tenon_fallback_report(&report), TENON_OK);
  CHECK_TEXT(
      report,
      "core::abs                                         1 calls             16 bytes copied\n");
  tenon_text_release(report);
}

TEST("that fallback keeps strides, as the fallback of a backend does") {
  tenon_tensor_t *x = on_npu("f32[2,3] -1 -2 -3 -4 -5 -6");
  tenon_tensor_t *t = NULL;
  tenon_tensor_t *out[1] = {NULL};
  tenon_tensor_t *host = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::transpose"), NULL, &x, &t, 0), TENON_OK);
  copies = 0;
  CHECK_STATUS(tenon_op_call(op_of("core::abs"), NULL, &t, out, 0), TENON_OK);
  CHECK(copies == 2); /* one copy to the host and one back: no dense copy was made */
  CHECK_STATUS(tenon_tensor_copy_to(out[0], (tenon_device_t){1, 0}, &host), TENON_OK);
  CHECK_TENSOR(host, "f32[3,2] 1 4 2 5 3 6");
  tenon_tensor_release(x);
  tenon_tensor_release(t);
  tenon_tensor_release(out[0]);
  tenon_tensor_release(host);
}

TEST("an operator whose fallback a library denies is refused with operator, backend, library and "
     "remedy") {
  CHECK_STATUS(tenon_fallback_add("npu", tenon_fallback_cpu, NULL, NULL, 0, &npu_falls), TENON_OK);
  check_call("core::sqrt", NULL, "f32[2] 1 4", "f32[2] 1 2");
  CHECK_RULE("core::sin", "npu", "denied");
  CHECK(probe_slot("core::sin", "npu").is_missing &&
        !tenon_op_has_kernel(op_of("core::sin"), "npu"));
  refuse_call(
      "core::sin", "f32[2] 1 4",
      "core::sin: no kernel for npu and dtype f32, and library vendor says that it must not fall "
      "back ('npu no_fallback'): add a kernel for npu, or move the arguments to the CPU");
  CHECK_RULE("core::sin", "cpu", "kernel");
}

TEST("what serves every device without a fallback is not denied: kernels with 'anywhere', and "
     "views") {
  tenon_tensor_t *x = on_npu("f32[2,3] 1 2 3 4 5 6");
  tenon_tensor_t *made[1] = {NULL};
  tenon_tensor_t *given = on_npu("f32[3,2] 0 0 0 0 0 0");
  tenon_tensor_t *host = NULL;
  CHECK_RULE("core::shape", "npu", "kernel");
  CHECK_RULE("core::transpose", "npu", "view");
  CHECK_STATUS(tenon_op_call(op_of("core::shape"), NULL, &x, made, 0), TENON_OK);
  CHECK_TENSOR(made[0], "i64[2] 2 3");
  tenon_tensor_release(made[0]);
  made[0] = NULL;
  CHECK_STATUS(tenon_op_call(op_of("core::transpose"), NULL, &x, made, 0), TENON_OK);
  CHECK(made[0] && made[0]->data == x->data);
  CHECK_STATUS(tenon_op_call_into(op_of("core::transpose"), NULL, &x, &given), TENON_OK);
  CHECK_STATUS(tenon_tensor_copy_to(given, (tenon_device_t){1, 0}, &host), TENON_OK);
  CHECK_TENSOR(host, "f32[3,2] 1 4 2 5 3 6");
  tenon_tensor_release(x);
  tenon_tensor_release(made[0]);
  tenon_tensor_release(given);
  tenon_tensor_release(host);
}

TEST("dtypes that the backend's own kernel does not serve are denied, too") {
  check_call("core::neg", NULL, "f32[2] 1 4", "f32[2] 0.5 2");
  refuse_call("core::neg", "f64[2] 1 4",
              "core::neg: no kernel for npu and dtype f64, and library vendor says");
}

TEST("a program can deny and allow fallbacks: a kernel, a fallback or a composite of the operator "
     "precedes the denial") {
  probe_start();
  tenon_registration_release(npu_falls);
  tenon_registration_t *fallback = probe_fallback("npu", &id[1], TENON_PREFERRED);
  tenon_registration_t *denial = NULL;
  tenon_registration_t *own, *composite;
  CHECK_ANSWER("probe::plain", "npu", 1);
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu no_fallback", NULL, NULL, NULL, 0, &denial),
               TENON_OK);
  CHECK_REFUSED("probe::plain", "npu", TENON_UNIMPLEMENTED,
                "library program says that it must not fall back");
  composite = probe_add("probe::plain", "composite", &id[2], 0);
  /* The composite serves the call although the backend prefers its fallback. */
  CHECK_ANSWER("probe::plain", "npu", 2);
  /* A kernel may stand beside the denial without TENON_OVERRIDE. */
  own = probe_add("probe::plain", "npu f64", &id[3], 0);
  CHECK_ANSWER("probe::plain", "npu", 3);
  tenon_registration_release(own);
  own = NULL;
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu", tenon_fallback_cpu, NULL, NULL, 0, &own),
               TENON_OK);
  CHECK_RULE("probe::plain", "npu", "kernel");
  tenon_registration_release(own);
  tenon_registration_release(composite);
  CHECK_REFUSED("probe::plain", "npu", TENON_UNIMPLEMENTED, "must not fall back");
  tenon_registration_release(denial);
  CHECK_ANSWER("probe::plain", "npu", 1);
  tenon_registration_release(fallback);
  CHECK_RULE("probe::plain", "npu", "missing");
}

TEST("words that make no sense are refused with the reason") {
  static const struct {
    const char *where;
    const char *part;
  } bad[] = {{"cpu fallback", "words for backends other than the CPU"},
             {"cpu no_fallback", "words for backends other than the CPU"},
             {"cpu scalars", "words for backends other than the CPU"},
             {"autograd fallback", "words for backends other than the CPU"},
             {"npu anywhere", "a kernel of the CPU serves tensors of every device"},
             {"npu fallback no_fallback", "only one of fallthrough, fallback and no_fallback"},
             {"npu fallback fallthrough", "only one of fallthrough, fallback and no_fallback"},
             {"npu f32 no_fallback", "denied for all dtypes at once"}};
  tenon_registration_t *r = NULL;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_STATUS(tenon_kernel_add("probe::plain", bad[i].where, NULL, NULL, NULL, 0, &r),
                 TENON_INVALID);
    CHECK_TEXT(tenon_error(), bad[i].part);
  }
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu fallback", probe_kernel, id, NULL, 0, &r),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "is the host's and has no function of its own");
  CHECK_STATUS(tenon_kernel_add("probe::plain", "npu scalars", NULL, NULL, NULL, 0, &r),
               TENON_INVALID);
  CHECK_TEXT(tenon_error(), "has no function");
}

TEST("random operators draw the same numbers through a fallback") {
  static const char *const names[] = {"vendor::noise", "core::dropout"};
  CHECK_STATUS(tenon_fallback_add("npu", tenon_fallback_cpu, NULL, NULL, 0, &npu_falls), TENON_OK);
  int64_t count = 64;
  tenon_tensor_t *places[2] = {NULL};
  CHECK_STATUS(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &count, &places[0]), TENON_OK);
  for (int i = 0; i < 64; i++)
    ((float *)places[0]->data)[i] = (float)i;
  CHECK_STATUS(tenon_tensor_copy_to(places[0], npu_device, &places[1]), TENON_OK);
  for (int n = 0; n < 2; n++)
    for (int calls = 1; calls < 4; calls++) { /* The stream of numbers continues in the same way. */
      tenon_tensor_t *made[2][2] = {{NULL}};
      tenon_tensor_t *back = NULL;
      for (int p = 0; p < 2; p++) {
        tenon_random_seed(41);
        for (int i = 0; i < calls; i++) {
          for (int o = 0; o < 2; o++) {
            tenon_tensor_release(made[p][o]);
            made[p][o] = NULL;
          }
          CHECK_STATUS(tenon_op_call(op_of(names[n]), NULL, &places[p], made[p], 1), TENON_OK);
        }
      }
      CHECK(made[1][0]->device.type == 12);
      CHECK_STATUS(tenon_tensor_copy_to(made[1][0], (tenon_device_t){1, 0}, &back), TENON_OK);
      CHECK(memcmp(made[0][0]->data, back->data, 256) == 0 &&
            memcmp(back->data, places[0]->data, 256) != 0);
      for (int p = 0; p < 2; p++)
        tenon_tensor_release(made[p][0]);
      tenon_tensor_release(back);
    }
  tenon_tensor_release(places[0]);
  tenon_tensor_release(places[1]);
}

TEST("nothing is left behind") {
  tenon_library_release(library);
  tenon_shutdown();
  CHECK(blocks == 0);
}

TEST("calls that measure a device for a placement are not counted as fallbacks of the program") {
  npu_start();
  const tenon_device_t both[] = {npu_device, {1, 0}};
  char *before = NULL;
  char *after = NULL;
  CHECK_STATUS(tenon_fallback_report(&before), TENON_OK);
  tenon_builder_t *builder = graph_begin();
  tenon_edge_t inputs[16] = {graph_input(builder, "x", TENON_F32, 1), -1, -1, -1};
  tenon_edge_t result;
  graph_node(builder, "root", "core::sqrt", NULL, inputs, &result, 1);
  graph_output(builder, "y", result);
  copies = 0;
  tenon_executable_t *executable =
      graph_compile_with(builder, (tenon_compile_t){.devices = both, .device_count = 2});
  CHECK(executable && copies > 0); /* the device was measured */
  CHECK_STATUS(tenon_fallback_report(&after), TENON_OK);
  CHECK(before && after && strcmp(before, after) == 0);
  tenon_executable_release(executable);
  tenon_text_release(before);
  tenon_text_release(after);
}
