/* What a kernel uses while it runs: its inputs and results, threads, memory and resources. */
#ifndef BRIDGES_ONNXRUNTIME_CONTEXT_H
#define BRIDGES_ONNXRUNTIME_CONTEXT_H

#include "kernel.h"
#include "value.h"

typedef struct result_t {
  OrtValue value;         /* its tensor is NULL until the library has given the shape */
  tenon_tensor_t *target; /* the result of the call; NULL: not wanted */
  uint32_t output;        /* the result of the schema */
  bool is_item;           /* of a list */
} result_t;

/* The frame of a call, which the library sees only through functions. */
struct OrtKernelContext {
  tenon_call_t *call;
  const kernel_t *kernel;
  const operator_t *op;
  OrtValue *inputs; /* tensor NULL: absent */
  result_t *results;
  uint32_t in_count;
  uint32_t out_count;
};

/* Creates the tensor of a result, with a shape. */
OrtStatus *context_result(OrtKernelContext *context, size_t index, const int64_t *shape,
                          size_t ndim, OrtValue **out);

OrtStatus *ort_KernelContext_GetInputCount(const OrtKernelContext *context, size_t *out);
OrtStatus *ort_KernelContext_GetOutputCount(const OrtKernelContext *context, size_t *out);
OrtStatus *ort_KernelContext_GetInput(const OrtKernelContext *context, size_t index,
                                      const OrtValue **out);
OrtStatus *ort_KernelContext_GetOutput(OrtKernelContext *context, size_t index,
                                       const int64_t *shape, size_t ndim, OrtValue **out);
OrtStatus *ort_KernelContext_GetGPUComputeStream(const OrtKernelContext *context, void **out);
OrtStatus *ort_KernelContext_GetSyncStream(const OrtKernelContext *context, void **out);
OrtStatus *ort_KernelContext_GetAllocator(const OrtKernelContext *context,
                                          const OrtMemoryInfo *info, OrtAllocator **out);
void ort_ReleaseAllocator(OrtAllocator *allocator);
OrtStatus *ort_KernelContext_GetScratchBuffer(const OrtKernelContext *context,
                                              const OrtMemoryInfo *info, size_t size, void **out);
OrtStatus *ort_KernelContext_GetResource(const OrtKernelContext *context, int version, int id,
                                         void **out);
OrtStatus *ort_KernelContext_ParallelFor(const OrtKernelContext *context,
                                         void (*function)(void *argument, size_t index),
                                         size_t total, size_t batch_count, void *argument);

#endif
