/* Writes artifacts: compiles the graph, prints it and the original as text, and places the weights
 * that both name, with the blocks that kernels packed, in one file. Called by tenon_graph_save and
 * tenon_graph_export. Invariant: every byte of the file follows from the graph and from what this
 * process compiles it to, so that the same graph gives the same file. */
#include <string.h>
#include <tenon/tenon.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "graph/executable.h"
#include "import/artifact/artifact.h"
#include "import/artifact/identity.h"
#include "import/text/text.h"

enum { TEXTS = 3 }; /* blobs behind weights, blocks and libraries: identity, compiled, original */

typedef struct artifact_writer_t {
  tn_collector_t collector;
  tenon_executable_t *executable;
  tn_weight_list_t weights;
  tn_text_t texts[TEXTS];
  tn_artifact_libraries_t libraries;
  tenon_tensor_t **held; /* the weights, dense */
  size_t held_count;
  size_t block_count;
  size_t blob_count;
  tn_summed_t *blobs;
  uint64_t *offsets;
  bool *is_run;
  unsigned char *file;
  uint64_t size;
  uint64_t index_size;
} artifact_writer_t;

/* Finds which weights runs read: all of the compiled graph, but for those that only a kernel reads
 * which has packed them. The list has the weights of the compiled graph now. */
static tenon_status_t mark_run_weights(artifact_writer_t *w) {
  const tenon_graph_t *graph = w->executable->graph;
  w->is_run = tn_allocate_zero(w->weights.count + 1, sizeof *w->is_run);
  if (!w->is_run) return tn_no_memory("an artifact", w->weights.count);
  for (size_t i = 0; i < w->weights.count; i++)
    w->is_run[i] = true;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < graph->edge_count; i++) {
      const tenon_tensor_t *constant = graph->edges[i].constant;
      const int64_t weight = constant ? tn_weight_list_find(&w->weights, constant) : -1;
      const bool is_consumed = w->collector.is_consumed[i];
      if (weight >= 0 && is_consumed == (pass == 0)) w->is_run[weight] = !is_consumed;
    }
  return TENON_OK;
}

static tenon_status_t print_texts(artifact_writer_t *w, const tenon_graph_t *graph) {
  w->weights.is_numbered = true;
  TN_TRY(tn_artifact_identify(&w->texts[0]));
  TN_TRY(tn_text_print(w->executable->graph, true, &w->weights, &w->texts[1]));
  TN_TRY(mark_run_weights(w));
  const size_t run_count = w->weights.count;
  TN_TRY(tn_text_print(graph, false, &w->weights, &w->texts[2]));
  bool *all = tn_allocate_zero(w->weights.count + 1, sizeof *all);
  if (!all) return tn_no_memory("an artifact", w->weights.count);
  memcpy(all, w->is_run, run_count * sizeof *all);
  tn_release_memory(w->is_run);
  w->is_run = all;
  return TENON_OK;
}

/* Lists the blobs: weights, blocks, libraries, texts. */
static tenon_status_t list_blobs(artifact_writer_t *w) {
  size_t at = w->weights.count;
  for (size_t n = 0; n < w->collector.node_count; n++) {
    w->block_count += w->collector.nodes[n].count;
    if (w->collector.nodes[n].has_failed) return tn_no_memory("packed weights", 0);
  }
  w->blob_count = at + w->block_count + w->libraries.inside_count + TEXTS;
  w->blobs = tn_allocate_zero(w->blob_count, sizeof *w->blobs);
  w->offsets = tn_allocate_zero(w->blob_count, sizeof *w->offsets);
  w->held = tn_allocate_zero(at + 1, sizeof *w->held);
  if (!w->blobs || !w->offsets || !w->held) return tn_no_memory("an artifact", w->blob_count);
  for (; w->held_count < at; w->held_count++) {
    tenon_tensor_t **held = &w->held[w->held_count];
    tn_summed_t *blob = &w->blobs[w->held_count];
    TN_TRY(tn_weight_list_get(&w->weights, w->held_count, held));
    blob->data = (*held)->data;
    if (!tn_dtype_bytes((*held)->dtype, tenon_count(*held), &blob->size))
      return tn_no_memory("an artifact", 0);
  }
  for (size_t n = 0; n < w->collector.node_count; n++)
    for (size_t i = 0; i < w->collector.nodes[n].count; i++) {
      const tn_block_t *block = &w->collector.nodes[n].items[i];
      w->blobs[at++] = (tn_summed_t){block->data, block->size, 0};
    }
  for (size_t i = 0; i < w->libraries.count; i++) {
    const tn_file_t *file = &w->libraries.files[i];
    if (!file->size) continue;
    w->libraries.items[i].blob = (uint32_t)at;
    w->blobs[at++] = (tn_summed_t){file->data, file->size, 0};
  }
  for (int i = 0; i < TEXTS; i++)
    w->blobs[at++] = (tn_summed_t){tn_text_get(&w->texts[i]), w->texts[i].size + 1, 0};
  return TENON_OK;
}

static uint64_t round_up(uint64_t number, uint64_t multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

/* Places the blobs: small ones at lines of the cache, others at pages. */
static void place_blobs(artifact_writer_t *w) {
  w->index_size = sizeof(tn_artifact_counts_t) + w->blob_count * sizeof(tn_artifact_blob_t) +
                  w->block_count * sizeof(tn_artifact_block_t) +
                  w->libraries.count * sizeof(tn_artifact_library_t);
  w->size = TN_ARTIFACT_INDEX + w->index_size;
  for (int is_large = 0; is_large < 2; is_large++)
    for (size_t i = 0; i < w->blob_count; i++) {
      if ((w->blobs[i].size >= TN_ARTIFACT_PAGE) != is_large) continue;
      w->offsets[i] = round_up(w->size, is_large ? TN_ARTIFACT_PAGE : TN_ARTIFACT_ALIGNED);
      w->size = w->offsets[i] + w->blobs[i].size;
    }
}

static void fill_index(const artifact_writer_t *w, unsigned char *index) {
  tn_artifact_counts_t *counts = (tn_artifact_counts_t *)(void *)index;
  tn_artifact_blob_t *blobs = (tn_artifact_blob_t *)(void *)(counts + 1);
  tn_artifact_block_t *block = (tn_artifact_block_t *)(void *)(blobs + w->blob_count);
  const size_t first_text = w->blob_count - TEXTS;
  size_t at = w->weights.count;
  *counts = (tn_artifact_counts_t){.blob_count = (uint32_t)w->blob_count,
                                   .weight_count = (uint32_t)w->weights.count,
                                   .block_count = (uint32_t)w->block_count,
                                   .library_count = (uint32_t)w->libraries.count,
                                   .identity = (uint32_t)first_text,
                                   .compiled = (uint32_t)first_text + 1,
                                   .original = (uint32_t)first_text + 2};
  for (size_t i = 0; i < w->blob_count; i++) {
    const bool is_block = i >= w->weights.count && i < w->weights.count + w->block_count;
    const bool is_run = is_block || (i < w->weights.count && w->is_run[i]);
    blobs[i] = (tn_artifact_blob_t){w->offsets[i], w->blobs[i].size, w->blobs[i].sum,
                                    is_run ? TN_BLOB_RUN : 0, 0};
  }
  for (size_t n = 0; n < w->collector.node_count; n++)
    for (size_t i = 0; i < w->collector.nodes[n].count; i++) {
      const tn_block_t *packed = &w->collector.nodes[n].items[i];
      *block = (tn_artifact_block_t){(uint32_t)n, (uint32_t)at++, {0}};
      memcpy(block++->notes, packed->notes, sizeof packed->notes);
    }
  if (w->libraries.count)
    memcpy(block, w->libraries.items, w->libraries.count * sizeof *w->libraries.items);
}

static tenon_status_t fill_file(artifact_writer_t *w) {
  if (w->blob_count > UINT32_MAX / 2 || w->collector.node_count > UINT32_MAX)
    return tn_fail(TENON_RANGE, "the graph has too many constants for an artifact");
  w->file = tn_allocate_zero(1, (size_t)w->size);
  if (!w->file) return tn_no_memory("an artifact", (size_t)w->size);
  TN_TRY(tn_artifact_sum(w->blobs, w->blob_count));
  fill_index(w, w->file + TN_ARTIFACT_INDEX);
  for (size_t i = 0; i < w->blob_count; i++)
    if (w->blobs[i].size)
      memcpy(w->file + w->offsets[i], w->blobs[i].data, (size_t)w->blobs[i].size);
  tn_artifact_header_t header = {.version = TN_ARTIFACT_VERSION,
                                 .order = TN_ARTIFACT_ORDER,
                                 .file_size = w->size,
                                 .index_size = w->index_size};
  memcpy(header.magic, TN_ARTIFACT_MAGIC, sizeof header.magic);
  header.index_sum = tn_checksum(w->file + TN_ARTIFACT_INDEX, w->index_size);
  header.header_sum = tn_checksum(&header, offsetof(tn_artifact_header_t, header_sum));
  memcpy(w->file, &header, sizeof header);
  return TENON_OK;
}

static tenon_status_t make_file(artifact_writer_t *w, const tenon_graph_t *graph,
                                const char *const *libraries, size_t library_count) {
  for (size_t i = 0; i < library_count; i++) /* before the identity, which they are part of */
    TN_TRY(tn_artifact_enclose(&w->libraries, libraries[i]));
  TN_TRY(tn_executable_collect(graph, &w->collector, &w->executable));
  TN_TRY(print_texts(w, graph));
  TN_TRY(tn_artifact_need(&w->libraries, graph));
  TN_TRY(tn_artifact_need(&w->libraries, w->executable->graph));
  TN_TRY(list_blobs(w));
  place_blobs(w);
  return fill_file(w);
}

static void close_writer(artifact_writer_t *w) {
  for (size_t i = 0; i < w->held_count; i++)
    tenon_tensor_release(w->held[i]);
  tn_release_memory(w->held);
  tn_weight_list_clear(&w->weights);
  tn_collector_clear(&w->collector);
  tenon_executable_release(w->executable);
  for (int i = 0; i < TEXTS; i++)
    tn_text_clear(&w->texts[i]);
  tn_artifact_libraries_clear(&w->libraries);
  tn_release_memory(w->blobs);
  tn_release_memory(w->offsets);
  tn_release_memory(w->is_run);
  tn_release_memory(w->file);
}

tenon_status_t tn_artifact_save(const tenon_graph_t *graph, const char *const *libraries,
                                size_t library_count, const char *path) {
  artifact_writer_t w = {.size = 0};
  if (graph->prepared) TN_TRY(graph->prepared->original(graph->prepared, &graph));
  tenon_status_t status = make_file(&w, graph, libraries, library_count);
  if (status == TENON_OK) status = tn_file_replace(path, w.file, (size_t)w.size, 0666);
  close_writer(&w);
  return status;
}
