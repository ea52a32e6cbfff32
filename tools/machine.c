/* Measures the peak rates of this machine; see machine.h. The measurements run inside operators
 * that this program registers, because operators have access to the host's threads. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "file.h"
#include "fma.h"
#include "json.h"
#include "measure.h"
#include "progress.h"
#include "system.h"

/* TRIAD: elements of 4 bytes in each of three arrays. ROUNDS: enough multiply-adds that the late
 * start of a thread does not matter. */
enum {
  TRIAD = 1 << 24,
  ROUNDS = 1 << 21,
};

static tenon_status_t triad_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const float *b = call->inputs[0]->data;
  const float *c = call->inputs[1]->data;
  float *a = call->outputs[0]->data;
  (void)argument;
  for (int64_t i = begin; i < end; i++)
    a[i] = b[i] + 0.5f * c[i];
  return TENON_OK;
}
static tenon_status_t triad(tenon_call_t *call) {
  return call->host->parallel(call, tenon_count(call->inputs[0]), 1 << 16, triad_part, NULL);
}

static tenon_status_t fma_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  double *done = call->outputs[0]->data;
  (void)argument;
  for (int64_t i = begin; i < end; i++)
    done[i] = call->inputs[0]->dtype.bits == 32 ? fma_run_f32(ROUNDS) : fma_run_f64(ROUNDS);
  return TENON_OK;
}
static tenon_status_t fma_all(tenon_call_t *call) {
  return call->host->parallel(call, tenon_count(call->inputs[0]), 1, fma_part, NULL);
}

static const tenon_item_t items[] = {
    TENON_OP("bench::triad(Tensor b, Tensor c) -> Tensor", TENON_TYPES("b, c, out = f32"),
             TENON_SHAPES("out = b"), TENON_KERNEL("cpu", triad)),
    TENON_OP("bench::fma(Tensor x) -> Tensor", TENON_TYPES("x: f32|f64; out = f64"),
             TENON_SHAPES("out = x"), TENON_KERNEL("cpu", fma_all)),
    {TENON_TAG_END, 0, 0, NULL, NULL}};

typedef struct peak_t {
  const tenon_op_t *op;
  tenon_tensor_t *inputs[2];
  tenon_tensor_t *output;
} peak_t;

static bool run_peak(void *context, int64_t count, text_t *why) {
  peak_t *peak = context;
  tenon_status_t status = TENON_OK;
  while (count-- && status == TENON_OK)
    status = tenon_op_run(peak->op, NULL, peak->inputs, &peak->output);
  if (status != TENON_OK) text_add(why, "%s", tenon_error());
  return status == TENON_OK;
}

static bool create_tensor(uint32_t dtype, int64_t count, tenon_tensor_t **out, text_t *why) {
  if (tenon_tensor_create(tenon_dtype(dtype), 1, &count, out) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    return false;
  }
  memset((*out)->data, 0, (size_t)count * (*out)->dtype.bits / 8);
  return true;
}

/* Takes the best batch, because a peak is the best that is possible. */
static bool measure_peak(const char *name, uint32_t dtype, int64_t count, bool is_triad,
                         double *out_rate, text_t *why) {
  peak_t peak = {NULL, {NULL, NULL}, NULL};
  times_t times;
  int step = dtype == TENON_F32 ? 2 : 3;
  if (is_triad) step = 1;
  progress_show("measuring this machine", step, 3, name);
  bool fine = tenon_op_find(is_triad ? "bench::triad" : "bench::fma", &peak.op) == TENON_OK;
  if (!fine) text_add(why, "%s", tenon_error());
  fine = fine && create_tensor(dtype, count, &peak.inputs[0], why) &&
         (!is_triad || create_tensor(dtype, count, &peak.inputs[1], why)) &&
         create_tensor(is_triad ? TENON_F32 : TENON_F64, count, &peak.output, why) &&
         measure_times(run_peak, &peak, 0.4, &times, why);
  double work = 0;
  for (int64_t i = 0; fine && !is_triad && i < count; i++)
    work += ((const double *)peak.output->data)[i];
  if (is_triad) work = 12.0 * (double)count;
  if (fine) *out_rate = work / (times.least * 1e-9);
  tenon_tensor_release(peak.inputs[0]);
  tenon_tensor_release(peak.inputs[1]);
  tenon_tensor_release(peak.output);
  return fine;
}

/* Path of the cached result, TENON_CACHE/machine-PROCESSOR-THREADS.json; the folder is chosen as
 * libtenon chooses its cache. Returns false if nothing is cached. */
static bool cache_path(int32_t threads, text_t *out_path) {
  const char *cache = getenv("TENON_CACHE");
  const char *config = getenv("XDG_CACHE_HOME");
  const char *home = getenv("HOME");
  text_t processor = {NULL, 0, 0, false};
  if (cache && strcmp(cache, "off") == 0) return false;
  if (cache && *cache)
    text_add(out_path, "%s", cache);
  else if (config && *config)
    text_add(out_path, "%s/tenon", config);
  else if (home && *home)
    text_add(out_path, "%s/.cache/tenon", home);
  else
    return false;
  system_processor(&processor);
  text_add(out_path, "/machine-");
  for (const char *at = text_get(&processor); *at; at++)
    text_add(out_path, "%c", strchr(" /()@", *at) ? '_' : *at);
  text_add(out_path, "-%d.json", (int)threads);
  text_free(&processor);
  return true;
}

static bool read_cached_peaks(const char *path, machine_t *machine) {
  text_t json = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  bool fine = system_is_file(path) && file_read(path, &json, &why) &&
              json_find_number(text_get(&json), "bandwidth", &machine->bandwidth) &&
              json_find_number(text_get(&json), "peak_f32", &machine->peak_f32) &&
              json_find_number(text_get(&json), "peak_f64", &machine->peak_f64) &&
              machine->bandwidth > 0 && machine->peak_f32 > 0 && machine->peak_f64 > 0;
  text_free(&json);
  text_free(&why);
  return machine->was_kept = fine;
}

static void save_peaks(const char *path, const machine_t *machine) {
  text_t json = {NULL, 0, 0, false};
  text_t folder = {NULL, 0, 0, false};
  text_t why = {NULL, 0, 0, false};
  text_bytes(&folder, path, (size_t)(strrchr(path, '/') - path));
  text_add(
      &json,
      "{\"bandwidth\": %.6g, \"peak_f32\": %.6g, \"peak_f64\": %.6g, \"instructions\": \"%s\"}\n",
      machine->bandwidth, machine->peak_f32, machine->peak_f64, machine->instructions);
  if (system_make_folder(text_get(&folder), &why))
    (void)file_write(path, &json, &why); /* on failure the machine is measured again next time */
  text_free(&json);
  text_free(&folder);
  text_free(&why);
}

bool machine_measure(machine_t *out_machine, bool is_fresh, text_t *why) {
  machine_t machine = {.threads = tenon_threads_get()};
  text_t path = {NULL, 0, 0, false};
  tenon_registration_t *registration = NULL;
  snprintf(machine.instructions, sizeof machine.instructions, "%s", fma_name());
  const bool is_kept = cache_path(machine.threads, &path);
  bool fine = is_kept && !is_fresh && read_cached_peaks(text_get(&path), &machine);
  if (!fine) {
    fine = tenon_op_add(items, NULL, NULL, 0, &registration) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
    fine = fine && measure_peak("memory", TENON_F32, TRIAD, true, &machine.bandwidth, why) &&
           measure_peak("f32", TENON_F32, machine.threads, false, &machine.peak_f32, why) &&
           measure_peak("f64", TENON_F64, machine.threads, false, &machine.peak_f64, why);
    progress_clear();
    tenon_registration_release(registration);
    if (fine && is_kept) save_peaks(text_get(&path), &machine);
  }
  text_free(&path);
  *out_machine = machine;
  return fine;
}
