/* Arguments that are not all on one device.  A host tensor without axes may accompany tensors of a
 * device.  Two devices are an error.  Other host tensors are an error or are moved, by the policy
 * of the call, the operator or the thread.  It is called where a kernel of a backend or a fallback
 * is about to run, so calls on the CPU pay nothing.  Invariant: an argument that was moved and is
 * written to is copied back, and each copy is counted with the operator. */
#include "dispatch/mixed.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dispatch/prologue.h"
#include "operator/names.h"
#include "storage/device_memory.h"

/* detection */

/* Packs the device type and ordinal of a tensor into one word; 0: host memory. */
static inline uint64_t device_word(const tenon_tensor_t *t) {
  uint64_t word = 0;
  if (!(t->keys & TN_KEY_DEVICES)) return 0;
  memcpy(&word, &t->device, sizeof word);
  return word | (uint64_t)1 << 63;
}

/* A result without memory is on no device yet, and strings are always on the host. */
static inline bool has_place(const tenon_tensor_t *t) {
  return t && !(t->keys & TN_TENSOR_UNSET) && !tn_dtype_is(t->dtype, TENON_STRING);
}

static inline bool is_free(const tenon_op_t *op, uint32_t i) {
  return op->where && op->where[i] & TN_INPUT_ANYWHERE;
}

enum { NOWHERE = 1 };
/* Returns whether the tensor is in another place than the tensors before it; `place` remembers
 * theirs. */
static bool is_elsewhere(const tenon_tensor_t *t, uint64_t *place) {
  if (!has_place(t)) return false;
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    for (int64_t i = 0; i < t->shape[0]; i++)
      if (is_elsewhere(tenon_item(t, i), place)) return true;
    return false;
  }
  uint64_t found = device_word(t);
  if (*place == NOWHERE) *place = found;
  return *place != found;
}

bool tn_is_mixed(const tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  uint64_t place = NOWHERE;
  uint64_t host = 0;
  for (uint32_t i = 0; i < op->input_count; i++)
    if (!is_free(op, i) &&
        is_elsewhere(call->inputs[i], op->schema.inputs[i].is_host ? &host : &place))
      return true;
  for (uint32_t o = 0; o < op->output_count; o++)
    if (is_elsewhere(call->outputs[o], op->schema.outputs[o].is_host ? &host : &place)) return true;
  return false;
}

/* survey of the arguments */

typedef struct survey_t {
  uint64_t place;        /* the first device, as device_word packs it */
  tenon_device_t device; /* the first device */
  bool has_two;
  tn_text_t placed; /* arguments on devices */
  tn_text_t strays; /* other arguments in host memory */
  tn_text_t absent; /* arguments that are declared @host and are on a device */
  uint32_t scalars; /* number of host inputs without axes */
} survey_t;

static void add_name(tn_text_t *text, const char *name, int64_t item) {
  tn_text_add(text, "%s%s", text->size ? ", " : "", name);
  if (item >= 0) tn_text_add(text, "[%lld]", (long long)item);
}

static void add_placed(tn_text_t *text, const char *name, int64_t item, tenon_device_t device) {
  const tn_backend_t *backend = tn_backend_of(device);
  add_name(text, name, item);
  tn_text_add(text, " on %s", backend ? backend->name : "an unknown device");
  if (backend && device.type == 12) tn_text_add(text, ":%d", (int)(device.id & 255));
}

static void survey_tensor(survey_t *s, const tenon_tensor_t *t, const tn_argument_t *argument,
                          int64_t item, bool is_result) {
  if (!has_place(t)) return;
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    for (int64_t i = 0; i < t->shape[0]; i++)
      survey_tensor(s, tenon_item(t, i), argument, i, is_result);
    return;
  }
  uint64_t place = device_word(t);
  if (argument->is_host) {
    if (place) add_placed(&s->absent, argument->name, item, t->device);
  } else if (place) {
    /* A result on the first device is not listed: the inputs show that device. */
    bool is_told = s->place == place && is_result;
    if (!s->place) {
      s->place = place;
      s->device = t->device;
    }
    s->has_two |= s->place != place;
    if (!is_told) add_placed(&s->placed, argument->name, item, t->device);
  } else if (t->ndim == 0 && !is_result && !argument->is_written) {
    s->scalars++;
  } else {
    add_name(&s->strays, argument->name, item);
  }
}

static survey_t survey_arguments(const tenon_op_t *op, tenon_tensor_t *const *inputs,
                                 tenon_tensor_t *const *outputs) {
  survey_t s = {0};
  for (uint32_t i = 0; i < op->input_count; i++)
    if (!is_free(op, i)) survey_tensor(&s, inputs[i], &op->schema.inputs[i], -1, false);
  for (uint32_t o = 0; outputs && o < op->output_count; o++) {
    bool is_input = false; /* whether the output was listed as an input */
    for (uint32_t i = 0; i < op->input_count; i++)
      is_input |= outputs[o] && outputs[o] == inputs[i];
    if (!is_input) survey_tensor(&s, outputs[o], &op->schema.outputs[o], -1, true);
  }
  return s;
}

static void clear_survey(survey_t *s) {
  tn_text_clear(&s->placed);
  tn_text_clear(&s->strays);
  tn_text_clear(&s->absent);
}

/* Returns the policy that decides: that of the current call, the operator's own, or the
 * thread's. */
static int32_t policy_of(const tenon_op_t *op) {
  const tn_thread_calls_t *calls = &tn_thread()->calls;
  int32_t own = __atomic_load_n(&op->mixed, __ATOMIC_RELAXED);
  if (calls->mixed_once) return calls->mixed_once;
  if (own) return own;
  return calls->mixed ? calls->mixed : TENON_MIXED_ERROR;
}

static tenon_status_t judge_survey(const tenon_op_t *op, survey_t *s) {
  if (s->has_two)
    return tn_fail(TENON_INVALID,
                   "%s: arguments on several devices: %s; move them to one (tenon_tensor_copy_to)",
                   op->name, tn_text_get(&s->placed));
  if (s->absent.size)
    return tn_fail(TENON_INVALID,
                   "%s: arguments that are read in host memory (@host) are on a device: %s; copy "
                   "them to the host (tenon_tensor_copy_to)",
                   op->name, tn_text_get(&s->absent));
  if (s->strays.size && policy_of(op) != TENON_MIXED_MOVE)
    return tn_fail(TENON_INVALID,
                   "%s: arguments in host memory: %s, beside %s; copy them there "
                   "(tenon_tensor_copy_to), or let calls do that (tenon_mixed_set)",
                   op->name, tn_text_get(&s->strays), tn_text_get(&s->placed));
  return TENON_OK;
}

tenon_status_t tn_mixed_absent(const tenon_op_t *op, tenon_tensor_t *const *inputs) {
  survey_t s = survey_arguments(op, inputs, NULL);
  s.has_two = false;
  tenon_status_t status = judge_survey(op, &s);
  clear_survey(&s);
  return status;
}

tenon_status_t tn_mixed_ambiguous(const tenon_call_t *call) {
  survey_t s = survey_arguments(call->op, call->inputs, call->outputs);
  s.has_two = true;
  tenon_status_t status = judge_survey(call->op, &s);
  clear_survey(&s);
  return status;
}

static void count_move(const tenon_op_t *op, uint64_t bytes) {
  tn_copy_counts_t *moves = (tn_copy_counts_t *)(uintptr_t)&op->moves;
  __atomic_fetch_add(&moves->count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&moves->bytes, bytes, __ATOMIC_RELAXED);
}

tenon_status_t tn_mixed_check(tenon_call_t *call) {
  if (!tn_is_mixed(call)) return TENON_OK;
  survey_t s = survey_arguments(call->op, call->inputs, call->outputs);
  tenon_status_t status = judge_survey(call->op, &s);
  if (status == TENON_OK && s.strays.size) count_move(call->op, 0);
  clear_survey(&s);
  return status;
}

tenon_status_t tn_mixed_begin_parts(const tenon_call_t *call, int32_t *out_before) {
  int32_t *once = &tn_thread()->calls.mixed_once;
  *out_before = *once;
  if (call && !(tn_frame_of_const(call)->keys & TN_KEY_DEVICES)) return TENON_OK;
  if (call && tn_is_mixed(call)) {
    survey_t s = survey_arguments(call->op, call->inputs, call->outputs);
    tenon_status_t status = judge_survey(call->op, &s);
    clear_survey(&s);
    if (status != TENON_OK) return status;
  }
  *once = TENON_MIXED_MOVE;
  return TENON_OK;
}

void tn_mixed_end_parts(int32_t before) { tn_thread()->calls.mixed_once = before; }

/* moving */

typedef struct move_t {
  tn_frame_t *frame;
  tenon_device_t device;
  bool moves_scalars;
} move_t;

static uint64_t tensor_bytes(const tenon_tensor_t *t) {
  uint64_t bytes = 0;
  return tn_dtype_bytes(t->dtype, tenon_count(t), &bytes) ? bytes : 0;
}

/* Returns a copy of the tensor on the device, which the frame keeps, or the tensor itself if it
 * need not move. */
static tenon_status_t move_argument(const move_t *m, tenon_tensor_t *t, bool is_read,
                                    bool is_written, tenon_tensor_t **out) {
  *out = t;
  if (!has_place(t)) return TENON_OK;
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    tenon_tensor_t **items = tn_scratch((size_t)t->shape[0] * sizeof *items + 64);
    tenon_tensor_t *list = tn_scratch(sizeof *list);
    if (!items || !list)
      return tn_no_memory("moved arguments", (size_t)t->shape[0] * sizeof *items);
    for (int64_t i = 0; i < t->shape[0]; i++)
      TN_TRY(move_argument(m, tenon_item(t, i), is_read, is_written, &items[i]));
    *list = *t;
    list->keys &= ~TN_TENSOR_OWNED;
    list->data = items;
    *out = list;
    return TENON_OK;
  }
  if (device_word(t) || (t->ndim == 0 && is_read && !is_written && !m->moves_scalars))
    return TENON_OK;
  if (t->detail)
    return tn_fail(TENON_UNIMPLEMENTED, "a %s tensor cannot be moved to a device",
                   tenon_tensor_layout(t));
  if (is_read)
    TN_TRY(tenon_tensor_copy_to(t, m->device, out));
  else
    TN_TRY(tn_device_tensor_create(m->device, t->dtype, t->ndim, t->shape, out));
  TN_TRY(tn_frame_keep(m->frame, *out));
  count_move(m->frame->call.op, tensor_bytes(t));
  return TENON_OK;
}

static tenon_status_t move_back(const tenon_op_t *op, const tenon_tensor_t *moved,
                                tenon_tensor_t *t) {
  if (moved == t || !has_place(t)) return TENON_OK;
  for (int64_t i = 0; tn_dtype_is(t->dtype, TENON_LIST) && i < t->shape[0]; i++)
    TN_TRY(move_back(op, tenon_item(moved, i), tenon_item(t, i)));
  if (tn_dtype_is(t->dtype, TENON_LIST)) return TENON_OK;
  count_move(op, tensor_bytes(t));
  return tn_device_tensor_copy(moved, t);
}

static tenon_status_t run_moved(tenon_call_t *call, const tn_kernel_t *kernel, const move_t *m) {
  const tenon_op_t *op = call->op;
  tenon_tensor_t *const *inputs = call->inputs;
  tenon_tensor_t *const *outputs = call->outputs;
  tenon_tensor_t **in = tn_scratch((op->input_count + op->output_count + 1) * sizeof *in);
  tenon_tensor_t **out = in + op->input_count;
  if (!in) return tn_no_memory("moved arguments", 0);
  for (uint32_t i = 0; i < op->input_count; i++) {
    const tn_argument_t *argument = &op->schema.inputs[i];
    in[i] = inputs[i];
    if (!argument->is_host && !is_free(op, i))
      TN_TRY(move_argument(m, inputs[i], true, argument->is_written, &in[i]));
  }
  for (uint32_t o = 0; o < op->output_count; o++) {
    uint32_t same = 0;
    while (same < op->input_count && (!outputs[o] || inputs[same] != outputs[o]))
      same++;
    out[o] = same < op->input_count ? in[same] : outputs[o];
    bool has_gaps = outputs[o] && outputs[o]->keys & TN_KEY_STRIDED;
    if (same == op->input_count && !op->schema.outputs[o].is_host)
      TN_TRY(move_argument(m, outputs[o], has_gaps, true, &out[o]));
  }
  call->inputs = in;
  call->outputs = out;
  tenon_status_t status = tn_kernel_serve(call, kernel);
  call->inputs = inputs;
  call->outputs = outputs;
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++)
    if (op->schema.inputs[i].is_written && inputs[i]) status = move_back(op, in[i], inputs[i]);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    if (outputs[o]) status = move_back(op, out[o], outputs[o]);
  return status;
}

tenon_status_t tn_mixed_run(tenon_call_t *call, const tn_kernel_t *kernel) {
  survey_t s = survey_arguments(call->op, call->inputs, call->outputs);
  move_t m = {tn_frame_of(call), s.device, !(kernel->words.flags & TN_KERNEL_SCALARS)};
  bool moves = s.strays.size || (s.scalars && m.moves_scalars);
  tenon_status_t status = judge_survey(call->op, &s);
  clear_survey(&s);
  if (status != TENON_OK) return status;
  if (!moves || !s.place) return tn_kernel_serve(call, kernel);
  tn_scratch_mark_t mark = tn_scratch_mark();
  status = run_moved(call, kernel, &m);
  tn_scratch_reset(mark);
  return status;
}

/* policies and reports */

static bool is_policy(int32_t policy) { return policy >= 0 && policy <= TENON_MIXED_MOVE; }

static tenon_status_t no_policy(int32_t policy) {
  return tn_fail(
      TENON_INVALID,
      "%d is no policy for mixed arguments: expected TENON_MIXED_ERROR or TENON_MIXED_MOVE",
      (int)policy);
}

tenon_status_t tenon_mixed_set(int32_t policy) {
  if (!is_policy(policy)) return no_policy(policy);
  tn_thread()->calls.mixed = policy;
  return TENON_OK;
}

tenon_status_t tenon_op_mixed_set(const tenon_op_t *op, int32_t policy) {
  if (!is_policy(policy)) return no_policy(policy);
  op = tn_op_now(op);
  __atomic_store_n((int32_t *)(uintptr_t)&op->mixed, policy, __ATOMIC_RELAXED);
  return TENON_OK;
}

tenon_status_t tenon_op_call_mixed(const tenon_op_t *op, const tenon_value_t *attrs,
                                   tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                                   uint64_t wanted, int32_t policy) {
  if (!is_policy(policy)) return no_policy(policy);
  int32_t before = tn_thread()->calls.mixed_once;
  tn_thread()->calls.mixed_once = policy;
  tenon_status_t status = tenon_op_call(op, attrs, inputs, outputs, wanted);
  tn_thread()->calls.mixed_once = before;
  return status;
}

tenon_status_t tn_copies_report(size_t offset, char **out_text) {
  tn_text_t text = {0};
  const tenon_op_t *const *ops;
  int32_t count;
  TN_TRY(tenon_start());
  TN_TRY(tn_registry_list(&ops, &count));
  for (int32_t i = 0; i < count; i++) {
    const tn_copy_counts_t *counts =
        (const tn_copy_counts_t *)(const void *)((const char *)ops[i] + offset);
    uint64_t calls = __atomic_load_n(&counts->count, __ATOMIC_RELAXED);
    if (calls)
      tn_text_add(&text, "%-40s %10llu %s %14llu bytes copied\n", ops[i]->name,
                  (unsigned long long)calls,
                  offset == offsetof(struct tenon_op_t, moves) ? "moves" : "calls",
                  (unsigned long long)__atomic_load_n(&counts->bytes, __ATOMIC_RELAXED));
  }
  tenon_ops_release(ops);
  uint64_t lookups = offset == offsetof(struct tenon_op_t, fallbacks) ? tn_thread_lookups() : 0;
  if (lookups)
    tn_text_add(&text, "%-40s %10llu look-ups\n", "(backends that share a key)",
                (unsigned long long)lookups);
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

tenon_status_t tenon_move_report(char **out_text) {
  return tn_copies_report(offsetof(struct tenon_op_t, moves), out_text);
}
