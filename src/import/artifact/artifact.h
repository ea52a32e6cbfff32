/* Artifacts: NAME.tenon, one file with a compiled graph, its weights, also as kernels packed them,
 * and the graph that was compiled. docs/artifacts.md describes the format.
 *
 * The file begins with a header and an index, which are compared with their checksums when the file
 * is opened. Everything else is a blob: bytes with a checksum of their own, which is compared
 * before a run, or a caller, reads them. */
#ifndef TN_IMPORT_ARTIFACT_H
#define TN_IMPORT_ARTIFACT_H

#include "base/file.h"
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

/* The index consists of these counts, the blobs, the blocks, and the libraries. The first
 * `weight_count` blobs are the weights, which the texts name by their numbers. */
typedef struct tn_artifact_counts_t {
  uint32_t blob_count;
  uint32_t weight_count;
  uint32_t block_count;
  uint32_t identity; /* the blob that says for what the graph was compiled */
  uint32_t compiled; /* the blob with the text of the compiled graph */
  uint32_t original; /* the blob with the text of the graph that was compiled */
  uint32_t library_count;
  uint32_t reserved;
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

/* An operator library: one whose operators the graphs need, or one that is in the file. */
typedef struct tn_artifact_library_t {
  char name[64];    /* "": not known, because it is for another processor */
  char version[32]; /* of the library when the artifact was written */
  char file[96];    /* the name of its file, without folders */
  char machine[24]; /* the processor that it is for, such as "x86-64" */
  uint32_t blob;    /* TN_NOT_INSIDE: a library that the graphs need */
  uint32_t reserved;
} tn_artifact_library_t;
#define TN_NOT_INSIDE UINT32_MAX

/* Libraries that are to be written, and their files, mapped. */
typedef struct tn_artifact_libraries_t {
  tn_artifact_library_t *items;
  tn_file_t *files; /* of those that are inside; size 0: not inside */
  size_t count;
  size_t capacity;
  size_t inside_count;
} tn_artifact_libraries_t;

/* Adds the libraries of the operators of a graph and of its bodies, each once. */
tenon_status_t tn_artifact_need(tn_artifact_libraries_t *libraries, const tenon_graph_t *graph);
/* Adds a library's file. One for this processor must be loaded. */
tenon_status_t tn_artifact_enclose(tn_artifact_libraries_t *libraries, const char *path);
void tn_artifact_libraries_clear(tn_artifact_libraries_t *libraries);
/* Loads what the graphs of an artifact need and nobody has loaded yet: from the artifact, which is
 * mapped at `bytes`, or by name along the search path. `path` is that of the artifact. The blobs
 * were compared with their checksums. */
tenon_status_t tn_artifact_load(const tn_artifact_library_t *libraries, size_t count,
                                const tn_artifact_blob_t *blobs, const unsigned char *bytes,
                                const char *path);

/* Whether the bytes are an artifact, perhaps a damaged one. */
bool tn_artifact_is(const void *data, uint64_t size);
/* Compiles the graph for this process and writes the artifact, with the files of libraries. */
tenon_status_t tn_artifact_save(const tenon_graph_t *graph, const char *const *libraries,
                                size_t library_count, const char *path);
/* Loads the libraries that are needed, and reads the compiled graph or, if it was compiled for
 * another processor or version, the original one. `path` has no links; "": the artifact is in
 * memory. The graph retains the file. */
tenon_status_t tn_artifact_read(tn_storage_t *file, const char *path, tenon_graph_t **out_graph);

/* Compares all checksums, and prints what is in the file and whether its compiled graph is for this
 * process. */
tenon_status_t tn_artifact_report(tn_storage_t *file, const char *path, tn_text_t *text);

/* Checksums of many blobs, on all threads. */
typedef struct tn_summed_t {
  const void *data;
  uint64_t size;
  uint64_t sum; /* set by tn_artifact_sum */
} tn_summed_t;
tenon_status_t tn_artifact_sum(tn_summed_t *items, size_t count);

#endif
