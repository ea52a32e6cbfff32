#include "memory.h"

#include <string.h>

#include "deferred.h"
#include "error.h"

enum {
  PARTS_MOST = 32
}; /* copies that a copy of ranges that overlap is made of, where memory between can be had */

static cu_address_t address_of(tenon_memory_t memory) {
  return (cu_address_t)(uintptr_t)memory.handle + memory.offset;
}

/* allocation */

tenon_status_t cu_memory_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  cu_device_t *device = cu_device(on);
  cu_address_t address = 0;
  cu_result_t error = CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes <= device->memory) CU_IN(device, error, cu.MemAlloc(&address, (size_t)bytes));
  if (error == CUDA_ERROR_OUT_OF_MEMORY &&
      bytes <= device->memory) { /* deferred frees may have finished by now */
    cu_deferred_free_idle(device);
    CU_IN(device, error, cu.MemAlloc(&address, (size_t)bytes));
  }
  if (error == CUDA_ERROR_INVALID_VALUE)
    error = CUDA_ERROR_OUT_OF_MEMORY; /* only the size can be wrong */
  if (error)
    return cu_fail(on, error, "cannot allocate %llu bytes (of %llu in all)",
                   (unsigned long long)bytes, (unsigned long long)device->memory);
  *out_handle = (void *)(uintptr_t)address;
  return TENON_OK;
}

static void end_memory(void *thing) { cu.MemFree((cu_address_t)(uintptr_t)thing); }

void cu_memory_free(tenon_on_t on, void *handle) {
  if (handle) cu_defer_free(cu_device(on), end_memory, handle);
}

tenon_status_t cu_memory_level(tenon_on_t on, uint64_t *out_bytes) {
  size_t level = 0;
  size_t all = 0;
  cu_result_t error;
  cu_deferred_free_idle(cu_device(on));
  CU_IN(cu_device(on), error, cu.MemGetInfo(&level, &all));
  if (error) return cu_fail(on, error, "cannot ask for free memory");
  *out_bytes = level;
  return TENON_OK;
}

tenon_status_t cu_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle) {
  cu_device_t *device = cu_device(on);
  cu_address_t address = (cu_address_t)(uintptr_t)native;
  cu_address_t start = 0;
  unsigned type = 0;
  int ordinal = -1;
  size_t size = 0;
  cu_result_t error = CUDA_SUCCESS;
  bool pushed;
  if ((error = cu_enter(device, &pushed))) return cu_fail(on, error, "cannot import memory");
  error = cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (!error)
    error = cu.PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  if (!error)
    error = cu.PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
  if (!error) error = cu.PointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
  cu_leave(pushed);
  if (error) return cu_fail(on, error, "cannot import memory at %p", native);
  if (type != CU_MEMORYTYPE_DEVICE || ordinal != device->ordinal)
    return tenon_fail(
        on, TENON_INVALID,
        "cuda:%d: the imported memory at %p is not of this GPU (CUDA's number %d, not %d)",
        on->ordinal, native, ordinal, device->ordinal);
  if (address + bytes > start + size || address + bytes < address)
    return tenon_fail(on, TENON_INVALID,
                      "cuda:%d: the imported memory has %llu bytes from %p on, and %llu are needed",
                      on->ordinal, (unsigned long long)(start + size - address), native,
                      (unsigned long long)bytes);
  *out_handle = native;
  return TENON_OK;
}

void cu_memory_forget(tenon_on_t on, void *handle) {
  (void)on;
  (void)handle;
}

/* pinned host memory */

tenon_status_t cu_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data) {
  cu_result_t error = CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes <= SIZE_MAX / 2)
    CU_IN(cu_device(on), error, cu.MemHostAlloc(out_data, (size_t)bytes, CU_MEMHOSTALLOC_PORTABLE));
  if (error == CUDA_ERROR_INVALID_VALUE) error = CUDA_ERROR_OUT_OF_MEMORY;
  if (error)
    return cu_fail(on, error, "cannot allocate %llu bytes of pinned host memory",
                   (unsigned long long)bytes);
  return TENON_OK;
}

static void end_host(void *thing) { cu.MemFreeHost(thing); }

void cu_host_free(tenon_on_t on, void *data) {
  if (data) cu_defer_free(cu_device(on), end_host, data);
}

/* copies */

/* Copies between overlapping ranges: in parts as long as the distance of the ranges, in the order
 * of memmove. If that takes too many parts, the copy goes through temporary memory, which the
 * stream allocates and frees. */
static cu_result_t move(cu_stream_t *stream, cu_address_t to, cu_address_t from, uint64_t bytes) {
  uint64_t part = to > from ? to - from : from - to;
  cu_address_t between = 0;
  cu_result_t error = CUDA_SUCCESS;
  if (stream->device->has_pools && bytes / part >= PARTS_MOST) {
    if ((error = cu.MemAllocAsync(&between, (size_t)bytes, stream->native))) return error;
    error = cu.MemcpyDtoDAsync(between, from, (size_t)bytes, stream->native);
    if (!error) error = cu.MemcpyDtoDAsync(to, between, (size_t)bytes, stream->native);
    cu_result_t freed = cu.MemFreeAsync(between, stream->native);
    return error ? error : freed;
  }
  for (uint64_t done = 0; done < bytes && !error; done += part) {
    if (part > bytes - done) part = bytes - done;
    uint64_t at = to > from ? bytes - done - part : done;
    error = cu.MemcpyDtoDAsync(to + at, from + at, (size_t)part, stream->native);
  }
  return error;
}

static cu_result_t within(cu_stream_t *stream, cu_address_t to, cu_address_t from, uint64_t bytes) {
  if (from < to + bytes && to < from + bytes)
    return from == to ? CUDA_SUCCESS : move(stream, to, from, bytes);
  return cu.MemcpyDtoDAsync(to, from, (size_t)bytes, stream->native);
}

tenon_status_t cu_memory_copy(tenon_on_t on, void *handle, const tenon_copy_t *copy) {
  cu_stream_t *stream = cu_stream(on, handle);
  cu_address_t from = address_of(copy->from);
  cu_address_t to = address_of(copy->to);
  size_t bytes = (size_t)copy->bytes;
  cu_result_t error;
  const char *what = "within the GPU";
  bool pushed;
  TENON_TRY(cu_stream_check(on, stream));
  if ((error = cu_enter(stream->device, &pushed))) return cu_fail(on, error, "cannot copy");
  switch (copy->direction) {
  case TENON_COPY_IN:
    what = "in";
    error = cu.MemcpyHtoDAsync(to, (const void *)(uintptr_t)from, bytes, stream->native);
    break;
  case TENON_COPY_OUT:
    what = "out";
    error = cu.MemcpyDtoHAsync((void *)(uintptr_t)to, from, bytes, stream->native);
    break;
  case TENON_COPY_WITHIN:
    error = within(stream, to, from, copy->bytes);
    break;
  case TENON_COPY_PEER:
    what = "from another GPU";
    error = cu.MemcpyPeerAsync(to, stream->device->context, from, cu_device(copy->peer)->context,
                               bytes, stream->native);
    break;
  default:
    cu_leave(pushed);
    return tenon_fail(on, TENON_UNIMPLEMENTED, "cuda:%d: copies of direction %u are not done",
                      on->ordinal, copy->direction);
  }
  cu_leave(pushed);
  if (!error) return TENON_OK;
  return cu_fail(on, error, "cannot copy %llu bytes %s, from 0x%llx to 0x%llx",
                 (unsigned long long)bytes, what, from, to);
}

/* Tells whether direct copies are possible. Direct access is enabled by the first call. */
int32_t cu_peers(tenon_on_t on, tenon_on_t from) {
  cu_device_t *own = cu_device(on);
  cu_device_t *other = cu_device(from);
  int can = 0;
  cu_result_t error;
  if (!own || !other || own == other || cu.DeviceCanAccessPeer(&can, own->id, other->id) || !can)
    return 0;
  CU_IN(own, error, cu.CtxEnablePeerAccess(other->context, 0));
  return !error || error == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

/* fills */

static cu_result_t fill(cu_native_stream_t stream, cu_address_t to, uint64_t bytes,
                        const void *pattern, uint32_t width) {
  uint8_t one;
  uint16_t two;
  uint32_t words[2] = {0, 0};
  switch (width) {
  case 1:
    memcpy(&one, pattern, 1);
    return cu.MemsetD8Async(to, one, (size_t)bytes, stream);
  case 2:
    memcpy(&two, pattern, 2);
    return cu.MemsetD16Async(to, two, (size_t)bytes / 2, stream);
  case 4:
    memcpy(words, pattern, 4);
    return cu.MemsetD32Async(to, words[0], (size_t)bytes / 4, stream);
  case 8:
    memcpy(words, pattern, 8);
    break;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (words[0] == words[1]) return cu.MemsetD32Async(to, words[0], (size_t)bytes / 4, stream);
  /* Fills rows of 8 bytes: first the first word of each, then the second. */
  cu_result_t error = cu.MemsetD2D32Async(to, 8, words[0], 1, (size_t)bytes / 8, stream);
  return error ? error : cu.MemsetD2D32Async(to + 4, 8, words[1], 1, (size_t)bytes / 8, stream);
}

tenon_status_t cu_memory_fill(tenon_on_t on, void *handle, uint64_t ticket, tenon_memory_t to,
                              uint64_t bytes, const void *pattern, uint32_t pattern_bytes) {
  cu_stream_t *stream = cu_stream(on, handle);
  cu_result_t error;
  (void)ticket;
  TENON_TRY(cu_stream_check(on, stream));
  CU_IN(stream->device, error, fill(stream->native, address_of(to), bytes, pattern, pattern_bytes));
  return error ? cu_fail(on, error, "cannot fill %llu bytes at 0x%llx with a pattern of %u",
                         (unsigned long long)bytes, address_of(to), pattern_bytes)
               : TENON_OK;
}
