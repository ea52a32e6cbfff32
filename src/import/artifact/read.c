/* Reads artifacts. Called by tenon_graph_load and tenon_graph_read. Invariant: the file is
 * untrusted. Every offset, size and number of the index is checked before it is used, also if the
 * checksums are right; no weight is used before it was compared with its checksum. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/checksum.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "graph/executable.h"
#include "import/artifact/artifact.h"
#include "import/artifact/identity.h"
#include "import/text/text.h"
#include "import/weights.h"
#include "registry/reload.h"

#define AGAIN "copy the file again, or compile the model again with tenon compile"

enum { CHECKED_RUN = 1, CHECKED_ALL = 2 };

typedef struct artifact_t {
  tn_prepared_t prepared;
  tn_storage_t *file;
  char *name;
  const unsigned char *bytes;
  const tn_artifact_counts_t *counts;
  const tn_artifact_blob_t *blobs;
  const tn_artifact_block_t *blocks;
  const tn_artifact_library_t *libraries;
  tn_mutex_t lock;         /* guards `original`, and is held while weights are compared */
  int32_t checked;         /* atomic: what was compared with its checksums */
  tenon_graph_t *original; /* NULL: not read yet */
} artifact_t;

static tenon_status_t fail_damaged(const char *what) {
  return tn_fail(TENON_INVALID, "the artifact is damaged: %s: " AGAIN, what);
}

/* The index */

bool tn_artifact_is(const void *data, uint64_t size) {
  return size >= sizeof TN_ARTIFACT_MAGIC - 1 &&
         memcmp(data, TN_ARTIFACT_MAGIC, sizeof TN_ARTIFACT_MAGIC - 1) == 0;
}

static tenon_status_t read_artifact_header(const tn_storage_t *file, tn_artifact_header_t *header) {
  const unsigned char *bytes = file->data;
  if (!tn_artifact_is(bytes, file->size))
    return tn_fail(TENON_INVALID, "expected an artifact, which begins with the byte 0x89 and "
                                  "TENON: compile the model with tenon compile");
  if (file->size < TN_ARTIFACT_INDEX) return fail_damaged("it ends within the header");
  memcpy(header, bytes, sizeof *header);
  if (header->order != TN_ARTIFACT_ORDER)
    return tn_fail(TENON_INVALID, "the artifact was written by a processor with another order of "
                                  "bytes: compile the model on this machine with tenon compile");
  if (header->version != TN_ARTIFACT_VERSION)
    return tn_fail(TENON_INVALID,
                   "the artifact has format %" PRIu32
                   ", but this libtenon reads format %d: compile "
                   "the model with the tenon that will run it",
                   header->version, TN_ARTIFACT_VERSION);
  if (tn_checksum(bytes, offsetof(tn_artifact_header_t, header_sum)) != header->header_sum)
    return fail_damaged("the checksum of its header is wrong");
  if (header->file_size != file->size)
    return tn_fail(TENON_INVALID,
                   "the artifact is damaged: expected %" PRIu64 " bytes, found %" PRIu64 ": " AGAIN,
                   header->file_size, (uint64_t)file->size);
  if (header->index_size > file->size - TN_ARTIFACT_INDEX ||
      tn_checksum(bytes + TN_ARTIFACT_INDEX, header->index_size) != header->index_sum)
    return fail_damaged("the checksum of its index is wrong");
  return TENON_OK;
}

static tenon_status_t check_blob(const artifact_t *a, const tn_artifact_blob_t *blob) {
  const uint64_t size = a->file->size;
  if (blob->offset % TN_ARTIFACT_ALIGNED || blob->offset > size || blob->size > size - blob->offset)
    return fail_damaged("a blob lies outside of the file");
  return TENON_OK;
}

static tenon_status_t check_library(const artifact_t *a, const tn_artifact_library_t *library) {
  const bool is_fine = memchr(library->name, 0, sizeof library->name) &&
                       memchr(library->version, 0, sizeof library->version) &&
                       memchr(library->file, 0, sizeof library->file) &&
                       memchr(library->machine, 0, sizeof library->machine);
  const bool is_there = library->blob == TN_NOT_INSIDE || library->blob < a->counts->blob_count;
  return is_fine && is_there ? TENON_OK
                             : fail_damaged("its index names a library that does not exist");
}

static tenon_status_t open_index(artifact_t *a) {
  tn_artifact_header_t header;
  TN_TRY(read_artifact_header(a->file, &header));
  a->bytes = a->file->data;
  a->counts = (const tn_artifact_counts_t *)(const void *)(a->bytes + TN_ARTIFACT_INDEX);
  const tn_artifact_counts_t *c = a->counts;
  if (header.index_size < sizeof *c ||
      header.index_size != sizeof *c + c->blob_count * sizeof *a->blobs +
                               c->block_count * sizeof *a->blocks +
                               (uint64_t)c->library_count * sizeof *a->libraries)
    return fail_damaged("its index has another size than its counts say");
  a->blobs = (const tn_artifact_blob_t *)(const void *)(c + 1);
  a->blocks = (const tn_artifact_block_t *)(const void *)(a->blobs + c->blob_count);
  a->libraries = (const tn_artifact_library_t *)(const void *)(a->blocks + c->block_count);
  if (c->weight_count > c->blob_count || c->identity >= c->blob_count ||
      c->compiled >= c->blob_count || c->original >= c->blob_count)
    return fail_damaged("its index names blobs that do not exist");
  for (uint32_t i = 0; i < c->blob_count; i++)
    TN_TRY(check_blob(a, &a->blobs[i]));
  for (uint32_t i = 0; i < c->block_count; i++)
    if (a->blocks[i].blob >= c->blob_count || (i && a->blocks[i].node < a->blocks[i - 1].node))
      return fail_damaged("its index names packed weights that do not exist");
  for (uint32_t i = 0; i < c->library_count; i++)
    TN_TRY(check_library(a, &a->libraries[i]));
  return TENON_OK;
}

/* Comparing with checksums */

static tenon_status_t fail_sum(const artifact_t *a, uint32_t blob, uint64_t found) {
  const tn_artifact_blob_t *b = &a->blobs[blob];
  const char *kind = blob < a->counts->weight_count ? "weights" : "section";
  return tn_fail(TENON_INVALID,
                 "%.300s: the artifact is damaged: %s %" PRIu32 ", %" PRIu64
                 " bytes at offset %" PRIu64 ": expected checksum %016" PRIx64 ", found %016" PRIx64
                 ": " AGAIN,
                 a->name, kind, blob, b->size, b->offset, b->sum, found);
}

/* Compares all blobs, or those that runs read. */
static tenon_status_t compare_sums(const artifact_t *a, bool all) {
  const uint32_t count = a->counts->blob_count;
  tn_summed_t *items = tn_allocate(((size_t)count + 1) * sizeof *items);
  uint32_t *blobs = tn_allocate(((size_t)count + 1) * sizeof *blobs);
  size_t used = 0;
  tenon_status_t status = items && blobs ? TENON_OK : tn_no_memory("checksums", count);
  for (uint32_t i = 0; status == TENON_OK && i < count; i++) {
    if (!all && !(a->blobs[i].flags & TN_BLOB_RUN)) continue;
    items[used] = (tn_summed_t){a->bytes + a->blobs[i].offset, a->blobs[i].size, 0};
    blobs[used++] = i;
  }
  if (status == TENON_OK) status = tn_artifact_sum(items, used);
  for (size_t i = 0; i < used && status == TENON_OK; i++)
    if (items[i].sum != a->blobs[blobs[i]].sum) status = fail_sum(a, blobs[i], items[i].sum);
  tn_release_memory(items);
  tn_release_memory(blobs);
  return status;
}

static tenon_status_t check_locked(artifact_t *a, bool all) {
  const int32_t wanted = all ? CHECKED_RUN | CHECKED_ALL : CHECKED_RUN;
  if ((a->checked & wanted) == wanted) return TENON_OK;
  TN_TRY(compare_sums(a, all));
  __atomic_store_n(&a->checked, a->checked | wanted, __ATOMIC_RELEASE);
  return TENON_OK;
}

static tenon_status_t check_artifact(const tn_prepared_t *prepared, bool all) {
  artifact_t *a = prepared->context;
  const int32_t wanted = all ? CHECKED_ALL : CHECKED_RUN;
  if (__atomic_load_n(&a->checked, __ATOMIC_ACQUIRE) & wanted) return TENON_OK;
  tn_mutex_lock(&a->lock);
  const tenon_status_t status = check_locked(a, all);
  tn_mutex_unlock(&a->lock);
  return status;
}

/* Graphs */

/* Makes the tensor of weights('12'). */
static tenon_status_t get_weight(void *context, const char *key, tenon_dtype_t dtype, int32_t ndim,
                                 const int64_t *shape, tenon_tensor_t **out_tensor) {
  const artifact_t *a = context;
  char *end;
  const unsigned long index = strtoul(key, &end, 10);
  if (*key < '0' || *key > '9' || *end || index >= a->counts->weight_count)
    return tn_fail(TENON_INVALID, "no weights '%.40s': the artifact has %" PRIu32, key,
                   a->counts->weight_count);
  const tn_artifact_blob_t *blob = &a->blobs[index];
  return tn_weights_tensor(a->file, a->bytes + blob->offset, blob->size, dtype, ndim, shape,
                           out_tensor);
}

/* The text in a blob, which ends with a byte 0. */
static tenon_status_t text_of_blob(const artifact_t *a, uint32_t blob, const char **out_text) {
  const tn_artifact_blob_t *b = &a->blobs[blob];
  tn_summed_t item = {a->bytes + b->offset, b->size, 0};
  TN_TRY(tn_artifact_sum(&item, 1));
  if (item.sum != b->sum) return fail_sum(a, blob, item.sum);
  *out_text = item.data;
  if (!b->size || (*out_text)[b->size - 1]) return fail_damaged("a text in it has no end");
  return TENON_OK;
}

static tenon_status_t parse_blob(artifact_t *a, uint32_t blob, tenon_graph_t **out_graph) {
  const tn_text_source_t source = {get_weight, a};
  const char *text;
  TN_TRY(text_of_blob(a, blob, &text));
  return tn_text_parse(text, (size_t)a->blobs[blob].size - 1, &source, out_graph);
}

static tenon_status_t original_locked(artifact_t *a) {
  if (a->original) return TENON_OK;
  TN_TRY(check_locked(a, true));
  const tenon_status_t status = parse_blob(a, a->counts->original, &a->original);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "%.300s: ", a->name);
}

static tenon_status_t original_of(const tn_prepared_t *prepared, const tenon_graph_t **out_graph) {
  artifact_t *a = prepared->context;
  tn_mutex_lock(&a->lock);
  const tenon_status_t status = original_locked(a);
  tn_mutex_unlock(&a->lock);
  if (status == TENON_OK) *out_graph = a->original;
  return status;
}

/* Lists the blocks of each node of the compiled graph. */
static tenon_status_t list_blocks(artifact_t *a, const tenon_graph_t *graph) {
  const uint32_t count = a->counts->block_count;
  tn_block_t *blocks = tn_allocate_zero((size_t)count + 1, sizeof *blocks);
  size_t *first = tn_allocate_zero(graph->node_count + 1, sizeof *first);
  uint32_t at = 0;
  a->prepared.blocks = blocks;
  a->prepared.first = first;
  if (!blocks || !first) return tn_no_memory("packed weights", count);
  for (uint32_t i = 0; i < count; i++) {
    const tn_artifact_blob_t *blob = &a->blobs[a->blocks[i].blob];
    blocks[i] = (tn_block_t){a->bytes + blob->offset, blob->size, {0}};
    memcpy(blocks[i].notes, a->blocks[i].notes, sizeof blocks[i].notes);
    /* runs read the block, so its checksum must be among those that are compared before */
    if (a->blocks[i].node >= graph->node_count || !(blob->flags & TN_BLOB_RUN))
      return fail_damaged("its index names packed weights of nodes that do not exist");
  }
  for (size_t n = 0; n <= graph->node_count; n++) {
    first[n] = at;
    while (n < graph->node_count && at < count && a->blocks[at].node == n)
      at++;
  }
  return TENON_OK;
}

/* Whether this process would compile the graph to the same. */
static tenon_status_t has_own_identity(const artifact_t *a, bool *out_own) {
  tn_text_t own = {0};
  const char *text;
  tenon_status_t status = tn_artifact_identify(&own);
  if (status == TENON_OK) status = text_of_blob(a, a->counts->identity, &text);
  if (status == TENON_OK) *out_own = strcmp(tn_text_get(&own), text) == 0;
  tn_text_clear(&own);
  return status;
}

/* Loads the libraries that are needed. */
static tenon_status_t load_libraries(const artifact_t *a, const char *path) {
  for (uint32_t i = 0; i < a->counts->library_count; i++) {
    const uint32_t blob = a->libraries[i].blob;
    if (blob == TN_NOT_INSIDE) continue;
    tn_summed_t item = {a->bytes + a->blobs[blob].offset, a->blobs[blob].size, 0};
    TN_TRY(tn_artifact_sum(&item, 1));
    if (item.sum != a->blobs[blob].sum) return fail_sum(a, blob, item.sum);
  }
  return tn_artifact_load(a->libraries, a->counts->library_count, a->blobs, a->bytes, path);
}

static void release_artifact(tn_prepared_t *prepared) {
  artifact_t *a = prepared->context;
  tenon_graph_release(a->original);
  tn_release_memory((void *)(uintptr_t)a->prepared.blocks);
  tn_release_memory((void *)(uintptr_t)a->prepared.first);
  tn_storage_release(a->file);
  tn_release_memory(a->name);
  tn_release_memory(a);
}

/* Reads the compiled graph, which owns the artifact from then on. */
static tenon_status_t read_compiled(artifact_t *a, tenon_graph_t **out_graph) {
  tenon_graph_t *graph;
  TN_TRY(parse_blob(a, a->counts->compiled, &graph));
  const tenon_status_t status = list_blocks(a, graph);
  if (status == TENON_OK) {
    graph->prepared = &a->prepared;
    *out_graph = graph;
  } else {
    tenon_graph_release(graph);
  }
  return status;
}

/* Reads the graph that was compiled; the artifact can be released then. */
static tenon_status_t read_original(artifact_t *a, tenon_graph_t **out_graph) {
  TN_TRY(original_locked(a));
  *out_graph = a->original;
  tenon_graph_retain(a->original);
  return TENON_OK;
}

/* Makes an artifact of a file whose index is right. */
static tenon_status_t open_artifact(tn_storage_t *file, const char *path, artifact_t **out) {
  const char *slash = strrchr(path, '/');
  const char *name = *path ? path : "artifact in memory";
  if (slash) name = slash + 1;
  artifact_t *a = tn_allocate_zero(1, sizeof *a);
  if (!a) return tn_no_memory("an artifact", sizeof *a);
  tn_storage_retain(file);
  a->file = file;
  a->name = tn_copy_text(name, strlen(name));
  a->prepared = (tn_prepared_t){.context = a,
                                .reloads = tn_registry_reloads(),
                                .check = check_artifact,
                                .original = original_of,
                                .release = release_artifact};
  const tenon_status_t status = a->name ? open_index(a) : tn_no_memory("an artifact", 0);
  if (status == TENON_OK)
    *out = a;
  else
    release_artifact(&a->prepared);
  return status;
}

tenon_status_t tn_artifact_read(tn_storage_t *file, const char *path, tenon_graph_t **out_graph) {
  artifact_t *a;
  bool is_own = false;
  TN_TRY(open_artifact(file, path, &a));
  tenon_status_t status = load_libraries(a, path);
  if (status == TENON_OK) status = has_own_identity(a, &is_own);
  if (status == TENON_OK)
    status = is_own ? read_compiled(a, out_graph) : read_original(a, out_graph);
  if (status != TENON_OK || !is_own) release_artifact(&a->prepared);
  return status;
}

/* Reports */

/* Adds a line such as "weights: 3 blobs, 1.5 MiB" for the blobs from `begin` to `end`. */
static void report_blobs(const artifact_t *a, const char *what, uint32_t begin, uint32_t end,
                         tn_text_t *text) {
  uint64_t size = 0;
  for (uint32_t i = begin; i < end; i++)
    size += a->blobs[i].size;
  tn_text_add(text, "%s: %" PRIu32 ", %.2f MiB\n", what, end - begin, (double)size / (1 << 20));
}

static void report_libraries(const artifact_t *a, tn_text_t *text) {
  for (uint32_t i = 0; i < a->counts->library_count; i++) {
    const tn_artifact_library_t *l = &a->libraries[i];
    tn_text_add(text, "library: %s %s (%s): ", l->name, l->version, l->file);
    if (l->blob == TN_NOT_INSIDE)
      tn_text_add(text, "its operators are needed\n");
    else
      tn_text_add(text, "inside, for %s, %" PRIu64 " bytes\n", l->machine, a->blobs[l->blob].size);
  }
}

/* Adds the lines of the identity, and whether this process has the same. */
static tenon_status_t report_identity(const artifact_t *a, tn_text_t *text) {
  tn_text_t own = {0};
  const char *theirs = "";
  tenon_status_t status = tn_artifact_identify(&own);
  if (status == TENON_OK) status = text_of_blob(a, a->counts->identity, &theirs);
  const char *mine = tn_text_get(&own);
  const bool is_own = status == TENON_OK && strcmp(mine, theirs) == 0;
  tn_text_add(text, "compiled for\n");
  while (status == TENON_OK && *theirs) {
    const size_t size = strcspn(theirs, "\n");
    const size_t own_size = strcspn(mine, "\n");
    const bool is_same = size == own_size && memcmp(theirs, mine, size) == 0;
    tn_text_add(text, "  %.*s\n", (int)size, theirs);
    if (!is_same) tn_text_add(text, "    but here: %.*s\n", (int)own_size, mine);
    theirs += size + (theirs[size] == '\n');
    mine += own_size + (mine[own_size] == '\n');
  }
  tn_text_add(text, "%s\n",
              is_own ? "this process uses the compiled graph"
                     : "this process compiles the original graph again");
  tn_text_clear(&own);
  return status;
}

tenon_status_t tn_artifact_report(tn_storage_t *file, const char *path, tn_text_t *text) {
  artifact_t *a;
  TN_TRY(open_artifact(file, path, &a));
  const tn_artifact_counts_t *c = a->counts;
  const uint64_t end = (uint64_t)c->weight_count + c->block_count;
  tenon_status_t status = check_artifact(&a->prepared, true);
  tn_text_add(text, "artifact of format %d, %.2f MiB; all checksums are right\n",
              TN_ARTIFACT_VERSION, (double)file->size / (1 << 20));
  report_blobs(a, "weights", 0, c->weight_count, text);
  if (end <= c->blob_count) report_blobs(a, "packed weights", c->weight_count, (uint32_t)end, text);
  report_libraries(a, text);
  if (status == TENON_OK) status = report_identity(a, text);
  release_artifact(&a->prepared);
  return status == TENON_OK && text->failed ? tn_no_memory("a report", text->size) : status;
}
