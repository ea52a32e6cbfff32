/* Cases about compiled groups of graph nodes: the first group that the device claims of a matrix
 * product, a sum, a relu and a square. */
#include "graphs.h"
#include "groups.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 8 };

/* Overwrites memory that is no longer valid; no compiler removes the writes. */
static void scribble(void *at, uint64_t bytes) {
  for (volatile uint8_t *byte = at; bytes--;)
    *byte++ = 0xee;
}

typedef struct job_t { /* one run: its memory and the expected results */
  const graph_t *part;
  float expected[TENSORS][ELEMENTS];
  float given[TENSORS][ELEMENTS];
  void *in[TENSORS];
  void *out[TENSORS];
  uint64_t offset; /* offset of tensors in their memory */
} job_t;

static uint64_t bytes_of(const graph_t *g, uint32_t edge) {
  return (uint64_t)(g->shapes[edge][0] * g->shapes[edge][1]) * sizeof(float);
}

/* The first group that the device claims, and its graph with computed values. */
static void first_group(tenon_on_t on, graph_t *graph, graph_t *part, uint32_t edges[EDGES_MOST]) {
  wishes_t wishes;
  graph_layers(graph);
  must_claim(on, graph, &wishes);
  if (!wishes.count)
    skip_case("the device claims nothing of a matrix product, a sum, a relu and a product");
  graph_part(graph, &wishes.at[0], part, edges);
  if (part->view.input_count > TENSORS || part->view.output_count > TENSORS)
    skip_case("the group has too many values");
}

static void *must_compile(tenon_on_t on, const graph_t *part) {
  void *group = NULL;
  doing("group_compile(a group of %u nodes)", part->view.node_count);
  must(rig.table->group_compile(on, &part->view, "", &group),
       "group_compile of a group that it claimed");
  EXPECT(group, "group_compile returned TENON_OK: expected a group, found NULL");
  return group;
}

static void drop(tenon_on_t on, void *group) {
  doing("group_free()");
  rig.table->group_free(on, group);
}

/* Allocates memory for a run, with `offset` bytes before each tensor and 64 bytes after; inputs are
 * generated from `seed`. */
static void job_begin(tenon_on_t on, job_t *job, graph_t *graph, const graph_t *part,
                      const uint32_t *edges, uint64_t seed, uint64_t offset) {
  graph_compute(graph, seed);
  *job = (job_t){.part = part, .offset = offset};
  for (uint32_t i = 0; i < part->view.input_count; i++) {
    uint32_t e = part->inputs[i];
    job->in[i] = must_allocate(on, offset + bytes_of(part, e) + 64);
    memcpy(job->given[i], graph->values[edges[e]], bytes_of(part, e));
    must_in(on, NULL, job->in[i], offset, job->given[i], bytes_of(part, e));
  }
  for (uint32_t i = 0; i < part->view.output_count; i++) {
    uint32_t e = part->outputs[i];
    uint64_t bytes = offset + bytes_of(part, e) + 64;
    job->out[i] = must_allocate(on, bytes);
    put(on, job->out[i], 0, bytes, POISON);
    memcpy(job->expected[i], graph->values[edges[e]], bytes_of(part, e));
  }
  must_pass(on, NULL);
}

static void job_end(tenon_on_t on, job_t *job) {
  for (uint32_t i = 0; i < job->part->view.input_count; i++)
    must_free(on, job->in[i]);
  for (uint32_t i = 0; i < job->part->view.output_count; i++)
    must_free(on, job->out[i]);
}

static tenon_tensor_t tensor_of(tenon_on_t on, const job_t *job, uint32_t edge, void *handle) {
  const graph_t *g = job->part;
  int has_addresses = (rig.properties.features & TENON_DEVICE_ADDRESSES) != 0;
  return (tenon_tensor_t){.data = has_addresses ? (char *)handle + job->offset : handle,
                          .device = on->device,
                          .ndim = 2,
                          .dtype = tenon_dtype(TENON_F32),
                          .shape = (int64_t *)(uintptr_t)g->shapes[edge],
                          .strides = (int64_t *)(uintptr_t)g->strides[edge],
                          .byte_offset = has_addresses ? 0 : job->offset};
}

static tenon_status_t try_run(tenon_on_t on, void *stream, void *group, const job_t *job) {
  const tenon_graph_view_t *view = &job->part->view;
  tenon_tensor_t in[TENSORS], out[TENSORS], *ins[TENSORS], *outs[TENSORS];
  for (uint32_t i = 0; i < view->input_count; i++) {
    in[i] = tensor_of(on, job, view->inputs[i], job->in[i]);
    ins[i] = &in[i];
  }
  for (uint32_t i = 0; i < view->output_count; i++) {
    out[i] = tensor_of(on, job, view->outputs[i], job->out[i]);
    outs[i] = &out[i];
  }
  tenon_group_run_t run = {.size = sizeof run,
                           .input_count = view->input_count,
                           .output_count = view->output_count,
                           .ticket = ++rig.ticket,
                           .group = group,
                           .inputs = ins,
                           .outputs = outs};
  doing("group_run()");
  tenon_status_t status = rig.table->group_run(on, stream, &run);
  /* The structures are valid until the call returns. */
  scribble(in, sizeof in);
  scribble(out, sizeof out);
  return status;
}

static void must_run(tenon_on_t on, void *stream, void *group, const job_t *job) {
  must(try_run(on, stream, group, job), "group_run");
}

/* Waits for the stream and compares the results. */
static void expect_results(tenon_on_t on, void *stream, const job_t *job, const char *when) {
  float found[ELEMENTS];
  must_pass(on, stream);
  for (uint32_t i = 0; i < job->part->view.output_count; i++) {
    uint32_t e = job->part->outputs[i];
    uint64_t count = bytes_of(job->part, e) / sizeof(float);
    must_out(on, NULL, found, job->out[i], job->offset, count * sizeof(float));
    must_pass(on, NULL);
    for (uint64_t k = 0; k < count; k++)
      EXPECT_DATA(
          fabsf(found[k] - job->expected[i][k]) <= 1e-3f * fabsf(job->expected[i][k]) + 1e-3f,
          "%s: result %u of a group of %u nodes: element %llu of %llu: expected %g, found %g", when,
          i, job->part->view.node_count, (unsigned long long)k, (unsigned long long)count,
          (double)job->expected[i][k], (double)found[k]);
  }
}

static graph_t graph, part; /* too large for the stack */
static uint32_t edges[EDGES_MOST];

static void computes(tenon_on_t on) {
  job_t job;
  first_group(on, &graph, &part, edges);
  void *group = must_compile(on, &part);
  for (uint64_t seed = 1; seed <= 3; seed++) {
    job_begin(on, &job, &graph, &part, edges, seed, 0);
    must_run(on, NULL, group, &job);
    expect_results(on, NULL, &job, "a compiled group");
    job_end(on, &job);
  }
  drop(on, group);
}

static void weights_taken(tenon_on_t on) {
  job_t job;
  graph_t *shown = host_new(sizeof *shown);
  first_group(on, &graph, shown, edges);
  void *group = must_compile(on, shown);
  scribble(shown, sizeof *shown);
  first_group(on, &graph, &part, edges);
  job_begin(on, &job, &graph, &part, edges, 1, 0);
  must_run(on, NULL, group, &job);
  expect_results(on, NULL, &job, "a group whose view and constants are gone since it was compiled");
  job_end(on, &job);
  drop(on, group);
  free(shown);
}

static void surroundings(tenon_on_t on) {
  job_t job;
  uint64_t offset = 3 * (uint64_t)rig.properties.alignment;
  first_group(on, &graph, &part, edges);
  void *group = must_compile(on, &part);
  job_begin(on, &job, &graph, &part, edges, 1, offset);
  must_run(on, NULL, group, &job);
  expect_results(on, NULL, &job, "a group with tensors at an offset");
  for (uint32_t i = 0; i < part.view.output_count; i++) {
    uint64_t end = offset + bytes_of(&part, part.outputs[i]);
    expect_holds(on, job.out[i], 0, offset, POISON, 0, 0, "bytes before result %u of a group", i);
    expect_holds(on, job.out[i], end, 64, POISON, end, 0, "bytes after result %u of a group", i);
  }
  for (uint32_t i = 0; i < part.view.input_count; i++) {
    float found[ELEMENTS];
    uint64_t bytes = bytes_of(&part, part.inputs[i]);
    must_out(on, NULL, found, job.in[i], offset, bytes);
    must_pass(on, NULL);
    EXPECT_DATA(memcmp(found, job.given[i], bytes) == 0, "group_run modified input %u of its group",
                i);
  }
  job_end(on, &job);
  drop(on, group);
}

static void order(tenon_on_t on) {
  first_group(on, &graph, &part, edges);
  void *group = must_compile(on, &part);
  for (int round = 0; round < rig.rounds; round++) {
    job_t job, late;
    void *stream = must_stream(on);
    /* Its inputs have other contents until the stream gets there. */
    job_begin(on, &job, &graph, &part, edges, 1, 0);
    job_begin(on, &late, &graph, &part, edges, 2, 0);
    memcpy(job.expected, late.expected, sizeof job.expected);
    delay(on, stream, 0);
    for (uint32_t i = 0; i < part.view.input_count; i++)
      must_within(on, stream, job.in[i], 0, late.in[i], 0, bytes_of(&part, part.inputs[i]));
    must_run(on, stream, group, &job);
    for (uint32_t i = 0; i < part.view.output_count; i++)
      must_within(on, stream, late.out[i], 0, job.out[i], 0, bytes_of(&part, part.outputs[i]));
    expect_results(on, stream, &late,
                   "a copy after a group, after a copy, on one stream (is the order kept?)");
    job_end(on, &job);
    job_end(on, &late);
    must_stream_destroy(on, stream);
  }
  drop(on, group);
}

static void several(tenon_on_t on) {
  enum { RUNS = 6 };
  first_group(on, &graph, &part, edges);
  void *group = must_compile(on, &part);
  void *streams[2] = {must_stream(on), must_stream(on)};
  job_t *jobs = host_new(RUNS * sizeof *jobs);
  for (int round = 0; round < rig.rounds; round++) {
    for (int i = 0; i < RUNS; i++)
      job_begin(on, &jobs[i], &graph, &part, edges, 10 + (uint64_t)i, 0);
    delay(on, streams[0], 0);
    delay(on, streams[1], 1);
    for (int i = 0; i < RUNS; i++)
      must_run(on, streams[i % 2], group, &jobs[i]);
    for (int i = 0; i < RUNS; i++)
      expect_results(on, streams[i % 2], &jobs[i],
                     "one of several runs of a group that were enqueued at once");
    for (int i = 0; i < RUNS; i++)
      job_end(on, &jobs[i]);
  }
  must_stream_destroy(on, streams[0]);
  must_stream_destroy(on, streams[1]);
  free(jobs);
  drop(on, group);
}

static void freed_busy(tenon_on_t on) {
  for (int round = 0; round < rig.rounds; round++) {
    job_t job;
    first_group(on, &graph, &part, edges);
    void *group = must_compile(on, &part);
    void *stream = must_stream(on);
    job_begin(on, &job, &graph, &part, edges, 3, 0);
    delay(on, stream, 0);
    must_run(on, stream, group, &job);
    drop(on, group);
    group = must_compile(on, &part); /* possibly at the address of the previous group */
    expect_results(on, stream, &job, "a group that was freed while its run was enqueued");
    drop(on, group);
    job_end(on, &job);
    must_stream_destroy(on, stream);
  }
}

static void many(tenon_on_t on) {
  enum { GROUPS = 20 };
  job_t job;
  void *groups[GROUPS];
  first_group(on, &graph, &part, edges);
  for (int i = 0; i < GROUPS; i++)
    groups[i] = must_compile(on, &part);
  for (int i = 0; i < GROUPS; i += 2)
    drop(on, groups[i]);
  for (int i = 1; i < GROUPS; i += 2) {
    job_begin(on, &job, &graph, &part, edges, (uint64_t)i, 0);
    must_run(on, NULL, groups[i], &job);
    expect_results(on, NULL, &job, "one of 20 groups, half of which were freed");
    job_end(on, &job);
    drop(on, groups[i]);
  }
}

static void level(tenon_on_t on) {
  uint64_t before = 0;
  uint64_t after = 0;
  first_group(on, &graph, &part, edges);
  drop(on, must_compile(on, &part));
  must_finish(on);
  must(rig.table->memory_free(on, &before), "memory_free");
  for (int i = 0; i < 20; i++)
    drop(on, must_compile(on, &part));
  must_finish(on);
  must(rig.table->memory_free(on, &after), "memory_free");
  EXPECT(after >= before,
         "after 20 times group_compile and group_free %llu bytes less are free: groups keep memory",
         (unsigned long long)(before - after));
}

typedef struct shared_t {
  tenon_on_t on;
  void *group;
  job_t *jobs;
} shared_t;

static void one_thread(void *argument, int index) {
  shared_t *s = argument;
  void *stream = must_stream(s->on);
  for (int i = 0; i < 20; i++)
    must_run(s->on, stream, s->group, &s->jobs[index]);
  must_pass(s->on, stream);
  must_stream_destroy(s->on, stream);
}

static void threads(tenon_on_t on) {
  enum { THREADS = 4 };
  first_group(on, &graph, &part, edges);
  shared_t s = {on, must_compile(on, &part), host_new(THREADS * sizeof *s.jobs)};
  for (int i = 0; i < THREADS; i++)
    job_begin(on, &s.jobs[i], &graph, &part, edges, 20 + (uint64_t)i, 0);
  in_threads(THREADS, one_thread, &s);
  for (int i = 0; i < THREADS; i++) {
    expect_results(on, NULL, &s.jobs[i], "a group that four threads ran at once");
    job_end(on, &s.jobs[i]);
  }
  drop(on, s.group);
  free(s.jobs);
}

typedef struct bytes_t {
  tenon_sink_t sink; /* must be the first member */
  char *data;
  uint64_t size;
} bytes_t;

static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  bytes_t *b = (bytes_t *)sink;
  EXPECT(!b->data, "group_save reserved memory twice");
  return b->data = host_new(b->size = bytes);
}

static bytes_t save(tenon_on_t on, void *group) {
  bytes_t bytes = {.sink = {sizeof bytes.sink, 0, reserve}};
  doing("group_save()");
  if (rig.table->group_save(on, group, &bytes.sink))
    skip_case("the device does not save groups: %s", said());
  EXPECT(bytes.data && bytes.size, "group_save returned TENON_OK without any bytes");
  return bytes;
}

static void *must_load(tenon_on_t on, const char *data, uint64_t size) {
  void *group = NULL;
  doing("group_load(%llu bytes)", (unsigned long long)size);
  must(rig.table->group_load(on, data, size, &group), "group_load of the bytes from group_save");
  EXPECT(group, "group_load returned TENON_OK: expected a group, found NULL");
  return group;
}

static void saved_on(tenon_on_t on, tenon_on_t to) {
  job_t job;
  first_group(on, &graph, &part, edges);
  void *group = must_compile(on, &part);
  bytes_t bytes = save(on, group);
  drop(on, group);
  char *moved = host_new(bytes.size + 1); /* at an unaligned address */
  memcpy(moved + 1, bytes.data, bytes.size);
  scribble(bytes.data, bytes.size);
  free(bytes.data);
  void *loaded = must_load(to, moved + 1, bytes.size);
  void *second = must_load(to, moved + 1, bytes.size);
  scribble(moved, bytes.size);
  free(moved);
  job_begin(to, &job, &graph, &part, edges, 5, 0);
  must_run(to, NULL, loaded, &job);
  expect_results(to, NULL, &job, "a group that was saved and loaded");
  drop(to, loaded);
  must_run(to, NULL, second, &job);
  expect_results(to, NULL, &job, "a group that was loaded twice, after the first copy was freed");
  drop(to, second);
  job_end(to, &job);
}
static void saved(tenon_on_t on) { saved_on(on, on); }
static void saved_elsewhere(tenon_on_t on) { saved_on(on, other_of(on)); }

static void refused(tenon_on_t on, const char *data, uint64_t size, const char *what,
                    uint64_t where) {
  void *group = NULL;
  doing("group_load(%s %llu)", what, (unsigned long long)where);
  tenon_status_t status = rig.table->group_load(on, data, size, &group);
  EXPECT(status == TENON_INVALID,
         "group_load of a saved group, %s %llu: expected TENON_INVALID, found %s", what,
         (unsigned long long)where, status_name(status));
}

static void damaged(tenon_on_t on) {
  job_t job;
  first_group(on, &graph, &part, edges);
  void *group = must_compile(on, &part);
  bytes_t bytes = save(on, group);
  uint64_t step = bytes.size / (rig.quick ? 40 : 400) + 1;
  for (uint64_t n = 0; n < bytes.size;
       n += step) { /* exact size, so that reads past the end are detected */
    char *cut = host_new(n);
    memcpy(cut, bytes.data, n);
    refused(on, cut, n, "cut off at byte", n);
    free(cut);
  }
  for (uint64_t n = 0; n < bytes.size; n += step) {
    bytes.data[n] ^= (char)(1 << n % 8);
    refused(on, bytes.data, bytes.size, "with another bit in byte", n);
    bytes.data[n] ^= (char)(1 << n % 8);
  }
  job_begin(on, &job, &graph, &part, edges, 6, 0);
  must_run(on, NULL, group, &job);
  expect_results(on, NULL, &job, "a group, after group_load of damaged bytes");
  void *loaded = must_load(on, bytes.data, bytes.size);
  drop(on, loaded);
  drop(on, group);
  job_end(on, &job);
  free(bytes.data);
}

static void after_failure(tenon_on_t on) {
  job_t job;
  tenon_fault_t fault = {.size = sizeof fault};
  first_group(on, &graph, &part, edges);
  void *group = must_compile(on, &part);
  void *stream = must_stream(on);
  job_begin(on, &job, &graph, &part, edges, 7, 0);
  tenon_status_t (**hook)(tenon_on_t, void *, uint64_t) =
      rig.table->native(on, "enqueue_failure", NULL);
  doing("enqueue_failure()");
  must((*hook)(on, stream, ++rig.ticket), "enqueue_failure");
  (void)try_run(on, stream, group, &job); /* may be refused */
  doing("stream_synchronize()");
  EXPECT(rig.table->stream_synchronize(on, stream, &fault) != TENON_OK,
         "a stream whose work failed returned TENON_OK");
  for (uint32_t i = 0; i < part.view.output_count; i++)
    expect_holds(on, job.out[i], 0, bytes_of(&part, part.outputs[i]), POISON, 0, 0,
                 "a result of a group after work that failed (it is left undone)");
  must_stream_destroy(on, stream);
  job_end(on, &job);
  drop(on, group);
}

const case_t part_cases[] = {
    {"claims.computes", "A group computes what its nodes compute.", NEEDS_CLAIMS, computes},
    {"claims.weights_taken", "The view and constants are not read after group_compile.",
     NEEDS_CLAIMS, weights_taken},
    {"claims.surroundings",
     "Tensors may lie at offsets; inputs and the bytes around results do not change.", NEEDS_CLAIMS,
     surroundings},
    {"claims.order", "A group keeps its position among other work of its stream.",
     NEEDS_CLAIMS | NEEDS_STREAMS, order},
    {"claims.several", "Several runs of a group may be enqueued at once, on two streams.",
     NEEDS_CLAIMS | NEEDS_STREAMS, several},
    {"claims.freed_busy", "Enqueued runs complete after group_free.", NEEDS_CLAIMS | NEEDS_STREAMS,
     freed_busy},
    {"claims.many", "20 groups live at once and are freed in any order.", NEEDS_CLAIMS, many},
    {"claims.level", "Groups release their memory.", NEEDS_CLAIMS | NEEDS_LEVEL, level},
    {"claims.threads", "Four threads run one group at once.", NEEDS_CLAIMS | NEEDS_STREAMS,
     threads},
    {"claims.saved", "A saved group is loaded from bytes at any address and computes the same.",
     NEEDS_CLAIMS, saved},
    {"claims.saved_elsewhere",
     "A group of one ordinal can be loaded on another with the same target.",
     NEEDS_CLAIMS | NEEDS_PEER, saved_elsewhere},
    {"claims.damaged", "Truncated or modified bytes are refused with TENON_INVALID.", NEEDS_CLAIMS,
     damaged},
    {"claims.after_failure", "A group after work that failed is not executed.",
     NEEDS_CLAIMS | NEEDS_STREAMS | NEEDS_HOOK, after_failure},
    {0}};
