/* Captures a run on a device, and replays it; see capture.h. */
#include "graph/capture.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "device/stream.h"
#include "graph/interpreter.h"
#include "storage/device_memory.h"

/* Captured graphs that are kept: beyond these, the least recently used one is dropped. */
enum { IDLE_MOST = 8 };

typedef struct tn_capture_t {
  struct tn_capture_t *next;
  tenon_stream_t *stream;
  void *native;
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs; /* tensors on the device; outputs may be constants of the graph */
} tn_capture_t;

/* What can be captured */

static const char *refusal_of(const tenon_executable_t *e, const tn_node_t *node) {
  const tenon_op_t *op = node->op;
  if (e->placement.nodes[node - e->graph->nodes].device_index != 0)
    return "does not run on the device";
  if (op->traits & TENON_RANDOM) return "draws new random numbers in each run";
  if (op->create) return "has a state";
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (node->attrs[i].kind == TENON_KIND_GRAPH) return "runs a graph of its own";
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].is_host) return "has a result in host memory";
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->schema.inputs[i].is_written) return "writes to an input";
    for (int32_t k = 0; k < node->operands[i].count && op->schema.inputs[i].is_host; k++)
      if (!e->graph->edges[node->operands[i].edges[k]].constant)
        return "reads a host value that is not constant";
  }
  return NULL;
}

static void refuse_capture(tn_captures_t *r, const char *format, const char *a, const char *b,
                           const char *c) {
  tn_text_t text = {0};
  tn_text_add(&text, format, a, b, c);
  tn_mutex_lock(&r->lock);
  if (!r->reason) r->reason = tn_text_take(&text);
  tn_mutex_unlock(&r->lock);
  tn_text_clear(&text);
  __atomic_store_n(&r->is_on, false, __ATOMIC_RELEASE);
}

void tn_captures_begin(tn_captures_t *r, const tenon_executable_t *e) {
  const tn_plugin_t *plugin = tn_plugin_of(e->placement.devices[0]);
  r->was_wanted = true;
  r->is_on = true;
  if (!plugin || !TN_SLOT(plugin->table, record_begin) || !TN_SLOT(plugin->table, stream_create))
    refuse_capture(r, "%s%s%s", "the device cannot capture work", "", "");
  for (size_t n = 0; n < e->graph->node_count && r->is_on; n++) {
    const char *why = refusal_of(e, &e->graph->nodes[n]);
    if (why)
      refuse_capture(r, "node '%s' (%s) %s", e->graph->nodes[n].name, e->graph->nodes[n].op->name,
                     why);
  }
}

/* Captured graphs */

static void release_captured_tensors(tenon_tensor_t **tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; i++)
    tenon_tensor_release(tensors[i]);
  tn_release_memory(tensors);
}

static void end_capture(const tenon_executable_t *e, tn_capture_t *capture) {
  const tn_ordinal_t *o = capture->stream ? capture->stream->ordinal : NULL;
  /* the run that failed has already reported the failure */
  if (capture->stream) tn_stream_drain(capture->stream);
  if (capture->native) o->table->recording_free(&o->context, capture->native);
  release_captured_tensors(capture->inputs, e->graph->input_count);
  release_captured_tensors(capture->outputs, e->graph->output_count);
  if (capture->stream) tn_stream_keep(capture->stream, false);
  tenon_stream_release(capture->stream);
  tn_release_memory(capture);
}

void tn_captures_end(tn_captures_t *r) {
  for (tn_capture_t *capture = r->idle, *next; capture; capture = next) {
    next = capture->next;
    end_capture(r->executable, capture);
  }
  tn_release_memory(r->reason);
}

static bool has_shapes(const tenon_executable_t *e, const tn_capture_t *capture,
                       tenon_tensor_t *const *inputs) {
  for (size_t i = 0; i < e->graph->input_count; i++) {
    const tenon_tensor_t *a = capture->inputs[i];
    const tenon_tensor_t *b = inputs[i];
    size_t size = (size_t)b->ndim * sizeof *b->shape;
    if (a->ndim != b->ndim || !tn_dtype_same(a->dtype, b->dtype) ||
        (size && memcmp(a->shape, b->shape, size) != 0))
      return false;
  }
  return true;
}

static tn_capture_t *take_capture(tenon_executable_t *e, tenon_tensor_t *const *inputs) {
  tn_mutex_lock(&e->captures.lock);
  tn_capture_t **at = &e->captures.idle;
  tn_capture_t *found;
  while (*at && !has_shapes(e, *at, inputs))
    at = &(*at)->next;
  if ((found = *at)) *at = found->next;
  tn_mutex_unlock(&e->captures.lock);
  return found;
}

/* The most recently used one comes first. */
static void keep_capture(tenon_executable_t *e, tn_capture_t *capture) {
  size_t count = 0;
  tn_capture_t *old = NULL;
  tn_mutex_lock(&e->captures.lock);
  capture->next = e->captures.idle;
  e->captures.idle = capture;
  for (tn_capture_t **at = &e->captures.idle; *at; at = &(*at)->next)
    if (++count > IDLE_MOST) {
      old = *at;
      *at = NULL;
      break;
    }
  tn_mutex_unlock(&e->captures.lock);
  if (old) end_capture(e, old);
}

/* Capturing */

static tenon_status_t prepare_inputs(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                     tn_capture_t *capture) {
  tenon_device_t device = e->placement.devices[0];
  for (size_t i = 0; i < e->graph->input_count; i++) {
    const tenon_tensor_t *x = inputs[i];
    TN_TRY(tn_device_tensor_create(device, x->dtype, x->ndim, x->shape, &capture->inputs[i]));
    TN_TRY(tn_device_tensor_copy(x, capture->inputs[i]));
  }
  return TENON_OK;
}

/* Captures the second run with these shapes: kernels are compiled and memory is cached by then, so
 * that all work goes to the captured graph. */
static tenon_status_t capture_run(tenon_executable_t *e, tn_capture_t *capture) {
  TN_TRY(tn_stream_finish(capture->stream));
  TN_TRY(tn_stream_capture(capture->stream));
  tenon_status_t status = tn_interpreter_values(e, capture->inputs, capture->outputs, NULL);
  tn_text_t why = {0};
  if (status != TENON_OK) tn_text_add(&why, "%s", tn_error());
  tenon_status_t ended = tn_stream_capture_end(capture->stream, &capture->native);
  if (status != TENON_OK) (void)tn_fail(status, "%s", tn_text_get(&why));
  tn_text_clear(&why);
  return status != TENON_OK ? status : ended;
}

static tenon_status_t make_capture(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                                   tn_capture_t **out_capture) {
  tn_capture_t *capture = tn_allocate_zero(1, sizeof *capture);
  tenon_stream_t *before = NULL;
  if (!capture ||
      !(capture->inputs = tn_allocate_zero(e->graph->input_count + 1, sizeof *capture->inputs)) ||
      !(capture->outputs =
            tn_allocate_zero(e->graph->output_count + 1, sizeof *capture->outputs))) {
    if (capture) end_capture(e, capture);
    return tn_no_memory("a captured graph", sizeof *capture);
  }
  tenon_status_t status = tenon_stream_create(e->placement.devices[0], &capture->stream);
  if (status == TENON_OK) {
    tn_stream_keep(capture->stream, true);
    status = tenon_stream_use(e->placement.devices[0], capture->stream, &before);
  }
  bool is_used = status == TENON_OK;
  if (status == TENON_OK) status = prepare_inputs(e, inputs, capture);
  if (status == TENON_OK)
    status = tn_interpreter_values(e, capture->inputs, capture->outputs, NULL);
  for (size_t i = 0; i < e->graph->output_count; i++) {
    tenon_tensor_release(capture->outputs[i]);
    capture->outputs[i] = NULL;
  }
  if (status == TENON_OK) status = capture_run(e, capture);
  if (is_used) (void)tenon_stream_use(e->placement.devices[0], before, NULL);
  if (status != TENON_OK) {
    char *why = tn_copy_text(tn_error(), strlen(tn_error()));
    refuse_capture(&e->captures, "%s%s%s", why ? why : "the run could not be captured", "", "");
    tn_release_memory(why);
    end_capture(e, capture);
  } else
    *out_capture = capture;
  return status;
}

/* Running */

static tenon_status_t replay_capture(tenon_executable_t *e, tn_capture_t *capture,
                                     tenon_tensor_t *const *inputs) {
  static const char *const name = "a captured graph";
  tn_ordinal_t *o = capture->stream->ordinal;
  TN_TRY(tn_stream_check(capture->stream));
  for (size_t i = 0; i < e->graph->input_count; i++)
    TN_TRY(tn_device_tensor_copy(inputs[i], capture->inputs[i]));
  uint64_t ticket = tn_stream_ticket(capture->stream, name);
  const uint64_t errors = tn_error_count();
  tenon_status_t status =
      o->table->replay(&o->context, capture->stream->native, capture->native, ticket);
  status = tn_ordinal_complete(o, errors, "replay", status);
  tn_stream_ended(capture->stream);
  return status == TENON_OK ? status : tn_stream_refused(capture->stream, status, name);
}

tenon_status_t tn_captures_run(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **outputs, bool *out_ran) {
  tenon_stream_t *before = NULL;
  tn_capture_t *capture = take_capture(e, inputs);
  *out_ran = false;
  if (!capture && make_capture(e, inputs, &capture) != TENON_OK)
    return TENON_OK; /* the reason is kept */
  *out_ran = true;
  tenon_status_t status = tenon_stream_use(e->placement.devices[0], capture->stream, &before);
  bool is_used = status == TENON_OK;
  if (status == TENON_OK) status = replay_capture(e, capture, inputs);
  if (status == TENON_OK) status = tn_interpreter_deliver(e, capture->outputs, outputs);
  if (is_used) (void)tenon_stream_use(e->placement.devices[0], before, NULL);
  if (status == TENON_OK) __atomic_add_fetch(&e->captures.replays, 1, __ATOMIC_RELAXED);
  if (status == TENON_OK || !capture->stream->failed)
    keep_capture(e, capture);
  else
    end_capture(e, capture);
  return status;
}

void tn_captures_print(const tn_captures_t *r, tn_text_t *text) {
  size_t count = 0;
  if (!r->was_wanted) return;
  for (const tn_capture_t *capture = r->idle; capture; capture = capture->next)
    count++;
  if (r->reason)
    tn_text_add(text, "not captured: %s\n", r->reason);
  else
    tn_text_add(text, "captured graphs: %zu, replayed %llu times\n", count,
                (unsigned long long)r->replays);
}
