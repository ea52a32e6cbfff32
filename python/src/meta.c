/* Shapes of results by a function of Python's.  Extents that are known are Python's numbers; others
 * are objects that know what is added to them or taken from them, and end with the inference that
 * they are of. */
#include "part.h"

#include <stdlib.h>

typedef struct session_t { /* one inference */
  _Atomic int64_t references;
  unsigned long thread; /* that infers: no other may reckon with its extents */
  tenon_infer_t *infer; /* NULL: it is over */
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

/* extents */

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

/* 1, 0: neither a number nor an extent, -1: an exception is set. */
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
  PyErr_Format(PyExc_OverflowError, "an extent of %R", object);
  return -1;
}

static PyObject *binary(PyObject *a, PyObject *b, uint32_t operation) {
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
    raise_invalid("an extent of an inference that is over, or another thread's");
    return NULL;
  }
  return extent_new(session, session->infer->host->dim(session->infer, operation, x, y));
}

static PyObject *add(PyObject *a, PyObject *b) { return binary(a, b, TENON_DIM_ADD); }
static PyObject *subtract(PyObject *a, PyObject *b) { return binary(a, b, TENON_DIM_SUB); }
static PyObject *multiply(PyObject *a, PyObject *b) { return binary(a, b, TENON_DIM_MUL); }
static PyObject *divide(PyObject *a, PyObject *b) { return binary(a, b, TENON_DIM_DIV); }
static PyObject *remainder_of(PyObject *a, PyObject *b) { return binary(a, b, TENON_DIM_MOD); }
static PyObject *negative(PyObject *a) {
  PyObject *zero = PyLong_FromLong(0);
  PyObject *made = zero ? binary(zero, a, TENON_DIM_SUB) : NULL;
  Py_XDECREF(zero);
  return made;
}

static PyObject *compare(PyObject *a, PyObject *b,
                         int operation) { /* what the host cannot tell is an error */
  (void)a;
  (void)b;
  (void)operation;
  return PyErr_Format(
      PyExc_TypeError,
      "an extent is compared that is not known here: shapes may be asked for before "
      "there are tensors");
}

static PyObject *text(PyObject *object) {
  (void)object;
  return PyUnicode_FromString("<extent that is not known here>");
}

static PyObject *at_most(PyObject *module, PyObject *most) {
  tenon_dim_t dim;
  tenon_dim_t none = {0};
  session_t *session = Py_TYPE(most) == extent_type ? ((extent_t *)most)->session : current;
  (void)module;
  if (!is_on(session)) {
    raise_invalid("at_most is for functions that tenon.meta registers");
    return NULL;
  }
  int good = dim_from(most, &dim);
  if (good == 0)
    PyErr_Format(PyExc_TypeError, "at_most: expected an extent, found %R", Py_TYPE(most));
  if (good != 1) return NULL;
  return extent_new(session, session->infer->host->dim(session->infer, TENON_DIM_BOUND, dim, none));
}

/* inference */

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
                   "%s: the shape of result %u: expected a tuple of at most %d extents, found %R",
                   op, o, TENON_RANK_MAX, shape);
    return false;
  }
  if (!out) return true; /* not wanted */
  for (Py_ssize_t d = 0; d < ndim; d++) {
    PyObject *extent = PySequence_GetItem(shape, d);
    int good = extent ? dim_from(extent, &out->dims[d]) : -1;
    if (good == 0)
      PyErr_Format(PyExc_TypeError,
                   "%s: the shape of result %u: extent %zd is %R: expected a number", op, o, d,
                   extent);
    if (good == 1 && tenon_is_known(out->dims[d]) && out->dims[d].value < 0) {
      raise_invalid("%s: the shape of result %u: extent %zd is %R", op, o, d, extent);
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
  part_lock_t lock = part_begin();
  PyObject *functions = (PyObject *)infer->context;
  PyObject *result = NULL;
  PyObject *function = PySequence_GetItem(functions, PART_META);
  PyObject *class = PySequence_GetItem(functions, PART_META_CLASS);
  session_t *session = (session_t *)malloc(sizeof *session);
  part_arguments_t given;
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(infer->op, &info);
  bool good = session && function && class;
  if (!session)
    PyErr_NoMemory();
  else if (function == Py_None) {
    raise_invalid("%s: its shapes are not known: give tenon.op shapes=, the trait \"pointwise\", "
                  "or a function that states them by tenon.meta",
                  info.name);
    good = false;
  }
  if (session) {
    *session = (session_t){1, PyThread_get_thread_ident(), infer, current};
    current = session;
  }
  if (good) {
    asked_t asked = {infer, session, class};
    if (part_arguments(infer->op, infer->attrs, input_of, &asked, &given))
      result = part_call(function, &given);
    good = result && shapes_set(infer, &info, result);
  }
  tenon_status_t status =
      good ? TENON_OK : part_failed(infer->host, infer, info.name, "function of shapes");
  Py_XDECREF(result);
  Py_XDECREF(function);
  Py_XDECREF(class);
  if (session) {
    session->infer = NULL;
    current = session->before;
    session_drop(session);
  }
  part_end(&lock);
  return status;
}

static PyMethodDef functions[] = {{"at_most", at_most, METH_O,
                                   "at_most(extent)\n--\n\nIn a function of shapes: an extent of a "
                                   "result that only the kernel knows, and not more than this."},
                                  {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)extent_delete},
                              {Py_tp_repr, (void *)text},
                              {Py_tp_new, (void *)refuse_new},
                              {Py_tp_richcompare, (void *)compare},
                              {Py_nb_add, (void *)add},
                              {Py_nb_subtract, (void *)subtract},
                              {Py_nb_multiply, (void *)multiply},
                              {Py_nb_floor_divide, (void *)divide},
                              {Py_nb_remainder, (void *)remainder_of},
                              {Py_nb_negative, (void *)negative},
                              {0, NULL}};
static PyType_Spec spec = {"tenon.Extent", sizeof(extent_t), 0, Py_TPFLAGS_DEFAULT, slots};

bool metas_add(PyObject *module) {
  extent_type = (PyTypeObject *)PyType_FromSpec(&spec);
  return extent_type && PyModule_AddFunctions(module, functions) == 0;
}
