/* Libraries as a whole: hooks, contexts of programs, versions and upgrades, handles, and unloading
 * while something uses the library. */
#define TENON_STATIC /* the library below is linked in */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include <tenon/bridge.h>

#include "operator/library.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

/* a library of this program, with a context */

typedef struct host_data_t {
  int opened;
  int closed;
  int destroyed;
  int created;
  int inferred;
  int ran;
  int looped;
  int prepared;
  float value;
  bool refuses;
} host_data_t;

static host_data_t *data_of(void *context) { return context; }

static tenon_status_t hosted_open(tenon_node_t *node) {
  data_of(node->context)->opened++;
  if (data_of(node->context)->refuses) return tenon_fail(node, TENON_PRECONDITION, "not today");
  node->state = node->context;
  return TENON_OK;
}

static void hosted_close(void *state) { data_of(state)->closed++; }

static tenon_status_t hosted_create(tenon_node_t *node) {
  data_of(node->context)->created++;
  node->state = node->context;
  return TENON_OK;
}

static void hosted_forget(void *state) { data_of(state)->created--; }

static tenon_status_t hosted_infer(tenon_infer_t *infer) {
  data_of(infer->context)->inferred++;
  infer->outputs[0]->ndim = 0;
  return infer->state == infer->context ? TENON_OK : tenon_fail(infer, TENON_INTERNAL, "no state");
}

static tenon_status_t hosted_run(tenon_call_t *call) {
  host_data_t *data = call->context;
  data->ran++;
  *(float *)call->outputs[0]->data = data->value;
  return call->state == call->context ? TENON_OK : tenon_fail(call, TENON_INTERNAL, "no state");
}

static tenon_status_t hosted_loop(const tenon_loop_t *loop) {
  host_data_t *data = loop->context;
  data->looped++;
  for (int64_t i = 0; i < loop->count; i++)
    ((float *)loop->data[1])[i] = data->value * ((const float *)loop->data[0])[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(hosted, "2.0",
  TENON_OPEN(hosted_open, hosted_close),
  TENON_OP("value() -> Tensor",
    TENON_TYPES("out = f32"),
    TENON_STATE(hosted_create, hosted_forget),
    TENON_INFER(hosted_infer),
    TENON_KERNEL("cpu", hosted_run)),
  TENON_OP("times(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE),
    TENON_LOOP("f32 -> f32", hosted_loop)))
/* clang-format on */

static void destroy_data(void *context) { data_of(context)->destroyed++; }

TEST("functions of a library added by a program find its context, which is destroyed once, at the "
     "end") {
  host_data_t data = {.value = 2.5f};
  tenon_library_t *library = NULL;
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(tenon_library_add(tenon_library_hosted(), &data, destroy_data, &library), TENON_OK);
  CHECK(strcmp(tenon_library_name(library), "hosted") == 0 &&
        strcmp(tenon_library_version(library), "2.0") == 0);
  CHECK(strcmp(tenon_library_path(library), "") == 0 && tenon_library_op_count(library) == 2);
  CHECK(tenon_library_op(library, 0) == op_of("hosted::value") &&
        tenon_library_op(library, 2) == NULL);
  CHECK_STATUS(call_op("hosted::value", NULL, TEXTS(NULL), out), TENON_OK);
  CHECK_TENSOR(out[0], "f32[] 2.5");
  tenon_tensor_release(out[0]);
  out[0] = NULL;
  CHECK_STATUS(call_op("hosted::times", NULL, TEXTS("f32[2] 1 2"), out), TENON_OK);
  CHECK_TENSOR(out[0], "f32[2] 2.5 5");
  tenon_tensor_release(out[0]);
  CHECK(data.opened == 1 && data.created == 1 && data.inferred == 1 && data.ran == 1 &&
        data.looped == 1);
  CHECK_STATUS(tenon_library_add(tenon_library_hosted(), &data, destroy_data, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "operator hosted::value is there already, from library hosted");
  CHECK(data.destroyed == 0 && data.closed == 0);
  tenon_library_release(library);
  CHECK(data.destroyed == 0); /* A library that is not unloadable stays until shutdown. */
  tenon_shutdown();
  CHECK(data.closed == 1 && data.destroyed == 1 && data.created == 0);
}

TEST("a handle that is held past shutdown keeps its library until it is released") {
  host_data_t data = {.value = 1};
  tenon_library_t *library = NULL;
  CHECK_STATUS(tenon_library_add(tenon_library_hosted(), &data, destroy_data, &library), TENON_OK);
  tenon_library_retain(library);
  tenon_shutdown();
  CHECK(data.destroyed == 0);
  tenon_library_release(library);
  CHECK(data.destroyed == 0);
  tenon_library_release(library);
  CHECK(data.destroyed == 1 && data.closed == 1);
  tenon_library_release(NULL);
  tenon_shutdown();
}

TEST("a library whose open function fails is not added, and its context stays the program's") {
  host_data_t data = {.refuses = true};
  tenon_library_t *library = NULL;
  const tenon_op_t *op = NULL;
  CHECK_STATUS(tenon_library_add(tenon_library_hosted(), &data, destroy_data, &library),
               TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "its open refused: not today");
  CHECK(library == NULL && data.destroyed == 0 && data.closed == 0);
  CHECK_STATUS(tenon_op_find("hosted::value", &op), TENON_NOT_FOUND);
  tenon_shutdown();
}

TEST("a library needs no context") {
  CHECK_STATUS(tenon_library_add(NULL, NULL, NULL, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the descriptor is NULL");
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  tenon_tensor_t *out[1] = {NULL};
  CHECK_STATUS(call_op("contract::census", NULL, TEXTS(NULL), out),
               TENON_OK); /* The call fails if `open` was not called. */
  tenon_tensor_release(out[0]);
  tenon_shutdown();
}

/* declarations that can be read */

TEST("version, upgrades, traits and declarations of an operator can be read") {
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  const tenon_op_t *op = op_of("contract::clamp");
  tenon_op_info_t info = op_info(op);
  CHECK(info.version == 3 && info.input_count == 1 && info.attr_count == 2 &&
        info.output_count == 1);
  CHECK(info.traits == (TENON_PURE | TENON_POINTWISE) && info.kernel_count == 1);
  CHECK_TEXT(info.schema, "clamp(Tensor x, *, float low=0.0, float high=1.0) -> Tensor");
  CHECK(strcmp(info.library, "contract") == 0 && strcmp(info.library_version, "1.2.3") == 0);
  CHECK(op->upgrades.count == 2 && op->upgrades.items[0].from == 1 &&
        op->upgrades.items[0].count == 2);
  CHECK(op->upgrades.items[0].steps[0].kind == TN_UPGRADE_RENAME &&
        strcmp(op->upgrades.items[0].steps[0].to, "low") == 0);
  CHECK(op->upgrades.items[1].steps[0].kind == TN_UPGRADE_SET);
  CHECK_TEXT(op->library->about, "licence: as Tenon");
  CHECK(op_info(op_of("contract::census")).version == 1 &&
        op_info(op_of("contract::census")).traits == 0);
  CHECK_TEXT(op_info(op_of("contract::same")).doc, "The same number in another float");
}

TEST("a caller built for an earlier version gets only the fields that it knows") {
  tenon_op_info_t info;
  memset(&info, 0x5a, sizeof info);
  info.size = (uint32_t)offsetof(tenon_op_info_t, doc);
  tenon_op_info(op_of("contract::clamp"), &info);
  CHECK(info.size == offsetof(tenon_op_info_t, doc) && strcmp(info.name, "contract::clamp") == 0);
  CHECK((uintptr_t)info.doc == 0x5a5a5a5a5a5a5a5au);
}

TEST("the arguments of an operator can be read") {
  tenon_argument_t a = {.size = sizeof a};
  CHECK_STATUS(tenon_op_argument(op_of("contract::attributes"), TENON_ARGUMENT_ATTR, 0, &a),
               TENON_OK);
  CHECK(a.kind == TENON_KIND_CHOICE && a.choice_count == 3 &&
        strcmp(a.choices[2], "hundred") == 0 && a.has_default);
  CHECK(a.value.as.i == 1 && a.is_keyword && strcmp(a.name, "size") == 0);
  CHECK_STATUS(tenon_op_argument(op_of("contract::axpy_"), TENON_ARGUMENT_INPUT, 1, &a), TENON_OK);
  CHECK(a.is_written && a.kind == TENON_KIND_TENSOR);
  CHECK_STATUS(tenon_op_argument(op_of("contract::fill"), TENON_ARGUMENT_INPUT, 1, &a), TENON_OK);
  CHECK(a.is_host && strcmp(a.name, "shape") == 0);
  CHECK_STATUS(tenon_op_argument(op_of("contract::top"), TENON_ARGUMENT_OUTPUT, 1, &a), TENON_OK);
  CHECK(a.is_optional && strcmp(a.name, "indices") == 0);
  CHECK_STATUS(tenon_op_argument(op_of("contract::split"), TENON_ARGUMENT_OUTPUT, 0, &a), TENON_OK);
  CHECK(a.kind == TENON_KIND_TENSORS);
  CHECK_STATUS(tenon_op_argument(op_of("contract::split"), TENON_ARGUMENT_OUTPUT, 1, &a),
               TENON_INVALID);
  CHECK_STATUS(tenon_op_argument(op_of("contract::split"), 3, 0, &a), TENON_INVALID);
}

TEST("all operators are listed by name") {
  const tenon_op_t *const *ops = NULL;
  int32_t count = 0;
  int32_t found = 0;
  CHECK_STATUS(tenon_ops_list(&ops, &count), TENON_OK);
  for (int32_t i = 0; i < count; i++) {
    if (i) CHECK(strcmp(op_info(ops[i - 1]).name, op_info(ops[i]).name) < 0);
    found += strncmp(op_info(ops[i]).name, "contract::", 10) == 0;
  }
  CHECK(found > 40);
  tenon_ops_release(ops);
  tenon_shutdown();
}

/* unloading */

static bool is_there(const char *name) {
  const tenon_op_t *op = NULL;
  return tenon_op_find(name, &op) == TENON_OK;
}

TEST("an unloadable library is unloaded with the last handle, bound call, graph or executable that "
     "uses it") {
  tenon_library_t *library = NULL;
  tenon_bound_t *bound = NULL;
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  for (int keeper = 0; keeper < 4; keeper++) {
    CHECK_STATUS(
        tenon_library_load(TEST_LIBRARIES "/libcontract.so", TENON_LOAD_UNLOADABLE, &library),
        TENON_OK);
    tenon_builder_t *b = graph_begin();
    tenon_edge_t x = graph_input(b, "x", TENON_F32, 1);
    CHECK_STATUS(tenon_builder_output(b, "y", graph_step(b, "contract::halve", NULL, x)), TENON_OK);
    if (keeper == 1)
      CHECK_STATUS(tenon_bound_create(op_of("contract::counter"), NULL, &bound), TENON_OK);
    if (keeper == 2) CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
    if (keeper == 3)
      e = graph_compile(b, 0);
    else
      tenon_builder_release(b);
    tenon_library_release(library);
    CHECK(is_there("contract::halve") == (keeper != 0));
    if (keeper == 1) {
      tenon_tensor_t *in = tensor_of("f32[1] 1");
      tenon_tensor_t *out = NULL;
      CHECK_STATUS(tenon_bound_call(bound, &in, &out, 0), TENON_OK);
      tenon_tensor_release(in);
      tenon_tensor_release(out);
    }
    if (keeper == 2) CHECK_STATUS(tenon_executable_create(graph, NULL, &e), TENON_OK);
    if (keeper >= 2) CHECK_GRAPH(e, TEXTS("f32[2] 1 2"), TEXTS("f32[2] 0.5 1"));
    tenon_bound_release(bound);
    bound = NULL;
    tenon_executable_release(e);
    e = NULL;
    tenon_graph_release(graph);
    graph = NULL;
    CHECK(!is_there("contract::halve"));
  }
  tenon_shutdown();
}

/* tables of bridges, which the tests fill in */

static const char *const foreign[] = {".foreign", NULL};
static tenon_bridge_table_t bridge;

TENON_LIBRARY(tabled, "1.0", TENON_BRIDGE(&bridge))

static tenon_status_t open_foreign(tenon_bridge_call_t *call, tenon_bridged_t *out) {
  (void)out;
  return tenon_fail(call, TENON_UNIMPLEMENTED, "the test has no libraries");
}

static tenon_status_t read_foreign(tenon_bridge_call_t *call, const tenon_graph_t **out_graph) {
  (void)out_graph;
  return tenon_fail(call, TENON_UNIMPLEMENTED, "the test has no models");
}

static void check_refused(const char *message) {
  CHECK_STATUS(tenon_library_add(tenon_library_tabled(), NULL, NULL, NULL), TENON_INVALID);
  CHECK_TEXT(tenon_error(), message);
}

TEST("a bridge opens libraries, reads models, or does both") {
  const char *neither = "the table of the bridge foreign needs symbols or prefixes, and open, to "
                        "open libraries, or suffixes and read to read models";
  const tenon_bridge_table_t empty = {.size = sizeof empty, .abi = TENON_BRIDGE_ABI};
  bridge = empty;
  check_refused("the table of a bridge is NULL, smaller than it is in 1.0, or has no name");
  bridge.name = "foreign";
  check_refused(neither);
  bridge.symbols = foreign;
  bridge.read = read_foreign;
  check_refused(neither);
  bridge.symbols = NULL;
  bridge.suffixes = foreign;
  CHECK_STATUS(tenon_library_add(tenon_library_tabled(), NULL, NULL, NULL), TENON_OK);
  tenon_shutdown();
  bridge = empty;
  bridge.name = "foreign";
  bridge.symbols = foreign;
  bridge.open = open_foreign;
  CHECK_STATUS(tenon_library_add(tenon_library_tabled(), NULL, NULL, NULL), TENON_OK);
  bridge.abi += 0x10000;
  tenon_shutdown();
  check_refused("the table of a bridge is of contract 2, this host has 1");
  tenon_shutdown();
}
