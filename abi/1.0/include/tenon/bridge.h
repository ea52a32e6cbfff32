/* tenon/bridge.h: what a bridge and its host know of each other.  A bridge is a library that reads files of another system,
 * operator libraries and models, so that they load as Tenon's own do: tenon_library_load and tenon_graph_load give a file that is
 * none of Tenon's to the bridge that knows it.  Contract version 1.0; the rules are those of op.h.
 *
 * It states one item before its first operator, TENON_BRIDGE(table), lies in the folder `bridges` beside libtenon (or in
 * lib/tenon/bridges), or is loaded by the program as any library is, and stays until shutdown.  Bridges may link libtenon. */
#ifndef TENON_BRIDGE_H
#define TENON_BRIDGE_H

#include <tenon/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_BRIDGE_ABI 0x10000u /* major << 16 | minor */

typedef struct tenon_bridge_call_t { /* tenon_fail() takes it */
  uint32_t size, phase;              /* TENON_PHASE_BRIDGE */
  const tenon_host_t *host;
  const char *path;   /* of the file: absolute, links resolved */
  const char *folder; /* models: of files beside it; NULL: the file's own */
} tenon_bridge_call_t;

typedef struct tenon_bridged_t { /* a foreign library: set */
  uint32_t size, reserved;
  const tenon_descriptor_t *descriptor; /* stays until destroy(context) */
  void *context;                        /* what its functions find in call->context */
  tenon_free_fn destroy;                /* NULL: nothing is to be freed */
} tenon_bridged_t;

typedef struct tenon_bridge_table_t {
  uint32_t size, abi; /* TENON_BRIDGE_ABI */
  const char *name;   /* "mxnet" */
  /* Libraries.  A shared object that exports all these names, up to NULL, is one of this system. */
  const char *const *symbols;
  /* What its file shows, without running any of it: lines for `tenon doctor`, which go to say(context, line).  Any thread. */
  tenon_status_t (*inspect)(tenon_bridge_call_t *call, void (*say)(void *context, const char *line), void *context);
  /* Opens it: what it states, as a library of Tenon's, which the host checks and registers as one under the file's path. Never
   * two at once.  A file that was opened before may be asked for again, after destroy. */
  tenon_status_t (*open)(tenon_bridge_call_t *call, tenon_bridged_t *out);
  /* Models; NULL: none.  A file whose name ends with one of these, up to NULL, is a model of this system. */
  const char *const *suffixes;
  /* Gives a reference.  A failure's text may be tenon_error_set's too.  Any thread. */
  tenon_status_t (*read)(tenon_bridge_call_t *call, const tenon_graph_t **out_graph);
} tenon_bridge_table_t;

#define TENON_BRIDGE(table)                                                                                            \
  { TENON_TAG_BRIDGE, 0, 0, (table), 0 }

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif
