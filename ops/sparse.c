/* Conversion between sparse and dense tensors: to_dense, to_sparse. Other core operators take dense
 * tensors only.
 * Invariant: elements that are not stored are zero, and to_sparse stores no zeros (it stores NaN
 * but not -0). */
#include <stdbool.h>
#include <string.h>
#include <tenon/op.h>

/* to_dense */

static tenon_status_t to_dense_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *out = call->outputs[0];
  const tenon_detail_t *d = x->detail;
  const size_t size = (size_t)x->dtype.bits / 8;
  const size_t bytes = (size_t)tenon_count(x) * size;
  char *to = out->data;
  if (!bytes) return TENON_OK;
  if (!d) {
    memcpy(to, x->data, bytes);
    return TENON_OK;
  }
  memset(to, 0, bytes);
  const char *from = d->values->data;
  const int64_t *indices = d->indices->data;
  const int64_t count = d->indices->shape[0];
  if (d->kind == TENON_DETAIL_ROW_SPARSE) {
    const size_t row = bytes / (size_t)x->shape[0];
    for (int64_t i = 0; i < count; i++)
      memcpy(to + (size_t)indices[i] * row, from + (size_t)i * row, row);
    return TENON_OK;
  }
  const int64_t *ends = d->indptr->data;
  for (int64_t r = 0; r < x->shape[0]; r++)
    for (int64_t i = ends[r]; i < ends[r + 1]; i++)
      memcpy(to + (size_t)(r * x->shape[1] + indices[i]) * size, from + (size_t)i * size, size);
  return TENON_OK;
}

/* to_sparse */

enum {
  CSR,
  ROW_SPARSE,
}; /* choices of `layout` */

static tenon_status_t to_sparse_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  const bool is_csr = infer->attrs[0].as.i == CSR;
  if (x->layout)
    return tenon_fail(infer, TENON_INVALID,
                      "x is sparse already: make it dense first (core::to_dense)");
  if (is_csr ? x->ndim != 2 : x->ndim < 1)
    return tenon_fail(infer, TENON_INVALID, "x has %d dimensions; expected %s", x->ndim,
                      is_csr ? "2 for layout 'csr'" : "at least 1");
  infer->outputs[0]->layout = is_csr ? TENON_DETAIL_CSR : TENON_DETAIL_ROW_SPARSE;
  return TENON_OK;
}

/* Tests one element: a number, or both numbers of a complex element. */
static bool is_zero(const char *element, tenon_dtype_t dtype) {
  const bool is_float = dtype.code == 2 || dtype.code == 4 || dtype.code == 5;
  const int size = dtype.bits / 8;
  const int number = dtype.code == 5 ? size / 2 : size;
  for (int i = 0; i < size; i++)
    if (element[i] & (is_float && (i + 1) % number == 0 ? 0x7f : 0xff))
      return false; /* ignores the sign */
  return true;
}

static int64_t next_stored(const char *data, tenon_dtype_t dtype, int64_t begin, int64_t end) {
  while (begin < end && is_zero(data + begin * (dtype.bits / 8), dtype))
    begin++;
  return begin;
}

static tenon_status_t store_elements(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const int64_t rows = x->shape[0];
  const int64_t columns = x->shape[1];
  const int64_t size = x->dtype.bits / 8;
  const int64_t all = rows * columns;
  int64_t count = 0;
  for (int64_t i = 0; (i = next_stored(x->data, x->dtype, i, all)) < all; i++)
    count++;
  TENON_TRY(call->host->sparse(call, 0, 2, x->shape, count));
  const tenon_detail_t *d = call->outputs[0]->detail;
  int64_t *indices = d->indices->data;
  int64_t *ends = d->indptr->data;
  int64_t at = 0;
  for (int64_t r = 0; r < rows; r++) {
    const int64_t begin = r * columns;
    const int64_t end = begin + columns;
    for (int64_t i = begin; (i = next_stored(x->data, x->dtype, i, end)) < end; i++) {
      indices[at] = i - begin;
      memcpy((char *)d->values->data + at++ * size, (const char *)x->data + i * size, (size_t)size);
    }
    ends[r + 1] = at;
  }
  return TENON_OK;
}

static tenon_status_t store_rows(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const int64_t rows = x->shape[0];
  const int64_t row = rows ? tenon_count(x) / rows : 0;
  const int64_t size = x->dtype.bits / 8;
  int64_t count = 0;
  for (int64_t r = 0; r < rows; r++)
    count += next_stored(x->data, x->dtype, r * row, (r + 1) * row) < (r + 1) * row;
  TENON_TRY(call->host->sparse(call, 0, x->ndim, x->shape, count));
  const tenon_detail_t *d = call->outputs[0]->detail;
  int64_t *indices = d->indices->data;
  int64_t at = 0;
  for (int64_t r = 0; r < rows; r++) {
    if (next_stored(x->data, x->dtype, r * row, (r + 1) * row) == (r + 1) * row) continue;
    memcpy((char *)d->values->data + at * row * size, (const char *)x->data + r * row * size,
           (size_t)(row * size));
    indices[at++] = r;
  }
  return TENON_OK;
}

static tenon_status_t to_sparse_run(tenon_call_t *call) {
  return call->attrs[0].as.i == CSR ? store_elements(call) : store_rows(call);
}

/* clang-format off */
TENON_ITEMS(core_sparse,
  TENON_OP("to_dense(Tensor x) -> Tensor",
    TENON_DOC("A dense tensor with the elements of a sparse one.\nA dense x is copied."),
    TENON_TYPES("x: number|complex|bool; out = x"),
    TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: to_dense(grad)"),
    TENON_KERNEL("cpu sparse", to_dense_run)),
  TENON_OP("to_sparse(Tensor x, *, str['csr', 'row_sparse'] layout='csr') -> Tensor",
    TENON_DOC("A sparse tensor that stores the elements that are not zero.\n"
              "csr stores elements of a matrix; "
              "row_sparse stores the rows (of the first axis) that have an element other than "
              "zero."),
    TENON_TYPES("x: number|complex|bool; out = x"),
    TENON_SHAPES("out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(to_sparse_infer),
    TENON_GRADIENT("x: to_dense(grad)"),
    TENON_KERNEL("cpu sparse", to_sparse_run)))
/* clang-format on */
