/* An operator of Tenon's as PyTorch sees it. */
#ifndef BRIDGES_TORCH_OPERATOR_H
#define BRIDGES_TORCH_OPERATOR_H

#include "shim.h"

enum {
  OPERATOR_MOST = 64,
  OPERATORS_MOST = 4096,
};

struct frame_t;

typedef struct operator_t {
  const tenon_op_t *op; /* NULL: `run` is called in its place */
  void (*run)(struct frame_t *frame, torch_value_t *stack, torch_value_t *out);
  const char *name; /* "demo::gelu" */
  uint32_t traits;
  uint32_t argument_count;
  uint32_t input_count;
  uint32_t attr_count;
  uint32_t output_count;
  tenon_argument_t *arguments; /* in the schema's order */
  tenon_argument_t *results;
  const char *own;
  const char *overload; /* "demo::gelu" without its overload, and that, "" if there is none */
  char autograd[200];   /* the overload that calls go to which want a gradient */
  bool is_autograd;     /* the kernel that finds out whether a call needs a gradient */
  bool is_gradient;     /* its gradient, by Tenon's own record, of operators that state no rule */
  bool
      /* some results are optional: an argument `wanted` is behind those of the schema, bit i for
       * results[i] */
      has_wanted;
  bool keeps; /* results may share memory with arguments: these are counted tensors then */
  bool copies
      /* results that are views, which PyTorch's rules keep from being given out so */
      [OPERATOR_MOST];
} operator_t;

/* Reads what the operator states.  NULL with a reason in `why`: PyTorch cannot have it, or no
 * memory. */
typedef enum form_t {
  FORM_CALL,
  FORM_GRADIENT,
  FORM_AUTOGRAD,
} form_t;
operator_t *operator_new(const tenon_op_t *op, form_t form, char *why, size_t capacity);
void operator_free(operator_t *self);
/* Its schema in PyTorch's words, that of its overload `autograd` too; the caller frees it.  NULL:
 * no memory. */
char *operator_schema(const operator_t *self, bool is_autograd);
/* Chooses, for PyTorch's autograd: the operator itself, or where a gradient is wanted its overload
 * `autograd`. */
void operator_choose(const operator_t *self, torch_value_t *stack, uint64_t arguments,
                     uint64_t results);
/* The number of PyTorch's key for autograd, which differs between releases. */
extern uint16_t operator_autograd_key;
/* Models: the operator that runs them, and its gradient (model.c). */
const operator_t *model_operator(bool is_gradient);
const char *model_schema(bool is_gradient);
/* Compiles a model for a device, or finds that it was; `why` says why not. */
tenon_status_t model_compile(const char *path, const char *device, char *why, size_t capacity);
/* Runs a call; throws after a failure, when all arguments are freed. */
void operator_call(const operator_t *self, torch_value_t *stack, uint64_t arguments,
                   uint64_t results);
/* A function that calls an operator, since kernels of PyTorch's are given no context.  NULL: all
 * are in use. */
torch_kernel_fn thunk_new(const operator_t *self);

#endif
