/* ctc.h: declarations that the operators of ctc.c and decode.c share. log_probs is [frames, lines,
 * classes], f32 or f64; one of the classes is the blank. */
#ifndef CTC_H
#define CTC_H

#include <math.h>
#include <tenon/op.h>

extern const tenon_item_t reader_decode[]; /* in decode.c */

static inline double number(const tenon_tensor_t *t, int64_t i) {
  return t->dtype.bits == 64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static inline void set_number(tenon_tensor_t *t, int64_t i, double value) {
  if (t->dtype.bits == 64)
    ((double *)t->data)[i] = value;
  else
    ((float *)t->data)[i] = (float)value;
}

/* log(exp(a) + exp(b) + exp(c)); -inf is the logarithm of 0. */
static inline double log_sum(double a, double b, double c) {
  double most = a > b ? a : b;
  if (c > most) most = c;
  if (most == -INFINITY) most = 0;
  return most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

static inline tenon_status_t blank_check(tenon_infer_t *infer, int64_t blank, tenon_dim_t classes) {
  if (blank < 0)
    return tenon_fail(infer, TENON_INVALID,
                      "blank is %lld, but must be a class of log_probs, from 0", (long long)blank);
  if (!tenon_is_known(classes) || blank < classes.value) return TENON_OK;
  return tenon_fail(infer, TENON_INVALID,
                    "blank is %lld, but log_probs has %lld classes: it must be less",
                    (long long)blank, (long long)classes.value);
}

/* Reports the first length that is not from 0 to `most`, and how many such lengths there are. */
static inline tenon_status_t lengths_check(tenon_call_t *call, const tenon_tensor_t *lengths,
                                           const char *name, int64_t most, const char *what) {
  const int64_t *length = lengths->data;
  int64_t wrong = 0;
  int64_t first = 0;
  for (int64_t n = lengths->shape[0]; n-- > 0;)
    if (length[n] < 0 || length[n] > most) {
      wrong++;
      first = n;
    }
  if (!wrong) return TENON_OK;
  return tenon_fail(call, TENON_INVALID,
                    "%s[%lld] is %lld, but must be from 0 to %lld, %s (%lld of %lld out of range)",
                    name, (long long)first, (long long)length[first], (long long)most, what,
                    (long long)wrong, (long long)lengths->shape[0]);
}

#endif
