/* Artifacts: what was compiled is run again with the same bits, what is damaged is refused, and
 * what somebody wrote on purpose, with right checksums, does no harm. The zoo and ONNX's cases are
 * in tests/acceptance/artifact_test.py. */
#define TENON_STATIC
#include <stdlib.h>
#include <tenon/tenon.h>

#include "check.h"
#include "tensors.h"

#include "operators.h"

#include "artifacts.h"
#include "graph/executable.h"

static char folder[200];
static char path[300];

static void open_folder(void) {
  if (*folder) return;
  CHECK_STATUS(tn_folder_make(folder, sizeof folder), TENON_OK);
  snprintf(path, sizeof path, "%s/model.tenon", folder);
}

/* A graph with weights of all kinds: packed by products, convolutions and recurrent layers, read as
 * they are, and computed by passes. */
static tenon_graph_t *build_model(void) {
  tenon_builder_t *b = graph_begin();
  tenon_graph_t *graph = NULL;
  tenon_edge_t x = graph_input(b, "x", TENON_F32, 2);
  tenon_edge_t y[2];
  tenon_edge_t image;
  tenon_edge_t steps[16] = {x, graph_constant(b, NULL, "f32[96,128] ~1"), -1, -1};
  graph_node(b, NULL, "core::matmul", NULL, steps, &y[0], 1);
  tenon_edge_t bias[16] = {y[0], graph_constant(b, NULL, "f32[128] ~2")};
  graph_node(b, NULL, "core::add", NULL, bias, &y[1], 1);
  tenon_edge_t shaped[16] = {y[1], graph_constant(b, NULL, "i64[4] 1 8 4 -1")};
  graph_node(b, NULL, "core::reshape", NULL, shaped, &image, 1);
  tenon_edge_t filters[16] = {image, graph_constant(b, NULL, "f32[32,8,3,3] ~3"),
                              graph_constant(b, NULL, "f32[32] ~4"), -1};
  graph_node(b, NULL, "core::conv", NULL, filters, &y[0], 1);
  tenon_edge_t grouped[16] = {y[0], graph_constant(b, NULL, "f32[32,4,1,1] ~5"), -1, -1};
  graph_node(b, NULL, "core::conv", "group=8", grouped, &y[1], 1);
  tenon_edge_t flat[16] = {y[1], graph_constant(b, NULL, "i64[3] -1 1 32")};
  graph_node(b, NULL, "core::reshape", NULL, flat, &y[0], 1);
  tenon_edge_t layer[16] = {y[0],
                            graph_constant(b, NULL, "f32[1,96,32] ~6"),
                            graph_constant(b, NULL, "f32[1,96,32] ~7"),
                            -1,
                            -1,
                            -1};
  graph_node(b, NULL, "core::gru", NULL, layer, y, 2);
  graph_output(b, "y", y[0]);
  graph_output(b, "last", y[1]);
  CHECK_STATUS(tenon_builder_finish(b, &graph), TENON_OK);
  tenon_builder_release(b);
  return graph;
}

/* Runs a graph. Returns the checksum of its results; 0: it failed, and there is a message. */
static uint64_t run_graph(const tenon_graph_t *graph, const tenon_compile_t *options) {
  tenon_executable_t *executable = NULL;
  tenon_tensor_t *x = tensor_of("f32[2,96] ~9");
  tenon_tensor_t *results[2] = {NULL, NULL};
  uint64_t sum = 0;
  if (tenon_executable_create(graph, options, &executable) == TENON_OK &&
      tenon_executable_run(executable, &x, results, NULL) == TENON_OK)
    for (int i = 0; i < 2; i++)
      sum = sum * 31 + tn_checksum(results[i]->data, (uint64_t)tenon_count(results[i]) * 4);
  for (int i = 0; i < 2; i++)
    tenon_tensor_release(results[i]);
  tenon_tensor_release(x);
  tenon_executable_release(executable);
  return sum;
}

static unsigned char *write_model(size_t *out_size, uint64_t *out_sum) {
  open_folder();
  tenon_graph_t *graph = build_model();
  *out_sum = run_graph(graph, NULL);
  CHECK(*out_sum);
  CHECK_STATUS(tenon_graph_save(graph, path), TENON_OK);
  tenon_graph_release(graph);
  return artifact_read(path, out_size);
}

TEST("an artifact gives the same bits without packing again") {
  size_t size;
  uint64_t sum;
  tenon_graph_t *graph = NULL;
  tn_release_aligned(write_model(&size, &sum));
  CHECK_STATUS(tenon_graph_load(path, NULL, &graph), TENON_OK);
  if (!graph) return;
  CHECK(graph->prepared && run_graph(graph, NULL) == sum);
  /* two convolutions, the product and three weights of the layer; none without oneDNN */
  const size_t blocks = graph->prepared ? graph->prepared->first[graph->node_count] : 1;
  CHECK(blocks == 6 || blocks == 0);
  tenon_graph_release(graph);
}

TEST("other options compile the graph that the artifact was made of") {
  size_t size;
  uint64_t sum;
  tenon_graph_t *graph = NULL;
  const tenon_compile_t plain = {.size = sizeof plain, .flags = TENON_COMPILE_PLAIN};
  tn_release_aligned(write_model(&size, &sum));
  CHECK_STATUS(tenon_graph_load(path, NULL, &graph), TENON_OK);
  tenon_graph_t *built = build_model();
  CHECK(run_graph(graph, &plain) == run_graph(built, &plain));
  tenon_graph_release(graph);
  tenon_graph_release(built);
}

TEST("the same graph gives the same artifact, also from an artifact") {
  size_t sizes[2];
  uint64_t sum;
  tenon_graph_t *graph = NULL;
  unsigned char *first = write_model(&sizes[0], &sum);
  CHECK_STATUS(tenon_graph_load(path, NULL, &graph), TENON_OK);
  CHECK_STATUS(tenon_graph_save(graph, path), TENON_OK);
  unsigned char *second = artifact_read(path, &sizes[1]);
  CHECK(sizes[0] == sizes[1] && memcmp(first, second, sizes[0]) == 0);
  tn_release_aligned(first);
  tn_release_aligned(second);
  tenon_graph_release(graph);
}

/* Damage */

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

/* Changes one to eight bytes, or a run of them. */
static void damage(unsigned char *bytes, size_t size, uint64_t *state) {
  const uint64_t kind = next_random(state) % 4;
  /* half of the damage is in the header and the index */
  const size_t most = kind % 2 && size > 1024 ? 1024 : size;
  const int count = 1 + (int)(next_random(state) % 8);
  for (int i = 0; i < count; i++)
    bytes[next_random(state) % most] ^= (unsigned char)(1u << next_random(state) % 8);
  if (kind == 2) memset(bytes + next_random(state) % size / 2, (int)kind, size / 64);
}

/* Reads and runs bytes. Returns the checksum of the results; 0: they were refused. */
static uint64_t try_bytes(const unsigned char *bytes, size_t size) {
  tenon_graph_t *graph = NULL;
  uint64_t sum = 0;
  (void)tenon_error_set(TENON_OK, "");
  if (tenon_graph_read(bytes, size, NULL, &graph) == TENON_OK) sum = run_graph(graph, NULL);
  if (!sum) CHECK(*tenon_error());
  tenon_graph_release(graph);
  return sum;
}

TEST("a damaged artifact is refused, or gives the right result") {
  enum { MUTATIONS = 10000 };
  size_t size;
  uint64_t sum;
  uint64_t state = 88172645463325252u;
  int refused = 0;
  int wrong = 0;
  unsigned char *whole = write_model(&size, &sum);
  unsigned char *bytes = tn_allocate_aligned(size);
  for (int i = 0; i < MUTATIONS && bytes; i++) {
    memcpy(bytes, whole, size);
    damage(bytes, size, &state);
    const size_t end = i % 16 ? size : (size_t)(next_random(&state) % size);
    const uint64_t found = try_bytes(bytes, end);
    refused += !found;
    wrong += found && found != sum;
  }
  CHECK(!wrong);
  CHECK(refused > MUTATIONS / 2); /* the others changed weights that runs do not read, or gaps */
  tn_release_aligned(bytes);
  tn_release_aligned(whole);
}

TEST("weights that kernels packed are not read, so that damage to them matters to no run") {
  size_t size;
  uint64_t sum;
  int damaged = 0;
  tn_artifact_counts_t counts;
  const tenon_compile_t plain = {.size = sizeof plain, .flags = TENON_COMPILE_PLAIN};
  unsigned char *bytes = write_model(&size, &sum);
  memcpy(&counts, bytes + TN_ARTIFACT_INDEX, sizeof counts);
  const tn_artifact_blob_t *blobs =
      (tn_artifact_blob_t *)(void *)(bytes + TN_ARTIFACT_INDEX + sizeof counts);
  for (uint32_t i = 0; i < counts.weight_count; i++) {
    if (blobs[i].flags & TN_BLOB_RUN || blobs[i].size < 1024) continue;
    bytes[blobs[i].offset + 100] ^= 1;
    damaged++;
  }
  if (counts.block_count) CHECK(damaged >= 4);
  CHECK(try_bytes(bytes, size) == sum); /* a kernel that packed again would have compared them */
  tenon_graph_t *graph = NULL;
  CHECK_STATUS(tenon_graph_read(bytes, size, NULL, &graph), TENON_OK);
  CHECK(!damaged || !run_graph(graph, &plain));
  if (damaged) CHECK_TEXT(tenon_error(), "the artifact is damaged: weights");
  tenon_graph_release(graph);
  tn_release_aligned(bytes);
}

TEST("an artifact that was changed on purpose, with right checksums, does no harm") {
  enum { MUTATIONS = 3000 };
  size_t size;
  uint64_t sum;
  uint64_t state = 362436069362436069u;
  int ran = 0;
  unsigned char *whole = write_model(&size, &sum);
  unsigned char *bytes = tn_allocate_aligned(size);
  for (int i = 0; i < MUTATIONS && bytes; i++) {
    memcpy(bytes, whole, size);
    damage(bytes, size, &state);
    memcpy(bytes, whole, TN_ARTIFACT_INDEX);
    artifact_sum_again(bytes, size);
    ran += try_bytes(bytes, size) != 0;
  }
  CHECK(ran > MUTATIONS / 10);
  tn_release_aligned(bytes);
  tn_release_aligned(whole);
}

/* Messages */

/* Changes a number of the file by `change`, makes the header's checksum right, and checks the
 * message. */
static void refuse_changed(size_t at, uint32_t change, const char *message) {
  size_t size;
  uint64_t sum;
  uint32_t number;
  tenon_graph_t *graph = NULL;
  unsigned char *bytes = write_model(&size, &sum);
  memcpy(&number, bytes + at, sizeof number);
  number += change;
  memcpy(bytes + at, &number, sizeof number);
  if (at < TN_ARTIFACT_INDEX) artifact_sum_header(bytes);
  CHECK(tenon_graph_read(bytes, size, NULL, &graph) != TENON_OK || !run_graph(graph, NULL));
  CHECK_TEXT(tenon_error(), message);
  tenon_graph_release(graph);
  tn_release_aligned(bytes);
}

TEST("each refusal says what was expected, what was found, and what to do") {
  refuse_changed(offsetof(tn_artifact_header_t, version), 1,
                 "has format 2, but this libtenon reads format 1: compile the model with the tenon "
                 "that will run it");
  refuse_changed(offsetof(tn_artifact_header_t, order), 1, "another order of bytes");
  refuse_changed(offsetof(tn_artifact_header_t, file_size), 1, "bytes, found");
  refuse_changed(TN_ARTIFACT_INDEX, 1, "the checksum of its index is wrong: copy the file again");
}

TEST("an artifact in memory may lie anywhere") {
  size_t size;
  uint64_t sum;
  unsigned char *bytes = write_model(&size, &sum);
  unsigned char *moved = malloc(size + 1);
  if (moved) memcpy(moved + 1, bytes, size);
  CHECK(moved && try_bytes(moved + 1, size) == sum);
  free(moved);
  tn_release_aligned(bytes);
}

/* The checksum */

TEST("a checksum is that of CRC32C, whoever computes it, and of every bit") {
  unsigned char bytes[100];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (unsigned char)(i * 7);
  const uint64_t whole = tn_checksum(bytes, sizeof bytes);
  for (size_t bit = 0; bit < sizeof bytes * 8; bit++) {
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    CHECK(tn_checksum(bytes, sizeof bytes) != whole);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
  }
  CHECK(tn_checksum(bytes, sizeof bytes - 1) != tn_checksum(bytes, sizeof bytes));
  CHECK(tn_checksum(bytes, sizeof bytes) == whole);
}

TEST("the folder of the tests is removed") { tn_folder_remove(folder); }
