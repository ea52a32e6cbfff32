/* How many axes values have, by the marks of rules.  Variables have no shape in most files, and
 * MXNet finds it from both ends: an LSTM's input has three axes, so the tokens that are embedded
 * for it have two.  Called by model.c. */
#include <string.h>

#include "base/status.h"
#include "lower.h"

enum {
  ROUNDS_MAX = 8
}; /* each goes through all nodes in both directions; hardly any graph needs a third */

static bool set_rank(int32_t *rank, int32_t value) {
  if (value < 0 || value > TENON_RANK_MAX || *rank >= 0) return false;
  *rank = value;
  return true;
}

static int32_t list_length(const char *text) {
  int32_t count = 1;
  for (const char *at = text; *at; at++)
    count += *at == ',' && at[1] && !strchr(")]", at[1]);
  return count;
}

/* The rank that an attribute states, whatever the input; -1: none. */
static int32_t stated(const symbol_node_t *node) {
  static const char *const names[][2] = {{"Reshape", "shape"},
                                         {"_np_reshape", "newshape"},
                                         {"_npx_reshape", "newshape"},
                                         {"transpose", "axes"},
                                         {"_np_transpose", "axes"}};
  const char *flatten = symbol_attr(node, "flatten");
  if (strcmp(node->op, "Flatten") == 0) return 2;
  if (strcmp(node->op, "FullyConnected") == 0 && (!flatten || strcmp(flatten, "True") == 0))
    return 2;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *text = strcmp(node->op, names[i][0]) == 0 ? symbol_attr(node, names[i][1]) : NULL;
    bool is_plain = text && strpbrk(text, "0123456789") && strcmp(text, "None") != 0;
    for (const char *at = text; is_plain && (at = strchr(at, '-')); at++)
      is_plain = at[1] == '1'; /* codes but -1 */
    if (is_plain) return list_length(text);
  }
  return -1;
}

/* What the node says of its inputs and results; true: something new. */
static bool infer_node_ranks(model_t *model, int32_t index) {
  const symbol_node_t *node = &model->symbol.nodes[index];
  const rule_t *rule = model->rules[index];
  const char *kernel = symbol_attr(node, "kernel");
  bool is_new = rule && set_rank(&model->ranks[index], stated(node));
  for (int32_t k = 0; rule && k < node->input_count; k++) {
    int32_t *own = &model->ranks[node->inputs[k].node];
    int32_t *result = &model->ranks[index];
    if (rule_has_mark(rule, k, '%')) is_new |= set_rank(own, 3);
    if (kernel && rule_has_mark(rule, k, '^')) is_new |= set_rank(own, 2 + list_length(kernel));
    int32_t less = rule_has_mark(rule, k, '+') ? 1 : 0;
    if (!less && !rule_has_mark(rule, k, '=')) continue;
    is_new |= set_rank(own, *result - less);
    if (*own >= 0) is_new |= set_rank(result, *own + less);
  }
  return is_new;
}

tenon_status_t rank_find(model_t *model) {
  const symbol_t *symbol = &model->symbol;
  bool is_new = true;
  model->ranks =
      tn_arena_array(&model->arena, (size_t)symbol->node_count + 1, sizeof *model->ranks);
  if (!model->ranks) return tn_no_memory("a model", 0);
  for (int32_t i = 0; i < symbol->node_count; i++) {
    const tenon_tensor_t *param = params_find(&model->params, symbol->nodes[i].name);
    const char *shape = symbol_attr(&symbol->nodes[i], "__shape__");
    bool is_null = strcmp(symbol->nodes[i].op, "null") == 0;
    model->ranks[i] = -1;
    if (is_null && param)
      (void)set_rank(&model->ranks[i], param->ndim);
    else if (is_null && shape && strpbrk(shape, "0123456789"))
      (void)set_rank(&model->ranks[i], list_length(shape));
  }
  for (int round = 0; is_new && round < ROUNDS_MAX; round++) {
    is_new = false;
    for (int32_t i = 0; i < symbol->node_count; i++)
      is_new |= infer_node_ranks(model, i);
    for (int32_t i = symbol->node_count - 1; i >= 0; i--)
      is_new |= infer_node_ranks(model, i);
  }
  return TENON_OK;
}
