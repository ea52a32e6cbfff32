/* Named arrays, as mx.nd.save writes them, such as the `NAME-0000.params` of a model. */
#ifndef BRIDGES_MXNET_MODELS_PARAMS_H
#define BRIDGES_MXNET_MODELS_PARAMS_H

#include <stdbool.h>
#include <tenon/tenon.h>

#include "base/arena.h"
#include "base/status.h"

typedef struct param_t {
  /* The name, such as "arg:fc_weight" or "aux:bn_moving_mean". Files of other programs have no
   * "arg:" or "aux:". */
  const char *name;
  tenon_tensor_t *tensor; /* NULL: the array has no shape */
} param_t;

typedef struct params_t { /* must be zeroed before use */
  param_t *items;
  size_t count;
} params_t;

/* Reads the file. The names are in `arena`; params_release releases the tensors and must be called
 * also after a failure. Sparse arrays are not supported.
 *
 * Errors: NOT_FOUND, INVALID, UNIMPLEMENTED, MEMORY. */
tenon_status_t params_read(const char *path, tn_arena_t *arena, params_t *params);
void params_release(params_t *params);
/* Finds the parameter of a node, with or without "arg:" and "aux:" before its name; NULL: there is
 * none. */
tenon_tensor_t *params_find(const params_t *params, const char *name);

/* Converts MXNet's number of a dtype; false: there is no such dtype. */
bool mxnet_dtype_from(int64_t number, tenon_dtype_t *out_dtype);
/* Converts a name such as "float32"; false: there is no such dtype. */
bool mxnet_dtype_parse(const char *name, tenon_dtype_t *out_dtype);

#endif
