/* Test cases in ONNX's layout: finding them and running one.  Called by `tenon verify`.
 * A case is a model with data sets of inputs and expected outputs; running one never prints. */
#ifndef TOOLS_CASES_H
#define TOOLS_CASES_H

#include "compare.h"
#include "text.h"

typedef struct case_t {
  char *name;
  char *model;  /* model: path of the file */
  char *folder; /* with test_data_set_*; NULL: a light model, see cases_find */
  double relative;
  double absolute; /* tolerances that the case itself states; negative: none */
} case_t;

typedef struct cases_t {
  case_t *items;
  int32_t count;
  int32_t capacity;
} cases_t;

typedef enum outcome_t {
  OUTCOME_PASSED,
  OUTCOME_FAILED,
  OUTCOME_SKIPPED,
} outcome_t;

/* Adds the cases of `path`: a folder with model.onnx; a folder with a data.json that names a light
 * model; any folder of such, recursively; a light model itself.  Light models of ONNX, PREFIX.onnx
 * beside PREFIX_output_0.pb, have constant weights and no inputs on disk: onnx.backend.test feeds
 * them i / n for element i of n. */
bool cases_find(const char *path, cases_t *cases, text_t *why);
void cases_free(cases_t *cases);

/* Runs a case; a tolerance that is negative is not given.  Of a failure or a skip `words` says the
 * reason: it is a skip if import, compilation or run says UNIMPLEMENTED, which an operator that
 * nobody knows is too. */
outcome_t cases_run(const case_t *item, const tenon_compile_t *options,
                    const tolerance_t *tolerance, text_t *words);

#endif
