/* Device memory is a cl_mem. Pinned host memory is a cl_mem that stays mapped. */
#ifndef TENON_OPENCL_MEMORY_H
#define TENON_OPENCL_MEMORY_H

#include "stream.h"

tenon_status_t ocl_memory_allocate(tenon_on_t on, uint64_t bytes, void **out_handle);
void ocl_memory_free(tenon_on_t on, void *handle);
tenon_status_t ocl_memory_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy);
tenon_status_t ocl_memory_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                               uint64_t bytes, const void *pattern, uint32_t pattern_bytes);
tenon_status_t ocl_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
tenon_status_t ocl_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data);
void ocl_host_free(tenon_on_t on, void *data);

#endif
