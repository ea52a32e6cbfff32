/* With PROBE, a library of Tenon that finds the device `sim`; otherwise functions of tvm-ffi that
 * use it: they enqueue work in the stream that tvm-ffi's environment reports. */
#include "sim/sim.h"

#ifdef PROBE
#include <tenon/op.h>

static tenon_status_t addresses_infer(tenon_infer_t *infer) {
  infer->outputs[0]->ndim = 1;
  infer->outputs[0]->dims[0] = tenon_extent(2);
  return TENON_OK;
}

static tenon_status_t addresses_run(tenon_call_t *call) {
  int64_t *out = call->outputs[0]->data;
  out[0] = (int64_t)(intptr_t)call->host->native(call, "sim");
  out[1] = (int64_t)(intptr_t)call->device;
  return TENON_OK;
}

TENON_LIBRARY(probe, "1.0",
              TENON_OP("addresses(Tensor x) -> Tensor @host", TENON_TYPES("x: f32; out = i64"),
                       TENON_INFER(addresses_infer), TENON_KERNEL("sim", addresses_run)))

#else
#include "abi.h"

void *TVMFFIEnvGetStream(int32_t type, int32_t id);

#define FUNCTION(name)                                                                             \
  __attribute__((visibility("default"))) int __tvm_ffi_##name(                                     \
      void *self, const ffi_any_t *arguments, int32_t count, ffi_any_t *result)

static void *stream_of(const ffi_dltensor_t *x) {
  return TVMFFIEnvGetStream(x->device.type, x->device.id);
}

static tenon_status_t negate_floats(void *argument, void *const *addresses, char *message) {
  const float *from = addresses[0];
  float *to = addresses[1];
  (void)message;
  for (int64_t i = 0; i < *(const int64_t *)argument; i++)
    to[i] = -from[i];
  return TENON_OK;
}

FUNCTION(negate) { /* (x, out, table, ordinal) */
  const ffi_dltensor_t *x = arguments[0].as.pointer;
  const ffi_dltensor_t *out = arguments[1].as.pointer;
  const sim_table_t *sim = (const sim_table_t *)(intptr_t)arguments[2].as.integer;
  tenon_on_t on = (tenon_on_t)(intptr_t)arguments[3].as.integer;
  const uint64_t bytes = (uint64_t)x->shape[0] * sizeof(float);
  const sim_range_t ranges[2] = {{{x->data, x->byte_offset}, bytes, 0, 0},
                                 {{out->data, out->byte_offset}, bytes, 1, 0}};
  (void)self;
  (void)result;
  if (count != 4) return -1;
  return sim->enqueue(on, stream_of(x), 0, "negate", negate_floats, x->shape, sizeof *x->shape, 2,
                      ranges);
}

FUNCTION(used_stream) {
  const ffi_dltensor_t *x = arguments[0].as.pointer;
  (void)self;
  (void)count;
  *result = (ffi_any_t){.kind = FFI_INT, .as.integer = (int64_t)(intptr_t)stream_of(x)};
  return 0;
}
#endif
