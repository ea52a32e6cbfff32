/* reversed: a row backwards, computed in a workspace. The file that includes this header decides
 * how much workspace infer requests, and where the kernel begins in it. */
#include "defect.h"

static tenon_status_t reversed_infer(tenon_infer_t *infer) {
  tenon_dim_t count = tenon_extent(1);
  tenon_dim_t four = tenon_extent(4);
  for (int32_t d = 0; d < infer->inputs[0]->ndim; d++)
    count = tenon_dim(infer, TENON_DIM_MUL, count, infer->inputs[0]->dims[d]);
  infer->workspace = tenon_dim(infer, TENON_DIM_MUL,
                               tenon_dim(infer, TENON_DIM_ADD, count, tenon_extent(ROOM)), four);
  return TENON_OK;
}

static tenon_status_t reversed_run(tenon_call_t *call) {
  float *room = (float *)call->workspace;
  int64_t n = count_in(call, 0);
  for (int64_t i = 0; i < n; i++)
    room[i + FROM] = f32_in(call, 0)[n - 1 - i];
  for (int64_t i = 0; i < n; i++)
    f32_out(call, 0)[i] = room[i + FROM];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("reversed(Tensor x) -> Tensor",
    TENON_TYPES("x: f32; out = x"), TENON_SHAPES("out = x"), PURE, TENON_INFER(reversed_infer),
    TENON_KERNEL("cpu", reversed_run)))
