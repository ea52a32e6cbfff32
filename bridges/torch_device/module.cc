// The functions that the Python package calls, as operators of the namespace tenon_device.
#include "backend.h"

#include <ATen/ATen.h>
#include <tenon/torch.h>
#include <torch/library.h>

#include "functions.h"

namespace tenon_torch {
namespace {

std::vector<std::string> properties(int64_t index) {
  tenon_device_info_t info = {.size = sizeof info};
  check_status(tenon_device_info(tenon_device_of(check_index(index)), &info));
  return {info.backend, info.name, info.driver, info.target};
}

std::vector<int64_t> numbers(int64_t index) {
  tenon_device_info_t info = {.size = sizeof info};
  check_status(tenon_device_info(tenon_device_of(check_index(index)), &info));
  return {(int64_t)info.memory, (int64_t)info.memory_free, info.units,
          info.features,        info.has_streams,          info.has_events};
}

void limit_memory(int64_t index, int64_t bytes) {
  check_status(tenon_memory_limit_set(tenon_device_of(check_index(index)), (uint64_t)bytes));
}

// ---- operators of Tenon libraries (torch.ops) --------------------------------------------------

// A handle of PyTorch's C interface is a tensor on the heap.
thread_local std::string reason;

template <typename Function> auto without_exceptions(const char **out_why, Function &&function) {
  try {
    return function();
  } catch (const std::exception &error) {
    reason = error.what();
    *out_why = reason.c_str();
    return decltype(function()){};
  }
}

tenon_tensor_t *view_handle(void *handle, const char **out_why) {
  return without_exceptions(out_why, [&] {
    const at::Tensor &t = *(const at::Tensor *)handle;
    TensorRef view = view_of(t);
    TORCH_CHECK(view, "Tenon has no counterpart of a tensor of ", t.scalar_type(), " with ",
                t.dim(), " dimensions");
    return view.take();
  });
}

void *wrap_tensor(tenon_tensor_t *tensor, const char **out_why) {
  TensorRef taken(tensor);
  return without_exceptions(out_why,
                            [&] { return (void *)new at::Tensor(tensor_over(std::move(taken))); });
}

tenon_stream_t *stream_of_device(int32_t index, const char **out_why) {
  return without_exceptions(out_why, [&] { return current_stream((c10::DeviceIndex)index); });
}

// Returns the address of the table of these functions.
int64_t bridge() {
  static const tenon_torch_backend_t table = {.size = sizeof table,
                                              .backend = backend_name().c_str(),
                                              .view = view_handle,
                                              .wrap = wrap_tensor,
                                              .stream = stream_of_device};
  return (int64_t)(uintptr_t)&table;
}

// Lets PyTorch's threads for gradients finish what they have. At the end of a process such a thread
// may still release Python objects of the last backward; Python ends threads that ask for its lock
// then, which in C++ ends the process with an error. This graph has no Python objects, and a thread
// takes it up after everything else.
void finish_gradients() {
  const at::AutoGradMode with_gradients(true);
  for (c10::DeviceIndex i = 0; i < device_count(); i++) {
    try {
      const auto options = at::TensorOptions().device(c10::Device(device_type, i));
      const at::Tensor x = at::ones({1}, options).set_requires_grad(true);
      (x * x).sum().backward();
    } catch (const c10::Error &) { // a device that does not work has no such objects
    }
  }
}

at::Generator generator(int64_t index) { return default_generator(check_index(index)); }

} // namespace

TORCH_LIBRARY(tenon_device, m) {
  register_hooks();
  m.def("open(str backend) -> int", open_backend);
  m.def("count() -> int", [] { return (int64_t)device_count(); });
  m.def("properties(int index) -> str[]", properties);
  m.def("numbers(int index) -> int[]", numbers);
  m.def("limit_memory(int index, int bytes) -> ()", limit_memory);
  m.def("generator(int index) -> Generator?", generator);
  m.def("bridge() -> int", bridge);
  m.def("fallback_counts() -> str[]", fallback_counts);
  m.def("finish_gradients() -> ()", finish_gradients);
  m.def("deny_fallback(str name, bool is_denied) -> ()", deny_fallback);
  m.def("set_strict(bool is_strict) -> ()", set_strict);
  m.def("add_plans(str aten, str plan) -> ()", add_plans);
}

} // namespace tenon_torch
