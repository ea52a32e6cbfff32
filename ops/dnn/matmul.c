/* matmul and gemm by oneDNN in f32 (f16 and bf16 are converted). Constant matrices are packed once;
 * bias and activation are fused. The host calls prepare when it compiles a graph, and the kernels
 * from any thread. Calls that oneDNN does not support well go to the plain kernels in ../matmul.c.
 * Invariant: with packed weights, b is never read again. */
#include "../matmul.h"
#include "../dense.h"
#include "../simd/wide.h"
#include "dnn.h"
#include <stdlib.h>
#include <string.h>

enum {
  TINY = 8192, /* Multiplications; up to here the plain kernel is faster than starting oneDNN. */
};
enum {
  KIND_MATMUL = 1,
  KIND_GEMM = 2,
};
enum {
  DENSE_A = 1,
  DENSE_B = 2,
  DENSE_C = 4,
  UNFUSED = 8,
}; /* variants of a job: what the kernel does itself */

typedef struct plan_t {
  dnn_weights_t weights;
  tenon_tensor_t b; /* only its shape matters */
  int64_t shape[2];
  int64_t strides[2];
} plan_t;

/* What one call asks oneDNN for. */
typedef struct want_t {
  tenon_tensor_t *tensors[4]; /* a, b, bias, c */
  int transpose_a;
  int transpose_b;
  int kind;
  int adds;
  finish_t finish;
  const plan_t *plan;
} want_t;

/* making a primitive */

/* Describes a matrix of the product with `rank` axes: 2, or 4 with two batch axes. */
static dnnl_memory_desc_t matrix_md(const matmul_t *p, const matrix_t *x, int64_t rows,
                                    int64_t columns, int32_t rank) {
  int64_t dims[4] = {1, 1, rows, columns};
  int64_t strides[4] = {0, 0, x->row, x->column};
  for (int32_t i = 0; i < p->rank; i++) {
    int32_t to = 2 - p->rank + i;
    dims[to] = x->batch[i] ? p->batch[i] : 1;
    strides[to] = x->batch[i];
  }
  dnn_strides_settle(rank, dims + 4 - rank, strides + 4 - rank);
  return dnn_strided(rank, dims + 4 - rank, strides + 4 - rank);
}

/* Can oneDNN add the bias? It must be one number per column. */
static int bias_is_row(const matmul_t *p) {
  int row = p->bias.row == 0 && (p->bias.column == 1 || p->n == 1);
  for (int32_t i = 0; i < p->rank; i++)
    row = row && p->bias.batch[i] == 0;
  return row;
}

/* Attributes that add the product to the present contents of c. */
static int adding_attributes(dnnl_primitive_attr_t *out) {
  dnnl_post_ops_t ops = 0;
  int good = dnn_attributes(out, 0, FINISH_none, 0, 0) &&
             dnnl_post_ops_create(&ops) == dnnl_success &&
             dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef) == dnnl_success &&
             dnnl_primitive_attr_set_post_ops(*out, ops) == dnnl_success;
  if (ops) dnnl_post_ops_destroy(ops);
  return good;
}

static int make_attributes(dnnl_primitive_attr_t *out, const want_t *want, int fused) {
  const int64_t activation = fused ? want->finish.activation : FINISH_none;
  if (want->adds) return adding_attributes(out);
  return dnn_attributes(out, 0, activation, want->finish.alpha, want->finish.beta);
}

static dnn_after_t after_product(const want_t *want, int fused) {
  const int64_t activation = fused && !want->adds ? want->finish.activation : FINISH_none;
  return dnn_after(activation, want->finish.alpha, want->finish.beta);
}

/* Makes the primitive of the product, or of a slice of it. */
static int make_primitive(dnn_job_t *job, const want_t *want, const matmul_t *p, int fused) {
  const int with_bias = fused && p->bias.data;
  int32_t rank = p->rank ? 4 : 2;
  int64_t bias_dims[4] = {1, 1, 1, p->n};
  int64_t bias_strides[4] = {p->n, p->n, p->n, 1};
  dnnl_primitive_desc_t desc = 0;
  dnnl_primitive_attr_t attributes = 0;
  dnnl_memory_desc_t a = matrix_md(p, &p->a, p->m, p->k, rank);
  dnnl_memory_desc_t b = matrix_md(p, &p->b, p->k, p->n, rank);
  dnnl_memory_desc_t c = matrix_md(p, &p->c, p->m, p->n, rank);
  dnnl_memory_desc_t bias =
      with_bias ? dnn_strided(rank, bias_dims + 4 - rank, bias_strides + 4 - rank) : 0;
  int good = a && b && c && (bias || !with_bias) && make_attributes(&attributes, want, fused) &&
             dnnl_matmul_primitive_desc_create(&desc, dnn_engine(), a, b, bias, c, attributes) ==
                 dnnl_success;
  if (good && dnn_is_reference(desc)) {
    dnnl_primitive_desc_destroy(desc);
    good = 0;
  }
  if (good) {
    dnn_job_arg(job, DNNL_ARG_SRC, a);
    dnn_job_arg(job, DNNL_ARG_WEIGHTS, b);
    dnn_job_arg(job, DNNL_ARG_DST, c);
    if (bias) dnn_job_arg(job, DNNL_ARG_BIAS, bias);
    job->after = after_product(want, fused);
    good = dnn_job_finish(job, desc);
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  dnnl_memory_desc_t mds[4] = {a, b, c, bias};
  for (int i = 0; i < 4; i++)
    if (mds[i]) dnnl_memory_desc_destroy(mds[i]);
  return good;
}

/* How a product is cut: along a batch axis, or along the longer axis of c. Each slice reads, and
 * oneDNN may pack, all of the other matrix. */
enum { BY_ROWS = 2, BY_COLUMNS };
typedef struct cut_t {
  int axis; /* 0 and 1: a batch axis */
  int64_t extent;
  int64_t unit;  /* items that stay together */
  int64_t count; /* slices; 1: the product is not cut */
} cut_t;

static cut_t cut_of(const matmul_t *p) {
  /* Rows of a vector register, and the columns that a step of oneDNN's gemm computes. */
  enum { ROWS = 16, COLUMNS = 48 };
  const double flops = 100e3; /* in a microsecond, on one thread */
  double work = 2.0 * (double)p->m * (double)p->n * (double)p->k / flops;
  cut_t cut = {BY_ROWS, p->m, ROWS, 1};
  if (p->m <= p->n) cut = (cut_t){BY_COLUMNS, p->n, COLUMNS, 1};
  for (int32_t i = 0; i < p->rank; i++)
    work *= (double)p->batch[i];
  const int64_t wanted = dnn_slices_for(work);
  for (int32_t i = 0; i < p->rank; i++)
    if (p->batch[i] >= wanted || p->batch[i] >= 4) cut = (cut_t){i, p->batch[i], 1, 1};
  const int64_t units = (cut.extent + cut.unit - 1) / cut.unit;
  cut.count = wanted;
  while (cut.count > units)
    cut.count /= 2;
  return cut;
}

/* The first item of a slice. */
static int64_t cut_begin(const cut_t *cut, int64_t slice) {
  const int64_t units = (cut->extent + cut->unit - 1) / cut->unit;
  const int64_t begin = slice * units / cut->count * cut->unit;
  return begin < cut->extent ? begin : cut->extent;
}

/* Makes the product of a slice, and its distances in elements from that of p: a, b, c, bias. */
static void slice_of(const matmul_t *p, const cut_t *cut, int64_t slice, matmul_t *out,
                     int64_t *out_offset) {
  const int64_t first = cut_begin(cut, slice);
  const int64_t count = cut_begin(cut, slice + 1) - first;
  const matrix_t *matrices[3] = {&p->a, &p->b, &p->c};
  *out = *p;
  for (int i = 0; i < 3; i++) {
    int64_t stride = cut->axis < BY_ROWS ? matrices[i]->batch[cut->axis] : 0;
    if (cut->axis == BY_ROWS && i != 1) stride = matrices[i]->row;
    if (cut->axis == BY_COLUMNS && i != 0) stride = matrices[i]->column;
    out_offset[i] = first * stride;
  }
  out_offset[3] = cut->axis == BY_COLUMNS ? first : 0;
  if (cut->axis == BY_ROWS)
    out->m = count;
  else if (cut->axis == BY_COLUMNS)
    out->n = count;
  else
    out->batch[cut->axis] = count;
}

/* Finds the job of an earlier slice of the same extent. */
static dnn_job_t *find_kind(const dnn_job_t *job, const cut_t *cut, int64_t slice) {
  const int64_t count = cut_begin(cut, slice + 1) - cut_begin(cut, slice);
  for (int64_t i = 0; i < slice; i++)
    if (cut_begin(cut, i + 1) - cut_begin(cut, i) == count) return job->slices[i].job;
  return 0;
}

/* Makes the slices of a product whose b is not packed. Returns 0 if oneDNN does not suit. */
static int make_slices(dnn_job_t *job, const want_t *want, const matmul_t *p, int fused) {
  const dnn_key_t none = {0};
  const cut_t cut = cut_of(p);
  if (cut.count == 1) return make_primitive(job, want, p, fused);
  for (int64_t i = 0; i < cut.count; i++) {
    dnn_job_t *kind = find_kind(job, &cut, i);
    matmul_t part;
    int64_t offset[4];
    slice_of(p, &cut, i, &part, offset);
    if (!kind) {
      kind = dnn_job_create(&none);
      if (!kind) return 0;
      if (!make_primitive(kind, want, &part, fused) || !dnn_kind_add(job, kind)) {
        dnn_job_destroy(kind);
        return 0;
      }
    }
    dnn_slice_t *slice = dnn_slice_add(job, kind);
    if (!slice) return 0;
    for (int k = 0; k < 4; k++)
      slice->offset[k] = offset[k] * (int64_t)sizeof(float);
  }
  return 1;
}

/* Makes the slices of a product with packed weights. */
static int make_packed_slices(dnn_job_t *job, const want_t *want, const matmul_t *p, int fused) {
  dnnl_primitive_attr_t attributes = 0;
  dnnl_memory_desc_t a = matrix_md(p, &p->a, p->m, p->k, 2);
  int good = a && make_attributes(&attributes, want, fused);
  if (good) {
    const dnn_product_t product = {.a = a,
                                   .m = p->m,
                                   .row = p->c.row,
                                   .column = p->c.column,
                                   .with_bias = fused && p->bias.data,
                                   .attributes = attributes,
                                   .after = after_product(want, fused)};
    good = dnn_weights_slices(job, &want->plan->weights, &product);
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  if (a) dnnl_memory_desc_destroy(a);
  return good;
}

/* Tries one variant. Returns 1 if the job now has what it runs. */
static int try_matmul_job(dnn_job_t *job, const want_t *want, const matmul_t *p, uint32_t variant) {
  const int fused = !(variant & UNFUSED);
  job->variant = variant;
  return want->plan ? make_packed_slices(job, want, p, fused) : make_slices(job, want, p, fused);
}

static dnn_job_t *make_matmul_job(const dnn_key_t *key, const want_t *want) {
  dnn_job_t *job = dnn_job_create(key);
  tenon_tensor_t dense[4], *tensors[4];
  int64_t strides[4][TENON_RANK_MAX];
  for (uint32_t variant = 0; job && variant < 2 * UNFUSED; variant++) {
    int whole = variant == 0 || variant == UNFUSED;
    int most = variant == 7 || variant == 15;
    matmul_t p;
    /* with the given layouts, or all of them dense */
    if (!whole && (!most || want->adds)) continue;
    for (int i = 0; i < 4; i++) {
      tensors[i] = want->tensors[i];
      if (!most || i == 2) continue;
      dense[i] = *want->tensors[i];
      dense[i].strides = strides[i];
      tensors[i] = &dense[i];
      for (int64_t axis = dense[i].ndim - 1, stride = 1; axis >= 0;
           stride *= dense[i].shape[axis--])
        strides[i][axis] = stride;
    }
    if (variant & UNFUSED) tensors[2] = 0;
    core_matmul_view(tensors, want->transpose_a, want->transpose_b, &p);
    int plain = want->finish.scale == 1 && (want->finish.bias_scale == 1 || !p.bias.data);
    if (!(variant & UNFUSED) && (!plain || (p.bias.data && !bias_is_row(&p)))) continue;
    if (p.rank > (want->plan ? 0 : 2)) continue;
    if (try_matmul_job(job, want, &p, variant)) break;
    dnn_job_destroy(job);
    job = dnn_job_create(key);
  }
  return job;
}

/* running */

static tenon_status_t multiply_without_onednn(tenon_call_t *call, const want_t *want) {
  if (want->plan)
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "oneDNN has no product for the packed weights with these extents");
  return want->kind == KIND_GEMM ? core_gemm_run_fast(call) : core_matmul_run_fast(call);
}

static tenon_status_t run_matmul_job(tenon_call_t *call, want_t *want, dnn_job_t *job) {
  tenon_tensor_t **t = want->tensors;
  tenon_tensor_t *out = call->outputs[0];
  const plan_t *plan = want->plan;
  uint32_t variant = job->variant;
  if (variant & DENSE_A) t[0] = core_dense(call, t[0], t[0]->dtype);
  if (variant & DENSE_B && !plan) t[1] = core_dense(call, t[1], t[1]->dtype);
  if (variant & DENSE_C) t[3] = core_place_dense(call, t[3], t[3]->dtype);
  if (!t[0] || !t[1] || !t[3]) return TENON_MEMORY;
  void *weights = plan ? plan->weights.data : t[1]->data;
  if (job->weights) weights = job->weights;
  void *data[4] = {t[0]->data, weights, t[3]->data, t[2] ? t[2]->data : 0};
  TENON_TRY(dnn_run(call, job, data));
  if (variant & UNFUSED) {
    matmul_t p;
    core_matmul_view(t, want->transpose_a, want->transpose_b, &p);
    want->finish.dtype = t[3]->dtype;
    TENON_TRY(core_matmul_finish(call, &p, &want->finish));
  }
  return core_settle(call, out, t[3]);
}

static tenon_status_t multiply_by_onednn(tenon_call_t *call, want_t *want) {
  plan_t *plan = (plan_t *)call->plan;
  dnn_cache_t *cache = plan ? &plan->weights.cache : &dnn_eager;
  const tenon_dtype_t f32 = tenon_dtype(TENON_F32);
  tenon_tensor_t **t = want->tensors;
  tenon_tensor_t *out = call->outputs[0];
  dnn_key_t key;
  if (tenon_count(out) == 0) return TENON_OK;
  want->plan = plan;
  for (int i = 0; i < 3; i++) {
    int packed = i == 1 && plan;
    t[i] = NULL;
    if (packed)
      t[i] = &plan->b;
    else if (call->inputs[i])
      t[i] = core_as(call, call->inputs[i], f32);
    if (!t[i] && (packed || call->inputs[i])) return TENON_MEMORY;
  }
  t[3] = core_place(call, out, f32);
  if (!t[3]) return TENON_MEMORY;
  int known = 1;
  dnn_key_open(&key, want->kind);
  dnn_key_add(&key, want->transpose_a | want->transpose_b << 1 | (int)want->finish.activation << 2 |
                        want->adds << 30);
  dnn_key_number(&key, want->finish.alpha);
  dnn_key_number(&key, want->finish.beta);
  for (int i = 0; i < 4; i++)
    known = known && (i != 1 || !plan ? dnn_key_tensor(&key, t[i]) : 1);
  dnn_job_t *job = known ? dnn_find(cache, &key) : 0;
  if (job)
    return dnn_job_runs(job) ? run_matmul_job(call, want, job)
                             : multiply_without_onednn(call, want);
  if (!known && !plan) return multiply_without_onednn(call, want);
  /* Even for extents that are seen once: another kernel would give other bits the first time. */
  const int before = dnn_alone_begin();
  job = make_matmul_job(&key, want);
  dnn_alone_end(before);
  if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
  int kept = known && (dnn_job_runs(job) || !plan) && dnn_publish(cache, job);
  tenon_status_t status =
      dnn_job_runs(job) ? run_matmul_job(call, want, job) : multiply_without_onednn(call, want);
  if (!kept) dnn_job_destroy(job);
  return status;
}

/* Is the plain kernel faster for this call without a plan? It is for small products, and for one or
 * two rows, because oneDNN would pack all of b for them. */
static int is_plain(const tenon_call_t *call, int transpose_a) {
  const tenon_tensor_t *a = call->inputs[0];
  const tenon_tensor_t *b = call->inputs[1];
  const tenon_tensor_t *out = call->outputs[0];
  int32_t from_end = transpose_a && a->ndim > 1 ? 2 : 1;
  int64_t inner = a->ndim ? a->shape[a->ndim - from_end] : 1;
  int64_t count = tenon_count(out);
  int64_t columns = b->ndim > 1 ? out->shape[out->ndim - 1] : 1;
  int64_t rows = columns ? count / columns : 0; /* rows of one product */
  if (b->ndim > 2) rows = out->shape[out->ndim - 2];
  return rows <= 2 || inner == 0 || count <= TINY / inner;
}

static tenon_status_t dnn_matmul(tenon_call_t *call) {
  want_t want = {.kind = KIND_MATMUL,
                 .transpose_a = call->attrs[0].as.i != 0,
                 .transpose_b = call->attrs[1].as.i != 0};
  if (!call->plan && (is_plain(call, want.transpose_a) || !dnn_engine()))
    return core_matmul_run_fast(call);
  want.finish = core_matmul_finish_of(call->attrs);
  TENON_TRY(core_matmul_may_add(call, &want.finish));
  want.adds = call->accumulate != 0;
  return multiply_by_onednn(call, &want);
}

static tenon_status_t dnn_gemm(tenon_call_t *call) {
  want_t want = {.kind = KIND_GEMM,
                 .transpose_a = call->attrs[2].as.i != 0,
                 .transpose_b = call->attrs[3].as.i != 0};
  if (!call->plan && (is_plain(call, want.transpose_a) || !dnn_engine()))
    return core_gemm_run_fast(call);
  want.finish = core_gemm_finish_of(call->attrs);
  TENON_TRY(core_matmul_may_add(call, &want.finish));
  want.adds = call->accumulate != 0;
  return multiply_by_onednn(call, &want);
}

/* preparing */

static void plan_release(void *pointer) {
  plan_t *plan = (plan_t *)pointer;
  if (!plan) return;
  dnn_weights_clear(&plan->weights);
  free(plan);
}

/* The elements of a constant b as f32: its own memory, or a copy of a narrow dtype, which the
 * caller frees. NULL: memory is short. */
static const float *wide_matrix(const tenon_tensor_t *b, float **out_copy) {
  *out_copy = NULL;
  if (core_is(b, TENON_F32)) return (const float *)b->data;
  *out_copy = (float *)malloc((size_t)tenon_count(b) * sizeof(float));
  if (*out_copy) widen_run(b->dtype, *out_copy, b->data, tenon_count(b));
  return *out_copy;
}

/* Packs b for products of about m rows. Returns 0 if memory
 * is short or oneDNN has no good implementation. */
static int pack_matrix(plan_t *plan, const tenon_tensor_t *b, int64_t m, int transpose_b) {
  const int64_t k = b->shape[transpose_b ? 1 : 0];
  const int64_t n = b->shape[transpose_b ? 0 : 1];
  float *copy;
  const float *data = wide_matrix(b, &copy);
  const int good = data && dnn_weights_pack(&plan->weights, m, k, n, data, b->strides[transpose_b],
                                            b->strides[!transpose_b]);
  free(copy);
  return good;
}

/* Packs b if it is a constant matrix of sufficient size; otherwise makes no plan. */
static tenon_status_t prepare_matrix(tenon_node_t *node, int transpose_a, int transpose_b) {
  enum {
    USUAL_ROWS = 128,
    SMALL = 4096, /* elements of b */
  };
  const tenon_meta_t *a = node->inputs[0];
  const tenon_tensor_t *b = node->inputs[1]->value;
  if (!(node->constant >> 1 & 1) || !b || b->ndim != 2 || a->ndim < 2 || !dnn_engine())
    return TENON_OK;
  if (!core_is(b, TENON_F32) && !(is_narrow(b->dtype) && core_is_array(b))) return TENON_OK;
  if (!b->shape[0] || !b->shape[1] || b->shape[0] * b->shape[1] <= SMALL) return TENON_OK;
  plan_t *plan = (plan_t *)calloc(1, sizeof *plan);
  if (!plan)
    return tenon_fail(node, TENON_MEMORY, "out of memory for the plan of a matrix product");
  int64_t m = 1;
  for (int32_t i = 0; i < a->ndim; i++)
    if (i != a->ndim - (transpose_a ? 2 : 1))
      m = tenon_is_known(a->dims[i]) && m ? m * a->dims[i].value : 0;
  if (m <= 0) m = USUAL_ROWS;
  plan->b = *b;
  plan->b.data = 0;
  plan->b.dtype = tenon_dtype(TENON_F32);
  plan->b.shape = plan->shape;
  plan->b.strides = plan->strides;
  for (int i = 0; i < 2; i++)
    plan->shape[i] = b->shape[i];
  plan->strides[0] = b->shape[1];
  plan->strides[1] = 1;
  if (!pack_matrix(plan, b, m, transpose_b)) {
    plan_release(plan); /* without a plan, the call packs for itself */
    return TENON_OK;
  }
  node->plan = plan;
  node->consumed |= 1u << 1;
  return TENON_OK;
}

static tenon_status_t matmul_prepare(tenon_node_t *node) {
  return prepare_matrix(node, node->attrs[0].as.i != 0, node->attrs[1].as.i != 0);
}
static tenon_status_t gemm_prepare(tenon_node_t *node) {
  return prepare_matrix(node, node->attrs[2].as.i != 0, node->attrs[3].as.i != 0);
}

/* clang-format off */
TENON_ITEMS(core_dnn_matmul,
  TENON_EXTEND("core::matmul",
    TENON_PREPARE(matmul_prepare, plan_release),
    TENON_KERNEL("cpu f32|f16|bf16 strided accumulates", dnn_matmul)),
  TENON_EXTEND("core::gemm",
    TENON_PREPARE(gemm_prepare, plan_release),
    TENON_KERNEL("cpu f32|f16|bf16 strided accumulates", dnn_gemm)))
/* clang-format on */
