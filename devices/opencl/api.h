/* The parts of OpenCL 1.2 that Tenon uses, declared here from its specification so that building
 * needs neither headers nor a driver. The driver loader is opened at run time: ocl_api_open fills
 * `ocl` once per process and for good. */
#ifndef TENON_OPENCL_API_H
#define TENON_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>
#include <tenon/device.h>

#if defined(_WIN32)
#define OCL_CALL __stdcall
#else
#define OCL_CALL
#endif

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_bitfield;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef void(OCL_CALL *ocl_context_fn)(const char *error, const void *data, size_t size,
                                       void *user);
typedef void(OCL_CALL *ocl_program_fn)(cl_program program, void *user);
typedef void(OCL_CALL *ocl_event_fn)(cl_event event, cl_int status, void *user);

/* clang-format off */
#define OCL_CONSTANTS(X) \
  X(CL_FALSE, 0) X(CL_TRUE, 1) X(CL_COMPLETE, 0) \
  X(CL_PLATFORM_VERSION, 0x0901) X(CL_PLATFORM_NAME, 0x0902) \
  X(CL_DEVICE_TYPE_CPU, 2) X(CL_DEVICE_TYPE_GPU, 4) X(CL_DEVICE_TYPE_ACCELERATOR, 8) \
  X(CL_DEVICE_TYPE, 0x1000) X(CL_DEVICE_MAX_COMPUTE_UNITS, 0x1002) \
    X(CL_DEVICE_MAX_WORK_GROUP_SIZE, 0x1004) \
  X(CL_DEVICE_MAX_MEM_ALLOC_SIZE, 0x1010) X(CL_DEVICE_SINGLE_FP_CONFIG, 0x101B) \
    X(CL_DEVICE_GLOBAL_MEM_SIZE, 0x101F) \
  X(CL_DEVICE_LOCAL_MEM_SIZE, 0x1023) X(CL_DEVICE_ENDIAN_LITTLE, 0x1026) \
    X(CL_DEVICE_AVAILABLE, 0x1027) \
  X(CL_DEVICE_COMPILER_AVAILABLE, 0x1028) X(CL_DEVICE_NAME, 0x102B) X(CL_DRIVER_VERSION, 0x102D) \
  X(CL_DEVICE_VERSION, 0x102F) X(CL_DEVICE_EXTENSIONS, 0x1030) \
    X(CL_DEVICE_HOST_UNIFIED_MEMORY, 0x1035) \
  X(CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, 128) \
  X(CL_CONTEXT_PLATFORM, 0x1084) \
  X(CL_QUEUE_CONTEXT, 0x1090) X(CL_QUEUE_DEVICE, 0x1091) X(CL_QUEUE_PROPERTIES, 0x1093) \
  X(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 1) X(CL_QUEUE_PROFILING_ENABLE, 2) \
  X(CL_MEM_READ_WRITE, 1) X(CL_MEM_ALLOC_HOST_PTR, 16) X(CL_MEM_SIZE, 0x1102) \
    X(CL_MEM_CONTEXT, 0x1106) \
  X(CL_MAP_READ, 1) X(CL_MAP_WRITE, 2) \
  X(CL_EVENT_COMMAND_EXECUTION_STATUS, 0x11D3) X(CL_PROFILING_COMMAND_END, 0x1283) \
  X(CL_PROGRAM_BINARY_SIZES, 0x1165) X(CL_PROGRAM_BINARIES, 0x1166) \
    X(CL_PROGRAM_KERNEL_NAMES, 0x1168) \
  X(CL_PROGRAM_BUILD_LOG, 0x1183) X(CL_KERNEL_NUM_ARGS, 0x1191)

#define CL_DEVICE_TYPE_ALL 0xFFFFFFFFu

#define OCL_FUNCTIONS(X) /* result, name after "cl", parameters */ \
  X(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *)) \
  X(cl_int, GetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, GetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *)) \
  X(cl_int, GetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *)) \
  X(cl_context, CreateContext, (const intptr_t *, cl_uint, const cl_device_id *, ocl_context_fn, \
    void *, cl_int *)) \
  X(cl_int, ReleaseContext, (cl_context)) \
  X(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *)) \
  X(cl_int, RetainCommandQueue, (cl_command_queue)) \
  X(cl_int, ReleaseCommandQueue, (cl_command_queue)) \
  X(cl_int, GetCommandQueueInfo, (cl_command_queue, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, Flush, (cl_command_queue)) \
  X(cl_int, Finish, (cl_command_queue)) \
  X(cl_mem, CreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *)) \
  X(cl_int, RetainMemObject, (cl_mem)) \
  X(cl_int, ReleaseMemObject, (cl_mem)) \
  X(cl_int, GetMemObjectInfo, (cl_mem, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, EnqueueReadBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, \
    cl_uint, const cl_event *, cl_event *)) \
  X(cl_int, EnqueueWriteBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, \
    cl_uint, const cl_event *, cl_event *)) \
  X(cl_int, EnqueueCopyBuffer, (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, \
    const cl_event *, cl_event *)) \
  X(cl_int, EnqueueFillBuffer, (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, \
    cl_uint, const cl_event *, cl_event *)) \
  X(void *, EnqueueMapBuffer, (cl_command_queue, cl_mem, cl_bool, cl_bitfield, size_t, size_t, \
    cl_uint, const cl_event *, cl_event *, cl_int *)) \
  X(cl_int, EnqueueUnmapMemObject, (cl_command_queue, cl_mem, void *, cl_uint, const cl_event *, \
    cl_event *)) \
  X(cl_int, EnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *)) \
  X(cl_int, EnqueueBarrierWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *)) \
  X(cl_int, EnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, \
    const size_t *, const size_t *, cl_uint, const cl_event *, cl_event *)) \
  X(cl_event, CreateUserEvent, (cl_context, cl_int *)) \
  X(cl_int, SetUserEventStatus, (cl_event, cl_int)) \
  X(cl_int, SetEventCallback, (cl_event, cl_int, ocl_event_fn, void *)) \
  X(cl_int, WaitForEvents, (cl_uint, const cl_event *)) \
  X(cl_int, GetEventInfo, (cl_event, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, GetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, RetainEvent, (cl_event)) \
  X(cl_int, ReleaseEvent, (cl_event)) \
  X(cl_program, CreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, \
    cl_int *)) \
  X(cl_program, CreateProgramWithBinary, (cl_context, cl_uint, const cl_device_id *, \
    const size_t *, const unsigned char **, cl_int *, cl_int *)) \
  X(cl_int, BuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, \
    ocl_program_fn, void *)) \
  X(cl_int, GetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, ReleaseProgram, (cl_program)) \
  X(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *)) \
  X(cl_int, ReleaseKernel, (cl_kernel)) \
  X(cl_int, GetKernelInfo, (cl_kernel, cl_uint, size_t, void *, size_t *)) \
  X(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *))

#define OCL_ERRORS(X) \
  /* name, number, status; INVALID for those that say that an argument is wrong */ \
  X(CL_SUCCESS, 0, OK) X(CL_DEVICE_NOT_FOUND, -1, UNAVAILABLE) \
    X(CL_DEVICE_NOT_AVAILABLE, -2, UNAVAILABLE) \
  X(CL_COMPILER_NOT_AVAILABLE, -3, UNAVAILABLE) X(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4, MEMORY) \
  X(CL_OUT_OF_RESOURCES, -5, MEMORY) X(CL_OUT_OF_HOST_MEMORY, -6, MEMORY) \
  X(CL_PROFILING_INFO_NOT_AVAILABLE, -7, UNAVAILABLE) X(CL_MEM_COPY_OVERLAP, -8, INVALID) \
  X(CL_IMAGE_FORMAT_MISMATCH, -9, INVALID) X(CL_IMAGE_FORMAT_NOT_SUPPORTED, -10, INVALID) \
  X(CL_BUILD_PROGRAM_FAILURE, -11, INVALID) X(CL_MAP_FAILURE, -12, MEMORY) \
  X(CL_MISALIGNED_SUB_BUFFER_OFFSET, -13, INVALID) \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, -14, ABORTED) \
  X(CL_COMPILE_PROGRAM_FAILURE, -15, INVALID) X(CL_LINKER_NOT_AVAILABLE, -16, UNAVAILABLE) \
  X(CL_LINK_PROGRAM_FAILURE, -17, INVALID) X(CL_DEVICE_PARTITION_FAILED, -18, INVALID) \
  X(CL_KERNEL_ARG_INFO_NOT_AVAILABLE, -19, UNAVAILABLE) X(CL_INVALID_VALUE, -30, INVALID) \
  X(CL_INVALID_DEVICE_TYPE, -31, INVALID) X(CL_INVALID_PLATFORM, -32, INVALID) \
    X(CL_INVALID_DEVICE, -33, INVALID) \
  X(CL_INVALID_CONTEXT, -34, INVALID) X(CL_INVALID_QUEUE_PROPERTIES, -35, INVALID) \
  X(CL_INVALID_COMMAND_QUEUE, -36, INVALID) X(CL_INVALID_HOST_PTR, -37, INVALID) \
  X(CL_INVALID_MEM_OBJECT, -38, INVALID) X(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, -39, INVALID) \
  X(CL_INVALID_IMAGE_SIZE, -40, INVALID) X(CL_INVALID_SAMPLER, -41, INVALID) \
    X(CL_INVALID_BINARY, -42, INVALID) \
  X(CL_INVALID_BUILD_OPTIONS, -43, INVALID) X(CL_INVALID_PROGRAM, -44, INVALID) \
  X(CL_INVALID_PROGRAM_EXECUTABLE, -45, INVALID) X(CL_INVALID_KERNEL_NAME, -46, INVALID) \
  X(CL_INVALID_KERNEL_DEFINITION, -47, INVALID) X(CL_INVALID_KERNEL, -48, INVALID) \
  X(CL_INVALID_ARG_INDEX, -49, INVALID) X(CL_INVALID_ARG_VALUE, -50, INVALID) \
    X(CL_INVALID_ARG_SIZE, -51, INVALID) \
  X(CL_INVALID_KERNEL_ARGS, -52, INVALID) X(CL_INVALID_WORK_DIMENSION, -53, INVALID) \
  X(CL_INVALID_WORK_GROUP_SIZE, -54, INVALID) X(CL_INVALID_WORK_ITEM_SIZE, -55, INVALID) \
  X(CL_INVALID_GLOBAL_OFFSET, -56, INVALID) X(CL_INVALID_EVENT_WAIT_LIST, -57, INVALID) \
  X(CL_INVALID_EVENT, -58, INVALID) X(CL_INVALID_OPERATION, -59, INVALID) \
    X(CL_INVALID_GL_OBJECT, -60, INVALID) \
  X(CL_INVALID_BUFFER_SIZE, -61, MEMORY) X(CL_INVALID_MIP_LEVEL, -62, INVALID) \
  X(CL_INVALID_GLOBAL_WORK_SIZE, -63, INVALID) X(CL_INVALID_PROPERTY, -64, INVALID) \
  X(CL_INVALID_IMAGE_DESCRIPTOR, -65, INVALID) X(CL_INVALID_COMPILER_OPTIONS, -66, INVALID) \
  X(CL_INVALID_LINKER_OPTIONS, -67, INVALID) X(CL_INVALID_DEVICE_PARTITION_COUNT, -68, INVALID) \
  X(CL_PLATFORM_NOT_FOUND_KHR, -1001, UNAVAILABLE)

#define OCL_MEMBER_(name, value) name = (value),
#define OCL_ERROR_(name, value, status) name = (value),
#define OCL_POINTER_(result, name, parameters) result(OCL_CALL *name) parameters;
enum { OCL_ERRORS(OCL_ERROR_) };
enum { OCL_CONSTANTS(OCL_MEMBER_) };
typedef struct ocl_api_t { OCL_FUNCTIONS(OCL_POINTER_) } ocl_api_t;
/* clang-format on */

extern ocl_api_t ocl;

/* Opens the loader once. UNAVAILABLE: no loader is installed, or it lacks a function; the message
 * says what to install. */
tenon_status_t ocl_api_open(const tenon_device_context_t *context);

#endif
