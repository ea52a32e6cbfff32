/* Folds combine a run of numbers into one number, or rows of numbers into one row, with loops that
 * compilers vectorise. A fold is defined for four classes of numbers: f32, f64, i64 and u64; other
 * dtypes are loaded as one of them. A run is combined in 32 lanes in a fixed order, and runs are
 * combined in 64 bits. So sums of f32 stay accurate as long as runs are short, and results are the
 * same with every instruction set.
 * Invariant: no fold reads past its run, and an empty run gives the identity. */
#ifndef TENON_OPS_FOLD_H
#define TENON_OPS_FOLD_H

#include <math.h>
#include <stdint.h>

enum { LANES = 32, FOLD_ROW = 512, /* the widest row */ };

enum {
  FOLD_SUM,
  FOLD_ABS,
  FOLD_SQUARE,
  FOLD_PROD,
  FOLD_MAX,
  FOLD_MIN,
  FOLDS,
};

typedef union word_t { /* 64 bits that hold a partial result */
  double f;
  int64_t i;
  uint64_t u;
} word_t;

typedef struct fold_t {
  /* Combines *acc with n numbers. */
  void (*run)(word_t *acc, const void *x, int64_t n);
  /* Combines acc[i], i < width <= FOLD_ROW, with number i of each row; rows are `stride` numbers
   * apart. */
  void (*rows)(word_t *acc, const void *x, int64_t rows, int64_t stride, int64_t width);
  void (*start)(word_t *acc, int64_t n);
  void (*merge)(word_t *acc, const word_t *more, int64_t n);
} fold_t;

/* T is the type of the numbers, W that of partial results, member the one in word_t. */
#define FOLD(name, T, W, member, MAP, IDENTITY, OP)                                                \
  FOLD_RUN(name, T, W, member, MAP, IDENTITY, OP)                                                  \
  FOLD_ROWS(name, T, W, member, MAP, IDENTITY, OP)                                                 \
  FOLD_WORDS(name, T, W, member, MAP, IDENTITY, OP)
#define FOLD_WORDS(name, T, W, member, MAP, IDENTITY, OP)                                          \
  static void name##_start(word_t *acc, int64_t n) {                                               \
    for (int64_t i = 0; i < n; i++)                                                                \
      acc[i].member = (W)(IDENTITY);                                                               \
  }                                                                                                \
  static void name##_merge(word_t *acc, const word_t *more, int64_t n) {                           \
    for (int64_t i = 0; i < n; i++) {                                                              \
      W a = acc[i].member;                                                                         \
      W b = more[i].member;                                                                        \
      acc[i].member = (W)(OP(a, b));                                                               \
    }                                                                                              \
  }
#define FOLD_RUN(name, T, W, member, MAP, IDENTITY, OP)                                            \
  static void name##_run(word_t *acc, const void *data, int64_t n) {                               \
    const T *restrict x = (const T *)data;                                                         \
    T s[LANES];                                                                                    \
    int64_t i = 0;                                                                                 \
    int used = n < LANES ? 1 : LANES;                                                              \
    for (int l = 0; l < used; l++)                                                                 \
      s[l] = (T)(IDENTITY);                                                                        \
    for (; i + LANES <= n; i += LANES) {                                                           \
      for (int l = 0; l < LANES; l++) {                                                            \
        T b = MAP(x[i + l]);                                                                       \
        s[l] = (T)(OP(s[l], b));                                                                   \
      }                                                                                            \
    }                                                                                              \
    for (int l = 0; i + l < n; l++) {                                                              \
      T b = MAP(x[i + l]);                                                                         \
      T *to = &s[used > 1 ? l : 0];                                                                \
      *to = (T)(OP(*to, b));                                                                       \
    }                                                                                              \
    for (int w = used / 2; w; w /= 2)                                                              \
      for (int l = 0; l < w; l++)                                                                  \
        s[l] = (T)(OP(s[l], s[l + w]));                                                            \
    acc->member = (W)(OP(acc->member, (W)s[0]));                                                   \
  }
#define FOLD_ROWS(name, T, W, member, MAP, IDENTITY, OP)                                           \
  static void name##_rows(word_t *acc, const void *data, int64_t rows, int64_t stride,             \
                          int64_t width) {                                                         \
    const T *restrict x = (const T *)data;                                                         \
    T s[FOLD_ROW];                                                                                 \
    /* Several short adjacent rows are combined at once. */                                        \
    int64_t by = stride == width && width <= 32 && width > 0 ? 64 / width : 1;                     \
    int64_t wide = by * width;                                                                     \
    int64_t r = 0;                                                                                 \
    for (int64_t i = 0; i < wide; i++)                                                             \
      s[i] = (T)(IDENTITY);                                                                        \
    for (int64_t step = by; r < rows; r += step) {                                                 \
      if (r + step > rows) {                                                                       \
        step = 1;                                                                                  \
        wide = width;                                                                              \
      }                                                                                            \
      const T *restrict row = x + r * stride;                                                      \
      for (int64_t i = 0; i < wide; i++) {                                                         \
        T b = MAP(row[i]);                                                                         \
        s[i] = (T)(OP(s[i], b));                                                                   \
      }                                                                                            \
    }                                                                                              \
    for (int64_t k = 0; k < by; k++) {                                                             \
      for (int64_t i = 0; i < width; i++) {                                                        \
        W b = (W)s[k * width + i];                                                                 \
        acc[i].member = (W)(OP(acc[i].member, b));                                                 \
      }                                                                                            \
    }                                                                                              \
  }
#define FOLD_OF(name)                                                                              \
  { name##_run, name##_rows, name##_start, name##_merge }

#define MAP_SELF(x) (x)
#define MAP_SQUARE(x) ((x) * (x))
#define MAP_ABS_I64(x) (int64_t)((x) < 0 ? 0 - (uint64_t)(x) : (uint64_t)(x))
#define MAP_SQUARE_I64(x) (int64_t)((uint64_t)(x) * (uint64_t)(x))

#define OP_ADD(a, b) ((a) + (b))
#define OP_MUL(a, b) ((a) * (b))
#define OP_ADD_I64(a, b) ((uint64_t)(a) + (uint64_t)(b)) /* wraps */
#define OP_MUL_I64(a, b) ((uint64_t)(a) * (uint64_t)(b))
#define OP_MAX(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a)) /* NaN wins */
#define OP_MIN(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))
#define OP_MAX_INT(a, b) ((b) > (a) ? (b) : (a))
#define OP_MIN_INT(a, b) ((b) < (a) ? (b) : (a))

#define FOLDS_OF(name)                                                                             \
  static const fold_t name##_folds[FOLDS] = {FOLD_OF(name##_sum),    FOLD_OF(name##_abs),          \
                                             FOLD_OF(name##_square), FOLD_OF(name##_prod),         \
                                             FOLD_OF(name##_max),    FOLD_OF(name##_min)};

#define FOLD_FLOATS(name, T, ABS)                                                                  \
  FOLD(name##_sum, T, double, f, MAP_SELF, 0, OP_ADD)                                              \
  FOLD(name##_abs, T, double, f, ABS, 0, OP_ADD)                                                   \
  FOLD(name##_square, T, double, f, MAP_SQUARE, 0, OP_ADD)                                         \
  FOLD(name##_prod, T, double, f, MAP_SELF, 1, OP_MUL)                                             \
  FOLD(name##_max, T, double, f, MAP_SELF, -HUGE_VAL, OP_MAX)                                      \
  FOLD(name##_min, T, double, f, MAP_SELF, HUGE_VAL, OP_MIN)                                       \
  FOLDS_OF(name)

#define FOLD_INTS(name, T, member, ABS, SQUARE, LEAST, MOST)                                       \
  FOLD(name##_sum, T, T, member, MAP_SELF, 0, OP_ADD_I64)                                          \
  FOLD(name##_abs, T, T, member, ABS, 0, OP_ADD_I64)                                               \
  FOLD(name##_square, T, T, member, SQUARE, 0, OP_ADD_I64)                                         \
  FOLD(name##_prod, T, T, member, MAP_SELF, 1, OP_MUL_I64)                                         \
  FOLD(name##_max, T, T, member, MAP_SELF, LEAST, OP_MAX_INT)                                      \
  FOLD(name##_min, T, T, member, MAP_SELF, MOST, OP_MIN_INT)                                       \
  FOLDS_OF(name)

#endif
