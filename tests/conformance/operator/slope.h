/* slope.h: how the results of a call change with one element of an input, measured by
 * differences. */
#ifndef CHECK_SLOPE_H
#define CHECK_SLOPE_H

#include "trial.h"

typedef struct
    /* of one call: what is measured is the sum of weight * result over all results of floats */
    slopes_t {
  trial_t *trial;
  tenon_tensor_t *weights[TRIAL_ARGUMENTS]; /* as the results are; NULL: no float */
  bool is_wide;                             /* everything is computed in f64 */
} slopes_t;

/* Calls the trial and makes weights; false: the call fails, or nothing of it is a float. */
bool slopes_open(trial_t *trial, slopes_t *out_slopes);
void slopes_close(slopes_t *slopes);

typedef struct slope_t {
  double value;
  double noise; /* noise: how far from the true one it may be */
} slope_t;
/* By element `index` of input `input`.  False: there is no slope that could be measured (a kink, no
 * number, a refusal). */
bool slopes_measure(const slopes_t *slopes, uint32_t input, int64_t index, slope_t *out_slope);
/* A tensor of real numbers of at least 32 bits. */
bool slopes_is_float(const tenon_tensor_t *tensor);

#endif
