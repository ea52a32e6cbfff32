/* The functions of an isolated library in the host. Each of them is an exchange with a worker
 * process. The replies are checked in reply.c before the host acts on them. */
#include "isolation/proxy.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "isolation/pack.h"
#include "isolation/reply.h"

typedef struct state_t { /* a state of an operator, created in each worker process that needs it */
  tn_proxy_t *proxy;
  const tenon_op_t *op;
  uint32_t number;            /* of the operator */
  const tenon_value_t *attrs; /* live as long as the state */
  tn_mutex_t lock;
  struct {
    uint32_t child; /* number of the process that has it; 0: none has */
    uint64_t id;
  } made[TN_CHANNELS];
} state_t;

/* Finds the state in the worker process of this exchange and creates it there if that process does
 * not have it yet. */
static tenon_status_t need_state(tn_exchange_t *x, state_t *state, uint64_t *out_id) {
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&state->lock);
  if (state->made[x->index].child != x->number) {
    tn_put(&x->call, TN_VERB_CREATE);
    tn_put(&x->call, state->number);
    tn_put(&x->call, TN_STATE_NONE);
    status = tn_pack_values(x, &state->op->schema, state->attrs);
    tn_scratch_mark_t mark = tn_scratch_mark();
    if (status == TENON_OK) status = tn_exchange_call(x, NULL, NULL);
    if (status == TENON_OK) status = tn_reply_state(x, &state->made[x->index].id);
    if (status == TENON_OK) state->made[x->index].child = x->number;
    tn_scratch_reset(mark);
    x->call = tn_wire(x->area, TN_MESSAGE_SIZE);
  }
  *out_id = state->made[x->index].id;
  tn_mutex_unlock(&state->lock);
  return status;
}

tenon_status_t tn_proxy_arguments(tn_exchange_t *x, uint64_t verb, const tenon_op_t *op,
                                  uint32_t number, const tenon_value_t *attrs, void *pointer) {
  state_t *state = pointer;
  uint64_t id = 0;
  if (state) TN_TRY(need_state(x, state, &id));
  tn_put(&x->call, verb);
  tn_put(&x->call, number);
  tn_put(&x->call, state ? TN_STATE_KNOWN : TN_STATE_NONE);
  if (state) tn_put(&x->call, id);
  return tn_pack_values(x, &op->schema, state && state->op == op ? NULL : attrs);
}

static tenon_status_t exchange_of_node(tenon_node_t *node, uint64_t verb) {
  tn_proxy_t *proxy = node->context;
  tn_exchange_t x;
  uint32_t number;
  TN_TRY(tn_proxy_number(proxy, node->op, &number));
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < TN_TRIES; i++) {
    TN_TRY(tn_exchange_begin(proxy->client, node->op->name, &x));
    tn_scratch_mark_t mark = tn_scratch_mark();
    status = tn_proxy_arguments(&x, verb, node->op, number, node->attrs, NULL);
    if (status == TENON_OK) status = tn_exchange_call(&x, NULL, NULL);
    tn_scratch_reset(mark);
    tn_exchange_end(&x);
    if (status == TENON_OK || !x.is_bystander) break;
  }
  return status;
}

tenon_status_t tn_proxy_validate(tenon_node_t *node) {
  return exchange_of_node(node, TN_VERB_VALIDATE);
}

tenon_status_t tn_proxy_create(tenon_node_t *node) {
  tn_exchange_t x;
  uint64_t id;
  state_t *state = tn_allocate_zero(1, sizeof *state);
  if (!state) return tn_no_memory("a state of an isolated operator", sizeof *state);
  *state = (state_t){.proxy = node->context, .op = node->op, .attrs = node->attrs};
  tenon_status_t status = tn_proxy_number(state->proxy, node->op, &state->number);
  for (int i = 0; i < TN_TRIES && status == TENON_OK;
       /* Creates the state in one worker process now, so that a refusal is reported here. */
       i++) {
    if ((status = tn_exchange_begin(state->proxy->client, node->op->name, &x)) != TENON_OK) break;
    status = need_state(&x, state, &id);
    tn_exchange_end(&x);
    if (status == TENON_OK || !x.is_bystander) break;
    if (i + 1 < TN_TRIES) status = TENON_OK;
  }
  if (status == TENON_OK)
    node->state = state;
  else
    tn_release_memory(state);
  return status;
}

/* Destroys the state in the worker processes that created it and are still running. */
void tn_proxy_destroy(void *pointer) {
  state_t *state = pointer;
  tn_client_t *client = state->proxy->client;
  for (uint32_t i = 0; i < client->wanted.child_count; i++) {
    tn_exchange_t x;
    if (!state->made[i].child ||
        !tn_exchange_begin_on(client, i, state->made[i].child, state->op->name, &x))
      continue;
    tn_scratch_mark_t mark = tn_scratch_mark();
    tn_put(&x.call, TN_VERB_DESTROY);
    tn_put(&x.call, state->made[i].id);
    tn_exchange_call(&x, NULL, NULL);
    tn_scratch_reset(mark);
    tn_exchange_end(&x);
  }
  tn_release_memory(state);
}

static tenon_status_t answer_run(void *context, tn_exchange_t *x, uint64_t number, tn_wire_t *ask,
                                 tn_wire_t *out) {
  /* Bytes that the worker process may still request for results. */
  uint64_t *left = context;
  const uint64_t size = tn_get(ask);
  if (number != TN_ASK_MEMORY || x->block_count >= (1 << 16)) {
    ask->failed = true;
    return TENON_INTERNAL;
  }
  const uint64_t offset = size <= *left ? tn_exchange_allocate_block(x, size) : 0;
  *left -= offset ? size : 0;
  if (!offset)
    return tn_fail(TENON_MEMORY,
                   "the memory shared with an isolated process has no space for a result of %llu "
                   "bytes: enlarge `shared`",
                   (unsigned long long)size);
  tn_put(out, offset);
  return TENON_OK;
}

static tenon_status_t put_result_kind(tn_exchange_t *x, const tenon_call_t *call, uint32_t o) {
  tenon_tensor_t *t = call->outputs[o];
  for (uint32_t i = 0; t && i < call->op->input_count; i++) {
    const tenon_tensor_t *input = call->inputs[i];
    if (!input || !call->op->schema.inputs[i].is_written || (input != t && input->data != t->data))
      continue;
    tn_put(&x->call, TN_WIRE_SAME);
    tn_put(&x->call, i);
    return TENON_OK;
  }
  return tn_pack_tensor(x, t, false, true);
}

static tenon_status_t run_once(tn_exchange_t *x, tenon_call_t *call, uint32_t number) {
  const tenon_op_t *op = call->op;
  TN_TRY(tn_proxy_arguments(x, TN_VERB_RUN, op, number, call->attrs, call->state));
  tn_put(&x->call, call->random != NULL);
  if (call->random) {
    tn_put(&x->call, call->random->seed);
    tn_put(&x->call, call->random->offset);
  }
  for (uint32_t i = 0; i < op->input_count; i++)
    TN_TRY(tn_pack_tensor(x, call->inputs[i], true, op->schema.inputs[i].is_written));
  for (uint32_t o = 0; o < op->output_count; o++)
    TN_TRY(put_result_kind(x, call, o));
  uint64_t left = x->client->wanted.memory;
  TN_TRY(tn_exchange_call(x, answer_run, &left));
  TN_TRY(tn_pack_back(x));
  return tn_proxy_results(x, call);
}

tenon_status_t tn_proxy_run(tenon_call_t *call) {
  tn_proxy_t *proxy = call->context;
  uint32_t number;
  TN_TRY(tn_proxy_number(proxy, call->op, &number));
  tenon_status_t status = TENON_OK;
  for (int i = 0; i < TN_TRIES; i++) {
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
