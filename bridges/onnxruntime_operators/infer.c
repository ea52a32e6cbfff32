/* Types and shapes of outputs, for ONNX Runtime's plans of memory and for the nodes that follow. An
 * unknown rank looks like that of a number here. So where an input has no axes, nothing is stated,
 * unless the type of an output is otherwise unknown. What fails here fails again when the kernel is
 * created, where ONNX Runtime reports it. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "common/ort_element.h"

enum {
  SYMBOLS_MOST = 1024,
  NAME_SIZE = 64,
  UNKNOWN = -1,
};

/* An unknown extent and its name in the model. */
typedef struct symbol_t {
  tenon_dim_t dim;
  char name[NAME_SIZE];
} symbol_t;

typedef struct inference_t {
  const operator_t *self;
  const OrtShapeInferContext *context;
  source_t source;
  tenon_shapes_t *shapes;
  symbol_t symbols[SYMBOLS_MOST];
  size_t symbol_count;
  tenon_dim_t dims[2 * SYMBOLS_MOST]; /* the extents of all inputs */
  size_t dim_count;
  bool has_number; /* some input has no axes */
  tenon_meta_t metas[TENSORS_MOST];
  tenon_meta_t *items[TENSORS_MOST];
  tenon_meta_t lists[SIDE_MOST];
  tenon_meta_t *inputs[SIDE_MOST];
} inference_t;

/* ---- inputs ---- */

/* Finds the symbol of a name, or makes one. An extent without a name is a symbol of its own. */
static bool find_symbol(inference_t *f, const char *name, tenon_dim_t *out) {
  for (size_t k = 0; k < f->symbol_count && *name; k++)
    if (strcmp(f->symbols[k].name, name) == 0) {
      *out = f->symbols[k].dim;
      return true;
    }
  if (f->symbol_count == SYMBOLS_MOST || strlen(name) >= NAME_SIZE ||
      host.tenon_shapes_symbol(f->shapes, out) != TENON_OK)
    return false;
  symbol_t *made = &f->symbols[f->symbol_count++];
  made->dim = *out;
  snprintf(made->name, sizeof made->name, "%s", name);
  return true;
}

/* Reads the extents of an input. */
static bool read_extents(inference_t *f, const ort_shape_t *shape, tenon_meta_t *meta) {
  int64_t dims[TENON_RANK_MAX];
  const char *names[TENON_RANK_MAX] = {NULL};
  size_t rank = 0;
  if (!ort_succeeds(ort.GetDimensionsCount(shape, &rank)) || rank > TENON_RANK_MAX ||
      f->dim_count + rank > sizeof f->dims / sizeof *f->dims ||
      !ort_succeeds(ort.GetDimensions(shape, dims, rank)) ||
      !ort_succeeds(ort.GetSymbolicDimensions(shape, names, rank)))
    return false;
  meta->ndim = (int32_t)rank;
  meta->dims = f->dims + f->dim_count;
  f->dim_count += rank;
  f->has_number |= rank == 0;
  for (size_t d = 0; d < rank; d++) {
    meta->dims[d].value = dims[d];
    if (dims[d] < 0 && !find_symbol(f, names[d] ? names[d] : "", &meta->dims[d])) return false;
  }
  return true;
}

/* Reads an input of the node. `*out_present` is false if it is absent. */
static bool read_node_input(inference_t *f, size_t index, tenon_meta_t *meta, bool *out_present) {
  ort_shape_t *shape = NULL; /* the context's */
  ort_element_t element = ORT_ELEMENT_UNDEFINED;
  *out_present = false;
  *meta = (tenon_meta_t){.size = sizeof *meta, .device = {1, 0}};
  if (!ort_succeeds(ort.ShapeInferContext_GetInputTypeShape(f->context, index, &shape)) || !shape ||
      !ort_succeeds(ort.GetTensorElementType(shape, &element)))
    return true;
  if (!element_dtype(element, &meta->dtype)) return true;
  *out_present = true;
  return read_extents(f, shape, meta);
}

/* Makes the metas of one input of the schema, from tensor `first` on. */
static bool read_argument(inference_t *f, int32_t i, int32_t first, int32_t count) {
  bool is_present;
  f->inputs[i] = NULL;
  for (int32_t k = first; k < first + count; k++) {
    if (!read_node_input(f, (size_t)k, &f->metas[k], &is_present)) return false;
    f->items[k] = is_present ? &f->metas[k] : NULL;
  }
  if (f->self->inputs[i].kind != TENON_KIND_TENSORS) {
    if (count) f->inputs[i] = f->items[first];
    return true;
  }
  for (int32_t k = first; k < first + count; k++)
    if (!f->items[k]) return false;
  f->lists[i] = (tenon_meta_t){.size = sizeof f->lists[i],
                               .device = {1, 0},
                               .dtype = tenon_dtype(TENON_LIST),
                               .count = (uint32_t)count,
                               .items = &f->items[first]};
  f->inputs[i] = &f->lists[i];
  return true;
}

static bool read_node_inputs(inference_t *f) {
  int32_t counts[SIDE_MOST];
  size_t total = 0;
  size_t stated_count = 0;
  int32_t first = 0;
  if (!ort_succeeds(ort.ShapeInferContext_GetInputCount(f->context, &total)) ||
      total > TENSORS_MOST)
    return false;
  int64_t *stated =
      f->self->has_own_counts ? NULL : attribute_ints(&f->source, COUNTS_ATTRIBUTE, &stated_count);
  const tenon_status_t status =
      operator_count_inputs(f->self, (int32_t)total, stated, (int32_t)stated_count, counts);
  free(stated);
  for (int32_t i = 0; i < f->self->input_count && status == TENON_OK; i++) {
    if (!read_argument(f, i, first, counts[i])) return false;
    first += counts[i];
  }
  return status == TENON_OK;
}

/* ---- outputs ---- */

/* Returns the value of an extent if it is known, otherwise UNKNOWN. */
static int64_t known_value(inference_t *f, tenon_dim_t dim, int depth) {
  tenon_part_t part = {.size = sizeof part};
  if (depth > 50 || host.tenon_shapes_part(f->shapes, dim, &part) != TENON_OK) return UNKNOWN;
  if (part.kind == TENON_PART_NUMBER) return part.a.value;
  if (part.kind == TENON_PART_SYMBOL && part.a.value != dim.value)
    return known_value(f, part.a, depth + 1);
  if (part.kind != TENON_PART_OPERATION || part.operation != TENON_DIM_BROADCAST) return UNKNOWN;
  const int64_t a = known_value(f, part.a, depth + 1);
  const int64_t b = known_value(f, part.b, depth + 1);
  /* An extent above 1 determines the result, whatever the other one is. */
  if (a > 1 || b == 1) return a;
  return b > 1 || a == 1 ? b : UNKNOWN;
}

/* Returns the name of an unknown extent. Equal names mean equal extents in the whole model, so an
 * extent that is not one of an input gets a name that nothing else has. */
static const char *name_of(inference_t *f, tenon_dim_t dim) {
  static atomic_uint number;
  symbol_t *found = NULL;
  for (size_t k = 0; k < f->symbol_count && !found; k++)
    if (f->symbols[k].dim.value == dim.value) found = &f->symbols[k];
  if (!found && f->symbol_count < SYMBOLS_MOST) {
    found = &f->symbols[f->symbol_count++];
    *found = (symbol_t){.dim = dim};
  }
  if (!found) return NULL;
  if (!*found->name)
    snprintf(found->name, sizeof found->name, "tenon_%u", atomic_fetch_add(&number, 1));
  return found->name;
}

static void state_output(inference_t *f, size_t index, const tenon_meta_t *meta) {
  int64_t dims[TENON_RANK_MAX];
  const char *names[TENON_RANK_MAX];
  ort_shape_t *shape = NULL;
  const ort_element_t element = element_of(meta->dtype);
  if (!element || meta->ndim < 0 || meta->layout) return;
  for (int32_t d = 0; d < meta->ndim; d++) {
    dims[d] = known_value(f, meta->dims[d], 0);
    names[d] = dims[d] < 0 ? name_of(f, meta->dims[d]) : "";
    if (!names[d]) return;
  }
  if (!ort_succeeds(ort.CreateTensorTypeAndShapeInfo(&shape))) return;
  const size_t rank = (size_t)meta->ndim;
  if (ort_succeeds(ort.SetTensorElementType(shape, element)) &&
      ort_succeeds(ort.SetDimensions(shape, dims, rank)) &&
      ort_succeeds(ort.SetSymbolicDimensions(shape, names, rank)))
    (void)ort_succeeds(ort.ShapeInferContext_SetOutputTypeShape(f->context, index, shape));
  ort.ReleaseTensorTypeAndShapeInfo(shape);
}

static void state_outputs(inference_t *f, const tenon_meta_t *const *results) {
  const operator_t *self = f->self;
  size_t at = 0;
  for (int32_t o = 0; o < self->side_count; o++) {
    const bool is_result = o < self->output_count;
    const tenon_meta_t *meta = is_result ? results[o] : NULL;
    if (self->written[o] >= 0) meta = f->inputs[self->written[o]];
    const bool is_list = is_result && self->outputs[o].kind == TENON_KIND_TENSORS;
    if (is_list && !meta) return; /* the places of the outputs after it are unknown */
    for (uint32_t i = 0; is_list && i < meta->count; i++)
      state_output(f, at++, meta->items[i]);
    if (is_list) continue;
    if (meta) state_output(f, at, meta);
    at++;
  }
}

static void infer(inference_t *f) {
  const tenon_meta_t *const *results = NULL;
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  if (host.tenon_shapes_create(&f->shapes) != TENON_OK || !read_node_inputs(f)) return;
  if (f->has_number && f->self->is_known) return;
  if (attributes_read(f->self, &f->source, NULL, &attrs, &values) != TENON_OK) return;
  if (host.tenon_shapes_infer(f->shapes, f->self->op, values, f->inputs, 0, &results) == TENON_OK)
    state_outputs(f, results);
  host.tenon_attrs_release(attrs);
}

OrtStatus *custom_infer(const OrtCustomOp *custom, OrtShapeInferContext *context) {
  inference_t *f = calloc(1, sizeof *f);
  if (!f) return NULL; /* shapes remain unknown */
  f->self = ((const overload_t *)(const void *)custom)->of;
  f->context = context;
  f->source.context = context;
  infer(f);
  host.tenon_shapes_release(f->shapes);
  free(f);
  return NULL;
}
