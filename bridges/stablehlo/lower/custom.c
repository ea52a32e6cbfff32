/* Operations of other dialects and targets of custom calls become operators of loaded libraries:
 * operands are the inputs in order, attributes those with the same names. Called by table.c and
 * lower_call.c. */
#include "lower/custom.h"

#include <stdio.h>
#include <string.h>

#include "lower/arguments.h"

/* Assigns the operands to the arguments of the schema in order. A list receives the operands that
 * the arguments after it do not need. */
static hlo_edges_t *operands_of(hlo_lower_t *lower, const tenon_op_t *op,
                                const tenon_op_info_t *info) {
  int32_t all = lower->op->operand_count;
  int32_t next = 0;
  hlo_edges_t *operands = hlo_lower_take(lower, (size_t)info->input_count, sizeof *operands);
  tenon_edge_t *edges = hlo_lower_take(lower, (size_t)all, sizeof *edges);
  tenon_argument_t about = {.size = sizeof about};
  if (!operands || !edges) return NULL;
  for (int32_t i = 0; i < all; i++)
    edges[i] = hlo_edge(lower, i);
  for (int32_t i = 0; i < info->input_count && !hlo_stopped(lower); i++) {
    (void)tenon_op_argument(op, TENON_ARGUMENT_INPUT, i, &about);
    bool is_list = about.kind == TENON_KIND_TENSORS;
    int32_t left = all - next;
    int32_t count = left > 0;
    if (is_list) count = left > info->input_count - 1 - i ? left - (info->input_count - 1 - i) : 0;
    operands[i] = (hlo_edges_t){edges + next, count, is_list};
    next += count;
  }
  if (next < all)
    hlo_wrong(lower, "%d operands were given, but %s expects %d", (int)all, info->schema,
              (int)next);
  return operands;
}

static void set_list(hlo_lower_t *lower, tenon_attrs_t *attrs, const char *name,
                     const hlo_attr_t *attr) {
  int64_t items[HLO_INTS_MAX];
  int32_t count = hlo_ints_of(lower, attr, items);
  if (!hlo_stopped(lower))
    (void)hlo_has_failed(lower, tenon_attrs_ints(attrs, name, items, (uint32_t)count));
}

/* Sets an attribute of the operator from one of the program. */
static void set_attr(hlo_lower_t *lower, tenon_attrs_t *attrs, const char *name,
                     const hlo_attr_t *attr) {
  tenon_value_t value = {TENON_KIND_BOOL, 0, {0}};
  if (attr->kind == HLO_ATTR_BOOL) {
    value.as.i = attr->integer;
    (void)hlo_has_failed(lower, tenon_attrs_set(attrs, name, &value));
  } else if (attr->kind == HLO_ATTR_INT) {
    (void)hlo_has_failed(lower, tenon_attrs_int(attrs, name, attr->integer));
  } else if (attr->kind == HLO_ATTR_FLOAT) {
    (void)hlo_has_failed(lower, tenon_attrs_float(attrs, name, attr->number));
  } else if (attr->kind == HLO_ATTR_TENSOR && attr->type->ndim != 1) {
    value.kind = TENON_KIND_TENSOR;
    value.as.tensor = attr->tensor;
    (void)hlo_has_failed(lower, tenon_attrs_set(attrs, name, &value));
  } else if (attr->kind == HLO_ATTR_LIST || attr->kind == HLO_ATTR_TENSOR) {
    set_list(lower, attrs, name, attr);
  } else if (attr->text) {
    (void)hlo_has_failed(lower, tenon_attrs_text(attrs, name, attr->text));
  } else {
    hlo_missing(lower, "the attribute %.60s, whose kind operators do not have", name);
  }
}

bool hlo_lower_operator(hlo_lower_t *lower, const char *name, const hlo_attr_t *given) {
  const tenon_op_t *op = NULL;
  tenon_attrs_t *attrs = NULL;
  tenon_op_info_t info = {.size = sizeof info};
  if (hlo_stopped(lower)) return true;
  if (tenon_op_find(name, &op) != TENON_OK) return false;
  tenon_op_info(op, &info);
  hlo_edges_t *operands = operands_of(lower, op, &info);
  if (hlo_stopped(lower) || hlo_has_failed(lower, tenon_attrs_create(op, &attrs))) return true;
  for (int32_t i = 0; given && i < given->count && !hlo_stopped(lower); i++)
    set_attr(lower, attrs, given->names[i], &given->items[i]);
  hlo_edges_t results =
      hlo_call(lower, op, attrs, operands, info.input_count, lower->op->result_count);
  if (!hlo_stopped(lower) && results.count < lower->op->result_count)
    hlo_wrong(lower, "%s has %d results, expected %d", name, (int)results.count,
              (int)lower->op->result_count);
  for (int32_t i = 0; i < lower->op->result_count && !hlo_stopped(lower); i++)
    hlo_give(lower, i, results.edges[i]);
  return true;
}

void hlo_lower_custom(hlo_lower_t *lower) {
  char name[200];
  const char *dot = strchr(lower->op->name, '.');
  if (!dot || strncmp(lower->op->name, "core.", 5) == 0) {
    hlo_missing(lower, "no operation of StableHLO has this name");
    return;
  }
  snprintf(name, sizeof name, "%.*s::%.90s",
           (int)(dot - lower->op->name < 90 ? dot - lower->op->name : 90), lower->op->name,
           dot + 1);
  for (char *p = name; *p; p++)
    if (strchr(".-$", *p)) *p = '_';
  if (!hlo_lower_operator(lower, name, &lower->op->attrs))
    hlo_missing(lower, "no loaded library has the operator %.100s", name);
}
