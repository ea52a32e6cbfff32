/* Operators of the library `contract` on strings. */
#include <ctype.h>
#include <string.h>

#include "contract.h"

enum { LONGEST = 256 };

static tenon_status_t upper_run(tenon_call_t *call) {
  const tenon_string_t *text = (const tenon_string_t *)call->inputs[0]->data;
  for (int64_t i = 0, n = tenon_count(call->inputs[0]); i < n; i++) {
    char *made = (char *)call->host->allocate(call, text[i].size + 1);
    if (!made) return TENON_MEMORY;
    for (uint64_t k = 0; k < text[i].size; k++)
      made[k] = (char)toupper((unsigned char)text[i].data[k]);
    TENON_TRY(call->host->set_string(call, call->outputs[0], i, made, text[i].size));
  }
  return TENON_OK;
}

/* The number of words is known only after run. */
static tenon_status_t words_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] =
      tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(LONGEST), tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t words_run(tenon_call_t *call) {
  const tenon_string_t *text = (const tenon_string_t *)call->inputs[0]->data;
  int64_t count = 0;
  int64_t at = 0;
  for (int pass = 0; pass < 2; pass++) {
    const char *p = text->data;
    const char *end = text->data + text->size;
    while (p < end) {
      const char *begin = p;
      while (p < end && *p != ' ')
        p++;
      if (p > begin && pass == 0) count++;
      if (p > begin && pass == 1)
        TENON_TRY(
            call->host->set_string(call, call->outputs[0], at++, begin, (uint64_t)(p - begin)));
      p += p < end;
    }
    if (count > LONGEST)
      return tenon_fail(call, TENON_RANGE, "%lld words are too many", (long long)count);
    if (pass == 0) TENON_TRY(call->host->resize(call, 0, 1, &count));
  }
  return TENON_OK;
}

static tenon_status_t
/* CHOICE, STR, INTS and optional attributes, as a kernel sees them. */
pick_f32(tenon_call_t *call) {
  static const int64_t digits[] = {1, 10, 100};
  const tenon_value_t *a = call->attrs;
  float *out = (float *)call->outputs[0]->data;
  if (a[1].kind != TENON_KIND_STR || a[1].as.s[a[1].count] != 0)
    return tenon_fail(call, TENON_INTERNAL, "no text");
  out[0] = (float)digits[a[0].as.i];
  out[1] = (float)a[1].count;
  out[2] = 0;
  for (uint32_t i = 0; i < a[2].count; i++)
    out[2] += (float)a[2].as.ints[i];
  out[3] = a[3].kind == TENON_KIND_NONE ? -1 : (float)a[3].as.f;
  out[4] = a[4].kind == TENON_KIND_TENSOR ? *(const float *)a[4].as.tensor->data : -1;
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_texts,
  TENON_OP("upper(Tensor text) -> Tensor",
    TENON_TYPES("text: string; out = text"),
    TENON_SHAPES("out = text"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", upper_run)),
  TENON_OP("words(Tensor text) -> Tensor",
    TENON_TYPES("text: string; out = text"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(words_infer),
    TENON_KERNEL("cpu", words_run)),
  TENON_OP("attributes(*, str['one', 'ten', 'hundred'] size='ten', str text='', int[] numbers=[], "
           "float? extra=None, tensor? given=None) -> Tensor",
    TENON_TYPES("out = f32"), TENON_SHAPES("out: [5]"), TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", pick_f32)))
