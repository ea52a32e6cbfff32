/* The trace of calls: one line for each call and for each step further down, indented by nesting, on stderr.  Called through
 * the row of the key that tn_key_global sets for every call of the process; when that is off nothing of it runs. */
#include "dispatch/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "base/text.h"
#include "base/thread.h"
#include "core/value.h"
#include "dispatch/call.h"
#include "dispatch/registry.h"
#include "dispatch/table.h"

enum { WITH_ARGS = 1, WITH_TIME = 2 };
static int32_t details; /* set before the key is */

static bool wants(int32_t detail) { return __atomic_load_n(&details, __ATOMIC_RELAXED) & detail; }

/* ---- lines ------------------------------------------------------------------------------------------------------ */

static void add_tensor(tn_text_t *text, const tenon_tensor_t *t) {
  char shape[200];
  if (!t) {
    tn_text_add(text, "None");
  } else if (tn_dtype_is(t->dtype, TENON_LIST)) {
    tn_text_add(text, "[");
    for (int64_t i = 0; i < t->shape[0] && i < 8; i++) {
      if (i) tn_text_add(text, ", ");
      add_tensor(text, tenon_item(t, i));
    }
    tn_text_add(text, t->shape[0] > 8 ? ", ...]" : "]");
  } else {
    tn_text_add(text, "%s%s", tenon_dtype_name(t->dtype), tn_shape_print(t->ndim, t->shape, shape, sizeof shape));
  }
}

static void add_arguments(tn_text_t *text, const tenon_call_t *call) {
  const tn_schema_t *schema = &call->op->schema;
  const char *separator = "";
  tn_text_add(text, " (");
  for (uint32_t i = 0; i < schema->input_count; i++, separator = ", ") {
    tn_text_add(text, "%s", separator);
    add_tensor(text, call->inputs[i]);
  }
  for (uint32_t i = 0; i < schema->attr_count; i++, separator = ", ") {
    tn_text_add(text, "%s%s=", separator, schema->attrs[i].name);
    tn_value_print(&schema->attrs[i], &call->attrs[i], text);
  }
  tn_text_add(text, ")");
}

/* What a slot runs, and by which rule it stands there. */
static void add_slot(tn_text_t *text, const tenon_call_t *call) {
  const tn_slot_t *slot = tn_frame_of_const(call)->slot;
  const tn_kernel_t *kernel = NULL;
  if (slot->only || slot->by_dtype) kernel = tn_slot_kernel(slot, call->op, call->inputs, call->outputs);
  if (kernel) tn_text_add(text, " -> %s [%s, %s]", kernel->text, kernel->library->name, tn_rule_name(slot->rule));
  else tn_text_add(text, " -> %s", tn_rule_name(slot->rule));
}

static void print(tn_text_t *text) {
  tn_text_add(text, "\n");
  if (!text->failed) fputs(tn_text_get(text), stderr); /* one write: lines of threads do not mix */
  tn_text_clear(text);
}

static tenon_status_t finish(tenon_call_t *call, tenon_run_fn run, tn_text_t *text) {
  tn_thread_t *thread = tn_thread();
  int64_t begin = tn_now();
  print(text);
  thread->depth++;
  tenon_status_t status = run(call);
  thread->depth--;
  if (status != TENON_OK || wants(WITH_TIME)) {
    tn_text_add(text, "%*s%s", 2 * (int)thread->depth, "", call->op->name);
    if (status != TENON_OK) tn_text_add(text, " failed: %s", tenon_status_name(status));
    if (wants(WITH_TIME)) tn_text_add(text, " took %.3f us", 1e-3 * (double)(tn_now() - begin));
    print(text);
  }
  return status;
}

static void begin(tn_text_t *text, const tenon_call_t *call, const char *label) {
  char keys[600];
  tn_text_add(text, "%*s%s %s %s", 2 * (int)tn_thread()->depth, "", label, call->op->name,
              tn_keys_print(tn_frame_of_const(call)->keys, keys, sizeof keys));
}

tenon_status_t tn_trace_run(tenon_call_t *call, const char *label) {
  tn_text_t text = {0};
  begin(&text, call, label);
  add_slot(&text, call);
  if (wants(WITH_ARGS) && strcmp(label, "call") == 0) add_arguments(&text, call);
  return finish(call, tn_slot_run, &text);
}

tenon_status_t tn_trace_function(tenon_call_t *call, tenon_run_fn run, const char *label, const char *name) {
  tn_text_t text = {0};
  begin(&text, call, label);
  if (name) tn_text_add(&text, " -> %s", name);
  return finish(call, run, &text);
}

/* The row of the trace's own key: it only hands the call on, which prints it. */
tenon_status_t tn_layer_trace(tenon_call_t *call) {
  return tn_redispatch(call, tn_key_below(tn_frame_of(call)->keys, TN_BIT_TRACE));
}

/* ---- switching -------------------------------------------------------------------------------------------------- */

tenon_status_t tenon_trace_set(const char *what) {
  static const char *const words[] = {"dispatch", "args", "time"};
  int32_t wanted = 0;
  for (const char *at = what ? what : ""; *at; at += *at == ',') {
    size_t size = strcspn(at, ","), i = 0;
    while (i < 3 && (strlen(words[i]) != size || strncmp(words[i], at, size) != 0)) i++;
    if (i == 3)
      return tn_fail(TENON_INVALID, "trace '%.100s': expected dispatch, args or time, with commas between", what);
    wanted |= i == 1 ? WITH_ARGS : i == 2 ? WITH_TIME : 0;
    at += size;
  }
  __atomic_store_n(&details, wanted, __ATOMIC_RELAXED);
  if (what && *what) __atomic_fetch_or(&tn_key_global, TN_KEY(TN_BIT_TRACE), __ATOMIC_RELEASE);
  else __atomic_fetch_and(&tn_key_global, ~TN_KEY(TN_BIT_TRACE), __ATOMIC_RELEASE);
  return TENON_OK;
}

void tn_trace_start(void) {
  const char *what = getenv("TENON_TRACE");
  if (what && tenon_trace_set(what) != TENON_OK) fprintf(stderr, "TENON_TRACE is ignored: %s\n", tn_error());
}
