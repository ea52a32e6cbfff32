// The operators that PyTorch asks of every device: creating tensors, views, storages, and the
// fallback to the CPU for all others.
#include "backend.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <pthread.h>

#include <map>
#include <mutex>
#include <set>

namespace tenon_torch {

// ---- creation ----------------------------------------------------------------------------------

namespace {

constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);

void check_options(std::optional<at::Layout> layout, std::optional<at::Device> device,
                   std::optional<bool> is_pinned_wanted) {
  TORCH_CHECK(!device || device->type() == device_type, "expected a device of type ", device_name(),
              ", found ", device ? device->str() : "none");
  TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == at::kStrided, "device ",
                              device_name(), " has dense tensors only, found the layout ",
                              c10::layout_or_default(layout));
  TORCH_CHECK(!c10::pinned_memory_or_default(is_pinned_wanted),
              "pin_memory: only dense CPU tensors can be pinned, and this one is on ",
              device_name());
}

// PyTorch fills new memory in deterministic mode, so that reading it gives equal results.
at::Tensor filled(at::Tensor made) {
  const at::Context &context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())
    at::native::fill_empty_deterministic_(made);
  return made;
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  check_options(layout, device, pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return filled(at::detail::empty_generic(size, &device_allocator(), keys,
                                          c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  check_options(layout, device, pin_memory);
  const c10::OptionalDeviceGuard guard(device);
  return filled(at::detail::empty_strided_generic(size, stride, &device_allocator(), keys,
                                                  c10::dtype_or_default(dtype)));
}

// ---- storages ----------------------------------------------------------------------------------

// Makes sure that the storage of a tensor reaches its last element.
void grow_storage(const at::Tensor &t) {
  if (!t.numel()) return;
  const size_t needed = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize(),
                                                         (size_t)t.storage_offset());
  if (needed > t.storage().nbytes()) resize_storage(t.storage(), needed);
}

const at::Tensor &resize_(const at::Tensor &self, at::IntArrayRef size,
                          std::optional<at::MemoryFormat> format) {
  at::TensorImpl *impl = self.unsafeGetTensorImpl();
  const size_t bytes_before = self.storage().nbytes();
  if (self.sizes() != size) impl->set_sizes_contiguous(size);
  if (format) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "resize_: unsupported memory format ",
                *format);
    impl->empty_tensor_restride(*format);
  }
  grow_storage(self);
  const at::Context &context = at::globalContext();
  if (context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory())
    at::native::fill_resize_deterministic_(self, (int64_t)bytes_before);
  return self;
}

at::Tensor &set_storage(at::Tensor &self, at::Storage source, int64_t offset, at::IntArrayRef size,
                        at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  at::TensorImpl *impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  if (stride.data() && stride.size() == size.size())
    impl->set_sizes_and_strides(size, stride);
  else
    impl->set_sizes_contiguous(size);
  grow_storage(self);
  return self;
}

at::Tensor &set_whole_storage(at::Tensor &self, at::Storage source) {
  const auto count = (int64_t)(source.nbytes() / self.itemsize());
  return set_storage(self, source, 0, {count}, {});
}

at::Tensor &set_nothing(at::Tensor &self) {
  at::Storage none(c10::Storage::use_byte_size_t(), 0, &device_allocator(), true);
  c10::DataPtr pointer(nullptr, self.device());
  none.set_data_ptr_noswap(std::move(pointer));
  return set_storage(self, none, 0, {0}, {});
}

void record_stream(at::Tensor &, c10::Stream) {} // Tenon knows which streams use which memory.

// ---- operators whose kernels PyTorch writes anew for each device -------------------------------

// Dropout with the generator of the device.
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor &input, double p,
                                                  std::optional<bool> train) {
  if (!input.numel()) return {input, at::empty_like(input, input.options().dtype(at::kBool))};
  if (train && !*train)
    return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
  if (p == 1) return {at::zeros_like(input), at::zeros_like(input, at::kBool)};
  // The same numbers as PyTorch draws for a tensor on the CPU.
  const at::Tensor noise = at::empty_like(input).bernoulli_(1 - p);
  return {input * noise.div_(1 - p), noise.to(at::kBool)};
}

at::Tensor native_dropout_backward(const at::Tensor &grad, const at::Tensor &mask, double scale) {
  return grad * mask * scale;
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("resize_", resize_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_", set_nothing);
  m.impl("is_set_to", at::native::is_set_to);
  m.impl("record_stream", record_stream);
  m.impl("native_dropout", native_dropout);
  m.impl("native_dropout_backward", native_dropout_backward);
}

// ---- the fallback to the CPU -------------------------------------------------------------------

namespace {

struct Fallback {
  int64_t count = 0;
  std::string reason; // the last one; "": there is no row for the operator
};
struct Fallbacks { // never destroyed: other threads may run at the end of the process
  std::mutex lock;
  std::map<std::string, Fallback> counts;
  std::set<std::string> denied; // "aten::abs", or "aten::abs.out"
  int strict = 0;               // the number of callers that made each fallback an error
};
Fallbacks &fallbacks = *new Fallbacks;
thread_local std::string refusal; // why the operator that runs was not served; "": it was not asked

[[maybe_unused]] const int lock_at_forks =
    pthread_atfork([] { fallbacks.lock.lock(); }, [] { fallbacks.lock.unlock(); },
                   [] { fallbacks.lock.unlock(); });

// Returns the device of the first tensor on the device, or of a device argument.
std::optional<at::Device> device_of_call(c10::ArrayRef<c10::IValue> arguments) {
  const auto is_here = [](const at::Tensor &t) {
    return t.defined() && t.device().type() == device_type;
  };
  for (const c10::IValue &value : arguments) {
    if (value.isTensor() && is_here(value.toTensor())) return value.toTensor().device();
    if (value.isTensorList())
      for (const at::Tensor &t : value.toTensorVector())
        if (is_here(t)) return t.device();
    if (value.isDevice() && value.toDevice().type() == device_type) return value.toDevice();
  }
  return std::nullopt;
}

// May a call have this tensor on the CPU beside tensors on the device?  Numbers may be there, and
// indices, lengths and sizes, which some operators take from the CPU.
bool may_stay_on_cpu(const at::Tensor &t, const c10::OperatorHandle &op) {
  const bool is_foreach = op.schema().name().rfind("aten::_foreach", 0) == 0; // lists of numbers
  return !t.dim() || is_foreach || !(t.is_floating_point() || t.is_complex());
}

// All tensors must be on one of the device's ordinals: the fallback would copy each of them to the
// CPU and compute with them.
void check_one_device(const at::Device &device, const c10::OperatorHandle &op,
                      c10::ArrayRef<c10::IValue> arguments) {
  const auto check_tensor = [&](const at::Tensor &t, bool is_written) {
    if (!t.defined() || t.device() == device) return;
    const bool may_be_there = t.device().is_cpu() && !is_written && may_stay_on_cpu(t, op);
    TORCH_CHECK(may_be_there, op.schema().name(),
                ": Expected all tensors to be on the same device, but found ", device, " and ",
                t.device());
  };
  for (size_t i = 0; i < arguments.size(); i++) {
    const c10::IValue &value = arguments[i];
    const auto *alias = op.schema().arguments()[i].alias_info();
    if (value.isTensor()) check_tensor(value.toTensor(), alias && alias->isWrite());
    if (value.isTensorList())
      for (const at::Tensor &t : value.toTensorVector())
        check_tensor(t, false);
  }
}

// Is the first tensor a number (a CPU tensor without dimensions)?  PyTorch's fallback then leaves
// the results on the CPU.  The number itself cannot be moved, because a copy of a number of Python
// takes part in type promotion as a tensor.
bool starts_with_number(c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue &value : arguments)
    if (value.isTensor() && value.toTensor().defined())
      return value.toTensor().device().is_cpu() && !value.toTensor().dim();
  return false;
}

void move_results(const at::Device &device, size_t count, torch::jit::Stack *stack) {
  for (size_t i = stack->size() - count; i < stack->size(); i++) {
    c10::IValue &value = (*stack)[i];
    if (value.isTensor() && value.toTensor().defined()) {
      value = value.toTensor().to(device);
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor &t : tensors)
        t = t.defined() ? t.to(device) : t;
      value = tensors;
    }
  }
}

// Passes the generators of the CPU in place of the device's, which the CPU's kernels refuse.
void exchange_generators(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  const auto &arguments = op.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  for (size_t i = 0; i < arguments.size(); i++) {
    c10::IValue &value = (*stack)[begin + i];
    const bool is_generator =
        arguments[i].type()->isSubtypeOf(*c10::OptionalType::create(c10::GeneratorType::get()));
    if (!is_generator || arguments[i].type()->kind() == c10::TypeKind::NoneType) continue;
    value = c10::IValue(
        cpu_generator_of(value.isNone() ? std::nullopt : std::optional(value.toGenerator())));
  }
}

} // namespace

void keep_refusal() {
  const std::string message = tenon_error();
  // What follows is a list of the kernels that there are.
  refusal = message.substr(0, std::min(message.find('\n'), message.find("; it has: ")));
}

void forget_refusal() { refusal.clear(); }

void count_fallback(const c10::OperatorHandle &op) {
  const std::string &name = op.schema().name();
  const std::string &overload = op.schema().overload_name();
  const std::string full = overload.empty() ? name : name + "." + overload;
  const std::string reason = std::exchange(refusal, std::string());
  const std::string why = reason.empty() ? "" : " (" + reason + ")";
  std::lock_guard<std::mutex> guard(fallbacks.lock);
  const bool is_denied = fallbacks.denied.count(name) || fallbacks.denied.count(full);
  TORCH_CHECK_NOT_IMPLEMENTED(!is_denied, full, " has no kernel on device ", device_name(), why,
                              ", and its fallback to the CPU is denied "
                              "(tenon.torch.device.deny_fallback)");
  TORCH_CHECK_NOT_IMPLEMENTED(!fallbacks.strict, full, " has no kernel on device ", device_name(),
                              why, ", and strict mode does not let it run on the CPU");
  Fallback &fallback = fallbacks.counts[full];
  fallback.count++;
  if (!reason.empty()) fallback.reason = reason;
}

void run_on_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  count_fallback(op);
  const size_t count = op.schema().arguments().size();
  const auto arguments = c10::ArrayRef<c10::IValue>(*stack).slice(stack->size() - count);
  const std::optional<at::Device> device = device_of_call(arguments);
  const c10::OptionalDeviceGuard guard(device); // of the generator
  if (device) check_one_device(*device, op, arguments);
  const bool is_left_on_cpu = device && starts_with_number(arguments);
  exchange_generators(op, stack);
  at::native::cpu_fallback(op, stack, true);
  if (is_left_on_cpu) move_results(*device, op.schema().returns().size(), stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

std::vector<std::string> fallback_counts() {
  std::lock_guard<std::mutex> guard(fallbacks.lock);
  std::vector<std::string> lines;
  for (const auto &[name, fallback] : fallbacks.counts)
    lines.push_back(name + " " + std::to_string(fallback.count) + " " + fallback.reason);
  return lines;
}

void deny_fallback(const std::string &name, bool is_denied) {
  std::lock_guard<std::mutex> guard(fallbacks.lock);
  if (is_denied)
    fallbacks.denied.insert(name);
  else
    fallbacks.denied.erase(name);
}

void set_strict(bool is_strict) {
  std::lock_guard<std::mutex> guard(fallbacks.lock);
  fallbacks.strict += is_strict ? 1 : -1;
}

// ---- operators that PyTorch leaves to each device, without a kernel for the CPU ----------------

namespace {

// These run on the CPU by another operator, which is the one that is counted.
template <typename Function> auto on_cpu(const char *name, Function &&function) {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  count_fallback(op);
  return function();
}

at::Tensor to_cpu(const at::Tensor &t) { return t.defined() ? t.cpu() : t; }
std::optional<at::Tensor> to_cpu(const std::optional<at::Tensor> &t) {
  return t && t->defined() ? std::optional(t->cpu()) : std::nullopt;
}
at::Tensor back(const at::Tensor &t, const at::Device &device) {
  return t.defined() ? t.to(device) : t;
}

} // namespace

at::Tensor convolution_on_cpu(const at::Tensor &input, const at::Tensor &weight,
                              const std::optional<at::Tensor> &bias, at::IntArrayRef stride,
                              at::IntArrayRef padding, at::IntArrayRef dilation, bool is_transposed,
                              at::IntArrayRef output_padding, int64_t groups) {
  return on_cpu("aten::convolution_overrideable", [&] {
    return at::convolution(to_cpu(input), to_cpu(weight), to_cpu(bias), stride, padding, dilation,
                           is_transposed, output_padding, groups)
        .to(input.device());
  });
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_on_cpu(
    const at::Tensor &grad, const at::Tensor &input, const at::Tensor &weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool is_transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask) {
  return on_cpu("aten::convolution_backward_overrideable", [&] {
    const int64_t channels = is_transposed ? weight.size(1) * groups : weight.size(0);
    const std::vector<int64_t> bias_sizes = {channels};
    auto [dx, dw, db] =
        at::convolution_backward(to_cpu(grad), to_cpu(input), to_cpu(weight), bias_sizes, stride,
                                 padding, dilation, is_transposed, output_padding, groups, mask);
    const at::Device device = input.device();
    return std::tuple(back(dx, device), back(dw, device), back(db, device));
  });
}

} // namespace tenon_torch
