/* Tensors with generated contents: zeros, ones, ramp, random or random:SEED. Called by run for
 * --input, by bench for arguments, and by verify for ONNX's light models, whose inputs are a
 * ramp. */
#ifndef TOOLS_FILL_H
#define TOOLS_FILL_H

#include <tenon/tenon.h>

#include "text.h"

/* Whether `word` is one of these words. */
bool fill_is_word(const char *word);
/* Fills a tensor that tenon_tensor_create made. random: floats have a normal distribution, integers
 * are 0 to 9, bools are true with probability 1/2, strings are one letter; tensors of different
 * `stream` differ. ramp: element i of n is i / n, or i in an integer tensor. */
bool fill_tensor(tenon_tensor_t *tensor, const char *word, uint32_t stream, text_t *why);

#endif
