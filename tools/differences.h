/* How the values of two runs of a model differ, node by node: text, JSON, and pictures.  Called by
 * the verb compare. */
#ifndef TOOLS_DIFFERENCES_H
#define TOOLS_DIFFERENCES_H

#include "compare.h"
#include "values.h"

typedef struct difference_t { /* of one value */
  const value_t *value;       /* as the first run has it */
  bool is_compared;
  bool differs;    /* both runs have it; beyond the tolerance */
  double relative; /* the largest |a - b| / (1 + |b|); infinite where one is no number */
  text_t words;    /* "3 of 12 elements differ, most at [0, 2]: ..." */
} difference_t;
typedef struct differences_t {
  difference_t *items;
  int32_t count;
  int32_t compared;
  int32_t wrong;
  int32_t first; /* that differs, in the order of nodes; -1: none */
} differences_t;

/* Compares all of a kind ("value", "output"); b is what is expected. */
bool differences_find(const values_t *a, const values_t *b, const char *kind,
                      const tolerance_t *tolerance, differences_t *out, text_t *why);
void differences_free(differences_t *differences);
/* A line for each value, with a bar by the power of ten of its error; only those that differ,
 * unless `all`. */
void differences_add_text(text_t *out, const differences_t *differences, bool all, int32_t width);
void differences_add_json(text_t *out, const differences_t *differences);
/* The error by node, as a picture of its own. */
void differences_add_svg(text_t *out, const differences_t *differences, const char *title,
                         double tolerance);

#endif
