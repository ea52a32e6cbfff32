/* Given outputs: random strided tensors in one block of memory are compared like all pairs. */
#include "graph/given_outputs.h"

#include <stdlib.h>

#include "base/scratch.h"
#include "check.h"
#include "storage/overlap.h"

enum {
  INPUTS = 5,
  OUTPUTS = 6,
  ELEMENTS = 256,
};

static uint64_t seed = 2026;
static uint64_t pick(uint64_t count) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % count;
}

static tenon_tensor_t tensors[INPUTS + OUTPUTS];
static int64_t shapes[INPUTS + OUTPUTS][2];
static int64_t strides[INPUTS + OUTPUTS][2];
static float memory[ELEMENTS];

/* A dense tensor, or one with a gap after each element, of up to 9 elements. */
static tenon_tensor_t *pick_tensor(int i) {
  shapes[i][0] = 1 + (int64_t)pick(3);
  shapes[i][1] = (int64_t)pick(4);
  strides[i][1] = 1 + (int64_t)pick(3);
  strides[i][0] = strides[i][1] * shapes[i][1] + (int64_t)pick(8);
  int64_t reach = 3 * strides[i][0] + 3 * strides[i][1] + 1;
  float *begin = memory + pick((uint64_t)(ELEMENTS - reach));
  CHECK_STATUS(
      tenon_tensor_view(&tensors[i], begin, tenon_dtype(TENON_F32), 2, shapes[i], strides[i], NULL),
      TENON_OK);
  return pick(8) ? &tensors[i] : NULL;
}

TEST("given outputs share memory where a comparison of all pairs says so") {
  const char *names[OUTPUTS] = {"a", "b", "c", "d", "e", "f"};
  const tenon_graph_t graph = {
      .input_count = INPUTS, .output_count = OUTPUTS, .output_names = names};
  int refused = 0;
  int overwritten = 0;
  for (int round = 0; round < 20000; round++) {
    tenon_tensor_t *inputs[INPUTS], *outputs[OUTPUTS];
    bool is_overwritten[INPUTS];
    bool any = false;
    bool overlap = false;
    for (int i = 0; i < INPUTS; i++)
      inputs[i] = pick_tensor(i);
    for (int o = 0; o < OUTPUTS; o++)
      outputs[o] = pick_tensor(INPUTS + o);
    for (int o = 0; o < OUTPUTS; o++)
      for (int k = 0; k < o; k++)
        overlap |= outputs[o] && outputs[k] && tn_tensors_share(outputs[o], outputs[k]);
    tn_scratch_mark_t mark = tn_scratch_mark();
    tenon_status_t status = tn_given_outputs_check(&graph, inputs, outputs, is_overwritten, &any);
    tn_scratch_reset(mark);
    CHECK_STATUS(status, overlap ? TENON_INVALID : TENON_OK);
    refused += overlap;
    for (int i = 0; i < INPUTS && !overlap; i++) {
      bool shares = false;
      for (int o = 0; o < OUTPUTS; o++)
        shares |= inputs[i] && outputs[o] && tn_tensors_share(inputs[i], outputs[o]);
      CHECK(is_overwritten[i] == shares && (any || !shares));
      overwritten += shares;
    }
  }
  CHECK(refused > 1000 && refused < 19000 && overwritten > 1000);
}
