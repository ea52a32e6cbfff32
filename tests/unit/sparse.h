/* Sparse tensors in tests: made from parts as text, as in sparse_of(CSR, (int64_t[]){2, 3}, "f32[2]
 * 5 6", "i64[2] 0 2", "i64[3] 0 1 2"), and compared with such parts. With indptr NULL the tensor is
 * row_sparse and has as many axes as the values. Include after tensors.h. */
#ifndef TENON_TESTS_SPARSE_H
#define TENON_TESTS_SPARSE_H

typedef struct parts_t {
  tenon_tensor_t *values;
  tenon_tensor_t *indices;
  tenon_tensor_t *indptr;
} parts_t;

static inline parts_t parts_of(const char *values, const char *indices, const char *indptr) {
  return (parts_t){tensor_of(values), tensor_of(indices), tensor_of(indptr)};
}

static inline void parts_release(parts_t *p) {
  tenon_tensor_release(p->values);
  tenon_tensor_release(p->indices);
  tenon_tensor_release(p->indptr);
}

static inline tenon_detail_t detail_of(const parts_t *p) {
  return (tenon_detail_t){.size = sizeof(tenon_detail_t),
                          .kind = p->indptr ? TENON_DETAIL_CSR : TENON_DETAIL_ROW_SPARSE,
                          .values = p->values,
                          .indices = p->indices,
                          .indptr = p->indptr};
}

static inline tenon_tensor_t *sparse_of(const int64_t *shape, const char *values,
                                        const char *indices, const char *indptr) {
  tenon_tensor_t *out = NULL;
  parts_t p = parts_of(values, indices, indptr);
  tenon_detail_t detail = detail_of(&p);
  CHECK_STATUS(tenon_tensor_create_sparse(&detail, indptr ? 2 : p.values->ndim, shape, 0, &out),
               TENON_OK);
  parts_release(&p);
  return out;
}

static inline void check_sparse(const tenon_tensor_t *found, const int64_t *shape,
                                const char *values, const char *indices, const char *indptr,
                                const char *file, int line) {
  const tenon_detail_t *d = found ? found->detail : NULL;
  uint32_t kind = indptr ? TENON_DETAIL_CSR : TENON_DETAIL_ROW_SPARSE;
  if (!check_report(d && d->kind == kind && !found->data, file, line,
                    "a sparse tensor of that layout", NULL))
    return;
  for (int32_t i = 0; i < found->ndim; i++)
    check_report(found->shape[i] == shape[i], file, line, "the shape of the whole", NULL);
  check_tensor(d->values, values, 1e-6, file, line);
  check_tensor(d->indices, indices, 0, file, line);
  if (indptr)
    check_tensor(d->indptr, indptr, 0, file, line);
  else
    check_report(!d->indptr, file, line, "no indptr", NULL);
}
#define CHECK_SPARSE(found, shape, values, indices, indptr)                                        \
  check_sparse((found), (shape), (values), (indices), (indptr), __FILE__, __LINE__)

/* [[5, 0, 6], [0, 0, 0], [0, 7, 0]] */
static const int64_t matrix_shape[2] = {3, 3};
static inline tenon_tensor_t *matrix(void) {
  return sparse_of(matrix_shape, "f32[3] 5 6 7", "i64[3] 0 2 1", "i64[4] 0 2 2 3");
}
#define MATRIX "f32[3,3] 5 0 6 0 0 0 0 7 0"
/* [[0, 0], [1, 2], [0, 0], [3, 4]] */
static const int64_t rows_shape[2] = {4, 2};
static inline tenon_tensor_t *rows(void) {
  return sparse_of(rows_shape, "f32[2,2] 1 2 3 4", "i64[2] 1 3", NULL);
}

#endif
