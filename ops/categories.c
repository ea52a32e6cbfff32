/* label_encode (values of keys), category_one_hot and ngram_counts: tables of keys, which are
 * numbers, strings or runs of several of them. A table is built once for each node of a graph.
 * Invariant: keys are compared as numbers, so that -0 equals 0 and NaN equals NaN, or as bytes. */
#include "axes.h"
#include "copy.h"
#include "dense.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/check.h>

/* A table of keys with open addressing. */
typedef struct table_t {
  const tenon_tensor_t *keys;
  int64_t count;
  int64_t size;   /* a power of two */
  int32_t *slots; /* 1 + the index of a key; 0: free */
} table_t;

static uint64_t mix(uint64_t h, uint64_t value) {
  h = (h ^ value) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

/* The number as bits that are equal for equal numbers. */
static uint64_t number_bits(const tenon_tensor_t *t, int64_t i) {
  double real = 0;
  uint64_t bits = 0;
  switch (tenon_dtype_id(t->dtype)) {
  case TENON_I64:
    return (uint64_t)((const int64_t *)t->data)[i];
  case TENON_I32:
    return (uint64_t)((const int32_t *)t->data)[i];
  case TENON_I16:
    return (uint64_t)((const int16_t *)t->data)[i];
  case TENON_F32:
    real = (double)((const float *)t->data)[i];
    break;
  default:
    real = ((const double *)t->data)[i];
  }
  if (real != real) return ~(uint64_t)0;
  if (real == 0) real = 0;
  memcpy(&bits, &real, sizeof bits);
  return bits;
}

static int is_text(const tenon_tensor_t *t) { return tenon_dtype_id(t->dtype) == TENON_STRING; }

static uint64_t element_hash(uint64_t h, const tenon_tensor_t *t, int64_t i) {
  if (!is_text(t)) return mix(h, number_bits(t, i));
  tenon_string_t text = ((const tenon_string_t *)t->data)[i];
  for (uint64_t k = 0; k < text.size; k++)
    h = (h ^ (uint8_t)text.data[k]) * 0x100000001b3u;
  return mix(h, text.size);
}

static int are_equal(const tenon_tensor_t *a, int64_t i, const tenon_tensor_t *b, int64_t j) {
  if (!is_text(a)) return number_bits(a, i) == number_bits(b, j);
  tenon_string_t x = ((const tenon_string_t *)a->data)[i];
  tenon_string_t y = ((const tenon_string_t *)b->data)[j];
  return x.size == y.size && (!x.size || memcmp(x.data, y.data, (size_t)x.size) == 0);
}

/* The index of the key that equals element i of t; -1: none. */
static int64_t table_find(const table_t *table, const tenon_tensor_t *t, int64_t i) {
  uint64_t mask = (uint64_t)table->size - 1;
  for (uint64_t at = element_hash(0, t, i) & mask; table->slots[at]; at = (at + 1) & mask)
    if (are_equal(table->keys, table->slots[at] - 1, t, i)) return table->slots[at] - 1;
  return -1;
}

static void table_destroy(void *state) {
  table_t *table = (table_t *)state;
  if (!table) return;
  free(table->slots);
  free(table);
}

/* Checks a tensor attribute whose elements are compared: number_bits knows these dtypes. */
static tenon_status_t check_list(tenon_node_t *node, const tenon_tensor_t *t, const char *name) {
  static const uint32_t dtypes[] = {TENON_STRING, TENON_I64, TENON_I32,
                                    TENON_I16,    TENON_F32, TENON_F64};
  int is_known = 0;
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    is_known |= core_is(t, dtypes[i]);
  if (is_known && core_is_array(t) && t->ndim == 1 && t->shape[0] <= 1 << 28) return TENON_OK;
  return tenon_fail(node, TENON_INVALID,
                    "`%s` has %d axes: expected a row-major list of up to 268435456 strings, i64, "
                    "i32, i16, f32 or f64, in memory of the host",
                    name, t->ndim);
}

/* Builds the table of a tensor attribute. The first of equal keys counts. */
static tenon_status_t table_create(tenon_node_t *node) {
  const tenon_tensor_t *keys = node->attrs[0].as.tensor;
  TENON_TRY(check_list(node, keys, "keys"));
  table_t *table = (table_t *)calloc(1, sizeof *table);
  if (!table) return tenon_fail(node, TENON_MEMORY, "out of memory for a table of keys");
  table->keys = keys;
  table->count = keys->shape[0];
  for (table->size = 4; table->size < 2 * table->count; table->size *= 2)
    continue;
  table->slots = (int32_t *)calloc((size_t)table->size, sizeof *table->slots);
  if (!table->slots) {
    table_destroy(table);
    return tenon_fail(node, TENON_MEMORY, "out of memory for %" PRId64 " keys", keys->shape[0]);
  }
  uint64_t mask = (uint64_t)table->size - 1;
  for (int64_t i = 0; i < table->count; i++) {
    uint64_t at = element_hash(0, keys, i) & mask;
    while (table->slots[at] && !are_equal(keys, table->slots[at] - 1, keys, i))
      at = (at + 1) & mask;
    if (!table->slots[at]) table->slots[at] = (int32_t)i + 1;
  }
  node->state = table;
  return TENON_OK;
}

static tenon_status_t check_keys(tenon_infer_t *infer) {
  if (tenon_dtype_id(infer->inputs[0]->dtype) == tenon_dtype_id(infer->attrs[0].as.tensor->dtype))
    return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "x must have the dtype of the keys");
}

/* label_encode */

static tenon_status_t encode_create(tenon_node_t *node) {
  const tenon_tensor_t *keys = node->attrs[0].as.tensor;
  const tenon_tensor_t *values = node->attrs[1].as.tensor;
  const tenon_tensor_t *otherwise = node->attrs[2].as.tensor;
  if (values->ndim != 1 || keys->ndim != 1 || keys->shape[0] != values->shape[0])
    return tenon_fail(node, TENON_INVALID,
                      "there are %" PRId64 " keys and %" PRId64
                      " values: expected two lists of equal length",
                      tenon_count(keys), tenon_count(values));
  TENON_TRY(check_list(node, values, "values"));
  if (tenon_dtype_id(otherwise->dtype) != tenon_dtype_id(values->dtype) ||
      tenon_count(otherwise) != 1 || !core_is_array(otherwise))
    return tenon_fail(node, TENON_INVALID,
                      "`otherwise` must be one element of the dtype of the values");
  return table_create(node);
}

static tenon_status_t encode_infer(tenon_infer_t *infer) {
  TENON_TRY(check_keys(infer));
  infer->outputs[0]->dtype = infer->attrs[1].as.tensor->dtype;
  return out_like(infer->outputs[0], infer->inputs[0]);
}

static tenon_status_t encode_run(tenon_call_t *call) {
  const table_t *table = (const table_t *)call->state;
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *values = call->attrs[1].as.tensor;
  const tenon_tensor_t *otherwise = call->attrs[2].as.tensor;
  int64_t size = element_size(values);
  for (int64_t i = 0; i < tenon_count(x); i++) {
    int64_t at = table_find(table, x, i);
    const tenon_tensor_t *from = at < 0 ? otherwise : values;
    if (at < 0) at = 0;
    if (is_text(values)) {
      tenon_string_t text = ((const tenon_string_t *)from->data)[at];
      TENON_TRY(call->host->set_string(call, call->outputs[0], i, text.data, text.size));
    } else {
      memcpy((char *)call->outputs[0]->data + i * size, (const char *)from->data + at * size,
             (size_t)size);
    }
  }
  return TENON_OK;
}

/* category_one_hot */

static tenon_status_t hot_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(check_keys(infer));
  out_like(out, infer->inputs[0]);
  if (out->ndim >= TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID,
                      "x has the maximum number of axes already; category_one_hot adds one");
  out->dims[out->ndim++] = tenon_extent(tenon_count(infer->attrs[0].as.tensor));
  return TENON_OK;
}

static tenon_status_t hot_run(tenon_call_t *call) {
  const table_t *table = (const table_t *)call->state;
  const tenon_tensor_t *x = call->inputs[0];
  float *out = (float *)call->outputs[0]->data;
  int64_t count = tenon_count(x);
  memset(out, 0, (size_t)(count * table->count) * sizeof *out);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = table_find(table, x, i);
    if (at >= 0)
      out[i * table->count + at] = 1;
    else if (!call->attrs[1].as.i)
      return tenon_fail(call, TENON_INVALID,
                        "element %" PRId64 " of x is none of the %" PRId64
                        " categories, and zeros is False",
                        i, table->count);
  }
  return TENON_OK;
}

/* ngram_counts */

enum {
  G_POOL,
  G_STARTS,
  G_INDEXES,
  G_WEIGHTS,
  G_LEAST,
  G_MOST,
  G_SKIPS,
  G_MODE,
};
enum {
  MODE_TF,
  MODE_IDF,
  MODE_TFIDF,
};

typedef struct ngrams_t {
  const tenon_tensor_t *pool;
  int64_t count;  /* n-grams */
  int64_t width;  /* of a row of the result */
  int64_t size;   /* a power of two */
  int32_t *slots; /* 1 + the number of an n-gram */
  int64_t *begin; /* by number: where its items begin in the pool */
  int64_t *length;
} ngrams_t;

static void ngrams_destroy(void *state) {
  ngrams_t *g = (ngrams_t *)state;
  if (!g) return;
  free(g->slots);
  free(g->begin);
  free(g->length);
  free(g);
}

/* Finds the n-gram of `length` elements of t from `first` on, `step` apart; returns its slot. */
static uint64_t ngram_slot(const ngrams_t *g, const tenon_tensor_t *t, int64_t first, int64_t step,
                           int64_t length) {
  uint64_t mask = (uint64_t)g->size - 1;
  uint64_t at = (uint64_t)length;
  for (int64_t k = 0; k < length; k++)
    at = element_hash(at, t, first + k * step);
  for (at &= mask; g->slots[at]; at = (at + 1) & mask) {
    int64_t n = g->slots[at] - 1;
    int64_t same = g->length[n] == length ? 0 : -1;
    while (same >= 0 && same < length &&
           are_equal(g->pool, g->begin[n] + same, t, first + same * step))
      same++;
    if (same == length) break;
  }
  return at;
}

static tenon_status_t ngrams_check(tenon_node_t *node, int64_t *out_count) {
  const tenon_value_t *attrs = node->attrs;
  int64_t count = 0;
  TENON_TRY(check_list(node, attrs[G_POOL].as.tensor, "pool"));
  int64_t items = attrs[G_POOL].as.tensor->shape[0];
  if (attrs[G_LEAST].as.i < 1 || attrs[G_MOST].as.i < attrs[G_LEAST].as.i ||
      attrs[G_MOST].as.i > attrs[G_STARTS].count || attrs[G_SKIPS].as.i < 0)
    return tenon_fail(node, TENON_INVALID,
                      "n-grams have %" PRId64 " to %" PRId64 " items, with %" PRId64
                      " skips: expected 1 or more, up to the %u lengths of ngram_counts, and 0 "
                      "or more skips",
                      attrs[G_LEAST].as.i, attrs[G_MOST].as.i, attrs[G_SKIPS].as.i,
                      attrs[G_STARTS].count);
  for (uint32_t i = 0; i < attrs[G_STARTS].count; i++) {
    int64_t begin = attrs[G_STARTS].as.ints[i];
    int64_t end = i + 1 < attrs[G_STARTS].count ? attrs[G_STARTS].as.ints[i + 1] : items;
    if (begin < 0 || end < begin || end > items || (end - begin) % (i + 1))
      return tenon_fail(node, TENON_INVALID,
                        "%u-grams begin at %" PRId64 " and end at %" PRId64 " of a pool of %" PRId64
                        " items: expected whole n-grams within the pool",
                        i + 1, begin, end, items);
    count += (end - begin) / (i + 1);
  }
  if (attrs[G_INDEXES].count != count)
    return tenon_fail(node, TENON_INVALID, "ngram_indexes lists %u columns for %" PRId64 " n-grams",
                      attrs[G_INDEXES].count, count);
  for (uint32_t i = 0; i < attrs[G_INDEXES].count; i++)
    if (attrs[G_INDEXES].as.ints[i] < 0 || attrs[G_INDEXES].as.ints[i] > 1 << 28)
      return tenon_fail(node, TENON_INVALID,
                        "n-gram %u has the column %" PRId64 ": expected 0 to 268435456", i,
                        attrs[G_INDEXES].as.ints[i]);
  if (attrs[G_WEIGHTS].count && attrs[G_WEIGHTS].count != attrs[G_INDEXES].count)
    return tenon_fail(node, TENON_INVALID, "there are %u weights for %u n-grams",
                      attrs[G_WEIGHTS].count, attrs[G_INDEXES].count);
  *out_count = count;
  return TENON_OK;
}

static void ngrams_fill(ngrams_t *g, const tenon_value_t *attrs) {
  int64_t number = 0;
  for (uint32_t i = 0; i < attrs[G_STARTS].count; i++) {
    int64_t end =
        i + 1 < attrs[G_STARTS].count ? attrs[G_STARTS].as.ints[i + 1] : g->pool->shape[0];
    for (int64_t at = attrs[G_STARTS].as.ints[i]; at < end; at += i + 1, number++) {
      g->begin[number] = at;
      g->length[number] = i + 1;
      if (attrs[G_INDEXES].as.ints[number] >= g->width)
        g->width = attrs[G_INDEXES].as.ints[number] + 1;
      if (g->length[number] < attrs[G_LEAST].as.i || g->length[number] > attrs[G_MOST].as.i)
        continue;
      uint64_t slot = ngram_slot(g, g->pool, at, 1, i + 1);
      if (!g->slots[slot]) g->slots[slot] = (int32_t)number + 1;
    }
  }
}

static tenon_status_t ngrams_create(tenon_node_t *node) {
  int64_t count = 0;
  TENON_TRY(ngrams_check(node, &count));
  ngrams_t *g = (ngrams_t *)calloc(1, sizeof *g);
  if (!g) return tenon_fail(node, TENON_MEMORY, "out of memory for n-grams");
  g->pool = node->attrs[G_POOL].as.tensor;
  g->count = count;
  for (g->size = 4; g->size < 2 * count; g->size *= 2)
    continue;
  g->slots = (int32_t *)calloc((size_t)g->size, sizeof *g->slots);
  g->begin = (int64_t *)calloc((size_t)count + 1, sizeof *g->begin);
  g->length = (int64_t *)calloc((size_t)count + 1, sizeof *g->length);
  if (!g->slots || !g->begin || !g->length) {
    ngrams_destroy(g);
    return tenon_fail(node, TENON_MEMORY, "out of memory for %" PRId64 " n-grams", count);
  }
  ngrams_fill(g, node->attrs);
  node->state = g;
  return TENON_OK;
}

static tenon_status_t ngrams_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const ngrams_t *g = (const ngrams_t *)infer->state;
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(check_keys(infer));
  if (x->ndim < 1 || x->ndim > 2)
    return tenon_fail(infer, TENON_INVALID, "x has shape %s; expected [items] or [rows, items]",
                      dims_text(x->dims, x->ndim).text);
  out->ndim = x->ndim;
  out->dims[0] = x->dims[0];
  out->dims[x->ndim - 1] = g ? tenon_extent(g->width) : dim_any(infer);
  return TENON_OK;
}

/* Counts the n-grams of the elements [first, first + n), in the columns of one row. */
static void count_row(const ngrams_t *g, const tenon_value_t *attrs, const tenon_tensor_t *x,
                      int64_t first, int64_t n, float *row) {
  /* Items that are n or more apart are never in one row. */
  int64_t most = attrs[G_SKIPS].as.i < n ? attrs[G_SKIPS].as.i + 1 : n;
  for (int64_t step = 1; step <= most; step++)
    for (int64_t length = attrs[G_LEAST].as.i; length <= attrs[G_MOST].as.i; length++) {
      if (length == 1 && step > 1) continue; /* single items have no skips */
      for (int64_t i = 0; (length - 1) <= (n - 1 - i) / step && i < n; i++) {
        int32_t found = g->slots[ngram_slot(g, x, first + i, step, length)];
        if (found) row[attrs[G_INDEXES].as.ints[found - 1]] += 1;
      }
    }
}

static tenon_status_t ngrams_run(tenon_call_t *call) {
  const ngrams_t *g = (const ngrams_t *)call->state;
  const tenon_value_t *attrs = call->attrs;
  const tenon_tensor_t *x = call->inputs[0];
  float *out = (float *)call->outputs[0]->data;
  int64_t n = x->shape[x->ndim - 1];
  int64_t rows = x->ndim == 2 ? x->shape[0] : 1;
  memset(out, 0, (size_t)(rows * g->width) * sizeof *out);
  for (int64_t r = 0; r < rows; r++) {
    float *row = out + r * g->width;
    count_row(g, attrs, x, r * n, n, row);
    for (int64_t i = 0; i < g->width; i++) {
      float weight = i < attrs[G_WEIGHTS].count ? (float)attrs[G_WEIGHTS].as.floats[i] : 1;
      if (attrs[G_MODE].as.i == MODE_IDF && row[i] > 0) row[i] = 1;
      if (attrs[G_MODE].as.i != MODE_TF) row[i] *= weight;
    }
  }
  return TENON_OK;
}

/* clang-format off */
#define KEYS "i64|i32|i16|f32|f64|string"
TENON_ITEMS(core_categories,
  TENON_OP("label_encode(Tensor x, *, tensor keys, tensor values, tensor otherwise) -> Tensor",
    TENON_DOC("For each element of x the value of the key that equals it, or `otherwise`."),
    TENON_SAMPLES("x: i64[n] integers(0, 4), keys = i64[2] [1, 2], values = f32[2] [0.5, "
                  "1.5], otherwise = f32[] [-1.0]; x: string[n] ['a', 'b', 'c'], keys = "
                  "string[2] ['a', 'b'], values = string[2] ['x', 'yz'], otherwise = string[] "
                  "['none']"),
    TENON_TYPES("x: " KEYS "; out = ?"),
    TENON_TRAITS(TENON_PURE),
    TENON_STATE(encode_create, table_destroy),
    TENON_INFER(encode_infer),
    TENON_KERNEL("cpu", encode_run)),
  TENON_OP("category_one_hot(Tensor x, *, tensor categories, bool zeros=True) -> Tensor",
    TENON_DOC("Along a new last axis, 1 for the category that equals the element and 0 for the "
              "others.\nAn element that is in no category gives zeros, or is an error."),
    TENON_SAMPLES("x: i64[n, 2] integers(0, 4), categories = i64[3] [1, 2, 3]; x: string[n] "
                  "['a', 'c'], categories = string[2] ['a', 'b']"),
    TENON_TYPES("x: " KEYS "; out = f32"),
    TENON_TRAITS(TENON_PURE),
    TENON_STATE(table_create, table_destroy),
    TENON_INFER(hot_infer),
    TENON_KERNEL("cpu", hot_run)),
  TENON_OP("ngram_counts(Tensor x, *, tensor pool, int[] ngram_counts, int[] ngram_indexes, "
           "float[] weights=[], int min_gram_length, int max_gram_length, int max_skip_count, "
           "str['TF', 'IDF', 'TFIDF'] mode) -> Tensor",
    TENON_DOC("How often the n-grams of the pool occur in each row of x, as ONNX's TfIdfVectorizer "
              "specifies."),
    TENON_SAMPLES("x: i64[n, 5] integers(0, 4), pool = i64[4] [1, 2, 1, 2], ngram_counts = "
                  "[0, 2], ngram_indexes = [0, 1, 2], min_gram_length = 1, max_gram_length = "
                  "2, max_skip_count = 1, mode = 'TFIDF', weights = [1.0, 0.5, 2.0]"),
    TENON_TYPES("x: i64|i32|string; out = f32"),
    TENON_TRAITS(TENON_PURE),
    TENON_STATE(ngrams_create, ngrams_destroy),
    TENON_INFER(ngrams_infer),
    TENON_KERNEL("cpu", ngrams_run)))
/* clang-format on */
