#include "convolution.h"

#include <string.h>

#include "dnn.h"

enum { ALIGNED = 16 }; /* alignment in bytes that the kernels of cuDNN need */

/* Attributes of core::conv. Tests compare the activations with those of core::conv. */
enum {
  STRIDES,
  PADS,
  DILATIONS,
  AUTO_PAD,
  GROUP,
  ACTIVATION,
  ALPHA,
  BETA,
};
enum {
  EXPLICIT,
  SAME_UPPER,
  SAME_LOWER,
  VALID,
};
enum {
  NONE,
  RELU,
  CLIP,
  ELU = 4,
  TANH = 7,
  SIGMOID,
  SILU,
};

static int64_t list_at(const tenon_value_t *list, int32_t i, int64_t otherwise) {
  return list->kind == TENON_KIND_INTS && list->count ? list->as.ints[i] : otherwise;
}

static bool type_of(tenon_dtype_t dtype, cu_enum_t *out_type) {
  switch (tenon_dtype_id(dtype)) {
  case TENON_F32:
    *out_type = DNN_DATA_FLOAT;
    return true;
  case TENON_F16:
    *out_type = DNN_DATA_HALF;
    return true;
  case TENON_BF16:
    *out_type = DNN_DATA_BFLOAT16;
    return true;
  case TENON_F64:
    *out_type = DNN_DATA_DOUBLE;
    return true;
  }
  return false;
}

/* layouts */

/* The axis of the tensor for axis i of `rank` axes; -1: the axis of extent 1 that is inserted
 * before the only spatial axis. */
static int32_t own_axis(const tenon_tensor_t *t, int rank, int i) {
  if (i < 2) return i;
  if (i == 2 && t->ndim < rank) return -1;
  return i - (rank - t->ndim);
}

/* Sets the extents and the packed strides. false: an extent is 0, or there are too many
 * elements. */
static bool pack(const tenon_tensor_t *t, int rank, cu_enum_t format, cu_layout_t *out) {
  static const int last[][CU_RANK] = {{1, 3, 2, 0}, {1, 4, 3, 2, 0}}; /* from the innermost axis */
  int64_t stride = 1;
  memset(out, 0, sizeof *out);
  out->rank = rank;
  for (int k = 0; k < rank; k++) {
    int i = format == DNN_TENSOR_NHWC ? last[rank - 4][k] : rank - 1 - k;
    int32_t own = own_axis(t, rank, i);
    int64_t extent = own < 0 ? 1 : t->shape[own];
    out->strides[i] = (int)stride;
    out->dims[i] = (int)extent;
    if (extent < 1 || extent > INT32_MAX || (stride *= extent) > INT32_MAX) return false;
  }
  return true;
}

static bool lies(const tenon_tensor_t *t, const cu_layout_t *as) {
  for (int i = 0; i < as->rank; i++)
    if (as->dims[i] > 1 && t->strides[own_axis(t, as->rank, i)] != as->strides[i]) return false;
  return (uintptr_t)t->data % ALIGNED == 0;
}

/* Describes from where a tensor is copied if it does not have the wanted layout. false: cuDNN
 * cannot copy it. */
static bool copy_of(const tenon_tensor_t *t, const cu_layout_t *to, cu_layout_t *out) {
  int64_t last = 0;
  if (lies(t, to)) return true;
  *out = *to;
  for (int i = 0; i < to->rank; i++) {
    if (to->dims[i] == 1) continue;
    int64_t stride = t->strides[own_axis(t, to->rank, i)];
    if (stride < 1 || stride > INT32_MAX || (last += stride * (to->dims[i] - 1)) > INT32_MAX)
      return false;
    out->strides[i] = (int)stride;
  }
  return true;
}

static bool lay_all(const tenon_call_t *call, int rank, cu_shape_t *s) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *w = call->inputs[1];
  const tenon_tensor_t *residual = call->inputs[3];
  const tenon_tensor_t *out = call->outputs[0];
  cu_layout_t *lay = s->tensors;
  if (!pack(out, rank, DNN_TENSOR_NHWC, &lay[CU_OUT]) ||
      !pack(x, rank, DNN_TENSOR_NHWC, &lay[CU_X]))
    return false;
  bool is_last = lies(out, &lay[CU_OUT]);
  bool x_is_last = lies(x, &lay[CU_X]);
  if (!is_last || !x_is_last) {
    cu_layout_t out_first, x_first;
    if (!pack(out, rank, DNN_TENSOR_NCHW, &out_first) || !pack(x, rank, DNN_TENSOR_NCHW, &x_first))
      return false;
    if (!is_last && !lies(out, &out_first)) return false;
    if (!is_last ||
        /* with one channel or one pixel, both layouts hold */
        (lies(out, &out_first) && lies(x, &x_first))) {
      is_last = false;
      lay[CU_OUT] = out_first;
      lay[CU_X] = x_first;
    }
  }
  /* cuDNN has no channels-last filters of f64, although the tensors may be channels-last. */
  s->format = is_last && s->type != DNN_DATA_DOUBLE ? DNN_TENSOR_NHWC : DNN_TENSOR_NCHW;
  return pack(w, rank, s->format, &lay[CU_W]) && copy_of(x, &lay[CU_X], &lay[CU_FROM_X]) &&
         copy_of(w, &lay[CU_W], &lay[CU_FROM_W]) &&
         (!residual || copy_of(residual, &lay[CU_OUT], &lay[CU_FROM_RESIDUAL]));
}

static bool bias_of(const tenon_tensor_t *bias, cu_shape_t *s) {
  cu_layout_t *lay = &s->tensors[CU_BIAS];
  cu_layout_t *out = &s->tensors[CU_OUT];
  if (!bias) return true;
  if ((bias->strides[0] != 1 && bias->shape[0] != 1) || (uintptr_t)bias->data % ALIGNED)
    return false;
  lay->rank = out->rank;
  lay->dims[1] = out->dims[1];
  for (int i = 0; i < lay->rank; i++) {
    if (i != 1) lay->dims[i] = 1;
    lay->strides[i] = i ? 1 : lay->dims[1];
  }
  return true;
}

/* windows */

/* cuDNN pads the same amount before and after an axis. This is correct if the number of windows is
 * then the number of results. */
static bool window_of(const tenon_value_t *attrs, const tenon_call_t *call, int rank,
                      cu_shape_t *s) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *w = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  s->rank = rank - 2;
  for (int i = 0; i < s->rank; i++) {
    int32_t axis = own_axis(x, rank, 2 + i);
    s->stride[i] = s->dilation[i] = 1;
    if (axis < 0) continue;
    int64_t stride = list_at(&attrs[STRIDES], axis - 2, 1);
    int64_t dilation = list_at(&attrs[DILATIONS], axis - 2, 1);
    int64_t span = (w->shape[axis] - 1) * dilation + 1;
    int64_t before = 0;
    if (attrs[AUTO_PAD].as.i == EXPLICIT) {
      before = list_at(&attrs[PADS], axis - 2, 0);
    } else if (attrs[AUTO_PAD].as.i != VALID) {
      int64_t total = (out->shape[axis] - 1) * stride + span - x->shape[axis];
      if (total < 0) total = 0;
      before = attrs[AUTO_PAD].as.i == SAME_UPPER ? total / 2 : total - total / 2;
    }
    int64_t room = x->shape[axis] + 2 * before - span;
    if (before < 0 || before > INT32_MAX || span > INT32_MAX || stride > INT32_MAX || room < 0)
      return false;
    if (room / stride + 1 != out->shape[axis]) return false;
    s->pad[i] = (int)before;
    s->stride[i] = (int)stride;
    s->dilation[i] = (int)dilation;
  }
  return true;
}

static bool activation_of(const tenon_value_t *attrs, cu_shape_t *s) {
  double alpha = attrs[ALPHA].as.f;
  double beta = attrs[BETA].as.f;
  switch (attrs[ACTIVATION].as.i) {
  case NONE:
    s->activation = -1;
    return true;
  case RELU:
    s->activation = DNN_ACTIVATION_RELU;
    return true;
  case CLIP:
    s->activation = DNN_ACTIVATION_CLIPPED_RELU;
    s->coefficient = beta;
    return alpha == 0 && beta > 0;
  case ELU:
    s->activation = DNN_ACTIVATION_ELU;
    s->coefficient = alpha;
    return true;
  case TANH:
    s->activation = DNN_ACTIVATION_TANH;
    return true;
  case SIGMOID:
    s->activation = DNN_ACTIVATION_SIGMOID;
    return true;
  case SILU:
    s->activation = DNN_ACTIVATION_SWISH;
    return true;
  }
  return false;
}

/* Of core::conv(x, w, bias, residual, *, strides, pads, dilations, auto_pad, group, activation,
 * alpha, beta). */
bool cu_convolution_of(const tenon_call_t *call, cu_convolution_t *out) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *w = call->inputs[1];
  const tenon_tensor_t *bias = call->inputs[2];
  const tenon_tensor_t *residual = call->inputs[3];
  cu_shape_t *s = &out->shape;
  int rank = x->ndim < 4 ? 4 : x->ndim;
  memset(out, 0, sizeof *out);
  if (rank > CU_RANK || call->attrs[GROUP].as.i > INT32_MAX) return false;
  if (!type_of(call->outputs[0]->dtype, &s->type) || !activation_of(call->attrs, s)) return false;
  if (!lay_all(call, rank, s) || !bias_of(bias, s) || !window_of(call->attrs, call, rank, s))
    return false;
  s->group = (int)call->attrs[GROUP].as.i;
  out->x = x->data;
  out->w = w->data;
  out->out = call->outputs[0]->data;
  out->bias = bias ? bias->data : NULL;
  out->residual = residual ? residual->data : NULL;
  return true;
}
