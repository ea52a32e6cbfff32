/* Compares bridges/tvm_ffi/abi.h with the headers of the installed package: it compiles, or not. */
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include "abi.h"

#define SAME(name, value) _Static_assert((int)(name) == (int)(value), #name)
#define SIZE(own, theirs) _Static_assert(sizeof(own) == sizeof(theirs), #own)
#define PLACE(own, member, theirs, field)                                                          \
  _Static_assert(offsetof(own, member) == offsetof(theirs, field), #own "." #member)
#define AFTER_HEAD(own, member, theirs, field)                                                     \
  _Static_assert(offsetof(own, member) == sizeof(TVMFFIObject) + offsetof(theirs, field), #member)

SAME(FFI_NONE, kTVMFFINone);
SAME(FFI_INT, kTVMFFIInt);
SAME(FFI_BOOL, kTVMFFIBool);
SAME(FFI_FLOAT, kTVMFFIFloat);
SAME(FFI_POINTER, kTVMFFIOpaquePtr);
SAME(FFI_DTYPE, kTVMFFIDataType);
SAME(FFI_DEVICE, kTVMFFIDevice);
SAME(FFI_TENSOR_VIEW, kTVMFFIDLTensorPtr);
SAME(FFI_TEXT, kTVMFFIRawStr);
SAME(FFI_BYTES_VIEW, kTVMFFIByteArrayPtr);
SAME(FFI_SMALL_TEXT, kTVMFFISmallStr);
SAME(FFI_SMALL_BYTES, kTVMFFISmallBytes);
SAME(FFI_OBJECT, kTVMFFIObject);
SAME(FFI_STRING, kTVMFFIStr);
SAME(FFI_BYTES, kTVMFFIBytes);
SAME(FFI_ERROR, kTVMFFIError);
SAME(FFI_FUNCTION, kTVMFFIFunction);
SAME(FFI_SHAPE, kTVMFFIShape);
SAME(FFI_TENSOR, kTVMFFITensor);
SAME(FFI_ARRAY, kTVMFFIArray);
SAME(FFI_DYNAMIC, kTVMFFIDynObjectBegin);
SAME(FFI_DELETE_CONTENTS, kTVMFFIObjectDeleterFlagBitMaskStrong);
SAME(FFI_DELETE_MEMORY, kTVMFFIObjectDeleterFlagBitMaskWeak);

SIZE(ffi_any_t, TVMFFIAny);
PLACE(ffi_any_t, kind, TVMFFIAny, type_index);
PLACE(ffi_any_t, small_size, TVMFFIAny, small_str_len);
PLACE(ffi_any_t, as, TVMFFIAny, v_int64);
SIZE(ffi_object_t, TVMFFIObject);
PLACE(ffi_object_t, count, TVMFFIObject, combined_ref_count);
PLACE(ffi_object_t, kind, TVMFFIObject, type_index);
PLACE(ffi_object_t, deleter, TVMFFIObject, deleter);
SIZE(ffi_bytes_t, TVMFFIByteArray);
SIZE(ffi_dltensor_t, DLTensor);
PLACE(ffi_dltensor_t, device, DLTensor, device);
PLACE(ffi_dltensor_t, ndim, DLTensor, ndim);
PLACE(ffi_dltensor_t, dtype, DLTensor, dtype);
PLACE(ffi_dltensor_t, shape, DLTensor, shape);
PLACE(ffi_dltensor_t, strides, DLTensor, strides);
PLACE(ffi_dltensor_t, byte_offset, DLTensor, byte_offset);
SIZE(ffi_managed_t, struct DLManagedTensorVersioned);
PLACE(ffi_managed_t, context, struct DLManagedTensorVersioned, manager_ctx);
PLACE(ffi_managed_t, deleter, struct DLManagedTensorVersioned, deleter);
PLACE(ffi_managed_t, flags, struct DLManagedTensorVersioned, flags);
PLACE(ffi_managed_t, tensor, struct DLManagedTensorVersioned, dl_tensor);
AFTER_HEAD(ffi_error_t, kind, TVMFFIErrorCell, kind);
AFTER_HEAD(ffi_error_t, text, TVMFFIErrorCell, message);
AFTER_HEAD(ffi_error_t, backtrace, TVMFFIErrorCell, backtrace);
AFTER_HEAD(ffi_error_t, update_backtrace, TVMFFIErrorCell, update_backtrace);
AFTER_HEAD(ffi_function_t, call, TVMFFIFunctionCell, safe_call);
AFTER_HEAD(ffi_function_t, cpp_call, TVMFFIFunctionCell, cpp_call);
AFTER_HEAD(ffi_shape_t, data, TVMFFIShapeCell, data);
AFTER_HEAD(ffi_shape_t, size, TVMFFIShapeCell, size);
#if HAS_SEQUENCES
AFTER_HEAD(ffi_array_t, items, TVMFFISeqCell, data);
AFTER_HEAD(ffi_array_t, size, TVMFFISeqCell, size);
AFTER_HEAD(ffi_array_t, capacity, TVMFFISeqCell, capacity);
AFTER_HEAD(ffi_array_t, free_items, TVMFFISeqCell, data_deleter);
#endif

/* The functions that Tenon calls or replaces. */
ffi_call_fn call = (ffi_call_fn)(TVMFFISafeCallType)0;
void (*take)(TVMFFIObjectHandle *) = TVMFFIErrorMoveFromRaised;
void (*raise_text)(const char *, const char *) = TVMFFIErrorSetRaisedFromCStr;
int (*set_stream)(int32_t, int32_t, void *, void **) = TVMFFIEnvSetStream;
void *(*get_stream)(int32_t, int32_t) = TVMFFIEnvGetStream;
int (*allocate)(DLTensor *, TVMFFIObjectHandle *) = TVMFFIEnvTensorAlloc;
