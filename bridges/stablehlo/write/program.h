/* Writes graphs as programs of StableHLO. */
#ifndef BRIDGES_STABLEHLO_WRITE_PROGRAM_H
#define BRIDGES_STABLEHLO_WRITE_PROGRAM_H

#include <tenon/tenon.h>

/* Writes a graph as text: a module with the function @main. Locations hold the names of inputs, and
 * jax.result_info those of outputs, as the reader expects them.
 *
 * Errors: UNIMPLEMENTED: nodes that cannot be written, all of them with their reasons. */
tenon_status_t hlo_program_write(const tenon_graph_t *graph, const char *path);

#endif
