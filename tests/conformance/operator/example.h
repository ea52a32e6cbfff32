/* The calls of one operator that checks try: each of its example calls (TENON_SAMPLES), and the
 * first of them in each dtype that TENON_TYPES allows. */
#ifndef CHECK_EXAMPLE_H
#define CHECK_EXAMPLE_H

#include "guard.h"
#include "inspect/example.h"
#include "suite.h"

enum { EXAMPLE_ARGUMENTS = 64 };

typedef struct example_t {
  const subject_t *subject;
  const tenon_op_t *op;
  tn_example_t plan;
  tn_arena_t arena;
  char label[96]; /* "f32", "1.f32": the part after "@" in --case */
  /* Dense; checks pass copies or views of them to the operator. */
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS];
  const tenon_value_t *attrs; /* end at an inaccessible page */
  guard_t *attr_guard;
  bool is_taken; /* infer accepts the inputs; else `why` has the reason */
  char why[512];
  uint64_t seed;
} example_t;

/* An iteration:
 * examples_t all = examples(subject); for (example_t *t; (t = examples_next(&all));) */
typedef struct examples_t {
  const subject_t *subject;
  uint32_t at;
  bool every_dtype;
  example_t now;
} examples_t;

/* every_dtype: also the other dtypes; else each example call only in its preferred dtype. */
examples_t examples(const subject_t *subject, bool every_dtype);
/* Returns the next example and frees the previous one; NULL at the end. Skips examples that infer
 * refuses. */
example_t *examples_next(examples_t *all);
/* Whether infer accepts the call. If not, wrong TENON_SAMPLES are a finding, and a schema that is
 * not enough to make a call is a note. */
bool is_sample_good(const example_t *example);
/* Like examples_next, including examples that infer refuses. */
example_t *examples_any(examples_t *all);
/* Makes an example with these options and the caller's label. Returns false if no call can be
 * planned; `why` has the reason. */
bool example_make(const subject_t *subject, const tn_example_options_t *options, uint64_t seed,
                  const char *label, example_t *out);
/* Makes the inputs again after the plan was changed. */
bool example_remake(example_t *example);
void example_free(example_t *example);
/* Prints "demo::gelu(x: f32[4, 5], axis=1)". */
void example_describe(const example_t *example, tenon_tensor_t *const *inputs, char *out_text,
                      size_t capacity);

#endif
