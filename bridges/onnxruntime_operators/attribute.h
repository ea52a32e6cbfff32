/* The attributes of a node, as a kernel and as inference reads them. */
#ifndef BRIDGES_ONNXRUNTIME_OPERATORS_ATTRIBUTE_H
#define BRIDGES_ONNXRUNTIME_OPERATORS_ATTRIBUTE_H

#include "operator.h"

/* One of the two is set. */
typedef struct source_t {
  const OrtKernelInfo *info;
  const OrtShapeInferContext *context;
} source_t;

/* Reads an int. Returns false if the attribute is absent or of another type. */
bool attribute_int(const source_t *source, const char *name, int64_t *out);
/* Reads a list of ints, which the caller frees. Returns NULL if it is absent or empty. */
int64_t *attribute_ints(const source_t *source, const char *name, size_t *out_count);
/* Reads floats, or one, with 64 bits if the node states a tensor; the caller frees them. Returns
 * NULL if the attribute is absent or of another type. */
double *attribute_numbers(const source_t *source, const char *name, size_t *out_count);

/* Creates the attributes of a node: those that it states, and defaults.
 *
 * Arguments: `out_counts`: the number of tensors of each result, which an attribute that states the
 * length of a list takes if the node leaves it out; NULL: not known.
 * Errors: TENON_INVALID for an attribute of the wrong type or value, and for missing ones;
 * TENON_UNIMPLEMENTED for one that ONNX Runtime cannot pass at this place. */
tenon_status_t attributes_read(const operator_t *self, const source_t *source,
                               const int32_t *out_counts, tenon_attrs_t **out_attrs,
                               const tenon_value_t **out_values);

#endif
