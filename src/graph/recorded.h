/* Runs whose work on a device was recorded, to be enqueued again as one.  A recording has inputs
 * and outputs of its own, on a stream of its own, whose cached memory stays as it is while the
 * recording lives.  Called by runs of executables that were compiled with TENON_COMPILE_RECORD.
 * Invariant: what is recorded depends on shapes and dtypes of inputs alone. */
#ifndef TN_GRAPH_RECORDED_H
#define TN_GRAPH_RECORDED_H

#include "graph/executable.h"

/* May runs of the executable be recorded at all?  If not, says why in its report. */
void tn_recorded_begin(tn_recorded_t *recorded, const tenon_executable_t *executable);
void tn_recorded_end(tn_recorded_t *recorded);
/* Runs by a recording of these shapes, made now if there is none.  False in out_ran: nothing was
 * done, run node by node. */
tenon_status_t tn_recorded_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **outputs, bool *out_ran);
void tn_recorded_print(const tn_recorded_t *recorded, tn_text_t *text);

#endif
