/* Values and names of the graphs that are being built. graph.c and node.c define names and look
 * them up, and lowerings create values. A value of an outer graph that a body uses becomes an input
 * of the body, or a constant of its own. Invariant: an edge is used only in the graph (site) that
 * it belongs to; tn_ref_here is the only way from one site to another. */
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "graph/graph.h"
#include "import/onnx/import.h"

/* Values */

tn_ref_t *tn_ref_new(tn_import_t *import, tn_site_t *site, const char *name) {
  tn_ref_t *edge = tn_arena_allocate(&import->arena, sizeof *edge);
  if (!edge)
    (void)tn_no_memory("a value", sizeof *edge);
  else {
    edge->site = site;
    edge->name = name;
    edge->id = -1;
    edge->ndim = -1;
    edge->item_ndim = -1;
  }
  return edge;
}

void tn_ref_like(tn_ref_t *edge, const tn_ref_t *of) {
  edge->dtype = of->dtype;
  edge->ndim = of->ndim;
  edge->kind = of->kind;
  edge->holds_sequence = of->holds_sequence;
  edge->item_dtype = of->item_dtype;
  edge->item_ndim = of->item_ndim;
  if (!of->items) return;
  edge->dtype = tenon_dtype(TENON_LIST);
  edge->ndim = 1;
}

/* Keeps a tensor until the end of the import. Releases it if this fails. */
static tenon_status_t keep_tensor(tn_import_t *import, tenon_tensor_t *tensor) {
  if (!tn_grow((void **)&import->tensors, &import->tensor_capacity, import->tensor_count,
               sizeof tensor)) {
    tenon_tensor_release(tensor);
    return tn_no_memory("a list of tensors", import->tensor_count);
  }
  import->tensors[import->tensor_count++] = tensor;
  return TENON_OK;
}

bool tn_ref_is_constant(const tn_ref_t *edge) {
  return edge->constant || edge->initialiser || edge->sparse;
}

tenon_status_t tn_ref_value(tn_import_t *import, tn_ref_t *edge,
                            const tenon_tensor_t **out_tensor) {
  tenon_tensor_t *tensor = NULL;
  *out_tensor = edge->constant;
  if (edge->constant || !tn_ref_is_constant(edge)) return TENON_OK;
  if (edge->initialiser)
    TN_TRY(tn_onnx_tensor(edge->initialiser, &import->weights, &tensor));
  else
    TN_TRY(tn_onnx_sparse(edge->sparse, &import->weights, &tensor));
  TN_TRY(keep_tensor(import, tensor));
  *out_tensor = edge->constant = tensor;
  return TENON_OK;
}

tenon_status_t tn_ref_constant(tn_import_t *import, tn_site_t *site, const char *name,
                               tenon_tensor_t *tensor, tn_ref_t **out_edge) {
  TN_TRY(keep_tensor(import, tensor));
  *out_edge = tn_ref_new(import, site, name);
  if (!*out_edge) return TENON_MEMORY;
  (*out_edge)->constant = tensor;
  (*out_edge)->dtype = tensor->dtype;
  (*out_edge)->ndim = tensor->ndim;
  (*out_edge)->extents = tensor->shape;
  return TENON_OK;
}

static tn_ref_t *find_local(const tn_site_t *site, const tn_ref_t *edge) {
  return tn_map_get(&site->local, (const char *)&edge, sizeof edge);
}

static tenon_status_t add_local(tn_site_t *site, const tn_ref_t *edge, tn_ref_t *here) {
  return tn_map_put(&site->local, (const char *)&edge, sizeof edge, here)
             ? TENON_OK
             : tn_no_memory("a value", 0);
}

tenon_status_t tn_ref_capture(tn_import_t *import, tn_site_t *site, tn_ref_t *outer,
                              tn_ref_t **out_edge) {
  tenon_axis_t axes[TENON_RANK_MAX];
  *out_edge = find_local(site, outer);
  if (*out_edge) return TENON_OK;
  tn_ref_t *edge = tn_ref_new(import, site, outer->name);
  if (!edge) return TENON_MEMORY;
  tn_ref_like(edge, outer);
  edge->extents = outer->extents;
  for (int32_t i = 0; i < edge->ndim; i++)
    axes[i] = (tenon_axis_t){-1, NULL};
  TN_TRY(tenon_builder_input(site->builder, NULL, edge->dtype, edge->ndim, axes, &edge->id));
  if (!tn_grow((void **)&site->captured, &site->captured_capacity, site->captured_count,
               sizeof edge))
    return tn_no_memory("a list of values", site->captured_count);
  site->captured[site->captured_count++] = outer;
  *out_edge = edge;
  return add_local(site, outer, edge);
}

/* Converts a sequence of another site: each of its items is made available here. */
static tenon_status_t items_here(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                                 tn_ref_t **out_edge) {
  if (edge->site == site) return TENON_OK;
  tn_ref_t *here = tn_ref_new(import, site, edge->name);
  if (!here) return TENON_MEMORY;
  tn_ref_like(here, edge);
  here->items = tn_arena_array(&import->arena, (size_t)edge->item_count + 1, sizeof *here->items);
  if (!here->items) return tn_no_memory("a sequence", (size_t)edge->item_count);
  for (here->item_count = 0; here->item_count < edge->item_count; here->item_count++)
    TN_TRY(
        tn_ref_here(import, site, edge->items[here->item_count], &here->items[here->item_count]));
  *out_edge = here;
  return TENON_OK;
}

tenon_status_t tn_ref_here(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                           tn_ref_t **out_edge) {
  const tenon_tensor_t *tensor;
  *out_edge = edge;
  if (edge->is_missing || edge->is_absent) return TENON_OK;
  if (edge->items) return items_here(import, site, edge, out_edge);
  if (tn_ref_is_constant(edge)) {
    TN_TRY(tn_ref_value(import, edge, &tensor));
    if (edge->site != site) *out_edge = find_local(site, edge);
    if (!*out_edge) {
      tn_ref_t *here = tn_ref_new(import, site, edge->name);
      if (!here) return TENON_MEMORY;
      here->constant = edge->constant;
      here->dtype = edge->dtype;
      here->ndim = edge->ndim;
      here->extents = edge->constant->shape;
      TN_TRY(add_local(site, edge, here));
      *out_edge = here;
    }
    edge = *out_edge;
    /* Only initialisers of the model keep their names: names in a graph must be unique. */
    const char *name = edge->initialiser && !site->outer ? edge->name : NULL;
    return edge->id >= 0 ? TENON_OK
                         : tenon_builder_constant(site->builder, name, edge->constant, &edge->id);
  }
  if (edge->site == site) return TENON_OK;
  if (!site->outer)
    return tn_fail(TENON_INVALID, "value '%.200s' does not belong to this graph or one around it",
                   edge->name);
  TN_TRY(tn_ref_here(import, site->outer, edge, &edge));
  return tn_ref_capture(import, site, edge, out_edge);
}

/* Adds the node that makes a list of these items. */
static tenon_status_t add_list_node(tn_import_t *import, tn_site_t *site, const tn_ref_t *edge,
                                    tenon_edge_t *out_edge) {
  const tenon_op_t *op;
  tenon_edge_t *ids = tn_arena_array(&import->arena, (size_t)edge->item_count + 1, sizeof *ids);
  if (!ids) return tn_no_memory("a sequence", (size_t)edge->item_count);
  TN_TRY(tenon_op_find("core::list", &op));
  for (int32_t i = 0; i < edge->item_count; i++) {
    tn_ref_t *item;
    TN_TRY(tn_ref_join(import, site, edge->items[i], &item));
    ids[i] = item->id;
  }
  const tenon_operand_t operand = {edge->item_count, ids};
  return tenon_builder_node(site->builder, NULL, op, NULL, &operand, out_edge, 1);
}

tenon_status_t tn_ref_join(tn_import_t *import, tn_site_t *site, tn_ref_t *edge,
                           tn_ref_t **out_edge) {
  TN_TRY(tn_ref_here(import, site, edge, &edge));
  *out_edge = edge;
  for (int32_t i = 0; i < edge->item_count; i++)
    if (edge->items[i]->is_missing) edge->is_missing = true;
  if (!edge->items || edge->is_missing) return TENON_OK;
  if (!edge->joined) {
    tn_ref_t *joined = tn_ref_new(import, site, edge->name);
    if (!joined) return TENON_MEMORY;
    tn_ref_like(joined, edge);
    TN_TRY(add_list_node(import, site, edge, &joined->id));
    edge->joined = joined;
  }
  *out_edge = edge->joined;
  return TENON_OK;
}

/* Names */

tenon_status_t tn_scope_find(tn_import_t *import, tn_scope_t *scope, const char *name,
                             tn_ref_t **out_edge) {
  size_t size = strlen(name);
  tn_site_t *site = scope->site;
  *out_edge = NULL;
  for (; scope && !*out_edge; scope = scope->outer)
    *out_edge = tn_map_get(&scope->edges, name, size);
  return *out_edge ? tn_ref_here(import, site, *out_edge, out_edge) : TENON_OK;
}

tenon_status_t tn_scope_define(tn_scope_t *scope, const char *name, tn_ref_t *edge) {
  if (tn_map_get(&scope->edges, name, strlen(name)))
    return tn_fail(TENON_INVALID,
                   "value '%.200s' is defined twice in one graph: every value needs one definition",
                   name);
  bool is_of_model = !scope->outer && !*scope->prefix && edge->site == scope->site && edge->id >= 0;
  if (is_of_model) TN_TRY(tn_builder_name_value(scope->site->builder, edge->id, name));
  return tn_map_put(&scope->edges, name, strlen(name), edge) ? TENON_OK
                                                             : tn_no_memory("a name", strlen(name));
}

tenon_status_t tn_scope_hints(tn_scope_t *scope, const tn_onnx_value_t *values, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!tn_map_put(&scope->hints, values[i].name, strlen(values[i].name),
                    (void *)(uintptr_t)&values[i]))
      return tn_no_memory("a name", strlen(values[i].name));
  return TENON_OK;
}

void tn_scope_clear(tn_scope_t *scope) {
  tn_map_clear(&scope->edges);
  tn_map_clear(&scope->hints);
}

/* Stated types */

/* Finds what a type tells about the tensors in a value. Returns false if they are not tensors. */
static bool find_tensor_type(const tn_onnx_type_t *type, tn_ref_t *edge,
                             const tn_onnx_tensor_type_t **out_tensor) {
  *out_tensor = type->tensor;
  if (TN_HAS(type, TN_ONNX_TYPE_MAP) || TN_HAS(type, TN_ONNX_TYPE_SPARSE)) return false;
  if (type->tensor || !(type->optional || type->sequence)) return true;
  edge->kind = type->optional ? TN_REF_OPTIONAL : TN_REF_SEQUENCE;
  const tn_onnx_type_t *item = (type->optional ? type->optional : type->sequence)->elem_type;
  if (item && type->optional && item->sequence) {
    edge->holds_sequence = true;
    item = item->sequence->elem_type;
  }
  *out_tensor = item ? item->tensor : NULL;
  return *out_tensor != NULL;
}

/* Notes the type of a sequence or an optional value. */
static void set_list_type(tn_ref_t *edge, const tn_ref_t *stated,
                          const tn_onnx_tensor_type_t *tensor, tenon_dtype_t dtype) {
  edge->kind = stated->kind;
  edge->holds_sequence = stated->holds_sequence;
  edge->dtype = tenon_dtype(TENON_LIST);
  edge->ndim = 1;
  if (!edge->item_dtype.bits) edge->item_dtype = dtype;
  if (edge->item_ndim < 0 && tensor->shape && tensor->shape->dims.count <= TENON_RANK_MAX)
    edge->item_ndim = (int32_t)tensor->shape->dims.count;
}

static tenon_status_t set_tensor_type(tn_import_t *import, const tn_onnx_value_t *value,
                                      const tn_onnx_tensor_type_t *tensor, tn_ref_t *edge) {
  size_t ndim = tensor->shape->dims.count;
  if (ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID, "value '%.200s' has %zu dimensions: expected at most %d",
                   value->name, ndim, TENON_RANK_MAX);
  if (edge->ndim >= 0 && (size_t)edge->ndim != ndim) return TENON_OK;
  int64_t *extents = tn_arena_array(&import->arena, ndim + 1, sizeof *extents);
  if (!extents) return tn_no_memory("a shape", ndim);
  for (size_t i = 0; i < ndim; i++) {
    const tn_onnx_dim_t *dim = &tensor->shape->dims.items[i];
    extents[i] = TN_HAS(dim, TN_DIM_VALUE) && dim->value >= 0 ? dim->value : -1;
  }
  edge->ndim = (int32_t)ndim;
  edge->extents = extents;
  return TENON_OK;
}

tenon_status_t tn_type_read(tn_import_t *import, const tn_onnx_value_t *value, tn_ref_t *edge) {
  const tn_onnx_type_t *type = value->type;
  const tn_onnx_tensor_type_t *tensor = NULL;
  tn_ref_t stated = {.kind = TN_REF_TENSOR};
  tenon_dtype_t dtype = {0, 0, 0};
  if (type && !find_tensor_type(type, &stated, &tensor))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "value '%.200s' is a map, a sparse tensor, or a sequence of something else than "
                   "tensors: values of a graph are tensors, sequences of tensors, and optional "
                   "values of these",
                   value->name);
  if (!tensor) return TENON_OK;
  if (tensor->elem_type && !tn_onnx_dtype(tensor->elem_type, &dtype))
    return tn_fail(TENON_INVALID, "value '%.200s' has the unknown element type %lld", value->name,
                   (long long)tensor->elem_type);
  if (stated.kind != TN_REF_TENSOR) {
    set_list_type(edge, &stated, tensor, dtype);
    return TENON_OK;
  }
  if (!edge->dtype.bits) edge->dtype = dtype;
  if (!tensor->shape || edge->extents) return TENON_OK;
  return set_tensor_type(import, value, tensor, edge);
}

/* Sites */

void tn_site_clear(tn_site_t *site) {
  tenon_builder_release(site->builder);
  tn_map_clear(&site->local);
  tn_release_memory(site->captured);
  *site = (tn_site_t){0};
}
