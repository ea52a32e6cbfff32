/* Calls whose shapes are known: nothing is inferred, checked or allocated but ONNX Runtime's
 * outputs, and no lock is taken. */
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static bool fits_given(const kernel_t *kernel, const site_t *site, const given_t *given) {
  for (int32_t t = 0; t < kernel->in_count; t++) {
    const tenon_tensor_t *view = &site->inputs[t];
    if (given[t].rank != (size_t)view->ndim) return false;
    for (int32_t d = 0; d < view->ndim; d++)
      if (given[t].shape[d] != view->shape[d]) return false;
  }
  return true;
}

static const site_t *find_site(kernel_t *kernel, const given_t *given) {
  for (size_t i = 0; i < SITES_MOST; i++) {
    const site_t *site = atomic_load_explicit(&kernel->sites[i], memory_order_acquire);
    if (!site) return NULL;
    if (fits_given(kernel, site, given)) return site;
  }
  return NULL;
}

/* Whether an output has the memory of an input, which the call then has to look at. */
static bool shares_memory(const kernel_t *kernel, const given_t *given, const void *data) {
  for (int32_t t = 0; t < kernel->in_count; t++)
    if (given[t].data == data) return true;
  return false;
}

typedef struct run_t {
  tenon_tensor_t results[SIDE_MOST];
  tenon_tensor_t *inputs[SIDE_MOST];
  tenon_tensor_t *outputs[SIDE_MOST];
  bool shares;
} run_t;

static OrtStatus *allocate_outputs(run_t *r, const kernel_t *kernel, const site_t *site,
                                   OrtKernelContext *context, const given_t *given) {
  for (int32_t o = 0; o < kernel->of->output_count; o++)
    r->outputs[o] = NULL;
  r->shares = false;
  for (int32_t t = 0; t < kernel->out_count; t++) {
    const port_t *place = &kernel->out[t];
    tenon_tensor_t *view = &r->results[t];
    OrtValue *value = NULL;
    *view = site->outputs[t];
    ORT_TRY(ort.KernelContext_GetOutput(context, place->index, view->shape, (size_t)view->ndim,
                                        &value));
    ORT_TRY(ort.GetTensorMutableData(value, &view->data));
    r->shares |= shares_memory(kernel, given, view->data);
    r->outputs[place->argument] = view;
  }
  return NULL;
}

static OrtStatus *run_views(run_t *r, const kernel_t *kernel, const site_t *site,
                            OrtKernelContext *context, const given_t *given,
                            tenon_tensor_t *views) {
  tenon_tensor_t *tensors[TENSORS_MOST];
  lists_t lists;
  for (int32_t t = 0; t < kernel->in_count; t++) {
    views[t] = site->inputs[t];
    views[t].data = given[t].data;
    tensors[t] = &views[t];
  }
  kernel_arrange(kernel, tensors, &lists, r->inputs);
  ORT_TRY(allocate_outputs(r, kernel, site, context, given));
  const tenon_status_t code = r->shares
                                  ? host.tenon_bound_call_into(kernel->bound, r->inputs, r->outputs)
                                  : host.tenon_bound_run(kernel->bound, r->inputs, r->outputs);
  return code == TENON_OK ? NULL : ort_fail_tenon(code);
}

OrtStatus *site_run(kernel_t *kernel, OrtKernelContext *context, const given_t *given,
                    bool *out_done) {
  const site_t *site = find_site(kernel, given);
  tenon_tensor_t views[TENSORS_MOST];
  run_t r;
  *out_done = site != NULL;
  return site ? run_views(&r, kernel, site, context, given, views) : NULL;
}

/* ---- adding a site ---- */

static size_t count_extents(tenon_tensor_t *const *tensors, int32_t count) {
  size_t total = 0;
  for (int32_t i = 0; i < count; i++)
    total += 2 * (size_t)tensors[i]->ndim;
  return total;
}

/* Copies a view with its shape, and returns the next free extent. */
static int64_t *keep_view(tenon_tensor_t *view, const tenon_tensor_t *tensor, int64_t *extents) {
  const size_t rank = (size_t)tensor->ndim;
  *view = *tensor;
  if (rank) {
    memcpy(extents, tensor->shape, rank * sizeof *extents);
    memcpy(extents + rank, tensor->strides, rank * sizeof *extents);
  }
  view->shape = extents;
  view->strides = extents + rank;
  return extents + 2 * rank;
}

static site_t *make_site(const kernel_t *kernel, tenon_tensor_t *const *tensors,
                         tenon_tensor_t *const *outputs) {
  tenon_tensor_t *wanted[SIDE_MOST];
  for (int32_t t = 0; t < kernel->out_count; t++)
    wanted[t] = outputs[kernel->out[t].argument];
  const size_t views = (size_t)(kernel->in_count + kernel->out_count);
  const size_t extents =
      count_extents(tensors, kernel->in_count) + count_extents(wanted, kernel->out_count);
  site_t *site = calloc(1, sizeof *site + views * sizeof *site->inputs + extents * sizeof(int64_t));
  if (!site) return NULL;
  site->outputs = site->inputs + kernel->in_count;
  int64_t *next = (int64_t *)(site->outputs + kernel->out_count);
  for (int32_t t = 0; t < kernel->in_count; t++)
    next = keep_view(&site->inputs[t], tensors[t], next);
  for (int32_t t = 0; t < kernel->out_count; t++)
    next = keep_view(&site->outputs[t], wanted[t], next);
  return site;
}

void site_remember(kernel_t *kernel, tenon_tensor_t *const *tensors,
                   tenon_tensor_t *const *outputs) {
  /* The last place is filled last, and a full table needs no lock. */
  if (atomic_load_explicit(&kernel->sites[SITES_MOST - 1], memory_order_relaxed)) return;
  pthread_mutex_lock(&kernel->lock);
  for (size_t i = 0; i < SITES_MOST; i++) {
    if (atomic_load_explicit(&kernel->sites[i], memory_order_relaxed)) continue;
    const site_t *site = make_site(kernel, tensors, outputs);
    atomic_store_explicit(&kernel->sites[i], site, memory_order_release);
    break;
  }
  pthread_mutex_unlock(&kernel->lock);
}
