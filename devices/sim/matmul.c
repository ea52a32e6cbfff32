/* Matrix products of f32 with the semantics of core::matmul, for the operator kernel (ops.c) and
 * for compiled groups (step.c). */
#include "matmul.h"

#include <math.h>

/* The activations of core::matmul, numbered as in its schema. */
float sim_activate(uint32_t activation, float x, float alpha, float beta) {
  switch (activation) {
  case 1:
    return x < 0 ? 0 : x;
  case 2:
    return fminf(fmaxf(x, alpha), beta);
  case 3:
    return x < 0 ? alpha * x : x;
  case 4:
    return x < 0 ? alpha * expm1f(x) : x;
  case 5:
    return 0.5f * x * (1 + erff(x * 0.70710678f));
  case 6:
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  case 7:
    return tanhf(x);
  case 8:
    return 1 / (1 + expf(-x));
  case 9:
    return x / (1 + expf(-x));
  case 10:
    return fminf(fmaxf(alpha * x + beta, 0), 1);
  case 11:
    return x * fminf(fmaxf(x / 6 + 0.5f, 0), 1);
  case 12:
    return x * tanhf(log1pf(expf(x)));
  default:
    return x;
  }
}

static void factor_of(const tenon_tensor_t *t, int rows, int columns, int turned, int32_t rank,
                      sim_factor_t *out) {
  int32_t ndim = t->ndim;
  int64_t row = 0;
  int64_t column = 0;
  if (columns && ndim) {
    ndim--;
    column = t->shape[ndim] == 1 ? 0 : t->strides[ndim];
  }
  if (rows && ndim) {
    ndim--;
    row = t->shape[ndim] == 1 ? 0 : t->strides[ndim];
  }
  for (int32_t i = 0; i < ndim; i++)
    out->batch[rank - ndim + i] = t->shape[i] == 1 ? 0 : t->strides[i];
  out->row = turned ? column : row;
  out->column = turned ? row : column;
}

void sim_matmul_make(const tenon_tensor_t *a, const tenon_tensor_t *b, const tenon_tensor_t *bias,
                     const tenon_tensor_t *out, const tenon_value_t *attrs, sim_matmul_t *p) {
  int rows = a->ndim > 1;
  int columns = b->ndim > 1;
  int turn_a = attrs[0].as.i != 0;
  int turn_b = attrs[1].as.i != 0;
  *p = (sim_matmul_t){.rank = out->ndim - rows - columns,
                      .has_bias = bias != NULL,
                      .activation = (uint32_t)attrs[2].as.i,
                      .alpha = (float)attrs[3].as.f,
                      .beta = (float)attrs[4].as.f};
  factor_of(a, rows, 1, rows && turn_a, p->rank, &p->a);
  factor_of(b, 1, columns, columns && turn_b, p->rank, &p->b);
  if (bias) factor_of(bias, rows, columns, 0, p->rank, &p->bias);
  p->m = rows ? out->shape[p->rank] : 1;
  p->n = columns ? out->shape[out->ndim - 1] : 1;
  p->k = a->shape[a->ndim - (rows && turn_a ? 2 : 1)];
  p->batches = 1;
  for (int32_t i = 0; i < p->rank; i++)
    p->batches *= p->shape[i] = out->shape[i];
}

static int64_t batch_at(const sim_matmul_t *p, const sim_factor_t *factor, int64_t batch) {
  int64_t at = 0;
  for (int32_t axis = p->rank - 1; axis >= 0; batch /= p->shape[axis--])
    at += batch % p->shape[axis] * factor->batch[axis];
  return at;
}

void sim_matmul(const sim_matmul_t *p, const float *first, const float *second, const float *third,
                float *out) {
  for (int64_t batch = 0; batch < p->batches; batch++) {
    const float *a = first + batch_at(p, &p->a, batch);
    const float *b = second + batch_at(p, &p->b, batch);
    const float *bias = third ? third + batch_at(p, &p->bias, batch) : NULL;
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        float sum = 0;
        for (int64_t k = 0; k < p->k; k++)
          sum += a[i * p->a.row + k * p->a.column] * b[k * p->b.row + j * p->b.column];
        if (bias) sum += bias[i * p->bias.row + j * p->bias.column];
        *out++ = sim_activate(p->activation, sum, p->alpha, p->beta);
      }
  }
}
