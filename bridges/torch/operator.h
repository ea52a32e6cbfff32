/* A Tenon operator as PyTorch sees it: its schema, its kernel function and its operators for
 * gradients. */
#ifndef BRIDGES_TORCH_OPERATOR_H
#define BRIDGES_TORCH_OPERATOR_H

#include "shim.h"

enum {
  OPERATOR_MOST = 64,
  OPERATORS_MOST = 4096,
};

struct frame_t;

typedef struct operator_t {
  const tenon_op_t *op; /* NULL: `run` is called instead */
  void (*run)(struct frame_t *frame, torch_value_t *stack, torch_value_t *out);
  const char *name; /* "demo::gelu" */
  uint32_t traits;
  uint32_t argument_count;
  uint32_t input_count;
  uint32_t attr_count;
  uint32_t output_count;
  tenon_argument_t *arguments; /* in the order of the schema */
  tenon_argument_t *results;
  const char *own;
  /* `own` is the name without its overload, `overload` the overload's name, "" if there is none */
  const char *overload;
  /* ns::_NAME_autograd, to whose equal overload calls go if they need a gradient. It is an operator
   * of its own, so that errors of PyTorch do not offer it to callers. */
  const char *autograd;
  bool is_autograd; /* this is the kernel that checks whether a call needs a gradient */
  /* this is the gradient, computed by Tenon's tape, of an operator without a gradient formula */
  bool is_gradient;
  /* Some results are optional: an argument `wanted` follows those of the schema; bit i requests
   * results[i]. */
  bool has_wanted;
  bool keeps; /* results may share memory with arguments, so the arguments are counted tensors */
  /* Results that are views of arguments and that PyTorch does not allow to be returned as such:
   * they are copied. */
  bool copies[OPERATOR_MOST];
} operator_t;

/* Reads the declarations of an operator. Returns NULL with the reason in `why` if PyTorch cannot
 * have the operator or memory runs out. */
typedef enum form_t {
  FORM_CALL,
  FORM_GRADIENT,
  FORM_AUTOGRAD,
} form_t;
operator_t *operator_new(const tenon_op_t *op, form_t form, char *why, size_t capacity);
void operator_free(operator_t *self);
/* Returns the schema in PyTorch's language (is_autograd: that of the operator for autograd); the
 * caller frees it. Returns NULL if memory runs out. */
char *operator_schema(const operator_t *self, bool is_autograd);
/* The kernel for PyTorch's autograd: calls the operator itself, or its operator for autograd if a
 * gradient is needed. */
void operator_choose(const operator_t *self, torch_value_t *stack, uint64_t arguments,
                     uint64_t results);
/* The number of PyTorch's dispatch key for autograd, which differs between releases. */
extern uint16_t operator_autograd_key;
/* The operators that run models (model.c): a file, its gradient, and a graph that is compiled. */
enum {
  MODEL_RUN,
  MODEL_VJP,
  MODEL_COMPILED,
  MODEL_FORMS,
};
const operator_t *model_operator(int form);
const char *model_schema(int form);
/* Compiles a model for a device, unless it is compiled already. After a failure `why` has the
 * reason. */
tenon_status_t model_compile(const char *path, const char *device, char *why, size_t capacity);
/* Runs a call. After a failure it frees all arguments and throws. */
void operator_call(const operator_t *self, torch_value_t *stack, uint64_t arguments,
                   uint64_t results);
/* Returns a function that calls one operator, since PyTorch passes no context to kernels. Returns
 * NULL if all functions are in use. */
torch_kernel_fn thunk_new(const operator_t *self);

#endif
