/* How the test libraries define operators: a table of them, and functions that read tensors. */
#ifndef TESTS_ONNXRUNTIME_KIT_H
#define TESTS_ONNXRUNTIME_KIT_H

#include <stdlib.h>
#include <string.h>

#include "api.h"

enum { F32 = 1, U8, I8, U16, I16, I32, I64, STRING, BOOL, F16, F64, ANY = 0, END = -1 };
enum { REQUIRED, OPTIONAL, VARIADIC };

#define TRY(call)                                                                                  \
  do {                                                                                             \
    OrtStatus *status_ = (call);                                                                   \
    if (status_) return status_;                                                                   \
  } while (0)

typedef struct op_t op_t;
typedef struct node_t { /* a kernel */
  const op_t *op;
  float factor;
  int64_t times;
  char mode[16];
  size_t number_count;
  float numbers[8];
  int64_t total;
  size_t in_count;
  size_t out_count;
  int is_constant;
  OrtOp *inner;
} node_t;

typedef OrtStatus *(*create_fn)(node_t *node, const OrtKernelInfo *info);
typedef OrtStatus *(*compute_fn)(node_t *node, OrtKernelContext *context);
typedef OrtStatus *(*infer_fn)(const OrtCustomOp *op, OrtShapeInferContext *context);

struct op_t {
  OrtCustomOp base; /* must be the first member */
  const char *name;
  int inputs[6]; /* element types, up to END */
  int outputs[6];
  int in_kinds[6];
  int out_kinds[6];
  compute_fn compute;
  create_fn create;
  infer_fn infer;
  int since;
  int until;
  int mixed; /* the items of a variadic argument may differ in dtype */
  int least;
  int aliases;
};

static const OrtApi *ort;

static inline OrtStatus *fail(const char *text) { return ort->CreateStatus(ORT_FAIL, text); }

typedef struct tensor_t { /* an input or an output */
  const OrtValue *value;
  void *data;
  size_t ndim;
  int64_t shape[8];
  size_t count;
  ONNXTensorElementDataType type;
} tensor_t;

static inline OrtStatus *read_tensor(const OrtValue *value, tensor_t *out) {
  OrtTensorTypeAndShapeInfo *info;
  memset(out, 0, sizeof *out);
  out->value = value;
  if (!value) return NULL;
  TRY(ort->GetTensorTypeAndShape(value, &info));
  TRY(ort->GetDimensionsCount(info, &out->ndim));
  if (out->ndim > 8) return fail("too many dimensions");
  TRY(ort->GetDimensions(info, out->shape, out->ndim));
  TRY(ort->GetTensorShapeElementCount(info, &out->count));
  TRY(ort->GetTensorElementType(info, &out->type));
  ort->ReleaseTensorTypeAndShapeInfo(info);
  if (out->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return NULL;
  return ort->GetTensorMutableData((OrtValue *)value, &out->data);
}

static inline OrtStatus *get_input(OrtKernelContext *context, size_t index, tensor_t *out) {
  const OrtValue *value;
  TRY(ort->KernelContext_GetInput(context, index, &value));
  return read_tensor(value, out);
}

static inline OrtStatus *get_output(OrtKernelContext *context, size_t index, const int64_t *shape,
                                    size_t ndim, tensor_t *out) {
  OrtValue *value;
  TRY(ort->KernelContext_GetOutput(context, index, shape, ndim, &value));
  return read_tensor(value, out);
}

/* the functions of OrtCustomOp */

static const char *get_name(const OrtCustomOp *op) { return ((const op_t *)op)->name; }
static const char *get_provider(const OrtCustomOp *op) {
  (void)op;
  return NULL;
}
static size_t count_of(const int *types) {
  size_t count = 0;
  while (types[count] != END)
    count++;
  return count;
}
static size_t get_input_count(const OrtCustomOp *op) {
  return count_of(((const op_t *)op)->inputs);
}
static size_t get_output_count(const OrtCustomOp *op) {
  return count_of(((const op_t *)op)->outputs);
}
static ONNXTensorElementDataType get_input_type(const OrtCustomOp *op, size_t i) {
  return (ONNXTensorElementDataType)((const op_t *)op)->inputs[i];
}
static ONNXTensorElementDataType get_output_type(const OrtCustomOp *op, size_t i) {
  return (ONNXTensorElementDataType)((const op_t *)op)->outputs[i];
}
#if API >= 8
static OrtCustomOpInputOutputCharacteristic get_input_kind(const OrtCustomOp *op, size_t i) {
  return (OrtCustomOpInputOutputCharacteristic)((const op_t *)op)->in_kinds[i];
}
static OrtCustomOpInputOutputCharacteristic get_output_kind(const OrtCustomOp *op, size_t i) {
  return (OrtCustomOpInputOutputCharacteristic)((const op_t *)op)->out_kinds[i];
}
#endif
#if API >= 13
static OrtMemType get_memory(const OrtCustomOp *op, size_t i) {
  (void)op;
  (void)i;
  return OrtMemTypeDefault;
}
#endif
#if API >= 14
static int get_least(const OrtCustomOp *op) { return ((const op_t *)op)->least; }
static int get_equal(const OrtCustomOp *op) { return !((const op_t *)op)->mixed; }
#endif
#if API >= 17
static int get_since(const OrtCustomOp *op) {
  return ((const op_t *)op)->since ? ((const op_t *)op)->since : 1;
}
static int get_until(const OrtCustomOp *op) {
  return ((const op_t *)op)->until ? ((const op_t *)op)->until : 0x7fffffff;
}
#endif
#if API >= 18
static size_t get_aliases(int **inputs, int **outputs) {
  *inputs = calloc(1, sizeof **inputs);
  *outputs = calloc(1, sizeof **outputs);
  return 1;
}
static void release_aliases(int *inputs, int *outputs) {
  free(inputs);
  free(outputs);
}
#endif

static OrtStatus *make_node(const OrtCustomOp *of, const OrtKernelInfo *info, node_t **out) {
  node_t *node = calloc(1, sizeof *node);
  const op_t *op = (const op_t *)of;
  if (!node) return fail("out of memory");
  node->op = op;
  OrtStatus *status = op->create ? op->create(node, info) : NULL;
  if (status) {
    free(node);
    node = NULL;
  }
  *out = node;
  return status;
}

static void destroy_node(void *kernel) {
  node_t *node = kernel;
#if API >= 12
  if (node->inner) ort->ReleaseOp(node->inner);
#endif
  free(node);
}

#if API >= 16
static OrtStatusPtr create_node(const OrtCustomOp *of, const OrtApi *api, const OrtKernelInfo *info,
                                void **kernel) {
  node_t *node = NULL;
  (void)api;
  OrtStatus *status = make_node(of, info, &node);
  *kernel = node;
  return status;
}
static OrtStatusPtr compute_node(void *kernel, OrtKernelContext *context) {
  return ((node_t *)kernel)->op->compute(kernel, context);
}
#else
/* These versions report failures by exceptions only, which C does not have. */
static void *create_node(const OrtCustomOp *of, const OrtApi *api, const OrtKernelInfo *info) {
  node_t *node = NULL;
  (void)api;
  ort->ReleaseStatus(make_node(of, info, &node));
  return node;
}
static void compute_node(void *kernel, OrtKernelContext *context) {
  ort->ReleaseStatus(((node_t *)kernel)->op->compute(kernel, context));
}
#endif

static void fill_op(op_t *op) {
  OrtCustomOp *base = &op->base;
  base->version = API;
  base->GetName = get_name;
  base->GetExecutionProviderType = get_provider;
  base->GetInputType = get_input_type;
  base->GetInputTypeCount = get_input_count;
  base->GetOutputType = get_output_type;
  base->GetOutputTypeCount = get_output_count;
  base->KernelDestroy = destroy_node;
#if API >= 8
  base->GetInputCharacteristic = get_input_kind;
  base->GetOutputCharacteristic = get_output_kind;
#endif
#if API >= 13
  base->GetInputMemoryType = get_memory;
#endif
#if API >= 14
  base->GetVariadicInputMinArity = get_least;
  base->GetVariadicOutputMinArity = get_least;
  base->GetVariadicInputHomogeneity = get_equal;
  base->GetVariadicOutputHomogeneity = get_equal;
#endif
#if API >= 16
  base->CreateKernelV2 = create_node;
  base->KernelComputeV2 = compute_node;
#else
  base->CreateKernel = create_node;
  base->KernelCompute = compute_node;
#endif
#if API >= 17
  base->InferOutputShapeFn = op->infer;
  base->GetStartVersion = get_since;
  base->GetEndVersion = get_until;
#endif
#if API >= 18
  if (op->aliases) {
    base->GetAliasMap = get_aliases;
    base->ReleaseAliasMap = release_aliases;
  }
#endif
}

static inline OrtStatus *register_ops(OrtSessionOptions *options, const OrtApiBase *base, op_t *ops,
                                      size_t count, const char *name) {
  static OrtCustomOpDomain *domain;
  ort = base->GetApi(API);
  if (!ort) return NULL;
  if (!domain) {
    TRY(ort->CreateCustomOpDomain(name, &domain));
    for (size_t i = 0; i < count; i++) {
      fill_op(&ops[i]);
      TRY(ort->CustomOpDomain_Add(domain, &ops[i].base));
    }
  }
  return ort->AddCustomOpDomain(options, domain);
}

#endif
