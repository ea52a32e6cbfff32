/* Compiles groups; see provider.h. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "provider.h"

/* ---- programs -------------------------------------------------------------------------------- */

void program_release(program_t *program) {
  if (!program) return;
  tenon_executable_release(program->executable);
  tenon_graph_release(program->graph);
  message_free(&program->model);
  for (int32_t i = 0; program->outputs && i < program->output_count; i++)
    free(program->outputs[i].extents);
  free(program->outputs);
  free(program->ranks);
  free(program->name);
  free(program);
}

void provider_forget(provider_t *provider) {
  while (provider->ready) {
    program_t *program = provider->ready;
    provider->ready = program->next;
    program_release(program);
  }
}

tenon_status_t program_create(const provider_t *provider, message_t *model,
                              program_t **out_program) {
  const options_t *options = &provider->options;
  const tenon_compile_t how = {.size = sizeof how,
                               .flags = options->is_plain ? TENON_COMPILE_PLAIN : 0,
                               .device = provider->factory->device};
  program_t *program = calloc(1, sizeof *program);
  *out_program = program;
  if (!program) {
    message_free(model);
    return tn_no_memory("a group", 0);
  }
  program->provider = provider;
  program->model = *model;
  *model = (message_t){0};
  tenon_status_t status =
      tenon_graph_read(program->model.data, program->model.size, NULL, &program->graph);
  if (status == TENON_OK)
    status = tenon_executable_create(program->graph, &how, &program->executable);
  return status == TENON_OK ? program_prepare(program) : status;
}

/* Takes a program that GetCapability has compiled from the same bytes. */
static program_t *take_ready(provider_t *provider, const message_t *model) {
  for (program_t **at = &provider->ready; *at; at = &(*at)->next) {
    program_t *program = *at;
    if (program->model.size != model->size ||
        memcmp(program->model.data, model->data, model->size) != 0)
      continue;
    *at = program->next;
    program->next = NULL;
    return program;
  }
  return NULL;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Writes the model of a group, with the inputs and outputs of the node that takes its place. */
static tenon_status_t write_group(const provider_t *provider, nodes_t *nodes, const node_t *fused,
                                  message_t *out_model) {
  if (nodes->count == 1 && context_is_node(nodes->items))
    return context_read(provider, nodes->graph, nodes->items, out_model);
  node_t **items = tn_arena_array(&nodes->arena, nodes->count + 1, sizeof *items);
  if (!items) return tn_no_memory("a group", 0);
  for (size_t i = 0; i < nodes->count; i++)
    items[i] = &nodes->items[i];
  const part_t part = {.nodes = nodes,
                       .items = items,
                       .count = nodes->count,
                       .inputs = fused->inputs,
                       .outputs = fused->outputs};
  return model_write(&part, out_model);
}

static tenon_status_t check_ports(const program_t *program, const node_t *fused) {
  const size_t inputs = (size_t)program->input_count;
  const size_t outputs = (size_t)program->output_count;
  if (inputs == fused->inputs.count && outputs == fused->outputs.count) return TENON_OK;
  return tn_fail(TENON_INVALID,
                 "the saved group has %zu inputs and %zu outputs, and its node %zu and %zu", inputs,
                 outputs, fused->inputs.count, fused->outputs.count);
}

static tenon_status_t compile_ep_group(provider_t *provider, nodes_t *nodes, const node_t *fused,
                                       OrtNode **out_context, program_t **out_program) {
  message_t model = {0};
  tenon_status_t status = write_group(provider, nodes, fused, &model);
  if (status == TENON_OK) *out_program = take_ready(provider, &model);
  if (status == TENON_OK && !*out_program) status = program_create(provider, &model, out_program);
  message_free(&model);
  program_t *program = *out_program;
  if (status == TENON_OK) status = check_ports(program, fused);
  if (status == TENON_OK) program->name = strdup(fused->name);
  if (status == TENON_OK && !program->name) status = tn_no_memory("a group", 0);
  if (status == TENON_OK && provider->options.saves_contexts && out_context)
    status = context_write(provider, nodes->graph, fused, &program->model, out_context);
  if (status == TENON_OK) program_serve(program);
  return status;
}

static tenon_status_t compile_one(provider_t *provider, const OrtGraph *graph,
                                  const OrtNode *fused_node, OrtNode **out_context,
                                  OrtNodeComputeInfo **out_info) {
  nodes_t nodes;
  nodes_t fused;
  program_t *program = NULL;
  tenon_status_t status = nodes_read_one(fused_node, &fused);
  tenon_status_t others = nodes_read(graph, &nodes);
  if (status == TENON_OK) status = others;
  if (status == TENON_OK)
    status = compile_ep_group(provider, &nodes, fused.items, out_context, &program);
  if (status == TENON_OK)
    *out_info = &program->info;
  else
    program_release(program);
  nodes_clear(&nodes);
  nodes_clear(&fused);
  return status;
}

OrtStatus *provider_compile(OrtEp *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count,
                            OrtNodeComputeInfo **out_infos, OrtNode **out_contexts) {
  provider_t *provider = (provider_t *)ep;
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = compile_one(provider, graphs[i], fused[i], out_contexts ? &out_contexts[i] : NULL,
                         &out_infos[i]);
  provider_forget(provider);
  return api_status(status, "a group cannot be compiled");
}

void provider_release_infos(OrtEp *ep, OrtNodeComputeInfo **infos, size_t count) {
  (void)ep;
  for (size_t i = 0; i < count; i++)
    program_release((program_t *)infos[i]);
}
