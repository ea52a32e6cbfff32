/* Differentiates graphs. */
#include "graph_gradients.h"

#include <stdlib.h>

#include "error.h"
#include "graph.h"

typedef struct names_t {
  PyObject *list; /* of bytes, which hold the texts */
  const char **texts;
  int32_t count;
} names_t;

static void names_clear(names_t *names) {
  Py_XDECREF(names->list);
  free((void *)names->texts);
}

/* Reads a sequence of strings; None: no names. */
static bool names_read(PyObject *object, const char *what, names_t *names) {
  *names = (names_t){NULL, NULL, 0};
  if (!object || object == Py_None) return true;
  if (PyUnicode_Check(object) || !(names->list = PySequence_List(object))) {
    PyErr_Format(PyExc_TypeError, "%s: expected a list of names", what);
    return false;
  }
  const Py_ssize_t count = PyList_Size(names->list);
  names->texts = (const char **)malloc(((size_t)count + 1) * sizeof *names->texts);
  if (!names->texts) {
    PyErr_NoMemory();
    return false;
  }
  for (; names->count < count; names->count++) {
    PyObject *item = PyList_GetItem(names->list, names->count);
    if (!PyUnicode_Check(item)) {
      PyErr_Format(PyExc_TypeError, "%s: item %d is no string", what, (int)names->count);
      return false;
    }
    PyObject *bytes = PyUnicode_AsUTF8String(item);
    if (!bytes) return false;
    names->texts[names->count] = PyBytes_AsString(bytes);
    if (PyList_SetItem(names->list, names->count, bytes) != 0) return false;
  }
  return true;
}

PyObject *graph_gradients(PyObject *self, PyObject *arguments, PyObject *named) {
  static char *words[] = {"values", "outputs", "given", "unused", NULL};
  PyObject *values = NULL;
  PyObject *outputs = NULL;
  int given = 0;
  int unused = 0;
  names_t of_values, of_outputs;
  tenon_graph_t *made = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|O$Opp", words, &values, &outputs, &given,
                                   &unused))
    return NULL;
  bool is_fine = names_read(values, "values", &of_values);
  is_fine = names_read(outputs, "outputs", &of_outputs) && is_fine;
  tenon_status_t status = TENON_OK;
  if (is_fine) {
    uint32_t flags = 0;
    if (given) flags |= TENON_GRADIENTS_GIVEN;
    if (unused) flags |= TENON_GRADIENTS_UNUSED;
    const tenon_graph_gradients_t options = {.size = sizeof options,
                                             .flags = flags,
                                             .outputs = of_outputs.texts,
                                             .values = of_values.texts,
                                             .output_count = of_outputs.count,
                                             .value_count = of_values.count};
    Py_BEGIN_ALLOW_THREADS status = tenon_graph_gradients(graph_of(self), &options, &made);
    Py_END_ALLOW_THREADS
  }
  names_clear(&of_values);
  names_clear(&of_outputs);
  if (!is_fine) return NULL;
  return status == TENON_OK ? graph_new(made) : raise_status(status);
}
