/* Passes tensors and attributes to a function. A tensor is passed as it is, because it begins with
 * a DLTensor. Functions that take Tensor objects or lists need objects, which are made for the
 * call: a function may return them, but must not keep them. */
#include "call.h"

#include <string.h>
#include <tenon/device.h>

#include "object.h"
#include "objects.h"
#include "result.h"

static bool pass_text(ffi_any_t *out, const tenon_value_t *value) {
  *out = (ffi_any_t){.kind = FFI_TEXT, .as.text = value->as.s};
  return strlen(value->as.s) == value->count;
}

/* Sets an argument from an attribute that is not a list. */
static inline bool pass_attr(ffi_any_t *out, const tenon_value_t *value) {
  switch (value->kind) {
  case TENON_KIND_BOOL:
    *out = (ffi_any_t){.kind = FFI_BOOL, .as.integer = value->as.i};
    return true;
  case TENON_KIND_INT:
    *out = (ffi_any_t){.kind = FFI_INT, .as.integer = value->as.i};
    return true;
  case TENON_KIND_DIM:
    *out = (ffi_any_t){.kind = FFI_INT, .as.integer = value->as.dim.value};
    return true;
  case TENON_KIND_FLOAT:
    *out = (ffi_any_t){.kind = FFI_FLOAT, .as.number = value->as.f};
    return true;
  case TENON_KIND_STR:
    return pass_text(out, value);
  case TENON_KIND_DTYPE:
    *out = (ffi_any_t){.kind = FFI_DTYPE, .as.dtype = value->as.dtype};
    return true;
  case TENON_KIND_DEVICE:
    *out = (ffi_any_t){.kind = FFI_DEVICE, .as.device = value->as.device};
    return true;
  default:
    *out = (ffi_any_t){.kind = FFI_NONE};
    return true;
  }
}

static inline void pass_tensor(ffi_any_t *out, tenon_tensor_t *tensor) {
  *out = (ffi_any_t){.kind = tensor ? FFI_TENSOR_VIEW : FFI_NONE, .as.pointer = tensor};
}

static tenon_status_t refuse_text(const function_t *f, tenon_call_t *call) {
  return tenon_fail(call, TENON_INVALID,
                    "%s: a string with a zero byte cannot be passed to a function of tvm-ffi",
                    f->name);
}

/* Runs the function, on the stream of the call. */
static int run_on_stream(const function_t *f, tenon_call_t *call, const ffi_any_t *arguments,
                         ffi_any_t *result) {
  const runtime_t *runtime = &f->module->runtime;
  void *before = NULL;
  if (!call->device || !runtime->set_stream)
    return f->call(NULL, arguments, f->argument_count, result);
  const tenon_device_t device = call->device->device;
  if (runtime->set_stream(device.type, device.id, call->stream, &before) != 0) return -1;
  int code = f->call(NULL, arguments, f->argument_count, result);
  (void)runtime->set_stream(device.type, device.id, before, NULL);
  return code;
}

static tenon_status_t call_with_objects(const function_t *f, tenon_call_t *call,
                                        ffi_any_t *arguments) {
  objects_t objects = {.count = 0};
  ffi_any_t result = {0};
  tenon_status_t status = TENON_OK;
  for (int32_t i = 0; i < f->argument_count && status == TENON_OK; i++) {
    const argument_t *argument = &f->arguments[i];
    const tenon_value_t *value = argument->pass == PASS_ATTR ? &call->attrs[argument->index] : NULL;
    if (objects_take(&objects, call, argument, &arguments[i]))
      continue;
    else if (argument->pass == PASS_INPUT)
      pass_tensor(&arguments[i], call->inputs[argument->index]);
    else if (argument->pass == PASS_OUTPUT)
      pass_tensor(&arguments[i], call->outputs[argument->index]);
    else if (value && !pass_attr(&arguments[i], value))
      status = refuse_text(f, call);
  }
  if (objects.failed) status = tenon_fail(call, TENON_MEMORY, "%s: out of memory", f->name);
  if (status == TENON_OK && run_on_stream(f, call, arguments, &result) != 0)
    status = result_error(f, call);
  if (status == TENON_OK) status = result_take(f, call, &result);
  ffi_any_release(&result);
  if (!objects_release(&objects) && status == TENON_OK)
    status = tenon_fail(call, TENON_PRECONDITION,
                        "%s keeps a tensor argument after the call, whose memory belongs to the "
                        "caller: let the function copy what it keeps",
                        f->name);
  return status;
}

tenon_status_t function_call(const function_t *f, tenon_call_t *call) {
  ffi_any_t arguments[ARGUMENTS_MOST];
  ffi_any_t result = {0};
  if (f->has_objects) return call_with_objects(f, call, arguments);
  for (int32_t i = 0; i < f->argument_count; i++) {
    const argument_t *argument = &f->arguments[i];
    if (argument->pass == PASS_INPUT)
      pass_tensor(&arguments[i], call->inputs[argument->index]);
    else if (argument->pass == PASS_OUTPUT)
      pass_tensor(&arguments[i], call->outputs[argument->index]);
    else if (!pass_attr(&arguments[i], &call->attrs[argument->index]))
      return refuse_text(f, call);
  }
  if (run_on_stream(f, call, arguments, &result) != 0) return result_error(f, call);
  if (!f->returned_count && result.kind < FFI_OBJECT) return TENON_OK;
  tenon_status_t status = result_take(f, call, &result);
  ffi_any_release(&result);
  return status;
}
