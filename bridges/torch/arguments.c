/* Reads the arguments of a call in place, from PyTorch's handles. Everything that a call takes off
 * the stack is recorded in the frame, and frame_close frees it. */
#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void frame_open(frame_t *f, const operator_t *self, bool is_counted) {
  f->self = self;
  f->argument = NULL;
  f->is_counted = is_counted;
  f->quantised = NULL;
  f->torch_device = NULL;
  f->blocks = NULL;
  f->used = 0;
  *f->why = 0;
  f->counted_count = f->tensor_list_count = f->list_count = f->string_count = 0;
  for (uint32_t i = 0; i < self->argument_count; i++)
    f->handles[i] = NULL;
}

bool frame_fail(frame_t *f, const char *reason, const char *detail) {
  const char *name = f->argument ? f->argument->name : "";
  snprintf(f->why, sizeof f->why, "%s: %s%s%s%s", f->self->name, name, *name ? ": " : "", reason,
           detail);
  return false;
}

/* Allocates memory that lives until the end of the call. */
void *frame_take(frame_t *f, size_t count, size_t size) {
  const size_t bytes = (count * size + 15) & ~(size_t)15;
  if (bytes <= FRAME_ROOM - f->used) {
    f->used += bytes;
    return f->room + f->used - bytes;
  }
  block_t *block = malloc(sizeof *block + bytes);
  if (!block) {
    frame_fail(f, "out of memory", "");
    return NULL;
  }
  block->next = f->blocks;
  return (f->blocks = block) + 1;
}

/* Returns the tensor of a handle: a view on the stack or, if the call may keep it or it is on a
 * device, a counted tensor. */
static tenon_tensor_t *tensor_of(frame_t *f, torch_tensor_t handle, tenon_tensor_t *view,
                                 bool is_counted) {
  frame_parts_t p = {.data = NULL};
  int32_t code = 0;
  int32_t bad =
      torch.aoti_torch_get_dim(handle, &p.ndim) | torch.aoti_torch_get_sizes(handle, &p.shape) |
      torch.aoti_torch_get_strides(handle, &p.strides) | torch.aoti_torch_get_dtype(handle, &code) |
      torch.aoti_torch_get_device_type(handle, &p.type);
  bad |= f->argument && f->argument->is_written
             ? torch.torch_get_mutable_data_ptr(handle, &p.data)
             : torch.torch_get_const_data_ptr(handle, (const void **)&p.data);
  if (bad) {
    frame_fail(f, "PyTorch does not report the properties of the tensor: ", torch_what());
    return NULL;
  }
  const bool is_quantised = torch_dtype_stored(code, &p.dtype);
  if (!is_quantised && !torch_dtype_from(code, &p.dtype)) {
    frame_fail(
        f, "the dtype of the tensor has no counterpart in Tenon: convert it to another dtype", "");
    return NULL;
  }
  if (p.type != torch_cpu)
    return is_quantised
               ? (frame_fail(f, "expected a quantised tensor in CPU memory, found one on a device",
                             ""),
                  NULL)
               : frame_device_tensor(f, handle, &p);
  tenon_status_t status = is_counted ? tenon_tensor_borrow(p.data, p.dtype, (int32_t)p.ndim,
                                                           p.shape, p.strides, NULL, NULL, &view)
                                     : tenon_tensor_view(view, p.data, p.dtype, (int32_t)p.ndim,
                                                         p.shape, p.strides, NULL);
  if (status != TENON_OK) {
    frame_fail(f, tenon_error(), "");
    return NULL;
  }
  if (!is_quantised || frame_quantised(f, handle, view)) return view;
  if (is_counted) tenon_tensor_release(view);
  return NULL;
}

static torch_value_t *items_of(frame_t *f, torch_value_t value, size_t *out_count) {
  torch_list_t list = (torch_list_t)(uintptr_t)value;
  *out_count = 0;
  f->lists[f->list_count++] = list;
  size_t count = 0;
  torch_value_t *items =
      torch.torch_list_size(list, &count) ? NULL : frame_take(f, count, sizeof *items);
  for (; items && *out_count < count; ++*out_count)
    if (torch.torch_list_get_item(list, *out_count, &items[*out_count])) break;
  if (items && *out_count == count) return items;
  if (!*f->why) frame_fail(f, "PyTorch does not return the items of the list: ", torch_what());
  return NULL;
}

static bool tensors_set(frame_t *f, torch_value_t value, tenon_value_t *out) {
  list_t *list = &f->tensor_lists[f->tensor_list_count];
  size_t count;
  if (!(list->handles = items_of(f, value, &count))) return false;
  if (!(list->tensors = frame_take(f, count, sizeof *list->tensors))) return false;
  memset(list->tensors, 0, count * sizeof *list->tensors);
  list->count = count;
  f->tensor_list_count++;
  for (size_t i = 0; i < count; i++)
    if (!(list->tensors[i] = tensor_of(f, (torch_tensor_t)(uintptr_t)list->handles[i], NULL, true)))
      return false;
  out->count = (uint32_t)count;
  out->as.tensors = list->tensors;
  return true;
}

const list_t *frame_tensors(frame_t *f, torch_value_t value) {
  tenon_value_t ignored;
  f->argument = NULL;
  return tensors_set(f, value, &ignored) ? &f->tensor_lists[f->tensor_list_count - 1] : NULL;
}

static const char *string_of(frame_t *f, torch_value_t value, size_t *out_size) {
  torch_string_t string = (torch_string_t)(uintptr_t)value;
  const char *text = NULL;
  f->strings[f->string_count++] = string;
  if (torch.torch_string_c_str(string, &text) | torch.torch_string_length(string, out_size)) {
    frame_fail(f, "PyTorch does not return the string: ", torch_what());
    return NULL;
  }
  return text;
}

static bool choice_set(frame_t *f, torch_value_t value, tenon_value_t *out) {
  const tenon_argument_t *a = f->argument;
  char expected[300] = "";
  size_t size;
  const char *text = string_of(f, value, &size);
  for (uint32_t i = 0; text && i < a->choice_count; i++)
    if (strcmp(a->choices[i], text) == 0) {
      out->as.i = i;
      return true;
    }
  for (uint32_t i = 0, used = 0; text && i < a->choice_count && used < sizeof expected; i++)
    used += (uint32_t)snprintf(expected + used, sizeof expected - used, "%s'%s'", i ? ", " : "",
                               a->choices[i]);
  if (!text) return false;
  char found[400];
  snprintf(found, sizeof found, "%s; found '%s'", expected, text);
  return frame_fail(f, "expected one of ", found);
}

static bool strings_set(frame_t *f, torch_value_t value, tenon_value_t *out) {
  size_t count, size;
  torch_value_t *items = items_of(f, value, &count);
  tenon_string_t *strings = items ? frame_take(f, count, sizeof *strings) : NULL;
  for (size_t i = 0; strings && i < count; i++) {
    if (f->string_count == OPERATOR_MOST)
      return frame_fail(f, "a call may have at most 64 strings", "");
    if (!(strings[i].data = string_of(f, items[i], &size))) return false;
    strings[i].size = size;
  }
  out->count = (uint32_t)count;
  out->as.strs = strings;
  return strings != NULL;
}

static bool numbers_set(frame_t *f, torch_value_t value, tenon_value_t *out) {
  size_t count;
  /* Every item has 64 bits, an integer or a double, as in Tenon. */
  torch_value_t *items = items_of(f, value, &count);
  out->count = (uint32_t)count;
  if (f->argument->kind == TENON_KIND_FLOATS)
    out->as.floats = (const double *)(const void *)items;
  else if (f->argument->kind == TENON_KIND_INTS)
    out->as.ints = (const int64_t *)(const void *)items;
  else
    out->as.dims = (const tenon_dim_t *)(const void *)items;
  return items != NULL;
}
_Static_assert(sizeof(tenon_dim_t) == 8, "tenon_dim_t has the size of an integer");

static bool value_set(frame_t *f, torch_value_t value, tenon_value_t *out) {
  const tenon_argument_t *a = f->argument;
  size_t size;
  out->kind = a->kind;
  out->count = 0;
  switch (a->kind) {
  case TENON_KIND_TENSOR: /* an input, or a tensor attribute */
    f->handles[a->place] = (torch_tensor_t)(uintptr_t)value;
    out->as.tensor = tensor_of(f, f->handles[a->place], &f->views[a->place], f->is_counted);
    if (out->as.tensor && out->as.tensor != &f->views[a->place])
      f->counted[f->counted_count++] = out->as.tensor;
    return out->as.tensor != NULL;
  case TENON_KIND_TENSORS:
    return tensors_set(f, value, out);
  case TENON_KIND_BOOL:
    out->as.i = (value & 255) != 0;
    return true;
  case TENON_KIND_INT:
    out->as.i = (int64_t)value;
    return true;
  case TENON_KIND_DIM:
    out->as.dim.value = (int64_t)value;
    return true;
  case TENON_KIND_FLOAT:
    memcpy(&out->as.f, &value, 8);
    return true;
  case TENON_KIND_CHOICE:
    return choice_set(f, value, out);
  case TENON_KIND_DTYPE:
    return torch_dtype_from((int32_t)value, &out->as.dtype) ||
           frame_fail(f, "the dtype has no counterpart in Tenon", "");
  case TENON_KIND_DEVICE: /* The upper half is the device type, the lower half the index. */
    out->as.device = (tenon_device_t){1, 0};
    if ((int32_t)(value >> 32) == torch_cpu) return true;
    return frame_use_device(f, (int32_t)(value >> 32), (int32_t)value) &&
           (out->as.device = f->torch_device->device, true);
  case TENON_KIND_STRS:
    return strings_set(f, value, out);
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
  case TENON_KIND_FLOATS:
    return numbers_set(f, value, out);
  default: /* TENON_KIND_STR */
    out->as.s = string_of(f, value, &size);
    out->count = (uint32_t)size;
    return out->as.s != NULL;
  }
}

/* Returns the value of an optional argument and frees its box. */
static torch_value_t unbox(torch_value_t value) {
  torch_value_t *box = (torch_value_t *)(uintptr_t)value;
  torch_value_t inside = *box;
  if (torch.torch_delete_stable_ivalue)
    (void)torch.torch_delete_stable_ivalue(box);
  else
    torch.operator_delete(box);
  return inside;
}

/* After a failure the remaining arguments are still taken from the stack, since they must be
 * freed. */
bool frame_arguments(frame_t *f, const torch_value_t *stack) {
  bool good = true;
  for (uint32_t i = 0; i < f->self->argument_count; i++) {
    const tenon_argument_t *a = &f->self->arguments[i];
    const bool is_input = a->role == TENON_ARGUMENT_INPUT;
    tenon_value_t *out = &f->values[(is_input ? 0 : f->self->input_count) + (uint32_t)a->index];
    tenon_value_t ignored;
    torch_value_t value = stack[i];
    out->kind = TENON_KIND_NONE;
    out->count = 0;
    if (a->is_optional && !value) continue;
    if (a->is_optional) value = unbox(value);
    f->argument = a;
    char why[sizeof f->why];
    if (!good) memcpy(why, f->why, sizeof why);
    bool is_set = value_set(f, value, good ? out : &ignored);
    if (!good) memcpy(f->why, why, sizeof why);
    good = good && is_set;
  }
  f->argument = NULL;
  return good;
}

void frame_close(frame_t *f) {
  frame_quantised_close(f);
  for (uint32_t i = 0; i < f->counted_count; i++)
    tenon_tensor_release(f->counted[i]);
  for (uint32_t k = 0; k < f->tensor_list_count; k++)
    for (size_t i = 0; i < f->tensor_lists[k].count; i++) {
      tenon_tensor_release(f->tensor_lists[k].tensors[i]);
      (void)torch.aoti_torch_delete_tensor_object(
          (torch_tensor_t)(uintptr_t)f->tensor_lists[k].handles[i]);
    }
  for (uint32_t i = 0; i < f->self->argument_count; i++)
    if (f->handles[i]) (void)torch.aoti_torch_delete_tensor_object(f->handles[i]);
  for (uint32_t i = 0; i < f->list_count; i++)
    (void)torch.torch_delete_list(f->lists[i]);
  for (uint32_t i = 0; i < f->string_count; i++)
    (void)torch.torch_delete_string(f->strings[i]);
  for (block_t *block = f->blocks, *next; block; block = next) {
    next = block->next;
    free(block);
  }
  if (f->torch_device) frame_leave(f);
}
