/* Artifacts: NAME.tenon, one file with a compiled graph, its weights, also as kernels packed them,
 * and the graph that was compiled. docs/artifacts.md describes the format.
 *
 * The file begins with a header and an index, which are compared with their checksums when the file
 * is opened. Everything else is a blob: bytes with a checksum of their own, which is compared
 * before a run, or a caller, reads them. */
#ifndef TN_IMPORT_ARTIFACT_H
#define TN_IMPORT_ARTIFACT_H

#include "core/tensor.h"
#include "graph/graph.h"

#define TN_ARTIFACT_ENDING ".tenon"

enum {
  TN_ARTIFACT_VERSION = 1,
  TN_ARTIFACT_INDEX = 64,   /* where the index begins */
  TN_ARTIFACT_ALIGNED = 64, /* every blob */
  TN_ARTIFACT_PAGE = 4096,  /* blobs of at least this many bytes */
};
#define TN_ARTIFACT_MAGIC "\x89TENON\r\n"
#define TN_ARTIFACT_ORDER 0x01020304u /* as the writer's processor stores it */

typedef struct tn_artifact_header_t {
  char magic[8];
  uint32_t version;
  uint32_t order;
  uint64_t file_size;
  uint64_t index_size;
  uint64_t index_sum;
  uint64_t header_sum; /* of the fields above */
} tn_artifact_header_t;

/* The index consists of these counts, the blobs, and the blocks. The first `weight_count` blobs are
 * the weights, which the texts name by their numbers. */
typedef struct tn_artifact_counts_t {
  uint32_t blob_count;
  uint32_t weight_count;
  uint32_t block_count;
  uint32_t identity; /* the blob that says for what the graph was compiled */
  uint32_t compiled; /* the blob with the text of the compiled graph */
  uint32_t original; /* the blob with the text of the graph that was compiled */
  uint32_t reserved[2];
} tn_artifact_counts_t;

enum { TN_BLOB_RUN = 1 }; /* runs read the blob */

typedef struct tn_artifact_blob_t {
  uint64_t offset;
  uint64_t size;
  uint64_t sum;
  uint32_t flags;
  uint32_t reserved;
} tn_artifact_blob_t;

/* Weights that the kernel of a node packed, in the order of the nodes. */
typedef struct tn_artifact_block_t {
  uint32_t node;
  uint32_t blob;
  int64_t notes[TN_BLOCK_NOTES];
} tn_artifact_block_t;

/* Whether the bytes are an artifact, perhaps a damaged one. */
bool tn_artifact_is(const void *data, uint64_t size);
/* Compiles the graph for this process and writes the artifact. */
tenon_status_t tn_artifact_save(const tenon_graph_t *graph, const char *path);
/* Reads the compiled graph or, if it was compiled for another processor or version, the original
 * one. `name` is for messages. The graph retains the file. */
tenon_status_t tn_artifact_read(tn_storage_t *file, const char *name, tenon_graph_t **out_graph);

/* Appends one line for each thing that a compiled graph depends on. */
tenon_status_t tn_artifact_identify(tn_text_t *text);

/* Checksums of many blobs, on all threads. */
typedef struct tn_summed_t {
  const void *data;
  uint64_t size;
  uint64_t sum; /* set by tn_artifact_sum */
} tn_summed_t;
tenon_status_t tn_artifact_sum(tn_summed_t *items, size_t count);

#endif
