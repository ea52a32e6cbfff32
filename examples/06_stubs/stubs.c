/* stubs.c: the inner loops of operators: a stub of core::sub for the CPU, and a reduction of the
 * library's own. The host does broadcasting, strides, overlap and the merging of axes. */
#include <tenon/iterator.h>

static char *at(const tenon_iterator_t *it, uint32_t operand, int64_t index, int64_t element) {
  return (char *)it->tensors[operand]->data + tenon_iterator_at(it, operand, index, element);
}

static tenon_status_t sub_part(const tenon_iterator_t *it) {
  const int64_t a = it->strides[0][it->ndim - 1];
  const int64_t b = it->strides[1][it->ndim - 1];
  const int64_t out = it->strides[2][it->ndim - 1];
  for (int64_t i = it->begin, n; i < it->end; i += n) {
    const char *x = at(it, 0, i, 0);
    const char *y = at(it, 1, i, 0);
    char *z = at(it, 2, i, 0);
    n = tenon_iterator_run(it, i);
    for (int64_t k = 0; k < n; k++)
      *(float *)(z + k * out) = *(const float *)(x + k * a) - *(const float *)(y + k * b);
  }
  return TENON_OK;
}
static tenon_status_t sub(const tenon_iterator_t *it) {
  return it->host->split(it, 32768, sub_part, NULL);
}

/* The largest element minus the smallest; 0 without elements. */
static tenon_status_t span(const tenon_iterator_t *it) {
  for (int64_t i = it->begin; i < it->end; i++) {
    float least = 0;
    float most = 0;
    for (int64_t k = 0; k < it->inner; k++) {
      float value = *(const float *)at(it, 0, i, k);
      if (!k || value < least) least = value;
      if (!k || value > most) most = value;
    }
    *(float *)at(it, 2, i, 0) = most - least;
  }
  return TENON_OK;
}

/* Each listed axis becomes 1. */
static tenon_status_t span_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const tenon_meta_t *axes = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  if (!axes->values) return tenon_fail(infer, TENON_UNIMPLEMENTED, "axes must be known");
  out->ndim = x->ndim;
  for (int32_t i = 0; i < x->ndim; i++)
    out->dims[i] = axes->value_count ? x->dims[i] : tenon_extent(1);
  for (uint32_t i = 0; i < axes->value_count; i++) {
    int64_t axis =
        axes->values[i].value < 0 ? axes->values[i].value + x->ndim : axes->values[i].value;
    if (axis < 0 || axis >= x->ndim)
      return tenon_fail(infer, TENON_INVALID, "no axis %lld", (long long)axis);
    out->dims[axis] = tenon_extent(1);
  }
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(stubs, "1.0.0",
  TENON_EXTEND("core::sub", TENON_STUB("cpu f32 strided", sub)),
  TENON_OP("span(Tensor x, Tensor @host axes) -> Tensor",
    TENON_DOC("The largest element over axes, less the smallest."),
    TENON_TYPES("x: f32; axes: i64; out = x"), TENON_WHERE("axes: known"),
    TENON_REDUCES("x over axes"), TENON_INFER(span_infer),
    TENON_STUB("cpu f32 strided", span)))
/* clang-format on */
