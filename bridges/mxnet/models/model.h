/* MXNet's model files as graphs. */
#ifndef BRIDGES_MXNET_MODELS_MODEL_H
#define BRIDGES_MXNET_MODELS_MODEL_H

#include <tenon/tenon.h>

/* Reads NAME-symbol.json, as Gluon's export and Module.save_checkpoint write it, with its
 * parameters: NAME-0000.params beside it, else the only NAME-*.params there; options->folder is
 * another folder for these.  Inputs are the variables without parameters (a label that only a loss
 * reads is none), f32 and of unknown shape unless the file says more; outputs have the names of
 * Symbol.list_outputs.  Operators that no rule covers are those of loaded libraries that have this
 * name in any namespace. Errors: NOT_FOUND: no such file; INVALID: it is malformed, or parameters
 * are missing, with node and place; UNIMPLEMENTED: all operators that are not covered, and their
 * nodes. */
tenon_status_t mxnet_model_read(const char *path, const tenon_import_t *options,
                                tenon_graph_t **out_graph);

#endif
