/* Prepares graphs for writers of other formats. */
#ifndef TN_IMPORT_PREPARE_H
#define TN_IMPORT_PREPARE_H

#include "graph/graph.h"

/* Copies a graph, infers types, computes everything that does not depend on inputs, and removes
 * dead code, also in the bodies of control flow: each body becomes a copy for the types of its
 * operands, with small captured constants inside. Loops whose number of iterations is known state
 * it as `trips`. A body that contradicts its operands stays as it is.
 *
 * Ownership: the copy refers to memory of `graph`, which must outlive it. */
tenon_status_t tn_export_prepare(const tenon_graph_t *graph, tenon_graph_t **out_graph);

#endif
