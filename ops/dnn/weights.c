/* Constant matrices that are packed once; see dnn.h. Called by matmul.c and recurrent.c.
 * Invariant: packed data is never changed; a job whose extents need another layout owns a copy in
 * that layout. */
#include "../packed.h"
#include "dnn.h"
#include <stdlib.h>
#include <string.h>

static int32_t slice_count(const dnn_weights_t *weights) {
  const int64_t count = (weights->n - 1) / weights->each + 1;
  return count > INT32_MAX ? INT32_MAX : (int32_t)count;
}

/* Is there a last slice with fewer columns than the others? */
static int has_rest(const dnn_weights_t *weights) { return weights->n % weights->each != 0; }

static int64_t columns_of(const dnn_weights_t *weights, int is_rest) {
  return is_rest ? weights->n % weights->each : weights->each;
}

/* Chooses the columns of a slice: at least 96, with which oneDNN is as fast as with all of them,
 * and an even number of slices if possible. */
static int64_t columns_for(int64_t m, int64_t k, int64_t n) {
  enum { BLOCK = 32, LEAST = 3 };
  const double flops = 100e3; /* in a microsecond, on one thread */
  const double bytes = 25e3;
  const double computing = 2.0 * (double)m * (double)k * (double)n / flops;
  const double reading = 4.0 * (double)k * (double)n / bytes;
  const int64_t wanted = dnn_slices_for(computing > reading ? computing : reading);
  const int64_t blocks = (n + BLOCK - 1) / BLOCK;
  int64_t each = (blocks + wanted - 1) / wanted;
  if (each < LEAST) each = LEAST;
  if (wanted == 1 || each >= blocks) return n;
  if ((blocks + each - 1) / each % 2 && (blocks + each) / (each + 1) % 2 == 0) each++;
  return each * BLOCK;
}

/* Describes the product of one slice. `b` is the layout of its weights; NULL: oneDNN chooses. */
static dnnl_primitive_desc_t describe_product(const dnn_weights_t *weights,
                                              const dnn_product_t *product, int64_t n,
                                              const_dnnl_memory_desc_t b) {
  int64_t b_dims[2] = {weights->k, n};
  int64_t c_dims[2] = {product->m, n};
  int64_t c_strides[2] = {product->row, product->column};
  int64_t bias_dims[2] = {1, n};
  int64_t bias_strides[2] = {n, 1};
  dnnl_primitive_desc_t desc = 0;
  dnn_strides_settle(2, c_dims, c_strides);
  dnnl_memory_desc_t any = dnn_any(2, b_dims);
  dnnl_memory_desc_t c = dnn_strided(2, c_dims, c_strides);
  dnnl_memory_desc_t bias = product->with_bias ? dnn_strided(2, bias_dims, bias_strides) : 0;
  if (any && c && (bias || !product->with_bias) &&
      dnnl_matmul_primitive_desc_create(&desc, dnn_engine(), product->a, b ? b : any, bias, c,
                                        product->attributes) != dnnl_success)
    desc = 0;
  if (any) dnnl_memory_desc_destroy(any);
  if (c) dnnl_memory_desc_destroy(c);
  if (bias) dnnl_memory_desc_destroy(bias);
  return desc;
}

/* Lets oneDNN choose the layout of the slices, for products of about `m` rows. */
static int choose_layouts(dnn_weights_t *weights, int64_t m) {
  int64_t dims[2] = {m, weights->k};
  int64_t strides[2] = {weights->k, 1};
  dnn_product_t product = {.a = dnn_strided(2, dims, strides), .m = m, .row = weights->n};
  product.column = 1;
  int good = product.a != 0;
  for (int rest = 0; good && rest <= has_rest(weights); rest++) {
    dnnl_primitive_desc_t desc = describe_product(weights, &product, columns_of(weights, rest), 0);
    good = desc && !dnn_is_reference(desc) &&
           dnnl_memory_desc_clone(&weights->md[rest], dnn_query(desc, dnnl_query_weights_md)) ==
               dnnl_success;
    if (desc) dnnl_primitive_desc_destroy(desc);
  }
  if (product.a) dnnl_memory_desc_destroy((dnnl_memory_desc_t)product.a);
  return good;
}

static uint64_t bytes_of(const_dnnl_memory_desc_t md) {
  return ((uint64_t)dnnl_memory_desc_get_size(md) + 63) / 64 * 64;
}

static void *allocate_slices(const dnn_weights_t *weights, uint64_t bytes) {
  const uint64_t count = (uint64_t)slice_count(weights);
  return bytes && count <= (SIZE_MAX >> 1) / bytes ? aligned_alloc(64, count * bytes) : 0;
}

/* Copies the columns of a matrix with these strides into the slices. */
static int fill_slices(const dnn_weights_t *weights, const void *data, int64_t row,
                       int64_t column) {
  int good = 1;
  for (int32_t i = 0; good && i < slice_count(weights); i++) {
    const int rest = has_rest(weights) && i == slice_count(weights) - 1;
    int64_t dims[2] = {weights->k, columns_of(weights, rest)};
    int64_t strides[2] = {row, column};
    dnnl_memory_desc_t given = dnn_strided(2, dims, strides);
    const float *from = (const float *)data + i * weights->each * column;
    char *to = (char *)weights->data + (uint64_t)i * weights->bytes;
    const size_t size = dnnl_memory_desc_get_size(weights->md[rest]);
    good = given && dnn_reorder(given, from, weights->md[rest], to);
    memset(to + size, 0, weights->bytes - size); /* an artifact holds the whole slice */
    if (given) dnnl_memory_desc_destroy(given);
  }
  return good;
}

static void forget_layouts(dnn_weights_t *weights) {
  for (int rest = 0; rest < 2; rest++) {
    if (weights->md[rest]) dnnl_memory_desc_destroy(weights->md[rest]);
    weights->md[rest] = 0;
  }
}

/* In the notes of packed weights: the numbers of both layouts, and the columns of a slice. */
enum { LAYOUTS, COLUMNS, LAYOUT_BITS = 16 };

/* Sets the layouts of an artifact. Returns the bytes of all slices; 0: there are no such
 * layouts. */
static uint64_t set_layouts(void *context, const int64_t *notes) {
  dnn_weights_t *weights = (dnn_weights_t *)context;
  forget_layouts(weights);
  if (notes[COLUMNS] < 1 || notes[COLUMNS] > weights->n) return 0;
  weights->each = notes[COLUMNS];
  if (slice_count(weights) > DNN_SLICES) return 0;
  for (int rest = 0; rest <= has_rest(weights); rest++) {
    const int64_t dims[2] = {weights->k, columns_of(weights, rest)};
    const int64_t number = notes[LAYOUTS] >> (rest * LAYOUT_BITS) & ((1 << LAYOUT_BITS) - 1);
    weights->md[rest] = dnn_layout_of(number, 2, dims);
    if (!weights->md[rest]) return 0;
  }
  weights->bytes = bytes_of(weights->md[0]);
  if (has_rest(weights) && bytes_of(weights->md[1]) > weights->bytes) return 0;
  return weights->bytes * (uint64_t)slice_count(weights);
}

/* Takes what was packed when an artifact was written. */
static int take_packed(dnn_weights_t *weights) {
  weights->data = (void *)(uintptr_t)core_packed_take(set_layouts, weights);
  weights->is_borrowed = weights->data != 0;
  if (!weights->data) forget_layouts(weights);
  return weights->is_borrowed;
}

static void keep_packed(const dnn_weights_t *weights) {
  int64_t notes[PACKED_NOTES] = {0};
  notes[COLUMNS] = weights->each;
  for (int rest = 0; rest <= has_rest(weights); rest++) {
    const int64_t number = dnn_layout_number(weights->md[rest]);
    if (!number) return;
    notes[LAYOUTS] |= number << (rest * LAYOUT_BITS);
  }
  core_packed_keep(weights->data, weights->bytes * (uint64_t)slice_count(weights), notes);
}

int dnn_weights_pack(dnn_weights_t *weights, int64_t m, int64_t k, int64_t n, const void *data,
                     int64_t row, int64_t column) {
  weights->k = k;
  weights->n = n;
  if (take_packed(weights)) return 1;
  weights->each = columns_for(m, k, n);
  const int before = dnn_alone_begin();
  int good = choose_layouts(weights, m);
  if (good) {
    weights->bytes = bytes_of(weights->md[0]);
    weights->data = allocate_slices(weights, weights->bytes);
    good = weights->data && fill_slices(weights, data, row, column);
  }
  dnn_alone_end(before);
  if (good)
    keep_packed(weights);
  else
    dnn_weights_clear(weights);
  return good;
}

void dnn_weights_clear(dnn_weights_t *weights) {
  dnn_cache_clear(&weights->cache);
  forget_layouts(weights);
  if (!weights->is_borrowed) dnn_free(weights->data);
  weights->data = 0;
}

/* Gives the job a copy of the weights in the layouts that oneDNN prefers for this product. Returns
 * 0 if memory is short. */
static int repack(dnn_job_t *job, const dnn_weights_t *weights,
                  const dnnl_primitive_desc_t *preferred, uint64_t bytes) {
  int good = (job->weights = allocate_slices(weights, bytes)) != 0;
  for (int32_t i = 0; good && i < slice_count(weights); i++) {
    const int rest = has_rest(weights) && i == slice_count(weights) - 1;
    good = dnn_reorder(weights->md[rest], (char *)weights->data + (uint64_t)i * weights->bytes,
                       dnn_query(preferred[rest], dnnl_query_weights_md),
                       (char *)job->weights + (uint64_t)i * bytes);
  }
  if (good) return 1;
  dnn_free(job->weights);
  job->weights = 0;
  return 0;
}

/* Describes the products of both kinds of slices, in the layouts that oneDNN prefers if memory for
 * a copy suffices, else in the present ones. Returns the bytes from one slice's weights to the
 * next; 0: failed. */
static uint64_t describe_slices(dnn_job_t *job, const dnn_weights_t *weights,
                                const dnn_product_t *product, dnnl_primitive_desc_t *out_desc) {
  int is_described = 1;
  int is_present = 1;
  uint64_t bytes = 0;
  for (int rest = 0; rest <= has_rest(weights); rest++) {
    out_desc[rest] = describe_product(weights, product, columns_of(weights, rest), 0);
    is_described = is_described && out_desc[rest];
    if (!out_desc[rest]) continue;
    const_dnnl_memory_desc_t wanted = dnn_query(out_desc[rest], dnnl_query_weights_md);
    is_present = is_present && dnnl_memory_desc_equal(wanted, weights->md[rest]);
    if (bytes_of(wanted) > bytes) bytes = bytes_of(wanted);
  }
  if (is_described && is_present) return weights->bytes;
  if (is_described && repack(job, weights, out_desc, bytes)) return bytes;
  for (int rest = 0; rest <= has_rest(weights); rest++) {
    if (out_desc[rest]) dnnl_primitive_desc_destroy(out_desc[rest]);
    out_desc[rest] =
        describe_product(weights, product, columns_of(weights, rest), weights->md[rest]);
    if (!out_desc[rest]) return 0;
  }
  return weights->bytes;
}

/* Makes the job of the slices with this number of columns. Takes ownership of desc. */
static dnn_job_t *make_kind(dnn_job_t *job, const dnn_product_t *product,
                            dnnl_primitive_desc_t desc) {
  const dnn_key_t none = {0};
  dnn_job_t *kind = dnn_job_create(&none);
  if (!kind) {
    dnnl_primitive_desc_destroy(desc);
    return 0;
  }
  dnn_job_arg(kind, DNNL_ARG_SRC, product->a);
  dnn_job_arg(kind, DNNL_ARG_WEIGHTS, dnn_query(desc, dnnl_query_weights_md));
  dnn_job_arg(kind, DNNL_ARG_DST, dnn_query(desc, dnnl_query_dst_md));
  if (product->with_bias)
    dnn_job_arg(kind, DNNL_ARG_BIAS, dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 1));
  kind->after = product->after;
  if (dnn_job_finish(kind, desc) && dnn_kind_add(job, kind)) return kind;
  dnn_job_destroy(kind);
  return 0;
}

int dnn_weights_slices(dnn_job_t *job, const dnn_weights_t *weights, const dnn_product_t *product) {
  const int32_t count = slice_count(weights);
  dnnl_primitive_desc_t desc[2] = {0, 0};
  dnn_job_t *kinds[2] = {0, 0};
  const uint64_t bytes = describe_slices(job, weights, product, desc);
  int good = bytes != 0;
  for (int rest = 0; rest < 2; rest++) {
    if (good && desc[rest])
      good = (kinds[rest] = make_kind(job, product, desc[rest])) != 0;
    else if (desc[rest])
      dnnl_primitive_desc_destroy(desc[rest]);
  }
  for (int32_t i = 0; good && i < count; i++) {
    const int rest = has_rest(weights) && i == count - 1;
    dnn_slice_t *slice = dnn_slice_add(job, kinds[rest]);
    good = slice != 0;
    if (!good) break;
    const int64_t first = i * weights->each * (int64_t)sizeof(float);
    slice->offset[1] = (int64_t)((uint64_t)i * bytes);
    slice->offset[2] = first * product->column;
    slice->offset[3] = first;
  }
  return good;
}

static dnn_job_t *make_weights_job(const dnn_key_t *key, const dnn_weights_t *weights, int64_t m) {
  int64_t dims[2] = {m, weights->k};
  int64_t strides[2] = {weights->k, 1};
  dnnl_primitive_attr_t attributes = 0;
  dnn_job_t *job = dnn_job_create(key);
  const int before = dnn_alone_begin();
  dnnl_memory_desc_t a = dnn_strided(2, dims, strides);
  int good = job && a && dnn_attributes(&attributes, 0, FINISH_none, 0, 0);
  const dnn_product_t product = {
      .a = a, .m = m, .row = weights->n, .column = 1, .attributes = attributes};
  if (!good || !dnn_weights_slices(job, weights, &product)) {
    dnn_job_destroy(job);
    job = 0;
  }
  if (attributes) dnnl_primitive_attr_destroy(attributes);
  if (a) dnnl_memory_desc_destroy(a);
  dnn_alone_end(before);
  return job;
}

tenon_status_t dnn_weights_multiply(tenon_call_t *call, dnn_weights_t *weights, void *x, int64_t m,
                                    void *out) {
  dnn_key_t key;
  if (m == 0) return TENON_OK;
  dnn_key_open(&key, m);
  dnn_job_t *job = dnn_find(&weights->cache, &key);
  int kept = job != 0;
  if (!job) {
    job = make_weights_job(&key, weights, m);
    if (!job) return tenon_fail(call, TENON_MEMORY, "out of memory for a oneDNN primitive");
    kept = dnn_publish(&weights->cache, job);
  }
  void *data[3] = {x, job->weights ? job->weights : weights->data, out};
  tenon_status_t status = dnn_run(call, job, data);
  if (!kept) dnn_job_destroy(job);
  return status;
}
