/* Arrays with names, as mx.nd.save writes them: `NAME-0000.params` of a model. */
#ifndef BRIDGES_MXNET_MODELS_PARAMS_H
#define BRIDGES_MXNET_MODELS_PARAMS_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct param_t {
  const char
      *name; /* "arg:fc_weight", "aux:bn_moving_mean"; in files of other programs without a kind */
  tenon_tensor_t *tensor; /* NULL: an array without a shape */
} param_t;

typedef struct params_t { /* starts as zeros */
  param_t *items;
  size_t count;
} params_t;

/* Reads the file; names lie in `arena`, tensors are released by params_release, after a failure
 * too.  Sparse arrays are refused. Errors: NOT_FOUND, INVALID, UNIMPLEMENTED, MEMORY. */
tenon_status_t params_read(const char *path, tn_arena_t *arena, params_t *params);
void params_release(params_t *params);
/* The parameter of a node, with or without "arg:" and "aux:"; NULL: there is none. */
tenon_tensor_t *params_find(const params_t *params, const char *name);

/* MXNet's number of a dtype; false: it is none. */
bool mxnet_dtype_from(int64_t number, tenon_dtype_t *out_dtype);
/* "float32"; false: it is none. */
bool mxnet_dtype_parse(const char *name, tenon_dtype_t *out_dtype);

#endif
