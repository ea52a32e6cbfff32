/* Finds regions on devices, see device_region.h, in the order of region.c: a node joins the region
 * of an earlier one if everything that it reads is there by then. Nodes take the place of calls
 * there, since nothing is planned for devices. Invariant: a value that only a region reads is never
 * in memory. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/extent.h"
#include "device/plugin.h"
#include "dispatch/launch.h"
#include "graph/device_region.h"
#include "graph/launch_record.h"
#include "operator/kernel.h"
#include "operator/key.h"
#include "operator/table.h"

enum {
  MOST_MEMBERS = 64,
  WINDOW = 128, /* nodes that are looked at for a region, from its first one */
  MOST_OPERANDS = 16,
};

/* How a node can be a member. */
typedef struct form_t {
  const char *reason; /* why it can be in no region, as a predicate; NULL: it can */
  const tn_kernel_t *kernel;
  tn_fused_member_t member; /* values are positions among its operands */
  int32_t result;           /* the edge of a result */
} form_t;

typedef struct maker_t {
  tenon_executable_t *executable;
  const tenon_graph_t *graph;
  tn_arena_t *memory;
  form_t *forms;      /* of each node */
  int32_t *region_of; /* of each node: the first node of its region; -1: it is in none */
  int32_t members[MOST_MEMBERS];
  int32_t count;
  int32_t *reads; /* for each edge: how often the region's members read it */
  int32_t *uses;  /* for each edge: how often anything reads it */
  int32_t next;   /* the first node that reads the region's values and is no member; -1: none */
  const char *reason;
} maker_t;

/* The form of a node */

static const tn_table_entry_t *entry_on(const tenon_op_t *op, tenon_device_t device) {
  const tn_backend_t *backend = tn_backend_of(device);
  if (!backend) return NULL;
  return backend->bit == TN_BIT_OTHERS ? tn_table_others(op, backend)
                                       : tn_table_entry(op, TN_KEY(backend->bit));
}

static const char *refuse_node(const maker_t *m, const tn_node_t *node) {
  const tenon_op_t *op = node->op;
  if (!(op->traits & TENON_POINTWISE) || op->traits & TENON_RANDOM) return "is not pointwise";
  if (node->group) return "is part of an offloaded subgraph";
  if (op->input_count + op->output_count > MOST_OPERANDS) return "has more than 16 operands";
  if (__atomic_load_n(&op->needs_workspace, __ATOMIC_RELAXED)) return "needs a workspace";
  if (tn_op_written(op, 0) >= 0) return "writes to an input";
  const bool is_builtin = strcmp(op->library->name, "core") == 0;
  if (op->input_count > 1 && !is_builtin && (op->shapes.text || op->infer))
    return "states shapes of its own";
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tn_argument_t *input = &op->schema.inputs[i];
    if (input->is_written) return "writes to an input";
    if (input->kind == TENON_KIND_TENSORS) return "takes a list";
    if (input->is_host && node->operands[i].count) return "reads a value of the host";
  }
  for (uint32_t o = 0; o < op->output_count; o++) {
    if (op->schema.outputs[o].kind == TENON_KIND_TENSORS) return "makes a list";
    if (op->schema.outputs[o].is_host) return "has a result in host memory";
  }
  for (int32_t o = 0; o < node->output_count; o++)
    if (m->graph->edges[node->outputs[o]].ndim < 0) return "makes a result of unknown rank";
  return NULL;
}

static bool is_plain_number(tenon_dtype_t dtype) {
  const uint32_t bits = (uint32_t)(dtype.bits * dtype.lanes);
  return (bits == 8 || bits == 16 || bits == 32 || bits == 64) &&
         !tn_dtype_is(dtype, TENON_STRING) && !tn_dtype_is(dtype, TENON_LIST);
}

/* States the operands: inputs, then results. */
static const char *list_operands(const maker_t *m, const tn_step_t *step,
                                 tn_record_operand_t *operands) {
  const tn_node_t *node = step->node;
  const tenon_op_t *op = node->op;
  for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
    int32_t edge = -1;
    if (k < op->input_count)
      edge = node->operands[k].count ? node->operands[k].edges[0] : -1;
    else if (step->wanted >> (k - op->input_count) & 1)
      edge = node->outputs[k - op->input_count];
    operands[k].ndim = -1;
    if (edge < 0) continue;
    const tn_edge_t *value = &m->graph->edges[edge];
    if (!is_plain_number(value->dtype)) return "takes or makes values that are not plain numbers";
    if (value->layout) return "takes or makes a sparse tensor";
    operands[k] = (tn_record_operand_t){value->dtype, value->ndim < 0 ? 1 : value->ndim};
  }
  return NULL;
}

/* Finds the source kernel that calls of the node run on the device. */
static const char *find_kernel(const tn_node_t *node, const tn_record_operand_t *operands,
                               tenon_device_t device, const tn_ordinal_t *ordinal,
                               const tn_kernel_t **out_kernel) {
  const tenon_op_t *op = node->op;
  const tn_table_entry_t *entry = entry_on(op, device);
  tenon_tensor_t tensors[MOST_OPERANDS];
  tenon_tensor_t *list[MOST_OPERANDS];
  for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
    tensors[k] = (tenon_tensor_t){.dtype = operands[k].dtype};
    list[k] = operands[k].ndim < 0 ? NULL : &tensors[k];
  }
  const tn_kernel_t *kernel =
      entry ? tn_entry_kernel(entry, op, list, list + op->input_count) : NULL;
  if (!kernel) return "has no kernel there";
  if (kernel->kind != TN_KIND_SOURCE)
    return kernel->backend ? "has a kernel of its own there" : "has no source kernel";
  if (kernel->words.flags & TN_KERNEL_SERIAL) return "runs one call at a time";
  if (kernel->library->places) return "is of a library in a process of its own";
  if (tn_kernel_lacks(kernel, ordinal)) return "needs what the device lacks";
  *out_kernel = kernel;
  return NULL;
}

static const char *find_form(maker_t *m, int32_t n, form_t *form) {
  tn_step_t *step = &m->executable->steps[n];
  const tn_placement_t *p = &m->executable->placement;
  const tenon_device_t device = p->devices[p->nodes[n].device_index];
  tn_ordinal_t *ordinal;
  tn_record_operand_t operands[MOST_OPERANDS];
  form->result = -1;
  if (p->nodes[n].device_index == p->host) return "runs on the CPU";
  const char *reason = refuse_node(m, step->node);
  if (!reason) reason = list_operands(m, step, operands);
  if (reason) return reason;
  if (!tn_plugin_of(device) || tn_ordinal_get(device, &ordinal) != TENON_OK ||
      !TN_SLOT(ordinal->table, compile) || !tn_program_language(ordinal))
    return "is on a device that does not compile";
  reason = find_kernel(step->node, operands, device, ordinal, &form->kernel);
  if (!reason)
    reason =
        tn_launch_record(step, form->kernel, ordinal, device, operands, m->memory, &form->member);
  for (uint32_t o = 0; o < step->node->op->output_count && !reason; o++)
    if (operands[step->node->op->input_count + o].ndim >= 0) form->result = step->node->outputs[o];
  if (!reason && form->result < 0) return "makes no result";
  return reason;
}

/* Members */

static bool has_same_extents(const maker_t *m, const tn_edge_t *a, const tn_edge_t *b) {
  if (a->ndim != b->ndim) return false;
  for (int32_t d = 0; d < a->ndim; d++)
    if (tn_extents_resolve(m->graph->extents, a->dims[d]).value !=
        tn_extents_resolve(m->graph->extents, b->dims[d]).value)
      return false;
  return true;
}

/* The node at whose place the value is made; -1: it is there before the graph runs. */
static int32_t place_of(const maker_t *m, int32_t edge) {
  const int32_t producer = m->graph->edges[edge].producer;
  return producer >= 0 && m->region_of[producer] >= 0 ? m->region_of[producer] : producer;
}

static bool is_made_here(const maker_t *m, int32_t edge) {
  const int32_t producer = m->graph->edges[edge].producer;
  return producer >= 0 && m->region_of[producer] == m->members[0];
}

static bool reads_region(const maker_t *m, const tn_node_t *node) {
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      if (is_made_here(m, node->operands[i].edges[k])) return true;
  return false;
}

static const char *refuse_member(const maker_t *m, int32_t n) {
  const form_t *form = &m->forms[n];
  const tn_node_t *node = &m->graph->nodes[n];
  const tn_choice_t *choices = m->executable->placement.nodes;
  if (form->reason) return form->reason;
  if (choices[n].device_index != choices[m->members[0]].device_index) return "is on another device";
  const tn_edge_t *like = &m->graph->edges[m->forms[m->members[0]].result];
  for (int32_t o = 0; o < node->output_count; o++)
    if (!has_same_extents(m, &m->graph->edges[node->outputs[o]], like))
      return "makes results of another shape";
  for (uint32_t i = 0; i < node->op->input_count; i++) {
    if (!node->operands[i].count) continue;
    const int32_t edge = node->operands[i].edges[0];
    if (!is_made_here(m, edge) && place_of(m, edge) >= m->members[0])
      return "also reads a value that is made later";
  }
  return NULL;
}

static void try_member(maker_t *m, int32_t n) {
  if (m->count == MOST_MEMBERS || refuse_member(m, n)) return;
  m->region_of[n] = m->members[0];
  m->members[m->count++] = n;
}

/* Whether one of two members reads what the other one makes. */
static bool is_linked(const maker_t *m, int32_t a, int32_t b) {
  const int32_t pairs[2][2] = {{a, b}, {b, a}};
  for (int p = 0; p < 2; p++) {
    const tn_node_t *reader = &m->graph->nodes[pairs[p][0]];
    for (uint32_t i = 0; i < reader->op->input_count; i++)
      for (int32_t k = 0; k < reader->operands[i].count; k++)
        if (m->graph->edges[reader->operands[i].edges[k]].producer == pairs[p][1]) return true;
  }
  return false;
}

/* Leaves the members that are connected with the first one. */
static void leave_connected(maker_t *m) {
  bool is_reached[MOST_MEMBERS] = {true};
  bool grows = true;
  while (grows) {
    grows = false;
    for (int32_t k = 1; k < m->count; k++)
      for (int32_t j = 0; j < m->count && !is_reached[k]; j++)
        if (is_reached[j] && is_linked(m, m->members[k], m->members[j]))
          grows = is_reached[k] = true;
  }
  int32_t count = 0;
  for (int32_t k = 0; k < m->count; k++) {
    if (is_reached[k])
      m->members[count++] = m->members[k];
    else
      m->region_of[m->members[k]] = -1;
  }
  m->count = count;
}

/* Values */

/* A constant of one element, which becomes a part of the text. That of a double is an operand:
 * devices have no number with given bits. */
static const void *constant_of(const maker_t *m, int32_t edge) {
  const tenon_tensor_t *t = m->graph->edges[edge].constant;
  const bool is_one = t && tenon_count(t) == 1 && t->data && !t->detail && t->device.type == 1 &&
                      !tn_dtype_is(t->dtype, TENON_F64);
  return is_one ? (const char *)t->data + t->byte_offset : NULL;
}

/* Counts what members read, and returns how many operands a kernel has. */
static int32_t count_operands(maker_t *m) {
  int32_t count = 0;
  for (int32_t k = 0; k < m->count; k++) {
    const tn_node_t *node = &m->graph->nodes[m->members[k]];
    for (uint32_t i = 0; i < node->op->input_count; i++) {
      if (!node->operands[i].count) continue;
      const int32_t edge = node->operands[i].edges[0];
      if (!m->reads[edge]++ && !is_made_here(m, edge) && !constant_of(m, edge)) count++;
    }
  }
  for (int32_t k = 0; k < m->count; k++) {
    const tn_node_t *node = &m->graph->nodes[m->members[k]];
    for (int32_t o = 0; o < node->output_count; o++)
      count += m->uses[node->outputs[o]] > m->reads[node->outputs[o]];
  }
  return count;
}

static void forget_reads(maker_t *m) {
  for (int32_t k = 0; k < m->count; k++) {
    const tn_node_t *node = &m->graph->nodes[m->members[k]];
    for (uint32_t i = 0; i < node->op->input_count; i++)
      if (node->operands[i].count) m->reads[node->operands[i].edges[0]] = 0;
  }
}

/* Takes the last members away until a kernel can have all operands. */
static void limit_operands(maker_t *m) {
  while (m->count > 1) {
    const int32_t count = count_operands(m);
    if (count <= TN_FUSED_OPERANDS) return;
    forget_reads(m);
    m->region_of[m->members[--m->count]] = -1;
    leave_connected(m);
  }
}

/* Finds the first node that reads the region's values and is no member. */
static void find_next(maker_t *m) {
  const int32_t count = (int32_t)m->graph->node_count;
  m->next = m->members[0] + 1;
  while (m->next < count &&
         (m->region_of[m->next] == m->members[0] || !reads_region(m, &m->graph->nodes[m->next])))
    m->next++;
  if (m->next == count) m->next = -1;
  m->reason = m->next < 0 ? NULL : refuse_member(m, m->next);
  if (m->next < 0 || m->reason) return;
  m->reason = "would need more than 20 operands";
  if (m->count == MOST_MEMBERS) m->reason = "would be one more than 64 members";
  if (m->next >= m->members[0] + WINDOW) m->reason = "is more than 128 nodes away";
}

static int32_t region_value_of(const maker_t *m, tn_device_region_t *r, int32_t edge) {
  tn_fused_value_t *values = (tn_fused_value_t *)(uintptr_t)r->fused.values;
  for (int32_t v = 0; v < r->fused.value_count; v++)
    if (r->edges[v] == edge) return v;
  const bool is_made = is_made_here(m, edge);
  const void *constant = is_made ? NULL : constant_of(m, edge);
  r->edges[r->fused.value_count] = edge;
  values[r->fused.value_count] =
      (tn_fused_value_t){.dtype = m->graph->edges[edge].dtype,
                         .is_read = !is_made && !constant,
                         .is_written = is_made && m->uses[edge] > m->reads[edge],
                         .constant = constant};
  r->read_count += !is_made && !constant;
  r->written_count += is_made && m->uses[edge] > m->reads[edge];
  return r->fused.value_count++;
}

/* Replaces the operands in the arguments of a member by values of the region. */
static tenon_status_t make_member(maker_t *m, tn_device_region_t *r, int32_t k) {
  const form_t *form = &m->forms[m->members[k]];
  const tn_node_t *node = &m->graph->nodes[m->members[k]];
  tn_fused_member_t *member = (tn_fused_member_t *)(uintptr_t)&r->fused.members[k];
  const size_t count = form->member.argument_count;
  tn_fused_argument_t *arguments = tn_arena_array(m->memory, count + 1, sizeof *arguments);
  if (!arguments) return tn_no_memory("an executable", count);
  for (size_t i = 0; i < count; i++) {
    arguments[i] = form->member.arguments[i];
    const int32_t operand = arguments[i].value;
    if (operand < 0) continue;
    const int32_t inputs = (int32_t)node->op->input_count;
    const int32_t edge =
        operand < inputs ? node->operands[operand].edges[0] : node->outputs[operand - inputs];
    arguments[i].value = region_value_of(m, r, edge);
  }
  *member = form->member;
  member->arguments = arguments;
  r->nodes[k] = m->members[k];
  r->kernels[k] = form->kernel;
  return tn_executable_use(m->executable, form->kernel, node->op);
}

static const char *make_label(const maker_t *m) {
  tn_text_t text = {0};
  tn_text_add(&text, "region of %d:", (int)m->count);
  for (int32_t k = 0; k < m->count; k++) {
    const tenon_op_t *op = m->graph->nodes[m->members[k]].op;
    int32_t first = 0;
    while (m->graph->nodes[m->members[first]].op != op)
      first++;
    if (first == k) tn_text_add(&text, " %s", op->name);
  }
  char *label = text.failed ? NULL : tn_arena_text(m->memory, tn_text_get(&text), text.size);
  tn_text_clear(&text);
  return label;
}

static tenon_status_t add_region(maker_t *m, tn_device_region_t *r) {
  tn_device_regions_t *all = &m->executable->device_regions;
  if (!tn_grow((void **)&all->at, &all->capacity, all->count, sizeof *all->at))
    return tn_no_memory("an executable", sizeof *all->at);
  all->at[all->count++] = r;
  for (int32_t k = 0; k < m->count; k++)
    all->of_node[m->members[k]] = (int32_t)all->count;
  return TENON_OK;
}

static tenon_status_t make_region(maker_t *m) {
  const size_t count = (size_t)m->count;
  tn_device_region_t *r = tn_arena_allocate(m->memory, sizeof *r);
  const size_t most = count * MOST_OPERANDS;
  if (!r) return tn_no_memory("an executable", sizeof *r);
  const tn_edge_t *like = &m->graph->edges[m->forms[m->members[0]].result];
  r->device_index = m->executable->placement.nodes[m->members[0]].device_index;
  r->nodes = tn_arena_array(m->memory, count, sizeof *r->nodes);
  r->kernels = tn_arena_array(m->memory, count, sizeof *r->kernels);
  r->edges = tn_arena_array(m->memory, most, sizeof *r->edges);
  r->ndim = like->ndim;
  r->fused.members = tn_arena_array(m->memory, count, sizeof *r->fused.members);
  r->fused.values = tn_arena_array(m->memory, most, sizeof *r->fused.values);
  r->fused.member_count = m->count;
  r->label = make_label(m);
  r->lock = (tn_mutex_t)TN_MUTEX_INIT;
  if (!r->nodes || !r->kernels || !r->edges || !r->fused.members || !r->fused.values || !r->label)
    return tn_no_memory("an executable", most);
  if (m->next >= 0) {
    r->next = m->graph->nodes[m->next].name;
    r->next_op = m->graph->nodes[m->next].op->name;
    r->reason = m->reason;
  }
  for (int32_t k = 0; k < m->count; k++)
    TN_TRY(make_member(m, r, k));
  return add_region(m, r);
}

/* Regions */

static tenon_status_t find_region(maker_t *m, int32_t first) {
  const int32_t count = (int32_t)m->graph->node_count;
  m->members[0] = first;
  m->count = 1;
  m->region_of[first] = first;
  if (refuse_member(m, first)) {
    m->region_of[first] = -1;
    return TENON_OK;
  }
  for (int32_t n = first + 1; n < count && n < first + WINDOW; n++)
    if (m->region_of[n] < 0) try_member(m, n);
  leave_connected(m);
  limit_operands(m);
  if (m->count > 1) {
    find_next(m);
    tenon_status_t status = make_region(m);
    forget_reads(m);
    return status;
  }
  m->region_of[first] = -1;
  return TENON_OK;
}

static tenon_status_t find_regions(maker_t *m) {
  const int32_t count = (int32_t)m->graph->node_count;
  for (int32_t n = 0; n < count; n++) {
    m->region_of[n] = -1;
    m->forms[n].reason = find_form(m, n, &m->forms[n]);
  }
  for (int32_t n = 0; n < count; n++)
    if (m->region_of[n] < 0 && !m->forms[n].reason) TN_TRY(find_region(m, n));
  return TENON_OK;
}

tenon_status_t tn_device_regions_find(tenon_executable_t *e) {
  tn_device_regions_t *all = &e->device_regions;
  const size_t nodes = e->graph->node_count + 1;
  maker_t m = {.executable = e,
               .graph = e->graph,
               .memory = &all->memory,
               .forms = tn_allocate_zero(nodes, sizeof *m.forms),
               .region_of = tn_allocate_zero(nodes, sizeof *m.region_of),
               .reads = tn_allocate_zero(e->graph->edge_count + 1, sizeof *m.reads)};
  all->of_node = tn_arena_array(&all->memory, nodes, sizeof *all->of_node);
  tenon_status_t status = TENON_OK;
  if (!m.forms || !m.region_of || !m.reads || !all->of_node)
    status = tn_no_memory("an executable", nodes);
  if (status == TENON_OK) status = tn_graph_uses(e->graph, &m.uses);
  if (status == TENON_OK) status = find_regions(&m);
  tn_release_memory(m.forms);
  tn_release_memory(m.region_of);
  tn_release_memory(m.reads);
  tn_release_memory(m.uses);
  return status;
}
