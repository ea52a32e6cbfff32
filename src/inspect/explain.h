/* Explains which kernel a call runs and why. */
#ifndef TN_INSPECT_EXPLAIN_H
#define TN_INSPECT_EXPLAIN_H

#include "base/text.h"
#include "operator/frame.h"

/* Appends what the frame's entry runs for these tensors, and why each other candidate was declined;
 * nothing if there is nothing to choose. The registry's mutex must be held. */
void tn_explain_call(const tenon_call_t *call, tn_text_t *text);

#endif
