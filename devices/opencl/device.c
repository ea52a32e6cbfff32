/* The device "opencl": every device of every OpenCL driver, version 1.2 or newer, that the loader
 * finds at run time. Tests run it on PoCL. This file finds the devices, starts and stops ordinals,
 * and holds the device table. */
#include "device.h"
#include "event.h"
#include "memory.h"
#include "program.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  DEVICES_MOST = 256,
  PLATFORMS_MOST = 64,
  CHANCES_MOST = 64,
};

typedef struct ocl_found_t {
  cl_platform_id platform;
  cl_device_id id;
  int rank; /* by type: the types that users most likely want come first */
} ocl_found_t;

/* What the loader found. It does not look again within a process. */
static struct {
  pthread_mutex_t lock;
  ocl_found_t devices[DEVICES_MOST];
  int32_t count;
  pid_t process;
  char declined[4000]; /* one line for each device that is not used */
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool ocl_device_here(void) { return found.process == getpid(); }

uint64_t ocl_device_number(cl_device_id id, cl_uint what) {
  unsigned char bytes[8] = {0};
  uint64_t number = 0;
  if (ocl.GetDeviceInfo(id, what, sizeof bytes, bytes, NULL)) return 0;
  /* little-endian, because big-endian devices are declined */
  memcpy(&number, bytes, sizeof number);
  return number;
}

void ocl_device_text(cl_device_id id, cl_uint what, char *out, size_t size) {
  *out = 0;
  if (ocl.GetDeviceInfo(id, what, size - 1, out, NULL)) *out = 0;
  out[size - 1] = 0;
}

static void platform_text(cl_platform_id id, cl_uint what, char *out, size_t size) {
  *out = 0;
  if (ocl.GetPlatformInfo(id, what, size - 1, out, NULL)) *out = 0;
  out[size - 1] = 0;
}

/* looking for devices */

static void decline(const char *platform, const char *device, const char *why) {
  size_t used = strlen(found.declined);
  snprintf(found.declined + used, sizeof found.declined - used, "%s: %s: %s\n", platform, device,
           why);
}

static void look_at_device(cl_platform_id platform, const char *platform_name, cl_device_id id) {
  char name[200], version[200], why[300];
  int major = 0;
  int minor = 0;
  ocl_device_text(id, CL_DEVICE_NAME, name, sizeof name);
  ocl_device_text(id, CL_DEVICE_VERSION, version, sizeof version);
  uint64_t type = ocl_device_number(id, CL_DEVICE_TYPE);
  *why = 0;
  if (sscanf(version, "OpenCL %d.%d", &major, &minor) != 2 || major * 10 + minor < 12)
    snprintf(why, sizeof why, "it has \"%s\", and OpenCL 1.2 is needed: look for a newer driver",
             version);
  else if (!ocl_device_number(id, CL_DEVICE_AVAILABLE))
    snprintf(why, sizeof why, "its driver says that it is not available");
  else if (!ocl_device_number(id, CL_DEVICE_COMPILER_AVAILABLE))
    snprintf(why, sizeof why, "its driver has no compiler");
  else if (!ocl_device_number(id, CL_DEVICE_ENDIAN_LITTLE))
    snprintf(why, sizeof why, "it is big-endian");
  else if (found.count == DEVICES_MOST)
    snprintf(why, sizeof why, "Tenon uses at most %d devices, and those before it are as many",
             DEVICES_MOST);
  if (*why) {
    decline(platform_name, name, why);
    return;
  }
  int rank = 3;
  if (type & CL_DEVICE_TYPE_GPU)
    rank = 0;
  else if (type & CL_DEVICE_TYPE_ACCELERATOR)
    rank = 1;
  else if (type & CL_DEVICE_TYPE_CPU)
    rank = 2;
  int32_t at = found.count++;
  for (; at > 0 && found.devices[at - 1].rank > rank; at--)
    found.devices[at] = found.devices[at - 1];
  found.devices[at] = (ocl_found_t){platform, id, rank};
}

/* Sorted by name, so that ordinals do not depend on the order in which the loader reads its
 * files. */
static void sort_platforms(cl_platform_id *platforms, cl_uint count) {
  for (cl_uint i = 1; i < count; i++)
    for (cl_uint k = i; k > 0; k--) {
      char a[300], b[300];
      platform_text(platforms[k - 1], CL_PLATFORM_NAME, a, sizeof a);
      platform_text(platforms[k], CL_PLATFORM_NAME, b, sizeof b);
      if (strcmp(a, b) <= 0) break;
      cl_platform_id other = platforms[k];
      platforms[k] = platforms[k - 1];
      platforms[k - 1] = other;
    }
}

static void look_at_platform(cl_platform_id platform) {
  cl_device_id ids[CHANCES_MOST];
  cl_uint count = 0;
  char name[300];
  platform_text(platform, CL_PLATFORM_NAME, name, sizeof name);
  cl_int error = ocl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, CHANCES_MOST, ids, &count);
  if (error || !count)
    decline(name, "no device", error ? ocl_error_name(error) : "the driver found none");
  for (cl_uint i = 0; !error && i < count && i < CHANCES_MOST; i++)
    look_at_device(platform, name, ids[i]);
}

static tenon_status_t look(const tenon_device_context_t *context) {
  cl_platform_id platforms[PLATFORMS_MOST];
  cl_uint count = 0;
  const char *vendors = secure_getenv("OCL_ICD_VENDORS");
  TENON_TRY(ocl_api_open(context));
  found.process = getpid();
  *found.declined = 0;
  cl_int error = ocl.GetPlatformIDs(PLATFORMS_MOST, platforms, &count);
  if (error || !count) {
    const char *found_error = error ? ocl_error_name(error) : "none";
    const char *folder = vendors ? vendors : "/etc/OpenCL/vendors";
    return tenon_fail(context, TENON_UNAVAILABLE,
                      "opencl: the loader found no driver (%s) in %s; install that of the "
                      "hardware, or for processors PoCL, on Debian pocl-opencl-icd",
                      found_error, folder);
  }
  if (count > PLATFORMS_MOST) count = PLATFORMS_MOST;
  sort_platforms(platforms, count);
  for (cl_uint i = 0; i < count; i++)
    look_at_platform(platforms[i]);
  if (found.count) return TENON_OK;
  return tenon_fail(context, TENON_UNAVAILABLE, "opencl: no device of %u drivers can be used:\n%s",
                    count, found.declined);
}

static tenon_status_t enumerate(tenon_device_context_t *context, int32_t *out_count) {
  pthread_mutex_lock(&found.lock);
  tenon_status_t status = found.count ? TENON_OK : look(context);
  *out_count = found.count;
  pthread_mutex_unlock(&found.lock);
  context->plugin = &found;
  return status;
}

/* an ordinal */

static void add(uint32_t *list, uint32_t dtype) { /* lists end with 0 */
  while (*list)
    list++;
  *list = dtype;
}

static void describe_device(ocl_device_t *device) {
  char platform[300], version[300], driver[200], extensions[8000], own[300];
  cl_device_id id = device->id;
  platform_text(device->platform, CL_PLATFORM_NAME, platform, sizeof platform);
  platform_text(device->platform, CL_PLATFORM_VERSION, version, sizeof version);
  ocl_device_text(id, CL_DEVICE_NAME, device->name, sizeof device->name);
  ocl_device_text(id, CL_DRIVER_VERSION, driver, sizeof driver);
  ocl_device_text(id, CL_DEVICE_VERSION, own, sizeof own);
  ocl_device_text(id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
  snprintf(device->driver, sizeof device->driver, "%.100s %.150s", platform, driver);
  snprintf(device->target, sizeof device->target, "opencl|%s|%s|%s|%s|%s", platform, version,
           device->name, own, driver);
  device->memory = ocl_device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE);
  device->largest = ocl_device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  device->local_most = ocl_device_number(id, CL_DEVICE_LOCAL_MEM_SIZE);
  device->units = (uint32_t)ocl_device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS);
  device->group_most = (uint32_t)ocl_device_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  device->unified = ocl_device_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY) != 0;
  device->rounds_division =
      ocl_device_number(id, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  bool doubles = strstr(extensions, "cl_khr_fp64") != NULL;
  device->wide_atomics = strstr(extensions, "cl_khr_int64_base_atomics") != NULL;
  static const uint32_t computes[] = {TENON_BOOL, TENON_I8,  TENON_U8,  TENON_I16, TENON_U16,
                                      TENON_I32,  TENON_U32, TENON_I64, TENON_U64, TENON_F32};
  for (size_t i = 0; i < sizeof computes / sizeof *computes; i++)
    add(device->computes, computes[i]);
  if (doubles) add(device->computes, TENON_F64);
  add(device->atomics, TENON_I32);
  add(device->atomics, TENON_U32);
  add(device->atomics, TENON_F32); /* by compare and exchange */
  if (device->wide_atomics) {
    add(device->atomics, TENON_I64);
    add(device->atomics, TENON_U64);
  }
  if (device->wide_atomics && doubles) add(device->atomics, TENON_F64);
}

/* Closes what was opened. Waits for all work. */
static void stop(tenon_device_context_t *context) {
  ocl_device_t *device = (ocl_device_t *)context->state;
  if (!device) return;
  context->state = NULL;
  /* in a child process the driver's threads do not exist, and waiting would never end */
  if (ocl_device_here()) {
    ocl_stream_close_all(device);
    if (device->service) {
      ocl.Finish(device->service);
      ocl.ReleaseCommandQueue(device->service);
    }
    if (device->context) ocl.ReleaseContext(device->context);
  }
  pthread_mutex_destroy(&device->lock);
  free(device);
}

static tenon_status_t forked(tenon_on_t on) {
  if (ocl_device_here()) return TENON_OK;
  return tenon_fail(
      on, TENON_UNAVAILABLE,
      "opencl:%d: OpenCL was opened before this process was forked, and drivers do not work in the "
      "child; fork before devices are used, or start a new program (exec, Python's \"spawn\")",
      on->ordinal);
}

static tenon_status_t start(tenon_device_context_t *context) {
  TENON_TRY(forked(context));
  if (*context->settings)
    return tenon_fail(context, TENON_INVALID,
                      "opencl: there are no settings, and TENON_OPENCL says '%s'",
                      context->settings);
  if (context->ordinal < 0 || context->ordinal >= found.count)
    return tenon_fail(context, TENON_INVALID, "opencl:%d: there is no such ordinal; there are %d",
                      context->ordinal, found.count);
  ocl_device_t *device = (ocl_device_t *)calloc(1, sizeof *device);
  if (!device)
    return tenon_fail(context, TENON_MEMORY, "opencl:%d: no host memory", context->ordinal);
  pthread_mutex_init(&device->lock, NULL);
  device->platform = found.devices[context->ordinal].platform;
  device->id = found.devices[context->ordinal].id;
  context->state = device;
  describe_device(device);
  const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)device->platform, 0};
  cl_int error = CL_SUCCESS;
  device->context = ocl.CreateContext(properties, 1, &device->id, NULL, NULL, &error);
  if (!error) device->service = ocl.CreateCommandQueue(device->context, device->id, 0, &error);
  tenon_status_t status =
      error ? ocl_fail(context, error, "cannot open %s of %s", device->name, device->driver)
            : ocl_stream_open(context, NULL, &device->first);
  if (status != TENON_OK) stop(context);
  return status;
}

static tenon_status_t properties(tenon_on_t on, tenon_device_properties_t *out) {
  const ocl_device_t *device = ocl_device(on);
  out->features = TENON_DEVICE_OVERLAPS | TENON_DEVICE_TIMES | TENON_DEVICE_BLAMES;
  if (device->wide_atomics) out->features |= TENON_DEVICE_WIDE_ATOMICS;
  out->name = device->name;
  out->driver = device->driver;
  out->target = device->target;
  out->memory = device->memory;
  out->largest = device->largest;
  out->alignment = 128; /* the alignment of long16, the largest type of OpenCL C */
  out->units = device->units;
  out->group_most = device->group_most;
  out->local_most = device->local_most;
  out->languages = 1u << TENON_SOURCE_OPENCL;
  out->stores = NULL;
  out->computes = device->computes;
  out->atomics = device->atomics;
  out->layouts = NULL;
  return TENON_OK;
}

/* Native objects of an ordinal. The native object "declined" of the plug-in is a text with a line
 * for each device that is not used, which states the reason. */
static void *native(tenon_on_t on, const char *name, void *stream) {
  static tenon_status_t (*const enqueue_failure)(tenon_on_t, void *, uint64_t) =
      ocl_enqueue_failure;
  ocl_device_t *device = ocl_device(on);
  if (strcmp(name, "declined") == 0) return found.declined;
  if (!device) return NULL;
  if (strcmp(name, "cl_platform_id") == 0) return device->platform;
  if (strcmp(name, "cl_device_id") == 0) return device->id;
  if (strcmp(name, "cl_context") == 0) return device->context;
  if (strcmp(name, "enqueue_failure") == 0) return (void *)&enqueue_failure;
  if (strcmp(name, "cl_command_queue") == 0 || strcmp(name, "stream") == 0)
    return ocl_stream(on, stream)->queue;
  return NULL;
}

static const tenon_device_table_t table = {
    .size = sizeof table,
    .abi = TENON_DEVICE_ABI,
    .name = "opencl",
    .type = 4,
    .enumerate = enumerate,
    .start = start,
    .stop = stop,
    .properties = properties,
    .allocate = ocl_memory_allocate,
    .free = ocl_memory_free,
    .copy = ocl_memory_copy,
    .synchronize = ocl_synchronize,
    .stream_create = ocl_stream_create,
    .stream_destroy = ocl_stream_destroy,
    .stream_query = ocl_stream_query,
    .stream_synchronize = ocl_stream_synchronize,
    .event_create = ocl_event_create,
    .event_destroy = ocl_event_destroy,
    .event_record = ocl_event_record,
    .event_query = ocl_event_query,
    .event_synchronize = ocl_event_synchronize,
    .stream_wait = ocl_stream_wait,
    .event_time = ocl_event_time,
    .fill = ocl_memory_fill,
    .host_allocate = ocl_host_allocate,
    .host_free = ocl_host_free,
    .callback = ocl_stream_callback,
    .native = native,
    .memory_import = ocl_memory_import,
    .memory_forget = ocl_memory_free,
    .stream_import = ocl_stream_import,
    .stream_forget = ocl_stream_destroy,
    .forked = forked,
    .compile = ocl_program_compile,
    .program_load = ocl_program_load,
    .program_unload = ocl_program_unload,
    .kernel_find = ocl_kernel_find,
    .launch = ocl_kernel_launch,
};

TENON_LIBRARY(opencl, "1.0.0", TENON_ABOUT("author: the Tenon developers\nlicence: Apache-2.0"),
              TENON_DEVICE(&table))
