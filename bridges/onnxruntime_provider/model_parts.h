/* Tensors and attributes of nodes, in the format of ONNX; the parts of model.c without graphs. */
#ifndef BRIDGES_ONNXRUNTIME_PROVIDER_MODEL_PARTS_H
#define BRIDGES_ONNXRUNTIME_PROVIDER_MODEL_PARTS_H

#include "api.h"
#include "common/message.h"

enum { MODEL_RANK_MOST = 64, MODEL_SUBGRAPHS_MOST = 16 };

/* The number of an element type in files, which differs from ONNX Runtime's from 24 on. */
int model_element(int element);
/* Writes a tensor as a field. */
tenon_status_t model_write_tensor(message_t *m, uint32_t field, const char *name,
                                  const OrtValue *value);
/* Writes the attributes of a node, other than graphs. */
tenon_status_t model_write_attributes(message_t *m, const OrtNode *node);
/* Reads the bytes of an attribute; *out_size is their number.
 *
 * Ownership: the caller frees *out_data. */
tenon_status_t model_read_attribute(const OrtOpAttr *attribute, int type, void **out_data,
                                    size_t *out_size);

#endif
