/* tenon/torch.h: operators of Tenon's libraries as operators of PyTorch's, of libtenon_torch.so.
 * PyTorch's functions are found in the process: nothing of it is needed to build, and one binary serves 2.11 and newer. */
#ifndef TENON_TORCH_H
#define TENON_TORCH_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads a library of operators (a path, as tenon_library_load) and registers it: the one call of a program in C++ before it
 * loads TorchScript files or AOTInductor packages that call these operators.  PyTorch is loaded before, or linked.  A library
 * that is registered already stays so.  Errors as below, and those of loading. */
TENON_API tenon_status_t tenon_torch_load(const char *path, const char **out_error);
/* Registers all operators of a loaded library (its namespace, "demo") with their schemas and kernels: from then
 * on torch.ops.demo.gelu, in TorchScript and in exported programs too, as long as the process; "core" are the built-in
 * ones, "tenon" is tenon::run, which runs models (tenon_torch_load registers it too).  Again it only gives the report
 * (out_report may be NULL), which has a line for each: name, tab, why it was left out ("": it was not), tab, schema, tab,
 * and the schema of its gradient NAME.vjp, of operators that state no rule but may have a gradient by their parts, tab, and
 * "autograd" if there is an overload NAME.autograd: calls that want a gradient go there, and others pass autograd by
 * (autograd_key: the number of PyTorch's DispatchKey AutogradFunctionality; 0: autograd is as PyTorch has it for operators
 * without a kernel of their own).  Fakes and gradients are registered by the Python package, which makes them of what
 * operators state.  Any thread may call.  Errors, with a text in *out_error that lasts until the thread's next call:
 * UNAVAILABLE without PyTorch, or with one that is too old; NOT_FOUND; UNKNOWN when PyTorch refuses the library. */
TENON_API tenon_status_t tenon_torch_register(const char *library, uint32_t autograd_key, char **out_report,
                                              const char **out_error);
/* Tensors of PyTorch's devices of that type ("cuda", "xpu", "privateuseone", whatever that was renamed to) are taken for memory of
 * Tenon's backend ("sim", a vendor's) from here on, index for ordinal; "cuda" is Tenon's "cuda" without it.  Calls use
 * them in place, in order with PyTorch's current stream as its interface tells it (CUDA, XPU; of other devices
 * torch_stream_native_handle of 2.13: they have native streams as the backend imports them), else with the stream that the
 * thread uses of Tenon's; results are of PyTorch's allocator.  PyTorch's streams that calls were made in must stay as long as
 * the process, as those of its own pool do.  Any thread may call, and again with the same.  Errors, with a text as above:
 * UNAVAILABLE; INVALID: another type; EXISTS: the type is another backend; those of tenon_device_count. */
TENON_API tenon_status_t tenon_torch_device(const char *type, const char *backend, const char **out_error);
TENON_API void tenon_torch_release(char *report);
/* Compiles a model (ONNX) for a device ("cpu", "opencl:1") now, and not at its first call of tenon::run(inputs, model=path,
 * device=device), which finds it by these words; it stays as long as the process.  Operators of custom domains are those of
 * libraries that are loaded. */
TENON_API tenon_status_t tenon_torch_model(const char *path, const char *device, const char **out_error);

#ifdef __cplusplus
}
#endif
#endif
