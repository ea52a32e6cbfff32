/* Device memory is an address. Pinned host memory is pinned for all ordinals. */
#ifndef TENON_CUDA_MEMORY_H
#define TENON_CUDA_MEMORY_H

#include "stream.h"

tenon_status_t cu_memory_allocate(tenon_on_t on, uint64_t bytes, void **out_handle);
void cu_memory_free(tenon_on_t on, void *handle);
tenon_status_t cu_memory_level(tenon_on_t on, uint64_t *out_bytes);
tenon_status_t cu_memory_copy(tenon_on_t on, void *stream, const tenon_copy_t *copy);
tenon_status_t cu_memory_fill(tenon_on_t on, void *stream, uint64_t ticket, tenon_memory_t to,
                              uint64_t bytes, const void *pattern, uint32_t pattern_bytes);
int32_t cu_peers(tenon_on_t on, tenon_on_t from);
tenon_status_t cu_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle);
void cu_memory_forget(tenon_on_t on, void *handle);
tenon_status_t cu_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data);
void cu_host_free(tenon_on_t on, void *data);

#endif
