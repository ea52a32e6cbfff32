/* Tensors in tests as text: made from text, printed as text and compared with text. Examples:
 * "f32[2, 3] 1 2 3 4 5 6", "i64[] 7", "string[2] one two", "{f32[1] 1; f32[2] 1 2}" for a list,
 * "f64[2, 3] ~5" for numbers between -1 and 1 with the seed 5. Include after check.h. */
#ifndef TENON_TESTS_TENSORS_H
#define TENON_TESTS_TENSORS_H

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <tenon/tenon.h>

#include "floats.h"

/* elements */

static inline bool tensor_has(const tenon_tensor_t *t, uint32_t id) {
  return tenon_dtype_id(t->dtype) == id;
}

/* The element at a row-major index, for any strides. */
static inline char *tensor_at(const tenon_tensor_t *t, int64_t index) {
  int64_t at = 0;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    at += index % t->shape[d] * t->strides[d];
    index /= t->shape[d];
  }
  return (char *)t->data + at * (t->dtype.bits / 8);
}

static inline bool tensor_is_float(const tenon_tensor_t *t) {
  return tensor_has(t, TENON_F32) || tensor_has(t, TENON_F64) || float_kind(t->dtype);
}

static inline double tensor_float(const tenon_tensor_t *t, int64_t index) {
  const char *at = tensor_at(t, index);
  const float_kind_t *kind = float_kind(t->dtype);
  float f;
  double d;
  uint16_t h;
  if (kind && t->dtype.bits == 8) return float_decode(kind, *(const uint8_t *)at);
  if (kind) {
    memcpy(&h, at, sizeof h);
    return float_decode(kind, h);
  }
  if (tensor_has(t, TENON_F32)) {
    memcpy(&f, at, sizeof f);
    return (double)f;
  }
  memcpy(&d, at, sizeof d);
  return d;
}

static inline int64_t tensor_int(const tenon_tensor_t *t, int64_t index) {
  int64_t value = 0;
  bool is_signed = t->dtype.code == 0;
  /* The least significant byte comes first. */
  memcpy(&value, tensor_at(t, index), t->dtype.bits / 8);
  int unused = 64 - t->dtype.bits;
  return is_signed ? (int64_t)((uint64_t)value << unused) >> unused : value;
}

/* from text */

static inline void tensor_read_element(tenon_tensor_t *t, int64_t index, const char **text) {
  const char *begin = *text + strspn(*text, " ");
  char *end = NULL;
  if (tensor_has(t, TENON_STRING)) {
    size_t size = strcspn(begin, " ;}");
    bool quoted = *begin == '\'';
    if (quoted) size = strcspn(++begin, "'");
    CHECK(tenon_tensor_set_string(t, index, begin, size) == TENON_OK);
    *text = begin + size + quoted;
    return;
  }
  if (tensor_is_float(t)) {
    double value = strtod(begin, &end);
    const float_kind_t *kind = float_kind(t->dtype);
    int32_t bits = kind ? float_encode(kind, value) : 0;
    float f = (float)value;
    CHECK(bits >= 0);
    if (kind)
      memcpy(tensor_at(t, index), &bits, t->dtype.bits / 8);
    else if (tensor_has(t, TENON_F32))
      memcpy(tensor_at(t, index), &f, sizeof f);
    else
      memcpy(tensor_at(t, index), &value, sizeof value);
  } else {
    int64_t value =
        tensor_has(t, TENON_U64) ? (int64_t)strtoull(begin, &end, 0) : strtoll(begin, &end, 0);
    memcpy(tensor_at(t, index), &value, t->dtype.bits / 8);
  }
  CHECK(end != begin);
  *text = end;
}

static inline void tensor_set_random(tenon_tensor_t *t, int64_t index, uint64_t seed) {
  double value = (double)tenon_random(seed, (uint64_t)index) / 2147483648.0 - 1;
  float f = (float)value;
  if (tensor_has(t, TENON_F32))
    memcpy(tensor_at(t, index), &f, sizeof f);
  else if (tensor_has(t, TENON_F64))
    memcpy(tensor_at(t, index), &value, sizeof value);
  else
    check_report(0, __FILE__, __LINE__, "random numbers are f32 or f64", NULL);
}

static inline tenon_tensor_t *tensor_read(const char **text) {
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim = 0;
  char name[32] = "";
  tenon_dtype_t dtype;
  tenon_tensor_t *t = NULL;
  const char *at = *text + strspn(*text, " ");
  size_t size = strcspn(at, "[");
  memcpy(name, at, size < sizeof name - 1 ? size : 0);
  at += size + 1;
  while (*at && *at != ']') {
    char *end;
    shape[ndim++] = strtoll(at, &end, 10);
    at = end + strspn(end, ", ");
  }
  at += *at == ']';
  if (tenon_dtype_parse(name, &dtype) != TENON_OK ||
      tenon_tensor_create(dtype, ndim, shape, &t) != TENON_OK) {
    check_report(0, __FILE__, __LINE__, *text, tenon_error());
    return NULL;
  }
  const char *begin = at + strspn(at, " ");
  bool is_random = *begin == '~';
  uint64_t seed = is_random ? strtoull(begin + 1, (char **)(uintptr_t)&at, 10) : 0;
  for (int64_t i = 0, n = tenon_count(t); i < n; i++) {
    if (is_random)
      tensor_set_random(t, i, seed);
    else
      tensor_read_element(t, i, &at);
  }
  *text = at;
  return t;
}

static inline tenon_tensor_t *tensor_of(const char *text) {
  enum { MOST = 16 };
  tenon_tensor_t *items[MOST];
  tenon_tensor_t *list = NULL;
  int32_t count = 0;
  if (!text) return NULL;
  if (*text != '{') return tensor_read(&text);
  for (text++; *text && *text != '}' && count < MOST; text += strspn(text, " ;"))
    items[count++] = tensor_read(&text);
  CHECK(tenon_tensor_list(items, count, &list) == TENON_OK);
  for (int32_t i = 0; i < count; i++)
    tenon_tensor_release(items[i]);
  return list;
}

/* to text */

static inline void tensor_print(const tenon_tensor_t *t, char *out, size_t size) {
  size_t used = 0;
#define PUT(...) (used += used < size ? (size_t)snprintf(out + used, size - used, __VA_ARGS__) : 0)
  if (!t) {
    PUT("NULL");
    return;
  }
  if (tensor_has(t, TENON_LIST)) {
    PUT("{");
    for (int64_t i = 0; i < t->shape[0]; i++) {
      char item[512];
      tensor_print(tenon_item(t, i), item, sizeof item);
      PUT("%s%s", i ? "; " : "", item);
    }
    PUT("}");
    return;
  }
  PUT("%s[", tenon_dtype_name(t->dtype));
  for (int32_t d = 0; d < t->ndim; d++)
    PUT("%s%lld", d ? ", " : "", (long long)t->shape[d]);
  PUT("]");
  for (int64_t i = 0, n = tenon_count(t); i < n && i < 64 && t->data; i++) {
    const tenon_string_t *s = (const tenon_string_t *)(const void *)tensor_at(t, i);
    if (tensor_has(t, TENON_STRING))
      PUT(" '%.*s'", (int)s->size, s->data ? s->data : "");
    else if (tensor_is_float(t))
      PUT(" %.9g", tensor_float(t, i));
    else
      PUT(" %lld", (long long)tensor_int(t, i));
  }
#undef PUT
}

/* comparing */

static inline bool element_equal(const tenon_tensor_t *a, const tenon_tensor_t *b, int64_t i,
                                 double tolerance) {
  if (tensor_has(a, TENON_STRING)) {
    const tenon_string_t *s = (const tenon_string_t *)(const void *)tensor_at(a, i);
    const tenon_string_t *t = (const tenon_string_t *)(const void *)tensor_at(b, i);
    return s->size == t->size && (s->size == 0 || memcmp(s->data, t->data, (size_t)s->size) == 0);
  }
  if (!tensor_is_float(a)) return memcmp(tensor_at(a, i), tensor_at(b, i), a->dtype.bits / 8) == 0;
  double x = tensor_float(a, i);
  double y = tensor_float(b, i);
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  return x == y || fabs(x - y) <= tolerance * (1 + fabs(y));
}

static inline bool tensor_equal(const tenon_tensor_t *a, const tenon_tensor_t *b,
                                double tolerance) {
  if (!a || !b) return a == b;
  if (tenon_dtype_id(a->dtype) != tenon_dtype_id(b->dtype) || a->ndim != b->ndim) return false;
  for (int32_t d = 0; d < a->ndim; d++)
    if (a->shape[d] != b->shape[d]) return false;
  for (int64_t i = 0, n = tenon_count(a); i < n; i++) {
    if (tensor_has(a, TENON_LIST) ? !tensor_equal(tenon_item(a, i), tenon_item(b, i), tolerance)
                                  : !element_equal(a, b, i, tolerance))
      return false;
  }
  return true;
}

static inline int check_tensor(const tenon_tensor_t *found, const char *expected, double tolerance,
                               const char *file, int line) {
  char what[2200], text[2000];
  tenon_tensor_t *t = tensor_of(expected);
  tensor_print(found, text, sizeof text);
  snprintf(what, sizeof what, "expected tensor %s", expected ? expected : "NULL");
  int ok = check_report(tensor_equal(found, t, tolerance), file, line, what, text);
  tenon_tensor_release(t);
  return ok;
}
#define CHECK_TENSOR(found, expected) check_tensor((found), (expected), 1e-6, __FILE__, __LINE__)

/* other forms */

/* Returns the same elements with the axes in reverse order in memory: a tensor that is not
 * row-major. */
static inline tenon_tensor_t *tensor_strided(const char *text) {
  tenon_tensor_t *dense = tensor_of(text);
  tenon_tensor_t *out = NULL;
  int64_t strides[TENON_RANK_MAX];
  int64_t stride = 1;
  if (!dense) return NULL;
  char *data = calloc((size_t)tenon_count(dense) + 1, dense->dtype.bits / 8);
  for (int32_t d = 0; d < dense->ndim; d++) {
    strides[d] = stride;
    stride *= dense->shape[d];
  }
  CHECK(tenon_tensor_borrow(data, dense->dtype, dense->ndim, dense->shape, strides, free, data,
                            &out) == TENON_OK);
  for (int64_t i = 0, n = tenon_count(dense); i < n && out; i++)
    memcpy(tensor_at(out, i), tensor_at(dense, i), dense->dtype.bits / 8);
  tenon_tensor_release(dense);
  return out;
}

/* Returns a tensor of the same dtype and shape, filled with a value that no test expects. */
static inline tenon_tensor_t *tensor_like(const tenon_tensor_t *t) {
  tenon_tensor_t *out = NULL;
  if (!t) return NULL;
  if (tensor_has(t, TENON_LIST)) {
    tenon_tensor_t *items[16];
    for (int64_t i = 0; i < t->shape[0] && i < 16; i++)
      items[i] = tensor_like(tenon_item(t, i));
    CHECK(tenon_tensor_list(items, (int32_t)t->shape[0], &out) == TENON_OK);
    for (int64_t i = 0; i < t->shape[0] && i < 16; i++)
      tenon_tensor_release(items[i]);
    return out;
  }
  CHECK(tenon_tensor_create(t->dtype, t->ndim, t->shape, &out) == TENON_OK);
  if (out && !tensor_has(t, TENON_STRING))
    memset(out->data, 0x5a, (size_t)tenon_count(t) * t->dtype.bits / 8);
  return out;
}

#endif
