/* Compares kernels on devices with those of the CPU, on a stream that is not the device's first. A
 * kernel may enqueue work only on that stream and only until it returns. The simulated device
 * reports violations as data races. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "core/dtype.h"
#include "device/memory.h"
#include "run.h"
#include "sim/sim.h"

enum { BACKENDS = 8 };

/* Lists the backends that the operator has kernels for, including backends that compile its source
 * kernel. */
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

static const char *lacks_device_kernels(const subject_t *subject) {
  const char *names[BACKENDS];
  if (!list_backends(subject->op, names)) return "it has kernels for the CPU only";
  if (!subject_is_pure(subject) || subject->op->traits & TENON_RANDOM)
    return "equal calls do not return equal results";
  for (uint32_t i = 0; i < subject->op->input_count; i++)
    if (subject->op->schema.inputs[i].kind == TENON_KIND_TENSORS ||
        subject->op->schema.inputs[i].is_written)
      return "it takes lists, or writes to an input";
  return NULL;
}

typedef struct target_t { /* the device that calls are made on */
  const char *name;
  tenon_device_t device;
  tenon_stream_t *stream;
  tenon_stream_t *before;
  const sim_table_t *sim; /* NULL: not the simulated device */
  tn_ordinal_t *ordinal;
} target_t;

static bool open_target(target_t *p, const char *name) {
  *p = (target_t){.name = name};
  if (tenon_device_find(name, 0, &p->device) != TENON_OK ||
      tn_ordinal_get(p->device, &p->ordinal) != TENON_OK) {
    note(NULL, "device.values", "the kernels for %s were not tried: %s", name, tenon_error());
    return false;
  }
  if (strcmp(name, "sim") == 0 && p->ordinal->table->native)
    p->sim = p->ordinal->table->native(&p->ordinal->context, "sim", NULL);
  if (tenon_stream_create(p->device, &p->stream) == TENON_OK)
    tenon_stream_use(p->device, p->stream, &p->before);
  return true;
}

static uint64_t count_races(const target_t *p) {
  return p->sim ? p->sim->races(&p->ordinal->context, NULL, 0) : 0;
}

/* Reports work that was enqueued on another stream. Returns whether there was any. */
static bool report_stray_work(const target_t *p, const example_t *example, uint64_t races_before,
                              const char *error) {
  bool is_race = strstr(error, "race") != NULL;
  if (!is_race && count_races(p) == races_before) return false;
  finding(example, "device.stream", "a kernel enqueues its work on the stream of the call",
          "enqueue on call->stream", "on %s, on a stream that is not the first: %s", p->name,
          is_race ? error : "work is not ordered after the work that produces its inputs");
  return true;
}

static tenon_tensor_t *bring_back(const tenon_tensor_t *t) {
  tenon_tensor_t *host = NULL;
  return tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &host) == TENON_OK ? host : NULL;
}

/* Whether a result that was read too early changes within two seconds. */
static bool changes_later(const target_t *p, const char *name, const tenon_tensor_t *result,
                          const tenon_tensor_t *early) {
  enum { TRIES = 100 };
  const struct timespec a_while = {0, 20000000};
  bool has_changed = false;
  for (int i = 0; i < TRIES && !has_changed; i++) {
    nanosleep(&a_while, NULL);
    tenon_stream_synchronize(p->stream);
    tenon_tensor_t *later = bring_back(result);
    has_changed = later && tensor_differs(name, early, later, 0);
    tenon_tensor_release(later);
  }
  return has_changed;
}

/* Compares one result. If it differs from the CPU's, it is read again for a while, to detect work
 * that was still running. */
static bool compare_result(const target_t *p, const example_t *example, const char *name,
                           const tenon_tensor_t *expected, const tenon_tensor_t *found,
                           uint64_t races_before) {
  char text[800] = "";
  tenon_tensor_t *host = bring_back(found);
  if (!host) {
    snprintf(text, sizeof text, "%s", tenon_error());
    if (report_stray_work(p, example, races_before, text)) return false;
    finding(example, "device.values", "a kernel returns the same results on a device as on the CPU",
            "run this call on the device alone to debug it", "on %s: %s", p->name, text);
    return false;
  }
  const char *differs = tensor_differs(name, expected, host, 8);
  bool fine = !differs;
  if (differs) {
    snprintf(text, sizeof text, "%s", differs);
    if (changes_later(p, name, found, host))
      finding(example, "device.running", "all work of a call is enqueued when the kernel returns",
              "enqueue everything on call->stream before run returns",
              "on %s, after waiting for the stream: %s; later the result had changed", p->name,
              text);
    else if (!report_stray_work(p, example, races_before, ""))
      finding(example, "device.values",
              "a kernel returns the same results on a device as on the CPU",
              "run this call on the device alone to debug it", "on %s: %s", p->name, text);
  }
  tenon_tensor_release(host);
  return fine;
}

static bool move_inputs(const target_t *p, const example_t *example, tenon_tensor_t **out_inputs) {
  for (uint32_t i = 0; i < example->op->input_count; i++) {
    tenon_tensor_t *t = example->inputs[i];
    if (!t) continue;
    if (example->op->schema.inputs[i].is_host)
      tenon_tensor_retain(out_inputs[i] = t);
    else if (tn_dtype_is(t->dtype, TENON_STRING) ||
             tenon_tensor_copy_to(t, p->device, &out_inputs[i]) != TENON_OK)
      return false;
  }
  return true;
}

static void check_on_device(const target_t *p, example_t *example) {
  tenon_tensor_t *inputs[EXAMPLE_ARGUMENTS] = {NULL};
  tenon_tensor_t *outputs[EXAMPLE_ARGUMENTS] = {NULL};
  ran_t expected;
  run_plainly(example, &expected);
  call_doing(example, "device.values", p->name);
  if (expected.status == TENON_OK && move_inputs(p, example, inputs)) {
    uint64_t before = count_races(p);
    tenon_status_t status = tenon_op_call(example->op, example->attrs, inputs, outputs, 0);
    if (status == TENON_OK) status = tenon_stream_synchronize(p->stream);
    if (status == TENON_OK)
      for (uint32_t o = 0; o < example->op->output_count; o++) {
        if (expected.outputs[o] && outputs[o] &&
            !compare_result(p, example, example->op->schema.outputs[o].name, expected.outputs[o],
                            outputs[o], before))
          break;
      }
    else if (!report_stray_work(p, example, before, tenon_error()) && status != TENON_UNIMPLEMENTED)
      finding(example, "device.values",
              "a kernel returns the same results on a device as on the CPU",
              "run this call on the device alone to debug it", "on %s the call fails: %s", p->name,
              tenon_error());
    if (!has_findings()) report_stray_work(p, example, before, "");
  }
  call_drop(inputs);
  call_drop(outputs);
  ran_free(&expected);
}

static void run_devices(const subject_t *subject) {
  const char *names[BACKENDS];
  int count = list_backends(subject->op, names);
  for (int i = 0; i < count && !has_findings(); i++) {
    target_t target;
    if (!open_target(&target, names[i])) continue;
    examples_t all = examples(subject, true);
    for (example_t *t; !has_findings() && (t = examples_next(&all));)
      check_on_device(&target, t);
    if (target.stream) {
      tenon_stream_use(target.device, target.before, NULL);
      tenon_stream_release(target.stream);
    }
  }
}

const check_t checks_devices[] = {{"device.values",
                                   "Kernels on devices return what the CPU's return, on any "
                                   "stream, and enqueue nothing elsewhere or later.",
                                   "device.stream device.running", lacks_device_kernels,
                                   run_devices},
                                  {NULL, NULL, NULL, NULL, NULL}};
