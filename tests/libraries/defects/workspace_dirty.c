/* counts: how often each of 16 numbers occurs in x, counted in a workspace. Defect: it assumes that
 * the workspace contains zeros.
 * Found as: workspace.contents */
#include "defect.h"

static tenon_status_t counts_infer(tenon_infer_t *infer) {
  infer->workspace = tenon_extent(16 * (int64_t)sizeof(int64_t));
  return TENON_OK;
}

static tenon_status_t counts_run(tenon_call_t *call) {
  int64_t *counts = (int64_t *)call->workspace;
  for (int i = 0; PLANTED(0, 1) && i < 16; i++)
    counts[i] = 0;
  for (int64_t i = 0, n = count_in(call, 0); i < n; i++)
    counts[((const uint8_t *)call->inputs[0]->data)[i] % 16]++;
  for (int i = 0; i < 16; i++)
    ((int64_t *)call->outputs[0]->data)[i] = counts[i];
  return TENON_OK;
}

/* clang-format off */
TENON_LIBRARY(defect, "1.0.0",
  TENON_OP("counts(Tensor x) -> Tensor",
    TENON_TYPES("x: u8; out = i64"), TENON_SHAPES("out: [16]"), PURE, TENON_INFER(counts_infer),
    TENON_KERNEL("cpu", counts_run)))
