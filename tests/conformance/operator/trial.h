/* The calls of one operator that checks try: each of its example calls (TENON_SAMPLES), and the
 * first of them in each dtype that TENON_TYPES allows. */
#ifndef CHECK_TRIAL_H
#define CHECK_TRIAL_H

#include "inspect/example.h"
#include "suite.h"

enum { TRIAL_ARGUMENTS = 64 };

typedef struct trial_t {
  const subject_t *subject;
  const tenon_op_t *op;
  tn_example_t plan;
  tn_arena_t arena;
  char label[96]; /* "f32", "1.f32": the part after "@" in --case */
  /* Dense; checks pass copies or views of them to the operator. */
  tenon_tensor_t *inputs[TRIAL_ARGUMENTS];
  const tenon_value_t *attrs;
  bool is_taken; /* infer accepts the inputs; else `why` has the reason */
  char why[512];
  uint64_t seed;
} trial_t;

/* An iteration: trials_t all = trials(subject); for (trial_t *t; (t = trials_next(&all));) */
typedef struct trials_t {
  const subject_t *subject;
  uint32_t at;
  bool every_dtype;
  trial_t now;
} trials_t;

/* every_dtype: also the other dtypes; else each example call only in its preferred dtype. */
trials_t trials(const subject_t *subject, bool every_dtype);
/* Returns the next trial and frees the previous one; NULL at the end. Skips trials that infer
 * refuses. */
trial_t *trials_next(trials_t *all);
/* Whether infer accepts the call. If not, wrong TENON_SAMPLES are a finding, and a schema that is
 * not enough to make a call is a note. */
bool is_sample_good(const trial_t *trial);
/* Like trials_next, including trials that infer refuses. */
trial_t *trials_any(trials_t *all);
/* Makes a trial with these options and the caller's label. Returns false if no call can be planned;
 * `why` has the reason. */
bool trial_make(const subject_t *subject, const tn_example_options_t *options, uint64_t seed,
                const char *label, trial_t *out);
/* Makes the inputs again after the plan was changed. */
bool trial_remake(trial_t *trial);
void trial_free(trial_t *trial);
/* Prints "demo::gelu(x: f32[4, 5], axis=1)". */
void trial_describe(const trial_t *trial, tenon_tensor_t *const *inputs, char *out_text,
                    size_t capacity);

#endif
