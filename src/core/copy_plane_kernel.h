/* Copies a plane whose rows are dense in the source and whose columns are dense in the target, by
 * square blocks in vector registers. Included by copy.c, which defines T (the element type), LANES
 * (elements in 16 bytes), LOW and HIGH (the elements of two vectors that their interleaved halves
 * consist of) and NAME(x). */

typedef T NAME(vector) __attribute__((vector_size(16)));

/* Copies LANES rows of as many columns. Each round interleaves vectors i and i + LANES / 2; after
 * log2(LANES) rounds the block is transposed. */
static inline void NAME(copy_block)(const char *from, int64_t from_stride, char *to,
                                    int64_t to_stride) {
  NAME(vector) block[LANES], mixed[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    memcpy(&block[i], from + i * from_stride, sizeof block[i]);
#pragma GCC unroll 4
  for (int round = 1; round < LANES; round *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
      mixed[2 * i] = __builtin_shufflevector(block[i], block[i + LANES / 2], LOW);
      mixed[2 * i + 1] = __builtin_shufflevector(block[i], block[i + LANES / 2], HIGH);
    }
    memcpy(block, mixed, sizeof block);
  }
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    memcpy(to + i * to_stride, &block[i], sizeof block[i]);
}

/* Copies one element at a time. */
static void NAME(copy_rest)(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                            int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      memcpy(to + i * to_stride + j * (int64_t)sizeof(T),
             from + j * from_stride + i * (int64_t)sizeof(T), sizeof(T));
}

/* from_stride: bytes between columns of the source. to_stride: bytes between rows of the target. */
static void NAME(copy_plane)(const char *from, int64_t from_stride, char *to, int64_t to_stride,
                             int64_t rows, int64_t columns) {
  enum { LINE = 64 / sizeof(T) }; /* rows that share a cache line of the source */
  int64_t whole_columns = columns - columns % LANES;
  for (int64_t r = 0; r < rows; r += LINE) {
    int64_t some = rows - r < LINE ? rows - r : LINE;
    int64_t whole = some - some % LANES;
    const char *source = from + r * (int64_t)sizeof(T);
    char *target = to + r * to_stride;
    for (int64_t c = 0; c < whole_columns; c += LANES)
      for (int64_t i = 0; i < whole; i += LANES)
        NAME(copy_block)
    (source + c * from_stride + i * (int64_t)sizeof(T), from_stride,
     target + i * to_stride + c * (int64_t)sizeof(T), to_stride);
    NAME(copy_rest)
    (source + whole * (int64_t)sizeof(T), from_stride, target + whole * to_stride, to_stride,
     some - whole, whole_columns);
    NAME(copy_rest)
    (source + whole_columns * from_stride, from_stride, target + whole_columns * (int64_t)sizeof(T),
     to_stride, some, columns - whole_columns);
  }
}

#undef T
#undef LANES
#undef LOW
#undef HIGH
#undef NAME
