/* Registers kernels of Tenon's operators for devices of other libraries, and runs them; see
 * place.h. */
#include "place.h"

#include <pthread.h>
#include <string.h>

#include "dtype.h"
#include "kernel.h"

enum { PLACES_MOST = 8 };

/* An operator that TensorFlow has, with the function that creates its kernels. */
typedef struct placed_t {
  const operator_t *self;
  tf_create_fn create;
} placed_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const device_type_t *places[PLACES_MOST];
static int32_t place_count;
static placed_t placed[OPERATORS_MOST];
static int32_t placed_count;

/* ---- calls ----------------------------------------------------------------------------------- */

typedef struct placed_call_t {
  const kernel_t *kernel;
  tf_context_t *context;
  const device_type_t *place;
  frame_t *frame;
  tenon_tensor_t *tensors[OPERATOR_TENSORS_MOST];
  tenon_value_t values[2 * OPERATOR_MOST];
} placed_call_t;

/* Reads the tensors of one argument, which begin with input `first` of the node. */
static tenon_status_t read_argument(placed_call_t *c, uint32_t i, uint32_t first) {
  const side_t *side = &c->kernel->self->inputs[i];
  const int32_t count = c->kernel->counts[i];
  tenon_value_t *value = &c->values[i];
  tenon_status_t status = TENON_OK;
  *value = (tenon_value_t){.kind = TENON_KIND_NONE};
  if (count < 0) return TENON_OK;
  for (uint32_t k = first; k < first + (uint32_t)count && status == TENON_OK; k++)
    status = c->place->read(c->frame, (int)k, side->of.is_host, &c->tensors[k]);
  value->kind = side->of.kind;
  value->count = (uint32_t)count;
  if (value->kind == TENON_KIND_TENSORS)
    value->as.tensors = c->tensors + first;
  else
    value->as.tensor = c->tensors[first];
  return status;
}

static tenon_status_t read_placed_arguments(placed_call_t *c) {
  const operator_t *self = c->kernel->self;
  tenon_status_t status = TENON_OK;
  uint32_t first = 0;
  for (uint32_t i = 0; i < self->input_count && status == TENON_OK; i++) {
    status = read_argument(c, i, first);
    if (c->kernel->counts[i] > 0) first += (uint32_t)c->kernel->counts[i];
  }
  if (self->attr_count)
    memcpy(c->values + self->input_count, c->kernel->attr_values,
           self->attr_count * sizeof *c->kernel->attr_values);
  return status;
}

/* Sets the outputs. Takes over the results, also after an error. */
static tenon_status_t write_results(placed_call_t *c, tenon_tensor_t **results) {
  const operator_t *self = c->kernel->self;
  tenon_status_t status = TENON_OK;
  int output = 0;
  for (uint32_t o = 0; o < self->output_count; o++) {
    if (c->kernel->output_counts[o] && status == TENON_OK && !results[o])
      status = tenon_error_set(TENON_INTERNAL, "a result of an operator is missing");
    else if (c->kernel->output_counts[o] && status == TENON_OK)
      status = c->place->write(c->frame, output++, results[o]);
    else
      tenon_tensor_release(results[o]);
  }
  return status;
}

static tenon_status_t run_placed(frame_t *frame, void *argument) {
  placed_call_t *c = argument;
  const operator_t *self = c->kernel->self;
  tenon_tensor_t *results[OPERATOR_MOST] = {NULL};
  c->frame = frame;
  if ((uint32_t)tf.TF_NumInputs(c->context) != c->kernel->tensor_count)
    return tenon_error_set(TENON_INVALID, "the node has other inputs than its attributes state");
  tenon_status_t status = read_placed_arguments(c);
  if (status == TENON_OK)
    status = tenon_op_call_values(self->op, c->values, self->input_count + self->attr_count,
                                  results, c->kernel->wanted);
  return status == TENON_OK ? write_results(c, results) : status;
}

/* All places are of one library, whose functions find the device by the context. */
static void compute_placed(void *kernel, tf_context_t *context) {
  placed_call_t call;
  if (!kernel) return;
  call.kernel = kernel;
  call.context = context;
  call.place = places[0];
  call.place->run(context, call.kernel->self->index, call.kernel->self->own, run_placed, &call);
}

/* ---- registration ---------------------------------------------------------------------------- */

/* Can a device run this operator? The others have lists as results, write to their inputs, or draw
 * random numbers. */
static bool can_place(const operator_t *self) {
  bool is_good = !self->written && !self->is_random && !self->is_stateful;
  for (uint32_t o = 0; o < self->output_count; o++)
    if (self->outputs[o].of.kind == TENON_KIND_TENSORS) is_good = false;
  return is_good;
}

/* Returns the attribute with the dtype that decides, or NULL: the dtypes are fixed. */
static const side_t *find_main(const operator_t *self) {
  for (uint32_t i = 0; i < self->input_count; i++)
    if (*self->inputs[i].type && !self->inputs[i].is_types && !self->inputs[i].of.is_host)
      return &self->inputs[i];
  return NULL;
}

static void register_placed(const device_type_t *place, const placed_t *op, const char *attribute,
                            int dtype, tf_status_t *status) {
  const operator_t *self = op->self;
  tf_kernel_builder_t *builder =
      tf.TF_NewKernelBuilder(self->own, place->type, op->create, compute_placed, kernel_delete);
  if (attribute) tf.TF_KernelBuilder_TypeConstraint(builder, attribute, dtype, status);
  for (uint32_t i = 0; i < self->input_count; i++)
    if (self->inputs[i].of.is_host) tf.TF_KernelBuilder_HostMemory(builder, self->inputs[i].name);
  for (uint32_t o = 0; o < self->output_count; o++)
    if (self->outputs[o].of.is_host) tf.TF_KernelBuilder_HostMemory(builder, self->outputs[o].name);
  tf.TF_RegisterKernelBuilder(self->own, builder, status);
}

static void place_operator(const device_type_t *place, const placed_t *op) {
  const operator_t *self = op->self;
  const side_t *main = can_place(self) ? find_main(self) : NULL;
  tf_status_t *status = tf.TF_NewStatus();
  tenon_dtype_t dtype;
  for (int code = TF_FLOAT; main && code <= TF_UINT64; code++)
    if (code != TF_STRING && tf_dtype_from(code, &dtype) &&
        place->serves(place->state, self->op, tenon_dtype_name(dtype)))
      register_placed(place, op, main->type, code, status);
  const bool is_fixed = can_place(self) && !main && self->input_count > 0;
  if (is_fixed && tf_dtype_from(self->inputs[0].dtype, &dtype) &&
      place->serves(place->state, self->op, tenon_dtype_name(dtype)))
    register_placed(place, op, NULL, 0, status);
  tf.TF_DeleteStatus(status); /* An operator that TensorFlow refuses here has its CPU kernel. */
}

void place_operator_everywhere(const operator_t *self, tf_create_fn create) {
  pthread_mutex_lock(&lock);
  placed_t *op = &placed[placed_count++];
  *op = (placed_t){self, create};
  for (int32_t i = 0; i < place_count; i++)
    place_operator(places[i], op);
  pthread_mutex_unlock(&lock);
}

tenon_status_t tenon_tensorflow_place(const device_type_t *place) {
  char error[600];
  if (!tf_open(error, sizeof error)) return tenon_error_set(TENON_UNAVAILABLE, error);
  pthread_mutex_lock(&lock);
  const bool has_room = place_count < PLACES_MOST;
  if (has_room) places[place_count++] = place;
  for (int32_t k = 0; has_room && k < placed_count; k++)
    place_operator(place, &placed[k]);
  pthread_mutex_unlock(&lock);
  return has_room ? TENON_OK
                  : tenon_error_set(TENON_MEMORY, "at most 8 device types can run operators");
}
