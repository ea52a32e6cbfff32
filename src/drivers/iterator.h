/* Iterators, by which stubs and loops of pointwise operators and reductions go over their
 * arguments. */
#ifndef TN_DRIVERS_ITERATOR_H
#define TN_DRIVERS_ITERATOR_H

#include <tenon/iterator.h>

#include "operator/frame.h"

/* Returns whether the operator can have stubs: it has results, is pointwise or says REDUCES, and
 * none of its arguments is a list. */
bool tn_op_has_stub(const tenon_op_t *op);
/* Makes an iterator over the arguments of a call, in scratch memory. The frame owns copies of
 * inputs that a result would overwrite. If there is nothing to do, begin = end. */
tenon_status_t tn_iterator_make(tenon_call_t *call, tenon_iterator_t *out_iterator);
/* Does the same if no result shares memory with an input; the addresses of tensors are not read. */
tenon_status_t tn_iterator_make_apart(tenon_call_t *call, tenon_iterator_t *out_iterator);
/* The parent kernel of stubs: makes the iterator and calls the stub of the frame's kernel with
 * it. */
tenon_status_t tn_stub_run(tenon_call_t *call);
/* The host's service `split`. */
tenon_status_t tn_iterator_split(const tenon_iterator_t *iterator, int64_t grain,
                                 tenon_stub_fn part, void *context);

#endif
