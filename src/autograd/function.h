/* Functions of programs on the tape: forward, backward and what forward saved. The public part is
 * in tenon.h. */
#ifndef TN_AUTOGRAD_FUNCTION_H
#define TN_AUTOGRAD_FUNCTION_H

#include <tenon/tenon.h>

#include "autograd/node.h"

typedef struct tn_function_t tn_function_t;

/* The part of a tape node that belongs to a function. Created with the node; NULL is accepted
 * everywhere. */
struct tn_function_t {
  const char *name; /* a copy, stored after this structure */
  tenon_status_t (*backward)(tenon_function_call_t *call);
  void *context;
  tenon_free_fn destroy;
  tn_saved_t *saved;
  uint32_t saved_count;
};
void tn_function_clear(tn_function_t *function); /* releases the saved tensors */
void tn_function_free(tn_function_t *function);
/* Calls backward. `grads` belong to the results (NULL: none arrived), `out_grads` to the inputs. */
tenon_status_t tn_function_backward(const tn_node_t *node, tenon_tensor_t *const *grads,
                                    const bool *needs, tenon_tensor_t **out_grads);

#endif
