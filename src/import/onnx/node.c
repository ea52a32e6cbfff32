/* Imports one node: finds its inputs, converts it (by a function of the model, a lowering, or an
 * operator of a custom domain: custom.c), and defines its outputs. graph.c calls tn_node_import for
 * each node in order, through import->import_node. */
#include "import/onnx/node.h"

#include <string.h>

#include "base/status.h"
#include "import/onnx/custom.h"
#include "import/onnx/lower.h"
#include "import/onnx/lowering_table.h"

/* Functions of the model */

static const tn_onnx_function_t *find_function(tn_lower_t *lower) {
  tn_text_t key = {0};
  if (!lower->import->model.functions.count) return NULL;
  tn_text_add(&key, "%s\n%s\n%s", lower->node->domain, lower->node->type, lower->node->overload);
  const tn_onnx_function_t *function =
      tn_map_get(&lower->import->functions, tn_text_get(&key), key.size);
  if (key.failed) (void)tn_lower_has_failed(lower, tn_no_memory("a name", key.size));
  tn_text_clear(&key);
  return function;
}

/* Lists the attributes that the body of a function can refer to: those of the node, and the
 * defaults of those that the node does not set. */
static void function_parameters(tn_lower_t *lower, const tn_onnx_function_t *function,
                                tn_attrs_list_t *out_list) {
  tn_attrs_list_t defaults = {NULL, 0};
  if (tn_lower_has_failed(lower,
                          tn_attrs_resolve(lower->import, lower->scope, function->attributes.items,
                                           function->attributes.count, &defaults)))
    return;
  out_list->items = tn_arena_array(&lower->import->arena, lower->attrs.count + defaults.count + 1,
                                   sizeof *out_list->items);
  if (!out_list->items) {
    (void)tn_lower_has_failed(lower, tn_no_memory("attributes of a function", 0));
    return;
  }
  for (size_t i = 0; i < function->attribute_names.count; i++)
    /* Marks the attribute as used, so that it is not reported as unknown. */
    (void)tn_lower_attr(lower, function->attribute_names.items[i]);
  for (size_t i = 0; i < defaults.count; i++)
    if (!tn_lower_attr(lower, defaults.items[i].name))
      out_list->items[out_list->count++] = defaults.items[i];
  for (size_t i = 0; i < lower->attrs.count; i++)
    out_list->items[out_list->count++] = lower->attrs.items[i];
}

static tenon_status_t bind_function(tn_lower_t *lower, tn_scope_t *inner,
                                    const tn_onnx_function_t *function) {
  for (size_t i = 0; i < function->inputs.count; i++) {
    tn_ref_t *edge = i < (size_t)lower->input_count ? lower->inputs[i] : NULL;
    if (!edge) {
      edge = tn_ref_new(lower->import, inner->site, function->inputs.items[i]);
      if (!edge) return TENON_MEMORY;
      edge->is_absent = true;
    }
    TN_TRY(tn_scope_define(inner, function->inputs.items[i], edge));
  }
  TN_TRY(tn_scope_hints(inner, function->values.items, function->values.count));
  TN_TRY(tn_import_nodes(lower->import, inner, function->nodes.items, function->nodes.count));
  for (size_t i = 0; i < (size_t)lower->output_count; i++) {
    tn_ref_t *edge;
    TN_TRY(tn_scope_find(lower->import, inner, function->outputs.items[i], &edge));
    if (!edge)
      return tn_fail(TENON_INVALID,
                     "the output '%.200s' of the function is not defined in its body",
                     function->outputs.items[i]);
    lower->outputs[i] = edge->is_absent ? NULL : edge;
  }
  return TENON_OK;
}

static void inline_function(tn_lower_t *lower, const tn_onnx_function_t *function) {
  tn_attrs_list_t parameters = {NULL, 0};
  if ((size_t)lower->input_count > function->inputs.count ||
      (size_t)lower->output_count > function->outputs.count) {
    tn_lower_fail(lower,
                  "function '%.200s' has %zu inputs and %zu outputs, but the node has %d inputs "
                  "and %d outputs",
                  function->name, function->inputs.count, function->outputs.count,
                  (int)lower->input_count, (int)lower->output_count);
    return;
  }
  function_parameters(lower, function, &parameters);
  size_t size = strlen(lower->name);
  char *prefix = tn_arena_text(&lower->import->arena, lower->name,
                               size + 1); /* size + 1: room for a slash and the final 0 */
  if (prefix)
    prefix[size] = '/';
  else
    (void)tn_lower_has_failed(lower, tn_no_memory("a name", size));
  if (lower->status != TENON_OK) return;
  const tn_onnx_opsets_t *opsets =
      function->opsets.count ? &function->opsets : &lower->import->model.opsets;
  tn_scope_t inner = {NULL,   lower->scope->site, {0},    {0},
                      opsets, &parameters,        prefix, lower->scope->depth + 1};
  (void)tn_lower_has_failed(lower, bind_function(lower, &inner, function));
  tn_scope_clear(&inner);
}

/* The node */

static const char *standard_domain(const char *domain) {
  return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static bool find_version(tn_lower_t *lower, const char *domain) {
  bool found = false;
  for (size_t i = 0; i < lower->scope->opsets->count; i++) {
    const tn_onnx_opset_t *opset = &lower->scope->opsets->items[i];
    if (strcmp(standard_domain(opset->domain), domain) != 0) continue;
    if (!found || opset->version > lower->version) lower->version = opset->version;
    found = true;
  }
  if (!found) lower->version = 1;
  return found || *domain || lower->import->model.ir_version < 3;
}

static tenon_status_t find_inputs(tn_lower_t *lower) {
  const tn_onnx_node_t *node = lower->node;
  lower->inputs =
      tn_arena_array(&lower->import->arena, node->inputs.count + 3, sizeof *lower->inputs);
  lower->outputs =
      tn_arena_array(&lower->import->arena, node->outputs.count + 1, sizeof *lower->outputs);
  if (!lower->inputs || !lower->outputs) return tn_no_memory("a node", node->inputs.count);
  lower->input_count = (int32_t)node->inputs.count;
  lower->output_count = (int32_t)node->outputs.count;
  for (size_t i = 0; i < node->inputs.count; i++) {
    const char *name = node->inputs.items[i];
    if (!*name) continue;
    TN_TRY(tn_scope_find(lower->import, lower->scope, name, &lower->inputs[i]));
    if (!lower->inputs[i])
      return tn_fail(TENON_INVALID, "input '%.200s' is not defined before this node", name);
    if (lower->inputs[i]->is_absent) lower->inputs[i] = NULL;
  }
  while (lower->input_count && !lower->inputs[lower->input_count - 1])
    lower->input_count--;
  return TENON_OK;
}

static tenon_status_t define_outputs(tn_lower_t *lower) {
  for (int32_t i = 0; i < lower->output_count; i++) {
    const char *name = lower->node->outputs.items[i];
    tn_ref_t *edge = lower->outputs[i];
    if (!*name) continue;
    if (!edge)
      return tn_fail(TENON_UNIMPLEMENTED, "output %d ('%.200s') is not supported by this runtime",
                     (int)i, name);
    const tn_onnx_value_t *hint = tn_map_get(&lower->scope->hints, name, strlen(name));
    if (hint && !edge->items) /* a type that is not a tensor is ignored here */
      (void)tn_type_read(lower->import, hint, edge);
    if (edge->name == lower->name || !*edge->name) edge->name = name;
    TN_TRY(tn_scope_define(lower->scope, name, edge));
  }
  return TENON_OK;
}

/* The value of an output of a node that is not supported. */
static tn_ref_t *missing_edge(tn_lower_t *lower) {
  tn_ref_t *edge = tn_ref_new(lower->import, lower->scope->site, "");
  if (edge)
    edge->is_missing = true;
  else
    (void)tn_lower_has_failed(lower, TENON_MEMORY);
  return edge;
}

static tenon_status_t lower_node(tn_lower_t *lower) {
  const char *domain = standard_domain(lower->node->domain);
  bool exists = false;
  bool is_known = find_version(lower, domain);
  TN_TRY(find_inputs(lower));
  TN_TRY(tn_attrs_resolve(lower->import, lower->scope, lower->node->attributes.items,
                          lower->node->attributes.count, &lower->attrs));
  const tn_onnx_function_t *function = find_function(lower);
  if (lower->status != TENON_OK) return lower->status;
  const tn_lowering_t *lowering =
      function
          ? NULL
          : tn_lowerings_find(lower->import, domain, lower->node->type, lower->version, &exists);
  bool is_custom = !tn_lowerings_cover(domain);
  if (!function && !is_known)
    return tn_fail(
        TENON_INVALID,
        "the model imports no operator set of the domain '' (ONNX): add an opset_import");
  if (function)
    inline_function(lower, function);
  else if (lowering)
    tn_lowering_run(lowering, lower);
  else if (is_custom)
    tn_lower_custom(lower);
  else
    tn_lower_missing(lower, exists ? "this operator set is older than the supported ones"
                                   : "the operator is unknown");
  for (int32_t i = 0; lower->is_missing && i < lower->output_count; i++)
    lower->outputs[i] = missing_edge(lower);
  if (lower->status != TENON_OK) return lower->status;
  for (size_t i = 0; i < lower->attrs.count && !lower->is_missing; i++)
    if (!lower->attrs.items[i].is_used && (function || lowering))
      return tn_fail(TENON_INVALID, "this operator has no attribute '%.100s'",
                     lower->attrs.items[i].name);
  return define_outputs(lower);
}

/* The prefix of the scope followed by the node's name. */
static const char *node_name(tn_import_t *import, const tn_scope_t *scope,
                             const tn_onnx_node_t *node) {
  const char *name = tn_onnx_node_name(node);
  if (!*scope->prefix) return name;
  size_t size = strlen(scope->prefix);
  size_t more = strlen(name);
  char *text = tn_arena_allocate(&import->arena, size + more + 1);
  if (text) {
    memcpy(text, scope->prefix, size);
    memcpy(text + size, name, more);
  }
  return text;
}

tenon_status_t tn_node_import(tn_import_t *import, tn_scope_t *scope, const tn_onnx_node_t *node) {
  tn_lower_t lower = {.import = import,
                      .scope = scope,
                      .node = node,
                      .name = node_name(import, scope, node),
                      .rest = -1};
  if (!lower.name) return tn_no_memory("a name", 0);
  tenon_status_t status = lower_node(&lower);
  if (status == TENON_OK) return TENON_OK;
  return tn_prefix(status, "node '%.200s' (%.100s%s%.100s, opset %lld): ", lower.name, node->type,
                   *node->domain ? ", domain " : "", node->domain, (long long)lower.version);
}
