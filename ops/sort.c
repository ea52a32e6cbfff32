/* Operators that depend on the order of elements: arg_max, arg_min and top_k along an axis, and
 * unique. All work on keys (sort_keys.h), so that one implementation serves every dtype.
 * Invariant: among equal elements the first is preferred, unless an attribute says otherwise. */
#include <tenon/iterator.h>

#include "axes.h"
#include "copy.h"
#include "sort_keys.h"

enum { CHUNK = 256 };

/* arg_max, arg_min */

typedef struct search_t {
  int64_t n;
  int64_t inner;
  int64_t blocks;
  uint64_t flip; /* all ones: find the least */
  int last;      /* prefer the last of equal elements */
} search_t;

static tenon_status_t arg_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const search_t *s = (const search_t *)argument;
  const tenon_tensor_t *x = call->inputs[0];
  uint64_t keys[CHUNK], best[CHUNK];
  for (int64_t unit = begin; unit < end; unit++) {
    int64_t block = unit % s->blocks * CHUNK;
    int64_t outer = unit / s->blocks;
    int64_t base = outer * s->n * s->inner + block;
    int64_t *index = (int64_t *)call->outputs[0]->data + outer * s->inner + block;
    int64_t width = s->inner - block < CHUNK ? s->inner - block : CHUNK;
    if (s->inner == 1) { /* a contiguous row, one piece at a time */
      for (int64_t r = 0; r < s->n; r += CHUNK) {
        int64_t m = s->n - r < CHUNK ? s->n - r : CHUNK;
        (void)order_keys(x->dtype, x->data, base + r, 1, m, keys);
        for (int64_t i = 0; i < m; i++) {
          uint64_t key = keys[i] ^ s->flip;
          if (r + i == 0 || key > best[0] || (s->last && key == best[0])) {
            best[0] = key;
            *index = r + i;
          }
        }
      }
      continue;
    }
    for (int64_t r = 0; r < s->n; r++) {
      (void)order_keys(x->dtype, x->data, base + r * s->inner, 1, width, keys);
      for (int64_t i = 0; i < width; i++) {
        uint64_t key = keys[i] ^ s->flip;
        int better = (r == 0) | (key > best[i]) | (s->last & (key == best[i]));
        best[i] = better ? key : best[i];
        index[i] = better ? r : index[i];
      }
    }
  }
  return TENON_OK;
}

static tenon_status_t arg_run(tenon_call_t *call, uint64_t flip) {
  const tenon_tensor_t *x = call->inputs[0];
  search_t s = {1, 1, 1, flip, call->attrs[2].as.i != 0};
  int32_t axis = 0;
  int64_t count = tenon_count(x);
  if (count == 0) return TENON_OK;
  if (x->ndim) {
    TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
    s.n = x->shape[axis];
    s.inner = extents_product(x->shape, axis + 1, x->ndim);
  }
  s.blocks = (s.inner + CHUNK - 1) / CHUNK;
  int64_t units = count / s.n / s.inner * s.blocks;
  return call->host->parallel(call, units, 16384 * units / count + 1, arg_part, &s);
}
static tenon_status_t arg_max_run(tenon_call_t *call) { return arg_run(call, 0); }
static tenon_status_t arg_min_run(tenon_call_t *call) { return arg_run(call, UINT64_MAX); }

static tenon_status_t arg_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  int32_t axis = -1;
  out->ndim = 0;
  if (x->ndim) TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  if (axis >= 0 && dim_is(x->dims[axis], 0))
    return tenon_fail(infer, TENON_INVALID,
                      "axis %d is empty, so it has no largest or smallest element", axis);
  for (int32_t i = 0; i < x->ndim; i++) {
    if (i != axis)
      out->dims[out->ndim++] = x->dims[i];
    else if (infer->attrs[1].as.i)
      out->dims[out->ndim++] = tenon_extent(1);
  }
  return TENON_OK;
}

/* top_k */

typedef struct entry_t {
  uint64_t key;
  int64_t index;
} entry_t;

typedef struct top_t {
  int64_t n;
  int64_t k;
  int64_t inner;
  uint64_t flip;
  entry_t *heaps; /* k entries per column; the worst is at the root */
} top_t;

static int entry_is_worse(entry_t a, entry_t b) {
  return a.key < b.key || (a.key == b.key && a.index > b.index);
}

/* Places `entry` at position `at` of a heap of n, or below. */
static void sift_down(entry_t *heap, int64_t n, int64_t at, entry_t entry) {
  for (int64_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && entry_is_worse(heap[child + 1], heap[child])) child++;
    if (!entry_is_worse(heap[child], entry)) break;
    heap[at] = heap[child];
  }
  heap[at] = entry;
}

static tenon_status_t top_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const top_t *t = (const top_t *)argument;
  const tenon_tensor_t *x = call->inputs[0];
  uint64_t keys[CHUNK];
  for (int64_t column = begin; column < end; column++) {
    entry_t *heap = t->heaps + column * t->k;
    int64_t from = column / t->inner * t->n * t->inner + column % t->inner;
    int64_t to = column / t->inner * t->k * t->inner + column % t->inner;
    for (int64_t r = 0; r < t->n; r += CHUNK) {
      int64_t m = t->n - r < CHUNK ? t->n - r : CHUNK;
      (void)order_keys(x->dtype, x->data, from + r * t->inner, t->inner, m, keys);
      for (int64_t i = 0; i < m; i++) {
        entry_t entry = {keys[i] ^ t->flip, r + i};
        if (r + i < t->k) {
          heap[r + i] = entry;
          for (int64_t j = t->k / 2; r + i == t->k - 1 && j-- > 0;)
            sift_down(heap, t->k, j, heap[j]);
        } else if (entry_is_worse(heap[0], entry)) {
          sift_down(heap, t->k, 0, entry);
        }
      }
    }
    for (int64_t last = t->k - 1; last > 0; last--) { /* best first */
      entry_t worst = heap[0];
      sift_down(heap, last, 0, heap[last]);
      heap[last] = worst;
    }
    for (int64_t i = 0; i < t->k; i++) {
      int64_t at = to + i * t->inner;
      if (call->outputs[0])
        TENON_TRY(core_move_run(call, call->outputs[0], at, x, from + heap[i].index * t->inner, 1));
      if (call->outputs[1]) ((int64_t *)call->outputs[1]->data)[at] = heap[i].index;
    }
  }
  return TENON_OK;
}

static tenon_status_t top_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  top_t t = {1, tensor_int(call->inputs[1], 0), 1, call->attrs[1].as.i ? 0 : UINT64_MAX, NULL};
  int32_t axis = 0;
  int64_t count = tenon_count(x);
  TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
  if (count == 0 || t.k == 0) return TENON_OK;
  t.n = x->shape[axis];
  t.inner = extents_product(x->shape, axis + 1, x->ndim);
  int64_t columns = count / t.n;
  t.heaps = (entry_t *)call->host->allocate(call, (uint64_t)(columns * t.k) * sizeof *t.heaps);
  if (!t.heaps) return TENON_MEMORY;
  return call->host->parallel(call, columns, 1024 / t.n + 1, top_part, &t);
}

static tenon_status_t top_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  ints_t k;
  int32_t axis = 0;
  TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
  TENON_TRY(ints_read(infer, 1, &k));
  if (k.count >= 0 && k.count != 1)
    return tenon_fail(infer, TENON_INVALID, "k must be one number, but has %d", k.count);
  tenon_dim_t extent =
      k.known ? k.at[0] : tenon_dim(infer, TENON_DIM_BOUND, x->dims[axis], tenon_extent(0));
  if (tenon_is_known(extent) &&
      (extent.value < 0 || (tenon_is_known(x->dims[axis]) && extent.value > x->dims[axis].value)))
    return tenon_fail(infer, TENON_INVALID, "k is %" PRId64 ", but the axis has extent %" PRId64,
                      extent.value, x->dims[axis].value);
  for (int i = 0; i < 2; i++) {
    if (!infer->outputs[i]) continue;
    out_like(infer->outputs[i], x);
    infer->outputs[i]->dims[axis] = extent;
  }
  return TENON_OK;
}

/* unique */

typedef struct items_t { /* n items of m elements each: slices along an axis, or single elements */
  const tenon_string_t *texts;
  const uint64_t *keys; /* [n, m]; NULL: strings */
  int64_t n;
  int64_t m;
  int64_t inner;
} items_t;

static int64_t element_of(const items_t *items, int64_t item, int64_t i) {
  return (i / items->inner * items->n + item) * items->inner + i % items->inner;
}

static int item_less(const void *context, int64_t a, int64_t b) {
  const items_t *items = (const items_t *)context;
  for (int64_t i = 0; i < items->m; i++) {
    if (items->keys) {
      uint64_t x = items->keys[a * items->m + i];
      uint64_t y = items->keys[b * items->m + i];
      if (x != y) return x < y;
    } else {
      tenon_string_t x = items->texts[element_of(items, a, i)];
      tenon_string_t y = items->texts[element_of(items, b, i)];
      size_t shorter = (size_t)(x.size < y.size ? x.size : y.size);
      int order = shorter ? memcmp(x.data, y.data, shorter) : 0;
      if (order || x.size != y.size) return order ? order < 0 : x.size < y.size;
    }
  }
  return 0;
}

static int number_less(const void *context, int64_t a, int64_t b) {
  return ((const int64_t *)context)[a] < ((const int64_t *)context)[b];
}

/* Gives each element a number in whose order the elements sort. */
static tenon_status_t make_keys(tenon_call_t *call, const tenon_tensor_t *x, items_t *items) {
  uint64_t *keys =
      (uint64_t *)call->host->allocate(call, (uint64_t)(items->n * items->m) * sizeof *keys + 8);
  if (!keys) return TENON_MEMORY;
  items->keys = keys;
  for (int64_t i = 0; i < items->n * items->m; i++)
    (void)order_keys(x->dtype, x->data, element_of(items, i / items->m, i % items->m), 1, 1,
                     keys + i);
  return TENON_OK;
}

static tenon_status_t unique_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  int flat = call->attrs[0].kind == TENON_KIND_NONE;
  int sorted = call->attrs[1].as.i != 0;
  int64_t count = tenon_count(x);
  int64_t shape[TENON_RANK_MAX] = {0};
  int64_t distinct = 0;
  items_t items = {(const tenon_string_t *)x->data, NULL, count, 1, 1};
  int32_t axis = 0;
  if (!flat) {
    TENON_TRY(axis_wrap(call, call->attrs[0].as.i, x->ndim, &axis));
    items.n = x->shape[axis];
    items.inner = extents_product(x->shape, axis + 1, x->ndim);
    items.m = extents_product(x->shape, 0, axis) * items.inner;
  }
  if (tenon_dtype_id(x->dtype) != TENON_STRING) TENON_TRY(make_keys(call, x, &items));
  int64_t n = items.n;
  int64_t *room = (int64_t *)call->host->allocate(call, (uint64_t)(6 * n + 1) * sizeof *room);
  if (!room) return TENON_MEMORY;
  int64_t *sorting = room + n;
  int64_t *group = room + 2 * n;
  int64_t *first = room + 3 * n;
  int64_t *total = room + 4 * n;
  int64_t *rank = room + 5 * n;
  for (int64_t i = 0; i < n; i++)
    sorting[i] = i;
  order_sort(sorting, room, n, item_less, &items);
  for (int64_t i = 0; i < n; i++) { /* the sort is stable, so a group begins with its first item */
    if (i == 0 || item_less(&items, sorting[i - 1], sorting[i])) {
      first[distinct] = sorting[i];
      total[distinct++] = 0;
    }
    group[sorting[i]] = distinct - 1;
    total[distinct - 1]++;
  }
  for (int64_t i = 0; i < distinct; i++)
    sorting[i] = i;
  if (!sorted) order_sort(sorting, room, distinct, number_less, first);
  for (int64_t i = 0; i < distinct; i++)
    rank[sorting[i]] = i;

  for (int32_t i = 0; i < x->ndim; i++)
    shape[i] = x->shape[i];
  shape[flat ? 0 : axis] = distinct;
  TENON_TRY(call->host->resize(call, 0, flat ? 1 : x->ndim, shape));
  if (call->outputs[1]) TENON_TRY(call->host->resize(call, 1, 1, &distinct));
  if (call->outputs[3]) TENON_TRY(call->host->resize(call, 3, 1, &distinct));
  items_t results = {NULL, NULL, distinct, items.m, items.inner};
  for (int64_t i = 0; i < distinct; i++) {
    for (int64_t j = 0; j < items.m; j++)
      TENON_TRY(core_move_run(call, call->outputs[0], element_of(&results, i, j), x,
                              element_of(&items, first[sorting[i]], j), 1));
    if (call->outputs[1]) ((int64_t *)call->outputs[1]->data)[i] = first[sorting[i]];
    if (call->outputs[3]) ((int64_t *)call->outputs[3]->data)[i] = total[sorting[i]];
  }
  for (int64_t i = 0; call->outputs[2] && i < n; i++)
    ((int64_t *)call->outputs[2]->data)[i] = rank[group[i]];
  return TENON_OK;
}

static tenon_status_t unique_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  tenon_dim_t n = dims_product(infer, x->dims, 0, x->ndim);
  int32_t axis = 0;
  out->ndim = 1;
  if (infer->attrs[0].kind != TENON_KIND_NONE) {
    TENON_TRY(axis_wrap(infer, infer->attrs[0].as.i, x->ndim, &axis));
    n = x->dims[axis];
    out_like(out, x);
  }
  tenon_dim_t distinct = tenon_dim(infer, TENON_DIM_BOUND, n, tenon_extent(0));
  out->dims[axis] = distinct;
  for (int i = 1; i < 4; i++) {
    if (!infer->outputs[i]) continue;
    infer->outputs[i]->ndim = 1;
    infer->outputs[i]->dims[0] = i == 2 ? n : distinct;
  }
  return TENON_OK;
}

/* clang-format off */
#define ARG(name, which, run)                                                                      \
  TENON_OP(name                                                                                    \
           "(Tensor x, *, int axis=0, bool keepdims=True, "                                        \
           "bool select_last_index=False) -> Tensor",                                              \
    TENON_DOC("The position of the " which                                                         \
              " element along an axis: the first one, or the last if select_last_index."),         \
    TENON_TYPES("x: number|bool; out = i64"),                                                      \
    TENON_TRAITS(TENON_PURE),                                                                      \
    TENON_INFER(arg_infer),                                                                        \
    TENON_REDUCES("x over axis"),                                                                  \
    TENON_KERNEL("cpu", run))
TENON_ITEMS(core_sort,
  ARG("arg_max", "largest", arg_max_run),
  ARG("arg_min", "smallest", arg_min_run),
  TENON_OP("top_k(Tensor x, Tensor @host k, *, int axis=-1, bool largest=True, "
           "bool sorted=True) -> (Tensor values, Tensor indices)",
    TENON_DOC("The k largest or smallest elements along an axis, best first, and their positions."),
    TENON_TYPES("x: number|bool; k: i64|i32; values = x; indices = i64"),
    TENON_WHERE("k: known"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(top_infer),
    TENON_GRADIENT("x: core::scatter_elements(core::expand(0.0, core::shape(x)), indices, grad, "
                   "axis=axis, reduction='add')"),
    TENON_KERNEL("cpu", top_run)),
  TENON_OP("unique(Tensor x, *, int? axis=None, bool sorted=True) -> (Tensor out, Tensor? indices, "
           "Tensor? inverse_indices, Tensor? counts)",
    TENON_DOC("The distinct elements, or slices along an axis: sorted, "
              "or in the order of their first occurrence."),
    TENON_TYPES("x: number|bool|string; out = x; indices = i64; inverse_indices = i64; "
                "counts = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(unique_infer),
    TENON_KERNEL("cpu", unique_run)))
/* clang-format on */
