/* Reads programs of StableHLO as graphs. */
#ifndef BRIDGES_STABLEHLO_MODEL_H
#define BRIDGES_STABLEHLO_MODEL_H

#include <stdbool.h>
#include <tenon/tenon.h>

/* Reads a program in the form of text or of MLIR bytecode, which begins with ML\xEFR. The function
 * @main, or the only public one, becomes the graph; functions that it calls are inlined. Inputs
 * have the names that the locations of the arguments state, else arg0, arg1, and so on; outputs
 * those of jax.result_info, else result0, ...
 *
 * Errors: NOT_FOUND: the file does not exist; INVALID: the program is malformed, with line and
 * column, or with a section of the bytecode and an offset in it; UNIMPLEMENTED: operations are not
 * supported, all of them with their reasons. */
tenon_status_t hlo_model_read(const char *path, tenon_graph_t **out_graph);
/* The same for a program in memory, text or bytecode, which need not end with a zero byte. The
 * graph does not refer to `bytes`. Messages begin with `name`. */
tenon_status_t hlo_program_read(const char *bytes, size_t size, const char *name,
                                tenon_graph_t **out_graph);
/* The same for a caller whose buffers have the element types of the program, so integers of fewer
 * than 8 bits are refused as inputs and outputs. Tells which inputs the caller gives up, as
 * bytecode states it by the attributes tf.aliasing_output and jax.buffer_donor; a run may use their
 * memory.
 *
 * Arguments: `out_donated` receives an entry for each input of the graph; NULL: none is given up.
 * Ownership: the caller frees *out_donated with free(). */
tenon_status_t hlo_program_read_donated(const char *bytes, size_t size, const char *name,
                                        bool **out_donated, tenon_graph_t **out_graph);

#endif
