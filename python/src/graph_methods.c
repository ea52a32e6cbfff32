/* The properties and methods of tenon.graph.Graph, and the function that reads an ONNX model. */
#include "graph_methods.h"

#include <string.h>

#include "error.h"
#include "executable.h"
#include "graph.h"
#include "graph_gradients.h"
#include "graph_nodes.h"
#include "graph_passes.h"
#include "port.h"
#include "text.h"

static PyObject *load_graph(PyObject *module, PyObject *path) {
  PyObject *bytes = NULL;
  tenon_graph_t *graph = NULL;
  tenon_status_t status;
  (void)module;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = tenon_graph_load(PyBytes_AsString(bytes), NULL, &graph);
  Py_END_ALLOW_THREADS Py_DECREF(bytes);
  return status == TENON_OK ? graph_new(graph) : raise_status(status);
}

static void graph_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tenon_graph_release(graph_of(object));
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Returns (name, dtype or None, extents or None), where an extent is a number, the name of a
 * symbol, or None. */
static PyObject *port_of(const tenon_port_t *port) {
  PyObject *dtype = port_dtype(port);
  PyObject *extents = port_extents(port);
  if (dtype && extents) return Py_BuildValue("sNN", port->name, dtype, extents);
  Py_XDECREF(dtype);
  Py_XDECREF(extents);
  return NULL;
}

typedef tenon_status_t (*port_fn)(const tenon_graph_t *, int32_t, tenon_port_t *);

static PyObject *ports_of(const tenon_graph_t *graph, int32_t count, port_fn get) {
  PyObject *list = PyList_New(0);
  for (int32_t i = 0; list && i < count; i++) {
    tenon_port_t port = {.size = sizeof port};
    tenon_status_t status = get(graph, i, &port);
    PyObject *item = status == TENON_OK ? port_of(&port) : raise_status(status);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return list;
}

static PyObject *get_name(PyObject *self, void *unused) {
  const char *name = tenon_graph_name(graph_of(self));
  (void)unused;
  return PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace");
}
static PyObject *get_inputs(PyObject *self, void *unused) {
  (void)unused;
  return ports_of(graph_of(self), tenon_graph_input_count(graph_of(self)), tenon_graph_input);
}
static PyObject *get_outputs(PyObject *self, void *unused) {
  (void)unused;
  return ports_of(graph_of(self), tenon_graph_output_count(graph_of(self)), tenon_graph_output);
}

static PyObject *graph_text(PyObject *self, PyObject *unused) {
  char *text = NULL;
  (void)unused;
  tenon_status_t status = tenon_graph_dump(graph_of(self), &text);
  return text_take(status, text);
}

static PyObject *graph_save(PyObject *self, PyObject *path) {
  PyObject *bytes = NULL;
  tenon_status_t status;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = tenon_graph_save(graph_of(self), PyBytes_AsString(bytes));
  Py_END_ALLOW_THREADS Py_DECREF(bytes);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

/* The arguments of pack() as bytes: the path of the artifact, and those of libraries. A new
 * reference. */
static PyObject *paths_of(PyObject *arguments) {
  const Py_ssize_t count = PyTuple_Size(arguments);
  PyObject *paths = PyTuple_New(count);
  if (!count) PyErr_SetString(PyExc_TypeError, "pack() expects the path of the artifact");
  for (Py_ssize_t i = 0; paths && i < count; i++) {
    PyObject *bytes = NULL;
    if (!PyUnicode_FSConverter(PyTuple_GetItem(arguments, i), &bytes)) Py_CLEAR(paths);
    if (paths) PyTuple_SetItem(paths, i, bytes);
  }
  if (!count) Py_CLEAR(paths);
  return paths;
}

static PyObject *graph_pack(PyObject *self, PyObject *arguments) {
  PyObject *paths = paths_of(arguments);
  if (!paths) return NULL;
  const Py_ssize_t count = PyTuple_Size(paths) - 1;
  const char **libraries = PyMem_Calloc((size_t)count + 1, sizeof *libraries);
  tenon_status_t status = TENON_MEMORY;
  for (Py_ssize_t i = 0; libraries && i < count; i++)
    libraries[i] = PyBytes_AsString(PyTuple_GetItem(paths, i + 1));
  const char *path = PyBytes_AsString(PyTuple_GetItem(paths, 0));
  if (libraries) {
    Py_BEGIN_ALLOW_THREADS status =
        tenon_graph_pack(graph_of(self), path, libraries, (int32_t)count);
    Py_END_ALLOW_THREADS
  }
  Py_DECREF(paths);
  if (!libraries) return PyErr_NoMemory();
  PyMem_Free((void *)libraries);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *graph_export(PyObject *self, PyObject *path) {
  PyObject *bytes = NULL;
  tenon_status_t status;
  if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = tenon_graph_export(graph_of(self), PyBytes_AsString(bytes));
  Py_END_ALLOW_THREADS Py_DECREF(bytes);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyMethodDef graph_methods[] = {
    {"text", graph_text, METH_NOARGS,
     "text()\n--\n\nReturns a description of the graph: its nodes and constants, and the type of "
     "each "
     "value. save(\"NAME.graph\") writes a text that can be read again."},
    {"_nodes", graph_nodes, METH_NOARGS, NULL},
    {"_values", graph_values, METH_NOARGS, NULL},
    {"_ports", graph_ports, METH_NOARGS, NULL},
    {"_apply", graph_apply, METH_VARARGS, NULL},
    {"save", graph_save, METH_O,
     "save(path)\n--\n\nWrites the graph to a file that tenon.graph.load reads back to the same "
     "graph: NAME.graph is a text, with large constants in NAME.safetensors; NAME.tenon is an "
     "artifact, compiled for this processor; any other file is an ONNX file, in which each "
     "operator is a node of domain NAMESPACE and type NAME and each "
     "constant an initialiser.\n\nRaises an error if the format cannot express the graph; existing "
     "files are then left unchanged."},
    {"pack", graph_pack, METH_VARARGS,
     "pack(path, *libraries)\n--\n\nCompiles the graph for this processor and writes an artifact, "
     "NAME.tenon, with the files of operator libraries. Libraries for this processor must be "
     "loaded; those for others are put into the file as they are. save(\"NAME.tenon\") does the "
     "same without libraries."},
    {"export", graph_export, METH_O,
     "export(path)\n--\n\nWrites the graph for other systems, in the standard operators of the "
     "format that the end of the path names: .onnx, .mlir or .stablehlo. Operators of libraries "
     "stay custom operators.\n\nRaises an error that lists the nodes that the format cannot "
     "express; an existing file is then left unchanged."},
    {"gradients", (PyCFunction)(void (*)(void))graph_gradients, METH_VARARGS | METH_KEYWORDS,
     "gradients(values=None, *, outputs=None, given=False, unused=False)\n--\n\nReturns a graph "
     "that computes the outputs of this one and then gradients, by the gradient formulas of the "
     "operators. Compiled, forward and backward are one graph.\n\nIts inputs are those of this "
     "graph; then the constants among `values`; then the gradient NAME.grad of each differentiated "
     "output that is not a single number. A single number has the gradient 1. Its outputs are "
     "those "
     "of this graph, then NAME.grad for each of `values`.\n\nvalues: names of inputs and "
     "constants; "
     "None: all inputs of a float dtype.\noutputs: names of the outputs to differentiate; None: "
     "all "
     "of a float dtype.\ngiven: True: the gradient of every output is an input.\nunused: True: a "
     "value on which the outputs do not depend has zeros; otherwise it is an error."},
    {"compile", (PyCFunction)(void (*)(void))graph_compile, METH_VARARGS | METH_KEYWORDS,
     "compile(device=None, *, pins=None, claims=None, plain=False, record=False, "
     "without=None)\n--\n\nCompiles "
     "the graph and returns an Executable.\n\ndevice: \"cpu\", \"opencl:0\", ..., or a list of "
     "devices to spread the graph over.\npins: {node: device}, fixes the device of nodes.\nclaims: "
     "settings of subgraphs that a device runs as one, or \"off\".\nplain: True: the graph is not "
     "rewritten.\nrecord: True: runs of equal shapes are captured and replayed, where the device "
     "supports it.\nwithout: names of rewriting rules to leave out, separated by commas "
     "(tenon.graph.rewrites() lists them)."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef graph_properties[] = {
    {"name", get_name, NULL,
     "The name that the file or the builder gave the graph; \"\" if there is none.", NULL},
    {"inputs", get_inputs, NULL,
     "A list with (name, dtype, extents) of each input. An extent is a number, the name of a "
     "symbol or None; unknown parts are None.",
     NULL},
    {"outputs", get_outputs, NULL, "A list with (name, dtype, extents) of each output.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot graph_slots[] = {{Py_tp_dealloc, (void *)graph_delete},
                                    {Py_tp_new, (void *)refuse_new},
                                    {Py_tp_methods, graph_methods},
                                    {Py_tp_getset, graph_properties},
                                    {0, NULL}};
static PyType_Spec graph_spec = {"tenon.graph.Graph", sizeof(graph_t), 0, Py_TPFLAGS_DEFAULT,
                                 graph_slots};

static PyMethodDef module_functions[] = {
    {"graph_load", load_graph, METH_O, "graph_load(path)\n--\n\nReads an ONNX model."},
    {"graph_passes", graph_passes, METH_NOARGS, NULL},
    {"graph_rewrites", graph_rewrites, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

bool graphs_add(PyObject *module) {
  graph_type = (PyTypeObject *)PyType_FromSpec(&graph_spec);
  if (!graph_type) return false;
  Py_INCREF(graph_type);
  return PyModule_AddObject(module, "Graph", (PyObject *)graph_type) == 0 &&
         PyModule_AddFunctions(module, module_functions) == 0;
}
