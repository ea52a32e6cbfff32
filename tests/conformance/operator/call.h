/* call.h: calls of a trial that are no way of run.h's: what they are said to be, and their
 * tensors. */
#ifndef CHECK_CALL_H
#define CHECK_CALL_H

#include "trial.h"

/* doing(), with the call as a text and how it is made behind it: "demo::gelu(x: f32[4, 5]) by four
 * threads at once". */
void call_doing(const trial_t *trial, const char *crash_id, const char *how);
/* Releases all TRIAL_ARGUMENTS tensors of a list. */
void call_drop(tenon_tensor_t **tensors);

#endif
