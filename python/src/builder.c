/* tenon.graph.Builder, which builds a graph from inputs, constants and nodes (node.c). */
#include "builder.h"

#include <string.h>

#include "argument.h"
#include "dtype.h"
#include "error.h"
#include "graph.h"
#include "layout.h"

PyTypeObject *builder_type;

static PyObject *builder_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  tenon_builder_t *builder;
  static char *names[] = {"name", NULL};
  const char *name = "";
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|s", names, &name)) return NULL;
  (void)type; /* Builder cannot be subclassed. */
  tenon_status_t status = tenon_builder_create(&builder);
  if (status != TENON_OK) return raise_status(status);
  if ((status = tenon_builder_name(builder, name)) != TENON_OK) {
    tenon_builder_release(builder);
    return raise_status(status);
  }
  tenon_builder_check(builder, 1);
  builder_t *self = PyObject_New(builder_t, builder_type);
  if (!self) {
    tenon_builder_release(builder);
    return NULL;
  }
  self->builder = builder;
  self->is_used = false;
  return (PyObject *)self;
}

static void builder_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tenon_builder_release(((builder_t *)object)->builder);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Converts a shape: an extent is a number, the name of a symbol, or None. `kept` keeps the bytes
 * objects alive that the names point into. */
static bool axes_from(const char *name, PyObject *shape, PyObject *kept, tenon_axis_t *axes,
                      int32_t *out_ndim) {
  Py_ssize_t count = PyUnicode_Check(shape) ? -1 : PySequence_Size(shape);
  if (count < 0 || count > TENON_RANK_MAX) {
    PyErr_Clear();
    raise_invalid("input %s: shape: expected a sequence of at most %d extents, found %R", name,
                  TENON_RANK_MAX, shape);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *extent = PySequence_GetItem(shape, i);
    PyObject *bytes = NULL;
    bool good = extent != NULL;
    axes[i] = (tenon_axis_t){-1, NULL};
    if (good && PyUnicode_Check(extent)) {
      good = (bytes = PyUnicode_AsUTF8String(extent)) && PyBytes_Size(bytes) > 0 &&
             PyList_Append(kept, bytes) == 0;
      if (good) axes[i].name = PyBytes_AsString(bytes);
      Py_XDECREF(bytes);
    } else if (good && extent != Py_None) {
      PyObject *number = PyNumber_Index(extent);
      axes[i].extent = number ? PyLong_AsLongLong(number) : -1;
      Py_XDECREF(number);
      good = axes[i].extent >= 0;
    }
    if (!good) {
      PyErr_Clear();
      if (extent)
        raise_invalid(
            "input %s: extent %zd: expected a number >= 0, the name of a symbol, or None; found %R",
            name, i, extent);
    }
    Py_XDECREF(extent);
    if (!good) return false;
  }
  *out_ndim = (int32_t)count;
  return true;
}

static PyObject *builder_input(PyObject *object, PyObject *arguments, PyObject *named) {
  static char *names[] = {"name", "dtype", "shape", "layout", NULL};
  builder_t *self = (builder_t *)object;
  const char *name;
  const char *layout = NULL;
  uint32_t kind = 0;
  PyObject *dtype_object = Py_None;
  PyObject *shape = Py_None;
  PyObject *kept;
  tenon_dtype_t dtype = {0, 0, 0};
  tenon_axis_t axes[TENON_RANK_MAX];
  int32_t ndim = -1;
  tenon_edge_t edge = -1;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "s|OOz", names, &name, &dtype_object, &shape,
                                   &layout) ||
      (layout && strcmp(layout, "dense") && !layout_from(layout, &kind)) ||
      (dtype_object != Py_None && !dtype_from(dtype_object, &dtype)) || !(kept = PyList_New(0)))
    return NULL;
  bool good = shape == Py_None || axes_from(name, shape, kept, axes, &ndim);
  if (good && !*name) {
    raise_invalid("input: expected a name, found an empty string");
    good = false;
  }
  /* The rank is checked before anything is added to the builder. */
  const bool is_csr = kind == TENON_DETAIL_CSR;
  if (good && (is_csr ? ndim != 2 : kind && ndim < 1)) {
    raise_invalid("input %s: shape of a %s tensor: expected %s, found %R", name, layout,
                  is_csr ? "two extents" : "at least one extent", shape);
    good = false;
  }
  tenon_status_t status = TENON_OK;
  if ((good = good && builder_enter(self, "input"))) {
    status = tenon_builder_input(self->builder, name, dtype, ndim, axes, &edge);
    if (kind && status == TENON_OK) status = tenon_builder_sparse(self->builder, edge, kind);
    builder_leave(self);
  }
  Py_DECREF(kept);
  if (status != TENON_OK) return raise_status(status);
  return good ? value_new(self, edge) : NULL;
}

bool constant_add(builder_t *self, const char *name, PyObject *object, bool copies,
                  const tenon_tensor_t *like, const char *op, const char *argument_name,
                  tenon_edge_t *out_edge) {
  argument_t argument;
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  tenon_tensor_t *copy = NULL;
  tenon_status_t status = TENON_OK;
  if (!argument_set(&argument, object, ARGUMENT_KEPT, like, op, argument_name, &origin))
    return false;
  if (copies) {
    Py_BEGIN_ALLOW_THREADS status =
        tenon_tensor_copy_to(argument.tensor, (tenon_device_t){1, 0}, &copy);
    Py_END_ALLOW_THREADS
  }
  if (status == TENON_OK && builder_enter(self, "constant")) {
    status = tenon_builder_constant(self->builder, name, copies ? copy : argument.tensor, out_edge);
    builder_leave(self);
  }
  tenon_tensor_release(copy);
  argument_release(&argument);
  if (status != TENON_OK) raise_status(status);
  return !PyErr_Occurred();
}

static PyObject *builder_constant(PyObject *object, PyObject *arguments, PyObject *named) {
  static char *names[] = {"data", "name", "copy", NULL};
  builder_t *self = (builder_t *)object;
  PyObject *data;
  const char *name = NULL;
  int copies = 1;
  tenon_edge_t edge;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "O|zp", names, &data, &name, &copies) ||
      !constant_add(self, name, data, copies, NULL, "constant", "data", &edge))
    return NULL;
  return value_new(self, edge);
}

/* Converts the argument of `builder_finish` to a list of (name, value) pairs. */
static PyObject *pairs_of(PyObject *outputs) {
  if (PyDict_Check(outputs)) return PyDict_Items(outputs);
  if (value_check(outputs)) return Py_BuildValue("[(sO)]", "output", outputs);
  if (!PyList_Check(outputs) && !PyTuple_Check(outputs))
    return PyErr_Format(
        PyExc_TypeError,
        "finish: expected {name: value}, a sequence of values, or one value of a graph; found %R",
        Py_TYPE(outputs));
  PyObject *list = PyList_New(0);
  for (Py_ssize_t i = 0, n = PySequence_Size(outputs); list && i < n; i++) {
    PyObject *value = PySequence_GetItem(outputs, i);
    PyObject *name = PyUnicode_FromFormat("output_%zd", i);
    PyObject *pair = value && name ? PyTuple_Pack(2, name, value) : NULL;
    if (!pair || PyList_Append(list, pair) != 0) Py_CLEAR(list);
    Py_XDECREF(value);
    Py_XDECREF(name);
    Py_XDECREF(pair);
  }
  return list;
}

static bool output_add(builder_t *self, PyObject *pair, bool adds) {
  const char *name;
  PyObject *value;
  if (!PyArg_ParseTuple(pair, "sO;finish: expected a string as the name of an output", &name,
                        &value))
    return false;
  if (!value_check(value)) {
    PyErr_Format(PyExc_TypeError, "finish: output %s: expected a value of a graph, found %R", name,
                 Py_TYPE(value));
    return false;
  }
  if (((value_t *)value)->builder != self) {
    raise_invalid("finish: output %s: the value belongs to another builder", name);
    return false;
  }
  tenon_status_t status =
      adds ? tenon_builder_output(self->builder, name, ((value_t *)value)->edge) : TENON_OK;
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

static PyObject *builder_finish(PyObject *object, PyObject *outputs) {
  builder_t *self = (builder_t *)object;
  tenon_graph_t *graph = NULL;
  PyObject *pairs = pairs_of(outputs);
  if (!pairs || !builder_enter(self, "finish")) {
    Py_XDECREF(pairs);
    return NULL;
  }
  bool good = PyList_Size(pairs) > 0;
  if (!good) raise_invalid("finish: expected at least one output, found none");
  /* All outputs are checked before the first one is added. */
  for (Py_ssize_t i = 0; good && i < PyList_Size(pairs); i++)
    good = output_add(self, PyList_GetItem(pairs, i), false);
  bool is_last = good;
  for (Py_ssize_t i = 0; good && i < PyList_Size(pairs); i++)
    good = output_add(self, PyList_GetItem(pairs, i), true);
  tenon_status_t status = good ? tenon_builder_finish(self->builder, &graph) : TENON_OK;
  if (status != TENON_OK) raise_status(status);
  if (is_last) {
    tenon_builder_release(self->builder);
    self->builder = NULL;
  }
  builder_leave(self);
  Py_DECREF(pairs);
  return graph ? graph_new(graph) : NULL;
}

static PyMethodDef builder_methods[] = {
    {"input", (PyCFunction)(void (*)(void))builder_input, METH_VARARGS | METH_KEYWORDS,
     "input(name, dtype=None, shape=None, layout=None)\n--\n\nAdds an input of the graph and "
     "returns its value.\n\nname: the name of the input.\ndtype: a dtype such as \"f32\"; None: "
     "unknown until operators determine it.\nshape: a sequence of extents, each a number, the name "
     "of a symbol (\"batch\") or None for an unknown extent;\nNone instead of a sequence: the rank "
     "is unknown.\nlayout: None or \"dense\"; \"csr\" or \"row_sparse\" for a sparse input."},
    {"constant", (PyCFunction)(void (*)(void))builder_constant, METH_VARARGS | METH_KEYWORDS,
     "constant(data, name=None, copy=True)\n--\n\nAdds a constant and returns its value.\n\ndata: "
     "an array, a tensor or a number.\ncopy: False keeps a reference to the memory of `data`, "
     "which must not be written to any more."},
    {"finish", builder_finish, METH_O,
     "finish(outputs)\n--\n\nReturns the finished Graph; the builder cannot be used "
     "afterwards.\n\noutputs: {name: value}, a sequence of values, or one value."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot builder_slots[] = {
    {Py_tp_dealloc, (void *)builder_delete},
    {Py_tp_new, (void *)builder_new},
    {Py_tp_methods, builder_methods},
    {Py_tp_doc, "Builder(name='')\n--\n\nBuilds a graph from inputs, constants and nodes. Calling "
                "an operator of tenon.graph.ops with values adds a node.\n\n    b = "
                "tenon.graph.Builder()\n    x = b.input(\"x\", \"f32\", [\"n\", 384])\n    y = "
                "tenon.graph.ops.core.matmul(x, b.constant(weights))\n    graph = b.finish({\"y\": "
                "y})\n\nA wrong shape or dtype raises at the line that adds the node, and the node "
                "is not added.\nOnly one thread at a time may use a builder."},
    {0, NULL}};
static PyType_Spec builder_spec = {"tenon.graph.Builder", sizeof(builder_t), 0, Py_TPFLAGS_DEFAULT,
                                   builder_slots};

bool builders_add(PyObject *module) {
  builder_type = (PyTypeObject *)PyType_FromSpec(&builder_spec);
  if (!builder_type) return false;
  Py_INCREF(builder_type);
  return PyModule_AddObject(module, "Builder", (PyObject *)builder_type) == 0;
}
