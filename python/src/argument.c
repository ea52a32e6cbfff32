/* Converts Python objects to the tensors of a call, and result tensors to Python objects. Tensor
 * memory is never copied, with four exceptions: strings, numbers, what __array__ copies, and parts
 * of sparse tensors: values that are not dense and row-major, and indices that are not i64 too. A
 * tensor on the stack borrows its memory from an object that lives at least as long as the call. */
#include "argument.h"

#include <string.h>

#include "dlpack.h"
#include "error.h"
#include "layout.h"
#include "numpy.h"
#include "scipy.h"
#include "shape.h"
#include "tensor.h"
#include "value.h"

static bool refuse_argument(PyObject *object, const char *op, const char *name) {
  if (value_check(object))
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a tensor, found a value of a graph: to add a node to "
                 "the graph, use the operator in tenon.graph.ops",
                 op, name);
  else
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a tensor (a tenon.Tensor, a NumPy array, a PyTorch "
                 "tensor, or an object with __dlpack__), found %R",
                 op, name, Py_TYPE(object));
  return false;
}

/* Refuses to write to an array of JAX. These arrays are immutable, but their DLPack capsules do not
 * say so. */
static bool is_writeable(PyObject *object, const char *op, const char *name) {
  PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
  PyObject *starts = module ? PyObject_CallMethod(module, "startswith", "s", "jax") : NULL;
  const bool is_jax = starts == Py_True;
  if (!starts) PyErr_Clear();
  Py_XDECREF(starts);
  Py_XDECREF(module);
  if (is_jax)
    raise_invalid("%s: argument %s: an array of JAX is read-only, but the operator writes to it: "
                  "pass a NumPy array, or call the operator through tenon.jax",
                  op, name);
  return !is_jax;
}

/* Converts the argument to another dtype with core::cast. The argument then holds a reference to
 * the copy. Not inlined, since most numbers need no cast. */
static __attribute__((noinline)) bool argument_cast(argument_t *argument, tenon_dtype_t dtype) {
  static const tenon_op_t *_Atomic known;
  const tenon_op_t *op = known;
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values;
  const tenon_value_t value = {.kind = TENON_KIND_DTYPE, .as.dtype = dtype};
  tenon_tensor_t *made = NULL;
  tenon_tensor_t *inputs[] = {argument->tensor};
  tenon_status_t status = op ? TENON_OK : tenon_op_find("core::cast", &op);
  if (status == TENON_OK) status = tenon_attrs_create(known = op, &attrs);
  if (status == TENON_OK) status = tenon_attrs_set(attrs, "to", &value);
  if (status == TENON_OK) status = tenon_attrs_values(attrs, &values);
  if (status == TENON_OK) status = tenon_op_call(op, values, inputs, &made, 0);
  tenon_attrs_release(attrs);
  tenon_tensor_release(argument->tensor);
  argument->tensor = made;
  argument->is_reference = made != NULL;
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

/* Whether an integer keeps its value in the dtype. */
static bool fits_integer(long long number, tenon_dtype_t dtype) {
  const bool is_unsigned = dtype.code == 1;
  if (tenon_dtype_id(dtype) == TENON_BOOL) return number == 0 || number == 1;
  if (dtype.code > 1) return true;
  if (dtype.bits >= 64) return !is_unsigned || number >= 0;
  const long long half = 1LL << (dtype.bits - 1);
  return is_unsigned ? number >= 0 && number < 2 * half : number >= -half && number < half;
}

/* Converts a Python number to a tensor without axes. The tensor takes the dtype of `like`; a float
 * beside an integer tensor becomes f32 instead. */
static bool number_set(argument_t *argument, PyObject *object, const tenon_tensor_t *like,
                       const char *op, const char *name) {
  bool is_float = PyFloat_Check(object);
  tenon_dtype_t dtype = tenon_dtype(PyBool_Check(object) ? TENON_BOOL : TENON_I64);
  if (is_float) dtype = tenon_dtype(TENON_F64);
  tenon_dtype_t wanted = is_float ? tenon_dtype(TENON_F32) : dtype;
  if (like && !(is_float && like->dtype.code < 2)) wanted = like->dtype;
  double number = is_float ? PyFloat_AsDouble(object) : 0;
  long long integer = is_float ? 0 : PyLong_AsLongLong(object);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    PyErr_Format(PyExc_OverflowError, "%s: argument %s: %R does not fit 64 bits", op, name, object);
    return false;
  }
  if (!is_float && !fits_integer(integer, wanted)) {
    PyErr_Format(PyExc_OverflowError,
                 "%s: argument %s: %R does not fit %s, the dtype of the first "
                 "tensor",
                 op, name, object, tenon_dtype_name(wanted));
    return false;
  }
  tenon_status_t status = tenon_tensor_create(dtype, 0, NULL, &argument->tensor);
  if (status != TENON_OK) {
    raise_status(status);
    return false;
  }
  argument->is_reference = true;
  if (is_float)
    *(double *)argument->tensor->data = number;
  else if (PyBool_Check(object))
    *(uint8_t *)argument->tensor->data = integer != 0;
  else
    *(int64_t *)argument->tensor->data = integer;
  return tenon_dtype_id(dtype) == tenon_dtype_id(wanted) || argument_cast(argument, wanted);
}

static bool own_memory(argument_t *argument, PyObject *object) {
  tenon_tensor_t *tensor = tensor_over(&argument->view, object);
  if (!tensor) return false;
  argument->tensor = tensor;
  return argument->is_reference = true;
}

static inline void note_origin(origin_t *origin, family_t family, PyObject *object,
                               const struct exchange_t *table) {
  if (origin->family <= FAMILY_TENON) *origin = (origin_t){family, object, table};
}

static bool array_set(argument_t *argument, PyObject *object, int flags, const char *op,
                      const char *name, origin_t *origin) {
  note_origin(origin, FAMILY_NUMPY, object, NULL);
  return numpy_view(object, flags & ARGUMENT_WRITTEN, op, name, argument) &&
         (!(flags & ARGUMENT_KEPT) || argument->is_reference || own_memory(argument, object));
}

/* Converts an object with __array__, such as a NumPy scalar or a column of a table. */
static bool made_array_set(argument_t *argument, PyObject *object, int flags, const char *op,
                           const char *name, origin_t *origin) {
  /* The array may be a copy, so it cannot be written to. */
  PyObject *array =
      flags & ARGUMENT_WRITTEN ? NULL : PyObject_CallMethod(object, "__array__", NULL);
  if (!array && PyErr_Occurred()) return false;
  bool good = array && numpy_is_array(array);
  if (!good)
    refuse_argument(object, op, name);
  else
    good = array_set(argument, array, flags | ARGUMENT_KEPT, op, name, origin);
  argument->object = object;
  if (origin->object == array) origin->object = object;
  Py_XDECREF(array); /* The tensor holds a reference to the array. */
  return good;
}

static bool is_dense(const tenon_tensor_t *t) {
  int64_t stride = 1;
  bool is_dense = true;
  for (int32_t i = t->ndim; i-- > 0; stride *= t->shape[i])
    is_dense = is_dense && (t->shape[i] <= 1 || t->strides[i] == stride);
  return is_dense || tenon_count(t) == 0;
}

/* Converts a part to a dense tensor on the host, which *argument holds. */
static bool sparse_part_set(argument_t *argument, PyObject *object, bool is_index, const char *op,
                            const char *name) {
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  tenon_tensor_t *dense;
  if (!argument_set(argument, object, ARGUMENT_KEPT, NULL, op, name, &origin)) return false;
  if (!argument->is_reference) {
    tenon_tensor_retain(argument->tensor);
    argument->is_reference = true;
  }
  uint8_t code = argument->tensor->dtype.code; /* signed or unsigned integers have code 0 or 1 */
  if (is_index && code < 2 && tenon_dtype_id(argument->tensor->dtype) != TENON_I64 &&
      !argument_cast(argument, tenon_dtype(TENON_I64)))
    return false;
  if (is_dense(argument->tensor)) return true;
  tenon_status_t status = tenon_tensor_copy(argument->tensor, &dense);
  if (status != TENON_OK) {
    raise_status(status);
    return false;
  }
  tenon_tensor_release(argument->tensor);
  argument->tensor = dense;
  return true;
}

tenon_tensor_t *sparse_from_parts(uint32_t kind, PyObject *const parts[3], int32_t ndim,
                                  const int64_t *shape, bool checks, const char *op) {
  static const char *const names[] = {"values", "indices", "indptr"};
  argument_t held[3];
  tenon_tensor_t *tensor = NULL;
  int count = kind == TENON_DETAIL_CSR ? 3 : 2;
  int made = 0;
  memset(held, 0, sizeof held);
  while (made < count && sparse_part_set(&held[made], parts[made], made > 0, op, names[made]))
    made++;
  if (made == count) {
    const tenon_detail_t detail = {.size = sizeof detail,
                                   .kind = kind,
                                   .values = held[0].tensor,
                                   .indices = held[1].tensor,
                                   .indptr = held[2].tensor};
    tenon_status_t status = tenon_tensor_create_sparse(
        &detail, ndim, shape, checks ? 0 : TENON_SPARSE_UNCHECKED, &tensor);
    if (status != TENON_OK) raise_status(status);
  }
  for (int i = 0; i < count; i++)
    argument_release(&held[i]);
  return tensor;
}

/* Converts a matrix of scipy.sparse in csr format. */
static __attribute__((noinline, cold)) bool scipy_set(argument_t *argument, PyObject *object,
                                                      const char *op, const char *name) {
  PyObject *parts[SCIPY_COUNT] = {NULL};
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  argument->tensor = NULL;
  if (scipy_parts(object, op, name, parts) && shape_from(parts[SCIPY_SHAPE], shape, &ndim))
    argument->tensor = sparse_from_parts(TENON_DETAIL_CSR, parts, ndim, shape, true, op);
  for (int i = 0; i < SCIPY_COUNT; i++)
    Py_XDECREF(parts[i]);
  argument->object = object;
  argument->is_reference = argument->tensor != NULL;
  return argument->is_reference;
}

bool argument_set(argument_t *argument, PyObject *object, int flags, const tenon_tensor_t *like,
                  const char *op, const char *name, origin_t *origin) {
  const struct exchange_t *table;
  PyTypeObject *type = Py_TYPE(object);
  argument->object = object;
  argument->is_reference = false;
  if (type == tensor_type) {
    note_origin(origin, FAMILY_TENON, object, NULL);
    return (argument->tensor = tensor_get(object)) != NULL;
  }
  if (type == numpy_type) return array_set(argument, object, flags, op, name, origin);
  if ((table = exchange_of(type))) {
    note_origin(origin, FAMILY_EXCHANGE, object, table);
    const bool is_good =
        flags & ARGUMENT_CHECKED || exchange_check(&object, flags & ARGUMENT_WRITTEN, op, name);
    if (!is_good) return false;
    if (object != argument->object) {
      bool is_set = dlpack_import(object, &argument->tensor);
      Py_DECREF(object);
      return is_set && (argument->is_reference = true);
    }
    return exchange_view(table, object, op, name, argument) &&
           (!(flags & ARGUMENT_KEPT) || argument->is_reference || own_memory(argument, object));
  }
  if (PyFloat_CheckExact(object) || PyLong_CheckExact(object))
    return number_set(argument, object, like, op, name);
  if (numpy_is_array(object)) return array_set(argument, object, flags, op, name, origin);
  if (!PyObject_HasAttrString(object, "__dlpack__")) {
    if (scipy_is(object)) {
      note_origin(origin, FAMILY_SCIPY, object, NULL);
      return flags & ARGUMENT_WRITTEN ? refuse_argument(object, op, name)
                                      : scipy_set(argument, object, op, name);
    }
    if (PyObject_HasAttrString(object, "__array__"))
      return made_array_set(argument, object, flags, op, name, origin);
    /* A subclass of a number. numpy.float64, which is one too, was handled above
     * as an array. */
    bool is_number = PyFloat_Check(object) || PyLong_Check(object);
    return is_number ? number_set(argument, object, like, op, name)
                     : refuse_argument(object, op, name);
  }
  if (flags & ARGUMENT_WRITTEN && !is_writeable(object, op, name)) return false;
  note_origin(origin, FAMILY_DLPACK, object, NULL);
  return dlpack_import(object, &argument->tensor) && (argument->is_reference = true);
}

/* Converts a result with from_dlpack of the array library that the first tensor belongs to; if this
 * library has no __array_namespace__, the result is a tenon.Tensor. */
static PyObject *array_of(tenon_tensor_t *tensor, PyObject *like) {
  PyObject *own_memory = tensor_new(tensor);
  PyObject *space = own_memory ? PyObject_CallMethod(like, "__array_namespace__", NULL) : NULL;
  PyObject *array = space ? PyObject_CallMethod(space, "from_dlpack", "O", own_memory) : NULL;
  Py_XDECREF(space);
  if (array) {
    Py_DECREF(own_memory);
    return array;
  }
  if (own_memory)
    PyErr_Clear(); /* The library does not support the array API: return a tenon.Tensor. */
  return own_memory;
}

PyObject *result_of(tenon_tensor_t *tensor, const origin_t *origin) {
  if (sparse_layout(tensor))
    return origin->family == FAMILY_SCIPY ? scipy_of(tensor, origin->object) : tensor_new(tensor);
  switch (origin->family) {
  case FAMILY_SCIPY:
  case FAMILY_NUMPY:
    return numpy_of(tensor);
  case FAMILY_EXCHANGE:
    return tenon_dtype_id(tensor->dtype) == TENON_STRING ? tensor_new(tensor)
                                                         : exchange_result(origin->table, tensor);
  case FAMILY_DLPACK:
    return array_of(tensor, origin->object);
  default:
    return tensor_new(tensor);
  }
}
