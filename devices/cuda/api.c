/* Opens the CUDA driver, its compiler NVRTC, and other NVIDIA libraries. None of them is ever
 * closed: they have threads, and code that runs at the end of the process. */
#include "api.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cu_api_t cu;
rtc_api_t rtc;

enum { OPEN = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

tenon_status_t cu_api_open(const tenon_device_context_t *context) {
  void *library = dlopen("libcuda.so.1", OPEN);
  if (!library)
    return tenon_fail(context, TENON_UNAVAILABLE,
                      "cuda: there is no CUDA driver (%s); install NVIDIA's driver for the "
                      "hardware, 470 or newer",
                      dlerror());
#define CU_FIND_(name, symbol, parameters)                                                         \
  *(void **)&cu.name = dlsym(library, #symbol);                                                    \
  if (!cu.name)                                                                                    \
    return tenon_fail(context, TENON_UNAVAILABLE,                                                  \
                      "cuda: libcuda.so.1 has no function " #symbol                                \
                      "; it is older than CUDA 11.4: install NVIDIA's driver 470 or newer");
  CU_FUNCTIONS(CU_FIND_)
#define CU_LOOK_(name, symbol, parameters) *(void **)&cu.name = dlsym(library, #symbol);
  CU_OPTIONAL(CU_LOOK_)
  return TENON_OK;
}

/* other libraries */

const char *cu_setting(const tenon_device_context_t *context, const char *key, char *room,
                       size_t size) {
  size_t length = strlen(key);
  for (const char *at = context->settings ? context->settings : ""; *at;) {
    size_t all = strcspn(at, ",");
    if (all > length && at[length] == '=' && strncmp(at, key, length) == 0) {
      snprintf(room, size, "%.*s", (int)(all - length - 1), at + length + 1);
      return room;
    }
    at += all + (at[all] == ',');
  }
  return NULL;
}

static void *open_first(const char *pattern, const char *name) {
  char path[1000];
  glob_t found;
  void *library = NULL;
  snprintf(path, sizeof path, "%s/%s", pattern, name);
  if (glob(path, 0, NULL, &found) == 0)
    for (size_t i = 0; i < found.gl_pathc && !library; i++)
      library = dlopen(found.gl_pathv[i], OPEN);
  globfree(&found);
  return library;
}

/* The CUDA generation of a file name: 12 for "libcublas.so.12". */
static int generation_of(const char *name) {
  const char *number = strstr(name, ".so.");
  return number ? atoi(number + strlen(".so.")) : 0;
}

void *cu_library_open(const tenon_device_context_t *context, const char *key,
                      const char *const *names, int driver, char *out_tried, size_t size) {
  char own[600];
  char under_home[600] = "";
  char under_environment[600] = "";
  const char *patterns[] = {"/usr/local/cuda/lib64", under_home, under_environment};
  void *library = NULL;
  const char *home = secure_getenv("CUDA_HOME");
  const char *environment = secure_getenv("VIRTUAL_ENV");
  if (cu_setting(context, key, own, sizeof own)) {
    if (strcmp(own, "off") == 0)
      snprintf(out_tried, size, "TENON_CUDA says %s=off", key);
    else if (!(library = dlopen(own, OPEN)))
      snprintf(out_tried, size, "TENON_CUDA says %s=%s: %s", key, own, dlerror());
    return library;
  }
  while (driver && names[0] && generation_of(names[0]) > driver / 1000)
    names++;
  if (!names[0]) {
    snprintf(out_tried, size,
             "none of its versions fits this driver (CUDA %d.%d); install a newer driver, or set "
             "TENON_CUDA=%s=PATH",
             driver / 1000, driver % 1000 / 10, key);
    return NULL;
  }
  if (home) snprintf(under_home, sizeof under_home, "%.500s/lib64", home);
  if (environment)
    snprintf(under_environment, sizeof under_environment,
             "%.500s/lib/python3*/site-packages/nvidia/*/lib", environment);
  for (size_t i = 0; names[i] && !library; i++) {
    library = dlopen(names[i], OPEN);
    for (int k = 0; k < 3 && !library; k++)
      if (*patterns[k]) library = open_first(patterns[k], names[i]);
  }
  if (!library) {
    const char *older = names[1] ? " (or older)" : "";
    snprintf(out_tried, size,
             "%s%s is not where the loader looks, nor in lib64 of CUDA_HOME or /usr/local/cuda, "
             "nor in the packages of VIRTUAL_ENV; install it, or set TENON_CUDA=%s=PATH",
             names[0], older, key);
  }
  return library;
}

/* the compiler */

/* Opens a library that NVRTC opens by name alone when it compiles. Some packages do not say where
 * it is, so it is opened from the folder of NVRTC. */
static void open_builtins(const rtc_api_t *found) {
  Dl_info info;
  int major = 0;
  int minor = 0;
  char path[1000];
  if (found->Version(&major, &minor) || !dladdr(*(void *const *)&found->Version, &info) ||
      !info.dli_fname)
    return;
  const char *end = strrchr(info.dli_fname, '/');
  snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d",
           end ? (int)(end + 1 - info.dli_fname) : 0, info.dli_fname, major, minor);
  (void)dlopen(path, OPEN);
}

static tenon_status_t nvrtc_find(const tenon_device_context_t *context, int driver) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", NULL};
  char tried[1000];
  rtc_api_t found;
  void *library = cu_library_open(context, "nvrtc", names, driver, tried, sizeof tried);
  if (!library)
    return tenon_fail(
        context, TENON_UNAVAILABLE,
        "cuda: kernels from source are compiled by NVRTC, and %s (Python: nvidia-cuda-nvrtc-cu12)",
        tried);
#define RTC_FIND_(result, name, parameters)                                                        \
  *(void **)&found.name = dlsym(library, "nvrtc" #name);                                           \
  if (!found.name)                                                                                 \
    return tenon_fail(context, TENON_UNAVAILABLE,                                                  \
                      "cuda: libnvrtc has no function nvrtc" #name                                 \
                      "; it is older than 11.2: install a newer one");
  RTC_FUNCTIONS(RTC_FIND_)
  open_builtins(&found);
  rtc = found;
  return TENON_OK;
}

tenon_status_t cu_nvrtc_open(const tenon_device_context_t *context, int driver) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static bool is_open;
  pthread_mutex_lock(&lock);
  tenon_status_t status = is_open ? TENON_OK : nvrtc_find(context, driver);
  is_open = status == TENON_OK;
  pthread_mutex_unlock(&lock);
  return status;
}
