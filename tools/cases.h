/* Test cases in ONNX's layout: finding them and running one. Called by `tenon verify`. A case is a
 * model with data sets of inputs and expected outputs. Running a case never prints. */
#ifndef TOOLS_CASES_H
#define TOOLS_CASES_H

#include "compare.h"
#include "text.h"

typedef struct case_t {
  char *name;
  char *model;  /* path of the model file */
  char *folder; /* folder with test_data_set_*; NULL for a light model, see cases_find */
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

/* Adds the cases at `path`: a folder with model.onnx or model.tenon; a folder whose data.json names
 * a light model; a folder that contains such folders at any depth; or a light model itself. A light
 * model of ONNX, PREFIX.onnx beside PREFIX_output_0.pb, has constant weights and no inputs on disk:
 * onnx.backend.test feeds it i / n for element i of n. */
bool cases_find(const char *path, cases_t *cases, text_t *why);
void cases_free(cases_t *cases);
/* The size of the path of a model (.onnx or .tenon) without its ending; 0: it is none. */
int cases_stem_size(const char *model);

/* Runs a case. A negative tolerance means that none is given. `words` receives the reason of a
 * failure or a skip. A case is skipped if import, compilation or run returns UNIMPLEMENTED, which
 * includes unknown operators. */
outcome_t cases_run(const case_t *item, const tenon_compile_t *options,
                    const tolerance_t *tolerance, text_t *words);

#endif
