/* Places the results of a call: what the reply of a worker process says about them, after reply.c
 * has checked it, and the elements that the process left in shared memory. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/tensor.h"
#include "isolation/proxy.h"
#include "isolation/reply.h"

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

/* Copies the elements of a result out of its block. Both have the same dtype and shape. */
static tenon_status_t take_copy(const tn_exchange_t *x, const tn_reply_tensor_t *said,
                                tenon_tensor_t *t) {
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t there;
  TN_TRY(tenon_tensor_view(&there, (char *)x->share->base + said->offset, t->dtype, said->ndim,
                           said->shape, NULL, strides));
  return tn_tensor_copy_into(&there, t);
}

static bool has_shape(const tenon_tensor_t *t, const tn_reply_tensor_t *said) {
  return t->ndim == said->ndim &&
         (!t->ndim || !memcmp(t->shape, said->shape, (size_t)t->ndim * sizeof *t->shape));
}

static tenon_status_t place_dense(tn_exchange_t *x, tenon_call_t *call, uint32_t o,
                                  const tn_reply_tensor_t *said) {
  tenon_tensor_t *t = call->outputs[o];
  uint64_t block;
  void *context;
  if (!(t->keys & TN_TENSOR_UNSET)) {
    if (!has_shape(t, said)) TN_TRY(call->host->resize(call, o, said->ndim, said->shape));
    return take_copy(x, said, t);
  }
  /* Without a copy: the block becomes the tensor's buffer. */
  if (!tn_exchange_keep(x, said->offset, &block))
    return tn_reply_malformed(x, "a result outside the memory that was given for it");
  tenon_status_t status = tn_proxy_block(x->share, said->offset, block, &context);
  if (status != TENON_OK) {
    tn_heap_free(&x->share->heap, said->offset, block);
    return status;
  }
  status =
      call->host->adopt(call, o, said->ndim, said->shape, (char *)x->share->base + said->offset,
                        tn_proxy_block_release, context);
  if (status != TENON_OK) tn_proxy_block_release(context);
  return status;
}

static tenon_status_t place_list(const tn_exchange_t *x, tenon_tensor_t *list,
                                 const tn_reply_tensor_t *said) {
  for (int64_t i = 0; i < said->count; i++)
    TN_TRY(take_copy(x, &said->items[i], tenon_item(list, i)));
  return TENON_OK;
}

static tenon_status_t place_texts(tenon_call_t *call, uint32_t o, const tn_reply_tensor_t *said) {
  tenon_tensor_t *t = call->outputs[o];
  if (t->keys & TN_TENSOR_UNSET || !has_shape(t, said))
    TN_TRY(call->host->resize(call, o, said->ndim, said->shape));
  for (int64_t i = 0; i < said->count; i++)
    TN_TRY(call->host->set_string(call, t, i, said->texts[i].data, said->texts[i].size));
  return TENON_OK;
}

tenon_status_t tn_proxy_results(tn_exchange_t *x, tenon_call_t *call) {
  tn_reply_tensor_t *said;
  tenon_status_t status = tn_reply_results(x, call, &said);
  for (uint32_t o = 0; o < call->op->output_count && status == TENON_OK; o++) {
    if (said[o].kind == TN_WIRE_DENSE) status = place_dense(x, call, o, &said[o]);
    if (said[o].kind == TN_WIRE_LIST) status = place_list(x, call->outputs[o], &said[o]);
    if (said[o].kind == TN_WIRE_TEXTS) status = place_texts(call, o, &said[o]);
  }
  return status;
}
