/* Measuring devices by their own operators and copies. */
#include "graph/rates.h"

#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "operator/names.h"
#include "storage/place.h"

enum {
  SIDE = 256,
  FEW = 1024,
  MANY = 1 << 20,
  CALLS = 8,
  BEST_OF = 3,
}; /* elements of f32 */

typedef struct measured_t { /* from = to: a device */
  tenon_device_t from;
  tenon_device_t to;
  tn_rate_t rate;
  tn_link_t link;
} measured_t;

static tn_mutex_t lock =
    TN_MUTEX_INIT; /* held while measuring, so that two do not disturb each other */
static measured_t *all;
static size_t count, capacity;

static bool is_same(tenon_device_t a, tenon_device_t b) { return a.type == b.type && a.id == b.id; }

static measured_t *find(tenon_device_t from, tenon_device_t to) {
  for (size_t i = 0; i < count; i++)
    if (is_same(all[i].from, from) && is_same(all[i].to, to)) return &all[i];
  return NULL;
}

static tenon_status_t wait(tenon_device_t device) {
  return device.type == 1 || !tn_backend_of(device)->has_plugin ? TENON_OK
                                                                : tenon_device_synchronize(device);
}

/* Ones: without them products of what was in memory may be slow. */
static tenon_status_t make(tenon_device_t device, int32_t ndim, const int64_t *shape,
                           tenon_tensor_t **out_tensor) {
  tenon_tensor_t *host;
  TN_TRY(tenon_tensor_create(tenon_dtype(TENON_F32), ndim, shape, &host));
  for (int64_t i = 0; i < tenon_count(host); i++)
    ((float *)host->data)[i] = 1;
  tenon_status_t status = tenon_tensor_copy_to(host, device, out_tensor);
  tenon_tensor_release(host);
  return status;
}

/* Seconds of a call of that operator with x twice, the least of a few times after one that is not
 * counted. */
static tenon_status_t time_op(const char *name, int32_t ndim, const int64_t *shape,
                              tenon_device_t device, int calls, double *out_seconds) {
  const tenon_op_t *op = tn_registry_find(name);
  tenon_tensor_t *x = NULL;
  tenon_tensor_t *y = NULL;
  if (!op) return tn_fail(TENON_INTERNAL, "the built-in operator %s is missing", name);
  tenon_status_t status = make(device, ndim, shape, &x);
  if (status == TENON_OK) status = make(device, ndim, shape, &y);
  *out_seconds = 1e9;
  for (int round = 0; round <= BEST_OF && status == TENON_OK; round++) {
    tenon_tensor_t *inputs[] = {x, x, NULL, NULL};
    int64_t begin = tn_now();
    for (int i = 0; i < calls && status == TENON_OK; i++)
      status = tenon_op_run(op, NULL, inputs, &y);
    if (status == TENON_OK) status = wait(device);
    double seconds = (double)(tn_now() - begin) / 1e9 / calls;
    if (round && seconds < *out_seconds) *out_seconds = seconds;
  }
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return status;
}

static tenon_status_t measure_rate(tenon_device_t device, tn_rate_t *out_rate) {
  const int64_t few[] = {FEW};
  const int64_t many[] = {MANY};
  const int64_t square[] = {SIDE, SIDE};
  double small, large, product;
  TN_TRY(time_op("core::add", 1, few, device, CALLS, &small));
  TN_TRY(time_op("core::add", 1, many, device, 1, &large));
  TN_TRY(time_op("core::matmul", 2, square, device, 1, &product));
  double least = 1e-9; /* a device that does nothing */
  double more = large - small > least ? large - small : least;
  double work = product - small > least ? product - small : least;
  *out_rate = (tn_rate_t){small, 2.0 * SIDE * SIDE * SIDE / work, 3.0 * 4 * MANY / more};
  return TENON_OK;
}

static tenon_status_t time_copy(tenon_device_t from, tenon_device_t to, int64_t elements,
                                double *out_seconds) {
  tenon_tensor_t *x = NULL;
  tenon_status_t status = make(from, 1, &elements, &x);
  *out_seconds = 1e9;
  for (int round = 0; round <= BEST_OF && status == TENON_OK; round++) {
    tenon_tensor_t *y = NULL;
    int64_t begin = tn_now();
    status = tenon_tensor_copy_to(x, to, &y);
    if (status == TENON_OK) status = wait(to);
    double seconds = (double)(tn_now() - begin) / 1e9;
    if (round && seconds < *out_seconds) *out_seconds = seconds;
    tenon_tensor_release(y);
  }
  tenon_tensor_release(x);
  return status;
}

static tenon_status_t measure_link(tenon_device_t from, tenon_device_t to, tn_link_t *out_link) {
  double small, large;
  TN_TRY(time_copy(from, to, FEW, &small));
  TN_TRY(time_copy(from, to, MANY, &large));
  double more = large - small > 1e-9 ? large - small : 1e-9;
  *out_link = (tn_link_t){small, 4.0 * (MANY - FEW) / more};
  return TENON_OK;
}

static tenon_status_t measure(tenon_device_t from, tenon_device_t to, measured_t *out) {
  tenon_status_t status = TENON_OK;
  tn_mutex_lock(&lock);
  measured_t *found = find(from, to);
  measured_t fresh = {.from = from, .to = to};
  if (!found) {
    tn_thread_calls_t calls = tn_calls_without_layers();
    if (is_same(from, to))
      status = measure_rate(from, &fresh.rate);
    else
      status = measure_link(from, to, &fresh.link);
    tn_thread()->calls = calls;
    if (status == TENON_OK && tn_grow((void **)&all, &capacity, count, sizeof *all))
      all[count++] = fresh;
    found = &fresh;
  }
  *out = *found;
  tn_mutex_unlock(&lock);
  return status == TENON_OK ? status : tn_prefix(status, "measuring devices to place a graph: ");
}

tenon_status_t tn_rate_measure(tenon_device_t device, tn_rate_t *out_rate) {
  measured_t m;
  TN_TRY(measure(device, device, &m));
  *out_rate = m.rate;
  return TENON_OK;
}

tenon_status_t tn_link_measure(tenon_device_t from, tenon_device_t to, tn_link_t *out_link) {
  measured_t m;
  TN_TRY(measure(from, to, &m));
  *out_link = m.link;
  return TENON_OK;
}

void tn_rates_clear(void) {
  tn_release_memory(all);
  all = NULL;
  count = capacity = 0;
}

void tn_rates_in_child(void) { lock = (tn_mutex_t)TN_MUTEX_INIT; }
