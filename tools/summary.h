/* Text descriptions of tensors and ports. Called by run, verify and show. */
#ifndef TOOLS_SUMMARY_H
#define TOOLS_SUMMARY_H

#include <tenon/tenon.h>

#include "text.h"

void summary_add_shape(text_t *out, int32_t ndim, const int64_t *shape); /* "[2, 3]" */
void summary_add_index(text_t *out, const tenon_tensor_t *tensor,
                       int64_t index); /* "[0, 2]" from a row-major index */
void summary_add_element(text_t *out, const tenon_tensor_t *tensor, int64_t index);
/* Adds "f32 [2, 3]  min -1 max 2 mean 0.5  [-1, 0, 2, ...]" after `name`; for a list one line per
 * item. */
void summary_add_tensor(text_t *out, const char *name, const tenon_tensor_t *tensor);
/* "f32 [batch, 3]" */
void summary_add_port(text_t *out, const tenon_port_t *port);

#endif
