/* The node where two runs of a model begin to differ: its inputs in words, what it gives by itself,
 * and a recording of its call. Called by the verb compare. */
#ifndef TOOLS_FIRST_DIFFERENCE_H
#define TOOLS_FIRST_DIFFERENCE_H

#include <tenon/tenon.h>

#include "compare.h"
#include "values.h"

typedef struct first_difference_t {
  const tenon_graph_t *graph;
  const values_t *a;
  const values_t *b; /* its inputs are those of a; what is expected is what b has */
  const char *node;
  const char *value;  /* by name */
  const char *folder; /* of recordings */
  tolerance_t tolerance;
} first_difference_t;

/* Adds lines about it; writes FOLDER/NNN-operator, whose name goes to out_recording.  False: `why`
 * says what failed. */
bool first_difference_describe(const first_difference_t *culprit, text_t *out,
                               text_t *out_recording, text_t *why);

#endif
