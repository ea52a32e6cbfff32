// The operator that bench/jax.py calls, written by hand against XLA's headers: y = x * by.
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scale(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  const float *from = x.typed_data();
  float *to = y->typed_data();
  const int64_t count = static_cast<int64_t>(x.element_count());
  for (int64_t i = 0; i < count; i++)
    to[i] = from[i] * by;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    scale_by_hand, Scale,
    ffi::Ffi::Bind().Attr<float>("by").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
