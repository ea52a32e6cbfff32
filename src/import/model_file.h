/* What readers of models share. */
#ifndef TN_IMPORT_MODEL_FILE_H
#define TN_IMPORT_MODEL_FILE_H

#include <tenon/tenon.h>

const char *tn_import_folder(const tenon_import_t *options); /* NULL: the file's own */
/* Reads an ONNX file; `folder` of its external weights, NULL: its own. */
tenon_status_t tn_onnx_load(const char *path, const char *folder, tenon_graph_t **out_graph);

#endif
