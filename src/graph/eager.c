/* Running a graph call by call, through dispatch: on a device, where kernels may be missing and fall back, nothing is planned.
 * Called by run.c for executables of a device.  Invariant: a value lives from its node to its last use, and host-resident
 * arguments are on the host. */
#include "graph/eager.h"

#include <string.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "dispatch/place.h"
#include "dispatch/profile.h"

static const tenon_device_t cpu = {1, 0};

/* A tensor of one device on another, or itself with one more reference. */
static tenon_status_t move(tenon_tensor_t *tensor, tenon_device_t device, tenon_tensor_t **out_tensor) {
  bool stays = tn_dtype_is(tensor->dtype, TENON_STRING) || /* strings are on the host, whatever runs */
               (tensor->device.type == device.type && tensor->device.id == device.id);
  if (!stays) return tenon_tensor_copy_to(tensor, device, out_tensor);
  if (!tn_tensor_is_owned(tensor)) return tenon_tensor_copy_to(tensor, device, out_tensor);
  tenon_tensor_retain(*out_tensor = tensor);
  return TENON_OK;
}

tenon_status_t tn_eager_prepare(tenon_executable_t *e) {
  size_t count = e->graph->edge_count;
  if (!(e->placed = tn_allocate_zero(count + 1, sizeof *e->placed))) return tn_no_memory("an executable", count);
  for (size_t n = 0; n < e->graph->node_count; n++) {
    const tn_node_t *node = &e->graph->nodes[n];
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count && !node->op->schema.inputs[i].is_host; k++) {
        int32_t edge = node->operands[i].edges[k];
        if (e->graph->edges[edge].constant && !e->placed[edge])
          TN_TRY(move(e->graph->edges[edge].constant, e->device, &e->placed[edge]));
      }
  }
  return TENON_OK;
}

void tn_eager_release(tenon_executable_t *e) {
  for (size_t i = 0; e->placed && i < e->graph->edge_count; i++) tenon_tensor_release(e->placed[i]);
  tn_release_memory(e->placed);
}

/* ---- a node ----------------------------------------------------------------------------------------------------- */

typedef struct eager_t {
  tenon_executable_t *executable;
  tenon_tensor_t **values; /* of edges; owned */
  bool *is_host;           /* of edges: made as an @host result, or of such alone */
} eager_t;

/* Arithmetic on shapes stays on the host: nodes whose operands are values of the host, and constants beside them. */
static bool runs_on_host(const eager_t *run, const tn_node_t *node) {
  bool has_host = false;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count && !node->op->schema.inputs[i].is_host; k++) {
      int32_t edge = node->operands[i].edges[k];
      if (run->is_host[edge]) has_host = true;
      else if (run->values[edge]) return false;
    }
  return has_host;
}

/* One tensor as an argument wants it; owned by the caller. */
static tenon_status_t argument(eager_t *run, const tn_argument_t *wanted, bool on_host, int32_t edge,
                               tenon_tensor_t **out_tensor) {
  const tenon_executable_t *e = run->executable;
  tenon_tensor_t *t = run->values[edge];
  on_host |= wanted->is_host;
  if (!t) t = on_host || !e->placed[edge] ? e->graph->edges[edge].constant : e->placed[edge];
  if (!t) return tn_fail(TENON_INTERNAL, "value '%s' is not there", e->graph->edges[edge].name);
  if (wanted->is_written) return tenon_tensor_copy_to(t, t->device, out_tensor); /* others may look at it */
  return move(t, on_host ? cpu : e->device, out_tensor);
}

static tenon_status_t gather(eager_t *run, const tn_node_t *node, bool on_host, tenon_tensor_t **inputs) {
  const tn_schema_t *schema = &node->op->schema;
  for (uint32_t i = 0; i < schema->input_count; i++) {
    const tenon_operand_t *operand = &node->operands[i];
    if (schema->inputs[i].kind != TENON_KIND_TENSORS) {
      if (operand->count) TN_TRY(argument(run, &schema->inputs[i], on_host, operand->edges[0], &inputs[i]));
      continue;
    }
    tenon_tensor_t **items = tn_scratch((size_t)operand->count * sizeof *items + 64);
    if (!items) return tn_no_memory("a list", (size_t)operand->count);
    tenon_status_t status = TENON_OK;
    int32_t made = 0;
    for (; made < operand->count && status == TENON_OK; made++)
      status = argument(run, &schema->inputs[i], on_host, operand->edges[made], &items[made]);
    if (status != TENON_OK) made--;
    else status = tenon_tensor_list(items, operand->count, &inputs[i]);
    for (int32_t k = 0; k < made; k++) tenon_tensor_release(items[k]);
    TN_TRY(status);
  }
  return TENON_OK;
}

/* Results, items of lists one by one, then written inputs that no result is. */
static void scatter(eager_t *run, const tn_node_t *node, bool on_host, tenon_tensor_t *const *inputs,
                    tenon_tensor_t **outputs) {
  const tenon_op_t *op = node->op;
  int32_t at = 0;
  for (uint32_t o = 0; o < op->output_count; o++) {
    bool is_list = op->schema.outputs[o].kind == TENON_KIND_TENSORS;
    int64_t count = !is_list ? 1 : outputs[o] ? outputs[o]->shape[0] : 0;
    for (int64_t k = 0; k < count && at < node->output_count; k++) {
      tenon_tensor_t *t = is_list ? tenon_item(outputs[o], k) : outputs[o];
      if (t) tenon_tensor_retain(run->values[node->outputs[at]] = t);
      run->is_host[node->outputs[at++]] = on_host || op->schema.outputs[o].is_host;
    }
    tenon_tensor_release(outputs[o]);
  }
  for (int32_t k = 0, i; (i = tn_op_written(op, k)) >= 0 && at < node->output_count; k++, at++)
    if (inputs[i]) tenon_tensor_retain(run->values[node->outputs[at]] = inputs[i]);
}

static tenon_status_t run_node(eager_t *run, int32_t index) {
  const tn_step_t *step = &run->executable->steps[index];
  const tenon_op_t *op = step->node->op;
  size_t room = (op->input_count + op->output_count + 2) * sizeof(tenon_tensor_t *);
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t **inputs = tn_scratch(room), **outputs = inputs + op->input_count + 1;
  if (!inputs) return tn_no_memory("a run", room);
  memset(inputs, 0, room);
  bool on_host = runs_on_host(run, step->node);
  tenon_status_t status = gather(run, step->node, on_host, inputs);
  if (status == TENON_OK) status = tn_call_with(op, step->node->attrs, step->state, inputs, outputs, step->wanted);
  if (status == TENON_OK) scatter(run, step->node, on_host, inputs, outputs);
  for (uint32_t i = 0; i < op->input_count; i++) tenon_tensor_release(inputs[i]);
  tn_scratch_reset(mark);
  return status == TENON_OK ? status : tn_prefix(status, "node '%s' (%s): ", step->node->name, op->name);
}

/* ---- the graph -------------------------------------------------------------------------------------------------- */

static void drop_dead(eager_t *run, int32_t index) {
  const tenon_executable_t *e = run->executable;
  const tn_node_t *node = &e->graph->nodes[index];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t edge = node->operands[i].edges[k];
      if (e->last_use[edge] != index) continue;
      tenon_tensor_release(run->values[edge]);
      run->values[edge] = NULL;
    }
}

static tenon_status_t give(eager_t *run, size_t i, tenon_tensor_t **outputs) {
  const tenon_executable_t *e = run->executable;
  tenon_edge_t edge = e->graph->outputs[i];
  tenon_tensor_t *value = run->values[edge] ? run->values[edge] : e->graph->edges[edge].constant, *host = NULL;
  if (!value)
    return tn_fail(TENON_INVALID, "output '%s' is a result that its node does not have", e->graph->output_names[i]);
  if (!outputs[i]) return tenon_tensor_copy_to(value, cpu, &outputs[i]);
  TN_TRY(move(value, cpu, &host));
  tenon_status_t status = tn_tensor_copy_into(host, outputs[i]);
  tenon_tensor_release(host);
  return status == TENON_OK ? status : tn_prefix(status, "output '%s': ", e->graph->output_names[i]);
}

static tenon_status_t run_all(eager_t *run, tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                              tenon_profile_t *profile) {
  const tenon_executable_t *e = run->executable;
  const tenon_graph_t *g = e->graph;
  for (size_t i = 0; i < g->input_count; i++) TN_TRY(move(inputs[i], e->device, &run->values[g->inputs[i]]));
  for (size_t n = 0; n < g->node_count; n++) {
    int32_t depth = profile ? tn_profile_depth(profile) : 0;
    if (profile) tn_profile_open(profile, g->nodes[n].name, g->nodes[n].op->name);
    tenon_status_t status = run_node(run, (int32_t)n);
    if (profile) tn_profile_close_to(profile, depth);
    TN_TRY(status);
    drop_dead(run, (int32_t)n);
  }
  for (size_t i = 0; i < g->output_count; i++) TN_TRY(give(run, i, outputs));
  return TENON_OK;
}

tenon_status_t tn_eager_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                            tenon_profile_t *profile) {
  size_t edges = executable->graph->edge_count, count = executable->graph->output_count;
  eager_t run = {executable, tn_allocate_zero(edges + 1, sizeof *run.values),
                 tn_allocate_zero(edges + 1, sizeof *run.is_host)};
  bool *was_given = tn_allocate_zero(count + 1, sizeof *was_given);
  tenon_status_t status = run.values && run.is_host && was_given ? TENON_OK : tn_no_memory("a run", edges);
  for (size_t i = 0; i < count && status == TENON_OK; i++) was_given[i] = outputs[i] != NULL;
  if (status == TENON_OK) status = run_all(&run, inputs, outputs, profile);
  for (size_t i = 0; run.values && i < edges; i++) tenon_tensor_release(run.values[i]);
  for (size_t i = 0; was_given && i < count && status != TENON_OK; i++)
    if (!was_given[i]) tenon_tensor_release(outputs[i]), outputs[i] = NULL;
  tn_release_memory(run.values);
  tn_release_memory(run.is_host);
  tn_release_memory(was_given);
  return status;
}
