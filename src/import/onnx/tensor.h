/* Reads tensors of ONNX files: every way in which TensorProto stores elements, and its element
 * types. Called by the importer for weights and attributes, and by the reader of .pb files. */
#ifndef TN_ONNX_TENSOR_H
#define TN_ONNX_TENSOR_H

#include "import/onnx/model.h"
#include "import/weights.h"

/* Converts a TensorProto.DataType; false: this runtime does not have the type. */
bool tn_onnx_dtype(int64_t data_type, tenon_dtype_t *out_dtype);
int64_t tn_onnx_number(tenon_dtype_t dtype); /* the inverse; 0: ONNX does not have the type */
/* Messages of the following functions name the tensor, what was expected and what was found. */
/* Converts a sequence or an optional value to a list of tensors, or of lists of them. */
tenon_status_t tn_onnx_list(const tn_onnx_list_t *list, tn_weights_t *weights,
                            tenon_tensor_t **out_list);
tenon_status_t tn_onnx_tensor(const tn_onnx_tensor_t *tensor, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor);
tenon_status_t tn_onnx_sparse(const tn_onnx_sparse_t *sparse, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor);

#endif
