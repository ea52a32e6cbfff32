/* Tensors of ONNX files: every way in which TensorProto stores elements, and its element types.
 * Called by the importer for weights and attributes, and by the reader of .pb files.  Elements that
 * lie in the file as they are in memory stay there: the tensor shares the mapping. */
#ifndef TN_ONNX_TENSOR_H
#define TN_ONNX_TENSOR_H

#include "base/map.h"
#include "core/tensor.h"
#include "import/onnx/model.h"

typedef struct tn_weights_t { /* where elements lie */
  tn_storage_t *file;         /* the model's own bytes */
  const char *folder; /* of external files; NULL: there are none, as the model came from memory */
  tn_map_t external;  /* tn_storage_t by path, each mapped once */
} tn_weights_t;

/* Maps a file as memory that tensors share. */
tenon_status_t tn_weights_map(const char *path, tn_storage_t **out_storage);
void tn_weights_clear(tn_weights_t *weights); /* tensors keep what they need */

/* TensorProto.DataType; false: not a type of this runtime. */
bool tn_onnx_dtype(int64_t data_type, tenon_dtype_t *out_dtype);
int64_t tn_onnx_number(tenon_dtype_t dtype); /* the other way round; 0: ONNX has no such type */
/* Messages name the tensor, what was expected and what was found. */
tenon_status_t tn_onnx_tensor(const tn_onnx_tensor_t *tensor, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor);
tenon_status_t tn_onnx_sparse(const tn_onnx_sparse_t *sparse, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor);

#endif
