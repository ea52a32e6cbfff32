/* Reads tensors, attributes and metas from messages, in a worker process. */
#include "isolation/unpack.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/scratch.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dispatch/infer.h"

static void *scratch_array(tn_unpack_t *u, uint64_t count, size_t size) {
  void *memory = count < (1u << 24) ? tn_scratch((size_t)count * size + 64) : NULL;
  if (!memory) u->wire.failed = true;
  return memory;
}

static tenon_tensor_t *tensor_over(tn_unpack_t *u, void *data, tenon_dtype_t dtype, int32_t ndim,
                                   int64_t *shape) {
  tenon_tensor_t *tensor = scratch_array(u, 1, sizeof *tensor);
  int64_t *strides = scratch_array(u, (uint64_t)ndim, sizeof *strides);
  if (u->wire.failed ||
      tenon_tensor_view(tensor, data, dtype, ndim, shape, NULL, strides) != TENON_OK) {
    u->wire.failed = true;
    return NULL;
  }
  return tensor;
}

static int64_t *get_shape(tn_unpack_t *u, int32_t *out_ndim) {
  *out_ndim = (int32_t)tn_get_between(&u->wire, 0, TENON_RANK_MAX);
  const void *bytes = tn_get_numbers(&u->wire, (uint64_t)*out_ndim);
  int64_t *shape = scratch_array(u, (uint64_t)*out_ndim, sizeof *shape);
  if (!u->wire.failed && *out_ndim) memcpy(shape, bytes, (size_t)*out_ndim * sizeof *shape);
  return shape;
}

static tenon_tensor_t *get_dense(tn_unpack_t *u) {
  const tenon_dtype_t dtype = tenon_dtype((uint32_t)tn_get(&u->wire));
  int32_t ndim;
  int64_t *shape = get_shape(u, &ndim);
  const uint64_t offset = tn_get(&u->wire);
  if (u->wire.failed || offset >= u->mailbox_size) {
    u->wire.failed = true;
    return NULL;
  }
  return tensor_over(u, u->mailbox + offset, dtype, ndim, shape);
}

static tenon_tensor_t *get_list(tn_unpack_t *u) {
  const int64_t count = tn_get_between(&u->wire, 0, 1 << 20);
  tenon_tensor_t **items = scratch_array(u, (uint64_t)count, sizeof(tenon_tensor_t *));
  uint32_t kind;
  int64_t *shape = scratch_array(u, 1, sizeof *shape);
  if (u->wire.failed) return NULL;
  for (int64_t i = 0; i < count && !u->wire.failed; i++)
    if (!(items[i] = tn_unpack_tensor(u, &kind))) u->wire.failed = true;
  *shape = count;
  return u->wire.failed ? NULL : tensor_over(u, items, tenon_dtype(TENON_LIST), 1, shape);
}

static tenon_tensor_t *get_texts(tn_unpack_t *u) {
  int32_t ndim;
  int64_t *shape = get_shape(u, &ndim);
  const int64_t count = u->wire.failed ? -1 : tn_shape_count(ndim, shape);
  tenon_string_t *texts = scratch_array(u, count < 0 ? UINT64_MAX : (uint64_t)count, sizeof *texts);
  for (int64_t i = 0; i < count && !u->wire.failed; i++)
    texts[i].data = tn_get_bytes(&u->wire, &texts[i].size);
  return u->wire.failed ? NULL : tensor_over(u, texts, tenon_dtype(TENON_STRING), ndim, shape);
}

tenon_tensor_t *tn_unpack_tensor(tn_unpack_t *u, uint32_t *out_kind) {
  *out_kind = (uint32_t)tn_get_between(&u->wire, TN_WIRE_ABSENT, TN_WIRE_MAKE);
  switch (*out_kind) {
  case TN_WIRE_DENSE:
    return get_dense(u);
  case TN_WIRE_LIST:
    return get_list(u);
  case TN_WIRE_TEXTS:
    return get_texts(u);
  case TN_WIRE_SAME:
    return u->inputs[tn_get_between(&u->wire, 0, 63)];
  default:
    return NULL;
  }
}

static void get_value(tn_unpack_t *u, tenon_value_t *out) {
  uint32_t kind;
  *out = (tenon_value_t){.kind = (uint32_t)tn_get_between(&u->wire, 0, TENON_KIND_TENSORS)};
  out->count = (uint32_t)tn_get(&u->wire);
  switch (out->kind) {
  case TENON_KIND_NONE:
    break;
  case TENON_KIND_STR: {
    uint64_t size;
    const char *text = tn_get_bytes(&u->wire, &size);
    out->as.s = text && size ? text : "";
    break;
  }
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
  case TENON_KIND_FLOATS:
    out->as.ints = tn_get_numbers(&u->wire, out->count);
    break;
  case TENON_KIND_STRS: {
    tenon_string_t *texts = scratch_array(u, out->count, sizeof *texts);
    for (uint32_t i = 0; i < out->count && !u->wire.failed; i++) {
      const void *data = tn_get_bytes(&u->wire, &texts[i].size);
      char *copy = scratch_array(u, texts[i].size + 1, 1);
      if (!copy) break;
      if (data) memcpy(copy, data, texts[i].size);
      copy[texts[i].size] = 0;
      texts[i].data = copy;
    }
    out->as.strs = texts;
    break;
  }
  case TENON_KIND_TENSOR:
    out->as.tensor = tn_unpack_tensor(u, &kind);
    break;
  case TENON_KIND_TENSORS: {
    tenon_tensor_t **tensors = scratch_array(u, out->count, sizeof(tenon_tensor_t *));
    for (uint32_t i = 0; i < out->count && !u->wire.failed; i++)
      tensors[i] = tn_unpack_tensor(u, &kind);
    out->as.tensors = tensors;
    break;
  }
  default: {
    const uint64_t number = tn_get(&u->wire);
    memcpy(&out->as, &number, sizeof number);
  }
  }
}

const tenon_value_t *tn_unpack_values(tn_unpack_t *u, const tn_schema_t *schema) {
  if (tn_get(&u->wire) == TN_ATTRS_DEFAULT) return NULL;
  tenon_value_t *values = scratch_array(u, schema->attr_count, sizeof *values);
  for (uint32_t i = 0; i < schema->attr_count && !u->wire.failed; i++)
    get_value(u, &values[i]);
  return values;
}

tenon_meta_t *tn_unpack_meta(tn_unpack_t *u, bool is_result) {
  const int64_t count = tn_peek_meta_items(&u->wire);
  tenon_meta_t *meta = scratch_array(u, 1, sizeof *meta);
  if (u->wire.failed || tn_meta_room(meta) != TENON_OK) {
    u->wire.failed = true;
    return NULL;
  }
  if (count >= 0) {
    tenon_meta_t *items = scratch_array(u, (uint64_t)count, sizeof *items);
    tenon_meta_t **pointers = scratch_array(u, (uint64_t)count, sizeof(void *));
    for (int64_t i = 0; i < count && !u->wire.failed; i++)
      if (tn_meta_room(pointers[i] = &items[i]) != TENON_OK) u->wire.failed = true;
    if (u->wire.failed) return NULL;
    meta->items = pointers;
    meta->count = (uint32_t)count;
  }
  return tn_get_meta(&u->wire, meta, is_result, NULL) ? meta : NULL;
}
