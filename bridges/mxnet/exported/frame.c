/* Represents the arrays of a call as Tenon's tensors; see frame.h. */
#include "frame.h"

#include <stdlib.h>
#include <string.h>

#include "infer.h"
#include "message.h"

void frame_open(frame_t *f, const node_t *node) {
  f->node = node;
  f->owned = NULL;
  f->owned_count = f->owned_capacity = 0;
  f->blocks = NULL;
  f->used = 0;
}

void *frame_take(frame_t *f, size_t size) {
  size = (size + 63) & ~(size_t)63;
  if (size <= FRAME_ROOM - f->used) {
    f->used += size;
    return f->room + f->used - size;
  }
  char *block = aligned_alloc(64, size + 64);
  if (!block) {
    message_set("out of memory");
    return NULL;
  }
  memcpy(block, &f->blocks, sizeof f->blocks);
  f->blocks = block;
  return block + 64;
}

bool frame_own(frame_t *f, tenon_tensor_t *tensor) {
  if (!tensor) return message_of_host();
  if (f->owned_count == f->owned_capacity) {
    int32_t capacity = f->owned_capacity ? 2 * f->owned_capacity : 16;
    tenon_tensor_t **grown = frame_take(f, (size_t)capacity * sizeof(tenon_tensor_t *));
    if (!grown) {
      host.tenon_tensor_release(tensor);
      return false;
    }
    if (f->owned_count) memcpy(grown, f->owned, (size_t)f->owned_count * sizeof(tenon_tensor_t *));
    f->owned = grown;
    f->owned_capacity = capacity;
  }
  f->owned[f->owned_count++] = tensor;
  return true;
}

void frame_close(frame_t *f) {
  while (f->owned_count > 0)
    host.tenon_tensor_release(f->owned[--f->owned_count]);
  for (void *block = f->blocks, *next; block; block = next) {
    memcpy(&next, block, sizeof next);
    free(block);
  }
}

tenon_tensor_t *frame_tensor(frame_t *f, const arrays_t *arrays, int at, int rank, bool is_counted,
                             const char *name) {
  int64_t *shape = (int64_t *)(uintptr_t)arrays->shapes[at];
  const operator_t *self = f->node->self;
  tenon_dtype_t dtype;
  tenon_tensor_t *tensor = NULL;
  if (!dtype_from(arrays->dtypes[at], &dtype) || !dtype.bits) {
    message_set("%s: '%s': the MXNet dtype %d has no counterpart in Tenon", self->full, name,
                arrays->dtypes[at]);
    return NULL;
  }
  if (strcmp(arrays->devices[at], "cpu") != 0) {
    message_set("%s: '%s' is on device %s: move it to the CPU", self->full, name,
                arrays->devices[at]);
    return NULL;
  }
  if (is_counted) {
    tenon_status_t status =
        host.tenon_tensor_borrow(arrays->data[at], dtype, rank, shape, NULL, NULL, NULL, &tensor);
    if (status != TENON_OK) {
      message_of_host();
      return NULL;
    }
    return frame_own(f, tensor) ? tensor : NULL;
  }
  int64_t *strides = frame_take(f, sizeof *tensor + (size_t)(rank + 1) * sizeof *strides);
  if (!strides) return NULL;
  tensor = (tenon_tensor_t *)(void *)strides;
  strides = (int64_t *)(void *)(tensor + 1);
  if (host.tenon_tensor_view(tensor, arrays->data[at], dtype, rank, shape, NULL, strides) ==
      TENON_OK)
    return tensor;
  message_of_host();
  return NULL;
}

bool frame_argument(frame_t *f, const arrays_t *arrays, int first, const span_t *span,
                    const int *ranks, bool is_counted, const char *name, tenon_tensor_t **out) {
  const int at = first + span->first;
  *out = NULL;
  if (span->is_absent) return true;
  if (!span->is_list)
    return (*out = frame_tensor(f, arrays, at, ranks ? ranks[span->first] : arrays->ranks[at],
                                is_counted, name)) != NULL;
  tenon_tensor_t **items = frame_take(f, ((size_t)span->count + 1) * sizeof *items);
  for (int32_t k = 0; items && k < span->count; k++)
    if (!(items[k] =
              frame_tensor(f, arrays, at + k,
                           ranks ? ranks[span->first + k] : arrays->ranks[at + k], true, name)))
      return false;
  if (!items) return false;
  return host.tenon_tensor_list(items, span->count, out) == TENON_OK ? frame_own(f, *out)
                                                                     : message_of_host();
}

bool frame_ranks(frame_t *f, const arrays_t *in, const arrays_t *results, int first,
                 const int **out_ranks) {
  const node_t *node = f->node;
  bool is_open = false;
  bool has_axes = false;
  *out_ranks = NULL;
  for (int k = 0; k < node->output_count; k++)
    is_open = is_open || (results->ranks[first + k] == 1 && results->shapes[first + k][0] == 1);
  for (int k = 0; k < node->input_count; k++)
    has_axes = has_axes || in->ranks[k] > 0;
  if (!is_open || (node->self->traits & TENON_POINTWISE && has_axes)) return true;
  int *ranks = frame_take(f, ((size_t)node->output_count + 1) * sizeof *ranks);
  if (!ranks || !infer_ranks(node, in->shapes, in->ranks, in->dtypes, ranks)) return false;
  for (int k = 0; k < node->output_count; k++)
    if (ranks[k] != results->ranks[first + k]) *out_ranks = ranks;
  return true;
}
