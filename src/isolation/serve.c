/* The verbs of a call, in a child. */
#include "isolation/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "core/value.h"
#include "dispatch/call.h"
#include "dispatch/infer.h"
#include "dispatch/services.h"
#include "isolation/unpack.h"
#include "operator/attrs.h"
#include "operator/state.h"

typedef struct state_t { /* of an operator: made by CREATE, named by its number */
  const tenon_op_t *op;
  tenon_value_t *attrs;
  void *state;
  tn_arena_t arena;
} state_t;

static tn_mutex_t lock = TN_MUTEX_INIT; /* of the states */
static state_t **states;
static size_t state_count, state_capacity;

/* asking the host */

static tn_wire_t question(tn_seat_t *seat, uint64_t ask) {
  tn_wire_t wire = tn_wire(seat->area, TN_MESSAGE_SIZE);
  tn_put(&wire, ask);
  return wire;
}

/* Gives the answer, behind its status. */
static tenon_status_t ask(tn_seat_t *seat, const tn_wire_t *wire, tn_wire_t *out_answer) {
  tn_bell_t *bell = seat->bell;
  uint32_t state = __atomic_load_n(&bell->state, __ATOMIC_ACQUIRE);
  if (wire->failed) return tn_fail(TENON_RANGE, "a question to the host does not fit");
  bell->size = wire->at;
  tn_bell_ring(&bell->state, state, TN_SLOT_ASK, &bell->host_sleeps);
  tn_bell_wait(&bell->state, TN_SLOT_ASK, &bell->child_sleeps, &seat->patience, 0);
  *out_answer = tn_wire(seat->area, TN_MESSAGE_SIZE);
  const tenon_status_t status = (tenon_status_t)tn_get(out_answer);
  const char *text = tn_get_text(out_answer);
  return status == TENON_OK ? status : tn_fail(status, "%s", text ? text : "the host refuses");
}

/* inference */

typedef struct child_infer_t {
  tenon_infer_t infer; /* first: what the operator sees */
  tn_seat_t *seat;
  uint32_t number; /* of the operator */
  tenon_status_t status;
} child_infer_t;

/* Numbers are reckoned here; what only the host knows, it is asked for. */
static tenon_dim_t dim(tenon_infer_t *infer, uint32_t operation, tenon_dim_t a, tenon_dim_t b) {
  child_infer_t *child = (child_infer_t *)infer;
  if (child->status != TENON_OK) return tenon_extent(0);
  if (tenon_is_known(a) && tenon_is_known(b) && operation != TENON_DIM_BOUND) {
    tn_inference_t local = {
        .infer = {.size = sizeof local.infer, .phase = infer->phase, .op = infer->op}};
    local.infer.host = &tn_host;
    const tenon_dim_t result = tn_dim(&local.infer, operation, a, b);
    child->status = local.status;
    return result;
  }
  tn_wire_t wire = question(child->seat, TN_ASK_DIM);
  tn_wire_t answer;
  tn_put(&wire, operation);
  tn_put(&wire, (uint64_t)a.value);
  tn_put(&wire, (uint64_t)b.value);
  child->status = ask(child->seat, &wire, &answer);
  return tenon_extent(child->status == TENON_OK ? (int64_t)tn_get(&answer) : 0);
}

static tenon_status_t list(tenon_infer_t *infer, uint32_t output, uint32_t count) {
  child_infer_t *child = (child_infer_t *)infer;
  tn_wire_t wire = question(child->seat, TN_ASK_LIST);
  tn_wire_t answer;
  tn_put(&wire, output);
  tn_put(&wire, count);
  TN_TRY(ask(child->seat, &wire, &answer));
  tenon_meta_t *meta = output < infer->op->output_count ? infer->outputs[output] : NULL;
  if (!meta) return TENON_OK;
  const tenon_dtype_t dtype = tenon_dtype((uint32_t)tn_get(&answer));
  tenon_meta_t *items = tn_scratch(count * (sizeof *items + sizeof items) + 64);
  tenon_meta_t **slots = (tenon_meta_t **)(items + count);
  if (!items) return tn_no_memory("inference", count * sizeof *items);
  for (uint32_t i = 0; i < count; i++) {
    TN_TRY(tn_meta_room(&items[i]));
    items[i].dtype = dtype;
    slots[i] = &items[i];
  }
  meta->items = slots;
  meta->count = count;
  return TENON_OK;
}

static const tenon_host_t *services(void) {
  static tenon_host_t host;
  tenon_host_t mine = tn_host;
  mine.dim = dim;
  mine.list = list;
  if (!host.size) host = mine; /* every thread writes the same */
  return &host;
}

/* what a message names */

typedef struct arguments_t {
  const tenon_op_t *op;
  uint32_t number;
  const state_t *state;       /* NULL: none */
  const tenon_value_t *attrs; /* NULL: defaults */
} arguments_t;

/* The host's messages are not: somebody in this process wrote over one, and it is better made
 * anew. */
static _Noreturn void malformed(void) { abort(); }

static tenon_status_t get_arguments(tn_seat_t *seat, tn_unpack_t *u, arguments_t *out) {
  const uint64_t number = tn_get(&u->wire);
  if (number >= seat->worker->op_count) malformed();
  *out = (arguments_t){.op = seat->worker->ops[number], .number = (uint32_t)number};
  if (!out->op)
    return tn_fail(TENON_NOT_FOUND, "the operator is not there, in the isolated library's process");
  if (tn_get(&u->wire) == TN_STATE_KNOWN) {
    const uint64_t index = tn_get(&u->wire);
    tn_mutex_lock(&lock);
    out->state = index < state_count ? states[index] : NULL;
    tn_mutex_unlock(&lock);
    if (!out->state) malformed();
    if (out->state->op == out->op) {
      out->attrs = out->state->attrs;
      (void)tn_get(&u->wire);
      return TENON_OK;
    }
  }
  out->attrs = tn_unpack_values(u, &out->op->schema);
  if (u->wire.failed) malformed();
  return TENON_OK;
}

static void *state_of(const arguments_t *a) { return a->state ? a->state->state : NULL; }
static const tenon_value_t *attrs_of(const arguments_t *a) {
  return a->attrs ? a->attrs : a->op->defaults;
}

/* run */

/* Does infer leave shapes of results to run?  Then run makes them. */
static tenon_status_t check_bounds(const arguments_t *a, tenon_tensor_t *const *inputs,
                                   uint64_t wanted, bool *out_has) {
  tn_inference_t inference = {0};
  tenon_meta_t **in, **out;
  void *state = state_of(a);
  *out_has = false;
  if (!a->op->infer) return TENON_OK;
  TN_TRY(tn_metas_of_inputs(a->op, inputs, &in));
  TN_TRY(tn_metas_of_results(a->op, attrs_of(a), wanted, &out));
  TN_TRY(tn_infer(&inference, a->op, attrs_of(a), state, in, out));
  *out_has = inference.bound_count > 0;
  for (uint32_t o = 0; o < a->op->output_count; o++)
    *out_has |= out[o] && out[o]->ndim < 0;
  return TENON_OK;
}

static tenon_status_t move_out(tn_seat_t *seat, const tenon_tensor_t *made, uint64_t *out_offset) {
  uint64_t size = 0;
  tn_wire_t wire = question(seat, TN_ASK_ROOM);
  tn_wire_t answer;
  if (!tn_dtype_bytes(made->dtype, tenon_count(made), &size))
    return tn_fail(TENON_RANGE, "a result is too large");
  tn_put(&wire, size);
  TN_TRY(ask(seat, &wire, &answer));
  *out_offset = tn_get(&answer);
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t to;
  TN_TRY(tenon_tensor_view(&to, seat->worker->mailbox + *out_offset, made->dtype, made->ndim,
                           made->shape, NULL, strides));
  return tn_tensor_copy_into(made, &to);
}

typedef struct result_t { /* what the reply says of one */
  uint32_t kind;
  tenon_tensor_t *made;
  uint64_t offset;   /* of a dense one */
  uint64_t *offsets; /* of a list's items */
} result_t;

static tenon_status_t move_result(tn_seat_t *seat, result_t *r) {
  if (!r->made || tn_dtype_is(r->made->dtype, TENON_STRING)) return TENON_OK;
  if (!tn_dtype_is(r->made->dtype, TENON_LIST)) return move_out(seat, r->made, &r->offset);
  const int64_t count = r->made->shape[0];
  if (!(r->offsets = tn_scratch((size_t)count * sizeof *r->offsets + 64)))
    return tn_no_memory("results", (size_t)count);
  for (int64_t i = 0; i < count; i++)
    TN_TRY(move_out(seat, tenon_item(r->made, i), &r->offsets[i]));
  return TENON_OK;
}

static void put_dense(tn_wire_t *wire, const tenon_tensor_t *t, uint64_t offset) {
  tn_put(wire, TN_WIRE_DENSE);
  tn_put(wire, tenon_dtype_id(t->dtype));
  tn_put(wire, (uint64_t)t->ndim);
  tn_put_numbers(wire, t->shape, (uint64_t)t->ndim);
  tn_put(wire, offset);
}

static void put_result(tn_wire_t *wire, const result_t *r) {
  const tenon_tensor_t *t = r->made;
  if (!t)
    tn_put(wire, TN_WIRE_SAME); /* nothing to be said: it is where the host wanted it */
  else if (tn_dtype_is(t->dtype, TENON_LIST)) {
    tn_put(wire, TN_WIRE_LIST);
    tn_put(wire, (uint64_t)t->shape[0]);
    for (int64_t i = 0; i < t->shape[0]; i++)
      put_dense(wire, tenon_item(t, i), r->offsets[i]);
  } else if (tn_dtype_is(t->dtype, TENON_STRING)) {
    tn_put(wire, TN_WIRE_TEXTS);
    tn_put(wire, (uint64_t)t->ndim);
    tn_put_numbers(wire, t->shape, (uint64_t)t->ndim);
    for (int64_t i = 0; i < tenon_count(t); i++) {
      const tenon_string_t *text = &((const tenon_string_t *)t->data)[i];
      tn_put_bytes(wire, text->data, text->size);
    }
  } else
    put_dense(wire, t, r->offset);
}

static tenon_status_t seed(tn_seat_t *seat, tn_unpack_t *u) {
  const bool has_numbers = tn_get(&u->wire);
  if (!has_numbers) return TENON_OK;
  const uint64_t number = tn_get(&u->wire);
  const uint64_t offset = tn_get(&u->wire);
  if (!seat->generator) TN_TRY(tenon_generator_create(number, &seat->generator));
  tenon_generator_seed_set(seat->generator, number);
  tenon_generator_offset_set(seat->generator, offset);
  tenon_generator_use(seat->generator);
  return TENON_OK;
}

static tenon_status_t run(tn_seat_t *seat, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  tenon_tensor_t *inputs[64], *outputs[64], *given[64];
  result_t results[64];
  uint64_t wanted = (uint64_t)1 << 63;
  bool has_bounds;
  TN_TRY(get_arguments(seat, u, &a));
  TN_TRY(seed(seat, u));
  uint32_t kind;
  for (uint32_t i = 0; i < a.op->input_count; i++)
    inputs[i] = tn_unpack_tensor(u, &kind);
  u->inputs = inputs;
  for (uint32_t o = 0; o < a.op->output_count; o++) {
    given[o] = tn_unpack_tensor(u, &kind);
    results[o] = (result_t){.kind = kind};
    if (kind != TN_WIRE_ABSENT) wanted |= (uint64_t)1 << o;
  }
  if (u->wire.failed) malformed();
  TN_TRY(check_bounds(&a, inputs, wanted, &has_bounds));
  for (uint32_t o = 0; o < a.op->output_count; o++)
    outputs[o] = has_bounds && results[o].kind != TN_WIRE_SAME ? NULL : given[o];
  const uint32_t count = a.op->output_count;
  for (uint32_t o = 0; o < count; o++)
    given[o] = outputs[o];
  tenon_status_t status = tn_call_request(
      &(tn_request_t){a.op, a.attrs, state_of(&a), inputs, outputs, wanted, true, NULL});
  for (uint32_t o = 0; o < count && status == TENON_OK; o++)
    results[o].made = given[o] == outputs[o] ? NULL : outputs[o];
  for (uint32_t o = 0; o < count && status == TENON_OK; o++)
    status = move_result(seat, &results[o]);
  if (status == TENON_OK) {
    tn_put(reply, TENON_OK);
    tn_put_text(reply, NULL);
    for (uint32_t o = 0; o < count; o++)
      put_result(reply, &results[o]);
    if (reply->failed)
      status = tn_fail(TENON_RANGE, "%s: its results' texts do not fit into a message", a.op->name);
  }
  for (uint32_t o = 0; o < count; o++)
    if (outputs[o] && outputs[o] != given[o]) tenon_tensor_release(outputs[o]);
  return status;
}

/* the others */

static tenon_status_t infer(tn_seat_t *seat, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  tenon_meta_t *inputs[64], *outputs[64];
  uint32_t kind;
  TN_TRY(get_arguments(seat, u, &a));
  if (!a.op->infer) malformed();
  for (uint32_t i = 0; i < a.op->input_count; i++) {
    inputs[i] = tn_unpack_meta(u, false);
    const tenon_tensor_t *value = tn_unpack_tensor(u, &kind);
    if (inputs[i]) inputs[i]->value = value;
  }
  for (uint32_t o = 0; o < a.op->output_count; o++)
    outputs[o] = tn_unpack_meta(u, true);
  if (u->wire.failed) malformed();
  child_infer_t child = {.infer = {sizeof child.infer,
                                   TENON_PHASE_INFER,
                                   services(),
                                   a.op,
                                   attrs_of(&a),
                                   a.op->context,
                                   state_of(&a),
                                   inputs,
                                   outputs,
                                   {0},
                                   {-1}},
                         .seat = seat,
                         .number = a.number};
  tenon_status_t status = a.op->infer(&child.infer);
  if (child.status != TENON_OK) status = child.status;
  if (status != TENON_OK) return status;
  tn_put(reply, TENON_OK);
  tn_put_text(reply, NULL);
  tn_put(reply, (uint64_t)child.infer.draws.value);
  for (uint32_t i = 0; i < a.op->input_count; i++)
    if (a.op->where && a.op->where[i] & TN_INPUT_DEDUCED) tn_put_meta(reply, inputs[i], false);
  for (uint32_t o = 0; o < a.op->output_count; o++)
    tn_put_meta(reply, outputs[o], true);
  return reply->failed
             ? tn_fail(TENON_RANGE, "%s: what it infers does not fit into a message", a.op->name)
             : TENON_OK;
}

static tenon_status_t validate(tn_seat_t *seat, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  TN_TRY(get_arguments(seat, u, &a));
  TN_TRY(tn_attrs_check(a.op, attrs_of(&a)));
  tn_put(reply, TENON_OK);
  tn_put_text(reply, NULL);
  return TENON_OK;
}

/* Tensors of the message become the state's own. */
static tenon_status_t keep_value(const tenon_value_t *from, tn_arena_t *arena, tenon_value_t *to) {
  if (!tn_value_copy(from, arena, to)) return tn_no_memory("a state", sizeof *to);
  if (from->kind == TENON_KIND_TENSOR && from->as.tensor)
    return tenon_tensor_copy(from->as.tensor, &to->as.tensor);
  for (uint32_t i = 0; from->kind == TENON_KIND_TENSORS && i < from->count; i++)
    TN_TRY(
        tenon_tensor_copy(from->as.tensors[i], (tenon_tensor_t **)(uintptr_t)&to->as.tensors[i]));
  return TENON_OK;
}

static tenon_status_t create(tn_seat_t *seat, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  TN_TRY(get_arguments(seat, u, &a));
  const uint32_t count = a.op->schema.attr_count;
  state_t *made = tn_allocate_zero(1, sizeof *made);
  if (!made || !(made->attrs = tn_arena_array(&made->arena, count + 1, sizeof *made->attrs)))
    return tn_no_memory("a state", sizeof *made);
  made->op = a.op;
  for (uint32_t i = 0; i < count; i++)
    TN_TRY(keep_value(&attrs_of(&a)[i], &made->arena, &made->attrs[i]));
  TN_TRY(tn_state_create(a.op, made->attrs, &made->state));
  tn_mutex_lock(&lock);
  size_t index = 0;
  while (index < state_count && states[index])
    index++;
  bool fits = index < state_count ||
              tn_grow((void **)&states, &state_capacity, state_count, sizeof(state_t *));
  if (fits) {
    states[index] = made;
    state_count += index == state_count;
  }
  tn_mutex_unlock(&lock);
  if (!fits) return tn_no_memory("a state", sizeof *made);
  tn_put(reply, TENON_OK);
  tn_put_text(reply, NULL);
  tn_put(reply, index);
  return TENON_OK;
}

static tenon_status_t destroy(tn_unpack_t *u, tn_wire_t *reply) {
  const uint64_t index = tn_get(&u->wire);
  tn_mutex_lock(&lock);
  state_t *state = index < state_count ? states[index] : NULL;
  if (state) states[index] = NULL;
  tn_mutex_unlock(&lock);
  if (state) {
    if (state->op->destroy) state->op->destroy(state->state);
    tn_values_release(state->attrs, state->op->schema.attr_count);
    tn_arena_clear(&state->arena);
    tn_release_memory(state);
  }
  tn_put(reply, TENON_OK);
  tn_put_text(reply, NULL);
  return TENON_OK;
}

void tn_seat_serve(tn_seat_t *seat) {
  const uint64_t size = seat->bell->size < TN_MESSAGE_SIZE ? seat->bell->size : TN_MESSAGE_SIZE;
  tn_scratch_mark_t mark = tn_scratch_mark();
  void *copy = tn_scratch((size_t)size + 64); /* questions to the host take the message's place */
  tn_wire_t reply = tn_wire(seat->area, TN_MESSAGE_SIZE);
  tenon_status_t status = copy ? TENON_OK : tn_no_memory("a message", (size_t)size);
  if (copy) {
    memcpy(copy, seat->area, (size_t)size);
    tn_unpack_t u = {.wire = tn_wire(copy, size), .mailbox = seat->worker->mailbox};
    u.mailbox_size = seat->worker->control->mailbox_size;
    switch (tn_get(&u.wire)) {
    case TN_VERB_RUN:
      status = run(seat, &u, &reply);
      break;
    case TN_VERB_INFER:
      status = infer(seat, &u, &reply);
      break;
    case TN_VERB_VALIDATE:
      status = validate(seat, &u, &reply);
      break;
    case TN_VERB_CREATE:
      status = create(seat, &u, &reply);
      break;
    case TN_VERB_DESTROY:
      status = destroy(&u, &reply);
      break;
    default:
      malformed();
    }
  }
  if (status != TENON_OK) {
    char text[2048];
    reply = tn_wire(seat->area, TN_MESSAGE_SIZE);
    snprintf(text, sizeof text, "%s", tn_error());
    tn_put(&reply, (uint64_t)status);
    tn_put_text(&reply, text);
  }
  tn_scratch_reset(mark);
  seat->bell->size = reply.at;
  const uint32_t state = __atomic_load_n(&seat->bell->state, __ATOMIC_ACQUIRE);
  tn_bell_ring(&seat->bell->state, state, TN_SLOT_REPLY, &seat->bell->host_sleeps);
}
