/* Captured graphs: a run on a device whose work was captured once, to be replayed as one piece of
 * work. A captured graph has its own inputs, outputs and stream; the stream's cached memory stays
 * unchanged as long as the captured graph exists. Called by runs of executables compiled with
 * TENON_COMPILE_RECORD. Invariant: captured work depends on the shapes and dtypes of the inputs
 * only. */
#ifndef TN_GRAPH_CAPTURE_H
#define TN_GRAPH_CAPTURE_H

#include "graph/executable.h"

/* Checks whether runs of the executable can be captured. If not, keeps the reason for the
 * report. */
void tn_captures_begin(tn_captures_t *captures, const tenon_executable_t *executable);
void tn_captures_end(tn_captures_t *captures);
/* Replays the captured graph for these input shapes, and captures one first if there is none.
 * *out_ran is false if nothing was done: run the graph node by node. */
tenon_status_t tn_captures_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **outputs, bool *out_ran);
void tn_captures_print(const tn_captures_t *captures, tn_text_t *text);

#endif
