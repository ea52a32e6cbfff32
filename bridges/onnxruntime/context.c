/* The functions that a kernel calls while it runs. None of them takes a lock. Memory is allocated
 * only where the library asks for it, and for results whose shape was not inferred. */
#include "context.h"

#include <stdio.h>
#include <string.h>

#include "common/guard.h"
#include "memory.h"
#include "status.h"

/* inputs and results */

OrtStatus *ort_KernelContext_GetInputCount(const OrtKernelContext *context, size_t *out) {
  *out = context->in_count;
  return NULL;
}

OrtStatus *ort_KernelContext_GetOutputCount(const OrtKernelContext *context, size_t *out) {
  *out = context->out_count;
  return NULL;
}

OrtStatus *ort_KernelContext_GetInput(const OrtKernelContext *context, size_t index,
                                      const OrtValue **out) {
  *out = NULL;
  if (index < context->in_count) {
    if (context->inputs[index].tensor) *out = &context->inputs[index];
    return NULL;
  }
  /* Optional inputs at the end may be absent. */
  if (index < context->op->in_count) return NULL;
  return status_make(ORT_INVALID_ARGUMENT, "it reads input %zu of a node with %u inputs", index,
                     context->in_count);
}

static bool has_result_shape(const tenon_tensor_t *tensor, const int64_t *shape, size_t ndim) {
  if ((size_t)tensor->ndim != ndim || !tensor->data) return false;
  for (size_t d = 0; d < ndim; d++)
    if (tensor->shape[d] != shape[d]) return false;
  return true;
}

/* An output that must be the memory of an input starts as a copy of that input. */
static OrtStatus *copy_alias(OrtKernelContext *context, uint32_t output, tenon_tensor_t *tensor) {
  const uint32_t input = context->kernel->overload->aliases[output] - 1u;
  const tenon_tensor_t *from = input < context->in_count ? context->inputs[input].tensor : NULL;
  if (!from) return NULL;
  const int64_t count = tenon_count(from);
  if (tenon_dtype_id(from->dtype) != tenon_dtype_id(tensor->dtype) ||
      count != tenon_count(tensor) || from->dtype.bits % 8)
    return status_make(ORT_FAIL,
                       "output %u must be the memory of input %u, but differs in dtype "
                       "or size",
                       output, input);
  if (count)
    memcpy((char *)tensor->data + tensor->byte_offset, (const char *)from->data + from->byte_offset,
           (size_t)count * from->dtype.bits / 8);
  return NULL;
}

OrtStatus *context_result(OrtKernelContext *context, size_t index, const int64_t *shape,
                          size_t ndim, OrtValue **out) {
  result_t *result = &context->results[index];
  tenon_call_t *call = context->call;
  tenon_tensor_t *tensor = result->target;
  if (!has_result_shape(tensor, shape, ndim)) {
    if (result->is_item) {
      tensor = call->host->temporary(call, tensor->dtype, (int32_t)ndim, shape);
      if (!tensor) return status_of_tenon("a result cannot be created");
    } else if (call->host->resize(call, result->output, (int32_t)ndim, shape) != TENON_OK) {
      return status_of_tenon("a result cannot have the shape that its kernel gives");
    }
  }
  result->value.tensor = tensor;
  *out = &result->value;
  if (!context->kernel->overload->has_aliases) return NULL;
  return context->kernel->overload->aliases[result->output]
             ? copy_alias(context, result->output, tensor)
             : NULL;
}

OrtStatus *ort_KernelContext_GetOutput(OrtKernelContext *context, size_t index,
                                       const int64_t *shape, size_t ndim, OrtValue **out) {
  *out = NULL;
  if (index >= context->out_count) {
    /* Optional results at the end may be unwanted. */
    if (index < context->op->out_count) return NULL;
    return status_make(ORT_INVALID_ARGUMENT, "it writes output %zu of a node with %u outputs",
                       index, context->out_count);
  }
  if (!context->results[index].target) return NULL;
  if (context->results[index].value.tensor) {
    *out = &context->results[index].value;
    if (has_result_shape((*out)->tensor, shape, ndim)) return NULL;
  }
  if (ndim > TENON_RANK_MAX)
    return status_make(ORT_INVALID_ARGUMENT, "output %zu has %zu dimensions: expected at most %d",
                       index, ndim, TENON_RANK_MAX);
  for (size_t d = 0; d < ndim; d++)
    if (shape[d] < 0)
      return status_make(ORT_INVALID_ARGUMENT, "output %zu has a negative extent %lld", index,
                         (long long)shape[d]);
  return context_result(context, index, shape, ndim, out);
}

/* memory and resources */

OrtStatus *ort_KernelContext_GetGPUComputeStream(const OrtKernelContext *context, void **out) {
  (void)context;
  *out = NULL;
  return NULL;
}

OrtStatus *ort_KernelContext_GetSyncStream(const OrtKernelContext *context, void **out) {
  (void)context;
  *out = NULL;
  return NULL;
}

OrtStatus *ort_KernelContext_GetAllocator(const OrtKernelContext *context,
                                          const OrtMemoryInfo *info, OrtAllocator **out) {
  (void)context;
  (void)info;
  *out = memory_allocator();
  return NULL;
}

/* The only allocator lives as long as the process. */
void ort_ReleaseAllocator(OrtAllocator *allocator) { (void)allocator; }

OrtStatus *ort_KernelContext_GetScratchBuffer(const OrtKernelContext *context,
                                              const OrtMemoryInfo *info, size_t size, void **out) {
  (void)context;
  (void)info;
  *out = NULL;
  return size ? ort_AllocatorAlloc(memory_allocator(), size, out) : NULL;
}

/* ONNX Runtime has resources on devices only, too: it looks them up in the stream of the call. */
OrtStatus *ort_KernelContext_GetResource(const OrtKernelContext *context, int version, int id,
                                         void **out) {
  (void)context;
  *out = NULL;
  return status_make(ORT_INVALID_ARGUMENT,
                     "resource %d (version %d) does not exist: calls on the CPU have no stream", id,
                     version);
}

/* threads */

typedef struct loop_t {
  void (*function)(void *argument, size_t index);
  void *argument;
} loop_t;

typedef struct part_t {
  const loop_t *loop;
  int64_t begin;
  int64_t end;
} part_t;

static int run_loop_part(void *argument) {
  const part_t *part = argument;
  for (int64_t i = part->begin; i < part->end; i++)
    part->loop->function(part->loop->argument, (size_t)i);
  return 1;
}

static tenon_status_t run_guarded_part(tenon_call_t *call, void *argument, int64_t begin,
                                       int64_t end) {
  char why[WHY / 2];
  part_t part = {argument, begin, end};
  if (guard_call(run_loop_part, &part, why, sizeof why) > 0) return TENON_OK;
  return tenon_fail(call, TENON_UNKNOWN, "in a parallel loop %s", why);
}

OrtStatus *ort_KernelContext_ParallelFor(const OrtKernelContext *context,
                                         void (*function)(void *argument, size_t index),
                                         size_t total, size_t batch_count, void *argument) {
  loop_t loop = {function, argument};
  tenon_call_t *call = context->call;
  const size_t grain = batch_count ? (total + batch_count - 1) / batch_count : 1;
  if (total > INT64_MAX)
    return status_make(ORT_INVALID_ARGUMENT, "a parallel loop of %zu steps", total);
  if (call->host->parallel(call, (int64_t)total, (int64_t)(grain ? grain : 1), run_guarded_part,
                           &loop) == TENON_OK)
    return NULL;
  return status_make(ORT_FAIL, "%s", tenon_error());
}
