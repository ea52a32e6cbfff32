/* The fallback to the CPU: it copies arguments that are on a device to host memory, runs the
 * operator there, and copies back what the operator wrote. It runs as the fallback of a backend or
 * as the kernel of one operator; see tenon_fallback_cpu. Invariants: each range of device memory is
 * copied once, however many arguments view it; overlap and strides stay as they are; nothing on the
 * device changes before the operator has run. */
#include "layers/fallback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/environment.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "dispatch/mixed.h"
#include "dispatch/services.h"
#include "operator/table.h"
#include "storage/device_memory.h"

static int32_t strict; /* nonzero: fallbacks are errors */

enum {
  UNWRITTEN,
  WRITTEN,
  UNDEFINED,
};
/* A range of device memory that arguments view, and its copy on the host. */
typedef struct span_t {
  char *begin;
  char *end;
  const tenon_tensor_t *of; /* one of the tensors that view it */
  char *host;
  bool is_read;
  bool is_written;
  int state; /* UNWRITTEN, ..., while it is copied back */
} span_t;

/* The state of one fallback. */
typedef struct move_t {
  tenon_call_t *call;
  span_t *spans;
  size_t count;
  size_t capacity;
  uint64_t bytes; /* number of bytes copied, in both directions */
} move_t;

/* spans */

static bool is_elsewhere(const tenon_tensor_t *t) { return t && t->keys & TN_KEY_DEVICES; }

/* Whether the addresses of the two tensors can be compared. */
static bool is_beside(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  return a->device.type == b->device.type && a->device.id == b->device.id &&
         (a->data == b->data || !tn_device_has_handles(a->device));
}

/* Adds the memory of one tensor. Spans that overlap are merged into one. */
static tenon_status_t add_span(move_t *m, const tenon_tensor_t *t, bool is_input, bool is_written) {
  char *begin, *end;
  if (!is_elsewhere(t) || t->keys & TN_TENSOR_UNSET || !tn_tensor_span(t, &begin, &end))
    return TENON_OK;
  /* The gaps between the elements are read too, since they are written back as they were. */
  bool has_gaps = t->keys & TN_KEY_STRIDED;
  span_t fresh = {begin, end, t, NULL, is_input || has_gaps, is_written, UNWRITTEN};
  for (size_t i = 0; i < m->count;) {
    span_t *s = &m->spans[i];
    if (!is_beside(s->of, t) || s->begin >= fresh.end || fresh.begin >= s->end) {
      i++;
      continue;
    }
    fresh.is_read |= s->is_read;
    fresh.is_written |= s->is_written;
    if (s->begin < fresh.begin) fresh.begin = s->begin;
    if (s->end > fresh.end) fresh.end = s->end;
    *s = m->spans[--m->count];
    /* The merged span is larger, so it may overlap spans that were compared before. */
    i = 0;
  }
  if (!tn_grow((void **)&m->spans, &m->capacity, m->count, sizeof *m->spans))
    return tn_no_memory("a fallback", 0);
  m->spans[m->count++] = fresh;
  return TENON_OK;
}

static tenon_status_t add_spans(move_t *m, const tenon_tensor_t *t, bool is_input,
                                bool is_written) {
  if (!t) return TENON_OK;
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    for (int64_t i = 0; i < t->shape[0]; i++)
      TN_TRY(add_spans(m, tenon_item(t, i), is_input, is_written));
    return TENON_OK;
  }
  if (t->detail) {
    TN_TRY(add_spans(m, t->detail->scale, true, false));
    TN_TRY(add_spans(m, t->detail->zero_point, true, false));
  }
  return add_span(m, t, is_input, is_written);
}

static tenon_status_t copy_in(move_t *m) {
  for (size_t i = 0; i < m->count; i++) {
    span_t *s = &m->spans[i];
    uint64_t size = (uint64_t)(s->end - s->begin);
    if (!(s->host = tn_allocate_aligned((size_t)size)))
      return tn_no_memory("a copy on the host", (size_t)size);
    if (!s->is_read) continue;
    TN_TRY(tn_bytes_copy(tn_bytes_of(s->of, s->begin), tn_bytes_of_host(s->host), size));
    m->bytes += size;
  }
  return TENON_OK;
}

static span_t *span_of(const move_t *m, const tenon_tensor_t *t) {
  for (size_t i = 0; i < m->count; i++) {
    span_t *s = &m->spans[i];
    if (is_beside(s->of, t) && tn_address(t) >= s->begin && tn_address(t) < s->end) return s;
  }
  return NULL; /* the tensor has no elements */
}

/* How far the copy back has come for an argument. A list of which only a part was written is
 * undefined. */
static int state_of(const move_t *m, const tenon_tensor_t *t) {
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    int state = t->shape[0] ? state_of(m, tenon_item(t, 0)) : WRITTEN;
    for (int64_t i = 1; i < t->shape[0]; i++)
      if (state_of(m, tenon_item(t, i)) != state) return UNDEFINED;
    return state;
  }
  if (t->keys & TN_TENSOR_UNSET) return UNWRITTEN;
  const span_t *s = is_elsewhere(t) ? span_of(m, t) : NULL;
  return s ? s->state : WRITTEN;
}

static void add_names(const move_t *m, int state, const char *word, tn_text_t *text) {
  const tenon_call_t *call = m->call;
  const tenon_op_t *op = call->op;
  const char *separator = word;
  for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
    bool is_input = i < op->input_count;
    const tn_argument_t *argument =
        is_input ? &op->schema.inputs[i] : &op->schema.outputs[i - op->input_count];
    const tenon_tensor_t *t = is_input ? call->inputs[i] : call->outputs[i - op->input_count];
    if (!t || (is_input && !argument->is_written) || state_of(m, t) != state) continue;
    tn_text_add(text, "%s%s%s", separator == word && text->size ? "; " : "", separator,
                argument->name);
    separator = ", ";
  }
}

/* Adds to the message of a failed copy back what has become of each argument that is written to. */
static tenon_status_t tell_states(const move_t *m, tenon_status_t status) {
  tn_text_t text = {0};
  add_names(m, UNDEFINED, "undefined now: ", &text);
  add_names(m, WRITTEN, "written: ", &text);
  add_names(m, UNWRITTEN, "unwritten: ", &text);
  status =
      tn_prefix(status, "%s: copying back failed (%s): ", m->call->op->name, tn_text_get(&text));
  tn_text_clear(&text);
  return status;
}

/* Copies each span that was written from the host to the device. */
static tenon_status_t copy_back(move_t *m) {
  for (size_t i = 0; i < m->count; i++) {
    span_t *s = &m->spans[i];
    uint64_t size = (uint64_t)(s->end - s->begin);
    if (!s->is_written) continue;
    tenon_status_t status =
        tn_bytes_copy(tn_bytes_of_host(s->host), tn_bytes_of(s->of, s->begin), size);
    m->bytes += size;
    s->state = status == TENON_OK ? WRITTEN : UNDEFINED;
    if (status != TENON_OK) return tell_states(m, status);
  }
  return TENON_OK;
}

/* arguments as the CPU sees them */

static void *host_of(const move_t *m, const tenon_tensor_t *t) {
  /* The address of tensors without elements, so that kernels need not check for NULL. */
  static _Alignas(64) char nothing[64];
  const span_t *s = span_of(m, t);
  return s ? s->host + (tn_address(t) - s->begin) : nothing;
}

static tenon_status_t mirror(move_t *m, tenon_tensor_t *t, tenon_tensor_t **out_tensor);

static tenon_status_t mirror_detail(move_t *m, const tenon_detail_t *detail,
                                    const tenon_detail_t **out_detail) {
  tenon_detail_t *copy = tn_scratch(sizeof *copy);
  tenon_tensor_t *scale = NULL;
  tenon_tensor_t *zero_point = NULL;
  if (!copy) return tn_no_memory("a fallback", sizeof *copy);
  *copy = *detail;
  TN_TRY(mirror(m, (tenon_tensor_t *)(uintptr_t)detail->scale, &scale));
  TN_TRY(mirror(m, (tenon_tensor_t *)(uintptr_t)detail->zero_point, &zero_point));
  copy->scale = scale;
  copy->zero_point = zero_point;
  *out_detail = copy;
  return TENON_OK;
}

static tenon_status_t mirror(move_t *m, tenon_tensor_t *t, tenon_tensor_t **out_tensor) {
  *out_tensor = t;
  if (t && t->keys & TN_TENSOR_UNSET) return tn_tensor_unset(t->dtype, TENON_RANK_MAX, out_tensor);
  if (!t || (!is_elsewhere(t) && !tn_dtype_is(t->dtype, TENON_LIST))) return TENON_OK;
  tenon_tensor_t *copy = tn_scratch(sizeof *copy);
  if (!copy) return tn_no_memory("a fallback", sizeof *copy);
  *copy = *t;
  copy->keys = (t->keys & ~(TN_KEY_DEVICES | TN_TENSOR_OWNED)) | TN_KEY_CPU;
  copy->device = (tenon_device_t){1, 0};
  *out_tensor = copy;
  if (!tn_dtype_is(t->dtype, TENON_LIST)) {
    if (is_elsewhere(t)) {
      copy->data = host_of(m, t);
      copy->byte_offset = 0;
    }
    return t->detail ? mirror_detail(m, t->detail, &copy->detail) : TENON_OK;
  }
  tenon_tensor_t **items = tn_scratch((size_t)t->shape[0] * sizeof *items + 64);
  if (!items) return tn_no_memory("a fallback", (size_t)t->shape[0] * sizeof *items);
  for (int64_t i = 0; i < t->shape[0]; i++)
    TN_TRY(mirror(m, tenon_item(t, i), &items[i]));
  copy->data = items;
  return TENON_OK;
}

/* Settles an output whose shape was unknown before the kernel ran: it is in host memory, and is
 * copied to the device if nothing has failed so far. */
static tenon_status_t settle_result(move_t *m, tenon_tensor_t *unallocated, tenon_tensor_t *made,
                                    tenon_device_t device, tenon_status_t status) {
  tenon_tensor_t *there = NULL;
  if (!unallocated) return status;
  const bool is_list =
      tn_dtype_is(unallocated->dtype, TENON_LIST) || tn_dtype_is(made->dtype, TENON_LIST);
  if (is_list && unallocated->keys & TN_TENSOR_UNSET) { /* a list as a value stays on the host */
    if (status == TENON_OK && !(made->keys & TN_TENSOR_UNSET))
      status = tn_unallocated_take(unallocated, made);
    tenon_tensor_release(made);
    return status;
  }
  if (is_list) {
    for (int64_t i = 0; i < unallocated->shape[0]; i++)
      status = settle_result(m, tenon_item(unallocated, i), tenon_item(made, i), device, status);
    return status;
  }
  if (!(unallocated->keys & TN_TENSOR_UNSET)) return status;
  if (status == TENON_OK && !(made->keys & TN_TENSOR_UNSET)) {
    status = tenon_tensor_copy_to(made, device, &there);
    if (status == TENON_OK) status = tn_unallocated_take(unallocated, there);
    if (status == TENON_OK)
      tn_tensor_set_device(unallocated, device);
    else
      status = tell_states(m, status);
    m->bytes += (uint64_t)tenon_count(made) * made->dtype.bits * made->dtype.lanes / 8;
    tenon_tensor_release(there);
  }
  tenon_tensor_release(made);
  return status;
}

static tenon_status_t run_on_cpu(move_t *m) {
  tenon_call_t *call = m->call;
  const tenon_op_t *op = call->op;
  tenon_tensor_t **inputs = tn_scratch((op->input_count + 1) * sizeof *inputs);
  tenon_tensor_t **outputs = tn_scratch((op->output_count + 1) * sizeof *outputs);
  if (!inputs || !outputs) return tn_no_memory("a fallback", 0);
  tenon_device_t device = tn_call_device(call);
  uint64_t keys = TN_KEY_CPU;
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++) {
    status = mirror(m, call->inputs[i], &inputs[i]);
    if (status == TENON_OK && inputs[i]) keys |= inputs[i]->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL);
  }
  uint32_t made = 0;
  for (; made < op->output_count && status == TENON_OK; made++) {
    status = mirror(m, call->outputs[made], &outputs[made]);
    if (status != TENON_OK) break;
    if (outputs[made]) keys |= outputs[made]->keys & (TN_KEY_STRIDED | TN_KEY_DETAIL);
  }
  tenon_tensor_t *const *inputs_before = call->inputs;
  tenon_tensor_t *const *outputs_before = call->outputs;
  /* The workspace is device memory, if there is one. */
  void *workspace = call->workspace;
  if (status == TENON_OK) {
    call->inputs = inputs;
    call->outputs = outputs;
    call->workspace = NULL;
    status = tn_redispatch(call, keys);
    call->inputs = inputs_before;
    call->outputs = outputs_before;
    call->workspace = workspace;
  }
  if (status == TENON_OK) status = copy_back(m);
  for (uint32_t o = 0; o < made; o++)
    status = settle_result(m, call->outputs[o], outputs[o], device, status);
  return status;
}

/* the fallback */

tenon_status_t tenon_fallback_cpu(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  char keys[600];
  if (__atomic_load_n(&strict, __ATOMIC_RELAXED))
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: no kernel for %s, and falling back to the CPU is switched off (strict)",
                   op->name,
                   tn_keys_print(tn_frame_of(call)->keys & TN_KEY_DEVICES, keys, sizeof keys));
  if (strcmp(op->name, "core::allocate") == 0 || strcmp(op->name, "core::copy") == 0)
    return tn_fail(TENON_UNIMPLEMENTED,
                   "%s: no kernel for %s: each device must have one, it cannot fall back", op->name,
                   tn_keys_print(tn_frame_of(call)->keys & TN_KEY_DEVICES, keys, sizeof keys));
  TN_TRY(tn_mixed_check(call));
  move_t m = {.call = call};
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++)
    status = add_spans(&m, call->inputs[i], true, op->schema.inputs[i].is_written);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    status = add_spans(&m, call->outputs[o], call->accumulate >> o & 1, true);
  if (status == TENON_OK) status = copy_in(&m);
  if (status == TENON_OK) status = run_on_cpu(&m);
  for (size_t i = 0; i < m.count; i++)
    tn_release_aligned(m.spans[i].host);
  tn_release_memory(m.spans);
  tn_scratch_reset(mark);
  if (tn_thread()->is_measuring) return status;
  tn_copy_counts_t *counts = (tn_copy_counts_t *)(uintptr_t)&op->fallbacks;
  __atomic_fetch_add(&counts->count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counts->bytes, m.bytes, __ATOMIC_RELAXED);
  return status;
}

void tn_fallback_install(void) {
  tn_table_run_set(TN_RUN_FALLBACK_CPU, tenon_fallback_cpu);
  const char *text = tn_environment("TENON_STRICT");
  if (text && strcmp(text, "1") == 0) tenon_strict_set(1);
}

void tenon_strict_set(int32_t is_on) { __atomic_store_n(&strict, is_on != 0, __ATOMIC_RELAXED); }

tenon_status_t tenon_fallback_report(char **out_text) {
  return tn_copies_report(offsetof(struct tenon_op_t, fallbacks), out_text);
}
