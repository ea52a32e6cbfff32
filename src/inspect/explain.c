/* Why an entry holds the kernel that it holds, and why the other kernels were declined, in the
 * words of the table.  The trace and tools call it.  Invariant: it only reads; table.c and
 * kernel.c decide. */
#include "inspect/explain.h"

#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/cpu.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "dispatch/launch.h"
#include "dispatch/prologue.h"
#include "inspect/query.h"
#include "operator/kernel.h"
#include "operator/names.h"
#include "operator/table.h"
#include "storage/device_memory.h"

enum { GROUPS_MOST = 24 };
/* Candidates with the same reason. */
typedef struct group_t {
  char reason[160];
  tn_text_t names;
} group_t;

typedef struct explanation_t {
  const tenon_op_t *op;
  const char *key;
  /* The backend of the key, or whose gradients it serves; NULL: neither. */
  const tn_backend_t *backend;
  /* TN_AT_... of the kernels for the key. */
  uint8_t at;
  const tn_table_entry_t *entry;
  int dtype; /* index of the deciding dtype; -1: any */
  tenon_tensor_t *const *inputs;
  tenon_tensor_t *const *outputs; /* NULL: no call is explained */
  /* The device of the backend's plug-in; NULL: there is no plug-in, or it was not started. */
  const tn_ordinal_t *ordinal;
  const tn_kernel_t *taken;
  const char *taken_why;
  group_t groups[GROUPS_MOST];
  int count;
} explanation_t;

static void decline_candidate(explanation_t *e, const char *reason, const char *what,
                              const tn_library_t *library) {
  int i = 0;
  while (i < e->count && strcmp(e->groups[i].reason, reason) != 0)
    i++;
  /* Reasons beyond this number are left out. */
  if (i == GROUPS_MOST) return;
  group_t *g = &e->groups[i];
  if (i == e->count) {
    snprintf(g->reason, sizeof g->reason, "%s", reason);
    e->count++;
  }
  tn_text_add(&g->names, "%s'%s'", g->names.size ? ", " : "", what);
  if (library && library != e->op->library) tn_text_add(&g->names, " [%s]", library->name);
}

/* backends */

/* The first feature that a source kernel needs and the device lacks; NULL: none is known. */
static const char *missing_feature(const explanation_t *e, const tn_kernel_t *k) {
  return k->kind == TN_KIND_SOURCE && e->ordinal ? tn_kernel_lacks(k, e->ordinal) : NULL;
}

static bool is_composite(const tn_kernel_t *k) { return k->kind == TN_KIND_COMPOSITE; }

/* Says why `taken` is preferred to `k` although both could serve. */
static void compare_kernels(const explanation_t *e, const tn_kernel_t *k, const tn_kernel_t *taken,
                            int dtype, char *out, size_t size) {
  int x = tn_kernel_suits(e->op, taken, dtype);
  int y = tn_kernel_suits(e->op, k, dtype);
  if (is_composite(k) && !is_composite(taken))
    snprintf(out, size, "kernels of the backend come before composites");
  else if (x > y && is_composite(k))
    snprintf(out, size, "composite_explicit comes before composite");
  else if (x > y)
    snprintf(out, size, "another suits %s better", tn_dtype_name(tn_dtype_at(dtype)));
  else if (taken->words.isa > k->words.isa)
    snprintf(out, size, "one for %s comes first", tn_cpu_word(taken->words.isa));
  else
    snprintf(out, size, "number %llu is newer", (unsigned long long)taken->number);
}

static const char *argument_name(const tenon_op_t *op, int32_t i) {
  return i < (int32_t)op->input_count ? op->schema.inputs[i].name
                                      : op->schema.outputs[i - (int32_t)op->input_count].name;
}

/* Whether the kernel is the first candidate for any dtype; appends the names of those dtypes. */
static bool is_first_for(const explanation_t *e, const tn_kernel_t *k, tn_text_t *names) {
  bool any = false;
  for (int d = 0; d < TN_DTYPE_COUNT && e->entry->by_dtype; d++)
    if (e->entry->by_dtype[d] && e->entry->by_dtype[d][0] == k) {
      tn_text_add(names, "%s%s", any ? ", " : "", tn_dtype_name(tn_dtype_at(d)));
      any = true;
    }
  return any;
}

/* The first dtype that the kernel could serve and for which the entry has a kernel; -1: none. */
static int first_dtype(const explanation_t *e, const tn_kernel_t *k) {
  for (int d = 0; d < TN_DTYPE_COUNT && e->entry->by_dtype; d++)
    if (e->entry->by_dtype[d] && e->entry->by_dtype[d][0] && tn_kernel_suits(e->op, k, d)) return d;
  return -1;
}

static void decline_kernel(explanation_t *e, const tn_kernel_t *k) {
  char why[160];
  bool is_own = k->words.at == TN_AT_BACKEND && k->backend == e->backend;
  bool passes = k->words.flags & TN_KERNEL_FALLTHROUGH;
  int dtype = e->dtype >= 0 ? e->dtype : first_dtype(e, k);
  int32_t refused = e->inputs ? tn_kernel_refuses(e->op, k, e->inputs, e->outputs) : -1;
  const tn_kernel_t *taken = e->taken;
  if (!taken && dtype >= 0 && e->dtype < 0 && e->entry->by_dtype)
    taken = e->entry->by_dtype[dtype][0];
  if (k->kind == TN_KIND_SOURCE && !tn_kernel_is_of(k, e->backend))
    snprintf(why, sizeof why, "for backends that compile sources");
  else if (missing_feature(e, k))
    snprintf(why, sizeof why, "it needs %s, which %.80s:%d has not", missing_feature(e, k),
             e->ordinal->plugin->name, (int)e->ordinal->context.ordinal);
  else if (k->words.at == TN_AT_BACKEND && !is_own && k->kind != TN_KIND_SOURCE)
    snprintf(why, sizeof why, "for another backend");
  else if (k->words.flags & TN_KERNEL_NO_FALLBACK)
    snprintf(why, sizeof why, "no kernel, but words that deny the fallback");
  else if (!tn_cpu_has(k->words.isa))
    snprintf(why, sizeof why, "this processor has no %s, or may not use it",
             tn_cpu_word(k->words.isa));
  else if (passes)
    snprintf(why, sizeof why, "a newer kernel takes the key");
  else if (e->entry->resolved == TN_RESOLVED_FALLTHROUGH)
    snprintf(why, sizeof why, "a newer registration passes the key by");
  else if (e->entry->by_dtype && e->dtype >= 0 && !tn_kernel_suits(e->op, k, e->dtype))
    snprintf(why, sizeof why, "not for %s", tn_dtype_name(tn_dtype_at(e->dtype)));
  else if (refused >= 0) {
    const tenon_tensor_t *t = refused < (int32_t)e->op->input_count
                                  ? e->inputs[refused]
                                  : e->outputs[refused - (int32_t)e->op->input_count];
    snprintf(why, sizeof why, "not for %s of %s", argument_name(e->op, refused),
             tn_dtype_name(t->dtype));
  } else if (taken)
    compare_kernels(e, k, taken, dtype < 0 ? 0 : dtype, why, sizeof why);
  else if (e->entry->resolved == TN_RESOLVED_FALLBACK)
    snprintf(why, sizeof why, "the backend prefers its fallback to decomposing");
  else
    snprintf(why, sizeof why, "not for any dtype of the operator");
  decline_candidate(e, why, k->text, k->library);
}

/* What an entry with kernels runs for this call: a kernel, or the fallback of the backend. */
static void find_taken(explanation_t *e, const tn_table_entry_t *row) {
  const tn_table_entry_t *entry = e->entry;
  if (e->inputs)
    e->taken = tn_entry_kernel(entry, e->op, e->inputs, e->outputs);
  else if (!entry->by_dtype)
    e->taken = entry->only;
  else if (e->dtype >= 0 && entry->by_dtype[e->dtype])
    e->taken = entry->by_dtype[e->dtype][0];
  e->taken_why = e->taken ? tn_resolution_name(entry->resolved) : NULL;
  bool may_fall = entry->resolved == TN_RESOLVED_DIRECT && row->resolved != TN_RESOLVED_MISSING &&
                  e->dtype >= 0;
  bool prefers = row->is_preferred;
  if (may_fall && !entry->denial && (!e->taken || (is_composite(e->taken) && prefers))) {
    e->taken = NULL;
    e->taken_why = "fallback: its own kernels are not for this dtype";
  }
  if (!e->taken || !missing_feature(e, e->taken)) return;
  bool falls = row->resolved == TN_RESOLVED_FALLBACK && !entry->denial;
  e->taken = NULL;
  e->taken_why = falls ? "fallback: the device has not what its source kernel needs" : NULL;
}

static void explain_backend(explanation_t *e) {
  const tn_table_entry_t *row = tn_table_row(e->backend);
  const tn_table_entry_t *entry = e->entry;
  if (entry->only || entry->by_dtype)
    find_taken(e, row);
  else if (entry->resolved != TN_RESOLVED_MISSING && entry->resolved != TN_RESOLVED_DENIED)
    e->taken_why = tn_resolution_name(entry->resolved);
  tn_text_t firsts = {0};
  bool has_own = false;
  for (const tn_kernel_t *k = e->op->kernels; k; k = k->next) {
    bool is_own = k->words.at == TN_AT_BACKEND && k->backend == e->backend;
    if (k->words.at != TN_AT_BACKEND && k->words.at != TN_AT_EXPLICIT &&
        k->words.at != TN_AT_COMPOSITE)
      continue;
    bool is_taken = k == e->taken || (entry->resolved == TN_RESOLVED_FALLTHROUGH && is_own &&
                                      !has_own && k->words.flags & TN_KERNEL_FALLTHROUGH);
    has_own |= is_own;
    if (is_taken) continue;
    if (e->dtype < 0 && !missing_feature(e, k) && is_first_for(e, k, &firsts)) {
      char why[160];
      snprintf(why, sizeof why, "+resolved by '%s', for %s", tn_resolution_name(entry->resolved),
               tn_text_get(&firsts));
      tn_text_clear(&firsts);
      decline_candidate(e, why, k->text, k->library);
    } else {
      decline_kernel(e, k);
    }
  }
  tn_text_clear(&firsts);
  bool falls = entry->resolved == TN_RESOLVED_FALLBACK ||
               (e->taken_why && strncmp(e->taken_why, "fallback", 8) == 0);
  bool has_kernels = e->taken || (entry->by_dtype && e->dtype < 0);
  if (row->resolved == TN_RESOLVED_FALLBACK && entry->denial)
    decline_candidate(e, "it is denied", "fallback", NULL);
  else if (row->resolved == TN_RESOLVED_FALLBACK && !falls && has_kernels)
    decline_candidate(e, "kernels come first", "fallback", NULL);
  bool serves = e->taken_why || (e->dtype < 0 && entry->by_dtype);
  if (row->resolved == TN_RESOLVED_MISSING && !serves)
    decline_candidate(e, "there is none", "fallback", NULL);
}

/* layers */

/* Why gradients on a backend do not come from a later step of the resolution order. */
static const char *after(const tn_table_entry_t *entry) {
  switch (entry->resolved) {
  case TN_RESOLVED_DIRECT:
    return "a kernel for just this key comes first";
  case TN_RESOLVED_AUTOGRAD:
    return "the autograd kernel for all backends comes first";
  case TN_RESOLVED_COMPOSITE:
    return "the gradient of the composite's parts comes first";
  case TN_RESOLVED_GRADIENT:
    return "the operator's GRADIENT text comes first";
  case TN_RESOLVED_FALLTHROUGH:
    return "a newer registration passes the key by, or composites are hidden by composite_explicit";
  default:
    return "nothing makes it so";
  }
}

static void explain_layer(explanation_t *e) {
  char why[160];
  bool is_gradient = e->at == TN_AT_AUTOGRAD;
  const tn_kernel_t *newest = NULL;
  e->taken = e->entry->only;
  e->taken_why = tn_resolution_name(e->entry->resolved);
  for (const tn_kernel_t *k = e->op->kernels; k; k = k->next) {
    bool is_for_all = is_gradient && k->words.at == TN_AT_AUTOGRAD && !k->backend;
    bool is_own = k->words.at == e->at && (!is_gradient || k->backend == e->backend);
    bool is_part = is_gradient && (k->words.at == TN_AT_COMPOSITE || k->words.at == TN_AT_EXPLICIT);
    if (!is_own && !is_for_all && !is_part) continue;
    if (k == e->taken) {
      newest = k;
      continue;
    }
    if (is_own && newest && newest->words.at == k->words.at && newest->backend == k->backend)
      snprintf(why, sizeof why, "number %llu is newer", (unsigned long long)newest->number);
    else if (k->words.at == TN_AT_EXPLICIT)
      snprintf(why, sizeof why, "composite_explicit is for backends, not for gradients");
    else
      snprintf(why, sizeof why, "%s", after(e->entry));
    if (is_own && !newest && k->words.flags & TN_KERNEL_FALLTHROUGH &&
        e->entry->resolved == TN_RESOLVED_FALLTHROUGH)
      newest = k;
    else
      decline_candidate(e, why, k->text, k->library);
  }
  if (is_gradient && e->op->gradient.text && e->entry->resolved != TN_RESOLVED_GRADIENT)
    decline_candidate(e, after(e->entry), "GRADIENT text", NULL);
}

/* texts */

static void add_groups(explanation_t *e, tn_text_t *text) {
  tn_text_add(text, "explain %s for %s", e->op->name, e->key);
  if (e->dtype >= 0 && e->entry->by_dtype)
    tn_text_add(text, ", %s", tn_dtype_name(tn_dtype_at(e->dtype)));
  if (e->taken)
    tn_text_add(text, ": takes %s [%s], resolved by '%s'", e->taken->text, e->taken->library->name,
                e->taken_why);
  else if (e->taken_why)
    tn_text_add(text, ": takes %s", e->taken_why);
  else if (e->dtype >= 0 || !e->entry->by_dtype)
    tn_text_add(text, ": nothing serves");
  tn_text_add(text, "\n");
  for (int i = 0; i < e->count; i++) {
    bool is_taken = e->groups[i].reason[0] == '+';
    tn_text_add(text, "  %s, %s: %s\n", is_taken ? "takes" : "declined",
                e->groups[i].reason + is_taken, tn_text_get(&e->groups[i].names));
    tn_text_clear(&e->groups[i].names);
  }
}

static void add_explanation(explanation_t *e, tn_text_t *text) {
  if (e->at == TN_AT_BACKEND)
    explain_backend(e);
  else
    explain_layer(e);
  add_groups(e, text);
}

void tn_explain_call(const tenon_call_t *call, tn_text_t *text) {
  const tn_frame_t *frame = tn_frame_of_const(call);
  const tenon_op_t *op = call->op;
  uint64_t keys = frame->keys & tn_op_mask(op);
  int bit = keys ? tn_key_highest(keys) : TN_BIT_CPU;
  tn_named_key_t key;
  char name[300];
  if (frame->entry->resolved == TN_RESOLVED_LAYER || !tn_key_name(bit)) return;
  /* The kernels of the call's own entry do not serve its dtype. The trace explained that entry
   * before it reached the fallback. */
  if (frame->entry->resolved == TN_RESOLVED_FALLBACK &&
      tn_entry_again((tenon_call_t *)(uintptr_t)call) != frame->entry)
    return;
  const tn_backend_t *backend = tn_backend_of_keys(keys ? keys : TN_KEY_CPU);
  if (tn_key_shares_bit(keys)) backend = tn_backend_of(tn_call_device(call));
  if (bit <= TN_BIT_META)
    snprintf(name, sizeof name, "%s", backend ? backend->name : tn_key_name(bit));
  else if (bit == TN_BIT_AUTOGRAD && backend)
    snprintf(name, sizeof name, "autograd %s", backend->name);
  else
    snprintf(name, sizeof name, "%s", tn_key_name(bit));
  if (tn_key_parse(name, &key) != TENON_OK || key.at == TN_AT_NOWHERE) return;
  explanation_t e = {.op = op,
                     .key = name,
                     .backend = key.backend,
                     .at = key.at,
                     .entry = frame->entry,
                     .dtype = tn_deciding_dtype(op, call->inputs),
                     .inputs = call->inputs,
                     .outputs = call->outputs,
                     .ordinal = tn_ordinal_of(tn_call_device(call))};
  add_explanation(&e, text);
}

static tenon_status_t explain_key(const tenon_op_t *op, const char *name, tenon_dtype_t dtype,
                                  tn_text_t *text) {
  tn_named_key_t key;
  const tn_table_entry_t *entry;
  TN_TRY(tn_table_find(op, name, &entry));
  TN_TRY(tn_key_parse(name, &key));
  if (key.at == TN_AT_NOWHERE)
    return tn_fail(TENON_INVALID,
                   "'%s' is a key that no kernels are registered for: nothing is chosen there",
                   name);
  explanation_t e = {.op = op,
                     .key = name,
                     .backend = key.backend,
                     .at = key.at,
                     .entry = entry,
                     .dtype = dtype.bits ? tn_dtype_index(dtype) : -1,
                     .ordinal = key.backend ? tn_ordinal_of(key.backend->device) : NULL};
  if (dtype.bits && e.dtype < 0)
    return tn_fail(TENON_INVALID, "dtype %s decides nothing", tn_dtype_name(dtype));
  add_explanation(&e, text);
  return TENON_OK;
}

tenon_status_t tenon_op_explain(const tenon_op_t *op, const char *key, tenon_dtype_t dtype,
                                char **out_text) {
  tn_text_t text = {0};
  op = tn_op_now(op);
  tn_registry_lock();
  tenon_status_t status = explain_key(op, key, dtype, &text);
  tn_registry_unlock();
  if (status == TENON_OK && !(*out_text = tn_text_take(&text))) status = TENON_MEMORY;
  tn_text_clear(&text);
  return status;
}
