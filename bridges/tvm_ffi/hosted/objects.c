#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "object.h"

/* Keeps a reference to an object, which may be NULL after a failure. */
static void *keep_object(objects_t *objects, void *object) {
  objects->failed |= !object;
  if (!object) return NULL;
  if (objects->count == objects->capacity) {
    const uint32_t capacity = objects->capacity ? 2 * objects->capacity : 8;
    ffi_object_t **grown = realloc(objects->items, capacity * sizeof *grown);
    objects->failed |= !grown;
    if (!grown) {
      ffi_release(object);
      return NULL;
    }
    objects->items = grown;
    objects->capacity = capacity;
  }
  objects->items[objects->count++] = object;
  return object;
}

/* The object has a shape and strides of its own, because it may outlive the call. */
static ffi_any_t make_tensor(objects_t *objects, const tenon_tensor_t *from) {
  if (!from) return (ffi_any_t){.kind = FFI_NONE};
  const size_t axes = (size_t)from->ndim * sizeof *from->shape;
  ffi_tensor_t *made = keep_object(objects, ffi_create(sizeof *made + 2 * axes, FFI_TENSOR, NULL));
  if (!made) return (ffi_any_t){.kind = FFI_NONE};
  memcpy(&made->tensor, from, sizeof made->tensor);
  made->tensor.shape = (int64_t *)(void *)(made + 1);
  made->tensor.strides = made->tensor.shape + from->ndim;
  if (axes) {
    memcpy(made->tensor.shape, from->shape, axes);
    memcpy(made->tensor.strides, from->strides, axes);
  }
  return (ffi_any_t){.kind = FFI_TENSOR, .as.object = &made->head};
}

/* Adds an item to an array, which takes a reference of its own. */
static void add_object(ffi_array_t *array, ffi_any_t item) {
  if (item.kind >= FFI_OBJECT) ffi_retain(item.as.object);
  array->items[array->size++] = item;
}

static ffi_array_t *make_array(objects_t *objects, int64_t count, ffi_any_t *out) {
  ffi_array_t *array = keep_object(objects, ffi_array_create(count));
  *out = (ffi_any_t){.kind = FFI_NONE};
  if (array) *out = (ffi_any_t){.kind = FFI_ARRAY, .as.object = &array->head};
  return array;
}

static void make_tensors(objects_t *objects, const tenon_tensor_t *list, ffi_any_t *out) {
  *out = (ffi_any_t){.kind = FFI_NONE};
  if (!list) return;
  ffi_array_t *array = make_array(objects, list->shape[0], out);
  for (int64_t i = 0; array && i < list->shape[0] && !objects->failed; i++)
    add_object(array, make_tensor(objects, tenon_item(list, i)));
}

static void add_string(objects_t *objects, ffi_array_t *array, const tenon_string_t *text) {
  ffi_any_t *item = &array->items[array->size];
  if (ffi_text_set(item, text->data, text->size))
    array->size++;
  else
    objects->failed = true;
}

static bool make_attr_list(objects_t *objects, const tenon_value_t *value, ffi_any_t *out) {
  const uint32_t kind = value->kind;
  if (kind != TENON_KIND_INTS && kind != TENON_KIND_DIMS && kind != TENON_KIND_FLOATS &&
      kind != TENON_KIND_STRS)
    return false;
  ffi_array_t *array = make_array(objects, value->count, out);
  for (uint32_t i = 0; array && i < value->count; i++)
    if (kind == TENON_KIND_INTS)
      add_object(array, (ffi_any_t){.kind = FFI_INT, .as.integer = value->as.ints[i]});
    else if (kind == TENON_KIND_DIMS)
      add_object(array, (ffi_any_t){.kind = FFI_INT, .as.integer = value->as.dims[i].value});
    else if (kind == TENON_KIND_FLOATS)
      add_object(array, (ffi_any_t){.kind = FFI_FLOAT, .as.number = value->as.floats[i]});
    else
      add_string(objects, array, &value->as.strs[i]);
  return true;
}

bool objects_take(objects_t *objects, const tenon_call_t *call, const argument_t *argument,
                  ffi_any_t *out) {
  switch (argument->pass) {
  case PASS_INPUT_OBJECT:
    *out = make_tensor(objects, call->inputs[argument->index]);
    return true;
  case PASS_OUTPUT_OBJECT:
    *out = make_tensor(objects, call->outputs[argument->index]);
    return true;
  case PASS_INPUTS:
    make_tensors(objects, call->inputs[argument->index], out);
    return true;
  case PASS_ATTR:
    return make_attr_list(objects, &call->attrs[argument->index], out);
  default:
    return false;
  }
}

/* Whether a Tensor object is kept by somebody. Arrays were released before. */
static bool is_kept_tensor(const ffi_object_t *object) {
  return object->kind == FFI_TENSOR && !ffi_is_sole(object);
}

bool objects_release(objects_t *objects) {
  bool is_fine = true;
  for (uint32_t i = 0; i < objects->count; i++)
    if (objects->items[i]->kind == FFI_ARRAY) {
      ffi_release(objects->items[i]);
      objects->items[i] = NULL;
    }
  for (uint32_t i = 0; i < objects->count; i++) {
    ffi_object_t *object = objects->items[i];
    if (!object) continue;
    if (is_kept_tensor(object)) {
      ((ffi_tensor_t *)(void *)object)->tensor.data = NULL;
      is_fine = false;
    }
    ffi_release(object);
  }
  free(objects->items);
  return is_fine;
}
