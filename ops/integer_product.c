/* Products of rows of pairs with panels of columns, on all threads; see integer.h. Called by the
 * products and convolutions of 8-bit numbers.
 * Invariant: one thread computes a tile from start to finish. */
#include "capability.h"
#include "integer.h"

enum {
  ROWS = 96, /* a multiple of the rows of every kernel */
  COLUMNS = PRODUCT_COLUMNS,
  PANELS_SIZE =
      1 << 16, /* pairs or quads of the panels of a tile, which stay in the second-level cache */
  TILES = 8,
  WORK = 1 << 17,
};

const integer_tiles_t *core_integer_tiles_of_isa(void) {
#if defined(__x86_64__) || defined(_M_X64)
  static const integer_tiles_t *const all[] = {&core_integer_tiles, &core_integer_tiles_avx2,
                                               &core_integer_tiles_avx512};
  return core_has_vnni() ? &core_integer_tiles_avx512vnni : all[core_capability()];
#else
  return &core_integer_tiles;
#endif
}

typedef struct tiling_t {
  const integer_product_t *product;
  const integer_tiles_t *kernels;
  int64_t columns; /* of a tile */
  int64_t column_tiles;
} tiling_t;

/* Multiplies the rows of a tile with one panel, of which `columns` columns are wanted. */
static void multiply_one(const tiling_t *t, int64_t row, int64_t rows, int64_t column,
                         int64_t columns, int32_t *sums) {
  const integer_product_t *p = t->product;
  const integer_tiles_t *kernels = t->kernels;
  if (p->left_steps)
    kernels->multiply_rows(&p->left_steps[row / kernels->rows],
                           p->right + column * (p->offsets ? 1 : p->depth), p->offsets, rows,
                           columns, sums, COLUMNS);
  else if (p->right_steps)
    kernels->multiply_columns(&p->right_steps[column / kernels->columns],
                              (const uint8_t *)p->left + row * p->left_row, p->left_row, rows, sums,
                              COLUMNS);
  else
    kernels->multiply(p->depth, (const uint32_t *)p->left + row * p->left_row, p->left_row, rows,
                      p->right + column * p->depth, sums, COLUMNS);
}

static void tile_run(const tiling_t *t, int64_t row, int64_t row_end, int64_t column,
                     int64_t column_end) {
  const integer_product_t *p = t->product;
  const int64_t each = t->kernels->columns;
  _Alignas(64) int32_t sums[TILE_ROWS_MOST * COLUMNS];
  for (int64_t i = row; i < row_end; i += t->kernels->rows) {
    int64_t rows = row_end - i < t->kernels->rows ? row_end - i : t->kernels->rows;
    for (int64_t j = column; j < column_end; j += each)
      multiply_one(t, i, rows, j, column_end - j, sums + (j - column));
    for (int64_t r = 0; r < rows; r++)
      p->finish(p->context, i + r, column, column_end - column, sums + r * COLUMNS);
  }
}

static tenon_status_t tiles_multiply(tenon_call_t *call, void *argument, int64_t begin,
                                     int64_t end) {
  const tiling_t *t = (const tiling_t *)argument;
  const integer_product_t *p = t->product;
  (void)call;
  for (int64_t tile = begin; tile < end; tile++) {
    int64_t row = tile / t->column_tiles * ROWS;
    int64_t column = tile % t->column_tiles * t->columns;
    int64_t row_end = p->rows - row < ROWS ? p->rows : row + ROWS;
    int64_t column_end = p->columns - column < t->columns ? p->columns : column + t->columns;
    tile_run(t, row, row_end, column, column_end);
  }
  return TENON_OK;
}

tenon_status_t core_integer_product(tenon_call_t *call, const integer_product_t *product) {
  tiling_t t = {.product = product, .kernels = core_integer_tiles_of_isa()};
  if (product->rows <= 0 || product->columns <= 0) return TENON_OK;
  const int64_t each = t.kernels->columns;
  const int64_t row_tiles = (product->rows - 1) / ROWS + 1;
  t.columns = PANELS_SIZE / (product->depth + 1) / each * each;
  if (t.columns > COLUMNS) t.columns = COLUMNS;
  const int64_t wanted = (TILES - 1) / row_tiles + 1; /* tiles beside each other, for threads */
  const int64_t most = ((product->columns - 1) / wanted / each + 1) * each;
  if (t.columns > most) t.columns = most;
  if (t.columns < each) t.columns = each;
  t.column_tiles = (product->columns - 1) / t.columns + 1;
  const int64_t rows = product->rows < ROWS ? product->rows : ROWS;
  const int64_t work = rows * t.columns * (product->depth + 1);
  return call->host->parallel(call, row_tiles * t.column_tiles, work < WORK ? WORK / work : 1,
                              tiles_multiply, &t);
}
