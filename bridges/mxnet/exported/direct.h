/* Gradient formulas that are one call of an operator on the values that backward receives. They are
 * called directly on MXNet's memory, without the tape. All other formulas are evaluated by
 * backward.c. */
#ifndef BRIDGES_MXNET_EXPORTED_DIRECT_H
#define BRIDGES_MXNET_EXPORTED_DIRECT_H

#include "operator.h"

enum { DIRECT_MOST = 8 }; /* limits: tensors and attributes of a call */

typedef enum direct_kind_t {
  DIRECT_ABSENT,
  DIRECT_GRAD,
  DIRECT_INPUT,
  DIRECT_RESULT,
} direct_kind_t;
/* the source of a tensor: one of the values that backward receives */
typedef struct direct_source_t {
  direct_kind_t kind;
  int32_t index;
} direct_source_t;

/* The source of an attribute: attribute `from` of the operator itself or, if `from` is -1, a
 * literal. */
typedef struct direct_setting_t {
  const char *name;
  int32_t from;
  char literal[60];
} direct_setting_t;

typedef struct direct_t {
  const tenon_op_t *op;
  bool is_pointwise;
  int32_t source_count;
  int32_t setting_count;
  int32_t target_count;
  direct_source_t sources[DIRECT_MOST];
  direct_setting_t settings[DIRECT_MOST];
  int32_t targets[DIRECT_MOST]; /* the inputs that the results are the gradients of */
} direct_t;

/* Reads `call`, the gradient formula of these inputs. Returns false if it is not a single call on
 * the values that backward receives. */
bool direct_read(const operator_t *self, const int32_t *targets, int32_t target_count,
                 const char *call, const char *end, direct_t *out);
/* Makes the attributes of the call from those of a node. Returns NULL if they do not fit; the
 * formula is then left to the tape. */
tenon_attrs_t *direct_attrs(const direct_t *direct, const tenon_value_t *values,
                            const tenon_value_t **out_values);

#endif
