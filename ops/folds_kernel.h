/* The folds of one class of numbers, as a table with an entry per FOLD_ constant of simd/fold.h.
 * simd/reduction.c includes this once per class with NAME(x), T (the type of the numbers), W and
 * MEMBER (the type of partial results and their member of word_t), ABSOLUTE and SQUARE (of a
 * number), ADD, MULTIPLY, LARGER and SMALLER (of two numbers), LOWEST and HIGHEST (the results of
 * max and min over no numbers) defined. */

#define FOLD_NAME(x) NAME(sum_##x)
#define MAP MAP_SELF
#define IDENTITY 0
#define OP ADD
#include "fold_kernel.h"

#define FOLD_NAME(x) NAME(abs_##x)
#define MAP ABSOLUTE
#define IDENTITY 0
#define OP ADD
#include "fold_kernel.h"

#define FOLD_NAME(x) NAME(square_##x)
#define MAP SQUARE
#define IDENTITY 0
#define OP ADD
#include "fold_kernel.h"

#define FOLD_NAME(x) NAME(prod_##x)
#define MAP MAP_SELF
#define IDENTITY 1
#define OP MULTIPLY
#include "fold_kernel.h"

#define FOLD_NAME(x) NAME(max_##x)
#define MAP MAP_SELF
#define IDENTITY LOWEST
#define OP LARGER
#include "fold_kernel.h"

#define FOLD_NAME(x) NAME(min_##x)
#define MAP MAP_SELF
#define IDENTITY HIGHEST
#define OP SMALLER
#include "fold_kernel.h"

/* clang-format off */
static const fold_t NAME(folds)[FOLDS] = {
  {NAME(sum_run), NAME(sum_rows), NAME(sum_start), NAME(sum_merge)},
  {NAME(abs_run), NAME(abs_rows), NAME(abs_start), NAME(abs_merge)},
  {NAME(square_run), NAME(square_rows), NAME(square_start), NAME(square_merge)},
  {NAME(prod_run), NAME(prod_rows), NAME(prod_start), NAME(prod_merge)},
  {NAME(max_run), NAME(max_rows), NAME(max_start), NAME(max_merge)},
  {NAME(min_run), NAME(min_rows), NAME(min_start), NAME(min_merge)},
};
/* clang-format on */

#undef T
#undef NAME
#undef W
#undef MEMBER
#undef ABSOLUTE
#undef SQUARE
#undef ADD
#undef MULTIPLY
#undef LARGER
#undef SMALLER
#undef LOWEST
#undef HIGHEST
