/* The operator "Tenon>Graph": a graph in a file, which Tenon loads, compiles and runs as a whole.
 * Its attributes are the path of the file, and for gradients, as bits, the outputs that have one
 * and the inputs that get one. A node of the graph pass has the text of a group (group.h) instead
 * of a path. Nodes with the same file share one executable while one of them
 * exists. */
#include "graph.h"

#include "group.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_MOST = 1 << 16 };

/* ---- executables ---- */

typedef struct entry_t {
  struct entry_t *next;
  tenon_executable_t *executable;
  size_t uses;
  bool has_gradients;
  bool is_group; /* `path` is the text of a group */
  char path[];
} entry_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry_t *entries;

static tenon_status_t compile_group(const char *text, tenon_executable_t **out_executable) {
  tenon_graph_t *graph = NULL;
  tenon_status_t status = tenon_tensorflow_group(text, &graph);
  if (status == TENON_OK) status = tenon_executable_create(graph, NULL, out_executable);
  tenon_graph_release(graph);
  return status;
}

static tenon_status_t add_executable(const char *path, bool is_group, bool has_gradients,
                                     entry_t **out_entry) {
  entry_t *entry = calloc(1, sizeof *entry + strlen(path) + 1);
  if (!entry) return tenon_error_set(TENON_MEMORY, "out of memory");
  const tenon_status_t status = is_group ? compile_group(path, &entry->executable)
                                         : model_compile(path, has_gradients, &entry->executable);
  if (status != TENON_OK) {
    free(entry);
    return status;
  }
  strcpy(entry->path, path);
  entry->has_gradients = has_gradients;
  entry->is_group = is_group;
  entry->next = entries;
  entries = entry;
  *out_entry = entry;
  return TENON_OK;
}

static tenon_status_t open_graph(const char *path, bool is_group, model_t *model) {
  const bool has_gradients = model->given != 0;
  tenon_status_t status = TENON_OK;
  pthread_mutex_lock(&lock);
  entry_t *entry = entries;
  while (entry && (entry->has_gradients != has_gradients || entry->is_group != is_group ||
                   strcmp(entry->path, path) != 0))
    entry = entry->next;
  if (!entry) status = add_executable(path, is_group, has_gradients, &entry);
  if (status == TENON_OK) {
    entry->uses++;
    model->executable = entry->executable;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

void graph_close(const model_t *model) {
  pthread_mutex_lock(&lock);
  entry_t **at = &entries;
  while (*at && (*at)->executable != model->executable)
    at = &(*at)->next;
  entry_t *entry = *at;
  if (entry && --entry->uses == 0)
    *at = entry->next;
  else
    entry = NULL;
  pthread_mutex_unlock(&lock);
  if (entry) tenon_executable_release(entry->executable);
  free(entry);
}

/* ---- kernels ---- */

static const operator_t graph_operator = {.name = "Tenon>Graph"};

/* Returns an attribute with a text, which the caller frees; NULL after a failure. */
static char *read_text_attribute(tf_construction_t *construction, const char *name,
                                 tf_status_t *status) {
  int32_t count = 0;
  int32_t size = -1;
  tf.TF_OpKernelConstruction_GetAttrSize(construction, name, &count, &size, status);
  char *path = size >= 0 && size <= PATH_MOST ? calloc((size_t)size + 1, 1) : NULL;
  if (path)
    tf.TF_OpKernelConstruction_GetAttrString(construction, name, path, (size_t)size, status);
  return path;
}

static uint64_t read_bits(tf_construction_t *construction, const char *name, tf_status_t *status) {
  int64_t bits = 0;
  tf.TF_OpKernelConstruction_GetAttrInt64(construction, name, &bits, status);
  return (uint64_t)bits;
}

static tenon_status_t read_graph(tf_construction_t *construction, kernel_t *kernel,
                                 tf_status_t *status) {
  model_t *model = &kernel->model;
  int32_t input_count = 0;
  int32_t output_count = 0;
  int32_t size = 0;
  char *path = read_text_attribute(construction, "path", status);
  char *group = read_text_attribute(construction, "group", status);
  const bool is_group = group && *group;
  model->given = read_bits(construction, "given", status);
  model->requested = read_bits(construction, "requested", status);
  tf.TF_OpKernelConstruction_GetAttrSize(construction, "Tin", &input_count, &size, status);
  tenon_status_t code = TENON_OK;
  if (!path || !group || tf.TF_GetCode(status) != TF_OK)
    code = tenon_error_set(TENON_INVALID, "Tenon>Graph: an attribute is missing or too long");
  if (code == TENON_OK) code = open_graph(is_group ? group : path, is_group, model);
  free(path);
  free(group);
  if (code == TENON_OK) code = model_check(model, input_count, &output_count);
  if (code == TENON_OK && input_count > OPERATOR_TENSORS_MOST)
    code = tenon_error_set(TENON_UNIMPLEMENTED, "Tenon>Graph: a graph has more than 256 inputs");
  kernel->tensor_count = (uint32_t)input_count;
  kernel->output_counts[0] = output_count;
  kernel->given = model->given;
  kernel->requested = model->requested;
  kernel->keeps = true;
  return code;
}

static void *create_graph(tf_construction_t *construction) {
  tf_status_t *status = status_of_thread();
  kernel_t *kernel = kernel_new(&graph_operator);
  tenon_status_t code = kernel ? read_graph(construction, kernel, status)
                               : tenon_error_set(TENON_MEMORY, "out of memory");
  if (code == TENON_OK) return kernel;
  kernel_fail(construction, status, code, tenon_error());
  kernel_delete(kernel);
  return NULL;
}

/* ---- runs ---- */

static tenon_status_t view_inputs(call_t *c) {
  const tenon_graph_t *graph = tenon_executable_graph(c->kernel->model.executable);
  tenon_status_t status = TENON_OK;
  for (uint32_t k = 0; k < c->kernel->tensor_count && status == TENON_OK; k++) {
    tenon_port_t port = {.size = sizeof port};
    status = tenon_graph_input(graph, (int32_t)k, &port);
    if (status == TENON_OK) status = call_view(c, k, port.name);
    if (status == TENON_OK) status = call_count_tensor(c, k);
  }
  return status;
}

static tenon_status_t run_forward(call_t *c) {
  tenon_tensor_t *outputs[MODEL_MOST] = {NULL};
  const int32_t count = c->kernel->output_counts[0];
  tenon_status_t status =
      tenon_executable_run(c->kernel->model.executable, c->tensors, outputs, NULL);
  for (int32_t o = 0; o < count; o++) {
    if (status == TENON_OK)
      status = call_set_result(c, outputs[o]);
    else
      tenon_tensor_release(outputs[o]);
  }
  return status;
}

static tenon_status_t run_graph_backward(call_t *c, uint32_t grad_count, int32_t count) {
  tenon_tensor_t *made[MODEL_MOST] = {NULL};
  tenon_status_t status = call_view_gradients(c, grad_count);
  if (status != TENON_OK) return status;
  status = model_gradients(&c->kernel->model, c->tensors, c->tensors + c->kernel->tensor_count,
                           (int32_t)grad_count, made, count);
  if (status == TENON_OK) return call_set_gradients(c, made, count);
  for (int32_t i = 0; i < count; i++)
    tenon_tensor_release(made[i]);
  return status;
}

tenon_status_t graph_run(call_t *c, uint32_t grad_count) {
  const bool is_backward = c->kernel->given != 0;
  const int32_t expected = is_backward ? MODEL_MOST : c->kernel->output_counts[0];
  const int32_t count = tf.TF_NumOutputs(c->context);
  if (is_backward ? count > expected : count != expected)
    return call_fail(c, TENON_INVALID, "the node has %d outputs, and its graph has %d", count,
                     expected);
  const tenon_status_t status = view_inputs(c);
  if (status != TENON_OK) return status;
  return is_backward ? run_graph_backward(c, grad_count, count) : run_forward(c);
}

/* ---- the definition ---- */

static void add_parts(tf_op_builder_t *builder) {
  tf.TF_OpDefinitionBuilderAddInput(builder, "inputs: Tin");
  tf.TF_OpDefinitionBuilderAddInput(builder, "grads: Tgrads");
  tf.TF_OpDefinitionBuilderAddOutput(builder, "outputs: Tout");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "Tin: list(type) >= 0");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "Tgrads: list(type) >= 0 = []");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "Tout: list(type) >= 0");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "path: string = ''");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "group: string = ''");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "given: int = 0");
  tf.TF_OpDefinitionBuilderAddAttr(builder, "requested: int = 0");
}

bool graph_define(char *why, size_t capacity) {
  return operator_define_own("Tenon>Graph", add_parts, create_graph, why, capacity);
}
