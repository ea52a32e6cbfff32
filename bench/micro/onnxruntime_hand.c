/* An operator for ONNX Runtime, written by hand: hand.twice computes 2 x + 1 of f32. It makes the
 * fewest calls that a kernel can make; with -DCLASSIC it reads shapes by objects, as ONNX Runtime
 * before 1.24 requires. */
#include <string.h>

#include "common/ort_functions.h"
#include "common/ort_interface.h"

typedef void (*any_fn)(void);

static const any_fn *api;

#define CALL(type, name) ((type)api[ORT_AT_##name])
typedef OrtStatus *(*input_fn)(const OrtKernelContext *context, size_t index, const OrtValue **out);
typedef OrtStatus *(*output_fn)(OrtKernelContext *context, size_t index, const int64_t *shape,
                                size_t rank, OrtValue **out);
typedef OrtStatus *(*data_fn)(OrtValue *value, void **out);
typedef OrtStatus *(*reference_fn)(const OrtValue *value, ort_element_t *out_element,
                                   const int64_t **out_shape, size_t *out_rank);
typedef OrtStatus *(*object_fn)(const OrtValue *value, OrtTensorTypeAndShapeInfo **out);
typedef OrtStatus *(*rank_fn)(const OrtTensorTypeAndShapeInfo *info, size_t *out);
typedef OrtStatus *(*extents_fn)(const OrtTensorTypeAndShapeInfo *info, int64_t *out, size_t rank);
typedef void (*release_fn)(OrtTensorTypeAndShapeInfo *info);
typedef OrtStatus *(*get_shape_fn)(OrtShapeInferContext *context, size_t index,
                                   OrtTensorTypeAndShapeInfo **out);
typedef OrtStatus *(*set_shape_fn)(OrtShapeInferContext *context, size_t index,
                                   const OrtTensorTypeAndShapeInfo *info);
typedef OrtStatus *(*create_fn)(const char *name, OrtCustomOpDomain **out);
typedef OrtStatus *(*add_fn)(OrtCustomOpDomain *domain, const OrtCustomOp *op);
typedef OrtStatus *(*register_domain_fn)(OrtSessionOptions *options, OrtCustomOpDomain *domain);

static OrtStatus *read_shape(const OrtValue *x, int64_t *room, const int64_t **out_shape,
                             size_t *out_rank) {
#ifdef CLASSIC
  OrtTensorTypeAndShapeInfo *info;
  OrtStatus *status = CALL(object_fn, GetTensorTypeAndShape)(x, &info);
  if (status) return status;
  status = CALL(rank_fn, GetDimensionsCount)(info, out_rank);
  if (!status) status = CALL(extents_fn, GetDimensions)(info, room, *out_rank);
  CALL(release_fn, ReleaseTensorTypeAndShapeInfo)(info);
  *out_shape = room;
  return status;
#else
  ort_element_t element;
  (void)room;
  return CALL(reference_fn, GetTensorElementTypeAndShapeDataReference)(x, &element, out_shape,
                                                                       out_rank);
#endif
}

static __attribute__((noinline)) void loop(int64_t count, const float *in, float *out) {
  for (int64_t i = 0; i < count; i++)
    out[i] = 2 * in[i] + 1;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
  const OrtValue *x;
  OrtValue *y;
  const int64_t *shape;
  int64_t room[8];
  size_t rank;
  void *from;
  void *to;
  int64_t count = 1;
  (void)kernel;
  OrtStatus *status = CALL(input_fn, KernelContext_GetInput)(context, 0, &x);
  if (!status) status = read_shape(x, room, &shape, &rank);
  if (!status) status = CALL(output_fn, KernelContext_GetOutput)(context, 0, shape, rank, &y);
  if (!status) status = CALL(data_fn, GetTensorMutableData)((OrtValue *)(uintptr_t)x, &from);
  if (!status) status = CALL(data_fn, GetTensorMutableData)(y, &to);
  if (status) return status;
  for (size_t d = 0; d < rank; d++)
    count *= shape[d];
  loop(count, from, to);
  return NULL;
}

static OrtStatus *create(const OrtCustomOp *op, const OrtApi *of, const OrtKernelInfo *info,
                         void **out_kernel) {
  static int kernel;
  (void)op;
  (void)of;
  (void)info;
  *out_kernel = &kernel;
  return NULL;
}

/* The output has the shape of the input, so ONNX Runtime plans its memory. */
static OrtStatus *infer(const OrtCustomOp *op, OrtShapeInferContext *context) {
  OrtTensorTypeAndShapeInfo *info;
  (void)op;
  OrtStatus *status = CALL(get_shape_fn, ShapeInferContext_GetInputTypeShape)(context, 0, &info);
  return status ? status
                : CALL(set_shape_fn, ShapeInferContext_SetOutputTypeShape)(context, 0, info);
}

static void destroy(void *kernel) { (void)kernel; }
static const char *get_name(const OrtCustomOp *op) {
  (void)op;
  return "twice";
}
static const char *get_provider(const OrtCustomOp *op) {
  (void)op;
  return "CPUExecutionProvider";
}
static ort_element_t get_type(const OrtCustomOp *op, size_t i) {
  (void)op;
  (void)i;
  return 1;
}
static size_t get_count(const OrtCustomOp *op) {
  (void)op;
  return 1;
}
static ort_characteristic_t get_kind(const OrtCustomOp *op, size_t i) {
  (void)op;
  (void)i;
  return ORT_REQUIRED;
}
static int get_memory(const OrtCustomOp *op, size_t i) {
  (void)op;
  (void)i;
  return 0;
}
static int get_one(const OrtCustomOp *op) {
  (void)op;
  return 1;
}
static int get_end(const OrtCustomOp *op) {
  (void)op;
  return ORT_OP_UNBOUNDED;
}

static const OrtCustomOp twice = {.version = 17,
                                  .GetName = get_name,
                                  .GetExecutionProviderType = get_provider,
                                  .GetInputType = get_type,
                                  .GetInputTypeCount = get_count,
                                  .GetOutputType = get_type,
                                  .GetOutputTypeCount = get_count,
                                  .KernelDestroy = destroy,
                                  .GetInputCharacteristic = get_kind,
                                  .GetOutputCharacteristic = get_kind,
                                  .GetInputMemoryType = get_memory,
                                  .GetVariadicInputMinArity = get_one,
                                  .GetVariadicInputHomogeneity = get_one,
                                  .GetVariadicOutputMinArity = get_one,
                                  .GetVariadicOutputHomogeneity = get_one,
                                  .CreateKernelV2 = create,
                                  .KernelComputeV2 = compute,
                                  .InferOutputShapeFn = infer,
                                  .GetStartVersion = get_one,
                                  .GetEndVersion = get_end};

__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options,
                                                                    const OrtApiBase *base);
OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  OrtCustomOpDomain *domain;
  api = (const void *)base->GetApi(18);
  OrtStatus *status = CALL(create_fn, CreateCustomOpDomain)("hand", &domain);
  if (!status) status = CALL(add_fn, CustomOpDomain_Add)(domain, &twice);
  return status ? status : CALL(register_domain_fn, AddCustomOpDomain)(options, domain);
}
