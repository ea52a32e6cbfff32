/* Errors in a model, or in a run of it, are reported with their place: node and operator, or the
 * part of the file. After a failed run the executable works again, and the registered operators are
 * unchanged. */
#define TENON_STATIC
#include <tenon/op.h>

#include "attempt.h"
#include "check.h"
#include "model_text.h"
#include "tensors.h"

#define FOLDER TEST_DATA "/models"

/* Fails on a negative element, after it has written the elements before. */
static tenon_status_t roots_run(tenon_call_t *call) {
  const float *x = call->inputs[0]->data;
  float *y = call->outputs[0]->data;
  void *scratch = call->host->allocate(call, 1000);
  if (!scratch) return TENON_MEMORY;
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++) {
    if (x[i] < 0) return tenon_fail(call, TENON_RANGE, "element %d is negative", (int)i);
    y[i] = x[i];
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(fault, "1.0.0",
  TENON_OP("Roots(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: error"), TENON_KERNEL("cpu", roots_run)))
/* clang-format on */

static bool start(void) {
  static bool done;
  attempt_start();
  if (!done)
    done = CHECK_STATUS(tenon_library_add(tenon_library_fault(), NULL, NULL, NULL), TENON_OK);
  return done;
}

static tenon_status_t read_text(const char *text, message_t *bytes, tenon_graph_t **out_graph) {
  tenon_import_t options = {.size = sizeof options, .folder = FOLDER};
  model_of(text, bytes);
  return tenon_graph_read(bytes->data, bytes->size, &options, out_graph);
}

TEST("an error in a file is reported with node and operator, or with the part of the file") {
  static const struct {
    const char *what;
    const char *model;
    const char *parts[4];
  } bad[] = {
      {"unknown operator",
       "in x 1 2; node Frobnicate x > y; out y",
       {"node 'y' (Frobnicate, domain '', opset 20)", "the operator is unknown"}},
      {"missing library",
       "in x 1 2; node Do@acme.things x > y; out y",
       {"node 'y' (Do, domain 'acme.things'",
        "no operator acme_things::Do is loaded; load its library first"}},
      {"unknown operator of a library that is there",
       "in x 1 2; node Rotos@fault x > y; out y",
       {"node 'y' (Rotos, domain 'fault'", "fault::Rotos"}},
      {"missing input",
       "in x 1 2; node Add x > y; out y",
       {"node 'y' (Add", "input 1 (`b`) is missing"}},
      {"missing input of a library's operator",
       "in x 1 2; node Roots@fault > y; out y",
       {"node 'y' (Roots, domain fault", "x", "missing"}},
      {"surplus input",
       "in x 1 2; node Neg x x > y; out y",
       {"node 'y' (Neg", "expected at most 1 inputs, found 2"}},
      {"surplus input of a library's operator",
       "in x 1 2; node Roots@fault x x > y; out y",
       {"node 'y' (Roots, domain fault",
        "the node has 2 inputs, but Roots(Tensor x) -> Tensor takes 1"}},
      {"surplus output",
       "in x 1 2; node Neg x > y z; out y",
       {"node 'y' (Neg", "expected at most 1 outputs, found 2"}},
      {"cycle",
       "in x 1 2; node Add x b > a; node Neg a > b; out b",
       {"the nodes 'a' (Add), 'b' (Neg) form a cycle"}},
      {"cycle behind a value that is used before its definition",
       "in x 1 2; node Neg late > y; node Add x late > a; node Abs a > late; out y",
       {"the nodes 'late' (Abs), 'a' (Add) form a cycle"}},
      {"node that uses its own result",
       "in x 1 2; node Add x y > y; out y",
       {"node 'y' (Add) is a cycle: it uses its own result"}},
      {"name defined twice, with a use in between",
       "in x 1 2; node Neg x > y; node Abs y > z; node Neg z > y; out y",
       {"node 'y' (Neg", "'y' is defined twice"}},
      {"value that nothing defines",
       "in x 1 2; node Add x w > y; out y",
       {"node 'y' (Add", "'w' is not defined"}},
      {"name defined twice",
       "in x 1 2; node Neg x > y; node Abs x > y; out y",
       {"node 'y' (Abs", "'y' is defined twice"}},
      {"input that is there twice",
       "in x 1 2; in x 1 2; node Neg x > y; out y",
       {"two values named 'x'"}},
      {"weight that is there twice",
       "weight w 1 2 8; weight w 1 2 8; node Neg w > y; out y",
       {"'w' is defined twice"}},
      {"output that nothing defines",
       "in x 1 2; node Neg x > y; out z",
       {"output 'z' is not defined by any node"}},
      {"output that is there twice",
       "in x 1 2; node Neg x > y; out y; out y",
       {"output 'y' is listed twice"}},
      {"unknown operator set",
       "opset 999; in x 1 2; node Neg x > y; out y",
       {"operator set 999", "1 to 27"}},
      {"operator that the set has not yet",
       "opset 6; in x 1 2; node Gelu x > y; out y",
       {"node 'y' (Gelu, domain '', opset 6)", "older"}},
      {"attribute of the wrong type",
       "in x 1 2,3; node Transpose x > y perm=s:10; out y",
       {"node 'y' (Transpose", "attribute 'perm': expected a list of ints, found a string"}},
      {"unknown attribute",
       "in x 1 2; node Neg x > y loudly=i:1; out y",
       {"node 'y' (Neg", "this operator has no attribute 'loudly'"}},
      {"attribute given twice",
       "in x 1 2,3; node Softmax x > y axis=i:0 axis=i:1; out y",
       {"node 'y' (Softmax", "'axis' is given twice"}},
      {"weights cut short",
       "weight w 1 4 12; node Neg w > y; out y",
       {"tensor 'w' (f32 [4])", "expected 16 bytes, found 12"}},
      {"weights of 2^62 elements",
       "weight w 1 4611686018427387904 8; node Neg w > y; out y",
       {"tensor 'w' (f32 [4611686018427387904])", "impossible shape"}},
      {"weights of 2^80 elements",
       "weight w 1 1099511627776,1099511627776 8; node Neg w > y; out y",
       {"tensor 'w'", "impossible shape [1099511627776, 1099511627776]"}},
      {"negative extent",
       "weight w 1 2,-3 8; node Neg w > y; out y",
       {"tensor 'w'", "impossible shape [2, -3]"}},
      {"unknown element type",
       "weight w 99 2 8; node Neg w > y; out y",
       {"tensor 'w'", "element type 99"}},
      {"weight file missing",
       "file w 2 nowhere.bin; node Neg w > y; out y",
       {"tensor 'w' (f32 [2])", "nowhere.bin"}},
      {"weight file short",
       "file w 9999 external.bin; node Neg w > y; out y",
       {"tensor 'w'", "external data in 'external.bin': expected 39996 bytes at offset 0, found"}},
      {"absolute path",
       "file w 2 /etc/passwd; node Neg w > y; out y",
       {"tensor 'w'", "'/etc/passwd'", "only files in the model's folder or below are read"}},
      {"path that climbs",
       "file w 2 ../models/external.bin; node Neg w > y; out y",
       {"tensor 'w'", "only files in the model's folder or below are read"}},
      {"path that climbs later",
       "file w 2 a/../../models/external.bin; node Neg w > y; out y",
       {"tensor 'w'", "only files in the model's folder or below are read"}},
      {"location that is a folder",
       "file w 2 .; node Neg w > y; out y",
       {"tensor 'w'", "found a folder"}},
  };
  if (!start()) return;
  uint64_t operators = attempt_operators();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    static message_t bytes;
    tenon_graph_t *graph = NULL;
    tenon_status_t status = read_text(bad[i].model, &bytes, &graph);
    bool fine = CHECK(status != TENON_OK && status != TENON_INTERNAL && !graph);
    for (int k = 0; k < 4 && bad[i].parts[k]; k++)
      fine = CHECK_TEXT(tenon_error(), bad[i].parts[k]) && fine;
    if (!fine) fprintf(stderr, "  %s\n", bad[i].what);
    CHECK(attempt_operators() == operators);
    tenon_graph_release(graph);
  }
}

TEST("a wrong dtype or shape is reported with node and operator, when the model is compiled or "
     "run") {
  static const struct {
    const char *what;
    const char *model;
    const char *inputs[2];
    const char *parts[4];
  } bad[] = {
      {"two dtypes",
       "in a 1 2; in b 7 2; node Add a b > y; out y",
       {"f32[2] 1 2", "i64[2] 1 2"},
       {"node 'y' (core::add)", "input 'b': expected f32, the dtype of 'a', found i64"}},
      {"dtype that an operator does not take",
       "in a 7 2; node Roots@fault a > y; out y",
       {"i64[2] 1 2"},
       {"node 'y' (fault::Roots)", "input 'x': expected f32, found i64"}},
      {"shapes of a product",
       "in a 1 2,3; in b 1 2,3; node MatMul a b > y; out y",
       {"f32[2, 3] 1 2 3 4 5 6", "f32[2, 3] 1 2 3 4 5 6"},
       {"node 'y' (core::matmul)", "3", "2"}},
      {"shapes of a sum",
       "in a 1 2; in b 1 3; node Add a b > y; out y",
       {"f32[2] 1 2", "f32[3] 1 2 3"},
       {"node 'y' (core::add)", "2", "3"}},
      {"list of the wrong length",
       "in a 1 2,3; node Transpose a > y perm=l:1,0,2; out y",
       {"f32[2, 3] 1 2 3 4 5 6"},
       {"node 'y' (core::", "perm"}},
      {"list of strides of the wrong length",
       "in a 1 1,1,4,4; node MaxPool a > y kernel_shape=l:2,2 strides=l:1,1,1; out y",
       {"f32[1, 1, 4, 4] 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"},
       {"node 'y' (core::max_pool)", "strides lists 3 numbers for 2 spatial axes"}},
      {"axis outside",
       "in a 1 2,3; node Softmax a > y axis=i:5; out y",
       {"f32[2, 3] 1 2 3 4 5 6"},
       {"node 'y' (core::softmax)", "axis 5"}},
      {"negative number of groups",
       "in a 1 1,1,3; weight w 1 1,1,1 4; node Conv a w > y group=i:-1; out y",
       {"f32[1, 1, 3] 1 2 3"},
       {"node 'y' (core::conv)", "group"}},
  };
  if (!start()) return;
  uint64_t operators = attempt_operators();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags++) {
      static message_t bytes;
      tenon_compile_t options = {.size = sizeof options, .flags = flags};
      tenon_graph_t *graph = NULL;
      tenon_executable_t *executable = NULL;
      tenon_tensor_t *inputs[2] = {tensor_of(bad[i].inputs[0]), tensor_of(bad[i].inputs[1])};
      tenon_tensor_t *outputs[1] = {NULL};
      tenon_status_t status = read_text(bad[i].model, &bytes, &graph);
      if (status == TENON_OK) status = tenon_executable_create(graph, &options, &executable);
      if (status == TENON_OK) status = tenon_executable_run(executable, inputs, outputs, NULL);
      bool fine = CHECK(status != TENON_OK && status != TENON_INTERNAL && !outputs[0]);
      for (int k = 0; k < 4 && bad[i].parts[k]; k++)
        fine = CHECK_TEXT(tenon_error(), bad[i].parts[k]) && fine;
      if (!fine) fprintf(stderr, "  %s\n", bad[i].what);
      for (int k = 0; k < 2; k++)
        tenon_tensor_release(inputs[k]);
      tenon_tensor_release(outputs[0]);
      tenon_executable_release(executable);
      tenon_graph_release(graph);
      CHECK(attempt_operators() == operators);
    }
}

/* Makes one run; with `parts` NULL it must give `expected`. */
static void run_once(tenon_executable_t *executable, const char *const *texts,
                     const char *const *parts, const char *expected) {
  tenon_tensor_t *inputs[2] = {tensor_of(texts[0]), tensor_of(texts[1])};
  tenon_tensor_t *output = NULL;
  attempt_limit(true); /* The limit is less than the largest models here request. */
  tenon_status_t status = tenon_executable_run(executable, inputs, &output, NULL);
  attempt_limit(false);
  char found[400] = "";
  if (parts) {
    CHECK(status != TENON_OK && status != TENON_INTERNAL && !output);
    for (int k = 0; k < 3 && parts[k]; k++)
      CHECK_TEXT(tenon_error(), parts[k]);
  } else if (CHECK_STATUS(status, TENON_OK)) {
    tensor_print(output, found, sizeof found);
    CHECK_TEXT(found, expected);
  }
  tenon_tensor_release(output);
  for (int k = 0; k < 2; k++)
    tenon_tensor_release(inputs[k]);
}

TEST("after any run that failed, the executable works again") {
  static const struct {
    const char *model;
    const char *bad[2];
    const char *parts[3];
    const char *good[2];
    const char *expected;
  } cases[] = {
      /* An operator of a library fails during the run. */
      {"in x 1 n; node Roots@fault x > y; out y",
       {"f32[2] 4 -1"},
       {"node 'y' (fault::Roots)", "element 1 is negative"},
       {"f32[2] 4 1"},
       "4 1"},
      /* in the middle */
      {"in x 1 n; node Neg x > a; node Roots@fault a > b; node Neg b > y; out y",
       {"f32[2] -4 1"},
       {"node 'b' (fault::Roots)", "element 1 is negative"},
       {"f32[2] -4 -1"},
       "-4 -1"},
      /* A built-in operator fails. */
      {"in x 1 n; in i 7 m; node Gather x i > y; out y",
       {"f32[2] 1 2", "i64[1] 2"},
       {"node 'y' (core::gather)", "2"},
       {"f32[2] 1 2", "i64[1] 1"},
       "f32[1] 2"},
      /* The shape does not fit the input. */
      {"in x 1 n; in s 7 m; node Reshape x s > y; out y",
       {"f32[2] 1 2", "i64[1] 3"},
       {"node 'y' (core::", "2", "3"},
       {"f32[2] 1 2", "i64[2] 2 1"},
       "f32[2, 1] 1 2"},
      /* The shape is negative. */
      {"in x 1 n; in s 7 m; node Reshape x s > y; out y",
       {"f32[2] 1 2", "i64[2] -5 2"},
       {"node 'y' (core::", "-5"},
       {"f32[2] 1 2", "i64[2] 2 1"},
       "f32[2, 1] 1 2"},
      {"in s 7 1; node ConstantOfShape s > y; out y", /* 2^62 elements */
       {"i64[1] 4611686018427387904"},
       {"node 'y' (core::", "4611686018427387904"},
       {"i64[1] 2"},
       "f32[2] 0 0"},
      {"in s 7 1; node ConstantOfShape s > y; out y", /* too many bytes for this machine */
       {"i64[1] 34359738368"},
       {"node 'y' (core::", "out of memory"},
       {"i64[1] 2"},
       "f32[2] 0 0"},
      /* The shapes fit only for some inputs. */
      {"in a 1 n; in b 1 m; node Add a b > y; out y",
       {"f32[2] 1 2", "f32[3] 1 2 3"},
       {"node 'y' (core::add)", "2", "3"},
       {"f32[2] 1 2", "f32[2] 1 2"},
       "2 4"},
      /* Inputs: one symbol has two extents. */
      {"in a 1 n; in b 1 n; node Add a b > y; out y",
       {"f32[2] 1 2", "f32[1] 1"},
       {"input 'b': axis 0 (n) has extent 1, but the axis of the same name of input 'a' has 2"},
       {"f32[2] 1 2", "f32[2] 1 2"},
       "2 4"},
      {"in x 1 n; node Neg x > y; out y", /* an input of another dtype */
       {"i64[2] 1 2"},
       {"input 'x': expected dtype f32, found i64"},
       {"f32[2] 1 2"},
       "-1 -2"},
      {"in x 1 2,n; node Neg x > y; out y", /* of another rank */
       {"f32[2] 1 2"},
       {"input 'x': expected 2 dimensions, found shape [2]"},
       {"f32[2, 1] 1 2"},
       "-1 -2"},
      {"in x 1 2; node Neg x > y; out y", /* of another extent */
       {"f32[3] 1 2 3"},
       {"input 'x': expected extent 2 in axis 0, found shape [3]"},
       {"f32[2] 1 2"},
       "-1 -2"},
      {"in x 1 2; in z 1 2; node Add x z > y; out y", /* no input at all */
       {"f32[2] 1 2"},
       {"input 'z' is missing"},
       {"f32[2] 1 2", "f32[2] 1 2"},
       "2 4"},
  };
  if (!start()) return;
  uint64_t operators = attempt_operators();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN; flags++) {
      static message_t bytes;
      tenon_compile_t options = {.size = sizeof options, .flags = flags};
      tenon_graph_t *graph = NULL;
      tenon_executable_t *executable = NULL;
      int before = check_failures;
      CHECK_STATUS(read_text(cases[i].model, &bytes, &graph), TENON_OK);
      if (graph) CHECK_STATUS(tenon_executable_create(graph, &options, &executable), TENON_OK);
      for (int turn = 0; executable && turn < 3; turn++) {
        run_once(executable, cases[i].bad, cases[i].parts, NULL);
        run_once(executable, cases[i].good, NULL, cases[i].expected);
      }
      if (check_failures > before) fprintf(stderr, "  in: %s\n", cases[i].model);
      tenon_executable_release(executable);
      tenon_graph_release(graph);
      CHECK(attempt_operators() == operators);
    }
}
