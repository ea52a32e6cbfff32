/* Tensors that share one memory: a base and its views. Calls that create views report them here. A
 * write to one of the tensors gives all of them histories that include the write. A tensor without
 * views that is not a view itself has no alias and costs nothing. */
#ifndef TN_AUTOGRAD_ALIAS_H
#define TN_AUTOGRAD_ALIAS_H

#include "autograd/node.h"

typedef struct tn_alias_t tn_alias_t;

/* Notes that `view` is a view of `of`, or the same memory under another header. Does nothing if no
 * gradient is possible. */
tenon_status_t tn_alias_add(tenon_tensor_t *of, tenon_tensor_t *view);
/* Notes that the alias' tensor got this history (NULL: none). */
void tn_alias_follow(tn_alias_t *alias, tn_history_t *history);

/* Checks whether a recorded call may write to the tensor. Errors: the tensor is a view of a leaf,
 * was created while recording was off, or has overlapping elements. */
tenon_status_t tn_alias_check(const tenon_tensor_t *tensor, const char *op, const char *role,
                              const char *name);
/* Was the view created while recording was off, and its memory written to since while recording was
 * on? Its history is then unknown. */
bool tn_alias_is_lost(const tenon_tensor_t *tensor);

/* A write to a tensor with an alias. begin allocates all memory; finish gives the tensor `history`
 * (NULL: none), and all tensors that share its memory a history that includes the write; cancel is
 * for a write that did not happen. */
tenon_status_t tn_alias_begin_write(tenon_tensor_t *tensor);
void tn_alias_finish_write(tenon_tensor_t *tensor, tn_history_t *history);
void tn_alias_cancel_write(tenon_tensor_t *tensor);

/* Backward of a node of kind VIEW or WRITE. */
tenon_status_t tn_geometry_run(const tn_node_t *node, tenon_tensor_t *grad, const bool *needs,
                               tenon_tensor_t **out_grads);

void tn_alias_start(void); /* installs the hook of core */

#endif
