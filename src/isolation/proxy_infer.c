/* The INFER function of an isolated operator in the host, and the answers to the questions that the
 * worker process asks meanwhile. Every extent that the worker process names must belong to this
 * inference. reply.c reads what it finally says. */
#include <tenon/tenon.h>

#include "base/status.h"
#include "dispatch/infer.h"
#include "isolation/pack.h"
#include "isolation/proxy.h"
#include "isolation/reply.h"

/* Items of all lists that the worker process asks for. The reply describes each of them by more
 * than 64 bytes, so that more of them would not fit. */
enum { ITEMS_MOST = TN_MESSAGE_SIZE / 64 };

static bool is_mine(const void *context, tenon_dim_t dim) {
  const tn_inference_t *f = context;
  if (f->extents) return tn_extents_has(f->extents, dim);
  return dim.value - INT64_MIN < f->bound_count;
}

typedef struct asked_t {
  tenon_infer_t *infer;
  uint64_t listed; /* bit o: the list of result o was made */
  uint64_t items;  /* of these lists */
} asked_t;

static tenon_status_t answer_infer(void *context, tn_exchange_t *x, uint64_t number, tn_wire_t *ask,
                                   tn_wire_t *out) {
  asked_t *asked = context;
  tenon_infer_t *infer = asked->infer;
  const uint64_t first = tn_get(ask);
  const uint64_t a = tn_get(ask);
  const uint64_t b = number == TN_ASK_DIM ? tn_get(ask) : 0;
  (void)x;
  const bool is_list =
      number == TN_ASK_LIST && first < infer->op->output_count && a <= ITEMS_MOST - asked->items;
  if (is_list && !(asked->listed >> first & 1)) {
    asked->listed |= (uint64_t)1 << first;
    asked->items += a;
    TN_TRY(infer->host->list(infer, (uint32_t)first, (uint32_t)a));
    const tenon_meta_t *list = infer->outputs[first];
    tn_put(out, list && list->count ? tenon_dtype_id(list->items[0]->dtype) : 0);
    return TENON_OK;
  }
  const tenon_dim_t left = {(int64_t)a};
  const tenon_dim_t right = {(int64_t)b};
  const bool are_mine = (tenon_is_known(left) || is_mine(infer, left)) &&
                        (tenon_is_known(right) || is_mine(infer, right));
  if (number != TN_ASK_DIM || first > TENON_DIM_TEST_LESS || !are_mine) {
    ask->failed = true;
    return TENON_INTERNAL;
  }
  const tenon_dim_t result = infer->host->dim(infer, (uint32_t)first, left, right);
  tn_inference_t *inference = (tn_inference_t *)infer;
  if (inference->status != TENON_OK) return inference->status;
  tn_put(out, (uint64_t)result.value);
  return TENON_OK;
}

static tenon_status_t infer_once(tn_exchange_t *x, tenon_infer_t *infer, uint32_t number) {
  const tenon_op_t *op = infer->op;
  const tn_dim_check_t check = {is_mine, infer};
  TN_TRY(tn_proxy_arguments(x, TN_VERB_INFER, op, number, infer->attrs, infer->state));
  for (uint32_t i = 0; i < op->input_count; i++) {
    const bool is_known = infer->inputs[i] && op->where && op->where[i] & TN_INPUT_KNOWN;
    tn_put_meta(&x->call, infer->inputs[i], false);
    TN_TRY(tn_pack_tensor(x, is_known ? (tenon_tensor_t *)(uintptr_t)infer->inputs[i]->value : NULL,
                          true, false));
  }
  for (uint32_t o = 0; o < op->output_count; o++)
    tn_put_meta(&x->call, infer->outputs[o], true);
  asked_t asked = {infer, 0, 0};
  TN_TRY(tn_exchange_call(x, answer_infer, &asked));
  return tn_reply_metas(x, infer, &check);
}

tenon_status_t tn_proxy_infer(tenon_infer_t *infer) {
  tn_proxy_t *proxy = infer->context;
  uint32_t number;
  TN_TRY(tn_proxy_number(proxy, infer->op, &number));
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < TN_TRIES; i++) {
    tn_exchange_t x;
    TN_TRY(tn_exchange_begin(proxy->client, infer->op->name, &x));
    /* The reply is in scratch memory, and lists made during it belong to the caller, so no mark is
     * reset here. */
    status = infer_once(&x, infer, number);
    tn_exchange_end(&x);
    if (status == TENON_OK || !x.is_bystander) break;
  }
  return status;
}
