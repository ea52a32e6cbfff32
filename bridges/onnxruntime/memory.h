/* Allocators and descriptions of memory. There is one allocator, of host memory. */
#ifndef BRIDGES_ONNXRUNTIME_MEMORY_H
#define BRIDGES_ONNXRUNTIME_MEMORY_H

#include "common/ort_interface.h"

/* Returns the description of host memory; ReleaseMemoryInfo leaves it alone. */
const OrtMemoryInfo *memory_host(void);
/* Returns the allocator of host memory, whose blocks are aligned to 64 bytes. */
OrtAllocator *memory_allocator(void);

OrtStatus *ort_CreateMemoryInfo(const char *name, int type, int id, int memory,
                                OrtMemoryInfo **out);
OrtStatus *ort_CreateCpuMemoryInfo(int type, int memory, OrtMemoryInfo **out);
OrtStatus *ort_CompareMemoryInfo(const OrtMemoryInfo *a, const OrtMemoryInfo *b, int *out);
OrtStatus *ort_MemoryInfoGetName(const OrtMemoryInfo *info, const char **out);
OrtStatus *ort_MemoryInfoGetId(const OrtMemoryInfo *info, int *out);
OrtStatus *ort_MemoryInfoGetMemType(const OrtMemoryInfo *info, int *out);
OrtStatus *ort_MemoryInfoGetType(const OrtMemoryInfo *info, int *out);
void ort_MemoryInfoGetDeviceType(const OrtMemoryInfo *info, int *out);
void ort_ReleaseMemoryInfo(OrtMemoryInfo *info);
OrtStatus *ort_AllocatorAlloc(OrtAllocator *allocator, size_t size, void **out);
OrtStatus *ort_AllocatorFree(OrtAllocator *allocator, void *block);
OrtStatus *ort_AllocatorGetInfo(const OrtAllocator *allocator, const OrtMemoryInfo **out);
OrtStatus *ort_GetAllocatorWithDefaultOptions(OrtAllocator **out);

#endif
