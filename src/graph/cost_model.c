/* Measures devices with the built-in operators and copies, for the cost model (cost_model.h).
 * Invariant: one measurement at a time, so that two do not disturb each other. */
#include "graph/cost_model.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "operator/names.h"
#include "storage/device_memory.h"

enum {
  SIDE = 256,     /* rows and columns of the matrices that are multiplied */
  FEW = 1024,     /* f32 elements of a small tensor */
  MANY = 1 << 20, /* f32 elements of a large tensor */
  CALLS = 8,      /* small calls that are timed together */
  BEST_OF = 3,    /* rounds, of which the shortest counts */
};

/* One measurement: of a device if from equals to, else of copies. */
typedef struct measurement_t {
  tenon_device_t from;
  tenon_device_t to;
  tn_device_cost_t device;
  tn_copy_cost_t copies;
} measurement_t;

/* Held while measuring. */
static tn_mutex_t measuring = TN_MUTEX_INIT;
static measurement_t *measurements;
static size_t measurement_count, measurement_capacity;

static bool is_same_device(tenon_device_t a, tenon_device_t b) {
  return a.type == b.type && a.id == b.id;
}

static measurement_t *find_measurement(tenon_device_t from, tenon_device_t to) {
  for (size_t i = 0; i < measurement_count; i++)
    if (is_same_device(measurements[i].from, from) && is_same_device(measurements[i].to, to))
      return &measurements[i];
  return NULL;
}

static tenon_status_t wait_for_device(tenon_device_t device) {
  if (device.type == 1 || !tn_backend_of(device)->has_plugin) return TENON_OK;
  return tenon_device_synchronize(device);
}

/* A tensor of ones: products of whatever was in memory (denormals, for example) may be slow. */
static tenon_status_t make_ones(tenon_device_t device, int32_t ndim, const int64_t *shape,
                                tenon_tensor_t **out_tensor) {
  tenon_tensor_t *host;
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_F32), ndim, shape, &host));
  for (int64_t i = 0; i < tenon_count(host); i++)
    ((float *)host->data)[i] = 1;
  tenon_status_t status = tenon_tensor_copy_to(host, device, out_tensor);
  tenon_tensor_release(host);
  return status;
}

/* Measures the seconds of a call op(x, x): the shortest of a few rounds, after one round that is
 * not counted. */
static tenon_status_t time_op(const char *name, int32_t ndim, const int64_t *shape,
                              tenon_device_t device, int calls, double *out_seconds) {
  const tenon_op_t *op = tn_registry_find(name);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  if (!op) return tn_fail(TENON_INTERNAL, "the built-in operator %s is missing", name);
  tenon_status_t status = make_ones(device, ndim, shape, &x);
  if (status == TENON_OK) status = make_ones(device, ndim, shape, &y);
  *out_seconds = 1e9;
  for (int round = 0; round <= BEST_OF && status == TENON_OK; round++) {
    tenon_tensor_t *inputs[] = {x, x, NULL, NULL};
    int64_t begin = tn_now();
    for (int i = 0; i < calls && status == TENON_OK; i++)
      status = tenon_op_run(op, NULL, inputs, &y);
    if (status == TENON_OK) status = wait_for_device(device);
    double seconds = (double)(tn_now() - begin) / 1e9 / calls;
    if (round && seconds < *out_seconds) *out_seconds = seconds;
  }
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}

static tenon_status_t measure_device(tenon_device_t device, tn_device_cost_t *out_cost) {
  const int64_t few[] = {FEW};
  const int64_t many[] = {MANY};
  const int64_t square[] = {SIDE, SIDE};
  double small, large, product;
  TN_TRY(time_op("core::add", 1, few, device, CALLS, &small));
  TN_TRY(time_op("core::add", 1, many, device, 1, &large));
  TN_TRY(time_op("core::matmul", 2, square, device, 1, &product));
  double least = 1e-9; /* for a device whose operations take no time */
  double more = large - small > least ? large - small : least;
  double work = product - small > least ? product - small : least;
  *out_cost = (tn_device_cost_t){small, 2.0 * SIDE * SIDE * SIDE / work, 3.0 * 4 * MANY / more};
  return TENON_OK;
}

static tenon_status_t time_copy(tenon_device_t from, tenon_device_t to, int64_t elements,
                                double *out_seconds) {
  tenon_tensor_t *x = NULL;
  tenon_status_t status = make_ones(from, 1, &elements, &x);
  *out_seconds = 1e9;
  for (int round = 0; round <= BEST_OF && status == TENON_OK; round++) {
    tenon_tensor_t *y = NULL;
    int64_t begin = tn_now();
    status = tenon_tensor_copy_to(x, to, &y);
    if (status == TENON_OK) status = wait_for_device(to);
    double seconds = (double)(tn_now() - begin) / 1e9;
    if (round && seconds < *out_seconds) *out_seconds = seconds;
    tenon_tensor_release(y);
  }
  tenon_tensor_release(x);
  return status;
}

static tenon_status_t measure_copies(tenon_device_t from, tenon_device_t to,
                                     tn_copy_cost_t *out_cost) {
  double small, large;
  TN_TRY(time_copy(from, to, FEW, &small));
  TN_TRY(time_copy(from, to, MANY, &large));
  double more = large - small > 1e-9 ? large - small : 1e-9;
  *out_cost = (tn_copy_cost_t){small, 4.0 * (MANY - FEW) / more};
  return TENON_OK;
}

static tenon_status_t measure_once(tenon_device_t from, tenon_device_t to, measurement_t *out) {
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&measuring);
  measurement_t *found = find_measurement(from, to);
  measurement_t fresh = {.from = from, .to = to};
  if (!found) {
    tn_thread_calls_t calls = tn_calls_without_layers();
    tn_thread()->is_measuring = 1;
    if (is_same_device(from, to))
      status = measure_device(from, &fresh.device);
    else
      status = measure_copies(from, to, &fresh.copies);
    tn_thread()->is_measuring = 0;
    tn_thread()->calls = calls;
    if (status == TENON_OK && tn_grow((void **)&measurements, &measurement_capacity,
                                      measurement_count, sizeof *measurements))
      measurements[measurement_count++] = fresh;
    found = &fresh;
  }
  *out = *found;
  tn_mutex_unlock(&measuring);
  return status == TENON_OK ? status : tn_prefix(status, "measuring the devices for a placement: ");
}

tenon_status_t tn_device_cost_measure(tenon_device_t device, tn_device_cost_t *out_cost) {
  measurement_t m;
  TN_TRY(measure_once(device, device, &m));
  *out_cost = m.device;
  return TENON_OK;
}

tenon_status_t tn_copy_cost_measure(tenon_device_t from, tenon_device_t to,
                                    tn_copy_cost_t *out_cost) {
  measurement_t m;
  TN_TRY(measure_once(from, to, &m));
  *out_cost = m.copies;
  return TENON_OK;
}

void tn_cost_model_clear(void) {
  tn_release_memory(measurements);
  measurements = NULL;
  measurement_count = 0;
  measurement_capacity = 0;
}

void tn_cost_model_in_child(void) { measuring = (tn_mutex_t)TN_MUTEX_INIT; }
