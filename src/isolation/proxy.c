/* The stand-ins of an isolated library's functions: each is an exchange with a child.  What a child says about shapes, extents
 * and places is checked here before anything in this process follows it. */
#include "isolation/proxy.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dispatch/infer.h"
#include "isolation/pack.h"

enum { TRIES = 4 }; /* of a call that another one's fault ended */
enum { LIST_MOST = 1 << 16 };

/* ---- states --------------------------------------------------------------------------------------------------------- */

typedef struct state_t { /* an operator's, in whichever child needs it */
  tn_proxy_t *proxy;
  const tenon_op_t *op;
  uint32_t number;            /* of the operator */
  const tenon_value_t *attrs; /* live as long as this */
  tn_mutex_t lock;
  struct {
    uint32_t child; /* its number; 0: not there */
    uint64_t id;
  } made[TN_POSTS];
} state_t;

static tenon_status_t nonsense(const tn_exchange_t *x, const char *what) {
  return tn_fail(TENON_INTERNAL, "%s: its isolated process says %s, which makes no sense", x->name, what);
}

/* In the child that the exchange has, made anew if it is another one than before. */
static tenon_status_t need_state(tn_exchange_t *x, state_t *state, uint64_t *out_id) {
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&state->lock);
  if (state->made[x->index].child != x->number) {
    tn_put(&x->call, TN_VERB_CREATE), tn_put(&x->call, state->number), tn_put(&x->call, TN_STATE_NONE);
    status = tn_pack_values(x, &state->op->schema, state->attrs);
    tn_scratch_mark_t mark = tn_scratch_mark();
    if (status == TENON_OK) status = tn_exchange_call(x, NULL, NULL);
    if (status == TENON_OK) state->made[x->index].id = tn_get(&x->reply), state->made[x->index].child = x->number;
    tn_scratch_reset(mark);
    x->call = tn_wire(x->area, TN_MESSAGE_SIZE);
  }
  *out_id = state->made[x->index].id;
  tn_mutex_unlock(&state->lock);
  return status;
}

/* Verb, operator, and its state or its attributes.  A state of another operator (`@state`) comes with both. */
static tenon_status_t put_arguments(tn_exchange_t *x, uint64_t verb, const tenon_op_t *op, uint32_t number,
                                    const tenon_value_t *attrs, state_t *state) {
  uint64_t id = 0;
  if (state) TN_TRY(need_state(x, state, &id));
  tn_put(&x->call, verb), tn_put(&x->call, number), tn_put(&x->call, state ? TN_STATE_KNOWN : TN_STATE_NONE);
  if (state) tn_put(&x->call, id);
  return tn_pack_values(x, &op->schema, state && state->op == op ? NULL : attrs);
}

static tenon_status_t exchange_of_node(tenon_node_t *node, uint64_t verb) {
  tn_proxy_t *proxy = node->context;
  tn_exchange_t x;
  uint32_t number;
  TN_TRY(tn_proxy_number(proxy, node->op, &number));
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < TRIES; i++) {
    TN_TRY(tn_exchange_begin(proxy->client, node->op->name, &x));
    tn_scratch_mark_t mark = tn_scratch_mark();
    status = put_arguments(&x, verb, node->op, number, node->attrs, NULL);
    if (status == TENON_OK) status = tn_exchange_call(&x, NULL, NULL);
    tn_scratch_reset(mark);
    tn_exchange_end(&x);
    if (status == TENON_OK || !x.is_bystander) break;
  }
  return status;
}

tenon_status_t tn_proxy_validate(tenon_node_t *node) { return exchange_of_node(node, TN_VERB_VALIDATE); }

tenon_status_t tn_proxy_create(tenon_node_t *node) {
  tn_exchange_t x;
  uint64_t id;
  state_t *state = tn_allocate_zero(1, sizeof *state);
  if (!state) return tn_no_memory("a state", sizeof *state);
  *state = (state_t){.proxy = node->context, .op = node->op, .attrs = node->attrs};
  tenon_status_t status = tn_proxy_number(state->proxy, node->op, &state->number);
  for (int i = 0; i < TRIES && status == TENON_OK; i++) { /* once here, so that a refusal is found now */
    if ((status = tn_exchange_begin(state->proxy->client, node->op->name, &x)) != TENON_OK) break;
    status = need_state(&x, state, &id);
    tn_exchange_end(&x);
    if (status == TENON_OK || !x.is_bystander) break;
    if (i + 1 < TRIES) status = TENON_OK;
  }
  if (status == TENON_OK) node->state = state;
  else tn_release_memory(state);
  return status;
}

/* Where the child that has it is there still; of another one nothing is left. */
void tn_proxy_destroy(void *pointer) {
  state_t *state = pointer;
  tn_client_t *client = state->proxy->client;
  for (uint32_t i = 0; i < client->wanted.child_count; i++) {
    tn_exchange_t x;
    if (!state->made[i].child || !tn_exchange_begin_on(client, i, state->made[i].child, state->op->name, &x)) continue;
    tn_scratch_mark_t mark = tn_scratch_mark();
    tn_put(&x.call, TN_VERB_DESTROY), tn_put(&x.call, state->made[i].id);
    tn_exchange_call(&x, NULL, NULL);
    tn_scratch_reset(mark);
    tn_exchange_end(&x);
  }
  tn_release_memory(state);
}

/* ---- results ---------------------------------------------------------------------------------------------------------- */

typedef struct block_t {
  tn_share_t *share;
  uint64_t offset, size;
} block_t;

void tn_proxy_block_release(void *context) {
  block_t *block = context;
  tn_room_give(&block->share->room, block->offset, block->size);
  tn_share_release(block->share);
  tn_release_memory(block);
}

tenon_status_t tn_proxy_block(tn_share_t *share, uint64_t offset, uint64_t size, void **out_context) {
  block_t *block = tn_allocate(sizeof *block);
  if (!block) return tn_no_memory("a tensor", sizeof *block);
  *block = (block_t){share, offset, size};
  tn_share_retain(share);
  *out_context = block;
  return TENON_OK;
}

typedef struct dense_t { /* as a child describes it, checked */
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t shape[TENON_RANK_MAX];
  uint64_t offset, bytes, block;
} dense_t;

static tenon_status_t get_shape(tn_exchange_t *x, int32_t *ndim, int64_t *shape) {
  *ndim = (int32_t)tn_get_between(&x->reply, 0, TENON_RANK_MAX);
  const void *extents = tn_get_numbers(&x->reply, (uint64_t)*ndim);
  if (extents && *ndim) memcpy(shape, extents, (size_t)*ndim * sizeof *shape);
  return x->reply.failed || tn_shape_count(*ndim, shape) < 0 ? nonsense(x, "that a result has such a shape") : TENON_OK;
}

/* It lies in a block that was given for it, which is the caller's then. */
static tenon_status_t get_dense(tn_exchange_t *x, dense_t *out) {
  out->dtype = tenon_dtype((uint32_t)tn_get(&x->reply));
  TN_TRY(get_shape(x, &out->ndim, out->shape));
  out->offset = tn_get(&x->reply);
  if (x->reply.failed || !tn_dtype_bytes(out->dtype, tn_shape_count(out->ndim, out->shape), &out->bytes) ||
      !tn_exchange_keep(x, out->offset, out->bytes, &out->block))
    return nonsense(x, "that a result lies where it cannot lie");
  return TENON_OK;
}

static bool has_shape(const tenon_tensor_t *t, int32_t ndim, const int64_t *shape) {
  return t->ndim == ndim && (!ndim || !memcmp(t->shape, shape, (size_t)ndim * sizeof *shape));
}

static tenon_status_t take_copy(tn_exchange_t *x, const dense_t *d, tenon_tensor_t *t) {
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t there;
  if (!tn_dtype_same(d->dtype, t->dtype) || !has_shape(t, d->ndim, d->shape) || t->keys & TN_TENSOR_UNSET)
    return nonsense(x, "that a result has another dtype or shape than it was given");
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
  if (t->keys & TN_TENSOR_UNSET && tn_dtype_same(d.dtype, t->dtype)) { /* without a copy: the block is the tensor's */
    status = tn_proxy_block(x->share, d.offset, d.block, &context);
    if (status == TENON_OK) {
      status = call->host->adopt(call, o, d.ndim, d.shape, (char *)x->share->base + d.offset, tn_proxy_block_release,
                                 context);
      if (status != TENON_OK) tn_proxy_block_release(context);
      return status;
    }
  } else {
    if (!has_shape(t, d.ndim, d.shape)) status = call->host->resize(call, o, d.ndim, d.shape);
    if (status == TENON_OK) status = take_copy(x, &d, t);
  }
  tn_room_give(&x->share->room, d.offset, d.block);
  return status;
}

static tenon_status_t take_list(tn_exchange_t *x, tenon_tensor_t *list) {
  const int64_t count = tn_get_between(&x->reply, 0, 1 << 20);
  if (!tn_dtype_is(list->dtype, TENON_LIST) || count != list->shape[0])
    return nonsense(x, "that a result is such a list");
  tenon_status_t status = TENON_OK;
  for (int64_t i = 0; i < count && status == TENON_OK; i++) {
    dense_t d;
    if (tn_get(&x->reply) != TN_WIRE_DENSE) return nonsense(x, "that a list has such an item");
    TN_TRY(get_dense(x, &d));
    status = take_copy(x, &d, tenon_item(list, i));
    tn_room_give(&x->share->room, d.offset, d.block);
  }
  return status;
}

static tenon_status_t take_texts(tn_exchange_t *x, tenon_call_t *call, uint32_t o) {
  tenon_tensor_t *t = call->outputs[o];
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  TN_TRY(get_shape(x, &ndim, shape));
  if (!tn_dtype_is(t->dtype, TENON_STRING)) return nonsense(x, "that a result is of strings");
  if (t->keys & TN_TENSOR_UNSET || !has_shape(t, ndim, shape)) TN_TRY(call->host->resize(call, o, ndim, shape));
  for (int64_t i = 0, n = tenon_count(t); i < n; i++) {
    uint64_t size;
    const char *text = tn_get_bytes(&x->reply, &size);
    if (x->reply.failed) return nonsense(x, "less than its result's texts");
    TN_TRY(call->host->set_string(call, t, i, size ? text : "", size));
  }
  return TENON_OK;
}

static tenon_status_t take_results(tn_exchange_t *x, tenon_call_t *call) {
  for (uint32_t o = 0; o < call->op->output_count; o++) {
    tenon_tensor_t *t = call->outputs[o];
    const uint64_t kind = tn_get(&x->reply);
    const bool is_made =
        t && (t->keys & TN_TENSOR_UNSET || tn_dtype_is(t->dtype, TENON_LIST) || tn_dtype_is(t->dtype, TENON_STRING));
    if (x->reply.failed || (kind == TN_WIRE_SAME && is_made) || (kind != TN_WIRE_SAME && !t))
      return nonsense(x, "nothing about a result");
    switch (kind) {
    case TN_WIRE_SAME: break;
    case TN_WIRE_DENSE: TN_TRY(take_dense(x, call, o)); break;
    case TN_WIRE_LIST: TN_TRY(take_list(x, t)); break;
    case TN_WIRE_TEXTS: TN_TRY(take_texts(x, call, o)); break;
    default: return nonsense(x, "something else about a result");
    }
  }
  return TENON_OK;
}

/* ---- run --------------------------------------------------------------------------------------------------------------- */

static tenon_status_t answer_run(void *context, tn_exchange_t *x, uint64_t number, tn_wire_t *ask, tn_wire_t *out) {
  (void)context;
  const uint64_t size = tn_get(ask);
  if (number != TN_ASK_ROOM || x->block_count >= (1 << 16)) return ask->failed = true, TENON_INTERNAL;
  const uint64_t offset = tn_exchange_block(x, size);
  if (!offset)
    return tn_fail(TENON_MEMORY, "the memory that is shared with an isolated process has no room for %llu bytes",
                   (unsigned long long)size);
  tn_put(out, offset);
  return TENON_OK;
}

static tenon_status_t put_result(tn_exchange_t *x, const tenon_call_t *call, uint32_t o) {
  tenon_tensor_t *t = call->outputs[o];
  for (uint32_t i = 0; t && i < call->op->input_count; i++) {
    const tenon_tensor_t *input = call->inputs[i];
    if (!input || !call->op->schema.inputs[i].is_written || (input != t && input->data != t->data)) continue;
    tn_put(&x->call, TN_WIRE_SAME), tn_put(&x->call, i);
    return TENON_OK;
  }
  return tn_pack_tensor(x, t, false, true);
}

static tenon_status_t run_once(tn_exchange_t *x, tenon_call_t *call, uint32_t number) {
  const tenon_op_t *op = call->op;
  TN_TRY(put_arguments(x, TN_VERB_RUN, op, number, call->attrs, call->state));
  tn_put(&x->call, call->random != NULL);
  if (call->random) tn_put(&x->call, call->random->seed), tn_put(&x->call, call->random->offset);
  for (uint32_t i = 0; i < op->input_count; i++)
    TN_TRY(tn_pack_tensor(x, call->inputs[i], true, op->schema.inputs[i].is_written));
  for (uint32_t o = 0; o < op->output_count; o++) TN_TRY(put_result(x, call, o));
  TN_TRY(tn_exchange_call(x, answer_run, NULL));
  TN_TRY(tn_pack_back(x));
  return take_results(x, call);
}

tenon_status_t tn_proxy_run(tenon_call_t *call) {
  tn_proxy_t *proxy = call->context;
  uint32_t number;
  TN_TRY(tn_proxy_number(proxy, call->op, &number));
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < TRIES; i++) {
    tn_exchange_t x;
    TN_TRY(tn_exchange_begin(proxy->client, call->op->name, &x));
    tn_scratch_mark_t mark = tn_scratch_mark();
    status = run_once(&x, call, number);
    tn_scratch_reset(mark);
    tn_exchange_end(&x);
    if (status == TENON_OK || !x.is_bystander || x.is_in_place) break;
  }
  return status;
}

/* ---- infer -------------------------------------------------------------------------------------------------------------- */

static bool is_mine(const void *context, tenon_dim_t dim) {
  const tn_inference_t *f = context;
  if (f->extents) return tn_extents_has(f->extents, dim);
  return dim.value - INT64_MIN < f->bound_count;
}

typedef struct asked_t {
  tenon_infer_t *infer;
  uint64_t listed; /* bit o: that result's list is there */
} asked_t;

static tenon_status_t answer_infer(void *context, tn_exchange_t *x, uint64_t number, tn_wire_t *ask, tn_wire_t *out) {
  asked_t *asked = context;
  tenon_infer_t *infer = asked->infer;
  const uint64_t first = tn_get(ask), a = tn_get(ask), b = number == TN_ASK_DIM ? tn_get(ask) : 0;
  (void)x;
  const bool is_list = number == TN_ASK_LIST && first < infer->op->output_count && a <= LIST_MOST;
  if (is_list && !(asked->listed >> first & 1)) {
    asked->listed |= (uint64_t)1 << first;
    TN_TRY(infer->host->list(infer, (uint32_t)first, (uint32_t)a));
    const tenon_meta_t *list = infer->outputs[first];
    tn_put(out, list && list->count ? tenon_dtype_id(list->items[0]->dtype) : 0);
    return TENON_OK;
  }
  const tenon_dim_t left = {(int64_t)a}, right = {(int64_t)b};
  const bool are_mine =
      (tenon_is_known(left) || is_mine(infer, left)) && (tenon_is_known(right) || is_mine(infer, right));
  if (number != TN_ASK_DIM || first > TENON_DIM_TEST_LESS || !are_mine) return ask->failed = true, TENON_INTERNAL;
  const tenon_dim_t result = infer->host->dim(infer, (uint32_t)first, left, right);
  tn_inference_t *inference = (tn_inference_t *)infer;
  if (inference->status != TENON_OK) return inference->status;
  tn_put(out, (uint64_t)result.value);
  return TENON_OK;
}

/* What was not known of a deduced input is, perhaps, now; what was known stays, whatever the child says. */
static tenon_status_t take_deduced(tn_exchange_t *x, tenon_meta_t *meta, const tn_dim_check_t *check) {
  tenon_meta_t said;
  TN_TRY(tn_meta_room(&said));
  if (!tn_get_meta(&x->reply, &said, false, check))
    return meta || x->reply.failed ? nonsense(x, "nothing about an input") : TENON_OK;
  if (!meta) return nonsense(x, "something about an input that is absent");
  const bool is_new = meta->ndim < 0;
  if (said.ndim < 0 || (!is_new && said.ndim != meta->ndim)) return TENON_OK;
  for (int32_t d = 0; d < said.ndim; d++)
    if (is_new || !tenon_is_known(meta->dims[d])) meta->dims[d] = said.dims[d];
  meta->ndim = said.ndim;
  return TENON_OK;
}

static tenon_status_t infer_once(tn_exchange_t *x, tenon_infer_t *infer, uint32_t number) {
  const tenon_op_t *op = infer->op;
  const tn_dim_check_t check = {is_mine, infer};
  TN_TRY(put_arguments(x, TN_VERB_INFER, op, number, infer->attrs, infer->state));
  for (uint32_t i = 0; i < op->input_count; i++) {
    const bool is_known = infer->inputs[i] && op->where && op->where[i] & TN_INPUT_KNOWN;
    tn_put_meta(&x->call, infer->inputs[i], false);
    TN_TRY(tn_pack_tensor(x, is_known ? (tenon_tensor_t *)(uintptr_t)infer->inputs[i]->value : NULL, true, false));
  }
  for (uint32_t o = 0; o < op->output_count; o++) tn_put_meta(&x->call, infer->outputs[o], true);
  asked_t asked = {infer, 0};
  TN_TRY(tn_exchange_call(x, answer_infer, &asked));
  infer->draws.value = (int64_t)tn_get(&x->reply);
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->where && op->where[i] & TN_INPUT_DEDUCED) TN_TRY(take_deduced(x, infer->inputs[i], &check));
  for (uint32_t o = 0; o < op->output_count; o++) {
    const bool is_there = tn_get_meta(&x->reply, infer->outputs[o], true, &check);
    if (x->reply.failed || is_there != (infer->outputs[o] != NULL)) return nonsense(x, "what it infers, and that");
  }
  if (!tenon_is_known(infer->draws) || infer->draws.value < -1)
    return nonsense(x, "how many numbers it draws, and that");
  return TENON_OK;
}

tenon_status_t tn_proxy_infer(tenon_infer_t *infer) {
  tn_proxy_t *proxy = infer->context;
  uint32_t number;
  TN_TRY(tn_proxy_number(proxy, infer->op, &number));
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < TRIES; i++) {
    tn_exchange_t x;
    TN_TRY(tn_exchange_begin(proxy->client, infer->op->name, &x));
    status = infer_once(&x, infer, number); /* in scratch: what LIST made of it is the caller's */
    tn_exchange_end(&x);
    if (status == TENON_OK || !x.is_bystander) break;
  }
  return status;
}
