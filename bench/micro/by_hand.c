/* Python functions with three arguments, for comparison. One does nothing, and shows the cost of
 * any call from Python. The other asks for views of its tensors through DLPack's table of C
 * functions, and shows the cost of a hand-written function. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *empty(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  (void)module;
  (void)arguments;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "expected 3 arguments, found %zd", count);
  Py_RETURN_NONE;
}

/* The part of DLPackExchangeAPI that is used here. */
typedef struct exchange_t {
  uint32_t version[2];
  void *previous;
  void *allocate;
  void *from_object;
  void *to_object;
  int (*view)(void *object, void *out);
} exchange_t;
static PyTypeObject *known;
static const exchange_t *table;

static PyObject *views(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
  int64_t room[3][8]; /* each holds a DLTensor: 48 bytes */
  (void)module;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "expected 3 arguments, found %zd", count);
  if (Py_TYPE(arguments[0]) != known) {
    PyObject *capsule =
        PyObject_GetAttrString((PyObject *)Py_TYPE(arguments[0]), "__dlpack_c_exchange_api__");
    if (!capsule) return NULL;
    known = Py_TYPE(arguments[0]);
    table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule);
  }
  for (Py_ssize_t i = 0; i < 3; i++)
    if (Py_TYPE(arguments[i]) != known || table->view(arguments[i], room[i])) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"empty", (PyCFunction)(void (*)(void))empty, METH_FASTCALL, NULL},
    {"views", (PyCFunction)(void (*)(void))views, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "by_hand", NULL, -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_by_hand(void) { return PyModule_Create(&definition); }
