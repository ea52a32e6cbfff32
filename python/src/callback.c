/* Python functions that Tenon calls. They receive copies of tensors, since they may keep them while
 * the tensors of a call are borrowed. The copies are NumPy arrays if the program has imported
 * NumPy. */
#include "callback.h"

#include "attribute.h"
#include "error.h"
#include "numpy.h"
#include "unlocked.h"

callback_lock_t callback_begin(void) {
  const PyGILState_STATE state = PyGILState_Ensure();
  return (callback_lock_t){state, state == PyGILState_LOCKED || unlocked_is_open()};
}

void callback_end(callback_lock_t *lock) {
  if (!lock->is_pythons) PyErr_Clear();
  PyGILState_Release(lock->state);
}

PyObject *callback_copy(const tenon_tensor_t *tensor) {
  tenon_tensor_t *copy = NULL;
  if (!tensor) Py_RETURN_NONE;
  if (tenon_dtype_id(tensor->dtype) == TENON_LIST) {
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < tensor->shape[0]; i++) {
      PyObject *item = callback_copy(((tenon_tensor_t **)tensor->data)[i]);
      if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
      Py_XDECREF(item);
    }
    return list;
  }
  tenon_status_t status = tenon_tensor_copy(tensor, &copy);
  return status == TENON_OK ? numpy_of(copy) : raise_status(status);
}

static bool append_argument(callback_arguments_t *given, const tenon_argument_t *of,
                            PyObject *object) {
  bool good = object && (of->is_keyword ? PyDict_SetItemString(given->named, of->name, object)
                                        : PyList_Append(given->positional, object)) == 0;
  Py_XDECREF(object);
  return good;
}

void callback_drop(callback_arguments_t *given) {
  Py_CLEAR(given->positional);
  Py_CLEAR(given->named);
}

bool callback_arguments(const tenon_op_t *op, const tenon_value_t *attrs,
                        PyObject *(*input)(const void *call, int32_t i), const void *call,
                        callback_arguments_t *given) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  const uint32_t count = (uint32_t)(info.input_count + info.attr_count);
  given->positional = PyList_New(0);
  given->named = PyDict_New();
  if (!given->positional || !given->named) {
    callback_drop(given);
    return false;
  }
  for (uint32_t position = 0; position < count; position++)
    for (uint32_t role = 0; role < 2; role++)
      for (int32_t i = 0; i < (role ? info.attr_count : info.input_count); i++) {
        tenon_argument_t of = {.size = sizeof of};
        if (tenon_op_argument(op, role, i, &of) != TENON_OK || of.place != position) continue;
        if (role) of.value = attrs[i];
        if (!append_argument(given, &of, role ? attribute_object(&of) : input(call, i))) {
          callback_drop(given);
          return false;
        }
      }
  return true;
}

PyObject *callback_call(PyObject *function, callback_arguments_t *given) {
  PyObject *tuple = PySequence_Tuple(given->positional);
  PyObject *result = tuple ? PyObject_Call(function, tuple, given->named) : NULL;
  Py_XDECREF(tuple);
  callback_drop(given);
  return result;
}

tenon_status_t callback_failed(const tenon_host_t *host, const void *call, const char *op,
                               const char *what) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  const char *message = bytes ? PyBytes_AsString(bytes) : "an exception without a message";
  tenon_status_t status;
  /* For a call, the host adds the name of the operator. */
  if (call)
    status = host->fail(call, TENON_UNKNOWN, "its %s in Python raised: %s", what, message);
  else
    status = host->fail(call, TENON_UNKNOWN, "%s: its %s in Python raised: %s", op, what, message);
  Py_XDECREF(text);
  Py_XDECREF(bytes);
  PyErr_Clear();
  PyErr_Restore(type, value, trace);
  return status;
}

void callback_release(void *callable) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)callable);
  PyGILState_Release(state);
}
