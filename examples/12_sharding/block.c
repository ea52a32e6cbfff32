/* block.c: a library with two operators of a transformer block, and their gradients.
 *
 * TENON_SHARDING says how a call may be split over processes. It is declared for the operators
 * alone: the splits of the calls that compute their gradients follow from it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/op.h>

/* linear: the matrix product of the rows of x, of k numbers each, with w [k, n]. */

typedef struct product_t {
  int64_t rows;
  int64_t k;
  int64_t n;
} product_t;

static product_t product_of(const tenon_tensor_t *x, const tenon_tensor_t *w) {
  const product_t p = {w->shape[0] ? tenon_count(x) / w->shape[0] : 0, w->shape[0], w->shape[1]};
  return p;
}

static tenon_status_t linear_rows(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const product_t *p = (const product_t *)argument;
  const float *x = (const float *)call->inputs[0]->data;
  const float *w = (const float *)call->inputs[1]->data;
  float *y = (float *)call->outputs[0]->data;
  for (int64_t r = begin; r < end; r++) {
    memset(y + r * p->n, 0, (size_t)p->n * sizeof *y);
    for (int64_t i = 0; i < p->k; i++)
      for (int64_t j = 0; j < p->n; j++)
        y[r * p->n + j] += x[r * p->k + i] * w[i * p->n + j];
  }
  return TENON_OK;
}

static tenon_status_t linear_run(tenon_call_t *call) {
  product_t p = product_of(call->inputs[0], call->inputs[1]);
  return call->host->parallel(call, p.rows, 1, linear_rows, &p);
}

/* The inputs are grad, x and w, the results dx and dw. */
static tenon_status_t linear_backward_run(tenon_call_t *call) {
  const product_t p = product_of(call->inputs[1], call->inputs[2]);
  const float *grad = (const float *)call->inputs[0]->data;
  const float *x = (const float *)call->inputs[1]->data;
  const float *w = (const float *)call->inputs[2]->data;
  float *dx = (float *)call->outputs[0]->data;
  float *dw = (float *)call->outputs[1]->data;
  memset(dx, 0, (size_t)(p.rows * p.k) * sizeof *dx);
  memset(dw, 0, (size_t)(p.k * p.n) * sizeof *dw);
  for (int64_t r = 0; r < p.rows; r++)
    for (int64_t i = 0; i < p.k; i++)
      for (int64_t j = 0; j < p.n; j++) {
        dx[r * p.k + i] += grad[r * p.n + j] * w[i * p.n + j];
        dw[i * p.n + j] += grad[r * p.n + j] * x[r * p.k + i];
      }
  return TENON_OK;
}

/* attend: softmax(q k^T / sqrt(size)) v, in which no row of q sees later rows of k. All tensors are
 * [batch, heads, length, size]. */

typedef struct heads_t {
  int64_t count; /* batch times heads */
  int64_t length;
  int64_t size;
} heads_t;

static heads_t heads_of(const tenon_tensor_t *q) {
  const heads_t heads = {q->shape[0] * q->shape[1], q->shape[2], q->shape[3]};
  return heads;
}

/* The weights with which row t sees the rows 0 to t of k. */
static void weigh(const heads_t *h, const float *q, const float *k, int64_t t, float *out_weights) {
  float most = -INFINITY;
  float sum = 0;
  for (int64_t s = 0; s <= t; s++) {
    float dot = 0;
    for (int64_t i = 0; i < h->size; i++)
      dot += q[t * h->size + i] * k[s * h->size + i];
    out_weights[s] = dot / sqrtf((float)h->size);
    most = fmaxf(most, out_weights[s]);
  }
  for (int64_t s = 0; s <= t; s++)
    sum += out_weights[s] = expf(out_weights[s] - most);
  for (int64_t s = 0; s <= t; s++)
    out_weights[s] /= sum;
}

static void attend_head(const heads_t *h, const float *q, const float *k, const float *v,
                        float *weights, float *y) {
  memset(y, 0, (size_t)(h->length * h->size) * sizeof *y);
  for (int64_t t = 0; t < h->length; t++) {
    weigh(h, q, k, t, weights);
    for (int64_t s = 0; s <= t; s++)
      for (int64_t i = 0; i < h->size; i++)
        y[t * h->size + i] += weights[s] * v[s * h->size + i];
  }
}

static tenon_status_t attend_run(tenon_call_t *call) {
  const heads_t h = heads_of(call->inputs[0]);
  float *weights = (float *)malloc((size_t)h.length * sizeof *weights + 1);
  if (!weights) return TENON_MEMORY;
  for (int64_t n = 0; n < h.count; n++) {
    const int64_t first = n * h.length * h.size;
    attend_head(&h, (const float *)call->inputs[0]->data + first,
                (const float *)call->inputs[1]->data + first,
                (const float *)call->inputs[2]->data + first, weights,
                (float *)call->outputs[0]->data + first);
  }
  free(weights);
  return TENON_OK;
}

typedef struct gradients_t {
  const float *grad;
  const float *q;
  const float *k;
  const float *v;
  float *dq;
  float *dk;
  float *dv;
} gradients_t;

/* Adds what row t contributes to the gradients of one head. */
static void attend_back(const heads_t *h, const gradients_t *g, int64_t t, float *weights,
                        float *slopes) {
  const float scale = 1 / sqrtf((float)h->size);
  float mean = 0;
  weigh(h, g->q, g->k, t, weights);
  for (int64_t s = 0; s <= t; s++) {
    slopes[s] = 0;
    for (int64_t i = 0; i < h->size; i++) {
      slopes[s] += g->grad[t * h->size + i] * g->v[s * h->size + i];
      g->dv[s * h->size + i] += weights[s] * g->grad[t * h->size + i];
    }
    mean += weights[s] * slopes[s];
  }
  for (int64_t s = 0; s <= t; s++)
    for (int64_t i = 0; i < h->size; i++) {
      const float slope = scale * weights[s] * (slopes[s] - mean);
      g->dq[t * h->size + i] += slope * g->k[s * h->size + i];
      g->dk[s * h->size + i] += slope * g->q[t * h->size + i];
    }
}

/* The inputs are grad, q, k and v, the results dq, dk and dv. */
static tenon_status_t attend_backward_run(tenon_call_t *call) {
  const heads_t h = heads_of(call->inputs[1]);
  const int64_t each = h.length * h.size;
  float *rows = (float *)malloc(2 * (size_t)h.length * sizeof *rows + 1);
  if (!rows) return TENON_MEMORY;
  for (int i = 0; i < 3; i++)
    memset(call->outputs[i]->data, 0, (size_t)(h.count * each) * sizeof(float));
  for (int64_t n = 0; n < h.count; n++) {
    const gradients_t g = {
        (const float *)call->inputs[0]->data + n * each,
        (const float *)call->inputs[1]->data + n * each,
        (const float *)call->inputs[2]->data + n * each,
        (const float *)call->inputs[3]->data + n * each,
        (float *)call->outputs[0]->data + n * each,
        (float *)call->outputs[1]->data + n * each,
        (float *)call->outputs[2]->data + n * each,
    };
    for (int64_t t = 0; t < h.length; t++)
      attend_back(&h, &g, t, rows, rows + h.length);
  }
  free(rows);
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(block, "1.0.0",
  TENON_OP("linear(Tensor x, Tensor w) -> Tensor",
    TENON_DOC("The matrix product of the rows of x with w."),
    TENON_TYPES("x: f32; w = x; out = x"),
    TENON_SHAPES("x: [batch, length, k]; w: [k, n]; out: [batch, length, n]"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x, w: linear_backward(grad, x, w)"),
    TENON_SHARDING("x: [batch, length, k]; w: [k, n]; out: [batch, length, n]; sum k"),
    TENON_KERNEL("cpu", linear_run)),
  TENON_OP("linear_backward(Tensor grad, Tensor x, Tensor w) -> (Tensor dx, Tensor dw)",
    TENON_DOC("Gradients of linear."),
    TENON_TYPES("grad: f32; x, w = grad; dx, dw = grad"),
    TENON_SHAPES("grad: [batch, length, n]; x: [batch, length, k]; w: [k, n];"
                 "dx: [batch, length, k]; dw: [k, n]"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", linear_backward_run)),
  TENON_OP("attend(Tensor q, Tensor k, Tensor v) -> Tensor",
    TENON_DOC("Causal attention: softmax(q k^T / sqrt(size)) v for each head."),
    TENON_TYPES("q: f32; k, v = q; out = q"),
    TENON_SHAPES("q: [batch, heads, length, size]; k = q; v = q; out = q"),
    TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("q, k, v: attend_backward(grad, q, k, v)"),
    TENON_SHARDING("q, k, v, out: [batch, heads, _, _]"),
    TENON_KERNEL("cpu", attend_run)),
  TENON_OP("attend_backward(Tensor grad, Tensor q, Tensor k, Tensor v) -> "
           "(Tensor dq, Tensor dk, Tensor dv)",
    TENON_DOC("Gradients of attend."),
    TENON_TYPES("grad: f32; q, k, v = grad; dq, dk, dv = grad"),
    TENON_SHAPES("grad: [batch, heads, length, size]; q = grad; k = grad; v = grad;"
                 "dq = grad; dk = grad; dv = grad"),
    TENON_TRAITS(TENON_PURE),
    TENON_KERNEL("cpu", attend_backward_run)))
/* clang-format on */
