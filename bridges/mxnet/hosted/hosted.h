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

/* The attribute with the graph of a subgraph operator, in MXNet's JSON form. */
#define HOSTED_SUBGRAPH "subgraph_sym_json"
/* The attributes of a subgraph operator's schema. Libraries do not use these names. */
#define HOSTED_ATTR_GRAPH "_subgraph"
#define HOSTED_ATTR_COUNT "_count"
/* The attribute that states how many inputs follow those that parseAttrs reports. */
#define HOSTED_EXTRA "__ext_extra_inputs__"

enum { WHY = 900 }; /* the size of a message in bytes */

typedef struct functions_t { /* the functions for each device; NULL: none */
  author_fn cpu;
  author_fn gpu;
} functions_t;

typedef struct hosted_op_t {
  struct hosted_t *library;
  const char *name; /* the name in the library */
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
  /* the number of results without attributes; -1: the number depends on the attributes */
  int out_count;
  uint64_t written; /* bit i: the operator writes to input i if it has no attributes */
} hosted_op_t;

typedef struct hosted_pass_t {
  tenon_pass_t table; /* must be the first member, because Tenon passes a pointer to the table */
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

typedef struct hosted_t { /* a loaded library; it stays until the process ends */
  struct hosted_t *next;
  char *path;
  char *ns;
  void *handle;
  abi_t abi;
  int version;
  int message_count; /* the number of messages that were read */
  bool is_random;    /* the library draws random numbers */
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
  char **texts; /* the texts that the items point to */
  size_t item_count;
  size_t text_count;
} hosted_t;

/* Opens a library, or finds it if it is open already. After a failure `why` has the reason. */
tenon_status_t hosted_open(const char *path, hosted_t **out, char *why, size_t capacity);
/* Returns the MXNet library that was loaded from this path; NULL: there is none. */
const hosted_t *hosted_of(const char *path);
/* Finds an operator by name in this library or, if the library has no such operator, in another
 * one. Returns NULL if no library has it. */
const hosted_op_t *hosted_find_op(const hosted_t *library, const char *name);
/* Reads the passes and partitioners of the library. transforms_free frees them. */
bool transforms_read(hosted_t *library, char *why, size_t capacity);
void transforms_free(hosted_t *library);
/* Appends the messages that the library has reported since the last call to `why`. */
void hosted_messages(hosted_t *library, char *why, size_t capacity);
/* Sets library->descriptor. */
bool hosted_describe(hosted_t *library, char *why, size_t capacity);

#endif
