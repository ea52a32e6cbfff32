/* Attention of a block of query rows whose scores nobody else reads, for one dtype.
 * simd/attention.c includes this for f32 and f64 with T (the element), NAME(x) and MADD defined.
 * A block goes through the keys in chunks, which are copied so that they are adjacent. For each
 * query it keeps the largest score so far, the sum of the exponentials and the sum of the weighted
 * values; the last two are scaled whenever the largest score grows. Scores of a chunk are kept with
 * the queries of a group beside each other, so that a softmax needs no sums across a vector.
 * Invariant: lanes of a vector never mix, and a block does not depend on others, so results do not
 * depend on the number of threads. */

typedef T NAME(vector) __attribute__((vector_size(VECTOR)));
typedef T NAME(loose) __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

enum {
  NAME(LANES) = VECTOR / sizeof(T),
  NAME(QUERIES) = 2 * NAME(LANES),     /* of a group */
  NAME(MOST) = STACK_MOST / sizeof(T), /* elements of queries, sums, keys and values */
};

typedef struct NAME(block) { /* What a task computes, and its memory. */
  int64_t b;
  int64_t h;
  int64_t first; /* query */
  int64_t rows;  /* queries */
  int64_t depth; /* elements of a query */
  int64_t width; /* elements of a value, rounded up to whole vectors */
  const T *mask; /* that of the first query; NULL: none */
  T *queries;    /* [group, depth, QUERIES] */
  T *keys;       /* [CHUNK, depth] */
  T *values;     /* [CHUNK, width] */
  T *sums;       /* [rows, width] */
  T scores[CHUNK * NAME(QUERIES)];
  T most[GROUPS * NAME(QUERIES)];
  T total[GROUPS * NAME(QUERIES)];
} NAME(block);

static int64_t NAME(width_of)(const attention_t *at) {
  return (at->v.shape[3] + NAME(LANES) - 1) / NAME(LANES) * NAME(LANES);
}

/* Whether a block has room on the stack, and enough rows. */
static int NAME(fits_block)(const attention_t *at) {
  int64_t elements = at->q.shape[3] + NAME(width_of)(at);
  int64_t rows = GROUPS * NAME(QUERIES) + CHUNK;
  return at->q.shape[2] >= NAME(QUERIES) / 4 && elements <= NAME(MOST) / rows;
}

/* c[i][v] = scale[i] * c[i][v] + the sum over `depth` terms of a[i] * b[v], for `rows` rows and
 * `vectors` vectors; scale NULL: without c. Rows of a are a_row elements apart, its terms
 * a_step. */
static inline __attribute__((always_inline)) void
NAME(multiply)(const int rows, const int vectors, int64_t depth, const T *a, int64_t a_row,
               int64_t a_step, const T *b, int64_t b_step, const T *scale, T *c, int64_t c_row) {
  NAME(vector) sums[KEYS][2];
  memset(sums, 0, sizeof sums);
  if (scale)
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        sums[i][v] = scale[i] * *(const NAME(loose) *)(c + i * c_row + v * NAME(LANES));
  for (int64_t e = 0; e < depth; e++, a += a_step, b += b_step) {
    NAME(vector) first = *(const NAME(loose) *)b;
    NAME(vector) last = *(const NAME(loose) *)(b + (vectors - 1) * NAME(LANES));
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      sums[i][0] = MADD(a[i * a_row], first, sums[i][0]);
      if (vectors == 2) sums[i][1] = MADD(a[i * a_row], last, sums[i][1]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
      *(NAME(loose) *)(c + i * c_row + v * NAME(LANES)) = sums[i][v];
}

/* Computes the scores of one group with `count` keys, and others up to a whole tile. */
static __attribute__((noinline)) void NAME(multiply_keys)(NAME(block) * block, int64_t count,
                                                          const T *queries) {
  const int64_t depth = block->depth;
  const int64_t step = NAME(QUERIES);
  for (int64_t i = 0; i < count; i += KEYS)
    NAME(multiply)
  (KEYS, 2, depth, block->keys + i * depth, depth, 1, queries, step, 0, block->scores + i * step,
   step);
}

/* Adds the weighted values of `count` keys to the scaled sums of the group's queries. */
static __attribute__((noinline)) void NAME(multiply_values)(NAME(block) * block, int64_t count,
                                                            const T *scale, T *sums) {
  const int64_t width = block->width;
  const int64_t step = NAME(QUERIES);
  for (int64_t column = 0; column < width; column += NAME(QUERIES))
    for (int64_t i = 0; i < NAME(QUERIES); i += ROWS) {
      const T *values = block->values + column;
      T *to = sums + i * width + column;
      if (width - column >= NAME(QUERIES)) NAME(multiply)
      (ROWS, 2, count, block->scores + i, 1, step, values, width, scale + i, to, width);
      else NAME(multiply)(ROWS, 1, count, block->scores + i, 1, step, values, width, scale + i, to,
                          width);
    }
}

/* Adds the mask to the scores of one query with `count` keys, or hides those for which it is false.
 * Scores of a query are QUERIES elements apart, values of the mask `step`. */
static void NAME(mask_query)(int is_bool, const T *mask, int64_t step, T *scores, int64_t count) {
  if (is_bool)
    for (int64_t i = 0; i < count; i++)
      scores[i * NAME(QUERIES)] = mask[i * step] != 0 ? scores[i * NAME(QUERIES)] : -(T)INFINITY;
  else
    for (int64_t i = 0; i < count; i++)
      scores[i * NAME(QUERIES)] += mask[i * step];
}

/* The same for the scores of a group with one key, where all queries have the same mask. */
static void NAME(mask_key)(int is_bool, T mask, T *scores) {
  int is_hidden = is_bool && mask == 0;
  T bias = is_bool ? 0 : mask;
#pragma GCC unroll 1
  for (int q = 0; q < NAME(QUERIES); q++)
    scores[q] = is_hidden ? -(T)INFINITY : scores[q] + bias;
}

/* Applies the mask to the scores of a group. `query` is its first one within the block. */
static void NAME(apply_mask)(const attention_t *at, NAME(block) * block, int64_t query,
                             int64_t rows, int64_t key, int64_t count) {
  const int64_t row = at->mask.strides[2];
  const int64_t step = at->mask.strides[3];
  const T *mask = block->mask + query * row + key * step;
  for (int64_t i = 0; row == 0 && i < count; i++)
    NAME(mask_key)(at->mask_is_bool, mask[i * step], block->scores + i * NAME(QUERIES));
  for (int64_t q = 0; row != 0 && q < rows; q++)
    NAME(mask_query)(at->mask_is_bool, mask + q * row, step, block->scores + q, count);
}

/* Applies softcap and masks to the scores of a group with the keys [key, key + count). */
static void NAME(change_scores)(const attention_t *at, NAME(block) * block, int64_t query,
                                int64_t rows, int64_t key, int64_t count) {
  const T cap = (T)at->softcap;
  T *scores = block->scores;
  if (cap > 0)
    for (int64_t i = 0; i < count * NAME(QUERIES); i++)
      scores[i] = cap * TANH(scores[i] / cap);
  if (block->mask) NAME(apply_mask)(at, block, query, rows, key, count);
  if (!at->causal) return;
  for (int64_t i = 0; i < count; i++) {
    int64_t hidden = key + i - at->past - block->first - query; /* queries that come before */
    for (int64_t q = 0; q < rows && q < hidden; q++)
      scores[i * NAME(QUERIES) + q] = -(T)INFINITY;
  }
}

/* Replaces the scores of a group by their exponentials, relative to the largest score of their
 * query so far. Writes to `scale` what the sums so far are scaled by. */
static __attribute__((noinline)) void NAME(exponentials)(T *restrict scores, int64_t count,
                                                         T *restrict most, T *restrict total,
                                                         T *restrict scale) {
  T least[NAME(QUERIES)]; /* that which is subtracted: the largest score, or 0 if all are hidden */
  T sum[NAME(QUERIES)];
  for (int q = 0; q < NAME(QUERIES); q++)
    scale[q] = most[q];
  for (int64_t key = 0; key < count; key++)
#pragma GCC unroll 1
    for (int q = 0; q < NAME(QUERIES); q++)
      most[q] = GREATEST(scores[key * NAME(QUERIES) + q], most[q]);
  for (int q = 0; q < NAME(QUERIES); q++) {
    least[q] = most[q] == -(T)INFINITY ? 0 : most[q];
    scale[q] = EXP_DOWN(scale[q] - least[q]);
    sum[q] = total[q] * scale[q];
  }
  for (int64_t key = 0; key < count; key++, scores += NAME(QUERIES))
#pragma GCC unroll 1
    for (int q = 0; q < NAME(QUERIES); q++) {
      scores[q] = EXP_DOWN(scores[q] - least[q]);
      sum[q] += scores[q];
    }
  for (int q = 0; q < NAME(QUERIES); q++)
    total[q] = sum[q];
}

/* Copies `count` rows of `x`, from `first` on, and fills them up to `width` elements. */
static void NAME(copy_rows)(const attention_t *at, const heads_t *x, int64_t b, int64_t h,
                            int64_t first, int64_t count, int64_t width, T *out) {
  const int64_t step = x->strides[3];
  const int64_t size = x->shape[3];
  for (int64_t i = 0; i < count; i++, out += width) {
    const T *from = (const T *)row_address(at, x, b, h, first + i);
    if (step == 1)
      memcpy(out, from, (size_t)size * sizeof(T));
    else
      for (int64_t e = 0; e < size; e++)
        out[e] = from[e * step];
    memset(out + size, 0, (size_t)(width - size) * sizeof(T));
  }
}

/* Copies the block's scaled queries; those that a group lacks are 0. */
static void NAME(copy_queries)(const attention_t *at, const NAME(block) * block) {
  const T scale = (T)at->scale;
  const T *from = (const T *)row_address(at, &at->q, block->b, block->h, block->first);
  const int64_t row = at->q.strides[2];
  for (int64_t query = 0; query < block->rows; query += NAME(QUERIES)) {
    T *out = block->queries + query * block->depth;
    int64_t rows =
        block->rows - query < NAME(QUERIES) ? block->rows - query : (int64_t)NAME(QUERIES);
    for (int64_t e = 0; e < block->depth; e++, out += NAME(QUERIES)) {
      const T *column = from + query * row + e * at->q.strides[3];
      for (int64_t q = 0; q < NAME(QUERIES); q++)
        out[q] = q < rows ? scale * column[q * row] : 0;
    }
  }
}

/* The number of keys that some query before `end` sees. */
static int64_t NAME(live_keys)(const attention_t *at, int64_t b, int64_t end) {
  int64_t live = at->k.shape[2];
  if (at->causal && at->past + end < live) live = at->past + end;
  if (at->nonpad && at->nonpad[b] < live) live = at->nonpad[b] < 0 ? 0 : at->nonpad[b];
  if (at->mask.data && at->mask_width < live) live = at->mask_width;
  return live;
}

/* Takes the keys [key, key + count) into the sums of all groups. */
static void NAME(chunk)(const attention_t *at, NAME(block) * block, int64_t key, int64_t count) {
  const int64_t kv = block->h / (at->q.shape[1] / at->k.shape[1]);
  NAME(copy_rows)(at, &at->k, block->b, kv, key, count, block->depth, block->keys);
  NAME(copy_rows)(at, &at->v, block->b, kv, key, count, block->width, block->values);
  for (int64_t query = 0; query < block->rows; query += NAME(QUERIES)) {
    T scale[NAME(QUERIES)];
    int64_t rows =
        block->rows - query < NAME(QUERIES) ? block->rows - query : (int64_t)NAME(QUERIES);
    NAME(multiply_keys)(block, count, block->queries + query * block->depth);
    NAME(change_scores)(at, block, query, rows, key, count);
    NAME(exponentials)(block->scores, count, block->most + query, block->total + query, scale);
    NAME(multiply_values)(block, count, scale, block->sums + query * block->width);
  }
}

/* Computes `rows` rows of head h of batch entry b, from `first` on. */
static void NAME(attend)(const attention_t *at, int64_t b, int64_t h, int64_t first, int64_t rows) {
  T memory[NAME(MOST)];
  NAME(block) block;
  const int64_t queries = GROUPS * NAME(QUERIES);
  const int64_t live = NAME(live_keys)(at, b, first + rows);
  block.b = b;
  block.h = h;
  block.first = first;
  block.rows = rows;
  block.depth = at->q.shape[3];
  block.width = NAME(width_of)(at);
  block.mask = at->mask.data ? (const T *)row_address(at, &at->mask, b, h, first) : 0;
  block.queries = memory;
  block.sums = block.queries + queries * block.depth;
  block.keys = block.sums + queries * block.width;
  block.values = block.keys + CHUNK * block.depth;
  for (int64_t i = 0; i < queries; i++) {
    block.most[i] = -(T)INFINITY;
    block.total[i] = 0;
  }
  memset(block.sums, 0, (size_t)(queries * block.width) * sizeof(T));
  NAME(copy_queries)(at, &block);
  for (int64_t key = 0; key < live; key += CHUNK)
    NAME(chunk)(at, &block, key, live - key < CHUNK ? live - key : CHUNK);
  for (int64_t i = 0; i < rows; i++) {
    T *out = (T *)row_address(at, &at->out, b, h, first + i);
    const T total = block.total[i];
    const T divisor =
        at->nan_is_zero && total == 0 ? 1 : total; /* the sums are 0, unless v is NaN */
    const int is_zero = at->nan_is_zero && total != total;
    for (int64_t e = 0; e < at->v.shape[3]; e++)
      out[e * at->out.strides[3]] = is_zero ? 0 : block.sums[i * block.width + e] / divisor;
  }
}
#undef T
#undef NAME
#undef MADD
