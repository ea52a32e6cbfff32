/* Returns the parts of a graph as tuples and numbers, from which tenon/graph.py makes nodes and
 * values. */
#include "graph_nodes.h"

#include <string.h>

#include "attribute.h"
#include "error.h"
#include "graph.h"

static PyObject *decode_text(const char *text) {
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

/* Appends an item and takes it over. Returns false with an exception if the item is NULL or memory
 * runs out. */
static bool append_item(PyObject *list, PyObject *item) {
  bool good = list && item && PyList_Append(list, item) == 0;
  Py_XDECREF(item);
  return good;
}

static PyObject *numbers_of(const tenon_edge_t *edges, int32_t count) {
  PyObject *list = PyList_New(0);
  for (int32_t i = 0; list && i < count; i++)
    if (!append_item(list, PyLong_FromLong(edges[i]))) Py_CLEAR(list);
  return list;
}

static PyObject *operand_of(const tenon_operand_t *operand, bool is_list) {
  if (is_list) return numbers_of(operand->edges, operand->count);
  if (operand->count) return PyLong_FromLong(operand->edges[0]);
  Py_RETURN_NONE;
}

/* Returns a list with a number, a list of numbers or None for each tensor argument. */
static PyObject *operands_of(const tenon_graph_part_t *node, const tenon_op_info_t *info) {
  PyObject *list = PyList_New(0);
  for (int32_t i = 0; list && i < info->input_count; i++) {
    tenon_argument_t of = {.size = sizeof of};
    tenon_op_argument(node->op, TENON_ARGUMENT_INPUT, i, &of);
    PyObject *item = operand_of(&node->operands[i], of.kind == TENON_KIND_TENSORS);
    if (!append_item(list, item)) Py_CLEAR(list);
  }
  return list;
}

/* Returns the attributes as a dictionary; tensors and graphs are None. */
static PyObject *attributes_of(const tenon_graph_part_t *node, const tenon_op_info_t *info) {
  PyObject *made = PyDict_New();
  for (int32_t i = 0; made && i < info->attr_count; i++) {
    tenon_argument_t of = {.size = sizeof of};
    tenon_op_argument(node->op, TENON_ARGUMENT_ATTR, i, &of);
    of.value = node->attrs[i];
    PyObject *value = attribute_object(&of);
    if (!value || PyDict_SetItemString(made, of.name, value) != 0) Py_CLEAR(made);
    Py_XDECREF(value);
  }
  return made;
}

static PyObject *make_node(const tenon_graph_part_t *node) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(node->op, &info);
  PyObject *name = decode_text(node->name);
  PyObject *inputs = operands_of(node, &info);
  PyObject *attributes = attributes_of(node, &info);
  PyObject *outputs = numbers_of(node->outputs, node->output_count);
  if (name && inputs && outputs && attributes)
    return Py_BuildValue("NsNNN", name, info.name, inputs, outputs, attributes);
  Py_XDECREF(name);
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  Py_XDECREF(attributes);
  return NULL;
}

PyObject *graph_nodes(PyObject *self, PyObject *unused) {
  const tenon_graph_t *graph = graph_get(self);
  PyObject *list = PyList_New(0);
  (void)unused;
  for (int32_t i = 0, n = tenon_graph_node_count(graph); list && i < n; i++) {
    tenon_graph_part_t node = {.size = sizeof node};
    tenon_graph_node(graph, i, &node);
    if (!append_item(list, make_node(&node))) Py_CLEAR(list);
  }
  return list;
}

PyObject *graph_values(PyObject *self, PyObject *unused) {
  const tenon_graph_t *graph = graph_get(self);
  PyObject *list = PyList_New(0);
  tenon_graph_edge_t edge = {.size = sizeof edge};
  tenon_status_t status = TENON_OK;
  char *type;
  (void)unused;
  for (tenon_edge_t i = 0; list && (status = tenon_graph_edge(graph, i, &edge, &type)) == TENON_OK;
       i++) {
    PyObject *name = decode_text(edge.name);
    PyObject *text = decode_text(type);
    tenon_text_release(type);
    bool good =
        name && text &&
        append_item(list, Py_BuildValue("OOO", name, text, edge.constant ? Py_True : Py_False));
    Py_XDECREF(name);
    Py_XDECREF(text);
    if (!good) Py_CLEAR(list);
  }
  if (list && status != TENON_RANGE) {
    Py_DECREF(list);
    return raise_status(status);
  }
  return list;
}

static PyObject *ports_edges(const tenon_graph_t *graph, int32_t count,
                             tenon_status_t (*get)(const tenon_graph_t *, int32_t,
                                                   tenon_port_t *)) {
  PyObject *list = PyList_New(0);
  for (int32_t i = 0; list && i < count; i++) {
    tenon_port_t port = {.size = sizeof port};
    if (get(graph, i, &port) != TENON_OK || !append_item(list, PyLong_FromLong(port.edge)))
      Py_CLEAR(list);
  }
  return list;
}

PyObject *graph_ports(PyObject *self, PyObject *unused) {
  const tenon_graph_t *graph = graph_get(self);
  (void)unused;
  PyObject *inputs = ports_edges(graph, tenon_graph_input_count(graph), tenon_graph_input);
  PyObject *outputs = ports_edges(graph, tenon_graph_output_count(graph), tenon_graph_output);
  if (inputs && outputs) return Py_BuildValue("NN", inputs, outputs);
  Py_XDECREF(inputs);
  Py_XDECREF(outputs);
  return NULL;
}
