/* unpack: x, in memory of the library's own. Defect: it adopts the memory of x itself.
 * Found as: alias.undeclared */
#include <stdlib.h>
#include <string.h>

#include "defect.h"

#ifdef DEFECT
static void keep(void *memory) { (void)memory; }
#endif

static tenon_status_t unpack_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_dim(infer, TENON_DIM_BOUND, tenon_extent(-1), tenon_extent(0));
  return TENON_OK;
}

static tenon_status_t unpack_run(tenon_call_t *call) {
  int64_t n = count_in(call, 0);
#ifdef DEFECT
  return call->host->adopt(call, 0, 1, &n, call->inputs[0]->data, keep, call->inputs[0]->data);
#else
  float *own = (float *)malloc((size_t)n * sizeof *own + 64);
  if (!own) return tenon_fail(call, TENON_MEMORY, "no memory for %lld elements", (long long)n);
  memcpy(own, call->inputs[0]->data, (size_t)n * sizeof *own);
  tenon_status_t status = call->host->adopt(call, 0, 1, &n, own, free, own);
  if (status != TENON_OK) free(own);
  return status;
#endif
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("unpack(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), PURE, TENON_INFER(unpack_infer),
    TENON_KERNEL("cpu", unpack_run)))
