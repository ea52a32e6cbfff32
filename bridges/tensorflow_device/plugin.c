/* The entry points that TensorFlow looks for in a plug-in, and the platforms. One library serves
 * any number of backends: each time that TensorFlow loads the library, under another name of the
 * file, the next backend becomes a platform. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "plugin.h"
#include "profiler.h"

#define EXPORT __attribute__((visibility("default")))

enum { PLATFORMS_MOST = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static platform_t *platforms[PLATFORMS_MOST];
static int32_t platform_count;
static int32_t kernel_count; /* platforms whose kernels are registered */
static char chosen[PLUGIN_NAME_SIZE];

/* ---- which backend --------------------------------------------------------------------------- */

/* Copies the index-th name of a list with commas. Returns false if there is none. */
static bool find_listed_name(const char *list, int32_t index, char *out, size_t capacity) {
  const char *at = list;
  for (; at && index > 0; index--) {
    at = strchr(at, ',');
    if (at) at++;
  }
  if (!at || !*at) return false;
  const size_t size = strcspn(at, ",");
  if (size == 0 || size >= capacity) return false;
  memcpy(out, at, size);
  out[size] = 0;
  return true;
}

/* Finds the backend of the next platform: the one that tenon_tensorflow_choose named, or the next
 * one of TENON_TENSORFLOW. */
static tenon_status_t find_backend(char *out, size_t capacity) {
  const char *list = secure_getenv("TENON_TENSORFLOW");
  if (*chosen) {
    snprintf(out, capacity, "%s", chosen);
    *chosen = 0;
    return TENON_OK;
  }
  if (list && find_listed_name(list, platform_count, out, capacity)) return TENON_OK;
  return tenon_error_set(
      TENON_INVALID,
      "no backend of Tenon was chosen for TensorFlow: call tenon.tensorflow.device.enable, or set "
      "the environment variable TENON_TENSORFLOW to the names of backends, such as \"sim\"");
}

/* Makes the name of a device type: capital letters and underscores, and no name of TensorFlow's. */
static tenon_status_t make_type(const char *backend, char *out, size_t capacity) {
  static const char *const taken[] = {"CPU", "GPU", "TPU", "DEFAULT"};
  const char *prefix = "";
  char type[PLUGIN_NAME_SIZE - 6];
  size_t i = 0;
  for (; backend[i] && i + 1 < sizeof type; i++)
    type[i] = (char)toupper((unsigned char)backend[i]);
  type[i] = 0;
  if (strspn(type, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != strlen(backend) || *type == '_')
    return tenon_error_set(TENON_INVALID,
                           "TensorFlow accepts only letters and '_', at most 41, in the name of a "
                           "device: give the backend another name");
  for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
    if (!strcmp(type, taken[k])) prefix = "TENON_";
  snprintf(out, capacity, "%s%s", prefix, type);
  return TENON_OK;
}

static tenon_status_t open_platform_device(platform_t *platform, int32_t ordinal) {
  device_t *device = &platform->devices[ordinal];
  device->platform = platform;
  device->info.size = sizeof device->info;
  pthread_mutex_init(&device->lock, NULL);
  const tenon_status_t status = tenon_device_find(platform->backend, ordinal, &device->device);
  return status == TENON_OK ? tenon_device_info(device->device, &device->info) : status;
}

/* Lets operators that a formula needs, and for which the backend has no kernel of a dtype, run on
 * the CPU, with copies. The host counts them. The registration stays until the process ends. */
static tenon_status_t add_fallback(const platform_t *platform) {
  tenon_registration_t *registration = NULL;
  const tenon_status_t status =
      tenon_fallback_add(platform->backend, tenon_fallback_cpu, NULL, NULL, 0, &registration);
  return status == TENON_EXISTS ? TENON_OK : status; /* The program has registered one. */
}

static tenon_status_t open_platform(platform_t *platform) {
  int32_t count = 0;
  tenon_status_t status = find_backend(platform->backend, sizeof platform->backend);
  if (status == TENON_OK)
    status = make_type(platform->backend, platform->type, sizeof platform->type);
  for (int32_t i = 0; i < platform_count && status == TENON_OK; i++)
    if (!strcmp(platforms[i]->type, platform->type))
      status = tenon_error_set(TENON_EXISTS, "the backend is a device of TensorFlow already");
  if (status == TENON_OK) status = tenon_device_count(platform->backend, &count);
  platform->device_count = count < PLUGIN_DEVICES_MOST ? count : PLUGIN_DEVICES_MOST;
  for (int32_t i = 0; i < platform->device_count && status == TENON_OK; i++)
    status = open_platform_device(platform, i);
  return status == TENON_OK ? add_fallback(platform) : status;
}

static tenon_status_t add_platform(platform_t **out) {
  if (platform_count == PLATFORMS_MOST)
    return tenon_error_set(TENON_MEMORY, "at most 8 backends can be devices of TensorFlow");
  platform_t *platform = calloc(1, sizeof *platform);
  if (!platform) return tenon_error_set(TENON_MEMORY, "out of memory: a platform");
  const tenon_status_t status = open_platform(platform);
  if (status != TENON_OK) {
    free(platform);
    return status;
  }
  platforms[platform_count++] = platform; /* TensorFlow never unloads a plug-in. */
  profiler_set_type(platform->type);
  *out = platform;
  return TENON_OK;
}

/* ---- functions of the platform --------------------------------------------------------------- */

static platform_t *platform_of(const se_platform_t *se) { return se->extension; }

static void device_count(const se_platform_t *se, int *out_count, tf_status_t *status) {
  *out_count = platform_of(se)->device_count;
  set_status(status, TENON_OK);
}

static void create_device(const se_platform_t *se, se_create_device_t *call, tf_status_t *status) {
  platform_t *platform = platform_of(se);
  if (call->ordinal < 0 || call->ordinal >= platform->device_count) {
    set_status(status, tenon_error_set(TENON_RANGE, "the backend has no device of this number"));
    return;
  }
  device_t *device = &platform->devices[call->ordinal];
  *call->device = (se_device_t){.size = SE_SIZE(se_device_t, bus_id),
                                .ordinal = call->ordinal,
                                .handle = device,
                                .hardware_name = device->info.name,
                                .vendor = device->info.driver,
                                .bus_id = ""};
  set_status(status, TENON_OK);
}

static void destroy_device(const se_platform_t *se, se_device_t *device) {
  (void)se;
  device->handle = NULL;
}

static int32_t numa_node(const se_device_t *device) {
  (void)device;
  return -1;
}

static int64_t bandwidth(const se_device_t *device) {
  (void)device;
  return -1;
}

static double gflops(const se_device_t *device) {
  (void)device;
  return -1;
}

static void create_device_functions(const se_platform_t *se, se_create_device_functions_t *call,
                                    tf_status_t *status) {
  (void)se;
  *call->functions = (se_device_functions_t){SE_SIZE(se_device_functions_t, gflops), NULL,
                                             numa_node, bandwidth, gflops};
  set_status(status, TENON_OK);
}

static void destroy_device_functions(const se_platform_t *se, se_device_functions_t *functions) {
  (void)se;
  (void)functions;
}

static void create_executor(const se_platform_t *se, se_create_executor_t *call,
                            tf_status_t *status) {
  (void)se;
  *call->executor = (se_executor_t){.size = SE_SIZE(se_executor_t, callback)};
  fill_memory_functions(call->executor);
  fill_stream_functions(call->executor);
  fill_copy_functions(call->executor);
  set_status(status, TENON_OK);
}

static void destroy_executor(const se_platform_t *se, se_executor_t *executor) {
  (void)se;
  (void)executor;
}

static void create_timer_functions(const se_platform_t *se, se_timer_functions_t *functions,
                                   tf_status_t *status) {
  (void)se;
  *functions =
      (se_timer_functions_t){SE_SIZE(se_timer_functions_t, nanoseconds), NULL, timing_nanoseconds};
  set_status(status, TENON_OK);
}

static void destroy_timer_functions(const se_platform_t *se, se_timer_functions_t *functions) {
  (void)se;
  (void)functions;
}

static void destroy_platform(se_platform_t *platform) { (void)platform; }
static void destroy_functions(se_platform_functions_t *functions) { (void)functions; }

static void fill_registration(se_registration_t *call, platform_t *platform) {
  *call->platform = (se_platform_t){.size = SE_SIZE(se_platform_t, grows),
                                    .extension = platform,
                                    .name = platform->type,
                                    .type = platform->type,
                                    .grows = 1};
  *call->functions =
      (se_platform_functions_t){.size = SE_SIZE(se_platform_functions_t, destroy_timer_functions),
                                .device_count = device_count,
                                .create_device = create_device,
                                .destroy_device = destroy_device,
                                .create_device_functions = create_device_functions,
                                .destroy_device_functions = destroy_device_functions,
                                .create_executor = create_executor,
                                .destroy_executor = destroy_executor,
                                .create_timer_functions = create_timer_functions,
                                .destroy_timer_functions = destroy_timer_functions};
  call->destroy_platform = destroy_platform;
  call->destroy_functions = destroy_functions;
}

/* ---- entry points ---------------------------------------------------------------------------- */

/* Names the backend of the platform that TensorFlow asks for next. For Python, which calls it
 * before it makes TensorFlow load the library. */
EXPORT void tenon_tensorflow_choose(const char *backend);
EXPORT void tenon_tensorflow_choose(const char *backend) {
  pthread_mutex_lock(&lock);
  snprintf(chosen, sizeof chosen, "%s", backend);
  pthread_mutex_unlock(&lock);
}

/* Returns the device type of a backend in TensorFlow, or NULL. */
EXPORT const char *tenon_tensorflow_type(const char *backend);
EXPORT const char *tenon_tensorflow_type(const char *backend) {
  const char *type = NULL;
  pthread_mutex_lock(&lock);
  for (int32_t i = 0; i < platform_count; i++)
    if (!strcmp(platforms[i]->backend, backend)) type = platforms[i]->type;
  pthread_mutex_unlock(&lock);
  return type;
}

/* Lists what kernels of Tenon have computed: a line "TYPE OPERATOR NUMBER" for each operator.
 * The text is valid until the next call. */
EXPORT const char *tenon_tensorflow_counts(void);
EXPORT const char *tenon_tensorflow_counts(void) {
  static char text[PLATFORMS_MOST * 64 * 1024];
  size_t used = 0;
  *text = 0;
  pthread_mutex_lock(&lock);
  for (int32_t i = 0; i < platform_count; i++)
    used += write_counts(platforms[i], text + used, sizeof text - used);
  pthread_mutex_unlock(&lock);
  return text;
}

/* TensorFlow calls it once for each load of the library. */
EXPORT void SE_InitPlugin(se_registration_t *call, tf_status_t *status);
EXPORT void SE_InitPlugin(se_registration_t *call, tf_status_t *status) {
  char error[400];
  platform_t *platform = NULL;
  if (!tf_open(error, sizeof error)) { /* Without its functions, no status can be set. */
    fprintf(stderr, "tenon: %s\n", error);
    return;
  }
  tenon_status_t result = TENON_OK;
  if (call->major != SE_MAJOR)
    result = tenon_error_set(TENON_PRECONDITION,
                             "this TensorFlow has another version of the interface for devices "
                             "than 0: use TensorFlow 2.21");
  pthread_mutex_lock(&lock);
  if (result == TENON_OK) result = add_platform(&platform);
  pthread_mutex_unlock(&lock);
  if (platform) fill_registration(call, platform);
  set_status(status, result);
}

/* TensorFlow calls it after SE_InitPlugin, once for each load. */
EXPORT void TF_InitKernel(void);
EXPORT void TF_InitKernel(void) {
  pthread_mutex_lock(&lock);
  for (; kernel_count < platform_count; kernel_count++)
    if (register_kernels(platforms[kernel_count]) != TENON_OK ||
        register_own(platforms[kernel_count]) != TENON_OK)
      fprintf(stderr, "tenon: the kernels of %s were not registered: %s\n",
              platforms[kernel_count]->type, tenon_error());
  pthread_mutex_unlock(&lock);
}
