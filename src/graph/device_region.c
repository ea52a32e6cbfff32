/* Runs regions on devices, and prints them; see device_region.h. Called by interpreter.c and run.c.
 * Invariant: a layout that is in the list of a region never changes, so that runs search the list
 * without a lock. */
#include "graph/device_region.h"

#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/tensor.h"
#include "dispatch/launch.h"
#include "storage/device_memory.h"

enum { LAYOUTS_MOST = 16 };

/* A launch. */
typedef struct job_t {
  tn_device_region_t *region;
  tenon_tensor_t *const *inputs;
  int64_t shape[TENON_RANK_MAX]; /* of the results */
  uint64_t count;                /* of their elements */
  tn_fused_layout_t layout;
  tn_fused_walk_t walk;
  uint32_t walked;
} job_t;

/* The shape of the results */

static bool broadcast_to(job_t *job, const tenon_tensor_t *t) {
  const int32_t ndim = job->region->ndim;
  if (t->ndim > ndim) return false;
  for (int32_t d = 0; d < t->ndim; d++) {
    int64_t *extent = &job->shape[ndim - t->ndim + d];
    if (t->shape[d] == 1 || t->shape[d] == *extent) continue;
    if (*extent != 1) return false;
    *extent = t->shape[d];
  }
  return true;
}

/* Whether the kernel can read the tensor. */
static bool is_readable(const job_t *job, const tn_fused_value_t *value, const tenon_tensor_t *t,
                        tenon_device_t device) {
  return tn_dtype_same(t->dtype, value->dtype) && !(t->keys & TN_KEY_DETAIL) && !t->detail &&
         t->device.type == device.type && t->device.id == device.id && tn_memory_of(t) &&
         t->ndim <= job->region->ndim;
}

static bool find_shape(job_t *job, tenon_device_t device) {
  const tn_fused_t *fused = &job->region->fused;
  int32_t at = 0;
  for (int32_t d = 0; d < job->region->ndim; d++)
    job->shape[d] = 1;
  for (int32_t v = 0; v < fused->value_count; v++) {
    if (!fused->values[v].is_read) continue;
    const tenon_tensor_t *t = job->inputs[at++];
    if (!is_readable(job, &fused->values[v], t, device) || !broadcast_to(job, t)) return false;
  }
  job->count = 1;
  for (int32_t d = 0; d < job->region->ndim; d++)
    job->count *= (uint64_t)job->shape[d];
  return true;
}

/* The layout of the operands */

static bool lies_as_results(const job_t *job, const tenon_tensor_t *t) {
  return !(t->keys & TN_KEY_STRIDED) && (uint64_t)tenon_count(t) == job->count;
}

/* The strides of an operand along the axes of the results. */
static void list_strides(const job_t *job, const tenon_tensor_t *t, int64_t *strides) {
  for (int32_t d = 0; d < job->region->ndim; d++) {
    const int32_t own = d - (job->region->ndim - t->ndim);
    strides[d] = own >= 0 && t->shape[own] != 1 ? t->strides[own] : 0;
  }
}

/* Adds axis d to the walk, as a part of the last one if all operands allow it. */
static bool add_axis(job_t *job, int64_t strides[][TENON_RANK_MAX], int32_t d) {
  tn_fused_walk_t *w = &job->walk;
  const int32_t last = job->layout.rank - 1;
  bool joins = last >= 0;
  for (uint32_t k = 0; k < job->walked && joins; k++)
    joins = w->strides[k][last] == strides[k][d] * job->shape[d];
  if (!joins && job->layout.rank == 8) return false;
  const int32_t to = joins ? last : job->layout.rank++;
  w->shape[to] = joins ? w->shape[to] * job->shape[d] : job->shape[d];
  for (uint32_t k = 0; k < job->walked; k++)
    w->strides[k][to] = strides[k][d];
  return true;
}

static bool make_walk(job_t *job, const tenon_tensor_t *const *operands) {
  int64_t strides[TN_FUSED_WALKED][TENON_RANK_MAX];
  job->walk.count = (int64_t)job->count;
  for (uint32_t k = 0; k < job->walked; k++) {
    list_strides(job, operands[k], strides[k]);
    for (int32_t i = 0; i < operands[k]->ndim; i++)
      if (operands[k]->shape[i] > 1 && operands[k]->strides[i] < 0)
        job->walk.first[k] -= (operands[k]->shape[i] - 1) * operands[k]->strides[i];
  }
  for (int32_t d = 0; d < job->region->ndim; d++)
    if (job->shape[d] != 1 && !add_axis(job, strides, d)) return false;
  job->layout.is_wide = job->count >> 32;
  return true;
}

/* Finds how each operand lies. False: the kernel cannot have them. */
static bool find_layout(job_t *job) {
  const tenon_tensor_t *walked[TN_FUSED_WALKED];
  for (int32_t i = 0; i < job->region->read_count; i++) {
    const tenon_tensor_t *t = job->inputs[i];
    uint8_t *way = &job->layout.ways[i];
    *way = TN_FUSED_WALK;
    if (lies_as_results(job, t))
      *way = TN_FUSED_DENSE;
    else if (tenon_count(t) == 1)
      *way = TN_FUSED_ONE;
    if (*way != TN_FUSED_WALK) continue;
    if (job->walked == TN_FUSED_WALKED) return false;
    walked[job->walked++] = t;
  }
  return !job->walked || make_walk(job, walked);
}

static tn_device_layout_t *look_up(const job_t *job, int32_t *out_count) {
  tn_device_layout_t *at = __atomic_load_n(&job->region->layouts, __ATOMIC_ACQUIRE);
  for (*out_count = 0; at; at = at->next, ++*out_count)
    if (memcmp(&at->layout, &job->layout, sizeof at->layout) == 0) return at;
  return NULL;
}

/* Kernels */

static tn_device_layout_t *make_layout(job_t *job, uint32_t language) {
  tn_device_layout_t *l = tn_allocate_zero(1, sizeof *l);
  if (!l) return NULL;
  l->layout = job->layout;
  tn_fused_text(language, &job->region->fused, &job->layout, &l->text);
  if (l->text.failed) {
    tn_text_clear(&l->text);
    tn_release_memory(l);
    return NULL;
  }
  l->kernel = (tenon_code_kernel_t){TN_FUSED_KERNEL, NULL, NULL};
  l->code = (tenon_code_t){.size = sizeof l->code,
                           .kernel_count = 1,
                           .text = l->text.data,
                           .end = l->text.data + l->text.size,
                           .file = "a fused kernel",
                           .kernels = &l->kernel};
  l->next = job->region->layouts;
  __atomic_store_n(&job->region->layouts, l, __ATOMIC_RELEASE);
  return l;
}

/* Notes why the nodes run one by one from now on. */
static void give_up(tn_device_region_t *region, const char *reason) {
  char *text = tn_copy_text(reason, strlen(reason));
  tn_mutex_lock(&region->lock);
  if (!region->failure)
    __atomic_store_n(&region->failure, text, __ATOMIC_RELEASE);
  else
    tn_release_memory(text);
  tn_mutex_unlock(&region->lock);
}

/* Finds the text for these operands, and writes it if no run needed it before. */
static tn_device_layout_t *take_layout(job_t *job, tenon_device_t device) {
  int32_t count;
  tn_device_layout_t *found = look_up(job, &count);
  tn_ordinal_t *ordinal;
  if (found) return found;
  if (count >= LAYOUTS_MOST) {
    give_up(job->region, "its operands lie in more than 16 ways");
    return NULL;
  }
  if (tn_ordinal_get(device, &ordinal) != TENON_OK) return NULL;
  tn_mutex_lock(&job->region->lock);
  if (!(found = look_up(job, &count))) found = make_layout(job, tn_program_language(ordinal));
  tn_mutex_unlock(&job->region->lock);
  return found;
}

/* Runs */

static tenon_status_t create_outputs(const job_t *job, tenon_device_t device,
                                     tenon_tensor_t **outputs) {
  const tn_fused_t *fused = &job->region->fused;
  int32_t at = 0;
  for (int32_t v = 0; v < fused->value_count; v++)
    if (fused->values[v].is_written)
      TN_TRY(tn_device_tensor_create(device, fused->values[v].dtype, job->region->ndim, job->shape,
                                     &outputs[at++]));
  return TENON_OK;
}

static tenon_status_t launch_region(const tenon_executable_t *e, job_t *job, tenon_device_t device,
                                    tenon_tensor_t **outputs, bool *out_ran) {
  tn_device_region_t *region = job->region;
  tn_device_layout_t *l = job->count ? take_layout(job, device) : NULL;
  if (job->count && !l) return TENON_OK;
  *out_ran = true;
  TN_TRY(create_outputs(job, device, outputs));
  if (!job->count) return TENON_OK;
  const tn_fused_launch_t launch = {.device = device,
                                    .name = e->graph->nodes[region->nodes[0]].op->name,
                                    .code = &l->code,
                                    .inputs = job->inputs,
                                    .outputs = outputs,
                                    .input_count = (uint32_t)region->read_count,
                                    .output_count = (uint32_t)region->written_count,
                                    .bytes = job->walked ? (const void *)&job->walk : &job->count,
                                    .byte_count = job->walked ? tn_fused_walk_size(job->walked)
                                                              : sizeof job->count,
                                    .elements = job->count};
  bool is_compiled;
  const tenon_status_t status = tn_launch_fused(&launch, &is_compiled);
  if (status == TENON_OK) __atomic_add_fetch(&region->launches, 1, __ATOMIC_RELAXED);
  if (is_compiled) return status;
  *out_ran = false;
  give_up(region, tn_error());
  return TENON_OK;
}

tenon_status_t tn_device_region_run(const tenon_executable_t *e, tn_device_region_t *region,
                                    tenon_tensor_t *const *inputs, tenon_tensor_t **outputs,
                                    bool *out_ran) {
  const tenon_device_t device = e->placement.devices[region->device_index];
  job_t job = {.region = region, .inputs = inputs};
  *out_ran = false;
  if (__atomic_load_n(&region->failure, __ATOMIC_ACQUIRE)) return TENON_OK;
  if (!find_shape(&job, device) || !find_layout(&job)) return TENON_OK;
  const tenon_status_t status = launch_region(e, &job, device, outputs, out_ran);
  for (int32_t i = 0; i < region->written_count && (!*out_ran || status != TENON_OK); i++) {
    tenon_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}

/* Release and dumps */

void tn_device_regions_release(tn_device_regions_t *regions) {
  for (size_t i = 0; i < regions->count; i++) {
    tn_device_region_t *r = regions->at[i];
    for (tn_device_layout_t *l = r->layouts, *next; l; l = next) {
      next = l->next;
      tn_text_clear(&l->text);
      tn_release_memory(l);
    }
    tn_release_memory(r->failure);
  }
  tn_release_memory(regions->at);
  tn_arena_clear(&regions->memory);
}

static void print_device_region(const tenon_executable_t *e, tn_device_region_t *r,
                                tn_text_t *text) {
  const tenon_graph_t *g = e->graph;
  const char *failure = __atomic_load_n(&r->failure, __ATOMIC_ACQUIRE);
  char room[300];
  int kernels = 0;
  for (const tn_device_layout_t *l = __atomic_load_n(&r->layouts, __ATOMIC_ACQUIRE); l; l = l->next)
    kernels++;
  tn_text_add(text, "  node %d: %s\n", (int)r->nodes[0], r->label);
  tn_text_add(text,
              "    one kernel on %s: %d operands read, %d results stored, compiled for %d layouts, "
              "launched %llu times\n",
              tn_device_text(e->placement.devices[r->device_index], room, sizeof room),
              (int)r->read_count, (int)r->written_count, kernels,
              (unsigned long long)__atomic_load_n(&r->launches, __ATOMIC_RELAXED));
  for (int32_t m = 0; m < r->fused.member_count; m++) {
    const tn_node_t *node = &g->nodes[r->nodes[m]];
    tn_text_add(text, "    fused  %s  %s [%s, %s]\n", node->name, node->op->name,
                r->kernels[m]->text, r->kernels[m]->library->name);
  }
  if (failure) tn_text_add(text, "    runs node by node: %s\n", failure);
  if (r->next)
    tn_text_add(text, "    ends here: %s (%s) reads a value of it, but %s\n", r->next, r->next_op,
                r->reason);
  else
    tn_text_add(text, "    ends here: no other node reads its values\n");
}

void tn_device_regions_print(const tenon_executable_t *e, tn_text_t *text) {
  tn_text_add(text,
              "no memory plan: on devices, nodes run one by one, and regions as one kernel\n");
  for (size_t i = 0; i < e->device_regions.count; i++)
    print_device_region(e, e->device_regions.at[i], text);
  if (!e->device_regions.count) tn_text_add(text, "  no two pointwise nodes can be one kernel\n");
}
