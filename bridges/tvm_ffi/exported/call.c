/* Calls operators; see exported_call. Tensors on the CPU are views on the stack. Those whose memory
 * a result may share, those in lists and those on devices are tensors of their own. */
#include <stdlib.h>
#include <string.h>

#include "attributes.h"
#include "common/foreign_stream.h"
#include "error.h"
#include "object.h"
#include "operator.h"

enum {
  AXES = 8,        /* of a view on the stack whose strides are not given */
  VIEWS_MOST = 16, /* on the stack */
  OWNED_MOST = 2 * SIDE_MOST,
};

typedef struct frame_t {
  const exported_t *exported;
  tenon_tensor_t *inputs[SIDE_MOST];
  tenon_tensor_t *outputs[SIDE_MOST];
  const ffi_any_t *attrs[SIDE_MOST];
  tenon_tensor_t views[VIEWS_MOST];
  int64_t strides[VIEWS_MOST][AXES];
  int32_t view_count;
  tenon_tensor_t *owned[OWNED_MOST]; /* what the call releases */
  int32_t owned_count;
  bool is_borrowed;      /* some input has memory that is the caller's only during the call */
  tenon_device_t device; /* type 0: the CPU */
  tenon_stream_t *stream;
  tenon_stream_t *stream_before;
} frame_t;

static void release_object(void *context) { ffi_release(context); }

/* devices */

/* Uses the caller's stream on the device of the first tensor that is not on the CPU. */
static int enter_device(frame_t *f, tenon_device_t device) {
  if (f->device.type && f->device.type == device.type && f->device.id == device.id) return 0;
  if (f->device.type)
    return raise_text("ValueError", "%s: tensors are on two devices, %d:%d and %d:%d",
                      f->exported->name, (int)f->device.type, (int)f->device.id, (int)device.type,
                      (int)device.id);
  void *native = env_stream(device);
  tenon_status_t status = TENON_OK;
  if (native || device.type == 2) /* NULL is CUDA's default stream */
    status = foreign_stream_find(device, native, &f->stream);
  if (status == TENON_OK && f->stream)
    status = host.tenon_stream_use(device, f->stream, &f->stream_before);
  if (status != TENON_OK) return exported_raise(status);
  f->device = device;
  return 0;
}

static void leave_device(const frame_t *f) {
  if (f->stream) (void)host.tenon_stream_use(f->device, f->stream_before, NULL);
}

/* tensors */

static int own_tensor(frame_t *f, tenon_tensor_t *tensor) {
  if (f->owned_count == OWNED_MOST) {
    host.tenon_tensor_release(tensor);
    return raise_text("ValueError", "%s: expected at most %d tensors", f->exported->name,
                      OWNED_MOST);
  }
  f->owned[f->owned_count++] = tensor;
  return 0;
}

/* Makes a tensor of its own. It keeps the object of the argument, if there is one. */
static int create_input(frame_t *f, const ffi_dltensor_t *d, ffi_object_t *object,
                        tenon_tensor_t **out) {
  const tenon_external_t external = {.size = sizeof external,
                                     .device = d->device,
                                     .data = d->data,
                                     .byte_offset = d->byte_offset,
                                     .dtype = d->dtype,
                                     .ndim = d->ndim,
                                     .shape = d->shape,
                                     .strides = d->strides,
                                     .stream = f->stream,
                                     .release = object ? release_object : NULL,
                                     .context = object};
  tenon_status_t status =
      d->device.type == 1
          ? host.tenon_tensor_borrow((char *)d->data + d->byte_offset, d->dtype, d->ndim, d->shape,
                                     d->strides, external.release, object, out)
          : host.tenon_tensor_import(&external, out);
  if (status != TENON_OK) return exported_raise(status);
  if (object) ffi_retain(object);
  f->is_borrowed |= !object;
  return own_tensor(f, *out);
}

static int view_tensor(frame_t *f, const ffi_dltensor_t *d, tenon_tensor_t **out) {
  const int32_t at = f->view_count++;
  tenon_status_t status =
      host.tenon_tensor_view(&f->views[at], (char *)d->data + d->byte_offset, d->dtype, d->ndim,
                             d->shape, d->strides, f->strides[at]);
  *out = &f->views[at];
  return status == TENON_OK ? 0 : exported_raise(status);
}

/* Makes a tensor of an argument.
 *
 * Arguments: `is_kept`: somebody may refer to the tensor after the call. */
static int take_tensor(frame_t *f, const ffi_any_t *value, const char *name, bool is_kept,
                       tenon_tensor_t **out) {
  ffi_object_t *object = value->kind == FFI_TENSOR ? value->as.object : NULL;
  const ffi_dltensor_t *d = value->as.pointer;
  if (object) d = &((const ffi_tensor_t *)(const void *)object)->tensor;
  *out = NULL;
  if (value->kind != FFI_TENSOR && (value->kind != FFI_TENSOR_VIEW || !d))
    return raise_text("TypeError", "%s: argument '%s': expected a tensor, found a value of kind %d",
                      f->exported->name, name, (int)value->kind);
  if (d->ndim < 0 || d->ndim > TENON_RANK_MAX || (d->ndim && !d->shape))
    return raise_text("ValueError", "%s: argument '%s' has an impossible number of axes, %d",
                      f->exported->name, name, (int)d->ndim);
  if (d->device.type != 1 && enter_device(f, d->device) != 0) return -1;
  const bool is_view = d->device.type == 1 && !is_kept && f->view_count < VIEWS_MOST &&
                       (d->strides || d->ndim <= AXES);
  return is_view ? view_tensor(f, d, out) : create_input(f, d, object, out);
}

static int take_list(frame_t *f, const ffi_any_t *value, const char *name, tenon_tensor_t **out) {
  const bool is_array = value->kind == FFI_ARRAY || value->kind == FFI_LIST;
  const ffi_array_t *array = is_array ? (const void *)value->as.object : NULL;
  tenon_tensor_t *items[OWNED_MOST];
  if (!array || array->size > OWNED_MOST)
    return raise_text("TypeError", "%s: argument '%s': expected an array of at most %d tensors",
                      f->exported->name, name, OWNED_MOST);
  for (int64_t i = 0; i < array->size; i++)
    if (take_tensor(f, &array->items[i], name, true, &items[i]) != 0) return -1;
  tenon_status_t status = host.tenon_tensor_list(items, (int32_t)array->size, out);
  return status == TENON_OK ? own_tensor(f, *out) : exported_raise(status);
}

static int take_input(frame_t *f, const tenon_argument_t *argument, const ffi_any_t *value) {
  tenon_tensor_t **out = &f->inputs[argument->index];
  *out = NULL;
  if (value->kind == FFI_NONE && argument->is_optional) return 0;
  if (argument->kind == TENON_KIND_TENSORS) return take_list(f, value, argument->name, out);
  return take_tensor(f, value, argument->name, f->exported->has_views, out);
}

/* arguments */

static int check_count(const exported_t *e, int32_t count, bool *is_into) {
  *is_into = e->output_count && count == e->argument_count + e->output_count;
  if (*is_into) return 0;
  int32_t least = e->argument_count;
  while (least > 0 &&
         (e->arguments[least - 1]->is_optional || e->arguments[least - 1]->has_default))
    least--;
  if (count >= least && count <= e->argument_count) return 0;
  return raise_text(
      "TypeError", "%s: expected %d to %d arguments, or %d with all results; found %d", e->name,
      (int)least, (int)e->argument_count, (int)(e->argument_count + e->output_count), (int)count);
}

static int take_arguments(frame_t *f, const ffi_any_t *arguments, int32_t count, bool is_into) {
  static const ffi_any_t none = {.kind = FFI_NONE};
  const exported_t *e = f->exported;
  for (int32_t i = 0; i < e->argument_count; i++) {
    const tenon_argument_t *argument = e->arguments[i];
    const ffi_any_t *value = i < count ? &arguments[i] : &none;
    if (argument->role == TENON_ARGUMENT_ATTR)
      f->attrs[argument->index] = value;
    else if (take_input(f, argument, value) != 0)
      return -1;
  }
  for (int32_t i = 0; i < e->output_count; i++) {
    f->outputs[i] = NULL;
    if (!is_into) continue;
    if (e->outputs[i].kind == TENON_KIND_TENSORS)
      return raise_text("TypeError", "%s: result '%s' is a list, which the function returns",
                        e->name, e->outputs[i].name);
    if (take_tensor(f, &arguments[e->argument_count + i], e->outputs[i].name, false,
                    &f->outputs[i]) != 0)
      return -1;
  }
  return 0;
}

/* results */

typedef struct made_t {
  ffi_tensor_t base;
  tenon_tensor_t *owner;
} made_t;

static void end_made(void *self) { host.tenon_tensor_release(((made_t *)self)->owner); }

/* Takes over the tensor. */
static int return_tensor(tenon_tensor_t *tensor, ffi_any_t *out) {
  made_t *made = ffi_create(sizeof *made, FFI_TENSOR, end_made);
  if (!made) {
    host.tenon_tensor_release(tensor);
    return raise_text("MemoryError", "out of memory: a result");
  }
  memcpy(&made->base.tensor, tensor, sizeof made->base.tensor);
  made->owner = tensor;
  *out = (ffi_any_t){.kind = FFI_TENSOR, .as.object = &made->base.head};
  return 0;
}

/* Takes over the tensor. A string without axes becomes a string. */
static int return_value(const frame_t *f, tenon_tensor_t *tensor, ffi_any_t *out) {
  *out = (ffi_any_t){.kind = FFI_NONE};
  if (!tensor) return 0;
  if (tenon_dtype_id(tensor->dtype) == TENON_STRING) {
    const tenon_string_t *text = tensor->data;
    int code = 0;
    if (tensor->ndim)
      code =
          raise_text("TypeError", "%s: a tensor of strings cannot be returned", f->exported->name);
    else if (!ffi_text_set(out, text->data, text->size))
      code = raise_text("MemoryError", "out of memory: a result");
    host.tenon_tensor_release(tensor);
    return code;
  }
  if (f->is_borrowed && f->exported->has_views) {
    tenon_tensor_t *copy = NULL;
    tenon_status_t status = host.tenon_tensor_copy(tensor, &copy);
    host.tenon_tensor_release(tensor);
    if (status != TENON_OK) return exported_raise(status);
    tensor = copy;
  }
  return return_tensor(tensor, out);
}

static int return_array(const frame_t *f, tenon_tensor_t **tensors, int64_t count,
                        ffi_any_t *result) {
  ffi_array_t *array = ffi_array_create(count);
  int code = array ? 0 : raise_text("MemoryError", "out of memory: the results");
  for (int64_t i = 0; i < count; i++) {
    if (code == 0)
      code = return_value(f, tensors[i], &array->items[i]);
    else
      host.tenon_tensor_release(tensors[i]);
    if (code == 0) array->size = i + 1;
  }
  if (code == 0)
    *result = (ffi_any_t){.kind = FFI_ARRAY, .as.object = &array->head};
  else if (array)
    ffi_release(&array->head);
  return code;
}

static int return_list(const frame_t *f, tenon_tensor_t *list, ffi_any_t *result) {
  tenon_tensor_t *none[1] = {NULL};
  tenon_tensor_t **items = list->shape[0] ? list->data : none;
  for (int64_t i = 0; i < list->shape[0]; i++)
    host.tenon_tensor_retain(items[i]);
  int code = return_array(f, items, list->shape[0], result);
  host.tenon_tensor_release(list);
  return code;
}

static int return_results(const frame_t *f, tenon_tensor_t **results, ffi_any_t *result) {
  const exported_t *e = f->exported;
  if (!e->output_count) return 0;
  if (e->outputs[0].kind == TENON_KIND_TENSORS) return return_list(f, results[0], result);
  if (e->output_count == 1) return return_value(f, results[0], result);
  return return_array(f, results, e->output_count, result);
}

static int run_operator_call(frame_t *f, const attributes_t *attributes, bool is_into,
                             ffi_any_t *result) {
  const exported_t *e = f->exported;
  if (is_into) {
    tenon_status_t status =
        host.tenon_op_call_into(e->op, attributes->values, f->inputs, f->outputs);
    return status == TENON_OK ? 0 : exported_raise(status);
  }
  tenon_status_t status = host.tenon_op_call(e->op, attributes->values, f->inputs, f->outputs, 0);
  return status == TENON_OK ? return_results(f, f->outputs, result) : exported_raise(status);
}

int exported_call(const exported_t *e, const ffi_any_t *arguments, int32_t count,
                  ffi_any_t *result) {
  frame_t f;
  attributes_t attributes;
  bool is_into;
  f.exported = e;
  f.view_count = f.owned_count = 0;
  f.is_borrowed = false;
  f.device = (tenon_device_t){0, 0};
  f.stream = f.stream_before = NULL;
  if (check_count(e, count, &is_into) != 0) return -1;
  int code = take_arguments(&f, arguments, count, is_into);
  if (code == 0) code = attributes_take(e, f.attrs, &attributes);
  if (code == 0) {
    code = run_operator_call(&f, &attributes, is_into, result);
    attributes_release(&attributes);
  }
  while (f.owned_count)
    host.tenon_tensor_release(f.owned[--f.owned_count]);
  leave_device(&f);
  return code;
}
