/* tenon.Cancellation. Calls of the thread that entered it ask, between nodes and between pieces of
 * loops, whether it was cancelled or its time has passed. Cancellations may be nested: the call
 * ends if any of them says so. */
#include "cancellation.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "error.h"

typedef struct cancellation_t {
  PyObject_HEAD struct cancellation_t *outer; /* the one that was entered before */
  double timeout;                             /* seconds; infinity: none */
  int64_t end;                                /* of the time, in milliseconds */
  _Atomic bool is_cancelled;
  _Atomic bool is_entered;
} cancellation_t;

static _Thread_local cancellation_t *current;

int64_t clock_milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const struct cancellation_t *cancellation_entered(void) { return current; }

tenon_status_t cancellation_ask(const cancellation_t *entered, int64_t now) {
  char message[80];
  for (const cancellation_t *c = entered; c; c = c->outer) {
    if (atomic_load_explicit(&c->is_cancelled, memory_order_relaxed))
      return tenon_error_set(TENON_CANCELLED, "cancelled by Cancellation.cancel()");
    if (now < c->end) continue;
    snprintf(message, sizeof message, "the time limit of %g s has passed", c->timeout);
    return tenon_error_set(TENON_DEADLINE, message);
  }
  return TENON_OK;
}

static PyObject *cancellation_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  static char *names[] = {"timeout", NULL};
  PyObject *timeout = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|O", names, &timeout)) return NULL;
  const double seconds = timeout == Py_None ? (double)INFINITY : PyFloat_AsDouble(timeout);
  if (PyErr_Occurred()) return NULL;
  if (!(seconds >= 0)) {
    char found[40]; /* Python's formats have no floats */
    snprintf(found, sizeof found, "%g", seconds);
    raise_invalid("timeout: expected a number of seconds of at least 0, or None, found %s", found);
    return NULL;
  }
  cancellation_t *self = (cancellation_t *)PyType_GenericAlloc(type, 0);
  if (self) self->timeout = seconds;
  return (PyObject *)self;
}

static void cancellation_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
  Py_DECREF(type);
}

static PyObject *cancellation_enter(PyObject *object, PyObject *unused) {
  cancellation_t *self = (cancellation_t *)object;
  const double most = 1e12; /* milliseconds, 30 years */
  const double milliseconds = self->timeout * 1000;
  (void)unused;
  if (atomic_exchange(&self->is_entered, true))
    return PyErr_Format(error_class, "this cancellation was already entered");
  self->end = milliseconds < most ? clock_milliseconds() + (int64_t)milliseconds : INT64_MAX;
  self->outer = current;
  current = self;
  /* one reference for `current`, one for the caller */
  Py_INCREF(object);
  Py_INCREF(object);
  return object;
}

static PyObject *cancellation_leave(PyObject *object, PyObject *arguments) {
  cancellation_t *self = (cancellation_t *)object;
  (void)arguments;
  if (current != self)
    return PyErr_Format(error_class, "a cancellation must be left by the thread that entered it, "
                                     "the last entered one first");
  current = self->outer;
  self->outer = NULL;
  atomic_store(&self->is_entered, false);
  Py_DECREF(object);
  Py_RETURN_NONE;
}

static PyObject *cancellation_cancel(PyObject *object, PyObject *unused) {
  (void)unused;
  atomic_store(&((cancellation_t *)object)->is_cancelled, true);
  Py_RETURN_NONE;
}

static PyObject *cancellation_is_cancelled(PyObject *object, void *unused) {
  (void)unused;
  return PyBool_FromLong(atomic_load(&((cancellation_t *)object)->is_cancelled));
}

static PyMethodDef methods[] = {
    {"cancel", cancellation_cancel, METH_NOARGS,
     "cancel()\n--\n\nEnds the running call of the thread that has entered this cancellation, and "
     "each later one. May be called by any thread, also before the cancellation is entered."},
    {"__enter__", cancellation_enter, METH_NOARGS, NULL},
    {"__exit__", cancellation_leave, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef properties[] = {
    {"is_cancelled", cancellation_is_cancelled, NULL, "Whether cancel() was called.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_new, (void *)cancellation_new},
    {Py_tp_dealloc, (void *)cancellation_delete},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc,
     (void *)"Cancellation(timeout=None)\n--\n\nEnds calls of operators and runs of models early. "
             "`with tenon.Cancellation(timeout=0.5) as c:` limits the calls that this thread makes "
             "inside: c.cancel(), by any thread, ends them with CancelledError, and a call that "
             "is running when the time since `with` has passed ends with DeadlineError. A call "
             "ends between two nodes or two pieces of a loop; its results are dropped, and the "
             "next call works.\n\ntimeout: seconds; None: no limit."},
    {0, NULL}};
static PyType_Spec specification = {"tenon.Cancellation", sizeof(cancellation_t), 0,
                                    Py_TPFLAGS_DEFAULT, slots};

bool cancellations_add(PyObject *module) {
  PyObject *type = PyType_FromSpec(&specification);
  return type && PyModule_AddObject(module, "Cancellation", type) == 0;
}
