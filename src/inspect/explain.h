/* Why a call goes where it goes. */
#ifndef TN_INSPECT_EXPLAIN_H
#define TN_INSPECT_EXPLAIN_H

#include "base/text.h"
#include "operator/frame.h"

/* What the frame's entry runs for these tensors, and why each other candidate does not; nothing
 * where there are none to choose among.  Under the registry's mutex. */
void tn_explain_call(const tenon_call_t *call, tn_text_t *text);

#endif
