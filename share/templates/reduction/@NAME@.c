/* @NAME@.c: the mean of the squares along an axis.
 *
 * Of a reduction you write the fold (a stub, see tenon/iterator.h), and say which axes vanish.  The host merges axes, walks
 * strides, and asks for ranges of results on several threads. */
#include <tenon/check.h>
#include <tenon/iterator.h>

/* Results begin ... end; each is made of `inner` elements that lie `step` bytes apart. */
static tenon_status_t @NAME@_part(const tenon_iterator_t *it) {
  const char *x = (const char *)it->tensors[0]->data;
  char *y = (char *)it->tensors[1]->data;
  const int64_t step = it->strides[0][it->ndim]; /* axes that vanish stand behind those that stay */
  for (int64_t i = it->begin; i < it->end; i++) {
    const char *at = x + tenon_iterator_at(it, 0, i, 0);
    double sum = 0;
    for (int64_t k = 0; k < it->inner; k++, at += step) sum += (double)*(const float *)at * *(const float *)at;
    *(float *)(y + tenon_iterator_at(it, 1, i, 0)) = (float)(sum / (double)it->inner); /* of none: not a number */
  }
  return TENON_OK;
}

static tenon_status_t @NAME@_f32(const tenon_iterator_t *it) {
  return it->host->split(it, 16384, @NAME@_part, NULL); /* parts of at least so many elements, on the host's threads */
}

/* The result's shape: that of x without the axis.  Extents may be symbols here; nothing is computed on data. */
static tenon_status_t infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  const int64_t given = infer->attrs[0].as.i, axis = given < 0 ? given + x->ndim : given;
  if (axis < 0 || axis >= x->ndim)
    return tenon_fail(infer, TENON_INVALID, "axis: expected one of %d axes, found %lld", (int)x->ndim, (long long)given);
  out->ndim = x->ndim - 1;
  for (int32_t i = 0; i < out->ndim; i++) out->dims[i] = x->dims[i < axis ? i : i + 1];
  return TENON_OK;
}

/* The same in the plainest way, from dense row-major tensors: `tenon check` compares.  It is never used in a call. */
static tenon_status_t reference(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const int64_t given = call->attrs[0].as.i, axis = given < 0 ? given + x->ndim : given, extent = x->shape[axis];
  const float *from = (const float *)x->data;
  float *to = (float *)call->outputs[0]->data;
  int64_t after = 1; /* elements from one along the axis to the next */
  for (int64_t i = axis + 1; i < x->ndim; i++) after *= x->shape[i];
  for (int64_t i = 0; i < tenon_count(call->outputs[0]); i++) {
    double sum = 0;
    for (int64_t k = 0; k < extent; k++) {
      const double value = from[(i / after * extent + k) * after + i % after];
      sum += value * value;
    }
    to[i] = (float)(sum / (double)extent);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(@NAME@, "0.1.0",
  TENON_OP("@NAME@(Tensor x, *, int axis=-1) -> Tensor",
    TENON_DOC("The mean of the squares of x along an axis, which vanishes."),
    TENON_TYPES("x: f32; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_REDUCES("x over axis"),
    TENON_INFER(infer),
    TENON_SAMPLES("x: [4, n]; x: [n, 3], axis = 0; x: [2, 3, 5], axis = 1"),
    TENON_REFERENCE(reference),
    TENON_STUB("cpu f32 strided", @NAME@_f32)))
/* clang-format on */
