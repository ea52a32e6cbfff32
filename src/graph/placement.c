/* Choosing a device for each node.  With one device beside the host all nodes go there, and what
 * has no kernel falls back call by call.  With several, estimates of a few ways are compared: all
 * on one device as far as it has kernels, and each node where it would be done first (list
 * scheduling by earliest finish, in the graph's order). */
#include "graph/placement.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/group.h"
#include "graph/rates.h"
#include "operator/table.h"

enum { UNKNOWN_EXTENT = 32 };  /* what a symbol counts as */
enum { EARLIEST_FINISH = -1 }; /* a way of choosing, beside the homes */
enum {
  ONLY_DEVICE,
  PINNED,
  CLAIMED,
  OF_HOST,
  ONLY_KERNEL,
  NO_KERNEL,
  PREFERRED,
  EARLIEST,
};
static const char *const reasons[] = {"the only device",
                                      "pinned",
                                      "claimed",
                                      "reckons with values of the host",
                                      "no other device has a kernel",
                                      "no kernel there: falls back to the CPU",
                                      "preferred",
                                      "done first there"};

typedef struct placer_t {
  const tenon_graph_t *graph;
  tn_placement_t *placement;
  bool *is_host; /* of edges: made as an @host result, or of such alone */
  tn_rate_t rates[TN_HOMES_MOST];
  tn_link_t links[TN_HOMES_MOST][TN_HOMES_MOST];
  double free_at[TN_HOMES_MOST]; /* while a way is tried: when a home has done what it was given */
  double *ready; /* when a value is there: edge * homes + home; below 0: it is not */
  uint64_t crossings;
} placer_t;

int32_t tn_home_of(const tn_placement_t *p, tenon_device_t device) {
  for (int32_t h = 0; h < p->home_count; h++)
    if (p->homes[h].type == device.type && p->homes[h].id == device.id) return h;
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

/* pins */

static bool matches(const char *pattern, const char *name) { /* '*': any characters */
  for (; *pattern && *pattern != '*'; pattern++, name++)
    if (*pattern != *name) return false;
  if (!*pattern) return !*name;
  for (;; name++) {
    if (matches(pattern + 1, name)) return true;
    if (!*name) return false;
  }
}

static bool is_pinned(const char *pattern, const tn_node_t *node) {
  return node->op && (matches(pattern, node->name) || matches(pattern, node->op->name));
}

const tenon_pin_t *tn_pin_of(const tenon_compile_t *options, const tn_node_t *node) {
  for (uint32_t i = options->pin_count; i-- > 0;)
    if (options->pins[i].node && is_pinned(options->pins[i].node, node)) return &options->pins[i];
  return NULL;
}

static bool any_pinned(const char *pattern, const tenon_graph_t *graph) {
  for (size_t n = 0; n < graph->node_count; n++)
    if (is_pinned(pattern, &graph->nodes[n])) return true;
  return false;
}

static tenon_status_t add_home(tn_placement_t *p, tenon_device_t device) {
  if (tn_home_of(p, device) >= 0) return TENON_OK;
  if (p->home_count == TN_HOMES_MOST - 1)
    return tn_fail(TENON_INVALID, "a graph is placed on %d devices at most", TN_HOMES_MOST - 1);
  if (!tn_backend_of(device) || device.type == 0)
    return tn_fail(TENON_INVALID, "device (type %d, id %d) belongs to no backend that computes",
                   (int)device.type, (int)device.id);
  p->homes[p->home_count++] = device;
  return TENON_OK;
}

tenon_status_t tn_pins_check(const tenon_graph_t *graph, const tenon_graph_t *source,
                             const tenon_compile_t *options) {
  for (uint32_t i = 0; i < options->pin_count; i++) {
    const char *node = options->pins[i].node;
    if (!node || !*node) return tn_fail(TENON_INVALID, "pin %u names no node", i);
    if (any_pinned(node, graph)) continue;
    return tn_fail(
        TENON_NOT_FOUND, "pin '%s': %s", node,
        any_pinned(node, source)
            ? "such nodes became part of others when the graph was rewritten: pin those (the dump "
              "'graph' shows them), or compile it plain"
            : "no node and no operator of the graph has that name ('*' stands for any characters)");
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
    tenon_status_t status = add_home(p, pin->device);
    if (status != TENON_OK) return tn_prefix(status, "pin '%s': ", pin->node);
    if (!(p->pins[i] = tn_copy_text(pin->node, strlen(pin->node))))
      return tn_no_memory("pins", strlen(pin->node));
    p->pin_count++;
    for (size_t n = 0; n < graph->node_count; n++)
      if (is_pinned(pin->node, &graph->nodes[n]))
        p->nodes[n].pin = (int32_t)i; /* the last one counts */
  }
  for (size_t n = 0; n < graph->node_count; n++)
    if (p->nodes[n].pin >= 0) {
      p->nodes[n].home = (uint8_t)tn_home_of(p, options->pins[p->nodes[n].pin].device);
      p->nodes[n].why = PINNED;
    }
  return TENON_OK;
}

/* what may run where */

/* Arithmetic on shapes stays on the host: nodes whose operands are values of the host, and
 * constants beside them. */
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

static bool has_kernel(const placer_t *p, const tn_node_t *node, int32_t home) {
  const tenon_op_t *op = node->op;
  const tn_backend_t *backend = tn_backend_of(p->placement->homes[home]);
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

/* estimates */

static double extent(const tenon_graph_t *g, tenon_dim_t dim) {
  tenon_dim_t known = tn_extents_resolve(g->extents, dim);
  return tenon_is_known(known) ? (double)known.value : UNKNOWN_EXTENT;
}

static double elements(const tenon_graph_t *g, int32_t edge) {
  double count = 1;
  for (int32_t d = 0; d < g->edges[edge].ndim; d++)
    count *= extent(g, g->edges[edge].dims[d]);
  return count;
}

static double bytes_of(const tenon_graph_t *g, int32_t edge) {
  const tenon_dtype_t dtype = g->edges[edge].dtype;
  return elements(g, edge) * (dtype.bits ? dtype.bits * dtype.lanes / 8.0 : 4);
}

/* Multiplications and additions: of products and convolutions, by what each element of the result
 * is a sum of. */
static double flops_of(const tenon_graph_t *g, const tn_node_t *node) {
  const char *name = node->op->name;
  bool is_product = strstr(name, "matmul") || strstr(name, "gemm");
  bool is_conv = strstr(name, "conv") != NULL;
  if ((!is_product && !is_conv) || node->op->input_count < 2 || !node->operands[0].count ||
      !node->operands[1].count || !node->output_count)
    return 0;
  int32_t x = node->operands[0].edges[0];
  int32_t w = node->operands[1].edges[0];
  const tn_edge_t *of = &g->edges[is_product ? x : w];
  if (of->ndim < 1) return 0;
  double terms =
      is_product ? extent(g, of->dims[of->ndim - 1]) : elements(g, w) / extent(g, of->dims[0]);
  return 2 * elements(g, node->outputs[0]) * terms;
}

static double seconds_of(const placer_t *p, const tn_node_t *node, int32_t home) {
  const tn_rate_t *rate = &p->rates[home];
  double bytes = 0;
  double flops = flops_of(p->graph, node);
  if (node->op->is_view) return rate->call;
  for (uint32_t i = strstr(node->op->name, "gather") != NULL; i < node->op->input_count;
       i++) /* of tables few rows */
    for (int32_t k = 0; k < node->operands[i].count; k++)
      bytes += bytes_of(p->graph, node->operands[i].edges[k]);
  for (int32_t o = 0; o < node->output_count; o++)
    bytes += bytes_of(p->graph, node->outputs[o]);
  double memory = bytes / rate->bytes;
  double work = flops / rate->flops;
  return rate->call + (memory > work ? memory : work);
}

static double *ready(const placer_t *p, int32_t edge) {
  return p->ready + (size_t)edge * (size_t)p->placement->home_count;
}

/* When a value can be on a home; 0 of constants, which are there before.  out_crosses: it has to be
 * copied. */
static double arrives(const placer_t *p, int32_t edge, int32_t home, bool *out_crosses) {
  const double *at = ready(p, edge);
  double best = 1e18;
  *out_crosses = false;
  if (p->graph->edges[edge].constant) return 0;
  if (at[home] >= 0) return at[home];
  *out_crosses = true;
  for (int32_t h = 0; h < p->placement->home_count; h++) {
    const tn_link_t *link = &p->links[h][home];
    double there =
        at[h] + link->latency + bytes_of(p->graph, edge) / (link->bytes > 0 ? link->bytes : 1e9);
    if (at[h] >= 0 && there < best) best = there;
  }
  return best < 1e18 ? best : 0; /* nothing made it: an optional result */
}

static double inputs_arrive(const placer_t *p, const tn_node_t *node, int32_t home) {
  double last = 0;
  bool crosses;
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t to = node->op->schema.inputs[i].is_host ? p->placement->host : home;
      double at = arrives(p, node->operands[i].edges[k], to, &crosses);
      if (at > last) last = at;
    }
  return last;
}

/* The node runs there: its inputs are copied, once for each home, and its results are there
 * afterwards. */
static void commit(placer_t *p, const tn_node_t *node, int32_t home) {
  double begin = inputs_arrive(p, node, home);
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++) {
      int32_t to = node->op->schema.inputs[i].is_host ? p->placement->host : home;
      int32_t edge = node->operands[i].edges[k];
      bool crosses;
      double at = arrives(p, edge, to, &crosses);
      if (!crosses) continue;
      ready(p, edge)[to] = at;
      p->crossings++;
    }
  if (p->free_at[home] > begin) begin = p->free_at[home];
  double end = begin + seconds_of(p, node, home);
  p->free_at[home] = end;
  for (int32_t o = 0; o < node->output_count; o++)
    ready(p, node->outputs[o])[p->is_host[node->outputs[o]] ? p->placement->host : home] = end;
}

/* ways of choosing */

static void choose(placer_t *p, size_t n, int32_t way, tn_choice_t *choice) {
  const tn_placement_t *place = p->placement;
  const tn_node_t *node = &p->graph->nodes[n];
  int32_t able[TN_HOMES_MOST];
  int32_t count = 0;
  *choice = place->nodes[n];
  if (choice->pin >= 0 || node->group) return;
  if (is_of_host(p, node)) {
    choice->home = (uint8_t)place->host;
    choice->why = OF_HOST;
    return;
  }
  for (int32_t h = 0; h < place->candidate_count; h++)
    if (has_kernel(p, node, h)) able[count++] = h;
  int32_t best = count ? able[0] : 0;
  choice->why = !count                   ? NO_KERNEL
                : count == 1             ? ONLY_KERNEL
                : way == EARLIEST_FINISH ? EARLIEST
                                         : PREFERRED;
  double first = 1e18;
  for (int32_t i = 0; i < count; i++) {
    if (way >= 0 && able[i] == way) best = way;
    if (way != EARLIEST_FINISH) continue;
    double begin = inputs_arrive(p, node, able[i]);
    if (p->free_at[able[i]] > begin) begin = p->free_at[able[i]];
    double end = begin + seconds_of(p, node, able[i]);
    if (end < first) {
      first = end;
      best = able[i];
    }
  }
  choice->home = (uint8_t)best;
}

/* Goes over the graph; gives the estimate, outputs on the host, and the choices if they are
 * wanted. */
static double attempt(placer_t *p, int32_t way, tn_choice_t *choices) {
  const tenon_graph_t *g = p->graph;
  size_t homes = (size_t)p->placement->home_count;
  double last = 0;
  bool crosses;
  p->crossings = 0;
  memset(p->free_at, 0, sizeof p->free_at);
  for (size_t i = 0; i < g->edge_count * homes; i++)
    p->ready[i] = -1;
  for (size_t i = 0; i < g->input_count; i++)
    ready(p, g->inputs[i])[p->placement->host] = 0;
  for (size_t n = 0; n < g->node_count; n++) {
    tn_choice_t choice;
    choose(p, n, way, &choice);
    choice.seconds = seconds_of(p, &g->nodes[n], choice.home);
    commit(p, &g->nodes[n], choice.home);
    if (choices) choices[n] = choice;
  }
  for (size_t i = 0; i < g->output_count; i++) {
    double at = arrives(p, g->outputs[i], p->placement->host, &crosses);
    p->crossings += crosses;
    if (at > last) last = at;
  }
  return last;
}

static tenon_status_t measure(placer_t *p) {
  const tn_placement_t *place = p->placement;
  for (int32_t i = 0; i < place->home_count; i++) {
    TN_TRY(tn_rate_measure(place->homes[i], &p->rates[i]));
    for (int32_t k = 0; k < place->home_count; k++)
      if (i != k) TN_TRY(tn_link_measure(place->homes[i], place->homes[k], &p->links[i][k]));
  }
  return TENON_OK;
}

static void choose_best(placer_t *p) {
  static const char *const single = "all on one device, as far as it has kernels";
  tn_placement_t *place = p->placement;
  int32_t best = 0;
  for (int32_t h = 0; h < place->candidate_count; h++) {
    place->seconds[h] = attempt(p, h, NULL);
    if (place->seconds[h] < place->seconds[best]) best = h;
  }
  place->seconds[TN_HOMES_MOST] = attempt(p, EARLIEST_FINISH, NULL);
  bool is_earliest =
      place->seconds[TN_HOMES_MOST] < 0.98 * place->seconds[best]; /* else the simpler way */
  place->by = is_earliest ? "each node where it is done first" : single;
  (void)attempt(p, is_earliest ? EARLIEST_FINISH : best, place->nodes);
  place->crossings = p->crossings;
}

static void choose_only(placer_t *p) { /* one device: no estimate is needed */
  p->placement->by = "one device";
  for (size_t n = 0; n < p->graph->node_count; n++) {
    tn_choice_t *choice = &p->placement->nodes[n];
    if (choice->pin >= 0 || p->graph->nodes[n].group) continue;
    bool of_host = is_of_host(p, &p->graph->nodes[n]);
    choice->home = (uint8_t)(of_host ? p->placement->host : 0);
    choice->why = of_host                                 ? OF_HOST
                  : has_kernel(p, &p->graph->nodes[n], 0) ? ONLY_DEVICE
                                                          : NO_KERNEL;
  }
}

/* After pins, which claims keep to. */
static void place_groups(tn_placement_t *place, const tenon_graph_t *graph,
                         const tn_claim_t *claims) {
  for (size_t n = 0; n < graph->node_count; n++) {
    if (!graph->nodes[n].group) continue;
    place->nodes[n].home =
        (uint8_t)tn_home_of(place, claims[graph->nodes[n].group - 1].group->device);
    place->nodes[n].why = CLAIMED;
  }
}

tenon_status_t tn_place_graph(const tenon_graph_t *graph, const tenon_graph_t *source,
                              const tenon_compile_t *options, const tn_claim_t *claims,
                              tn_placement_t *place) {
  static const tenon_device_t cpu = {1, 0};
  placer_t p = {.graph = graph, .placement = place};
  *place = (tn_placement_t){.host = -1};
  if (!(place->nodes = tn_allocate_zero(graph->node_count + 1, sizeof *place->nodes)) ||
      !(p.is_host = tn_allocate_zero(graph->edge_count + 1, sizeof *p.is_host)))
    return tn_no_memory("a placement", graph->node_count * sizeof *place->nodes);
  for (size_t n = 0; n < graph->node_count; n++)
    place->nodes[n].pin = -1;
  tenon_status_t status = TENON_OK;
  if (options->device.type) status = add_home(place, options->device);
  for (uint32_t i = 0; i < options->device_count && status == TENON_OK; i++)
    status = add_home(place, options->devices[i]);
  place->candidate_count = place->home_count;
  if (status == TENON_OK) status = read_pins(place, graph, source, options);
  if (status == TENON_OK) place_groups(place, graph, claims);
  if (status == TENON_OK && (place->host = tn_home_of(place, cpu)) < 0)
    place->homes[place->host = place->home_count++] = cpu;
  for (size_t n = 0; n < graph->node_count && status == TENON_OK; n++) {
    bool stays =
        (place->nodes[n].pin < 0 && !graph->nodes[n].group) || place->nodes[n].home == place->host;
    mark_results(&p, &graph->nodes[n], stays && is_of_host(&p, &graph->nodes[n]));
  }
  if (status == TENON_OK && place->candidate_count > 1) {
    size_t count = graph->edge_count * (size_t)place->home_count;
    if (!(p.ready = tn_allocate(count * sizeof *p.ready + 1)))
      status = tn_no_memory("a placement", count);
    if (status == TENON_OK) status = measure(&p);
    if (status == TENON_OK) choose_best(&p);
  } else if (status == TENON_OK) {
    choose_only(&p);
  }
  tn_release_memory(p.is_host);
  tn_release_memory(p.ready);
  return status;
}

bool tn_placement_is_of_host(const tn_placement_t *place, const tenon_graph_t *graph) {
  for (size_t n = 0; n < graph->node_count; n++)
    if (place->nodes[n].home != place->host) return false;
  return true;
}

void tn_placement_clear(tn_placement_t *place) {
  for (int32_t i = 0; i < place->pin_count; i++)
    tn_release_memory(place->pins[i]);
  tn_release_memory(place->pins);
  tn_release_memory(place->nodes);
  *place = (tn_placement_t){0};
}

/* the report */

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
  for (int32_t h = 0; h < p->candidate_count && p->seconds[TN_HOMES_MOST] > 0;
       h++, separator = ", ") {
    tn_text_add(text, "%sall on %s ", separator, tn_device_text(p->homes[h], room, sizeof room));
    print_time(p->seconds[h], text);
  }
  if (p->seconds[TN_HOMES_MOST] > 0) {
    tn_text_add(text, "%seach where it is done first ", separator);
    print_time(p->seconds[TN_HOMES_MOST], text);
    tn_text_add(text, "; %llu copies of values", (unsigned long long)p->crossings);
  }
  tn_text_add(text, "\n");
}

void tn_placement_print(const tn_placement_t *p, const tenon_graph_t *graph, tn_text_t *text) {
  char room[300];
  int32_t counts[TN_HOMES_MOST] = {0};
  int32_t wide = 4;
  int32_t kind = 8;
  for (size_t n = 0; n < graph->node_count; n++) {
    int32_t name = (int32_t)strlen(graph->nodes[n].name);
    int32_t op = (int32_t)strlen(graph->nodes[n].op->name);
    if (name > wide) wide = name < 48 ? name : 48;
    if (op > kind) kind = op < 32 ? op : 32;
    counts[p->nodes[n].home]++;
  }
  print_estimates(p, text);
  for (int32_t h = 0; h < p->home_count; h++)
    tn_text_add(text, "%s%s: %d nodes", h ? ", " : "",
                tn_device_text(p->homes[h], room, sizeof room), (int)counts[h]);
  tn_text_add(text, "\n%-*s  %-*s  %-12s why\n", (int)wide, "node", (int)kind, "operator",
              "device");
  for (size_t n = 0; n < graph->node_count; n++) {
    const tn_choice_t *choice = &p->nodes[n];
    tn_text_add(text, "%-*s  %-*s  %-12s %s", (int)wide, graph->nodes[n].name, (int)kind,
                graph->nodes[n].op->name, tn_device_text(p->homes[choice->home], room, sizeof room),
                reasons[choice->why]);
    if (choice->pin >= 0) tn_text_add(text, " by '%s'", p->pins[choice->pin]);
    if (choice->seconds > 0) {
      tn_text_add(text, ", ");
      print_time(choice->seconds, text);
    }
    tn_text_add(text, "\n");
  }
}
