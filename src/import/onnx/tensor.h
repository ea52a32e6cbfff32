/* Reads tensors of ONNX files: every way in which TensorProto stores elements, and its element
 * types. Called by the importer for weights and attributes, and by the reader of .pb files.
 * Elements that are stored in the file as they are in memory are not copied: the tensor shares the
 * mapped file. */
#ifndef TN_ONNX_TENSOR_H
#define TN_ONNX_TENSOR_H

#include "base/map.h"
#include "core/tensor.h"
#include "import/onnx/model.h"

/* Where the elements of a model's tensors are. */
typedef struct tn_weights_t {
  tn_storage_t *file; /* the model's own bytes */
  const char *folder; /* of external files; NULL: the model was read from memory and has none */
  tn_map_t external;  /* tn_storage_t by path: each file is mapped once */
} tn_weights_t;

/* Maps a file as a storage that tensors can share. */
tenon_status_t tn_weights_map(const char *path, tn_storage_t **out_storage);
void tn_weights_clear(tn_weights_t *weights); /* tensors keep the storages that they use */

/* Converts a TensorProto.DataType; false: this runtime does not have the type. */
bool tn_onnx_dtype(int64_t data_type, tenon_dtype_t *out_dtype);
int64_t tn_onnx_number(tenon_dtype_t dtype); /* the inverse; 0: ONNX does not have the type */
/* Messages of the following functions name the tensor, what was expected and what was found. */
tenon_status_t tn_onnx_tensor(const tn_onnx_tensor_t *tensor, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor);
tenon_status_t tn_onnx_sparse(const tn_onnx_sparse_t *sparse, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor);

#endif
