/* The wrappers around library functions, and the table of host services that kernels receive; see
 * probe.h. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scratch.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dispatch/infer.h"
#include "dispatch/services.h"
#include "guard.h"
#include "storage/device_memory.h"
#include "suite.h"

probe_t probe;
_Thread_local int probe_inside;

#define COUNT(field) __atomic_fetch_add(&probe.field, 1, __ATOMIC_RELAXED)

static tenon_host_t host;

typedef struct block_t { /* guarded memory of a call */
  struct block_t *next;
  guard_t *guard;
  const tenon_call_t *call;
} block_t;
static _Thread_local block_t *blocks;

static bool inject_failure(const char *service) {
  int64_t n = COUNT(services) + 1;
  if (!probe.fail_service || n != probe.fail_service) return false;
  snprintf(probe.failed_service, sizeof probe.failed_service, "%s", service);
  COUNT(failed_services);
  tenon_error_set(TENON_MEMORY, "failure injected by the check");
  return true;
}

static tenon_status_t note_failure(const char *service, tenon_status_t status) {
  if (status == TENON_OK) return status;
  snprintf(probe.failed_service, sizeof probe.failed_service, "%s", service);
  COUNT(failed_services);
  return status;
}

#define OUTSIDE(call) /* calls host code from within library code */                               \
  int inside = probe_inside;                                                                       \
  probe_inside = 0;                                                                                \
  call;                                                                                            \
  probe_inside = inside

static guard_t *keep_block(const tenon_call_t *call, const char *name, size_t size,
                           size_t alignment) {
  block_t *b = calloc(1, sizeof *b);
  guard_t *g = b ? guard_make(GUARD_TEMPORARY, name, size, alignment, probe.at_end) : NULL;
  if (!g) {
    free(b);
    return NULL;
  }
  memset(g->data, probe.poison, size);
  *b = (block_t){blocks, g, call};
  blocks = b;
  return g;
}

/* Temporaries of a composite kernel may become its results, so they are not guarded. */
static bool may_guard(const tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of_const(call);
  const tn_kernel_t *kernel = frame->kernel;
  if (!kernel && frame->entry) kernel = frame->entry->only;
  return probe.guards && !(kernel && kernel->kind == TN_KIND_COMPOSITE) &&
         tn_call_device(call).type == 1;
}

static void *allocate(tenon_call_t *call, uint64_t size) {
  void *memory = NULL;
  if (inject_failure("allocate")) return NULL;
  OUTSIDE(if (may_guard(call)) {
    guard_t *g = keep_block(call, "temporary memory", size, 64);
    memory = g ? g->data : NULL;
  } else memory = tn_host.allocate(call, size));
  if (!memory) note_failure("allocate", TENON_MEMORY);
  return memory;
}

static tenon_tensor_t *temporary(tenon_call_t *call, tenon_dtype_t dtype, int32_t ndim,
                                 const int64_t *shape) {
  tenon_tensor_t *made = NULL;
  if (inject_failure("temporary")) return NULL;
  OUTSIDE(made = tn_host.temporary(call, dtype, ndim, shape));
  uint64_t size;
  if (made && may_guard(call) && tn_dtype_bytes(dtype, tenon_count(made), &size)) {
    guard_t *g = keep_block(call, "a temporary tensor", size, 64);
    if (g) made->data = g->data; /* its own memory is freed with the call */
  }
  if (!made) note_failure("temporary", TENON_MEMORY);
  return made;
}

static tenon_tensor_t *view(tenon_call_t *call, const tenon_tensor_t *of, int64_t offset,
                            int32_t ndim, const int64_t *shape, const int64_t *strides) {
  tenon_tensor_t *made;
  if (inject_failure("view")) return NULL;
  OUTSIDE(made = tn_host.view(call, of, offset, ndim, shape, strides));
  if (!made) note_failure("view", TENON_INVALID);
  return made;
}

static tenon_status_t resize(tenon_call_t *call, uint32_t output, int32_t ndim,
                             const int64_t *shape) {
  tenon_status_t status;
  if (inject_failure("resize")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.resize(call, output, ndim, shape));
  return note_failure("resize", status);
}

static tenon_status_t assign(tenon_call_t *call, uint32_t output, tenon_tensor_t *tensor) {
  tenon_status_t status;
  if (inject_failure("assign")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.assign(call, output, tensor));
  return note_failure("assign", status);
}

static tenon_status_t set_string(tenon_call_t *call, tenon_tensor_t *output, int64_t index,
                                 const char *data, uint64_t size) {
  tenon_status_t status;
  if (inject_failure("set_string")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.set_string(call, output, index, data, size));
  return note_failure("set_string", status);
}

static tenon_status_t invoke(tenon_call_t *call, const tenon_op_t *op, const tenon_value_t *attrs,
                             tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  tenon_status_t status;
  if (inject_failure("invoke")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.invoke(call, op, attrs, inputs, outputs));
  return note_failure("invoke", status);
}

static tenon_status_t evaluate(tenon_call_t *call, const tenon_graph_t *graph, uint32_t input_count,
                               tenon_tensor_t *const *inputs, uint32_t output_count,
                               tenon_tensor_t **outputs) {
  tenon_status_t status;
  if (inject_failure("evaluate")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.evaluate(call, graph, input_count, inputs, output_count, outputs));
  return note_failure("evaluate", status);
}

typedef struct part_t {
  tenon_part_fn own;
  void *argument;
} part_t;

static tenon_status_t run_part(tenon_call_t *call, void *argument, int64_t begin, int64_t end) {
  const part_t *part = argument;
  probe_inside++;
  tenon_status_t status = part->own(call, part->argument, begin, end);
  probe_inside--;
  return status;
}

static tenon_status_t parallel(tenon_call_t *call, int64_t count, int64_t grain, tenon_part_fn own,
                               void *argument) {
  tenon_status_t status;
  part_t part = {own, argument};
  if (inject_failure("parallel")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.parallel(call, count, grain, run_part, &part));
  return note_failure("parallel", status);
}

static tenon_status_t adopt(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape,
                            void *data, tenon_free_fn release, void *context) {
  tenon_status_t status;
  if (inject_failure("adopt")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.adopt(call, output, ndim, shape, data, release, context));
  return note_failure("adopt", status);
}

static tenon_status_t sparse(tenon_call_t *call, uint32_t output, int32_t ndim,
                             const int64_t *shape, int64_t count) {
  tenon_status_t status;
  if (inject_failure("sparse")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.sparse(call, output, ndim, shape, count));
  return note_failure("sparse", status);
}

void probe_start(void) {
  if (host.size) return;
  host = tn_host;
  host.allocate = allocate;
  host.temporary = temporary;
  host.view = view;
  host.resize = resize;
  host.assign = assign;
  host.set_string = set_string;
  host.invoke = invoke;
  host.evaluate = evaluate;
  host.parallel = parallel;
  host.adopt = adopt;
  host.sparse = sparse;
}

static void check_block(guard_t *g, const char *over, const char *under) {
  int64_t far = guard_damage(g);
  if (far) {
    const char *id = far > 0 ? over : under;
    const char *where = far > 0 ? "past the end of" : "before";
    const long long offset = far > 0 ? far - 1 : -far;
    finding_by_the_way(NULL, id, "nothing is written outside this memory",
                       "check how the kernel computes the size of this memory",
                       "the byte %lld %s %s of %zu bytes was overwritten", offset, where, g->name,
                       g->length);
  }
  guard_free(g);
}

static void free_blocks(const tenon_call_t *call) {
  for (block_t **at = &blocks; *at;) {
    block_t *b = *at;
    if (b->call != call) {
      at = &b->next;
      continue;
    }
    *at = b->next;
    check_block(b->guard, "workspace.temporary", "workspace.temporary");
    free(b);
  }
}

/* Size of the workspace that infer requests for this call. */
static int64_t workspace_size(const tenon_call_t *call) {
  tn_inference_t inference = {.extents = NULL};
  tenon_meta_t **inputs, **results;
  int64_t size = 0;
  tn_scratch_mark_t mark = tn_scratch_mark();
  if (tn_metas_of_inputs(call->op, call->inputs, &inputs) == TENON_OK &&
      tn_metas_of_results(call->op, call->attrs, 0, &results) == TENON_OK &&
      tn_infer(&inference, call->op, call->attrs, call->state, inputs, results) == TENON_OK)
    size = inference.infer.workspace.value;
  tn_scratch_reset(mark);
  return size;
}

/* Reports a failure without a reason, and a status that does not exist. A service that was made to
 * fail on purpose gives no reason either. */
static tenon_status_t check_failure(tenon_status_t status, uint64_t errors_before,
                                    const char *function) {
  if (status == TENON_OK || probe.failed_services) return status;
  if (!tn_status_exists(status))
    finding_by_the_way(NULL, "failure.status",
                       "a function returns one of the values of "
                       "tenon_status_t",
                       "return the status that tenon_fail returns",
                       "%s returned status %d, which does not exist", function, (int)status);
  else if (tn_error_count() == errors_before)
    finding_by_the_way(NULL, "failure.silent", "a function that fails gives a reason",
                       "return tenon_fail(context, status, \"...\") instead of the status alone",
                       "%s failed (%s) and gave no reason", function, tn_status_name(status));
  return status;
}

static tenon_status_t call_kernel(tenon_run_fn own, tenon_call_t *call) {
  const uint64_t errors = tn_error_count();
  probe_inside++;
  tenon_status_t status = probe.around_run ? probe.around_run(own, call) : own(call);
  probe_inside--;
  return check_failure(status, errors, "the kernel");
}

tenon_status_t probe_run_around(tenon_run_fn own, tenon_call_t *call) {
  const tenon_host_t *before = call->host;
  void *workspace = call->workspace;
  guard_t *guard = NULL;
  COUNT(runs);
  probe_start();
  int64_t size =
      workspace && probe.guards && tn_call_device(call).type == 1 ? workspace_size(call) : 0;
  if (size > 0)
    guard = guard_make(GUARD_WORKSPACE, "the workspace", (size_t)size, 64, probe.at_end);
  if (guard) {
    memset(guard->data, probe.poison, guard->length);
    call->workspace = guard->data;
  }
  call->host = &host;
  tenon_status_t status = call_kernel(own, call);
  call->host = before;
  call->workspace = workspace;
  if (guard) check_block(guard, "workspace.over", "workspace.under");
  free_blocks(call);
  return status;
}

tenon_status_t probe_loop_around(tenon_loop_fn own, const tenon_loop_t *loop) {
  COUNT(loops);
  const uint64_t errors = tn_error_count();
  probe_inside++;
  tenon_status_t status = own(loop);
  probe_inside--;
  return check_failure(status, errors, "the kernel");
}

tenon_status_t probe_stub_around(tenon_stub_fn own, const tenon_iterator_t *iterator) {
  COUNT(loops);
  const uint64_t errors = tn_error_count();
  probe_inside++;
  tenon_status_t status = own(iterator);
  probe_inside--;
  return check_failure(status, errors, "the kernel");
}

tenon_status_t probe_infer_around(tenon_infer_fn own, tenon_infer_t *infer) {
  COUNT(infers);
  const uint64_t errors = tn_error_count();
  probe_inside++;
  tenon_status_t status = own(infer);
  probe_inside--;
  return check_failure(status, errors, "infer");
}

tenon_status_t probe_node_around(tenon_node_fn own, tenon_node_t *node) {
  if (node->phase == TENON_PHASE_CREATE) COUNT(creates);
  if (node->phase == TENON_PHASE_PREPARE) COUNT(prepares);
  const uint64_t errors = tn_error_count();
  probe_inside++;
  tenon_status_t status = own(node);
  probe_inside--;
  return check_failure(status, errors, "create or prepare");
}

void probe_destroy_around(tenon_free_fn own, void *state) {
  COUNT(destroys);
  probe_inside++;
  own(state);
  probe_inside--;
}
