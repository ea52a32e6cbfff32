/* Infers the number of axes of values from the marks in the lowerings. Most files do not state the
 * shapes of variables, and MXNet infers them in both directions: the input of an LSTM has three
 * axes, so the tokens that are embedded for it have two. Called by model.c. */
#include "rank.h"

#include <string.h>

#include "base/status.h"
#include "lowering.h"

enum {
  ROUNDS_MAX = 8
  /* Each round goes through all nodes in both directions. Hardly any graph needs a third round. */
};

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

/* Returns the rank that an attribute states regardless of the input; -1: none. */
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
      is_plain = at[1] == '1'; /* Other negative numbers are shape codes. */
    if (is_plain) return list_length(text);
  }
  return -1;
}

/* Infers ranks from one node. Returns true if a rank was found. */
static bool infer_node_ranks(model_t *model, int32_t index) {
  const symbol_node_t *node = &model->symbol.nodes[index];
  const lowering_t *lowering = model->lowerings[index];
  const char *kernel = symbol_attr(node, "kernel");
  bool is_new = lowering && set_rank(&model->ranks[index], stated(node));
  for (int32_t k = 0; lowering && k < node->input_count; k++) {
    int32_t *own = &model->ranks[node->inputs[k].node];
    int32_t *result = &model->ranks[index];
    if (lowering_has_mark(lowering, k, '%')) is_new |= set_rank(own, 3);
    if (kernel && lowering_has_mark(lowering, k, '^'))
      is_new |= set_rank(own, 2 + list_length(kernel));
    int32_t less = lowering_has_mark(lowering, k, '+') ? 1 : 0;
    if (!less && !lowering_has_mark(lowering, k, '=')) continue;
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
