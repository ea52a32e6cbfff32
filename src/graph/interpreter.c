/* The interpreter: runs a graph node by node through dispatch. On a device a kernel may be missing
 * and fall back to the CPU, so nothing is planned. Called by run.c and capture.c. Invariant: a
 * value lives from its node to its last use, and host-resident arguments are on the host. */
#include "graph/interpreter.h"

#include <string.h>

#include "base/memory.h"
#include "base/poll.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "device/plugin.h"
#include "drivers/profile.h"
#include "graph/device_region.h"
#include "graph/offload.h"
#include "layers/trace.h"
#include "storage/device_memory.h"

static const tenon_device_t cpu = {1, 0};

/* Copies a tensor to a device, or returns the tensor itself with one more reference if it is
 * there. */
static tenon_status_t move_tensor(tenon_tensor_t *tensor, tenon_device_t device,
                                  tenon_tensor_t **out_tensor) {
  bool stays = tn_dtype_is(tensor->dtype, TENON_STRING) || /* strings and lists stay on the host */
               tn_dtype_is(tensor->dtype, TENON_LIST) ||
               (tensor->device.type == device.type && tensor->device.id == device.id);
  if (!stays) return tenon_tensor_copy_to(tensor, device, out_tensor);
  if (!tn_tensor_is_owned(tensor)) return tenon_tensor_copy_to(tensor, device, out_tensor);
  *out_tensor = tensor;
  tenon_tensor_retain(*out_tensor);
  return TENON_OK;
}

static tenon_tensor_t **value_on(tenon_tensor_t **table, const tenon_executable_t *e, int32_t edge,
                                 int32_t device_index) {
  return &table[(size_t)edge * (size_t)e->placement.device_count + (size_t)device_index];
}

tenon_status_t tn_interpreter_prepare(tenon_executable_t *e) {
  size_t count = e->graph->edge_count * (size_t)e->placement.device_count;
  if (!(e->device_constants = tn_allocate_zero(count + 1, sizeof *e->device_constants)))
    return tn_no_memory("an executable", count);
  for (size_t n = 0; n < e->graph->node_count; n++) {
    const tn_node_t *node = &e->graph->nodes[n];
    int32_t device_index = e->placement.nodes[n].device_index;
    /* An offloaded subgraph has constants of its own. */
    for (uint32_t i = 0;
         i < node->op->input_count && device_index != e->placement.host && !node->group; i++)
      for (int32_t k = 0; k < node->operands[i].count && !node->op->schema.inputs[i].is_host; k++) {
        int32_t edge = node->operands[i].edges[k];
        tenon_tensor_t **there = value_on(e->device_constants, e, edge, device_index);
        if (e->graph->edges[edge].constant && !*there)
          TN_TRY(move_tensor(e->graph->edges[edge].constant, e->placement.devices[device_index],
                             there));
      }
  }
  /* Waits here, so that a copy that failed is reported now and not by each run. */
  for (int32_t h = 0; h < e->placement.device_count; h++)
    if (h != e->placement.host && tn_plugin_of(e->placement.devices[h])) {
      tenon_stream_t *stream;
      TN_TRY(tenon_stream_of(e->placement.devices[h], &stream));
      TN_TRY(tenon_stream_synchronize(stream));
    }
  return TENON_OK;
}

void tn_interpreter_release(tenon_executable_t *e) {
  size_t count = e->graph->edge_count * (size_t)e->placement.device_count;
  for (size_t i = 0; e->device_constants && i < count; i++)
    tenon_tensor_release(e->device_constants[i]);
  tn_release_memory(e->device_constants);
}

/* One node */

typedef struct interpreter_t {
  tenon_executable_t *executable;
  /* inputs of the run: copied to a device when they are first needed */
  tenon_tensor_t *const *inputs;
  /* owned: [edge * device count + device]; a value may be on several devices */
  tenon_tensor_t **values;
  bool *has_run; /* of each region on a device: its nodes are done in this run */
  bool is_profiled;
} interpreter_t;

/* A value wherever it is, preferably on the host; NULL: it does not exist. */
static tenon_tensor_t *find_value(const interpreter_t *run, int32_t edge) {
  const tenon_executable_t *e = run->executable;
  const tn_edge_t *of = &e->graph->edges[edge];
  tenon_tensor_t *found = *value_on(run->values, e, edge, e->placement.host);
  if (!found) found = of->constant;
  if (!found && of->input >= 0) found = run->inputs[of->input];
  for (int32_t h = 0; h < e->placement.device_count && !found; h++)
    found = *value_on(run->values, e, edge, h);
  return found;
}

/* Returns a value on a device, and copies it there once in a run if necessary. */
static tenon_status_t bring_value(interpreter_t *run, int32_t edge, int32_t device_index,
                                  tenon_tensor_t **out_tensor) {
  const tenon_executable_t *e = run->executable;
  tenon_tensor_t **there = value_on(run->values, e, edge, device_index);
  tenon_tensor_t *from;
  if (!*there && device_index != e->placement.host &&
      *value_on(e->device_constants, e, edge, device_index)) {
    *out_tensor = *value_on(e->device_constants, e, edge, device_index);
    return TENON_OK;
  }
  if (!*there) {
    if (!(from = find_value(run, edge)))
      return tn_fail(TENON_INTERNAL, "value '%s' does not exist: no node has made it",
                     e->graph->edges[edge].name);
    TN_TRY(move_tensor(from, e->placement.devices[device_index], there));
  }
  *out_tensor = *there;
  return TENON_OK;
}

/* A copy that gradients pass through. */
static tenon_status_t copy_on_tape(tenon_tensor_t *tensor, tenon_tensor_t **out_tensor) {
  const tenon_op_t *contiguous;
  TN_TRY(tenon_op_find("core::contiguous", &contiguous));
  *out_tensor = NULL;
  return tenon_op_call(contiguous, NULL, &tensor, out_tensor, 0);
}

/* One tensor as an argument needs it. The caller owns it. */
static tenon_status_t make_argument(interpreter_t *run, const tn_argument_t *wanted,
                                    int32_t device_index, int32_t edge,
                                    tenon_tensor_t **out_tensor) {
  tenon_tensor_t *t;
  TN_TRY(
      bring_value(run, edge, wanted->is_host ? run->executable->placement.host : device_index, &t));
  if (wanted->is_written && tenon_tensor_requires_grad(t)) return copy_on_tape(t, out_tensor);
  if (wanted->is_written) /* The value may have other readers, so the node writes to a copy. */
    return tenon_tensor_copy_to(t, t->device, out_tensor);
  *out_tensor = t;
  tenon_tensor_retain(*out_tensor);
  return TENON_OK;
}

static tenon_status_t gather_inputs(interpreter_t *run, const tn_node_t *node, int32_t device_index,
                                    tenon_tensor_t **inputs) {
  const tn_schema_t *schema = &node->op->schema;
  for (uint32_t i = 0; i < schema->input_count; i++) {
    const tenon_operand_t *operand = &node->operands[i];
    if (schema->inputs[i].kind != TENON_KIND_TENSORS) {
      if (operand->count)
        TN_TRY(make_argument(run, &schema->inputs[i], device_index, operand->edges[0], &inputs[i]));
      continue;
    }
    tenon_tensor_t **items = tn_scratch((size_t)operand->count * sizeof *items + 64);
    if (!items) return tn_no_memory("a list", (size_t)operand->count);
    tenon_status_t status = TENON_OK;
    int32_t made = 0;
    for (; made < operand->count && status == TENON_OK; made++)
      status =
          make_argument(run, &schema->inputs[i], device_index, operand->edges[made], &items[made]);
    if (status != TENON_OK)
      made--;
    else
      status = tenon_tensor_list(items, operand->count, &inputs[i]);
    for (int32_t k = 0; k < made; k++)
      tenon_tensor_release(items[k]);
    TN_TRY(status);
  }
  return TENON_OK;
}

/* Keeps a value on the device where its node left it or, if that is not a device of the placement,
 * under `device`. */
static void keep_edge_tensor(interpreter_t *run, int32_t edge, int32_t device_index,
                             tenon_tensor_t *tensor) {
  int32_t own = tn_placement_index(&run->executable->placement, tensor->device);
  if (own >= 0) device_index = own;
  tenon_tensor_retain(tensor);
  *value_on(run->values, run->executable, edge, device_index) = tensor;
}

/* Keeps a node's results, items of lists one by one, then the written inputs that the operator does
 * not return. */
static void keep_results(interpreter_t *run, const tn_node_t *node, int32_t device_index,
                         tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  const tenon_op_t *op = node->op;
  int32_t at = 0;
  for (uint32_t o = 0; o < op->output_count; o++) {
    bool is_list = op->schema.outputs[o].kind == TENON_KIND_TENSORS;
    int64_t count = 1;
    if (is_list) count = outputs[o] ? outputs[o]->shape[0] : 0;
    for (int64_t k = 0; k < count && at < node->output_count; k++) {
      tenon_tensor_t *t = is_list ? tenon_item(outputs[o], k) : outputs[o];
      if (t) keep_edge_tensor(run, node->outputs[at], device_index, t);
      at++;
    }
    tenon_tensor_release(outputs[o]);
  }
  for (int32_t k = 0, i; (i = tn_op_written(op, k)) >= 0 && at < node->output_count; k++, at++)
    if (inputs[i]) keep_edge_tensor(run, node->outputs[at], device_index, inputs[i]);
}

/* out_work: gets what the call does if the run is profiled. */
static tenon_status_t run_node(interpreter_t *run, int32_t index, tn_work_t *out_work) {
  const tn_step_t *step = &run->executable->steps[index];
  const tenon_op_t *op = step->node->op;
  size_t room = (op->input_count + op->output_count + 2) * sizeof(tenon_tensor_t *);
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t **inputs = tn_scratch(room);
  tenon_tensor_t **outputs = inputs + op->input_count + 1;
  if (!inputs) return tn_no_memory("a run", room);
  memset(inputs, 0, room);
  int32_t device_index = run->executable->placement.nodes[index].device_index;
  tenon_status_t status = gather_inputs(run, step->node, device_index, inputs);
  const char *before = tn_thread()->graph_node;
  tn_thread()->graph_node =
      run->executable->has_gradients || tn_watch_is_on() ? step->node->name : NULL;
  if (status == TENON_OK)
    status = tn_call_request(&(tn_request_t){op, step->node->attrs, step->state, inputs, outputs,
                                             step->wanted, true, NULL, false});
  tn_thread()->graph_node = before;
  if (status == TENON_OK && run->is_profiled) *out_work = tn_work_of_tensors(op, inputs, outputs);
  if (status == TENON_OK) keep_results(run, step->node, device_index, inputs, outputs);
  for (uint32_t i = 0; i < op->input_count; i++)
    tenon_tensor_release(inputs[i]);
  tn_scratch_reset(mark);
  return status == TENON_OK ? status
                            : tn_prefix(status, "node '%s' (%s): ", step->node->name, op->name);
}

/* An offloaded subgraph */

static tenon_status_t run_subgraph(interpreter_t *run, int32_t first) {
  const tenon_executable_t *e = run->executable;
  const tn_offload_t *offload = &e->offloads[e->graph->nodes[first].group - 1];
  const tenon_graph_view_t *view = &offload->view.view;
  int32_t device_index = e->placement.nodes[first].device_index;
  size_t room = (view->input_count + view->output_count + 2) * sizeof(tenon_tensor_t *);
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t **inputs = tn_scratch(room);
  tenon_tensor_t **outputs = inputs + view->input_count + 1;
  if (!inputs) return tn_no_memory("a run", room);
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < view->input_count && status == TENON_OK; i++)
    status = bring_value(run, offload->view.edges[view->inputs[i]], device_index, &inputs[i]);
  if (status == TENON_OK) status = tn_offload_run(e, offload, first, inputs, outputs);
  for (uint32_t i = 0; i < view->output_count && status == TENON_OK; i++)
    *value_on(run->values, e, offload->view.edges[view->outputs[i]], device_index) = outputs[i];
  tn_scratch_reset(mark);
  return status == TENON_OK ? status : tn_prefix(status, "%s: ", offload->group->name);
}

/* A region on a device */

/* The region of a node that this run may run as one kernel; NULL: there is none. */
static tn_device_region_t *region_of(const interpreter_t *run, size_t node) {
  const tn_device_regions_t *all = &run->executable->device_regions;
  const int32_t number = all->of_node ? all->of_node[node] : 0;
  return number ? all->at[number - 1] : NULL;
}

/* Layers, modes and the trace see each call. Gradients are not recorded in such runs anyway. */
static bool may_run_regions(void) {
  const tn_thread_calls_t *calls = &tn_thread()->calls;
  const uint64_t excluded = calls->exclude & ~TN_KEY(TN_BIT_AUTOGRAD);
  return !tn_watch_is_on() && !calls->include && !excluded;
}

static double tensor_bytes_of(const tenon_tensor_t *t) {
  const tn_size_t size = tn_size_of_tensor(t);
  return tn_size_bytes(&size);
}

/* Runs the region, and sets out_ran. If it is false, its nodes have to run one by one. */
static tenon_status_t run_region(interpreter_t *run, tn_device_region_t *region, bool *out_ran,
                                 tn_work_t *out_work) {
  const tenon_executable_t *e = run->executable;
  tenon_tensor_t *inputs[TN_FUSED_OPERANDS];
  tenon_tensor_t *outputs[TN_FUSED_OPERANDS] = {NULL};
  int32_t count = 0;
  *out_ran = false;
  for (int32_t v = 0; v < region->fused.value_count; v++)
    if (region->fused.values[v].is_read)
      TN_TRY(bring_value(run, region->edges[v], region->device_index, &inputs[count++]));
  TN_TRY(tn_device_region_run(e, region, inputs, outputs, out_ran));
  for (int32_t i = 0; i < count && *out_ran; i++)
    out_work->bytes += tensor_bytes_of(inputs[i]);
  for (int32_t i = 0; i < region->written_count && *out_ran; i++)
    out_work->bytes += tensor_bytes_of(outputs[i]);
  count = 0;
  for (int32_t v = 0; v < region->fused.value_count && *out_ran; v++)
    if (region->fused.values[v].is_written)
      *value_on(run->values, e, region->edges[v], region->device_index) = outputs[count++];
  return TENON_OK;
}

/* Runs the region that begins with the node, if there is one. */
static tenon_status_t run_region_at(interpreter_t *run, size_t node, tn_work_t *out_work) {
  tn_device_region_t *region = run->has_run ? region_of(run, node) : NULL;
  if (!region || region->nodes[0] != (int32_t)node) return TENON_OK;
  bool *has_run = &run->has_run[run->executable->device_regions.of_node[node] - 1];
  const tenon_status_t status = run_region(run, region, has_run, out_work);
  return status == TENON_OK ? status : tn_prefix(status, "%s: ", region->label);
}

/* The graph */

static void drop_dead(interpreter_t *run, int32_t index) {
  const tenon_executable_t *e = run->executable;
  const tn_node_t *node = &e->graph->nodes[index];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t edge = node->operands[i].edges[k];
      if (e->last_use[edge] != index) continue;
      for (int32_t h = 0; h < e->placement.device_count; h++) {
        tenon_tensor_release(*value_on(run->values, e, edge, h));
        *value_on(run->values, e, edge, h) = NULL;
      }
    }
}

/* An output on its device, with one more reference. */
static tenon_status_t output_of(const interpreter_t *run, size_t i, tenon_tensor_t **out_value) {
  const tenon_executable_t *e = run->executable;
  tenon_tensor_t *value = find_value(run, e->graph->outputs[i]);
  if (!value)
    return tn_fail(TENON_INVALID,
                   "output '%s' is an optional result that its node does not compute",
                   e->graph->output_names[i]);
  return move_tensor(value, value->device, out_value);
}

/* Adds the memory in use of each device to the profile. */
static void add_levels(const interpreter_t *run, tenon_profile_t *profile) {
  const tn_placement_t *place = &run->executable->placement;
  for (int32_t h = 0; h < place->device_count; h++) {
    tenon_memory_stats_t stats = {.size = sizeof stats};
    char name[300];
    if (h == place->host || !tn_plugin_of(place->devices[h])) continue;
    if (tenon_memory_stats(place->devices[h], &stats) == TENON_OK)
      tn_profile_level(profile, tn_device_text(place->devices[h], name, sizeof name),
                       stats.live_bytes);
  }
}

/* Whether the node is a member of a region that has run. */
static bool has_region_run(const interpreter_t *run, size_t n) {
  return run->has_run && region_of(run, n) &&
         run->has_run[run->executable->device_regions.of_node[n] - 1];
}

static void open_node(const interpreter_t *run, size_t n, tenon_profile_t *profile) {
  const tn_node_t *node = &run->executable->graph->nodes[n];
  const tn_device_region_t *region = run->has_run ? region_of(run, n) : NULL;
  const char *kind = node->group ? "offload" : node->op->name;
  if (region && region->nodes[0] == (int32_t)n &&
      !__atomic_load_n(&region->failure, __ATOMIC_ACQUIRE))
    kind = region->label;
  tn_profile_open(profile, node->name, kind);
}

/* Runs a node, the offloaded subgraph that begins with it, or its region. */
static tenon_status_t run_at(interpreter_t *run, size_t n, tenon_profile_t *profile) {
  const tn_node_t *node = &run->executable->graph->nodes[n];
  const int32_t depth = profile ? tn_profile_depth(profile) : 0;
  tn_work_t work = {0, 0};
  if (profile) open_node(run, n, profile);
  tenon_status_t status = run_region_at(run, n, &work);
  if (status == TENON_OK && !has_region_run(run, n))
    status = node->group ? run_subgraph(run, (int32_t)n) : run_node(run, (int32_t)n, &work);
  if (profile) {
    tn_profile_work(profile, depth, work);
    tn_profile_close_to(profile, depth);
    add_levels(run, profile);
  }
  return status;
}

static tenon_status_t run_nodes(interpreter_t *run, tenon_tensor_t **values,
                                tenon_profile_t *profile) {
  const tenon_executable_t *e = run->executable;
  const tenon_graph_t *g = e->graph;
  for (size_t n = 0, next; n < g->node_count; n = next) {
    const tn_node_t *node = &g->nodes[n];
    next = n + (node->group ? e->offloads[node->group - 1].view.view.node_count : 1);
    TN_TRY(tn_poll());
    if (!has_region_run(run, n)) TN_TRY(run_at(run, n, profile));
    for (size_t i = n; i < next; i++)
      drop_dead(run, (int32_t)i);
  }
  for (size_t i = 0; i < g->output_count; i++)
    TN_TRY(output_of(run, i, &values[i]));
  return TENON_OK;
}

static void release_edge_tensors(tenon_tensor_t **tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

tenon_status_t tn_interpreter_values(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                     tenon_tensor_t **values, tenon_profile_t *profile) {
  size_t count = e->graph->edge_count * (size_t)e->placement.device_count;
  const size_t regions = may_run_regions() ? e->device_regions.count : 0;
  interpreter_t run = {.executable = e,
                       .inputs = inputs,
                       .values = tn_allocate_zero(count + regions + 1, sizeof *run.values),
                       .is_profiled = profile != NULL};
  if (!run.values) return tn_no_memory("a run", count);
  if (regions) run.has_run = (bool *)(run.values + count);
  tenon_status_t status = run_nodes(&run, values, profile);
  release_edge_tensors(run.values, count);
  tn_release_memory(run.values);
  if (status != TENON_OK) release_edge_tensors(values, e->graph->output_count);
  return status;
}

static tenon_status_t give_output(const tenon_executable_t *e, tenon_tensor_t *value, size_t i,
                                  tenon_tensor_t **outputs) {
  if (!outputs[i] && e->has_gradients && tenon_tensor_requires_grad(value)) {
    outputs[i] = value;
    tenon_tensor_retain(outputs[i]);
    return TENON_OK;
  }
  if (tn_dtype_is(value->dtype, TENON_LIST) && !outputs[i]) return tn_list_keep(value, &outputs[i]);
  if (!outputs[i]) return tenon_tensor_copy_to(value, cpu, &outputs[i]);
  tenon_status_t status = tn_device_tensor_copy(value, outputs[i]);
  return status == TENON_OK ? status
                            : tn_prefix(status, "output '%s': ", e->graph->output_names[i]);
}

tenon_status_t tn_interpreter_deliver(const tenon_executable_t *e, tenon_tensor_t *const *values,
                                      tenon_tensor_t **outputs) {
  size_t count = e->graph->output_count;
  bool *was_given = tn_allocate_zero(count + 1, sizeof *was_given);
  tenon_status_t status = was_given ? TENON_OK : tn_no_memory("a run", count);
  for (size_t i = 0; i < count && was_given; i++)
    was_given[i] = outputs[i] != NULL;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = give_output(e, values[i], i, outputs);
  for (size_t i = 0; i < count && was_given && status != TENON_OK; i++)
    if (!was_given[i]) {
      tenon_tensor_release(outputs[i]);
      outputs[i] = NULL;
    }
  tn_release_memory(was_given);
  return status;
}

tenon_status_t tn_interpreter_run(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                  tenon_tensor_t **outputs, tenon_profile_t *profile) {
  tenon_tensor_t **values = tn_allocate_zero(e->graph->output_count + 1, sizeof *values);
  if (!values) return tn_no_memory("a run", e->graph->output_count);
  tenon_status_t status = tn_interpreter_values(e, inputs, values, profile);
  if (status == TENON_OK) status = tn_interpreter_deliver(e, values, outputs);
  release_edge_tensors(values, e->graph->output_count);
  tn_release_memory(values);
  return status;
}
