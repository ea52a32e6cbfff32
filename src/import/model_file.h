/* What the readers of model files share. */
#ifndef TN_IMPORT_MODEL_FILE_H
#define TN_IMPORT_MODEL_FILE_H

#include <tenon/tenon.h>

/* the folder of external weights that the caller set; NULL: the folder of the file */
const char *tn_import_folder(const tenon_import_t *options);
/* Reads an ONNX file. `folder` is where its external weights are; NULL: the folder of the file. */
tenon_status_t tn_onnx_load(const char *path, const char *folder, tenon_graph_t **out_graph);

#endif
