/* tenon/torch.h: registers operators of Tenon libraries as PyTorch operators.  Implemented by
 * libtenon_torch.so.
 *
 * The library finds PyTorch's functions in the process.  Building it does not require PyTorch,
 * and one binary works with PyTorch 2.11 and newer.
 *
 * Errors: every function that can fail sets *out_error to a message, which is valid until the
 * thread's next call.  TENON_UNAVAILABLE means that PyTorch is not loaded or too old.
 * Threads: any thread may call the functions. */
#ifndef TENON_TORCH_H
#define TENON_TORCH_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Loads an operator library and registers its operators with PyTorch.
 *
 * A C++ program calls it once, before it loads TorchScript files or AOTInductor packages that use
 * these operators.  PyTorch must be loaded before, or linked.  Registering a library again has no
 * effect.
 *
 * Arguments: `path`: as for tenon_library_load.
 * Errors: those of tenon_torch_register and of tenon_library_load. */
TENON_API tenon_status_t tenon_torch_load(const char *path, const char **out_error);

/* Registers all operators of a loaded library, with schemas and kernels, until the process ends.
 *
 * They are then available as torch.ops.demo.gelu, also in TorchScript and in exported programs.
 * The Python package registers fakes and gradients, which it derives from the operators'
 * declarations.  Registering a library again only returns the report.
 *
 * Arguments: `library`: the namespace of a library, "demo"; "core" for the built-in operators;
 * "tenon" for tenon::run, which runs models (tenon_torch_load registers it too).  `autograd_key`:
 * the number of PyTorch's DispatchKey AutogradFunctionality; 0: PyTorch's default for operators
 * without an autograd kernel.  `out_report`: may be NULL.
 * Returns: a report with a line for each operator.  Its fields, separated by tabs, are: the name;
 * why the operator was left out, or ""; the schema; for operators that declare no gradient but may
 * have one through the operators they call, the schema of their gradient NAME.vjp; and "autograd"
 * if there is an overload NAME.autograd, to which calls that need a gradient go, while other calls
 * bypass autograd.
 * Errors: TENON_UNAVAILABLE; TENON_NOT_FOUND; TENON_UNKNOWN if PyTorch refuses the library.
 * Ownership: the caller frees *out_report with tenon_torch_release. */
TENON_API tenon_status_t tenon_torch_register(const char *library, uint32_t autograd_key,
                                              char **out_report, const char **out_error);

/* Treats PyTorch tensors on a device type as memory of a Tenon backend, with the index as ordinal.
 *
 * Calls use these tensors in place.  They run in order with PyTorch's current stream if its
 * interface provides the stream: for CUDA and XPU; for other devices through
 * torch_stream_native_handle of PyTorch 2.13, if their native streams are those that the backend
 * imports.  Otherwise they run in the stream that the thread uses in Tenon.  PyTorch's allocator
 * allocates the results.  The function may be called again with the same arguments.
 *
 * Arguments: `type`: "cuda", "xpu", or "privateuseone" or the name that the program gave it;
 * `backend`: "sim", or that of a vendor.  "cuda" is Tenon's "cuda" without this call.
 * Errors: TENON_UNAVAILABLE; TENON_INVALID for another type; TENON_EXISTS if the type already
 * belongs to another backend; the errors of tenon_device_count.
 * Ownership: PyTorch's streams in which calls were made must live until the process ends, as the
 * streams of PyTorch's own pool do. */
TENON_API tenon_status_t tenon_torch_device(const char *type, const char *backend,
                                            const char **out_error);

/* A PrivateUse1 device of PyTorch whose memory and streams are Tenon's, as tenon.torch.device makes
 * one.  A `handle` is an AtenTensorHandle. */
typedef struct tenon_torch_backend_t {
  uint32_t size;
  uint32_t reserved;
  const char *backend; /* Tenon's name of the backend; valid until the process ends. */
  /* Returns a Tenon tensor over the memory of a PyTorch tensor, which the caller releases; NULL:
   * *out_why says why not. */
  tenon_tensor_t *(*view)(void *handle, const char **out_why);
  /* Returns a handle of a PyTorch tensor over a dense Tenon tensor, which it takes over, also after
   * an error; NULL: *out_why says why not. */
  void *(*wrap)(tenon_tensor_t *tensor, const char **out_why);
  /* Returns the Tenon stream that PyTorch uses on the device; NULL: *out_why says why not. */
  tenon_stream_t *(*stream)(int32_t index, const char **out_why);
} tenon_torch_backend_t;

/* Tells the calls of operators that PrivateUse1 is this backend.
 *
 * Errors: TENON_UNAVAILABLE; TENON_EXISTS if PrivateUse1 belongs to another backend; the errors of
 * tenon_device_count.
 * Ownership: `backend` must stay valid until the process ends. */
TENON_API tenon_status_t tenon_torch_backend(const tenon_torch_backend_t *backend,
                                             const char **out_error);

/* Frees a report of tenon_torch_register. */
TENON_API void tenon_torch_release(char *report);

/* States why code in Python that PyTorch calls for an operator is about to raise an exception.
 *
 * PyTorch's C interface drops the messages of Python's exceptions.  The next failure in the thread
 * for which PyTorch gives no reason gets this one. */
TENON_API void tenon_torch_explain(const char *why);

/* Compiles an ONNX model for a device now, instead of at its first call of tenon::run(inputs,
 * model=path, device=device).  The compiled model stays until the process ends.
 *
 * Load the libraries with operators of custom domains first.
 *
 * Arguments: `path` and `device` ("cpu", "opencl:1"): exactly as in the calls of tenon::run. */
TENON_API tenon_status_t tenon_torch_model(const char *path, const char *device,
                                           const char **out_error);

/* Gives a compiled graph a number, by which PyTorch runs it as the operator
 * tenon::_run_compiled(Tensor[] inputs, *, int executable) -> Tensor[] on the device of its inputs.
 *
 * Returns: the number, or -1 if memory runs out.
 * Ownership: holds a reference to the graph until tenon_torch_executable_remove.
 * Threads: any. */
TENON_API int64_t tenon_torch_executable_add(tenon_executable_t *executable);
TENON_API void tenon_torch_executable_remove(int64_t number);

/* Returns PyTorch's threads, for tenon_thread_pool_set: calls of Tenon between PyTorch's own calls
 * then use the same threads, as many as torch.set_num_threads says.  In the child of a fork, where
 * PyTorch's threads do not exist, a loop runs on the thread that begins it.
 *
 * Returns: NULL if the process has no PyTorch, or one without the function torch_parallel_for.
 * Ownership: valid until the process ends. */
TENON_API const tenon_thread_pool_t *tenon_torch_threads(void);

#ifdef __cplusplus
}
#endif
#endif
