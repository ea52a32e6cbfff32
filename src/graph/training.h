/* Recorded runs of executables: for the inputs that require gradients, the graph is split into
 * forward, which also gives the values that backward will need, and backward. Both are compiled
 * like any graph. A run is one entry of the tape. Graphs that cannot be differentiated as graphs
 * are left to the interpreter, whose calls the tape records one by one. */
#ifndef TN_GRAPH_TRAINING_H
#define TN_GRAPH_TRAINING_H

#include "graph/executable.h"

tenon_status_t tn_training_create(tenon_executable_t *executable);
/* Runs the executable, which has gradients, and records the run, if an input requires gradients.
 * Outputs are NULL before. *out_ran is false if nothing was done: the interpreter has to run. */
tenon_status_t tn_training_run(tenon_executable_t *executable, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **outputs, tenon_profile_t *profile, bool *out_ran);
void tn_training_release(tenon_executable_t *executable);
/* Prints what is kept for backward, for the dump "gradients". */
void tn_training_print(tenon_executable_t *executable, tn_text_t *text);

#endif
