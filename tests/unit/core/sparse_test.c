/* Sparse tensors: parts that are refused, the ownership of parts, copies, and operations that
 * sparse tensors do not support. */
#include "base/status.h"
#include "core/sparse.h"

#include "check.h"
#include "tensors.h"

#include "sparse.h"

TEST("a csr tensor has the shape of the whole matrix and the dtype of its values, and lends its "
     "parts") {
  tenon_tensor_t *x = matrix();
  CHECK(x->ndim == 2 && x->shape[0] == 3 && x->shape[1] == 3 && tensor_has(x, TENON_F32) &&
        !x->data);
  CHECK(x->strides[0] == 3 && x->strides[1] == 1);
  CHECK_SPARSE(x, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  CHECK_TEXT(tenon_tensor_layout(x), "csr");
  tenon_tensor_retain(x);
  tenon_tensor_release(x);
  CHECK_TENSOR(x->detail->values, "f32[3] 5 6 7");
  tenon_tensor_release(x);
}

TEST("a row_sparse tensor stores whole rows of the first axis") {
  tenon_tensor_t *x = rows();
  tenon_tensor_t *line = sparse_of((int64_t[]){5}, "f64[2] 1 2", "i64[2] 0 4", NULL);
  CHECK_SPARSE(x, rows_shape, "f32[2,2] 1 2 3 4", "i64[2] 1 3", NULL);
  CHECK_TEXT(tenon_tensor_layout(x), "row_sparse");
  CHECK(line->ndim == 1 && line->shape[0] == 5 && tensor_has(line, TENON_F64));
  tenon_tensor_release(x);
  tenon_tensor_release(line);
}

TEST("a sparse tensor may store nothing, and may be empty") {
  tenon_tensor_t *x[] = {sparse_of((int64_t[]){2, 3}, "f32[0]", "i64[0]", "i64[3] 0 0 0"),
                         sparse_of((int64_t[]){0, 3}, "f32[0]", "i64[0]", "i64[1] 0"),
                         sparse_of((int64_t[]){2, 0}, "f32[0]", "i64[0]", "i64[3] 0 0 0"),
                         sparse_of((int64_t[]){0, 3}, "f32[0,3]", "i64[0]", NULL),
                         sparse_of((int64_t[]){2, 0, 3}, "f32[1,0,3]", "i64[1] 1", NULL)};
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
    tenon_tensor_t *copy = NULL;
    CHECK_STATUS(tenon_tensor_copy(x[i], &copy), TENON_OK);
    CHECK(copy && tn_layout(copy) == tn_layout(x[i]) && tenon_count(copy->detail->values) == 0);
    tenon_tensor_release(copy);
    tenon_tensor_release(x[i]);
  }
}

TEST("the parts of a sparse tensor live as long as the tensor") {
  parts_t p = parts_of("f32[1] 5", "i64[1] 1", "i64[2] 0 1");
  tenon_detail_t detail = detail_of(&p);
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_create_sparse(&detail, 2, (int64_t[]){1, 2}, 0, &x), TENON_OK);
  CHECK(x->detail != &detail && x->detail->values == p.values);
  parts_release(&p);
  memset(&detail, 0, sizeof detail);
  CHECK_SPARSE(x, ((int64_t[]){1, 2}), "f32[1] 5", "i64[1] 1", "i64[2] 0 1");
  tenon_tensor_release(x);
}

/* parts that are refused */

static void check_refused(int32_t ndim, const int64_t *shape, parts_t p, uint32_t kind,
                          uint32_t flags, const char *why) {
  tenon_tensor_t *x = p.values;
  tenon_detail_t detail = detail_of(&p);
  if (kind) detail.kind = kind;
  CHECK_STATUS(tenon_tensor_create_sparse(&detail, ndim, shape, flags, &x), TENON_INVALID);
  CHECK_TEXT(tn_error(), why);
  CHECK(!x);
  parts_release(&p);
}

TEST("an invalid csr tensor is refused, and the message names the part") {
  const int64_t shape[] = {2, 3, 4};
  const int64_t most[] = {INT64_MAX, 2};
  const int64_t many[] = {INT64_MAX, 0};
  const int64_t negative[] = {-1, 3};
  const struct {
    const char *values;
    const char *indices;
    const char *indptr;
    const char *why;
  } bad[] = {
      {NULL, "i64[2] 0 1", "i64[3] 0 1 2", "a csr tensor needs values: found NULL"},
      {"f32[2] 1 2", NULL, "i64[3] 0 1 2", "a csr tensor needs indices: found NULL"},
      {"f32[2,1] 1 2", "i64[2] 0 1", "i64[3] 0 1 2",
       "the values of a csr tensor have shape [2, 1]: expected [2]"},
      {"f32[] 1", "i64[2] 0 1", "i64[3] 0 1 2", "the values of a csr tensor have shape []"},
      {"string[2] a b", "i64[2] 0 1", "i64[3] 0 1 2",
       "the values of a csr tensor are string: expected numbers"},
      {"f32[2] 1 2", "i32[2] 0 1", "i64[3] 0 1 2",
       "the indices of a csr tensor are i32: expected i64"},
      {"f32[2] 1 2", "i64[3] 0 1 2", "i64[3] 0 1 2",
       "the indices of a csr tensor have shape [3]: expected [2]"},
      {"f32[2] 1 2", "i64[2] 0 1", "i32[3] 0 1 2",
       "the indptr of a csr tensor are i32: expected i64"},
      {"f32[2] 1 2", "i64[2] 0 1", "i64[2] 0 2",
       "the indptr of a csr tensor have shape [2]: expected [3]"},
      {"f32[2] 1 2", "i64[2] 0 1", "i64[3] 1 1 2", "from 1 to 2: expected 0 to 2"},
      {"f32[2] 1 2", "i64[2] 0 1", "i64[3] 0 1 3", "from 0 to 3: expected 0 to 2"},
      {"f32[2] 1 2", "i64[2] 0 1", "i64[3] 0 5 2", "decreases from 5 to 2 at row 1"},
      {"f32[2] 1 2", "i64[2] 0 1", "i64[3] 0 -1 2", "decreases from 0 to -1 at row 0"},
      {"f32[2] 1 2", "i64[2] 0 3", "i64[3] 0 1 2", "index 1 of a csr tensor is 3: expected 0 to 2"},
      {"f32[2] 1 2", "i64[2] -1 0", "i64[3] 0 1 2", "index 0 of a csr tensor is -1"},
      {"f32[2] 1 2", "i64[2] 1 1", "i64[3] 0 2 2",
       "is 1 after 1: expected strictly ascending indices"},
      {"f32[2] 1 2", "i64[2] 1 0", "i64[3] 0 0 2", "strictly ascending indices in each row"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    check_refused(2, shape, parts_of(bad[i].values, bad[i].indices, bad[i].indptr), 0, 0,
                  bad[i].why);
  const char *v = "f32[2] 1 2";
  const char *n = "i64[2] 0 1";
  const char *p = "i64[3] 0 1 2";
  check_refused(2, shape, parts_of(v, n, NULL), TENON_DETAIL_CSR, 0,
                "a csr tensor needs indptr: found NULL");
  check_refused(3, shape, parts_of(v, n, p), 0, 0,
                "a csr tensor cannot have 3 dimensions: expected 2");
  check_refused(-1, shape, parts_of(v, n, p), 0, 0, "0 to 64 dimensions, found -1");
  check_refused(2, negative, parts_of(v, n, p), 0, 0,
                "shape [-1, 3] of a sparse tensor: extents must not be negative");
  check_refused(2, most, parts_of(v, n, p), 0, 0, "must fit 62 bits");
  check_refused(2, many, parts_of("f32[0]", "i64[0]", p), 0, 0,
                "the indptr of a csr tensor have shape [3]");
  check_refused(2, shape, parts_of(v, n, p), 9, 0, "unknown sparse layout 9");
  check_refused(2, shape, parts_of(v, n, p), TENON_DETAIL_QUANTISED, 0, "unknown sparse layout 1");
  check_refused(2, shape, parts_of(v, n, p), 0, 4,
                "unknown flags 0x4 of a sparse tensor: expected TENON_SPARSE_");
}

TEST("an invalid row_sparse tensor is refused, and the message names the part") {
  const int64_t shape[] = {4, 2};
  check_refused(2, shape, parts_of("f32[2,3] 1 2 3 4 5 6", "i64[2] 0 1", NULL), 0, 0,
                "shape [2, 3]: expected [2, 2]");
  check_refused(2, shape, parts_of("f32[2,2] 1 2 3 4", "i64[1] 0", NULL), 0, 0,
                "shape [1]: expected [2]");
  check_refused(2, shape, parts_of("f32[2,2] 1 2 3 4", "i64[2] 0 4", NULL), 0, 0,
                "is 4: expected 0 to 3");
  check_refused(2, shape, parts_of("f32[2,2] 1 2 3 4", "i64[2] 3 1", NULL), 0, 0,
                "is 1 after 3: expected strictly ascending indices");
  check_refused(0, shape, parts_of("f32[] 1", "i64[1] 0", NULL), 0, 0,
                "cannot have 0 dimensions: expected at least 1");
  check_refused(2, shape, parts_of("f32[2,2] 1 2 3 4", "i64[2] 0 1", "i64[1] 0"),
                TENON_DETAIL_ROW_SPARSE, 0, "a row_sparse tensor has an indptr");
}

TEST("parts that are not dense, that are sparse, or that lie on a caller's stack are refused") {
  int64_t shape[] = {4, 2};
  int64_t count[] = {2};
  int64_t room[1];
  int64_t data[2] = {0, 1};
  parts_t p = {tensor_strided("f32[2,2] 1 2 3 4"), tensor_of("i64[2] 0 1"), NULL};
  check_refused(2, shape, p, 0, 0, "the values of a row_sparse tensor are not dense and row-major");
  p = (parts_t){rows(), tensor_of("i64[4] 0 1 2 3"), NULL};
  check_refused(2, shape, p, 0, 0, "the values of a row_sparse tensor are not dense");
  tenon_tensor_t view;
  CHECK_STATUS(tenon_tensor_view(&view, data, tenon_dtype(TENON_I64), 1, count, NULL, room),
               TENON_OK);
  p = (parts_t){tensor_of("f32[2,2] 1 2 3 4"), &view, NULL};
  check_refused(2, shape, p, 0, 0,
                "the indices of a row_sparse tensor are a view on a caller's stack");
  tenon_detail_t old = {.size = offsetof(tenon_detail_t, values), .kind = TENON_DETAIL_CSR};
  tenon_tensor_t *x = NULL;
  CHECK_STATUS(tenon_tensor_create_sparse(&old, 2, shape, 0, &x), TENON_INVALID);
  CHECK_TEXT(tn_error(), "tenon_detail_t of");
}

TEST("TENON_SPARSE_UNCHECKED skips the check of indices, but not that of extents") {
  const int64_t shape[] = {2, 3};
  tenon_tensor_t *x = NULL;
  parts_t p = parts_of("f32[2] 1 2", "i64[2] 7 7", "i64[3] 9 9 9");
  tenon_detail_t detail = detail_of(&p);
  CHECK_STATUS(tenon_tensor_create_sparse(&detail, 2, shape, TENON_SPARSE_UNCHECKED, &x), TENON_OK);
  tenon_tensor_release(x);
  parts_release(&p);
  check_refused(2, shape, parts_of("f32[2] 1 2", "i64[1] 0", "i64[3] 0 1 2"), 0,
                TENON_SPARSE_UNCHECKED, "expected [2]");
}

/* copies */

TEST("a copy of a sparse tensor has parts of its own") {
  tenon_tensor_t *of[] = {matrix(), rows()};
  for (int i = 0; i < 2; i++) {
    tenon_tensor_t *copy = NULL;
    CHECK_STATUS(tenon_tensor_copy(of[i], &copy), TENON_OK);
    CHECK(copy->detail != of[i]->detail &&
          copy->detail->values->data != of[i]->detail->values->data);
    ((float *)copy->detail->values->data)[0] = 99;
    CHECK(((float *)of[i]->detail->values->data)[0] != 99);
    tenon_tensor_release(of[i]);
    if (i == 0)
      CHECK_SPARSE(copy, matrix_shape, "f32[3] 99 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
    else
      CHECK_SPARSE(copy, rows_shape, "f32[2,2] 99 2 3 4", "i64[2] 1 3", NULL);
    tenon_tensor_release(copy);
  }
}

TEST("copying into a sparse tensor replaces its parts, and tensors that share the old parts keep "
     "them") {
  tenon_tensor_t *x = matrix();
  tenon_tensor_t *y = NULL;
  tenon_tensor_t *whole = NULL;
  tenon_tensor_t *dense = tensor_of(MATRIX);
  tenon_tensor_t *r = rows();
  y = sparse_of(matrix_shape, "f32[1] 1", "i64[1] 0", "i64[4] 0 0 0 1");
  CHECK_STATUS(tn_tensor_view_of(y, y->dtype, 0, 2, y->shape, y->strides, &whole), TENON_OK);
  CHECK_STATUS(tn_tensor_copy_into(x, y), TENON_OK);
  CHECK_SPARSE(y, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  CHECK_SPARSE(whole, matrix_shape, "f32[1] 1", "i64[1] 0", "i64[4] 0 0 0 1");
  CHECK_STATUS(tn_tensor_copy_into(x, dense), TENON_INVALID);
  CHECK_TEXT(tn_error(), "cannot copy a csr tensor into a dense one");
  CHECK_STATUS(tn_tensor_copy_into(dense, x), TENON_INVALID);
  CHECK_STATUS(tn_tensor_copy_into(r, x), TENON_INVALID);
  CHECK_SPARSE(x, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  tenon_tensor_release(whole);
  tenon_tensor_release(dense);
  tenon_tensor_release(r);
}

/* unsupported operations */

TEST("views, quantisation, devices, DLPack and files refuse a sparse tensor and name the remedy") {
  tenon_tensor_t *x = matrix();
  tenon_tensor_t *out = NULL;
  tenon_tensor_t *scale = tensor_of("f32[] 1");
  tenon_detail_t detail = {
      .size = sizeof detail, .kind = TENON_DETAIL_QUANTISED, .axis = -1, .scale = scale};
  struct DLManagedTensorVersioned *managed = NULL;
  const int64_t flat[] = {9};
  const int64_t ones[] = {1};
  CHECK_STATUS(tn_tensor_view_of(x, x->dtype, 0, 1, flat, ones, &out), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "sparse tensor (csr): make it dense first (core::to_dense)");
  CHECK_STATUS(tenon_tensor_detail_set(x, &detail), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_detail_set(x, NULL), TENON_INVALID);
  CHECK_STATUS(tenon_tensor_detail_set(scale, x->detail), TENON_INVALID);
  CHECK_TEXT(tn_error(), "for sparse tensors use tenon_tensor_create_sparse");
  CHECK_STATUS(tenon_tensor_to_dlpack(x, &managed), TENON_INVALID);
  CHECK_TEXT(tn_error(), "a csr tensor cannot leave by DLPack: its parts can");
  CHECK_STATUS(tenon_tensor_copy_to(x, (tenon_device_t){12, 7}, &out), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "a sparse tensor (csr) cannot be copied to a device");
  CHECK_STATUS(tenon_tensor_save(x, "/tmp/tenon_sparse_test.npy"), TENON_UNIMPLEMENTED);
  CHECK_TEXT(tn_error(), "cannot be written to a .npy file");
  remove("/tmp/tenon_sparse_test.npy");
  CHECK_SPARSE(x, matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
  tenon_tensor_release(x);
  tenon_tensor_release(scale);
}

TEST("nothing is left behind") { tenon_shutdown(); }
