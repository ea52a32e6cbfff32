/* Running a graph call by call, through dispatch: on a device, where kernels may be missing and
 * fall back, nothing is planned. Called by run.c for executables of a device.  Invariant: a value
 * lives from its node to its last use, and host-resident arguments are on the host. */
#include "graph/eager.h"

#include <string.h>

#include "base/memory.h"
#include "base/poll.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "device/plugin.h"
#include "drivers/profile.h"
#include "graph/group.h"
#include "graph/recorded.h"
#include "layers/trace.h"
#include "storage/place.h"

static const tenon_device_t cpu = {1, 0};

/* A tensor of one device on another, or itself with one more reference. */
static tenon_status_t move(tenon_tensor_t *tensor, tenon_device_t device,
                           tenon_tensor_t **out_tensor) {
  bool stays =
      tn_dtype_is(tensor->dtype, TENON_STRING) || /* strings are on the host, whatever runs */
      (tensor->device.type == device.type && tensor->device.id == device.id);
  if (!stays) return tenon_tensor_copy_to(tensor, device, out_tensor);
  if (!tn_tensor_is_owned(tensor)) return tenon_tensor_copy_to(tensor, device, out_tensor);
  tenon_tensor_retain(*out_tensor = tensor);
  return TENON_OK;
}

static tenon_tensor_t **at_home(tenon_tensor_t **table, const tenon_executable_t *e, int32_t edge,
                                int32_t home) {
  return &table[(size_t)edge * (size_t)e->place.home_count + (size_t)home];
}

tenon_status_t tn_eager_prepare(tenon_executable_t *e) {
  size_t count = e->graph->edge_count * (size_t)e->place.home_count;
  if (!(e->placed = tn_allocate_zero(count + 1, sizeof *e->placed)))
    return tn_no_memory("an executable", count);
  for (size_t n = 0; n < e->graph->node_count; n++) {
    const tn_node_t *node = &e->graph->nodes[n];
    int32_t home = e->place.nodes[n].home;
    for (uint32_t i = 0; i < node->op->input_count && home != e->place.host && !node->group;
         i++) /* a group has its own */
      for (int32_t k = 0; k < node->operands[i].count && !node->op->schema.inputs[i].is_host; k++) {
        int32_t edge = node->operands[i].edges[k];
        tenon_tensor_t **there = at_home(e->placed, e, edge, home);
        if (e->graph->edges[edge].constant && !*there)
          TN_TRY(move(e->graph->edges[edge].constant, e->place.homes[home], there));
      }
  }
  for (int32_t h = 0; h < e->place.home_count;
       h++) /* a copy that failed is told now, not by each run */
    if (h != e->place.host && tn_plugin_of(e->place.homes[h])) {
      tenon_stream_t *stream;
      TN_TRY(tenon_stream_of(e->place.homes[h], &stream));
      TN_TRY(tenon_stream_synchronize(stream));
    }
  return TENON_OK;
}

void tn_eager_release(tenon_executable_t *e) {
  size_t count = e->graph->edge_count * (size_t)e->place.home_count;
  for (size_t i = 0; e->placed && i < count; i++)
    tenon_tensor_release(e->placed[i]);
  tn_release_memory(e->placed);
}

/* a node */

typedef struct eager_t {
  tenon_executable_t *executable;
  tenon_tensor_t *const *inputs; /* of the run: copied where they are first wanted */
  tenon_tensor_t **values;       /* edge * homes + home: owned; a value may be on several homes */
} eager_t;

/* The value as it is somewhere, on the host if it is there; NULL: it is not there. */
static tenon_tensor_t *somewhere(const eager_t *run, int32_t edge) {
  const tenon_executable_t *e = run->executable;
  const tn_edge_t *of = &e->graph->edges[edge];
  tenon_tensor_t *found = *at_home(run->values, e, edge, e->place.host);
  if (!found) found = of->constant ? of->constant : of->input >= 0 ? run->inputs[of->input] : NULL;
  for (int32_t h = 0; h < e->place.home_count && !found; h++)
    found = *at_home(run->values, e, edge, h);
  return found;
}

/* The value on that home, copied there if it is not: once in a run. */
static tenon_status_t bring(eager_t *run, int32_t edge, int32_t home, tenon_tensor_t **out_tensor) {
  const tenon_executable_t *e = run->executable;
  tenon_tensor_t **there = at_home(run->values, e, edge, home);
  tenon_tensor_t *from;
  if (!*there && home != e->place.host && *at_home(e->placed, e, edge, home)) {
    *out_tensor = *at_home(e->placed, e, edge, home);
    return TENON_OK;
  }
  if (!*there) {
    if (!(from = somewhere(run, edge)))
      return tn_fail(TENON_INTERNAL, "value '%s' is not there", e->graph->edges[edge].name);
    TN_TRY(move(from, e->place.homes[home], there));
  }
  *out_tensor = *there;
  return TENON_OK;
}

/* A copy that gradients go through. */
static tenon_status_t copy_recorded(tenon_tensor_t *tensor, tenon_tensor_t **out_tensor) {
  const tenon_op_t *contiguous;
  TN_TRY(tenon_op_find("core::contiguous", &contiguous));
  *out_tensor = NULL;
  return tenon_op_call(contiguous, NULL, &tensor, out_tensor, 0);
}

/* One tensor as an argument wants it; owned by the caller. */
static tenon_status_t argument(eager_t *run, const tn_argument_t *wanted, int32_t home,
                               int32_t edge, tenon_tensor_t **out_tensor) {
  tenon_tensor_t *t;
  TN_TRY(bring(run, edge, wanted->is_host ? run->executable->place.host : home, &t));
  if (wanted->is_written && tenon_tensor_requires_grad(t)) return copy_recorded(t, out_tensor);
  if (wanted->is_written)
    return tenon_tensor_copy_to(t, t->device, out_tensor); /* others may look at it */
  tenon_tensor_retain(*out_tensor = t);
  return TENON_OK;
}

static tenon_status_t gather(eager_t *run, const tn_node_t *node, int32_t home,
                             tenon_tensor_t **inputs) {
  const tn_schema_t *schema = &node->op->schema;
  for (uint32_t i = 0; i < schema->input_count; i++) {
    const tenon_operand_t *operand = &node->operands[i];
    if (schema->inputs[i].kind != TENON_KIND_TENSORS) {
      if (operand->count)
        TN_TRY(argument(run, &schema->inputs[i], home, operand->edges[0], &inputs[i]));
      continue;
    }
    tenon_tensor_t **items = tn_scratch((size_t)operand->count * sizeof *items + 64);
    if (!items) return tn_no_memory("a list", (size_t)operand->count);
    tenon_status_t status = TENON_OK;
    int32_t made = 0;
    for (; made < operand->count && status == TENON_OK; made++)
      status = argument(run, &schema->inputs[i], home, operand->edges[made], &items[made]);
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

/* A value is where its node left it, if that is a home. */
static void keep(eager_t *run, int32_t edge, int32_t home, tenon_tensor_t *tensor) {
  int32_t own = tn_home_of(&run->executable->place, tensor->device);
  tenon_tensor_retain(*at_home(run->values, run->executable, edge, own < 0 ? home : own) = tensor);
}

/* Results, items of lists one by one, then written inputs that no result is. */
static void scatter(eager_t *run, const tn_node_t *node, int32_t home,
                    tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  const tenon_op_t *op = node->op;
  int32_t at = 0;
  for (uint32_t o = 0; o < op->output_count; o++) {
    bool is_list = op->schema.outputs[o].kind == TENON_KIND_TENSORS;
    int64_t count = !is_list ? 1 : outputs[o] ? outputs[o]->shape[0] : 0;
    for (int64_t k = 0; k < count && at < node->output_count; k++) {
      tenon_tensor_t *t = is_list ? tenon_item(outputs[o], k) : outputs[o];
      if (t) keep(run, node->outputs[at], home, t);
      at++;
    }
    tenon_tensor_release(outputs[o]);
  }
  for (int32_t k = 0, i; (i = tn_op_written(op, k)) >= 0 && at < node->output_count; k++, at++)
    if (inputs[i]) keep(run, node->outputs[at], home, inputs[i]);
}

static tenon_status_t run_node(eager_t *run, int32_t index) {
  const tn_step_t *step = &run->executable->steps[index];
  const tenon_op_t *op = step->node->op;
  size_t room = (op->input_count + op->output_count + 2) * sizeof(tenon_tensor_t *);
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t **inputs = tn_scratch(room);
  tenon_tensor_t **outputs = inputs + op->input_count + 1;
  if (!inputs) return tn_no_memory("a run", room);
  memset(inputs, 0, room);
  int32_t home = run->executable->place.nodes[index].home;
  tenon_status_t status = gather(run, step->node, home, inputs);
  const char *before = tn_thread()->graph_node;
  tn_thread()->graph_node =
      run->executable->has_gradients || tn_watch_is_on() ? step->node->name : NULL;
  if (status == TENON_OK)
    status = tn_call_request(&(tn_request_t){op, step->node->attrs, step->state, inputs, outputs,
                                             step->wanted, true, NULL});
  tn_thread()->graph_node = before;
  if (status == TENON_OK) scatter(run, step->node, home, inputs, outputs);
  for (uint32_t i = 0; i < op->input_count; i++)
    tenon_tensor_release(inputs[i]);
  tn_scratch_reset(mark);
  return status == TENON_OK ? status
                            : tn_prefix(status, "node '%s' (%s): ", step->node->name, op->name);
}

/* a group */

static tenon_status_t run_group(eager_t *run, int32_t first) {
  const tenon_executable_t *e = run->executable;
  const tn_claim_t *claim = &e->claims[e->graph->nodes[first].group - 1];
  const tenon_graph_view_t *view = &claim->view.view;
  int32_t home = e->place.nodes[first].home;
  size_t room = (view->input_count + view->output_count + 2) * sizeof(tenon_tensor_t *);
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t **inputs = tn_scratch(room);
  tenon_tensor_t **outputs = inputs + view->input_count + 1;
  if (!inputs) return tn_no_memory("a run", room);
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < view->input_count && status == TENON_OK; i++)
    status = bring(run, claim->view.edges[view->inputs[i]], home, &inputs[i]);
  if (status == TENON_OK) status = tn_claim_run(e, claim, first, inputs, outputs);
  for (uint32_t i = 0; i < view->output_count && status == TENON_OK; i++)
    *at_home(run->values, e, claim->view.edges[view->outputs[i]], home) = outputs[i];
  tn_scratch_reset(mark);
  return status == TENON_OK ? status : tn_prefix(status, "%s: ", claim->group->name);
}

/* the graph */

static void drop_dead(eager_t *run, int32_t index) {
  const tenon_executable_t *e = run->executable;
  const tn_node_t *node = &e->graph->nodes[index];
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t edge = node->operands[i].edges[k];
      if (e->last_use[edge] != index) continue;
      for (int32_t h = 0; h < e->place.home_count; h++) {
        tenon_tensor_release(*at_home(run->values, e, edge, h));
        *at_home(run->values, e, edge, h) = NULL;
      }
    }
}

/* An output as it is: one more reference. */
static tenon_status_t output_of(const eager_t *run, size_t i, tenon_tensor_t **out_value) {
  const tenon_executable_t *e = run->executable;
  tenon_tensor_t *value = somewhere(run, e->graph->outputs[i]);
  if (!value)
    return tn_fail(TENON_INVALID, "output '%s' is a result that its node does not have",
                   e->graph->output_names[i]);
  return move(value, value->device, out_value);
}

/* Memory of the devices that the nodes run on. */
static void add_levels(const eager_t *run, tenon_profile_t *profile) {
  const tn_placement_t *place = &run->executable->place;
  for (int32_t h = 0; h < place->home_count; h++) {
    tenon_memory_stats_t stats = {.size = sizeof stats};
    char name[300];
    if (h == place->host || !tn_plugin_of(place->homes[h])) continue;
    if (tenon_memory_stats(place->homes[h], &stats) == TENON_OK)
      tn_profile_level(profile, tn_device_text(place->homes[h], name, sizeof name),
                       stats.live_bytes);
  }
}

static tenon_status_t run_all(eager_t *run, tenon_tensor_t **values, tenon_profile_t *profile) {
  const tenon_executable_t *e = run->executable;
  const tenon_graph_t *g = e->graph;
  for (size_t n = 0, next; n < g->node_count; n = next) {
    const tn_node_t *node = &g->nodes[n];
    int32_t depth = profile ? tn_profile_depth(profile) : 0;
    TN_TRY(tn_poll());
    next = n + (node->group ? e->claims[node->group - 1].view.view.node_count : 1);
    if (profile) tn_profile_open(profile, node->name, node->group ? "group" : node->op->name);
    tenon_status_t status = node->group ? run_group(run, (int32_t)n) : run_node(run, (int32_t)n);
    if (profile) {
      tn_profile_close_to(profile, depth);
      add_levels(run, profile);
    }
    TN_TRY(status);
    for (size_t i = n; i < next; i++)
      drop_dead(run, (int32_t)i);
  }
  for (size_t i = 0; i < g->output_count; i++)
    TN_TRY(output_of(run, i, &values[i]));
  return TENON_OK;
}

static void drop(tenon_tensor_t **tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; i++) {
    tenon_tensor_release(tensors[i]);
    tensors[i] = NULL;
  }
}

tenon_status_t tn_eager_values(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **values, tenon_profile_t *profile) {
  size_t count = e->graph->edge_count * (size_t)e->place.home_count;
  eager_t run = {e, inputs, tn_allocate_zero(count + 1, sizeof *run.values)};
  if (!run.values) return tn_no_memory("a run", count);
  tenon_status_t status = run_all(&run, values, profile);
  drop(run.values, count);
  tn_release_memory(run.values);
  if (status != TENON_OK) drop(values, e->graph->output_count);
  return status;
}

static tenon_status_t give(const tenon_executable_t *e, tenon_tensor_t *value, size_t i,
                           tenon_tensor_t **outputs) {
  if (!outputs[i] && e->has_gradients && tenon_tensor_requires_grad(value)) {
    tenon_tensor_retain(outputs[i] = value);
    return TENON_OK;
  }
  if (!outputs[i]) return tenon_tensor_copy_to(value, cpu, &outputs[i]);
  tenon_status_t status = tn_place_copy_into(value, outputs[i]);
  return status == TENON_OK ? status
                            : tn_prefix(status, "output '%s': ", e->graph->output_names[i]);
}

tenon_status_t tn_eager_give(const tenon_executable_t *e, tenon_tensor_t *const *values,
                             tenon_tensor_t **outputs) {
  size_t count = e->graph->output_count;
  bool *was_given = tn_allocate_zero(count + 1, sizeof *was_given);
  tenon_status_t status = was_given ? TENON_OK : tn_no_memory("a run", count);
  for (size_t i = 0; i < count && was_given; i++)
    was_given[i] = outputs[i] != NULL;
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = give(e, values[i], i, outputs);
  for (size_t i = 0; i < count && was_given && status != TENON_OK; i++)
    if (!was_given[i]) {
      tenon_tensor_release(outputs[i]);
      outputs[i] = NULL;
    }
  tn_release_memory(was_given);
  return status;
}

tenon_status_t tn_eager_run(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                            tenon_tensor_t **outputs, tenon_profile_t *profile) {
  bool ran = false;
  if (!profile && __atomic_load_n(&e->recorded.is_on, __ATOMIC_ACQUIRE)) {
    tenon_status_t status = tn_recorded_run(e, inputs, outputs, &ran);
    if (status != TENON_OK || ran) return status;
  }
  tenon_tensor_t **values = tn_allocate_zero(e->graph->output_count + 1, sizeof *values);
  if (!values) return tn_no_memory("a run", e->graph->output_count);
  tenon_status_t status = tn_eager_values(e, inputs, values, profile);
  if (status == TENON_OK) status = tn_eager_give(e, values, outputs);
  drop(values, e->graph->output_count);
  tn_release_memory(values);
  return status;
}
