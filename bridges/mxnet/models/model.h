/* Reads MXNet's model files as graphs. */
#ifndef BRIDGES_MXNET_MODELS_MODEL_H
#define BRIDGES_MXNET_MODELS_MODEL_H

#include <tenon/tenon.h>

/* Reads NAME-symbol.json, as Gluon's export and Module.save_checkpoint write it, with its
 * parameters. These are in NAME-0000.params beside it, or in the only NAME-*.params of the folder;
 * options->folder is another folder to look in. Inputs are the variables without parameters, except
 * labels that only a loss reads. An input is f32 and of unknown shape unless the file says more.
 * Outputs have the names of Symbol.list_outputs. An operator without a lowering is looked up in the
 * loaded libraries, under its name in any namespace.
 *
 * Errors: NOT_FOUND: the file does not exist; INVALID: the file is malformed or parameters are
 * missing, with the node and its line; UNIMPLEMENTED: operators are not supported, with their
 * nodes. */
tenon_status_t mxnet_model_read(const char *path, const tenon_import_t *options,
                                tenon_graph_t **out_graph);

#endif
