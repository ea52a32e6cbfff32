/* Quantised inputs. ONNX Runtime has no quantised tensors: a tensor has integers, and the node
 * states what they mean, by attributes with the name of the input:
 *
 *   x_scale        a float, or a list with one for each index of the axis
 *   x_zero_point   an int, or a list likewise; by default 0
 *   x_axis         the axis; by default -1: one scale in all
 *
 * Operators with a kernel that takes quantised tensors receive them so. */
#ifndef BRIDGES_ONNXRUNTIME_OPERATORS_QUANTISED_H
#define BRIDGES_ONNXRUNTIME_OPERATORS_QUANTISED_H

#include "attribute.h"
#include "kernel.h"

/* Reads the attributes of a kernel's node. */
tenon_status_t quantised_read(kernel_t *kernel, const source_t *source);
void quantised_free(kernel_t *kernel);

#endif
