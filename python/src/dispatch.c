/* Queries of the dispatcher for tenon.dispatch: dispatch tables, registrations and keys. */
#include "dispatch.h"

#include "error.h"
#include "library.h"
#include "text.h"

/* Finds an operator by object or name. On success the caller holds libraries_lock and must release
 * it. */
static bool op_take(PyObject *object, const tenon_op_t **out_op) {
  PyObject *name =
      PyUnicode_Check(object) ? new_reference(object) : PyObject_GetAttrString(object, "name");
  PyObject *bytes = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8String(name) : NULL;
  if (bytes) lock_take(&libraries_lock);
  tenon_status_t status = bytes ? tenon_op_find(PyBytes_AsString(bytes), out_op) : TENON_INVALID;
  if (bytes && status != TENON_OK) lock_give(&libraries_lock);
  if (!bytes) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "expected an operator or its name (\"ns::name\"), found %R",
                 Py_TYPE(object));
  } else if (status != TENON_OK) {
    raise_status(status);
  }
  Py_XDECREF(name);
  Py_XDECREF(bytes);
  return bytes && status == TENON_OK;
}

static PyObject *operator_text(PyObject *object,
                               tenon_status_t (*tell)(const tenon_op_t *op, char **out_text)) {
  const tenon_op_t *op;
  char *text = NULL;
  if (!op_take(object, &op)) return NULL;
  tenon_status_t status = tell(op, &text);
  lock_give(&libraries_lock);
  return text_take(status, text);
}
static PyObject *table_of_op(PyObject *module, PyObject *object) {
  (void)module;
  return operator_text(object, tenon_op_table);
}
static PyObject *dump_of_op(PyObject *module, PyObject *object) {
  (void)module;
  return operator_text(object, tenon_op_dump);
}

static PyObject *registrations(PyObject *module, PyObject *arguments) {
  const char *key;
  char *text = NULL;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "s", &key)) return NULL;
  tenon_status_t status = tenon_registrations(key, &text);
  return text_take(status, text);
}

static PyObject *entry_of_op(PyObject *module, PyObject *arguments) {
  PyObject *object;
  const char *key;
  const tenon_op_t *op;
  tenon_slot_info_t info = {.size = sizeof info};
  (void)module;
  if (!PyArg_ParseTuple(arguments, "Os", &object, &key) || !op_take(object, &op)) return NULL;
  tenon_status_t status = tenon_op_slot(op, key, &info);
  PyObject *operator_text = NULL;
  if (status == TENON_OK)
    operator_text = Py_BuildValue("{s:s,s:z,s:z,s:z,s:N}", "rule", info.rule, "kernel", info.kernel,
                                  "library", info.library, "library_path", info.library_path,
                                  "is_missing", PyBool_FromLong(info.is_missing));
  lock_give(&libraries_lock);
  return status == TENON_OK ? operator_text : raise_status(status);
}

typedef int32_t (*ask_fn)(const tenon_op_t *op, const char *key);
static PyObject *answer_for_key(PyObject *arguments, ask_fn function) {
  PyObject *object;
  const char *key = NULL;
  const tenon_op_t *op;
  if (!PyArg_ParseTuple(arguments, "O|z", &object, &key) || !op_take(object, &op)) return NULL;
  const int32_t is_so = function(op, key);
  lock_give(&libraries_lock);
  return PyBool_FromLong(is_so);
}
static PyObject *has_kernel_for(PyObject *module, PyObject *arguments) {
  (void)module;
  return answer_for_key(arguments, tenon_op_has_kernel);
}
static PyObject *has_computed_kernel_for(PyObject *module, PyObject *arguments) {
  (void)module;
  return answer_for_key(arguments, tenon_op_has_computed_kernel);
}
static PyObject *is_fallthrough_for(PyObject *module, PyObject *arguments) {
  (void)module;
  return answer_for_key(arguments, tenon_op_is_fallthrough);
}

static PyObject *check_op(PyObject *module, PyObject *object) {
  const tenon_op_t *op;
  (void)module;
  if (!op_take(object, &op)) return NULL;
  tenon_status_t status = tenon_op_check(op);
  lock_give(&libraries_lock);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *list_keys(PyObject *module, PyObject *unused) {
  PyObject *list = PyList_New(0);
  (void)module;
  (void)unused;
  for (int32_t i = 0; list && i < 64; i++) {
    const char *name = tenon_key_name(i);
    PyObject *text = name ? PyUnicode_FromString(name) : NULL;
    if (name && (!text || PyList_Append(list, text) != 0)) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  return list;
}

static PyMethodDef functions[] = {
    {"op_table", table_of_op, METH_O,
     "table(op)\n--\n\nReturns the dispatch table of an operator as text: a line for each backend "
     "and layer with how the entry was resolved, its kernels, and where they were registered."},
    {"op_dump", dump_of_op, METH_O,
     "dump(op)\n--\n\nReturns all registrations of an operator as text, the newest first."},
    {"registrations", registrations, METH_VARARGS,
     "registrations(key)\n--\n\nReturns a line for each kernel of any operator that is registered "
     "for exactly this key."},
    {"op_slot", entry_of_op, METH_VARARGS,
     "slot(op, key)\n--\n\nReturns the table entry for a key (\"cpu\", \"opencl\", \"autograd "
     "cpu\") as a dictionary: rule, kernel, library, library_path, is_missing."},
    {"op_has_kernel", has_kernel_for, METH_VARARGS,
     "has_kernel(op, key=None)\n--\n\nWhether a kernel that this processor can run is registered "
     "for exactly this key; None: for any key."},
    {"op_has_computed_kernel", has_computed_kernel_for, METH_VARARGS,
     "has_computed_kernel(op, key)\n--\n\nWhether a call with this key would find a kernel, in any "
     "step of the resolution order."},
    {"op_is_fallthrough", is_fallthrough_for, METH_VARARGS,
     "is_fallthrough(op, key)\n--\n\nWhether calls skip this key."},
    {"op_check", check_op, METH_O,
     "check(op)\n--\n\nComputes the dispatch table again from the registrations, and raises if it "
     "differs from the current table."},
    {"keys", list_keys, METH_NOARGS,
     "keys()\n--\n\nReturns the names of the dispatch keys, from the lowest to the highest "
     "precedence."},
    {NULL, NULL, 0, NULL}};

bool dispatch_add(PyObject *module) { return PyModule_AddFunctions(module, functions) == 0; }
