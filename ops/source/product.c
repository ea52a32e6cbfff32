/* Matrix products and convolutions of f32, for devices that compile.  A group makes a tile of the result, of which its items
 * take blocks, as many as there are for each; operands come through the group's memory.
 * Invariant: no item leaves before the last barrier, so that every size of a group is right. */
#ifndef TENON_ON_DEVICE
#include "../matmul.h"
#include "launch.h"
#endif

#define TILE_M 32
#define TILE_N 64
#define TILE_K 32
#define BLOCK_M 4
#define BLOCK_N 8
#define BLOCKS (TILE_M / BLOCK_M * (TILE_N / BLOCK_N))

/* Activations, numbered as in ../finish.h. */
FUNCTION float unit(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
FUNCTION float sigmoid(float x) {
  float e = exp(-fabs(x));
  return (x < 0 ? e : 1) / (1 + e);
}
FUNCTION float activate(float x, int32_t activation, float alpha, float beta) {
  switch (activation) {
  case 1: return x < 0 ? 0 : x;
  case 2: return x < alpha ? alpha : x > beta ? beta : x;
  case 3: return x < 0 ? alpha * x : x;
  case 4: return x < 0 ? alpha * expm1(x) : x;
  case 5: return x * 0.5f * (1 + erf(x * 0.70710678118654752f));
  case 6: return x * 0.5f * (1 + tanh(0.79788456080286536f * (x + 0.044715f * x * x * x)));
  case 7: return tanh(x);
  case 8: return sigmoid(x);
  case 9: return x * sigmoid(x);
  case 10: return unit(alpha * x + beta);
  case 11: return x * unit(x * (1.0f / 6) + 0.5f);
  case 12: return x * tanh((x < 0 ? 0 : x) + log1p(exp(-fabs(x))));
  default: return x;
  }
}

typedef struct product_t {
  int64_t m, n, k, across; /* across: tiles beside one another */
  int64_t a_row, a_column, b_row, b_column, bias_row, bias_column, c_row, c_column;
  float scale, bias_scale, alpha, beta;
  int32_t activation, has_bias;
} product_t;

/* c = activation(scale a b + bias_scale bias), of matrices that `batch` walks; its tensors: a, b, bias, c */
TENON_SOURCE_8(matmul, IN, float, a, IN, float, b, IN, float, bias, OUT, float, c, VALUE, tenon_walk_t, batch, VALUE,
               product_t, p, SHARED, float, a_tile, SHARED, float, b_tile) {
  const int64_t down = (p.m + TILE_M - 1) / TILE_M, tile = (int64_t)get_group_id(0) % (down * p.across);
  const int64_t row = tile / p.across * TILE_M, column = tile % p.across * TILE_N;
  const int32_t items = (int32_t)get_local_size(0), item = (int32_t)get_local_id(0);
  int64_t at[4];
  tenon_walk(&batch, (int64_t)get_group_id(0) / (down * p.across), at);
  for (int32_t first = 0; first < BLOCKS; first += items) {
    const int32_t block = first + item, i0 = block / (TILE_N / BLOCK_N) * BLOCK_M,
                  j0 = block % (TILE_N / BLOCK_N) * BLOCK_N;
    float sum[BLOCK_M][BLOCK_N];
    for (int i = 0; i < BLOCK_M; i++)
      for (int j = 0; j < BLOCK_N; j++) sum[i][j] = 0;
    for (int64_t k = 0; k < p.k; k += TILE_K) {
      BARRIER();
      for (int32_t e = item; e < TILE_M * TILE_K; e += items) {
        int64_t i = row + e / TILE_K, l = k + e % TILE_K;
        a_tile[e % TILE_K * TILE_M + e / TILE_K] = i < p.m && l < p.k ? a[at[0] + i * p.a_row + l * p.a_column] : 0;
      }
      for (int32_t e = item; e < TILE_K * TILE_N; e += items) {
        int64_t l = k + e / TILE_N, j = column + e % TILE_N;
        b_tile[e] = l < p.k && j < p.n ? b[at[1] + l * p.b_row + j * p.b_column] : 0;
      }
      BARRIER();
      if (block < BLOCKS)
        for (int l = 0; l < TILE_K; l++)
          for (int i = 0; i < BLOCK_M; i++) {
            float x = a_tile[l * TILE_M + i0 + i];
            for (int j = 0; j < BLOCK_N; j++) sum[i][j] = mad(x, b_tile[l * TILE_N + j0 + j], sum[i][j]);
          }
    }
    if (block < BLOCKS)
      for (int i = 0; i < BLOCK_M; i++)
        for (int j = 0; j < BLOCK_N; j++) {
          int64_t y = row + i0 + i, x = column + j0 + j;
          if (y >= p.m || x >= p.n) continue;
          float e = p.scale * sum[i][j];
          if (p.has_bias) e += p.bias_scale * bias[at[2] + y * p.bias_row + x * p.bias_column];
          c[at[3] + y * p.c_row + x * p.c_column] = activate(e, p.activation, p.alpha, p.beta);
        }
  }
}

#ifndef TENON_ON_DEVICE
enum { K_matmul };
TENON_CODE(core_source_product_code, {"matmul", matmul})
#define CODE &core_source_product_code
typedef char activations_t
    [FINISH_relu == 1 && FINISH_elu == 4 && FINISH_silu == 9 && FINISH_mish == 12 && FINISH_COUNT == 13 ? 1 : -1];

/* Elements before the first one, of one axis. */
static int64_t below(int64_t extent, int64_t stride) { return extent > 1 && stride < 0 ? -(extent - 1) * stride : 0; }

static tenon_status_t multiply(tenon_call_t *call, int transpose_a, int transpose_b, const finish_t *finish) {
  tenon_tensor_t *tensors[4] = {call->inputs[0], call->inputs[1], call->inputs[2], call->outputs[0]};
  matmul_t view;
  tenon_walk_t batch = {1, 0, {0}, {0}, {{0}}};
  if (!tenon_count(tensors[3])) return TENON_OK;
  core_matmul_view(tensors, transpose_a, transpose_b, &view);
  if (view.rank > 8) return DECLINE(call, "its source kernel takes eight leading axes that do not merge");
  const matrix_t *all[4] = {&view.a, &view.b, &view.bias, &view.c};
  batch.rank = view.rank;
  for (int32_t i = 0; i < view.rank; i++) batch.shape[i] = view.batch[i], batch.count *= view.batch[i];
  for (int t = 0; t < 4; t++)
    for (int32_t i = 0; i < view.rank; i++) {
      batch.strides[t][i] = all[t]->batch[i];
      batch.first[t] += below(view.batch[i], all[t]->batch[i]);
    }
  batch.first[0] += below(view.m, view.a.row) + below(view.k, view.a.column);
  batch.first[1] += below(view.k, view.b.row) + below(view.n, view.b.column);
  batch.first[2] += below(view.m, view.bias.row) + below(view.n, view.bias.column);
  batch.first[3] += below(view.m, view.c.row) + below(view.n, view.c.column);
  product_t p = {.m = view.m,
                 .n = view.n,
                 .k = view.k,
                 .across = (view.n + TILE_N - 1) / TILE_N,
                 .a_row = view.a.row,
                 .a_column = view.a.column,
                 .b_row = view.b.row,
                 .b_column = view.b.column,
                 .bias_row = view.bias.row,
                 .bias_column = view.bias.column,
                 .c_row = view.c.row,
                 .c_column = view.c.column,
                 .scale = (float)finish->scale,
                 .bias_scale = (float)finish->bias_scale,
                 .alpha = (float)finish->alpha,
                 .beta = (float)finish->beta,
                 .activation = (int32_t)finish->activation,
                 .has_bias = tensors[2] != NULL};
  const tenon_kernel_argument_t arguments[] = {tenon_in(tensors[0]),
                                               tenon_in(tensors[1]),
                                               tenon_in(tensors[tensors[2] ? 2 : 0]),
                                               tenon_out(tensors[3]),
                                               TENON_VALUE(batch),
                                               TENON_VALUE(p),
                                               tenon_shared_whole(TILE_M * TILE_K * sizeof(float)),
                                               tenon_shared_whole(TILE_N * TILE_K * sizeof(float))};
  return tenon_groups(call, CODE, K_matmul, batch.count * ((p.m + TILE_M - 1) / TILE_M) * p.across, arguments, 8);
}

static tenon_status_t matmul_run(tenon_call_t *call) {
  const finish_t finish = core_matmul_finish_of(call->attrs);
  return multiply(call, call->attrs[0].as.i != 0, call->attrs[1].as.i != 0, &finish);
}

static tenon_status_t gemm_run(tenon_call_t *call) {
  const finish_t finish = core_gemm_finish_of(call->attrs);
  return multiply(call, call->attrs[2].as.i != 0, call->attrs[3].as.i != 0, &finish);
}

/* clang-format off */
TENON_ITEMS(core_source_product,
  TENON_EXTEND("core::matmul", TENON_SOURCE("f32 strided", matmul_run)),
  TENON_EXTEND("core::gemm", TENON_SOURCE("f32 strided", gemm_run)))
/* clang-format on */
#endif
