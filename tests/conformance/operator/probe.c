/* Trampolines, and the table of services that kernels under test get; see probe.h. */
#include "probe.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scratch.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "dispatch/infer.h"
#include "guard.h"
#include "suite.h"

probe_t probe;
_Thread_local int probe_inside;

#define COUNT(field) __atomic_fetch_add(&probe.field, 1, __ATOMIC_RELAXED)

/* ---- services ----------------------------------------------------------------------------------------------------- */

static tenon_host_t host;

typedef struct block_t { /* guarded memory of a call */
  struct block_t *next;
  guard_t *guard;
  const tenon_call_t *call;
} block_t;
static _Thread_local block_t *blocks;

static bool fails(const char *service) {
  int64_t n = COUNT(services) + 1;
  if (!probe.fail_service || n != probe.fail_service) return false;
  snprintf(probe.failed_service, sizeof probe.failed_service, "%s", service);
  COUNT(failed_services);
  tenon_error_set(TENON_MEMORY, "a failure that the check made");
  return true;
}

static tenon_status_t seen(const char *service, tenon_status_t status) {
  if (status == TENON_OK) return status;
  snprintf(probe.failed_service, sizeof probe.failed_service, "%s", service);
  COUNT(failed_services);
  return status;
}

#define OUTSIDE(call) /* a call of the host's code from the library's */                                               \
  int inside = probe_inside;                                                                                           \
  probe_inside = 0;                                                                                                    \
  call;                                                                                                                \
  probe_inside = inside

static guard_t *keep_block(const tenon_call_t *call, const char *name, size_t size, size_t alignment) {
  block_t *b = calloc(1, sizeof *b);
  guard_t *g = b ? guard_make(GUARD_TEMPORARY, name, size, alignment, probe.at_end) : NULL;
  if (!g) return free(b), NULL;
  memset(g->data, probe.poison, size);
  *b = (block_t){blocks, g, call}, blocks = b;
  return g;
}

/* Temporaries of a composite may become its results: they are left as they are. */
static bool may_guard(const tenon_call_t *call) {
  const tn_frame_t *frame = tn_frame_of_const(call);
  const tn_kernel_t *kernel = frame->kernel ? frame->kernel : frame->slot ? frame->slot->only : NULL;
  return probe.guards && !(kernel && kernel->kind == TN_KERNEL_COMPOSITE) && tn_call_device(call).type == 1;
}

static void *allocate(tenon_call_t *call, uint64_t size) {
  void *memory = NULL;
  if (fails("allocate")) return NULL;
  OUTSIDE(if (may_guard(call)) {
    guard_t *g = keep_block(call, "temporary memory", size, 64);
    memory = g ? g->data : NULL;
  } else memory = tn_host.allocate(call, size));
  if (!memory) seen("allocate", TENON_MEMORY);
  return memory;
}

static tenon_tensor_t *temporary(tenon_call_t *call, tenon_dtype_t dtype, int32_t ndim, const int64_t *shape) {
  tenon_tensor_t *made = NULL;
  if (fails("temporary")) return NULL;
  OUTSIDE(made = tn_host.temporary(call, dtype, ndim, shape));
  uint64_t size;
  if (made && may_guard(call) && tn_dtype_bytes(dtype, tenon_count(made), &size)) {
    guard_t *g = keep_block(call, "a temporary tensor", size, 64);
    if (g) made->data = g->data; /* its own memory goes with the call */
  }
  if (!made) seen("temporary", TENON_MEMORY);
  return made;
}

static tenon_tensor_t *view(tenon_call_t *call, const tenon_tensor_t *of, int64_t offset, int32_t ndim,
                            const int64_t *shape, const int64_t *strides) {
  tenon_tensor_t *made;
  if (fails("view")) return NULL;
  OUTSIDE(made = tn_host.view(call, of, offset, ndim, shape, strides));
  if (!made) seen("view", TENON_INVALID);
  return made;
}

static tenon_status_t resize(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape) {
  tenon_status_t status;
  if (fails("resize")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.resize(call, output, ndim, shape));
  return seen("resize", status);
}

static tenon_status_t assign(tenon_call_t *call, uint32_t output, tenon_tensor_t *tensor) {
  tenon_status_t status;
  if (fails("assign")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.assign(call, output, tensor));
  return seen("assign", status);
}

static tenon_status_t set_string(tenon_call_t *call, tenon_tensor_t *output, int64_t index, const char *data,
                                 uint64_t size) {
  tenon_status_t status;
  if (fails("set_string")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.set_string(call, output, index, data, size));
  return seen("set_string", status);
}

static tenon_status_t invoke(tenon_call_t *call, const tenon_op_t *op, const tenon_value_t *attrs,
                             tenon_tensor_t *const *inputs, tenon_tensor_t **outputs) {
  tenon_status_t status;
  if (fails("invoke")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.invoke(call, op, attrs, inputs, outputs));
  return seen("invoke", status);
}

static tenon_status_t evaluate(tenon_call_t *call, const tenon_graph_t *graph, uint32_t input_count,
                               tenon_tensor_t *const *inputs, uint32_t output_count, tenon_tensor_t **outputs) {
  tenon_status_t status;
  if (fails("evaluate")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.evaluate(call, graph, input_count, inputs, output_count, outputs));
  return seen("evaluate", status);
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

static tenon_status_t parallel(tenon_call_t *call, int64_t count, int64_t grain, tenon_part_fn own, void *argument) {
  tenon_status_t status;
  part_t part = {own, argument};
  if (fails("parallel")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.parallel(call, count, grain, run_part, &part));
  return seen("parallel", status);
}

static tenon_status_t adopt(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape, void *data,
                            tenon_free_fn release, void *context) {
  tenon_status_t status;
  if (fails("adopt")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.adopt(call, output, ndim, shape, data, release, context));
  return seen("adopt", status);
}

static tenon_status_t sparse(tenon_call_t *call, uint32_t output, int32_t ndim, const int64_t *shape, int64_t count) {
  tenon_status_t status;
  if (fails("sparse")) return TENON_MEMORY;
  OUTSIDE(status = tn_host.sparse(call, output, ndim, shape, count));
  return seen("sparse", status);
}

static void make_host(void) {
  if (host.size) return;
  host = tn_host;
  host.allocate = allocate, host.temporary = temporary, host.view = view, host.resize = resize, host.assign = assign;
  host.set_string = set_string, host.invoke = invoke, host.evaluate = evaluate, host.parallel = parallel;
  host.adopt = adopt, host.sparse = sparse;
}

/* ---- functions of the library ----------------------------------------------------------------------------------------- */

static void check_block(guard_t *g, const char *over, const char *under) {
  int64_t far = guard_damage(g);
  if (far) {
    finding_by_the_way(NULL, far > 0 ? over : under, "nothing is written outside of it",
                       "look where the kernel computes its size", "the byte %lld %s %s of %zu bytes was written",
                       (long long)(far > 0 ? far - 1 : -far), far > 0 ? "behind the end of" : "before", g->name,
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

/* What infer asks for this call. */
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

static tenon_status_t enter(tenon_run_fn own, tenon_call_t *call) {
  probe_inside++;
  tenon_status_t status = probe.around_run ? probe.around_run(own, call) : own(call);
  probe_inside--;
  return status;
}

static tenon_status_t run_around(tenon_run_fn own, tenon_call_t *call) {
  const tenon_host_t *before = call->host;
  void *workspace = call->workspace;
  guard_t *guard = NULL;
  COUNT(runs);
  make_host();
  int64_t size = workspace && probe.guards && tn_call_device(call).type == 1 ? workspace_size(call) : 0;
  if (size > 0) guard = guard_make(GUARD_WORKSPACE, "the workspace", (size_t)size, 64, probe.at_end);
  if (guard) memset(guard->data, probe.poison, guard->length), call->workspace = guard->data;
  call->host = &host;
  tenon_status_t status = enter(own, call);
  call->host = before, call->workspace = workspace;
  if (guard) check_block(guard, "workspace.over", "workspace.under");
  free_blocks(call);
  return status;
}

static tenon_status_t loop_around(tenon_loop_fn own, const tenon_loop_t *loop) {
  COUNT(loops);
  probe_inside++;
  tenon_status_t status = own(loop);
  probe_inside--;
  return status;
}

static tenon_status_t stub_around(tenon_stub_fn own, const tenon_iterator_t *iterator) {
  COUNT(loops);
  probe_inside++;
  tenon_status_t status = own(iterator);
  probe_inside--;
  return status;
}

static tenon_status_t infer_around(tenon_infer_fn own, tenon_infer_t *infer) {
  COUNT(infers);
  probe_inside++;
  tenon_status_t status = own(infer);
  probe_inside--;
  return status;
}

static tenon_status_t node_around(tenon_node_fn own, tenon_node_t *node) {
  if (node->phase == TENON_PHASE_CREATE) COUNT(creates);
  if (node->phase == TENON_PHASE_PREPARE) COUNT(prepares);
  probe_inside++;
  tenon_status_t status = own(node);
  probe_inside--;
  return status;
}

static void destroy_around(tenon_free_fn own, void *state) {
  COUNT(destroys);
  probe_inside++;
  own(state);
  probe_inside--;
}

/* ---- pools ---------------------------------------------------------------------------------------------------------------- */

/* Functions by the octal number in their name: 4,096 of kernels and loops, 512 of what operators have once. */
#define EIGHT(F, p) F(p##0) F(p##1) F(p##2) F(p##3) F(p##4) F(p##5) F(p##6) F(p##7)
#define EIGHT_2(F, p)                                                                                                  \
  EIGHT(F, p##0)                                                                                                       \
  EIGHT(F, p##1) EIGHT(F, p##2) EIGHT(F, p##3) EIGHT(F, p##4) EIGHT(F, p##5) EIGHT(F, p##6) EIGHT(F, p##7)
#define EIGHT_3(F, p)                                                                                                  \
  EIGHT_2(F, p##0)                                                                                                     \
  EIGHT_2(F, p##1) EIGHT_2(F, p##2) EIGHT_2(F, p##3) EIGHT_2(F, p##4) EIGHT_2(F, p##5) EIGHT_2(F, p##6) EIGHT_2(F, p##7)
#define EIGHT_4(F, p)                                                                                                  \
  EIGHT_3(F, p##0)                                                                                                     \
  EIGHT_3(F, p##1) EIGHT_3(F, p##2) EIGHT_3(F, p##3) EIGHT_3(F, p##4) EIGHT_3(F, p##5) EIGHT_3(F, p##6) EIGHT_3(F, p##7)
#define FEW(F) EIGHT_3(F, 0)
#define MANY(F) EIGHT_4(F, 0)
enum { FEW_COUNT = 512, MANY_COUNT = 4096 };

#define POOL(name, count, LIST, result, type, parameter)                                                               \
  static type name##_own[count];                                                                                       \
  static uint32_t name##_used;                                                                                         \
  LIST(POOL_##name)                                                                                                    \
  static type const name##_pool[count] = {LIST(POOL_NAME_##name)};
#define POOL_run(n)                                                                                                    \
  static tenon_status_t run_##n(tenon_call_t *c) { return run_around(run_own[n], c); }
#define POOL_NAME_run(n) run_##n,
#define POOL_loop(n)                                                                                                   \
  static tenon_status_t loop_##n(const tenon_loop_t *c) { return loop_around(loop_own[n], c); }
#define POOL_NAME_loop(n) loop_##n,
#define POOL_stub(n)                                                                                                   \
  static tenon_status_t stub_##n(const tenon_iterator_t *c) { return stub_around(stub_own[n], c); }
#define POOL_NAME_stub(n) stub_##n,
#define POOL_infer(n)                                                                                                  \
  static tenon_status_t infer_##n(tenon_infer_t *c) { return infer_around(infer_own[n], c); }
#define POOL_NAME_infer(n) infer_##n,
#define POOL_node(n)                                                                                                   \
  static tenon_status_t node_##n(tenon_node_t *c) { return node_around(node_own[n], c); }
#define POOL_NAME_node(n) node_##n,
#define POOL_destroy(n)                                                                                                \
  static void destroy_##n(void *c) { destroy_around(destroy_own[n], c); }
#define POOL_NAME_destroy(n) destroy_##n,
/* clang-format off */
POOL(run, MANY_COUNT, MANY, tenon_status_t, tenon_run_fn, tenon_call_t *)
POOL(loop, MANY_COUNT, MANY, tenon_status_t, tenon_loop_fn, const tenon_loop_t *)
POOL(stub, FEW_COUNT, FEW, tenon_status_t, tenon_stub_fn, const tenon_iterator_t *)
POOL(infer, FEW_COUNT, FEW, tenon_status_t, tenon_infer_fn, tenon_infer_t *)
POOL(node, FEW_COUNT, FEW, tenon_status_t, tenon_node_fn, tenon_node_t *)
POOL(destroy, FEW_COUNT, FEW, void, tenon_free_fn, void *)
/* clang-format on */

/* A function of the pool for `own`; `own` itself when none is left. */
#define TAKE(name, count, own)                                                                                         \
  (name##_used == (count)                                                                                              \
       ? (own)                                                                                                         \
       : (name##_own[name##_used] = (__typeof__(name##_own[0]))(own), (tenon_any_fn)name##_pool[name##_used++]))

static tenon_any_fn wrap(uint32_t tag, tenon_any_fn own) {
  if (!own || own == (tenon_any_fn)tenon_fallback_cpu) return own;
  switch (tag & ~TENON_MUST) {
  case TENON_TAG_KERNEL:
  case TENON_TAG_COMPOSITE:
  case TENON_TAG_SOURCE: return TAKE(run, MANY_COUNT, own);
  case TENON_TAG_LOOP:
  case TENON_TAG_ROW: return TAKE(loop, MANY_COUNT, own);
  case TENON_TAG_STUB: return TAKE(stub, FEW_COUNT, own);
  case TENON_TAG_INFER: return TAKE(infer, FEW_COUNT, own);
  case TENON_TAG_CREATE:
  case TENON_TAG_PREPARE: return TAKE(node, FEW_COUNT, own);
  case TENON_TAG_DESTROY: return TAKE(destroy, FEW_COUNT, own);
  default: return own;
  }
}

tenon_any_fn probe_original(tenon_any_fn ours) {
  for (uint32_t i = 0; i < run_used; i++)
    if (ours == (tenon_any_fn)run_pool[i]) return (tenon_any_fn)run_own[i];
  for (uint32_t i = 0; i < loop_used; i++)
    if (ours == (tenon_any_fn)loop_pool[i]) return (tenon_any_fn)loop_own[i];
  return ours;
}

/* ---- descriptors ---------------------------------------------------------------------------------------------------------- */

typedef struct items_t {
  tenon_item_t *items;
  size_t count, capacity;
} items_t;

static void add(items_t *list, tenon_item_t item) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity ? 2 * list->capacity : 64;
    list->items = realloc(list->items, list->capacity * sizeof item);
    if (!list->items) abort();
  }
  list->items[list->count++] = item;
}

/* "ns::add.out(Tensor x)" of the reference: its name with an ending. */
static const char *twin_schema(const char *schema) {
  size_t head = strcspn(schema, "("), name = head, size = strlen(schema) + 16;
  while (name && (schema[name - 1] == ' ' || schema[name - 1] == '\n' || schema[name - 1] == '\t')) name--;
  char *made = malloc(size);
  if (!made) abort();
  snprintf(made, size, "%.*s_reference%s", (int)name, schema, schema + head);
  return made;
}

/* An operator whose only kernel is the reference of the one that begins at items[0]. */
static void add_twin(items_t *list, const tenon_item_t *items, const tenon_item_t *end) {
  tenon_any_fn reference = NULL;
  for (const tenon_item_t *i = items; i < end; i++)
    if ((i->tag & ~TENON_MUST) == TENON_TAG_REFERENCE) reference = i->function;
  if (!reference) return;
  for (const tenon_item_t *i = items; i < end; i++) {
    tenon_item_t copy = *i;
    switch (i->tag & ~TENON_MUST) {
    case TENON_TAG_OP: copy.text = twin_schema(i->text); break;
    case TENON_TAG_TYPES:
    case TENON_TAG_SHAPES:
    case TENON_TAG_WHERE:
    case TENON_TAG_TRAITS:
    case TENON_TAG_INFER:
    case TENON_TAG_CREATE:
    case TENON_TAG_DESTROY:
    case TENON_TAG_USES:
    case TENON_TAG_VERSION: break;
    default: continue;
    }
    add(list, copy);
  }
  add(list, (tenon_item_t){TENON_TAG_KERNEL, 0, 0, "cpu", reference});
}

static const tenon_item_t *copy_items(const tenon_item_t *items) {
  items_t list = {NULL, 0, 0}, twins = {NULL, 0, 0};
  const tenon_item_t *begun = NULL;
  for (const tenon_item_t *i = items;; i++) {
    uint32_t tag = i->tag & ~TENON_MUST;
    if (begun && (tag == TENON_TAG_OP || tag == TENON_TAG_EXTEND || tag == TENON_TAG_GROUP || tag == TENON_TAG_END))
      add_twin(&twins, begun, i), begun = NULL;
    if (tag == TENON_TAG_END) break;
    if (tag == TENON_TAG_OP && i->text) begun = i;
    tenon_item_t copy = *i;
    if (tag == TENON_TAG_GROUP && i->text) copy.text = copy_items(i->text);
    else copy.function = wrap(i->tag, i->function);
    add(&list, copy);
  }
  for (size_t k = 0; k < twins.count; k++) add(&list, twins.items[k]);
  add(&list, (tenon_item_t){TENON_TAG_END, 0, 0, NULL, NULL});
  free(twins.items);
  return list.items;
}

const tenon_descriptor_t *probe_descriptor(const tenon_descriptor_t *descriptor) {
  tenon_descriptor_t *copy = malloc(sizeof *copy);
  if (!copy) abort();
  make_host();
  *copy = *descriptor;
  copy->items = copy_items(descriptor->items);
  return copy;
}
