/* Searches tensors of any float dtype and strides for NaN and infinities. Called by watch.c. */
#include "dump/nan.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "core/dtype.h"
#include "core/tensor.h"

#define NONE UINT64_MAX
/* The bit patterns of a dtype: which bits are compared, the pattern of infinity, and the first and
 * last pattern of NaN. */
typedef struct form_t {
  uint32_t dtype;
  uint64_t mask;
  uint64_t infinite;
  uint64_t nan;
  uint64_t nan_last;
} form_t;

static const form_t forms[] = {
    {TENON_F32, 0x7fffffff, 0x7f800000, 0x7f800001, NONE},
    {TENON_F16, 0x7fff, 0x7c00, 0x7c01, NONE},
    {TENON_BF16, 0x7fff, 0x7f80, 0x7f81, NONE},
    {TENON_F64, 0x7fffffffffffffff, 0x7ff0000000000000, 0x7ff0000000000001, NONE},
    {TENON_C64, 0x7fffffff, 0x7f800000, 0x7f800001, NONE},
    {TENON_C128, 0x7fffffffffffffff, 0x7ff0000000000000, 0x7ff0000000000001, NONE},
    {TENON_F8E5M2, 0x7f, 0x7c, 0x7d, NONE},
    {TENON_F8E4M3, 0x7f, 0x78, 0x79, NONE},
    {TENON_F8E3M4, 0x7f, 0x70, 0x71, NONE},
    {TENON_F8E4M3FN, 0x7f, NONE, 0x7f, NONE},
    {TENON_F8E4M3FNUZ, 0xff, NONE, 0x80, 0x80},
    {TENON_F8E4M3B11FNUZ, 0xff, NONE, 0x80, 0x80},
    {TENON_F8E5M2FNUZ, 0xff, NONE, 0x80, 0x80},
    {TENON_F8E8M0, 0xff, NONE, 0xff, NONE},
};

static const form_t *form_of(tenon_dtype_t dtype) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (tn_dtype_is(dtype, forms[i].dtype)) return &forms[i];
  return NULL;
}

static uint64_t bits_at(const char *at, uint32_t size) {
  uint64_t bits = 0;
  memcpy(&bits, at, size); /* little-endian, like all machines of contract 1 */
  return bits;
}

static void examine_element(const form_t *form, const char *at, uint32_t size, int64_t index,
                            tn_nonfinite_t *out) {
  uint64_t bits = bits_at(at, size) & form->mask;
  if (bits >= form->nan && bits <= form->nan_last && out->nans++ == 0) out->first_nan = index;
  if (bits == form->infinite && out->infinities++ == 0) out->first_infinity = index;
}

tn_nonfinite_t tn_nonfinite_count(const tenon_tensor_t *t) {
  tn_nonfinite_t out = {0};
  const form_t *form = t && t->data ? form_of(t->dtype) : NULL;
  if (!form) return out;
  int64_t index[TENON_RANK_MAX] = {0};
  int64_t count = tenon_count(t);
  uint32_t size = t->dtype.bits / 8u;
  uint32_t each = t->dtype.code == tenon_dtype(TENON_C64).code ? size / 2 : size;
  const char *at = t->data;
  for (int64_t i = 0; i < count; i++) {
    int32_t d = t->ndim - 1;
    for (uint32_t part = 0; part < size; part += each)
      examine_element(form, at + part, each, i, &out);
    for (; d >= 0; d--) { /* the next element in row-major order */
      at += t->strides[d] * (int64_t)size;
      if (++index[d] < t->shape[d]) break;
      at -= t->strides[d] * t->shape[d] * (int64_t)size;
      index[d] = 0;
    }
  }
  return out;
}

void tn_nonfinite_position(const tenon_tensor_t *t, int64_t index, tn_text_t *text) {
  int64_t at[TENON_RANK_MAX];
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    at[d] = index % t->shape[d];
    index /= t->shape[d];
  }
  tn_text_add(text, "[");
  for (int32_t d = 0; d < t->ndim; d++)
    tn_text_add(text, "%s%lld", d ? ", " : "", (long long)at[d]);
  tn_text_add(text, "]");
}
