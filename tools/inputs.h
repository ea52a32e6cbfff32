/* The inputs of a model from what `tenon run` is told: --input NAME=VALUE and --dim NAME=N. The
 * result has a tensor for every input of the graph, or there is a reason that names all
 * offenders. */
#ifndef TOOLS_INPUTS_H
#define TOOLS_INPUTS_H

#include <tenon/tenon.h>

#include "text.h"

/* Puts one tensor for each input into `out_tensors` (room for tenon_graph_input_count); the caller
 * releases them, also after a failure (NULL: not made). */
bool inputs_make(const tenon_graph_t *graph, const texts_t *values, const texts_t *dims,
                 tenon_tensor_t **out_tensors, text_t *why);

#endif
