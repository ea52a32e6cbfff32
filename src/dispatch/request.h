/* The arguments of one call in one structure: those of tenon_op_call and what the host adds. */
#ifndef TN_DISPATCH_REQUEST_H
#define TN_DISPATCH_REQUEST_H

#include "operator/op.h"

typedef struct tn_request_t {
  const tenon_op_t *op;
  const tenon_value_t *attrs; /* NULL: the operator's defaults */
  void *state;                /* NULL: the operator's state for these attributes */
  tenon_tensor_t *const *inputs;
  tenon_tensor_t **outputs;
  uint64_t wanted;              /* bit i: optional output i is wanted; 0: all are */
  bool may_create;              /* true: outputs that are NULL are created; false: all are given */
  const tenon_random_t *random; /* NULL: the call takes its own random numbers */
  bool is_apart;                /* what is written to shares no memory with other arguments */
} tn_request_t;

#endif
