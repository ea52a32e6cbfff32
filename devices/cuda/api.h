/* The parts of the CUDA driver and of its compiler NVRTC that Tenon uses, declared here after
 * cuda.h and nvrtc.h so that building needs neither a toolkit nor a driver.
 * tests/unit/devices/cuda_api_test.c compares the declarations with those headers where they are
 * installed. The driver is opened at run time: cu_api_open fills `cu` once per process and for
 * good; cu_nvrtc_open fills `rtc`. */
#ifndef TENON_CUDA_API_H
#define TENON_CUDA_API_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/device.h>

typedef unsigned int cu_result_t, cu_enum_t; /* the types of its enumerations */
typedef int cu_id_t;                         /* CUdevice */
typedef unsigned long long cu_address_t;     /* CUdeviceptr */
typedef struct CUctx_st *cu_context_t;
typedef struct CUstream_st *cu_native_stream_t;
typedef struct CUevent_st *cu_native_event_t;
typedef struct CUmod_st *cu_module_t;
typedef struct CUfunc_st *cu_function_t;
typedef struct CUgraph_st *cu_graph_t;
typedef struct CUgraphExec_st *cu_graph_exec_t;
typedef struct _nvrtcProgram *rtc_program_t;
typedef void (*cu_callback_fn)(cu_native_stream_t stream, cu_result_t status, void *user);

#define CU_LEGACY ((cu_native_stream_t)1)     /* the default stream, as frameworks pass it */
#define CU_PER_THREAD ((cu_native_stream_t)2) /* another default stream for each thread */

/* clang-format off */
#define CU_CONSTANTS(X) /* names without "CU_", as some are macros of cuda.h */ \
  X(DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8) X(DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1) \
  X(DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) X(DEVICE_ATTRIBUTE_COMPUTE_MODE, 20) \
  X(DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 41) X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) \
  X(DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
    X(DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97) \
  X(DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 115) \
  X(COMPUTEMODE_PROHIBITED, 2) X(STREAM_NON_BLOCKING, 1) X(EVENT_DEFAULT, 0) \
    X(MEMHOSTALLOC_PORTABLE, 1) \
  X(POINTER_ATTRIBUTE_MEMORY_TYPE, 2) X(POINTER_ATTRIBUTE_DEVICE_ORDINAL, 9) \
  X(POINTER_ATTRIBUTE_RANGE_START_ADDR, 11) X(POINTER_ATTRIBUTE_RANGE_SIZE, 12) \
    X(MEMORYTYPE_DEVICE, 2) \
  X(STREAM_CAPTURE_MODE_RELAXED, 2) X(STREAM_CAPTURE_STATUS_NONE, 0) \
  X(FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0) X(FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, 1) \
  X(FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 8) \
  X(JIT_ERROR_LOG_BUFFER, 5) X(JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)

#define CU_FUNCTIONS(X) /* name here, in the driver, parameters; all give a CUresult */ \
  X(Init, cuInit, (unsigned)) \
  X(DriverGetVersion, cuDriverGetVersion, (int *)) \
  X(GetErrorName, cuGetErrorName, (cu_result_t, const char **)) \
  X(GetErrorString, cuGetErrorString, (cu_result_t, const char **)) \
  X(DeviceGetCount, cuDeviceGetCount, (int *)) \
  X(DeviceGet, cuDeviceGet, (cu_id_t *, int)) \
  X(DeviceGetName, cuDeviceGetName, (char *, int, cu_id_t)) \
  X(DeviceGetAttribute, cuDeviceGetAttribute, (int *, cu_enum_t, cu_id_t)) \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t *, cu_id_t)) \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *, cu_id_t, cu_id_t)) \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (cu_context_t *, cu_id_t)) \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (cu_id_t)) \
  X(CtxGetCurrent, cuCtxGetCurrent, (cu_context_t *)) \
  X(CtxSetCurrent, cuCtxSetCurrent, (cu_context_t)) \
  X(CtxPushCurrent, cuCtxPushCurrent_v2, (cu_context_t)) \
  X(CtxPopCurrent, cuCtxPopCurrent_v2, (cu_context_t *)) \
  X(CtxEnablePeerAccess, cuCtxEnablePeerAccess, (cu_context_t, unsigned)) \
  X(MemGetInfo, cuMemGetInfo_v2, (size_t *, size_t *)) \
  X(MemAlloc, cuMemAlloc_v2, (cu_address_t *, size_t)) \
  X(MemFree, cuMemFree_v2, (cu_address_t)) \
  X(MemAllocAsync, cuMemAllocAsync, (cu_address_t *, size_t, cu_native_stream_t)) \
  X(MemFreeAsync, cuMemFreeAsync, (cu_address_t, cu_native_stream_t)) \
  X(MemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned)) \
  X(MemFreeHost, cuMemFreeHost, (void *)) \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (cu_address_t, const void *, size_t, \
    cu_native_stream_t)) \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *, cu_address_t, size_t, cu_native_stream_t)) \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (cu_address_t, cu_address_t, size_t, \
    cu_native_stream_t)) \
  X(MemcpyPeerAsync, cuMemcpyPeerAsync, (cu_address_t, cu_context_t, cu_address_t, cu_context_t, \
    size_t, cu_native_stream_t)) \
  X(MemsetD8Async, cuMemsetD8Async, (cu_address_t, unsigned char, size_t, cu_native_stream_t)) \
  X(MemsetD16Async, cuMemsetD16Async, (cu_address_t, unsigned short, size_t, cu_native_stream_t)) \
  X(MemsetD32Async, cuMemsetD32Async, (cu_address_t, unsigned, size_t, cu_native_stream_t)) \
  X(MemsetD2D32Async, cuMemsetD2D32Async, (cu_address_t, size_t, unsigned, size_t, size_t, \
    cu_native_stream_t)) \
  X(PointerGetAttribute, cuPointerGetAttribute, (void *, cu_enum_t, cu_address_t)) \
  X(StreamCreate, cuStreamCreate, (cu_native_stream_t *, unsigned)) \
  X(StreamDestroy, cuStreamDestroy_v2, (cu_native_stream_t)) \
  X(StreamQuery, cuStreamQuery, (cu_native_stream_t)) \
  X(StreamSynchronize, cuStreamSynchronize, (cu_native_stream_t)) \
  X(StreamWaitEvent, cuStreamWaitEvent, (cu_native_stream_t, cu_native_event_t, unsigned)) \
  X(StreamGetCtx, cuStreamGetCtx, (cu_native_stream_t, cu_context_t *)) \
  X(StreamAddCallback, cuStreamAddCallback, (cu_native_stream_t, cu_callback_fn, void *, \
    unsigned)) \
  X(StreamIsCapturing, cuStreamIsCapturing, (cu_native_stream_t, cu_enum_t *)) \
  X(StreamBeginCapture, cuStreamBeginCapture_v2, (cu_native_stream_t, cu_enum_t)) \
  X(StreamEndCapture, cuStreamEndCapture, (cu_native_stream_t, cu_graph_t *)) \
  X(GraphInstantiate, cuGraphInstantiateWithFlags, \
    (cu_graph_exec_t *, cu_graph_t, unsigned long long)) \
  X(GraphLaunch, cuGraphLaunch, (cu_graph_exec_t, cu_native_stream_t)) \
  X(GraphDestroy, cuGraphDestroy, (cu_graph_t)) \
  X(GraphExecDestroy, cuGraphExecDestroy, (cu_graph_exec_t)) \
  X(EventCreate, cuEventCreate, (cu_native_event_t *, unsigned)) \
  X(EventDestroy, cuEventDestroy_v2, (cu_native_event_t)) \
  X(EventRecord, cuEventRecord, (cu_native_event_t, cu_native_stream_t)) \
  X(EventQuery, cuEventQuery, (cu_native_event_t)) \
  X(EventSynchronize, cuEventSynchronize, (cu_native_event_t)) \
  X(EventElapsedTime, cuEventElapsedTime, (float *, cu_native_event_t, cu_native_event_t)) \
  X(ModuleLoadDataEx, cuModuleLoadDataEx, (cu_module_t *, const void *, unsigned, cu_enum_t *, \
    void **)) \
  X(ModuleUnload, cuModuleUnload, (cu_module_t)) \
  X(ModuleGetFunction, cuModuleGetFunction, (cu_function_t *, cu_module_t, const char *)) \
  X(FuncGetAttribute, cuFuncGetAttribute, (int *, cu_enum_t, cu_function_t)) \
  X(FuncSetAttribute, cuFuncSetAttribute, (cu_function_t, cu_enum_t, int)) \
  X(LaunchKernel, cuLaunchKernel, \
    (cu_function_t, unsigned, unsigned, unsigned, unsigned, unsigned, \
    unsigned, unsigned, cu_native_stream_t, void **, void **))

#define CU_OPTIONAL(X) /* of newer drivers: NULL where they are missing */ \
  X(FuncGetParamInfo, cuFuncGetParamInfo, (cu_function_t, size_t, size_t *, size_t *))

#define CU_ERRORS(X) /* those that are told apart; the driver names all */ \
  X(CUDA_SUCCESS, 0, OK) X(CUDA_ERROR_INVALID_VALUE, 1, INVALID) \
    X(CUDA_ERROR_OUT_OF_MEMORY, 2, MEMORY) \
  X(CUDA_ERROR_NO_DEVICE, 100, UNAVAILABLE) X(CUDA_ERROR_INVALID_DEVICE, 101, INVALID) \
  X(CUDA_ERROR_INVALID_IMAGE, 200, INVALID) X(CUDA_ERROR_INVALID_CONTEXT, 201, INVALID) \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209, INVALID) X(CUDA_ERROR_INVALID_PTX, 218, INVALID) \
  X(CUDA_ERROR_INVALID_SOURCE, 300, INVALID) X(CUDA_ERROR_INVALID_HANDLE, 400, INVALID) \
  X(CUDA_ERROR_NOT_FOUND, 500, NOT_FOUND) X(CUDA_ERROR_NOT_READY, 600, UNAVAILABLE) \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701, INVALID) \
    X(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704, EXISTS) \
  X(CUDA_ERROR_NOT_SUPPORTED, 801, UNIMPLEMENTED) \
    X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803, UNAVAILABLE) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, UNIMPLEMENTED)

#define RTC_FUNCTIONS(X) /* name after "nvrtc"; all but the first give an nvrtcResult */ \
  X(const char *, GetErrorString, (cu_result_t)) \
  X(cu_result_t, Version, (int *, int *)) \
  X(cu_result_t, GetNumSupportedArchs, (int *)) \
  X(cu_result_t, GetSupportedArchs, (int *)) \
  X(cu_result_t, CreateProgram, (rtc_program_t *, const char *, const char *, int, \
    const char *const *, const char *const *)) \
  X(cu_result_t, DestroyProgram, (rtc_program_t *)) \
  X(cu_result_t, CompileProgram, (rtc_program_t, int, const char *const *)) \
  X(cu_result_t, GetPTXSize, (rtc_program_t, size_t *)) \
  X(cu_result_t, GetPTX, (rtc_program_t, char *)) \
  X(cu_result_t, GetCUBINSize, (rtc_program_t, size_t *)) \
  X(cu_result_t, GetCUBIN, (rtc_program_t, char *)) \
  X(cu_result_t, GetProgramLogSize, (rtc_program_t, size_t *)) \
  X(cu_result_t, GetProgramLog, (rtc_program_t, char *))

#define RTC_ERROR_COMPILATION 6
#define RTC_ERROR_OUT_OF_MEMORY 1

#define CU_MEMBER_(name, value) CU_##name = (value),
#define CU_ERROR_(name, value, status) name = (value),
#define CU_POINTER_(name, symbol, parameters) cu_result_t (*name) parameters;
#define RTC_POINTER_(result, name, parameters) result (*name) parameters;
#ifndef TENON_CUDA_HEADERS /* where cuda.h says the same */
enum { CU_ERRORS(CU_ERROR_) };
enum { CU_CONSTANTS(CU_MEMBER_) };
#endif
typedef struct cu_api_t { CU_FUNCTIONS(CU_POINTER_) CU_OPTIONAL(CU_POINTER_) } cu_api_t;
typedef struct rtc_api_t { RTC_FUNCTIONS(RTC_POINTER_) } rtc_api_t;
/* clang-format on */

extern cu_api_t cu;
extern rtc_api_t rtc;

/* Opens the driver once. UNAVAILABLE: no driver is installed, or it is too old; the message says
 * what to install. */
tenon_status_t cu_api_open(const tenon_device_context_t *context);
/* Opens the compiler once. `driver` is the version from cuDriverGetVersion: a compiler of a later
 * generation is not accepted (0: any). UNAVAILABLE: as above. */
tenon_status_t cu_nvrtc_open(const tenon_device_context_t *context, int driver);
/* Opens an NVIDIA library by the first of `names` (the newest first, terminated by NULL) that is
 * found. The setting `key` gives its path ("off": do not open it); otherwise the search covers the
 * loader's paths, CUDA_HOME, /usr/local/cuda, and the Python packages of VIRTUAL_ENV. `driver` is
 * the version from cuDriverGetVersion, which does not run code of a later CUDA generation: names
 * with a later one are passed over. 0: the names have no CUDA generation, or any will do. Returns
 * NULL if nothing is found; `out_tried` then says where the search looked. */
void *cu_library_open(const tenon_device_context_t *context, const char *key,
                      const char *const *names, int driver, char *out_tried, size_t size);
/* Returns the value of one setting of "nvrtc=PATH,cublas=PATH,cudnn=PATH"; NULL: it is not set. */
const char *cu_setting(const tenon_device_context_t *context, const char *key, char *room,
                       size_t size);

#endif
