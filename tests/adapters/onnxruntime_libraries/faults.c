/* A library with faults. The environment variable ORT_FAULT chooses what RegisterCustomOps does
 * wrong; without it, the library registers operators that fail when they are called. */
#define API 18
#include "kit.h"

OrtStatus *throw_text(void);
OrtStatus *throw_number(void);

static OrtStatus *copy_first(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  memcpy(y.data, x.data, x.count * sizeof(float));
  return NULL;
}

static OrtStatus *run_status(node_t *node, OrtKernelContext *context) {
  (void)node;
  (void)context;
  return ort->CreateStatus(ORT_INVALID_ARGUMENT, "today I do not run");
}
static OrtStatus *run_empty_status(node_t *node, OrtKernelContext *context) {
  (void)node;
  (void)context;
  return ort->CreateStatus(ORT_FAIL, "");
}
static OrtStatus *run_throw(node_t *node, OrtKernelContext *context) {
  (void)node;
  (void)context;
  return throw_text();
}
static OrtStatus *run_throw_number(node_t *node, OrtKernelContext *context) {
  (void)node;
  (void)context;
  return throw_number();
}
static OrtStatus *run_nothing(node_t *node, OrtKernelContext *context) {
  (void)node;
  (void)context;
  return NULL;
}
static OrtStatus *run_output_5(node_t *node, OrtKernelContext *context) {
  OrtValue *value;
  (void)node;
  return ort->KernelContext_GetOutput(context, 5, NULL, 0, &value);
}
static OrtStatus *run_input_5(node_t *node, OrtKernelContext *context) {
  const OrtValue *value;
  (void)node;
  return ort->KernelContext_GetInput(context, 5, &value);
}
static OrtStatus *run_negative(node_t *node, OrtKernelContext *context) {
  const int64_t shape[] = {2, -3};
  OrtValue *value;
  (void)node;
  return ort->KernelContext_GetOutput(context, 0, shape, 2, &value);
}
static OrtStatus *run_huge(node_t *node, OrtKernelContext *context) {
  const int64_t shape[] = {(int64_t)1 << 40, (int64_t)1 << 40};
  OrtValue *value;
  (void)node;
  return ort->KernelContext_GetOutput(context, 0, shape, 2, &value);
}
static OrtStatus *run_unserved(node_t *node, OrtKernelContext *context) {
  OrtSessionOptions *options;
  (void)node;
  (void)context;
  return ort->CreateSessionOptions(&options);
}
static OrtStatus *run_strings(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  return ort->FillStringTensorElement((OrtValue *)y.value, "text", 0);
}
static void throw_in_loop(void *argument, size_t i) {
  (void)argument;
  if (i == 3) throw_text();
}
static OrtStatus *run_loop(node_t *node, OrtKernelContext *context) {
  (void)node;
  return ort->KernelContext_ParallelFor(context, throw_in_loop, 8, 0, NULL);
}
static OrtStatus *run_resource(node_t *node, OrtKernelContext *context) {
  void *found;
  (void)node;
  return ort->KernelContext_GetResource(context, 3, 20000, &found);
}
static OrtStatus *run_crash(node_t *node, OrtKernelContext *context) {
  (void)node;
  (void)context;
  volatile int *nowhere = (int *)(size_t)(16 * (node != NULL));
  *nowhere = 1;
  return NULL;
}
static OrtStatus *run_forever(node_t *node, OrtKernelContext *context) {
  (void)context;
  for (volatile int64_t i = 0; node; i++)
    ;
  return NULL;
}
static OrtStatus *run_inner(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  OrtValue *value;
  TRY(get_input(context, 0, &x));
  x.shape[0]++;
  TRY(ort->KernelContext_GetOutput(context, 0, x.shape, x.ndim, &value));
  return ort->InvokeOp(context, node->inner, &x.value, 1, &value, 1);
}

static OrtStatus *create_status(node_t *node, const OrtKernelInfo *info) {
  (void)node;
  (void)info;
  return fail("today I create nothing");
}
static OrtStatus *create_throw(node_t *node, const OrtKernelInfo *info) {
  (void)node;
  (void)info;
  return throw_text();
}
static OrtStatus *create_input(node_t *node, const OrtKernelInfo *info) {
  OrtTypeInfo *type;
  (void)node;
  return ort->KernelInfo_GetInputTypeInfo(info, 4, &type);
}
static OrtStatus *create_attribute(node_t *node, const OrtKernelInfo *info) {
  return ort->KernelInfoGetAttribute_int64(info, "count", &node->times);
}
static OrtStatus *create_relu(node_t *node, const OrtKernelInfo *info) {
  return ort->CreateOp(info, "Relu", "", 14, NULL, NULL, 0, NULL, 0, 1, 1, &node->inner);
}
static OrtStatus *create_unknown(node_t *node, const OrtKernelInfo *info) {
  return ort->CreateOp(info, "Relux", "", 14, NULL, NULL, 0, NULL, 0, 1, 1, &node->inner);
}

static OrtStatus *infer_status(const OrtCustomOp *op, OrtShapeInferContext *context) {
  (void)op;
  (void)context;
  return fail("this shape I do not like");
}
static OrtStatus *infer_throw(const OrtCustomOp *op, OrtShapeInferContext *context) {
  (void)op;
  (void)context;
  return throw_text();
}
static OrtStatus *infer_other(const OrtCustomOp *op, OrtShapeInferContext *context) {
  const int64_t dims[] = {77};
  OrtTensorTypeAndShapeInfo *info;
  (void)op;
  TRY(ort->CreateTensorTypeAndShapeInfo(&info));
  TRY(ort->SetTensorElementType(info, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  TRY(ort->SetDimensions(info, dims, 1));
  OrtStatus *status = ort->ShapeInferContext_SetOutputTypeShape(context, 0, info);
  ort->ReleaseTensorTypeAndShapeInfo(info);
  return status;
}
static OrtStatus *infer_output_3(const OrtCustomOp *op, OrtShapeInferContext *context) {
  OrtTensorTypeAndShapeInfo *info;
  (void)op;
  TRY(ort->ShapeInferContext_GetInputTypeShape(context, 0, &info));
  return ort->ShapeInferContext_SetOutputTypeShape(context, 3, info);
}

#define ONE(op_name, ...)                                                                          \
  { .name = op_name, .inputs = {F32, END}, .outputs = {F32, END}, __VA_ARGS__ }

static op_t ops[] = {
    ONE("good", .compute = copy_first),
    ONE("run_status", .compute = run_status),
    ONE("run_empty_status", .compute = run_empty_status),
    ONE("run_throw", .compute = run_throw),
    ONE("run_throw_number", .compute = run_throw_number),
    ONE("run_nothing", .compute = run_nothing),
    ONE("run_output_5", .compute = run_output_5),
    ONE("run_input_5", .compute = run_input_5),
    ONE("run_negative", .compute = run_negative),
    ONE("run_huge", .compute = run_huge),
    ONE("run_unserved", .compute = run_unserved),
    ONE("run_strings", .compute = run_strings),
    ONE("run_loop", .compute = run_loop),
    ONE("run_resource", .compute = run_resource),
    ONE("run_crash", .compute = run_crash),
    ONE("run_forever", .compute = run_forever),
    ONE("inner_shape", .compute = run_inner, .create = create_relu),
    ONE("inner_unknown", .compute = run_inner, .create = create_unknown),
    ONE("create_status", .compute = copy_first, .create = create_status),
    ONE("create_throw", .compute = copy_first, .create = create_throw),
    ONE("create_input", .compute = copy_first, .create = create_input),
    ONE("create_attribute", .compute = copy_first, .create = create_attribute),
    ONE("infer_status", .compute = copy_first, .infer = infer_status),
    ONE("infer_throw", .compute = copy_first, .infer = infer_throw),
    ONE("infer_other", .compute = copy_first, .infer = infer_other),
    ONE("infer_output_3", .compute = copy_first, .infer = infer_output_3),
};

/* faults of registration */

static op_t faulty = ONE("one", .compute = copy_first);
static op_t second = ONE("one", .compute = copy_first);

static const char *bad_name(const OrtCustomOp *op) {
  (void)op;
  return "a-b";
}
static const char *no_name(const OrtCustomOp *op) {
  (void)op;
  return NULL;
}
static const char *gpu(const OrtCustomOp *op) {
  (void)op;
  return "CUDAExecutionProvider";
}
static ONNXTensorElementDataType bad_type(const OrtCustomOp *op, size_t i) {
  (void)op;
  (void)i;
  return (ONNXTensorElementDataType)99;
}
static size_t count_70(const OrtCustomOp *op) {
  (void)op;
  return 70;
}
static size_t count_2(const OrtCustomOp *op) {
  (void)op;
  return 2;
}
static size_t count_0(const OrtCustomOp *op) {
  (void)op;
  return 0;
}
static size_t throw_count(const OrtCustomOp *op) {
  (void)op;
  throw_text();
  return 1;
}
static OrtCustomOpInputOutputCharacteristic bad_kind(const OrtCustomOp *op, size_t i) {
  (void)op;
  (void)i;
  return (OrtCustomOpInputOutputCharacteristic)7;
}
static OrtCustomOpInputOutputCharacteristic variadic(const OrtCustomOp *op, size_t i) {
  (void)op;
  (void)i;
  return INPUT_OUTPUT_VARIADIC;
}
static size_t bad_aliases(int **inputs, int **outputs) {
  const size_t count = get_aliases(inputs, outputs);
  (*inputs)[0] = 9;
  return count;
}

static void spoil(const char *fault) {
  OrtCustomOp *op = &faulty.base;
  fill_op(&faulty);
  fill_op(&second);
  if (!strcmp(fault, "names")) {
    op->GetName = bad_name;
    second.name = "a_b";
  }
  if (!strcmp(fault, "null_name")) op->GetName = no_name;
  if (!strcmp(fault, "gpu")) op->GetExecutionProviderType = gpu;
  if (!strcmp(fault, "element")) op->GetInputType = bad_type;
  if (!strcmp(fault, "many_inputs")) op->GetInputTypeCount = count_70;
  if (!strcmp(fault, "no_outputs")) op->GetOutputTypeCount = count_0;
  if (!strcmp(fault, "count_throws")) op->GetInputTypeCount = throw_count;
  if (!strcmp(fault, "characteristic")) op->GetInputCharacteristic = bad_kind;
  if (!strcmp(fault, "no_create")) op->CreateKernelV2 = NULL;
  if (!strcmp(fault, "no_compute")) op->KernelComputeV2 = NULL;
  if (!strcmp(fault, "no_destroy")) op->KernelDestroy = NULL;
  if (!strcmp(fault, "version_0")) op->version = 0;
  if (!strcmp(fault, "overloads")) second.base.GetInputCharacteristic = variadic;
  if (!strcmp(fault, "aliases")) op->GetAliasMap = bad_aliases;
  if (!strcmp(fault, "variadic_first")) {
    op->GetInputTypeCount = count_2;
    op->GetInputCharacteristic = variadic;
  }
}

static OrtStatus *register_faulty(OrtSessionOptions *options, const OrtApiBase *base,
                                  const char *fault) {
  OrtCustomOpDomain *domain;
  OrtSessionOptions *more;
  if (!strcmp(fault, "newer")) return base->GetApi(99) ? fail("a table of version 99") : NULL;
  ort = base->GetApi(API);
  if (!strcmp(fault, "status")) return fail("I want ONNX Runtime 9");
  if (!strcmp(fault, "throw")) return throw_text();
  if (!strcmp(fault, "throw_number")) return throw_number();
  if (!strcmp(fault, "nothing")) return NULL;
  if (!strcmp(fault, "unserved")) return ort->CreateSessionOptions(&more);
  if (!strcmp(fault, "null_domain")) return ort->CreateCustomOpDomain(NULL, &domain);
  TRY(ort->CreateCustomOpDomain("faulty.ops", &domain));
  if (!strcmp(fault, "null_op")) return ort->CustomOpDomain_Add(domain, NULL);
  spoil(fault);
  TRY(ort->CustomOpDomain_Add(domain, &faulty.base));
  if (!strcmp(fault, "overloads") || !strcmp(fault, "names"))
    TRY(ort->CustomOpDomain_Add(domain, &second.base));
  TRY(ort->AddCustomOpDomain(options, domain));
  if (!strcmp(fault, "early_release")) ort->ReleaseCustomOpDomain(domain);
  return NULL;
}

__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options,
                                                                    const OrtApiBase *base);

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  const char *fault = getenv("ORT_FAULT");
  if (fault) return register_faulty(options, base, fault);
  return register_ops(options, base, ops, sizeof ops / sizeof *ops, "faulty.ops");
}
