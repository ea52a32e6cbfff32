/* Comparison of the results of Fourier transforms, whose rounding errors are relative to the norm
 * of a line, not to each number. Called by verify. */
#ifndef TOOLS_TRANSFORM_H
#define TOOLS_TRANSFORM_H

#include <tenon/tenon.h>

#include "compare.h"

/* Whether output `index` of a graph is a Fourier transform (core::dft or core::stft) and `found`
 * differs from `expected` by no more than the tolerance and the rounding of such a transform.
 * `inputs` are those of the graph, one of which may be the axis. */
bool transform_agrees(const tenon_graph_t *graph, int32_t index, tenon_tensor_t *const *inputs,
                      const tenon_tensor_t *expected, const tenon_tensor_t *found,
                      const tolerance_t *tolerance);

#endif
