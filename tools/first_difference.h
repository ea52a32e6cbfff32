/* The first node where two runs of a model differ: its inputs, the result of calling it alone, and
 * a failure dump of its call for `tenon replay`. Called by the verb compare. */
#ifndef TOOLS_FIRST_DIFFERENCE_H
#define TOOLS_FIRST_DIFFERENCE_H

#include <tenon/tenon.h>

#include "compare.h"
#include "values.h"

typedef struct first_difference_t {
  const tenon_graph_t *graph;
  const values_t *a;
  /* Values of the two runs; the inputs are taken from `a`, the expected results from `b`. */
  const values_t *b;
  const char *node;
  const char *value;  /* name of the value that differs */
  const char *folder; /* folder for the saved call */
  tolerance_t tolerance;
} first_difference_t;

/* Adds the description to `out` and saves the call as FOLDER/NNN-operator, whose name is stored in
 * out_dump. Returns false on failure, with the reason in `why`. */
bool first_difference_describe(const first_difference_t *culprit, text_t *out, text_t *out_dump,
                               text_t *why);

#endif
