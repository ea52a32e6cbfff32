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

/* What ../fold_kernel.h, which defines the functions of a fold, takes as MAP and as OP. */
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

#endif
