/* Autocast: calls of threads that switched it on run in the precision that suits the operator. The
 * row of its key runs it, and so do the entries of operators that name a precision ("autocast
 * lower", "autocast f32" in the text of a kernel). Invariant: tensors of f64 and of integers, and
 * calls whose outputs are given, are left as they are. */
#include "layers/autocast.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "operator/names.h"
#include "operator/table.h"

/* The rank of a dtype that autocast may change, in the order of width; 0: autocast leaves the dtype
 * alone. */
static int width(tenon_dtype_t dtype) {
  if (tn_dtype_is(dtype, TENON_F32)) return 3;
  if (tn_dtype_is(dtype, TENON_F16)) return 1;
  return tn_dtype_is(dtype, TENON_BF16) ? 2 : 0;
}

/* The dtype to which both widen: f32 for f16 and bf16, neither of which holds the other. */
static tenon_dtype_t wider(tenon_dtype_t a, tenon_dtype_t b) {
  if (!a.bits || tn_dtype_same(a, b)) return b;
  if (width(a) + width(b) == 3) return tenon_dtype(TENON_F32);
  return width(a) > width(b) ? a : b;
}

static tenon_dtype_t thread_dtype(uint64_t keys) {
  const tn_thread_calls_t *calls = &tn_thread()->calls;
  uint64_t backends = tn_key_below(keys, TN_BIT_META + 1);
  uint64_t backend;
  if (!backends) return (tenon_dtype_t){0, 0, 0};
  backend = TN_KEY(tn_key_highest(backends));
  if (calls->autocast_f16 & backend) return tenon_dtype(TENON_F16);
  if (calls->autocast_bf16 & backend) return tenon_dtype(TENON_BF16);
  return (tenon_dtype_t){0, 0, 0};
}

/* casting */

enum { CAST_ATTRS = 8 };
/* core::cast, which the first call that needs the operator looks up */
static const tenon_op_t *cast_op;

static tenon_status_t find_cast(const tenon_op_t **out_op) {
  *out_op = __atomic_load_n(&cast_op, __ATOMIC_ACQUIRE);
  if (*out_op) return TENON_OK;
  *out_op = tn_registry_find("core::cast");
  if (!*out_op || (*out_op)->schema.attr_count > CAST_ATTRS)
    return tn_fail(TENON_INTERNAL, "the built-in operator core::cast is missing");
  __atomic_store_n(&cast_op, *out_op, __ATOMIC_RELEASE);
  return TENON_OK;
}

void tn_autocast_clear(void) { __atomic_store_n(&cast_op, NULL, __ATOMIC_RELEASE); }

/* Casts a tensor to dtype `to`; the frame owns the new tensor. A tensor that has this dtype, or one
 * that autocast leaves alone, is returned as it is. */
static tenon_status_t cast_tensor(tenon_call_t *call, tenon_tensor_t *t, tenon_dtype_t to,
                                  tenon_tensor_t **out_tensor) {
  const tenon_op_t *op;
  tenon_value_t attrs[CAST_ATTRS];
  *out_tensor = t;
  if (!width(t->dtype) || tn_dtype_same(t->dtype, to)) return TENON_OK;
  TN_TRY(find_cast(&op));
  memcpy(attrs, op->defaults, op->schema.attr_count * sizeof *attrs);
  attrs[0] = (tenon_value_t){TENON_KIND_DTYPE, 0, {.dtype = to}};
  tenon_tensor_t *made = NULL;
  TN_TRY(tn_call(op, attrs, &t, &made, 0, NULL));
  *out_tensor = made;
  return tn_frame_keep(tn_frame_of(call), made);
}

static tenon_status_t cast_argument(tenon_call_t *call, tenon_tensor_t *t, tenon_dtype_t to,
                                    tenon_tensor_t **out) {
  if (!tn_dtype_is(t->dtype, TENON_LIST)) return cast_tensor(call, t, to, out);
  tenon_tensor_t **items = tn_scratch((size_t)t->shape[0] * sizeof *items + 64);
  bool changes = false;
  if (!items) return tn_no_memory("autocast", (size_t)t->shape[0] * sizeof *items);
  for (int64_t i = 0; i < t->shape[0]; i++) {
    TN_TRY(cast_tensor(call, tenon_item(t, i), to, &items[i]));
    changes |= items[i] != tenon_item(t, i);
  }
  *out = t;
  if (!changes) return TENON_OK;
  TN_TRY(tenon_tensor_list(items, (int32_t)t->shape[0], out));
  return tn_frame_keep(tn_frame_of(call), *out);
}

/* the dtypes of the inputs */

static tenon_dtype_t widest_of(const tenon_tensor_t *t, tenon_dtype_t so_far) {
  if (!tn_dtype_is(t->dtype, TENON_LIST)) return width(t->dtype) ? wider(so_far, t->dtype) : so_far;
  for (int64_t i = 0; i < t->shape[0]; i++)
    so_far = widest_of(tenon_item(t, i), so_far);
  return so_far;
}

/* The widest dtype among the inputs of one type variable, which must agree on a dtype. */
static tenon_dtype_t agreed(const tenon_call_t *call, uint32_t input) {
  const tn_type_source_t *sources = call->op->types.inputs;
  tenon_dtype_t widest = {0, 0, 0};
  if (sources[input].kind != TN_TYPE_VARIABLE) return widest;
  for (uint32_t i = 0; i < call->op->input_count; i++)
    if (call->inputs[i] && sources[i].kind == TN_TYPE_VARIABLE &&
        sources[i].index == sources[input].index)
      widest = widest_of(call->inputs[i], widest);
  return widest;
}

/* Casts inputs to `to` where the operator accepts that dtype. Other inputs, or all if `to` has no
 * bits, are cast to the dtype on which they agree. */
static tenon_status_t cast_inputs(tenon_call_t *call, tenon_dtype_t to,
                                  tenon_tensor_t **out_inputs) {
  const tenon_op_t *op = call->op;
  for (uint32_t i = 0; i < op->input_count; i++) {
    out_inputs[i] = call->inputs[i];
    if (!call->inputs[i] || op->schema.inputs[i].is_host) continue;
    tenon_dtype_t wanted = to;
    if (!to.bits || !tn_types_admit(&op->types, &op->types.inputs[i], call->attrs, to))
      wanted = agreed(call, i);
    if (wanted.bits) TN_TRY(cast_argument(call, call->inputs[i], wanted, &out_inputs[i]));
  }
  return TENON_OK;
}

/* Whether autocast may choose the dtype of the outputs: none of them is given, and no input is
 * written to. */
static bool is_open(const tenon_call_t *call) {
  for (uint32_t o = 0; o < call->op->output_count; o++)
    if (call->outputs[o] && !(call->outputs[o]->keys & TN_TENSOR_UNSET)) return false;
  return !(call->op->traits & TN_WRITES);
}

/* Runs the call with cast inputs. Calls that the operator makes are not cast, so that its outputs
 * have the dtypes that it declares. */
static tenon_status_t run_casting(tenon_call_t *call, tenon_dtype_t to) {
  if (!is_open(call)) return tenon_call_next(call);
  uint64_t *exclude = &tn_thread()->calls.exclude;
  uint64_t excluded = *exclude;
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_tensor_t *const *before = call->inputs;
  tenon_tensor_t **inputs = tn_scratch((call->op->input_count + 1) * sizeof *inputs);
  if (!inputs) return tn_no_memory("autocast", call->op->input_count * sizeof *inputs);
  *exclude |= TN_KEY(TN_BIT_AUTOCAST);
  tenon_status_t status = cast_inputs(call, to, inputs);
  if (status == TENON_OK) {
    call->inputs = inputs;
    status = tenon_call_next(call);
    call->inputs = before;
  }
  *exclude = excluded;
  tn_scratch_reset(mark);
  return status;
}

/* For operators in neither list: inputs that must have one dtype get the widest of their dtypes.
 * Calls on backends without autocast are left as they are, here and below. */
static tenon_status_t run_autocast(tenon_call_t *call) {
  if (!thread_dtype(tn_frame_of(call)->keys).bits) return tenon_call_next(call);
  return run_casting(call, (tenon_dtype_t){0, 0, 0});
}

static tenon_status_t run_listed(tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of(call);
  const tn_kernel_words_t *words = &frame->entry->only->words;
  const tenon_dtype_t lower = thread_dtype(frame->keys);
  if (!lower.bits) return tenon_call_next(call);
  if (words->flags & TN_KERNEL_LOWER) return run_casting(call, lower);
  return run_casting(call, tn_dtype_at(__builtin_ctzll(words->dtypes)));
}

/* switching */

tenon_status_t tenon_autocast_set(const char *backend, tenon_dtype_t dtype) {
  tn_thread_calls_t *calls = &tn_thread()->calls;
  tn_backend_t *found;
  TN_TRY(tenon_start());
  if (!backend)
    return tn_fail(TENON_INVALID, "autocast: expected the name of a backend, found NULL");
  TN_TRY(tn_backend_intern(backend, &found));
  bool is_f16 = tn_dtype_is(dtype, TENON_F16);
  bool is_bf16 = tn_dtype_is(dtype, TENON_BF16);
  if (dtype.bits && !is_f16 && !is_bf16)
    return tn_fail(TENON_INVALID, "autocast on %s to %s: expected f16, bf16, or no dtype (off)",
                   backend, tn_dtype_name(dtype));
  uint64_t bit = TN_KEY(found->bit);
  uint64_t key = TN_KEY(TN_BIT_AUTOCAST);
  calls->autocast_f16 = is_f16 ? calls->autocast_f16 | bit : calls->autocast_f16 & ~bit;
  calls->autocast_bf16 = is_bf16 ? calls->autocast_bf16 | bit : calls->autocast_bf16 & ~bit;
  bool any = calls->autocast_f16 | calls->autocast_bf16;
  calls->include = any ? calls->include | key : calls->include & ~key;
  return TENON_OK;
}

tenon_dtype_t tenon_autocast_get(const char *backend) {
  const tn_backend_t *found = backend ? tn_backend_find(backend) : NULL;
  return found ? thread_dtype(TN_KEY(found->bit)) : (tenon_dtype_t){0, 0, 0};
}

void tn_autocast_install(void) {
  tn_table_run_set(TN_RUN_AUTOCAST, run_autocast);
  tn_table_run_set(TN_RUN_AUTOCAST_LISTED, run_listed);
}
