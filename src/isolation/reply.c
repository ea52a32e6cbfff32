/* Reads and checks the replies of worker processes; see reply.h. Called by the proxies after an
 * exchange, whose reply is a private copy. Invariant: nothing is handed on before the last byte of
 * the reply has been read and found right. */
#include "isolation/reply.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/scratch.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dispatch/infer.h"
#include "operator/op.h"

tenon_status_t tn_reply_malformed(const tn_exchange_t *x, const char *what) {
  return tn_fail(TENON_INTERNAL, "%s: its isolated process sent %s", x->name, what);
}

static tenon_status_t finish_reply(const tn_exchange_t *x) {
  if (!x->reply.failed && x->reply.at == x->reply.size) return TENON_OK;
  return tn_reply_malformed(x, "a reply that is shorter or longer than what it describes");
}

static void *scratch_of_reply(const tn_exchange_t *x, uint64_t count, size_t size) {
  void *memory = count <= TN_MESSAGE_SIZE ? tn_scratch((size_t)count * size + 64) : NULL;
  if (!memory) (void)tn_fail(TENON_MEMORY, "%s: out of memory for a reply", x->name);
  return memory;
}

/* Elements of these types hold addresses, which would be those of the worker process. */
static bool is_plain(tenon_dtype_t dtype) {
  return tn_dtype_index(dtype) >= 0 && !tn_dtype_is(dtype, TENON_STRING) &&
         !tn_dtype_is(dtype, TENON_LIST);
}

/* results of RUN */

static tenon_status_t read_shape(tn_exchange_t *x, tn_reply_tensor_t *out) {
  out->ndim = (int32_t)tn_get_between(&x->reply, 0, TENON_RANK_MAX);
  const void *extents = tn_get_numbers(&x->reply, (uint64_t)out->ndim);
  if (!(out->shape = scratch_of_reply(x, (uint64_t)out->ndim, sizeof *out->shape)))
    return TENON_MEMORY;
  if (extents && out->ndim) memcpy(out->shape, extents, (size_t)out->ndim * sizeof *out->shape);
  out->count = x->reply.failed ? -1 : tn_shape_count(out->ndim, out->shape);
  return out->count < 0 ? tn_reply_malformed(x, "a result with an invalid shape") : TENON_OK;
}

static bool has_shape(const tenon_tensor_t *t, const tn_reply_tensor_t *said) {
  return t->ndim == said->ndim &&
         (!t->ndim || !memcmp(t->shape, said->shape, (size_t)t->ndim * sizeof *t->shape));
}

static tenon_status_t read_dense(tn_exchange_t *x, const tenon_tensor_t *t,
                                 tn_reply_tensor_t *out) {
  const tenon_dtype_t dtype = tenon_dtype((uint32_t)tn_get(&x->reply));
  TN_TRY(read_shape(x, out));
  out->offset = tn_get(&x->reply);
  if (x->reply.failed || !is_plain(dtype) || !tn_dtype_same(dtype, t->dtype))
    return tn_reply_malformed(x, "a result whose dtype differs from the expected one");
  if (!tn_dtype_bytes(dtype, out->count, &out->size) ||
      !tn_exchange_name(x, out->offset, out->size))
    return tn_reply_malformed(x, "a result outside the memory that was given for it");
  return TENON_OK;
}

static tenon_status_t read_list(tn_exchange_t *x, const tenon_tensor_t *list,
                                tn_reply_tensor_t *out) {
  out->count = tn_get_between(&x->reply, 0, TN_MESSAGE_SIZE);
  if (x->reply.failed || !tn_dtype_is(list->dtype, TENON_LIST) || out->count != list->shape[0])
    return tn_reply_malformed(x, "a list that does not match the expected result");
  if (!(out->items = scratch_of_reply(x, (uint64_t)out->count, sizeof *out->items)))
    return TENON_MEMORY;
  for (int64_t i = 0; i < out->count; i++) {
    const tenon_tensor_t *item = tenon_item(list, i);
    out->items[i] = (tn_reply_tensor_t){.kind = TN_WIRE_DENSE};
    if (tn_get(&x->reply) != TN_WIRE_DENSE || x->reply.failed)
      return tn_reply_malformed(x, "a list with an invalid item");
    TN_TRY(read_dense(x, item, &out->items[i]));
    if (item->keys & TN_TENSOR_UNSET || !has_shape(item, &out->items[i]))
      return tn_reply_malformed(x, "an item of a list whose shape differs from the expected one");
  }
  return TENON_OK;
}

static tenon_status_t read_texts(tn_exchange_t *x, const tenon_tensor_t *t,
                                 tn_reply_tensor_t *out) {
  TN_TRY(read_shape(x, out));
  const uint64_t most = (x->reply.size - x->reply.at) / 8; /* a text takes at least 8 bytes */
  if (!tn_dtype_is(t->dtype, TENON_STRING) || (uint64_t)out->count > most)
    return tn_reply_malformed(x, "more strings than its message can hold");
  if (!(out->texts = scratch_of_reply(x, (uint64_t)out->count, sizeof *out->texts)))
    return TENON_MEMORY;
  for (int64_t i = 0; i < out->count; i++) {
    uint64_t size;
    const char *text = tn_get_bytes(&x->reply, &size);
    out->texts[i] = (tenon_string_t){size ? text : "", size};
  }
  return x->reply.failed ? tn_reply_malformed(x, "fewer texts than its result has") : TENON_OK;
}

static tenon_status_t read_result(tn_exchange_t *x, const tenon_tensor_t *t,
                                  tn_reply_tensor_t *out) {
  const uint64_t kind = tn_get(&x->reply);
  /* Results that the kernel creates. The others lie where the host wants them. */
  const bool is_made = t && (t->keys & TN_TENSOR_UNSET || tn_dtype_is(t->dtype, TENON_LIST) ||
                             tn_dtype_is(t->dtype, TENON_STRING));
  *out = (tn_reply_tensor_t){.kind = (uint32_t)kind};
  if (x->reply.failed || (kind == TN_WIRE_SAME && is_made) || (kind != TN_WIRE_SAME && !t))
    return tn_reply_malformed(x, "no description of a result, or one that was not expected");
  switch (kind) {
  case TN_WIRE_SAME:
    return TENON_OK;
  case TN_WIRE_DENSE:
    return read_dense(x, t, out);
  case TN_WIRE_LIST:
    return read_list(x, t, out);
  case TN_WIRE_TEXTS:
    return read_texts(x, t, out);
  default:
    return tn_reply_malformed(x, "a result of an unknown kind");
  }
}

tenon_status_t tn_reply_results(tn_exchange_t *x, const tenon_call_t *call,
                                tn_reply_tensor_t **out_results) {
  const uint32_t count = call->op->output_count;
  tn_reply_tensor_t *results = scratch_of_reply(x, count, sizeof *results);
  if (!results) return TENON_MEMORY;
  for (uint32_t o = 0; o < count; o++)
    TN_TRY(read_result(x, call->outputs[o], &results[o]));
  *out_results = results;
  return finish_reply(x);
}

/* metas of INFER */

/* Does the schema say that the result is a view of this input (`Tensor(a) x -> Tensor(a)`), and
 * does the host make it? A result with a kernel, or one that is written, has memory of its own. */
static bool may_alias(const tenon_op_t *op, uint32_t o, uint32_t alias) {
  const tn_argument_t *result = &op->schema.outputs[o];
  return op->is_view && result->mark && alias <= op->input_count &&
         op->schema.inputs[alias - 1].mark == result->mark &&
         op->schema.inputs[alias - 1].kind == TENON_KIND_TENSOR;
}

static tenon_status_t check_meta(tn_exchange_t *x, const tenon_infer_t *infer, uint32_t o,
                                 tenon_meta_t *meta, tenon_dtype_t stated) {
  const tenon_op_t *op = infer->op;
  const char *name = op->schema.outputs[o].name;
  if (stated.bits ? !tn_dtype_same(meta->dtype, stated)
                  : tn_dtype_index(meta->dtype) < 0 || tn_dtype_is(meta->dtype, TENON_LIST))
    return tn_fail(TENON_INTERNAL,
                   "%s: its isolated process gave result %s dtype %s: expected %s, as TYPES says",
                   x->name, name, tn_dtype_name(meta->dtype),
                   stated.bits ? tn_dtype_name(stated) : "a dtype of contract 1");
  if (meta->layout)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: result %s is sparse, which isolated operators do not support", x->name,
                   name);
  if (meta->alias && (!may_alias(op, o, meta->alias) || !infer->inputs[meta->alias - 1]))
    return tn_fail(TENON_INTERNAL,
                   "%s: its isolated process made result %s a view of input %u: expected a result "
                   "with memory of its own, unless the schema says 'Tensor(a) x -> Tensor(a)' and "
                   "there is no kernel",
                   x->name, name, meta->alias - 1);
  if (!meta->alias && op->is_view) /* nobody would write its elements */
    return tn_reply_malformed(x, "a view without the input that it is a view of");
  if (meta->value_count && (meta->ndim < 0 || meta->ndim > 1))
    return tn_reply_malformed(x, "the elements of a result that is neither a scalar nor a row");
  if (meta->value_count && meta->ndim == 1 && tenon_is_known(meta->dims[0]) &&
      meta->dims[0].value != meta->value_count)
    return tn_reply_malformed(x, "more or fewer elements than its result has");
  /* Results are made row-major in shared memory; only a view, and a result of an operator without
   * inputs, may have other strides. */
  if (!meta->alias && op->input_count) meta->strided = 0;
  return TENON_OK;
}

static tenon_status_t read_meta(tn_exchange_t *x, tenon_infer_t *infer, uint32_t o,
                                const tn_dim_check_t *check) {
  tenon_meta_t *meta = infer->outputs[o];
  const uint32_t count = meta && meta->items ? meta->count : 0;
  tenon_dtype_t *stated = scratch_of_reply(x, (uint64_t)count + 1, sizeof *stated);
  if (!stated) return TENON_MEMORY;
  for (uint32_t i = 0; i < count; i++)
    stated[i] = meta->items[i]->dtype;
  stated[count] = meta ? meta->dtype : (tenon_dtype_t){0};
  const bool is_there = tn_get_meta(&x->reply, meta, true, check);
  if (x->reply.failed || is_there != (meta != NULL))
    return tn_reply_malformed(x, "a malformed description of its results");
  if (!meta) return TENON_OK;
  if (!meta->items) return check_meta(x, infer, o, meta, stated[0]);
  meta->dtype = stated[count];
  meta->alias = 0;
  meta->layout = 0;
  for (uint32_t i = 0; i < count; i++)
    TN_TRY(check_meta(x, infer, o, meta->items[i], stated[i]));
  return TENON_OK;
}

/* Takes over the extents of a deduced input that were unknown. Known extents stay, whatever the
 * worker process says. */
static tenon_status_t read_deduced(tn_exchange_t *x, tenon_meta_t *meta,
                                   const tn_dim_check_t *check) {
  tenon_meta_t said;
  TN_TRY(tn_meta_room(&said));
  if (!tn_get_meta(&x->reply, &said, false, check))
    return meta || x->reply.failed ? tn_reply_malformed(x, "no description of a deduced input")
                                   : TENON_OK;
  if (!meta) return tn_reply_malformed(x, "a description of an input that is absent");
  const bool is_new = meta->ndim < 0;
  if (said.ndim < 0 || (!is_new && said.ndim != meta->ndim)) return TENON_OK;
  for (int32_t d = 0; d < said.ndim; d++)
    if (tenon_is_known(said.dims[d]) && said.dims[d].value < 0)
      return tn_reply_malformed(x, "a deduced input with a negative extent");
  for (int32_t d = 0; d < said.ndim; d++)
    if (is_new || !tenon_is_known(meta->dims[d])) meta->dims[d] = said.dims[d];
  meta->ndim = said.ndim;
  return TENON_OK;
}

tenon_status_t tn_reply_metas(tn_exchange_t *x, tenon_infer_t *infer, const tn_dim_check_t *check) {
  const tenon_op_t *op = infer->op;
  infer->draws.value = (int64_t)tn_get(&x->reply);
  for (uint32_t i = 0; i < op->input_count; i++)
    if (op->where && op->where[i] & TN_INPUT_DEDUCED)
      TN_TRY(read_deduced(x, infer->inputs[i], check));
  for (uint32_t o = 0; o < op->output_count; o++)
    TN_TRY(read_meta(x, infer, o, check));
  if (!tenon_is_known(infer->draws) || infer->draws.value < -1)
    return tn_reply_malformed(x, "an invalid count of random numbers");
  return finish_reply(x);
}

tenon_status_t tn_reply_state(tn_exchange_t *x, uint64_t *out_id) {
  *out_id = tn_get(&x->reply);
  return finish_reply(x);
}
