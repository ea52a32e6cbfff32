/* The entry point: reads both files, finds the nodes that the outputs need, and lowers them in
 * order. Invariant: only nodes that the outputs need are built. Labels are therefore no inputs, and
 * operators that serve only training never cause an error. */
#include "model.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "base/status.h"
#include "files.h"
#include "lowering_table.h"
#include "node.h"
#include "rank.h"

/* needed nodes */

static bool is_null(const symbol_node_t *node) { return strcmp(node->op, "null") == 0; }

/* Finds the nodes that the outputs need, from back to front, because inputs come before the nodes
 * that use them. */
static bool *find_needed(model_t *model) {
  const symbol_t *symbol = &model->symbol;
  bool *needed = tn_arena_array(&model->arena, (size_t)symbol->node_count + 1, sizeof *needed);
  for (int32_t i = 0; needed && i < symbol->head_count; i++)
    needed[symbol->heads[i].node] = true;
  for (int32_t i = symbol->node_count - 1; needed && i >= 0; i--) {
    const symbol_node_t *node = &symbol->nodes[i];
    const lowering_t *lowering = model->lowerings[i];
    for (int32_t k = 0; needed[i] && k < node->input_count; k++)
      if (!lowering || !lowering_has_mark(lowering, k, '~')) needed[node->inputs[k].node] = true;
  }
  return needed;
}

/* Reports all variables that are parameters of an operator but have no value, in one error. */
static tenon_status_t check_params(const model_t *model, const bool *needed,
                                   const char *params_path) {
  const symbol_t *symbol = &model->symbol;
  char names[600] = "";
  int count = 0;
  for (int32_t i = 0; i < symbol->node_count; i++) {
    const symbol_node_t *node = &symbol->nodes[i];
    const lowering_t *lowering = needed[i] ? model->lowerings[i] : NULL;
    for (int32_t k = 0; lowering && k < node->input_count; k++) {
      const symbol_node_t *from = &symbol->nodes[node->inputs[k].node];
      if (!lowering_has_mark(lowering, k, '!') || !is_null(from) ||
          params_find(&model->params, from->name))
        continue;
      size_t used = strlen(names);
      if (++count <= 6)
        snprintf(names + used, sizeof names - used, "%s%.60s (of %.60s)", used ? ", " : "",
                 from->name, node->name);
    }
  }
  if (!count) return TENON_OK;
  if (!params_path)
    return tn_fail(TENON_NOT_FOUND,
                   "%d parameters are missing, and no file NAME-0000.params exists: %s%s", count,
                   names, count > 6 ? ", ..." : "");
  return tn_fail(TENON_INVALID, "%s: %d parameters are missing: %s%s", params_path, count, names,
                 count > 6 ? ", ..." : "");
}

/* inputs */

/* Determines the dtype of each variable from the parameters of the operator that uses it, as MXNet
 * does. */
static tenon_status_t find_dtypes(model_t *model) {
  const symbol_t *symbol = &model->symbol;
  if (!(model->dtypes =
            tn_arena_array(&model->arena, (size_t)symbol->node_count + 1, sizeof *model->dtypes)))
    return tn_no_memory("a model", 0);
  for (int32_t i = 0; i < symbol->node_count; i++)
    model->dtypes[i] = tenon_dtype(TENON_F32);
  for (int32_t i = symbol->node_count - 1; i >= 0; i--) {
    const symbol_node_t *node = &symbol->nodes[i];
    const lowering_t *lowering = model->lowerings[i];
    for (int32_t k = 1; lowering && k < node->input_count && k < 3; k++) {
      const tenon_tensor_t *param =
          params_find(&model->params, symbol->nodes[node->inputs[k].node].name);
      if (param && lowering_has_mark(lowering, k, '!') && !lowering_has_mark(lowering, 0, '#'))
        model->dtypes[node->inputs[0].node] = param->dtype;
    }
  }
  return TENON_OK;
}

/* An extent of 0 (or -1 in the NumPy form) is unknown. */
static tenon_status_t make_input(model_t *model, int32_t index, tenon_edge_t *out_edge) {
  const symbol_node_t *node = &model->symbol.nodes[index];
  bool used[1] = {false};
  const symbol_attr_t shape_attr = {"shape", symbol_attr(node, "__shape__")};
  const symbol_attr_t dtype_attr = {"dtype", symbol_attr(node, "__dtype__")};
  const symbol_node_t shape_node = {.attrs = &shape_attr, .attr_count = shape_attr.value != NULL};
  const symbol_node_t dtype_node = {.attrs = &dtype_attr, .attr_count = dtype_attr.value != NULL};
  lower_t lower = {.model = model, .node = &shape_node, .used = used};
  int64_t extents[INTS_MAX];
  tenon_axis_t axes[INTS_MAX] = {{0, NULL}};
  int32_t ndim = attr_ints(&lower, "shape", extents);
  for (int32_t i = 0; i < ndim; i++)
    axes[i].extent =
        extents[i] > 0 || (extents[i] == 0 && model->symbol.is_np_shape) ? extents[i] : -1;
  lower.node = &dtype_node;
  tenon_dtype_t dtype =
      attr_dtype(&lower, "dtype", dtype_attr.value ? tenon_dtype(TENON_F32) : model->dtypes[index]);
  if (ndim == 0 && !model->symbol.is_np_shape) ndim = -1;
  if (lower.status == TENON_OK && ndim < 0 && (ndim = model->ranks[index]) >= 0)
    for (int32_t i = 0; i < ndim; i++)
      axes[i].extent = -1;
  if (lower.status == TENON_OK)
    lower.status = tenon_builder_input(model->builder, node->name, dtype, ndim, axes, out_edge);
  return lower.status;
}

static tenon_status_t add_variable(model_t *model, int32_t index) {
  const symbol_node_t *node = &model->symbol.nodes[index];
  tenon_tensor_t *param = params_find(&model->params, node->name);
  tenon_edge_t *edge = tn_arena_array(&model->arena, 1, sizeof *edge);
  if (!edge) return tn_no_memory("a model", 0);
  model->values[index] = (values_t){edge, 1, false};
  tenon_status_t status = param ? tenon_builder_constant(model->builder, node->name, param, edge)
                                : make_input(model, index, edge);
  if (status != TENON_OK)
    return tn_prefix(status, "node %d '%.100s', line %u: ", (int)index, node->name,
                     (unsigned)node->line);
  return TENON_OK;
}

/* outputs */

/* Names an output as Symbol.list_outputs does: a variable by its own name, a single result
 * NODE_output, and one of several results NODE_output0 or as the operator names it. */
static void name_output(const symbol_node_t *node, int32_t index, int32_t count, char *out,
                        size_t room) {
  static const struct {
    const char *op;
    const char *names[3];
  } known[] = {{"RNN", {"output", "state_output", "statecell_output"}},
               {"BatchNorm", {"output", "mean", "var"}},
               {"LayerNorm", {"output", "mean", "std"}},
               {"GroupNorm", {"output", "mean", "std"}},
               {"Dropout", {"output", "mask", NULL}},
               {"LeakyReLU", {"output", "mask", NULL}},
               {"make_loss", {"loss", NULL, NULL}},
               {"_npi_concatenate", {"out", NULL, NULL}},
               {"_npi_matmul", {"out", NULL, NULL}},
               {"_npi_std", {"std", NULL, NULL}},
               {"_npi_var", {"var", NULL, NULL}},
               {"sort", {"output0", NULL, NULL}},
               {"_linalg_det", {"output0", NULL, NULL}}};
  /* With ret_typ=value, topk counts a second result, the indices, that is not an output. */
  const char *kind = symbol_attr(node, "ret_typ");
  if (kind && strcmp(kind, "value") == 0) count = 2;
  if (is_null(node)) {
    snprintf(out, room, "%s", node->name);
    return;
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].op, node->op) == 0 && index < 3 && known[i].names[index]) {
      snprintf(out, room, "%.200s_%s", node->name, known[i].names[index]);
      return;
    }
  if (count == 1)
    snprintf(out, room, "%.200s_output", node->name);
  else
    snprintf(out, room, "%.200s_output%d", node->name, (int)index);
}

static tenon_status_t add_outputs(model_t *model) {
  const symbol_t *symbol = &model->symbol;
  for (int32_t i = 0; i < symbol->head_count; i++) {
    const symbol_entry_t head = symbol->heads[i];
    const values_t *values = &model->values[head.node];
    char name[240], unique[260];
    if (head.index >= values->count || values->edges[head.index] == EDGE_NONE)
      return tn_fail(TENON_INVALID, "head %d is output %d of '%.100s', which has %d", (int)i,
                     (int)head.index, symbol->nodes[head.node].name, (int)values->count);
    name_output(&symbol->nodes[head.node], head.index, values->count, name, sizeof name);
    tenon_status_t status = tenon_builder_output(model->builder, name, values->edges[head.index]);
    /* A head may occur twice, and several nodes may have the same name. */
    if (status == TENON_EXISTS) {
      snprintf(unique, sizeof unique, "%s_%d", name, (int)i);
      status = tenon_builder_output(model->builder, unique, values->edges[head.index]);
    }
    TENON_TRY(status);
  }
  return TENON_OK;
}

/* the whole model */

static tenon_status_t say_missing(const model_t *model) {
  tenon_status_t status = TENON_UNIMPLEMENTED;
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return tn_no_memory("a message", 0);
  fprintf(out, "operators that are not covered:");
  for (const missing_t *m = model->missing; m; m = m->next)
    fprintf(out, "\n  %.80s: %s (%zu node%s: %s)", m->op, m->reason, m->count,
            m->count == 1 ? "" : "s", m->nodes);
  if (model->missing_count == MISSING_MAX) fprintf(out, "\n  and possibly more");
  fprintf(out, "\nload the libraries that define these operators (tenon_library_load in C, --ops "
               "LIB for the command)");
  if (fclose(out) == 0) status = tn_fail(status, "%s", text);
  free(text);
  return status;
}

static tenon_status_t lower_nodes(model_t *model, const bool *needed) {
  for (int32_t i = 0; i < model->symbol.node_count && model->missing_count < MISSING_MAX; i++) {
    if (!needed[i]) continue;
    TENON_TRY(is_null(&model->symbol.nodes[i]) ? add_variable(model, i) : node_lower(model, i));
  }
  return model->missing ? say_missing(model) : TENON_OK;
}

static tenon_status_t build(model_t *model, const char *path, const char *folder,
                            tenon_graph_t **out_graph) {
  const char *data, *params_path;
  const tn_json_t *root;
  size_t size = 0;
  bool *needed = NULL;
  TENON_TRY(files_read(path, &model->arena, &data, &size));
  tenon_status_t status = tn_json_read(data, size, &model->arena, &root);
  if (status == TENON_OK) status = symbol_read(root, &model->arena, &model->symbol);
  if (status != TENON_OK) return tn_prefix(status, "%s: ", path);
  TENON_TRY(files_params(path, folder, &model->arena, &params_path));
  if (params_path) TENON_TRY(params_read(params_path, &model->arena, &model->params));
  model->values =
      tn_arena_array(&model->arena, (size_t)model->symbol.node_count + 1, sizeof *model->values);
  model->lowerings =
      tn_arena_array(&model->arena, (size_t)model->symbol.node_count + 1, sizeof *model->lowerings);
  if (!model->values || !model->lowerings) return tn_no_memory("a model", 0);
  for (int32_t i = 0; i < model->symbol.node_count; i++)
    model->lowerings[i] = lowering_find(model->symbol.nodes[i].op);
  if (!(needed = find_needed(model))) return tn_no_memory("a model", 0);
  status = check_params(model, needed, params_path);
  if (status == TENON_OK) status = rank_find(model);
  if (status == TENON_OK) status = find_dtypes(model);
  if (status == TENON_OK) status = tenon_builder_create(&model->builder);
  if (status == TENON_OK) tenon_builder_check(model->builder, 1);
  if (status == TENON_OK) status = lower_nodes(model, needed);
  if (status == TENON_OK) status = add_outputs(model);
  if (status == TENON_OK) status = tenon_builder_finish(model->builder, out_graph);
  return status == TENON_OK ? status : tn_prefix(status, "%s: ", path);
}

tenon_status_t mxnet_model_read(const char *path, const tenon_import_t *options,
                                tenon_graph_t **out_graph) {
  model_t model = {0};
  /* Numbers have decimal points. */
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!plain) return tn_no_memory("a locale", 0);
  locale_t before = uselocale(plain);
  tenon_status_t status = build(&model, path, options ? options->folder : NULL, out_graph);
  (void)uselocale(before);
  freelocale(plain);
  tenon_builder_release(model.builder);
  params_release(&model.params);
  tn_arena_clear(&model.arena);
  return status;
}
