/* Iterators: what stubs and loops of pointwise operators and reductions work on. */
#ifndef TN_DRIVERS_ITERATOR_H
#define TN_DRIVERS_ITERATOR_H

#include <tenon/iterator.h>

#include "operator/frame.h"

/* Has the operator a stub: is it pointwise, or does it say REDUCES, with no lists among its
 * arguments? */
bool tn_op_has_stub(const tenon_op_t *op);
/* Over the arguments of a call, in scratch memory; copies of inputs that a result would overwrite
 * are the frame's. Nothing to do: begin = end. */
tenon_status_t tn_iterator_make(tenon_call_t *call, tenon_iterator_t *out_iterator);
/* The parent kernel of a stub: makes the iterator and calls the frame's kernel with it. */
tenon_status_t tn_stub_run(tenon_call_t *call);
/* The host's service of that name. */
tenon_status_t tn_iterator_split(const tenon_iterator_t *iterator, int64_t grain,
                                 tenon_stub_fn part, void *context);

#endif
