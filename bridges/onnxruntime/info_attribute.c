/* Attributes for kernels. An attribute that the node lacks is a failure, which libraries treat as
 * their default. */
#include "info_attribute.h"

#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "info.h"
#include "status.h"
#include "value.h"

static OrtStatus *find_attribute(const OrtKernelInfo *info, const char *name, tenon_string_t *out) {
  if (attribute_find(info->attributes, name, out)) return NULL;
  return status_make(ORT_FAIL, "%s has no attribute '%.100s'", info->op->name, name);
}

static OrtStatus *refuse_attribute(const char *name, const char *expected, tenon_string_t found) {
  return status_make(ORT_FAIL, "attribute '%.100s' is '%.*s': expected %s", name,
                     found.size < 60 ? (int)found.size : 60, found.data, expected);
}

OrtStatus *ort_KernelInfoGetAttribute_float(const OrtKernelInfo *info, const char *name,
                                            float *out) {
  tenon_string_t text;
  OrtStatus *status = find_attribute(info, name, &text);
  if (status || attribute_float(text, out)) return status;
  return refuse_attribute(name, "a number", text);
}

OrtStatus *ort_KernelInfoGetAttribute_int64(const OrtKernelInfo *info, const char *name,
                                            int64_t *out) {
  tenon_string_t text;
  OrtStatus *status = find_attribute(info, name, &text);
  if (status || attribute_int(text, out)) return status;
  return refuse_attribute(name, "an integer", text);
}

/* Copies items, or states how many there are if `out` is NULL. */
static OrtStatus *give_items(const char *name, const void *items, size_t count, size_t size_of_item,
                             void *out, size_t *size) {
  const bool fits = *size >= count;
  *size = count;
  if (!out) return NULL;
  if (!fits)
    return status_make(ORT_INVALID_ARGUMENT, "attribute '%.100s' needs room for %zu elements", name,
                       count);
  if (count) memcpy(out, items, count * size_of_item);
  return NULL;
}

/* The size counts the zero byte at the end. */
OrtStatus *ort_KernelInfoGetAttribute_string(const OrtKernelInfo *info, const char *name, char *out,
                                             size_t *size) {
  tenon_string_t text;
  OrtStatus *status = find_attribute(info, name, &text);
  if (status) return status;
  const size_t room = *size;
  *size = text.size + 1;
  if (!out) return NULL;
  if (room < *size)
    return status_make(ORT_INVALID_ARGUMENT, "attribute '%.100s' needs %zu bytes", name, *size);
  memcpy(out, text.data, text.size);
  out[text.size] = 0;
  return NULL;
}

OrtStatus *ort_KernelInfoGetAttributeArray_float(const OrtKernelInfo *info, const char *name,
                                                 float *out, size_t *size) {
  tenon_string_t text;
  float *items = NULL;
  size_t count = 0;
  OrtStatus *status = find_attribute(info, name, &text);
  if (!status && !attribute_floats(text, &items, &count))
    status = refuse_attribute(name, "a list of numbers", text);
  if (!status) status = give_items(name, items, count, sizeof *items, out, size);
  free(items);
  return status;
}

OrtStatus *ort_KernelInfoGetAttributeArray_int64(const OrtKernelInfo *info, const char *name,
                                                 int64_t *out, size_t *size) {
  tenon_string_t text;
  int64_t *items = NULL;
  size_t count = 0;
  OrtStatus *status = find_attribute(info, name, &text);
  if (!status && !attribute_ints(text, &items, &count))
    status = refuse_attribute(name, "a list of integers", text);
  if (!status) status = give_items(name, items, count, sizeof *items, out, size);
  free(items);
  return status;
}

/* The library frees each string and the list with its allocator. */
OrtStatus *ort_KernelInfoGetAttributeArray_string(const OrtKernelInfo *info, const char *name,
                                                  OrtAllocator *allocator, char ***out,
                                                  size_t *size) {
  tenon_string_t text;
  char **items = NULL;
  size_t count = 0;
  size_t done = 0;
  *out = NULL;
  *size = 0;
  OrtStatus *status = find_attribute(info, name, &text);
  if (!status && !attribute_strings(text, &items, &count))
    status = refuse_attribute(name, "a list of strings", text);
  char **made = status || !count ? NULL : allocator->Alloc(allocator, count * sizeof *made);
  for (; made && done < count; done++) {
    const size_t bytes = strlen(items[done]) + 1;
    if (!(made[done] = allocator->Alloc(allocator, bytes))) break;
    memcpy(made[done], items[done], bytes);
  }
  free(items);
  if (!status && done < count) {
    while (done)
      allocator->Free(allocator, made[--done]);
    if (made) allocator->Free(allocator, made);
    return status_make(ORT_FAIL, "the allocator has no memory for attribute '%.100s'", name);
  }
  *out = made;
  *size = count;
  return status;
}

OrtStatus *ort_KernelInfoGetAttribute_tensor(const OrtKernelInfo *info, const char *name,
                                             OrtAllocator *allocator, OrtValue **out) {
  tenon_string_t text;
  tenon_tensor_t *tensor = NULL;
  (void)allocator; /* the tensor has memory of its own, which ReleaseValue frees */
  *out = NULL;
  OrtStatus *status = find_attribute(info, name, &text);
  if (status) return status;
  if (attribute_tensor(text, &tensor) != TENON_OK) return status_of_tenon(name);
  return value_make(tensor, out);
}
