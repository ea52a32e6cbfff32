// A typed function of tvm-ffi that does nothing, for bench/tvm_ffi_calls.py.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

void nop_(tvm::ffi::TensorView, tvm::ffi::TensorView, tvm::ffi::TensorView) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(nop, nop_)
