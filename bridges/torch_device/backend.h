// A Tenon device as PyTorch's PrivateUse1 (docs/torch_device.md): what the source files of this
// folder share.
//
// The folder is compiled against one release of PyTorch, because PyTorch has no C interface for
// devices.  Everything that a device does is a call of libtenon's C interface: memory is a Tenon
// tensor, a stream is a Tenon stream.  Tenon therefore orders work on different streams, and
// PyTorch's `record_stream` has nothing to do.
//
// Invariant: a process has one backend.  It is set once, by `open_backend`, before any other
// function is called.
#ifndef BRIDGES_TORCH_DEVICE_BACKEND_H
#define BRIDGES_TORCH_DEVICE_BACKEND_H

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>
#include <tenon/tenon.h>

#include <string>

namespace tenon_torch {

constexpr auto device_type = c10::DeviceType::PrivateUse1;
constexpr int devices_most = 64;

// ---- errors ------------------------------------------------------------------------------------

// Throws the exception that corresponds to a status, with Tenon's message: OutOfMemoryError,
// NotImplementedError, IndexError or RuntimeError.
void check_status(tenon_status_t status);

// A reference to a Tenon object, released at the end of the scope.
template <typename T, void (*release)(T *)> class Reference {
public:
  Reference() = default;
  explicit Reference(T *pointer) : pointer_(pointer) {}
  Reference(Reference &&other) noexcept : pointer_(other.take()) {}
  Reference &operator=(Reference &&other) noexcept {
    std::swap(pointer_, other.pointer_);
    return *this;
  }
  Reference(const Reference &) = delete;
  Reference &operator=(const Reference &) = delete;
  ~Reference() {
    if (pointer_) release(pointer_);
  }
  T *get() const { return pointer_; }
  T **receive() { return &pointer_; }
  T *take() {
    T *taken = pointer_;
    pointer_ = nullptr;
    return taken;
  }
  explicit operator bool() const { return pointer_; }

private:
  T *pointer_ = nullptr;
};
using TensorRef = Reference<tenon_tensor_t, tenon_tensor_release>;

// ---- the backend -------------------------------------------------------------------------------

// Makes Tenon's backend of this name the device of this process, and returns the number of its
// ordinals.  Errors: there is no such backend, or it has no device.
int64_t open_backend(const std::string &name);
bool is_open();
const std::string &backend_name();
// The name of the type of devices in PyTorch, for messages.
std::string device_name();
c10::DeviceIndex device_count() noexcept;
// The current device of this thread.
c10::DeviceIndex current_device() noexcept;
void set_device(c10::DeviceIndex index);
// Sets the device without a check, and returns the previous one.
c10::DeviceIndex exchange_device(c10::DeviceIndex index) noexcept;
// Returns the Tenon device of an index (-1: the current one), which is opened on first use.
// Errors: there is no such index; the device was lost, for example in the child of a fork.
tenon_device_t tenon_device_of(c10::DeviceIndex index);
// Returns the index of a Tenon device of this backend.
c10::DeviceIndex index_of_tenon(tenon_device_t device);
// Returns an index that exists; -1 stands for the current device.
c10::DeviceIndex check_index(int64_t index);
// Has memory of the device flat addresses?
bool has_addresses(c10::DeviceIndex index);
// Does the device compile the source kernels of Tenon's libraries?
bool compiles_kernels(c10::DeviceIndex index);

// ---- memory ------------------------------------------------------------------------------------

c10::DeviceAllocator &device_allocator();
// Returns a tensor that is created over the memory of a Tenon tensor, which it takes over.
at::Tensor tensor_over(TensorRef tensor);
// Returns a Tenon tensor over the memory of a PyTorch tensor on the device or the CPU, without a
// copy.  Conjugate and negative bits are ignored.
// Returns an empty reference if Tenon has no such dtype or rank.
TensorRef view_of(const at::Tensor &tensor);
// The same for the input of an operator of Tenon, which does not change it: calls share the view.
TensorRef shared_view(const at::Tensor &tensor);
// As view_of, with a dtype of the same size, so that elements of any dtype can be copied.
TensorRef bits_of(const at::Tensor &tensor);
// Grows or shrinks a storage and keeps its contents.
void resize_storage(const c10::Storage &storage, size_t bytes);
bool is_pinned(const void *data);
// The device of the memory at an address; the current one if none is known.
c10::DeviceIndex device_of_address(const void *address);
// Is this the owner of pinned memory, which Tenon then keeps until a copy is done?
bool owns_pinned(const at::Tensor &tensor);
bool dtype_to_tenon(at::ScalarType type, tenon_dtype_t *out_dtype);
bool dtype_from_tenon(tenon_dtype_t dtype, at::ScalarType *out_type);

// ---- streams and random numbers ----------------------------------------------------------------

// The Tenon stream that this thread uses on a device.
tenon_stream_t *current_stream(c10::DeviceIndex index);
c10::Stream stream_of_pool(c10::DeviceIndex index);
tenon_stream_t *tenon_stream_of_torch(const c10::Stream &stream);

const at::Generator &default_generator(c10::DeviceIndex index);
// The generator of the CPU inside a generator of the device, on which its random numbers are drawn.
// Without a value: of the default generator of the current device.
at::Generator cpu_generator_of(const std::optional<at::Generator> &generator);

// ---- operators ---------------------------------------------------------------------------------

// Runs an operator on the CPU, on copies of its arguments, and counts it.
// Errors: fallback is denied for this operator, or in general.
void run_on_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack);
// Counts an operator whose result is computed in host memory, before that is done.
// Errors: as run_on_cpu.
void count_fallback(const c10::OperatorHandle &op);
// Keeps Tenon's last message as the reason why the operator that falls back next was not served.
void keep_refusal();
// Forgets it, since the operator did not fall back.
void forget_refusal();
// Convolutions on the CPU. PyTorch has no kernel of the operators that a device implements.
at::Tensor convolution_on_cpu(const at::Tensor &input, const at::Tensor &weight,
                              const std::optional<at::Tensor> &bias, at::IntArrayRef stride,
                              at::IntArrayRef padding, at::IntArrayRef dilation, bool is_transposed,
                              at::IntArrayRef output_padding, int64_t groups);
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_on_cpu(
    const at::Tensor &grad, const at::Tensor &input, const at::Tensor &weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool is_transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> mask);
// A plan (kernels.cc) that C++ code calls.  It is parsed once.
class CorePlan {
public:
  CorePlan(const char *text, size_t argument_count);
  // Returns the results of the last call; none if the device does not serve the plan.
  std::vector<at::Tensor> call(c10::ArrayRef<c10::IValue> arguments) const;

private:
  std::shared_ptr<const struct Plan> plan_;
};
// Has the device kernels for all these operators of Tenon, of some dtype?
bool device_has(std::initializer_list<const char *> names);

} // namespace tenon_torch

#endif
