/* The functions of OrtCustomOp, by which ONNX Runtime asks for the schema of an operator. */
#include "operator.h"

static const overload_t *overload_of(const OrtCustomOp *custom) {
  return (const overload_t *)(const void *)custom;
}

static const char *get_name(const OrtCustomOp *custom) { return overload_of(custom)->of->type; }

static const char *get_provider(const OrtCustomOp *custom) {
  (void)custom;
  return "CPUExecutionProvider";
}

static ort_element_t get_input_type(const OrtCustomOp *custom, size_t index) {
  return (ort_element_t)overload_of(custom)->inputs[index];
}

static size_t get_input_count(const OrtCustomOp *custom) {
  return (size_t)overload_of(custom)->of->in.count;
}

static ort_element_t get_output_type(const OrtCustomOp *custom, size_t index) {
  return (ort_element_t)overload_of(custom)->outputs[index];
}

static size_t get_output_count(const OrtCustomOp *custom) {
  return (size_t)overload_of(custom)->of->out.count;
}

static ort_characteristic_t get_input_characteristic(const OrtCustomOp *custom, size_t index) {
  const operator_t *self = overload_of(custom)->of;
  if ((int32_t)index == self->in.list) return ORT_VARIADIC;
  return self->inputs[index].is_optional ? ORT_OPTIONAL : ORT_REQUIRED;
}

static ort_characteristic_t get_output_characteristic(const OrtCustomOp *custom, size_t index) {
  const operator_t *self = overload_of(custom)->of;
  if ((int32_t)index == self->out.list) return ORT_VARIADIC;
  if ((int32_t)index >= self->output_count) return ORT_REQUIRED;
  return self->outputs[index].is_optional ? ORT_OPTIONAL : ORT_REQUIRED;
}

static int get_memory_type(const OrtCustomOp *custom, size_t index) {
  (void)custom;
  (void)index;
  return 0; /* host memory */
}

static int get_input_least(const OrtCustomOp *custom) { return overload_of(custom)->of->in.least; }

static int get_input_homogeneity(const OrtCustomOp *custom) {
  return overload_of(custom)->of->in.is_homogeneous;
}

static int get_output_least(const OrtCustomOp *custom) {
  return overload_of(custom)->of->out.least;
}

static int get_output_homogeneity(const OrtCustomOp *custom) {
  return overload_of(custom)->of->out.is_homogeneous;
}

static int get_start(const OrtCustomOp *custom) { return overload_of(custom)->of->version; }

static int get_end(const OrtCustomOp *custom) {
  (void)custom;
  return ORT_OP_UNBOUNDED;
}

/* Before 1.24, ONNX Runtime crashes when it describes an absent input to the function. */
static bool can_infer(const operator_t *self) {
  for (int32_t i = 0; i < self->in.count; i++)
    if (self->inputs[i].is_optional && ort.version < ORT_VERSION_REFERENCE) return false;
  return true;
}

void custom_set(overload_t *overload) {
  OrtCustomOp *custom = &overload->custom;
  custom->version = ORT_VERSION_OLDEST;
  custom->GetName = get_name;
  custom->GetExecutionProviderType = get_provider;
  custom->GetInputType = get_input_type;
  custom->GetInputTypeCount = get_input_count;
  custom->GetOutputType = get_output_type;
  custom->GetOutputTypeCount = get_output_count;
  custom->GetInputCharacteristic = get_input_characteristic;
  custom->GetOutputCharacteristic = get_output_characteristic;
  custom->GetInputMemoryType = get_memory_type;
  custom->GetVariadicInputMinArity = get_input_least;
  custom->GetVariadicInputHomogeneity = get_input_homogeneity;
  custom->GetVariadicOutputMinArity = get_output_least;
  custom->GetVariadicOutputHomogeneity = get_output_homogeneity;
  custom->CreateKernelV2 = custom_create;
  custom->KernelComputeV2 = kernel_compute;
  custom->KernelDestroy = kernel_delete;
  custom->InferOutputShapeFn = can_infer(overload->of) ? custom_infer : NULL;
  custom->GetStartVersion = get_start;
  custom->GetEndVersion = get_end;
  inplace_set(overload->of, custom);
}
