/* Tensors that look at one memory: a base and its views.  Calls that make views tell of them; when
 * one of them is written to, all get histories that say so.  A tensor without views, and that is
 * none, has no alias and pays nothing. */
#ifndef TN_AUTOGRAD_ALIAS_H
#define TN_AUTOGRAD_ALIAS_H

#include "autograd/node.h"

typedef struct tn_alias_t tn_alias_t;

/* `view` is a view of `of`, or `of`'s memory under another header.  Nothing happens where no
 * gradient could come. */
tenon_status_t tn_alias_add(tenon_tensor_t *of, tenon_tensor_t *view);
/* The tensor that it belongs to got that history (NULL: none). */
void tn_alias_follow(tn_alias_t *alias, tn_history_t *history);

/* May it be written to by a call that is recorded?  Not a view of a leaf, nor one that was made
 * while nothing was recorded, nor one whose elements overlap. */
tenon_status_t tn_alias_check(const tenon_tensor_t *tensor, const char *op, const char *role,
                              const char *name);
/* What was made while nothing was recorded, of memory that was written to since while calls were:
 * its history is unknown. */
bool tn_alias_is_lost(const tenon_tensor_t *tensor);

/* A write to a tensor with an alias: begin gets all memory that it takes; finish gives it `history`
 * (NULL: none), and all that look at its memory one that says so; cancel when it was not written to
 * after all. */
tenon_status_t tn_alias_begin_write(tenon_tensor_t *tensor);
void tn_alias_finish_write(tenon_tensor_t *tensor, tn_history_t *history);
void tn_alias_cancel_write(tenon_tensor_t *tensor);

/* Backward of a node of kind VIEW or WRITE. */
tenon_status_t tn_geometry_run(const tn_node_t *node, tenon_tensor_t *grad, const bool *needs,
                               tenon_tensor_t **out_grads);

void tn_alias_start(void); /* sets the hook of core */

#endif
