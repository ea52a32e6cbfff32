/* Operators of the library `contract` that draw random numbers: in a loop, in a parallel kernel,
 * and through called operators. */
#include "contract.h"

static tenon_status_t dropout_f32(const tenon_loop_t *loop) {
  const float *x = (const float *)loop->data[0];
  float *out = (float *)loop->data[1];
  float scale = (float)(1 / (1 - loop->attrs[0].as.f));
  uint8_t *mask = (uint8_t *)loop->data[2];
  uint32_t least = (uint32_t)(loop->attrs[0].as.f * 4294967296.0);
  for (int64_t i = 0; i < loop->count; i++) {
    int keep = tenon_random(loop->seed, loop->offset + loop->first + (uint64_t)i) >= least;
    float kept = keep ? x[i] * scale : 0;
    out[i] = kept;
    if (mask) mask[i] = (uint8_t)keep;
  }
  return TENON_OK;
}

/* It draws two numbers for each element. */
static tenon_status_t noise_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  tenon_dim_t count = tenon_extent(2);
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++) {
    out->dims[d] = x->dims[d];
    count = tenon_dim(infer, TENON_DIM_MUL, count, x->dims[d]);
  }
  infer->draws = count;
  return TENON_OK;
}

static tenon_status_t noise_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  uint64_t *out = (uint64_t *)argument;
  const tenon_random_t *r = call->random;
  for (int64_t i = begin; i < end; i++)
    out[i] = (uint64_t)tenon_random(r->seed, r->offset + 2 * (uint64_t)i) << 32 |
             tenon_random(r->seed, r->offset + 2 * (uint64_t)i + 1);
  return TENON_OK;
}

static tenon_status_t noise_run(tenon_call_t *call) {
  if (!call->random) return tenon_fail(call, TENON_INTERNAL, "no random numbers are given");
  return call->host->parallel(call, tenon_count(call->outputs[0]), 256, noise_part,
                              call->outputs[0]->data);
}

static tenon_status_t twice_run(tenon_call_t *call) {
  for (uint32_t o = 0; o < 2; o++) {
    tenon_tensor_t *outputs[2];
    outputs[0] = outputs[1] = NULL;
    TENON_TRY(call->host->invoke(call, call->uses[0], NULL, call->inputs, outputs));
    TENON_TRY(call->host->assign(call, o, outputs[0]));
  }
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(contract_random,
  TENON_OP("dropout(Tensor x, *, float ratio=0.5) -> (Tensor out, Tensor? mask)",
    TENON_TYPES("x: f16|f32; out = x; mask = bool"),
    TENON_TRAITS(TENON_PURE | TENON_POINTWISE | TENON_RANDOM),
    TENON_LOOP("f32 -> f32, bool", dropout_f32)),
  TENON_OP("noise(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = u64"),
    TENON_TRAITS(TENON_PURE | TENON_RANDOM),
    TENON_INFER(noise_infer),
    TENON_KERNEL("cpu strided", noise_run)),
  TENON_OP("dropped_twice(Tensor x) -> (Tensor first, Tensor second)",
    TENON_TYPES("x: f32; first, second = x"),
    TENON_TRAITS(TENON_PURE | TENON_RANDOM),
    TENON_USES("dropout"),
    TENON_COMPOSITE(twice_run)))
