/* Reads graphs as text. Called by tenon_graph_load and tenon_graph_read. Invariant: the text and
 * the file of weights are untrusted. Whatever they contain, the result is a graph that a builder
 * accepted, or a message with the line. */
#include <inttypes.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/element.h"
#include "core/lexer.h"
#include "core/sparse.h"
#include "core/value.h"
#include "import/text/text.h"
#include "operator/names.h"

enum { DEPTH_MOST = 32 }; /* graphs within graphs */

typedef struct text_reader_t {
  tn_lexer_t lexer;
  tn_arena_t arena; /* holds names and literals until the whole text was read */
  tn_weights_t weights;
  tn_weight_file_t file;
  const tn_text_source_t *source; /* of the weights; NULL: `file` */
  int depth;
} text_reader_t;

/* The graph that is being read. */
typedef struct scope_t {
  text_reader_t *reader;
  tn_lexer_t *lexer;
  tenon_builder_t *builder;
  tn_map_t values; /* 1 + edge, by name */
} scope_t;

static tenon_status_t read_graph(text_reader_t *reader, tenon_graph_t **out_graph);

/* Adds the line to a message that was made by other parts of the runtime. */
static tenon_status_t at_line(const text_reader_t *reader, const char *at, tenon_status_t status) {
  if (status == TENON_OK) return status;
  return tn_prefix(status, "line %zu: ", tn_lexer_line(&reader->lexer, at));
}

/* Names */

static bool is_name(const tn_lexer_t *lexer) {
  return lexer->kind == TN_TOKEN_NAME || lexer->kind == TN_TOKEN_VALUE ||
         lexer->kind == TN_TOKEN_TEXT;
}

static tenon_status_t read_name(text_reader_t *reader, const char *expected,
                                const char **out_name) {
  tn_lexer_t *lexer = &reader->lexer;
  const char *at = lexer->start;
  uint32_t size;
  if (!is_name(lexer)) return tn_lexer_expected(lexer, expected);
  if (lexer->kind == TN_TOKEN_TEXT) {
    TN_TRY(tn_lexer_text(lexer, &reader->arena, out_name, &size));
    if (!size || strlen(*out_name) != size)
      return tn_lexer_fail_at(lexer, at, "a name is empty or contains a byte 0");
    return TENON_OK;
  }
  *out_name = tn_arena_text(&reader->arena, lexer->start, lexer->size);
  if (!*out_name) return tn_no_memory("a name", lexer->size);
  tn_lexer_next(lexer);
  return TENON_OK;
}

/* Adds a value under a name that no other value of the graph has. */
static tenon_status_t define(scope_t *scope, const char *at, const char *name, tenon_edge_t edge) {
  const size_t size = strlen(name);
  if (tn_map_get(&scope->values, name, size))
    return tn_lexer_fail_at(scope->lexer, at, "the graph has two values named '%.200s'", name);
  return tn_map_put(&scope->values, name, size, (void *)(uintptr_t)(edge + 1))
             ? TENON_OK
             : tn_no_memory("a graph", size);
}

static tenon_status_t read_value(scope_t *scope, tenon_edge_t *out_edge) {
  const char *at = scope->lexer->start;
  const char *name;
  TN_TRY(read_name(scope->reader, "the name of a value", &name));
  const uintptr_t found = (uintptr_t)tn_map_get(&scope->values, name, strlen(name));
  *out_edge = (tenon_edge_t)found - 1;
  if (found) return TENON_OK;
  return tn_lexer_fail_at(scope->lexer, at,
                          "no value '%.200s' exists here: a value must be defined before the line "
                          "that reads it",
                          name);
}

/* Types */

static tenon_status_t read_text_dtype(tn_lexer_t *lexer, tenon_dtype_t *out_dtype) {
  if (lexer->kind != TN_TOKEN_NAME || !tn_dtype_parse_value(lexer->start, lexer->size, out_dtype))
    return tn_lexer_unknown(lexer, "a dtype", NULL, tn_dtype_word);
  tn_lexer_next(lexer);
  return TENON_OK;
}

static tenon_status_t read_extent(text_reader_t *reader, int64_t *out_extent) {
  tenon_value_t number;
  const char *at = reader->lexer.start;
  if (reader->lexer.kind != TN_TOKEN_INT) return tn_lexer_expected(&reader->lexer, "an extent");
  TN_TRY(tn_lexer_literal(&reader->lexer, &reader->arena, &number));
  *out_extent = number.as.i;
  return number.as.i >= 0 ? TENON_OK
                          : tn_lexer_fail_at(&reader->lexer, at, "an extent is negative");
}

static tenon_status_t read_axis(text_reader_t *reader, tenon_axis_t *out_axis) {
  *out_axis = (tenon_axis_t){-1, NULL};
  if (tn_lexer_take(&reader->lexer, '?')) return TENON_OK;
  if (!is_name(&reader->lexer)) return read_extent(reader, &out_axis->extent);
  return read_name(reader, "an extent", &out_axis->name);
}

/* Reads "[4, batch, ?]"; *out_ndim is -1 for "[...]". */
static tenon_status_t read_text_axes(text_reader_t *reader, tenon_axis_t *axes, int32_t *out_ndim) {
  tn_lexer_t *lexer = &reader->lexer;
  *out_ndim = -1;
  TN_TRY(tn_lexer_expect(lexer, '[', "'['"));
  if (tn_lexer_take(lexer, TN_TOKEN_DOTS)) return tn_lexer_expect(lexer, ']', "']'");
  for (*out_ndim = 0; lexer->kind != ']'; ++*out_ndim) {
    if (*out_ndim) TN_TRY(tn_lexer_expect(lexer, ',', "',' or ']'"));
    if (*out_ndim == TENON_RANK_MAX)
      return tn_lexer_fail(lexer, "a shape has at most %d dimensions", TENON_RANK_MAX);
    TN_TRY(read_axis(reader, &axes[*out_ndim]));
  }
  return tn_lexer_expect(lexer, ']', "']'");
}

static tenon_status_t read_layout(scope_t *scope, tenon_edge_t edge) {
  const char *at = scope->lexer->start;
  uint32_t layout = 0;
  if (scope->lexer->kind != TN_TOKEN_NAME) return TENON_OK;
  if (tn_lexer_is(scope->lexer, "csr")) layout = TENON_DETAIL_CSR;
  if (tn_lexer_is(scope->lexer, "row_sparse")) layout = TENON_DETAIL_ROW_SPARSE;
  if (!layout) return tn_lexer_expected(scope->lexer, "csr, row_sparse, ',' or ')'");
  tn_lexer_next(scope->lexer);
  return at_line(scope->reader, at, tenon_builder_sparse(scope->builder, edge, layout));
}

static tenon_status_t read_text_input(scope_t *scope) {
  const char *at = scope->lexer->start;
  const char *name;
  tenon_axis_t axes[TENON_RANK_MAX];
  tenon_dtype_t dtype = {0, 0, 0};
  int32_t ndim;
  tenon_edge_t edge;
  TN_TRY(read_name(scope->reader, "the name of an input", &name));
  TN_TRY(tn_lexer_expect(scope->lexer, ':', "':' and the type of the input"));
  if (!tn_lexer_take(scope->lexer, '?')) TN_TRY(read_text_dtype(scope->lexer, &dtype));
  TN_TRY(read_text_axes(scope->reader, axes, &ndim));
  TN_TRY(at_line(scope->reader, at,
                 tenon_builder_input(scope->builder, name, dtype, ndim, axes, &edge)));
  TN_TRY(define(scope, at, name, edge));
  return read_layout(scope, edge);
}

/* Tensors */

/* Turns one number or string into a list of it. `item` holds the element. */
static void as_list(tenon_value_t *value, tenon_value_t *item, tenon_string_t *string) {
  *item = *value;
  *string = (tenon_string_t){item->as.s, item->count};
  if (item->kind == TENON_KIND_INT)
    *value = (tenon_value_t){TENON_KIND_INTS, 1, {.ints = &item->as.i}};
  else if (item->kind == TENON_KIND_FLOAT)
    *value = (tenon_value_t){TENON_KIND_FLOATS, 1, {.floats = &item->as.f}};
  else if (item->kind == TENON_KIND_STR)
    *value = (tenon_value_t){TENON_KIND_STRS, 1, {.strs = string}};
}

static bool is_integer(tenon_dtype_t dtype) {
  return tn_dtype_is(dtype, TENON_BOOL) || dtype.code <= tenon_dtype(TENON_U8).code;
}

/* Stores one number. Returns false if the dtype does not have it. */
static bool store_number(tenon_tensor_t *tensor, int64_t i, const tenon_value_t *list) {
  const bool is_whole = list->kind == TENON_KIND_INTS;
  const bool is_unsigned = tn_dtype_is(tensor->dtype, TENON_U64);
  const double number = is_whole ? (double)list->as.ints[i] : list->as.floats[i];
  double imaginary;
  if (is_whole && (is_unsigned || tn_dtype_is(tensor->dtype, TENON_I64))) {
    memcpy((int64_t *)tensor->data + i, &list->as.ints[i], sizeof(int64_t));
    return !is_unsigned || list->as.ints[i] >= 0;
  }
  tn_element_put(tensor->dtype, tensor->data, i, number, 0);
  return !is_integer(tensor->dtype) ||
         tn_element_get(tensor->dtype, tensor->data, i, &imaginary) == number;
}

static tenon_status_t store_elements(const tn_lexer_t *lexer, const char *at,
                                     const tenon_value_t *list, tenon_tensor_t *tensor) {
  const int64_t count = tenon_count(tensor);
  const bool is_text = tn_dtype_is(tensor->dtype, TENON_STRING);
  /* an empty list has the kind of a list of integers */
  if (count != (int64_t)list->count)
    return tn_lexer_fail_at(lexer, at, "expected %" PRId64 " elements, found %" PRIu32, count,
                            list->count);
  if (count && is_text != (list->kind == TENON_KIND_STRS))
    return tn_lexer_fail_at(lexer, at, "expected elements of dtype %s, found a list of %s",
                            tn_dtype_name(tensor->dtype), is_text ? "numbers" : "strings");
  for (int64_t i = 0; i < count; i++) {
    if (is_text)
      TN_TRY(tenon_tensor_set_string(tensor, i, list->as.strs[i].data, list->as.strs[i].size));
    else if (!store_number(tensor, i, list))
      return tn_lexer_fail_at(lexer, at, "element %" PRId64 " does not fit %s", i,
                              tn_dtype_name(tensor->dtype));
  }
  return TENON_OK;
}

static tenon_status_t read_text_elements(text_reader_t *reader, tenon_dtype_t dtype, int32_t ndim,
                                         const int64_t *shape, tenon_tensor_t **out_tensor) {
  const char *at = reader->lexer.start;
  tenon_string_t string;
  tenon_value_t list;
  tenon_value_t item;
  uint64_t size;
  TN_TRY(tn_lexer_literal(&reader->lexer, &reader->arena, &list));
  as_list(&list, &item, &string);
  const bool is_list = list.kind == TENON_KIND_INTS || list.kind == TENON_KIND_FLOATS ||
                       list.kind == TENON_KIND_STRS;
  if (!is_list || dtype.code == tenon_dtype(TENON_C64).code)
    return tn_lexer_fail_at(&reader->lexer, at, "the elements of a tensor of dtype %s are %s",
                            tn_dtype_name(dtype),
                            is_list ? "in a file of weights only" : "numbers or strings");
  /* before memory is allocated for a shape that the text only claims */
  if (!tn_dtype_bytes(dtype, tn_shape_count(ndim, shape), &size) ||
      (uint64_t)tn_shape_count(ndim, shape) != list.count)
    return tn_lexer_fail_at(&reader->lexer, at,
                            "expected as many elements as the shape has, found %u", list.count);
  TN_TRY(at_line(reader, at, tenon_tensor_create(dtype, ndim, shape, out_tensor)));
  const tenon_status_t status = store_elements(&reader->lexer, at, &list, *out_tensor);
  if (status == TENON_OK) return TENON_OK;
  tenon_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

static tenon_status_t read_weights(text_reader_t *reader, tenon_dtype_t dtype, int32_t ndim,
                                   const int64_t *shape, tenon_tensor_t **out_tensor) {
  const char *at = reader->lexer.start;
  const char *key;
  uint32_t size;
  tn_lexer_next(&reader->lexer);
  TN_TRY(tn_lexer_expect(&reader->lexer, '(', "'('"));
  TN_TRY(tn_lexer_text(&reader->lexer, &reader->arena, &key, &size));
  TN_TRY(tn_lexer_expect(&reader->lexer, ')', "')'"));
  if (reader->source)
    return at_line(
        reader, at,
        reader->source->get(reader->source->context, key, dtype, ndim, shape, out_tensor));
  if (!reader->file.storage)
    return tn_lexer_fail_at(&reader->lexer, at,
                            "the text names no file of weights: expected a line such as weights "
                            "'model.safetensors' after the first one");
  return at_line(reader, at,
                 tn_weight_file_get(&reader->file, key, dtype, ndim, shape, out_tensor));
}

/* Reads "f32[2] [1, 2]" or "f32[2] weights('key')". */
static tenon_status_t read_tensor(text_reader_t *reader, tenon_tensor_t **out_tensor) {
  const char *at = reader->lexer.start;
  tenon_axis_t axes[TENON_RANK_MAX];
  int64_t shape[TENON_RANK_MAX];
  tenon_dtype_t dtype;
  int32_t ndim;
  *out_tensor = NULL;
  TN_TRY(read_text_dtype(&reader->lexer, &dtype));
  TN_TRY(read_text_axes(reader, axes, &ndim));
  bool is_known = ndim >= 0;
  for (int32_t d = 0; d < ndim; d++) {
    shape[d] = axes[d].extent;
    is_known &= shape[d] >= 0;
  }
  if (!is_known)
    return tn_lexer_fail_at(&reader->lexer, at, "every extent of a constant must be a number");
  if (tn_lexer_is(&reader->lexer, "weights"))
    return read_weights(reader, dtype, ndim, shape, out_tensor);
  return read_text_elements(reader, dtype, ndim, shape, out_tensor);
}

static tenon_status_t read_constant(scope_t *scope, const char *at, const char *name) {
  tenon_tensor_t *tensor;
  tenon_edge_t edge;
  TN_TRY(read_tensor(scope->reader, &tensor));
  const tenon_status_t status = tenon_builder_constant(scope->builder, name, tensor, &edge);
  tenon_tensor_release(tensor);
  TN_TRY(at_line(scope->reader, at, status));
  return define(scope, at, name, edge);
}

/* Attributes */

typedef struct node_t {
  const char *at; /* the operator in the text */
  const tenon_op_t *op;
  int64_t version; /* of the operator when the text was written */
  tenon_attrs_t *attrs;
  tenon_operand_t *operands;
  const char **names; /* of the results */
  const char **places;
  int32_t name_count;
} node_t;

static tenon_status_t set_tensors(scope_t *scope, const node_t *node, const char *name) {
  tn_lexer_t *lexer = scope->lexer;
  const size_t room = tn_lexer_count(lexer, ')') + 1;
  tenon_tensor_t **tensors = tn_arena_array(&scope->reader->arena, room, sizeof *tensors);
  tenon_value_t value = {.kind = TENON_KIND_TENSORS, .as.tensors = tensors};
  tenon_status_t status = tensors ? TENON_OK : tn_no_memory("a node", room * sizeof *tensors);
  if (status == TENON_OK) status = tn_lexer_expect(lexer, '[', "'['");
  while (status == TENON_OK && lexer->kind != ']') {
    if (value.count) status = tn_lexer_expect(lexer, ',', "',' or ']'");
    if (status == TENON_OK) status = read_tensor(scope->reader, &tensors[value.count]);
    value.count += status == TENON_OK;
  }
  if (status == TENON_OK) status = tn_lexer_expect(lexer, ']', "']'");
  if (status == TENON_OK) status = tenon_attrs_set(node->attrs, name, &value);
  for (uint32_t i = 0; i < value.count; i++)
    tenon_tensor_release(tensors[i]);
  return status;
}

static tenon_status_t set_tensor(scope_t *scope, const node_t *node, const char *name) {
  tenon_value_t value = {.kind = TENON_KIND_TENSOR};
  TN_TRY(read_tensor(scope->reader, &value.as.tensor));
  const tenon_status_t status = tenon_attrs_set(node->attrs, name, &value);
  tenon_tensor_release(value.as.tensor);
  return status;
}

static tenon_status_t set_graph(scope_t *scope, const node_t *node, const char *name) {
  tenon_graph_t *graph;
  TN_TRY(read_graph(scope->reader, &graph));
  const tenon_value_t value = {TENON_KIND_GRAPH, 0, {.graph = graph}};
  const tenon_status_t status = tenon_attrs_set(node->attrs, name, &value);
  tenon_graph_release(graph);
  return status;
}

static tenon_status_t set_literal(scope_t *scope, const node_t *node, const char *name) {
  tenon_value_t value;
  const char *at = scope->lexer->start;
  TN_TRY(tn_lexer_literal(scope->lexer, &scope->reader->arena, &value));
  return at_line(scope->reader, at, tenon_attrs_set(node->attrs, name, &value));
}

/* Reads "name=value", where the name may be one of an older version of the operator. */
static tenon_status_t read_attr(scope_t *scope, const node_t *node) {
  const tn_schema_t *schema = &node->op->schema;
  tn_lexer_t *lexer = scope->lexer;
  const char *name;
  const char *at = lexer->start;
  TN_TRY(tn_lexer_name(lexer, &scope->reader->arena, "an attribute", &name));
  TN_TRY(tn_lexer_expect(lexer, '=', "'='"));
  name = tn_upgrades_name(&node->op->upgrades, node->version, name);
  const int32_t index = name ? tn_schema_attr(schema, name, strlen(name)) : -1;
  const uint32_t kind = index < 0 ? TENON_KIND_NONE : schema->attrs[index].kind;
  if (!name) { /* the attribute was dropped, so its value has no meaning */
    tenon_value_t value;
    return tn_lexer_literal(lexer, &scope->reader->arena, &value);
  }
  const bool is_none = tn_lexer_is(lexer, "None");
  if (kind == TENON_KIND_GRAPH && !is_none) return set_graph(scope, node, name);
  if (kind == TENON_KIND_TENSORS && !is_none)
    return at_line(scope->reader, at, set_tensors(scope, node, name));
  if (kind == TENON_KIND_TENSOR && !is_none) return set_tensor(scope, node, name);
  return set_literal(scope, node, name);
}

/* Nodes */

static tenon_status_t read_list(scope_t *scope, tenon_operand_t *out_operand) {
  tn_lexer_t *lexer = scope->lexer;
  const size_t room = tn_lexer_count(lexer, ']') + 1;
  tenon_edge_t *edges = tn_arena_array(&scope->reader->arena, room, sizeof *edges);
  int32_t count = 0;
  if (!edges || room > INT32_MAX) return tn_no_memory("a node", room * sizeof *edges);
  while (lexer->kind != ']') {
    if (count) TN_TRY(tn_lexer_expect(lexer, ',', "',' or ']'"));
    TN_TRY(read_value(scope, &edges[count++]));
  }
  tn_lexer_next(lexer);
  *out_operand = (tenon_operand_t){count, edges};
  return TENON_OK;
}

static tenon_status_t read_operand(scope_t *scope, const node_t *node, uint32_t i) {
  tn_lexer_t *lexer = scope->lexer;
  tenon_operand_t *operand = &node->operands[i];
  if (i >= node->op->input_count)
    return tn_lexer_fail(lexer, "%s takes %u inputs at most: %s", node->op->name,
                         node->op->input_count, node->op->schema.text);
  const bool is_list = node->op->schema.inputs[i].kind == TENON_KIND_TENSORS;
  if (is_list) {
    TN_TRY(tn_lexer_expect(lexer, '[', "'[' and the values of a list"));
    return read_list(scope, operand);
  }
  if (tn_lexer_is(lexer, "None")) {
    tn_lexer_next(lexer);
    return TENON_OK;
  }
  tenon_edge_t *edge = tn_arena_array(&scope->reader->arena, 1, sizeof *edge);
  if (!edge) return tn_no_memory("a node", sizeof *edge);
  *operand = (tenon_operand_t){1, edge};
  return read_value(scope, edge);
}

/* Whether "name=" follows. */
static bool is_attr(const tn_lexer_t *lexer) {
  tn_lexer_t ahead = *lexer;
  tn_lexer_next(&ahead);
  return lexer->kind == TN_TOKEN_NAME && ahead.kind == '=';
}

static tenon_status_t read_arguments(scope_t *scope, const node_t *node) {
  tn_lexer_t *lexer = scope->lexer;
  bool has_attrs = false;
  TN_TRY(tn_lexer_expect(lexer, '(', "'('"));
  for (uint32_t i = 0; lexer->kind != ')'; i++) {
    if (i) TN_TRY(tn_lexer_expect(lexer, ',', "',' or ')'"));
    if (is_attr(lexer)) {
      has_attrs = true;
      TN_TRY(read_attr(scope, node));
    } else if (has_attrs) {
      return tn_lexer_expected(lexer, "an attribute such as axis=1: inputs come first");
    } else {
      TN_TRY(read_operand(scope, node, i));
    }
  }
  tn_lexer_next(lexer);
  return TENON_OK;
}

/* Adds the node to the graph, and its results under their names. */
static tenon_status_t add_text_node(scope_t *scope, const node_t *node, const char *name) {
  text_reader_t *reader = scope->reader;
  const tenon_value_t *values;
  const size_t room = (size_t)node->name_count + 1;
  tenon_edge_t *edges = tn_arena_array(&reader->arena, room, sizeof *edges);
  if (!edges) return tn_no_memory("a node", room * sizeof *edges);
  TN_TRY(at_line(reader, node->at, tenon_attrs_values(node->attrs, &values)));
  TN_TRY(at_line(reader, node->at,
                 tenon_builder_node(scope->builder, name, node->op, values, node->operands, edges,
                                    node->name_count)));
  for (int32_t i = 0; i < node->name_count; i++) {
    TN_TRY(define(scope, node->places[i], node->names[i], edges[i]));
    TN_TRY(tn_builder_name_value(scope->builder, edges[i], node->names[i]));
  }
  return TENON_OK;
}

static tenon_status_t read_text_call(scope_t *scope, node_t *node) {
  tn_lexer_t *lexer = scope->lexer;
  tn_arena_t *arena = &scope->reader->arena;
  const char *name = NULL;
  TN_TRY(at_line(scope->reader, node->at, tenon_attrs_create(node->op, &node->attrs)));
  TN_TRY(at_line(scope->reader, node->at, tenon_attrs_upgrade(node->attrs, node->version)));
  node->operands = tn_arena_array(arena, (size_t)node->op->input_count + 1, sizeof *node->operands);
  if (!node->operands) return tn_no_memory("a node", 0);
  TN_TRY(read_arguments(scope, node));
  if (tn_lexer_is(lexer, "as")) {
    tn_lexer_next(lexer);
    TN_TRY(read_name(scope->reader, "the name of the node", &name));
  }
  return add_text_node(scope, node, name);
}

static tenon_status_t read_version(scope_t *scope, int64_t *out_version) {
  *out_version = 1;
  return tn_lexer_take(scope->lexer, '@') ? read_extent(scope->reader, out_version) : TENON_OK;
}

static tenon_status_t read_text_node(scope_t *scope, node_t *node) {
  const char *name;
  node->at = scope->lexer->start;
  TN_TRY(tn_lexer_operator(scope->lexer, &scope->reader->arena, NULL, &name));
  TN_TRY(read_version(scope, &node->version));
  TN_TRY(at_line(scope->reader, node->at, tenon_op_find(name, &node->op)));
  const tenon_status_t status = read_text_call(scope, node);
  tenon_attrs_release(node->attrs);
  return status;
}

/* Graphs */

static tenon_status_t read_names(scope_t *scope, node_t *node) {
  tn_arena_t *arena = &scope->reader->arena;
  const size_t room = tn_lexer_count(scope->lexer, '=');
  node->names = tn_arena_array(arena, room, sizeof *node->names);
  node->places = tn_arena_array(arena, room, sizeof *node->places);
  if (!node->names || !node->places) return tn_no_memory("a node", room * sizeof *node->names);
  do {
    node->places[node->name_count] = scope->lexer->start;
    TN_TRY(read_name(scope->reader, "the name of a value, an operator, or return",
                     &node->names[node->name_count++]));
  } while (tn_lexer_take(scope->lexer, ','));
  return tn_lexer_expect(scope->lexer, '=', "',' or '='");
}

/* Reads the line of a constant or a node. */
static tenon_status_t read_line(scope_t *scope) {
  node_t node = {.name_count = 0};
  tn_lexer_t ahead = *scope->lexer;
  tn_lexer_next(&ahead);
  if (scope->lexer->kind != TN_TOKEN_NAME || ahead.kind != TN_TOKEN_SCOPE) {
    TN_TRY(read_names(scope, &node));
    ahead = *scope->lexer;
    tn_lexer_next(&ahead);
  }
  const bool is_constant = scope->lexer->kind == TN_TOKEN_NAME && ahead.kind == '[';
  if (is_constant && node.name_count == 1)
    return read_constant(scope, node.places[0], node.names[0]);
  return read_text_node(scope, &node);
}

static tenon_status_t read_results(scope_t *scope) {
  tn_lexer_t *lexer = scope->lexer;
  if (lexer->kind == '}') return TENON_OK;
  do {
    const char *at = lexer->start;
    tn_lexer_t named;
    const char *name;
    tenon_edge_t edge;
    TN_TRY(read_name(scope->reader, "the name of a result", &name));
    named = *lexer;
    if (!tn_lexer_take(lexer, '=')) { /* the value has the name of the result */
      named.next = at;
      tn_lexer_next(&named);
      *lexer = named;
    }
    TN_TRY(read_value(scope, &edge));
    TN_TRY(at_line(scope->reader, at, tenon_builder_output(scope->builder, name, edge)));
  } while (tn_lexer_take(lexer, ','));
  return TENON_OK;
}

static tenon_status_t read_text_inputs(scope_t *scope) {
  TN_TRY(tn_lexer_expect(scope->lexer, '(', "'(' and the inputs of the graph"));
  for (bool is_first = true; scope->lexer->kind != ')'; is_first = false) {
    if (!is_first) TN_TRY(tn_lexer_expect(scope->lexer, ',', "',' or ')'"));
    TN_TRY(read_text_input(scope));
  }
  tn_lexer_next(scope->lexer);
  return TENON_OK;
}

static tenon_status_t read_body(scope_t *scope) {
  tn_lexer_t *lexer = scope->lexer;
  TN_TRY(read_text_inputs(scope));
  TN_TRY(tn_lexer_expect(lexer, '{', "'{'"));
  while (!tn_lexer_is(lexer, "return"))
    TN_TRY(read_line(scope));
  tn_lexer_next(lexer);
  TN_TRY(read_results(scope));
  return tn_lexer_expect(lexer, '}', "'}'");
}

static tenon_status_t read_scope(scope_t *scope, tenon_graph_t **out_graph) {
  const char *at = scope->lexer->start;
  const char *name;
  if (!tn_lexer_is(scope->lexer, "graph")) return tn_lexer_expected(scope->lexer, "graph");
  tn_lexer_next(scope->lexer);
  if (scope->lexer->kind != '(') {
    TN_TRY(read_name(scope->reader, "the name of the graph or '('", &name));
    TN_TRY(tenon_builder_name(scope->builder, name));
  }
  TN_TRY(read_body(scope));
  return at_line(scope->reader, at, tenon_builder_finish(scope->builder, out_graph));
}

static tenon_status_t read_graph(text_reader_t *reader, tenon_graph_t **out_graph) {
  scope_t scope = {reader, &reader->lexer, NULL, {0}};
  if (reader->depth == DEPTH_MOST)
    return tn_lexer_fail(&reader->lexer, "more than %d graphs within each other", DEPTH_MOST);
  TN_TRY(tenon_builder_create(&scope.builder));
  reader->depth++;
  const tenon_status_t status = read_scope(&scope, out_graph);
  reader->depth--;
  tenon_builder_release(scope.builder);
  tn_map_clear(&scope.values);
  return status;
}

/* Reads the lines before the graph. */
static tenon_status_t read_heading(text_reader_t *reader) {
  tn_lexer_t *lexer = &reader->lexer;
  const char *at = lexer->start;
  int64_t version;
  const char *name;
  uint32_t size;
  tn_lexer_next(lexer); /* "tenon graph", as tn_text_is has seen */
  tn_lexer_next(lexer);
  TN_TRY(read_extent(reader, &version));
  if (version != 1)
    return tn_lexer_fail_at(lexer, at,
                            "version %" PRId64 " of the language, but this libtenon reads "
                            "version 1: use a newer one",
                            version);
  if (reader->source || !tn_lexer_is(lexer, "weights")) return TENON_OK;
  at = lexer->start;
  tn_lexer_next(lexer);
  TN_TRY(tn_lexer_text(lexer, &reader->arena, &name, &size));
  return at_line(reader, at, tn_weight_file_open(&reader->weights, name, &reader->file));
}

static tenon_status_t read_whole_text(text_reader_t *reader, size_t size,
                                      tenon_graph_t **out_graph) {
  tenon_graph_t *graph;
  TN_TRY(read_heading(reader));
  TN_TRY(read_graph(reader, &graph));
  tenon_status_t status = tn_lexer_expect(&reader->lexer, TN_TOKEN_END, "the end of the text");
  if (status == TENON_OK && (size_t)(reader->lexer.start - reader->lexer.text) != size)
    status = tn_lexer_fail(&reader->lexer, "expected text, found a byte 0");
  if (status == TENON_OK)
    *out_graph = graph;
  else
    tenon_graph_release(graph);
  return status;
}

bool tn_text_is(const void *data, size_t size) {
  static const char heading[] = "tenon graph ";
  return size >= sizeof heading - 1 && memcmp(data, heading, sizeof heading - 1) == 0;
}

tenon_status_t tn_text_read(tn_storage_t *file, const char *folder, tenon_graph_t **out_graph) {
  text_reader_t reader = {.weights = {NULL, folder, {0}}};
  const char *text = tn_arena_text(&reader.arena, file->data, (size_t)file->size);
  tenon_status_t status = text ? TENON_OK : tn_no_memory("a text", (size_t)file->size);
  if (text) tn_lexer_open_file(&reader.lexer, text);
  if (text) status = read_whole_text(&reader, (size_t)file->size, out_graph);
  tn_weight_file_close(&reader.file);
  tn_weights_clear(&reader.weights);
  tn_arena_clear(&reader.arena);
  return status;
}

tenon_status_t tn_text_parse(const char *text, size_t size, const tn_text_source_t *source,
                             tenon_graph_t **out_graph) {
  text_reader_t reader = {.source = source};
  tn_lexer_open_file(&reader.lexer, text);
  const tenon_status_t status =
      tn_text_is(text, size)
          ? read_whole_text(&reader, size, out_graph)
          : tn_fail(TENON_INVALID, "expected a text that begins with '%s'", TN_TEXT_HEADING);
  tn_weight_file_close(&reader.file);
  tn_weights_clear(&reader.weights);
  tn_arena_clear(&reader.arena);
  return status;
}
