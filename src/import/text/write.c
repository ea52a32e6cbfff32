/* Writes graphs as text. Called by tenon_graph_save and tenon_graph_export. Invariant: everything
 * that a graph consists of is in the text or in the file of weights, and nothing that follows from
 * it, so that a change of one attribute changes one line. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/element.h"
#include "core/file_copy.h"
#include "core/lexer.h"
#include "core/sparse.h"
#include "core/value.h"
#include "import/text/text.h"

enum {
  INLINE_MOST = 16, /* elements of a constant that is written in the text */
  DEPTH_MOST = 32,  /* graphs within graphs */
};
#define EXACT_MOST 9007199254740992.0 /* 2^53: integers up to it are exact in a double */

typedef struct text_writer_t {
  tn_text_t text;
  tn_weight_list_t *weights;
  bool only_used; /* constants that nothing reads are left out */
  int depth;
} text_writer_t;

static tenon_status_t write_graph(text_writer_t *w, const tenon_graph_t *graph);

static void indent(text_writer_t *w) {
  for (int i = 0; i < w->depth; i++)
    tn_text_bytes(&w->text, "  ", 2);
}

/* Names */

/* Whether a name is one token of the language, and no word of it. */
static bool is_plain_name(const char *name) {
  static const char *const words[] = {"None", "as", "graph", "return", "weights", NULL};
  tn_lexer_t lexer;
  tn_lexer_open_file(&lexer, name);
  const bool is_token = lexer.kind == TN_TOKEN_NAME || lexer.kind == TN_TOKEN_VALUE;
  bool is_word = false;
  for (int i = 0; words[i]; i++)
    is_word |= strcmp(name, words[i]) == 0;
  return is_token && !is_word && lexer.start == name && !name[lexer.size];
}

static void write_name(text_writer_t *w, const char *name) {
  if (is_plain_name(name))
    tn_text_add(&w->text, "%s", name);
  else
    tn_value_quote(name, strlen(name), &w->text);
}

/* Tensors */

static bool has_float_elements(tenon_dtype_t dtype) {
  return dtype.code == tenon_dtype(TENON_F32).code || dtype.code == tenon_dtype(TENON_BF16).code;
}

/* Prints the elements of a list or, if there are no axes, of one element. */
static void write_elements(text_writer_t *w, const tenon_tensor_t *tensor) {
  const int64_t count = tenon_count(tensor);
  const bool is_text = tn_dtype_is(tensor->dtype, TENON_STRING);
  const tenon_string_t *strings = tensor->data;
  char number[32];
  if (tensor->ndim) tn_text_bytes(&w->text, "[", 1);
  for (int64_t i = 0; i < count; i++) {
    double imaginary;
    const double value = is_text ? 0 : tn_element_get(tensor->dtype, tensor->data, i, &imaginary);
    if (i) tn_text_bytes(&w->text, ", ", 2);
    if (is_text) {
      tn_value_quote(strings[i].data, (size_t)strings[i].size, &w->text);
    } else if (has_float_elements(tensor->dtype)) {
      tn_number_print(value, number);
      tn_text_add(&w->text, "%s", number);
    } else {
      tn_text_add(&w->text, "%.0f", value);
    }
  }
  if (tensor->ndim) tn_text_bytes(&w->text, "]", 1);
}

/* Whether the elements are the same after they were printed as numbers and read again. Those of NaN
 * may not be: a NaN has many forms. */
static bool is_exact(const tenon_tensor_t *tensor) {
  const int64_t count = tenon_count(tensor);
  const int64_t size = tensor->dtype.bits / 8;
  for (int64_t i = 0; i < count; i++) {
    unsigned char again[16] = {0};
    double imaginary;
    const double value = tn_element_get(tensor->dtype, tensor->data, i, &imaginary);
    if (!has_float_elements(tensor->dtype) && (value > EXACT_MOST || value < -EXACT_MOST))
      return false;
    tn_element_put(tensor->dtype, again, 0, value, 0);
    if (memcmp(again, (const char *)tensor->data + i * size, (size_t)size) != 0) return false;
  }
  return true;
}

/* Whether a dense constant is written in the text. Strings always are, because the file of weights
 * can hold numbers only. */
static bool is_inline(const tenon_tensor_t *tensor) {
  static const uint32_t dtypes[] = {TENON_BOOL, TENON_I8,  TENON_I16, TENON_I32, TENON_I64,
                                    TENON_U8,   TENON_U16, TENON_U32, TENON_U64, TENON_F16,
                                    TENON_BF16, TENON_F32, TENON_F64};
  bool is_number = false;
  if (tn_dtype_is(tensor->dtype, TENON_STRING)) return true;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    is_number |= tn_dtype_is(tensor->dtype, dtypes[i]);
  return is_number && tenon_count(tensor) <= INLINE_MOST && is_exact(tensor);
}

static tenon_status_t write_elements_of(text_writer_t *w, const tenon_tensor_t *tensor,
                                        const char *name) {
  const char *key;
  if (tensor->keys & TN_KEY_STRIDED) {
    tenon_tensor_t *dense;
    TN_TRY(tenon_tensor_copy(tensor, &dense));
    const bool is_short = is_inline(dense);
    if (is_short) write_elements(w, dense);
    tenon_tensor_release(dense);
    if (is_short) return TENON_OK;
  } else if (is_inline(tensor)) {
    write_elements(w, tensor);
    return TENON_OK;
  }
  TN_TRY(tn_weight_list_add(w->weights, name, tensor, &key));
  tn_text_bytes(&w->text, "weights(", 8);
  tn_value_quote(key, strlen(key), &w->text);
  tn_text_bytes(&w->text, ")", 1);
  return TENON_OK;
}

/* Writes a tensor with its type; `name` is the key that it should have in the file of weights. */
static tenon_status_t write_tensor(text_writer_t *w, const tenon_tensor_t *tensor,
                                   const char *name) {
  if (tensor->detail)
    return tn_fail(TENON_UNIMPLEMENTED, "the text of a graph has no constants of layout %s",
                   tenon_tensor_layout(tensor));
  tn_file_copy_recall(tensor);
  tn_text_add(&w->text, "%s[", tn_dtype_name(tensor->dtype));
  for (int32_t d = 0; d < tensor->ndim; d++)
    tn_text_add(&w->text, "%s%" PRId64, d ? ", " : "", tensor->shape[d]);
  tn_text_bytes(&w->text, "] ", 2);
  return write_elements_of(w, tensor, name);
}

static tenon_status_t write_constant(text_writer_t *w, const tn_edge_t *edge) {
  indent(w);
  write_name(w, edge->name);
  tn_text_bytes(&w->text, " = ", 3);
  const tenon_status_t status = write_tensor(w, edge->constant, edge->name);
  tn_text_bytes(&w->text, "\n", 1);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "constant '%.200s': ", edge->name);
}

/* Nodes */

static tenon_status_t write_tensors(text_writer_t *w, const tenon_value_t *value,
                                    const char *name) {
  tn_text_bytes(&w->text, "[", 1);
  for (uint32_t i = 0; i < value->count; i++) {
    if (i) tn_text_bytes(&w->text, ", ", 2);
    TN_TRY(write_tensor(w, value->as.tensors[i], name));
  }
  tn_text_bytes(&w->text, "]", 1);
  return TENON_OK;
}

static tenon_status_t write_attr(text_writer_t *w, const tn_node_t *node, uint32_t i) {
  const tn_argument_t *attr = &node->op->schema.attrs[i];
  const tenon_value_t *value = &node->attrs[i];
  char name[2 * TN_NAME_MAX + 2];
  snprintf(name, sizeof name, "%.*s.%s", TN_NAME_MAX, node->name, attr->name);
  tn_text_add(&w->text, "%s=", attr->name);
  if (value->kind == TENON_KIND_GRAPH && value->as.graph) return write_graph(w, value->as.graph);
  if (value->kind == TENON_KIND_TENSOR && value->as.tensor)
    return write_tensor(w, value->as.tensor, name);
  if (value->kind == TENON_KIND_TENSORS) return write_tensors(w, value, name);
  tn_value_print(attr, value, &w->text);
  return TENON_OK;
}

static bool is_default(const tn_node_t *node, uint32_t i) {
  const tn_schema_t *s = &node->op->schema;
  if (s->attrs[i].has_default) return tn_value_equal(&node->attrs[i], &s->defaults[i]);
  return node->attrs[i].kind == TENON_KIND_NONE;
}

static void write_operand(text_writer_t *w, const tenon_graph_t *graph, const tn_node_t *node,
                          uint32_t i) {
  const tenon_operand_t *operand = &node->operands[i];
  const bool is_list = node->op->schema.inputs[i].kind == TENON_KIND_TENSORS;
  if (is_list) tn_text_bytes(&w->text, "[", 1);
  for (int32_t k = 0; k < operand->count; k++) {
    if (k) tn_text_bytes(&w->text, ", ", 2);
    write_name(w, graph->edges[operand->edges[k]].name);
  }
  if (is_list)
    tn_text_bytes(&w->text, "]", 1);
  else if (!operand->count)
    tn_text_bytes(&w->text, "None", 4);
}

static tenon_status_t write_arguments(text_writer_t *w, const tenon_graph_t *graph,
                                      const tn_node_t *node) {
  const char *separator = "";
  uint32_t count = node->op->input_count;
  while (count && !node->operands[count - 1].count)
    count--;
  for (uint32_t i = 0; i < count; i++) {
    tn_text_add(&w->text, "%s", separator);
    write_operand(w, graph, node, i);
    separator = ", ";
  }
  for (uint32_t i = 0; i < node->op->schema.attr_count; i++) {
    if (is_default(node, i)) continue;
    tn_text_add(&w->text, "%s", separator);
    TN_TRY(write_attr(w, node, i));
    separator = ", ";
  }
  return TENON_OK;
}

/* Writes the name of the `index`-th node, if it is not the one that a node without a name gets. */
static void write_node_name(text_writer_t *w, const tn_node_t *node, size_t index) {
  char made[TN_NAME_MAX + 32];
  snprintf(made, sizeof made, "%s_%zu", node->op->schema.name, index);
  if (strcmp(made, node->name) == 0) return;
  tn_text_bytes(&w->text, " as ", 4);
  write_name(w, node->name);
}

static tenon_status_t write_node_line(text_writer_t *w, const tenon_graph_t *graph,
                                      const tn_node_t *node, size_t index) {
  indent(w);
  for (int32_t o = 0; o < node->output_count; o++) {
    if (o) tn_text_bytes(&w->text, ", ", 2);
    write_name(w, graph->edges[node->outputs[o]].name);
  }
  tn_text_add(&w->text, "%s%s", node->output_count ? " = " : "", node->op->name);
  if (node->op->version > 1) tn_text_add(&w->text, "@%" PRId64, node->op->version);
  tn_text_bytes(&w->text, "(", 1);
  const tenon_status_t status = write_arguments(w, graph, node);
  tn_text_bytes(&w->text, ")", 1);
  write_node_name(w, node, index);
  tn_text_bytes(&w->text, "\n", 1);
  return status == TENON_OK ? TENON_OK
                            : tn_prefix(status, "node '%.200s' (%s): ", node->name, node->op->name);
}

/* Graphs */

static void write_input(text_writer_t *w, const tenon_graph_t *graph, size_t i) {
  const tn_edge_t *edge = &graph->edges[graph->inputs[i]];
  const tenon_axis_t *axes = graph->input_axes[i];
  write_name(w, edge->name);
  tn_text_add(&w->text, ": %s[", edge->dtype.bits ? tn_dtype_name(edge->dtype) : "?");
  if (!axes) tn_text_bytes(&w->text, "...", 3);
  for (int32_t d = 0; axes && d < edge->ndim; d++) {
    if (d) tn_text_bytes(&w->text, ", ", 2);
    if (axes[d].extent >= 0)
      tn_text_add(&w->text, "%" PRId64, axes[d].extent);
    else if (axes[d].name && *axes[d].name)
      write_name(w, axes[d].name);
    else
      tn_text_bytes(&w->text, "?", 1);
  }
  tn_text_bytes(&w->text, "]", 1);
  if (edge->layout) tn_text_add(&w->text, " %s", tn_layout_name(edge->layout));
}

static void write_results(text_writer_t *w, const tenon_graph_t *graph) {
  indent(w);
  tn_text_bytes(&w->text, "return", 6);
  for (size_t i = 0; i < graph->output_count; i++) {
    const char *value = graph->edges[graph->outputs[i]].name;
    tn_text_add(&w->text, "%s", i ? ", " : " ");
    write_name(w, graph->output_names[i]);
    if (strcmp(value, graph->output_names[i]) == 0) continue;
    tn_text_bytes(&w->text, "=", 1);
    write_name(w, value);
  }
  tn_text_bytes(&w->text, "\n", 1);
}

static tenon_status_t write_constants(text_writer_t *w, const tenon_graph_t *graph) {
  int32_t *uses = NULL;
  tenon_status_t status = w->only_used ? tn_graph_uses(graph, &uses) : TENON_OK;
  for (size_t i = 0; i < graph->edge_count && status == TENON_OK; i++)
    if (graph->edges[i].constant && (!uses || uses[i]))
      status = write_constant(w, &graph->edges[i]);
  tn_release_memory(uses);
  return status;
}

static tenon_status_t write_graph(text_writer_t *w, const tenon_graph_t *graph) {
  if (w->depth == DEPTH_MOST)
    return tn_fail(TENON_UNIMPLEMENTED, "more than %d graphs within each other", DEPTH_MOST);
  tn_text_bytes(&w->text, "graph ", 6);
  if (*graph->name) write_name(w, graph->name);
  tn_text_bytes(&w->text, "(", 1);
  for (size_t i = 0; i < graph->input_count; i++) {
    if (i) tn_text_bytes(&w->text, ", ", 2);
    write_input(w, graph, i);
  }
  tn_text_bytes(&w->text, ") {\n", 4);
  w->depth++;
  TN_TRY(write_constants(w, graph));
  size_t index = 0;
  for (size_t n = 0; n < graph->node_count; n++)
    if (graph->nodes[n].op) TN_TRY(write_node_line(w, graph, &graph->nodes[n], index++));
  write_results(w, graph);
  w->depth--;
  indent(w);
  tn_text_bytes(&w->text, "}", 1);
  return TENON_OK;
}

/* Files */

/* The path of the file of weights: that of the text, with another ending. */
static void print_weights_path(const char *path, tn_text_t *text) {
  const size_t size = strlen(path) - strlen(TN_TEXT_ENDING);
  tn_text_add(text, "%.*s%s", (int)size, path, TN_WEIGHTS_ENDING);
}

static void write_heading(const text_writer_t *w, const char *weights, tn_text_t *heading) {
  const char *slash = strrchr(weights, '/');
  const char *name = slash ? slash + 1 : weights;
  tn_text_add(heading, TN_TEXT_HEADING "\n");
  if (w->weights->count) {
    tn_text_add(heading, "weights ");
    tn_value_quote(name, strlen(name), heading);
    tn_text_add(heading, "\n");
  }
  tn_text_add(heading, "\n%s\n", tn_text_get(&w->text));
}

static tenon_status_t save_files(text_writer_t *w, const char *path, const char *weights,
                                 const tn_text_t *whole) {
  tn_new_file_t files[2] = {{weights, NULL, 0}, {path, tn_text_get(whole), whole->size}};
  unsigned char *elements = NULL;
  if (!w->weights->count) return tn_file_replace(path, files[1].data, files[1].size, 0666);
  tenon_status_t status = tn_weight_list_write(w->weights, &elements, &files[0].size);
  files[0].data = elements;
  if (status == TENON_OK) status = tn_file_replace_both(files, 0666);
  tn_release_memory(elements);
  return status;
}

tenon_status_t tn_text_save(const tenon_graph_t *graph, const char *path) {
  tn_weight_list_t list = {0};
  text_writer_t w = {.weights = &list};
  tn_text_t weights = {0};
  tn_text_t whole = {0};
  tenon_status_t status = write_graph(&w, graph);
  print_weights_path(path, &weights);
  write_heading(&w, tn_text_get(&weights), &whole);
  if (status == TENON_OK && (w.text.failed || weights.failed || whole.failed))
    status = tn_no_memory("the text of a graph", w.text.size);
  if (status == TENON_OK) status = save_files(&w, path, tn_text_get(&weights), &whole);
  tn_weight_list_clear(&list);
  tn_text_clear(&w.text);
  tn_text_clear(&weights);
  tn_text_clear(&whole);
  return status;
}

tenon_status_t tn_text_print(const tenon_graph_t *graph, bool only_used, tn_weight_list_t *weights,
                             tn_text_t *out_text) {
  text_writer_t w = {.weights = weights, .only_used = only_used};
  tenon_status_t status = write_graph(&w, graph);
  tn_text_add(out_text, TN_TEXT_HEADING "\n%s\n", tn_text_get(&w.text));
  if (status == TENON_OK && (w.text.failed || out_text->failed))
    status = tn_no_memory("the text of a graph", w.text.size);
  tn_text_clear(&w.text);
  return status;
}
