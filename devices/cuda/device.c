/* The device "cuda": every NVIDIA GPU that the driver shows. It uses the driver's own interface,
 * which is opened when the device is first asked for. This file finds the GPUs, starts and stops
 * ordinals, and holds the device table. */
#include "blas.h"
#include "capture.h"
#include "compile.h"
#include "deferred.h"
#include "dnn.h"
#include "error.h"
#include "event.h"
#include "memory.h"
#include "program.h"
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  ARCH_LEAST = 60,
  VERSION_LEAST = 11040,
};

/* What the driver showed. It does not look again within a process. */
static struct {
  pthread_mutex_t lock;
  int32_t count;
  int version;
  pid_t process;
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Tells whether this is the process that opened the driver. The driver does not work in child
 * processes of it. */
static bool is_opener(void) { return found.process == getpid(); }

static int number_of(cu_id_t id, cu_enum_t what) {
  int number = 0;
  return cu.DeviceGetAttribute(&number, what, id) ? 0 : number;
}

static int arch_of(cu_id_t id) {
  return 10 * number_of(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
         number_of(id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

/* looking for devices */

static tenon_status_t look(const tenon_device_context_t *context) {
  int count = 0;
  const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
  TENON_TRY(cu_api_open(context));
  cu_result_t error = cu.DriverGetVersion(&found.version);
  if (!error && found.version < VERSION_LEAST)
    return tenon_fail(context, TENON_UNAVAILABLE,
                      "cuda: the driver is for CUDA %d.%d, and 11.4 is needed: install NVIDIA's "
                      "driver 470 or newer",
                      found.version / 1000, found.version % 1000 / 10);
  found.process = getpid();
  if (!error) error = cu.Init(0);
  if (!error) error = cu.DeviceGetCount(&count);
  if (error || !count) {
    const char *setting = visible ? ", and CUDA_VISIBLE_DEVICES is " : "";
    const char *list = visible ? visible : "";
    return tenon_fail(context, TENON_UNAVAILABLE,
                      "cuda: the driver shows no GPU (%s)%s%s; nvidia-smi lists those that work",
                      error ? cu_error_name(error) : "none", setting, list);
  }
  found.count = count < CU_ORDINALS_MOST ? count : CU_ORDINALS_MOST;
  return TENON_OK;
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

static void describe_device(cu_device_t *device) {
  cu_id_t id = device->id;
  size_t memory = 0;
  device->arch = arch_of(id);
  device->version = found.version;
  cu.DeviceGetName(device->name, (int)sizeof device->name, id);
  snprintf(device->driver, sizeof device->driver, "CUDA %d.%d", found.version / 1000,
           found.version % 1000 / 10);
  snprintf(device->target, sizeof device->target, "cuda|sm_%d|%d", device->arch, found.version);
  cu.DeviceTotalMem(&memory, id);
  device->memory = memory;
  device->units = (uint32_t)number_of(id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  device->group_most = (uint32_t)number_of(id, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  device->local_plain = (uint32_t)number_of(id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  device->local_most =
      (uint32_t)number_of(id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  if (device->local_most < device->local_plain) device->local_most = device->local_plain;
  device->has_pools = number_of(id, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
}

/* Closes what was opened. Waits for all work, including that of other ordinals, which may read
 * memory of this one. */
static void close_device(cu_device_t *device) {
  bool pushed;
  for (int i = 0; i < CU_ORDINALS_MOST; i++)
    if (cu_devices[i]) cu_streams_finish(cu_devices[i]);
  cu_streams_finish(device);
  cu_deferred_free_all(device);
  cu_blas_close(device);
  cu_dnn_close(device);
  cu_streams_close(device);
  if (!cu_enter(device, &pushed)) {
    if (device->base) cu.EventDestroy(device->base);
    if (device->service) cu.StreamDestroy(device->service);
    cu_leave(pushed);
  }
  pthread_mutex_lock(&cu_lock);
  cu_devices[device->ordinal] = NULL;
  pthread_mutex_unlock(&cu_lock);
  cu.DevicePrimaryCtxRelease(device->id);
}

static void stop(tenon_device_context_t *context) {
  cu_device_t *device = (cu_device_t *)context->state;
  if (!device) return;
  context->state = NULL;
  if (!is_opener()) /* the driver does not work here, and its locks may be held */
    cu_devices[device->ordinal] = NULL;
  else if (device->context)
    close_device(device);
  pthread_mutex_destroy(&device->clock);
  free(device);
}

static tenon_status_t forked(tenon_on_t on) {
  if (is_opener()) return TENON_OK;
  return tenon_fail(
      on, TENON_UNAVAILABLE,
      "cuda:%d: CUDA was opened before this process was forked, and does not work in the child; "
      "fork before devices are used, or start a new program (exec, Python's \"spawn\")",
      on->ordinal);
}

static tenon_status_t check_settings(const tenon_device_context_t *context) {
  for (const char *at = context->settings; *at;) {
    size_t all = strcspn(at, ",");
    if (strncmp(at, "nvrtc=", 6) != 0 && strncmp(at, "cublas=", 7) != 0 &&
        strncmp(at, "cudnn=", 6) != 0)
      return tenon_fail(context, TENON_INVALID,
                        "cuda: TENON_CUDA has '%.*s'; there are nvrtc=PATH, cublas=PATH and "
                        "cudnn=PATH (\"off\" as a path: without), with commas between",
                        (int)all, at);
    at += all + (at[all] == ',');
  }
  return TENON_OK;
}

/* Checks that the GPU can be used. */
static tenon_status_t check(tenon_on_t on, const cu_device_t *device) {
  if (device->arch < ARCH_LEAST)
    return tenon_fail(on, TENON_UNAVAILABLE, "cuda:%d: %s is sm_%d, and sm_%d is needed",
                      on->ordinal, device->name, device->arch, ARCH_LEAST);
  if (number_of(device->id, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED)
    return tenon_fail(
        on, TENON_UNAVAILABLE,
        "cuda:%d: the compute mode of %s is \"prohibited\"; nvidia-smi -c 0 allows it", on->ordinal,
        device->name);
  if (!number_of(device->id, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING))
    return tenon_fail(on, TENON_UNAVAILABLE,
                      "cuda:%d: %s lacks unified addressing, which Tenon needs", on->ordinal,
                      device->name);
  return TENON_OK;
}

static tenon_status_t open_device(tenon_device_context_t *context, cu_device_t *device) {
  cu_result_t error = cu.DeviceGet(&device->id, device->ordinal);
  if (error) return cu_fail(context, error, "cannot open it");
  describe_device(device);
  TENON_TRY(check(context, device));
  if ((error = cu.DevicePrimaryCtxRetain(&device->context, device->id))) device->context = NULL;
  if (!error) CU_IN(device, error, cu.StreamCreate(&device->service, CU_STREAM_NON_BLOCKING));
  if (error) return cu_fail(context, error, "cannot open %s", device->name);
  return cu_stream_open(context, NULL, &device->first);
}

static tenon_status_t start(tenon_device_context_t *context) {
  TENON_TRY(forked(context));
  TENON_TRY(check_settings(context));
  if (context->ordinal < 0 || context->ordinal >= found.count)
    return tenon_fail(context, TENON_INVALID, "cuda:%d: there is no such ordinal; there are %d",
                      context->ordinal, found.count);
  cu_device_t *device = (cu_device_t *)calloc(1, sizeof *device);
  if (!device)
    return tenon_fail(context, TENON_MEMORY, "cuda:%d: no host memory", context->ordinal);
  pthread_mutex_init(&device->clock, NULL);
  device->ordinal = context->ordinal;
  cu_failures[device->ordinal] = CUDA_SUCCESS; /* of a context that no longer exists */
  context->state = device;
  tenon_status_t status = open_device(context, device);
  if (status == TENON_OK)
    cu_devices[device->ordinal] = device;
  else
    stop(context);
  return status;
}

static tenon_status_t properties(tenon_on_t on, tenon_device_properties_t *out) {
  static const uint32_t computes[] = {TENON_BOOL, TENON_I8,  TENON_U8,  TENON_I16,
                                      TENON_U16,  TENON_I32, TENON_U32, TENON_I64,
                                      TENON_U64,  TENON_F32, TENON_F64, 0};
  static const uint32_t atomics[] = {TENON_I32, TENON_U32, TENON_I64, TENON_U64,
                                     TENON_F32, TENON_F64, 0};
  const cu_device_t *device = cu_device(on);
  out->features = TENON_DEVICE_ADDRESSES | TENON_DEVICE_OVERLAPS | TENON_DEVICE_TIMES |
                  TENON_DEVICE_WIDE_ATOMICS;
  out->name = device->name;
  out->driver = device->driver;
  out->target = device->target;
  out->memory = out->largest = device->memory;
  out->alignment = 256; /* the alignment of the driver's allocations */
  out->units = device->units;
  out->group_most = device->group_most;
  out->local_most = device->local_most;
  out->languages = 1u << TENON_SOURCE_CUDA;
  out->stores = NULL;
  out->computes = computes;
  out->atomics = atomics;
  out->layouts = NULL;
  return TENON_OK;
}

/* Waits for all streams of the ordinal. The memory that they used can then be freed. */
static tenon_status_t synchronize(tenon_on_t on) {
  tenon_status_t status = cu_streams_synchronize(on);
  cu_deferred_free_idle(cu_device(on));
  return status;
}

/* A caller that asks for the native stream will pass it to another library, whose calls also need
 * the context. */
static void *native(tenon_on_t on, const char *name, void *stream) {
  cu_device_t *device = cu_device(on);
  cu_context_t now = NULL;
  if (!device) return NULL;
  if (strcmp(name, "CUcontext") == 0) return device->context;
  if (strcmp(name, "CUdevice") == 0) return &device->id;
  if (strcmp(name, "CUstream") != 0 && strcmp(name, "stream") != 0) return NULL;
  if (cu.CtxGetCurrent(&now) || now != device->context) cu.CtxSetCurrent(device->context);
  return cu_stream(on, stream)->native;
}

static const tenon_device_table_t table = {
    .size = sizeof table,
    .abi = TENON_DEVICE_ABI,
    .name = "cuda",
    .type = 2,
    .enumerate = enumerate,
    .start = start,
    .stop = stop,
    .properties = properties,
    .allocate = cu_memory_allocate,
    .free = cu_memory_free,
    .copy = cu_memory_copy,
    .synchronize = synchronize,
    .stream_create = cu_stream_create,
    .stream_destroy = cu_stream_destroy,
    .stream_query = cu_stream_query,
    .stream_synchronize = cu_stream_synchronize,
    .event_create = cu_event_create,
    .event_destroy = cu_event_destroy,
    .event_record = cu_event_record,
    .event_query = cu_event_query,
    .event_synchronize = cu_event_synchronize,
    .stream_wait = cu_stream_wait,
    .event_time = cu_event_time,
    .memory_free = cu_memory_level,
    .fill = cu_memory_fill,
    .peers = cu_peers,
    .host_allocate = cu_host_allocate,
    .host_free = cu_host_free,
    .callback = cu_stream_callback,
    .native = native,
    .memory_import = cu_memory_import,
    .memory_forget = cu_memory_forget,
    .stream_import = cu_stream_import,
    .stream_forget = cu_stream_destroy,
    .forked = forked,
    .compile = cu_program_compile,
    .program_load = cu_program_load,
    .program_unload = cu_program_unload,
    .kernel_find = cu_kernel_find,
    .launch = cu_kernel_launch,
    .record_begin = cu_record_begin,
    .record_end = cu_record_end,
    .replay = cu_replay,
    .recording_free = cu_recording_free,
};

TENON_LIBRARY(cuda, "1.0.0", TENON_ABOUT("author: the Tenon developers\nlicence: Apache-2.0"),
              TENON_DEVICE(&table),
              TENON_EXTEND("core::matmul",
                           TENON_KERNEL("cuda f16|bf16|f32|f64 strided", cu_matmul_run)),
              TENON_EXTEND("core::conv",
                           TENON_KERNEL("cuda f16|bf16|f32|f64 strided", cu_conv_run)))
