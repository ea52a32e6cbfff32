/* Changes graphs with the passes and partitioners of loaded libraries. */
#include "graph_passes.h"

#include <stdlib.h>

#include "error.h"
#include "graph.h"
#include "unlocked.h"

PyObject *graph_apply(PyObject *self, PyObject *arguments) {
  const char *name;
  PyObject *list;
  tenon_graph_t *made = NULL;
  if (!PyArg_ParseTuple(arguments, "sO!", &name, &PyList_Type, &list)) return NULL;
  Py_ssize_t count = PyList_Size(list);
  tenon_option_t *options = (tenon_option_t *)malloc(((size_t)count + 1) * sizeof *options);
  if (!options) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; i++)
    if (!PyArg_ParseTuple(PyList_GetItem(list, i), "ss", &options[i].name, &options[i].value)) {
      free(options);
      return NULL;
    }
  unlocked_t unlocked;
  unlocked_begin(&unlocked);
  tenon_status_t status = tenon_graph_apply(graph_get(self), name, options, (int32_t)count, &made);
  bool good = unlocked_end(&unlocked);
  free(options);
  if (status != TENON_OK) return good ? raise_status(status) : NULL;
  return graph_new(made);
}

PyObject *graph_passes(PyObject *module, PyObject *unused) {
  PyObject *list = PyList_New(0);
  tenon_pass_info_t info = {.size = sizeof info};
  (void)module;
  (void)unused;
  for (int32_t i = 0; list && tenon_pass_info(i, &info) == TENON_OK; i++) {
    PyObject *strategies = info.strategy_count < 0 ? new_reference(Py_None) : PyList_New(0);
    for (int32_t s = 0; strategies && s < info.strategy_count; s++) {
      PyObject *text = PyUnicode_FromString(info.strategies[s]);
      if (!text || PyList_Append(strategies, text) != 0) Py_CLEAR(strategies);
      Py_XDECREF(text);
    }
    const char *doc = info.doc ? info.doc : "";
    PyObject *item = NULL;
    if (strategies) item = Py_BuildValue("(ssNs)", info.name, doc, strategies, info.library_path);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

PyObject *graph_rewrites(PyObject *module, PyObject *unused) {
  PyObject *list = PyList_New(0);
  tenon_rewrite_info_t info = {.size = sizeof info};
  (void)module;
  (void)unused;
  for (int32_t i = 0; list && tenon_rewrite_info(i, &info) == TENON_OK; i++) {
    PyObject *item = Py_BuildValue("(sss)", info.library, info.rule, info.condition);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}
