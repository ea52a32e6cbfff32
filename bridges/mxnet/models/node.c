/* Lowers one node of a symbol by its lowering or, if it has none, as an operator of a loaded
 * library. Called by model.c for each node in order, and by nnvm_read.c for nodes of graphs that a
 * library returns. This file stands above all lowerings: none of them calls it. */
#include "node.h"

#include <string.h>

#include "attribute.h"
#include "base/status.h"
#include "custom.h"
#include "lowering.h"

/* Returns whether an attribute concerns only devices, engines or training, or belongs to the user,
 * as names between underscores do. */
static bool is_ignored(const char *name) {
  static const char *const names[] = {
      "ctx",     "num_args", "workspace",       "cudnn_tune",   "cudnn_off", "cudnn_algo_verbose",
      "lr_mult", "wd_mult",  "force_mirroring", "mirror_stage", "ctx_group", "__profiler_scope__"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) return true;
  return strncmp(name, "__", 2) == 0 ||
         (strlen(name) > 8 && strcmp(name + strlen(name) - 8, "_lr_mult") == 0) ||
         (strlen(name) > 8 && strcmp(name + strlen(name) - 8, "_wd_mult") == 0);
}

static void check_used(lower_t *lower) {
  for (int32_t i = 0; i < lower->node->attr_count; i++) {
    const symbol_attr_t *attr = &lower->node->attrs[i];
    if (!lower->used[i] && !is_ignored(attr->name) && strcmp(attr->value, "None") != 0)
      lower_missing(lower, "its attribute %.60s=%.60s", attr->name, attr->value);
  }
}

/* Collects the node's inputs. Returns false if one of them belongs to an unsupported operator. */
static bool gather_inputs(lower_t *lower) {
  tenon_edge_t *inputs = lower_take(lower, (size_t)lower->node->input_count + 1, sizeof *inputs);
  bool is_whole = inputs != NULL;
  for (int32_t i = 0; inputs && i < lower->node->input_count; i++) {
    const symbol_entry_t *entry = &lower->node->inputs[i];
    const values_t *from = &lower->model->values[entry->node];
    /* An input with the mark "~" was not created, so it is absent. */
    inputs[i] = from->count < 0 ? EDGE_MISSING : EDGE_NONE;
    if (from->count >= 0 && from->edges && entry->index >= from->count)
      lower_fail(lower, "input %d is output %d of '%.60s', which has only %d", (int)i,
                 (int)entry->index, lower->model->symbol.nodes[entry->node].name, (int)from->count);
    else if (from->count > 0)
      inputs[i] = from->edges[entry->index];
    if (inputs[i] == EDGE_MISSING) is_whole = false;
  }
  lower->inputs = inputs;
  lower->input_count = lower->node->input_count;
  return is_whole;
}

static bool is_noted(const model_t *model, const char *op) {
  const missing_t *missing = model->missing;
  while (missing && strcmp(missing->op, op) != 0)
    missing = missing->next;
  return missing != NULL && strcmp(op, "Custom") != 0;
}

tenon_status_t node_lower(model_t *model, int32_t index) {
  const symbol_node_t *node = &model->symbol.nodes[index];
  lower_t lower = {.model = model, .node = node, .status = TENON_OK};
  const lowering_t *lowering = model->lowerings[index];
  const tenon_op_t *op = NULL;
  lower.used = lower_take(&lower, (size_t)node->attr_count + 1, sizeof *lower.used);
  bool is_whole = gather_inputs(&lower);
  if (!lowering && !lower_stopped(&lower)) {
    const char *name =
        strcmp(node->op, "Custom") == 0 ? attr_text(&lower, "op_type", node->op) : node->op;
    if (is_noted(model, node->op) || !(op = custom_find(&lower, name)))
      lower_missing(&lower, "operator %.80s is neither built in nor in a loaded library", name);
  }
  if (is_whole && !lower_stopped(&lower)) {
    if (lowering) {
      lowering_run(lowering, &lower);
      check_used(&lower);
    } else
      custom_lower(&lower, op);
  }
  if (lower.status != TENON_OK)
    return tn_prefix(lower.status, "node %d '%.100s' (%.60s), line %u: ", (int)index, node->name,
                     node->op, (unsigned)node->line);
  model->values[index] = lower.outputs;
  if (!is_whole || lower.is_missing) model->values[index].count = -1;
  return TENON_OK;
}
