/* Differences between the values of two runs of a model, node by node, as text, JSON and charts.
 * Called by the verb compare. */
#ifndef TOOLS_DIFFERENCES_H
#define TOOLS_DIFFERENCES_H

#include "compare.h"
#include "values.h"

typedef struct difference_t { /* difference of one value */
  const value_t *value;       /* the value in the first run */
  bool is_compared;
  bool differs;    /* both runs have the value, and it differs by more than the tolerance */
  double relative; /* largest |a - b| / (1 + |b|); infinite if one is not a finite number */
  text_t words;    /* "3 of 12 elements differ, most at [0, 2]: ..." */
} difference_t;
typedef struct differences_t {
  difference_t *items;
  int32_t count;
  int32_t compared;
  int32_t wrong;
  int32_t first; /* index of the first value that differs, in the order of nodes; -1: none */
} differences_t;

/* Compares all values of a kind ("value", "output"); those of `b` are the expected ones. */
bool differences_find(const values_t *a, const values_t *b, const char *kind,
                      const tolerance_t *tolerance, differences_t *out, text_t *why);
void differences_free(differences_t *differences);
/* Adds one line for each value, with a bar that shows the magnitude of its error; only values that
 * differ, unless `all`. */
void differences_add_text(text_t *out, const differences_t *differences, bool all, int32_t width);
void differences_add_json(text_t *out, const differences_t *differences);
/* Adds the error by node as a chart in SVG. */
void differences_add_svg(text_t *out, const differences_t *differences, const char *title,
                         double tolerance);

#endif
