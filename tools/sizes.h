/* Sizes to measure an operator at: those that are asked for by name, or three magnitudes of its
 * samples.  Called by bench. */
#ifndef TOOLS_SIZES_H
#define TOOLS_SIZES_H

#include "subject.h"

enum { SIZES_MOST = 64 };
typedef struct sizes_t {
  subject_size_t items[SIZES_MOST];
  int32_t count;
  char names[SUBJECT_NAMES][64];
} sizes_t;

/* `dims`: "n=1024,4096", each combination; none: by magnitudes, unless forms state the arguments.
 * Of `common` dtype, forms and attrs are read, and kept. */
bool sizes_make(const tenon_op_t *op, const texts_t *dims, const subject_size_t *common,
                sizes_t *out_sizes, text_t *why);
/* By which results are compared: "n=1024 f64". */
void size_label(const subject_size_t *size, text_t *out);

#endif
