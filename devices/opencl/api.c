/* Opens the loader of OpenCL drivers (ICD) and finds its functions. The loader is never closed,
 * because drivers have threads that run its code until the process ends. */
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>

ocl_api_t ocl;

tenon_status_t ocl_api_open(const tenon_device_context_t *context) {
  static const char *const names[] = {"libOpenCL.so.1", "libOpenCL.so"};
  void *library = NULL;
  char why[300] = "";
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) {
    library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library && !*why) snprintf(why, sizeof why, "%s", dlerror());
  }
  if (!library)
    return tenon_fail(
        context, TENON_UNAVAILABLE,
        "opencl: there is no loader of OpenCL drivers (%s); install one and a driver, on Debian "
        "ocl-icd-libopencl1 and, for processors, pocl-opencl-icd",
        why);
#define OCL_FIND_(result, name, parameters)                                                        \
  *(void **)&ocl.name = dlsym(library, "cl" #name);                                                \
  if (!ocl.name)                                                                                   \
    return tenon_fail(                                                                             \
        context, TENON_UNAVAILABLE,                                                                \
        "opencl: libOpenCL.so.1 has no function cl" #name                                          \
        "; it is older than OpenCL 1.2: install a newer loader (on Debian ocl-icd-libopencl1)");
  OCL_FUNCTIONS(OCL_FIND_)
  return TENON_OK;
}
