/* Writes tensors and attributes into messages, in the host. */
#include "isolation/pack.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"

static void put_shape(tn_exchange_t *x, const tenon_tensor_t *t) {
  tn_put(&x->call, (uint64_t)t->ndim);
  tn_put_numbers(&x->call, t->shape, (uint64_t)t->ndim);
}

/* Copies elements between a tensor and a dense buffer in the mailbox; `is_back` means out of the
 * mailbox. */
static tenon_status_t copy_through_mailbox(tn_exchange_t *x, const tenon_tensor_t *t,
                                           uint64_t offset, uint64_t size, bool is_back) {
  char *shared = (char *)x->share->base + offset;
  if (tn_is_dense(t->ndim, t->shape, t->strides)) {
    if (size) is_back ? memcpy(t->data, shared, size) : memcpy(shared, t->data, size);
    return TENON_OK;
  }
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t there;
  TN_TRY(tenon_tensor_view(&there, shared, t->dtype, t->ndim, t->shape, NULL, strides));
  return is_back ? tn_tensor_copy_into(&there, (tenon_tensor_t *)(uintptr_t)t)
                 : tn_tensor_copy_into(t, &there);
}

static tenon_status_t put_dense(tn_exchange_t *x, tenon_tensor_t *t, bool contents,
                                bool is_written) {
  uint64_t size = 0;
  uint64_t offset;
  if (!tn_dtype_bytes(t->dtype, tenon_count(t), &size) || t->device.type != 1 || (size && !t->data))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: an isolated operator accepts tensors in host memory only: copy the tensor "
                   "to the CPU first",
                   x->name);
  const bool is_here = tn_is_dense(t->ndim, t->shape, t->strides) &&
                       (offset = tn_share_offset(x->share, t->data, size));
  x->is_in_place |= is_here && is_written && contents;
  if (!is_here) {
    if (!(offset = tn_exchange_allocate(x, size)))
      return tn_fail(TENON_MEMORY,
                     "%s: the memory shared with its isolated process has no space for %llu bytes: "
                     "enlarge `shared`",
                     x->name, (unsigned long long)size);
    if (contents) TN_TRY(copy_through_mailbox(x, t, offset, size, false));
    if (is_written) {
      if (!tn_grow((void **)&x->copied, &x->copied_capacity, x->copied_count, sizeof *x->copied))
        return tn_no_memory("a call", sizeof *x->copied);
      x->copied[x->copied_count++] = (tn_copied_t){t, offset};
    }
  }
  tn_put(&x->call, TN_WIRE_DENSE);
  tn_put(&x->call, tenon_dtype_id(t->dtype));
  put_shape(x, t);
  tn_put(&x->call, offset);
  return TENON_OK;
}

static tenon_status_t put_texts(tn_exchange_t *x, const tenon_tensor_t *t, bool is_written) {
  if (is_written)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: an isolated operator cannot write to an existing string tensor", x->name);
  tn_put(&x->call, TN_WIRE_TEXTS);
  put_shape(x, t);
  const bool is_dense = tn_is_dense(t->ndim, t->shape, t->strides);
  if (!is_dense)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: an isolated operator accepts dense string tensors only: make the tensor "
                   "contiguous first",
                   x->name);
  for (int64_t i = 0, n = tenon_count(t); i < n; i++) {
    const tenon_string_t *text = &((const tenon_string_t *)t->data)[i];
    tn_put_bytes(&x->call, text->data, text->size);
  }
  return TENON_OK;
}

tenon_status_t tn_pack_tensor(tn_exchange_t *x, tenon_tensor_t *t, bool contents, bool is_written) {
  if (!t) {
    tn_put(&x->call, TN_WIRE_ABSENT);
    return TENON_OK;
  }
  const bool is_list = tn_dtype_is(t->dtype, TENON_LIST);
  const bool is_text = tn_dtype_is(t->dtype, TENON_STRING);
  if (!contents && (is_list || is_text || t->keys & TN_TENSOR_UNSET)) {
    tn_put(&x->call, TN_WIRE_MAKE);
    return TENON_OK;
  }
  if (t->detail)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: an isolated operator accepts neither sparse nor quantised tensors",
                   x->name);
  if (is_text) return put_texts(x, t, is_written);
  if (!is_list) return put_dense(x, t, contents, is_written);
  tn_put(&x->call, TN_WIRE_LIST);
  tn_put(&x->call, (uint64_t)t->shape[0]);
  for (int64_t i = 0; i < t->shape[0]; i++)
    TN_TRY(tn_pack_tensor(x, tenon_item(t, i), contents, is_written));
  return TENON_OK;
}

static tenon_status_t put_value(tn_exchange_t *x, const tenon_value_t *v) {
  uint64_t number = 0;
  tn_put(&x->call, v->kind);
  tn_put(&x->call, v->count);
  switch (v->kind) {
  case TENON_KIND_NONE:
    break;
  case TENON_KIND_STR:
    tn_put_bytes(&x->call, v->as.s, (uint64_t)v->count + 1);
    break;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
  case TENON_KIND_FLOATS:
    tn_put_numbers(&x->call, v->as.ints, v->count);
    break;
  case TENON_KIND_STRS:
    for (uint32_t i = 0; i < v->count; i++)
      tn_put_bytes(&x->call, v->as.strs[i].data, v->as.strs[i].size);
    break;
  case TENON_KIND_TENSOR:
    return tn_pack_tensor(x, v->as.tensor, true, false);
  case TENON_KIND_TENSORS:
    for (uint32_t i = 0; i < v->count; i++)
      TN_TRY(tn_pack_tensor(x, v->as.tensors[i], true, false));
    break;
  case TENON_KIND_GRAPH:
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: an isolated operator does not accept graphs as attributes", x->name);
  default:
    memcpy(&number, &v->as, sizeof number);
    tn_put(&x->call, number);
  }
  return TENON_OK;
}

tenon_status_t tn_pack_values(tn_exchange_t *x, const tn_schema_t *schema,
                              const tenon_value_t *values) {
  const bool is_default = !values || values == schema->defaults;
  tn_put(&x->call, is_default ? TN_ATTRS_DEFAULT : TN_ATTRS_GIVEN);
  for (uint32_t i = 0; i < schema->attr_count && !is_default; i++)
    TN_TRY(put_value(x, &values[i]));
  return TENON_OK;
}

tenon_status_t tn_pack_back(tn_exchange_t *x) {
  for (size_t i = 0; i < x->copied_count; i++) {
    tenon_tensor_t *t = x->copied[i].tensor;
    uint64_t size = 0;
    if (!tn_dtype_bytes(t->dtype, tenon_count(t), &size)) continue;
    TN_TRY(copy_through_mailbox(x, t, x->copied[i].offset, size, true));
  }
  return TENON_OK;
}
