/* MXNet operator libraries that are loaded: what they registered, and the state that Tenon keeps
 * for the attributes of a call. */
#ifndef BRIDGES_MXNET_HOSTED_H
#define BRIDGES_MXNET_HOSTED_H

#include <pthread.h>
#include <stdbool.h>
#include <tenon/bridge.h>
#include <tenon/graph.h>
#include <tenon/tenon.h>

#include "abi.h"

#define HOSTED_SUBGRAPH                                                                            \
  "subgraph_sym_json" /* the attribute by which operators of subgraphs get theirs */
#define HOSTED_ATTR_GRAPH                                                                          \
  "_subgraph" /* what they are in the schema: names that libraries do not use */
#define HOSTED_ATTR_COUNT "_count"
#define HOSTED_EXTRA                                                                               \
  "__ext_extra_inputs__" /* that says how many inputs come after those that parseAttrs knows */

enum { WHY = 900 }; /* bytes of a message */

typedef struct functions_t { /* on a device; NULL: none */
  author_fn cpu;
  author_fn gpu;
} functions_t;

typedef struct hosted_op_t {
  struct hosted_t *library;
  const char *name; /* as the library has it */
  bool is_subgraph;
  functions_t forward;
  functions_t backward;
  functions_t create;
  author_fn parse;
  author_fn dtypes;
  author_fn storages;
  author_fn shapes;
  author_fn mutates;
  int in_count;
  int out_count;    /* without attributes; -1: that depends on them */
  uint64_t written; /* bit i: input i, without attributes */
} hosted_op_t;

typedef struct hosted_pass_t {
  tenon_pass_t table; /* first: what Tenon's calls have */
  struct hosted_t *library;
  author_fn function;
} hosted_pass_t;

typedef struct hosted_strategy_t {
  tenon_strategy_t table;
  struct hosted_t *library;
  author_fn supported;
  author_fn selector;
  author_fn review;
} hosted_strategy_t;

typedef struct hosted_partitioner_t {
  tenon_partitioner_t table;
  hosted_strategy_t *strategies;
  const tenon_strategy_t **tables;
  int count;
} hosted_partitioner_t;

typedef struct hosted_t { /* as long as the process */
  struct hosted_t *next;
  char *path;
  char *ns;
  void *handle;
  abi_t abi;
  int version;
  int message_count; /* that were read */
  bool is_random;    /* it draws numbers */
  pthread_mutex_t messages;
  int op_count;
  int pass_count;
  int partitioner_count;
  hosted_op_t *ops;
  hosted_pass_t *passes;
  hosted_partitioner_t *partitioners;
  tenon_descriptor_t descriptor;
  char version_text[24];
  tenon_item_t *items;
  char **texts; /* that items point to */
  size_t item_count;
  size_t text_count;
} hosted_t;

/* Reads a library, or finds it among those that were; `why` says why not. */
tenon_status_t hosted_open(const char *path, hosted_t **out, char *why, size_t capacity);
/* The library that Tenon knows by this path; NULL: it is none of MXNet's. */
const hosted_t *hosted_of(const char *path);
/* The operator of this name, of that library or, if it has none, of another; NULL: there is
 * none. */
const hosted_op_t *hosted_find_op(const hosted_t *library, const char *name);
/* Reads its passes and partitioners; transforms_free frees them. */
bool transforms_read(hosted_t *library, char *why, size_t capacity);
void transforms_free(hosted_t *library);
/* What the library has said since it was asked last, or "" : put behind `why`, which says what
 * failed. */
void hosted_messages(hosted_t *library, char *why, size_t capacity);
/* Makes library->descriptor. */
bool hosted_describe(hosted_t *library, char *why, size_t capacity);

#endif
