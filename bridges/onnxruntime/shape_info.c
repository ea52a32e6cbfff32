/* Objects with an element type and a shape. Every kernel creates some in each call, so an object is
 * one block of memory, and each thread keeps the last ones that it released for its next ones.
 * Called by libraries, and by the files that describe tensors to them. */
#include "shape_info.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

/* released objects */

enum { KEPT_MOST = 4 };

typedef struct kept_infos_t {
  OrtTensorTypeAndShapeInfo *items[KEPT_MOST];
  int count;
} kept_infos_t;

static pthread_key_t kept_key;
static pthread_once_t kept_once = PTHREAD_ONCE_INIT;
static bool has_kept_key;
/* NULL: the thread has released none. Of the initial kind, because it is read for each tensor that
 * a kernel looks at. */
static _Thread_local kept_infos_t *kept_infos __attribute__((tls_model("initial-exec")));

static void end_kept_infos(void *pointer) {
  kept_infos_t *kept = pointer;
  kept_infos = NULL;
  while (kept->count)
    free(kept->items[--kept->count]);
  free(kept);
}

static void create_kept_key(void) {
  has_kept_key = pthread_key_create(&kept_key, end_kept_infos) == 0;
}

static kept_infos_t *create_kept_infos(void) {
  (void)pthread_once(&kept_once, create_kept_key);
  kept_infos_t *kept = has_kept_key ? calloc(1, sizeof *kept) : NULL;
  if (kept && pthread_setspecific(kept_key, kept) == 0) {
    kept_infos = kept;
    return kept;
  }
  free(kept);
  return NULL;
}

static void free_info(OrtTensorTypeAndShapeInfo *info) {
  kept_infos_t *kept = kept_infos ? kept_infos : create_kept_infos();
  if (kept && kept->count < KEPT_MOST)
    kept->items[kept->count++] = info;
  else
    free(info);
}

OrtTensorTypeAndShapeInfo *shape_info_make(ort_element_t element, int32_t ndim,
                                           const int64_t *dims) {
  kept_infos_t *kept = kept_infos;
  OrtTensorTypeAndShapeInfo *info =
      kept && kept->count ? kept->items[--kept->count] : malloc(sizeof *info);
  if (!info) return NULL;
  info->element = element;
  info->has_shape = ndim >= 0;
  info->ndim = ndim > 0 ? (size_t)ndim : 0;
  info->names = NULL;
  for (size_t d = 0; d < info->ndim; d++)
    info->dims[d] = dims[d];
  return info;
}

static void forget_names(OrtTensorTypeAndShapeInfo *info) {
  for (size_t d = 0; info->names && d < info->ndim; d++)
    free(info->names[d]);
  free(info->names);
  info->names = NULL;
}

OrtStatus *ort_CreateTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo **out) {
  *out = shape_info_make(ORT_ELEMENT_UNDEFINED, -1, NULL);
  return *out ? NULL : status_make(ORT_FAIL, "out of memory");
}

OrtStatus *ort_SetTensorElementType(OrtTensorTypeAndShapeInfo *info, ort_element_t element) {
  info->element = element;
  return NULL;
}

OrtStatus *ort_SetDimensions(OrtTensorTypeAndShapeInfo *info, const int64_t *dims, size_t ndim) {
  if (ndim > TENON_RANK_MAX)
    return status_make(ORT_INVALID_ARGUMENT, "a shape has %zu dimensions: expected at most %d",
                       ndim, TENON_RANK_MAX);
  forget_names(info);
  info->has_shape = true;
  info->ndim = ndim;
  for (size_t d = 0; d < ndim; d++)
    info->dims[d] = dims[d];
  return NULL;
}

OrtStatus *ort_SetSymbolicDimensions(OrtTensorTypeAndShapeInfo *info, const char **names,
                                     size_t count) {
  if (count > TENON_RANK_MAX || (info->has_shape && info->ndim && count != info->ndim))
    return status_make(ORT_INVALID_ARGUMENT, "%zu names of extents for a shape with %zu dimensions",
                       count, info->ndim);
  forget_names(info);
  info->names = calloc(count + 1, sizeof *info->names);
  bool good = info->names != NULL;
  for (size_t d = info->ndim; d < count; d++)
    info->dims[d] = -1;
  info->ndim = count;
  info->has_shape = true;
  for (size_t d = 0; good && d < count; d++)
    good = (info->names[d] = strdup(names[d] ? names[d] : "")) != NULL;
  return good ? NULL : status_make(ORT_FAIL, "out of memory");
}

OrtStatus *ort_GetTensorElementType(const OrtTensorTypeAndShapeInfo *info, ort_element_t *out) {
  *out = info->element;
  return NULL;
}

OrtStatus *ort_GetDimensionsCount(const OrtTensorTypeAndShapeInfo *info, size_t *out) {
  *out = info->ndim;
  return NULL;
}

OrtStatus *ort_GetDimensions(const OrtTensorTypeAndShapeInfo *info, int64_t *dims, size_t count) {
  for (size_t d = 0; d < count && d < info->ndim; d++)
    dims[d] = info->dims[d];
  return NULL;
}

OrtStatus *ort_GetSymbolicDimensions(const OrtTensorTypeAndShapeInfo *info, const char **names,
                                     size_t count) {
  for (size_t d = 0; d < count && d < info->ndim; d++)
    names[d] = info->names ? info->names[d] : "";
  return NULL;
}

OrtStatus *ort_GetTensorShapeElementCount(const OrtTensorTypeAndShapeInfo *info, size_t *out) {
  int64_t count = 1;
  for (size_t d = 0; d < info->ndim; d++) {
    if (info->dims[d] < 0)
      return status_make(ORT_FAIL,
                         "the extent of axis %zu is unknown, so the number of elements "
                         "is unknown, too",
                         d);
    if (__builtin_mul_overflow(count, info->dims[d], &count))
      return status_make(ORT_FAIL, "the number of elements exceeds 63 bits");
  }
  *out = (size_t)count;
  return NULL;
}

_Bool ort_TensorTypeAndShape_HasShape(const OrtTensorTypeAndShapeInfo *info) {
  return info->has_shape;
}

void ort_ReleaseTensorTypeAndShapeInfo(OrtTensorTypeAndShapeInfo *info) {
  if (!info) return;
  if (info->names) forget_names(info);
  free_info(info);
}

/* types: only those of tensors */

OrtStatus *shape_info_type(OrtTensorTypeAndShapeInfo *tensor, OrtTypeInfo **out) {
  *out = tensor ? malloc(sizeof **out) : NULL;
  if (*out) {
    (*out)->tensor = tensor;
    return NULL;
  }
  ort_ReleaseTensorTypeAndShapeInfo(tensor);
  return status_make(ORT_FAIL, "out of memory");
}

OrtStatus *ort_CastTypeInfoToTensorInfo(const OrtTypeInfo *type,
                                        const OrtTensorTypeAndShapeInfo **out) {
  *out = type->tensor;
  return NULL;
}

OrtStatus *ort_CastTypeInfoToMapTypeInfo(const OrtTypeInfo *type, const void **out) {
  (void)type;
  *out = NULL;
  return NULL;
}

OrtStatus *ort_CastTypeInfoToSequenceTypeInfo(const OrtTypeInfo *type, const void **out) {
  (void)type;
  *out = NULL;
  return NULL;
}

OrtStatus *ort_CastTypeInfoToOptionalTypeInfo(const OrtTypeInfo *type, const void **out) {
  (void)type;
  *out = NULL;
  return NULL;
}

OrtStatus *ort_GetOnnxTypeFromTypeInfo(const OrtTypeInfo *type, ort_kind_t *out) {
  (void)type;
  *out = ORT_KIND_TENSOR;
  return NULL;
}

OrtStatus *ort_GetDenotationFromTypeInfo(const OrtTypeInfo *type, const char **out, size_t *size) {
  (void)type;
  *out = "";
  *size = 0;
  return NULL;
}

void ort_ReleaseTypeInfo(OrtTypeInfo *type) {
  if (!type) return;
  ort_ReleaseTensorTypeAndShapeInfo(type->tensor);
  free(type);
}
