/* Helpers for checks that call the operator directly instead of through run.h: the description of
 * the call, and the release of its tensors. */
#ifndef CHECK_CALL_H
#define CHECK_CALL_H

#include "example.h"

/* Like doing(), with the call as text followed by how it is made: "demo::gelu(x: f32[4, 5]) by four
 * threads at once". */
void call_doing(const example_t *example, const char *crash_id, const char *how);
/* Releases all EXAMPLE_ARGUMENTS tensors of a list. */
void call_drop(tenon_tensor_t **tensors);

#endif
