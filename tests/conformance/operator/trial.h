/* trial.h: calls to try of one operator: each of its SAMPLES, and the first in each dtype that
 * TYPES allow. */
#ifndef CHECK_TRIAL_H
#define CHECK_TRIAL_H

#include "inspect/trial.h"
#include "suite.h"

enum { TRIAL_ARGUMENTS = 64 };

typedef struct trial_t {
  const subject_t *subject;
  const tenon_op_t *op;
  tn_trial_t plan;
  tn_arena_t arena;
  char label[96];                          /* "f32", "1.f32": stands behind "@" in --case */
  tenon_tensor_t *inputs[TRIAL_ARGUMENTS]; /* dense; never given to the operator itself */
  const tenon_value_t *attrs;
  bool is_taken; /* infer takes them; else `why` */
  char why[512];
  uint64_t seed;
} trial_t;

typedef struct
    /* an iteration: trials_t all = trials(subject); for (trial_t *t; (t = trials_next(&all));) */
    trials_t {
  const subject_t *subject;
  uint32_t at;
  bool every_dtype;
  trial_t now;
} trials_t;

/* every_dtype: else one of each sample, in the dtype that is preferred. */
trials_t trials(const subject_t *subject, bool every_dtype);
trial_t *trials_next(
    trials_t
        *all); /* frees the one before; NULL: no more.  Those that infer refuses are passed by */
/* Does infer take it?  If not, that SAMPLES are wrong is a finding, and that the schema alone does
 * not do a note. */
bool is_sample_good(const trial_t *trial);
/* As trials_next, those that are refused too. */
trial_t *trials_any(trials_t *all);
/* One with these options; the label is the caller's.  False: no plan, `why` says it. */
bool trial_make(const subject_t *subject, const tn_trial_options_t *options, uint64_t seed,
                const char *label, trial_t *out);
/* Makes its inputs again after its plan was changed. */
bool trial_remake(trial_t *trial);
void trial_free(trial_t *trial);
/* "demo::gelu(x: f32[4, 5], axis=1)". */
void trial_describe(const trial_t *trial, tenon_tensor_t *const *inputs, char *out_text,
                    size_t capacity);

#endif
