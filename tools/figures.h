/* What bench measured: one line for each operator, size and device; as a table, as JSON, and beside
 * an earlier result. */
#ifndef TOOLS_FIGURES_H
#define TOOLS_FIGURES_H

#include "machine.h"
#include "measure.h"
#include "text.h"

typedef struct figure_t {
  char *op;
  char *device;
  char *size;
  char *arguments; /* owned; size is the label by which results are compared */
  times_t times;
  double bytes;
  double operations; /* of one call; operations 0: not known */
  bool is_f64;
  /* of --against and --baseline: what the other took, nanoseconds; 0: there is none */
  double other;
  double other_first;
  double other_third;
} figure_t;

typedef struct figures_t {
  figure_t *items;
  int32_t count;
  int32_t capacity;
} figures_t;

figure_t *figures_add(figures_t *figures, const char *op, const char *device, const char *size,
                      const char *arguments);
void figures_free(figures_t *figures);
/* `library` may be "". */
void figures_json(const figures_t *figures, const machine_t *machine, const char *library,
                  text_t *out);
/* Fills in `other` of those that an earlier result (its JSON) has too, of the same operator, size
 * and device.  A second time: the mean of both, and a spread that has both.  How many. */
int32_t figures_compare(figures_t *figures, const char *json);
/* One figure in words, some lines. */
void figures_words(const figure_t *figure, const machine_t *machine, text_t *out);

#endif
