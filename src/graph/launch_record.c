/* Records the launch of a source kernel, see launch_record.h. The kernel's host function gets a
 * call of one element, whose services refuse everything but a launch, and whose memory does not
 * exist: the handles of tensors only tell them apart. */
#include "graph/launch_record.h"

#include <string.h>

#include "base/status.h"
#include "dispatch/services.h"
#include "storage/device_memory.h"

enum {
  OPERANDS = 16,
  VALUE_BYTES = 1024, /* of one argument that is passed by value */
  ARGUMENTS = TN_SOURCE_PARAMETERS,
};

typedef struct recording_t {
  tn_frame_t frame; /* first, so that services find the recording */
  tn_arena_t *memory;
  const tn_record_operand_t *operands;
  uint32_t operand_count;
  int32_t launches;
  const char *reason;
  tn_fused_member_t member;
  tn_fused_argument_t arguments[ARGUMENTS];
} recording_t;

/* Handles are the addresses of these bytes, which nobody reads. */
static char handles[OPERANDS][16];

static int32_t operand_of_handle(const recording_t *r, const tenon_kernel_argument_t *a) {
  for (uint32_t k = 0; k < r->operand_count; k++)
    if (a->as.memory.handle == handles[k] && !a->as.memory.offset) return (int32_t)k;
  return -1;
}

static const char *keep_argument(recording_t *r, const tenon_kernel_argument_t *a,
                                 tn_fused_argument_t *out) {
  *out = (tn_fused_argument_t){.value = -1};
  if (a->kind == TENON_ARG_MEMORY) {
    out->value = operand_of_handle(r, a);
    return out->value < 0 ? "passes memory that is no operand to its kernel" : NULL;
  }
  if (a->kind != TENON_ARG_BYTES) return "has a kernel with memory of a group";
  if (!a->size || a->size > VALUE_BYTES) return "passes more than 1024 bytes by value";
  void *bytes = tn_arena_allocate(r->memory, (size_t)a->size);
  if (!bytes) return "has no memory for its arguments";
  out->bytes = memcpy(bytes, a->as.data, (size_t)a->size);
  out->size = (uint32_t)a->size;
  return NULL;
}

static const char *keep_launch(recording_t *r, const tenon_grid_t *grid) {
  const bool is_one = grid->items
                          ? grid->items == 1
                          : grid->groups[0] == 1 && grid->groups[1] == 1 && grid->groups[2] == 1;
  if (r->launches++) return "launches more than one kernel";
  if (!is_one) return "launches more than one group for one element";
  if (grid->argument_count > ARGUMENTS || grid->kernel >= grid->code->kernel_count)
    return "has a launch that is not valid";
  r->member = (tn_fused_member_t){
      .code = grid->code, .kernel = grid->kernel, .argument_count = grid->argument_count};
  for (uint32_t i = 0; i < grid->argument_count; i++) {
    const char *reason = keep_argument(r, &grid->arguments[i], &r->arguments[i]);
    if (reason) return reason;
  }
  if (!grid->constants) return NULL;
  r->member.constants = tn_arena_text(r->memory, grid->constants, strlen(grid->constants));
  return r->member.constants ? NULL : "has no memory for its constants";
}

/* Services */

static tenon_status_t record_launch(tenon_call_t *call, const tenon_grid_t *grid) {
  recording_t *r = (recording_t *)call;
  const char *reason = keep_launch(r, grid);
  if (!r->reason) r->reason = reason;
  return r->reason ? TENON_UNIMPLEMENTED : TENON_OK;
}

static void refuse_service(tenon_call_t *call) {
  recording_t *r = (recording_t *)call;
  if (!r->reason) r->reason = "needs other services than launches";
}

static void *refuse_allocate(tenon_call_t *call, uint64_t size) {
  (void)size;
  refuse_service(call);
  return NULL;
}

static tenon_tensor_t *refuse_temporary(tenon_call_t *call, tenon_dtype_t dtype, int32_t ndim,
                                        const int64_t *shape) {
  (void)dtype;
  (void)ndim;
  (void)shape;
  refuse_service(call);
  return NULL;
}

static tenon_status_t refuse_resize(tenon_call_t *call, uint32_t output, int32_t ndim,
                                    const int64_t *shape) {
  (void)output;
  (void)ndim;
  (void)shape;
  refuse_service(call);
  return TENON_UNIMPLEMENTED;
}

static tenon_status_t refuse_assign(tenon_call_t *call, uint32_t output, tenon_tensor_t *tensor) {
  (void)output;
  (void)tensor;
  refuse_service(call);
  return TENON_UNIMPLEMENTED;
}

static tenon_status_t refuse_invoke(tenon_call_t *call, const tenon_op_t *op,
                                    const tenon_value_t *attrs, tenon_tensor_t *const *inputs,
                                    tenon_tensor_t **outputs) {
  (void)op;
  (void)attrs;
  (void)inputs;
  (void)outputs;
  refuse_service(call);
  return TENON_UNIMPLEMENTED;
}

static void *no_native(const void *context, const char *name) {
  (void)context;
  (void)name;
  return NULL;
}

/* The host as a library of this contract sees it, without what the recording refuses. */
static tenon_host_t services_of_recording(void) {
  tenon_host_t host = {.size = sizeof host, .abi = tn_host.abi, .fail = tn_host.fail};
  host.allocate = refuse_allocate;
  host.temporary = refuse_temporary;
  host.resize = refuse_resize;
  host.assign = refuse_assign;
  host.invoke = refuse_invoke;
  host.zone = tn_host.zone;
  host.native = no_native;
  host.launch = record_launch;
  return host;
}

/* The call */

/* Whether the launch has each result that the call makes. */
static bool has_results(const recording_t *r, uint32_t inputs) {
  for (uint32_t k = inputs; k < r->operand_count; k++) {
    bool is_found = r->operands[k].ndim < 0;
    for (uint32_t i = 0; i < r->member.argument_count; i++)
      is_found |= r->arguments[i].value == (int32_t)k;
    if (!is_found) return false;
  }
  return true;
}

static void fill_tensor(tenon_tensor_t *t, uint32_t k, const tn_record_operand_t *operand,
                        tenon_device_t device, int64_t *ones) {
  *t = (tenon_tensor_t){.data = handles[k],
                        .ndim = operand->ndim,
                        .dtype = operand->dtype,
                        .shape = ones,
                        .strides = ones};
  tn_tensor_set_device(t, device);
}

static const char *run_recorded(recording_t *r, const tn_kernel_t *kernel) {
  const tenon_status_t status = kernel->run(&r->frame.call);
  if (status == TENON_OK && !r->launches) r->reason = "launches no kernel";
  if (status != TENON_OK && !r->reason) return "is declined by its source kernel";
  return r->reason;
}

const char *tn_launch_record(const tn_step_t *step, const tn_kernel_t *kernel,
                             tn_ordinal_t *ordinal, tenon_device_t device,
                             const tn_record_operand_t *operands, tn_arena_t *memory,
                             tn_fused_member_t *out_member) {
  const tenon_op_t *op = step->node->op;
  const tenon_host_t host = services_of_recording();
  const uint32_t count = op->input_count + op->output_count;
  recording_t r = {.memory = memory, .operands = operands, .operand_count = count};
  int64_t ones[TENON_RANK_MAX];
  tenon_tensor_t tensors[OPERANDS];
  tenon_tensor_t *list[OPERANDS];
  if (count > OPERANDS) return "has more than 16 operands";
  for (int i = 0; i < TENON_RANK_MAX; i++)
    ones[i] = 1;
  for (uint32_t k = 0; k < count; k++) {
    list[k] = operands[k].ndim < 0 ? NULL : &tensors[k];
    if (list[k]) fill_tensor(list[k], k, &operands[k], device, ones);
  }
  r.frame.kernel = kernel;
  r.frame.call = (tenon_call_t){.size = sizeof r.frame.call,
                                .phase = TENON_PHASE_RUN,
                                .host = &host,
                                .op = op,
                                .attrs = step->node->attrs,
                                .context = kernel->context,
                                .state = step->state,
                                .inputs = list,
                                .outputs = list + op->input_count,
                                .uses = op->uses,
                                .device = &ordinal->context};
  const char *reason = run_recorded(&r, kernel);
  if (!reason && !has_results(&r, op->input_count)) reason = "launches a kernel without its result";
  if (reason) return reason;
  tn_fused_argument_t *arguments =
      tn_arena_array(memory, r.member.argument_count + 1, sizeof *arguments);
  if (!arguments) return "has no memory for its arguments";
  memcpy(arguments, r.arguments, r.member.argument_count * sizeof *arguments);
  r.member.arguments = arguments;
  *out_member = r.member;
  return NULL;
}
