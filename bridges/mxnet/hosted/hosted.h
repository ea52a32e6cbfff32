/* MXNet's operator libraries, opened: what they registered, and what Tenon's functions keep of a call's attributes. */
#ifndef BRIDGES_MXNET_HOSTED_H
#define BRIDGES_MXNET_HOSTED_H

#include <pthread.h>
#include <stdbool.h>
#include <tenon/bridge.h>
#include <tenon/tenon.h>

#include "abi.h"

enum { WHY = 900 }; /* bytes of a message */

typedef struct functions_t { /* on a device; NULL: none */
  author_fn cpu, gpu;
} functions_t;

typedef struct hosted_op_t {
  struct hosted_t *library;
  const char *name; /* as the library has it */
  bool is_subgraph;
  functions_t forward, backward, create;
  author_fn parse, dtypes, storages, shapes, mutates;
  int in_count, out_count; /* without attributes; -1: that depends on them */
  uint64_t written;        /* bit i: input i, without attributes */
} hosted_op_t;

typedef struct hosted_t { /* as long as the process */
  struct hosted_t *next;
  char *path, *ns;
  void *handle;
  abi_t abi;
  int version;
  int message_count; /* that were read */
  bool is_random;    /* it draws numbers */
  pthread_mutex_t messages;
  int op_count;
  hosted_op_t *ops;
  tenon_descriptor_t descriptor;
  char version_text[24];
  tenon_item_t *items;
  char **texts; /* that items point to */
  size_t item_count, text_count;
} hosted_t;

/* Reads a library, or finds it among those that were; `why` says why not. */
tenon_status_t hosted_open(const char *path, hosted_t **out, char *why, size_t capacity);
/* What the library has said since it was asked last, or "" : put behind `why`, which says what failed. */
void hosted_messages(hosted_t *library, char *why, size_t capacity);
/* Makes library->descriptor. */
bool hosted_describe(hosted_t *library, char *why, size_t capacity);

#endif
