/* tenon/check.h: what an author states of an operator so that it can be tried: calls with arguments that suit it, and a plain
 * function that gives the same results.  Both stand among the operator's items; neither is used in a call.  `tenon check` and
 * `tenon bench` read them, and do without where they are not there: then arguments are made from TYPES and SHAPES alone. */
#ifndef TENON_CHECK_H
#define TENON_CHECK_H

#include <tenon/op.h>

/* "index: i64[n] integers(0, rows), table: [rows, d]; ..., axis = -1": docs/contract.md, Samples. */
#define TENON_SAMPLES(text) TENON_TEXT_(SAMPLES, text)
/* Computes the results in the plainest way, from dense row-major tensors on the CPU: a tenon_run_fn as a KERNEL's, for every
 * dtype that TYPES allows, slow and surely right.  A call it returns TENON_UNIMPLEMENTED for is not compared. */
#define TENON_REFERENCE(f) TENON_FN_(REFERENCE, 0, tenon_call_t, f)

#endif
