/* Reloading: a rebuilt library replaces the loaded one under graphs, executables, bound calls and
 * running threads, or is refused, and then nothing changes. */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "check.h"
#include "failing.h"
#include "tensors.h"
#include "written.h"

/* BY changes a loop, a state and a shape, OTHER changes a schema, and GONE removes an operator. */
static const char source[] =
    "#include <stdlib.h>\n#include <tenon/op.h>\n#include <tenon/iterator.h>\n"
    "#ifndef NAME\n#define NAME changing\n#endif\n#define NAMED(name, ...) TENON_LIBRARY(name, "
    "__VA_ARGS__)\n"
    "static tenon_status_t more(const tenon_loop_t *loop) {\n"
    "  for (int64_t i = 0; i < loop->count; i++)\n"
    "    ((float *)loop->data[1])[i] = ((const float *)loop->data[0])[i] + BY;\n"
    "  return TENON_OK;\n}\n"
    "static tenon_status_t create(tenon_node_t *node) {\n"
    "  int *state = malloc(sizeof *state);\n  *state = BY * 100;\n  node->state = state;\n  return "
    "TENON_OK;\n}\n"
    "static tenon_status_t counted(tenon_call_t *call) { /* how often this state was used */\n"
    "  *(float *)call->outputs[0]->data = (float)++*(int *)call->state;\n  return TENON_OK;\n}\n"
    "static tenon_status_t shape(tenon_infer_t *infer) {\n"
    "  infer->outputs[0]->ndim = 1, infer->outputs[0]->dims[0] = tenon_extent(BY);\n  return "
    "TENON_OK;\n}\n"
    "static tenon_status_t repeat(tenon_call_t *call) {\n"
    "  for (int i = 0; i < call->outputs[0]->shape[0]; i++) ((float *)call->outputs[0]->data)[i] = "
    "BY;\n"
    "  return TENON_OK;\n}\n"
    "static tenon_status_t refuse(tenon_node_t *node) {\n"
    "  return tenon_fail(node, TENON_UNAVAILABLE, \"it does not open today\");\n}\n"
    "static void close(void *state) { (void)state; }\n"
    "static tenon_status_t other_f64(const tenon_loop_t *loop) {\n"
    "  for (int64_t i = 0; i < loop->count; i++) ((double *)loop->data[1])[i] = BY;\n  return "
    "TENON_OK;\n}\n"
    "NAMED(NAME, \"1.0.0\",\n"
    "#ifdef CLOSED\n  TENON_OPEN(refuse, close),\n#endif\n"
    "  TENON_OP(\"more(Tensor x) -> Tensor\", TENON_TYPES(\"x: f32; out = x\"),\n"
    "    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP(\"f32 -> f32\", more)),\n"
    "  TENON_OP(\"counted(Tensor x) -> Tensor\", TENON_TYPES(\"x: f32; out = x\"), "
    "TENON_SHAPES(\"x: []; out = x\"),\n"
    "    TENON_STATE(create, free), TENON_KERNEL(\"cpu f32\", counted)),\n"
    "  TENON_OP(\"repeat(Tensor x) -> Tensor\", TENON_TYPES(\"x: f32; out = x\"), "
    "TENON_INFER(shape),\n"
    "    TENON_KERNEL(\"cpu f32\", repeat)),\n"
    "#ifndef GONE\n"
    "#ifdef OTHER\n  TENON_OP(\"extra(Tensor x, *, int a=1) -> Tensor\",\n#else\n  "
    "TENON_OP(\"extra(Tensor x) -> Tensor\",\n#endif\n"
    "    TENON_TYPES(\"x: f32; out = x\"), TENON_TRAITS(TENON_PURE | TENON_POINTWISE),\n"
    "    TENON_LOOP(\"f32 -> f32\", more)),\n"
    "#endif\n"
    "  TENON_EXTEND(\"beside::base\", TENON_LOOP(\"f64 -> f64\", other_f64)))\n";

/* Another library: it has an operator to which `changing` adds a kernel, an operator that uses
 * changing::extra, and a kernel for changing::more. */
static const char beside[] =
    "#include <tenon/op.h>\n"
    "static tenon_status_t same(const tenon_loop_t *loop) {\n"
    "  for (int64_t i = 0; i < loop->count; i++) ((double *)loop->data[1])[i] = -1;\n  return "
    "TENON_OK;\n}\n"
    "static tenon_status_t use(tenon_call_t *call) {\n"
    "  return call->host->invoke(call, call->uses[0], NULL, call->inputs, (tenon_tensor_t "
    "**)call->outputs);\n}\n"
    "static tenon_status_t npu(tenon_call_t *call) { (void)call; return TENON_OK; }\n"
    "TENON_LIBRARY(beside, \"1.0.0\",\n"
    "  TENON_OP(\"base(Tensor x) -> Tensor\", TENON_TYPES(\"x: f32|f64; out = x\"),\n"
    "    TENON_TRAITS(TENON_PURE | TENON_POINTWISE), TENON_LOOP(\"f64 -> f64\", same)),\n"
    "#ifdef USER\n"
    "  TENON_OP(\"user(Tensor x) -> Tensor\", TENON_TYPES(\"x: f32; out = x\"), TENON_SHAPES(\"out "
    "= x\"),\n"
    "    TENON_USES(\"changing::extra\"), TENON_COMPOSITE(use)),\n"
    "#endif\n"
    "  TENON_EXTEND(\"changing::more\", TENON_KERNEL(\"npu f32\", npu)))\n";

static void build_source(const char *file, const char *path, const char *first,
                         const char *second) {
  const char *name = in_folder(file);
  const char *options[] = {"-O1", first, second};
  const tenon_build_t build = {.size = sizeof build,
                               .source_count = 1,
                               .option_count = second  ? 3
                                               : first ? 2
                                                       : 1,
                               .sources = &name,
                               .options = options};
  CHECK_STATUS(tenon_library_build(&build, in_folder(path)), TENON_OK);
}

static void build(const char *by, const char *option) {
  build_source("changing.c", "changing.so", by, option);
}

static tenon_library_t *begin(uint32_t flags) {
  static char cache[100];
  tenon_library_t *library = NULL;
  if (!*cache) {
    CHECK(mkdtemp(folder) != NULL);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    setenv("TENON_CACHE", cache, 1);
    put("changing.c", source);
    put("beside.c", beside);
  }
  build("-DBY=1", NULL);
  CHECK_STATUS(tenon_library_load(in_folder("changing.so"), flags, &library), TENON_OK);
  return library;
}

static const tenon_op_t *op_of(const char *name) {
  const tenon_op_t *op = NULL;
  CHECK_STATUS(tenon_op_find(name, &op), TENON_OK);
  return op;
}

/* Calls the operator with 0. */
static float call(const tenon_op_t *op) {
  float zero = 0;
  float result = -1;
  tenon_tensor_t x;
  tenon_tensor_t *inputs[] = {&x};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_view(&x, &zero, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL), TENON_OK);
  if (CHECK_STATUS(tenon_op_call(op, NULL, inputs, &out, 0), TENON_OK))
    result = *(const float *)out->data;
  tenon_tensor_release(out);
  return result;
}

/* Runs the operator with a given result. */
static float run_op(const tenon_op_t *op) {
  float zero = 0;
  float result = -1;
  tenon_tensor_t x, y;
  tenon_tensor_t *inputs[] = {&x};
  tenon_tensor_t *outputs[] = {&y};
  CHECK_STATUS(tenon_tensor_view(&x, &zero, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL), TENON_OK);
  CHECK_STATUS(tenon_tensor_view(&y, &result, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL),
               TENON_OK);
  CHECK_STATUS(tenon_op_run(op, NULL, inputs, outputs), TENON_OK);
  return result;
}

static float call_bound(tenon_bound_t *bound) {
  float zero = 0;
  float result = -1;
  tenon_tensor_t x;
  tenon_tensor_t *inputs[] = {&x};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_view(&x, &zero, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL), TENON_OK);
  if (CHECK_STATUS(tenon_bound_call(bound, inputs, &out, 0), TENON_OK))
    result = *(const float *)out->data;
  tenon_tensor_release(out);
  return result;
}

/* The graph y = op(op(x)) for one number. */
static tenon_graph_t *graph_of(const char *name) {
  tenon_builder_t *builder = NULL;
  tenon_graph_t *graph = NULL;
  tenon_edge_t edge[3] = {0};
  CHECK_STATUS(tenon_builder_create(&builder), TENON_OK);
  CHECK_STATUS(tenon_builder_input(builder, "x", tenon_dtype(TENON_F32), 0, NULL, &edge[0]),
               TENON_OK);
  for (int i = 0; i < 2; i++) {
    tenon_operand_t operand = {1, &edge[i]};
    CHECK_STATUS(tenon_builder_node(builder, NULL, op_of(name), NULL, &operand, &edge[i + 1], 1),
                 TENON_OK);
  }
  CHECK_STATUS(tenon_builder_output(builder, "y", edge[2]), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(builder, &graph), TENON_OK);
  tenon_builder_release(builder);
  return graph;
}

static tenon_executable_t *executable_of(const char *name) {
  tenon_graph_t *graph = graph_of(name);
  tenon_executable_t *executable = NULL;
  CHECK_STATUS(tenon_executable_create(graph, NULL, &executable), TENON_OK);
  tenon_graph_release(graph);
  return executable;
}

static float run(tenon_executable_t *executable) {
  float zero = 0;
  float result = -1;
  tenon_tensor_t x;
  tenon_tensor_t *inputs[] = {&x};
  tenon_tensor_t *out = NULL;
  CHECK_STATUS(tenon_tensor_view(&x, &zero, tenon_dtype(TENON_F32), 0, NULL, NULL, NULL), TENON_OK);
  if (CHECK_STATUS(tenon_executable_run(executable, inputs, &out, NULL), TENON_OK))
    result = *(const float *)out->data;
  tenon_tensor_release(out);
  return result;
}

TEST("after a reload handles, bound calls and executables use the new kernels") {
  tenon_library_t *library = begin(0);
  const tenon_op_t *more = op_of("changing::more");
  tenon_bound_t *bound = NULL;
  tenon_executable_t *executable = executable_of("changing::more");
  CHECK_STATUS(tenon_bound_create(more, NULL, &bound), TENON_OK);
  CHECK(call(more) == 1 && run_op(more) == 1 && call_bound(bound) == 1 && run(executable) == 2);
  /* The library is unchanged. */
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
  CHECK(op_of("changing::more") == more);
  const char *const steps[] = {"-DBY=5", "-DBY=7", "-DBY=1", "-DBY=9"};
  for (int i = 0; i < 4; i++) {
    const float by = (float)(steps[i][5] - '0');
    build(steps[i], NULL);
    CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
    CHECK(call(more) == by && run_op(more) == by && call_bound(bound) == by &&
          run(executable) == 2 * by);
    CHECK(op_of("changing::more") != more && call(op_of("changing::more")) == by);
    CHECK_STATUS(tenon_op_check(more), TENON_OK);
  }
  CHECK_TEXT(tenon_library_name(library), "changing");
  CHECK(tenon_library_op_count(library) == 4 &&
        tenon_library_op(library, 0) == op_of("changing::more"));
  tenon_library_t *again = NULL;
  CHECK_STATUS(tenon_library_load(in_folder("changing.so"), 0, &again), TENON_OK);
  CHECK(again == library);
  tenon_library_release(again);
  tenon_bound_release(bound);
  tenon_executable_release(executable);
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("a library of a runtime that was shut down cannot be reloaded") {
  tenon_library_t *library = begin(0);
  tenon_shutdown();
  build("-DBY=2", NULL);
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "the runtime was shut down");
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("a library can be reloaded from another file, which is its file from then on") {
  tenon_library_t *library = begin(0);
  build_source("changing.c", "elsewhere.so", "-DBY=3", NULL);
  CHECK_STATUS(tenon_library_reload(library, in_folder("elsewhere.so")), TENON_OK);
  CHECK(call(op_of("changing::more")) == 3);
  CHECK_TEXT(tenon_library_path(library), "elsewhere.so");
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("after a reload each bound call and executable still has a state of its own") {
  tenon_library_t *library = begin(0);
  const tenon_op_t *counted = op_of("changing::counted");
  tenon_bound_t *one = NULL;
  tenon_bound_t *two = NULL;
  tenon_executable_t *executable = executable_of("changing::counted");
  CHECK_STATUS(tenon_bound_create(counted, NULL, &one), TENON_OK);
  CHECK_STATUS(tenon_bound_create(counted, NULL, &two), TENON_OK);
  CHECK(call_bound(one) == 101 && call_bound(one) == 102 && call_bound(two) == 101 &&
        call(counted) == 101);
  CHECK(run(executable) == 101);
  build("-DBY=5", NULL);
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
  CHECK(call_bound(one) == 501 && call_bound(one) == 502 && call_bound(two) == 501 &&
        call(counted) == 501);
  CHECK(run_op(counted) == 502 && run(executable) == 501);
  tenon_bound_release(one);
  tenon_bound_release(two);
  tenon_executable_release(executable);
  tenon_library_release(library);
  tenon_shutdown();
}

/* The graph y = if (true) more(x) else x for one number. */
static tenon_executable_t *executable_of_if(void) {
  tenon_graph_t *bodies[2];
  tenon_graph_t *graph = NULL;
  tenon_builder_t *builder = NULL;
  tenon_executable_t *executable = NULL;
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  tenon_edge_t x, condition, y;
  for (int i = 0; i < 2; i++) {
    CHECK_STATUS(tenon_builder_create(&builder), TENON_OK);
    CHECK_STATUS(tenon_builder_input(builder, "x", tenon_dtype(TENON_F32), 0, NULL, &x), TENON_OK);
    const tenon_operand_t operand = {1, &x};
    y = x;
    if (!i)
      CHECK_STATUS(
          tenon_builder_node(builder, NULL, op_of("changing::more"), NULL, &operand, &y, 1),
          TENON_OK);
    CHECK_STATUS(tenon_builder_output(builder, "y", y), TENON_OK);
    CHECK_STATUS(tenon_builder_finish(builder, &bodies[i]), TENON_OK);
    tenon_builder_release(builder);
  }
  CHECK_STATUS(tenon_attrs_create(op_of("core::if"), &attrs), TENON_OK);
  for (int i = 0; i < 2; i++)
    CHECK_STATUS(tenon_attrs_set(attrs, i ? "else" : "then",
                                 &(tenon_value_t){.kind = TENON_KIND_GRAPH, .as.graph = bodies[i]}),
                 TENON_OK);
  CHECK_STATUS(tenon_attrs_int(attrs, "count", 1), TENON_OK);
  CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_OK);
  CHECK_STATUS(tenon_builder_create(&builder), TENON_OK);
  CHECK_STATUS(
      tenon_builder_input(builder, "condition", tenon_dtype(TENON_BOOL), 0, NULL, &condition),
      TENON_OK);
  CHECK_STATUS(tenon_builder_input(builder, "x", tenon_dtype(TENON_F32), 0, NULL, &x), TENON_OK);
  const tenon_operand_t operands[] = {{1, &condition}, {1, &x}};
  CHECK_STATUS(tenon_builder_node(builder, NULL, op_of("core::if"), values, operands, &y, 1),
               TENON_OK);
  CHECK_STATUS(tenon_builder_output(builder, "y", y), TENON_OK);
  CHECK_STATUS(tenon_builder_finish(builder, &graph), TENON_OK);
  CHECK_STATUS(tenon_executable_create(graph, NULL, &executable), TENON_OK);
  tenon_attrs_release(attrs);
  tenon_builder_release(builder);
  tenon_graph_release(graph);
  for (int i = 0; i < 2; i++)
    tenon_graph_release(bodies[i]);
  return executable;
}

TEST("after a reload nested graphs are prepared anew, too") {
  tenon_library_t *library = begin(0);
  tenon_executable_t *executable = executable_of_if();
  tenon_tensor_t *inputs[] = {tensor_of("bool[] 1"), tensor_of("f32[] 0")};
  tenon_tensor_t *y = NULL;
  const char *const steps[] = {"-DBY=1", "-DBY=5", "-DBY=7"};
  const char *const expected[] = {"f32[] 1", "f32[] 5", "f32[] 7"};
  for (int i = 0; i < 3; i++) {
    build(steps[i], NULL);
    CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
    CHECK_STATUS(tenon_executable_run(executable, inputs, &y, NULL), TENON_OK);
    CHECK_TENSOR(y, expected[i]);
    tenon_tensor_release(y);
    y = NULL;
  }
  tenon_tensor_release(inputs[0]);
  tenon_tensor_release(inputs[1]);
  tenon_executable_release(executable);
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("after a reload old handles infer results anew, and given results that no longer fit are "
     "refused") {
  tenon_library_t *library = begin(0);
  const tenon_op_t *repeat = op_of("changing::repeat");
  tenon_tensor_t *x = tensor_of("f32[] 0");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *inputs[] = {x};
  CHECK_STATUS(tenon_op_call(repeat, NULL, inputs, &y, 0), TENON_OK);
  CHECK_TENSOR(y, "f32[1] 1");
  build("-DBY=3", NULL);
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
  CHECK_STATUS(tenon_op_run(repeat, NULL, inputs, &y), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "changing::repeat: result out");
  tenon_tensor_release(y);
  y = NULL;
  CHECK_STATUS(tenon_op_call(repeat, NULL, inputs, &y, 0), TENON_OK);
  CHECK_TENSOR(y, "f32[3] 3 3 3");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_library_release(library);
  tenon_shutdown();
}

static void check_refused(tenon_library_t *library, const char *words) {
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), words);
  CHECK_TEXT(tenon_error(), "cannot reload ");
  CHECK(call(op_of("changing::more")) == 1 && call(op_of("changing::extra")) == 1);
}

TEST("a changed schema is refused while something holds the operator, and the message says what") {
  tenon_library_t *library = begin(0);
  const tenon_op_t *extra = op_of("changing::extra");
  tenon_graph_t *graph = graph_of("changing::extra");
  tenon_bound_t *bound = NULL;
  CHECK_STATUS(tenon_bound_create(extra, NULL, &bound), TENON_OK);
  build("-DBY=5", "-DOTHER");
  check_refused(library,
                "changing::extra: its schema changed from 'extra(Tensor x) -> Tensor' to "
                "'extra(Tensor x, *, int a=1) -> Tensor', and it is held by 1 graph, 1 bound call");
  tenon_bound_release(bound);
  tenon_executable_t *executable = NULL;
  CHECK_STATUS(tenon_executable_create(graph, NULL, &executable), TENON_OK);
  tenon_graph_release(graph);
  check_refused(library, "and it is held by 2 graphs");
  CHECK(run(executable) == 2);
  build("-DBY=5", "-DGONE");
  check_refused(library, "changing::extra is not in it any more, and is held by 2 graphs");
  tenon_executable_release(executable);
  build("-DBY=5", "-DOTHER"); /* Nothing holds the operator now. */
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
  tenon_tensor_t *x = tensor_of("f32[] 0");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *inputs[] = {x};
  CHECK_STATUS(tenon_op_call(extra, NULL, inputs, &y, 0), TENON_PRECONDITION);
  CHECK_TEXT(
      tenon_error(),
      "changing::extra: its library was reloaded, and has no operator of this schema any more");
  CHECK_STATUS(tenon_op_run(extra, NULL, inputs, &y), TENON_PRECONDITION);
  CHECK_STATUS(tenon_bound_create(extra, NULL, &bound), TENON_PRECONDITION);
  CHECK(call(op_of("changing::extra")) == 5);
  build("-DBY=6", "-DGONE");
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
  CHECK_STATUS(tenon_op_find("changing::extra", &extra), TENON_NOT_FOUND);
  tenon_tensor_release(x);
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("kernels for others' operators, and others' kernels for its own, are those of the new "
     "library; its users are named") {
  tenon_library_t *library = begin(0);
  tenon_library_t *other = NULL;
  build_source("beside.c", "beside.so", "-DUSER", NULL);
  CHECK_STATUS(tenon_library_load(in_folder("beside.so"), 0, &other), TENON_OK);
  tenon_tensor_t *x = tensor_of("f64[2] 0 0");
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *inputs[] = {x};
  CHECK_STATUS(tenon_op_call(op_of("beside::base"), NULL, inputs, &y, 0), TENON_OK);
  CHECK_TENSOR(y, "f64[2] 1 1");
  tenon_tensor_release(y);
  y = NULL;
  build("-DBY=4", "-DOTHER");
  check_refused(library, "and it is held by library beside");
  build("-DBY=4", NULL);
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
  CHECK_STATUS(tenon_op_call(op_of("beside::base"), NULL, inputs, &y, 0), TENON_OK);
  CHECK_TENSOR(y, "f64[2] 4 4");
  CHECK(call(op_of("beside::user")) == 4);
  CHECK(tenon_op_has_kernel(op_of("changing::more"), "npu") == 1);
  int32_t waiting = -1;
  CHECK(tenon_library_extended_count(other, &waiting) == 1 && waiting == 0);
  CHECK(tenon_library_extended_count(library, &waiting) == 1 && waiting == 0);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_library_release(other);
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("a file that cannot be loaded changes nothing") {
  tenon_library_t *library = begin(0);
  const tenon_op_t *more = op_of("changing::more");
  build("-DBY=5", "-DCLOSED");
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "it does not open today");
  build("-DBY=5", "-DNAME=another");
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "it is library another now, expected changing");
  CHECK(unlink(in_folder("changing.so")) == 0);
  put("changing.so", "no library");
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_INVALID);
  CHECK(unlink(in_folder("changing.so")) == 0);
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_NOT_FOUND);
  CHECK(call(more) == 1 && op_of("changing::more") == more);
  CHECK_STATUS(tenon_library_reload(NULL, NULL), TENON_INVALID);
  build("-DBY=6", NULL);
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
  CHECK(call(more) == 6);
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("a library file that was overwritten in place is refused") {
  tenon_library_t *library = begin(0);
  struct stat before;
  CHECK(stat(in_folder("changing.so"), &before) == 0);
  const struct timespec times[2] = {{1, 0}, {1, 0}};
  /* The file now looks unchanged. */
  CHECK(utimensat(AT_FDCWD, in_folder("changing.so"), times, 0) == 0);
  CHECK_STATUS(tenon_library_reload(library, NULL), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "overwritten in place");
  CHECK(call(op_of("changing::more")) == 1);
  tenon_library_release(library);
  tenon_shutdown();
}

TEST("an unloadable library is unloaded with all its earlier versions") {
  tenon_library_t *library = begin(TENON_LOAD_UNLOADABLE);
  const tenon_op_t *op;
  tenon_executable_t *executable = executable_of("changing::more");
  /* The number of reloads exceeds the number of gates. */
  for (int i = 0; i < 20; i++) {
    build(i % 2 ? "-DBY=2" : "-DBY=3", NULL);
    CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
    CHECK(run(executable) == (i % 2 ? 4 : 6));
  }
  CHECK_STATUS(tenon_library_unload(library), TENON_UNAVAILABLE);
  CHECK_TEXT(tenon_error(), "bound calls, graphs or executables");
  tenon_executable_release(executable);
  CHECK_STATUS(tenon_library_unload(library), TENON_OK);
  CHECK_STATUS(tenon_op_find("changing::more", &op), TENON_NOT_FOUND);
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[400];
  int mapped = 0;
  while (maps && fgets(line, sizeof line, maps))
    mapped += strstr(line, "changing.so") != NULL;
  if (maps) fclose(maps);
  CHECK(mapped == 0);
  tenon_shutdown();
}

/* reloading while threads call */

typedef struct worker_t {
  const tenon_op_t *op;
  tenon_bound_t *bound;
  tenon_executable_t *executable;
  int64_t calls;
} worker_t;
/* Atomic. round_now is the least value that a call which begins now may return. */
static int over, round_now;

static void *work(void *argument) {
  worker_t *w = argument;
  while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
    const float least = (float)__atomic_load_n(&round_now, __ATOMIC_ACQUIRE);
    CHECK(call(w->op) >= least);
    CHECK(run_op(w->op) >= least);
    CHECK(call_bound(w->bound) >= least);
    CHECK(run(w->executable) >= 2 * least);
    __atomic_fetch_add(&w->calls, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

TEST("threads that call, run and prepare during a reload see the old library or the new one") {
  enum {
    THREADS = 3,
    ROUNDS = 12,
  };
  tenon_library_t *library = begin(0);
  worker_t worker = {op_of("changing::more"), NULL, executable_of("changing::more"), 0};
  pthread_t threads[THREADS];
  CHECK_STATUS(tenon_bound_create(worker.op, NULL, &worker.bound), TENON_OK);
  __atomic_store_n(&round_now, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, work, &worker) == 0);
  for (int round = 2; round < ROUNDS; round++) {
    char by[20];
    snprintf(by, sizeof by, "-DBY=%d", round);
    build(by, NULL);
    const int64_t before = __atomic_load_n(&worker.calls, __ATOMIC_RELAXED);
    CHECK_STATUS(tenon_library_reload(library, NULL), TENON_OK);
    __atomic_store_n(&round_now, round, __ATOMIC_RELEASE);
    while (__atomic_load_n(&worker.calls, __ATOMIC_RELAXED) < before + THREADS)
      usleep(100);
  }
  __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  CHECK(call(worker.op) == ROUNDS - 1 && run(worker.executable) == 2 * (ROUNDS - 1));
  tenon_bound_release(worker.bound);
  tenon_executable_release(worker.executable);
  tenon_library_release(library);
  tenon_shutdown();
}

/* Reloads from the other one of the two files. */
static tenon_status_t attempt(void *context) {
  tenon_library_t *library = context;
  const bool is_first = strstr(tenon_library_path(library), "changing.so") != NULL;
  return tenon_library_reload(library, in_folder(is_first ? "elsewhere.so" : "changing.so"));
}
TEST("each allocation of a reload may fail, and then nothing changes") {
  tenon_library_t *library = begin(0);
  const tenon_op_t *more = op_of("changing::more");
  build_source("changing.c", "elsewhere.so", "-DBY=8", NULL);
  fail_each("a reload", attempt, library, 1);
  CHECK(call(more) == (strstr(tenon_library_path(library), "elsewhere.so") ? 8 : 1));
  CHECK_STATUS(tenon_op_check(more), TENON_OK);
  tenon_library_release(library);
  tenon_shutdown();
  char command[200];
  snprintf(command, sizeof command, "rm -r %s", folder);
  CHECK(system(command) == 0);
}
