/* Products with packed integers of BITS bits (nbits.h), which simd/nbits.c includes once for each
 * number of bits, with BITS and NAME(x) defined.
 * Invariant: weights become floats in registers; nothing is written but results and panels. */

enum {
  NAME(HALF) = 16 / BITS, /* weights in half a word */
  NAME(MASK) = (1 << BITS) - 1,
};

/* Adds the products of one word of each column of a tile. An integer of up to 16 bits is exact in
 * f32, and a power of two that x is divided by only changes exponents. */
static inline __attribute__((always_inline)) void
NAME(add_word)(const uint32_t *words, const float *const *x, int rows,
               floats_t sums[NBITS_ROWS][VECTORS][NBITS_ROWS]) {
  const int parts = NBITS_ROWS / rows;
#pragma GCC unroll 4
  for (int v = 0; v < VECTORS; v++) {
    words_t word = *(const words_loose_t *)(words + v * LANES);
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++, word >>= 16)
#pragma GCC unroll 8
      for (int i = 0; i < NAME(HALF); i++) {
        const words_t code = word & (uint32_t)((uint32_t)NAME(MASK) << (BITS * i));
        const floats_t weight = __builtin_convertvector((signed_t)code, floats_t);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
          floats_t *sum = &sums[r][v][i % parts];
          *sum = MADD(x[r][half * NAME(HALF) + i], weight, *sum);
        }
      }
  }
}

static inline __attribute__((always_inline)) void NAME(rows)(const nbits_t *b, int64_t tile,
                                                             const nbits_rows_t *given, int64_t row,
                                                             int rows,
                                                             float (*out)[NBITS_COLUMNS]) {
  const int parts = NBITS_ROWS / rows;
  const int64_t words = nbits_words(b);
  const uint32_t *at = b->words + tile * b->blocks * words * NBITS_COLUMNS;
  const float *scales = b->scales + tile * b->blocks * NBITS_COLUMNS;
  const float *offsets = b->offsets + tile * b->blocks * NBITS_COLUMNS;
  floats_t totals[NBITS_ROWS][VECTORS];
  const float *x[NBITS_ROWS];
  memset(totals, 0, sizeof totals);
  for (int r = 0; r < rows; r++)
    x[r] = given->x + (row + r) * given->width;
  for (int64_t block = 0; block < b->blocks; block++) {
    floats_t sums[NBITS_ROWS][VECTORS][NBITS_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
      for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 4
        for (int part = 0; part < parts; part++)
          sums[r][v][part] = (floats_t){0};
    for (int64_t word = 0; word < words; word++, at += NBITS_COLUMNS) {
      NAME(add_word)(at, x, rows, sums);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++)
        x[r] += NBITS_WORD / BITS;
    }
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++, scales += LANES, offsets += LANES)
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int part = 1; part < parts; part++)
          sums[r][v][0] += sums[r][v][part];
        const float sum = given->sums[(row + r) * b->blocks + block];
        totals[r][v] += *(const floats_loose_t *)scales * sums[r][v][0];
        totals[r][v] = MADD(sum, *(const floats_loose_t *)offsets, totals[r][v]);
      }
  }
  memcpy(out, totals, (size_t)rows * sizeof *out);
}

static void NAME(tile)(const nbits_t *b, int64_t tile, const nbits_rows_t *given, int64_t row,
                       int64_t count, float (*out)[NBITS_COLUMNS]) {
  int64_t done = 0;
  if (count == NBITS_ROWS) {
    NAME(rows)(b, tile, given, row, NBITS_ROWS, out);
    return;
  }
  if (count >= 2) {
    NAME(rows)(b, tile, given, row, 2, out);
    done = 2;
  }
  if (done < count) NAME(rows)(b, tile, given, row + done, 1, out + done);
}

/* Writes the weights of one tile as floats. */
static void NAME(unpack)(const nbits_t *b, int64_t first, int64_t k, int64_t width, float *out) {
  enum { WEIGHTS = NBITS_WORD / BITS };
  const int64_t tile = first / NBITS_COLUMNS;
  const int64_t words = nbits_words(b);
  const uint32_t *at = b->words + tile * b->blocks * words * NBITS_COLUMNS;
  for (int64_t e = 0; e < k; e += WEIGHTS, at += NBITS_COLUMNS) {
    const int64_t block = tile * b->blocks + e / b->size;
    const int64_t some = k - e < WEIGHTS ? k - e : WEIGHTS;
#pragma GCC unroll 4
    for (int v = 0; v < NBITS_COLUMNS; v += LANES) {
      words_t codes = *(const words_loose_t *)(at + v);
      const floats_t scale = *(const floats_loose_t *)(b->scales + block * NBITS_COLUMNS + v);
      const floats_t offset = *(const floats_loose_t *)(b->offsets + block * NBITS_COLUMNS + v);
      float *to = out + e * width + v;
      for (int64_t i = 0; i < some; i++, codes >>= BITS, to += width) {
        const words_t code = codes & (uint32_t)NAME(MASK);
        *(floats_loose_t *)to = __builtin_convertvector((signed_t)code, floats_t) * scale + offset;
      }
    }
  }
}
#undef BITS
#undef NAME
