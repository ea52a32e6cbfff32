/* Writes a chain of operators as a model; see model.h. Invariant: each --input and each --attr is
 * used by at least one operator. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor_spec.h"

enum { MOST = 64 }; /* maximum of arguments and of results of an operator */

typedef struct chain_t {
  const model_t *model;
  tenon_builder_t *builder;
  tenon_edge_t edge; /* first result of the previous operator; -1: there is none */
  bool *used_inputs;
  bool *used_attrs;
  text_t *why;
} chain_t;

static bool is_fine(const chain_t *chain, tenon_status_t status) {
  if (status != TENON_OK) text_add(chain->why, "%s", tenon_error());
  return status == TENON_OK;
}

static bool add_port(const chain_t *chain, const tensor_spec_t *form, tenon_edge_t *out_edge) {
  tenon_axis_t axes[TENON_RANK_MAX];
  for (int32_t i = 0; i < form->ndim; i++)
    axes[i] = (tenon_axis_t){form->extents[i], form->names[i][0] ? form->names[i] : NULL};
  return is_fine(chain, tenon_builder_input(chain->builder, form->name, form->dtype, form->ndim,
                                            axes, out_edge));
}

/* Adds the input that is stated for an argument. *out_edge is -1 if the argument is optional and
 * none is stated. */
static bool add_input(const chain_t *chain, const char *op, const tenon_argument_t *argument,
                      tenon_edge_t *out_edge) {
  *out_edge = -1;
  for (int32_t i = 0; i < chain->model->inputs.count; i++) {
    tensor_spec_t form;
    const char *text = chain->model->inputs.items[i];
    const size_t size = strlen(argument->name);
    if (chain->used_inputs[i] || strncmp(text, argument->name, size) != 0 || text[size] != '=')
      continue;
    if (!tensor_spec_parse(text, &form, chain->why)) return false;
    chain->used_inputs[i] = true;
    return add_port(chain, &form, out_edge);
  }
  if (argument->is_optional) return true;
  text_add(chain->why,
           "%s: input '%s' is not stated: add its dtype and shape, such as --input %s=f32[rows,4]",
           op, argument->name, argument->name);
  return false;
}

static bool set_attrs(const chain_t *chain, const tenon_op_t *op, tenon_attrs_t *attrs) {
  tenon_argument_t argument = {.size = sizeof argument};
  bool fine = true;
  for (int32_t a = 0; fine && tenon_op_argument(op, TENON_ARGUMENT_ATTR, a, &argument) == TENON_OK;
       a++)
    for (int32_t i = 0; fine && i < chain->model->attrs.count; i++) {
      const char *text = chain->model->attrs.items[i];
      const size_t size = strlen(argument.name);
      if (strncmp(text, argument.name, size) != 0 || text[size] != '=') continue;
      fine = is_fine(chain, tenon_attrs_parse(attrs, argument.name, text + size + 1));
      chain->used_attrs[i] = true;
    }
  return fine;
}

static bool add_chain_node(chain_t *chain, const tenon_op_t *op, const char *name, bool is_last) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_argument_t argument = {.size = sizeof argument};
  tenon_operand_t operands[MOST] = {{0}};
  tenon_edge_t edges[MOST], results[MOST + 1];
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  tenon_op_info(op, &info);
  bool fine = is_fine(chain, tenon_attrs_create(op, &attrs)) && set_attrs(chain, op, attrs) &&
              is_fine(chain, tenon_attrs_values(attrs, &values));
  for (int32_t i = 0; fine && i < info.input_count; i++) {
    fine = is_fine(chain, tenon_op_argument(op, TENON_ARGUMENT_INPUT, i, &argument));
    edges[i] = i == 0 ? chain->edge : -1;
    if (fine && edges[i] < 0) fine = add_input(chain, name, &argument, &edges[i]);
    if (edges[i] >= 0) operands[i] = (tenon_operand_t){1, &edges[i]};
  }
  for (int32_t i = 0; fine && i < info.output_count; i++) {
    fine = is_fine(chain, tenon_op_argument(op, TENON_ARGUMENT_OUTPUT, i, &argument));
    if (fine && argument.kind == TENON_KIND_TENSORS) {
      text_add(chain->why,
               "%s: result '%s' is a list of unknown length, which this verb does not support",
               name, argument.name);
      fine = false;
    }
  }
  if (fine && !info.output_count) {
    text_add(chain->why, "%s has no result, so it cannot be part of a model", name);
    fine = false;
  }
  fine = fine && is_fine(chain, tenon_builder_node(chain->builder, NULL, op, values, operands,
                                                   results, info.output_count));
  if (fine) chain->edge = results[0];
  for (int32_t i = 0; fine && is_last && i < info.output_count; i++)
    fine = is_fine(chain, tenon_op_argument(op, TENON_ARGUMENT_OUTPUT, i, &argument)) &&
           is_fine(chain, tenon_builder_output(chain->builder, argument.name, results[i]));
  tenon_attrs_release(attrs);
  return fine;
}

/* Reports every input and attribute that no operator uses. */
static bool all_used(const chain_t *chain) {
  bool fine = true;
  for (int32_t i = 0; i < chain->model->inputs.count; i++)
    if (!chain->used_inputs[i]) {
      text_add(chain->why, "%s--input '%s': no operator needs an input with this name",
               fine ? "" : "\n", chain->model->inputs.items[i]);
      fine = false;
    }
  for (int32_t i = 0; i < chain->model->attrs.count; i++)
    if (!chain->used_attrs[i]) {
      text_add(chain->why, "%s--attr '%s': no operator has an attribute with this name",
               fine ? "" : "\n", chain->model->attrs.items[i]);
      fine = false;
    }
  return fine;
}

bool model_write(const model_t *model, text_t *why) {
  bool used[2][MOST] = {{false}};
  chain_t chain = {model, NULL, -1, used[0], used[1], why};
  tenon_graph_t *graph = NULL;
  if (model->inputs.count > MOST || model->attrs.count > MOST) {
    text_add(why, "more than %d inputs or attributes are given", MOST);
    return false;
  }
  bool fine = is_fine(&chain, tenon_builder_create(&chain.builder));
  for (int32_t i = 0; fine && i < model->ops.count; i++) {
    const tenon_op_t *op = NULL;
    fine = is_fine(&chain, tenon_op_find(model->ops.items[i], &op)) &&
           add_chain_node(&chain, op, model->ops.items[i], i == model->ops.count - 1);
  }
  fine = fine && all_used(&chain) && is_fine(&chain, tenon_builder_finish(chain.builder, &graph)) &&
         is_fine(&chain, tenon_graph_save(graph, model->path));
  tenon_graph_release(graph);
  tenon_builder_release(chain.builder);
  return fine;
}

void model_free(model_t *model) {
  texts_free(&model->ops);
  texts_free(&model->inputs);
  texts_free(&model->attrs);
}
