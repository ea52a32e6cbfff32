/* Graphs that compute gradients, made by tenon_graph_gradients: every case of an operator with a
 * gradient against the tape, and small graphs against numbers worked out by hand. */
#define TENON_STATIC
#include <math.h>

#include "base/thread.h"
#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "cases.h"
#include "operators_library.h"
#include "tape.h"

__attribute__((constructor)) static void add_library(void) {
  if (tenon_library_add(tenon_library_autograd(), NULL, NULL, NULL) != TENON_OK)
    puts(tenon_error());
}

/* One node with the inputs of a case */

enum { LEAVES = 2 * CASE_INPUTS, RESULTS = 16, VALUES = 64 };

typedef struct single_t {
  const case_t *c;
  const tenon_op_t *op;
  const char *attrs_text;
  tenon_attrs_t *attrs;
  uint64_t results;
  tenon_tensor_t *inputs[CASE_INPUTS];
  tenon_tensor_t *leaves[LEAVES]; /* with the items of lists one by one; borrowed */
  int32_t leaf_count;
  tenon_tensor_t *outputs[RESULTS]; /* those of a call, with the items of lists one by one */
  tenon_tensor_t *weights[RESULTS]; /* the gradients of the differentiated ones */
  char names[RESULTS][24];          /* of the differentiated ones */
  bool is_differentiated[RESULTS];
  int32_t output_count;
  int32_t weight_count;
} single_t;

static void say(const single_t *s, const char *message) {
  char text[1000];
  snprintf(text, sizeof text, "%s(%s; %s)", s->c->op, s->c->attrs ? s->c->attrs : "",
           s->c->inputs[0] ? s->c->inputs[0] : "");
  check_report(0, __FILE__, __LINE__, text, message);
}

static void add_leaf(single_t *s, tenon_tensor_t *t) {
  if (!tensor_has(t, TENON_F64)) return;
  CHECK_STATUS(tenon_tensor_require_grad(t, 1), TENON_OK);
  s->leaves[s->leaf_count++] = t;
}

/* A list is made anew, because it has the histories that its items had when it was made. */
static void add_leaves(single_t *s, int32_t input) {
  tenon_tensor_t *t = s->inputs[input];
  tenon_tensor_t *items[CASE_INPUTS];
  if (!tensor_has(t, TENON_LIST)) {
    add_leaf(s, t);
    return;
  }
  const int32_t count = (int32_t)t->shape[0];
  for (int32_t k = 0; k < count; k++) {
    items[k] = tenon_item(t, k);
    add_leaf(s, items[k]);
  }
  CHECK_STATUS(tenon_tensor_list(items, count, &s->inputs[input]), TENON_OK);
  tenon_tensor_release(t);
}

static void open_single(single_t *s, const case_t *c) {
  *s = (single_t){.c = c, .op = op_of(c->op), .attrs_text = c->attrs, .results = 1};
  if (c->attrs && *c->attrs == '@') {
    char *end;
    s->results = strtoull(c->attrs + 1, &end, 10);
    s->attrs_text = end + strspn(end, " ");
  }
  s->attrs = attrs_of(s->op, s->attrs_text);
  for (int32_t i = 0; i < op_info(s->op).input_count; i++) {
    const char *text = c->inputs[i];
    const bool is_fixed = text && *text == '=';
    s->inputs[i] = tensor_of(text + is_fixed);
    if (s->inputs[i] && !is_fixed) add_leaves(s, i);
  }
}

static void close_single(single_t *s) {
  for (int i = 0; i < CASE_INPUTS; i++)
    tenon_tensor_release(s->inputs[i]);
  for (int o = 0; o < RESULTS; o++) {
    tenon_tensor_release(s->outputs[o]);
    tenon_tensor_release(s->weights[o]);
  }
  tenon_attrs_release(s->attrs);
}

static tenon_tensor_t *weights_like(const tenon_tensor_t *t) {
  tenon_tensor_t *weights = NULL;
  CHECK_STATUS(tenon_tensor_create(t->dtype, t->ndim, t->shape, &weights), TENON_OK);
  for (int64_t i = 0; weights && i < tenon_count(weights); i++)
    ((double *)weights->data)[i] = 0.3 + 0.1 * (double)(i % 7);
  return weights;
}

/* Calls the operator, and keeps its results one by one. */
static tenon_status_t call_single(single_t *s) {
  tenon_tensor_t *results[RESULTS] = {NULL};
  tenon_random_seed(3);
  tenon_status_t status =
      tenon_op_call(s->op, attr_values(s->attrs), s->inputs, results, s->results);
  for (int32_t o = 0; o < op_info(s->op).output_count && status == TENON_OK; o++) {
    tenon_tensor_t *t = results[o];
    const bool is_list = t && tensor_has(t, TENON_LIST);
    for (int32_t k = 0; k < (is_list ? t->shape[0] : 1); k++) {
      tenon_tensor_t *item = is_list ? tenon_item(t, k) : t;
      tenon_tensor_retain(s->outputs[s->output_count] = item);
      s->is_differentiated[s->output_count] =
          item && s->results >> o & 1 && tensor_has(item, TENON_F64);
      s->output_count++;
    }
  }
  for (int32_t o = 0; o < RESULTS; o++)
    tenon_tensor_release(results[o]);
  for (int32_t o = 0; o < s->output_count; o++) {
    if (!s->is_differentiated[o]) continue;
    snprintf(s->names[s->weight_count], sizeof s->names[0], "y%d", (int)o);
    s->weights[s->weight_count++] = weights_like(s->outputs[o]);
  }
  return status;
}

static tenon_status_t tape_gradients(const single_t *s, tenon_tensor_t **out_grads) {
  tenon_tensor_t *starts[RESULTS];
  int32_t count = 0;
  for (int32_t o = 0; o < s->output_count; o++)
    if (s->is_differentiated[o]) starts[count++] = s->outputs[o];
  return tenon_gradients(starts, s->weights, count, (tenon_tensor_t *const *)s->leaves,
                         s->leaf_count, TENON_GRAD_UNUSED, out_grads);
}

static bool is_leaf(const single_t *s, const tenon_tensor_t *t) {
  for (int32_t i = 0; i < s->leaf_count; i++)
    if (s->leaves[i] == t) return true;
  return false;
}

static tenon_edge_t add_value(tenon_builder_t *b, const single_t *s, tenon_tensor_t *t,
                              bool is_symbolic, int32_t *inputs) {
  tenon_edge_t edge = -1;
  tenon_axis_t axes[TENON_RANK_MAX];
  char name[24];
  if (!is_leaf(s, t)) {
    CHECK_STATUS(tenon_builder_constant(b, NULL, t, &edge), TENON_OK);
    return edge;
  }
  snprintf(name, sizeof name, "x%d", (int)(*inputs)++);
  for (int32_t d = 0; d < t->ndim; d++)
    axes[d] = (tenon_axis_t){is_symbolic ? -1 : t->shape[d], NULL};
  CHECK_STATUS(tenon_builder_input(b, name, t->dtype, t->ndim, axes, &edge), TENON_OK);
  return edge;
}

/* Builds the graph of the one node, or returns NULL where it has no graph. */
static tenon_graph_t *graph_of(const single_t *s, bool is_symbolic) {
  tenon_builder_t *b = graph_begin();
  tenon_operand_t operands[CASE_INPUTS] = {{0, NULL}};
  tenon_edge_t edges[VALUES];
  tenon_edge_t outputs[RESULTS];
  tenon_graph_t *graph = NULL;
  int32_t used = 0;
  int32_t inputs = 0;
  for (int32_t i = 0; i < op_info(s->op).input_count; i++) {
    tenon_tensor_t *t = s->inputs[i];
    const bool is_list = t && tensor_has(t, TENON_LIST);
    const int32_t count = is_list ? (int32_t)t->shape[0] : t != NULL;
    operands[i] = (tenon_operand_t){count, edges + used};
    for (int32_t k = 0; k < count; k++)
      edges[used++] = add_value(b, s, is_list ? tenon_item(t, k) : t, is_symbolic, &inputs);
  }
  tenon_status_t status = tenon_builder_node(b, "node", s->op, attr_values(s->attrs), operands,
                                             outputs, s->output_count);
  for (int32_t o = 0, k = 0; o < s->output_count && status == TENON_OK; o++)
    if (s->is_differentiated[o]) status = tenon_builder_output(b, s->names[k++], outputs[o]);
  if (status == TENON_OK) status = tenon_builder_finish(b, &graph);
  /* Some operators must know an extent. */
  if (status != TENON_OK && !is_symbolic) say(s, tenon_error());
  tenon_builder_release(b);
  return graph;
}

/* Compares the gradients of a graph, `found`, with those of the tape; one that the tape has not is
 * zero. */
static void compare(const single_t *s, tenon_tensor_t *const *expected,
                    tenon_tensor_t *const *found) {
  for (int32_t i = 0; i < s->leaf_count; i++) {
    CHECK(tenon_count(found[i]) == tenon_count(s->leaves[i]));
    for (int64_t k = 0; k < tenon_count(found[i]); k++) {
      const double e = expected[i] ? tensor_float(expected[i], k) : 0;
      const double f = tensor_float(found[i], k);
      if (fabs(e - f) <= 1e-12 * (1 + fabs(e)) || (isnan(e) && isnan(f))) continue;
      char text[100];
      snprintf(text, sizeof text, "gradient %d, element %d: %.17g, the tape has %.17g", (int)i,
               (int)k, f, e);
      say(s, text);
      break;
    }
  }
}

static tenon_status_t run_graph(const single_t *s, const tenon_graph_t *graph, uint32_t flags,
                                tenon_tensor_t **out) {
  tenon_executable_t *e = NULL;
  tenon_tensor_t *inputs[LEAVES + RESULTS];
  memcpy(inputs, s->leaves, sizeof s->leaves);
  memcpy(inputs + s->leaf_count, s->weights, sizeof s->weights);
  const tenon_compile_t options = {.size = sizeof options, .flags = flags};
  tenon_status_t status = tenon_executable_create(graph, &options, &e);
  tenon_random_seed(3);
  if (status == TENON_OK) status = tenon_executable_run(e, inputs, out, NULL);
  tenon_executable_release(e);
  return status;
}

/* Returns 1 if the graph was differentiated, 0 if it has no gradient as a graph. */
static int check_single(const case_t *c, bool is_symbolic) {
  single_t s;
  tenon_tensor_t *expected[LEAVES] = {NULL};
  tenon_tensor_t *found[LEAVES + RESULTS] = {NULL};
  tenon_graph_t *derived = NULL;
  const char *names[RESULTS];
  open_single(&s, c);
  tenon_status_t status = call_single(&s);
  if (status == TENON_OK) status = tape_gradients(&s, expected);
  tenon_graph_t *graph = status == TENON_OK ? graph_of(&s, is_symbolic) : NULL;
  for (int32_t o = 0; o < s.weight_count; o++)
    names[o] = s.names[o];
  const tenon_graph_gradients_t options = {.size = sizeof options,
                                           .flags = TENON_GRADIENTS_GIVEN | TENON_GRADIENTS_UNUSED,
                                           .outputs = names,
                                           .output_count = s.weight_count};
  status = graph ? tenon_graph_gradients(graph, &options, &derived) : TENON_UNIMPLEMENTED;
  const bool has_graph = status == TENON_OK;
  for (uint32_t flags = 0; flags <= TENON_COMPILE_PLAIN && has_graph;
       flags += TENON_COMPILE_PLAIN) {
    status = run_graph(&s, derived, flags, found);
    if (status == TENON_OK) compare(&s, expected, found + s.weight_count);
    for (int i = 0; i < LEAVES + RESULTS; i++) {
      tenon_tensor_release(found[i]);
      found[i] = NULL;
    }
  }
  const bool has_types = !graph || !strstr(tenon_error(), "dtype unknown");
  if (status != TENON_OK && (has_graph || (status != TENON_UNIMPLEMENTED && has_types)))
    say(&s, tenon_error());
  for (int32_t i = 0; i < s.leaf_count; i++)
    tenon_tensor_release(expected[i]);
  tenon_graph_release(graph);
  tenon_graph_release(derived);
  close_single(&s);
  return has_graph;
}

/* Recorded runs of the compiled graph */

/* Gradients of the outputs, and, if `second` is not NULL, gradients of the sum of weighted
 * gradients. */
static tenon_status_t differentiate(const single_t *s, tenon_tensor_t *const *outputs,
                                    tenon_tensor_t **grads, tenon_tensor_t **second) {
  tenon_tensor_t *starts[RESULTS];
  tenon_tensor_t *from[LEAVES];
  tenon_tensor_t *weights[LEAVES];
  tenon_tensor_t *const *leaves = (tenon_tensor_t *const *)s->leaves;
  int32_t count = 0;
  for (int32_t o = 0; o < s->weight_count; o++)
    starts[o] = outputs[o];
  tenon_status_t status =
      tenon_gradients(starts, s->weights, s->weight_count, leaves, s->leaf_count,
                      TENON_GRAD_UNUSED | (second ? TENON_GRAD_CREATE : 0), grads);
  if (status != TENON_OK) return status;
  for (int32_t i = 0; second && i < s->leaf_count; i++) {
    if (!grads[i] || !tenon_tensor_requires_grad(grads[i])) continue;
    from[count] = grads[i];
    weights[count++] = weights_like(grads[i]);
  }
  if (count)
    status =
        tenon_gradients(from, weights, count, leaves, s->leaf_count, TENON_GRAD_UNUSED, second);
  for (int32_t i = 0; i < count; i++)
    tenon_tensor_release(weights[i]);
  return status;
}

static void release_tensors(tenon_tensor_t **tensors, int32_t count) {
  for (int32_t i = 0; i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

/* The results of the call that are differentiated, one after the other. */
static void pick_outputs(const single_t *s, tenon_tensor_t **picked) {
  int32_t count = 0;
  for (int32_t o = 0; o < s->output_count; o++)
    if (s->is_differentiated[o]) picked[count++] = s->outputs[o];
}

static bool is_split(tenon_executable_t *e) {
  char *text = NULL;
  CHECK_STATUS(tenon_executable_dump(e, "gradients", &text), TENON_OK);
  const bool is_one = text && strncmp(text, "gradients of", 12) == 0;
  free(text);
  return is_one;
}

/* A missing gradient of the tape is zero, and zeros may be missing in the graph's. */
static void compare_recorded(const single_t *s, tenon_tensor_t *const *expected,
                             tenon_tensor_t *const *found) {
  tenon_tensor_t *made[LEAVES] = {NULL};
  tenon_tensor_t *all[LEAVES];
  for (int32_t i = 0; i < s->leaf_count; i++) {
    if (!found[i]) {
      const tenon_tensor_t *t = s->leaves[i];
      CHECK_STATUS(tenon_tensor_create(t->dtype, t->ndim, t->shape, &made[i]), TENON_OK);
      memset(made[i]->data, 0, (size_t)tenon_count(t) * sizeof(double));
    }
    all[i] = found[i] ? found[i] : made[i];
  }
  compare(s, expected, all);
  release_tensors(made, s->leaf_count);
}

/* Returns 1 if runs of the compiled graph are split into forward and backward. */
static int check_recorded(const case_t *c, bool is_second) {
  single_t s;
  tenon_tensor_t *picked[RESULTS] = {NULL};
  tenon_tensor_t *outputs[RESULTS] = {NULL};
  tenon_tensor_t *grads[2][LEAVES] = {{NULL}};
  tenon_tensor_t *seconds[2][LEAVES] = {{NULL}};
  tenon_executable_t *e = NULL;
  int has_split = 0;
  open_single(&s, c);
  CHECK_STATUS(call_single(&s), TENON_OK);
  pick_outputs(&s, picked);
  tenon_status_t status = differentiate(&s, picked, grads[0], is_second ? seconds[0] : NULL);
  tenon_graph_t *graph = status == TENON_OK ? graph_of(&s, false) : NULL;
  const tenon_compile_t options = {.size = sizeof options, .flags = TENON_COMPILE_GRADIENTS};
  if (graph) status = tenon_executable_create(graph, &options, &e);
  tenon_random_seed(3);
  if (e) status = tenon_executable_run(e, s.leaves, outputs, NULL);
  if (e && status == TENON_OK)
    status = differentiate(&s, outputs, grads[1], is_second ? seconds[1] : NULL);
  if (e && status == TENON_OK) compare_recorded(&s, grads[0], grads[1]);
  if (e && status == TENON_OK && is_second) compare_recorded(&s, seconds[0], seconds[1]);
  if (e && status != TENON_OK && status != TENON_UNIMPLEMENTED) say(&s, tenon_error());
  if (e) has_split = is_split(e);
  release_tensors(outputs, RESULTS);
  for (int i = 0; i < 2; i++) {
    release_tensors(grads[i], LEAVES);
    release_tensors(seconds[i], LEAVES);
  }
  tenon_executable_release(e);
  tenon_graph_release(graph);
  close_single(&s);
  return has_split;
}

/* Operators whose gradients are no formulas, or whose lists of results inference cannot count. */
static const char *const not_graphs[] = {
    "core::attention", "core::causal_conv",      "core::concat_backward",  "core::gru",
    "core::lstm",      "core::linear_attention", "core::rotary_embedding", "core::rnn",
};
/* Operators that must know the last extent. */
static const char *const not_symbolic[] = {"core::dft", "core::stft"};

static bool is_listed(const char *name, const char *const *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(list[i], name) == 0) return true;
  return false;
}

static void check_all(bool is_symbolic) {
  int count = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *op = cases[i].op;
    bool has_none = is_listed(op, not_graphs, sizeof not_graphs / sizeof *not_graphs);
    has_none |=
        is_symbolic && is_listed(op, not_symbolic, sizeof not_symbolic / sizeof *not_symbolic);
    const int has_graph = check_single(&cases[i], is_symbolic);
    if (has_graph == has_none)
      check_report(0, __FILE__, __LINE__, op,
                   has_none ? "has a graph, but is listed" : tenon_error());
    count += has_graph;
  }
  printf("%d of %zu cases are differentiated as graphs\n", count, sizeof cases / sizeof *cases);
}

TEST("a graph of one node has the gradients of the tape, for every case of a core operator") {
  check_all(false);
}

TEST("so has a graph whose extents are known only when it runs") { check_all(true); }

TEST("recorded runs of a compiled graph have the gradients of the tape") {
  int count = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    count += check_recorded(&cases[i], false);
  printf("%d of %zu cases run as forward and backward\n", count, sizeof cases / sizeof *cases);
  CHECK(count >= 680);
}

TEST("gradients of recorded runs can be differentiated again") {
  int count = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    count += check_recorded(&cases[i], true);
  CHECK(count >= 600);
}

/* Small graphs */

/* loss = sum(tanh(x w + b)), where w is a constant. */
static tenon_graph_t *layer(void) {
  tenon_graph_t *graph = NULL;
  tenon_edge_t product, sum, loss;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F64, 2);
  tenon_edge_t bias = graph_input(b, "b", TENON_F64, 1);
  tenon_edge_t w = graph_constant(b, "w", "f64[2, 2] 1 2 3 4");
  graph_node(b, "product", "core::matmul", NULL, (tenon_edge_t[]){x, w, -1, -1, -1, -1, -1, -1},
             &product, 1);
  graph_node(b, "sum", "core::add", NULL, (tenon_edge_t[]){product, bias}, &sum, 1);
  tenon_edge_t square = -1;
  graph_node(b, "square", "core::mul", NULL, (tenon_edge_t[]){sum, sum}, &square, 1);
  graph_node(b, "total", "core::reduce_sum", "keepdims=False", (tenon_edge_t[]){square, -1}, &loss,
             1);
  graph_output(b, "loss", loss);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

static tenon_status_t derive(const tenon_graph_t *graph, tenon_graph_gradients_t options,
                             tenon_graph_t **out) {
  *out = NULL;
  options.size = sizeof options;
  return tenon_graph_gradients(graph, &options, out);
}

TEST("constants become inputs, and a loss has the gradient 1") {
  static const char *const values[] = {"w", "b"};
  tenon_graph_t *graph = layer();
  tenon_graph_t *derived;
  tenon_executable_t *e = NULL;
  tenon_tensor_t *out[3] = {NULL};
  CHECK_STATUS(
      derive(graph, (tenon_graph_gradients_t){.values = values, .value_count = 2}, &derived),
      TENON_OK);
  CHECK(tenon_graph_input_count(derived) == 3 && tenon_graph_output_count(derived) == 3);
  CHECK_STATUS(tenon_executable_create(derived, NULL, &e), TENON_OK);
  static const char *const inputs[] = {"f64[1, 2] 1 2", "f64[2] 1 -1", "f64[2, 2] 1 0 0 1"};
  CHECK_STATUS(graph_run(e, inputs, out), TENON_OK);
  CHECK_TENSOR(out[0], "f64[] 5");           /* (1 + 1)^2 + (2 - 1)^2 */
  CHECK_TENSOR(out[1], "f64[2, 2] 4 2 8 4"); /* x' 2 y */
  CHECK_TENSOR(out[2], "f64[2] 4 2");        /* 2 y */
  RELEASE(out[0], out[1], out[2]);
  tenon_executable_release(e);
  tenon_graph_release(derived);
  tenon_graph_release(graph);
}

TEST("what cannot be differentiated is refused with its name") {
  static const char *const none[] = {"none"};
  static const char *const twice[] = {"x", "x"};
  tenon_graph_t *graph = layer();
  tenon_graph_t *derived;
  CHECK_STATUS(derive(graph, (tenon_graph_gradients_t){.values = none, .value_count = 1}, &derived),
               TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "no input and no constant named 'none'");
  CHECK_STATUS(
      derive(graph, (tenon_graph_gradients_t){.outputs = none, .output_count = 1}, &derived),
      TENON_NOT_FOUND);
  CHECK_TEXT(tenon_error(), "no output named 'none'");
  CHECK_STATUS(
      derive(graph, (tenon_graph_gradients_t){.values = twice, .value_count = 2}, &derived),
      TENON_INVALID);
  CHECK_TEXT(tenon_error(), "'x' is listed twice");
  CHECK_STATUS(derive(graph, (tenon_graph_gradients_t){.flags = 64}, &derived), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "unknown flags 0x40");
  tenon_graph_release(graph);
}

/* A graph of one node, y = op(x), and an input that nothing reads. */
static tenon_graph_t *step_graph(const char *op, const char *attrs) {
  tenon_graph_t *graph = NULL;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t y = -1;
  tenon_edge_t inputs[] = {graph_input(b, "x", TENON_F64, 1), -1, -1, -1};
  (void)graph_input(b, "spare", TENON_F64, 1);
  graph_node(b, "step", op, attrs, inputs, &y, 1);
  graph_output(b, "y", y);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

TEST("an operator without formulas, one with a state and one that writes are refused by node") {
  static const struct {
    const char *op, *attrs, *message;
  } refused[] = {
      {"autograd::opaque", NULL, "node 'step' (autograd::opaque): it has no gradient formulas"},
      {"autograd::times", "by=3.0",
       "node 'step' (autograd::times): its gradient formula reads @state"},
      {"autograd::square_", NULL, "node 'step' (autograd::square_): it writes to its input"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    tenon_graph_t *graph = step_graph(refused[i].op, refused[i].attrs);
    tenon_graph_t *derived;
    CHECK_STATUS(
        derive(graph, (tenon_graph_gradients_t){.flags = TENON_GRADIENTS_UNUSED}, &derived),
        TENON_UNIMPLEMENTED);
    CHECK_TEXT(tenon_error(), refused[i].message);
    tenon_graph_release(graph);
  }
}

TEST("a value on which the outputs do not depend has zeros if they are asked for") {
  static const char *const inputs[] = {"f64[2] 1 2", "f64[3] 1 2 3", "f64[2] 5 7"};
  tenon_graph_t *graph = step_graph("core::sin", NULL);
  tenon_graph_t *derived;
  tenon_executable_t *e = NULL;
  tenon_tensor_t *out[3] = {NULL};
  CHECK_STATUS(derive(graph, (tenon_graph_gradients_t){0}, &derived), TENON_INVALID);
  CHECK_TEXT(tenon_error(), "the outputs do not depend on 'spare'");
  CHECK_STATUS(derive(graph, (tenon_graph_gradients_t){.flags = TENON_GRADIENTS_UNUSED}, &derived),
               TENON_OK);
  CHECK_STATUS(tenon_executable_create(derived, NULL, &e), TENON_OK);
  CHECK_STATUS(graph_run(e, inputs, out), TENON_OK);
  CHECK(fabs(tensor_float(out[1], 0) - 5 * cos(1)) < 1e-14);
  CHECK(fabs(tensor_float(out[1], 1) - 7 * cos(2)) < 1e-14);
  CHECK_TENSOR(out[2], "f64[3] 0 0 0");
  RELEASE(out[0], out[1], out[2]);
  tenon_executable_release(e);
  tenon_graph_release(derived);
  tenon_graph_release(graph);
}

/* Recorded runs */

/* log = log(x) and shape-dependent scaled = x / size(x), whose gradients are independent. */
static tenon_executable_t *two_outputs(void) {
  tenon_edge_t logarithm, size, cast, scaled;
  tenon_builder_t *b = graph_begin();
  tenon_edge_t x = graph_input(b, "x", TENON_F64, 2);
  tenon_edge_t y = graph_step(b, "core::identity", NULL, x);
  graph_node(b, "log", "core::log", NULL, (tenon_edge_t[]){y}, &logarithm, 1);
  graph_node(b, "size", "core::size", NULL, (tenon_edge_t[]){y}, &size, 1);
  graph_node(b, "cast", "core::cast", "to='f64'", (tenon_edge_t[]){size}, &cast, 1);
  graph_node(b, "scaled", "core::div", NULL, (tenon_edge_t[]){x, cast}, &scaled, 1);
  graph_output(b, "log", logarithm);
  graph_output(b, "scaled", scaled);
  return graph_compile(b, TENON_COMPILE_GRADIENTS);
}

TEST("an output whose gradient does not arrive adds nothing, not even 0 times infinity") {
  tenon_executable_t *e = two_outputs();
  for (int i = 0; i < 3; i++) {
    /* The extents are others in each run. */
    static const char *const texts[] = {"f64[1, 2] 0 1", "f64[2, 2] 0 1 2 3", "f64[1, 1] 0"};
    static const char *const expected[] = {"f64[1, 2] 0.5 0.5", "f64[2, 2] 0.25 0.25 0.25 0.25",
                                           "f64[1, 1] 1"};
    tenon_tensor_t *x = leaf(texts[i]);
    tenon_tensor_t *out[2] = {NULL};
    tenon_tensor_t *grad = NULL;
    CHECK_STATUS(tenon_executable_run(e, &x, out, NULL), TENON_OK);
    tenon_tensor_t *ones = weights_like(x);
    for (int64_t k = 0; k < tenon_count(x); k++)
      ((double *)ones->data)[k] = 1;
    CHECK_STATUS(tenon_gradients(&out[1], &ones, 1, &x, 1, 0, &grad), TENON_OK);
    CHECK_TENSOR(grad, expected[i]);
    RELEASE(grad, ones, out[0], out[1], x);
  }
  CHECK(is_split(e));
  tenon_executable_release(e);
}

TEST("backward refuses values that were written to after forward") {
  tenon_executable_t *e = two_outputs();
  tenon_tensor_t *x = leaf("f64[1, 2] 1 2");
  tenon_tensor_t *out[2] = {NULL};
  tenon_tensor_t *grad = NULL;
  CHECK_STATUS(tenon_executable_run(e, &x, out, NULL), TENON_OK);
  tenon_grad_mode_set(0);
  CHECK_STATUS(tenon_op_call_into(op_of("core::add"), NULL, (tenon_tensor_t *[]){x, x}, &x),
               TENON_OK);
  tenon_grad_mode_set(1);
  tenon_tensor_t *ones = tensor_of("f64[1, 2] 1 1");
  CHECK_STATUS(tenon_gradients(&out[0], &ones, 1, &x, 1, 0, &grad), TENON_PRECONDITION);
  CHECK_TEXT(tenon_error(), "written");
  RELEASE(ones, out[0], out[1], x);
  tenon_executable_release(e);
}

TEST("the dump says what is kept, and why a graph is recorded call by call") {
  static const struct {
    const char *op, *text;
  } dumps[] = {{"core::exp", "gradients of x\n  kept:"},
               {"autograd::opaque", "recorded call by call: node 'step' (autograd::opaque)"}};
  for (size_t i = 0; i < sizeof dumps / sizeof *dumps; i++) {
    tenon_graph_t *graph = step_graph(dumps[i].op, NULL);
    const tenon_compile_t options = {.size = sizeof options, .flags = TENON_COMPILE_GRADIENTS};
    tenon_executable_t *e = NULL;
    tenon_tensor_t *inputs[] = {leaf("f64[2] 1 2"), tensor_of("f64[1] 1")};
    tenon_tensor_t *out = NULL;
    char *text = NULL;
    CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_OK);
    CHECK_STATUS(tenon_executable_dump(e, "gradients", &text), TENON_OK);
    CHECK_TEXT(text, "no run was recorded");
    free(text);
    CHECK_STATUS(tenon_executable_run(e, inputs, &out, NULL), TENON_OK);
    CHECK_STATUS(tenon_executable_dump(e, "gradients", &text), TENON_OK);
    CHECK_TEXT(text, dumps[i].text);
    free(text);
    RELEASE(out, inputs[0], inputs[1]);
    tenon_executable_release(e);
    tenon_graph_release(graph);
  }
}

typedef struct worker_t {
  tn_spawned_t thread;
  tenon_executable_t *executable;
  int output; /* whose gradient the thread computes */
  bool is_right;
} worker_t;

static void work(void *context) {
  worker_t *w = context;
  static const double expected[2][2] = {{1, 0.5}, {0.5, 0.5}};
  w->is_right = true;
  for (int round = 0; round < 50 && w->is_right; round++) {
    tenon_tensor_t *x = NULL;
    tenon_tensor_t *ones = NULL;
    tenon_tensor_t *out[2] = {NULL};
    tenon_tensor_t *grad = NULL;
    const int64_t shape[] = {1, 2};
    if (tenon_tensor_create(tenon_dtype(TENON_F64), 2, shape, &x) ||
        tenon_tensor_create(tenon_dtype(TENON_F64), 2, shape, &ones))
      return;
    for (int i = 0; i < 2; i++) {
      ((double *)x->data)[i] = i + 1;
      ((double *)ones->data)[i] = 1;
    }
    w->is_right = tenon_tensor_require_grad(x, 1) == TENON_OK &&
                  tenon_executable_run(w->executable, &x, out, NULL) == TENON_OK &&
                  tenon_gradients(&out[w->output], &ones, 1, &x, 1, 0, &grad) == TENON_OK;
    for (int i = 0; i < 2 && w->is_right; i++)
      w->is_right = ((double *)grad->data)[i] == expected[w->output][i];
    RELEASE(x, ones, out[0], out[1], grad);
  }
}

TEST("threads share an executable, and each runs backward for outputs of its own") {
  enum { WORKERS = 4 };
  tenon_executable_t *e = two_outputs();
  worker_t workers[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    workers[i] = (worker_t){.executable = e, .output = i % 2};
    CHECK(tn_spawn(&workers[i].thread, work, &workers[i]));
  }
  for (int i = 0; i < WORKERS; i++) {
    tn_join(&workers[i].thread);
    CHECK(workers[i].is_right);
  }
  tenon_executable_release(e);
}
