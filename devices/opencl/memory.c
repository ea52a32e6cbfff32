#include "memory.h"

#include <string.h>

enum {
  /* bytes before pinned memory that hold its cl_mem; also the alignment of mapped memory */
  HEAD = 128,
  /* the most bytes of temporary memory for a copy between overlapping ranges */
  STAGE = 16 * 1024 * 1024,
};

static cl_mem create(tenon_on_t on, uint64_t bytes, cl_bitfield flags, cl_int *out_error) {
  if (bytes > ocl_device(on)->largest || bytes > SIZE_MAX) {
    *out_error = CL_INVALID_BUFFER_SIZE;
    return NULL;
  }
  return ocl.CreateBuffer(ocl_device(on)->context, CL_MEM_READ_WRITE | flags, (size_t)bytes, NULL,
                          out_error);
}

/* Drivers may delay an allocation until the first use and fail then. On devices that share memory
 * with the host they have no reason to. */
tenon_status_t ocl_memory_allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  cl_int error = CL_SUCCESS;
  ocl_device_t *device = ocl_device(on);
  cl_mem memory = create(on, bytes, device->unified ? CL_MEM_ALLOC_HOST_PTR : 0, &error);
  if (error)
    return ocl_fail(on, error,
                    "cannot allocate %llu bytes (the largest allocation is %llu, of %llu in all)",
                    (unsigned long long)bytes, (unsigned long long)device->largest,
                    (unsigned long long)device->memory);
  *out_handle = memory;
  return TENON_OK;
}

/* OpenCL keeps memory that enqueued work uses. The next memory object may get the same handle. */
void ocl_memory_free(tenon_on_t on, void *handle) {
  if (!handle) return;
  atomic_fetch_add_explicit(&ocl_device(on)->freed, 1, memory_order_release);
  ocl.ReleaseMemObject((cl_mem)handle);
}

tenon_status_t ocl_memory_import(tenon_on_t on, void *native, uint64_t bytes, void **out_handle) {
  cl_context context = NULL;
  size_t size = 0;
  cl_mem memory = (cl_mem)native;
  cl_int error = native
                     ? ocl.GetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof context, &context, NULL)
                     : CL_INVALID_MEM_OBJECT;
  if (!error) error = ocl.GetMemObjectInfo(memory, CL_MEM_SIZE, sizeof size, &size, NULL);
  if (error) return ocl_fail(on, error, "cannot import the memory object %p", native);
  if (context != ocl_device(on)->context)
    return tenon_fail(
        on, TENON_INVALID,
        "opencl:%d: the imported memory object is of another context; create it in this "
        "one's, native \"cl_context\"",
        on->ordinal);
  if (size < bytes)
    return tenon_fail(on, TENON_INVALID,
                      "opencl:%d: the imported memory object has %zu bytes, and %llu are needed",
                      on->ordinal, size, (unsigned long long)bytes);
  if ((error = ocl.RetainMemObject(memory)))
    return ocl_fail(on, error, "cannot retain the imported memory object");
  *out_handle = memory;
  return TENON_OK;
}

/* copies */

/* Copies between overlapping ranges: in parts, in the order of memmove, each through temporary
 * memory. Nothing is enqueued unless all temporary memory is available. If the driver fails
 * halfway, the destination is lost and the stream reports the failure. */
static cl_int move(tenon_on_t on, ocl_stream_t *stream, const tenon_copy_t *copy) {
  uint64_t part = copy->bytes < STAGE ? copy->bytes : STAGE;
  uint64_t from = copy->from.offset;
  uint64_t to = copy->to.offset;
  cl_mem memory = (cl_mem)copy->to.handle;
  cl_int error = CL_SUCCESS;
  cl_mem between = create(on, part, 0, &error);
  for (uint64_t done = 0; done < copy->bytes && !error; done += part) {
    if (part > copy->bytes - done) part = copy->bytes - done;
    uint64_t at = to > from ? copy->bytes - done - part : done;
    cl_event in, out;
    if (!(error = ocl.EnqueueCopyBuffer(stream->queue, memory, between, from + at, 0, part, 0, NULL,
                                        &in)))
      ocl_stream_push(stream, (ocl_entry_t){in, copy->ticket, NULL, NULL});
    if (!error && !(error = ocl.EnqueueCopyBuffer(stream->queue, between, memory, 0, to + at, part,
                                                  0, NULL, &out)))
      ocl_stream_push(stream, (ocl_entry_t){out, copy->ticket, NULL, NULL});
    if (error && done) ocl_stream_break(stream, error, copy->ticket, NULL);
  }
  if (between) ocl.ReleaseMemObject(between);
  stream->unflushed++;
  return error;
}

tenon_status_t ocl_memory_copy(tenon_on_t on, void *handle, const tenon_copy_t *copy) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  uint64_t from = copy->from.offset;
  uint64_t to = copy->to.offset;
  uint64_t bytes = copy->bytes;
  cl_event event = NULL;
  cl_int error = CL_SUCCESS;
  const char *what = "within the device";
  TENON_TRY(ocl_stream_begin(on, stream));
  switch (copy->direction) {
  case TENON_COPY_IN:
    what = "in";
    error = ocl.EnqueueWriteBuffer(stream->queue, (cl_mem)copy->to.handle, CL_FALSE, to, bytes,
                                   (const char *)copy->from.handle + from, 0, NULL, &event);
    break;
  case TENON_COPY_OUT:
    what = "out";
    error = ocl.EnqueueReadBuffer(stream->queue, (cl_mem)copy->from.handle, CL_FALSE, from, bytes,
                                  (char *)copy->to.handle + to, 0, NULL, &event);
    break;
  case TENON_COPY_WITHIN:
    if (copy->from.handle == copy->to.handle && from < to + bytes && to < from + bytes) {
      if (from != to) error = move(on, stream, copy);
      pthread_mutex_unlock(&stream->lock);
      goto end;
    }
    error = ocl.EnqueueCopyBuffer(stream->queue, (cl_mem)copy->from.handle, (cl_mem)copy->to.handle,
                                  from, to, bytes, 0, NULL, &event);
    break;
  default:
    pthread_mutex_unlock(&stream->lock);
    return tenon_fail(on, TENON_UNIMPLEMENTED, "opencl:%d: copies of direction %u are not done",
                      on->ordinal, copy->direction);
  }
  ocl_stream_end(stream, error, event, copy->ticket);
end:
  if (!error) return TENON_OK;
  return ocl_fail(on, error, "cannot copy %llu bytes %s, from offset %llu to offset %llu",
                  (unsigned long long)bytes, what, (unsigned long long)from,
                  (unsigned long long)to);
}

/* OpenCL only fills ranges that begin and end at multiples of the pattern size. Other ranges are
 * copied from a filled one. */
tenon_status_t ocl_memory_fill(tenon_on_t on, void *handle, uint64_t ticket, tenon_memory_t to,
                               uint64_t bytes, const void *pattern, uint32_t pattern_bytes) {
  ocl_stream_t *stream = ocl_stream(on, handle);
  cl_event event = NULL;
  cl_int error = CL_SUCCESS;
  cl_mem memory = (cl_mem)to.handle;
  TENON_TRY(ocl_stream_begin(on, stream));
  if (to.offset % pattern_bytes == 0 && bytes % pattern_bytes == 0) {
    error = ocl.EnqueueFillBuffer(stream->queue, memory, pattern, pattern_bytes, to.offset, bytes,
                                  0, NULL, &event);
  } else {
    uint64_t whole = (bytes + pattern_bytes - 1) / pattern_bytes * pattern_bytes;
    cl_mem between = create(on, whole, 0, &error);
    if (!error)
      error = ocl.EnqueueFillBuffer(stream->queue, between, pattern, pattern_bytes, 0, whole, 0,
                                    NULL, &event);
    if (!error) {
      ocl_stream_push(stream, (ocl_entry_t){event, ticket, NULL, NULL});
      error = ocl.EnqueueCopyBuffer(stream->queue, between, memory, 0, to.offset, bytes, 0, NULL,
                                    &event);
    }
    if (between) ocl.ReleaseMemObject(between);
  }
  error = ocl_stream_end(stream, error, event, ticket);
  return error ? ocl_fail(on, error, "cannot fill %llu bytes at offset %llu with a pattern of %u",
                          (unsigned long long)bytes, (unsigned long long)to.offset, pattern_bytes)
               : TENON_OK;
}

/* pinned host memory */

tenon_status_t ocl_host_allocate(tenon_on_t on, uint64_t bytes, void **out_data) {
  ocl_device_t *device = ocl_device(on);
  cl_int error = CL_SUCCESS;
  char *data = NULL;
  cl_mem memory =
      create(on, bytes < UINT64_MAX - HEAD ? bytes + HEAD : bytes, CL_MEM_ALLOC_HOST_PTR, &error);
  if (!error)
    data =
        (char *)ocl.EnqueueMapBuffer(device->service, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                     0, (size_t)(bytes + HEAD), 0, NULL, NULL, &error);
  if (error) {
    if (memory) ocl.ReleaseMemObject(memory);
    return ocl_fail(on, error, "cannot allocate %llu bytes of pinned host memory",
                    (unsigned long long)bytes);
  }
  memcpy(data, &memory, sizeof memory);
  *out_data = data + HEAD;
  return TENON_OK;
}

void ocl_host_free(tenon_on_t on, void *data) {
  cl_mem memory;
  if (!data) return;
  memcpy(&memory, (char *)data - HEAD, sizeof memory);
  ocl.EnqueueUnmapMemObject(ocl_device(on)->service, memory, (char *)data - HEAD, 0, NULL, NULL);
  ocl.Flush(ocl_device(on)->service);
  ocl.ReleaseMemObject(memory);
}
