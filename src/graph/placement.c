/* Chooses a device for each node. Without a device all nodes go to the host, except for those that
 * are pinned. With one device beside the host all nodes go to the device, and each call that it has
 * no kernel for falls back to the CPU. With several devices the estimates of
 * several strategies are compared: all nodes on one device where it has kernels, and each node on
 * the device that would finish it first (list scheduling by earliest finish, in the graph's
 * order). */
#include "graph/placement.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/cost_model.h"
#include "graph/offload.h"
#include "inspect/devices.h"
#include "operator/table.h"
#include "operator/work.h"

enum { UNKNOWN_EXTENT = 32 };  /* the extent that a symbol is estimated as */
enum { EARLIEST_FINISH = -1 }; /* a strategy, besides the indices of devices */
/* Why a node was given to its device. */
enum {
  NO_DEVICE,
  ONLY_DEVICE,
  PINNED,
  OFFLOADED,
  OF_HOST,
  ONLY_KERNEL,
  NO_KERNEL,
  PREFERRED,
  EARLIEST,
};
static const char *const reason_texts[] = {"no device was asked for",
                                           "the only device",
                                           "pinned",
                                           "offloaded",
                                           "needs host values",
                                           "only this device has a kernel",
                                           "no kernel on this device: falls back to the CPU",
                                           "preferred device",
                                           "finishes first on this device"};

typedef struct placer_t {
  const tenon_graph_t *graph;
  tn_placement_t *placement;
  bool *is_host; /* of each edge: an @host result, or computed from such values alone */
  tn_device_cost_t device_costs[TN_PLACEMENT_DEVICES_MAX];
  tn_copy_cost_t copy_costs[TN_PLACEMENT_DEVICES_MAX][TN_PLACEMENT_DEVICES_MAX];
  /* while a strategy is tried: when each device has finished its work */
  double free_at[TN_PLACEMENT_DEVICES_MAX];
  /* When a value is available on a device, [edge * device count + device]; below 0: never. */
  double *ready_at;
  uint64_t crossings;
} placer_t;

int32_t tn_placement_index(const tn_placement_t *p, tenon_device_t device) {
  for (int32_t h = 0; h < p->device_count; h++)
    if (p->devices[h].type == device.type && p->devices[h].id == device.id) return h;
  return -1;
}

const char *tn_device_text(tenon_device_t device, char *room, size_t size) {
  const tn_backend_t *backend = tn_backend_of(device);
  if (device.type == 1) return "cpu";
  if (!backend)
    snprintf(room, size, "device %d:%d", (int)device.type, (int)device.id);
  else
    snprintf(room, size, "%s:%d", backend->name, (int)(device.id - backend->device.id));
  return room;
}

/* Pins */

/* '*' in the pattern matches any characters. */
static bool matches_pattern(const char *pattern, const char *name) {
  for (; *pattern && *pattern != '*'; pattern++, name++)
    if (*pattern != *name) return false;
  if (!*pattern) return !*name;
  for (;; name++) {
    if (matches_pattern(pattern + 1, name)) return true;
    if (!*name) return false;
  }
}

static bool matches_node(const char *pattern, const tn_node_t *node) {
  return node->op &&
         (matches_pattern(pattern, node->name) || matches_pattern(pattern, node->op->name));
}

const tenon_pin_t *tn_pin_of(const tenon_compile_t *options, const tn_node_t *node) {
  for (uint32_t i = options->pin_count; i-- > 0;)
    if (options->pins[i].node && matches_node(options->pins[i].node, node))
      return &options->pins[i];
  return NULL;
}

static bool any_pinned(const char *pattern, const tenon_graph_t *graph) {
  for (size_t n = 0; n < graph->node_count; n++)
    if (matches_node(pattern, &graph->nodes[n])) return true;
  return false;
}

static tenon_status_t add_device(tn_placement_t *p, tenon_device_t device) {
  if (tn_placement_index(p, device) >= 0) return TENON_OK;
  if (p->device_count == TN_PLACEMENT_DEVICES_MAX - 1)
    return tn_fail(TENON_INVALID, "too many devices: a graph is placed on at most %d",
                   TN_PLACEMENT_DEVICES_MAX - 1);
  if (!tn_backend_of(device) || device.type == 0)
    return tn_fail(TENON_INVALID,
                   "device (type %d, id %d) does not belong to a backend with compute kernels: "
                   "load its library, or correct the device",
                   (int)device.type, (int)device.id);
  TN_TRY(tn_device_check(tn_backend_of(device)));
  p->devices[p->device_count++] = device;
  return TENON_OK;
}

tenon_status_t tn_pins_check(const tenon_graph_t *graph, const tenon_graph_t *source,
                             const tenon_compile_t *options) {
  for (uint32_t i = 0; i < options->pin_count; i++) {
    const char *node = options->pins[i].node;
    if (!node || !*node)
      return tn_fail(TENON_INVALID,
                     "pin %u names no node: expected the name of a node or an operator", i);
    if (any_pinned(node, graph)) continue;
    return tn_fail(
        TENON_NOT_FOUND, "pin '%s': %s", node,
        any_pinned(node, source)
            ? "the nodes with this name were merged into others when the graph was rewritten: pin "
              "those (the dump 'graph' shows them), or compile the graph with TENON_COMPILE_PLAIN"
            : "no node and no operator of the graph has this name ('*' matches any characters)");
  }
  return TENON_OK;
}

static tenon_status_t read_pins(tn_placement_t *p, const tenon_graph_t *graph,
                                const tenon_graph_t *source, const tenon_compile_t *options) {
  TN_TRY(tn_pins_check(graph, source, options));
  if (options->pin_count && !(p->pins = tn_allocate_zero(options->pin_count, sizeof *p->pins)))
    return tn_no_memory("pins", options->pin_count);
  for (uint32_t i = 0; i < options->pin_count; i++) {
    const tenon_pin_t *pin = &options->pins[i];
    tenon_status_t status = add_device(p, pin->device);
    if (status != TENON_OK) return tn_prefix(status, "pin '%s': ", pin->node);
    if (!(p->pins[i] = tn_copy_text(pin->node, strlen(pin->node))))
      return tn_no_memory("pins", strlen(pin->node));
    p->pin_count++;
    for (size_t n = 0; n < graph->node_count; n++)
      if (matches_node(pin->node, &graph->nodes[n]))
        p->nodes[n].pin = (int32_t)i; /* the last matching pin decides */
  }
  for (size_t n = 0; n < graph->node_count; n++)
    if (p->nodes[n].pin >= 0) {
      p->nodes[n].device_index =
          (uint8_t)tn_placement_index(p, options->pins[p->nodes[n].pin].device);
      p->nodes[n].why = PINNED;
    }
  return TENON_OK;
}

/* Which devices can run a node */

/* Whether a node has to stay on the host as arithmetic on shapes does: all its operands are host
 * values or constants, and at least one is a host value. */
static bool is_of_host(const placer_t *p, const tn_node_t *node) {
  bool has_host = false;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count && !node->op->schema.inputs[i].is_host; k++) {
      int32_t edge = node->operands[i].edges[k];
      if (p->is_host[edge])
        has_host = true;
      else if (!p->graph->edges[edge].constant)
        return false;
    }
  return has_host;
}

static void mark_results(placer_t *p, const tn_node_t *node, bool on_host) {
  int32_t at = 0;
  for (uint32_t o = 0; o < node->op->output_count; o++) {
    int32_t count = 1;
    if (node->op->schema.outputs[o].kind == TENON_KIND_TENSORS)
      count = node->output_count - at - (int32_t)(node->op->output_count - o - 1);
    for (int32_t k = 0; k < count && at < node->output_count; k++)
      p->is_host[node->outputs[at++]] = on_host || node->op->schema.outputs[o].is_host;
  }
}

/* Can the device run the node without a fallback? A view needs no kernel on any device. */
static bool can_run(const placer_t *p, const tn_node_t *node, int32_t device_index) {
  const tenon_op_t *op = node->op;
  if (op->is_view) return true;
  const tn_backend_t *backend = tn_backend_of(p->placement->devices[device_index]);
  const tn_table_entry_t *entry = backend->bit == TN_BIT_OTHERS
                                      ? tn_table_others(op, backend)
                                      : tn_table_entry(op, TN_KEY(backend->bit));
  if (entry->resolved == TN_RESOLVED_MISSING || entry->resolved == TN_RESOLVED_DENIED ||
      entry->resolved == TN_RESOLVED_FALLBACK)
    return false;
  if (!entry->by_dtype || op->dispatch_input < 0 || !node->operands[op->dispatch_input].count)
    return true;
  int dtype = tn_dtype_index(p->graph->edges[node->operands[op->dispatch_input].edges[0]].dtype);
  return dtype < 0 || (entry->by_dtype[dtype] && entry->by_dtype[dtype][0]);
}

/* Estimates */

static double estimated_extent(const tenon_graph_t *g, tenon_dim_t dim) {
  tenon_dim_t known = tn_extents_resolve(g->extents, dim);
  return tenon_is_known(known) ? (double)known.value : UNKNOWN_EXTENT;
}

/* The size of an edge; an unknown dtype counts as f32. */
static tn_size_t size_of_edge(const tenon_graph_t *g, int32_t edge) {
  const tn_edge_t *of = &g->edges[edge];
  tn_size_t size = tn_size_of_scalar(of->dtype.bits ? of->dtype : tenon_dtype(TENON_F32));
  for (int32_t d = 0; d < of->ndim; d++)
    tn_size_add_axis(&size, estimated_extent(g, of->dims[d]));
  return size;
}

/* Adds an edge to the size of an argument or result, which may be a list. */
static void add_edge(const tenon_graph_t *g, int32_t edge, tn_size_t *sum) {
  const tn_size_t size = size_of_edge(g, edge);
  if (sum->element > 0)
    sum->count += tn_size_bytes(&size) / sum->element;
  else
    *sum = size;
}

static tn_work_t work_of_node(const tenon_graph_t *g, const tn_node_t *node) {
  enum { MOST = 128 }; /* a schema has at most 64 inputs and 64 outputs */
  const int32_t inputs = (int32_t)node->op->input_count;
  const int32_t outputs = (int32_t)node->op->output_count;
  tn_size_t sizes[MOST] = {{0}};
  for (int32_t i = 0; i < inputs; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      add_edge(g, node->operands[i].edges[k], &sizes[i]);
  for (int32_t o = 0; o < node->output_count && outputs > 0; o++)
    add_edge(g, node->outputs[o], &sizes[inputs + (o < outputs ? o : outputs - 1)]);
  return tn_work_of(node->op, sizes);
}

static double seconds_of(const placer_t *p, const tn_node_t *node, int32_t device_index) {
  const tn_device_cost_t *cost = &p->device_costs[device_index];
  const tn_work_t work = work_of_node(p->graph, node);
  const double memory = work.bytes / cost->bytes;
  const double arithmetic = work.operations / cost->flops;
  return cost->call + (memory > arithmetic ? memory : arithmetic);
}

static double *ready_times(const placer_t *p, int32_t edge) {
  return p->ready_at + (size_t)edge * (size_t)p->placement->device_count;
}

/* When a value can be available on a device. 0 for constants, which are copied before the run.
 * out_crosses: the value has to be copied there. */
static double arrival_of(const placer_t *p, int32_t edge, int32_t device_index, bool *out_crosses) {
  const double *at = ready_times(p, edge);
  const tn_size_t size = size_of_edge(p->graph, edge);
  double best = 1e18;
  *out_crosses = false;
  if (p->graph->edges[edge].constant) return 0;
  if (at[device_index] >= 0) return at[device_index];
  *out_crosses = true;
  for (int32_t h = 0; h < p->placement->device_count; h++) {
    const tn_copy_cost_t *copy = &p->copy_costs[h][device_index];
    double there =
        at[h] + copy->latency + tn_size_bytes(&size) / (copy->bytes > 0 ? copy->bytes : 1e9);
    if (at[h] >= 0 && there < best) best = there;
  }
  return best < 1e18 ? best : 0; /* no node made it: an absent optional result */
}

static double arrival_of_inputs(const placer_t *p, const tn_node_t *node, int32_t device_index) {
  double last = 0;
  bool crosses;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t to = node->op->schema.inputs[i].is_host ? p->placement->host : device_index;
      double at = arrival_of(p, node->operands[i].edges[k], to, &crosses);
      if (at > last) last = at;
    }
  return last;
}

/* Runs the node on a device in the estimate: its inputs are copied, once to each device, and its
 * results become available there. */
static void commit_node(placer_t *p, const tn_node_t *node, int32_t device_index) {
  double begin = arrival_of_inputs(p, node, device_index);
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t to = node->op->schema.inputs[i].is_host ? p->placement->host : device_index;
      int32_t edge = node->operands[i].edges[k];
      bool crosses;
      double at = arrival_of(p, edge, to, &crosses);
      if (!crosses) continue;
      ready_times(p, edge)[to] = at;
      p->crossings++;
    }
  if (p->free_at[device_index] > begin) begin = p->free_at[device_index];
  double end = begin + seconds_of(p, node, device_index);
  p->free_at[device_index] = end;
  for (int32_t o = 0; o < node->output_count; o++) {
    int32_t edge = node->outputs[o];
    ready_times(p, edge)[p->is_host[edge] ? p->placement->host : device_index] = end;
  }
}

/* Strategies */

static void choose_device(placer_t *p, size_t n, int32_t strategy, tn_choice_t *choice) {
  const tn_placement_t *placement = p->placement;
  const tn_node_t *node = &p->graph->nodes[n];
  int32_t able[TN_PLACEMENT_DEVICES_MAX];
  int32_t count = 0;
  *choice = placement->nodes[n];
  if (choice->pin >= 0 || node->group) return;
  if (is_of_host(p, node)) {
    choice->device_index = (uint8_t)placement->host;
    choice->why = OF_HOST;
    return;
  }
  for (int32_t h = 0; h < placement->candidate_count; h++)
    if (can_run(p, node, h)) able[count++] = h;
  int32_t best = count ? able[0] : 0;
  if (!count)
    choice->why = NO_KERNEL;
  else if (count == 1)
    choice->why = ONLY_KERNEL;
  else
    choice->why = strategy == EARLIEST_FINISH ? EARLIEST : PREFERRED;
  double first = 1e18;
  for (int32_t i = 0; i < count; i++) {
    if (strategy >= 0 && able[i] == strategy) best = strategy;
    if (strategy != EARLIEST_FINISH) continue;
    double begin = arrival_of_inputs(p, node, able[i]);
    if (p->free_at[able[i]] > begin) begin = p->free_at[able[i]];
    double end = begin + seconds_of(p, node, able[i]);
    if (end < first) {
      first = end;
      best = able[i];
    }
  }
  choice->device_index = (uint8_t)best;
}

/* Estimates one strategy: the time until all outputs are on the host. Writes the decisions to
 * `choices` unless it is NULL. */
static double estimate_strategy(placer_t *p, int32_t strategy, tn_choice_t *choices) {
  const tenon_graph_t *g = p->graph;
  size_t device_count = (size_t)p->placement->device_count;
  double last = 0;
  bool crosses;
  p->crossings = 0;
  memset(p->free_at, 0, sizeof p->free_at);
  for (size_t i = 0; i < g->edge_count * device_count; i++)
    p->ready_at[i] = -1;
  for (size_t i = 0; i < g->input_count; i++)
    ready_times(p, g->inputs[i])[p->placement->host] = 0;
  for (size_t n = 0; n < g->node_count; n++) {
    tn_choice_t choice;
    choose_device(p, n, strategy, &choice);
    choice.seconds = seconds_of(p, &g->nodes[n], choice.device_index);
    commit_node(p, &g->nodes[n], choice.device_index);
    if (choices) choices[n] = choice;
  }
  for (size_t i = 0; i < g->output_count; i++) {
    double at = arrival_of(p, g->outputs[i], p->placement->host, &crosses);
    p->crossings += crosses;
    if (at > last) last = at;
  }
  return last;
}

static tenon_status_t measure_costs(placer_t *p) {
  const tn_placement_t *placement = p->placement;
  for (int32_t i = 0; i < placement->device_count; i++) {
    TN_TRY(tn_device_cost_measure(placement->devices[i], &p->device_costs[i]));
    for (int32_t k = 0; k < placement->device_count; k++)
      if (i != k)
        TN_TRY(tn_copy_cost_measure(placement->devices[i], placement->devices[k],
                                    &p->copy_costs[i][k]));
  }
  return TENON_OK;
}

static void choose_best(placer_t *p) {
  static const char *const single = "all on one device where it has kernels";
  tn_placement_t *placement = p->placement;
  int32_t best = 0;
  for (int32_t h = 0; h < placement->candidate_count; h++) {
    placement->seconds[h] = estimate_strategy(p, h, NULL);
    if (placement->seconds[h] < placement->seconds[best]) best = h;
  }
  placement->seconds[TN_PLACEMENT_DEVICES_MAX] = estimate_strategy(p, EARLIEST_FINISH, NULL);
  /* a small advantage is not worth the additional copies */
  bool is_earliest = placement->seconds[TN_PLACEMENT_DEVICES_MAX] < 0.98 * placement->seconds[best];
  placement->by = is_earliest ? "each node where it finishes first" : single;
  (void)estimate_strategy(p, is_earliest ? EARLIEST_FINISH : best, placement->nodes);
  placement->crossings = p->crossings;
}

/* With one device, or none, no estimate is needed. */
static void choose_only(placer_t *p) {
  const bool has_device = p->placement->candidate_count > 0;
  p->placement->by = has_device ? "one device" : "the CPU, except for pins";
  for (size_t n = 0; n < p->graph->node_count; n++) {
    tn_choice_t *choice = &p->placement->nodes[n];
    if (choice->pin >= 0 || p->graph->nodes[n].group) continue;
    bool of_host = is_of_host(p, &p->graph->nodes[n]);
    choice->device_index = (uint8_t)(of_host || !has_device ? p->placement->host : 0);
    if (of_host)
      choice->why = OF_HOST;
    else if (!has_device)
      choice->why = NO_DEVICE;
    else
      choice->why = can_run(p, &p->graph->nodes[n], 0) ? ONLY_DEVICE : NO_KERNEL;
  }
}

/* Called after the pins, which offloads respect. */
static void place_offloads(tn_placement_t *placement, const tenon_graph_t *graph,
                           const tn_offload_t *offloads) {
  for (size_t n = 0; n < graph->node_count; n++) {
    if (!graph->nodes[n].group) continue;
    placement->nodes[n].device_index =
        (uint8_t)tn_placement_index(placement, offloads[graph->nodes[n].group - 1].group->device);
    placement->nodes[n].why = OFFLOADED;
  }
}

tenon_status_t tn_placement_create(const tenon_graph_t *graph, const tenon_graph_t *source,
                                   const tenon_compile_t *options, const tn_offload_t *offloads,
                                   tn_placement_t *placement) {
  static const tenon_device_t cpu = {1, 0};
  placer_t p = {.graph = graph, .placement = placement};
  *placement = (tn_placement_t){.host = -1};
  if (!(placement->nodes = tn_allocate_zero(graph->node_count + 1, sizeof *placement->nodes)) ||
      !(p.is_host = tn_allocate_zero(graph->edge_count + 1, sizeof *p.is_host)))
    return tn_no_memory("a placement", graph->node_count * sizeof *placement->nodes);
  for (size_t n = 0; n < graph->node_count; n++)
    placement->nodes[n].pin = -1;
  tenon_status_t status = TENON_OK;
  if (options->device.type) status = add_device(placement, options->device);
  for (uint32_t i = 0; i < options->device_count && status == TENON_OK; i++)
    status = add_device(placement, options->devices[i]);
  placement->candidate_count = placement->device_count;
  if (status == TENON_OK) status = read_pins(placement, graph, source, options);
  if (status == TENON_OK) place_offloads(placement, graph, offloads);
  if (status == TENON_OK && (placement->host = tn_placement_index(placement, cpu)) < 0) {
    placement->host = placement->device_count++;
    placement->devices[placement->host] = cpu;
  }
  for (size_t n = 0; n < graph->node_count && status == TENON_OK; n++) {
    bool stays = (placement->nodes[n].pin < 0 && !graph->nodes[n].group) ||
                 placement->nodes[n].device_index == placement->host;
    mark_results(&p, &graph->nodes[n], stays && is_of_host(&p, &graph->nodes[n]));
  }
  if (status == TENON_OK && placement->candidate_count > 1) {
    size_t count = graph->edge_count * (size_t)placement->device_count;
    if (!(p.ready_at = tn_allocate(count * sizeof *p.ready_at + 1)))
      status = tn_no_memory("a placement", count);
    if (status == TENON_OK) status = measure_costs(&p);
    if (status == TENON_OK) choose_best(&p);
  } else if (status == TENON_OK) {
    choose_only(&p);
  }
  tn_release_memory(p.is_host);
  tn_release_memory(p.ready_at);
  return status;
}

bool tn_placement_is_of_host(const tn_placement_t *placement, const tenon_graph_t *graph) {
  for (size_t n = 0; n < graph->node_count; n++)
    if (placement->nodes[n].device_index != placement->host) return false;
  return true;
}

void tn_placement_clear(tn_placement_t *placement) {
  for (int32_t i = 0; i < placement->pin_count; i++)
    tn_release_memory(placement->pins[i]);
  tn_release_memory(placement->pins);
  tn_release_memory(placement->nodes);
  *placement = (tn_placement_t){0};
}

/* The report */

static void print_time(double seconds, tn_text_t *text) {
  if (seconds < 1e-3)
    tn_text_add(text, "%.1f us", seconds * 1e6);
  else
    tn_text_add(text, "%.2f ms", seconds * 1e3);
}

static void print_estimates(const tn_placement_t *p, tn_text_t *text) {
  char room[300];
  tn_text_add(text, "placement: %s", p->by);
  const char *separator = "\nestimated: ";
  for (int32_t h = 0; h < p->candidate_count && p->seconds[TN_PLACEMENT_DEVICES_MAX] > 0;
       h++, separator = ", ") {
    tn_text_add(text, "%sall on %s ", separator, tn_device_text(p->devices[h], room, sizeof room));
    print_time(p->seconds[h], text);
  }
  if (p->seconds[TN_PLACEMENT_DEVICES_MAX] > 0) {
    tn_text_add(text, "%seach where it finishes first ", separator);
    print_time(p->seconds[TN_PLACEMENT_DEVICES_MAX], text);
    tn_text_add(text, "; %llu copies of values", (unsigned long long)p->crossings);
  }
  tn_text_add(text, "\n");
}

void tn_placement_print(const tn_placement_t *p, const tenon_graph_t *graph, tn_text_t *text) {
  char room[300];
  int32_t counts[TN_PLACEMENT_DEVICES_MAX] = {0};
  int32_t wide = 4;
  int32_t kind = 8;
  for (size_t n = 0; n < graph->node_count; n++) {
    int32_t name = (int32_t)strlen(graph->nodes[n].name);
    int32_t op = (int32_t)strlen(graph->nodes[n].op->name);
    if (name > wide) wide = name < 48 ? name : 48;
    if (op > kind) kind = op < 32 ? op : 32;
    counts[p->nodes[n].device_index]++;
  }
  print_estimates(p, text);
  for (int32_t h = 0; h < p->device_count; h++)
    tn_text_add(text, "%s%s: %d nodes", h ? ", " : "",
                tn_device_text(p->devices[h], room, sizeof room), (int)counts[h]);
  tn_text_add(text, "\n%-*s  %-*s  %-12s why\n", (int)wide, "node", (int)kind, "operator",
              "device");
  for (size_t n = 0; n < graph->node_count; n++) {
    const tn_choice_t *choice = &p->nodes[n];
    tn_text_add(text, "%-*s  %-*s  %-12s %s", (int)wide, graph->nodes[n].name, (int)kind,
                graph->nodes[n].op->name,
                tn_device_text(p->devices[choice->device_index], room, sizeof room),
                reason_texts[choice->why]);
    if (choice->pin >= 0) tn_text_add(text, " by '%s'", p->pins[choice->pin]);
    if (choice->seconds > 0) {
      tn_text_add(text, ", ");
      print_time(choice->seconds, text);
    }
    tn_text_add(text, "\n");
  }
}
