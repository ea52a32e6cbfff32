/* Reads the results of a call from the reply of a worker process. Every shape, offset and text is
 * checked before it is used. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "isolation/message.h"
#include "isolation/proxy.h"

tenon_status_t tn_proxy_malformed(const tn_exchange_t *x, const char *what) {
  return tn_fail(TENON_INTERNAL, "%s: its isolated process sent %s", x->name, what);
}

typedef struct block_t {
  tn_share_t *share;
  uint64_t offset;
  uint64_t size;
} block_t;

void tn_proxy_block_release(void *context) {
  block_t *block = context;
  tn_heap_free(&block->share->heap, block->offset, block->size);
  tn_share_release(block->share);
  tn_release_memory(block);
}

tenon_status_t tn_proxy_block(tn_share_t *share, uint64_t offset, uint64_t size,
                              void **out_context) {
  block_t *block = tn_allocate(sizeof *block);
  if (!block) return tn_no_memory("a tensor", sizeof *block);
  *block = (block_t){share, offset, size};
  tn_share_retain(share);
  *out_context = block;
  return TENON_OK;
}

typedef struct dense_t { /* a dense result as the worker process describes it, after the checks */
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t shape[TENON_RANK_MAX];
  uint64_t offset;
  uint64_t bytes;
  uint64_t block;
} dense_t;

static tenon_status_t get_shape(tn_exchange_t *x, int32_t *ndim, int64_t *shape) {
  *ndim = (int32_t)tn_get_between(&x->reply, 0, TENON_RANK_MAX);
  const void *extents = tn_get_numbers(&x->reply, (uint64_t)*ndim);
  if (extents && *ndim) memcpy(shape, extents, (size_t)*ndim * sizeof *shape);
  return x->reply.failed || tn_shape_count(*ndim, shape) < 0
             ? tn_proxy_malformed(x, "a result with an invalid shape")
             : TENON_OK;
}

/* Reads a dense result. Its elements lie in a block that the host gave for it; the block then
 * belongs to the caller. */
static tenon_status_t get_dense(tn_exchange_t *x, dense_t *out) {
  out->dtype = tenon_dtype((uint32_t)tn_get(&x->reply));
  TN_TRY(get_shape(x, &out->ndim, out->shape));
  out->offset = tn_get(&x->reply);
  if (x->reply.failed ||
      !tn_dtype_bytes(out->dtype, tn_shape_count(out->ndim, out->shape), &out->bytes) ||
      !tn_exchange_keep(x, out->offset, out->bytes, &out->block))
    return tn_proxy_malformed(x, "a result outside the memory that was given for it");
  return TENON_OK;
}

static bool has_shape(const tenon_tensor_t *t, int32_t ndim, const int64_t *shape) {
  return t->ndim == ndim && (!ndim || !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape));
}

static tenon_status_t take_copy(tn_exchange_t *x, const dense_t *d, tenon_tensor_t *t) {
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t there;
  if (!tn_dtype_same(d->dtype, t->dtype) || !has_shape(t, d->ndim, d->shape) ||
      t->keys & TN_TENSOR_UNSET)
    return tn_proxy_malformed(x, "a result whose dtype or shape differs from the expected one");
  TN_TRY(tenon_tensor_view(&there, (char *)x->share->base + d->offset, d->dtype, d->ndim,
                           (int64_t *)(uintptr_t)d->shape, NULL, strides));
  return tn_tensor_copy_into(&there, t);
}

static tenon_status_t take_dense(tn_exchange_t *x, tenon_call_t *call, uint32_t o) {
  tenon_tensor_t *t = call->outputs[o];
  dense_t d;
  void *context;
  TN_TRY(get_dense(x, &d));
  tenon_status_t status = TENON_OK;
  /* Without a copy: the block becomes the tensor's buffer. */
  if (t->keys & TN_TENSOR_UNSET && tn_dtype_same(d.dtype, t->dtype)) {
    status = tn_proxy_block(x->share, d.offset, d.block, &context);
    if (status == TENON_OK) {
      status = call->host->adopt(call, o, d.ndim, d.shape, (char *)x->share->base + d.offset,
                                 tn_proxy_block_release, context);
      if (status != TENON_OK) tn_proxy_block_release(context);
      return status;
    }
  } else {
    if (!has_shape(t, d.ndim, d.shape)) status = call->host->resize(call, o, d.ndim, d.shape);
    if (status == TENON_OK) status = take_copy(x, &d, t);
  }
  tn_heap_free(&x->share->heap, d.offset, d.block);
  return status;
}

static tenon_status_t take_list(tn_exchange_t *x, tenon_tensor_t *list) {
  const int64_t count = tn_get_between(&x->reply, 0, 1 << 20);
  if (!tn_dtype_is(list->dtype, TENON_LIST) || count != list->shape[0])
    return tn_proxy_malformed(x, "a list that does not match the expected result");
  tenon_status_t status = TENON_OK;
  for (int64_t i = 0; i < count && status == TENON_OK; i++) {
    dense_t d;
    if (tn_get(&x->reply) != TN_WIRE_DENSE)
      return tn_proxy_malformed(x, "a list with an invalid item");
    TN_TRY(get_dense(x, &d));
    status = take_copy(x, &d, tenon_item(list, i));
    tn_heap_free(&x->share->heap, d.offset, d.block);
  }
  return status;
}

static tenon_status_t take_texts(tn_exchange_t *x, tenon_call_t *call, uint32_t o) {
  tenon_tensor_t *t = call->outputs[o];
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  TN_TRY(get_shape(x, &ndim, shape));
  const uint64_t most = (x->reply.size - x->reply.at) / 8; /* a text takes at least 8 bytes */
  if (!tn_dtype_is(t->dtype, TENON_STRING) || (uint64_t)tn_shape_count(ndim, shape) > most)
    return tn_proxy_malformed(x, "more strings than its message can hold");
  if (t->keys & TN_TENSOR_UNSET || !has_shape(t, ndim, shape))
    TN_TRY(call->host->resize(call, o, ndim, shape));
  for (int64_t i = 0, n = tenon_count(t); i < n; i++) {
    uint64_t size;
    const char *text = tn_get_bytes(&x->reply, &size);
    if (x->reply.failed) return tn_proxy_malformed(x, "fewer texts than its result has");
    TN_TRY(call->host->set_string(call, t, i, size ? text : "", size));
  }
  return TENON_OK;
}

tenon_status_t tn_proxy_results(tn_exchange_t *x, tenon_call_t *call) {
  for (uint32_t o = 0; o < call->op->output_count; o++) {
    tenon_tensor_t *t = call->outputs[o];
    const uint64_t kind = tn_get(&x->reply);
    const bool is_made = t && (t->keys & TN_TENSOR_UNSET || tn_dtype_is(t->dtype, TENON_LIST) ||
                               tn_dtype_is(t->dtype, TENON_STRING));
    if (x->reply.failed || (kind == TN_WIRE_SAME && is_made) || (kind != TN_WIRE_SAME && !t))
      return tn_proxy_malformed(x, "no description of a result, or one that was not expected");
    switch (kind) {
    case TN_WIRE_SAME:
      break;
    case TN_WIRE_DENSE:
      TN_TRY(take_dense(x, call, o));
      break;
    case TN_WIRE_LIST:
      TN_TRY(take_list(x, t));
      break;
    case TN_WIRE_TEXTS:
      TN_TRY(take_texts(x, call, o));
      break;
    default:
      return tn_proxy_malformed(x, "a result of an unknown kind");
    }
  }
  return TENON_OK;
}
