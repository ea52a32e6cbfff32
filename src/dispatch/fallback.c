/* Falling back to the CPU: arguments that are on a device are copied to host memory, the operator runs there, and what it
 * wrote is copied back.  Runs as the fallback of a backend or as the kernel of one operator, see tenon_fallback_cpu.
 * Invariants: each stretch of device memory is copied once however many arguments look at it, overlap and strides stay as
 * they are; nothing on the device changes before the operator has run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "dispatch/mixed.h"
#include "dispatch/place.h"

static int32_t strict; /* fallbacks are errors */

typedef struct span_t { /* memory on a device that arguments look at, and its copy on the host */
  char *begin, *end;
  tenon_device_t device;
  char *host;
  bool is_read, is_written;
  const char *writer; /* the first argument that is written, for messages */
} span_t;

typedef struct move_t { /* one fallback */
  tenon_call_t *call;
  span_t *spans;
  size_t count, capacity;
  uint64_t bytes; /* copied, both ways */
} move_t;

/* ---- spans ------------------------------------------------------------------------------------------------------ */

static bool is_elsewhere(const tenon_tensor_t *t) { return t && t->keys & TN_KEY_DEVICES; }

/* Adds the memory of one tensor; spans that touch become one. */
static tenon_status_t add_span(move_t *m, const tenon_tensor_t *t, bool is_input, bool is_written, const char *name) {
  char *begin, *end;
  if (!is_elsewhere(t) || t->keys & TN_TENSOR_UNSET || !tn_place_span(t, &begin, &end)) return TENON_OK;
  bool has_gaps = t->keys & TN_KEY_STRIDED; /* what lies between its elements goes back as it was */
  span_t fresh = {begin, end, t->device, NULL, is_input || has_gaps, is_written, is_written ? name : NULL};
  for (size_t i = 0; i < m->count;) {
    span_t *s = &m->spans[i];
    if (s->device.type != fresh.device.type || s->device.id != fresh.device.id || s->begin >= fresh.end ||
        fresh.begin >= s->end) {
      i++;
      continue;
    }
    fresh.is_read |= s->is_read, fresh.is_written |= s->is_written;
    if (s->writer) fresh.writer = s->writer;
    if (s->begin < fresh.begin) fresh.begin = s->begin;
    if (s->end > fresh.end) fresh.end = s->end;
    *s = m->spans[--m->count];
    i = 0; /* it is larger now */
  }
  if (!tn_grow((void **)&m->spans, &m->capacity, m->count, sizeof *m->spans)) return tn_no_memory("a fallback", 0);
  m->spans[m->count++] = fresh;
  return TENON_OK;
}

static tenon_status_t add_spans(move_t *m, const tenon_tensor_t *t, bool is_input, bool is_written, const char *name) {
  if (!t) return TENON_OK;
  if (tn_dtype_is(t->dtype, TENON_LIST)) {
    for (int64_t i = 0; i < t->shape[0]; i++) TN_TRY(add_spans(m, tenon_item(t, i), is_input, is_written, name));
    return TENON_OK;
  }
  if (t->detail) {
    TN_TRY(add_spans(m, t->detail->scale, true, false, name));
    TN_TRY(add_spans(m, t->detail->zero_point, true, false, name));
  }
  return add_span(m, t, is_input, is_written, name);
}

static tenon_status_t copy_in(move_t *m) {
  for (size_t i = 0; i < m->count; i++) {
    span_t *s = &m->spans[i];
    uint64_t size = (uint64_t)(s->end - s->begin);
    if (!(s->host = tn_allocate_aligned((size_t)size))) return tn_no_memory("a copy on the host", (size_t)size);
    if (!s->is_read) continue;
    TN_TRY(tn_place_copy(s->begin, s->device, s->host, (tenon_device_t){1, 0}, size));
    m->bytes += size;
  }
  return TENON_OK;
}

/* What was written goes back; the message says how far that came. */
static tenon_status_t copy_back(move_t *m) {
  for (size_t i = 0; i < m->count; i++) {
    const span_t *s = &m->spans[i];
    uint64_t size = (uint64_t)(s->end - s->begin);
    if (!s->is_written) continue;
    tenon_status_t status = tn_place_copy(s->host, (tenon_device_t){1, 0}, s->begin, s->device, size);
    m->bytes += size;
    if (status == TENON_OK) continue;
    tn_text_t later = {0};
    for (size_t k = i + 1; k < m->count; k++)
      if (m->spans[k].is_written) tn_text_add(&later, "%s%s", later.size ? ", " : "", m->spans[k].writer);
    status = tn_prefix(status, "%s: copying %s back: its contents are undefined now%s%s: ", m->call->op->name,
                       s->writer, later.size ? ", not written yet: " : "", later.size ? tn_text_get(&later) : "");
    tn_text_clear(&later);
    return status;
  }
  return TENON_OK;
}

/* ---- arguments as the CPU sees them ----------------------------------------------------------------------------- */

static void *host_of(const move_t *m, const tenon_tensor_t *t) {
  for (size_t i = 0; i < m->count; i++) {
    const span_t *s = &m->spans[i];
    if (s->device.type == t->device.type && s->device.id == t->device.id && (char *)t->data >= s->begin &&
        (char *)t->data < s->end)
      return s->host + ((char *)t->data - s->begin);
  }
  return NULL; /* of a tensor without elements */
}

static tenon_status_t mirror(move_t *m, tenon_tensor_t *t, tenon_tensor_t **out_tensor);

static tenon_status_t mirror_detail(move_t *m, const tenon_detail_t *detail, const tenon_detail_t **out_detail) {
  tenon_detail_t *copy = tn_scratch(sizeof *copy);
  tenon_tensor_t *scale = NULL, *zero_point = NULL;
  if (!copy) return tn_no_memory("a fallback", sizeof *copy);
  *copy = *detail;
  TN_TRY(mirror(m, (tenon_tensor_t *)(uintptr_t)detail->scale, &scale));
  TN_TRY(mirror(m, (tenon_tensor_t *)(uintptr_t)detail->zero_point, &zero_point));
  copy->scale = scale, copy->zero_point = zero_point;
  return *out_detail = copy, TENON_OK;
}

static tenon_status_t mirror(move_t *m, tenon_tensor_t *t, tenon_tensor_t **out_tensor) {
  *out_tensor = t;
  if (!t || (!is_elsewhere(t) && !tn_dtype_is(t->dtype, TENON_LIST))) return TENON_OK;
  if (t->keys & TN_TENSOR_UNSET) return tn_tensor_unset(t->dtype, TENON_RANK_MAX, out_tensor);
  tenon_tensor_t *copy = tn_scratch(sizeof *copy);
  if (!copy) return tn_no_memory("a fallback", sizeof *copy);
  *copy = *t;
  copy->keys = (t->keys & ~(TN_KEY_DEVICES | TN_TENSOR_OWNED)) | TN_KEY_CPU, copy->device = (tenon_device_t){1, 0};
  *out_tensor = copy;
  if (!tn_dtype_is(t->dtype, TENON_LIST)) {
    if (is_elsewhere(t)) copy->data = host_of(m, t);
    return t->detail ? mirror_detail(m, t->detail, &copy->detail) : TENON_OK;
  }
  tenon_tensor_t **items = tn_scratch((size_t)t->shape[0] * sizeof *items + 64);
  if (!items) return tn_no_memory("a fallback", (size_t)t->shape[0] * sizeof *items);
  for (int64_t i = 0; i < t->shape[0]; i++) TN_TRY(mirror(m, tenon_item(t, i), &items[i]));
  copy->data = items;
  return TENON_OK;
}

/* A result whose shape only running told: on the host now, it goes to the device. */
static tenon_status_t settle(move_t *m, tenon_tensor_t *slot, tenon_tensor_t *made, tenon_device_t device) {
  tenon_tensor_t *placed = NULL;
  if (made->keys & TN_TENSOR_UNSET) return TENON_OK;
  TN_TRY(tenon_tensor_copy_to(made, device, &placed));
  tenon_status_t status = tn_slot_take(slot, placed);
  if (status == TENON_OK) tn_tensor_place(slot, device);
  m->bytes += (uint64_t)tenon_count(made) * made->dtype.bits * made->dtype.lanes / 8;
  tenon_tensor_release(placed);
  return status;
}

static tenon_status_t run(move_t *m) {
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
  tenon_tensor_t *const *inputs_before = call->inputs, *const *outputs_before = call->outputs;
  if (status == TENON_OK) {
    call->inputs = inputs, call->outputs = outputs;
    status = tn_redispatch(call, keys);
    call->inputs = inputs_before, call->outputs = outputs_before;
  }
  if (status == TENON_OK) status = copy_back(m);
  for (uint32_t o = 0; o < made; o++) {
    if (!call->outputs[o] || !(call->outputs[o]->keys & TN_TENSOR_UNSET)) continue;
    if (status == TENON_OK) status = settle(m, call->outputs[o], outputs[o], device);
    tenon_tensor_release(outputs[o]);
  }
  return status;
}

/* ---- the fallback ----------------------------------------------------------------------------------------------- */

tenon_status_t tenon_fallback_cpu(tenon_call_t *call) {
  const tenon_op_t *op = call->op;
  char keys[600];
  if (__atomic_load_n(&strict, __ATOMIC_RELAXED))
    return tn_fail(TENON_UNIMPLEMENTED, "%s: no kernel for %s, and falling back to the CPU is switched off (strict)",
                   op->name, tn_keys_print(tn_frame_of(call)->keys & TN_KEY_DEVICES, keys, sizeof keys));
  if (strcmp(op->name, "core::allocate") == 0 || strcmp(op->name, "core::copy") == 0)
    return tn_fail(TENON_UNIMPLEMENTED, "%s: no kernel for %s: each device must have one, it cannot fall back",
                   op->name, tn_keys_print(tn_frame_of(call)->keys & TN_KEY_DEVICES, keys, sizeof keys));
  TN_TRY(tn_mixed_check(call));
  move_t m = {.call = call};
  tn_scratch_mark_t mark = tn_scratch_mark();
  tenon_status_t status = TENON_OK;
  for (uint32_t i = 0; i < op->input_count && status == TENON_OK; i++)
    status = add_spans(&m, call->inputs[i], true, op->schema.inputs[i].is_written, op->schema.inputs[i].name);
  for (uint32_t o = 0; o < op->output_count && status == TENON_OK; o++)
    status = add_spans(&m, call->outputs[o], false, true, op->schema.outputs[o].name);
  if (status == TENON_OK) status = copy_in(&m);
  if (status == TENON_OK) status = run(&m);
  for (size_t i = 0; i < m.count; i++) tn_release_aligned(m.spans[i].host);
  tn_release_memory(m.spans);
  tn_scratch_reset(mark);
  tn_copy_counts_t *counts = (tn_copy_counts_t *)(uintptr_t)&op->fallbacks;
  __atomic_fetch_add(&counts->count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&counts->bytes, m.bytes, __ATOMIC_RELAXED);
  return status;
}

void tn_fallback_start(void) {
  const char *text = getenv("TENON_STRICT");
  if (text && strcmp(text, "0") != 0) tenon_strict_set(1);
}

void tenon_strict_set(int32_t is_on) { __atomic_store_n(&strict, is_on != 0, __ATOMIC_RELAXED); }

tenon_status_t tn_copies_report(size_t offset, char **out_text) {
  tn_text_t text = {0};
  const tenon_op_t *const *ops;
  int32_t count;
  TN_TRY(tenon_ops_list(&ops, &count));
  for (int32_t i = 0; i < count; i++) {
    const tn_copy_counts_t *counts = (const tn_copy_counts_t *)(const void *)((const char *)ops[i] + offset);
    uint64_t calls = __atomic_load_n(&counts->count, __ATOMIC_RELAXED);
    if (calls)
      tn_text_add(&text, "%-40s %10llu %s %14llu bytes copied\n", ops[i]->name, (unsigned long long)calls,
                  offset == offsetof(struct tenon_op_t, moves) ? "moves" : "calls",
                  (unsigned long long)__atomic_load_n(&counts->bytes, __ATOMIC_RELAXED));
  }
  tenon_ops_release(ops);
  uint64_t lookups = offset == offsetof(struct tenon_op_t, fallbacks) ? tn_thread_lookups() : 0;
  if (lookups)
    tn_text_add(&text, "%-40s %10llu look-ups\n", "(backends that share a key)", (unsigned long long)lookups);
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

tenon_status_t tenon_fallback_report(char **out_text) {
  return tn_copies_report(offsetof(struct tenon_op_t, fallbacks), out_text);
}
