/* The error for calls of an operator that a reload ended.  Calls, and code that holds operators,
 * report it. */
#include "operator/op.h"

#include "base/status.h"

tenon_status_t tn_op_ended(const tenon_op_t *op) {
  return tn_fail(
      TENON_PRECONDITION,
      "%s: its library was reloaded, and has no operator of this schema any more: find it anew",
      op->name);
}
