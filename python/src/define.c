/* Operators and kernels that are Python functions. A kernel receives copies of its tensors, since
 * it may keep them while the tensors of a call are borrowed; the copies are NumPy arrays if the
 * program has imported NumPy. The values that it returns are copied into the results. */
#include "part.h"

#include <stdatomic.h>
#include <string.h>

PyObject *part_copy(const tenon_tensor_t *tensor) {
  tenon_tensor_t *copy = NULL;
  if (!tensor) Py_RETURN_NONE;
  if (tenon_dtype_id(tensor->dtype) == TENON_LIST) {
    PyObject *list = PyList_New(0);
    for (int64_t i = 0; list && i < tensor->shape[0]; i++) {
      PyObject *item = part_copy(((tenon_tensor_t **)tensor->data)[i]);
      if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
      Py_XDECREF(item);
    }
    return list;
  }
  tenon_status_t status = tenon_tensor_copy(tensor, &copy);
  return status == TENON_OK ? numpy_of(copy) : raise_status(status);
}

static bool append_argument(part_arguments_t *given, const tenon_argument_t *of, PyObject *object) {
  bool good = object && (of->is_keyword ? PyDict_SetItemString(given->named, of->name, object)
                                        : PyList_Append(given->positional, object)) == 0;
  Py_XDECREF(object);
  return good;
}

void part_drop(part_arguments_t *given) {
  Py_CLEAR(given->positional);
  Py_CLEAR(given->named);
}

bool part_arguments(const tenon_op_t *op, const tenon_value_t *attrs,
                    PyObject *(*input)(const void *call, int32_t i), const void *call,
                    part_arguments_t *given) {
  tenon_op_info_t info = {.size = sizeof info};
  tenon_op_info(op, &info);
  const uint32_t count = (uint32_t)(info.input_count + info.attr_count);
  given->positional = PyList_New(0);
  given->named = PyDict_New();
  if (!given->positional || !given->named) {
    part_drop(given);
    return false;
  }
  for (uint32_t position = 0; position < count; position++)
    for (uint32_t role = 0; role < 2; role++)
      for (int32_t i = 0; i < (role ? info.attr_count : info.input_count); i++) {
        tenon_argument_t of = {.size = sizeof of};
        if (tenon_op_argument(op, role, i, &of) != TENON_OK || of.place != position) continue;
        if (role) of.value = attrs[i];
        if (!append_argument(given, &of, role ? attribute_object(&of) : input(call, i))) {
          part_drop(given);
          return false;
        }
      }
  return true;
}

PyObject *part_call(PyObject *function, part_arguments_t *given) {
  PyObject *tuple = PySequence_Tuple(given->positional);
  PyObject *result = tuple ? PyObject_Call(function, tuple, given->named) : NULL;
  Py_XDECREF(tuple);
  part_drop(given);
  return result;
}

static PyObject *input_of(const void *call, int32_t i) {
  return part_copy(((const tenon_call_t *)call)->inputs[i]);
}

static bool same_shape(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  return tenon_dtype_id(a->dtype) == tenon_dtype_id(b->dtype) && a->ndim == b->ndim &&
         (!a->ndim || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0);
}

static void raise_result(const char *op, int32_t o, bool is_open, const tenon_tensor_t *given,
                         const tenon_tensor_t *expected) {
  PyObject *shape = tuple_of(given->shape, given->ndim);
  PyObject *stated = is_open ? PyUnicode_FromString("one that tenon.meta allows")
                             : tuple_of(expected->shape, expected->ndim);
  if (shape && stated)
    raise_invalid("%s: its kernel returned a tensor of dtype %s and shape %S as result %d: "
                  "expected dtype %s and shape %S",
                  op, tenon_dtype_name(given->dtype), shape, (int)o,
                  tenon_dtype_name(expected->dtype), stated);
  Py_XDECREF(shape);
  Py_XDECREF(stated);
}

static bool result_set(tenon_call_t *call, const char *op, int32_t o, bool is_open,
                       PyObject *object) {
  tenon_tensor_t *out = call->outputs[o];
  tenon_tensor_t *dense = NULL;
  argument_t argument = {.tensor = NULL};
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  if (!out) return true; /* The result was not requested. */
  if (!argument_set(&argument, object, 0, out, op, "result", &origin)) return false;
  const tenon_tensor_t *given = argument.tensor;
  bool good = same_shape(given, out);
  if (!good && is_open && tenon_dtype_id(given->dtype) == tenon_dtype_id(out->dtype))
    good = call->host->resize(call, (uint32_t)o, given->ndim, given->shape) == TENON_OK;
  if (!good) raise_result(op, o, is_open, given, out);
  tenon_status_t status = good ? tenon_tensor_copy(argument.tensor, &dense) : TENON_OK;
  if (status != TENON_OK) good = raise_status(status) != NULL;
  if (good) memcpy(out->data, dense->data, (size_t)tenon_count(out) * (out->dtype.bits / 8));
  tenon_tensor_release(dense);
  argument_release(&argument);
  return good;
}

/* is_open: the result may have extents that are known only when the kernel runs. */
static bool results_set(tenon_call_t *call, const tenon_op_info_t *info, bool is_open,
                        PyObject *result) {
  if (info->output_count == 1) return result_set(call, info->name, 0, is_open, result);
  if (info->output_count == 0) return true;
  if (!PyTuple_Check(result) || PyTuple_Size(result) != info->output_count) {
    PyErr_Format(PyExc_TypeError, "%s: its kernel returned %R: expected a tuple of %d tensors",
                 info->name, Py_TYPE(result), (int)info->output_count);
    return false;
  }
  for (int32_t o = 0; o < info->output_count; o++)
    if (!result_set(call, info->name, o, is_open, PyTuple_GetItem(result, o))) return false;
  return true;
}

tenon_status_t part_failed(const tenon_host_t *host, const void *call, const char *op,
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

void part_end(part_lock_t *lock) {
  if (!lock->is_pythons) PyErr_Clear();
  PyGILState_Release(lock->state);
}

part_lock_t part_begin(void) {
  const bool is_pythons = PyGILState_GetThisThreadState() != NULL;
  return (part_lock_t){PyGILState_Ensure(), is_pythons};
}

static tenon_status_t run_function(tenon_call_t *call, bool is_defined) {
  part_lock_t lock = part_begin();
  PyObject *context = (PyObject *)call->context;
  PyObject *meta = is_defined ? PySequence_GetItem(context, PART_META) : NULL;
  PyObject *function =
      is_defined ? PySequence_GetItem(context, PART_KERNEL) : new_reference(context);
  const bool is_open = is_defined && meta != Py_None;
  tenon_op_info_t info = {.size = sizeof info};
  part_arguments_t given;
  tenon_op_info(call->op, &info);
  bool good = function && part_arguments(call->op, call->attrs, input_of, call, &given);
  PyObject *result = good ? part_call(function, &given) : NULL;
  good = result && results_set(call, &info, is_open, result);
  tenon_status_t status = good ? TENON_OK : part_failed(call->host, call, info.name, "kernel");
  Py_XDECREF(result);
  Py_XDECREF(function);
  Py_XDECREF(meta);
  part_end(&lock);
  return status;
}

static tenon_status_t run_kernel(tenon_call_t *call) { return run_function(call, false); }
static tenon_status_t run_defined_kernel(tenon_call_t *call) { return run_function(call, true); }

void part_release(void *callable) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)callable);
  PyGILState_Release(state);
}

typedef struct registration_t {
  PyObject_HEAD tenon_registration_t *_Atomic registration; /* NULL after undo */
} registration_t;
static PyTypeObject *registration_type;

PyObject *registration_new(tenon_registration_t *registration) {
  registration_t *self = PyObject_New(registration_t, registration_type);
  if (!self) return NULL; /* The registration stays in effect. */
  self->registration = registration;
  return (PyObject *)self;
}

/* The registration stays in effect. */
static void registration_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *registration_undo(PyObject *object, PyObject *unused) {
  tenon_registration_t *registration =
      atomic_exchange(&((registration_t *)object)->registration, NULL);
  (void)unused;
  Py_BEGIN_ALLOW_THREADS if (registration) tenon_registration_release(registration);
  Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *op_add(PyObject *module, PyObject *arguments) {
  static const uint32_t tags[] = {TENON_TAG_OP,     TENON_TAG_DOC,      TENON_TAG_TYPES,
                                  TENON_TAG_SHAPES, TENON_TAG_GRADIENT, TENON_TAG_BATCHING};
  enum { TEXTS = sizeof tags / sizeof *tags };
  const char *texts[TEXTS];
  long long traits;
  int infers;
  PyObject *module_functions;
  tenon_item_t items[TEXTS + 4];
  tenon_registration_t *registration = NULL;
  size_t count = 0;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "szzzzzLpO!", &texts[0], &texts[1], &texts[2], &texts[3],
                        &texts[4], &texts[5], &traits, &infers, &PyList_Type, &module_functions))
    return NULL;
  if (PyList_Size(module_functions) != PART_COUNT)
    return raise_invalid("%s: expected a list of %d functions", texts[0], PART_COUNT);
  for (size_t i = 0; i < TEXTS; i++)
    if (texts[i]) items[count++] = (tenon_item_t){tags[i], 0, 0, texts[i], NULL};
  items[count++] = (tenon_item_t){TENON_TAG_TRAITS, 0, traits, NULL, NULL};
  items[count++] = (tenon_item_t){TENON_TAG_KERNEL, 0, 0, "cpu", (tenon_any_fn)run_defined_kernel};
  if (infers)
    items[count++] = (tenon_item_t){TENON_TAG_INFER, 0, 0, NULL, (tenon_any_fn)meta_infer};
  items[count++] = (tenon_item_t){TENON_TAG_END, 0, 0, NULL, NULL};
  tenon_status_t status = tenon_op_add(items, module_functions, part_release, 0, &registration);
  if (status != TENON_OK) return raise_status(status);
  Py_INCREF(module_functions);
  return registration_new(registration);
}

static PyObject *kernel_add(PyObject *module, PyObject *arguments) {
  const char *op, *where;
  int override;
  PyObject *callable;
  tenon_registration_t *registration = NULL;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "ssOp", &op, &where, &callable, &override)) return NULL;
  tenon_status_t status = tenon_kernel_add(op, where, run_kernel, callable, part_release,
                                           override ? TENON_OVERRIDE : 0, &registration);
  if (status != TENON_OK) return raise_status(status);
  Py_INCREF(callable);
  return registration_new(registration);
}

static PyMethodDef module_functions[] = {{"op_add", op_add, METH_VARARGS, NULL},
                                         {"kernel_add", kernel_add, METH_VARARGS, NULL},
                                         {NULL, NULL, 0, NULL}};
static PyMethodDef methods[] = {{"undo", registration_undo, METH_NOARGS,
                                 "undo()\n--\n\nRemoves the operator, kernel or gradient again."},
                                {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)registration_delete},
                              {Py_tp_new, (void *)refuse_new},
                              {Py_tp_methods, methods},
                              {0, NULL}};
static PyType_Spec spec = {"tenon._core.Registration", sizeof(registration_t), 0,
                           Py_TPFLAGS_DEFAULT, slots};

bool definitions_add(PyObject *module) {
  registration_type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!registration_type) return false;
  Py_INCREF(registration_type);
  return PyModule_AddObject(module, "Registration", (PyObject *)registration_type) == 0 &&
         PyModule_AddFunctions(module, module_functions) == 0 && metas_add(module) &&
         gradients_add(module);
}
