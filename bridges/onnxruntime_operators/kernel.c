/* Creates and runs kernels; see kernel.h. Everything about a node is checked when its kernel is
 * created: attributes, numbers of tensors, dtypes. */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "common/ort_element.h"
#include "quantised.h"

enum { EXTENTS_MOST = 2048 }; /* of the inputs of a call, before 1.24 */

/* ---- tensors of the node ---- */

typedef OrtStatus *(*type_fn)(const OrtKernelInfo *info, size_t index, OrtTypeInfo **out);
typedef OrtStatus *(*name_fn)(const OrtKernelInfo *info, size_t index, char *out, size_t *size);

/* Whether the node has a tensor at this place: its name is not empty. */
static bool has_tensor(const OrtKernelInfo *info, name_fn get_name, size_t index) {
  size_t size = 0;
  return ort_succeeds(get_name(info, index, NULL, &size)) && size > 1;
}

static tenon_status_t fail_type(const operator_t *self, const char *argument, const char *found) {
  char text[500];
  snprintf(text, sizeof text,
           "%s: argument '%s': expected a tensor, found %s, which Tenon's operators do not take",
           self->name, argument, found);
  return host.tenon_error_set(TENON_UNIMPLEMENTED, text);
}

static tenon_status_t read_dtype(const operator_t *self, const char *argument, type_fn get_type,
                                 const OrtKernelInfo *info, size_t index, tenon_dtype_t *out) {
  OrtTypeInfo *type = NULL;
  const ort_shape_t *tensor = NULL;
  ort_element_t element = ORT_ELEMENT_UNDEFINED;
  if (!ort_succeeds(get_type(info, index, &type))) return fail_type(self, argument, "no type");
  if (!ort_succeeds(ort.CastTypeInfoToTensorInfo(type, &tensor))) tensor = NULL;
  if (tensor && !ort_succeeds(ort.GetTensorElementType(tensor, &element))) tensor = NULL;
  ort.ReleaseTypeInfo(type);
  if (!tensor) return fail_type(self, argument, "a sequence, a map or a sparse tensor");
  return element_dtype(element, out) ? TENON_OK : fail_type(self, argument, "another dtype");
}

/* Assigns the tensors of one side, and reads their dtypes. */
static tenon_status_t place_inputs(kernel_t *kernel, const OrtKernelInfo *info) {
  const operator_t *self = kernel->of;
  size_t index = 0;
  for (int32_t i = 0; i < self->input_count; i++) {
    const tenon_argument_t *of = &self->inputs[i];
    const bool is_list = of->kind == TENON_KIND_TENSORS;
    const int32_t count = kernel->counts[i];
    if (!count && !is_list) kernel->counts[i] = -1;
    for (int32_t k = 0; k < count; k++, index++) {
      if (!has_tensor(info, ort.KernelInfo_GetInputName, index)) {
        if (is_list) return fail_type(self, of->name, "an absent item");
        kernel->counts[i] = -1;
        continue;
      }
      port_t *place = &kernel->in[kernel->in_count++];
      *place = (port_t){.index = (uint16_t)index, .argument = (uint16_t)i};
      TENON_TRY(
          read_dtype(self, of->name, ort.KernelInfo_GetInputTypeInfo, info, index, &place->dtype));
    }
  }
  return TENON_OK;
}

static const char *output_name(const operator_t *self, int32_t o) {
  return o < self->output_count ? self->outputs[o].name : self->inputs[self->written[o]].name;
}

static tenon_status_t place_outputs(kernel_t *kernel, const OrtKernelInfo *info) {
  const operator_t *self = kernel->of;
  size_t index = 0;
  for (int32_t o = 0; o < self->side_count; o++) {
    const bool is_list = o < self->output_count && self->outputs[o].kind == TENON_KIND_TENSORS;
    const int32_t count = kernel->out_counts[o];
    if (!count && !is_list) kernel->out_counts[o] = -1;
    for (int32_t k = 0; k < count; k++, index++) {
      const bool is_wanted = has_tensor(info, ort.KernelInfo_GetOutputName, index);
      if (!is_wanted && !is_list) {
        kernel->out_counts[o] = -1;
        continue;
      }
      port_t *place = &kernel->out[kernel->out_count++];
      *place = (port_t){.index = (uint16_t)index, .argument = (uint16_t)o};
      if (!is_wanted) continue; /* an item without a dtype */
      TENON_TRY(read_dtype(self, output_name(self, o), ort.KernelInfo_GetOutputTypeInfo, info,
                           index, &place->dtype));
    }
  }
  return TENON_OK;
}

/* ---- dtypes ---- */

typedef struct metas_t {
  tenon_meta_t tensors[TENSORS_MOST];
  tenon_meta_t *places[TENSORS_MOST];
  tenon_meta_t lists[SIDE_MOST];
  tenon_meta_t *inputs[SIDE_MOST];
} metas_t;

static void make_metas(const kernel_t *kernel, metas_t *m) {
  int32_t t = 0;
  for (int32_t i = 0; i < kernel->of->input_count; i++) {
    const int32_t count = kernel->counts[i];
    const int32_t first = t;
    for (int32_t k = 0; k < count; k++, t++) {
      m->tensors[t] = (tenon_meta_t){
          .size = sizeof *m->tensors, .dtype = kernel->in[t].dtype, .device = {1, 0}};
      m->places[t] = &m->tensors[t];
    }
    m->lists[i] = (tenon_meta_t){.size = sizeof *m->lists,
                                 .dtype = tenon_dtype(TENON_LIST),
                                 .device = {1, 0},
                                 .count = count > 0 ? (uint32_t)count : 0,
                                 .items = &m->places[first]};
    m->inputs[i] = count < 0 ? NULL : m->places[first];
    if (kernel->of->inputs[i].kind == TENON_KIND_TENSORS) m->inputs[i] = &m->lists[i];
  }
}

static tenon_status_t check_result_dtype(const kernel_t *kernel, const port_t *place,
                                         tenon_dtype_t computed) {
  char text[500];
  if (!computed.bits || !place->dtype.bits ||
      tenon_dtype_id(computed) == tenon_dtype_id(place->dtype))
    return TENON_OK;
  snprintf(text, sizeof text, "%s: result '%s': the operator computes %s, and the model states %s",
           kernel->of->name, output_name(kernel->of, place->argument),
           host.tenon_dtype_name(computed), host.tenon_dtype_name(place->dtype));
  return host.tenon_error_set(TENON_INVALID, text);
}

static tenon_status_t check_dtypes(const kernel_t *kernel) {
  tenon_dtype_t results[SIDE_MOST] = {{0, 0, 0}};
  metas_t *m = calloc(1, sizeof *m);
  if (!m) return host.tenon_error_set(TENON_MEMORY, "out of memory: a kernel");
  make_metas(kernel, m);
  tenon_status_t status =
      host.tenon_types_infer(kernel->of->op, kernel->attr_values, m->inputs, results);
  for (int32_t t = 0; t < kernel->out_count && status == TENON_OK; t++) {
    const int32_t o = kernel->out[t].argument;
    const int32_t written = kernel->of->written[o];
    status = check_result_dtype(kernel, &kernel->out[t],
                                written >= 0 ? m->inputs[written]->dtype : results[o]);
  }
  free(m);
  return status;
}

/* ---- creation ---- */

/* Notes which calls can be kept, and what they want. */
static void classify(kernel_t *kernel) {
  const operator_t *self = kernel->of;
  bool is_plain = !self->is_random;
  for (int32_t t = 0; t < kernel->in_count; t++)
    if (tenon_dtype_id(kernel->in[t].dtype) == TENON_STRING) is_plain = false;
  for (int32_t t = 0; t < kernel->out_count; t++)
    if (tenon_dtype_id(kernel->out[t].dtype) == TENON_STRING) is_plain = false;
  for (int32_t o = 0; o < self->output_count; o++) {
    const tenon_argument_t *of = &self->outputs[o];
    const bool is_wanted = kernel->out_counts[o] >= 0 || !of->is_optional;
    if (of->mark) kernel->keeps = true;
    if (is_wanted) kernel->wanted |= (uint64_t)1 << o;
    if (of->kind == TENON_KIND_TENSORS || (is_wanted && kernel->out_counts[o] < 0))
      is_plain = false;
  }
  for (int32_t o = 0; o < self->side_count; o++)
    if (self->written[o] >= 0) is_plain = false;
  kernel->is_plain = is_plain && !kernel->keeps;
}

/* Binds the operator. Where tensors determine the device, the binding need not state it. */
static tenon_status_t bind_operator(kernel_t *kernel) {
  const tenon_device_t cpu = {1, 0};
  if (kernel->in_count)
    return host.tenon_bound_create(kernel->of->op, kernel->attr_values, &kernel->bound);
  return host.tenon_bound_create_on(cpu, kernel->of->op, kernel->attr_values, &kernel->bound);
}

static tenon_status_t count_node(kernel_t *kernel, const source_t *source, int32_t in_total,
                                 int32_t out_total) {
  size_t stated_count = 0;
  int64_t *stated =
      kernel->of->has_own_counts ? NULL : attribute_ints(source, COUNTS_ATTRIBUTE, &stated_count);
  const tenon_status_t status =
      operator_count_inputs(kernel->of, in_total, stated, (int32_t)stated_count, kernel->counts);
  free(stated);
  TENON_TRY(status);
  return operator_count_outputs(kernel->of, out_total, kernel->out_counts);
}

static tenon_status_t read_node(kernel_t *kernel, const OrtKernelInfo *info, int32_t in_total,
                                int32_t out_total) {
  const source_t source = {.info = info};
  int64_t seed;
  TENON_TRY(count_node(kernel, &source, in_total, out_total));
  TENON_TRY(place_inputs(kernel, info));
  TENON_TRY(place_outputs(kernel, info));
  TENON_TRY(attributes_read(kernel->of, &source, kernel->out_counts, &kernel->attrs,
                            &kernel->attr_values));
  TENON_TRY(check_dtypes(kernel));
  TENON_TRY(quantised_read(kernel, &source));
  if (kernel->of->is_random && !kernel->of->has_own_seed && attribute_int(&source, "seed", &seed))
    TENON_TRY(host.tenon_generator_create((uint64_t)seed, &kernel->generator));
  classify(kernel);
  return bind_operator(kernel);
}

static kernel_t *kernel_allocate(const operator_t *self, size_t in_total, size_t out_total) {
  kernel_t *kernel = calloc(1, sizeof *kernel + (in_total + out_total) * sizeof *kernel->places);
  if (!kernel) return NULL;
  kernel->of = self;
  kernel->in = kernel->places;
  kernel->out = kernel->places + in_total;
  (void)pthread_mutex_init(&kernel->lock, NULL);
  return kernel;
}

OrtStatus *custom_create(const OrtCustomOp *custom, const OrtApi *api, const OrtKernelInfo *info,
                         void **out_kernel) {
  const operator_t *self = ((const overload_t *)(const void *)custom)->of;
  size_t in_total = 0;
  size_t out_total = 0;
  (void)api;
  *out_kernel = NULL;
  ORT_TRY(ort.KernelInfo_GetInputCount(info, &in_total));
  ORT_TRY(ort.KernelInfo_GetOutputCount(info, &out_total));
  if (in_total > TENSORS_MOST || out_total > TENSORS_MOST)
    return ort_fail(ORT_NOT_IMPLEMENTED, "%s: the node has more than %d inputs or outputs",
                    self->name, TENSORS_MOST);
  kernel_t *kernel = kernel_allocate(self, in_total, out_total);
  if (!kernel) return ort_fail(ORT_FAIL, "%s: out of memory: a kernel", self->name);
  const tenon_status_t status = read_node(kernel, info, (int32_t)in_total, (int32_t)out_total);
  if (status != TENON_OK) {
    kernel_delete(kernel);
    return ort_fail_tenon(status);
  }
  *out_kernel = kernel;
  return NULL;
}

void kernel_delete(void *of) {
  kernel_t *kernel = of;
  if (!kernel) return;
  for (size_t i = 0; i < SITES_MOST; i++)
    free((void *)(uintptr_t)atomic_load_explicit(&kernel->sites[i], memory_order_relaxed));
  host.tenon_bound_release(kernel->bound);
  host.tenon_attrs_release(kernel->attrs);
  host.tenon_generator_release(kernel->generator);
  quantised_free(kernel);
  (void)pthread_mutex_destroy(&kernel->lock);
  free(kernel);
}

/* ---- running ---- */

/* Reads a shape by an object, as ONNX Runtime before 1.24 requires. */
static OrtStatus *read_shape(const OrtValue *value, int64_t *room, size_t left, given_t *out) {
  ort_shape_t *info = NULL;
  ORT_TRY(ort.GetTensorTypeAndShape(value, &info));
  OrtStatus *status = ort.GetDimensionsCount(info, &out->rank);
  if (!status && out->rank > left)
    status = ort_fail(ORT_NOT_IMPLEMENTED, "the inputs of a call have more than %d axes in all",
                      EXTENTS_MOST);
  if (!status) status = ort.GetDimensions(info, room, out->rank);
  ort.ReleaseTensorTypeAndShapeInfo(info);
  out->shape = room;
  return status;
}

static OrtStatus *read_given(const kernel_t *kernel, OrtKernelContext *context, given_t *given,
                             int64_t *room) {
  size_t used = 0;
  for (int32_t t = 0; t < kernel->in_count; t++) {
    given_t *g = &given[t];
    ort_element_t element;
    ORT_TRY(ort.KernelContext_GetInput(context, kernel->in[t].index, &g->value));
    if (!g->value)
      return ort_fail(ORT_INVALID_ARGUMENT, "%s: argument '%s' has no value", kernel->of->name,
                      kernel->of->inputs[kernel->in[t].argument].name);
    if (ort.GetTensorElementTypeAndShapeDataReference) {
      ORT_TRY(
          ort.GetTensorElementTypeAndShapeDataReference(g->value, &element, &g->shape, &g->rank));
    } else {
      ORT_TRY(read_shape(g->value, room + used, EXTENTS_MOST - used, g));
      used += g->rank;
    }
    g->data = NULL;
    if (tenon_dtype_id(kernel->in[t].dtype) != TENON_STRING)
      ORT_TRY(ort.GetTensorMutableData((OrtValue *)(uintptr_t)g->value, &g->data));
  }
  return NULL;
}

static OrtStatus *run_given(kernel_t *kernel, OrtKernelContext *context, const given_t *given) {
  bool is_done = false;
  OrtStatus *status = kernel->is_plain ? site_run(kernel, context, given, &is_done) : NULL;
  return is_done || status ? status : call_run(kernel, context, given);
}

static __attribute__((noinline)) OrtStatus *run_with_room(kernel_t *kernel,
                                                          OrtKernelContext *context) {
  given_t given[TENSORS_MOST];
  int64_t room[EXTENTS_MOST];
  ORT_TRY(read_given(kernel, context, given, room));
  return run_given(kernel, context, given);
}

OrtStatus *kernel_compute(void *of, OrtKernelContext *context) {
  kernel_t *kernel = of;
  given_t given[SIDE_MOST];
  if (!ort.GetTensorElementTypeAndShapeDataReference || kernel->in_count > SIDE_MOST)
    return run_with_room(kernel, context);
  ORT_TRY(read_given(kernel, context, given, NULL));
  return run_given(kernel, context, given);
}

void kernel_arrange(const kernel_t *kernel, tenon_tensor_t **tensors, lists_t *lists,
                    tenon_tensor_t **inputs) {
  const operator_t *self = kernel->of;
  int32_t t = 0;
  int32_t list = 0;
  for (int32_t i = 0; i < self->input_count; i++) {
    const int32_t count = kernel->counts[i];
    inputs[i] = count < 0 ? NULL : tensors[t];
    if (self->inputs[i].kind == TENON_KIND_TENSORS) {
      lists->counts[list] = count;
      lists->strides[list] = 1;
      lists->views[list] = (tenon_tensor_t){.data = (void *)&tensors[t],
                                            .device = {1, 0},
                                            .ndim = 1,
                                            .dtype = tenon_dtype(TENON_LIST),
                                            .shape = &lists->counts[list],
                                            .strides = &lists->strides[list]};
      inputs[i] = &lists->views[list++];
    }
    if (count > 0) t += count;
  }
}
