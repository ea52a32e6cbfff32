/* Sparse tensors (see sparse.h): creation and its checks, copies, allocation of results. Called by
 * applications, by the service that creates sparse results, and where graphs hand tensors over. */
#include "core/sparse.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"

const char *tn_layout_name(uint32_t layout) {
  if (layout == TENON_DETAIL_CSR) return "csr";
  return layout == TENON_DETAIL_ROW_SPARSE ? "row_sparse" : "dense";
}

const char *tenon_tensor_layout(const tenon_tensor_t *tensor) {
  return !tensor->detail || tn_layout(tensor) ? tn_layout_name(tn_layout(tensor)) : "quantised";
}

tenon_status_t tn_layout_check(uint32_t layout, int32_t ndim) {
  if (!tn_layout_is_sparse(layout))
    return tn_fail(TENON_INVALID, "unknown sparse layout %u: expected %d (csr) or %d (row_sparse)",
                   layout, TENON_DETAIL_CSR, TENON_DETAIL_ROW_SPARSE);
  bool is_csr = layout == TENON_DETAIL_CSR;
  bool fits = is_csr ? ndim == 2 : ndim >= 1;
  if (fits) return TENON_OK;
  return tn_fail(TENON_INVALID, "a %s tensor cannot have %d dimensions: expected %s",
                 tn_layout_name(layout), (int)ndim, is_csr ? "2" : "at least 1");
}

const tenon_detail_t *tn_sparse_unset(uint32_t layout) {
  static const tenon_detail_t csr = {.size = sizeof csr, .kind = TENON_DETAIL_CSR};
  static const tenon_detail_t rows = {.size = sizeof rows, .kind = TENON_DETAIL_ROW_SPARSE};
  return layout == TENON_DETAIL_CSR ? &csr : &rows;
}

/* storage */

static void release_parts(void *context) {
  tenon_detail_t *detail = context;
  const tenon_tensor_t *parts[] = {detail->values, detail->indices, detail->indptr};
  for (int i = 0; i < 3; i++)
    tenon_tensor_release((tenon_tensor_t *)(uintptr_t)parts[i]);
  tn_release_memory(detail);
}

/* Creates storage that owns the parts. Takes over the references to the parts, also on failure. */
static tenon_status_t create_parts_storage(uint32_t layout, tenon_tensor_t *const parts[3],
                                           tn_storage_t **out_storage) {
  tenon_detail_t *detail = tn_allocate_zero(1, sizeof *detail);
  if (!detail) {
    for (int i = 0; i < 3; i++)
      tenon_tensor_release(parts[i]);
    return tn_no_memory("a sparse tensor", sizeof *detail);
  }
  *detail = (tenon_detail_t){.size = sizeof *detail,
                             .kind = layout,
                             .axis = -1,
                             .values = parts[0],
                             .indices = parts[1],
                             .indptr = parts[2]};
  tenon_status_t status = tn_storage_create(NULL, 0, release_parts, detail, out_storage);
  if (status != TENON_OK) release_parts(detail);
  return status;
}

/* Replaces the header's storage. Takes over the reference to `storage`. */
static void replace_storage(tenon_tensor_t *tensor, tn_storage_t *storage) {
  tn_storage_t *before = ((tn_tensor_t *)tensor)->storage;
  ((tn_tensor_t *)tensor)->storage = storage;
  tensor->data = NULL;
  tensor->byte_offset = 0;
  tensor->detail = storage->context;
  tensor->keys &= ~TN_TENSOR_UNSET;
  tn_tensor_mark(tensor);
  tn_storage_release(before);
}

/* Length of indptr. If rows + 1 overflows, no tensor has that length. */
static int64_t indptr_length(int64_t rows) { return rows < INT64_MAX ? rows + 1 : rows; }

tenon_status_t tn_sparse_resize(tenon_tensor_t *tensor, uint32_t layout, int64_t count) {
  int64_t extents[TENON_RANK_MAX];
  int64_t rows = tensor->shape[0];
  tenon_tensor_t *parts[3] = {NULL};
  tn_storage_t *storage;
  int32_t ndim = layout == TENON_DETAIL_CSR ? 1 : tensor->ndim;
  TN_TRY(tn_layout_check(layout, tensor->ndim));
  extents[0] = count;
  for (int32_t d = 1; d < ndim; d++)
    extents[d] = tensor->shape[d];
  int64_t most = layout == TENON_DETAIL_CSR ? tn_shape_count(2, tensor->shape) : rows;
  if (count < 0 || count > most)
    return tn_fail(TENON_RANGE, "%" PRId64 " stored %s requested: expected 0 to %" PRId64, count,
                   layout == TENON_DETAIL_CSR ? "elements" : "rows", most);
  tenon_status_t status = tenon_tensor_create(tensor->dtype, ndim, extents, &parts[0]);
  if (status == TENON_OK)
    status = tenon_tensor_create(tenon_dtype(TENON_I64), 1, &count, &parts[1]);
  if (status == TENON_OK && layout == TENON_DETAIL_CSR) {
    int64_t ends = indptr_length(rows);
    status = tenon_tensor_create(tenon_dtype(TENON_I64), 1, &ends, &parts[2]);
    if (status == TENON_OK) memset(parts[2]->data, 0, (size_t)ends * sizeof ends);
  }
  for (int i = 0; i < 3 && status != TENON_OK; i++)
    tenon_tensor_release(parts[i]);
  if (status != TENON_OK) return status;
  TN_TRY(create_parts_storage(layout, parts, &storage));
  replace_storage(tensor, storage);
  return TENON_OK;
}

/* checks */

static tenon_status_t check_part(uint32_t layout, const char *name, const tenon_tensor_t *part,
                                 bool is_i64, int32_t ndim, const int64_t *extents) {
  char expected[160], found[160];
  const char *of = tn_layout_name(layout);
  if (!part) return tn_fail(TENON_INVALID, "a %s tensor needs %s: found NULL", of, name);
  if (!tn_tensor_is_owned(part))
    return tn_fail(
        TENON_INVALID,
        "the %s of a %s tensor are a view on a caller's stack: expected a tensor owned by the host",
        name, of);
  if (part->device.type != 1)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "the %s of a %s tensor are on a device: expected host memory", name, of);
  if (part->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL))
    return tn_fail(TENON_INVALID,
                   "the %s of a %s tensor are not dense and row-major: copy them first", name, of);
  if (is_i64 ? !tn_dtype_is(part->dtype, TENON_I64) : part->dtype.code >= 200)
    return tn_fail(TENON_INVALID, "the %s of a %s tensor are %s: expected %s", name, of,
                   tn_dtype_name(part->dtype), is_i64 ? "i64" : "numbers");
  bool fits = part->ndim == ndim;
  for (int32_t d = 0; d < ndim && fits; d++)
    fits = part->shape[d] == extents[d];
  return fits ? TENON_OK
              : tn_fail(TENON_INVALID, "the %s of a %s tensor have shape %s: expected %s", name, of,
                        tn_shape_print(part->ndim, part->shape, found, sizeof found),
                        tn_shape_print(ndim, extents, expected, sizeof expected));
}

/* Checks that indices[begin, end) strictly ascend and lie in [0, limit). */
static tenon_status_t check_indices(uint32_t layout, const int64_t *indices, int64_t begin,
                                    int64_t end, int64_t limit) {
  for (int64_t i = begin, before = -1; i < end; before = indices[i++]) {
    if (indices[i] < 0 || indices[i] >= limit)
      return tn_fail(TENON_INVALID,
                     "index %" PRId64 " of a %s tensor is %" PRId64 ": expected 0 to %" PRId64, i,
                     tn_layout_name(layout), indices[i], limit - 1);
    if (indices[i] <= before)
      return tn_fail(TENON_INVALID,
                     "index %" PRId64 " of a %s tensor is %" PRId64 " after %" PRId64
                     ": expected strictly ascending indices%s",
                     i, tn_layout_name(layout), indices[i], before,
                     layout == TENON_DETAIL_CSR ? " in each row" : "");
  }
  return TENON_OK;
}

static tenon_status_t check_elements(const tenon_detail_t *detail, const int64_t *shape,
                                     int64_t count) {
  const int64_t *indices = detail->indices->data;
  const int64_t *ends = detail->indptr ? detail->indptr->data : NULL;
  if (detail->kind == TENON_DETAIL_ROW_SPARSE)
    return check_indices(detail->kind, indices, 0, count, shape[0]);
  if (ends[0] != 0 || ends[shape[0]] != count)
    return tn_fail(TENON_INVALID,
                   "the indptr of a csr tensor runs from %" PRId64 " to %" PRId64
                   ": expected 0 to %" PRId64 ", the number of values",
                   ends[0], ends[shape[0]], count);
  for (int64_t r = 0; r < shape[0]; r++) /* check all row ends before using them as bounds */
    if (ends[r + 1] < ends[r])
      return tn_fail(TENON_INVALID,
                     "the indptr of a csr tensor decreases from %" PRId64 " to %" PRId64
                     " at row %" PRId64 ": expected ascending values",
                     ends[r], ends[r + 1], r);
  for (int64_t r = 0; r < shape[0]; r++)
    TN_TRY(check_indices(detail->kind, indices, ends[r], ends[r + 1], shape[1]));
  return TENON_OK;
}

static tenon_status_t check_sparse_detail(const tenon_detail_t *detail, int32_t ndim,
                                          const int64_t *shape, uint32_t flags) {
  uint32_t kind = detail->kind;
  int64_t extents[TENON_RANK_MAX] = {0};
  if (!TENON_HAS(detail, indptr))
    return tn_fail(TENON_INVALID, "tenon_detail_t of %u bytes: expected at least %zu", detail->size,
                   sizeof *detail);
  if (flags & ~(uint32_t)TENON_SPARSE_UNCHECKED)
    return tn_fail(TENON_INVALID,
                   "unknown flags 0x%x of a sparse tensor: expected TENON_SPARSE_... values",
                   flags);
  TN_TRY(tn_layout_check(kind, ndim));
  if (!detail->values)
    return tn_fail(TENON_INVALID, "a %s tensor needs values: found NULL", tn_layout_name(kind));
  extents[0] = detail->values->ndim > 0 ? detail->values->shape[0] : 0;
  int32_t value_ndim = kind == TENON_DETAIL_CSR ? 1 : ndim;
  for (int32_t d = 1; d < value_ndim; d++)
    extents[d] = shape[d];
  TN_TRY(check_part(kind, "values", detail->values, false, value_ndim, extents));
  TN_TRY(check_part(kind, "indices", detail->indices, true, 1, extents));
  int64_t count = extents[0];
  int64_t ends = indptr_length(shape[0]);
  if (kind == TENON_DETAIL_CSR)
    TN_TRY(check_part(kind, "indptr", detail->indptr, true, 1, &ends));
  else if (detail->indptr)
    return tn_fail(TENON_INVALID, "a row_sparse tensor has an indptr: expected NULL");
  return flags & TENON_SPARSE_UNCHECKED ? TENON_OK : check_elements(detail, shape, count);
}

tenon_status_t tenon_tensor_create_sparse(const tenon_detail_t *detail, int32_t ndim,
                                          const int64_t *shape, uint32_t flags,
                                          tenon_tensor_t **out_tensor) {
  char text[160];
  uint64_t size;
  tn_storage_t *storage;
  *out_tensor = NULL;
  if (ndim < 0 || ndim > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID, "a tensor has 0 to %d dimensions, found %d", TENON_RANK_MAX,
                   (int)ndim);
  int64_t whole = tn_shape_count(ndim, shape);
  if (whole < 0 || (detail->values && (!tn_dtype_bytes(detail->values->dtype, whole, &size) ||
                                       size > (uint64_t)1 << 62)))
    return tn_fail(TENON_INVALID,
                   "shape %s of a sparse tensor: extents must not be negative, and the size of the "
                   "dense tensor must fit 62 bits",
                   tn_shape_print(ndim, shape, text, sizeof text));
  TN_TRY(check_sparse_detail(detail, ndim, shape, flags));
  tenon_tensor_t *parts[3] = {(tenon_tensor_t *)(uintptr_t)detail->values,
                              (tenon_tensor_t *)(uintptr_t)detail->indices,
                              (tenon_tensor_t *)(uintptr_t)detail->indptr};
  for (int i = 0; i < 3; i++)
    tenon_tensor_retain(parts[i]);
  TN_TRY(create_parts_storage(detail->kind, parts, &storage));
  tenon_status_t status =
      tn_tensor_over(storage, NULL, detail->values->dtype, ndim, shape, NULL, out_tensor);
  if (status == TENON_OK) {
    (*out_tensor)->detail = storage->context;
    tn_tensor_mark(*out_tensor);
  }
  tn_storage_release(storage);
  return status;
}

/* copies */

static tenon_status_t copy_parts(const tenon_tensor_t *from, tn_storage_t **out_storage) {
  const tenon_tensor_t *of[3] = {from->detail->values, from->detail->indices, from->detail->indptr};
  tenon_tensor_t *parts[3] = {NULL};
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < 3 && status == TENON_OK; i++)
    if (of[i]) status = tenon_tensor_copy(of[i], &parts[i]);
  if (status == TENON_OK) return create_parts_storage(from->detail->kind, parts, out_storage);
  for (int i = 0; i < 3; i++)
    tenon_tensor_release(parts[i]);
  return status;
}

tenon_status_t tn_sparse_copy(const tenon_tensor_t *tensor, tenon_tensor_t **out_tensor) {
  tn_storage_t *storage;
  *out_tensor = NULL;
  TN_TRY(copy_parts(tensor, &storage));
  tenon_status_t status =
      tn_tensor_over(storage, NULL, tensor->dtype, tensor->ndim, tensor->shape, NULL, out_tensor);
  if (status == TENON_OK) {
    (*out_tensor)->detail = storage->context;
    tn_tensor_mark(*out_tensor);
  }
  tn_storage_release(storage);
  return status;
}

tenon_status_t tn_sparse_copy_into(const tenon_tensor_t *from, tenon_tensor_t *to) {
  tn_storage_t *storage;
  if (tn_layout(from) != tn_layout(to))
    return tn_fail(TENON_INVALID,
                   "cannot copy a %s tensor into a %s one: use core::to_dense or core::to_sparse",
                   tn_layout_name(tn_layout(from)), tn_layout_name(tn_layout(to)));
  if (!tn_tensor_is_owned(to))
    return tn_fail(TENON_INVALID, "cannot copy a sparse tensor into a view on a caller's stack");
  if (from->detail == to->detail) return TENON_OK;
  TN_TRY(copy_parts(from, &storage));
  replace_storage(to, storage);
  return TENON_OK;
}
