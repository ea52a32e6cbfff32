// Copies between the device and the CPU, on a device, and between devices.
#include "backend.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <torch/library.h>

namespace tenon_torch {
namespace {

bool is_on_device(const at::Tensor &t) { return t.device().type() == device_type; }

// Returns a tensor over the bytes from the first element of a tensor to the last one.
at::Tensor bytes_of(const at::Tensor &t) {
  const size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize());
  const int64_t begin = t.storage_offset() * (int64_t)t.itemsize();
  return at::empty({0}, t.options().dtype(at::kByte))
      .set_(t.storage(), begin, {(int64_t)bytes}, {1});
}

// Copies elements of one dtype and shape.  Only a copy between the device and pinned memory leaves
// the host's memory in use when the function returns, and only if `is_asynchronous`.
void copy_bits(const at::Tensor &from, const at::Tensor &to, bool is_asynchronous) {
  TensorRef source = bits_of(from);
  TensorRef destination = bits_of(to);
  check_status(tenon_tensor_copy_async(source.get(), destination.get()));
  const bool is_from_host = !is_on_device(from);
  const bool is_to_host = !is_on_device(to);
  if (!is_from_host && !is_to_host) return;
  if (is_asynchronous && owns_pinned(is_from_host ? from : to)) return;
  check_status(
      tenon_stream_synchronize(current_stream((is_from_host ? to : from).device().index())));
}

// Returns a tensor of the host with the same elements, strides and bits; also the memory between
// the elements is copied.
at::Tensor mirror(const at::Tensor &t) {
  const at::Tensor there = bytes_of(t);
  at::Tensor here = at::empty(there.sizes(), at::kByte);
  copy_bits(there, here, false);
  at::Tensor copy =
      at::empty({0}, t.options().device(at::kCPU)).set_(here.storage(), 0, t.sizes(), t.strides());
  copy._set_conj(t.is_conj());
  copy._set_neg(t.is_neg());
  return copy;
}

void count_copy() {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_copy_from", "");
  count_fallback(op);
}

// Copies by way of host memory: whatever dtypes, bits, strides and ranks are.
void copy_through_host(const at::Tensor &from, const at::Tensor &to) {
  if (is_on_device(from) && is_on_device(to)) count_copy();
  const at::Tensor here = is_on_device(from) ? mirror(from) : from;
  if (!is_on_device(to)) {
    to.copy_(here);
    return;
  }
  at::Tensor there = mirror(to);
  there.copy_(here);
  copy_bits(bytes_of(there), bytes_of(to), false);
}

// Would Tenon copy between these tensors of the device by way of host memory?
bool needs_host(const at::Tensor &from, const at::Tensor &to) {
  const bool is_dense = from.is_contiguous() && to.is_contiguous();
  if (is_dense || !is_on_device(from) || !is_on_device(to)) return false;
  return from.device() != to.device() || from.itemsize() > 8 ||
         !compiles_kernels(to.device().index());
}

bool cast_on_device(const at::Tensor &from, const at::Tensor &to) {
  static const tenon_op_t *const op = [] {
    const tenon_op_t *found = nullptr;
    check_status(tenon_op_find("core::cast", &found));
    return found;
  }();
  TensorRef source = view_of(from);
  TensorRef destination = view_of(to);
  if (!source || !destination) return false;
  tenon_value_t values[2] = {};
  values[0].kind = TENON_KIND_TENSOR;
  values[0].as.tensor = source.get();
  values[1].kind = TENON_KIND_DTYPE;
  values[1].as.dtype = destination.get()->dtype;
  TensorRef made;
  const tenon_status_t status = tenon_op_call_values(op, values, 2, made.receive(), 0);
  if (status == TENON_UNIMPLEMENTED || status == TENON_INVALID) { // no such cast
    keep_refusal();
    return false;
  }
  check_status(status);
  check_status(tenon_tensor_copy_async(made.get(), destination.get()));
  return true;
}

at::Tensor copy_from(const at::Tensor &source, const at::Tensor &to, bool is_asynchronous) {
  const at::Tensor from = source.sizes() == to.sizes() ? source : source.expand_as(to);
  if (!to.numel()) return to;
  at::assert_no_internal_overlap(to);
  at::assert_no_partial_overlap(to, from);
  const bool is_same_bits = from.is_conj() == to.is_conj() && from.is_neg() == to.is_neg();
  const bool has_rank = from.dim() <= TENON_RANK_MAX;
  const bool is_plain = is_same_bits && has_rank;
  if (is_plain && from.scalar_type() == to.scalar_type()) {
    if (needs_host(from, to)) count_copy();
    copy_bits(from, to, is_asynchronous);
  } else if (is_plain && !is_on_device(from) && !to.is_conj() && !to.is_neg()) {
    copy_bits(from.to(to.scalar_type()), to, false);
  } else if (is_plain && !is_on_device(to)) {
    to.copy_(at::empty_like(to, to.options().dtype(from.scalar_type())).copy_(from));
  } else if (!is_plain || from.device() != to.device() || !cast_on_device(from, to)) {
    copy_through_host(from, to);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to) {
  if (to.sizes() != from.sizes()) {
    to.resize_(from.sizes());
    if (from.is_non_overlapping_and_dense()) to.as_strided_(from.sizes(), from.strides());
  }
  return copy_from(from, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor &t) { return at::_local_scalar_dense(t.cpu()); }

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

// copy_from handles these bits. Otherwise PyTorch would resolve them by a clone, which is a copy,
// and write the results of the fallback to the clone.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

} // namespace tenon_torch
