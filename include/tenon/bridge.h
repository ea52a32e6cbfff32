/* tenon/bridge.h: the binary contract between a bridge and its host.  Contract version 1.0; the
 * rules for growth are those of op.h.
 *
 * A bridge is a library that reads files of another system: operator libraries and models.
 * tenon_library_load and tenon_graph_load pass a file of a foreign format to the bridge that
 * recognises it, so that the file loads like one of Tenon's own.  A bridge may also write models
 * for tenon_graph_export.
 *
 * A bridge declares one item before its first operator: TENON_BRIDGE(&table).  The host finds
 * bridges in the folder `bridges` next to libtenon, in lib/tenon/bridges, and in the folders that
 * TENON_BRIDGE_PATH names; a program can also load a bridge as any library.  A bridge stays loaded
 * until shutdown, and may link libtenon. */
#ifndef TENON_BRIDGE_H
#define TENON_BRIDGE_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_BRIDGE_ABI 0x10001u /* Version of this contract: major << 16 | minor. */

/* Argument of a bridge's functions; tenon_fail() accepts it. */
typedef struct tenon_bridge_call_t {
  uint32_t size;
  uint32_t phase; /* TENON_PHASE_BRIDGE */
  const tenon_host_t *host;
  const char *path;   /* The file: an absolute path without symbolic links. */
  const char *folder; /* Models: folder of the files it refers to; NULL: the folder of the file. */
} tenon_bridge_call_t;

/* A foreign library, which `open` fills in. */
typedef struct tenon_bridged_t {
  uint32_t size;
  uint32_t reserved;
  const tenon_descriptor_t *descriptor; /* Valid until destroy(context). */
  void *context;                        /* call->context of the library's functions. */
  tenon_free_fn destroy;                /* NULL: nothing needs to be freed. */
} tenon_bridged_t;

typedef struct tenon_bridge_table_t {
  uint32_t size;
  uint32_t abi;     /* TENON_BRIDGE_ABI */
  const char *name; /* "mxnet" */

  /* A shared object that exports all these symbols is a library of the foreign system.  The list
   * ends with NULL; the field is NULL if the bridge opens no libraries. */
  const char *const *symbols;

  /* Describes a library file without executing any of its code, for `tenon doctor`.
   * Arguments: the function calls say(context, line) for each line of its report.
   * Threads: any thread. */
  tenon_status_t (*inspect)(tenon_bridge_call_t *call, void (*say)(void *context, const char *line),
                            void *context);

  /* Opens a library file and describes its operators as a Tenon library.  The host checks them and
   * registers them under the file's path.  The host may open the same file again after destroy.
   * Threads: the host never calls it twice at the same time. */
  tenon_status_t (*open)(tenon_bridge_call_t *call, tenon_bridged_t *out);

  /* A file whose name ends with one of these suffixes is a model of the foreign system.  The list
   * ends with NULL; the field is NULL if the bridge reads no models. */
  const char *const *suffixes;

  /* Reads a model.
   * Errors: the message may also come from tenon_error_set.
   * Ownership: the host receives a reference to the graph.
   * Threads: any thread. */
  tenon_status_t (*read)(tenon_bridge_call_t *call, const tenon_graph_t **out_graph);

  /* Writes a model to the new file call->path, whose name ends with one of `suffixes`.  NULL: the
   * bridge writes no models.
   * Arguments: a graph with inferred types.  Everything in it that does not depend on inputs is a
   * constant.
   * Errors: as for `read`.  What the bridge has written of the file is then removed.
   * Threads: any thread. */
  tenon_status_t (*write)(tenon_bridge_call_t *call, const tenon_graph_t *graph);

  /* A shared object that exports a symbol with one of these prefixes is a library of the foreign
   * system, as if it exported all of `symbols`.  The list ends with NULL; the field is NULL if only
   * `symbols` count. */
  const char *const *prefixes;
} tenon_bridge_table_t;

/* clang-format off */
/* The item that declares a bridge. */
#define TENON_BRIDGE(table) { TENON_TAG_BRIDGE, 0, 0, (table), 0 }
/* clang-format on */

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
