/* Executes the verbs of calls, in a worker process. Each channel entry has a thread, which calls
 * tn_entry_serve for every message. */
#include "isolation/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/reason.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "core/value.h"
#include "dispatch/call.h"
#include "dispatch/infer.h"
#include "dispatch/services.h"
#include "isolation/unpack.h"
#include "operator/attrs.h"
#include "operator/state.h"

typedef struct state_t { /* a state of an operator, created by CREATE; its number is its index */
  const tenon_op_t *op;
  tenon_value_t *attrs;
  void *state;
  tn_arena_t arena;
} state_t;

/* Protects `states`. */
static tn_mutex_t lock = TN_MUTEX_INIT;
static state_t **states;
static size_t state_count, state_capacity;

static tn_wire_t begin_question(tn_channel_entry_t *entry, uint64_t ask_host) {
  tn_wire_t wire = tn_wire(entry->area, TN_MESSAGE_SIZE);
  tn_put(&wire, ask_host);
  return wire;
}

/* Sends a question to the host and waits. `*out_answer` is positioned after the status. */
static tenon_status_t ask_host(tn_channel_entry_t *entry, const tn_wire_t *wire,
                               tn_wire_t *out_answer) {
  tn_doorbell_t *doorbell = entry->doorbell;
  uint32_t state = __atomic_load_n(&doorbell->state, __ATOMIC_ACQUIRE);
  if (wire->failed)
    return tn_fail(TENON_RANGE, "a question to the host does not fit into a message");
  doorbell->size = wire->at;
  tn_doorbell_ring(&doorbell->state, state, TN_ENTRY_ASK, &doorbell->host_sleeps);
  tn_doorbell_wait(&doorbell->state, TN_ENTRY_ASK, &doorbell->child_sleeps, &entry->spin, 0);
  *out_answer = tn_wire(entry->area, TN_MESSAGE_SIZE);
  const tenon_status_t status = (tenon_status_t)tn_get(out_answer);
  const char *text = tn_get_text(out_answer);
  if (status == TENON_OK) return status;
  return tn_fail(status, "%s", text ? text : "the host refused without a reason");
}

typedef struct child_infer_t {
  tenon_infer_t infer; /* first member: what the operator sees */
  tn_channel_entry_t *entry;
  uint32_t number; /* of the operator */
  tenon_status_t status;
} child_infer_t;

/* Computes with known numbers here. Operations on symbolic extents are sent to the host. */
static tenon_dim_t ask_dim(tenon_infer_t *serve_infer, uint32_t operation, tenon_dim_t a,
                           tenon_dim_t b) {
  child_infer_t *child = (child_infer_t *)serve_infer;
  if (child->status != TENON_OK) return tenon_extent(0);
  if (tenon_is_known(a) && tenon_is_known(b) && operation != TENON_DIM_BOUND) {
    tn_inference_t local = {
        .infer = {.size = sizeof local.infer, .phase = serve_infer->phase, .op = serve_infer->op}};
    local.infer.host = &tn_host;
    const tenon_dim_t result = tn_dim(&local.infer, operation, a, b);
    child->status = local.status;
    return result;
  }
  tn_wire_t wire = begin_question(child->entry, TN_ASK_DIM);
  tn_wire_t answer;
  tn_put(&wire, operation);
  tn_put(&wire, (uint64_t)a.value);
  tn_put(&wire, (uint64_t)b.value);
  child->status = ask_host(child->entry, &wire, &answer);
  return tenon_extent(child->status == TENON_OK ? (int64_t)tn_get(&answer) : 0);
}

static tenon_status_t ask_list(tenon_infer_t *serve_infer, uint32_t output, uint32_t count) {
  child_infer_t *child = (child_infer_t *)serve_infer;
  tn_wire_t wire = begin_question(child->entry, TN_ASK_LIST);
  tn_wire_t answer;
  tn_put(&wire, output);
  tn_put(&wire, count);
  TN_TRY(ask_host(child->entry, &wire, &answer));
  tenon_meta_t *meta = output < serve_infer->op->output_count ? serve_infer->outputs[output] : NULL;
  if (!meta) return TENON_OK;
  const tenon_dtype_t dtype = tenon_dtype((uint32_t)tn_get(&answer));
  tenon_meta_t *items = tn_scratch(count * (sizeof *items + sizeof items) + 64);
  tenon_meta_t **pointers = (tenon_meta_t **)(items + count);
  if (!items) return tn_no_memory("inference", count * sizeof *items);
  for (uint32_t i = 0; i < count; i++) {
    TN_TRY(tn_meta_room(&items[i]));
    items[i].dtype = dtype;
    pointers[i] = &items[i];
  }
  meta->items = pointers;
  meta->count = count;
  return TENON_OK;
}

static const tenon_host_t *host_services(void) {
  static tenon_host_t host;
  tenon_host_t mine = tn_host;
  mine.dim = ask_dim;
  mine.list = ask_list;
  if (!host.size) host = mine; /* every thread writes the same values */
  return &host;
}

typedef struct arguments_t {
  const tenon_op_t *op;
  uint32_t number;
  const state_t *state;       /* NULL: none */
  const tenon_value_t *attrs; /* NULL: defaults */
} arguments_t;

/* The host never sends a malformed message. Some code of this process has overwritten one, so the
 * process ends and is started again. */
static _Noreturn void malformed(void) { abort(); }

static tenon_status_t get_arguments(tn_channel_entry_t *entry, tn_unpack_t *u, arguments_t *out) {
  const uint64_t number = tn_get(&u->wire);
  if (number >= entry->worker->op_count) malformed();
  *out = (arguments_t){.op = entry->worker->ops[number], .number = (uint32_t)number};
  if (!out->op)
    return tn_fail(TENON_NOT_FOUND,
                   "the operator does not exist in the isolated library's process");
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

static void *state_of_arguments(const arguments_t *a) { return a->state ? a->state->state : NULL; }
static const tenon_value_t *attrs_of(const arguments_t *a) {
  return a->attrs ? a->attrs : a->op->defaults;
}

/* Does infer leave shapes of results open? In this case the kernel creates the results. */
static tenon_status_t check_bounds(const arguments_t *a, tenon_tensor_t *const *inputs,
                                   uint64_t wanted, bool *out_has) {
  tn_inference_t inference = {0};
  tenon_meta_t **in, **out;
  void *state = state_of_arguments(a);
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

static tenon_status_t move_tensor_out(tn_channel_entry_t *entry, const tenon_tensor_t *made,
                                      uint64_t *out_offset) {
  uint64_t size = 0;
  tn_wire_t wire = begin_question(entry, TN_ASK_MEMORY);
  tn_wire_t answer;
  if (!tn_dtype_bytes(made->dtype, tenon_count(made), &size))
    return tn_fail(TENON_RANGE, "a result is too large for the memory shared with the host");
  tn_put(&wire, size);
  TN_TRY(ask_host(entry, &wire, &answer));
  *out_offset = tn_get(&answer);
  int64_t strides[TENON_RANK_MAX];
  tenon_tensor_t to;
  TN_TRY(tenon_tensor_view(&to, entry->worker->mailbox + *out_offset, made->dtype, made->ndim,
                           made->shape, NULL, strides));
  return tn_tensor_copy_into(made, &to);
}

typedef struct result_t { /* what the reply says about one result */
  uint32_t kind;
  tenon_tensor_t *made;
  uint64_t offset;   /* of a dense result */
  uint64_t *offsets; /* of a list's items */
} result_t;

static tenon_status_t move_result(tn_channel_entry_t *entry, result_t *r) {
  if (!r->made || tn_dtype_is(r->made->dtype, TENON_STRING)) return TENON_OK;
  if (!tn_dtype_is(r->made->dtype, TENON_LIST)) return move_tensor_out(entry, r->made, &r->offset);
  const int64_t count = r->made->shape[0];
  if (!(r->offsets = tn_scratch((size_t)count * sizeof *r->offsets + 64)))
    return tn_no_memory("results", (size_t)count);
  for (int64_t i = 0; i < count; i++)
    TN_TRY(move_tensor_out(entry, tenon_item(r->made, i), &r->offsets[i]));
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
    tn_put(wire, TN_WIRE_SAME); /* already where the host wants it */
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

static tenon_status_t set_random(tn_channel_entry_t *entry, tn_unpack_t *u) {
  const bool has_numbers = tn_get(&u->wire);
  if (!has_numbers) return TENON_OK;
  const uint64_t number = tn_get(&u->wire);
  const uint64_t offset = tn_get(&u->wire);
  if (!entry->generator) TN_TRY(tenon_generator_create(number, &entry->generator));
  tenon_generator_seed_set(entry->generator, number);
  tenon_generator_offset_set(entry->generator, offset);
  tenon_generator_use(entry->generator);
  return TENON_OK;
}

static tenon_status_t serve_run(tn_channel_entry_t *entry, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  tenon_tensor_t *inputs[64], *outputs[64], *given[64];
  result_t results[64];
  uint64_t wanted = (uint64_t)1 << 63;
  bool has_bounds;
  TN_TRY(get_arguments(entry, u, &a));
  TN_TRY(set_random(entry, u));
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
  tenon_status_t status = tn_call_request(&(tn_request_t){
      a.op, a.attrs, state_of_arguments(&a), inputs, outputs, wanted, true, NULL, false});
  for (uint32_t o = 0; o < count && status == TENON_OK; o++)
    results[o].made = given[o] == outputs[o] ? NULL : outputs[o];
  for (uint32_t o = 0; o < count && status == TENON_OK; o++)
    status = move_result(entry, &results[o]);
  if (status == TENON_OK) {
    tn_put(reply, TENON_OK);
    tn_put_text(reply, NULL);
    for (uint32_t o = 0; o < count; o++)
      put_result(reply, &results[o]);
    if (reply->failed)
      status =
          tn_fail(TENON_RANGE, "%s: the texts of its results do not fit into a message to the host",
                  a.op->name);
  }
  for (uint32_t o = 0; o < count; o++)
    if (outputs[o] && outputs[o] != given[o]) tenon_tensor_release(outputs[o]);
  return status;
}

static tenon_status_t serve_infer(tn_channel_entry_t *entry, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  tenon_meta_t *inputs[64], *outputs[64];
  uint32_t kind;
  TN_TRY(get_arguments(entry, u, &a));
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
                                   host_services(),
                                   a.op,
                                   attrs_of(&a),
                                   a.op->context,
                                   state_of_arguments(&a),
                                   inputs,
                                   outputs,
                                   {0},
                                   {-1}},
                         .entry = entry,
                         .number = a.number};
  const uint64_t errors = tn_error_count();
  tenon_status_t status =
      tn_reason_complete(a.op->infer(&child.infer), errors, a.op->name, "infer");
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
             ? tn_fail(TENON_RANGE, "%s: the inferred metas do not fit into a message to the host",
                       a.op->name)
             : TENON_OK;
}

static tenon_status_t serve_validate(tn_channel_entry_t *entry, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  TN_TRY(get_arguments(entry, u, &a));
  TN_TRY(tn_attrs_check(a.op, attrs_of(&a)));
  tn_put(reply, TENON_OK);
  tn_put_text(reply, NULL);
  return TENON_OK;
}

/* Copies a value of the message into the state's own memory, including its tensors. */
static tenon_status_t keep_state_value(const tenon_value_t *from, tn_arena_t *arena,
                                       tenon_value_t *to) {
  if (!tn_value_copy(from, arena, to))
    return tn_no_memory("a state of an isolated operator", sizeof *to);
  if (from->kind == TENON_KIND_TENSOR && from->as.tensor)
    return tenon_tensor_copy(from->as.tensor, &to->as.tensor);
  for (uint32_t i = 0; from->kind == TENON_KIND_TENSORS && i < from->count; i++)
    TN_TRY(
        tenon_tensor_copy(from->as.tensors[i], (tenon_tensor_t **)(uintptr_t)&to->as.tensors[i]));
  return TENON_OK;
}

static tenon_status_t serve_create(tn_channel_entry_t *entry, tn_unpack_t *u, tn_wire_t *reply) {
  arguments_t a;
  TN_TRY(get_arguments(entry, u, &a));
  const uint32_t count = a.op->schema.attr_count;
  state_t *made = tn_allocate_zero(1, sizeof *made);
  if (!made || !(made->attrs = tn_arena_array(&made->arena, count + 1, sizeof *made->attrs)))
    return tn_no_memory("a state of an isolated operator", sizeof *made);
  made->op = a.op;
  for (uint32_t i = 0; i < count; i++)
    TN_TRY(keep_state_value(&attrs_of(&a)[i], &made->arena, &made->attrs[i]));
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
  if (!fits) return tn_no_memory("a state of an isolated operator", sizeof *made);
  tn_put(reply, TENON_OK);
  tn_put_text(reply, NULL);
  tn_put(reply, index);
  return TENON_OK;
}

static tenon_status_t serve_destroy(tn_unpack_t *u, tn_wire_t *reply) {
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

void tn_entry_serve(tn_channel_entry_t *entry) {
  const uint64_t size =
      entry->doorbell->size < TN_MESSAGE_SIZE ? entry->doorbell->size : TN_MESSAGE_SIZE;
  tn_scratch_mark_t mark = tn_scratch_mark();
  /* Questions to the host overwrite the message, so it is copied first. */
  void *copy = tn_scratch((size_t)size + 64);
  tn_wire_t reply = tn_wire(entry->area, TN_MESSAGE_SIZE);
  tenon_status_t status = copy ? TENON_OK : tn_no_memory("a message", (size_t)size);
  if (copy) {
    memcpy(copy, entry->area, (size_t)size);
    tn_unpack_t u = {.wire = tn_wire(copy, size), .mailbox = entry->worker->mailbox};
    u.mailbox_size = entry->worker->control->mailbox_size;
    switch (tn_get(&u.wire)) {
    case TN_VERB_RUN:
      status = serve_run(entry, &u, &reply);
      break;
    case TN_VERB_INFER:
      status = serve_infer(entry, &u, &reply);
      break;
    case TN_VERB_VALIDATE:
      status = serve_validate(entry, &u, &reply);
      break;
    case TN_VERB_CREATE:
      status = serve_create(entry, &u, &reply);
      break;
    case TN_VERB_DESTROY:
      status = serve_destroy(&u, &reply);
      break;
    default:
      malformed();
    }
  }
  if (status != TENON_OK) {
    char text[2048];
    reply = tn_wire(entry->area, TN_MESSAGE_SIZE);
    snprintf(text, sizeof text, "%s", tn_error());
    tn_put(&reply, (uint64_t)status);
    tn_put_text(&reply, text);
  }
  tn_scratch_reset(mark);
  entry->doorbell->size = reply.at;
  const uint32_t state = __atomic_load_n(&entry->doorbell->state, __ATOMIC_ACQUIRE);
  tn_doorbell_ring(&entry->doorbell->state, state, TN_ENTRY_REPLY, &entry->doorbell->host_sleeps);
}
