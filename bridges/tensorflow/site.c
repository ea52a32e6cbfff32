/* Calls whose shapes are known: nothing is inferred, checked or allocated but TensorFlow's outputs,
 * and no lock is taken. */
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "kernel.h"

static bool matches_shape(const tenon_tensor_t *view, const tf_tensor_t *tensor) {
  if (tf.TF_NumDims(tensor) != view->ndim) return false;
  for (int32_t d = 0; d < view->ndim; d++)
    if (tf.TF_Dim(tensor, d) != view->shape[d]) return false;
  return true;
}

static bool fits(const kernel_t *kernel, const site_t *site, tf_tensor_t *const *handles) {
  for (uint32_t k = 0; k < kernel->tensor_count; k++)
    if (!matches_shape(&site->inputs[k], handles[k])) return false;
  return true;
}

static const site_t *find_site(kernel_t *kernel, tf_tensor_t *const *handles) {
  for (size_t i = 0; i < SITES_MOST; i++) {
    const site_t *site = atomic_load_explicit(&kernel->sites[i], memory_order_acquire);
    if (!site) return NULL;
    if (fits(kernel, site, handles)) return site;
  }
  return NULL;
}

typedef struct run_t {
  tenon_tensor_t views[2 * OPERATOR_MOST];
  tenon_tensor_t *inputs[OPERATOR_MOST];
  tenon_tensor_t *outputs[OPERATOR_MOST];
  tf_tensor_t *results[OPERATOR_MOST];
} run_t;

static void view_inputs(run_t *r, const kernel_t *kernel, const site_t *site,
                        tf_tensor_t *const *handles) {
  const uint32_t count = kernel->self->input_count;
  const bool has_absent = count != kernel->tensor_count;
  uint32_t k = 0;
  for (uint32_t i = 0; i < count; i++) {
    r->inputs[i] = NULL;
    if (has_absent && kernel->counts[i] < 0) continue;
    r->views[k] = site->inputs[k];
    r->views[k].data = tf.TF_TensorData(handles[k]);
    r->inputs[i] = &r->views[k++];
  }
}

/* Allocates the outputs. Returns how many; fewer than the operator has after a failure. */
static uint32_t allocate_outputs(run_t *r, const kernel_t *kernel, const site_t *site,
                                 tf_context_t *context, tf_status_t *status) {
  const uint32_t count = kernel->self->output_count;
  for (uint32_t o = 0; o < count; o++) {
    tenon_tensor_t *view = &r->views[OPERATOR_MOST + o];
    *view = site->outputs[o];
    r->results[o] =
        tf.TF_AllocateOutput(context, (int)o, site->dtypes[o], view->shape, view->ndim, 0, status);
    if (!r->results[o]) return o;
    view->data = tf.TF_TensorData(r->results[o]);
    r->outputs[o] = view;
  }
  return count;
}

bool site_run(kernel_t *kernel, tf_context_t *context, tf_tensor_t *const *handles,
              tf_status_t *status) {
  const operator_t *self = kernel->self;
  const site_t *site = find_site(kernel, handles);
  run_t r;
  if (!site) return false;
  view_inputs(&r, kernel, site, handles);
  const uint32_t count = allocate_outputs(&r, kernel, site, context, status);
  if (count == self->output_count) {
    const tenon_status_t code = tenon_op_run(self->op, kernel->attr_values, r.inputs, r.outputs);
    if (code != TENON_OK) tf.TF_SetStatus(status, code, tenon_error());
  }
  for (uint32_t o = 0; o < count; o++)
    tf.TF_DeleteTensor(r.results[o]);
  return true;
}

/* ---- adding a site ---- */

static size_t count_extents(tenon_tensor_t *const *tensors, uint32_t count) {
  size_t total = 0;
  for (uint32_t i = 0; i < count; i++)
    if (tensors[i]) total += 2 * (size_t)tensors[i]->ndim;
  return total;
}

/* Copies a view with its shape, and returns the next free extent. */
static int64_t *copy_view(tenon_tensor_t *view, const tenon_tensor_t *tensor, int64_t *extents) {
  static char no_data[1];
  const size_t rank = (size_t)tensor->ndim;
  if (rank) memcpy(extents, tensor->shape, rank * sizeof *extents);
  (void)tenon_tensor_view(view, no_data, tensor->dtype, tensor->ndim, extents, NULL,
                          extents + rank);
  return extents + 2 * rank;
}

static site_t *make_site(const kernel_t *kernel, tenon_tensor_t *const *inputs,
                         tenon_tensor_t *const *outputs) {
  const operator_t *self = kernel->self;
  const size_t views = kernel->tensor_count + self->output_count;
  const size_t extents =
      count_extents(inputs, self->input_count) + count_extents(outputs, self->output_count);
  site_t *site = calloc(1, sizeof *site + views * sizeof *site->inputs + extents * sizeof(int64_t) +
                               self->output_count * sizeof *site->dtypes);
  if (!site) return NULL;
  site->outputs = site->inputs + kernel->tensor_count;
  site->extents = (int64_t *)(site->outputs + self->output_count);
  site->dtypes = (int *)(site->extents + extents);
  int64_t *next = site->extents;
  uint32_t k = 0;
  for (uint32_t i = 0; i < self->input_count; i++)
    if (inputs[i]) next = copy_view(&site->inputs[k++], inputs[i], next);
  for (uint32_t o = 0; o < self->output_count; o++) {
    site->dtypes[o] = tf_dtype_to(outputs[o]->dtype);
    next = copy_view(&site->outputs[o], outputs[o], next);
  }
  return site;
}

/* Whether inference alone knows the shapes of the results, which then do not depend on data. */
static bool has_inferred_shapes(const kernel_t *kernel, tenon_tensor_t *const *inputs,
                                tenon_shapes_t *shapes) {
  const operator_t *self = kernel->self;
  tenon_dim_t dims[OPERATOR_MOST][TENON_RANK_MAX];
  tenon_meta_t metas[OPERATOR_MOST];
  tenon_meta_t *given[OPERATOR_MOST] = {NULL};
  const tenon_meta_t *const *results = NULL;
  for (uint32_t i = 0; i < self->input_count; i++) {
    if (!inputs[i]) continue;
    metas[i] = (tenon_meta_t){.size = sizeof metas[i],
                              .dtype = inputs[i]->dtype,
                              .device = {1, 0},
                              .ndim = inputs[i]->ndim,
                              .dims = dims[i]};
    for (int32_t d = 0; d < inputs[i]->ndim; d++)
      dims[i][d].value = inputs[i]->shape[d];
    given[i] = &metas[i];
  }
  if (tenon_shapes_infer(shapes, self->op, kernel->attr_values, given, 0, &results) != TENON_OK)
    return false;
  for (uint32_t o = 0; o < self->output_count; o++) {
    if (results[o]->ndim < 0) return false;
    for (int32_t d = 0; d < results[o]->ndim; d++) {
      tenon_part_t part = {.size = sizeof part};
      if (tenon_shapes_part(shapes, results[o]->dims[d], &part) != TENON_OK ||
          part.kind != TENON_PART_NUMBER)
        return false;
    }
  }
  return true;
}

static bool has_fixed_results(const kernel_t *kernel, tenon_tensor_t *const *inputs) {
  tenon_shapes_t *shapes = NULL;
  const bool is_fixed =
      tenon_shapes_create(&shapes) == TENON_OK && has_inferred_shapes(kernel, inputs, shapes);
  tenon_shapes_release(shapes);
  return is_fixed;
}

/* Adds a site, if there is room for one. */
static void add_site(kernel_t *kernel, tenon_tensor_t *const *inputs,
                     tenon_tensor_t *const *outputs) {
  for (size_t i = 0; i < SITES_MOST; i++) {
    if (atomic_load_explicit(&kernel->sites[i], memory_order_relaxed)) continue;
    const site_t *site = make_site(kernel, inputs, outputs);
    atomic_store_explicit(&kernel->sites[i], site, memory_order_release);
    return;
  }
}

void site_remember(kernel_t *kernel, tenon_tensor_t *const *inputs,
                   tenon_tensor_t *const *outputs) {
  pthread_mutex_lock(&kernel->lock);
  if (!kernel->depends_on_data && !has_fixed_results(kernel, inputs))
    kernel->depends_on_data = true;
  if (!kernel->depends_on_data) add_site(kernel, inputs, outputs);
  pthread_mutex_unlock(&kernel->lock);
}
