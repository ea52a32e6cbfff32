/* What is kept of an operator with its attributes: the texts as the library takes them, and the
 * objects of stateful operators. */
#ifndef BRIDGES_MXNET_STATE_H
#define BRIDGES_MXNET_STATE_H

#include "hosted.h"

typedef struct
    instance_t { /* a stateful operator's object, for one device and types and shapes of inputs */
  struct instance_t *next;
  void *object;
  pthread_mutex_t turns; /* one call at a time */
  tenon_device_t device;
  int count;
  int64_t key[]; /* of each input: dtype, ndim, extents */
} instance_t;

typedef struct state_t {
  const hosted_op_t *op;
  bool is_list; /* inputs and results are one list each */
  int count;    /* of attributes */
  char *text;   /* keys and values, each terminated */
  const char **keys;
  const char **values;
  int in_count;
  int out_count;
  int extra; /* inputs behind those: what passes add, which only its functions know */
  uint64_t
      /* of inputs: a new one for each call, since nobody knows whether they were written to */
      version;
  pthread_mutex_t lock;
  instance_t *instances;
} state_t;

tenon_status_t state_create(tenon_node_t *node);
void state_destroy(void *state);
/* The object for these inputs, made if there is none; NULL: `why` says. */
instance_t *state_instance(state_t *state, tenon_device_t device, tenon_tensor_t *const *inputs,
                           char *why, size_t capacity);
/* What an author's function said: `result` of guard_call; true: all is well, else `why` says what
 * failed. */
bool state_check(const state_t *state, int result, const char *what, char *why, size_t capacity);
/* What parseAttrs says of these attributes. */
bool state_counts(const hosted_op_t *op, const char *const *keys, const char *const *values,
                  int count, int *out_in, int *out_out, char *why, size_t capacity);
/* MXNet's number of a dtype; -1: it has none that libraries know. */
int dtype_to(tenon_dtype_t dtype);
bool dtype_from(int number, tenon_dtype_t *out);
const char *device_name(tenon_device_t device); /* "cpu", "gpu" */

#endif
