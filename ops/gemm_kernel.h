/* The matrix product for one dtype. simd/product.c includes this once per dtype with T (the
 * element), NAME(x), MADD (number times vector plus vector), TIMES (number times number) and
 * TIMES_VECTOR (vector times vector) defined. Blocks of b (DEPTH x COLUMNS) and of a (ROWS x DEPTH)
 * are packed into panels, and the micro-kernel keeps a tile of MR x NR sums in registers.
 * Invariant: lanes of a vector never mix, so every sum runs in order of k. */

typedef T NAME(vector) __attribute__((vector_size(VECTOR)));
typedef T NAME(loose) __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

enum {
  NAME(LANES) = VECTOR / sizeof(T),
  NAME(NR) = 2 * NAME(LANES),
  NAME(COLUMNS) = 1024 / sizeof(T), /* a whole number of panels */
};

static void NAME(pack)(const operand_t *o, int64_t first, int64_t count, int64_t k, int64_t depth,
                       int64_t width, T *restrict out) {
  if (count < width) memset(out, 0, (size_t)(depth * width) * sizeof(T));
  if (o->pack) {
    o->pack(o, o->first + first, count, k, depth, width, out);
    return;
  }
  const T *from = (const T *)o->data + first * o->vector + k * o->element;
  if (o->vector == 1) {
    for (int64_t e = 0; e < depth; e++)
      memcpy(out + e * width, from + e * o->element, (size_t)count * sizeof(T));
    return;
  }
  for (int64_t v = 0; v < count; v++)
    for (int64_t e = 0; e < depth; e++)
      out[e * width + v] = from[v * o->vector + e * o->element];
}

static void NAME(micro)(int64_t depth, const T *restrict a, const T *restrict b, T *restrict c,
                        int64_t row, int64_t column, int64_t rows, int64_t columns,
                        int accumulate) {
  NAME(vector) sum[MR][2];
  memset(sum, 0, sizeof sum);
  for (int64_t e = 0; e < depth; e++, a += MR, b += NAME(NR)) {
    NAME(vector) b0 = *(const NAME(loose) *)b;
    NAME(vector) b1 = *(const NAME(loose) *)(b + NAME(LANES));
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) {
      sum[i][0] = MADD(a[i], b0, sum[i][0]);
      sum[i][1] = MADD(a[i], b1, sum[i][1]);
    }
  }
  if (rows == MR && columns == NAME(NR) && column == 1) {
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 2
      for (int h = 0; h < 2; h++) {
        NAME(loose) *to = (NAME(loose) *)(c + i * row + h * NAME(LANES));
        if (accumulate) sum[i][h] += *to;
        *to = sum[i][h];
      }
    return;
  }
  T all[MR * NAME(NR)];
  memcpy(all, sum, sizeof all);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) {
      T *to = c + i * row + j * column;
      *to = accumulate ? (T)(*to + all[i * NAME(NR) + j]) : all[i * NAME(NR) + j];
    }
}

/* One or two rows, for which packing b would cost more than it saves. */
static int NAME(thin)(const product_t *p) {
  if (p->m > 2 || p->a.pack || p->b.pack || p->column != 1) return 0;
  const T *a = (const T *)p->a.data;
  const T *b = (const T *)p->b.data;
  if (p->b.vector == 1) {
    for (int64_t i = 0; i < p->m; i++, a += p->a.vector) {
      T *restrict c = (T *)p->c + i * p->row;
      int64_t e = 0;
      int64_t s = p->a.element;
      int64_t r = p->b.element;
      if (!p->accumulate) memset(c, 0, (size_t)p->n * sizeof(T));
      for (; e + 4 <= p->k; e += 4) {
        const T a0 = a[e * s];
        const T a1 = a[(e + 1) * s];
        const T a2 = a[(e + 2) * s];
        const T a3 = a[(e + 3) * s];
        const T *b0 = b + e * r;
        const T *b1 = b0 + r;
        const T *b2 = b1 + r;
        const T *b3 = b2 + r;
        for (int64_t j = 0; j < p->n; j++)
          c[j] =
              (T)(c[j] + TIMES(a0, b0[j]) + TIMES(a1, b1[j]) + TIMES(a2, b2[j]) + TIMES(a3, b3[j]));
      }
      for (; e < p->k; e++)
        for (int64_t j = 0; j < p->n; j++)
          c[j] = (T)(c[j] + TIMES(a[e * s], b[e * r + j]));
    }
    return 1;
  }
  if (p->b.element != 1 || p->a.element != 1) return 0;
  for (int64_t i = 0; i < p->m; i++, a += p->a.vector)
    for (int64_t j = 0; j < p->n; j++) {
      const T *column = b + j * p->b.vector;
      NAME(vector) part[2];
      T lanes[NAME(LANES)], sum = p->accumulate ? ((T *)p->c)[i * p->row + j] : 0;
      int64_t e = 0;
      memset(part, 0, sizeof part);
      for (; e + NAME(NR) <= p->k; e += NAME(NR))
        for (int h = 0; h < 2; h++)
          part[h] += TIMES_VECTOR(*(const NAME(loose) *)(a + e + h * NAME(LANES)),
                                  *(const NAME(loose) *)(column + e + h * NAME(LANES)));
      for (; e + NAME(LANES) <= p->k; e += NAME(LANES))
        part[0] += TIMES_VECTOR(*(const NAME(loose) *)(a + e), *(const NAME(loose) *)(column + e));
      for (; e < p->k; e++)
        sum = (T)(sum + TIMES(a[e], column[e]));
      part[0] += part[1];
      memcpy(lanes, part, sizeof lanes);
      for (int half = NAME(LANES) / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
          lanes[l] = (T)(lanes[l] + lanes[l + half]);
      sum = (T)(sum + lanes[0]);
      ((T *)p->c)[i * p->row + j] = sum;
    }
  return 1;
}

/* Rows [i, i + rows) and `halves` vectors of columns from j on, of matrices as they lie. */
static inline __attribute__((always_inline)) void NAME(tile)(const product_t *p, int64_t i,
                                                             int64_t rows, int64_t j, int halves) {
  NAME(vector) sum[MR][2];
  const T *a[MR];
  const T *b = (const T *)p->b.data + j;
  const int64_t step = p->a.element;
  memset(sum, 0, sizeof sum);
  for (int64_t r = 0; r < MR; r++) /* rows behind the last one are computed as the last one */
    a[r] = (const T *)p->a.data + (i + (r < rows ? r : rows - 1)) * p->a.vector;
  for (int64_t e = 0; e < p->k; e++, b += p->b.element)
#pragma GCC unroll 8
    for (int r = 0; r < MR; r++)
#pragma GCC unroll 2
      for (int h = 0; h < halves; h++)
        sum[r][h] = MADD(a[r][e * step], *(const NAME(loose) *)(b + h * NAME(LANES)), sum[r][h]);
  for (int64_t r = 0; r < rows; r++)
    for (int h = 0; h < halves; h++) {
      NAME(loose) *to = (NAME(loose) *)((T *)p->c + (i + r) * p->row + j + h * NAME(LANES));
      if (p->accumulate) sum[r][h] += *to;
      *to = sum[r][h];
    }
}

/* A small product whose columns are whole vectors: packing takes longer than multiplying. */
static int NAME(small)(const product_t *p) {
  enum { MOST = 1 << 14 }; /* products */
  if (p->a.pack || p->b.pack || p->b.vector != 1 || p->column != 1 || p->n % NAME(LANES)) return 0;
  if (p->k == 0 || p->k > DEPTH || p->n > MOST / p->k || p->m > MOST / (p->n * p->k)) return 0;
  for (int64_t i = 0; i < p->m; i += MR) {
    const int64_t rows = p->m - i < MR ? p->m - i : MR;
    int64_t j = 0;
    for (; j + NAME(NR) <= p->n; j += NAME(NR))
      NAME(tile)(p, i, rows, j, 2);
    if (j < p->n) NAME(tile)(p, i, rows, j, 1);
  }
  return 1;
}

static void NAME(blocks)(const product_t *p) {
  _Alignas(64) T a[ROWS * DEPTH], b[NAME(COLUMNS) * DEPTH];
  for (int64_t j0 = 0; j0 < p->n; j0 += NAME(COLUMNS))
    for (int64_t k0 = 0; k0 < p->k || k0 == 0; k0 += DEPTH) {
      int64_t depth = p->k - k0 < DEPTH ? p->k - k0 : DEPTH;
      int64_t j1 = p->n - j0 < NAME(COLUMNS) ? p->n : j0 + NAME(COLUMNS);
      int accumulate = p->accumulate || k0 > 0;
      for (int64_t j = j0; j < j1; j += NAME(NR))
        NAME(pack)
      (&p->b, j, j1 - j < NAME(NR) ? j1 - j : NAME(NR), k0, depth, NAME(NR), b + (j - j0) * depth);
      for (int64_t i0 = 0; i0 < p->m; i0 += ROWS) {
        int64_t i1 = p->m - i0 < ROWS ? p->m : i0 + ROWS;
        for (int64_t i = i0; i < i1; i += MR)
          NAME(pack)(&p->a, i, i1 - i < MR ? i1 - i : MR, k0, depth, MR, a + (i - i0) * depth);
        for (int64_t j = j0; j < j1; j += NAME(NR))
          for (int64_t i = i0; i < i1; i += MR) {
            int64_t rows = i1 - i < MR ? i1 - i : MR;
            int64_t columns = j1 - j < NAME(NR) ? j1 - j : NAME(NR);
            T *c = (T *)p->c + i * p->row + j * p->column;
            NAME(micro)
            (depth, a + (i - i0) * depth, b + (j - j0) * depth, c, p->row, p->column, rows, columns,
             accumulate);
          }
      }
    }
}

/* A product of few columns is computed as the transposed one of few rows: the rows of a tile are
 * fewer than its columns. Each sum is the same. */
static void NAME(gemm)(const product_t *p) {
  if (NAME(thin)(p) || NAME(small)(p)) return;
  product_t turned = *p;
  if (p->n <= MR && p->n < p->m) {
    turned.m = p->n;
    turned.n = p->m;
    turned.a = p->b;
    turned.b = p->a;
    turned.row = p->column;
    turned.column = p->row;
  }
  NAME(blocks)(&turned);
}
#undef T
#undef NAME
#undef MADD
#undef TIMES
#undef TIMES_VECTOR
