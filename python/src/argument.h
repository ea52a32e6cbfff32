/* Arguments and results of calls. */
#ifndef TENON_PYTHON_ARGUMENT_H
#define TENON_PYTHON_ARGUMENT_H

#include "core.h"

typedef enum family_t {
  FAMILY_UNKNOWN,
  FAMILY_TENON,    /* tenon.Tensor */
  FAMILY_NUMPY,    /* numpy.ndarray, read in place */
  FAMILY_SCIPY,    /* a sparse matrix of scipy.sparse */
  FAMILY_EXCHANGE, /* a type with the C exchange table of DLPack, such as torch.Tensor */
  FAMILY_DLPACK,   /* a type with __dlpack__ */
} family_t;
/* Where the first tensor of a call that is not a tenon.Tensor comes from. Results become
 * objects of the same kind. */
typedef struct origin_t {
  family_t family;
  PyObject *object;               /* borrowed */
  const struct exchange_t *table; /* for FAMILY_EXCHANGE */
} origin_t;
typedef struct argument_t { /* a tensor argument; it lives no longer than the call */
  tenon_tensor_t *tensor;   /* &view, or a counted tensor */
  PyObject *object;         /* borrowed */
  bool is_reference;        /* `tensor` must be released */
  tenon_tensor_t view;
  int64_t strides[TENON_RANK_MAX];
} argument_t;
enum {
  ARGUMENT_KEPT = 1,    /* the call may keep the tensor, so it must not be on the stack */
  ARGUMENT_WRITTEN = 2, /* the call writes to the memory */
  /* The caller knows that a PyTorch tensor needs no gradient here, and is not stored negated. */
  ARGUMENT_CHECKED = 4,
};
/* Sets argument->tensor from an object. A Python number becomes a tensor without axes that has the
 * dtype of `like`. Messages name `op` and `name`. */
bool argument_set(argument_t *argument, PyObject *object, int flags, const tenon_tensor_t *like,
                  const char *op, const char *name, origin_t *origin);
static inline void argument_release(argument_t *argument) {
  if (argument->is_reference) tenon_tensor_release(argument->tensor);
}
/* Creates a sparse tensor of a kind (TENON_DETAIL_...) from the objects of its values, its indices
 * and, for csr, its indptr. `checks`: the indices are checked. Messages name `op`. */
tenon_tensor_t *sparse_from_parts(uint32_t kind, PyObject *const parts[3], int32_t ndim,
                                  const int64_t *shape, bool checks, const char *op);
/* Returns the object for a result, of the same kind as `origin`; takes the reference over. */
PyObject *result_of(tenon_tensor_t *tensor, const origin_t *origin);

#endif
