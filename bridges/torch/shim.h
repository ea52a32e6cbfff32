/* The functions of PyTorch's stable C interface that the bridge calls. They are found in the
 * process when the bridge is opened: no file of PyTorch is needed to build it, and one binary
 * serves every release from 2.11 on. Functions that return an int32_t return 0, or 1 after a
 * failure; none of them throws except aoti_torch_check. */
#ifndef BRIDGES_TORCH_SHIM_H
#define BRIDGES_TORCH_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/tenon.h>

/* An argument or a result: a number in its low bytes, or a handle. */
typedef uint64_t torch_value_t;
typedef struct torch_tensor_o *torch_tensor_t;
typedef struct torch_list_o *torch_list_t;
typedef struct torch_string_o *torch_string_t;
typedef struct torch_library_o *torch_library_t;
typedef struct torch_stream_o *torch_stream_t;
typedef void (*torch_kernel_fn)(torch_value_t *stack, uint64_t arguments, uint64_t results);

/* clang-format off: one function a line, as in a table */
/* clang-format off */
#define TORCH_FUNCTIONS(X)                                                                         \
  X(uint64_t, aoti_torch_abi_version, (void))                                                      \
  X(int32_t, aoti_torch_device_type_cpu, (void))                                                   \
  X(int32_t, aoti_torch_device_type_cuda, (void))                                                  \
  X(int32_t, aoti_torch_device_type_xpu, (void))                                                   \
  X(int32_t, aoti_torch_device_type_privateuse1, (void))                                           \
  X(int32_t, aoti_torch_layout_strided, (void))                                                    \
  X(int32_t, aoti_torch_dtype_int64, (void))                                                       \
  X(int32_t, aoti_torch_get_data_ptr, (torch_tensor_t, void **))                                   \
  X(int32_t, torch_get_const_data_ptr, (torch_tensor_t, const void **))                            \
  X(int32_t, torch_get_mutable_data_ptr, (torch_tensor_t, void **))                                \
  X(int32_t, aoti_torch_get_dim, (torch_tensor_t, int64_t *))                                      \
  X(int32_t, aoti_torch_get_sizes, (torch_tensor_t, int64_t **))                                   \
  X(int32_t, aoti_torch_get_strides, (torch_tensor_t, int64_t **))                                 \
  X(int32_t, aoti_torch_get_storage_offset, (torch_tensor_t, int64_t *))                           \
  X(int32_t, aoti_torch_get_dtype, (torch_tensor_t, int32_t *))                                    \
  X(int32_t, aoti_torch_get_device_type, (torch_tensor_t, int32_t *))                              \
  X(int32_t, aoti_torch_get_device_index, (torch_tensor_t, int32_t *))                             \
  X(int32_t, aoti_torch_empty_strided,                                                             \
    (int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, torch_tensor_t *))      \
  X(int32_t, torch_from_blob,                                                                      \
    (void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t, int32_t, int32_t,        \
     torch_tensor_t *, int32_t, const uint8_t *, int64_t, void (*)(void *, void *), void *))       \
  X(int32_t, aoti_torch_new_uninitialized_tensor, (torch_tensor_t *))                              \
  X(int32_t, aoti_torch_new_tensor_handle, (torch_tensor_t, torch_tensor_t *))                     \
  X(int32_t, aoti_torch__reinterpret_tensor,                                                       \
    (torch_tensor_t, int64_t, const int64_t *, const int64_t *, int64_t, torch_tensor_t *))        \
  X(int32_t, aoti_torch_delete_tensor_object, (torch_tensor_t))                                    \
  X(int32_t, torch_new_list_reserve_size, (size_t, torch_list_t *))                                \
  X(int32_t, torch_list_size, (torch_list_t, size_t *))                                            \
  X(int32_t, torch_list_get_item, (torch_list_t, size_t, torch_value_t *))                         \
  X(int32_t, torch_list_push_back, (torch_list_t, torch_value_t))                                  \
  X(int32_t, torch_delete_list, (torch_list_t))                                                    \
  X(int32_t, torch_string_length, (torch_string_t, size_t *))                                      \
  X(int32_t, torch_string_c_str, (torch_string_t, const char **))                                  \
  X(int32_t, torch_delete_string, (torch_string_t))                                                \
  X(int32_t, aoti_torch_library_init_fragment,                                                     \
    (const char *, const char *, uint32_t, torch_library_t *))                                     \
  X(int32_t, aoti_torch_library_init_impl,                                                         \
    (const char *, const char *, const char *, uint32_t, torch_library_t *))                       \
  X(int32_t, aoti_torch_library_def, (torch_library_t, const char *))                              \
  X(int32_t, torch_library_impl, (torch_library_t, const char *, torch_kernel_fn, uint64_t))       \
  X(int32_t, torch_call_dispatcher, (const char *, const char *, torch_value_t *, uint64_t))       \
  X(bool, aoti_torch_grad_mode_is_enabled, (void))                                                 \
  X(int32_t, aoti_torch_is_defined, (torch_tensor_t, bool *))                                      \
  X(int32_t, torch_set_requires_grad, (torch_tensor_t, bool))                                      \
  X(int32_t, aoti_torch_delete_library_object, (torch_library_t))                                  \
  X(void, aoti_torch_check, (bool, const char *, const char *, uint32_t, const char *))
/* Functions of newer releases; NULL if PyTorch does not have them. */
#define TORCH_OPTIONAL(X)                                                                          \
  X(const char *, torch_exception_get_what_without_backtrace, (void))                              \
  X(int32_t, torch_get_num_threads, (uint32_t *))                                                  \
  X(int32_t, torch_parallel_for,                                                                   \
    (int64_t, int64_t, int64_t, void (*)(int64_t, int64_t, void *), void *))                       \
  X(int32_t, aoti_torch_get_current_device_index, (int32_t *))                                     \
  X(int32_t, aoti_torch_get_current_stream, (int32_t, torch_stream_t *))                           \
  X(int32_t, aoti_torch_delete_stream, (torch_stream_t))                                           \
  X(int32_t, torch_stream_native_handle, (torch_stream_t, void **))                                \
  X(int32_t, torch_new_stable_ivalue, (torch_value_t **))                                          \
  X(int32_t, torch_delete_stable_ivalue, (torch_value_t *))                                        \
  X(int32_t, torch_library_def_with_tags,                                                          \
    (torch_library_t, const char *, const int32_t *, int32_t))                                     \
  X(int32_t, torch_tag_pt2_compliant_tag, (void))                                                  \
  X(int32_t, torch_tag_pointwise, (void))                                                          \
  X(int32_t, torch_tag_nondeterministic_seeded, (void))                                            \
  X(int32_t, aoti_torch_cpu_randint_low_out,                                                       \
    (torch_tensor_t, int64_t, int64_t, const int64_t *, int64_t))
/* Functions of C++ with plain parameters. PyTorch does not promise them, so they are tested before
 * they are used (torch_sees_gradients) or not required: without qscheme the bridge calls a function
 * of PyTorch that may fail, which costs 10 ms. */
#define TORCH_CXX(X)                           /* name, symbol */                                  \
  X(void, operator_delete, (void *), "_ZdlPv") /* boxes of releases before 2.13 */                 \
  X(uint8_t, qscheme, (torch_tensor_t), "_ZN2at4_ops7qscheme4callERKNS_6TensorE")                  \
  X(bool, requires_grad, (const void *), "_ZNK3c1010TensorImpl13requires_gradEv")                  \
  X(torch_tensor_t, forward_grad, (const void *, uint64_t, torch_tensor_t),                        \
    "_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE")                                          \
  X(bool, is_excluded, (uint16_t), "_ZN3c104impl28tls_is_dispatch_key_excludedENS_11DispatchKeyE") \
  X(void, exclude, (uint16_t, bool),                                                               \
    "_ZN3c104impl29tls_set_dispatch_key_excludedENS_11DispatchKeyEb")
#define TORCH_DTYPES(X) /* name in aoti_torch_dtype_NAME, our dtype */                             \
  X(float32, TENON_F32)                                                                            \
  X(float64, TENON_F64) X(float16, TENON_F16) X(bfloat16, TENON_BF16) X(int8, TENON_I8)            \
      X(int16, TENON_I16) X(int32, TENON_I32) X(int64, TENON_I64) X(uint8, TENON_U8)               \
          X(uint16, TENON_U16) X(uint32, TENON_U32) X(uint64, TENON_U64) X(bool, TENON_BOOL)       \
              X(complex64, TENON_C64) X(complex128, TENON_C128) X(float8_e4m3fn, TENON_F8E4M3FN)   \
                  X(float8_e5m2, TENON_F8E5M2) X(float8_e4m3fnuz, TENON_F8E4M3FNUZ)                \
                      X(float8_e5m2fnuz, TENON_F8E5M2FNUZ)

#define TORCH_POINTER_(result, name, parameters) result(*name) parameters;
#define TORCH_MEMBER_(result, name, parameters, symbol) result(*name) parameters;
typedef struct torch_api_t {
  TORCH_FUNCTIONS(TORCH_POINTER_) TORCH_OPTIONAL(TORCH_POINTER_) TORCH_CXX(TORCH_MEMBER_)
} torch_api_t;
/* clang-format on */

extern torch_api_t torch;
extern int32_t torch_cpu; /* the number of the CPU's device type */
/* The version of the interface that the bridge uses: that of the release, or the newest one
 * that the bridge knows. */
extern uint64_t torch_build_version;

/* The lock is held during registrations and torch_open. */
void torch_lock(void);
void torch_unlock(void);
/* Finds the functions. Returns false with the reason in out_error if PyTorch is not loaded or lacks
 * some of them. */
bool torch_open(char *out_error, size_t capacity);
/* Finds a function in a library that this process has loaded; NULL: there is none. */
void *torch_find(const char *library, const char *name);
/* Converts a PyTorch dtype; false: it has no counterpart. */
bool torch_dtype_from(int32_t code, tenon_dtype_t *out_dtype);
/* Returns the dtype of the numbers that a quantised tensor stores; false: `code` is not a quantised
 * dtype. */
bool torch_dtype_stored(int32_t code, tenon_dtype_t *out_dtype);
bool torch_dtype_to(tenon_dtype_t dtype, int32_t *out_code);
/* Returns whether PyTorch's functions report which tensors need gradients. If they do not, every
 * call asks in Python. */
bool torch_sees_gradients(void);
/* Returns the message of the last failure, if PyTorch reports it. */
const char *torch_what(void);

#endif
