/* Shape functions: TensorFlow asks for the shapes of results when it builds or loads a graph. The
 * interface reads no attributes but dtypes, so a function infers shapes only for operators whose
 * results depend on the shapes of inputs alone. Other results have unknown shapes here, and the
 * functions of tenon.tensorflow set their shapes. */
#include <stdlib.h>
#include <string.h>

#include "operator.h"

enum { SYMBOLS_MOST = 1024, UNKNOWN = -1 };

/* An extent that is not known, and the axis that it belongs to. */
typedef struct symbol_t {
  tenon_dim_t dim;
  int input;
  int64_t axis;
} symbol_t;

typedef struct inference_t {
  const operator_t *self;
  tf_inference_t *context;
  tf_status_t *status;
  tenon_shapes_t *shapes;
  symbol_t symbols[SYMBOLS_MOST];
  size_t symbol_count;
  tenon_dim_t dims[2 * SYMBOLS_MOST]; /* the extents of all inputs */
  size_t dim_count;
  tenon_meta_t metas[OPERATOR_TENSORS_MOST]; /* the inputs as TensorFlow counts them */
  tenon_meta_t *items[OPERATOR_TENSORS_MOST];
  tenon_meta_t lists[OPERATOR_MOST];
  tenon_meta_t *inputs[OPERATOR_MOST];
} inference_t;

/* ---- inputs ---- */

static bool read_extent(inference_t *f, int input, int64_t axis, tf_shape_t *shape,
                        tenon_dim_t *out) {
  tf_dimension_t *dimension = tf.TF_NewDimensionHandle();
  tf.TF_ShapeInferenceContextDim(f->context, shape, axis, dimension);
  const bool is_known = tf.TF_DimensionHandleValueKnown(dimension) != 0;
  if (is_known) out->value = tf.TF_DimensionHandleValue(dimension);
  tf.TF_DeleteDimensionHandle(dimension);
  if (is_known) return true;
  if (f->symbol_count == SYMBOLS_MOST || tenon_shapes_symbol(f->shapes, out) != TENON_OK)
    return false;
  f->symbols[f->symbol_count++] = (symbol_t){*out, input, axis};
  return true;
}

/* Reads the shape of one input. Returns false if its rank is unknown. */
static bool read_input(inference_t *f, int input, tenon_meta_t *meta) {
  tf_shape_t *shape = tf.TF_NewShapeHandle();
  tf.TF_ShapeInferenceContextGetInput(f->context, input, shape, f->status);
  const int64_t rank = tf.TF_GetCode(f->status) == TF_OK
                           ? tf.TF_ShapeInferenceContextRank(f->context, shape)
                           : UNKNOWN;
  bool good = rank >= 0 && rank <= TENON_RANK_MAX &&
              f->dim_count + (size_t)rank <= sizeof f->dims / sizeof *f->dims;
  *meta = (tenon_meta_t){.size = sizeof *meta,
                         .device = {1, 0},
                         .ndim = (int32_t)rank,
                         .dims = f->dims + f->dim_count};
  for (int64_t d = 0; d < rank && good; d++)
    good = read_extent(f, input, d, shape, &meta->dims[d]);
  if (good) f->dim_count += (size_t)rank;
  tf.TF_DeleteShapeHandle(shape);
  return good;
}

/* Assigns the inputs of the node to the arguments. At most one argument has any number of tensors,
 * which therefore follows from the number of all inputs. */
static bool read_inputs(inference_t *f) {
  const operator_t *self = f->self;
  const int64_t total = tf.TF_ShapeInferenceContextNumInputs(f->context);
  int64_t single_count = 0;
  int at = 0;
  if (total > OPERATOR_TENSORS_MOST) return false;
  for (uint32_t i = 0; i < self->input_count; i++)
    single_count += !*self->inputs[i].count && !self->inputs[i].is_types;
  for (uint32_t i = 0; i < self->input_count; i++) {
    const side_t *side = &self->inputs[i];
    const bool is_group = *side->count || side->is_types;
    const int64_t count = is_group ? total - single_count : 1;
    for (int64_t n = 0; n < count; n++, at++) {
      f->items[at] = &f->metas[at];
      if (at >= total || !read_input(f, at, &f->metas[at])) return false;
    }
    if (side->of.kind == TENON_KIND_TENSORS) {
      f->lists[i] = (tenon_meta_t){.size = sizeof f->lists[i],
                                   .device = {1, 0},
                                   .dtype = tenon_dtype(TENON_LIST),
                                   .count = (uint32_t)count,
                                   .items = &f->items[at - count]};
      f->inputs[i] = &f->lists[i];
    } else if (count == 1) {
      f->inputs[i] = &f->metas[at - 1];
    }
  }
  return true;
}

/* ---- results ---- */

static const symbol_t *find_symbol(const inference_t *f, tenon_dim_t dim) {
  for (size_t k = 0; k < f->symbol_count; k++)
    if (f->symbols[k].dim.value == dim.value) return &f->symbols[k];
  return NULL;
}

/* Returns the value of an extent if it is known, otherwise UNKNOWN. */
static int64_t value_of(inference_t *f, tenon_dim_t dim, int depth) {
  tenon_part_t part = {.size = sizeof part};
  if (depth > 50 || tenon_shapes_part(f->shapes, dim, &part) != TENON_OK) return UNKNOWN;
  if (part.kind == TENON_PART_NUMBER) return part.a.value;
  if (part.kind == TENON_PART_SYMBOL && part.a.value != dim.value)
    return value_of(f, part.a, depth + 1);
  if (part.kind != TENON_PART_OPERATION || part.operation != TENON_DIM_BROADCAST) return UNKNOWN;
  const int64_t a = value_of(f, part.a, depth + 1);
  const int64_t b = value_of(f, part.b, depth + 1);
  /* An extent above 1 determines the result, whatever the other one is. */
  if (a > 1 || b == 1) return a;
  return b > 1 || a == 1 ? b : UNKNOWN;
}

/* Returns a shape with one extent. An extent that equals one of an input is that extent, so that
 * TensorFlow knows them to be equal. The caller deletes the shape. */
static tf_shape_t *make_extent(inference_t *f, tenon_dim_t dim) {
  const symbol_t *symbol = find_symbol(f, dim);
  if (!symbol)
    return tf.TF_ShapeInferenceContextVectorFromSize(f->context, (size_t)value_of(f, dim, 0));
  tf_shape_t *input = tf.TF_NewShapeHandle();
  tf_shape_t *made = tf.TF_NewShapeHandle();
  tf.TF_ShapeInferenceContextGetInput(f->context, symbol->input, input, f->status);
  tf.TF_ShapeInferenceContextSubshape(f->context, input, symbol->axis, symbol->axis + 1, made,
                                      f->status);
  tf.TF_DeleteShapeHandle(input);
  return made;
}

static void set_output(inference_t *f, int output, const tenon_meta_t *meta) {
  tf_shape_t *shape = tf.TF_ShapeInferenceContextScalar(f->context);
  for (int32_t d = 0; d < meta->ndim && tf.TF_GetCode(f->status) == TF_OK; d++) {
    tf_shape_t *extent = make_extent(f, meta->dims[d]);
    tf_shape_t *longer = tf.TF_NewShapeHandle();
    tf.TF_ShapeInferenceContextConcatenateShapes(f->context, shape, extent, longer, f->status);
    tf.TF_DeleteShapeHandle(shape);
    tf.TF_DeleteShapeHandle(extent);
    shape = longer;
  }
  if (tf.TF_GetCode(f->status) == TF_OK)
    tf.TF_ShapeInferenceContextSetOutput(f->context, output, shape, f->status);
  tf.TF_DeleteShapeHandle(shape);
}

/* The new contents of inputs that are written to come first. */
static int set_written(inference_t *f) {
  int count = 0;
  for (uint32_t i = 0; i < f->self->input_count; i++)
    if (f->self->inputs[i].of.is_written) set_output(f, count++, f->inputs[i]);
  return count;
}

static bool infer(inference_t *f) {
  const tenon_meta_t *const *results = NULL;
  if (tenon_shapes_create(&f->shapes) != TENON_OK || !read_inputs(f)) return false;
  const tenon_status_t status =
      tenon_shapes_infer(f->shapes, f->self->op, NULL, f->inputs, 0, &results);
  if (status != TENON_OK) {
    /* The attributes are not those of the node, so they may be the reason. The kernel reports an
     * error. */
    if (f->self->attr_count) return false;
    tf.TF_SetStatus(f->status, status, tenon_error());
    return true;
  }
  int at = set_written(f);
  for (uint32_t o = 0; o < f->self->output_count; o++) {
    if (!operator_has_output(f->self, o)) continue;
    if (!results[o] || results[o]->ndim < 0) return false;
    set_output(f, at++, results[o]);
  }
  return true;
}

void infer_shapes(const operator_t *self, tf_inference_t *inference, tf_status_t *status) {
  inference_t *f = self->has_plain_shapes ? calloc(1, sizeof *f) : NULL;
  bool is_known = false;
  if (f) {
    f->self = self;
    f->context = inference;
    f->status = status;
    is_known = infer(f);
    tenon_shapes_release(f->shapes);
  }
  if (!is_known && tf.TF_GetCode(status) == TF_OK)
    tf.TF_ShapeInferenceContextSetUnknownShape(inference, status);
  free(f);
}
