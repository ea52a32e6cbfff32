/* Compiles a graph to an executable: copies it, infers types, runs the rewriting passes, then
 * creates the state and the prepared plan of each node. Called by applications, and for subgraphs.
 * Invariant: after its creation an executable does not change, apart from its caches (idle run
 * states, captured graphs, libraries in use). */
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/reason.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/file_copy.h"
#include "core/sparse.h"
#include "dispatch/services.h"
#include "graph/capture.h"
#include "graph/device_region.h"
#include "graph/executable.h"
#include "graph/interpreter.h"
#include "graph/passes/offload.h"
#include "graph/passes/pass.h"
#include "graph/training.h"
#include "operator/kernel.h"
#include "operator/state.h"

/* What is created once for each node */

/* Notes for an artifact that no kernel reads a constant. */
static void note_consumed(const tenon_executable_t *e, tenon_edge_t edge, int32_t uses) {
  if (e->collector && uses == 1) e->collector->is_consumed[edge] = true;
}

/* Gives up the elements of a constant that the node's kernel will not read. `uses` counts the nodes
 * that read each edge. */
static void forget_constant(tenon_executable_t *e, const tenon_tensor_t *constant, int32_t uses) {
  enum { HOLDERS = 2 }; /* the graph that was compiled, and the copy of it */
  tn_tensor_forget(constant);
  if (uses != 1) return;
  tn_file_copy_give_up(constant, HOLDERS);
  __atomic_store_n(&e->gives_up, true, __ATOMIC_RELAXED);
}

/* The kernel that will run the node; NULL: it depends on more than the dtype. */
static const tn_kernel_t *kernel_of_node(const tenon_executable_t *e, const tn_node_t *node) {
  const tenon_op_t *op = node->op;
  /* A reload of the library may replace this entry. */
  const tn_table_entry_t *entry = __atomic_load_n(&op->cpu, __ATOMIC_ACQUIRE);
  if (!entry->by_dtype) return entry->only;
  const tenon_operand_t *operand =
      op->dispatch_input >= 0 ? &node->operands[op->dispatch_input] : NULL;
  if (!operand || !operand->count) return NULL;
  return tn_op_kernel_of_dtype(op, e->graph->edges[operand->edges[0]].dtype);
}

/* Calls the kernel's `prepare`, which may take packed weights of an artifact. If it packed weights
 * that nobody has compared with their checksums, that is done now. */
static tenon_status_t call_prepare(const tenon_executable_t *e, size_t n, const tn_kernel_t *kernel,
                                   tenon_node_t *info) {
  const tn_prepared_t *prepared = e->graph->prepared;
  tn_packing_t packing = {.kept = e->collector ? &e->collector->nodes[n] : NULL};
  if (prepared) {
    packing.given = prepared->blocks + prepared->first[n];
    packing.given_count = prepared->first[n + 1] - prepared->first[n];
  }
  const uint64_t errors = tn_error_count();
  tn_packing_set(&packing);
  const tenon_status_t status = kernel->prepare(info);
  tn_packing_set(NULL);
  TN_TRY(tn_reason_complete(status, errors, info->op->name, "prepare"));
  const bool is_given =
      packing.taken && packing.taken == packing.given_count && !packing.is_refused;
  return prepared && info->plan && !is_given ? prepared->check(prepared, true) : TENON_OK;
}

static tenon_status_t prepare_kernel(tenon_executable_t *e, tn_step_t *step,
                                     const tn_kernel_t *kernel, const int32_t *uses) {
  const tn_node_t *node = step->node;
  const tenon_op_t *op = node->op;
  if (kernel) TN_TRY(tn_executable_use(e, kernel, op));
  if (!kernel || !kernel->prepare) return TENON_OK;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_meta_t *metas = tn_scratch((op->input_count + 1) * sizeof *metas);
  tenon_meta_t **slots = tn_scratch((op->input_count + 1) * sizeof *slots);
  tenon_status_t status = metas && slots ? TENON_OK : tn_no_memory("preparing a node", 0);
  tenon_node_t info = {.size = sizeof info,
                       .phase = TENON_PHASE_PREPARE,
                       .host = &tn_host,
                       .op = op,
                       .attrs = node->attrs,
                       .context = kernel->context,
                       .state = step->state,
                       .inputs = slots,
                       .device = {1, 0}};
  bool known = status == TENON_OK;
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++) {
    slots[i] = NULL;
    if (!node->operands[i].count || op->schema.inputs[i].kind == TENON_KIND_TENSORS) continue;
    const tn_edge_t *edge = &e->graph->edges[node->operands[i].edges[0]];
    metas[i] = (tenon_meta_t){.size = sizeof *metas,
                              .dtype = edge->dtype,
                              .ndim = edge->ndim,
                              .device = {1, 0},
                              .dims = edge->dims,
                              .strides = edge->strides,
                              .value = edge->constant,
                              .values = edge->values,
                              .value_count = edge->value_count,
                              .layout = edge->layout};
    slots[i] = &metas[i];
    if (edge->constant) info.constant |= (uint64_t)1 << i;
    known &= edge->ndim >= 0 && edge->dtype.bits;
  }
  if (known) status = call_prepare(e, (size_t)(step - e->steps), kernel, &info);
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++)
    if (info.consumed >> i & info.constant >> i & 1) {
      const tenon_edge_t edge = node->operands[i].edges[0];
      note_consumed(e, edge, uses[edge]);
      if (!e->graph->prepared) forget_constant(e, metas[i].value, uses[edge]);
    }
  step->plan = info.plan;
  step->release = kernel->release;
  step->prepared = kernel;
  tn_scratch_reset(mark);
  return status;
}

/* The preparation of steps by several threads. */
typedef struct preparation_t {
  tenon_executable_t *executable;
  const int32_t *uses;
} preparation_t;

/* Whether the kernel may be prepared beside others: of those of libraries nobody has said so. */
static bool is_prepared_apart(const tn_kernel_t *kernel) {
  return kernel && kernel->prepare && strcmp(kernel->library->name, "core") == 0;
}

static tenon_status_t prepare_step(const preparation_t *p, size_t n, bool is_apart) {
  tn_step_t *step = &p->executable->steps[n];
  const tn_kernel_t *kernel = kernel_of_node(p->executable, step->node);
  if (is_prepared_apart(kernel) != is_apart) return TENON_OK;
  const tenon_status_t status = prepare_kernel(p->executable, step, kernel, p->uses);
  return status == TENON_OK
             ? status
             : tn_prefix(status, "node '%s' (%s): ", step->node->name, step->node->op->name);
}

static tenon_status_t prepare_part(void *argument, int64_t begin, int64_t end) {
  for (int64_t n = begin; n < end; n++)
    TN_TRY(prepare_step(argument, (size_t)n, true));
  return TENON_OK;
}

/* Prepares all kernels: those of libraries one by one, then the built-in ones, which pack weights,
 * by all threads if there is much to pack. */
static tenon_status_t prepare_steps(tenon_executable_t *e, const int32_t *uses) {
  enum { MUCH = 1 << 20 };
  preparation_t preparation = {e, uses};
  const int64_t count = (int64_t)e->graph->node_count;
  uint64_t bytes = 0;
  for (int64_t n = 0; n < count; n++)
    TN_TRY(prepare_step(&preparation, (size_t)n, false));
  for (size_t i = 0; i < e->graph->edge_count; i++) {
    uint64_t size;
    const tenon_tensor_t *t = e->graph->edges[i].constant;
    if (t && tn_dtype_bytes(t->dtype, tenon_count(t), &size)) bytes += size;
  }
  if (bytes < MUCH) return prepare_part(&preparation, 0, count);
  return tn_parallel(count, 1, prepare_part, &preparation);
}

static tenon_status_t make_steps(tenon_executable_t *e) {
  size_t count = e->graph->node_count;
  int32_t *uses = NULL;
  if (!(e->steps = tn_allocate_zero(count + 1, sizeof *e->steps)) ||
      !(e->last_use = tn_allocate((e->graph->edge_count + 1) * sizeof *e->last_use)))
    return tn_no_memory("an executable", count * sizeof *e->steps);
  for (size_t i = 0; i < e->graph->edge_count; i++)
    e->last_use[i] = -1;
  TN_TRY(tn_graph_uses(e->graph, &uses));
  tenon_status_t status = TENON_OK;
  for (size_t n = 0; n < count && status == TENON_OK; n++) {
    const tn_node_t *node = &e->graph->nodes[n];
    tn_step_t *step = &e->steps[n];
    step->node = node;
    step->wanted = tn_node_wanted(node, uses);
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        e->last_use[node->operands[i].edges[k]] = (int32_t)n;
    if (node->op->create) {
      status = tn_state_create(node->op, node->attrs, &step->state);
      step->has_state = status == TENON_OK;
    }
    if (status != TENON_OK)
      status = tn_prefix(status, "node '%s' (%s): ", node->name, node->op->name);
  }
  for (size_t i = 0; i < e->graph->output_count; i++)
    e->last_use[e->graph->outputs[i]] = INT32_MAX;
  if (status == TENON_OK && e->is_planned) status = prepare_steps(e, uses);
  tn_release_memory(uses);
  return status;
}

/* What is created once for the inputs and outputs */

static tenon_status_t list_outputs(tenon_executable_t *e) {
  const tenon_graph_t *g = e->graph;
  e->first_output = tn_allocate((g->edge_count + g->output_count + 1) * sizeof *e->first_output);
  if (!e->first_output) return tn_no_memory("an executable", g->edge_count);
  e->next_output = e->first_output + g->edge_count;
  for (size_t i = 0; i < g->edge_count; i++)
    e->first_output[i] = -1;
  for (size_t i = g->output_count; i-- > 0;) {
    e->next_output[i] = e->first_output[g->outputs[i]];
    e->first_output[g->outputs[i]] = (int32_t)i;
  }
  return TENON_OK;
}

/* Notes the axis of an input, if an earlier axis has the same symbolic name. `names` maps names to
 * their first axes: 1 + input * TENON_RANK_MAX + axis. */
static tenon_status_t note_axis(tenon_executable_t *e, tn_map_t *names, int32_t input,
                                int32_t axis) {
  const tenon_axis_t *stated = &e->source->input_axes[input][axis];
  if (stated->extent >= 0 || !stated->name || !*stated->name) return TENON_OK;
  size_t size = strlen(stated->name);
  uintptr_t first = (uintptr_t)tn_map_get(names, stated->name, size);
  if (!first) {
    first = 1 + (uintptr_t)input * TENON_RANK_MAX + (uintptr_t)axis;
    return tn_map_put(names, stated->name, size, (void *)first)
               ? TENON_OK
               : tn_no_memory("an executable", size);
  }
  if (!tn_grow((void **)&e->same_axes, &e->same_axes_capacity, e->same_axes_count,
               sizeof *e->same_axes))
    return tn_no_memory("an executable", e->same_axes_count * sizeof *e->same_axes);
  e->same_axes[e->same_axes_count++] =
      (tn_same_axes_t){input, axis, (int32_t)((first - 1) / TENON_RANK_MAX),
                       (int32_t)((first - 1) % TENON_RANK_MAX)};
  return TENON_OK;
}

static tenon_status_t list_same_axes(tenon_executable_t *e) {
  const tenon_graph_t *g = e->source;
  tn_map_t names = {0};
  tenon_status_t status = TENON_OK;
  for (size_t i = 0; i < g->input_count; i++)
    for (int32_t d = 0; d < g->edges[g->inputs[i]].ndim && status == TENON_OK; d++)
      status = note_axis(e, &names, (int32_t)i, d);
  tn_map_clear(&names);
  return status;
}

/* Sparse tensors exist in host memory only, so nodes that make or read them must run on the
 * host. */
static tenon_status_t check_sparse_nodes(const tenon_executable_t *e) {
  for (size_t n = 0; n < e->graph->node_count; n++) {
    const tn_node_t *node = &e->graph->nodes[n];
    const tn_edge_t *sparse = NULL;
    if (e->placement.nodes[n].device_index == e->placement.host) continue;
    for (uint32_t i = 0; i < node->op->input_count; i++)
      for (int32_t k = 0; k < node->operands[i].count; k++)
        if (e->graph->edges[node->operands[i].edges[k]].layout)
          sparse = &e->graph->edges[node->operands[i].edges[k]];
    for (int32_t o = 0; o < node->output_count; o++)
      if (e->graph->edges[node->outputs[o]].layout) sparse = &e->graph->edges[node->outputs[o]];
    if (sparse)
      return tn_fail(TENON_UNIMPLEMENTED,
                     "node '%s' (%s): value '%s' is sparse (%s), but sparse tensors exist in host "
                     "memory only: pin the node to the CPU",
                     node->name, node->op->name, sparse->name, tn_layout_name(sparse->layout));
  }
  return TENON_OK;
}

/* Makes a body that is compiled with the switches of the graph around it. */
static tenon_status_t copy_body(const tenon_graph_t *body, const tenon_compile_t *options,
                                tenon_graph_t **out_body) {
  tenon_graph_t *copy;
  const char *without = options->without;
  TN_TRY(tn_graph_copy(body, &copy));
  copy->body_flags = options->flags & TENON_COMPILE_PLAIN;
  if (without) copy->body_without = tn_arena_text(&copy->arena, without, strlen(without));
  const bool is_fine = !without || copy->body_without;
  if (is_fine)
    *out_body = copy;
  else
    tenon_graph_release(copy);
  return is_fine ? TENON_OK : tn_no_memory("a body", strlen(without));
}

/* Bodies without switches are shared by all executables of a graph; those with switches are not. */
static tenon_status_t switch_bodies(tenon_graph_t *graph, const tenon_compile_t *options) {
  const bool is_plain = options->flags & TENON_COMPILE_PLAIN;
  const bool has_switches = is_plain || (options->without && *options->without);
  for (size_t n = 0; n < graph->node_count && has_switches; n++) {
    tn_node_t *node = &graph->nodes[n];
    for (uint32_t i = 0; i < node->op->schema.attr_count; i++) {
      const bool is_graph = node->attrs[i].kind == TENON_KIND_GRAPH;
      const tenon_graph_t *body = is_graph ? node->attrs[i].as.graph : NULL;
      tenon_graph_t *copy;
      if (!body || body->body_flags || body->body_without) continue;
      TN_TRY(copy_body(body, options, &copy));
      const tenon_status_t status = tn_node_set_graph(graph, node, i, copy);
      tenon_graph_release(copy);
      TN_TRY(status);
    }
  }
  return TENON_OK;
}

/* Moves bodies into the graph, with the bodies in them. */
static tenon_status_t inline_bodies(tenon_executable_t *e, const tenon_compile_t *options) {
  TN_TRY(tn_rules_apply(&e->rules, TN_RULES_CONTROL, e->graph));
  if (!tn_rules_changed(&e->rules, TN_RULES_CONTROL)) return TENON_OK;
  TN_TRY(tn_pass_dead_code(e->graph));
  TN_TRY(switch_bodies(e->graph, options));
  TN_TRY(tn_pass_fold(e->graph));
  return tn_pass_dead_code(e->graph);
}

static tenon_status_t rewrite_graph(tenon_executable_t *e, const tenon_compile_t *options) {
  tn_rules_t *rules = &e->rules;
  TN_TRY(tn_rules_open(rules, options->without));
  TN_TRY(tn_pass_dead_code(e->graph));
  if (e->is_planned) { /* devices may lack the operators of 8-bit numbers */
    TN_TRY(tn_rules_apply(rules, TN_RULES_QUANTISE, e->graph));
    TN_TRY(tn_pass_dead_code(e->graph));
  }
  TN_TRY(tn_pass_fold(e->graph));
  TN_TRY(tn_pass_dead_code(e->graph));
  if (!e->has_gradients) {
    TN_TRY(inline_bodies(e, options));
    TN_TRY(tn_rules_apply(rules, TN_RULES_LIBRARIES, e->graph));
  }
  TN_TRY(tn_rules_apply(rules, TN_RULES_SIMPLIFY, e->graph));
  TN_TRY(tn_rules_apply(rules, TN_RULES_FORMULAS, e->graph));
  TN_TRY(tn_pass_dead_code(e->graph));
  if (!e->has_gradients) {
    TN_TRY(tn_rules_apply(rules, TN_RULES_BLOCKS, e->graph));
    TN_TRY(tn_pass_dead_code(e->graph));
  }
  if (e->is_planned && !e->has_gradients)
    TN_TRY(tn_rules_apply(rules, TN_RULES_ATTENTION, e->graph));
  if (!e->has_gradients) TN_TRY(tn_rules_apply(rules, TN_RULES_SHARE, e->graph));
  if (!e->is_planned && !e->has_gradients) TN_TRY(tn_pass_offload(e, options));
  if (!e->has_gradients) {
    TN_TRY(tn_rules_apply(rules, TN_RULES_CHANNELS, e->graph));
    TN_TRY(tn_rules_apply(rules, TN_RULES_FUSE, e->graph));
  }
  if (e->is_planned && !e->has_gradients) TN_TRY(tn_rules_apply(rules, TN_RULES_CONCAT, e->graph));
  TN_TRY(tn_pass_dead_code(e->graph));
  return tn_pass_infer(e->graph);
}

/* Whether a value is a list. If its dtype is not known, its node reads one. */
static bool has_lists(const tenon_graph_t *graph) {
  for (size_t i = 0; i < graph->edge_count; i++)
    if (tn_dtype_is(graph->edges[i].dtype, TENON_LIST)) return true;
  return false;
}

/* Makes room for what is noted about the rewritten graph. */
static tenon_status_t open_collector(const tenon_executable_t *e) {
  tn_collector_t *c = e->collector;
  if (!c) return TENON_OK;
  c->node_count = e->graph->node_count;
  c->nodes = tn_allocate_zero(c->node_count + 1, sizeof *c->nodes);
  c->is_consumed = tn_allocate_zero(e->graph->edge_count + 1, sizeof *c->is_consumed);
  return c->nodes && c->is_consumed ? TENON_OK : tn_no_memory("an artifact", c->node_count);
}

void tn_collector_clear(tn_collector_t *collector) {
  for (size_t n = 0; collector->nodes && n < collector->node_count; n++)
    tn_release_memory(collector->nodes[n].items);
  tn_release_memory(collector->nodes);
  tn_release_memory(collector->is_consumed);
  *collector = (tn_collector_t){0};
}

static tenon_status_t rewrite_copy(tenon_executable_t *e, const tenon_graph_t *graph,
                                   const tenon_compile_t *options) {
  TN_TRY(tn_graph_copy(graph, &e->graph));
  TN_TRY(switch_bodies(e->graph, options));
  TN_TRY(tn_pass_infer(e->graph));
  return options->flags & TENON_COMPILE_PLAIN ? TENON_OK : rewrite_graph(e, options);
}

static tenon_status_t compile_graph(tenon_executable_t *e, const tenon_graph_t *graph,
                                    const tenon_compile_t *options) {
  if (graph->prepared) {
    e->graph = (tenon_graph_t *)(uintptr_t)graph;
    tenon_graph_retain(graph);
    TN_TRY(tn_rules_open(&e->rules, options->without)); /* plans have rules, too */
  } else {
    TN_TRY(rewrite_copy(e, graph, options));
  }
  TN_TRY(open_collector(e));
  if (e->is_planned) {
    /* checks their names only: everything runs on the CPU */
    TN_TRY(tn_pins_check(e->graph, e->source, options));
  } else {
    TN_TRY(tn_placement_create(e->graph, e->source, options, e->offloads, &e->placement));
    TN_TRY(check_sparse_nodes(e));
    e->is_planned = !e->has_gradients && tn_placement_is_of_host(&e->placement, e->graph);
  }
  TN_TRY(make_steps(e));
  e->has_lists = has_lists(e->graph);
  TN_TRY(list_same_axes(e));
  if (e->is_planned) return list_outputs(e);
  TN_TRY(tn_interpreter_prepare(e));
  if (!e->has_gradients && !(options->flags & TENON_COMPILE_PLAIN))
    TN_TRY(tn_device_regions_find(e));
  e->captures.executable = e;
  if (options->flags & TENON_COMPILE_RECORD) tn_captures_begin(&e->captures, e);
  return TENON_OK;
}

static bool is_for_cpu(const tenon_compile_t *options) {
  bool is_cpu = options->device.type <= 1;
  for (uint32_t i = 0; i < options->device_count; i++)
    is_cpu &= options->devices[i].type == 1;
  for (uint32_t i = 0; i < options->pin_count; i++)
    is_cpu &= options->pins[i].device.type == 1;
  return is_cpu;
}

/* Whether the compiled graph of an artifact is what these options ask for. */
static bool is_prepared_for(const tenon_graph_t *graph, const tenon_compile_t *options) {
  const bool has_devices = options->device.type > 1 || options->device_count || options->pin_count;
  return !has_devices && !options->flags && !(options->without && *options->without) &&
         graph->prepared->reloads == tn_registry_reloads();
}

static tenon_status_t create_executable(const tenon_graph_t *graph, const tenon_compile_t *options,
                                        tn_collector_t *collector,
                                        tenon_executable_t **out_executable) {
  tenon_executable_t *e = tn_allocate_zero(1, sizeof *e);
  if (!e) return tn_no_memory("an executable", sizeof *e);
  e->references = 1;
  e->collector = collector;
  e->reloads = tn_registry_reloads(); /* read before any operator is looked at */
  e->source = graph;
  tenon_graph_retain(e->source);
  tenon_compile_t wanted = *options;
  e->is_planned = is_for_cpu(&wanted);
  tenon_status_t status = TENON_OK;
  if (wanted.flags & TENON_COMPILE_GRADIENTS) {
    if (!e->is_planned)
      status =
          tn_fail(TENON_UNIMPLEMENTED, "TENON_COMPILE_GRADIENTS is implemented for the CPU only: "
                                       "compile without a device, devices or pins to a device");
    e->is_planned = false;
    e->has_gradients = true;
    if (status == TENON_OK) status = tn_training_create(e);
    wanted.device = (tenon_device_t){1, 0};
    wanted.device_count = 0;
  }
  if (status == TENON_OK) status = tn_executable_keep_options(e, &wanted);
  if (status == TENON_OK) status = compile_graph(e, graph, &wanted);
  e->collector = NULL;
  if (status != TENON_OK)
    tenon_executable_release(e);
  else
    *out_executable = e;
  return status;
}

tenon_status_t tenon_executable_create(const tenon_graph_t *graph, const tenon_compile_t *options,
                                       tenon_executable_t **out_executable) {
  tenon_compile_t wanted = {.size = sizeof wanted};
  if (options)
    memcpy(&wanted, options, options->size < sizeof wanted ? options->size : sizeof wanted);
  if (graph->prepared && !is_prepared_for(graph, &wanted))
    TN_TRY(graph->prepared->original(graph->prepared, &graph));
  return create_executable(graph, &wanted, NULL, out_executable);
}

tenon_status_t tn_executable_collect(const tenon_graph_t *graph, tn_collector_t *collector,
                                     tenon_executable_t **out_executable) {
  const tenon_compile_t options = {.size = sizeof options};
  return create_executable(graph, &options, collector, out_executable);
}
