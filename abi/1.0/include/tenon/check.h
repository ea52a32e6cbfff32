/* tenon/check.h: items that make an operator testable: example inputs, and a reference function.
 *
 * Both stand among the items of an operator.  Calls use neither of them; `tenon check` and `tenon
 * bench` do.  Without TENON_SAMPLES these commands create arguments from TENON_TYPES and
 * TENON_SHAPES alone; without TENON_REFERENCE they have no reference results. */
#ifndef TENON_CHECK_H
#define TENON_CHECK_H

#include <tenon/op.h>

/* Example inputs: "index: i64[n] integers(0, rows), table: [rows, d]; ..., axis = -1".
 * docs/contract.md, "Samples", defines the language. */
#define TENON_SAMPLES(text) TENON_TEXT_(SAMPLES, text)

/* A reference implementation: a slow and simple tenon_run_fn that computes the expected results.
 *
 * It receives dense row-major tensors on the CPU, of every dtype that TENON_TYPES allows.  If it
 * returns TENON_UNIMPLEMENTED, the results of this call are not compared. */
#define TENON_REFERENCE(f) TENON_FN_(REFERENCE, 0, tenon_call_t, f)

#endif
