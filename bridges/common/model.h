/* Models that a framework calls as one operator: Tenon loads a graph from a file, compiles it and
 * runs it as a whole, also backward. Each bridge that needs it compiles this file in. */
#ifndef BRIDGES_COMMON_MODEL_H
#define BRIDGES_COMMON_MODEL_H

#include <stdbool.h>
#include <tenon/tenon.h>

enum { MODEL_MOST = 64 }; /* outputs; also inputs of a model that is run backward */

/* A compiled model as one call runs it. */
typedef struct model_t {
  tenon_executable_t *executable; /* NULL: the call runs no model */
  uint64_t given;                 /* gradients: the outputs that have one; 0: a forward run */
  uint64_t requested;             /* gradients: the inputs that get one */
} model_t;

/* Loads and compiles a model. With `has_gradients`, its runs are recorded on a tape.
 * Ownership: the caller releases the executable. */
tenon_status_t model_compile(const char *path, bool has_gradients,
                             tenon_executable_t **out_executable);
/* Checks the number of inputs of a call, and the bits of `given` and `requested`.
 * Returns: the number of the model's outputs. */
tenon_status_t model_check(const model_t *model, int64_t input_count, int32_t *out_count);
/* Runs a model backward.
 *
 * Arguments: `inputs`: those of the model, which may be kept during the call. `grads`: the
 * gradients of the outputs in model->given. `out_count`: the number of inputs in model->requested.
 * Ownership: the caller releases out_grads[i], also after an error, when some may be NULL.
 * Threads: several threads may run one model. */
tenon_status_t model_gradients(const model_t *model, tenon_tensor_t *const *inputs,
                               tenon_tensor_t *const *grads, int32_t grad_count,
                               tenon_tensor_t **out_grads, int32_t out_count);

#endif
