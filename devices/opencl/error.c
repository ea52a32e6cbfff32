#include "error.h"

#include <stdarg.h>
#include <stdio.h>

const char *ocl_error_name(cl_int error) {
  switch (error) {
#define OCL_NAME_(name, value, status)                                                             \
  case value:                                                                                      \
    return #name;
    OCL_ERRORS(OCL_NAME_)
  }
  return "an error without a name";
}

tenon_status_t ocl_error_status(cl_int error) {
  switch (error) {
#define OCL_STATUS_(name, value, status)                                                           \
  case value:                                                                                      \
    return TENON_##status;
    OCL_ERRORS(OCL_STATUS_)
  }
  return TENON_UNKNOWN;
}

tenon_status_t ocl_fail(tenon_on_t on, cl_int error, const char *format, ...) {
  char what[400];
  va_list list;
  va_start(list, format);
  vsnprintf(what, sizeof what, format, list);
  va_end(list);
  return tenon_fail(on, ocl_error_status(error), "opencl:%d: %s: %s (%d)", on->ordinal, what,
                    ocl_error_name(error), error);
}
