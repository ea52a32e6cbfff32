/* Imports nodes of domains other than ONNX's own: operators of libraries, and core operators in
 * files that export.c wrote. Called by node.c. */
#include "import/onnx/custom.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "graph/graph.h"
#include "operator/names.h"

/* Replaces each character that names cannot have, other than `kept`, by '_'. */
static void replace_characters(char *text, char kept) {
  for (; *text; text++)
    if (*text != kept && !tn_is_name((char[]){'x', *text}, 2)) *text = '_';
}

/* Finds the operator for a node's domain and type. Characters that names of operators cannot have
 * become '_': domain "com.acme" with type "Foo" is com_acme::Foo. */
static const tenon_op_t *find_custom_op(tn_lower_t *lower) {
  char domain[101];
  char type[151];
  char name[300];
  const tn_onnx_node_t *node = lower->node;
  snprintf(domain, sizeof domain, "%s", node->domain);
  snprintf(type, sizeof type, "%s", node->type);
  replace_characters(domain, '_');
  replace_characters(type, '.');
  snprintf(name, sizeof name, "%s::%s%s%.40s", domain, type, *node->overload ? "." : "",
           node->overload);
  /* Not tenon_op_find, which composes suggestions at length when nothing is found. */
  const tenon_op_t *op = tn_registry_find(name);
  if (!op) tn_lower_unloaded(lower, name);
  return op;
}

/* Whether the name is that of the attribute which export.c writes for an operator with several
 * lists. */
static bool is_counts(const tenon_op_t *op, const char *name) {
  return strcmp(name, TN_OPERAND_COUNTS) == 0 &&
         tn_schema_attr(&op->schema, name, strlen(name)) < 0;
}

/* The number of inputs of each argument, if the node states it; else NULL. */
static const int64_t *custom_counts(tn_lower_t *lower, const tenon_op_t *op) {
  const tn_onnx_attribute_t *proto =
      is_counts(op, TN_OPERAND_COUNTS) ? tn_lower_typed(lower, TN_OPERAND_COUNTS, TN_ATTRIBUTE_INTS)
                                       : NULL;
  int64_t sum = 0;
  if (!proto) return NULL;
  bool good = proto->ints.count == op->schema.input_count;
  for (size_t i = 0; good && i < proto->ints.count; i++) {
    int64_t count = proto->ints.items[i];
    int64_t most = op->schema.inputs[i].kind == TENON_KIND_TENSORS ? INT32_MAX : 1;
    good = count >= 0 && count <= most && (sum += count) <= INT32_MAX;
  }
  if (!good || sum > (int64_t)lower->node->inputs.count) {
    tn_lower_fail(lower,
                  "attribute '" TN_OPERAND_COUNTS
                  "': expected %u numbers of inputs, %zu in all, for %s",
                  op->schema.input_count, lower->node->inputs.count, op->schema.text);
    return NULL;
  }
  return proto->ints.items;
}

/* Assigns the node's inputs to the schema's arguments, in order. A list takes all inputs that the
 * arguments after it do not need. */
static tn_operand_t *custom_operands(tn_lower_t *lower, const tenon_op_t *op) {
  int32_t schema_count = (int32_t)op->schema.input_count;
  int32_t next = 0;
  int32_t all = lower->input_count;
  tn_operand_t *operands =
      tn_arena_array(&lower->import->arena, (size_t)schema_count + 1, sizeof *operands);
  const int64_t *counts = custom_counts(lower, op);
  if (!operands) {
    tn_lower_has_failed(lower, tn_no_memory("a node", 0));
    return NULL;
  }
  /* Absent inputs at the end count if there is a list, because they tell where it ends. */
  for (int32_t i = 0; i < schema_count; i++)
    if (op->schema.inputs[i].kind == TENON_KIND_TENSORS) all = (int32_t)lower->node->inputs.count;
  for (int32_t i = 0; i < schema_count; i++) {
    bool is_list = op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    int32_t left = all - next;
    int32_t count = left > 0;
    if (is_list) count = left - (schema_count - 1 - i) > 0 ? left - (schema_count - 1 - i) : 0;
    if (counts) count = (int32_t)counts[i];
    if (count && !is_list && !lower->inputs[next]) {
      next++;
      count = 0;
    }
    for (int32_t j = 0; is_list && j < count; j++)
      if (!lower->inputs[next + j])
        tn_lower_fail(
            lower,
            "input %d is absent, but it belongs to the list `%s` of %s: every item must be present",
            next + j, op->schema.inputs[i].name, op->name);
    operands[i] = (tn_operand_t){lower->inputs + next, count, is_list};
    next += count;
  }
  if (next < lower->input_count)
    tn_lower_fail(lower, "the node has %d inputs, but %s takes %d", (int)lower->input_count,
                  op->schema.text, (int)next);
  return operands;
}

/* Sets the attribute that states the length of a list of results, if the node leaves it out: the
 * node's number of outputs tells it. */
static void set_result_count(tn_lower_t *lower, const tenon_op_t *op, tenon_attrs_t *attrs) {
  lower->rest = lower->output_count - (int32_t)op->schema.output_count + 1;
  for (int32_t k = 0; tn_op_written(op, k) >= 0; k++)
    lower->rest--;
  for (uint32_t i = 0; i < op->schema.output_count; i++) {
    int32_t attr = op->schema.outputs[i].count_attr;
    int32_t others = (int32_t)op->schema.output_count - 1;
    if (op->schema.outputs[i].kind != TENON_KIND_TENSORS || attr < 0) continue;
    const char *name = op->schema.attrs[attr].name;
    if (!tn_lower_attr(lower, name) && lower->output_count >= others)
      (void)tn_lower_has_failed(lower, tenon_attrs_int(attrs, name, lower->output_count - others));
  }
}

void tn_lower_custom(tn_lower_t *lower) {
  const tenon_op_t *op = find_custom_op(lower);
  tenon_attrs_t *attrs = NULL;
  int32_t count = 0;
  if (!op || tn_lower_has_failed(lower, TENON_OK)) return;
  if (tn_lower_has_failed(lower, tenon_attrs_create(op, &attrs))) return;
  int64_t version =
      lower->version < 1
          ? 1
          : lower->version; /* the version of the domain's operators when the file was written */
  (void)tn_lower_has_failed(lower, tenon_attrs_upgrade(attrs, version));
  for (size_t i = 0; i < lower->attrs.count && lower->status == TENON_OK; i++) {
    tn_attr_t *attr = &lower->attrs.items[i];
    const char *now =
        is_counts(op, attr->name) ? NULL : tn_upgrades_name(&op->upgrades, version, attr->name);
    if (now && tn_schema_attr(&op->schema, now, strlen(now)) < 0 && !tn_schema_is_open(&op->schema))
      tn_lower_fail(lower, "attribute '%.100s' does not exist in %s", attr->name, op->schema.text);
    else if (now)
      (void)tn_lower_set(lower, attr, op, attrs, attr->name, now);
    attr->is_used = true;
  }
  set_result_count(lower, op, attrs);
  tn_operand_t *operands = custom_operands(lower, op);
  tn_ref_t **edges =
      operands ? tn_lower_call(lower, op, attrs, operands, (int32_t)op->schema.input_count, &count)
               : NULL;
  if (edges && count < lower->output_count)
    tn_lower_fail(lower, "the node has %d outputs, but %s has %d results", (int)lower->output_count,
                  op->schema.text, (int)count);
  for (int32_t i = 0; edges && i < lower->output_count && i < count; i++)
    lower->outputs[i] = edges[i];
  tenon_attrs_release(attrs);
}
