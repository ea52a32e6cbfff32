/* Lets the n-th allocation fail, for every n, while graphs are built, compiled and run: graphs with
 * one node of the contract each, and a graph that has everything at once. */
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "contract_cases.h"
#include "failing.h"
#include "faults.h"

TENON_C const tenon_descriptor_t *tenon_library_contract(void);

enum {
  PORTS = 16,
  RUNS = 3,
};
#define TRY(call)                                                                                  \
  do {                                                                                             \
    if ((status = (call)) != TENON_OK) goto end;                                                   \
  } while (0)

static void release_all(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

/* one node */

typedef struct trial_t {
  const contract_case_t *c;
  const tenon_op_t *op;
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
  tenon_tensor_t *inputs[CASE_VARIANTS][PORTS];
  tenon_tensor_t *expected[CASE_VARIANTS][PORTS];
  int32_t counts[CASE_INPUTS];
  int32_t input_count;
  int32_t output_count;
  int32_t variants;
  bool is_constant;
} trial_t;

static int32_t flatten(const char *text, tenon_tensor_t **out) {
  tenon_tensor_t *t = tensor_of(text);
  int32_t count = 0;
  if (!t) return 0;
  if (!tensor_has(t, TENON_LIST)) {
    out[0] = t;
    return 1;
  }
  for (; count < t->shape[0]; count++)
    tenon_tensor_retain(out[count] = tenon_item(t, count));
  tenon_tensor_release(t);
  return count;
}

static tenon_status_t try_node(void *context) {
  const trial_t *t = context;
  tenon_builder_t *b = NULL;
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  tenon_edge_t inputs[PORTS], outputs[PORTS];
  tenon_operand_t operands[CASE_INPUTS];
  tenon_tensor_t *made[PORTS] = {NULL};
  tenon_status_t status;
  TRY(tenon_builder_create(&b));
  for (int32_t i = 0; i < t->input_count; i++) {
    const tenon_tensor_t *x = t->inputs[0][i];
    tenon_axis_t axes[TENON_RANK_MAX];
    char name[16];
    snprintf(name, sizeof name, "x%d", (int)i);
    for (int32_t d = 0; d < x->ndim; d++)
      axes[d] = (tenon_axis_t){-1, d == 0 && i == 0 ? "named" : NULL};
    if (t->is_constant)
      TRY(tenon_builder_constant(b, name, t->inputs[0][i], &inputs[i]));
    else
      TRY(tenon_builder_input(b, name, x->dtype, x->ndim, axes, &inputs[i]));
  }
  for (int32_t i = 0, at = 0; i < CASE_INPUTS; at += t->counts[i++])
    operands[i] = (tenon_operand_t){t->counts[i], &inputs[at]};
  TRY(tenon_builder_node(b, "the_node", t->op, t->values, operands, outputs, t->output_count));
  for (int32_t o = 0; o < t->output_count; o++)
    TRY(tenon_builder_output(b, NULL, outputs[o]));
  TRY(tenon_builder_finish(b, &graph));
  TRY(tenon_executable_create(graph, NULL, &e));
  for (int run = 0; run < RUNS; run++) {
    int v = t->is_constant ? 0 : run % t->variants;
    status = tenon_executable_run(e, t->is_constant ? NULL : (tenon_tensor_t *const *)t->inputs[v],
                                  made, NULL);
    for (int32_t o = 0; o < t->output_count; o++)
      CHECK(status == TENON_OK ? tensor_equal(made[o], t->expected[v][o], 1e-6) : made[o] == NULL);
    release_all(made, PORTS);
    if (status == TENON_OK) continue;
    int64_t failures = fault_count(
        /* The executable works on the next call if memory is available again. */
        FAULT_MEMORY);
    tenon_status_t again = tenon_executable_run(
        e, t->is_constant ? NULL : (tenon_tensor_t *const *)t->inputs[v], made, NULL);
    CHECK(again == TENON_OK || again == TENON_MEMORY);
    for (int32_t o = 0; o < t->output_count && again == TENON_OK; o++)
      CHECK(tensor_equal(made[o], t->expected[v][o], 1e-6));
    release_all(made, PORTS);
    CHECK(fault_count(FAULT_MEMORY) >= failures);
    goto end;
  }
end:
  tenon_executable_release(e);
  tenon_graph_release(graph);
  tenon_builder_release(b);
  return status;
}

static void check_node(const contract_case_t *c) {
  trial_t t = {.c = c, .op = case_op(c, "contract"), .attrs = NULL};
  char what[128];
  if (!t.op) return;
  t.attrs = attrs_of(t.op, c->attrs ? c->attrs : "");
  t.values = attr_values(t.attrs);
  for (; t.variants < CASE_VARIANTS && case_has(c, t.variants); t.variants++) {
    t.input_count = t.output_count = 0;
    for (int i = 0; i < CASE_INPUTS; i++) {
      t.counts[i] =
          flatten(c->variants[t.variants].inputs[i], &t.inputs[t.variants][t.input_count]);
      t.input_count += t.counts[i];
    }
    for (int o = 0; o < CASE_OUTPUTS; o++)
      t.output_count +=
          flatten(c->variants[t.variants].outputs[o], &t.expected[t.variants][t.output_count]);
  }
  for (int constant = 0; constant < 2; constant++) {
    t.is_constant = constant;
    snprintf(what, sizeof what, "a graph with %s%s", c->op, constant ? " on constants" : "");
    fail_each(what, try_node, &t, 1);
  }
  for (int v = 0; v < t.variants; v++) {
    release_all(t.inputs[v], PORTS);
    release_all(t.expected[v], PORTS);
  }
  tenon_attrs_release(t.attrs);
}

TEST("graphs of one node each fail cleanly while they are built, compiled and run") {
  CHECK_STATUS(tenon_library_add(tenon_library_contract(), NULL, NULL, NULL), TENON_OK);
  for (int i = 0; i < CONTRACT_CASES; i++)
    check_node(&contract_cases[i]);
}

/* all at once */

enum {
  HALVE,
  TRANSPOSE,
  DENSE,
  AXPY,
  NONZERO,
  COLLECT,
  DROPOUT,
  COUNTER,
  MATVEC,
  LAYER_NORM,
  APPLY,
  TALLY,
  MARK,
  OPS,
};
static const char *const names[OPS] = {"halve",   "transpose", "dense_copy", "axpy_",  "nonzero",
                                       "collect", "dropout",   "counter",    "matvec", "layer_norm",
                                       "apply",   "tally",     "mark_"};

typedef struct whole_t {
  const tenon_op_t *ops[OPS];
  tenon_tensor_t *inputs[3];
  tenon_tensor_t *weight;
  tenon_profile_t *profile;
} whole_t;

static tenon_status_t add(const whole_t *w, tenon_builder_t *b, int op, const tenon_value_t *attrs,
                          const tenon_edge_t *inputs, tenon_edge_t *outputs, int32_t count) {
  tenon_operand_t operands[4];
  for (int32_t i = 0; i < op_info(w->ops[op]).input_count; i++)
    operands[i] = (tenon_operand_t){inputs[i] >= 0, &inputs[i]};
  return tenon_builder_node(b, NULL, w->ops[op], attrs, operands, outputs, count);
}

static tenon_status_t make_body(const whole_t *w, tenon_graph_t **out_graph) {
  tenon_builder_t *b = NULL;
  tenon_axis_t axis = {-1, NULL};
  tenon_edge_t x, y;
  tenon_status_t status;
  TRY(tenon_builder_create(&b));
  TRY(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 1, &axis, &x));
  TRY(add(w, b, HALVE, NULL, &x, &y, 1));
  TRY(tenon_builder_output(b, "y", y));
  TRY(tenon_builder_finish(b, out_graph));
end:
  tenon_builder_release(b);
  return status;
}

static tenon_status_t make_whole(const whole_t *w, tenon_builder_t *b, const tenon_value_t *apply) {
  tenon_axis_t axes[2] = {{-1, "rows"}, {3, NULL}};
  tenon_axis_t line = {3, NULL};
  tenon_axis_t any = {-1, NULL};
  tenon_edge_t x, s, n, c, t, d, in[3], r[2], results[8];
  tenon_value_t above = {TENON_KIND_FLOAT, 0, {.f = 0.5}};
  tenon_value_t start = {TENON_KIND_INT, 0, {.i = 4}};
  tenon_status_t status;
  TRY(tenon_builder_input(b, "x", tenon_dtype(TENON_F32), 2, axes, &x));
  TRY(tenon_builder_input(b, "s", tenon_dtype(TENON_STRING), 1, &any, &s));
  TRY(tenon_builder_input(b, "n", tenon_dtype(TENON_I64), 1, &any, &n));
  TRY(tenon_builder_constant(b, "c", w->weight, &c));
  TRY(add(w, b, TRANSPOSE, NULL, &x, &t, 1));
  TRY(add(w, b, DENSE, NULL, &t, &d, 1));
  TRY(add(w, b, HALVE, NULL, &t, &results[0], 1));
  in[0] = x;
  in[1] = x;
  TRY(add(w, b, AXPY, NULL, in, &results[1], 1));
  TRY(add(w, b, COLLECT, &above, &d, r, 1));
  in[0] = r[0];
  TRY(add(w, b, APPLY, apply, in, r, 1));
  TRY(add(w, b, COUNTER, &start, r, &results[2], 1));
  TRY(add(w, b, NONZERO, NULL, &results[2], &results[3], 1));
  TRY(add(w, b, DROPOUT, NULL, &d, &results[4], 1));
  TRY(add(w, b, TALLY, NULL, &n, &results[5], 1));
  TRY(add(w, b, MARK, NULL, &s, &results[6], 1));
  TRY(tenon_builder_input(b, "v", tenon_dtype(TENON_F32), 1, &line, &in[1]));
  in[0] = c;
  TRY(add(w, b, MATVEC, NULL, in, &results[7], 1));
  for (int o = 0; o < 8; o++)
    TRY(tenon_builder_output(b, NULL, results[o]));
end:
  return status;
}

static tenon_status_t try_whole(void *context) {
  const whole_t *w = context;
  tenon_builder_t *b = NULL;
  tenon_graph_t *graph = NULL;
  tenon_graph_t *body = NULL;
  tenon_executable_t *e = NULL;
  tenon_tensor_t *made[8] = {NULL};
  tenon_tensor_t *v = NULL;
  tenon_profile_t *profile = NULL;
  char *text = NULL;
  static const char *const dumps[] = {"graph", "shapes", "plan"};
  int64_t three = 3;
  tenon_status_t status;
  TRY(make_body(w, &body));
  TRY(tenon_builder_create(&b));
  tenon_value_t apply[2] = {{TENON_KIND_GRAPH, 0, {.graph = body}}, {TENON_KIND_INT, 0, {.i = 2}}};
  TRY(make_whole(w, b, apply));
  TRY(tenon_builder_finish(b, &graph));
  TRY(tenon_executable_create(graph, NULL, &e));
  TRY(tenon_tensor_create(tenon_dtype(TENON_F32), 1, &three, &v));
  memset(v->data, 0, 12);
  TRY(tenon_profile_create(&profile));
  for (int run = 0; run < 2; run++) {
    tenon_tensor_t *inputs[4] = {w->inputs[0], w->inputs[1], w->inputs[2], v};
    TRY(tenon_executable_run(e, inputs, made, profile));
    release_all(made, 8);
  }
  for (int i = 0; i < 3; i++) {
    TRY(tenon_executable_dump(e, dumps[i], &text));
    tenon_text_release(text);
  }
end:
  for (int o = 0; o < 8; o++)
    CHECK(made[o] == NULL);
  tenon_profile_release(profile);
  tenon_tensor_release(v);
  tenon_executable_release(e);
  tenon_graph_release(graph);
  tenon_graph_release(body);
  tenon_builder_release(b);
  return status;
}

TEST("a graph with everything that a graph may have fails cleanly, too") {
  whole_t w = {.weight = tensor_of("f32[2,3] 1 2 3 4 5 6")};
  for (int i = 0; i < OPS; i++) {
    char name[64];
    snprintf(name, sizeof name, "contract::%s", names[i]);
    w.ops[i] = op_of(name);
  }
  w.inputs[0] = tensor_strided("f32[2,3] 1 0 2 0 3 4");
  w.inputs[1] = tensor_of("string[2] a b");
  w.inputs[2] = tensor_of("i64[9] 1 2 3 4 5 6 7 8 9");
  fail_each("the whole graph", try_whole, &w, 1);
  release_all(w.inputs, 3);
  tenon_tensor_release(w.weight);
}

TEST("nothing is left behind") { tenon_shutdown(); }
