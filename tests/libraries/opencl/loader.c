/* Three drivers in no particular order, with devices that can be used and devices that cannot. */
#include <string.h>

#include "api.h"

typedef struct fake_device_t {
  const char *name;
  const char *version;
  uint64_t type;
  uint32_t available;
  uint32_t compiler;
  uint32_t little;
} fake_device_t;

typedef struct fake_platform_t {
  const char *name;
  fake_device_t devices[4];
} fake_platform_t;

static const fake_platform_t platforms[] = {
    {"Beta",
     {{"a gpu", "OpenCL 3.0 beta", CL_DEVICE_TYPE_GPU, 1, 1, 1},
      {"mute", "OpenCL 2.0 beta", CL_DEVICE_TYPE_GPU, 1, 0, 1},
      {"away", "OpenCL 1.2 beta", CL_DEVICE_TYPE_GPU, 0, 1, 1},
      {"an accelerator", "OpenCL 1.2 beta", CL_DEVICE_TYPE_ACCELERATOR, 1, 1, 1}}},
    {"Gamma", {{0}}},
    {"Alpha",
     {{"old", "OpenCL 1.1 alpha", CL_DEVICE_TYPE_CPU, 1, 1, 1},
      {"big", "OpenCL 1.2 alpha", CL_DEVICE_TYPE_CPU, 1, 1, 0},
      {"a processor", "OpenCL 1.2 alpha", CL_DEVICE_TYPE_CPU, 1, 1, 1},
      {"a gpu of alpha", "OpenCL 1.2 alpha", CL_DEVICE_TYPE_GPU, 1, 1, 1}}}};

static cl_int give(const void *from, size_t size, size_t room, void *to, size_t *out_size) {
  if (out_size) *out_size = size;
  if (to && room < size) return CL_INVALID_VALUE;
  if (to) memcpy(to, from, size);
  return CL_SUCCESS;
}

TENON_EXPORT cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *out, cl_uint *out_count);
TENON_EXPORT cl_int clGetPlatformIDs(cl_uint room, cl_platform_id *out, cl_uint *out_count) {
  for (cl_uint i = 0; i < room && i < 3; i++)
    out[i] = (cl_platform_id)(uintptr_t)&platforms[i];
  *out_count = 3;
  return CL_SUCCESS;
}

TENON_EXPORT cl_int clGetPlatformInfo(cl_platform_id id, cl_uint what, size_t room, void *to,
                                      size_t *out_size);
TENON_EXPORT cl_int clGetPlatformInfo(cl_platform_id id, cl_uint what, size_t room, void *to,
                                      size_t *out_size) {
  const char *name = ((const fake_platform_t *)id)->name;
  return what == CL_PLATFORM_NAME ? give(name, strlen(name) + 1, room, to, out_size)
                                  : CL_INVALID_VALUE;
}

TENON_EXPORT cl_int clGetDeviceIDs(cl_platform_id id, cl_bitfield type, cl_uint room,
                                   cl_device_id *out, cl_uint *count);
TENON_EXPORT cl_int clGetDeviceIDs(cl_platform_id id, cl_bitfield type, cl_uint room,
                                   cl_device_id *out, cl_uint *count) {
  const fake_platform_t *platform = (const fake_platform_t *)id;
  *count = 0;
  while (*count < 4 && *count < room && platform->devices[*count].name &&
         type == CL_DEVICE_TYPE_ALL) {
    out[*count] = (cl_device_id)(uintptr_t)&platform->devices[*count];
    ++*count;
  }
  return *count ? CL_SUCCESS : CL_DEVICE_NOT_FOUND;
}

TENON_EXPORT cl_int clGetDeviceInfo(cl_device_id id, cl_uint what, size_t room, void *to,
                                    size_t *out_size);
TENON_EXPORT cl_int clGetDeviceInfo(cl_device_id id, cl_uint what, size_t room, void *to,
                                    size_t *out_size) {
  const fake_device_t *device = (const fake_device_t *)id;
  switch (what) {
  case CL_DEVICE_NAME:
    return give(device->name, strlen(device->name) + 1, room, to, out_size);
  case CL_DEVICE_VERSION:
    return give(device->version, strlen(device->version) + 1, room, to, out_size);
  case CL_DEVICE_TYPE:
    return give(&device->type, 8, room, to, out_size);
  case CL_DEVICE_AVAILABLE:
    return give(&device->available, 4, room, to, out_size);
  case CL_DEVICE_COMPILER_AVAILABLE:
    return give(&device->compiler, 4, room, to, out_size);
  case CL_DEVICE_ENDIAN_LITTLE:
    return give(&device->little, 4, room, to, out_size);
  default:
    return CL_INVALID_VALUE;
  }
}

TENON_EXPORT cl_context clCreateContext(const intptr_t *properties, cl_uint count,
                                        const cl_device_id *devices, ocl_context_fn notify,
                                        void *user, cl_int *out_error);
TENON_EXPORT cl_context clCreateContext(const intptr_t *properties, cl_uint count,
                                        const cl_device_id *devices, ocl_context_fn notify,
                                        void *user, cl_int *out_error) {
  (void)properties;
  (void)count;
  (void)devices;
  (void)notify;
  (void)user;
  *out_error = CL_OUT_OF_HOST_MEMORY;
  return NULL;
}
