/* Functions of programs in the history: forward and backward with what they saved.  Public part:
 * tenon.h. */
#ifndef TN_AUTOGRAD_FUNCTION_H
#define TN_AUTOGRAD_FUNCTION_H

#include <tenon/tenon.h>

#include "autograd/node.h"

typedef struct tn_function_t tn_function_t;

/* What a node of a function knows; made with the node, NULL is fine. */
struct tn_function_t {
  const char *name; /* a copy behind it */
  tenon_status_t (*backward)(tenon_function_call_t *call);
  void *context;
  tenon_free_fn destroy;
  tn_saved_t *saved;
  uint32_t saved_count;
};
void tn_function_clear(tn_function_t *function); /* lets go of what it saved */
void tn_function_free(tn_function_t *function);
/* Calls backward: `grads` of the results (NULL: none came), `out_grads` of the inputs. */
tenon_status_t tn_function_backward(const tn_node_t *node, tenon_tensor_t *const *grads,
                                    const bool *needs, tenon_tensor_t **out_grads);

#endif
