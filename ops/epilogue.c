/* The epilogue of matrix products. It works row by row in a small buffer, so that one loop serves
 * all strides of c. Called for tiles on several threads.
 * Invariant: each activation has one formula, in FINISH_ACTIVATIONS. */
#include "epilogue.h"
#include "simd/math.h"

enum { SPAN = 256 };

#define HAS_ACTIVATIONS
#define WHOLE(x) (x)
#define T float
#define SIGNED float
#define NAME(x) x##_f32
#include "epilogue_kernel.h"

#define T double
#define SIGNED double
#define NAME(x) x##_f64
#include "epilogue_kernel.h"
#undef WHOLE
#undef HAS_ACTIVATIONS

/* Integers are added as unsigned numbers, which wrap; a fractional scale is applied in double. */
#define WHOLE(x) tn_int64(x)
#define T uint32_t
#define SIGNED int32_t
#define NAME(x) x##_i32
#include "epilogue_kernel.h"

#define T uint64_t
#define SIGNED int64_t
#define NAME(x) x##_i64
#include "epilogue_kernel.h"
#undef WHOLE

static void swap_strides(int64_t *row, int64_t *column) {
  const int64_t before = *row;
  *row = *column;
  *column = before;
}

/* Columns of few rows become rows of few columns. */
static finish_t turn_finish(const finish_t *f) {
  finish_t turned = *f;
  swap_strides(&turned.row, &turned.column);
  swap_strides(&turned.bias.row, &turned.bias.column);
  swap_strides(&turned.residual.row, &turned.residual.column);
  return turned;
}

void core_finish(const finish_t *f, int64_t i, int64_t i_end, int64_t j, int64_t j_end) {
  enum { FEW = 4 };
  finish_t turned;
  if (j_end - j <= FEW && j_end - j < i_end - i) {
    const int64_t columns = j_end;
    turned = turn_finish(f);
    f = &turned;
    j_end = i_end;
    i_end = columns;
    swap_strides(&i, &j);
  }
  int is_float = f->dtype.code == (TENON_F32 & 0xff);
  int wide = f->dtype.bits == 64;
  static void (*const spans[2][2])(const finish_t *, int64_t, int64_t,
                                   int64_t) = {{finish_i32, finish_i64}, {finish_f32, finish_f64}};
  void (*span)(const finish_t *, int64_t, int64_t, int64_t) = spans[is_float][wide];
  for (; i < i_end; i++)
    for (int64_t at = j; at < j_end; at += SPAN)
      span(f, i, at, j_end - at < SPAN ? j_end - at : SPAN);
}
