/* OpenCL errors by name, reported as failures that say what was requested. */
#ifndef TENON_OPENCL_ERROR_H
#define TENON_OPENCL_ERROR_H

#include "api.h"

const char *ocl_error_name(cl_int error);      /* "CL_INVALID_VALUE"; "an error without a name" */
tenon_status_t ocl_error_status(cl_int error); /* of our own codes */
/* Fails with "opencl:0: WHAT: CL_INVALID_VALUE (-30)". */
tenon_status_t ocl_fail(tenon_on_t on, cl_int error, const char *format, ...) TENON_FORMAT(3, 4);

#endif
