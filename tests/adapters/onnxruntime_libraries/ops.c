/* A library with an operator for each part of the interface. API chooses the version of the
 * interface that it is written for; newer parts are left out. */
#include "kit.h"

#define TEXT_OF(number) #number
#define DOMAIN_OF(number) "test.api" TEXT_OF(number)

/* plain arithmetic, and dtypes */

static OrtStatus *add(node_t *node, OrtKernelContext *context) {
  tensor_t a;
  tensor_t b;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &a));
  TRY(get_input(context, 1, &b));
  TRY(get_output(context, 0, a.shape, a.ndim, &y));
  for (size_t i = 0; i < a.count; i++)
    ((float *)y.data)[i] = ((float *)a.data)[i] + (b.data ? ((float *)b.data)[i % b.count] : 0);
  return NULL;
}

static OrtStatus *twice_f32(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  for (size_t i = 0; i < x.count; i++)
    ((float *)y.data)[i] = 2 * ((float *)x.data)[i];
  return NULL;
}

static OrtStatus *twice_f64(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  for (size_t i = 0; i < x.count; i++)
    ((double *)y.data)[i] = 2 * ((double *)x.data)[i] + 1;
  return NULL;
}

static OrtStatus *twice_i64(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  for (size_t i = 0; i < x.count; i++)
    ((int64_t *)y.data)[i] = 2 * ((int64_t *)x.data)[i] + 2;
  return NULL;
}

static size_t size_of_type(ONNXTensorElementDataType type) {
  static const size_t sizes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2, 1, 1, 1, 1};
  return (size_t)type < sizeof sizes / sizeof *sizes ? sizes[type] : 0;
}

static OrtStatus *copy_to(OrtKernelContext *context, size_t index, const tensor_t *x) {
  tensor_t y;
  TRY(get_output(context, index, x->shape, x->ndim, &y));
  if (!y.value) return NULL;
  if (x->type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
    char text[256];
    for (size_t i = 0; i < x->count; i++) {
      size_t size;
      TRY(ort->GetStringTensorElementLength(x->value, i, &size));
      if (size > 255) return fail("a long string");
      TRY(ort->GetStringTensorElement(x->value, size, i, text));
      text[size] = 0;
      TRY(ort->FillStringTensorElement((OrtValue *)y.value, text, i));
    }
    return NULL;
  }
  memcpy(y.data, x->data, x->count * size_of_type(x->type));
  return NULL;
}

static OrtStatus *copy(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  (void)node;
  TRY(get_input(context, 0, &x));
  return copy_to(context, 0, &x);
}

/* attributes */

static OrtStatus *create_scale(node_t *node, const OrtKernelInfo *info) {
  size_t size = sizeof node->mode;
  int64_t integers[8];
  size_t count = 8;
  OrtStatus *status = ort->KernelInfoGetAttribute_float(info, "factor", &node->factor);
  if (status) node->factor = 3;
  ort->ReleaseStatus(status);
  status = ort->KernelInfoGetAttribute_int64(info, "times", &node->times);
  if (status) node->times = 1;
  ort->ReleaseStatus(status);
  status = ort->KernelInfoGetAttribute_string(info, "mode", node->mode, &size);
  if (status) strcpy(node->mode, "plain");
  ort->ReleaseStatus(status);
#if API >= 11
  node->number_count = 8;
  status =
      ort->KernelInfoGetAttributeArray_float(info, "numbers", node->numbers, &node->number_count);
  if (status) node->number_count = 0;
  ort->ReleaseStatus(status);
  status = ort->KernelInfoGetAttributeArray_int64(info, "integers", integers, &count);
  for (size_t i = 0; !status && i < count; i++)
    node->total += integers[i];
  ort->ReleaseStatus(status);
#else
  (void)integers;
  (void)count;
#endif
  return NULL;
}

static OrtStatus *scale(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  float offset = (float)node->total + (strcmp(node->mode, "plain") == 0 ? 0 : 100);
  for (size_t i = 0; i < node->number_count; i++)
    offset += node->numbers[i];
  for (size_t i = 0; i < x.count; i++)
    ((float *)y.data)[i] = ((float *)x.data)[i] * node->factor * (float)node->times + offset;
  return NULL;
}

#if API >= 14
static OrtStatus *create_table(node_t *node, const OrtKernelInfo *info) {
  OrtAllocator *allocator;
  OrtValue *value;
  tensor_t table;
  TRY(ort->GetAllocatorWithDefaultOptions(&allocator));
  TRY(ort->KernelInfoGetAttribute_tensor(info, "table", allocator, &value));
  TRY(read_tensor(value, &table));
  if (table.count > 8 || table.type != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT)
    return fail("the table has more than 8 numbers");
  memcpy(node->numbers, table.data, table.count * sizeof(float));
  node->number_count = table.count;
  ort->ReleaseValue(value);
  return NULL;
}

static OrtStatus *look_up(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  for (size_t i = 0; i < x.count; i++) {
    const int64_t index = ((int64_t *)x.data)[i];
    if (index < 0 || (size_t)index >= node->number_count) return fail("an index is out of range");
    ((float *)y.data)[i] = node->numbers[index];
  }
  return NULL;
}
#endif

#if API >= 25
static OrtStatus *create_words(node_t *node, const OrtKernelInfo *info) {
  OrtAllocator *allocator;
  char **words;
  size_t count;
  TRY(ort->GetAllocatorWithDefaultOptions(&allocator));
  TRY(ort->KernelInfoGetAttributeArray_string(info, "words", allocator, &words, &count));
  for (size_t i = 0; i < count; i++) {
    node->numbers[i % 8] = (float)strlen(words[i]);
    TRY(ort->AllocatorFree(allocator, words[i]));
  }
  TRY(ort->AllocatorFree(allocator, words));
  node->number_count = count;
  return NULL;
}
#endif

/* optional and variadic arguments */

#if API >= 14
static OrtStatus *sum(node_t *node, OrtKernelContext *context) {
  size_t count;
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(ort->KernelContext_GetInputCount(context, &count));
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  memset(y.data, 0, y.count * sizeof(float));
  for (size_t k = 0; k < count; k++) {
    TRY(get_input(context, k, &x));
    for (size_t i = 0; i < x.count; i++)
      ((float *)y.data)[i] += ((float *)x.data)[i];
  }
  return NULL;
}

static OrtStatus *copy_all(node_t *node, OrtKernelContext *context) {
  size_t count;
  (void)node;
  TRY(ort->KernelContext_GetOutputCount(context, &count));
  for (size_t k = 0; k < count; k++) {
    tensor_t x;
    TRY(get_input(context, k, &x));
    TRY(copy_to(context, k, &x));
  }
  return NULL;
}
#endif

static OrtStatus *extremes(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t least;
  tensor_t most;
  size_t count;
  (void)node;
  TRY(ort->KernelContext_GetOutputCount(context, &count));
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, NULL, 0, &least));
  most.value = NULL;
  if (count > 1) TRY(get_output(context, 1, NULL, 0, &most));
  float low = ((float *)x.data)[0];
  float high = low;
  for (size_t i = 0; i < x.count; i++) {
    if (((float *)x.data)[i] < low) low = ((float *)x.data)[i];
    if (((float *)x.data)[i] > high) high = ((float *)x.data)[i];
  }
  *(float *)least.data = low;
  if (most.value) *(float *)most.data = high;
  return NULL;
}

/* results whose extents depend on data */

static OrtStatus *positive(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  int64_t count = 0;
  (void)node;
  TRY(get_input(context, 0, &x));
  for (size_t i = 0; i < x.count; i++)
    count += ((float *)x.data)[i] > 0;
  TRY(get_output(context, 0, &count, 1, &y));
  float *at = y.data;
  for (size_t i = 0; i < x.count; i++)
    if (((float *)x.data)[i] > 0) *at++ = ((float *)x.data)[i];
  return NULL;
}

/* strings */

static OrtStatus *upper(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  size_t size;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  TRY(ort->GetStringTensorDataLength(x.value, &size));
  char *texts = malloc(size + x.count + 1);
  size_t *offsets = malloc((x.count + 1) * sizeof *offsets);
  const char **items = malloc((x.count + 1) * sizeof *items);
  TRY(ort->GetStringTensorContent(x.value, texts, size, offsets, x.count));
  offsets[x.count] = size;
  char *copy = malloc(size + x.count + 1);
  char *at = copy;
  for (size_t i = 0; i < x.count; i++) {
    items[i] = at;
    for (size_t k = offsets[i]; k < offsets[i + 1]; k++)
      *at++ = texts[k] >= 'a' && texts[k] <= 'z' ? (char)(texts[k] - 32) : texts[k];
    *at++ = 0;
  }
  OrtStatus *status = ort->FillStringTensor((OrtValue *)y.value, items, x.count);
  free(texts);
  free(offsets);
  free(items);
  free(copy);
  return status;
}

static OrtStatus *lengths(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  for (size_t i = 0; i < x.count; i++) {
    size_t size;
    TRY(ort->GetStringTensorElementLength(x.value, i, &size));
    ((int64_t *)y.data)[i] = (int64_t)size;
  }
  return NULL;
}

#if API >= 15
static OrtStatus *reverse(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  for (size_t i = 0; i < x.count; i++) {
    char text[256];
    char *out;
    size_t size;
    TRY(ort->GetStringTensorElementLength(x.value, i, &size));
    if (size > 255) return fail("a long string");
    TRY(ort->GetStringTensorElement(x.value, size, i, text));
    TRY(ort->GetResizedStringTensorElementBuffer((OrtValue *)y.value, i, size, &out));
    for (size_t k = 0; k < size; k++)
      out[k] = text[size - 1 - k];
  }
  return NULL;
}

/* constant inputs */

static OrtStatus *create_constant(node_t *node, const OrtKernelInfo *info) {
  const OrtValue *value;
  tensor_t x;
  TRY(ort->KernelInfoGetConstantInput_tensor(info, 1, &node->is_constant, &value));
  if (!node->is_constant) return fail("input 1 must be a constant");
  TRY(read_tensor(value, &x));
  for (size_t i = 0; i < x.count; i++)
    node->factor += ((float *)x.data)[i];
  return NULL;
}

static OrtStatus *add_factor(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  for (size_t i = 0; i < x.count; i++)
    ((float *)y.data)[i] = ((float *)x.data)[i] + node->factor;
  return NULL;
}
#endif

/* what a kernel learns about its node */

#if API >= 14
static OrtStatus *create_facts(node_t *node, const OrtKernelInfo *info) {
  OrtKernelInfo *copied;
  OrtTypeInfo *type;
  const OrtTensorTypeAndShapeInfo *tensor;
  ONNXTensorElementDataType element;
  const OrtLogger *logger;
  OrtLoggingLevel level;
  TRY(ort->CopyKernelInfo(info, &copied));
  TRY(ort->KernelInfo_GetInputCount(copied, &node->in_count));
  TRY(ort->KernelInfo_GetOutputCount(copied, &node->out_count));
  TRY(ort->KernelInfo_GetInputTypeInfo(copied, 0, &type));
  TRY(ort->CastTypeInfoToTensorInfo(type, &tensor));
  TRY(ort->GetTensorElementType(tensor, &element));
  ort->ReleaseTypeInfo(type);
  TRY(ort->KernelInfo_GetLogger(copied, &logger));
  TRY(ort->Logger_GetLoggingSeverityLevel(logger, &level));
  TRY(ort->Logger_LogMessage(logger, ORT_LOGGING_LEVEL_VERBOSE, "not shown", "ops.c", 1, "create"));
  ort->ReleaseKernelInfo(copied);
  node->factor = (float)element;
  node->times = level > ORT_LOGGING_LEVEL_VERBOSE;
  return NULL;
}

static OrtStatus *facts(node_t *node, OrtKernelContext *context) {
  const int64_t shape[] = {4};
  tensor_t y;
  TRY(get_output(context, 0, shape, 1, &y));
  const int64_t found[] = {(int64_t)node->in_count, (int64_t)node->out_count, (int64_t)node->factor,
                           node->times};
  memcpy(y.data, found, sizeof found);
  return NULL;
}
#endif

/* memory, threads and resources */

#if API >= 18
static OrtStatus *memory(node_t *node, OrtKernelContext *context) {
  const OrtMemoryInfo *info;
  OrtAllocator *allocator;
  OrtValue *own;
  tensor_t x;
  tensor_t y;
  tensor_t t;
  void *scratch;
  void *block;
  void *at;
  const char *name;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  TRY(ort->GetTensorMemoryInfo(x.value, &info));
  TRY(ort->MemoryInfoGetName(info, &name));
  if (strcmp(name, "Cpu") != 0) return fail("the memory is not that of the CPU");
  TRY(ort->KernelContext_GetAllocator(context, info, &allocator));
  TRY(ort->KernelContext_GetScratchBuffer(context, info, x.count * sizeof(float), &scratch));
  TRY(ort->AllocatorAlloc(allocator, x.count * sizeof(float), &block));
  TRY(ort->CreateTensorAsOrtValue(allocator, x.shape, x.ndim, x.type, &own));
  TRY(read_tensor(own, &t));
  for (size_t i = 0; i < x.count; i++) {
    ((float *)scratch)[i] = ((float *)x.data)[i] + 1;
    ((float *)block)[i] = ((float *)scratch)[i] * 2;
    ((float *)t.data)[i] = ((float *)block)[i] - 1;
  }
  const int64_t place[8] = {0};
  TRY(ort->TensorAt(own, place, t.ndim, &at));
  if (at != t.data) return fail("TensorAt gives another address");
  memcpy(y.data, t.data, x.count * sizeof(float));
  ort->ReleaseValue(own);
  TRY(ort->AllocatorFree(allocator, block));
  TRY(ort->AllocatorFree(allocator, scratch));
  ort->ReleaseAllocator(allocator);
  return NULL;
}

static void square_one(void *argument, size_t i) {
  float *const *arrays = argument;
  arrays[1][i] = arrays[0][i] * arrays[0][i];
}

static OrtStatus *square(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  float *arrays[] = {x.data, y.data};
  TRY(ort->KernelContext_ParallelFor(context, square_one, x.count / 2, 0, arrays));
  arrays[0] += x.count / 2;
  arrays[1] += x.count / 2;
  return ort->KernelContext_ParallelFor(context, square_one, x.count - x.count / 2, 4, arrays);
}

static OrtStatus *resource(node_t *node, OrtKernelContext *context) {
  void *found = NULL;
  tensor_t y;
  (void)node;
  OrtStatus *status = ort->KernelContext_GetResource(context, 1, 10000, &found);
  TRY(get_output(context, 0, NULL, 0, &y));
  *(int64_t *)y.data = status ? (int64_t)ort->GetErrorCode(status) : -1;
  ort->ReleaseStatus(status);
  return NULL;
}

/* An output that is the memory of an input: the kernel writes only the first element. */
static OrtStatus *first_only(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  (void)node;
  TRY(get_input(context, 0, &x));
  TRY(get_output(context, 0, x.shape, x.ndim, &y));
  ((float *)y.data)[0] = -1;
  return NULL;
}
#endif

/* standard operators */

#if API >= 12
static OrtStatus *create_inner(node_t *node, const OrtKernelInfo *info) {
  const char *names[] = {"T", "I"};
  const ONNXTensorElementDataType types[] = {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT,
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64};
  int64_t axis = -1;
  int64_t largest = 1;
  int64_t sorted = 1;
  OrtOpAttr *attributes[3];
  TRY(ort->CreateOpAttr("axis", &axis, 1, ORT_OP_ATTR_INT, &attributes[0]));
  TRY(ort->CreateOpAttr("largest", &largest, 1, ORT_OP_ATTR_INT, &attributes[1]));
  TRY(ort->CreateOpAttr("sorted", &sorted, 1, ORT_OP_ATTR_INT, &attributes[2]));
  TRY(ort->CreateOp(info, "TopK", "", 11, names, types, 2, (const OrtOpAttr *const *)attributes, 3,
                    2, 2, &node->inner));
  for (int i = 0; i < 3; i++)
    ort->ReleaseOpAttr(attributes[i]);
  return NULL;
}

static OrtStatus *best_two(node_t *node, OrtKernelContext *context) {
  OrtMemoryInfo *info;
  OrtValue *count;
  OrtValue *outputs[2];
  int64_t two = 2;
  const int64_t one[] = {1};
  tensor_t x;
  TRY(get_input(context, 0, &x));
  x.shape[x.ndim - 1] = 2;
  TRY(ort->KernelContext_GetOutput(context, 0, x.shape, x.ndim, &outputs[0]));
  TRY(ort->KernelContext_GetOutput(context, 1, x.shape, x.ndim, &outputs[1]));
  TRY(ort->CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info));
  TRY(ort->CreateTensorWithDataAsOrtValue(info, &two, sizeof two, one, 1,
                                          ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, &count));
  const OrtValue *inputs[] = {x.value, count};
  OrtStatus *status = ort->InvokeOp(context, node->inner, inputs, 2, outputs, 2);
  ort->ReleaseValue(count);
  ort->ReleaseMemoryInfo(info);
  return status;
}
#endif

/* shapes */

#if API >= 17
static OrtStatus *infer_repeat(const OrtCustomOp *op, OrtShapeInferContext *context) {
  OrtTensorTypeAndShapeInfo *x;
  OrtTensorTypeAndShapeInfo *y;
  const OrtOpAttr *attribute;
  int64_t dims[8];
  int64_t times = 2;
  const char *names[8];
  size_t ndim;
  size_t size;
  (void)op;
  TRY(ort->ShapeInferContext_GetInputTypeShape(context, 0, &x));
  TRY(ort->GetDimensionsCount(x, &ndim));
  TRY(ort->GetDimensions(x, dims, ndim));
  TRY(ort->GetSymbolicDimensions(x, names, ndim));
  OrtStatus *status = ort->ShapeInferContext_GetAttribute(context, "times", &attribute);
  if (!status) TRY(ort->ReadOpAttr(attribute, ORT_OP_ATTR_INT, &times, sizeof times, &size));
  ort->ReleaseStatus(status);
  TRY(ort->CreateTensorTypeAndShapeInfo(&y));
  TRY(ort->SetTensorElementType(y, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  dims[ndim] = times;
  names[ndim++] = "";
  TRY(ort->SetDimensions(y, dims, ndim));
  TRY(ort->SetSymbolicDimensions(y, names, ndim));
  TRY(ort->ShapeInferContext_SetOutputTypeShape(context, 0, y));
  ort->ReleaseTensorTypeAndShapeInfo(y);
  return NULL;
}

static OrtStatus *infer_same(const OrtCustomOp *op, OrtShapeInferContext *context) {
  OrtTensorTypeAndShapeInfo *x;
  (void)op;
  TRY(ort->ShapeInferContext_GetInputTypeShape(context, 0, &x));
  return ort->ShapeInferContext_SetOutputTypeShape(context, 0, x);
}

static OrtStatus *create_repeat(node_t *node, const OrtKernelInfo *info) {
  OrtStatus *status = ort->KernelInfoGetAttribute_int64(info, "times", &node->times);
  if (status) node->times = 2;
  ort->ReleaseStatus(status);
  return NULL;
}

static OrtStatus *repeat(node_t *node, OrtKernelContext *context) {
  tensor_t x;
  tensor_t y;
  TRY(get_input(context, 0, &x));
  x.shape[x.ndim] = node->times;
  TRY(get_output(context, 0, x.shape, x.ndim + 1, &y));
  for (size_t i = 0; i < y.count; i++)
    ((float *)y.data)[i] = ((float *)x.data)[i / (size_t)node->times];
  return NULL;
}
#endif

#if API >= 24
static OrtStatus *names(node_t *node, OrtKernelContext *context) {
  const int64_t shape[] = {2};
  tensor_t y;
  TRY(get_output(context, 0, shape, 1, &y));
  ((int64_t *)y.data)[0] = node->total;
  ((int64_t *)y.data)[1] = node->times;
  return NULL;
}

static OrtStatus *create_names(node_t *node, const OrtKernelInfo *info) {
  char text[64];
  size_t size = sizeof text;
  int since;
  TRY(ort->KernelInfo_GetOperatorDomain(info, text, &size));
  node->total = (int64_t)strlen(text);
  size = sizeof text;
  TRY(ort->KernelInfo_GetOperatorType(info, text, &size));
  node->total = 100 * node->total + (int64_t)size;
  TRY(ort->KernelInfo_GetOperatorSinceVersion(info, &since));
  node->times = since;
  return NULL;
}

static OrtStatus *reference(node_t *node, OrtKernelContext *context) {
  const OrtValue *x;
  const int64_t *shape;
  ONNXTensorElementDataType type;
  size_t ndim;
  size_t size;
  const void *data;
  tensor_t y;
  (void)node;
  TRY(ort->KernelContext_GetInput(context, 0, &x));
  TRY(ort->GetTensorElementTypeAndShapeDataReference(x, &type, &shape, &ndim));
  TRY(ort->GetTensorSizeInBytes(x, &size));
  TRY(ort->GetTensorData(x, &data));
  TRY(get_output(context, 0, shape, ndim, &y));
  memcpy(y.data, data, size);
  return NULL;
}
#endif

static op_t ops[] = {
    {.name = "Add", .inputs = {F32, F32, END}, .outputs = {F32, END}, .compute = add},
    {.name = "Twice", .inputs = {F32, END}, .outputs = {F32, END}, .compute = twice_f32},
    {.name = "Twice", .inputs = {F64, END}, .outputs = {F64, END}, .compute = twice_f64},
    {.name = "Twice", .inputs = {I64, END}, .outputs = {I64, END}, .compute = twice_i64},
    {.name = "Copy", .inputs = {ANY, END}, .outputs = {ANY, END}, .compute = copy},
    {.name = "Scale",
     .inputs = {F32, END},
     .outputs = {F32, END},
     .compute = scale,
     .create = create_scale},
    {.name = "AddOptional",
     .inputs = {F32, F32, END},
     .outputs = {F32, END},
     .in_kinds = {REQUIRED, OPTIONAL},
     .compute = add},
    {.name = "Extremes",
     .inputs = {F32, END},
     .outputs = {F32, F32, END},
     .out_kinds = {REQUIRED, OPTIONAL},
     .compute = extremes},
    {.name = "Positive", .inputs = {F32, END}, .outputs = {F32, END}, .compute = positive},
    {.name = "Upper", .inputs = {STRING, END}, .outputs = {STRING, END}, .compute = upper},
    {.name = "Lengths", .inputs = {STRING, END}, .outputs = {I64, END}, .compute = lengths},
#if API >= 12
    {.name = "BestTwo",
     .inputs = {F32, END},
     .outputs = {F32, I64, END},
     .compute = best_two,
     .create = create_inner},
#endif
#if API >= 14
    {.name = "LookUp",
     .inputs = {I64, END},
     .outputs = {F32, END},
     .compute = look_up,
     .create = create_table},
    {.name = "Facts",
     .inputs = {ANY, F32, END},
     .outputs = {I64, END},
     .in_kinds = {REQUIRED, OPTIONAL},
     .compute = facts,
     .create = create_facts},
    {.name = "Sum",
     .inputs = {F32, END},
     .outputs = {F32, END},
     .in_kinds = {VARIADIC},
     .least = 2,
     .compute = sum},
    {.name = "CopyAll",
     .inputs = {F32, END},
     .outputs = {F32, END},
     .in_kinds = {VARIADIC},
     .out_kinds = {VARIADIC},
     .least = 1,
     .compute = copy_all},
#endif
#if API >= 15
    {.name = "Reverse", .inputs = {STRING, END}, .outputs = {STRING, END}, .compute = reverse},
    {.name = "AddConstant",
     .inputs = {F32, F32, END},
     .outputs = {F32, END},
     .compute = add_factor,
     .create = create_constant},
#endif
#if API >= 17
    {.name = "Repeat",
     .inputs = {F32, END},
     .outputs = {F32, END},
     .compute = repeat,
     .create = create_repeat,
     .infer = infer_repeat},
    {.name = "Versioned",
     .inputs = {F32, END},
     .outputs = {F32, END},
     .compute = twice_f32,
     .since = 2,
     .until = 3},
    {.name = "Versioned",
     .inputs = {F32, END},
     .outputs = {F32, END},
     .compute = scale,
     .create = create_scale,
     .since = 4},
#endif
#if API >= 18
    {.name = "Memory", .inputs = {F32, END}, .outputs = {F32, END}, .compute = memory},
    {.name = "Square", .inputs = {F32, END}, .outputs = {F32, END}, .compute = square},
    {.name = "Resource", .inputs = {F32, END}, .outputs = {I64, END}, .compute = resource},
    {.name = "FirstOnly",
     .inputs = {F32, END},
     .outputs = {F32, END},
     .compute = first_only,
     .infer = infer_same,
     .aliases = 1},
#endif
#if API >= 24
    {.name = "Names",
     .inputs = {F32, END},
     .outputs = {I64, END},
     .compute = names,
     .create = create_names},
    {.name = "Reference", .inputs = {ANY, END}, .outputs = {ANY, END}, .compute = reference},
#endif
#if API >= 25
    {.name = "Words",
     .inputs = {I64, END},
     .outputs = {F32, END},
     .compute = look_up,
     .create = create_words},
#endif
};

__attribute__((visibility("default"))) OrtStatus *RegisterCustomOps(OrtSessionOptions *options,
                                                                    const OrtApiBase *base);

OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  return register_ops(options, base, ops, sizeof ops / sizeof *ops, DOMAIN_OF(API));
}
