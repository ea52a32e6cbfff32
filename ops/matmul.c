/* matmul and gemm: NumPy's matrix product with an optional bias and activation, and BLAS's with two
 * factors. The host calls infer and the plain kernels here; ops/dnn/matmul.c adds faster kernels.
 * Invariant: transposes, broadcasts and views are strides; nothing is copied for them. */
#include "matmul.h"
#include "axes.h"
#include "dense.h"
#include "gemm.h"
#include <string.h>
#include <tenon/check.h>

/* shapes */

static tenon_status_t inner_check(tenon_infer_t *infer, const tenon_meta_t *a,
                                  const tenon_meta_t *b, int transpose_a, int transpose_b) {
  static const char *const transposed[2] = {"", " (transposed)"};
  int32_t a_axis = transpose_a ? a->ndim - 2 : a->ndim - 1;
  int32_t b_axis = transpose_b ? b->ndim - 1 : b->ndim - 2;
  tenon_dim_t ka = a->dims[a->ndim == 1 ? 0 : a_axis];
  tenon_dim_t kb = b->dims[b->ndim == 1 ? 0 : b_axis];
  if (dim_differ(ka, kb))
    return tenon_fail(infer, TENON_INVALID,
                      "a%s of shape %s has %" PRId64 " columns but b%s of shape %s has %" PRId64
                      " rows; they must be equal",
                      transposed[transpose_a != 0], dims_text(a->dims, a->ndim).text, ka.value,
                      transposed[transpose_b != 0], dims_text(b->dims, b->ndim).text, kb.value);
  tenon_dim(infer, TENON_DIM_EQUAL, ka, kb);
  return TENON_OK;
}

static tenon_status_t bias_check(tenon_infer_t *infer, const char *name) {
  const tenon_meta_t *bias = infer->inputs[2];
  const tenon_meta_t *out = infer->outputs[0];
  if (!bias) return TENON_OK;
  int32_t skip = out->ndim - bias->ndim;
  int wrong = skip < 0;
  for (int32_t i = 0; !wrong && i < bias->ndim; i++) {
    wrong = bias->dims[i].value != 1 && dim_differ(bias->dims[i], out->dims[skip + i]);
    if (!wrong && bias->dims[i].value != 1)
      tenon_dim(infer, TENON_DIM_EQUAL, out->dims[skip + i],
                tenon_dim(infer, TENON_DIM_BROADCAST, out->dims[skip + i], bias->dims[i]));
  }
  if (wrong)
    return tenon_fail(infer, TENON_INVALID,
                      "%s of shape %s does not broadcast to the result's shape %s", name,
                      dims_text(bias->dims, bias->ndim).text, dims_text(out->dims, out->ndim).text);
  return TENON_OK;
}

tenon_status_t core_matmul_infer(tenon_infer_t *infer, const tenon_meta_t *a, const tenon_meta_t *b,
                                 int transpose_a, int transpose_b) {
  tenon_meta_t *out = infer->outputs[0];
  if (a->ndim < 1 || b->ndim < 1)
    return tenon_fail(infer, TENON_INVALID,
                      "%s has no axes; matmul expects vectors, matrices or stacks of matrices",
                      a->ndim < 1 ? "a" : "b");
  TENON_TRY(inner_check(infer, a, b, transpose_a, transpose_b));
  int32_t batch_a = a->ndim > 2 ? a->ndim - 2 : 0;
  int32_t batch_b = b->ndim > 2 ? b->ndim - 2 : 0;
  int32_t batch = batch_a > batch_b ? batch_a : batch_b;
  for (int32_t i = 0; i < batch; i++) {
    int32_t ia = i - (batch - batch_a);
    int32_t ib = i - (batch - batch_b);
    if (ia >= 0 && ib >= 0 && a->dims[ia].value != 1 && b->dims[ib].value != 1 &&
        dim_differ(a->dims[ia], b->dims[ib]))
      return tenon_fail(infer, TENON_INVALID, "the leading axes of a %s and b %s do not broadcast",
                        dims_text(a->dims, a->ndim).text, dims_text(b->dims, b->ndim).text);
    if (ia < 0)
      out->dims[i] = b->dims[ib];
    else if (ib < 0)
      out->dims[i] = a->dims[ia];
    else
      out->dims[i] = tenon_dim(infer, TENON_DIM_BROADCAST, a->dims[ia], b->dims[ib]);
  }
  out->ndim = batch;
  if (a->ndim > 1) out->dims[out->ndim++] = a->dims[a->ndim - (transpose_a ? 1 : 2)];
  if (b->ndim > 1) out->dims[out->ndim++] = b->dims[b->ndim - (transpose_b ? 2 : 1)];
  return TENON_OK;
}

tenon_status_t core_matmul_result_infer(tenon_infer_t *infer) {
  const tenon_value_t *attrs = infer->attrs;
  tenon_dtype_t dtype = infer->outputs[0]->dtype;
  if (attrs[2].as.i != FINISH_none && dtype.code != (TENON_F32 & 0xff) &&
      dtype.code != (TENON_BF16 & 0xff))
    return tenon_fail(infer, TENON_INVALID,
                      "an activation needs a float dtype, but a has integers");
  TENON_TRY(core_matmul_infer(infer, infer->inputs[0], infer->inputs[1], attrs[0].as.i != 0,
                              attrs[1].as.i != 0));
  return bias_check(infer, "bias");
}

tenon_status_t core_gemm_infer(tenon_infer_t *infer) {
  const tenon_meta_t *a = infer->inputs[0];
  const tenon_meta_t *b = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  int trans_a = infer->attrs[2].as.i != 0;
  int trans_b = infer->attrs[3].as.i != 0;
  if (a->ndim != 2 || b->ndim != 2)
    return tenon_fail(infer, TENON_INVALID,
                      "gemm multiplies matrices, but a has %d axes and b has %d", a->ndim, b->ndim);
  TENON_TRY(inner_check(infer, a, b, trans_a, trans_b));
  out->ndim = 2;
  out->dims[0] = a->dims[trans_a ? 1 : 0];
  out->dims[1] = b->dims[trans_b ? 0 : 1];
  return bias_check(infer, "c");
}

/* inputs as strides */

/* Describes the last two axes of x as a matrix and the others as batch strides, right-aligned to
 * `rank` axes. */
static void matrix_view(const tenon_tensor_t *x, int rows, int columns, int32_t rank,
                        matrix_t *out) {
  int32_t ndim = x ? x->ndim : 0;
  memset(out, 0, sizeof *out);
  if (!x) return;
  out->data = x->data;
  if (columns && ndim > 0) {
    ndim--;
    out->column = x->shape[ndim] == 1 ? 0 : x->strides[ndim];
  }
  if (rows && ndim > 0) {
    ndim--;
    out->row = x->shape[ndim] == 1 ? 0 : x->strides[ndim];
  }
  for (int32_t i = 0; i < ndim; i++)
    out->batch[rank - ndim + i] = x->shape[i] == 1 ? 0 : x->strides[i];
}

static void transpose_view(matrix_t *x) {
  int64_t row = x->row;
  x->row = x->column;
  x->column = row;
}

void core_matmul_view(tenon_tensor_t *const tensors[4], int transpose_a, int transpose_b,
                      matmul_t *out) {
  const tenon_tensor_t *a = tensors[0];
  const tenon_tensor_t *b = tensors[1];
  const tenon_tensor_t *c = tensors[3];
  int rows = a->ndim > 1;
  int columns = b->ndim > 1;
  int32_t rank = c->ndim - rows - columns;
  matrix_t *all[4] = {&out->a, &out->b, &out->bias, &out->c};
  matrix_view(a, rows, 1, rank, &out->a);
  matrix_view(b, 1, columns, rank, &out->b);
  matrix_view(tensors[2], rows, columns, rank, &out->bias);
  matrix_view(c, rows, columns, rank, &out->c);
  if (rows && transpose_a) transpose_view(&out->a);
  if (columns && transpose_b) transpose_view(&out->b);
  out->m = rows ? c->shape[rank] : 1;
  out->n = columns ? c->shape[c->ndim - 1] : 1;
  out->k = a->shape[a->ndim - (rows && transpose_a ? 2 : 1)];
  out->rank = 0;
  for (int32_t i = 0; i < rank;
       i++) { /* joins axes that continue the previous one and drops those of extent 1 */
    int join = out->rank > 0;
    if (c->shape[i] == 1) continue;
    for (int x = 0; x < 4; x++)
      join = join && all[x]->batch[out->rank - 1] == all[x]->batch[i] * c->shape[i];
    int32_t to = join ? out->rank - 1 : out->rank++;
    out->batch[to] = (join ? out->batch[to] : 1) * c->shape[i];
    for (int x = 0; x < 4; x++)
      all[x]->batch[to] = all[x]->batch[i];
  }
  int32_t last = out->rank - 1;
  int same = last >= 0 && out->b.batch[last] == 0;
  for (int x = 0; same && x < 4; x++) {
    if (x == 1) continue;
    if (out->m == 1) /* a single row has no row stride yet, so it takes that of the batch */
      all[x]->row = all[x]->batch[last];
    else
      same = all[x]->batch[last] == out->m * all[x]->row;
  }
  if (same) {
    out->m *= out->batch[last];
    out->rank = last;
  }
}

/* the plain kernel */

typedef struct job_t {
  matmul_t matmul;
  finish_t finish;
} job_t;

static int64_t batch_offset(const matmul_t *p, const matrix_t *x, int64_t index) {
  int64_t offset = 0;
  for (int32_t i = p->rank - 1; i >= 0; i--) {
    offset += index % p->batch[i] * x->batch[i];
    index /= p->batch[i];
  }
  return offset;
}

static char *batch_at(const job_t *job, const matrix_t *x, int64_t index) {
  return (char *)x->data + batch_offset(&job->matmul, x, index) * (job->finish.dtype.bits / 8);
}

static void job_place(const void *context, int64_t index, product_t *product) {
  const job_t *job = (const job_t *)context;
  product->a.data = batch_at(job, &job->matmul.a, index);
  product->b.data = batch_at(job, &job->matmul.b, index);
  product->c = batch_at(job, &job->matmul.c, index);
}

static void job_finish(const void *context, int64_t index, int64_t i, int64_t i_end, int64_t j,
                       int64_t j_end) {
  const job_t *job = (const job_t *)context;
  finish_t finish = job->finish;
  finish.c = batch_at(job, &job->matmul.c, index);
  if (finish.bias.data) finish.bias.data = batch_at(job, &job->matmul.bias, index);
  core_finish(&finish, i, i_end, j, j_end);
}

/* Fills in what the tensors determine. */
static void job_set(job_t *job, const finish_t *finish) {
  const matmul_t *p = &job->matmul;
  job->finish = *finish;
  job->finish.bias = (finish_side_t){p->bias.data, p->bias.row, p->bias.column};
  job->finish.row = p->c.row;
  job->finish.column = p->c.column;
}

static int64_t batch_count(const matmul_t *p) {
  int64_t count = 1;
  for (int32_t i = 0; i < p->rank; i++)
    count *= p->batch[i];
  return count;
}

static tenon_status_t rows_finish(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const job_t *job = (const job_t *)argument;
  (void)call;
  for (int64_t row = begin; row < end; row++)
    job_finish(job, row / job->matmul.m, row % job->matmul.m, row % job->matmul.m + 1, 0,
               job->matmul.n);
  return TENON_OK;
}

tenon_status_t core_matmul_finish(tenon_call_t *call, const matmul_t *matmul,
                                  const finish_t *finish) {
  job_t job = {.matmul = *matmul};
  if (!matmul->m || !matmul->n) return TENON_OK;
  job_set(&job, finish);
  return call->host->parallel(call, batch_count(matmul) * matmul->m, 1 + (1 << 14) / matmul->n,
                              rows_finish, &job);
}

tenon_status_t core_multiply(tenon_call_t *call, tenon_tensor_t *const tensors[4], int transpose_a,
                             int transpose_b, const finish_t *finish, int how) {
  job_t job;
  matmul_t *p = &job.matmul;
  core_matmul_view(tensors, transpose_a, transpose_b, p);
  job_set(&job, finish);
  job.finish.dtype = tensors[3]->dtype;
  products_t products = {.product = {p->m,
                                     p->n,
                                     p->k,
                                     {.vector = p->a.row, .element = p->a.column},
                                     {.vector = p->b.column, .element = p->b.row},
                                     0,
                                     p->c.row,
                                     p->c.column,
                                     (how & MULTIPLY_ADDS) != 0,
                                     (how & MULTIPLY_PAIRS) != 0},
                         .dtype = tensors[3]->dtype,
                         .count = batch_count(p),
                         .place = job_place,
                         .context = &job,
                         .fast = (how & MULTIPLY_FAST) != 0};
  if (finish_wanted(&job.finish)) products.finish = job_finish;
  return core_products(call, &products);
}

tenon_status_t core_matmul_may_add(const tenon_call_t *call, const finish_t *finish) {
  tenon_dtype_t dtype = call->outputs[0]->dtype;
  int sums = finish->scale == 1 && finish->activation == FINISH_none &&
             tenon_dtype_id(core_gemm_dtype(dtype)) == tenon_dtype_id(dtype);
  return sums || !call->accumulate ? TENON_OK : TENON_UNIMPLEMENTED;
}

static tenon_status_t multiply_plain(tenon_call_t *call, int transpose_a, int transpose_b,
                                     finish_t finish, int fast) {
  tenon_dtype_t dtype = core_gemm_dtype(call->outputs[0]->dtype);
  TENON_TRY(core_matmul_may_add(call, &finish));
  tenon_tensor_t *tensors[4] = {core_as(call, call->inputs[0], dtype),
                                core_as(call, call->inputs[1], dtype),
                                call->inputs[2] ? core_as(call, call->inputs[2], dtype) : 0,
                                core_place(call, call->outputs[0], dtype)};
  if (!tensors[0] || !tensors[1] || !tensors[3] || (call->inputs[2] && !tensors[2]))
    return TENON_MEMORY;
  int how = fast ? MULTIPLY_FAST : 0;
  if (call->accumulate) how += MULTIPLY_ADDS;
  TENON_TRY(core_multiply(call, tensors, transpose_a, transpose_b, &finish, how));
  return core_settle(call, call->outputs[0], tensors[3]);
}

finish_t core_matmul_finish_of(const tenon_value_t *attrs) {
  finish_t finish = {.scale = 1,
                     .bias_scale = 1,
                     .activation = attrs[2].as.i,
                     .alpha = attrs[3].as.f,
                     .beta = attrs[4].as.f};
  return finish;
}

finish_t core_gemm_finish_of(const tenon_value_t *attrs) {
  finish_t finish = {.scale = attrs[0].as.f, .bias_scale = attrs[1].as.f};
  return finish;
}

static tenon_status_t matmul_run(tenon_call_t *call, int fast) {
  const tenon_value_t *attrs = call->attrs;
  return multiply_plain(call, attrs[0].as.i != 0, attrs[1].as.i != 0, core_matmul_finish_of(attrs),
                        fast);
}

static tenon_status_t gemm_run(tenon_call_t *call, int fast) {
  const tenon_value_t *attrs = call->attrs;
  return multiply_plain(call, attrs[2].as.i != 0, attrs[3].as.i != 0, core_gemm_finish_of(attrs),
                        fast);
}

tenon_status_t core_matmul_run(tenon_call_t *call) { return matmul_run(call, 0); }
tenon_status_t core_gemm_run(tenon_call_t *call) { return gemm_run(call, 0); }
tenon_status_t core_matmul_run_fast(tenon_call_t *call) { return matmul_run(call, 1); }
tenon_status_t core_gemm_run_fast(tenon_call_t *call) { return gemm_run(call, 1); }

/* clang-format off */
TENON_ITEMS(core_matmul,
  TENON_OP("matmul(Tensor a, Tensor b, Tensor? bias=None, *, bool transpose_a=False, "
           "bool transpose_b=False, " FINISH_ARGUMENTS ") -> Tensor",
    TENON_DOC("The matrix product of a and b over their last two axes, plus a bias, "
              "followed by an activation.\n"
              "Leading axes broadcast; "
              "a vector is a row on the left and a column on the right, and its axis is dropped."),
    TENON_TYPES("a: number; b = a; bias = a; out = a"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_matmul_result_infer),
    TENON_GRADIENT("a, b, bias: core::matmul_backward(grad, a, b, bias, transpose_a=transpose_a, "
                   "transpose_b=transpose_b, activation=activation, alpha=alpha, beta=beta)"),
    TENON_SHARDING("a: [..., m, k]; b: [..., k, n]; out: [..., m, n]; sum k; "
                   "if transpose_a = False, transpose_b = False, bias = None, activation = 'none'"
                   " | a: [..., m, k]; b: [..., n, k]; out: [..., m, n]; sum k; "
                   "if transpose_a = False, transpose_b = True, bias = None, activation = 'none'"
                   " | a: [..., m, _]; b: [..., _, n]; bias: [n]; out: [..., m, n]; "
                   "if transpose_a = False, transpose_b = False"
                   " | a: [..., m, _]; b: [..., n, _]; bias: [n]; out: [..., m, n]; "
                   "if transpose_a = False, transpose_b = True"),
    TENON_KERNEL("cpu strided accumulates", core_matmul_run)),
  TENON_OP("gemm(Tensor a, Tensor b, Tensor? c=None, *, float alpha=1.0, float beta=1.0, "
           "bool trans_a=False, bool trans_b=False) -> Tensor",
    TENON_DOC("alpha a b + beta c for matrices; a and b can each be transposed; "
              "c broadcasts to the result."),
    TENON_SAMPLES("a: [n, k], b: [k, m]; a: [k, n], b: [m, k], c: [m], alpha = 0.5, beta = 2.0, "
                  "trans_a = True, trans_b = True"),
    TENON_TYPES("a: number; b = a; c = a; out = a"),
    TENON_TRAITS(TENON_PURE),
    TENON_USES(DENSE_USES),
    TENON_INFER(core_gemm_infer),
    TENON_GRADIENT("a, b, c: core::gemm_backward(grad, a, b, c, alpha=alpha, beta=beta, "
                   "trans_a=trans_a, trans_b=trans_b)"),
    TENON_SHARDING("a: [m, k]; b: [k, n]; out: [m, n]; sum k; "
                   "if trans_a = False, trans_b = False, c = None"
                   " | a: [m, k]; b: [n, k]; out: [m, n]; sum k; "
                   "if trans_a = False, trans_b = True, c = None"
                   " | a: [m, _]; b: [_, n]; c: [n]; out: [m, n]; "
                   "if trans_a = False, trans_b = False"
                   " | a: [m, _]; b: [n, _]; c: [n]; out: [m, n]; "
                   "if trans_a = False, trans_b = True"),
    TENON_KERNEL("cpu strided accumulates", core_gemm_run)))
/* clang-format on */
