/* Launches source kernels: on the CPU it calls the compiled function for each group; for a device
 * the same text is compiled for that device.  SOURCE functions call it through the host's
 * services. */
#include <stdlib.h>
#include <string.h>
#include <tenon/source.h>

#include "base/environment_check.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "device/instance.h"
#include "device/program.h"
#include "device/stream.h"
#include "drivers/grid.h"
#include "operator/op.h"

enum {
  ARGUMENTS = 2 * TN_SOURCE_PARAMETERS,
  GROUP = 64,
  EACH_LEAST = 1024,
  EACH_GROUP = 256, /* of a fused kernel, each item of which has one element */
};

static tenon_status_t check_grid(const tenon_call_t *call, const tenon_grid_t *g) {
  const char *wrong = NULL;
  if (!TENON_HAS(g, arguments) || !g->code || g->kernel >= g->code->kernel_count)
    wrong = "a kernel that its code does not have";
  else if (g->argument_count > ARGUMENTS)
    wrong = "too many arguments";
  else if (!g->items && !(g->groups[0] && g->groups[1] && g->groups[2]))
    wrong = "no groups";
  else if (g->items < 0)
    wrong = "fewer items than 0";
  return wrong ? tn_fail(TENON_INVALID, "%s: launch: %s", call->op->name, wrong) : TENON_OK;
}

/* on the CPU */

typedef struct work_t {
  const tenon_grid_t *grid;
  tenon_source_fn run;
  uint64_t groups[3];
  void *arguments[ARGUMENTS];
  size_t local_size; /* bytes of local memory, which the items of a group share */
} work_t;

static void pass_barrier(const tenon_item_id_t *id) { (void)id; }

static tenon_status_t run_groups(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const work_t *w = argument;
  const tenon_grid_t *g = w->grid;
  void *arguments[ARGUMENTS];
  tn_scratch_mark_t mark = tn_scratch_mark();
  char *local = w->local_size ? tn_scratch(w->local_size) : NULL;
  if (w->local_size && !local) return tn_no_memory("memory of a group", w->local_size);
  (void)call;
  memcpy(arguments, w->arguments, g->argument_count * sizeof *arguments);
  for (uint32_t i = 0; i < g->argument_count; i++)
    if (g->arguments[i].kind == TENON_ARG_LOCAL) {
      arguments[i] = local;
      local += (g->arguments[i].size + 63) & ~63u;
    }
  tenon_item_id_t id = {.groups = {w->groups[0], w->groups[1], w->groups[2]},
                        .items = {1, 1, 1},
                        .barrier = pass_barrier};
  for (int64_t i = begin; i < end; i++) {
    uint64_t at = (uint64_t)i;
    id.group[0] = at % w->groups[0];
    at /= w->groups[0];
    id.group[1] = at % w->groups[1];
    id.group[2] = at / w->groups[1];
    w->run(&id, arguments);
  }
  tn_scratch_reset(mark);
  return TENON_OK;
}

static tenon_status_t launch_on_cpu(tenon_call_t *call, const tenon_grid_t *g) {
  work_t w = {.grid = g};
  int64_t count;
  for (int d = 0; d < 3; d++)
    w.groups[d] = g->items ? 1 : g->groups[d];
  if (g->items) w.groups[0] = (uint64_t)tn_parallel_parts(g->items, EACH_LEAST);
  for (uint32_t i = 0; i < g->argument_count; i++) {
    const tenon_kernel_argument_t *a = &g->arguments[i];
    if (a->kind == TENON_ARG_MEMORY)
      w.arguments[i] = (char *)a->as.memory.handle + a->as.memory.offset;
    else if (a->kind == TENON_ARG_BYTES)
      w.arguments[i] = (void *)(uintptr_t)a->as.data;
    else
      w.local_size += (a->size + 63) & ~(size_t)63;
  }
  if (!tn_mul((int64_t)w.groups[0], (int64_t)w.groups[1], &count) ||
      !tn_mul(count, (int64_t)w.groups[2], &count))
    return tn_fail(TENON_RANGE, "%s: launch: too many groups", call->op->name);
  TN_TRY(tn_instance(g->code, g->kernel, g->constants, &w.run));
  return call->host->parallel(call, count, 1, run_groups, &w);
}

/* on a device */

/* TENON_GROUP=N sets the size of all groups, to find kernels that are wrong for some sizes. */
static int32_t wanted = -1;

void tn_grid_group_set(uint32_t items) {
  __atomic_store_n(&wanted, (int32_t)items, __ATOMIC_RELAXED);
}

static uint32_t group_wanted(void) {
  int32_t size = __atomic_load_n(&wanted, __ATOMIC_RELAXED);
  if (size < 0) {
    size = (int32_t)tn_environment_number("TENON_GROUP", 1 << 20);
    __atomic_store_n(&wanted, size, __ATOMIC_RELAXED);
  }
  return (uint32_t)size;
}

static tenon_status_t launch_on_device(tenon_call_t *call, const tenon_grid_t *g) {
  tn_ordinal_t *o = (tn_ordinal_t *)(uintptr_t)call->device; /* its context is its first member */
  tenon_kernel_argument_t arguments[ARGUMENTS];
  tenon_launch_t launch = {.size = sizeof launch,
                           .argument_count = g->argument_count,
                           .ticket = call->ticket,
                           .arguments = g->arguments};
  TN_TRY(tn_program_kernel(o, g->code, g->kernel, g->constants, &launch.kernel));
  uint32_t most = o->properties.group_most ? o->properties.group_most : 1;
  uint32_t group = group_wanted();
  if (!group) group = g->group[0] ? g->group[0] : GROUP;
  if (group > most) group = most;
  launch.group[0] = group;
  launch.group[1] = launch.group[2] = 1;
  if (g->items) {
    uint64_t groups = ((uint64_t)g->items + group - 1) / group;
    uint64_t enough = 64 * (uint64_t)(o->properties.units + 1);
    launch.groups[0] = groups < enough ? groups : enough;
    launch.groups[1] = launch.groups[2] = 1;
  } else {
    for (int d = 0; d < 3; d++)
      launch.groups[d] = g->groups[d];
    for (int d = 1; d < 3 && !group_wanted(); d++)
      if (g->group[d] && (uint64_t)launch.group[0] * launch.group[1] * g->group[d] <= most)
        launch.group[d] = g->group[d];
  }
  uint64_t items = (uint64_t)launch.group[0] * launch.group[1] * launch.group[2];
  for (uint32_t i = 0; i < g->argument_count; i++) {
    /* The size of local memory is for each item of the group, unless `access` is set: then it is
     * for the whole group. */
    if (g->arguments[i].kind != TENON_ARG_LOCAL) continue;
    if (launch.arguments != arguments) {
      memcpy(arguments, g->arguments, g->argument_count * sizeof *arguments);
      launch.arguments = arguments;
    }
    arguments[i].size *= arguments[i].access ? 1 : items;
    arguments[i].access = 0;
  }
  const uint64_t errors = tn_error_count();
  tenon_status_t status = o->table->launch(&o->context, call->stream, &launch);
  return tn_ordinal_complete(o, errors, "launch", status);
}

tenon_status_t tn_grid_launch(tenon_call_t *call, const tenon_grid_t *grid) {
  TN_TRY(check_grid(call, grid));
  return call->device ? launch_on_device(call, grid) : launch_on_cpu(call, grid);
}

/* fused kernels */

tenon_status_t tn_grid_launch_each(tn_ordinal_t *o, void *stream, uint64_t ticket, void *kernel,
                                   uint64_t items, const tenon_kernel_argument_t *arguments,
                                   uint32_t count) {
  const uint32_t most = o->properties.group_most ? o->properties.group_most : 1;
  uint32_t group = group_wanted() ? group_wanted() : EACH_GROUP;
  if (group > most) group = most;
  const tenon_launch_t launch = {.size = sizeof launch,
                                 .argument_count = count,
                                 .kernel = kernel,
                                 .groups = {(items + group - 1) / group, 1, 1},
                                 .group = {group, 1, 1},
                                 .ticket = ticket,
                                 .arguments = arguments};
  const uint64_t errors = tn_error_count();
  return tn_ordinal_complete(o, errors, "launch", o->table->launch(&o->context, stream, &launch));
}
