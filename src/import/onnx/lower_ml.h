/* What the lowerings of ai.onnx.ml share: calls with attributes that are built from the node's,
 * scores and labels. */
#ifndef TN_ONNX_LOWER_ML_H
#define TN_ONNX_LOWER_ML_H

#include "import/onnx/lower.h"

/* Whether the node has failed or is not supported: nothing more is built. */
bool tn_ml_has_stopped(const tn_lower_t *lower);

/* An attribute of a call of a core operator. */
typedef struct tn_ml_attr_t {
  const char *name;
  tenon_value_t value;
} tn_ml_attr_t;

tenon_value_t tn_ml_int(int64_t value);
tenon_value_t tn_ml_text(const char *value);
/* The tensor must belong to the import: see tn_ml_tensor. */
tenon_value_t tn_ml_held(tenon_tensor_t *tensor);
/* Creates a tensor that the import releases at its end; NULL on failure. */
tenon_tensor_t *tn_ml_tensor(tn_lower_t *lower, tenon_dtype_t dtype, int32_t ndim,
                             const int64_t *shape);
/* The tensor of a constant; NULL on failure. */
tenon_tensor_t *tn_ml_constant(tn_lower_t *lower, tn_ref_t *edge);
/* Calls a core operator and returns its results; NULL on failure. */
tn_ref_t **tn_ml_call(tn_lower_t *lower, const char *name, const tn_ml_attr_t *attrs, size_t count,
                      tn_ref_t *x);

/* The first input as a matrix of a dtype; a vector is one row. */
tn_ref_t *tn_ml_rows(tn_lower_t *lower, const char *dtype);
/* A list of floats, also if the node states it as a tensor NAME_as_tensor. Returns NULL with
 * *out_count 0 if the node has neither. */
const double *tn_ml_floats(tn_lower_t *lower, const char *name, size_t *out_count);
/* A list of ints; NULL with *out_count 0 if the node does not have it. */
const int64_t *tn_ml_ints(tn_lower_t *lower, const char *name, size_t *out_count);
/* A constant of f32 [rows, columns], or [columns] if rows is 0. */
tn_ref_t *tn_ml_matrix(tn_lower_t *lower, const double *values, int64_t rows, int64_t columns);
/* The attribute post_transform as a choice of core::classify. */
const char *tn_ml_transform(tn_lower_t *lower);
/* Transforms scores [rows, columns]. A single column is only transformed by PROBIT, as ONNX Runtime
 * does. */
tn_ref_t *tn_ml_transformed(tn_lower_t *lower, tn_ref_t *scores, int64_t columns,
                            const char *transform);
/* The class labels of the node, which it states as ints or as strings; NULL on failure. */
tn_ref_t *tn_ml_labels(tn_lower_t *lower, const char *ints, const char *strings,
                       int64_t *out_count);

/* How a model finds labels and scores; see core::classify. */
typedef struct tn_ml_classes_t {
  const char *transform;
  const char *second;
  const char *rule;
  double threshold;
} tn_ml_classes_t;
/* Sets the outputs of a classifier: labels and scores. */
void tn_ml_classify(tn_lower_t *lower, tn_ref_t *scores, tn_ref_t *labels,
                    const tn_ml_classes_t *classes);

#endif
