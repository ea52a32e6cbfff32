/* Operators of loaded libraries, found by their own name, because operators of MXNet have no
 * namespace. Called by node.c for names that have no lowering, and by nnvm_read.c for operators
 * that have kept their Tenon name. */
#include "custom.h"

#include <stdio.h>
#include <string.h>

#include "attribute.h"

const tenon_op_t *custom_find(lower_t *lower, const char *name) {
  const tenon_op_t *const *ops = NULL;
  const tenon_op_t *found = NULL;
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info_t first = {.size = sizeof first};
  int32_t count = 0;
  if (lower_stopped(lower)) return NULL;
  if ((lower->status = tenon_ops_list(&ops, &count)) != TENON_OK) return NULL;
  for (int32_t i = 0; i < count; i++) {
    tenon_op_info(ops[i], &info);
    const char *own = strstr(info.name, "::");
    if (!own || strcmp(own + 2, name) != 0 || strncmp(info.name, "core::", 6) == 0) continue;
    if (found)
      lower_fail(
          lower,
          "operators of two libraries have this name, %s and %s: load only one of the libraries",
          first.name, info.name);
    else {
      found = ops[i];
      first = info;
    }
  }
  tenon_ops_release(ops);
  return lower_stopped(lower) ? NULL : found;
}

/* Assigns the node's inputs to the arguments of the schema in order. A list receives the inputs
 * that the arguments after it do not need. */
static values_t *operands_of(lower_t *lower, const tenon_op_t *op, const tenon_op_info_t *info) {
  values_t *operands = lower_take(lower, (size_t)info->input_count + 1, sizeof *operands);
  tenon_argument_t about = {.size = sizeof about};
  int32_t next = 0;
  for (int32_t i = 0; operands && i < info->input_count; i++) {
    (void)tenon_op_argument(op, TENON_ARGUMENT_INPUT, i, &about);
    bool is_list = about.kind == TENON_KIND_TENSORS;
    int32_t left = lower->input_count - next;
    int32_t count = left > 0;
    if (is_list)
      count = left - (info->input_count - 1 - i) > 0 ? left - (info->input_count - 1 - i) : 0;
    operands[i] = (values_t){(tenon_edge_t *)lower->inputs + next, count, is_list};
    next += count;
  }
  if (next < lower->input_count)
    lower_fail(lower, "%d inputs were given, but %s expects %d", (int)lower->input_count,
               info->schema, (int)next);
  return operands;
}

void custom_lower(lower_t *lower, const tenon_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_attrs_t *attrs = NULL;
  tenon_op_info(op, &info);
  values_t *operands = operands_of(lower, op, &info);
  if (lower_stopped(lower) || (lower->status = tenon_attrs_create(op, &attrs)) != TENON_OK) return;
  for (int32_t i = 0; i < lower->node->attr_count && !lower_stopped(lower); i++) {
    const char *name = lower->node->attrs[i].name;
    if (lower->used[i] || strncmp(name, "__", 2) == 0) continue;
    (void)attr_give(lower, name, op, attrs, name);
  }
  lower->outputs = lower_call(lower, op, attrs, operands, info.input_count, info.output_count);
  tenon_attrs_release(attrs);
}
