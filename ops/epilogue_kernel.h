/* The epilogue for one dtype. epilogue.c includes this once per dtype with T (the element), SIGNED
 * (the type in which the value of an element is read) and NAME(x) defined. Several dtypes share
 * WHOLE(x), which converts a scaled value before it becomes a T, and HAS_ACTIVATIONS, which is
 * defined for dtypes that have activations. */

#ifdef HAS_ACTIVATIONS
#include "activation_kernel.h"
#endif

/* Finishes `count` elements of row i, at most SPAN, from column j on. */
static void NAME(finish)(const finish_t *f, int64_t i, int64_t j, int64_t count) {
  const T *bias = (const T *)f->bias.data;
  const T *more = (const T *)f->residual.data;
  T row[SPAN];
  T *c = (T *)f->c + i * f->row + j * f->column;
  for (int64_t e = 0; e < count; e++)
    row[e] = c[e * f->column];
  if (f->scale != 1)
    for (int64_t e = 0; e < count; e++)
      row[e] = (T)WHOLE(f->scale * (double)(SIGNED)row[e]);
  if (bias) {
    bias += i * f->bias.row + j * f->bias.column;
    if (f->bias_scale == 1)
      for (int64_t e = 0; e < count; e++)
        row[e] += bias[e * f->bias.column];
    else
      for (int64_t e = 0; e < count; e++)
        row[e] += (T)WHOLE(f->bias_scale * (double)(SIGNED)bias[e * f->bias.column]);
  }
  if (more) {
    more += i * f->residual.row + j * f->residual.column;
    for (int64_t e = 0; e < count; e++)
      row[e] += more[e * f->residual.column];
  }
#ifdef HAS_ACTIVATIONS
  NAME(activate)(f->activation, (T)f->alpha, (T)f->beta, row, count);
#endif
  for (int64_t e = 0; e < count; e++)
    c[e * f->column] = row[e];
}
#undef T
#undef SIGNED
#undef NAME
