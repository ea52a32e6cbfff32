/* Converts what functions return; see result.h. A library is not trusted: kinds, dtypes, devices
 * and shapes are checked. */
#include "result.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>

#include "object.h"

/* errors */

static const struct {
  const char *kind;
  tenon_status_t status;
} statuses[] = {
    {"ValueError", TENON_INVALID},
    {"TypeError", TENON_INVALID},
    {"IndexError", TENON_RANGE},
    {"OverflowError", TENON_RANGE},
    {"KeyError", TENON_NOT_FOUND},
    {"AttributeError", TENON_NOT_FOUND},
    {"FileNotFoundError", TENON_NOT_FOUND},
    {"MemoryError", TENON_MEMORY},
    {"NotImplementedError", TENON_UNIMPLEMENTED},
    {"PermissionError", TENON_DENIED},
    {"TimeoutError", TENON_DEADLINE},
    {"KeyboardInterrupt", TENON_CANCELLED},
    {"AssertionError", TENON_INTERNAL},
    {"InternalError", TENON_INTERNAL},
};

static bool is_kind(ffi_bytes_t text, const char *word) {
  return text.size == strlen(word) && memcmp(text.data, word, text.size) == 0;
}

static tenon_status_t status_of(ffi_bytes_t kind) {
  for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
    if (is_kind(kind, statuses[i].kind)) return statuses[i].status;
  return TENON_UNKNOWN;
}

tenon_status_t result_error(const function_t *f, tenon_call_t *call) {
  ffi_object_t *object = NULL;
  if (f->module->runtime.take_error) f->module->runtime.take_error(&object);
  if (!object || object->kind != FFI_ERROR) {
    ffi_release(object);
    return tenon_fail(call, TENON_UNKNOWN, "%s failed without an error", f->name);
  }
  const ffi_error_t *error = (const ffi_error_t *)(const void *)object;
  const ffi_bytes_t kind = error->kind.data ? error->kind : (ffi_bytes_t){"Error", 5};
  const ffi_bytes_t text = error->text.data ? error->text : (ffi_bytes_t){"", 0};
  tenon_status_t status = tenon_fail(call, status_of(kind), "%.*s: %.*s", (int)kind.size, kind.data,
                                     text.size < 4096 ? (int)text.size : 4096, text.data);
  ffi_release(object);
  return status;
}

/* tensors */

typedef struct held_t { /* what keeps the memory of a result alive */
  ffi_object_t *object;
  module_t *module; /* the code that frees the object */
} held_t;

static void release_held(void *context) {
  held_t *held = context;
  ffi_release(held->object);
  module_release(held->module);
  free(held);
}

static int64_t count_elements(const ffi_dltensor_t *t) {
  int64_t count = 1;
  for (int32_t i = 0; i < t->ndim; i++)
    if (t->shape[i] < 0 || __builtin_mul_overflow(count, t->shape[i], &count)) return -1;
  return count;
}

static bool is_dense(const ffi_dltensor_t *t) {
  int64_t stride = 1;
  for (int32_t i = t->ndim - 1; i >= 0 && t->strides; i--) {
    if (t->shape[i] != 1 && t->strides[i] != stride) return false;
    stride *= t->shape[i];
  }
  return true;
}

/* Whether the address lies within a tensor, which is dense. */
static bool is_in_tensor(const tenon_tensor_t *t, const char *address) {
  const char *begin = (const char *)t->data + t->byte_offset;
  const uint64_t bits = (uint64_t)tenon_count(t) * t->dtype.bits * t->dtype.lanes;
  return address >= begin && address < begin + (bits + 7) / 8;
}

static bool shares_memory(const tenon_call_t *call, const function_t *f, const char *address) {
  for (int32_t i = 0; i < f->argument_count; i++) {
    const argument_t *argument = &f->arguments[i];
    const bool is_input = argument->pass == PASS_INPUT || argument->pass == PASS_INPUT_OBJECT ||
                          argument->pass == PASS_INPUTS;
    const tenon_tensor_t *t = is_input ? call->inputs[argument->index] : NULL;
    if (!t) continue;
    if (argument->pass != PASS_INPUTS && is_in_tensor(t, address)) return true;
    for (int64_t k = 0; argument->pass == PASS_INPUTS && k < t->shape[0]; k++)
      if (is_in_tensor(tenon_item(t, k), address)) return true;
  }
  return false;
}

static tenon_status_t check_tensor(const function_t *f, tenon_call_t *call, uint32_t output,
                                   const ffi_dltensor_t *t) {
  const tenon_dtype_t expected = call->outputs[output]->dtype;
  const tenon_device_t device = call->device ? call->device->device : (tenon_device_t){1, 0};
  if (tenon_dtype_id(t->dtype) != tenon_dtype_id(expected))
    return tenon_fail(call, TENON_INVALID,
                      "%s: result %u: expected %s, found dtype code %d with %d bits: state "
                      "`types` when the library is loaded",
                      f->name, output, tenon_dtype_name(expected), (int)t->dtype.code,
                      (int)t->dtype.bits);
  if (t->ndim < 0 || t->ndim > TENON_RANK_MAX || (t->ndim && !t->shape) || count_elements(t) < 0)
    return tenon_fail(call, TENON_INVALID, "%s: result %u has an impossible shape", f->name,
                      output);
  if (t->device.type != device.type || t->device.id != device.id)
    return tenon_fail(call, TENON_INVALID,
                      "%s: result %u is on device %d:%d: expected the device of the call, %d:%d",
                      f->name, output, (int)t->device.type, (int)t->device.id, (int)device.type,
                      (int)device.id);
  if (!t->data && count_elements(t) > 0)
    return tenon_fail(call, TENON_INVALID, "%s: result %u has no memory", f->name, output);
  return TENON_OK;
}

static tenon_status_t adopt_tensor(const function_t *f, tenon_call_t *call, uint32_t output,
                                   ffi_tensor_t *tensor) {
  held_t *held = malloc(sizeof *held);
  if (!held) return tenon_fail(call, TENON_MEMORY, "%s: out of memory", f->name);
  *held = (held_t){&tensor->head, f->module};
  ffi_retain(held->object);
  module_retain(held->module);
  const ffi_dltensor_t *t = &tensor->tensor;
  tenon_status_t status = call->host->adopt(call, output, t->ndim, t->shape,
                                            (char *)t->data + t->byte_offset, release_held, held);
  if (status != TENON_OK) release_held(held);
  return status;
}

static tenon_status_t copy_tensor(const function_t *f, tenon_call_t *call, uint32_t output,
                                  const ffi_dltensor_t *t) {
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t view;
  if (t->device.type != 1)
    return tenon_fail(call, TENON_UNIMPLEMENTED,
                      "%s: result %u would have to be copied on the device: return a dense tensor "
                      "of its own, or let the function write to its result",
                      f->name, output);
  TENON_TRY(call->host->resize(call, output, t->ndim, t->shape));
  if (count_elements(t) == 0) return TENON_OK;
  TENON_TRY(tenon_tensor_view(&view, (char *)t->data + t->byte_offset, t->dtype, t->ndim, t->shape,
                              t->strides, strides));
  return tenon_tensor_copy_async(&view, call->outputs[output]);
}

static tenon_status_t take_tensor(const function_t *f, tenon_call_t *call, uint32_t output,
                                  ffi_tensor_t *tensor) {
  const ffi_dltensor_t *t = &tensor->tensor;
  TENON_TRY(check_tensor(f, call, output, t));
  const char *data = (const char *)t->data + t->byte_offset;
  if (!call->outputs[output]->data && count_elements(t) > 0 && is_dense(t) &&
      !shares_memory(call, f, data))
    return adopt_tensor(f, call, output, tensor);
  return copy_tensor(f, call, output, t);
}

/* other values */

static tenon_status_t refuse_value(const function_t *f, tenon_call_t *call, uint32_t output,
                                   int32_t kind) {
  return tenon_fail(call, TENON_INVALID,
                    "%s: result %u: expected a tensor or a number of dtype %s, found a value of "
                    "kind %d",
                    f->name, output, tenon_dtype_name(call->outputs[output]->dtype), (int)kind);
}

static tenon_status_t take_scalar(const function_t *f, tenon_call_t *call, uint32_t output,
                                  const ffi_any_t *value) {
  const uint32_t dtype = tenon_dtype_id(call->outputs[output]->dtype);
  const bool is_integer = value->kind == FFI_INT || value->kind == FFI_BOOL;
  const bool fits = (dtype == TENON_I64 && is_integer) ||
                    (dtype == TENON_BOOL && value->kind == FFI_BOOL) ||
                    (dtype == TENON_F64 && (is_integer || value->kind == FFI_FLOAT));
  if (!fits) return refuse_value(f, call, output, value->kind);
  TENON_TRY(call->host->resize(call, output, 0, NULL));
  const double number = value->kind == FFI_FLOAT ? value->as.number : (double)value->as.integer;
  tenon_tensor_t *out = call->outputs[output];
  char *to = (char *)out->data + out->byte_offset;
  if (dtype == TENON_I64) memcpy(to, &value->as.integer, sizeof value->as.integer);
  if (dtype == TENON_F64) memcpy(to, &number, sizeof number);
  if (dtype == TENON_BOOL) *to = value->as.integer != 0;
  return TENON_OK;
}

static tenon_status_t take_value(const function_t *f, tenon_call_t *call, uint32_t output,
                                 const ffi_any_t *value) {
  tenon_tensor_t *out = call->outputs[output];
  if (!out) return TENON_OK; /* The result is not wanted. */
  if (value->kind == FFI_TENSOR)
    return take_tensor(f, call, output, (ffi_tensor_t *)(void *)value->as.object);
  ffi_bytes_t text = ffi_text_get(value);
  if (!text.data) return take_scalar(f, call, output, value);
  if (tenon_dtype_id(out->dtype) != TENON_STRING) return refuse_value(f, call, output, value->kind);
  TENON_TRY(call->host->resize(call, output, 0, NULL));
  return call->host->set_string(call, call->outputs[output], 0, text.data, text.size);
}

tenon_status_t result_take(const function_t *f, tenon_call_t *call, const ffi_any_t *value) {
  if (!f->returned_count) return TENON_OK;
  if (f->returned_count == 1) return take_value(f, call, f->returned[0], value);
  const bool is_array = value->kind == FFI_ARRAY || value->kind == FFI_LIST;
  const ffi_array_t *array = is_array ? (const void *)value->as.object : NULL;
  if (!array)
    return tenon_fail(call, TENON_INVALID,
                      "%s: expected an array of %d results, found a value of kind %d", f->name,
                      (int)f->returned_count, (int)value->kind);
  if (array->size != f->returned_count)
    return tenon_fail(call, TENON_INVALID, "%s: expected %d results, found %d", f->name,
                      (int)f->returned_count, (int)array->size);
  for (int32_t i = 0; i < f->returned_count; i++)
    TENON_TRY(take_value(f, call, f->returned[i], &array->items[i]));
  return TENON_OK;
}
