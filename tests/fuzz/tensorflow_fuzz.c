/* Feeds nodes to the kernels of bridges/tensorflow: operators, gradients by Tenon's tape and graphs
 * in files. The input chooses the operator, the values of its attributes, the inputs, and the
 * dtypes that the node expects; see tensorflow_framework.h. Each kernel runs twice, since a second
 * call with equal shapes takes another path. */
#define TENON_STATIC
#include "tensorflow_framework.h"

#include <tenon/tenon.h>

#include "tensorflow/gradient.h"
#include "tensorflow/graph.h"

static void wrong(const char *what) {
  fprintf(stderr, "wrong: %s; last message: %s\n", what, tenon_error());
  abort();
}

tf_api_t tf;

bool tf_open(char *out_error, size_t capacity) { return out_error && capacity; }
void *tf_find(const char *symbol) { return symbol ? NULL : &tf; }

/* ---- the bridge's own operators, whose functions it registers ---- */

static char place; /* what builders point to */
static tf_create_fn registered;

static tf_op_builder_t *new_op_builder(const char *name) {
  (void)name;
  return (tf_op_builder_t *)(void *)&place;
}
static void add_to_builder(tf_op_builder_t *builder, const char *spec) {
  (void)builder;
  (void)spec;
}
static void set_shape_function(tf_op_builder_t *builder, tf_shape_fn shape) {
  (void)builder;
  (void)shape;
}
static void register_op(tf_op_builder_t *builder, tf_status_t *status) {
  (void)builder;
  set_status(status, TF_OK, "");
}
static tf_kernel_builder_t *new_kernel_builder(const char *op, const char *device,
                                               tf_create_fn create, tf_compute_fn compute,
                                               tf_delete_fn delete) {
  (void)op;
  (void)device;
  (void)compute;
  (void)delete;
  registered = create;
  return (tf_kernel_builder_t *)(void *)&place;
}
static void register_kernel_of_op(const char *name, tf_kernel_builder_t *builder,
                                  tf_status_t *status) {
  (void)name;
  (void)builder;
  set_status(status, TF_OK, "");
}

static const tf_api_t api = {
    .TF_NewStatus = new_status,
    .TF_DeleteStatus = delete_status_of_test,
    .TF_SetStatus = set_status,
    .TF_GetCode = get_code,
    .TF_Message = get_message,
    .TF_DeleteTensor = delete_tensor,
    .TF_TensorType = type_of_tensor,
    .TF_NumDims = rank_of_tensor,
    .TF_Dim = extent_of_tensor,
    .TF_TensorByteSize = bytes_of_tensor,
    .TF_TensorData = data_of_tensor,
    .TF_NewTensor = new_tensor,
    .TF_AllocateTensor = allocate_tensor,
    .TF_TensorBitcastFrom = share_memory,
    .TF_NewOpDefinitionBuilder = new_op_builder,
    .TF_OpDefinitionBuilderAddAttr = add_to_builder,
    .TF_OpDefinitionBuilderAddInput = add_to_builder,
    .TF_OpDefinitionBuilderAddOutput = add_to_builder,
    .TF_OpDefinitionBuilderSetShapeInferenceFunction = set_shape_function,
    .TF_RegisterOpDefinition = register_op,
    .TF_NewKernelBuilder = new_kernel_builder,
    .TF_RegisterKernelBuilder = register_kernel_of_op,
    .TF_OpKernelConstruction_Failure = fail_construction,
    .TF_OpKernelConstruction_GetAttrSize = get_size_of_attribute,
    .TF_OpKernelConstruction_GetAttrType = get_type,
    .TF_OpKernelConstruction_GetAttrInt64 = get_int,
    .TF_OpKernelConstruction_GetAttrInt64List = get_ints,
    .TF_OpKernelConstruction_GetAttrBool = get_bool,
    .TF_OpKernelConstruction_GetAttrString = get_string,
    .TF_OpKernelConstruction_GetAttrStringList = get_strings,
    .TF_OpKernelContext_Failure = fail_call,
    .TF_NumInputs = count_inputs,
    .TF_NumOutputs = count_outputs,
    .TF_GetInput = get_input,
    .TF_ExpectedOutputDataType = get_expected_dtype,
    .TF_SetOutput = set_output_of_node,
    .TF_AllocateOutput = allocate_output_of_node,
    .TF_ForwardInputOrAllocateOutput = forward_or_allocate,
};

static tf_create_fn create_gradient;
static tf_create_fn create_graph;

/* ---- operators, described once ---- */

enum { DESCRIBED_MOST = 1024 };

static const operator_t *operators[DESCRIBED_MOST];
static uint32_t operator_count;

static void begin(void) {
  const tenon_op_t *const *ops = NULL;
  int32_t count = 0;
  char why[300];
  tf = api;
  if (!gradient_define(why, sizeof why)) wrong(why);
  create_gradient = registered;
  if (!graph_define(why, sizeof why)) wrong(why);
  create_graph = registered;
  if (tenon_ops_list(&ops, &count) != TENON_OK) wrong("operators cannot be listed");
  for (int32_t i = 0; i < count && operator_count < DESCRIBED_MOST; i++) {
    const operator_t *self = operator_describe(ops[i], why, sizeof why);
    if (self) operators[operator_count++] = self;
  }
  tenon_ops_release(ops);
}

/* ---- nodes ---- */

/* Reads the name of an operator, which begins with its length. Other names stand for any one. */
static const operator_t *choose_operator(stream_t *stream) {
  const size_t left = (size_t)(stream->end - stream->at);
  size_t size = take_byte(stream);
  const char *name = (const char *)stream->at;
  uint32_t sum = 0;
  if (size >= left) size = left ? left - 1 : 0;
  stream->at += size;
  for (uint32_t i = 0; i < operator_count; i++)
    if (strlen(operators[i]->name) == size && memcmp(operators[i]->name, name, size) == 0)
      return operators[i];
  for (size_t i = 0; i < size; i++)
    sum = 31 * sum + (uint8_t)name[i];
  return operators[sum % operator_count];
}

static void *create_kernel(stream_t *stream, uint8_t kind, tf_construction_t *construction) {
  if (kind == 'g') return create_gradient(construction);
  if (kind != 'm') return kernel_create(choose_operator(stream), construction);
  /* Paths lead to the test models. */
  named_value_t *path = find_value(construction, "path");
  char *text = malloc(sizeof MODELS + 1 + path->text_size);
  if (!text || memchr(path->text, '/', path->text_size)) {
    free(text);
    return NULL;
  }
  memcpy(text, MODELS "/", sizeof MODELS);
  if (path->text_size) memcpy(text + sizeof MODELS, path->text, path->text_size);
  free(path->text);
  path->text = text;
  path->text_size += sizeof MODELS;
  return create_graph(construction);
}

static void make_inputs(stream_t *stream, tf_context_t *context) {
  static const uint8_t dtypes[] = {TF_FLOAT, TF_INT64,  TF_INT32,  TF_BOOL,
                                   TF_HALF,  TF_DOUBLE, TF_STRING, TF_QUINT8};
  context->input_count = take_byte(stream) % (NODE_INPUTS_MOST + 1);
  context->output_count = 1 + (take_byte(stream) & 3);
  for (int i = 0; i < context->input_count; i++) {
    const uint8_t what = take_byte(stream);
    const uint8_t shape = take_byte(stream);
    const int64_t dims[TENSOR_RANK_MOST] = {shape & 3, shape >> 2 & 3, shape >> 4 & 3, shape >> 6};
    const int rank = (what >> 3) % (TENSOR_RANK_MOST + 1);
    context->inputs[i] = allocate_tensor(dtypes[what & 7], dims, rank, 0);
    if (context->inputs[i] && dtypes[what & 7] != TF_STRING && context->inputs[i]->memory->size)
      ((uint8_t *)context->inputs[i]->memory->data)[0] = what >> 6;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  stream_t stream = {data, data + size};
  tf_context_t context = {.stream = &stream};
  if (!operator_count) begin();
  tf_construction_t *construction = calloc(1, sizeof *construction);
  if (!construction) return 0;
  construction->stream = &stream;
  const uint8_t kind = take_byte(&stream);
  void *kernel = create_kernel(&stream, kind, construction);
  if (!kernel != construction->has_failed && kind != 'm')
    wrong("a kernel exists exactly if its construction has not failed");
  if (kernel) {
    make_inputs(&stream, &context);
    for (int i = 0; i < 2; i++)
      kernel_compute(kernel, &context);
    kernel_delete(kernel);
  }
  for (int i = 0; i < context.input_count; i++)
    delete_tensor(context.inputs[i]);
  for (int i = 0; i < construction->value_count; i++)
    free(construction->values[i].text);
  free(construction);
  return 0;
}
