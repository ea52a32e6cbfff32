/* Functions for rewriting passes, see rewrite.h. Invariant: the counts of uses are correct after
 * every call. */
#include "graph/passes/rewrite.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/convert.h"
#include "core/dtype.h"
#include "core/value.h"
#include "graph/passes/pass.h"

static tenon_status_t add_use(tn_rewrite_t *r, tenon_edge_t edge, tn_reader_t reader) {
  if (r->reader_count >= INT32_MAX ||
      !tn_grow((void **)&r->readers, &r->reader_capacity, r->reader_count, sizeof *r->readers))
    return tn_no_memory("a rewrite", r->reader_count * sizeof *r->readers);
  reader.next = r->first_reader[edge];
  r->readers[r->reader_count] = reader;
  r->first_reader[edge] = (int32_t)r->reader_count++;
  r->uses[edge]++;
  r->user[edge] = reader.node;
  return TENON_OK;
}

static tenon_status_t add_uses(tn_rewrite_t *r, const tn_node_t *node) {
  int32_t index = (int32_t)(node - r->graph->nodes);
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      TN_TRY(add_use(r, node->operands[i].edges[k], (tn_reader_t){index, i, k, -1}));
  return TENON_OK;
}

/* The node stays in the lists of readers until a walk through them finds that it reads another
 * edge. */
static void drop_uses(tn_rewrite_t *r, const tn_node_t *node) {
  for (uint32_t i = 0; i < node->op->input_count; i++)
    for (int32_t k = 0; k < node->operands[i].count; k++)
      r->uses[node->operands[i].edges[k]]--;
}

static void add_output(tn_rewrite_t *r, int32_t output) {
  tenon_edge_t edge = r->graph->outputs[output];
  r->next_output[output] = r->first_output[edge];
  r->first_output[edge] = output;
  r->uses[edge]++;
}

tenon_status_t tn_rewrite_begin(tn_rewrite_t *r, tenon_graph_t *graph) {
  size_t count = graph->edge_count;
  *r = (tn_rewrite_t){.graph = graph,
                      .node_count = graph->node_count,
                      .edge_count = count,
                      .edge_capacity = count + 1,
                      .uses = tn_allocate_zero(count + 1, sizeof *r->uses),
                      .user = tn_allocate((count + 1) * sizeof *r->user),
                      .first_reader = tn_allocate((count + 1) * sizeof *r->first_reader),
                      .first_output = tn_allocate((count + 1) * sizeof *r->first_output),
                      .next_output =
                          tn_allocate((graph->output_count + 1) * sizeof *r->next_output)};
  bool is_fine = r->uses && r->user && r->first_reader && r->first_output && r->next_output;
  tenon_status_t status = is_fine ? TENON_OK : tn_no_memory("a rewrite", count);
  for (size_t i = 0; is_fine && i < count; i++) {
    r->user[i] = -1;
    r->first_reader[i] = -1;
    r->first_output[i] = -1;
  }
  for (size_t n = 0; status == TENON_OK && n < graph->node_count; n++)
    if (graph->nodes[n].op) status = add_uses(r, &graph->nodes[n]);
  for (size_t i = 0; status == TENON_OK && i < graph->output_count; i++)
    add_output(r, (int32_t)i);
  if (status != TENON_OK) tn_rewrite_end(r);
  return status;
}

/* Puts the nodes in their order. `before` becomes the position of each node. */
static void sort_nodes(tn_rewrite_t *r) {
  tn_node_t *nodes = r->graph->nodes;
  int32_t *positions = r->before;
  int32_t node = 0;
  while (r->before[node] >= 0)
    node = r->before[node];
  for (int32_t position = 0; node >= 0; node = r->after[node])
    positions[node] = position++;
  for (size_t n = 0; n < r->graph->node_count; n++)
    while (positions[n] != (int32_t)n) {
      const int32_t to = positions[n];
      const tn_node_t moved = nodes[to];
      nodes[to] = nodes[n];
      nodes[n] = moved;
      positions[n] = positions[to];
      positions[to] = to;
    }
  for (size_t n = 0; n < r->graph->node_count; n++)
    for (int32_t o = 0; o < nodes[n].output_count; o++) {
      tn_edge_t *edge = &r->graph->edges[nodes[n].outputs[o]];
      if (edge->producer >= 0) edge->producer = (int32_t)n;
    }
}

void tn_rewrite_end(tn_rewrite_t *r) {
  if (r->order_count && r->order_count == r->graph->node_count) sort_nodes(r);
  tn_release_memory(r->before);
  tn_release_memory(r->after);
  tn_release_memory(r->uses);
  tn_release_memory(r->user);
  tn_release_memory(r->first_reader);
  tn_release_memory(r->first_output);
  tn_release_memory(r->next_output);
  tn_release_memory(r->readers);
  tn_map_clear(&r->seen);
  *r = (tn_rewrite_t){.graph = r->graph};
}

/* Makes the arrays cover the edges that were added. */
static tenon_status_t cover_edges(tn_rewrite_t *r) {
  int32_t **arrays[] = {&r->uses, &r->user, &r->first_reader, &r->first_output};
  while (r->edge_capacity < r->graph->edge_count) {
    size_t capacity = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
      capacity = r->edge_capacity;
      if (!tn_grow((void **)arrays[i], &capacity, capacity, sizeof **arrays[i]))
        return tn_no_memory("a rewrite", 0);
    }
    r->edge_capacity = capacity;
  }
  for (; r->edge_count < r->graph->edge_count; r->edge_count++) {
    r->uses[r->edge_count] = 0;
    for (size_t i = 1; i < sizeof arrays / sizeof *arrays; i++)
      (*arrays[i])[r->edge_count] = -1;
  }
  return TENON_OK;
}

/* Makes room in the order for the nodes of the graph and one more. */
static tenon_status_t cover_nodes(tn_rewrite_t *r) {
  const size_t count = r->graph->node_count;
  while (r->order_count <= count) {
    const size_t n = r->order_count;
    if (!tn_grow((void **)&r->before, &r->before_capacity, n, sizeof *r->before) ||
        !tn_grow((void **)&r->after, &r->after_capacity, n, sizeof *r->after))
      return tn_no_memory("a rewrite", n * sizeof *r->before);
    r->before[n] = (int32_t)n - 1;
    r->after[n] = n + 1 < count ? (int32_t)n + 1 : -1;
    r->order_count++;
  }
  return TENON_OK;
}

static void put_before(tn_rewrite_t *r, int32_t node, int32_t at) {
  const int32_t last = r->before[at];
  r->before[node] = last;
  r->after[node] = at;
  r->before[at] = node;
  if (last >= 0) r->after[last] = node;
}

static tenon_status_t add_node_results(tn_rewrite_t *r, int32_t index) {
  for (int32_t o = 0; o < r->graph->nodes[index].output_count; o++) {
    tn_edge_t *edge;
    TN_TRY(tn_graph_add_edge(r->graph, NULL, &edge, &r->graph->nodes[index].outputs[o]));
    edge->producer = index;
  }
  return cover_edges(r);
}

tenon_status_t tn_rewrite_insert(tn_rewrite_t *r, int32_t at, const tn_insertion_t *what,
                                 int32_t *out_index) {
  tn_node_t *node;
  const int32_t index = (int32_t)r->graph->node_count;
  TN_TRY(cover_nodes(r));
  TN_TRY(tn_graph_add_node(r->graph, what->name, what->op, what->attrs, what->operands,
                           what->output_count, &node));
  put_before(r, index, at);
  TN_TRY(add_node_results(r, index));
  TN_TRY(add_uses(r, &r->graph->nodes[index]));
  *out_index = index;
  return tn_node_infer(r->graph, &r->graph->nodes[index]);
}

tenon_status_t tn_rewrite_constant(tn_rewrite_t *r, tenon_tensor_t *tensor,
                                   tenon_edge_t *out_edge) {
  tn_edge_t *edge;
  TN_TRY(tn_graph_add_edge(r->graph, NULL, &edge, out_edge));
  TN_TRY(cover_edges(r));
  tn_edge_bind_constant(r->graph, *out_edge, tensor);
  return TENON_OK;
}

bool tn_node_is(const tn_node_t *node, const char *op) {
  return node && node->op && strcmp(node->op->name, op) == 0;
}

tn_node_t *tn_maker(const tn_rewrite_t *r, tenon_edge_t edge, const char *op) {
  if (edge < 0 || r->graph->edges[edge].producer < 0) return NULL;
  tn_node_t *node = &r->graph->nodes[r->graph->edges[edge].producer];
  return tn_node_is(node, op) ? node : NULL;
}

tn_node_t *tn_only_user(const tn_rewrite_t *r, tenon_edge_t edge) {
  if (edge < 0 || r->uses[edge] != 1 || r->user[edge] < 0 || r->first_output[edge] >= 0)
    return NULL;
  tn_node_t *node = &r->graph->nodes[r->user[edge]];
  return node->op && !node->group ? node : NULL;
}

tenon_edge_t tn_operand(const tn_node_t *node, uint32_t index) {
  return index < node->op->input_count && node->operands[index].count == 1
             ? node->operands[index].edges[0]
             : -1;
}

bool tn_scalar(const tn_rewrite_t *r, tenon_edge_t edge, double *out_value) {
  const tenon_tensor_t *t = edge >= 0 ? r->graph->edges[edge].constant : NULL;
  const tenon_dtype_t f64 = tenon_dtype(TENON_F64);
  if (!t || tenon_count(t) != 1 || t->detail) return false;
  switch (tenon_dtype_id(t->dtype)) {
  case TENON_F16:
  case TENON_BF16:
    tn_convert(t->data, t->dtype, out_value, f64, 1);
    return true;
  case TENON_F32:
    *out_value = *(const float *)t->data;
    return true;
  case TENON_F64:
    *out_value = *(const double *)t->data;
    return true;
  case TENON_I64:
    *out_value = (double)*(const int64_t *)t->data;
    return true;
  case TENON_I32:
    *out_value = *(const int32_t *)t->data;
    return true;
  default:
    return false;
  }
}

bool tn_same_shape(const tn_rewrite_t *r, tenon_edge_t a, tenon_edge_t b) {
  const tn_edge_t *x = &r->graph->edges[a];
  const tn_edge_t *y = &r->graph->edges[b];
  if (x->ndim < 0 || x->ndim != y->ndim || !tn_dtype_same(x->dtype, y->dtype)) return false;
  for (int32_t d = 0; d < x->ndim; d++)
    if (tn_extents_resolve(r->graph->extents, x->dims[d]).value !=
        tn_extents_resolve(r->graph->extents, y->dims[d]).value)
      return false;
  return true;
}

int32_t tn_attr(const tn_node_t *node, const char *name) {
  return tn_schema_attr(&node->op->schema, name, strlen(name));
}

/* Gives the node the results that its new operator has beyond the present ones. The counts of a
 * rewrite do not cover them: nothing reads them. */
static tenon_status_t add_results(tn_rewrite_t *r, tn_node_t *node, const tenon_op_t *op,
                                  const tenon_value_t *attrs) {
  const int32_t count = tn_node_output_count(op, attrs);
  if (count <= node->output_count) return TENON_OK;
  const int32_t index = (int32_t)(node - r->graph->nodes);
  tenon_edge_t *outputs = tn_arena_array(&r->graph->arena, (size_t)count, sizeof *outputs);
  if (!outputs) return tn_no_memory("a rewrite", 0);
  for (int32_t o = 0; o < count; o++) {
    tn_edge_t *edge;
    if (o < node->output_count) {
      outputs[o] = node->outputs[o];
      continue;
    }
    TN_TRY(tn_graph_add_edge(r->graph, NULL, &edge, &outputs[o]));
    edge->producer = index;
  }
  node->outputs = outputs;
  node->output_count = count;
  return TENON_OK;
}

tenon_status_t tn_node_become(tn_rewrite_t *r, tn_node_t *node, const tenon_op_t *op,
                              const tenon_value_t *attrs, const tenon_edge_t *operands) {
  tn_arena_t *arena = &r->graph->arena;
  tenon_value_t *values = tn_arena_array(arena, op->schema.attr_count + 1, sizeof *values);
  tenon_operand_t *own = tn_arena_array(arena, op->input_count + 1, sizeof *own);
  tenon_edge_t *edges = tn_arena_array(arena, op->input_count + 1, sizeof *edges);
  if (!values || !own || !edges) return tn_no_memory("a rewrite", 0);
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (!tn_value_copy(attrs ? &attrs[i] : &op->defaults[i], arena, &values[i]))
      return tn_no_memory("a rewrite", 0);
  for (uint32_t i = 0; i < op->input_count; i++) {
    edges[i] = operands[i];
    own[i] = (tenon_operand_t){operands[i] >= 0, &edges[i]};
  }
  TN_TRY(add_results(r, node, op, values));
  drop_uses(r, node);
  node->op = op;
  node->attrs = values;
  node->operands = own;
  r->changes++;
  return add_uses(r, node);
}

tenon_status_t tn_node_set_list(tn_rewrite_t *r, tn_node_t *node, const tenon_edge_t *edges,
                                int32_t count) {
  tn_arena_t *arena = &r->graph->arena;
  tenon_operand_t *own = tn_arena_array(arena, node->op->input_count + 1, sizeof *own);
  tenon_edge_t *list = tn_arena_array(arena, (size_t)count + 1, sizeof *list);
  if (!own || !list) return tn_no_memory("a rewrite", 0);
  memcpy(own, node->operands, node->op->input_count * sizeof *own);
  memcpy(list, edges, (size_t)count * sizeof *list);
  own[0] = (tenon_operand_t){count, list};
  drop_uses(r, node);
  node->operands = own;
  r->changes++;
  return add_uses(r, node);
}

/* The place where the reader's operand names its edge; NULL: the node has other operands now. */
static tenon_edge_t *edge_of(const tn_rewrite_t *r, const tn_reader_t *reader) {
  const tn_node_t *node = &r->graph->nodes[reader->node];
  if (!node->op || reader->operand >= node->op->input_count) return NULL;
  const tenon_operand_t *operand = &node->operands[reader->operand];
  return reader->item < operand->count ? (tenon_edge_t *)(uintptr_t)&operand->edges[reader->item]
                                       : NULL;
}

void tn_redirect(tn_rewrite_t *r, tenon_edge_t from, tenon_edge_t to) {
  int32_t last = -1;
  for (int32_t i = r->first_reader[from], next; i >= 0; i = next) {
    tn_reader_t *reader = &r->readers[i];
    tenon_edge_t *edge = edge_of(r, reader);
    next = reader->next;
    if (!edge || *edge != from) continue;
    *edge = to;
    reader->next = r->first_reader[to];
    r->first_reader[to] = i;
    if (reader->node > last) last = reader->node;
    r->uses[from]--;
    r->uses[to]++;
  }
  r->first_reader[from] = -1;
  if (last >= 0) r->user[to] = last;
  for (int32_t i = r->first_output[from], next; i >= 0; i = next) {
    next = r->next_output[i];
    r->graph->outputs[i] = to;
    r->uses[from]--;
    add_output(r, i);
  }
  r->first_output[from] = -1;
  r->changes++;
}

void tn_node_remove(tn_rewrite_t *r, tn_node_t *node) {
  drop_uses(r, node);
  node->op = NULL;
  r->changes++;
}
