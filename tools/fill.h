/* Tensors with made-up contents, by a word: zeros, ones, ramp, random or random:SEED.
 * Called by run for --input and by verify for ONNX's light models, whose inputs are a ramp. */
#ifndef TOOLS_FILL_H
#define TOOLS_FILL_H

#include <tenon/tenon.h>

#include "text.h"

/* Whether `word` is one of these. */
bool fill_is_word(const char *word);
/* Fills in a tensor that tenon_tensor_create made.  random: floats are normal, integers 0 to 9,
 * bools even odds, strings one letter; two tensors of different `stream` differ.  ramp: element i
 * of n is i / n, of integers i. */
bool fill_tensor(tenon_tensor_t *tensor, const char *word, uint32_t stream, text_t *why);

#endif
