/* The inputs of a model from the options --input NAME=VALUE and --dim NAME=N of `tenon run`. Either
 * every input of the graph gets a tensor, or the error names all inputs that are wrong. */
#ifndef TOOLS_INPUTS_H
#define TOOLS_INPUTS_H

#include <tenon/tenon.h>

#include "text.h"

/* Stores one tensor for each input in `out_tensors`, which has room for tenon_graph_input_count of
 * them. The caller releases them, even after a failure (NULL: not made). */
bool inputs_make(const tenon_graph_t *graph, const texts_t *values, const texts_t *dims,
                 tenon_tensor_t **out_tensors, text_t *why);

#endif
