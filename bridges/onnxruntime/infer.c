/* Infers dtypes from the overload that a call gets, and shapes by the library's function. Without
 * such a function the shapes stay unknown until the kernel gives them. The extents that the library
 * sees are numbers, or -1 with a name that stands for a symbol of Tenon. */
#include "infer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "common/guard.h"
#include "common/ort_element.h"
#include "op_attribute.h"
#include "shape_info.h"
#include "status.h"

enum { FEW = 32 }; /* up to this number of inputs and results, the arrays are on the stack */

/* The library reads and fills it through functions. */
struct OrtShapeInferContext {
  tenon_infer_t *infer;
  const state_t *state;
  const overload_t *overload;
  const tenon_meta_t *const *inputs;
  tenon_meta_t *const *outputs;
  OrtTensorTypeAndShapeInfo **infos; /* what the library was given: lent until the call ends */
  OrtOpAttr *attributes;             /* the same for attributes, linked */
  uint32_t in_count;
  uint32_t out_count;
  OrtStatus *status; /* of the library's function */
  char why[WHY];
};

/* what the library asks */

OrtStatus *ort_ShapeInferContext_GetInputCount(const OrtShapeInferContext *context, size_t *out) {
  *out = context->in_count;
  return NULL;
}

static OrtStatus *name_symbols(OrtTensorTypeAndShapeInfo *info, const tenon_meta_t *meta) {
  char texts[TENON_RANK_MAX][24];
  const char *names[TENON_RANK_MAX];
  bool has_symbol = false;
  for (int32_t d = 0; d < meta->ndim; d++) {
    const bool is_known = tenon_is_known(meta->dims[d]);
    has_symbol |= !is_known;
    texts[d][0] = 0;
    if (!is_known)
      snprintf(texts[d], sizeof texts[d], "s%lld",
               (long long)(TENON_DIM_LEAST - meta->dims[d].value));
    names[d] = texts[d];
  }
  return has_symbol ? ort_SetSymbolicDimensions(info, names, (size_t)meta->ndim) : NULL;
}

OrtStatus *ort_ShapeInferContext_GetInputTypeShape(const OrtShapeInferContext *context,
                                                   size_t index, OrtTensorTypeAndShapeInfo **out) {
  int64_t dims[TENON_RANK_MAX + 1];
  *out = NULL;
  if (index >= context->in_count || !context->inputs[index])
    return status_make(ORT_INVALID_ARGUMENT, "input %zu is absent: the node has %u inputs", index,
                       context->in_count);
  const tenon_meta_t *meta = context->inputs[index];
  for (int32_t d = 0; d < meta->ndim; d++)
    dims[d] = tenon_is_known(meta->dims[d]) ? meta->dims[d].value : -1;
  OrtTensorTypeAndShapeInfo *info = shape_info_make(element_of(meta->dtype), meta->ndim, dims);
  OrtStatus *status = info ? NULL : status_make(ORT_FAIL, "out of memory");
  if (info && meta->ndim > 0) status = name_symbols(info, meta);
  if (status) {
    ort_ReleaseTensorTypeAndShapeInfo(info);
    return status;
  }
  /* The library does not release it. */
  ort_ReleaseTensorTypeAndShapeInfo(context->infos[index]);
  *out = context->infos[index] = info;
  return NULL;
}

OrtStatus *ort_ShapeInferContext_GetAttribute(const OrtShapeInferContext *context, const char *name,
                                              const OrtOpAttr **out) {
  tenon_string_t text;
  OrtOpAttr *made;
  *out = NULL;
  if (!attribute_find(context->state->attributes, name, &text))
    return status_make(ORT_INVALID_ARGUMENT, "%s has no attribute '%.100s'",
                       context->state->op->name, name);
  OrtStatus *status = op_attribute_of_text(name, text, &made);
  if (status) return status;
  op_attribute_link(made, &((OrtShapeInferContext *)(uintptr_t)context)->attributes);
  *out = made;
  return NULL;
}

/* Finds the symbol that a name stands for. */
static bool find_symbol(const OrtShapeInferContext *context, const char *name, tenon_dim_t *out) {
  char *end = NULL;
  if (!name || *name != 's') return false;
  const long long number = strtoll(name + 1, &end, 10);
  if (!end || *end || end == name + 1 || number <= 0) return false;
  const int64_t value = TENON_DIM_LEAST - number;
  for (uint32_t i = 0; i < context->in_count; i++)
    for (int32_t d = 0; context->inputs[i] && d < context->inputs[i]->ndim; d++)
      if (context->inputs[i]->dims[d].value == value) {
        *out = context->inputs[i]->dims[d];
        return true;
      }
  return false;
}

OrtStatus *ort_ShapeInferContext_SetOutputTypeShape(const OrtShapeInferContext *context,
                                                    size_t index,
                                                    const OrtTensorTypeAndShapeInfo *info) {
  tenon_dtype_t dtype;
  if (index >= context->out_count) {
    /* Optional results at the end may be unwanted. */
    if (index < context->state->op->out_count) return NULL;
    return status_make(ORT_INVALID_ARGUMENT, "output %zu does not exist: the node has %u", index,
                       context->out_count);
  }
  tenon_meta_t *meta = context->outputs[index];
  if (!meta) return NULL;
  if (element_dtype(info->element, &dtype)) meta->dtype = dtype;
  if (!info->has_shape) return NULL;
  meta->ndim = (int32_t)info->ndim;
  for (size_t d = 0; d < info->ndim; d++) {
    meta->dims[d] = tenon_extent(info->dims[d]);
    if (info->dims[d] >= 0) continue;
    if (!find_symbol(context, info->names ? info->names[d] : NULL, &meta->dims[d]))
      meta->dims[d] = tenon_dim(context->infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
  }
  return NULL;
}

/* dtypes */

/* The dtype of a result of any type is that of the last input of any type. */
static bool find_any(const OrtShapeInferContext *context, tenon_dtype_t *out) {
  const operator_t *op = context->state->op;
  bool found = false;
  for (uint32_t i = 0; i < context->in_count; i++) {
    const size_t at = i < op->in_count ? i : op->in_count - 1;
    if (context->overload->inputs[at] || !context->inputs[i]) continue;
    *out = context->inputs[i]->dtype;
    found = true;
  }
  return found;
}

static bool set_dtypes(OrtShapeInferContext *context) {
  const operator_t *op = context->state->op;
  const bool has_function =
      context->overload->version >= SINCE_SHAPES && context->overload->op->InferOutputShapeFn;
  for (uint32_t i = 0; i < context->out_count; i++) {
    const size_t at = i < op->out_count ? i : op->out_count - 1;
    tenon_meta_t *meta = context->outputs[i];
    if (!meta) continue;
    meta->ndim = -1;
    if (element_dtype((ort_element_t)context->overload->outputs[at], &meta->dtype) ||
        find_any(context, &meta->dtype) || has_function)
      continue;
    snprintf(context->why, sizeof context->why,
             "the dtype of result %u is not known: the library states neither a dtype nor "
             "InferOutputShapeFn",
             i);
    return false;
  }
  return true;
}

/* shapes */

static int ask_shapes(void *argument) {
  OrtShapeInferContext *context = argument;
  const OrtCustomOp *op = context->overload->op;
  context->status = op->InferOutputShapeFn(op, context);
  return 1;
}

/* A status only means that the library cannot tell: ONNX Runtime then lets the kernel give the
 * shapes, and kernels rely on it. The status itself is left alone, because the classes for C++
 * return one that they have released already. */
static void forget_shapes(OrtShapeInferContext *context) {
  for (uint32_t i = 0; i < context->out_count; i++)
    if (context->outputs[i]) context->outputs[i]->ndim = -1;
}

static bool set_shapes(OrtShapeInferContext *context) {
  char why[WHY / 2] = "";
  if (context->overload->version < SINCE_SHAPES || !context->overload->op->InferOutputShapeFn)
    return true;
  context->infos = calloc((size_t)context->in_count + 1, sizeof *context->infos);
  if (!context->infos) {
    snprintf(context->why, sizeof context->why, "out of memory");
    return false;
  }
  const bool good = guard_call(ask_shapes, context, why, sizeof why) > 0;
  if (!good) snprintf(context->why, sizeof context->why, "InferOutputShapeFn failed: %s", why);
  if (context->status) forget_shapes(context);
  for (uint32_t i = 0; i < context->in_count; i++)
    ort_ReleaseTensorTypeAndShapeInfo(context->infos[i]);
  free(context->infos);
  op_attribute_release_all(context->attributes);
  return good;
}

/* inference */

static bool choose_overload(OrtShapeInferContext *context) {
  const state_t *state = context->state;
  uint8_t few[FEW];
  uint8_t *elements = few;
  if (context->in_count > FEW && !(elements = malloc(context->in_count))) {
    snprintf(context->why, sizeof context->why, "out of memory");
    return false;
  }
  for (uint32_t i = 0; i < context->in_count; i++)
    elements[i] = context->inputs[i] ? (uint8_t)element_of(context->inputs[i]->dtype) : 0;
  context->overload = operator_choose(state->op, elements, context->in_count);
  if (!context->overload)
    operator_explain(state->op, elements, context->in_count, context->why, sizeof context->why);
  if (elements != few) free(elements);
  return context->overload != NULL;
}

static bool check_least(OrtShapeInferContext *context, uint32_t in_items, uint32_t out_items) {
  const operator_t *op = context->state->op;
  const bool few_inputs = op->has_input_list && (int64_t)in_items < op->in_least;
  const bool few_outputs = op->has_output_list && (int64_t)out_items < op->out_least;
  static const char format[] = "the variadic %s has %u items: expected at least %d";
  if (few_inputs)
    snprintf(context->why, sizeof context->why, format, "input", in_items, op->in_least);
  else if (few_outputs)
    snprintf(context->why, sizeof context->why, format, "output", out_items, op->out_least);
  return !few_inputs && !few_outputs;
}

/* Lists the arguments of one side in the order of the library, the items of a list last; returns
 * their number. `single` arguments precede the list. */
static uint32_t list_metas(tenon_meta_t *const *metas, size_t single, uint32_t items,
                           tenon_meta_t **out) {
  uint32_t count = 0;
  for (size_t i = 0; i < single; i++)
    out[count++] = metas[i];
  for (uint32_t k = 0; k < items; k++)
    out[count++] = metas[single]->items[k];
  while (count && !out[count - 1])
    count--;
  return count;
}

tenon_status_t infer_results(tenon_infer_t *infer) {
  const state_t *state = infer->state;
  const operator_t *op = state->op;
  const size_t ins = op->in_count - op->has_input_list;
  const size_t outs = op->out_count - op->has_output_list;
  const tenon_meta_t *in_list = op->has_input_list ? infer->inputs[ins] : NULL;
  const tenon_meta_t *out_list = op->has_output_list ? infer->outputs[outs] : NULL;
  const uint32_t in_items = in_list ? in_list->count : 0;
  const uint32_t out_items = out_list ? out_list->count : 0;
  const size_t room = ins + in_items + outs + out_items;
  tenon_meta_t *few[FEW];
  tenon_meta_t **metas = few;
  if (room > FEW && !(metas = malloc(room * sizeof(tenon_meta_t *))))
    return tenon_fail(infer, TENON_MEMORY, "out of memory");
  OrtShapeInferContext context;
  context.infer = infer;
  context.state = state;
  context.attributes = NULL;
  context.status = NULL;
  context.why[0] = 0;
  context.in_count = list_metas(infer->inputs, ins, in_items, metas);
  context.inputs = (const tenon_meta_t *const *)metas;
  context.outputs = metas + ins + in_items;
  context.out_count = list_metas(infer->outputs, outs, out_items, metas + ins + in_items);
  const bool good = check_least(&context, in_items, out_items) && choose_overload(&context) &&
                    set_dtypes(&context) && set_shapes(&context);
  if (metas != few) free(metas);
  return good ? TENON_OK : tenon_fail(infer, TENON_INVALID, "%s", context.why);
}
