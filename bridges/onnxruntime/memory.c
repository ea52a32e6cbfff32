/* Host memory for libraries. A block that a library allocates belongs to the library, which frees
 * it with the same allocator at any time, so the blocks are those of the C library. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

struct OrtMemoryInfo {
  char name[32];
  int type;
  int id;
  int memory;
};

static const OrtMemoryInfo host = {.name = "Cpu"};

static void *allocate_host(OrtAllocator *self, size_t size) {
  (void)self;
  if (size > SIZE_MAX / 2) return NULL;
  return aligned_alloc(64, (size + 64) / 64 * 64);
}

static void free_host(OrtAllocator *self, void *block) {
  (void)self;
  free(block);
}

static const OrtMemoryInfo *info_of_host(const OrtAllocator *self) {
  (void)self;
  return &host;
}

/* A library looks at the fields that later versions added only if the version is high enough. */
static OrtAllocator allocator = {
    .version = 17, .Alloc = allocate_host, .Free = free_host, .Info = info_of_host};

const OrtMemoryInfo *memory_host(void) { return &host; }

OrtAllocator *memory_allocator(void) { return &allocator; }

OrtStatus *ort_CreateMemoryInfo(const char *name, int type, int id, int memory,
                                OrtMemoryInfo **out) {
  *out = NULL;
  if (strncmp(name, "Cpu", 3) != 0)
    return status_make(ORT_INVALID_ARGUMENT,
                       "memory of '%.60s': expected Cpu, because Tenon calls operators of ONNX "
                       "Runtime's libraries on the CPU only",
                       name);
  OrtMemoryInfo *info = calloc(1, sizeof *info);
  if (!info) return status_make(ORT_FAIL, "out of memory");
  snprintf(info->name, sizeof info->name, "%.31s", name);
  info->type = type;
  info->id = id;
  info->memory = memory;
  *out = info;
  return NULL;
}

OrtStatus *ort_CreateCpuMemoryInfo(int type, int memory, OrtMemoryInfo **out) {
  return ort_CreateMemoryInfo("Cpu", type, 0, memory, out);
}

OrtStatus *ort_CompareMemoryInfo(const OrtMemoryInfo *a, const OrtMemoryInfo *b, int *out) {
  const int same = strcmp(a->name, b->name) == 0 && a->type == b->type && a->id == b->id &&
                   a->memory == b->memory;
  *out = same ? 0 : -1;
  return NULL;
}

OrtStatus *ort_MemoryInfoGetName(const OrtMemoryInfo *info, const char **out) {
  *out = info->name;
  return NULL;
}

OrtStatus *ort_MemoryInfoGetId(const OrtMemoryInfo *info, int *out) {
  *out = info->id;
  return NULL;
}

OrtStatus *ort_MemoryInfoGetMemType(const OrtMemoryInfo *info, int *out) {
  *out = info->memory;
  return NULL;
}

OrtStatus *ort_MemoryInfoGetType(const OrtMemoryInfo *info, int *out) {
  *out = info->type;
  return NULL;
}

void ort_MemoryInfoGetDeviceType(const OrtMemoryInfo *info, int *out) {
  (void)info;
  *out = 0;
}

void ort_ReleaseMemoryInfo(OrtMemoryInfo *info) {
  if (info != &host) free(info);
}

OrtStatus *ort_AllocatorAlloc(OrtAllocator *self, size_t size, void **out) {
  *out = self->Alloc(self, size);
  return *out || !size ? NULL : status_make(ORT_FAIL, "cannot allocate_host %zu bytes", size);
}

OrtStatus *ort_AllocatorFree(OrtAllocator *self, void *block) {
  self->Free(self, block);
  return NULL;
}

OrtStatus *ort_AllocatorGetInfo(const OrtAllocator *self, const OrtMemoryInfo **out) {
  *out = self->Info(self);
  return NULL;
}

OrtStatus *ort_GetAllocatorWithDefaultOptions(OrtAllocator **out) {
  *out = &allocator;
  return NULL;
}
