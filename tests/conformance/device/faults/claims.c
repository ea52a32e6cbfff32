/* Groups of graphs for the example device, which has none itself, and faults in them. It claims
 * runs of neighbouring nodes in the order of the graph, and computes them on the stream's thread. A
 * compiled group is one block of bytes, so saving it is a copy. */
#include "faults.h"
#include <stdlib.h>
#include <string.h>

enum {
  ROOM = 16,
  OPS = 4,
};
static const char *const names[OPS] = {"core::add", "core::mul", "core::relu", "core::matmul"};

typedef struct value_t { /* a value of shape [rows, columns] */
  int64_t rows;
  int64_t columns;
  int32_t input;
  int32_t output;
  int32_t weight; /* offset of the weight in the weights; -1: none */
  uint32_t reserved;
} value_t;

typedef struct code_t { /* followed by the weights */
  char magic[8];
  uint64_t sum; /* checksum of the bytes after it */
  uint32_t size;
  uint32_t node_count;
  uint32_t value_count;
  uint32_t weight_count;
  uint32_t input_count;
  uint32_t output_count;
  struct {
    uint32_t op;
    uint32_t a;
    uint32_t b;
    uint32_t out;
  } nodes[ROOM];
  value_t values[3 * ROOM];
  float weights[];
} code_t;

typedef struct part_t { /* a compiled group */
  uint32_t users;
  int32_t ordinal;
  void *memory; /* device memory, so that a leak is detected */
  code_t *code;
} part_t;

static uint64_t sum_of(const code_t *code) {
  const unsigned char *at = (const unsigned char *)&code->size;
  uint64_t sum = 1;
  for (size_t i = 0; i < code->size - (size_t)(at - (const unsigned char *)code); i++)
    sum = (sum ^ at[i]) * 0x100000001b3u;
  return sum;
}

static uint32_t op_of(const tenon_graph_node_t *node) {
  uint32_t op = 0;
  while (op < OPS && strcmp(names[op], node->op) != 0)
    op++;
  return node->version == 1 ? op : OPS;
}

static int is_plain(const tenon_meta_t *edge) {
  if (tenon_dtype_id(edge->dtype) != TENON_F32 || edge->ndim != 2) return 0;
  return tenon_is_known(edge->dims[0]) && tenon_is_known(edge->dims[1]);
}

static int can(const tenon_graph_view_t *view, uint32_t n) {
  const tenon_graph_node_t *node = view->nodes[n];
  uint32_t count = node->starts[node->argument_count];
  if (node->taken || op_of(node) == OPS || count > 2 || node->output_count != 1 ||
      !is_plain(view->edges[node->outputs[0]]))
    return 0;
  for (uint32_t k = 0; k < count; k++)
    if (!is_plain(view->edges[node->inputs[k]])) return 0;
  if (op_of(node) != 3) return 1;
  return !node->attrs[0].as.i && !node->attrs[1].as.i && !node->attrs[2].as.i;
}

static tenon_status_t claim(tenon_on_t on, const tenon_graph_view_t *view, const char *settings,
                            tenon_claims_t *out) {
  uint32_t nodes[ROOM];
  uint32_t count = 0;
  if (*settings)
    return tenon_fail(on, TENON_INVALID, "vx: no setting is known, and '%s' was given", settings);
  for (uint32_t n = 0; n <= view->node_count; n++) {
    if (n < view->node_count && can(view, n) && count < ROOM) {
      nodes[count++] = n;
      continue;
    }
    if (count) TENON_TRY(out->take(out, count, nodes, "neighbours that vx computes"));
    if (n < view->node_count) TENON_TRY(out->leave(out, n, "vx has no such operator"));
    count = 0;
  }
  return TENON_OK;
}

static tenon_status_t part_new(tenon_on_t on, code_t *code, void **out_group) {
  part_t *part = calloc(1, sizeof *part);
  if (!part) {
    free(code);
    return tenon_fail(on, TENON_MEMORY, "vx: no host memory for a group");
  }
  part->users = 1;
  part->ordinal = on->ordinal;
  part->code = code;
  tenon_status_t status = correct.allocate(on, 1 << 16, &part->memory);
  if (status) {
    free(code);
    free(part);
    return status;
  }
  *out_group = part;
  return TENON_OK;
}

static tenon_status_t compile(tenon_on_t on, const tenon_graph_view_t *view, const char *settings,
                              void **out_group) {
  uint64_t size = sizeof(code_t);
  (void)settings;
  for (uint32_t i = 0; i < view->edge_count; i++)
    if (view->edges[i]->value) size += (uint64_t)tenon_count(view->edges[i]->value) * sizeof(float);
  if (view->node_count > ROOM || view->edge_count > 3 * ROOM)
    return tenon_fail(on, TENON_RANGE, "vx: a group of %u nodes", view->node_count);
  code_t *code = calloc(1, size);
  if (!code) return tenon_fail(on, TENON_MEMORY, "vx: no host memory for a group");
  memcpy(code->magic, "VXGROUP", 8);
  code->size = (uint32_t)size;
  code->node_count = view->node_count;
  code->value_count = view->edge_count;
  code->input_count = view->input_count;
  code->output_count = view->output_count;
  for (uint32_t i = 0; i < view->edge_count; i++) {
    const tenon_meta_t *edge = view->edges[i];
    code->values[i] = (value_t){edge->dims[0].value, edge->dims[1].value, -1, -1, -1, 0};
    if (!edge->value) continue;
    code->values[i].weight = (int32_t)code->weight_count;
    memcpy(code->weights + code->weight_count, edge->value->data,
           (size_t)tenon_count(edge->value) * sizeof(float));
    code->weight_count += (uint32_t)tenon_count(edge->value);
  }
  for (uint32_t i = 0; i < view->input_count; i++)
    code->values[view->inputs[i]].input = (int32_t)i;
  for (uint32_t i = 0; i < view->output_count; i++)
    code->values[view->outputs[i]].output = (int32_t)i;
  for (uint32_t n = 0; n < view->node_count; n++) {
    const tenon_graph_node_t *node = view->nodes[n];
    uint32_t two = node->starts[node->argument_count] > 1;
    code->nodes[n].op = op_of(node);
    code->nodes[n].out = node->outputs[0];
    code->nodes[n].a = node->inputs[0];
    code->nodes[n].b = node->inputs[two];
  }
  code->sum = sum_of(code);
  return part_new(on, code, out_group);
}

static void part_release(part_t *part) { /* call with the lock held */
  if (--part->users) return;
  free(part->code);
  free(part);
}

static void part_free(tenon_on_t on, void *group) {
  part_t *part = group;
  correct.free(on, part->memory);
  lock();
  part_release(part);
  unlock();
}

static tenon_status_t save(tenon_on_t on, void *group, tenon_sink_t *out) {
  const code_t *code = ((part_t *)group)->code;
  (void)on;
  void *to = out->reserve(out, code->size);
  return to ? memcpy(to, code, code->size), TENON_OK : TENON_MEMORY;
}

static tenon_status_t load(tenon_on_t on, const void *bytes, uint64_t size, void **out_group) {
  code_t *code = malloc(size + sizeof *code);
  if (!code) return tenon_fail(on, TENON_MEMORY, "vx: no host memory for a group");
  if (size) memcpy(code, bytes, size);
  if (size >= sizeof *code && memcmp(code->magic, "VXGROUP", 8) == 0 && code->size == size &&
      code->sum == sum_of(code))
    /* A checksum is enough, because only this plug-in writes such bytes. */
    return part_new(on, code, out_group);
  free(code);
  return tenon_fail(on, TENON_INVALID, "vx: %llu bytes are no group of vx",
                    (unsigned long long)size);
}

typedef struct run_t { /* one run of a group, until its work is done */
  part_t *part;
  float *in[ROOM];
  float *out[ROOM];
} run_t;

static float at(const float *data, const value_t *v, int64_t row, int64_t column) {
  return data[(v->rows == 1 ? 0 : row) * v->columns + (v->columns == 1 ? 0 : column)];
}

static float element(uint32_t op, const float *a, const value_t *va, const float *b,
                     const value_t *vb, int64_t row, int64_t column) {
  float sum = 0;
  if (op == 0) return at(a, va, row, column) + at(b, vb, row, column);
  if (op == 1) return at(a, va, row, column) * at(b, vb, row, column);
  if (op == 2) return at(a, va, row, column) < 0 ? 0 : at(a, va, row, column);
  for (int64_t k = 0; k < va->columns; k++)
    sum += at(a, va, row, k) * at(b, vb, k, column);
  return sum;
}

static void compute(const code_t *code, float *const *in, float *const *out, const float *weights) {
  float *data[3 * ROOM] = {NULL};
  float *own[ROOM] = {NULL};
  for (uint32_t i = 0; i < code->value_count; i++) {
    const value_t *v = &code->values[i];
    data[i] = NULL;
    if (v->output >= 0) data[i] = out[v->output];
    if (v->input >= 0) data[i] = in[v->input];
    if (v->weight >= 0) data[i] = (float *)(uintptr_t)weights + v->weight;
  }
  for (uint32_t n = 0; n < code->node_count; n++) {
    uint32_t a = code->nodes[n].a;
    uint32_t b = code->nodes[n].b;
    uint32_t to = code->nodes[n].out;
    const value_t *v = &code->values[to];
    if (!data[to]) data[to] = own[n] = malloc((size_t)(v->rows * v->columns) * sizeof(float) + 1);
    for (int64_t row = 0; row < v->rows; row++)
      for (int64_t column = 0; column < v->columns; column++)
        data[to][row * v->columns + column] = element(code->nodes[n].op, data[a], &code->values[a],
                                                      data[b], &code->values[b], row, column);
  }
  for (uint32_t n = 0; n < ROOM; n++)
    free(own[n]);
}

static void run_end(run_t *run) {
  lock();
  part_release(run->part);
  unlock();
  free(run);
}

static void run_part(stream_t *s, work_t *w) {
  run_t *run = w->argument;
  if (!s->status) compute(run->part->code, run->in, run->out, run->part->code->weights);
  run_end(run);
}

static float *of(const tenon_tensor_t *t) {
  return (float *)(void *)shown((tenon_memory_t){t->data, t->byte_offset});
}

/* Enqueues a run that is executed by `function`. */
static tenon_status_t run_by(tenon_on_t on, void *stream, const tenon_group_run_t *given,
                             void (*function)(stream_t *, work_t *)) {
  stream_t *s = stream_of(on, stream);
  if (s->recorded) return tenon_fail(on, TENON_UNIMPLEMENTED, "vx: groups are not recorded");
  work_t *w = work_new(on, function, given->ticket);
  run_t *run = w ? calloc(1, sizeof *run) : NULL;
  if (!run) {
    free(w);
    return tenon_fail(on, TENON_MEMORY, "vx: no host memory for a group's work");
  }
  run->part = given->group;
  for (uint32_t i = 0; i < given->input_count && i < ROOM; i++)
    run->in[i] = of(given->inputs[i]);
  for (uint32_t i = 0; i < given->output_count && i < ROOM; i++)
    run->out[i] = of(given->outputs[i]);
  lock();
  run->part->users++;
  unlock();
  w->argument = run;
  enqueue(s, w);
  return TENON_OK;
}

static tenon_status_t group_run(tenon_on_t on, void *stream, const tenon_group_run_t *run) {
  return run_by(on, stream, run, run_part);
}

void claims_add(tenon_device_table_t *table) {
  table->claim = claim;
  table->group_compile = compile;
  table->group_run = group_run;
  table->group_save = save;
  table->group_load = load;
  table->group_free = part_free;
}

#define FAULT(fault, slot, function)                                                               \
  static void fault(tenon_device_table_t *table) { table->slot = function; }

static tenon_status_t claim_past(tenon_on_t on, const tenon_graph_view_t *view,
                                 const char *settings, tenon_claims_t *out) {
  (void)on;
  (void)settings;
  return out->take(out, 1, &view->node_count, "counted from 1");
}
FAULT(claims_past_the_end, claim, claim_past)

static tenon_status_t claim_two(tenon_on_t on, const tenon_graph_view_t *view, const char *settings,
                                tenon_claims_t *out) {
  TENON_TRY(claim(on, view, settings, out));
  return claim(on, view, settings, out);
}
FAULT(claims_twice, claim, claim_two)

static tenon_status_t claim_known(tenon_on_t on, const tenon_graph_view_t *view,
                                  const char *settings, tenon_claims_t *out) {
  uint32_t nodes[ROOM];
  uint32_t count = 0;
  if (*settings)
    return tenon_fail(on, TENON_INVALID, "vx: no setting is known, and '%s' was given", settings);
  for (uint32_t n = 0; n < view->node_count; n++)
    if (can(view, n) && count < ROOM) nodes[count++] = n;
  return count ? out->take(out, count, nodes, "all that vx computes")
               : TENON_OK; /* whatever lies between them */
}
FAULT(claims_around, claim, claim_known)

static tenon_status_t claim_all(tenon_on_t on, const tenon_graph_view_t *view, const char *settings,
                                tenon_claims_t *out) {
  uint32_t nodes[ROOM];
  uint32_t count = 0;
  (void)on;
  (void)settings;
  for (uint32_t n = 0; n < view->node_count && n < ROOM; n++)
    nodes[count++] = n;
  return count ? out->take(out, count, nodes, "all") : TENON_OK;
}
FAULT(claims_what_it_has_not, claim, claim_all)

static tenon_status_t claim_taken(tenon_on_t on, const tenon_graph_view_t *view,
                                  const char *settings, tenon_claims_t *out) {
  for (uint32_t n = 0; n < view->node_count; n++)
    ((tenon_graph_node_t *)(uintptr_t)view->nodes[n])->taken = 0;
  return claim(on, view, settings, out);
}
FAULT(claims_of_others, claim, claim_taken)

static tenon_status_t claim_other(tenon_on_t on, const tenon_graph_view_t *view,
                                  const char *settings, tenon_claims_t *out) {
  static _Atomic uint32_t turn;
  return turn++ % 2 ? TENON_OK : claim(on, view, settings, out);
}
FAULT(claims_change, claim, claim_other)

static tenon_status_t run_now(tenon_on_t on, void *stream, const tenon_group_run_t *given) {
  float *in[ROOM], *out[ROOM];
  const code_t *code = ((const part_t *)given->group)->code;
  (void)on;
  (void)stream;
  for (uint32_t i = 0; i < given->input_count; i++)
    in[i] = of(given->inputs[i]);
  for (uint32_t i = 0; i < given->output_count; i++)
    out[i] = of(given->outputs[i]);
  compute(code, in, out, code->weights);
  return TENON_OK;
}
FAULT(group_at_once, group_run, run_now)

/* Reads the constants of the view when it runs. */
static const tenon_tensor_t *kept_tensors[3 * ROOM];
static void run_kept(stream_t *s, work_t *w) {
  run_t *run = w->argument;
  code_t *code = run->part->code;
  for (uint32_t i = 0; i < code->value_count; i++)
    if (code->values[i].weight >= 0 && kept_tensors[i])
      memcpy(code->weights + code->values[i].weight, kept_tensors[i]->data,
             (size_t)(code->values[i].rows * code->values[i].columns) * sizeof(float));
  if (!s->status) compute(code, run->in, run->out, code->weights);
  run_end(run);
}
static tenon_status_t group_run_kept(tenon_on_t on, void *stream, const tenon_group_run_t *run) {
  return run_by(on, stream, run, run_kept);
}
static tenon_status_t compile_kept(tenon_on_t on, const tenon_graph_view_t *view,
                                   const char *settings, void **out) {
  for (uint32_t i = 0; i < view->edge_count && i < 3 * ROOM; i++)
    kept_tensors[i] = view->edges[i]->value;
  return compile(on, view, settings, out);
}
static void weights_not_taken(tenon_device_table_t *table) {
  table->group_compile = compile_kept;
  table->group_run = group_run_kept;
}

static void free_now(tenon_on_t on, void *group) { /* even while the group still runs */
  part_t *part = group;
  correct.free(on, part->memory);
  memset(part->code->weights, 0x7f, part->code->weight_count * sizeof(float));
  lock();
  part_release(part);
  unlock();
}
FAULT(group_freed_early, group_free, free_now)

/* The arguments of a run are stored in the group, so the next run overwrites them. */
static run_t *shared_run;
static void run_shared(stream_t *s, work_t *w) {
  run_t *run = w->argument;
  if (!s->status)
    compute(run->part->code, shared_run->in, shared_run->out, run->part->code->weights);
  lock();
  part_release(run->part);
  unlock(); /* shared runs are not freed */
}
static tenon_status_t group_run_shared(tenon_on_t on, void *stream,
                                       const tenon_group_run_t *given) {
  run_t *run = calloc(1, sizeof *run);
  if (!run) return TENON_MEMORY;
  for (uint32_t i = 0; i < given->input_count; i++)
    run->in[i] = of(given->inputs[i]);
  for (uint32_t i = 0; i < given->output_count; i++)
    run->out[i] = of(given->outputs[i]);
  shared_run = run;
  return run_by(on, stream, given, run_shared);
}
FAULT(runs_share_arguments, group_run, group_run_shared)

static void free_half(tenon_on_t on, void *group) { /* leaks its device memory */
  (void)on;
  lock();
  part_release(group);
  unlock();
}
FAULT(group_leaks, group_free, free_half)

static void run_behind(stream_t *s, work_t *w) {
  run_t *run = w->argument;
  const code_t *code = run->part->code;
  for (uint32_t i = 0; i < code->value_count && !s->status; i++) {
    const value_t *v = &code->values[i];
    if (v->output >= 0) run->out[v->output][v->rows * v->columns] = 0; /* writes after the result */
  }
  run_part(s, w);
}
static tenon_status_t group_run_behind(tenon_on_t on, void *stream, const tenon_group_run_t *run) {
  return run_by(on, stream, run, run_behind);
}
FAULT(group_writes_behind, group_run, group_run_behind)

static tenon_status_t load_any(tenon_on_t on, const void *bytes, uint64_t size, void **out_group) {
  code_t *code = calloc(1, size + sizeof *code);
  if (!code) return TENON_MEMORY;
  if (size) memcpy(code, bytes, size);
  return part_new(on, code, out_group);
}
FAULT(loads_anything, group_load, load_any)

static void run_always(stream_t *s, work_t *w) {
  run_t *run = w->argument;
  (void)s;
  compute(run->part->code, run->in, run->out, run->part->code->weights);
  run_end(run);
}
static tenon_status_t group_run_always(tenon_on_t on, void *stream, const tenon_group_run_t *run) {
  return run_by(on, stream, run, run_always);
}
FAULT(group_after_failure, group_run, group_run_always)
FAULT(half_of_claims, group_load, NULL)

const fault_t claim_faults[] = {{"claims_past_the_end", claims_past_the_end},
                                {"claims_twice", claims_twice},
                                {"claims_around", claims_around},
                                {"claims_what_it_has_not", claims_what_it_has_not},
                                {"claims_change", claims_change},
                                {"claims_of_others", claims_of_others},
                                {"group_at_once", group_at_once},
                                {"weights_not_taken", weights_not_taken},
                                {"group_freed_early", group_freed_early},
                                {"runs_share_arguments", runs_share_arguments},
                                {"group_leaks", group_leaks},
                                {"group_writes_behind", group_writes_behind},
                                {"loads_anything", loads_anything},
                                {"group_after_failure", group_after_failure},
                                {"half_of_claims", half_of_claims},
                                {0}};
