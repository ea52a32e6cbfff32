/* Matrix products by the kernels of simd/product.c, distributed over threads by tiles of c. Called
 * by the plain kernels of matmul, conv, attention, the recurrent operators and einsum.
 * Invariant: one thread computes a tile from start to finish, so results do not depend on the
 * number of threads. */
#include "gemm.h"
#include "capability.h"

static const gemms_t *gemms_of_isa(void) {
#if defined(__x86_64__) || defined(_M_X64)
  static const gemms_t *const all[] = {&core_gemms, &core_gemms_avx2, &core_gemms_avx512};
  return all[core_capability()];
#else
  return &core_gemms;
#endif
}

tenon_dtype_t core_gemm_dtype(tenon_dtype_t dtype) {
  int is_float = dtype.code == (TENON_F32 & 0xff) || dtype.code == (TENON_BF16 & 0xff);
  if (is_float) return tenon_dtype(dtype.bits == 64 ? TENON_F64 : TENON_F32);
  return dtype.bits >= 32 ? dtype : tenon_dtype(TENON_I32);
}

void core_gemm(tenon_dtype_t dtype, const product_t *product) {
  product_t p = *product;
  if (p.m == 0 || p.n == 0) return;
  if (p.row == 1 &&
      (p.column != 1 ||
       (p.n <= 2 && p.m > 2))) { /* the transposed product has the better inner loop */
    operand_t a = p.a;
    p.a = p.b;
    p.b = a;
    p.m = product->n;
    p.n = product->m;
    p.row = product->column;
    p.column = product->row;
  }
  const gemms_t *all = gemms_of_isa();
  switch (tenon_dtype_id(dtype)) {
  case TENON_F32:
    all->f32(&p);
    break;
  case TENON_F64:
    all->f64(&p);
    break;
  case TENON_I32:
  case TENON_U32:
    (p.pairs ? all->pairs : all->u32)(&p);
    break;
  default:
    all->u64(&p);
    break;
  }
}

#ifdef TENON_ONEDNN
int dnn_sgemm(const product_t *product); /* in dnn/gemm.c; returns 0 if it declines */
#else
static int dnn_sgemm(const product_t *product) {
  (void)product;
  return 0;
}
#endif

void core_gemm_fast(tenon_dtype_t dtype, const product_t *product) {
  if (tenon_dtype_id(dtype) != TENON_F32 || !dnn_sgemm(product)) core_gemm(dtype, product);
}

/* tiles */

typedef struct tiling_t {
  const products_t *all;
  int64_t rows;
  int64_t columns; /* of a tile */
  int64_t row_tiles;
  int64_t column_tiles; /* of a product */
  int64_t adjacent;     /* most tiles beside each other that are computed as one */
} tiling_t;

/* Counts the tiles from `tile` to `end` that can be computed as one. */
static int64_t tiles_joined(const tiling_t *t, int64_t tile, int64_t end) {
  int64_t count = t->column_tiles - tile % t->column_tiles;
  if (count > end - tile) count = end - tile;
  return count < t->adjacent ? count : t->adjacent;
}

static tenon_status_t tiles_run(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const tiling_t *t = (const tiling_t *)argument;
  const products_t *all = t->all;
  int64_t size = all->dtype.bits / 8;
  (void)call;
  for (int64_t tile = begin, joined = 1; tile < end; tile += joined) {
    joined = tiles_joined(t, tile, end);
    int64_t index = tile / (t->row_tiles * t->column_tiles);
    int64_t at = tile % (t->row_tiles * t->column_tiles);
    int64_t i = at / t->column_tiles * t->rows;
    int64_t j = at % t->column_tiles * t->columns;
    product_t p = all->product;
    int64_t i_end = p.m - i < t->rows ? p.m : i + t->rows;
    int64_t j_end = p.n - j < joined * t->columns ? p.n : j + joined * t->columns;
    all->place(all->context, index, &p);
    operand_t *sides[2] = {&p.a, &p.b};
    int64_t first[2] = {i, j};
    for (int s = 0; s < 2; s++) {
      if (sides[s]->pack)
        sides[s]->first += first[s];
      else
        sides[s]->data = (const char *)sides[s]->data + first[s] * sides[s]->vector * size;
    }
    p.c = (char *)p.c + (i * p.row + j * p.column) * size;
    p.m = i_end - i;
    p.n = j_end - j;
    (all->fast ? core_gemm_fast : core_gemm)(all->dtype, &p);
    if (all->finish) all->finish(all->context, index, i, i_end, j, j_end);
  }
  return TENON_OK;
}

/* Chooses tiles for one or two rows, whose time is that of reading b: wide ones, so that runs of b
 * are long enough to be read at full speed. Returns the tiles of a part, at least. */
static int64_t tile_thin(tiling_t *t) {
  enum { COLUMNS = 256, WIDE = 4, PARTS = 4 };
  const product_t *p = &t->all->product;
  t->columns = p->n < COLUMNS ? p->n : COLUMNS;
  t->column_tiles = (p->n - 1) / t->columns + 1;
  t->adjacent = WIDE;
  const int64_t grain = t->column_tiles / PARTS;
  return grain < WIDE ? grain : WIDE;
}

tenon_status_t core_products(tenon_call_t *call, const products_t *products) {
  enum {
    TILES = 8,
    ROWS = GEMM_ROWS,
    COLUMNS = 256,
    NARROW = 64,
    WORK = 1 << 17,
    THIN = 2,
  };
  const product_t *p = &products->product;
  int64_t least = 1; /* tiles of a part */
  if (p->m <= 0 || p->n <= 0 || products->count <= 0) return TENON_OK;
  tiling_t t = {.all = products, .adjacent = 1};
  t.rows = p->m < ROWS ? p->m : ROWS;
  t.columns = p->n < COLUMNS ? p->n : COLUMNS;
  t.row_tiles = (p->m - 1) / t.rows + 1;
  t.column_tiles = (p->n - 1) / t.columns + 1;
  if (p->m <= THIN) {
    least = tile_thin(&t);
  } else if (t.row_tiles * products->count * t.column_tiles < TILES &&
             t.columns > NARROW) { /* enough tiles for a few threads */
    int64_t wanted = (TILES - 1) / (t.row_tiles * products->count) + 1;
    int64_t most = (p->n - 1) / NARROW + 1;
    t.columns = (p->n - 1) / (wanted < most ? wanted : most) + 1;
    t.columns = (t.columns + NARROW - 1) / NARROW * NARROW;
    t.column_tiles = (p->n - 1) / t.columns + 1;
  }
  int64_t work = t.rows * t.columns * (p->k + 1);
  int64_t grain = work < WORK ? WORK / work : 1;
  return call->host->parallel(call, products->count * t.row_tiles * t.column_tiles,
                              grain > least ? grain : least, tiles_run, &t);
}
