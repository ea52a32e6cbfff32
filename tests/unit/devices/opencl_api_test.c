/* devices/opencl/api.h, which was written from the specification, agrees with Khronos' headers. */
#include "opencl/api.h"

#include "host.h"

#if __has_include(<CL/cl.h>)
enum { /* our own values; the headers define macros with the same names */
#define OURS(name, value) OURS_##name = name,
       OCL_CONSTANTS(OURS)
#undef OURS
#define OURS(name, value, status) OURS_##name = name,
           OCL_ERRORS(OURS)
};
static const uint32_t ours_all = CL_DEVICE_TYPE_ALL;
#undef CL_DEVICE_TYPE_ALL
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

TEST("constants, errors and functions match the headers") {
  int wrong = 0;
#define SAME(name, value) wrong += !CHECK((int64_t)OURS_##name == (int64_t)(name));
  OCL_CONSTANTS(SAME)
#undef SAME
#define SAME(name, value, status) wrong += !CHECK(OURS_##name == (name));
  OCL_ERRORS(SAME)
#undef SAME
#define SAME(result, name, parameters)                                                             \
  wrong += !CHECK(                                                                                 \
      __builtin_types_compatible_p(__typeof__(((ocl_api_t *)0)->name), __typeof__(&cl##name)));
  OCL_FUNCTIONS(SAME)
  CHECK(ours_all == (uint32_t)CL_DEVICE_TYPE_ALL && wrong == 0);
}
#else
TEST("constants, errors and functions match the headers") {
  SKIP("Khronos' headers are not installed (opencl-c-headers)");
}
#endif
