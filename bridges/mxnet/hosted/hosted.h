/* MXNet operator libraries that are loaded: what they registered.
 *
 * Each file calls only files that are listed before it:
 *   message.c         messages of a library
 *   loaded.c          the list of libraries
 *   random.c          generators of random numbers
 *   state.c           attributes and objects of an operator
 *   infer.c           dtypes and shapes of results
 *   run.c             kernels
 *   describe.c        declares the operators to Tenon
 *   nnvm_op.c         operators in MXNet's terms
 *   nnvm_write.c      graphs as JSON
 *   nnvm_block.c      constants as named parameters
 *   nnvm_reading.c    what the files that read JSON share
 *   nnvm_subgraph.c   nodes of libraries' own operators, and their subgraphs
 *   nnvm_read.c       JSON as graphs
 *   partition.c       partitioners
 *   pass.c            graph passes
 *   transforms.c      declares partitioners and passes to Tenon
 *   library.c         opens a library
 *   bridge.c          the entry
 * The graphs of files are read by the folder models, which calls no file here. The exception to the
 * order is a function pointer: nnvm_subgraph.c reads subgraphs through reading->read_graph. */
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

#endif
