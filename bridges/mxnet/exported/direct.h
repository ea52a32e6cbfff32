/* Gradient formulas that are one call of an operator on the values that backward receives. They are
 * called directly on MXNet's memory, without the tape. All other formulas are evaluated by
 * backward.c. */
#ifndef BRIDGES_MXNET_EXPORTED_DIRECT_H
#define BRIDGES_MXNET_EXPORTED_DIRECT_H

#include "operator.h"

enum { DIRECT_MOST = 8 }; /* rules of an operator; tensors and attributes of a call */

typedef enum direct_kind_t {
  DIRECT_ABSENT,
  DIRECT_GRAD,
  DIRECT_INPUT,
  DIRECT_RESULT,
} direct_kind_t;
typedef struct direct_source_t { /* of a tensor: which one of backward's */
  direct_kind_t kind;
  int32_t index;
} direct_source_t;

typedef struct
    direct_setting_t { /* of an attribute: that of the operator itself, or (from -1) a literal */
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
  int32_t targets[DIRECT_MOST]; /* the inputs whose gradients the results are */
} direct_t;

/* Reads `call`, which is the rule of these inputs; false: it is none of that kind. */
bool direct_read(const operator_t *self, const int32_t *targets, int32_t target_count,
                 const char *call, const char *end, direct_t *out);
/* Attributes of the call for those of a node; NULL: they do not fit, and the rule is recorded. */
tenon_attrs_t *direct_attrs(const direct_t *direct, const tenon_value_t *values,
                            const tenon_value_t **out_values);

#endif
