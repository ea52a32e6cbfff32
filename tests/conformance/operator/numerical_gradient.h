/* Numerical gradients: measures by finite differences how the results of a call change with one
 * element of an input. */
#ifndef CHECK_NUMERICAL_GRADIENT_H
#define CHECK_NUMERICAL_GRADIENT_H

#include "example.h"

/* The derivative of the sum of weight * result over all floating-point results of one call. */
typedef struct slopes_t {
  example_t *example;
  tenon_tensor_t
      *weights[EXAMPLE_ARGUMENTS]; /* shaped like the results; NULL: not floating-point */
  bool is_wide;                    /* everything is computed in f64 */
} slopes_t;

/* Calls the example and creates weights. Returns false if the call fails or no result is
 * floating-point. */
bool slopes_open(example_t *example, slopes_t *out_slopes);
void slopes_close(slopes_t *slopes);

typedef struct slope_t {
  double value;
  double noise; /* estimated error of the value */
} slope_t;
/* Measures the derivative by element `index` of input `input`. Returns false if it cannot be
 * measured, for example at a kink or because a call is refused. */
bool slopes_measure(const slopes_t *slopes, uint32_t input, int64_t index, slope_t *out_slope);
/* Whether the tensor has real elements of at least 32 bits. */
bool slopes_is_float(const tenon_tensor_t *tensor);

#endif
