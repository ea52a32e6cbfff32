
#include "operator/frame.h"
/* Mutant: a call into unloadable code does not look at the dispatch table again after it was
 * counted. */

const tn_table_entry_t *tn_entry_as_it_was(tenon_call_t *call) { return tn_frame_of(call)->entry; }
