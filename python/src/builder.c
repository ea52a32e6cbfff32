/* tenon.graph.Builder, and tenon.graph.Value: a value of a graph that is being built.  Nodes come from operators that are called
 * with values (tenon/graph.py); their arguments and attributes are read as those of calls are.  Nodes are inferred when they are
 * added, so that what cannot be is an error of the line that says it. */
#include "operator.h"

#include <stdlib.h>
#include <string.h>

typedef struct builder_t {
  PyObject_HEAD tenon_builder_t *builder; /* NULL: it has finished */
} builder_t;
typedef struct value_t {
  PyObject_HEAD builder_t *builder;
  tenon_edge_t edge;
} value_t;

static PyTypeObject *builder_type, *value_type;

bool value_check(PyObject *object) { return Py_TYPE(object) == value_type; }

static bool is_open(const builder_t *self, const char *what) {
  if (!self->builder)
    raise_invalid("%s: the builder has finished its graph: values of it can be used no more, begin with another", what);
  return self->builder != NULL;
}

static PyObject *value_new(builder_t *builder, tenon_edge_t edge) {
  value_t *self = PyObject_New(value_t, value_type);
  if (!self) return NULL;
  Py_INCREF(builder);
  self->builder = builder, self->edge = edge;
  return (PyObject *)self;
}

static void value_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  Py_DECREF(((value_t *)object)->builder);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* ---- values ------------------------------------------------------------------------------------------------------- */

static bool port_of(PyObject *object, tenon_port_t *out_port) {
  const value_t *self = (const value_t *)object;
  *out_port = (tenon_port_t){.size = sizeof *out_port};
  if (!is_open(self->builder, "a value")) return false;
  tenon_status_t status = tenon_builder_value(self->builder->builder, self->edge, out_port);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

static PyObject *value_name(PyObject *self, void *unused) {
  tenon_port_t port;
  (void)unused;
  return port_of(self, &port) ? PyUnicode_FromString(port.name) : NULL;
}
static PyObject *value_dtype(PyObject *self, void *unused) {
  tenon_port_t port;
  (void)unused;
  return port_of(self, &port) ? port_dtype(&port) : NULL;
}
static PyObject *value_shape(PyObject *self, void *unused) {
  tenon_port_t port;
  (void)unused;
  return port_of(self, &port) ? port_extents(&port) : NULL;
}
static PyObject *value_builder(PyObject *self, void *unused) {
  (void)unused;
  return Py_INCREF(((value_t *)self)->builder), (PyObject *)((value_t *)self)->builder;
}

/* "[n, 4]", "[?]". */
static PyObject *shape_text(PyObject *shape) {
  if (shape == Py_None) return PyUnicode_FromString("[?]");
  PyObject *texts = PyList_New(0), *comma = PyUnicode_FromString(", "), *text = NULL;
  for (Py_ssize_t i = 0; texts && i < PyList_Size(shape); i++) {
    PyObject *extent = PyList_GetItem(shape, i);
    PyObject *item = extent == Py_None ? PyUnicode_FromString("?") : PyObject_Str(extent);
    if (!item || PyList_Append(texts, item) != 0) Py_CLEAR(texts);
    Py_XDECREF(item);
  }
  PyObject *list = texts && comma ? PyUnicode_Join(comma, texts) : NULL;
  if (list) text = PyUnicode_FromFormat("[%U]", list);
  Py_XDECREF(texts), Py_XDECREF(comma), Py_XDECREF(list);
  return text;
}

static PyObject *value_text(PyObject *self) {
  tenon_port_t port;
  if (!((value_t *)self)->builder->builder)
    return PyUnicode_FromString("<tenon graph value, its builder has finished>");
  PyObject *shape = port_of(self, &port) ? port_extents(&port) : NULL, *extents = shape ? shape_text(shape) : NULL;
  PyObject *text = extents ? PyUnicode_FromFormat("<tenon graph value %s: %s%U>", port.name,
                                                  port.dtype.bits ? tenon_dtype_name(port.dtype) : "?", extents)
                           : NULL;
  Py_XDECREF(shape), Py_XDECREF(extents);
  return text;
}

/* ---- the builder -------------------------------------------------------------------------------------------------- */

static PyObject *builder_new(PyTypeObject *type, PyObject *arguments, PyObject *named) {
  tenon_builder_t *builder;
  static char *names[] = {"name", NULL};
  const char *name = "";
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|s", names, &name)) return NULL;
  (void)type; /* there are no others */
  tenon_status_t status = tenon_builder_create(&builder);
  if (status != TENON_OK) return raise_status(status);
  if ((status = tenon_builder_name(builder, name)) != TENON_OK)
    return tenon_builder_release(builder), raise_status(status);
  tenon_builder_check(builder, 1);
  builder_t *self = PyObject_New(builder_t, builder_type);
  if (!self) return tenon_builder_release(builder), NULL;
  self->builder = builder;
  return (PyObject *)self;
}

static void builder_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tenon_builder_release(((builder_t *)object)->builder);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Extents: numbers, names of symbols, None.  Names are of objects that `shape` keeps. */
static bool axes_from(const char *name, PyObject *shape, PyObject *kept, tenon_axis_t *axes, int32_t *out_ndim) {
  Py_ssize_t count = PyUnicode_Check(shape) ? -1 : PySequence_Size(shape);
  if (count < 0 || count > TENON_RANK_MAX) {
    PyErr_Clear();
    raise_invalid("input %s: shape: expected a list of at most %d extents, found %R", name, TENON_RANK_MAX, shape);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *extent = PySequence_GetItem(shape, i), *bytes = NULL;
    bool good = extent != NULL;
    axes[i] = (tenon_axis_t){-1, NULL};
    if (good && PyUnicode_Check(extent)) {
      good = (bytes = PyUnicode_AsUTF8String(extent)) && PyBytes_Size(bytes) > 0 && PyList_Append(kept, bytes) == 0;
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
        raise_invalid("input %s: extent %zd: expected a number from 0 on, the name of a symbol or None, found %R", name,
                      i, extent);
    }
    Py_XDECREF(extent);
    if (!good) return false;
  }
  *out_ndim = (int32_t)count;
  return true;
}

static PyObject *input(PyObject *object, PyObject *arguments, PyObject *named) {
  static char *names[] = {"name", "dtype", "shape", NULL};
  builder_t *self = (builder_t *)object;
  const char *name;
  PyObject *dtype_object = Py_None, *shape = Py_None, *kept;
  tenon_dtype_t dtype = {0, 0, 0};
  tenon_axis_t axes[TENON_RANK_MAX];
  int32_t ndim = -1;
  tenon_edge_t edge = -1;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "s|OO", names, &name, &dtype_object, &shape) ||
      !is_open(self, "input") || (dtype_object != Py_None && !dtype_from(dtype_object, &dtype)) ||
      !(kept = PyList_New(0)))
    return NULL;
  bool good = shape == Py_None || axes_from(name, shape, kept, axes, &ndim);
  if (good && !*name) good = (raise_invalid("an input without a name: expected one"), false);
  tenon_status_t status = good ? tenon_builder_input(self->builder, name, dtype, ndim, axes, &edge) : TENON_OK;
  Py_DECREF(kept);
  if (status != TENON_OK) return raise_status(status);
  return good ? value_new(self, edge) : NULL;
}

/* A constant of an object that is a tensor, or of a number of `like`'s dtype. */
static bool constant_add(builder_t *self, const char *name, PyObject *object, bool copies, const tenon_tensor_t *like,
                         const char *op, const char *argument_name, tenon_edge_t *out_edge) {
  argument_t argument;
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  tenon_tensor_t *copy = NULL;
  tenon_status_t status = TENON_OK;
  if (!argument_set(&argument, object, ARGUMENT_KEPT, like, op, argument_name, &origin)) return false;
  if (copies) {
    Py_BEGIN_ALLOW_THREADS status = tenon_tensor_copy_to(argument.tensor, (tenon_device_t){1, 0}, &copy);
    Py_END_ALLOW_THREADS
  }
  if (status == TENON_OK && is_open(self, "constant")) /* also after the lock was given up */
    status = tenon_builder_constant(self->builder, name, copies ? copy : argument.tensor, out_edge);
  tenon_tensor_release(copy);
  argument_release(&argument);
  if (status != TENON_OK) raise_status(status);
  return !PyErr_Occurred();
}

static PyObject *constant(PyObject *object, PyObject *arguments, PyObject *named) {
  static char *names[] = {"data", "name", "copy", NULL};
  builder_t *self = (builder_t *)object;
  PyObject *data;
  const char *name = NULL;
  int copies = 1;
  tenon_edge_t edge;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "O|zp", names, &data, &name, &copies) ||
      !is_open(self, "constant") || !constant_add(self, name, data, copies, NULL, "constant", "data", &edge))
    return NULL;
  return value_new(self, edge);
}

/* ---- nodes -------------------------------------------------------------------------------------------------------- */

typedef struct node_t { /* on its way */
  operator_t *op;
  builder_t *builder;  /* borrowed; NULL: not known yet */
  tenon_dtype_t dtype; /* of the first tensor; bits 0: not known */
  tenon_operand_t operands[OPERATOR_MOST];
  tenon_edge_t edges[OPERATOR_MOST], *lists[OPERATOR_MOST];
} node_t;

/* The value that an object is; argument_name: for messages. */
static bool edge_from(node_t *n, PyObject *object, const char *argument_name, tenon_edge_t *out_edge) {
  if (!value_check(object)) {
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a value of a graph, found %R: a tensor becomes one by builder.constant(x)",
                 n->op->name, argument_name, Py_TYPE(object));
    return false;
  }
  value_t *value = (value_t *)object;
  if (!is_open(value->builder, n->op->name)) return false;
  if (n->builder && n->builder != value->builder)
    return raise_invalid("%s: argument %s: a value of another builder than the others", n->op->name, argument_name),
           false;
  n->builder = value->builder, *out_edge = value->edge;
  return true;
}

static bool list_from(node_t *n, const tenon_argument_t *of, PyObject *object) {
  if (!PyList_Check(object) && !PyTuple_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s: argument %s: expected a list of values, found %R", n->op->name, of->name,
                 Py_TYPE(object));
    return false;
  }
  Py_ssize_t count = PySequence_Size(object);
  tenon_edge_t *edges = n->lists[of->index] = (tenon_edge_t *)calloc((size_t)count + 1, sizeof *edges);
  if (!edges) return PyErr_NoMemory(), false;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PySequence_GetItem(object, i);
    bool good = item && edge_from(n, item, of->name, &edges[i]);
    Py_XDECREF(item);
    if (!good) return false;
  }
  n->operands[of->index] = (tenon_operand_t){(int32_t)count, edges};
  return true;
}

static bool is_number(PyObject *object) { return PyFloat_Check(object) || PyLong_Check(object); }

/* A number becomes a constant of the first tensor's dtype. */
static bool number_from(node_t *n, const tenon_argument_t *of, PyObject *object) {
  tenon_tensor_t like = {.dtype = n->dtype};
  if (!n->dtype.bits) {
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: no dtype is known for the number %R: make it a value by builder.constant(x)",
                 n->op->name, of->name, object);
    return false;
  }
  n->operands[of->index] = (tenon_operand_t){1, &n->edges[of->index]};
  return constant_add(n->builder, NULL, object, false, &like, n->op->name, of->name, &n->edges[of->index]);
}

/* Numbers come last, as in calls. */
static bool operands_set(node_t *n, PyObject *const *given) {
  bool is_first = true;
  for (int numbers = 0; numbers < 2; numbers++)
    for (uint32_t i = 0; i < n->op->count; i++) {
      const tenon_argument_t *of = &n->op->parameters[i].of;
      PyObject *object = given[i];
      if (of->role != TENON_ARGUMENT_INPUT) continue;
      if (!object || object == Py_None) {
        if (of->is_optional) continue;
        PyErr_Format(PyExc_TypeError, "%s() needs argument %s, a value of a graph", n->op->name, of->name);
        return false;
      }
      bool is_list = of->kind == TENON_KIND_TENSORS;
      if ((!is_list && is_number(object)) != numbers) continue;
      if (numbers ? !number_from(n, of, object) : is_list && !list_from(n, of, object)) return false;
      if (numbers || is_list) continue;
      if (!edge_from(n, object, of->name, &n->edges[of->index])) return false;
      n->operands[of->index] = (tenon_operand_t){1, &n->edges[of->index]};
      tenon_port_t port;
      if (is_first && !port_of(object, &port)) return false;
      if (is_first) n->dtype = port.dtype, is_first = false;
    }
  return true;
}

/* How many values a result is; -1: an exception is set. */
static int64_t result_count(const operator_t *op, const tenon_value_t *values, uint32_t o, bool *out_is_list) {
  tenon_argument_t of = {.size = sizeof of}, by = {.size = sizeof by};
  tenon_op_argument(op->op, TENON_ARGUMENT_OUTPUT, (int32_t)o, &of);
  *out_is_list = of.kind == TENON_KIND_TENSORS;
  if (!*out_is_list) return 1;
  int64_t count = of.count;
  if (of.count_attr >= 0 && values) count = values[of.count_attr].as.i;
  else if (of.count_attr >= 0 && tenon_op_argument(op->op, TENON_ARGUMENT_ATTR, of.count_attr, &by) == TENON_OK)
    count = by.value.as.i;
  if (count >= 0 && count <= 1 << 20) return count;
  PyErr_Format(PyExc_TypeError,
               "%s: its schema does not say how many tensors its result %s is: from Python it cannot be in a graph",
               op->name, of.name);
  return -1;
}

/* How many inputs are written to that no result is. */
static int32_t written_count(const operator_t *op) {
  int32_t count = 0;
  for (uint32_t i = 0; i < op->count; i++) {
    const tenon_argument_t *of = &op->parameters[i].of;
    bool is_returned = false;
    for (uint32_t o = 0; o < op->outputs && of->is_written; o++) {
      tenon_argument_t result = {.size = sizeof result};
      tenon_op_argument(op->op, TENON_ARGUMENT_OUTPUT, (int32_t)o, &result);
      is_returned = is_returned || (result.is_written && result.mark == of->mark);
    }
    count += of->is_written && !is_returned;
  }
  return count;
}

static PyObject *results_of(builder_t *builder, const tenon_edge_t *edges, const int64_t *counts, const bool *lists,
                            uint32_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (uint32_t o = 0; tuple && o < count; o++) {
    PyObject *object = lists[o] ? PyList_New(0) : value_new(builder, *edges++);
    for (int64_t k = 0; object && lists[o] && k < counts[o]; k++) {
      PyObject *item = value_new(builder, *edges++);
      if (!item || PyList_Append(object, item) != 0) Py_CLEAR(object);
      Py_XDECREF(item);
    }
    if (!object || PyTuple_SetItem(tuple, (Py_ssize_t)o, object) != 0) Py_CLEAR(tuple);
  }
  if (!tuple || count > 1) return tuple;
  PyObject *one = count ? PyTuple_GetItem(tuple, 0) : Py_None;
  Py_INCREF(one);
  Py_DECREF(tuple);
  return one;
}

/* Adds it; results, then what is written to and no result. */
static PyObject *node_add(node_t *n, const char *name, const tenon_value_t *values) {
  int64_t counts[2 * OPERATOR_MOST], total = 0;
  bool lists[2 * OPERATOR_MOST] = {false};
  uint32_t results = n->op->outputs + (uint32_t)written_count(n->op);
  for (uint32_t o = 0; o < results; o++) {
    counts[o] = o < n->op->outputs ? result_count(n->op, values, o, &lists[o]) : 1;
    if (counts[o] < 0) return NULL;
    total += counts[o];
  }
  tenon_edge_t *edges = (tenon_edge_t *)malloc(((size_t)total + 1) * sizeof *edges);
  if (!edges) return PyErr_NoMemory();
  tenon_status_t status =
      tenon_builder_node(n->builder->builder, name, n->op->op, values, n->operands, edges, (int32_t)total);
  PyObject *result = status == TENON_OK ? results_of(n->builder, edges, counts, lists, results) : raise_status(status);
  free(edges);
  return result;
}

/* builder_node(operator, arguments, named, name, builder): what the call of an operator with values does. */
static PyObject *builder_node(PyObject *module, PyObject *arguments) {
  PyObject *op, *tuple, *named, *builder, *given[OPERATOR_MOST], *out, *result = NULL;
  const char *name;
  bool is_default;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "O!O!O!zO", operator_type, &op, &PyTuple_Type, &tuple, &PyDict_Type, &named, &name,
                        &builder))
    return NULL;
  node_t n = {.op = (operator_t *)op};
  if (builder != Py_None && Py_TYPE(builder) != builder_type)
    return PyErr_Format(PyExc_TypeError, "%s: builder: expected a tenon.graph.Builder, found %R", n.op->name,
                        Py_TYPE(builder));
  if (builder != Py_None) n.builder = (builder_t *)builder;
  if (!operator_place(n.op, tuple, named, given, &out)) return NULL;
  if (out)
    return PyErr_Format(PyExc_TypeError, "%s: %U: results of a node cannot be given", n.op->name, n.op->out_name);
  call_attrs_t *attrs = operator_attrs(n.op, given, &is_default);
  if (!attrs && !is_default) return NULL;
  if (operands_set(&n, given)) {
    if (!n.builder)
      PyErr_Format(PyExc_TypeError, "%s() has no value among its arguments: say builder=, which it becomes a node of",
                   n.op->name);
    else if (is_open(n.builder, n.op->name)) result = node_add(&n, name, attrs ? attrs->values : NULL);
  }
  for (uint32_t i = 0; i < n.op->inputs; i++) free(n.lists[i]);
  call_attrs_release(attrs, n.op->count);
  return result;
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

/* Pairs of a name and a value, of what finish takes. */
static PyObject *pairs_of(PyObject *outputs) {
  if (PyDict_Check(outputs)) return PyDict_Items(outputs);
  if (value_check(outputs)) return Py_BuildValue("[(sO)]", "output", outputs);
  if (!PyList_Check(outputs) && !PyTuple_Check(outputs))
    return PyErr_Format(PyExc_TypeError, "outputs: expected {name: value}, values or a value of a graph, found %R",
                        Py_TYPE(outputs));
  PyObject *list = PyList_New(0);
  for (Py_ssize_t i = 0, n = PySequence_Size(outputs); list && i < n; i++) {
    PyObject *value = PySequence_GetItem(outputs, i), *name = PyUnicode_FromFormat("output_%zd", i);
    PyObject *pair = value && name ? PyTuple_Pack(2, name, value) : NULL;
    if (!pair || PyList_Append(list, pair) != 0) Py_CLEAR(list);
    Py_XDECREF(value), Py_XDECREF(name), Py_XDECREF(pair);
  }
  return list;
}

static bool output_add(builder_t *self, PyObject *pair, bool adds) {
  const char *name;
  PyObject *value;
  if (!PyArg_ParseTuple(pair, "sO;the names of outputs are texts", &name, &value)) return false;
  if (!value_check(value)) {
    PyErr_Format(PyExc_TypeError, "output %s: expected a value of a graph, found %R", name, Py_TYPE(value));
    return false;
  }
  if (((value_t *)value)->builder != self) return raise_invalid("output %s: a value of another builder", name), false;
  tenon_status_t status = adds ? tenon_builder_output(self->builder, name, ((value_t *)value)->edge) : TENON_OK;
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

static PyObject *finish(PyObject *object, PyObject *outputs) {
  builder_t *self = (builder_t *)object;
  tenon_graph_t *graph = NULL;
  PyObject *pairs = is_open(self, "finish") ? pairs_of(outputs) : NULL;
  bool good = pairs != NULL;
  if (good && PyList_Size(pairs) == 0) good = (raise_invalid("finish: a graph without outputs: expected one"), false);
  for (Py_ssize_t i = 0; good && i < PyList_Size(pairs); i++) /* all are looked at before one is added */
    good = output_add(self, PyList_GetItem(pairs, i), false);
  bool is_last = good;
  for (Py_ssize_t i = 0; good && i < PyList_Size(pairs); i++) good = output_add(self, PyList_GetItem(pairs, i), true);
  tenon_status_t status = good ? tenon_builder_finish(self->builder, &graph) : TENON_OK;
  if (status != TENON_OK) raise_status(status);
  if (is_last) tenon_builder_release(self->builder), self->builder = NULL;
  Py_XDECREF(pairs);
  return graph ? graph_new(graph) : NULL;
}

/* ---- the types ---------------------------------------------------------------------------------------------------- */

static PyMethodDef builder_methods[] = {
    {"input", (PyCFunction)(void (*)(void))input, METH_VARARGS | METH_KEYWORDS,
     "input(name, dtype=None, shape=None)\n--\n\nA value that runs are given.  shape: extents, each a number, the name "
     "of a symbol "
     "(\"batch\")\nor None; without it the rank is not known, and without dtype that is not, until operators say it."},
    {"constant", (PyCFunction)(void (*)(void))constant, METH_VARARGS | METH_KEYWORDS,
     "constant(data, name=None, copy=True)\n--\n\nA value that stays: an array, tensor or number, copied; copy=False "
     "keeps its memory, "
     "which must not\nbe written to any more."},
    {"finish", finish, METH_O,
     "finish(outputs)\n--\n\nThe graph.  outputs: {name: value}, or values, or one.  The builder is used up then."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot builder_slots[] = {
    {Py_tp_dealloc, (void *)builder_delete},
    {Py_tp_new, (void *)builder_new},
    {Py_tp_methods, builder_methods},
    {Py_tp_doc,
     "Builder(name='')\n--\n\nBuilds a graph: inputs, constants, nodes by operators of tenon.graph.ops that are called "
     "with values.\n\n"
     "    b = tenon.graph.Builder()\n"
     "    x = b.input(\"x\", \"f32\", [\"n\", 384])\n"
     "    y = tenon.graph.ops.core.matmul(x, b.constant(weights))\n"
     "    graph = b.finish({\"y\": y})\n\n"
     "What cannot be (a shape, a dtype) is an error of the line that says it, which adds nothing.  A builder\n"
     "is not for several threads at once."},
    {0, NULL}};
static PyType_Spec builder_spec = {"tenon.graph.Builder", sizeof(builder_t), 0, Py_TPFLAGS_DEFAULT, builder_slots};

static PyGetSetDef value_properties[] = {
    {"name", value_name, NULL, "Its name: an input's or constant's own, else one that was made up.", NULL},
    {"dtype", value_dtype, NULL, "\"f32\", ...; None: it is not known yet.", NULL},
    {"shape", value_shape, NULL,
     "Extents: numbers, texts of symbols (\"n\", \"2*n\"), None; None: the rank is not known yet.", NULL},
    {"builder", value_builder, NULL, "Whose value it is.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot value_slots[] = {
    {Py_tp_dealloc, (void *)value_delete},
    {Py_tp_repr, (void *)value_text},
    {Py_tp_new, (void *)refuse_new},
    {Py_tp_getset, value_properties},
    {Py_tp_doc, "A value of a graph that is being built: an input, a constant or a result of a node."},
    {0, NULL}};
static PyType_Spec value_spec = {"tenon.graph.Value", sizeof(value_t), 0, Py_TPFLAGS_DEFAULT, value_slots};
static PyMethodDef functions[] = {{"builder_node", builder_node, METH_VARARGS,
                                   "builder_node(operator, arguments, named, name, builder)\n--\n\nAdds a node."},
                                  {NULL, NULL, 0, NULL}};

bool builders_add(PyObject *module) {
  builder_type = (PyTypeObject *)PyType_FromSpec(&builder_spec);
  value_type = (PyTypeObject *)PyType_FromSpec(&value_spec);
  if (!builder_type || !value_type) return false;
  Py_INCREF(builder_type), Py_INCREF(value_type);
  return PyModule_AddObject(module, "Builder", (PyObject *)builder_type) == 0 &&
         PyModule_AddObject(module, "Value", (PyObject *)value_type) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}
