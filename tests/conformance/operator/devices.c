/* Kernels on devices against the CPU's, on a stream that is not the device's first: nothing may be
 * enqueued elsewhere, or after the kernel has returned.  sim tells on whom. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "core/dtype.h"
#include "device/memory.h"
#include "run.h"
#include "sim/sim.h"

enum { BACKENDS = 8 };

/* Backends that it has kernels for, those that compile its source among them. */
static int list_backends(const tenon_op_t *op, const char **out_names) {
  int count = 0;
  bool has_source = false;
  for (const tn_kernel_t *k = op->kernels; k; k = k->next) {
    bool is_known = k->kind == TN_KIND_SOURCE || k->words.at != TN_AT_BACKEND || !k->backend ||
                    !k->run || k->backend == &tn_backend_cpu ||
                    strcmp(k->backend->name, "null") == 0 || strcmp(k->backend->name, "meta") == 0;
    has_source |= k->kind == TN_KIND_SOURCE;
    for (int i = 0; i < count && !is_known; i++)
      is_known = strcmp(out_names[i], k->backend->name) == 0;
    if (!is_known && count < BACKENDS) out_names[count++] = k->backend->name;
  }
  bool has_sim = false;
  for (int i = 0; i < count; i++)
    has_sim |= strcmp(out_names[i], "sim") == 0;
  if (has_source && !has_sim && count < BACKENDS) out_names[count++] = "sim";
  return count;
}

static const char *lacks(const subject_t *subject) {
  const char *names[BACKENDS];
  if (!list_backends(subject->op, names)) return "it has kernels for the CPU alone";
  if (!subject_is_pure(subject) || subject->op->traits & TENON_RANDOM)
    return "calls that are equal do not give equal results";
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].kind == TENON_KIND_TENSORS ||
        subject->op->schema.inputs[i].is_written)
      return "it takes lists, or writes to an input";
  return NULL;
}

typedef struct place_t { /* where calls go */
  const char *name;
  tenon_device_t device;
  tenon_stream_t *stream;
  tenon_stream_t *before;
  const sim_table_t *sim; /* NULL: not sim */
  tn_ordinal_t *ordinal;
} place_t;

static bool place_open(place_t *p, const char *name) {
  *p = (place_t){.name = name};
  if (tenon_device_find(name, 0, &p->device) != TENON_OK ||
      tn_ordinal_get(p->device, &p->ordinal) != TENON_OK) {
    note(NULL, "device.values", "its kernels for %s were not tried: %s", name, tenon_error());
    return false;
  }
  if (strcmp(name, "sim") == 0 && p->ordinal->table->native)
    p->sim = p->ordinal->table->native(&p->ordinal->context, "sim", NULL);
  if (tenon_stream_create(p->device, &p->stream) == TENON_OK)
    tenon_stream_use(p->device, p->stream, &p->before);
  return true;
}

static uint64_t races(const place_t *p) {
  return p->sim ? p->sim->races(&p->ordinal->context, NULL, 0) : 0;
}

/* Says that work went elsewhere, if it did. */
static bool strays(const place_t *p, const trial_t *trial, uint64_t races_before,
                   const char *error) {
  bool is_race = strstr(error, "race") != NULL;
  if (!is_race && races(p) == races_before) return false;
  finding(trial, "device.stream", "a kernel enqueues its work on the stream of the call",
          "enqueue on call->stream", "on %s, on another stream than the first: %s", p->name,
          is_race ? error : "work that is not ordered after what it reads");
  return true;
}

static tenon_tensor_t *bring_back(const tenon_tensor_t *t) {
  tenon_tensor_t *host = NULL;
  return tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &host) == TENON_OK ? host : NULL;
}

/* One result, and once more a while after if it is not what the CPU gave. */
static bool compare(const place_t *p, const trial_t *trial, const char *name,
                    const tenon_tensor_t *expected, const tenon_tensor_t *found,
                    uint64_t races_before) {
  struct timespec a_while = {0, 80000000};
  char text[800] = "";
  tenon_tensor_t *host = bring_back(found);
  if (!host) {
    snprintf(text, sizeof text, "%s", tenon_error());
    if (strays(p, trial, races_before, text)) return false;
    finding(trial, "device.values", "the kernel gives on each device what it gives on the CPU",
            "run it there alone", "on %s: %s", p->name, text);
    return false;
  }
  const char *differs = tensor_differs(name, expected, host, 8);
  bool fine = !differs;
  if (differs) {
    snprintf(text, sizeof text, "%s", differs);
    nanosleep(&a_while, NULL);
    tenon_stream_synchronize(p->stream);
    tenon_tensor_t *later = bring_back(found);
    if (later && tensor_differs(name, host, later, 0))
      finding(trial, "device.running", "all work of a call is enqueued when the kernel returns",
              "enqueue everything on call->stream before run returns",
              "on %s, after waiting for the stream: %s; 80 ms later it was another", p->name, text);
    else if (!strays(p, trial, races_before, ""))
      finding(trial, "device.values", "the kernel gives on each device what it gives on the CPU",
              "run it there alone", "on %s: %s", p->name, text);
    tenon_tensor_release(later);
  }
  tenon_tensor_release(host);
  return fine;
}

static bool move(const place_t *p, const trial_t *trial, tenon_tensor_t **out_inputs) {
  for (uint32_t i = 0; i < trial->op->input_count; i++) {
    tenon_tensor_t *t = trial->inputs[i];
    if (!t) continue;
    if (trial->op->schema.inputs[i].is_host)
      tenon_tensor_retain(out_inputs[i] = t);
    else if (tn_dtype_is(t->dtype, TENON_STRING) ||
             tenon_tensor_copy_to(t, p->device, &out_inputs[i]) != TENON_OK)
      return false;
  }
  return true;
}

static void check(const place_t *p, trial_t *trial) {
  tenon_tensor_t *inputs[TRIAL_ARGUMENTS] = {NULL};
  tenon_tensor_t *outputs[TRIAL_ARGUMENTS] = {NULL};
  ran_t expected;
  run_plainly(trial, &expected);
  call_doing(trial, "device.values", p->name);
  if (expected.status == TENON_OK && move(p, trial, inputs)) {
    uint64_t before = races(p);
    tenon_status_t status = tenon_op_call(trial->op, trial->attrs, inputs, outputs, 0);
    if (status == TENON_OK) status = tenon_stream_synchronize(p->stream);
    if (status == TENON_OK)
      for (uint32_t o = 0; o < trial->op->output_count; o++) {
        if (expected.outputs[o] && outputs[o] &&
            !compare(p, trial, trial->op->schema.outputs[o].name, expected.outputs[o], outputs[o],
                     before))
          break;
      }
    else if (!strays(p, trial, before, tenon_error()) && status != TENON_UNIMPLEMENTED)
      finding(trial, "device.values", "the kernel gives on each device what it gives on the CPU",
              "run it there alone", "on %s it fails: %s", p->name, tenon_error());
    if (!has_findings()) strays(p, trial, before, "");
  }
  call_drop(inputs);
  call_drop(outputs);
  ran_free(&expected);
}

static void run(const subject_t *subject) {
  const char *names[BACKENDS];
  int count = list_backends(subject->op, names);
  for (int i = 0; i < count && !has_findings(); i++) {
    place_t place;
    if (!place_open(&place, names[i])) continue;
    trials_t all = trials(subject, true);
    for (trial_t *t; !has_findings() && (t = trials_next(&all));)
      check(&place, t);
    if (place.stream) {
      tenon_stream_use(place.device, place.before, NULL);
      tenon_stream_release(place.stream);
    }
  }
}

const check_t checks_devices[] = {{"device.values",
                                   "Kernels on devices give what the CPU's give, on any stream, "
                                   "with nothing enqueued elsewhere or later.",
                                   "device.stream device.running", lacks, run},
                                  {NULL, NULL, NULL, NULL, NULL}};
