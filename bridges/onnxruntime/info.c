/* What a kernel learns when it is created: its node's inputs, results, constants and names. The
 * attributes are the subject of info_attribute.c. */
#include "info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "shape_info.h"
#include "status.h"
#include "value.h"

OrtKernelInfo *info_make(const operator_t *op, const overload_t *overload,
                         const tenon_value_t *attributes, uint32_t in_count, uint32_t out_count) {
  OrtKernelInfo *info = malloc(sizeof *info);
  argument_t *arguments = calloc((size_t)in_count + out_count + 1, sizeof *arguments);
  if (!info || !arguments) {
    free(info);
    free(arguments);
    return NULL;
  }
  *info = (OrtKernelInfo){.references = 1,
                          .op = op,
                          .overload = overload,
                          .attributes = attributes,
                          .in_count = in_count,
                          .out_count = out_count,
                          .arguments = arguments};
  for (uint32_t i = 0; i < in_count + out_count; i++)
    arguments[i].ndim = -1;
  return info;
}

void info_finish(OrtKernelInfo *info) {
  for (uint32_t i = 0; i < info->in_count; i++)
    info->arguments[i].constant = NULL;
}

OrtStatus *ort_CopyKernelInfo(const OrtKernelInfo *info, OrtKernelInfo **out) {
  *out = (OrtKernelInfo *)(uintptr_t)info;
  __atomic_add_fetch(&(*out)->references, 1, __ATOMIC_RELAXED);
  return NULL;
}

void ort_ReleaseKernelInfo(OrtKernelInfo *info) {
  if (!info || __atomic_sub_fetch(&info->references, 1, __ATOMIC_ACQ_REL)) return;
  for (uint32_t i = 0; i < info->in_count + info->out_count; i++) {
    free(info->arguments[i].dims);
    ort_ReleaseValue(info->arguments[i].kept);
  }
  free(info->arguments);
  free(info);
}

/* counts and types */

OrtStatus *ort_KernelInfo_GetInputCount(const OrtKernelInfo *info, size_t *out) {
  *out = info->in_count;
  return NULL;
}

OrtStatus *ort_KernelInfo_GetOutputCount(const OrtKernelInfo *info, size_t *out) {
  *out = info->out_count;
  return NULL;
}

static OrtStatus *check_argument(size_t index, uint32_t count, const char *side) {
  if (index < count) return NULL;
  return status_make(ORT_INVALID_ARGUMENT, "%s %zu does not exist: the node has %u", side, index,
                     count);
}

static OrtStatus *give_type(const argument_t *argument, OrtTypeInfo **out) {
  return shape_info_type(shape_info_make(argument->element, argument->ndim, argument->dims), out);
}

OrtStatus *ort_KernelInfo_GetInputTypeInfo(const OrtKernelInfo *info, size_t index,
                                           OrtTypeInfo **out) {
  OrtStatus *status = check_argument(index, info->in_count, "input");
  return status ? status : give_type(&info->arguments[index], out);
}

OrtStatus *ort_KernelInfo_GetOutputTypeInfo(const OrtKernelInfo *info, size_t index,
                                            OrtTypeInfo **out) {
  OrtStatus *status = check_argument(index, info->out_count, "output");
  return status ? status : give_type(&info->arguments[info->in_count + index], out);
}

/* names */

/* Copies a text with its zero byte. `out` NULL: only states the size. */
static OrtStatus *give_text(const char *text, char *out, size_t *size) {
  const size_t needed = strlen(text) + 1;
  const bool fits = *size >= needed;
  *size = needed;
  if (!out) return NULL;
  if (!fits) return status_make(ORT_INVALID_ARGUMENT, "the text needs %zu bytes", needed);
  memcpy(out, text, needed);
  return NULL;
}

/* Arguments have the names of the schema, because Tenon knows no others. */
static OrtStatus *give_name(const char *side, size_t index, uint32_t count, char *out,
                            size_t *size) {
  char name[40];
  OrtStatus *status = check_argument(index, count, side);
  if (status) return status;
  snprintf(name, sizeof name, "%s%zu", side, index);
  return give_text(name, out, size);
}

OrtStatus *ort_KernelInfo_GetInputName(const OrtKernelInfo *info, size_t index, char *out,
                                       size_t *size) {
  return give_name("input", index, info->in_count, out, size);
}

OrtStatus *ort_KernelInfo_GetOutputName(const OrtKernelInfo *info, size_t index, char *out,
                                        size_t *size) {
  return give_name("output", index, info->out_count, out, size);
}

OrtStatus *ort_KernelInfo_GetNodeName(const OrtKernelInfo *info, char *out, size_t *size) {
  return give_text(info->op->type, out, size);
}

OrtStatus *ort_KernelInfo_GetOperatorDomain(const OrtKernelInfo *info, char *out, size_t *size) {
  return give_text(info->op->domain, out, size);
}

OrtStatus *ort_KernelInfo_GetOperatorType(const OrtKernelInfo *info, char *out, size_t *size) {
  return give_text(info->op->type, out, size);
}

OrtStatus *ort_KernelInfo_GetOperatorSinceVersion(const OrtKernelInfo *info, int *out) {
  *out = info->overload->since;
  return NULL;
}

/* constants and memory */

/* The library may keep the value as long as the kernel, so it gets a copy. */
OrtStatus *ort_KernelInfoGetConstantInput_tensor(const OrtKernelInfo *info, size_t index,
                                                 int *out_is_constant, const OrtValue **out) {
  *out_is_constant = 0;
  *out = NULL;
  OrtStatus *status = check_argument(index, info->in_count, "input");
  if (status) return status;
  argument_t *argument = &info->arguments[index];
  tenon_tensor_t *copy = NULL;
  if (!argument->kept && argument->constant) {
    if (tenon_tensor_copy(argument->constant, &copy) != TENON_OK)
      return status_of_tenon("the constant input cannot be copied");
    status = value_make(copy, &argument->kept);
  }
  *out = argument->kept;
  *out_is_constant = argument->kept != NULL;
  return status;
}

OrtStatus *ort_KernelInfoGetAllocator(const OrtKernelInfo *info, int memory, OrtAllocator **out) {
  (void)info;
  (void)memory;
  *out = memory_allocator();
  return NULL;
}
