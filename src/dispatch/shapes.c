/* Inference for programs (tenon_shapes_infer, tenon_types_infer): the metas of inputs may have
 * symbols, and the metas of results live in the table of these symbols. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/extent.h"
#include "core/value.h"
#include "dispatch/infer.h"
#include "operator/state.h"

struct tenon_shapes_t {
  tn_extents_t *extents;
  tn_arena_t arena; /* holds the results */
};

tenon_status_t tenon_shapes_create(tenon_shapes_t **out_shapes) {
  TN_TRY(tenon_start());
  tenon_shapes_t *shapes = tn_allocate_zero(1, sizeof *shapes);
  if (!shapes) return tn_no_memory("a table of shapes", sizeof *shapes);
  tenon_status_t status = tn_extents_create(&shapes->extents);
  if (status != TENON_OK) {
    tn_release_memory(shapes);
    return status;
  }
  *out_shapes = shapes;
  return TENON_OK;
}

void tenon_shapes_release(tenon_shapes_t *shapes) {
  if (!shapes) return;
  tn_extents_release(shapes->extents);
  tn_arena_clear(&shapes->arena);
  tn_release_memory(shapes);
}

tenon_status_t tenon_shapes_symbol(tenon_shapes_t *shapes, tenon_dim_t *out_dim) {
  return tn_extents_symbol(shapes->extents, NULL, out_dim);
}

/* Copies a result, with its extents as they are now, into the table's memory. */
static tenon_status_t keep_meta(tenon_shapes_t *shapes, const tenon_meta_t *from,
                                const tenon_meta_t **out_meta) {
  tenon_meta_t *meta = tn_arena_allocate(&shapes->arena, sizeof *meta);
  size_t rank = from->ndim > 0 ? (size_t)from->ndim : 0;
  if (!meta) return tn_no_memory("a shape", sizeof *meta);
  *meta = *from;
  if (from->items) {
    const tenon_meta_t **items = tn_arena_array(&shapes->arena, from->count + 1, sizeof *items);
    if (!items) return tn_no_memory("a list of shapes", from->count);
    for (uint32_t i = 0; i < from->count; i++)
      TN_TRY(keep_meta(shapes, from->items[i], &items[i]));
    meta->items = (tenon_meta_t *const *)(uintptr_t)items;
    meta->dims = meta->strides = meta->values = NULL;
    *out_meta = meta;
    return TENON_OK;
  }
  meta->dims = tn_arena_array(&shapes->arena, rank + 1, sizeof *meta->dims);
  meta->values = from->value_count
                     ? tn_arena_array(&shapes->arena, from->value_count, sizeof *meta->values)
                     : NULL;
  meta->strides =
      from->strided ? tn_arena_array(&shapes->arena, rank + 1, sizeof *meta->strides) : NULL;
  if (!meta->dims || (from->value_count && !meta->values) || (from->strided && !meta->strides))
    return tn_no_memory("a shape", rank);
  for (size_t d = 0; d < rank; d++) {
    meta->dims[d] = tn_extents_resolve(shapes->extents, from->dims[d]);
    if (from->strided) meta->strides[d] = tn_extents_resolve(shapes->extents, from->strides[d]);
  }
  for (uint32_t i = 0; i < from->value_count; i++)
    meta->values[i] = tn_extents_resolve(shapes->extents, from->values[i]);
  *out_meta = meta;
  return TENON_OK;
}

static tenon_status_t check_inputs(const tenon_op_t *op, tenon_meta_t *const *inputs) {
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tenon_meta_t *in = inputs[i];
    if (!in) continue;
    bool is_list = op->schema.inputs[i].kind == TENON_KIND_TENSORS;
    if (!TENON_HAS(in, detail))
      return tn_fail(TENON_INVALID,
                     "%s: input %s: a tenon_meta_t of %u bytes, expected at least %zu", op->name,
                     op->schema.inputs[i].name, in->size, sizeof *in);
    if (in->ndim < 0 || in->ndim > TENON_RANK_MAX || (in->ndim && !in->dims) ||
        (is_list && in->count && !in->items))
      return tn_fail(TENON_INVALID, "%s: input %s has %d axes, or no extents", op->name,
                     op->schema.inputs[i].name, (int)in->ndim);
  }
  return TENON_OK;
}

/* dtypes */

static void guess_one(const tn_type_source_t *source, tenon_meta_t *meta) {
  if (!meta->dtype.bits)
    meta->dtype = source->kind == TN_TYPE_VARIABLE ? source->fixed : tenon_dtype(TENON_F32);
}

/* Returns the inputs with all dtypes known. Dtypes that follow from other inputs are filled in
 * first; the others become a dtype that the type rules allow. */
static tenon_status_t guess_types(const tenon_op_t *op, const tenon_value_t *attrs,
                                  tenon_meta_t *const *inputs, tenon_meta_t *const **out_inputs) {
  size_t n = op->input_count;
  *out_inputs = inputs;
  if (tn_types_fill(&op->types, &op->schema, attrs, inputs)) return TENON_OK;
  tenon_meta_t *metas = tn_scratch(n * (sizeof *metas + sizeof metas) + 64);
  tenon_meta_t **pointers = (tenon_meta_t **)(metas + n);
  if (!metas) return tn_no_memory("inference", n * sizeof *metas);
  for (size_t i = 0; i < n; i++) {
    const tenon_meta_t *in = inputs[i];
    const tn_type_source_t *source = &op->types.inputs[i];
    pointers[i] = in ? &metas[i] : NULL;
    if (!in) continue;
    metas[i] = *in;
    if (!source->is_list) {
      guess_one(source, &metas[i]);
      continue;
    }
    tenon_meta_t *items = tn_scratch(in->count * (sizeof *items + sizeof items) + 64);
    tenon_meta_t **places = (tenon_meta_t **)(items + in->count);
    if (!items) return tn_no_memory("inference", in->count * sizeof *items);
    for (uint32_t k = 0; k < in->count; k++) {
      items[k] = *in->items[k];
      places[k] = &items[k];
      guess_one(source, &items[k]);
    }
    metas[i].items = places;
  }
  *out_inputs = pointers;
  return TENON_OK;
}

static tenon_status_t infer_types(const tenon_op_t *op, const tenon_value_t *attrs,
                                  tenon_meta_t *const *inputs, tenon_dtype_t *out_dtypes) {
  tenon_meta_t *const *whole, **made;
  TN_TRY(guess_types(op, attrs, inputs, &whole));
  TN_TRY(tn_metas_of_results(op, attrs, 0, &made));
  /* This reports dtypes that the type rules refuse. */
  TN_TRY(tn_types_apply(&op->types, &op->schema, attrs, whole, made));
  for (uint32_t o = 0; o < op->output_count; o++)
    if (!tn_types_output(&op->types, &op->schema, attrs, inputs, o, &out_dtypes[o]))
      out_dtypes[o] = (tenon_dtype_t){0, 0, 0};
  return TENON_OK;
}

/* inference */

static tenon_status_t infer_all_shapes(tenon_shapes_t *shapes, const tenon_op_t *op,
                                       const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                                       uint64_t wanted, const tenon_meta_t *const **out_results) {
  tn_inference_t inference = {.extents = shapes->extents};
  tenon_meta_t **made;
  void *state = NULL;
  const tenon_meta_t **results =
      tn_arena_array(&shapes->arena, op->output_count + 1, sizeof *results);
  if (!results) return tn_no_memory("shapes", op->output_count);
  TN_TRY(check_inputs(op, inputs));
  TN_TRY(guess_types(op, attrs, inputs, &inputs));
  if (op->create) TN_TRY(tn_state_get(op, attrs, &state));
  TN_TRY(tn_metas_of_results(op, attrs, wanted, &made));
  TN_TRY(tn_infer(&inference, op, attrs, state, inputs, made));
  for (uint32_t o = 0; o < op->output_count; o++) {
    results[o] = NULL;
    if (made[o]) TN_TRY(keep_meta(shapes, made[o], &results[o]));
  }
  *out_results = results;
  return TENON_OK;
}

static tenon_status_t defaults_for(const tenon_op_t *op, const tenon_value_t **attrs) {
  if (*attrs) return TENON_OK;
  *attrs = op->defaults;
  return op->schema.needs_attrs ? tn_values_check(&op->schema, op->defaults) : TENON_OK;
}

tenon_status_t tenon_types_infer(const tenon_op_t *op, const tenon_value_t *attrs,
                                 tenon_meta_t *const *inputs, tenon_dtype_t *out_dtypes) {
  op = tn_op_now(op);
  TN_TRY(defaults_for(op, &attrs));
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = infer_types(op, attrs, inputs, out_dtypes);
  tn_scratch_reset(mark);
  return status;
}

tenon_status_t tenon_shapes_infer(tenon_shapes_t *shapes, const tenon_op_t *op,
                                  const tenon_value_t *attrs, tenon_meta_t *const *inputs,
                                  uint64_t wanted, const tenon_meta_t *const **out_results) {
  op = tn_op_now(op);
  TN_TRY(defaults_for(op, &attrs));
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = infer_all_shapes(shapes, op, attrs, inputs, wanted, out_results);
  tn_scratch_reset(mark);
  return status;
}

tenon_status_t tenon_shapes_part(tenon_shapes_t *shapes, tenon_dim_t dim, tenon_part_t *part) {
  tn_extent_part_t found;
  uint32_t size = part->size < sizeof *part ? part->size : (uint32_t)sizeof *part;
  TN_TRY(tn_extents_part(shapes->extents, dim, &found));
  tenon_part_t full = {size, found.kind, found.operation, 0, found.a, found.b};
  memcpy(part, &full, size);
  return TENON_OK;
}
