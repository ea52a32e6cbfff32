/* Operators in tests: found by name, with attributes as text ("n=2; axis=1"), in calls and as nodes
 * of a graph. Include after tensors.h. */
#ifndef TENON_TESTS_OPERATORS_H
#define TENON_TESTS_OPERATORS_H

static inline const tenon_op_t *op_of(const char *name) {
  const tenon_op_t *op = NULL;
  CHECK_STATUS(tenon_op_find(name, &op), TENON_OK);
  return op;
}

static inline tenon_op_info_t op_info(const tenon_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  return info;
}

/* Makes attributes from "name=value; name=value", or the defaults if NULL. Release them with
 * tenon_attrs_release. */
static inline tenon_attrs_t *attrs_of(const tenon_op_t *op, const char *text) {
  tenon_attrs_t *attrs = NULL;
  if (!text) return NULL;
  CHECK_STATUS(tenon_attrs_create(op, &attrs), TENON_OK);
  while (attrs && *text) {
    char name[64] = "";
    char value[256] = "";
    size_t n = strcspn(text, "=");
    size_t v = strcspn(text + n + 1, ";");
    memcpy(name, text, n);
    memcpy(value, text + n + 1, v);
    CHECK_STATUS(tenon_attrs_parse(attrs, name, value), TENON_OK);
    text += n + 1 + v;
    text += strspn(text, "; ");
  }
  return attrs;
}

static inline const tenon_value_t *attr_values(tenon_attrs_t *attrs) {
  const tenon_value_t *values = NULL;
  if (attrs) CHECK_STATUS(tenon_attrs_values(attrs, &values), TENON_OK);
  return values;
}

/* Makes one call with tensors as text; the caller owns the outputs. */
static inline tenon_status_t call_op(const char *name, const char *attrs_text,
                                     const char *const *texts, tenon_tensor_t **outputs) {
  const tenon_op_t *op = op_of(name);
  if (!op) return TENON_NOT_FOUND;
  tenon_tensor_t *inputs[16];
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  tenon_op_info_t info = op_info(op);
  for (int32_t i = 0; i < info.input_count; i++)
    inputs[i] = tensor_of(texts[i]);
  tenon_status_t status = tenon_op_call(op, attr_values(attrs), inputs, outputs, 0);
  for (int32_t i = 0; i < info.input_count; i++)
    tenon_tensor_release(inputs[i]);
  tenon_attrs_release(attrs);
  return status;
}

/* Adds an input that accepts any shape of that rank (-1: any rank). */
static inline tenon_edge_t graph_input(tenon_builder_t *b, const char *name, uint32_t dtype,
                                       int32_t ndim) {
  tenon_axis_t axes[TENON_RANK_MAX];
  tenon_edge_t edge = -1;
  for (int32_t d = 0; d < ndim; d++)
    axes[d] = (tenon_axis_t){-1, NULL};
  CHECK_STATUS(tenon_builder_input(b, name, tenon_dtype(dtype), ndim, axes, &edge), TENON_OK);
  return edge;
}

static inline tenon_edge_t graph_constant(tenon_builder_t *b, const char *name, const char *text) {
  tenon_tensor_t *t = tensor_of(text);
  tenon_edge_t edge = -1;
  CHECK_STATUS(tenon_builder_constant(b, name, t, &edge), TENON_OK);
  tenon_tensor_release(t);
  return edge;
}

/* Adds a node of an operator without lists and returns its first `output_count` results; inputs[i]
 * == -1: absent. */
static inline void graph_node(tenon_builder_t *b, const char *node, const char *name,
                              const char *attrs_text, const tenon_edge_t *inputs,
                              tenon_edge_t *outputs, int32_t output_count) {
  tenon_operand_t operands[16];
  const tenon_op_t *op = op_of(name);
  for (int32_t o = 0; o < output_count; o++)
    outputs[o] = -1;
  if (!op) return;
  for (int32_t i = 0; i < op_info(op).input_count; i++)
    operands[i] = (tenon_operand_t){inputs[i] >= 0, &inputs[i]};
  tenon_attrs_t *attrs = attrs_of(op, attrs_text);
  CHECK_STATUS(tenon_builder_node(b, node, op, attr_values(attrs), operands, outputs, output_count),
               TENON_OK);
  tenon_attrs_release(attrs);
}

/* Adds a node with one input and one result. */
static inline tenon_edge_t graph_step(tenon_builder_t *b, const char *name, const char *attrs_text,
                                      tenon_edge_t input) {
  tenon_edge_t inputs[16] = {input, -1, -1, -1, -1, -1, -1, -1};
  tenon_edge_t output;
  graph_node(b, NULL, name, attrs_text, inputs, &output, 1);
  return output;
}

static inline void graph_output(tenon_builder_t *b, const char *name, tenon_edge_t edge) {
  CHECK_STATUS(tenon_builder_output(b, name, edge), TENON_OK);
}

/* Finishes and compiles the graph, and releases the builder and the graph. */
static inline tenon_executable_t *graph_compile_with(tenon_builder_t *b, tenon_compile_t options) {
  tenon_graph_t *graph = NULL;
  tenon_executable_t *e = NULL;
  options.size = sizeof options;
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  if (graph) CHECK_STATUS(tenon_executable_create(graph, &options, &e), TENON_OK);
  tenon_graph_release(graph);
  return e;
}
static inline tenon_executable_t *graph_compile(tenon_builder_t *b, uint32_t flags) {
  return graph_compile_with(b, (tenon_compile_t){.flags = flags});
}
static inline tenon_executable_t *graph_compile_on(tenon_builder_t *b, tenon_device_t device) {
  return graph_compile_with(b, (tenon_compile_t){.device = device});
}

static inline tenon_builder_t *graph_begin(void) {
  tenon_builder_t *b = NULL;
  CHECK_STATUS(tenon_builder_create(&b), TENON_OK);
  return b;
}

/* How often a text is in the dump of the plan. */
static inline int count_in_plan(tenon_executable_t *e, const char *text) {
  char *plan = NULL;
  int count = 0;
  CHECK_STATUS(tenon_executable_dump(e, "plan", &plan), TENON_OK);
  for (const char *at = plan; at && (at = strstr(at, text)) != NULL; at += strlen(text))
    count++;
  tenon_text_release(plan);
  return count;
}

/* Runs an executable with tensors as text. */
static inline tenon_status_t graph_run(tenon_executable_t *e, const char *const *texts,
                                       tenon_tensor_t **outputs) {
  tenon_tensor_t *inputs[16];
  int32_t count = tenon_graph_input_count(tenon_executable_graph(e));
  for (int32_t i = 0; i < count; i++)
    inputs[i] = tensor_of(texts[i]);
  tenon_status_t status = tenon_executable_run(e, inputs, outputs, NULL);
  for (int32_t i = 0; i < count; i++)
    tenon_tensor_release(inputs[i]);
  return status;
}

/* Runs an executable and compares every output with a text. */
static inline void check_graph(tenon_executable_t *e, const char *const *inputs,
                               const char *const *expected, const char *file, int line) {
  tenon_tensor_t *outputs[16] = {NULL};
  int32_t count = tenon_graph_output_count(tenon_executable_graph(e));
  int status = graph_run(e, inputs, outputs);
  check_status(status, TENON_OK, CHECK_MESSAGE(), file, line, "a run");
  for (int32_t o = 0; o < count; o++) {
    if (status == TENON_OK) check_tensor(outputs[o], expected[o], 1e-6, file, line);
    tenon_tensor_release(outputs[o]);
  }
}
/* Checks that a run is refused: its message contains the text, and its outputs stay NULL. */
static inline void check_run_refused(tenon_executable_t *e, const char *const *inputs,
                                     tenon_status_t status, const char *part) {
  tenon_tensor_t *outputs[8] = {NULL};
  CHECK_STATUS(graph_run(e, inputs, outputs), status);
  CHECK_TEXT(tenon_error(), part);
  for (int i = 0; i < 8; i++)
    CHECK(outputs[i] == NULL);
}

#define TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CHECK_GRAPH(executable, inputs, expected)                                                  \
  check_graph((executable), (inputs), (expected), __FILE__, __LINE__)

#endif
