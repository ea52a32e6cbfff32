/* Computes the shapes of results by a Python function. Known extents are Python numbers. Unknown
 * extents are objects of type tenon.Extent, which support arithmetic and are valid only during the
 * inference that created them. */
#include "meta.h"

#include <stdlib.h>

#include "callback.h"
#include "error.h"

typedef struct session_t { /* one inference */
  _Atomic int64_t references;
  unsigned long thread; /* the thread that infers; other threads may not compute with its extents */
  tenon_infer_t *infer; /* NULL after the inference has ended */
  struct session_t *before;
} session_t;
typedef struct extent_t {
  PyObject_HEAD session_t *session;
  tenon_dim_t dim;
} extent_t;
static PyTypeObject *extent_type;
static _Thread_local session_t *current;

static void session_drop(session_t *session) {
  if (--session->references == 0) free(session);
}

static bool is_on(const session_t *session) {
  return session && session->thread == PyThread_get_thread_ident() && session->infer;
}

static PyObject *extent_new(session_t *session, tenon_dim_t dim) {
  if (tenon_is_known(dim)) return PyLong_FromLongLong(dim.value);
  extent_t *self = PyObject_New(extent_t, extent_type);
  if (!self) return NULL;
  self->session = session;
  self->dim = dim;
  session->references++;
  return (PyObject *)self;
}

static void extent_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  session_drop(((extent_t *)object)->session);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Returns 1; 0 if the object is neither a number nor an extent; -1 with an exception set. */
static int dim_from(PyObject *object, tenon_dim_t *out) {
  if (Py_TYPE(object) == extent_type) {
    *out = ((extent_t *)object)->dim;
    return 1;
  }
  if (!PyLong_Check(object) && !PyIndex_Check(object)) return 0;
  PyObject *number = PyNumber_Index(object);
  out->value = number ? PyLong_AsLongLong(number) : -1;
  Py_XDECREF(number);
  if (PyErr_Occurred()) return -1;
  if (tenon_is_known(*out)) return 1;
  PyErr_Format(PyExc_OverflowError, "expected an extent of at least -2^62, found %R", object);
  return -1;
}

static PyObject *extent_binary(PyObject *a, PyObject *b, uint32_t operation) {
  session_t *session = ((extent_t *)(Py_TYPE(a) == extent_type ? a : b))->session;
  tenon_dim_t x, y;
  int good = dim_from(a, &x);
  int both = good > 0 ? dim_from(b, &y) : good;
  if (both < 0) return NULL;
  if (!both) {
    Py_INCREF(Py_NotImplemented);
    return Py_NotImplemented;
  }
  if (!is_on(session)) {
    raise_invalid("this extent belongs to an inference that has ended, or to another thread");
    return NULL;
  }
  return extent_new(session, session->infer->host->dim(session->infer, operation, x, y));
}

static PyObject *extent_add(PyObject *a, PyObject *b) { return extent_binary(a, b, TENON_DIM_ADD); }
static PyObject *extent_subtract(PyObject *a, PyObject *b) {
  return extent_binary(a, b, TENON_DIM_SUB);
}
static PyObject *extent_multiply(PyObject *a, PyObject *b) {
  return extent_binary(a, b, TENON_DIM_MUL);
}
static PyObject *extent_divide(PyObject *a, PyObject *b) {
  return extent_binary(a, b, TENON_DIM_DIV);
}
static PyObject *extent_remainder(PyObject *a, PyObject *b) {
  return extent_binary(a, b, TENON_DIM_MOD);
}
static PyObject *extent_negative(PyObject *a) {
  PyObject *zero = PyLong_FromLong(0);
  PyObject *made = zero ? extent_binary(zero, a, TENON_DIM_SUB) : NULL;
  Py_XDECREF(zero);
  return made;
}

/* Unknown extents cannot be compared, so a comparison raises an error. */
static PyObject *extent_compare(PyObject *a, PyObject *b, int operation) {
  (void)a;
  (void)b;
  (void)operation;
  return PyErr_Format(PyExc_TypeError, "an unknown extent cannot be compared: shapes may be "
                                       "inferred before the extents of the tensors are known");
}

static PyObject *extent_text(PyObject *object) {
  (void)object;
  return PyUnicode_FromString("<unknown extent>");
}

static PyObject *at_most(PyObject *module, PyObject *most) {
  tenon_dim_t dim;
  tenon_dim_t none = {0};
  session_t *session = Py_TYPE(most) == extent_type ? ((extent_t *)most)->session : current;
  (void)module;
  if (!is_on(session)) {
    raise_invalid("at_most can be called only in functions that are registered with tenon.meta");
    return NULL;
  }
  int good = dim_from(most, &dim);
  if (good == 0)
    PyErr_Format(PyExc_TypeError, "at_most: expected an extent, found %R", Py_TYPE(most));
  if (good != 1) return NULL;
  return extent_new(session, session->infer->host->dim(session->infer, TENON_DIM_BOUND, dim, none));
}

static PyObject *meta_object(const tenon_meta_t *meta, session_t *session, PyObject *class) {
  if (!meta) Py_RETURN_NONE;
  if (tenon_dtype_id(meta->dtype) == TENON_LIST) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < meta->count; i++) {
      PyObject *item = meta_object(meta->items[i], session, class);
      if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
      Py_XDECREF(item);
    }
    return list;
  }
  PyObject *shape = PyTuple_New(meta->ndim);
  for (int32_t d = 0; shape && d < meta->ndim; d++) {
    PyObject *extent = extent_new(session, meta->dims[d]);
    if (!extent || PyTuple_SetItem(shape, d, extent) != 0) Py_CLEAR(shape);
  }
  PyObject *made =
      shape ? PyObject_CallFunction(class, "sO", tenon_dtype_name(meta->dtype), shape) : NULL;
  Py_XDECREF(shape);
  return made;
}

typedef struct asked_t {
  tenon_infer_t *infer;
  session_t *session;
  PyObject *class;
} asked_t;

static PyObject *input_of(const void *call, int32_t i) {
  const asked_t *asked = (const asked_t *)call;
  return meta_object(asked->infer->inputs[i], asked->session, asked->class);
}

static bool shape_set(tenon_infer_t *infer, const char *op, uint32_t o, PyObject *shape) {
  tenon_meta_t *out = infer->outputs[o];
  Py_ssize_t ndim =
      shape && (PyTuple_Check(shape) || PyList_Check(shape)) ? PySequence_Size(shape) : -1;
  if (ndim < 0 || ndim > TENON_RANK_MAX) {
    if (shape)
      PyErr_Format(PyExc_TypeError,
                   "%s: shape of result %u: expected a tuple of at most %d extents, found %R", op,
                   o, TENON_RANK_MAX, shape);
    return false;
  }
  if (!out) return true; /* The result was not requested. */
  for (Py_ssize_t d = 0; d < ndim; d++) {
    PyObject *extent = PySequence_GetItem(shape, d);
    int good = extent ? dim_from(extent, &out->dims[d]) : -1;
    if (good == 0)
      PyErr_Format(PyExc_TypeError,
                   "%s: shape of result %u: extent %zd: expected a number, found %R", op, o, d,
                   extent);
    if (good == 1 && tenon_is_known(out->dims[d]) && out->dims[d].value < 0) {
      raise_invalid("%s: shape of result %u: extent %zd: expected a number >= 0, found %R", op, o,
                    d, extent);
      good = 0;
    }
    Py_XDECREF(extent);
    if (good != 1) return false;
  }
  out->ndim = (int32_t)ndim;
  return true;
}

static bool shapes_set(tenon_infer_t *infer, const tenon_op_info_t *info, PyObject *result) {
  const int32_t count = info->output_count;
  if (count == 1) return shape_set(infer, info->name, 0, result);
  if (!PyTuple_Check(result) || PyTuple_Size(result) != count) {
    PyErr_Format(PyExc_TypeError, "%s: expected a tuple of %d shapes, found %R", info->name,
                 (int)count, result);
    return false;
  }
  for (int32_t o = 0; o < count; o++)
    if (!shape_set(infer, info->name, (uint32_t)o, PyTuple_GetItem(result, o))) return false;
  return true;
}

tenon_status_t meta_infer(tenon_infer_t *infer) {
  callback_lock_t lock = callback_begin();
  PyObject *functions = (PyObject *)infer->context;
  PyObject *result = NULL;
  PyObject *function = PySequence_GetItem(functions, CALLBACK_META);
  PyObject *class = PySequence_GetItem(functions, CALLBACK_META_CLASS);
  session_t *session = (session_t *)malloc(sizeof *session);
  callback_arguments_t given;
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(infer->op, &info);
  bool good = session && function && class;
  if (!session)
    PyErr_NoMemory();
  else if (function == Py_None) {
    raise_invalid("%s: its shapes are unknown: pass shapes= or the trait \"pointwise\" to "
                  "tenon.op, or define the shapes with tenon.meta",
                  info.name);
    good = false;
  }
  if (session) {
    *session = (session_t){1, PyThread_get_thread_ident(), infer, current};
    current = session;
  }
  if (good) {
    asked_t asked = {infer, session, class};
    if (callback_arguments(infer->op, infer->attrs, input_of, &asked, &given))
      result = callback_call(function, &given);
    good = result && shapes_set(infer, &info, result);
  }
  tenon_status_t status =
      good ? TENON_OK : callback_failed(infer->host, infer, info.name, "shape function");
  Py_XDECREF(result);
  Py_XDECREF(function);
  Py_XDECREF(class);
  if (session) {
    session->infer = NULL;
    current = session->before;
    session_drop(session);
  }
  callback_end(&lock);
  return status;
}

static PyMethodDef functions[] = {
    {"at_most", at_most, METH_O,
     "at_most(extent)\n--\n\nIn a function of tenon.meta: returns an extent that only the kernel "
     "knows and that is at most `extent`."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)extent_delete},
                              {Py_tp_repr, (void *)extent_text},
                              {Py_tp_new, (void *)refuse_new},
                              {Py_tp_richcompare, (void *)extent_compare},
                              {Py_nb_add, (void *)extent_add},
                              {Py_nb_subtract, (void *)extent_subtract},
                              {Py_nb_multiply, (void *)extent_multiply},
                              {Py_nb_floor_divide, (void *)extent_divide},
                              {Py_nb_remainder, (void *)extent_remainder},
                              {Py_nb_negative, (void *)extent_negative},
                              {0, NULL}};
static PyType_Spec spec = {"tenon.Extent", sizeof(extent_t), 0, Py_TPFLAGS_DEFAULT, slots};

bool metas_add(PyObject *module) {
  extent_type = (PyTypeObject *)PyType_FromSpec(&spec);
  return extent_type && PyModule_AddFunctions(module, functions) == 0;
}
