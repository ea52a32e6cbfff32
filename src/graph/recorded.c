/* Recording a run, and replaying it. */
#include "graph/recorded.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "device/stream.h"
#include "dispatch/place.h"
#include "graph/eager.h"

enum { IDLE_MOST = 8 }; /* recordings that are kept: others are of shapes that came long ago */

typedef struct tn_recording_t {
  struct tn_recording_t *next;
  tenon_stream_t *stream;
  void *native;
  tenon_tensor_t **inputs;
  tenon_tensor_t **outputs; /* on the device; outputs may be constants */
} tn_recording_t;

/* what can be recorded */

static const char *refusal_of(const tenon_executable_t *e, const tn_node_t *node) {
  const tenon_op_t *op = node->op;
  if (e->place.nodes[node - e->graph->nodes].home != 0) return "does not run on the device";
  if (op->traits & TENON_RANDOM) return "draws other numbers each time";
  if (op->create) return "has a state";
  for (uint32_t i = 0; i < op->schema.attr_count; i++)
    if (node->attrs[i].kind == TENON_KIND_GRAPH) return "runs a graph of its own";
  for (uint32_t o = 0; o < op->output_count; o++)
    if (op->schema.outputs[o].is_host) return "has a result on the host";
  for (uint32_t i = 0; i < op->input_count; i++) {
    if (op->schema.inputs[i].is_written) return "writes to an input";
    for (int32_t k = 0; k < node->operands[i].count && op->schema.inputs[i].is_host; k++)
      if (!e->graph->edges[node->operands[i].edges[k]].constant) return "reads a value on the host";
  }
  return NULL;
}

static void refuse(tn_recorded_t *r, const char *format, const char *a, const char *b,
                   const char *c) {
  tn_text_t text = {0};
  tn_text_add(&text, format, a, b, c);
  tn_mutex_lock(&r->lock);
  if (!r->reason) r->reason = tn_text_take(&text);
  tn_mutex_unlock(&r->lock);
  tn_text_clear(&text);
  __atomic_store_n(&r->is_on, false, __ATOMIC_RELEASE);
}

void tn_recorded_begin(tn_recorded_t *r, const tenon_executable_t *e) {
  const tn_plugin_t *plugin = tn_plugin_of(e->place.homes[0]);
  r->was_wanted = true;
  r->is_on = true;
  if (!plugin || !TN_SLOT(plugin->table, record_begin) || !TN_SLOT(plugin->table, stream_create))
    refuse(r, "%s%s%s", "the device records nothing", "", "");
  for (size_t n = 0; n < e->graph->node_count && r->is_on; n++) {
    const char *why = refusal_of(e, &e->graph->nodes[n]);
    if (why)
      refuse(r, "node '%s' (%s) %s", e->graph->nodes[n].name, e->graph->nodes[n].op->name, why);
  }
}

/* recordings */

static void drop(tenon_tensor_t **tensors, size_t count) {
  for (size_t i = 0; tensors && i < count; i++)
    tenon_tensor_release(tensors[i]);
  tn_release_memory(tensors);
}

static void end(const tenon_executable_t *e, tn_recording_t *rec) {
  const tn_ordinal_t *o = rec->stream ? rec->stream->ordinal : NULL;
  if (rec->stream) tn_stream_drain(rec->stream); /* who ran it heard of a failure */
  if (rec->native) o->table->recording_free(&o->context, rec->native);
  drop(rec->inputs, e->graph->input_count);
  drop(rec->outputs, e->graph->output_count);
  if (rec->stream) tn_stream_keep(rec->stream, false);
  tenon_stream_release(rec->stream);
  tn_release_memory(rec);
}

void tn_recorded_end(tn_recorded_t *r) {
  for (tn_recording_t *rec = r->idle, *next; rec; rec = next) {
    next = rec->next;
    end(r->executable, rec);
  }
  tn_release_memory(r->reason);
}

static bool has_shapes(const tenon_executable_t *e, const tn_recording_t *rec,
                       tenon_tensor_t *const *inputs) {
  for (size_t i = 0; i < e->graph->input_count; i++) {
    const tenon_tensor_t *a = rec->inputs[i];
    const tenon_tensor_t *b = inputs[i];
    size_t size = (size_t)b->ndim * sizeof *b->shape;
    if (a->ndim != b->ndim || !tn_dtype_same(a->dtype, b->dtype) ||
        (size && memcmp(a->shape, b->shape, size) != 0))
      return false;
  }
  return true;
}

static tn_recording_t *take(tenon_executable_t *e, tenon_tensor_t *const *inputs) {
  tn_mutex_lock(&e->recorded.lock);
  tn_recording_t **at = &e->recorded.idle;
  tn_recording_t *found;
  while (*at && !has_shapes(e, *at, inputs))
    at = &(*at)->next;
  if ((found = *at)) *at = found->next;
  tn_mutex_unlock(&e->recorded.lock);
  return found;
}

static void give_back(tenon_executable_t *e,
                      tn_recording_t *rec) { /* the one that was used last comes first */
  size_t count = 0;
  tn_recording_t *old = NULL;
  tn_mutex_lock(&e->recorded.lock);
  rec->next = e->recorded.idle;
  e->recorded.idle = rec;
  for (tn_recording_t **at = &e->recorded.idle; *at; at = &(*at)->next)
    if (++count > IDLE_MOST) {
      old = *at;
      *at = NULL;
      break;
    }
  tn_mutex_unlock(&e->recorded.lock);
  if (old) end(e, old);
}

/* making one */

static tenon_status_t prepare(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                              tn_recording_t *rec) {
  tenon_device_t device = e->place.homes[0];
  for (size_t i = 0; i < e->graph->input_count; i++) {
    const tenon_tensor_t *x = inputs[i];
    TN_TRY(tn_place_create(device, x->dtype, x->ndim, x->shape, &rec->inputs[i]));
    TN_TRY(tn_place_copy_into(x, rec->inputs[i]));
  }
  return TENON_OK;
}

/* The second pass over the same shapes: code is compiled, memory is cached, and nothing is enqueued
 * but into the recording. */
static tenon_status_t record(tenon_executable_t *e, tn_recording_t *rec) {
  TN_TRY(tn_stream_finish(rec->stream));
  TN_TRY(tn_stream_capture(rec->stream));
  tenon_status_t status = tn_eager_values(e, rec->inputs, rec->outputs, NULL);
  tn_text_t why = {0};
  if (status != TENON_OK) tn_text_add(&why, "%s", tn_error());
  tenon_status_t ended = tn_stream_capture_end(rec->stream, &rec->native);
  if (status != TENON_OK) (void)tn_fail(status, "%s", tn_text_get(&why));
  tn_text_clear(&why);
  return status != TENON_OK ? status : ended;
}

static tenon_status_t make(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                           tn_recording_t **out_recording) {
  tn_recording_t *rec = tn_allocate_zero(1, sizeof *rec);
  tenon_stream_t *before = NULL;
  if (!rec || !(rec->inputs = tn_allocate_zero(e->graph->input_count + 1, sizeof *rec->inputs)) ||
      !(rec->outputs = tn_allocate_zero(e->graph->output_count + 1, sizeof *rec->outputs))) {
    if (rec) end(e, rec);
    return tn_no_memory("a recording", sizeof *rec);
  }
  tenon_status_t status = tenon_stream_create(e->place.homes[0], &rec->stream);
  if (status == TENON_OK) {
    tn_stream_keep(rec->stream, true);
    status = tenon_stream_use(e->place.homes[0], rec->stream, &before);
  }
  bool is_used = status == TENON_OK;
  if (status == TENON_OK) status = prepare(e, inputs, rec);
  if (status == TENON_OK) status = tn_eager_values(e, rec->inputs, rec->outputs, NULL);
  for (size_t i = 0; i < e->graph->output_count; i++) {
    tenon_tensor_release(rec->outputs[i]);
    rec->outputs[i] = NULL;
  }
  if (status == TENON_OK) status = record(e, rec);
  if (is_used) (void)tenon_stream_use(e->place.homes[0], before, NULL);
  if (status != TENON_OK) {
    char *why = tn_copy_text(tn_error(), strlen(tn_error()));
    refuse(&e->recorded, "%s%s%s", why ? why : "a run could not be recorded", "", "");
    tn_release_memory(why);
    end(e, rec);
  } else
    *out_recording = rec;
  return status;
}

/* running */

static tenon_status_t replay(tenon_executable_t *e, tn_recording_t *rec,
                             tenon_tensor_t *const *inputs) {
  static const char *const name = "a recorded graph";
  tn_ordinal_t *o = rec->stream->ordinal;
  TN_TRY(tn_stream_check(rec->stream));
  for (size_t i = 0; i < e->graph->input_count; i++)
    TN_TRY(tn_place_copy_into(inputs[i], rec->inputs[i]));
  uint64_t ticket = tn_stream_ticket(rec->stream, name);
  tenon_status_t status = o->table->replay(&o->context, rec->stream->native, rec->native, ticket);
  tn_stream_ended(rec->stream);
  return status == TENON_OK ? status : tn_stream_refused(rec->stream, status, name);
}

tenon_status_t tn_recorded_run(tenon_executable_t *e, tenon_tensor_t *const *inputs,
                               tenon_tensor_t **outputs, bool *out_ran) {
  tenon_stream_t *before = NULL;
  tn_recording_t *rec = take(e, inputs);
  *out_ran = false;
  if (!rec && make(e, inputs, &rec) != TENON_OK) return TENON_OK; /* the reason is kept */
  *out_ran = true;
  tenon_status_t status = tenon_stream_use(e->place.homes[0], rec->stream, &before);
  bool is_used = status == TENON_OK;
  if (status == TENON_OK) status = replay(e, rec, inputs);
  if (status == TENON_OK) status = tn_eager_give(e, rec->outputs, outputs);
  if (is_used) (void)tenon_stream_use(e->place.homes[0], before, NULL);
  if (status == TENON_OK) __atomic_add_fetch(&e->recorded.replays, 1, __ATOMIC_RELAXED);
  if (status == TENON_OK || !rec->stream->failed)
    give_back(e, rec);
  else
    end(e, rec);
  return status;
}

void tn_recorded_print(const tn_recorded_t *r, tn_text_t *text) {
  size_t count = 0;
  if (!r->was_wanted) return;
  for (const tn_recording_t *rec = r->idle; rec; rec = rec->next)
    count++;
  if (r->reason)
    tn_text_add(text, "not recorded: %s\n", r->reason);
  else
    tn_text_add(text, "recordings: %zu, replayed %llu times\n", count,
                (unsigned long long)r->replays);
}
