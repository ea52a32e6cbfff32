/* tenon.graph.Value, which is a value of a graph that is being built. Every use of a builder stands
 * between builder_enter and builder_leave, so that only one thread at a time is in a builder. */
#include "value.h"

#include <stdatomic.h>

#include "error.h"
#include "port.h"

static PyTypeObject *value_type;

bool value_check(PyObject *object) { return Py_TYPE(object) == value_type; }

bool builder_enter(builder_t *self, const char *what) {
  if (atomic_exchange(&self->is_used, true)) {
    raise_invalid(
        "%s: the builder is in use by another thread, or by a call that has not returned yet",
        what);
    return false;
  }
  if (self->builder) return true;
  builder_leave(self);
  raise_invalid("%s: the builder has already finished its graph, so its values can no longer be "
                "used: create another Builder",
                what);
  return false;
}

PyObject *value_new(builder_t *builder, tenon_edge_t edge) {
  value_t *self = PyObject_New(value_t, value_type);
  if (!self) return NULL;
  Py_INCREF(builder);
  self->builder = builder;
  self->edge = edge;
  return (PyObject *)self;
}

static void value_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  Py_DECREF(((value_t *)object)->builder);
  PyObject_Free(object);
  Py_DECREF(type);
}

bool value_port(PyObject *object, tenon_port_t *out_port) {
  const value_t *self = (const value_t *)object;
  *out_port = (tenon_port_t){.size = sizeof *out_port};
  if (!builder_enter(self->builder, "a value")) return false;
  tenon_status_t status = tenon_builder_value(self->builder->builder, self->edge, out_port);
  if (status == TENON_OK) return true;
  builder_leave(self->builder);
  raise_status(status);
  return false;
}

static PyObject *port_name(const tenon_port_t *port) { return PyUnicode_FromString(port->name); }

static PyObject *port_property(PyObject *self, PyObject *(*of)(const tenon_port_t *port)) {
  tenon_port_t port;
  if (!value_port(self, &port)) return NULL;
  PyObject *object = of(&port);
  builder_leave(((value_t *)self)->builder);
  return object;
}

static PyObject *port_layout(const tenon_port_t *port) {
  if (port->layout == TENON_DETAIL_CSR) return PyUnicode_FromString("csr");
  if (port->layout == TENON_DETAIL_ROW_SPARSE) return PyUnicode_FromString("row_sparse");
  return PyUnicode_FromString("dense");
}

static PyObject *value_layout(PyObject *self, void *unused) {
  (void)unused;
  return port_property(self, port_layout);
}

static PyObject *value_name(PyObject *self, void *unused) {
  (void)unused;
  return port_property(self, port_name);
}

static PyObject *value_dtype(PyObject *self, void *unused) {
  (void)unused;
  return port_property(self, port_dtype);
}

static PyObject *value_shape(PyObject *self, void *unused) {
  (void)unused;
  return port_property(self, port_extents);
}

static PyObject *value_builder(PyObject *self, void *unused) {
  (void)unused;
  Py_INCREF(((value_t *)self)->builder);
  return (PyObject *)((value_t *)self)->builder;
}

/* "[n, 4]", "[?]". */
static PyObject *shape_text(PyObject *shape) {
  if (shape == Py_None) return PyUnicode_FromString("[?]");
  PyObject *texts = PyList_New(0);
  PyObject *comma = PyUnicode_FromString(", ");
  PyObject *text = NULL;
  for (Py_ssize_t i = 0; texts && i < PyList_Size(shape); i++) {
    PyObject *extent = PyList_GetItem(shape, i);
    PyObject *item = extent == Py_None ? PyUnicode_FromString("?") : PyObject_Str(extent);
    if (!item || PyList_Append(texts, item) != 0) Py_CLEAR(texts);
    Py_XDECREF(item);
  }
  PyObject *list = texts && comma ? PyUnicode_Join(comma, texts) : NULL;
  if (list) text = PyUnicode_FromFormat("[%U]", list);
  Py_XDECREF(texts);
  Py_XDECREF(comma);
  Py_XDECREF(list);
  return text;
}

static PyObject *port_text(const tenon_port_t *port) {
  PyObject *shape = port_extents(port);
  PyObject *extents = shape ? shape_text(shape) : NULL;
  const char *dtype = port->dtype.bits ? tenon_dtype_name(port->dtype) : "?";
  PyObject *text = NULL;
  if (extents)
    text = PyUnicode_FromFormat("<tenon graph value %s: %s%U>", port->name, dtype, extents);
  Py_XDECREF(shape);
  Py_XDECREF(extents);
  return text;
}

/* Messages contain this text too, so the function must not raise an error of its own. */
static PyObject *value_text(PyObject *self) {
  PyObject *text = port_property(self, port_text);
  if (text || !PyErr_ExceptionMatches(error_class)) return text;
  PyErr_Clear();
  return PyUnicode_FromFormat("<tenon graph value of a builder that %s>",
                              ((value_t *)self)->builder->is_used ? "is in use" : "has finished");
}

static PyGetSetDef value_properties[] = {
    {"name", value_name, NULL,
     "The name of an input or constant; a generated name for other values.", NULL},
    {"dtype", value_dtype, NULL, "The dtype, such as \"f32\"; None: not known yet.", NULL},
    {"shape", value_shape, NULL,
     "A list of extents: numbers, symbolic texts (\"n\", \"2*n\") or None for an unknown extent. "
     "None instead of a list: the rank is not known yet.",
     NULL},
    {"layout", value_layout, NULL, "\"dense\", \"csr\" or \"row_sparse\".", NULL},
    {"builder", value_builder, NULL, "The Builder that the value belongs to.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot value_slots[] = {
    {Py_tp_dealloc, (void *)value_delete},
    {Py_tp_repr, (void *)value_text},
    {Py_tp_new, (void *)refuse_new},
    {Py_tp_getset, value_properties},
    {Py_tp_doc,
     "A value of a graph that is being built: an input, a constant or a result of a node."},
    {0, NULL}};
static PyType_Spec value_spec = {"tenon.graph.Value", sizeof(value_t), 0, Py_TPFLAGS_DEFAULT,
                                 value_slots};

bool values_add(PyObject *module) {
  value_type = (PyTypeObject *)PyType_FromSpec(&value_spec);
  if (!value_type) return false;
  Py_INCREF(value_type);
  return PyModule_AddObject(module, "Value", (PyObject *)value_type) == 0;
}
