/* Nodes of a graph that is being built: operators that are called with values (tenon/graph.py).
 * Arguments and attributes are read in the same way as those of calls. Each node is inferred when
 * it is added, so that a wrong shape or dtype raises at the line that adds the node. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#include "builder.h"
#include "call.h"
#include "error.h"

typedef struct node_t { /* a node that is being added */
  operator_t *op;
  builder_t *builder;  /* borrowed; NULL: not known yet */
  tenon_dtype_t dtype; /* of the first tensor; bits 0: unknown */
  tenon_operand_t operands[OPERATOR_MOST];
  tenon_edge_t edges[OPERATOR_MOST];
  tenon_edge_t *lists[OPERATOR_MOST];
} node_t;

/* Converts an object to the value that it stands for. Messages name `argument_name`. */
static bool edge_from(node_t *n, PyObject *object, const char *argument_name,
                      tenon_edge_t *out_edge) {
  if (!value_check(object)) {
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: expected a value of a graph, found %R: builder.constant(x) "
                 "makes a value of a tensor",
                 n->op->name, argument_name, Py_TYPE(object));
    return false;
  }
  value_t *value = (value_t *)object;
  if (n->builder && n->builder != value->builder) {
    raise_invalid("%s: argument %s: the value belongs to another builder than the other arguments",
                  n->op->name, argument_name);
    return false;
  }
  n->builder = value->builder;
  *out_edge = value->edge;
  return true;
}

static bool list_from(node_t *n, const tenon_argument_t *of, PyObject *object) {
  if (!PyList_Check(object) && !PyTuple_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s: argument %s: expected a list of values, found %R",
                 n->op->name, of->name, Py_TYPE(object));
    return false;
  }
  Py_ssize_t count = PySequence_Size(object);
  tenon_edge_t *edges = n->lists[of->index] =
      (tenon_edge_t *)calloc((size_t)count + 1, sizeof *edges);
  if (!edges) {
    PyErr_NoMemory();
    return false;
  }
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

/* Converts a number to a constant that has the dtype of the first tensor. */
static bool number_from(node_t *n, const tenon_argument_t *of, PyObject *object) {
  tenon_tensor_t like = {.dtype = n->dtype};
  if (!n->dtype.bits) {
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %s: the dtype of the number %R is unknown: make it a value with "
                 "builder.constant(x)",
                 n->op->name, of->name, object);
    return false;
  }
  n->operands[of->index] = (tenon_operand_t){1, &n->edges[of->index]};
  return constant_add(n->builder, NULL, object, false, &like, n->op->name, of->name,
                      &n->edges[of->index]);
}

/* Numbers are converted last, as in calls. */
static bool operands_set(node_t *n, PyObject *const *given) {
  bool is_first = true;
  for (int numbers = 0; numbers < 2; numbers++)
    for (uint32_t i = 0; i < n->op->count; i++) {
      const tenon_argument_t *of = &n->op->parameters[i].of;
      PyObject *object = given[i];
      if (of->role != TENON_ARGUMENT_INPUT) continue;
      if (!object || object == Py_None) {
        if (of->is_optional) continue;
        PyErr_Format(PyExc_TypeError, "%s() is missing argument %s, a value of a graph",
                     n->op->name, of->name);
        return false;
      }
      bool is_list = of->kind == TENON_KIND_TENSORS;
      if ((!is_list && is_number(object)) != numbers) continue;
      if (numbers ? !number_from(n, of, object) : is_list && !list_from(n, of, object))
        return false;
      if (numbers || is_list) continue;
      if (!edge_from(n, object, of->name, &n->edges[of->index])) return false;
      n->operands[of->index] = (tenon_operand_t){1, &n->edges[of->index]};
      tenon_port_t port;
      if (!is_first) continue;
      if (!value_port(object, &port)) return false;
      n->dtype = port.dtype;
      is_first = false;
      builder_leave(n->builder);
    }
  return true;
}

/* Returns the number of values of a result; -1 with an exception set. */
static int64_t result_count(const operator_t *op, const tenon_value_t *values, uint32_t o,
                            bool *out_is_list) {
  tenon_argument_t of = {.size = sizeof of};
  tenon_argument_t by = {.size = sizeof by};
  tenon_op_argument(op->op, TENON_ARGUMENT_OUTPUT, (int32_t)o, &of);
  *out_is_list = of.kind == TENON_KIND_TENSORS;
  if (!*out_is_list) return 1;
  int64_t count = of.count;
  if (of.count_attr >= 0 && values)
    count = values[of.count_attr].as.i;
  else if (of.count_attr >= 0 &&
           tenon_op_argument(op->op, TENON_ARGUMENT_ATTR, of.count_attr, &by) == TENON_OK)
    count = by.value.as.i;
  if (count >= 0 && count <= 1 << 20) return count;
  PyErr_Format(PyExc_TypeError,
               "%s: its schema does not state how many tensors the list %s has, so it cannot be "
               "added to a graph from Python",
               op->name, of.name);
  return -1;
}

/* Counts the inputs that are written to and are not returned as a result. */
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

static PyObject *node_results(builder_t *builder, const tenon_edge_t *edges, const int64_t *counts,
                              const bool *lists, uint32_t count) {
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

/* Adds the node. Returns the values of its results, followed by the new values of written inputs
 * that are not results. */
static PyObject *node_add(node_t *n, const char *name, const tenon_value_t *values) {
  int64_t counts[2 * OPERATOR_MOST];
  int64_t total = 0;
  bool lists[2 * OPERATOR_MOST] = {false};
  uint32_t results = n->op->outputs + (uint32_t)written_count(n->op);
  for (uint32_t o = 0; o < results; o++) {
    counts[o] = o < n->op->outputs ? result_count(n->op, values, o, &lists[o]) : 1;
    if (counts[o] < 0) return NULL;
    total += counts[o];
  }
  tenon_edge_t *edges = (tenon_edge_t *)malloc(((size_t)total + 1) * sizeof *edges);
  if (!edges) return PyErr_NoMemory();
  PyObject *result = NULL;
  if (builder_enter(n->builder, n->op->name)) {
    tenon_status_t status = tenon_builder_node(n->builder->builder, name, n->op->op, values,
                                               n->operands, edges, (int32_t)total);
    builder_leave(n->builder);
    result = status == TENON_OK ? node_results(n->builder, edges, counts, lists, results)
                                : raise_status(status);
  }
  free(edges);
  return result;
}

/* The caller has called operator_hold, which returned `shard`, and calls operator_leave
 * afterwards. */
static PyObject *make_node(node_t *n, shard_t *shard, PyObject *tuple, PyObject *named,
                           const char *name) {
  PyObject *given[OPERATOR_MOST], *own[OWN_COUNT];
  PyObject *open = NULL;
  PyObject *result = NULL;
  bool is_default;
  bool good = operator_arrange(n->op, tuple, named, given, own, &open);
  bool has_own = good && (own[OWN_OUT] || own[OWN_ADD]);
  if (has_own)
    PyErr_Format(
        PyExc_TypeError,
        "%s: %U: a node of a graph does not accept this argument, since it creates its results",
        n->op->name, n->op->own_names[own[OWN_OUT] ? OWN_OUT : OWN_ADD]);
  call_attrs_t *attrs = good && !has_own ? operator_attrs(n->op, shard, given, &is_default) : NULL;
  Py_XDECREF(open); /* The attributes hold a reference to it. */
  if (!good || has_own || (!attrs && !is_default)) return NULL;
  if (operands_set(n, given)) {
    if (n->builder)
      result = node_add(n, name, attrs ? attrs->values : NULL);
    else
      PyErr_Format(
          PyExc_TypeError,
          "%s(): no argument is a value of a graph: pass builder= to say which graph gets the node",
          n->op->name);
  }
  for (uint32_t i = 0; i < n->op->inputs; i++)
    free(n->lists[i]);
  operator_attrs_end(n->op, shard, attrs);
  return result;
}

static PyObject *builder_node(PyObject *module, PyObject *arguments) {
  PyObject *op, *tuple, *named, *builder;
  const char *name;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "O!O!O!zO", operator_type, &op, &PyTuple_Type, &tuple,
                        &PyDict_Type, &named, &name, &builder))
    return NULL;
  node_t n = {.op = (operator_t *)op};
  if (builder != Py_None && Py_TYPE(builder) != builder_type)
    return PyErr_Format(PyExc_TypeError, "%s: builder: expected a tenon.graph.Builder, found %R",
                        n.op->name, Py_TYPE(builder));
  if (builder != Py_None) n.builder = (builder_t *)builder;
  shard_t *shard = operator_hold(n.op);
  if (!shard) return operator_ended(n.op);
  PyObject *result = make_node(&n, shard, tuple, named, name);
  operator_leave(shard);
  return result;
}

static PyMethodDef module_functions[] = {
    {"builder_node", builder_node, METH_VARARGS,
     "builder_node(operator, arguments, named, name, builder)\n--\n\nAdds a node and returns the "
     "values of its results."},
    {NULL, NULL, 0, NULL}};

bool nodes_add(PyObject *module) { return PyModule_AddFunctions(module, module_functions) == 0; }
