/* What a library may bring besides operators, by the other headers of 1.0: a device, a pass, a
 * partitioner, and a kernel from source. */
#ifndef TENON_ON_DEVICE
#include <tenon/source.h>
#endif

TENON_SOURCE_3(triple, IN, double, x, OUT, double, y, VALUE, int64_t, n) {
  TENON_EACH(i, n) y[i] = x[i] * 3;
}

#ifndef TENON_ON_DEVICE
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>
#include <tenon/graph.h>

TENON_CODE(code, {"triple", triple})

static tenon_status_t triple_run(tenon_call_t *call) {
  int64_t n = tenon_count(call->inputs[0]);
  const tenon_kernel_argument_t arguments[] = {tenon_in(call->inputs[0]),
                                               tenon_out(call->outputs[0]), TENON_VALUE(n)};
  return tenon_each(call, &code, 0, n, arguments, 3);
}

/* a device in host memory, with the functions that every device has */

static tenon_status_t enumerate(tenon_device_context_t *context, int32_t *out_count) {
  (void)context;
  *out_count = 1;
  return TENON_OK;
}

static tenon_status_t start(tenon_device_context_t *context) {
  (void)context;
  return TENON_OK;
}
static void stop(tenon_device_context_t *context) { (void)context; }

static tenon_status_t properties(tenon_on_t on, tenon_device_properties_t *out) {
  (void)on;
  out->features = TENON_DEVICE_ADDRESSES;
  out->name = "memory";
  out->driver = "1";
  out->target = "none";
  out->memory = 1 << 20;
  out->alignment = 64;
  return TENON_OK;
}

static tenon_status_t allocate(tenon_on_t on, uint64_t bytes, void **out_handle) {
  *out_handle = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64);
  return *out_handle ? TENON_OK : tenon_fail(on, TENON_MEMORY, "box: no memory");
}

static void release(tenon_on_t on, void *handle) {
  (void)on;
  free(handle);
}

static tenon_status_t copy(tenon_on_t on, void *stream, const tenon_copy_t *c) {
  (void)on;
  (void)stream;
  memmove((char *)c->to.handle + c->to.offset, (const char *)c->from.handle + c->from.offset,
          (size_t)c->bytes);
  return TENON_OK;
}

static tenon_status_t synchronize(tenon_on_t on) {
  (void)on;
  return TENON_OK;
}

static const tenon_device_table_t box = {.size = sizeof box,
                                         .abi = TENON_DEVICE_ABI,
                                         .name = "box",
                                         .type = 12,
                                         .enumerate = enumerate,
                                         .start = start,
                                         .stop = stop,
                                         .properties = properties,
                                         .allocate = allocate,
                                         .free = release,
                                         .copy = copy,
                                         .synchronize = synchronize};

/* It multiplies by ten, so that its result differs from the CPU's. */
static tenon_status_t on_box(tenon_call_t *call) {
  for (int64_t i = 0; i < tenon_count(call->inputs[0]); i++)
    ((double *)call->outputs[0]->data)[i] = ((const double *)call->inputs[0]->data)[i] * 10;
  return TENON_OK;
}

/* a pass that copies the graph, and a partitioner that takes no node */

static tenon_status_t rebuild(tenon_pass_call_t *call, tenon_builder_t *builder,
                              tenon_graph_t **out_graph) {
  const tenon_graphs_t *g = call->graphs;
  tenon_edge_t edges[64];
  if (g->edge_count(call->graph) > 64)
    return tenon_fail(call, TENON_RANGE, "too large for this pass");
  TENON_TRY(g->builder_copy_inputs(builder, call->graph, edges));
  for (int32_t i = 0; i < g->node_count(call->graph); i++)
    TENON_TRY(g->builder_copy_node(builder, call->graph, i, edges));
  TENON_TRY(g->builder_copy_outputs(builder, call->graph, edges));
  return g->builder_finish(builder, out_graph);
}

static tenon_status_t same(tenon_pass_call_t *call, tenon_graph_t **out_graph) {
  tenon_builder_t *builder = NULL;
  TENON_TRY(call->graphs->builder_create(&builder));
  tenon_status_t status = rebuild(call, builder, out_graph);
  call->graphs->builder_release(builder);
  return status;
}

static const tenon_pass_t same_pass = {
    .size = sizeof same_pass, .abi = TENON_GRAPH_ABI, .name = "same", .run = same};

static tenon_status_t none(tenon_cut_t *cut, int32_t *ids) {
  (void)cut;
  (void)ids;
  return TENON_OK;
}

static tenon_status_t whole(tenon_call_t *call) {
  return tenon_fail(call, TENON_INTERNAL, "nothing was cut");
}

static const tenon_strategy_t strategy = {
    .size = sizeof strategy, .name = "none", .op = "whole", .supported = none};
static const tenon_strategy_t *const strategies[] = {&strategy, NULL};
static const tenon_partitioner_t cutter = {
    .size = sizeof cutter, .abi = TENON_GRAPH_ABI, .name = "cutter", .strategies = strategies};

/* clang-format off */
TENON_LIBRARY(wide, "1.0.0",
  TENON_DEVICE(&box), TENON_PASS(&same_pass), TENON_PARTITIONER(&cutter),
  TENON_OP("value(Tensor x) -> Tensor",
    TENON_TYPES("x: f64; out = x"), TENON_SHAPES("out = x"), TENON_TRAITS(TENON_PURE),
    TENON_GRADIENT("x: none"), TENON_SOURCE("f64", triple_run), TENON_KERNEL("box f64", on_box)),
  TENON_OP("whole(Tensor[] inputs, *, graph body, int count) -> Tensor[count] outputs",
    TENON_TYPES("inputs, outputs = ?"), TENON_BODY("body"), TENON_KERNEL("cpu", whole)))
/* clang-format on */
#endif
