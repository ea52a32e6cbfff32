/* The state of an operator with its attributes: the attributes as the library's strings, and the
 * objects of stateful operators. */
#ifndef BRIDGES_MXNET_STATE_H
#define BRIDGES_MXNET_STATE_H

#include "hosted.h"

/* The object of a stateful operator, for one device and for the dtypes and shapes of its inputs. */
typedef struct instance_t {
  struct instance_t *next;
  void *object;
  pthread_mutex_t turns; /* held during a call, because an object serves one call at a time */
  tenon_device_t device;
  int count;
  int64_t key[]; /* for each input: dtype, ndim, extents */
} instance_t;

typedef struct state_t {
  const hosted_op_t *op;
  bool is_list; /* The inputs are one list, and so are the results. */
  int count;    /* the number of attributes */
  char *text;   /* keys and values, each terminated by a zero byte */
  const char **keys;
  const char **values;
  int in_count;
  int out_count;
  /* the number of inputs that passes added; they follow the others, and parseAttrs does not count
   * them */
  int extra;
  /* The version of the inputs. Each call increases it, because the inputs may have changed. */
  uint64_t version;
  pthread_mutex_t lock;
  instance_t *instances;
} state_t;

tenon_status_t state_create(tenon_node_t *node);
void state_destroy(void *state);
/* Returns the object for these inputs, which is created if necessary. Returns NULL with the reason
 * in `why`. */
instance_t *state_instance(state_t *state, tenon_device_t device, tenon_tensor_t *const *inputs,
                           char *why, size_t capacity);
/* Evaluates `result`, which guard_call returned for the author's function `what`. Returns false
 * with the reason in `why` if the function failed. */
bool state_check(const state_t *state, int result, const char *what, char *why, size_t capacity);
/* Calls parseAttrs with these attributes. */
bool state_counts(const hosted_op_t *op, const char *const *keys, const char *const *values,
                  int count, int *out_in, int *out_out, char *why, size_t capacity);
/* Returns MXNet's number of a dtype; -1: libraries do not support the dtype. */
int dtype_to(tenon_dtype_t dtype);
bool dtype_from(int number, tenon_dtype_t *out);
const char *device_name(tenon_device_t device); /* Returns "cpu" or "gpu". */

#endif
