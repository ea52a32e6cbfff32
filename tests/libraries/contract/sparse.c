/* Operators of the library `contract` on sparse tensors: they read, create, assign or forget
 * them. */
#include "contract.h"
#include <string.h>

static const int64_t *words(const tenon_tensor_t *part) { return (const int64_t *)part->data; }
static float *floats(const tenon_tensor_t *part) { return (float *)part->data; }

static tenon_status_t want(tenon_infer_t *infer, uint32_t layout) {
  if (infer->inputs[0]->layout == layout) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID, "its first input is not %s",
                    layout == TENON_DETAIL_CSR ? "csr" : "row_sparse");
}

/* products */

static tenon_status_t dot_infer(tenon_infer_t *infer) { return want(infer, TENON_DETAIL_CSR); }

static tenon_status_t dot_run(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0];
  const tenon_tensor_t *x = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  const tenon_detail_t *d = a->detail;
  const int64_t *ends = words(d->indptr);
  const int64_t *columns = words(d->indices);
  const int64_t width = x->shape[1];
  for (int64_t r = 0; r < a->shape[0]; r++)
    for (int64_t k = 0; k < width; k++) {
      float sum = 0;
      for (int64_t i = ends[r]; i < ends[r + 1]; i++)
        sum += floats(d->values)[i] * floats(x)[columns[i] * width + k];
      floats(out)[r * width + k] = sum;
    }
  return TENON_OK;
}

/* sparse results */

static tenon_status_t transpose_infer(tenon_infer_t *infer) {
  TENON_TRY(want(infer, TENON_DETAIL_CSR));
  infer->outputs[0]->layout = infer->inputs[0]->layout;
  return TENON_OK;
}

static tenon_status_t transpose_run(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0];
  const tenon_detail_t *d = a->detail;
  const int64_t rows = a->shape[0];
  const int64_t columns = a->shape[1];
  const int64_t n = d->values->shape[0];
  const int64_t shape[2] = {columns, rows};
  TENON_TRY(call->host->sparse(call, 0, 2, shape, n));
  const tenon_detail_t *to = call->outputs[0]->detail;
  int64_t *ends = (int64_t *)to->indptr->data;
  int64_t *indices = (int64_t *)to->indices->data;
  for (int64_t i = 0; i < n; i++)
    ends[words(d->indices)[i] + 1]++;
  for (int64_t c = 0; c < columns; c++)
    ends[c + 1] += ends[c];
  int64_t *at = (int64_t *)call->host->allocate(call, (uint64_t)(columns + 1) * sizeof *at);
  if (!at) return TENON_MEMORY;
  memcpy(at, ends, (size_t)(columns + 1) * sizeof *at);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = words(d->indptr)[r]; i < words(d->indptr)[r + 1]; i++) {
      const int64_t place = at[words(d->indices)[i]]++;
      indices[place] = r;
      floats(to->values)[place] = floats(d->values)[i];
    }
  return TENON_OK;
}

static tenon_status_t scale_infer(tenon_infer_t *infer) {
  TENON_TRY(want(infer, TENON_DETAIL_ROW_SPARSE));
  infer->outputs[0]->layout = TENON_DETAIL_ROW_SPARSE;
  return TENON_OK;
}

static tenon_status_t scale_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_detail_t *d = x->detail;
  const int64_t count = d->indices->shape[0];
  TENON_TRY(call->host->sparse(call, 0, x->ndim, x->shape, count));
  const tenon_detail_t *to = call->outputs[0]->detail;
  if (count) memcpy(to->indices->data, d->indices->data, (size_t)count * sizeof(int64_t));
  for (int64_t i = 0, n = tenon_count(d->values); i < n; i++)
    floats(to->values)[i] = floats(d->values)[i] * (float)call->attrs[0].as.f;
  return TENON_OK;
}

static tenon_status_t threshold_infer(tenon_infer_t *infer) {
  infer->outputs[0]->layout = TENON_DETAIL_CSR;
  return TENON_OK;
}

/* Works in two rounds: first with room for all elements, then with exactly as much as is needed. */
static tenon_status_t threshold_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const float least = (float)call->attrs[0].as.f;
  int64_t count = tenon_count(x);
  for (int round = 0; round < 2; round++) {
    int64_t at = 0;
    TENON_TRY(call->host->sparse(call, 0, 2, x->shape, count));
    const tenon_detail_t *to = call->outputs[0]->detail;
    for (int64_t r = 0; r < x->shape[0]; r++) {
      for (int64_t c = 0; c < x->shape[1]; c++) {
        const float value = floats(x)[r * x->shape[1] + c];
        if (value < least && value > -least) continue;
        ((int64_t *)to->indices->data)[at] = c;
        floats(to->values)[at++] = value;
      }
      ((int64_t *)to->indptr->data)[r + 1] = at;
    }
    count = at;
  }
  return TENON_OK;
}

static tenon_status_t pack_infer(tenon_infer_t *infer) {
  tenon_meta_t *out = infer->outputs[0];
  TENON_TRY(want(infer, TENON_DETAIL_CSR));
  out->ndim = 2;
  out->layout = TENON_DETAIL_CSR;
  out->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, infer->inputs[0]->dims[0], tenon_extent(0));
  out->dims[1] = infer->inputs[0]->dims[1];
  return TENON_OK;
}

static tenon_status_t pack_run(tenon_call_t *call) {
  const tenon_tensor_t *a = call->inputs[0];
  const tenon_detail_t *d = a->detail;
  const int64_t *ends = words(d->indptr);
  const int64_t count = d->values->shape[0];
  int64_t shape[2] = {0, a->shape[1]};
  int64_t at = 0;
  for (int64_t r = 0; r < a->shape[0]; r++)
    shape[0] += ends[r + 1] > ends[r];
  TENON_TRY(call->host->sparse(call, 0, 2, shape, count));
  const tenon_detail_t *to = call->outputs[0]->detail;
  for (int64_t r = 0; r < a->shape[0]; r++)
    if (ends[r + 1] > ends[r]) ((int64_t *)to->indptr->data)[++at] = ends[r + 1];
  if (count) memcpy(to->indices->data, d->indices->data, (size_t)count * sizeof(int64_t));
  if (count) memcpy(to->values->data, d->values->data, (size_t)count * sizeof(float));
  return TENON_OK;
}

static tenon_status_t
/* Calls operators that create sparse temporaries. */
there_and_back_run(tenon_call_t *call) {
  tenon_tensor_t *once = NULL;
  tenon_tensor_t *twice = NULL;
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, call->inputs, &once));
  TENON_TRY(call->host->invoke(call, call->uses[0], NULL, &once, &twice));
  return call->host->assign(call, 0, twice);
}

/* errors */

enum {
  NOTHING,
  RESIZE,
  SHAPE,
  COUNT,
  DENSE,
  LIKE,
}; /* the choices of `what` */

static tenon_status_t wrong_infer(tenon_infer_t *infer) {
  if (infer->attrs[0].as.i == LIKE) return TENON_OK; /* The result is dense. */
  infer->outputs[0]->layout = TENON_DETAIL_CSR;
  return TENON_OK;
}

static tenon_status_t wrong_run(tenon_call_t *call) {
  const int64_t shape[2] = {7, 7};
  switch (call->attrs[0].as.i) {
  case RESIZE:
    return call->host->resize(call, 0, 2, call->inputs[0]->shape);
  case SHAPE:
    return call->host->sparse(call, 0, 2, shape, 1);
  case COUNT:
    return call->host->sparse(call, 0, 2, call->inputs[0]->shape, 1 + tenon_count(call->inputs[0]));
  case DENSE:
    return call->host->assign(call, 0, call->inputs[0]);
  case LIKE:
    return call->host->sparse(call, 0, 2, call->inputs[0]->shape, 0);
  default:
    return TENON_OK;
  }
}

static tenon_status_t rank_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_extent(3);
  infer->outputs[0]->layout = TENON_DETAIL_CSR;
  return TENON_OK;
}

/* stored elements */

static int64_t stored(const tenon_tensor_t *x) {
  return x->detail ? x->detail->indices->shape[0] : -1;
}

static tenon_status_t stored_run(tenon_call_t *call) {
  *(int64_t *)call->outputs[0]->data = stored(call->inputs[0]);
  return TENON_OK;
}

static tenon_status_t stored_all_run(tenon_call_t *call) {
  int64_t *sum = (int64_t *)call->outputs[0]->data;
  *sum = 0;
  for (int64_t i = 0; i < call->inputs[0]->shape[0]; i++)
    *sum += stored(tenon_item(call->inputs[0], i));
  return TENON_OK;
}

/* a table whose gradient is sparse */

static tenon_status_t rows_run(tenon_call_t *call) {
  const tenon_tensor_t *table = call->inputs[0];
  const tenon_tensor_t *ids = call->inputs[1];
  const int64_t width = table->shape[1];
  for (int64_t i = 0; i < ids->shape[0]; i++)
    memcpy(floats(call->outputs[0]) + i * width, floats(table) + words(ids)[i] * width,
           (size_t)width * sizeof(float));
  return TENON_OK;
}

static tenon_status_t rows_grad_infer(tenon_infer_t *infer) {
  infer->outputs[0]->layout = TENON_DETAIL_ROW_SPARSE;
  return TENON_OK;
}

/* The ids are in ascending order, and each occurs once. */
static tenon_status_t rows_grad_run(tenon_call_t *call) {
  const tenon_tensor_t *grad = call->inputs[0];
  const tenon_tensor_t *ids = call->inputs[1];
  const tenon_tensor_t *table = call->inputs[2];
  TENON_TRY(call->host->sparse(call, 0, 2, table->shape, ids->shape[0]));
  const tenon_detail_t *to = call->outputs[0]->detail;
  memcpy(to->indices->data, ids->data, (size_t)ids->shape[0] * sizeof(int64_t));
  memcpy(to->values->data, grad->data, (size_t)tenon_count(grad) * sizeof(float));
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_sparse,
  TENON_OP("csr_dot(Tensor a, Tensor x) -> Tensor",
    TENON_DOC("A sparse matrix times a dense one"), TENON_TYPES("a, x: f32; out = a"),
    TENON_SHAPES("a: [m, k]; x: [k, n]; out: [m, n]"), TENON_TRAITS(TENON_PURE),
    TENON_INFER(dot_infer), TENON_GRADIENT("a: none; x: csr_dot(csr_transpose(a), grad)"),
    TENON_KERNEL("cpu sparse", dot_run)),
  TENON_OP("csr_transpose(Tensor a) -> Tensor",
    TENON_TYPES("a: f32; out = a"), TENON_SHAPES("a: [m, n]; out: [n, m]"),
    TENON_TRAITS(TENON_PURE), TENON_INFER(transpose_infer), TENON_GRADIENT("a: none"),
    TENON_KERNEL("cpu sparse", transpose_run)),
  TENON_OP("row_scale(Tensor x, *, float by=2.0) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_INFER(scale_infer), TENON_GRADIENT("x: core::mul(core::to_dense(grad), by)"),
    TENON_KERNEL("cpu sparse", scale_run)),
  TENON_OP("csr_threshold(Tensor x, *, float least=1.0) -> Tensor",
    TENON_DOC("What is at least so far from 0"), TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("x: [m, n]; out: [m, n]"), TENON_TRAITS(TENON_PURE), TENON_INFER(threshold_infer),
    TENON_GRADIENT("x: error"), TENON_KERNEL("cpu sparse", threshold_run)),
  TENON_OP("csr_pack(Tensor a) -> Tensor",
    TENON_DOC("The rows that store something: how many only run knows"),
    TENON_TYPES("a: f32; out = a"), TENON_TRAITS(TENON_PURE), TENON_INFER(pack_infer),
    TENON_GRADIENT("a: error"), TENON_KERNEL("cpu sparse", pack_run)),
  TENON_OP("csr_there_and_back(Tensor a) -> Tensor",
    TENON_TYPES("a: f32; out = a"), TENON_SHAPES("out = a"), TENON_TRAITS(TENON_PURE),
    TENON_INFER(transpose_infer), TENON_USES("csr_transpose"),
    TENON_KERNEL("composite sparse", there_and_back_run)),
  TENON_OP("csr_wrong(Tensor x, *, str['nothing', 'resize', 'shape', 'count', 'dense', "
           "'like'] what) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("x: [m, n]; out: [m, n]"),
    TENON_INFER(wrong_infer), TENON_GRADIENT("x: error"), TENON_KERNEL("cpu sparse", wrong_run)),
  TENON_OP("csr_line(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_INFER(rank_infer), TENON_GRADIENT("x: error"),
    TENON_KERNEL("cpu sparse", wrong_run)),
  TENON_OP("csr_deaf(Tensor x) -> Tensor",
    TENON_DOC("Its result is sparse, and no kernel says so"), TENON_TYPES("x: f32; out = x"),
    TENON_SHAPES("x: [m, n]; out: [m, n]"), TENON_INFER(threshold_infer),
    TENON_GRADIENT("x: error"), TENON_KERNEL("cpu", wrong_run)),
  TENON_OP("stored(Tensor x) -> Tensor",
    TENON_DOC("Stored elements or rows; -1: x is dense"), TENON_TYPES("x: any; out = i64"),
    TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE), TENON_GRADIENT("x: none"),
    TENON_KERNEL("cpu sparse", stored_run)),
  TENON_OP("stored_all(Tensor[] xs) -> Tensor",
    TENON_TYPES("xs = ?; out = i64"), TENON_SHAPES("out: []"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("xs: none"), TENON_KERNEL("cpu sparse", stored_all_run)),
  TENON_OP("rows(Tensor table, Tensor ids) -> Tensor",
    TENON_TYPES("table: f32; ids = i64; out = table"),
    TENON_SHAPES("table: [m, n]; ids: [k]; out: [k, n]"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("table: rows_grad(grad, ids, table)"), TENON_KERNEL("cpu", rows_run)),
  TENON_OP("rows_grad(Tensor grad, Tensor ids, Tensor table) -> Tensor",
    TENON_TYPES("grad, table: f32; ids = i64; out = grad"),
    TENON_SHAPES("grad: [k, n]; ids: [k]; table: [m, n]; out: [m, n]"), TENON_TRAITS(TENON_PURE),
    TENON_INFER(rows_grad_infer), TENON_GRADIENT("grad, table: error"),
    TENON_KERNEL("cpu sparse", rows_grad_run)))
/* clang-format on */
