/* VHLO has a name for each version of an operation, and an attribute for each number; StableHLO
 * collects numbers in structures. Called by operations.c. Invariant: attributes are only added, so
 * that a lowering finds those that both have by the same names. */
#include "bytecode/upgrade.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "bytecode/dimensions.h"

enum { FIELDS_MAX = 6 };

typedef struct group_t {
  const char *op;
  const char *attr;
  const char *fields[FIELDS_MAX];
} group_t;

#define GATHER_FIELDS                                                                              \
  {                                                                                                \
    "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims", \
        "start_index_map", "index_vector_dim"                                                      \
  }

static const group_t groups[] = {
    {"stablehlo.dot_general",
     "dot_dimension_numbers",
     {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
      "rhs_contracting_dimensions"}},
    {"stablehlo.gather", "dimension_numbers", GATHER_FIELDS},
    {"stablehlo.dynamic_gather", "dimension_numbers", GATHER_FIELDS},
    {"stablehlo.scatter",
     "scatter_dimension_numbers",
     {"update_window_dims", "inserted_window_dims", "input_batching_dims",
      "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim"}},
};

/* names */

const char *bc_upgraded_name(bc_part_t *part, const char *name) {
  static const char *const others[][2] = {{"vhlo.func_v1", "func.func"},
                                          {"vhlo.call_v1", "func.call"}};
  if (strncmp(name, "vhlo.", 5) != 0) return name;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(others[i][0], name) == 0) return others[i][1];
  size_t size = strlen(name);
  size_t end = size;
  while (isdigit((unsigned char)name[end - 1]))
    end--;
  if (end < size && end > 7 && name[end - 1] == 'v' && name[end - 2] == '_') size = end - 2;
  size_t room = size + sizeof "stablehlo.";
  char *text = bc_take(part, room, 1);
  if (text) snprintf(text, room, "stablehlo.%.*s", (int)(size - 5), name + 5);
  return text ? text : "";
}

/* structures */

static void add_attr(bc_part_t *part, hlo_op_t *op, const char *name, const hlo_attr_t *attr) {
  if (!bc_failed(part))
    part->file->status = hlo_attr_add(&op->attrs, part->file->arena, name, attr);
}

static void add_group(bc_part_t *part, hlo_op_t *op, const group_t *group) {
  const char **names = bc_take(part, FIELDS_MAX, sizeof *names);
  hlo_attr_t *items = bc_take(part, FIELDS_MAX, sizeof *items);
  hlo_attr_t dict = {.kind = HLO_ATTR_DICT, .at = op->at, .names = names, .items = items};
  for (size_t i = 0; i < FIELDS_MAX && group->fields[i] && !bc_failed(part); i++) {
    const hlo_attr_t *field = hlo_attr_find(&op->attrs, group->fields[i]);
    if (!field) continue; /* Earlier versions have fewer. */
    names[dict.count] = group->fields[i];
    items[dict.count++] = *field;
  }
  if (dict.count) add_attr(part, op, group->attr, &dict);
}

/* convolutions */

static const hlo_attr_t *find_operand_attr(const hlo_op_t *op, const char *operand,
                                           const char *name) {
  char text[80];
  snprintf(text, sizeof text, "%s_%s", operand, name);
  return hlo_attr_find(&op->attrs, text);
}

/* Makes the list of axes, such as [b, 0, 1, f], of an operand or the result. */
static void list_axes(bc_part_t *part, const hlo_op_t *op, const char *const names[3],
                      const char *const letters[2], hlo_attr_t *out) {
  const hlo_attr_t *first = find_operand_attr(op, names[0], names[1]);
  const hlo_attr_t *second = find_operand_attr(op, names[0], names[2]);
  const hlo_attr_t *spatial = find_operand_attr(op, names[0], "spatial_dimensions");
  if (!first || !second || !spatial || !spatial->tensor ||
      tenon_dtype_id(spatial->type->dtype) != TENON_I64 || spatial->type->ndim != 1 ||
      spatial->type->dims[0] > TENON_RANK_MAX - 2) {
    bc_fail(part, "a convolution does not state the axes of its %s: the file is damaged", names[0]);
    return;
  }
  int32_t count = (int32_t)spatial->type->dims[0];
  const int64_t *places = spatial->tensor->data;
  hlo_attr_t *items = bc_take(part, (size_t)count + 2, sizeof *items);
  *out = (hlo_attr_t){.kind = HLO_ATTR_LIST, .at = op->at, .items = items, .count = count + 2};
  if (!items) return;
  bc_put_axis(part, out, first->integer, letters[0], 0);
  bc_put_axis(part, out, second->integer, letters[1], 0);
  for (int32_t i = 0; i < count; i++)
    bc_put_axis(part, out, places[spatial->is_splat ? 0 : i], NULL, i);
}

static void add_convolution(bc_part_t *part, hlo_op_t *op) {
  static const char *const names[3][3] = {
      {"input", "batch_dimension", "feature_dimension"},
      {"kernel", "output_feature_dimension", "input_feature_dimension"},
      {"output", "batch_dimension", "feature_dimension"}};
  static const char *const letters[3][2] = {{"b", "f"}, {"o", "i"}, {"b", "f"}};
  hlo_attr_t *lists = bc_take(part, 3, sizeof *lists);
  for (int i = 0; i < 3 && !bc_failed(part); i++)
    list_axes(part, op, names[i], letters[i], &lists[i]);
  const hlo_attr_t all = {.kind = HLO_ATTR_LIST, .at = op->at, .items = lists, .count = 3};
  add_attr(part, op, "dimension_numbers", &all);
}

void bc_upgrade(bc_part_t *part, hlo_op_t *op) {
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (strcmp(groups[i].op, op->name) == 0) add_group(part, op, &groups[i]);
  if (strcmp(op->name, "stablehlo.convolution") == 0 ||
      strcmp(op->name, "stablehlo.dynamic_conv") == 0)
    add_convolution(part, op);
}
