/* Operators and kernels that are Python functions. The values that a kernel returns are copied into
 * the results. */
#include "define.h"

#include <string.h>

#include "argument.h"
#include "callback.h"
#include "error.h"
#include "meta.h"
#include "registration.h"
#include "shape.h"

static PyObject *input_of(const void *call, int32_t i) {
  return callback_copy(((const tenon_call_t *)call)->inputs[i]);
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

static tenon_status_t run_function(tenon_call_t *call, bool is_defined) {
  callback_lock_t lock = callback_begin();
  PyObject *context = (PyObject *)call->context;
  PyObject *meta = is_defined ? PySequence_GetItem(context, CALLBACK_META) : NULL;
  PyObject *function =
      is_defined ? PySequence_GetItem(context, CALLBACK_KERNEL) : new_reference(context);
  const bool is_open = is_defined && meta != Py_None;
  tenon_op_info_t info = {.size = sizeof info};
  callback_arguments_t given;
  tenon_op_info(call->op, &info);
  bool good = function && callback_arguments(call->op, call->attrs, input_of, call, &given);
  PyObject *result = good ? callback_call(function, &given) : NULL;
  good = result && results_set(call, &info, is_open, result);
  tenon_status_t status = good ? TENON_OK : callback_failed(call->host, call, info.name, "kernel");
  Py_XDECREF(result);
  Py_XDECREF(function);
  Py_XDECREF(meta);
  callback_end(&lock);
  return status;
}

static tenon_status_t run_kernel(tenon_call_t *call) { return run_function(call, false); }
static tenon_status_t run_defined_kernel(tenon_call_t *call) { return run_function(call, true); }

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
  if (PyList_Size(module_functions) != CALLBACK_COUNT)
    return raise_invalid("%s: expected a list of %d functions", texts[0], CALLBACK_COUNT);
  for (size_t i = 0; i < TEXTS; i++)
    if (texts[i]) items[count++] = (tenon_item_t){tags[i], 0, 0, texts[i], NULL};
  items[count++] = (tenon_item_t){TENON_TAG_TRAITS, 0, traits, NULL, NULL};
  items[count++] = (tenon_item_t){TENON_TAG_KERNEL, 0, 0, "cpu", (tenon_any_fn)run_defined_kernel};
  if (infers)
    items[count++] = (tenon_item_t){TENON_TAG_INFER, 0, 0, NULL, (tenon_any_fn)meta_infer};
  items[count++] = (tenon_item_t){TENON_TAG_END, 0, 0, NULL, NULL};
  tenon_status_t status = tenon_op_add(items, module_functions, callback_release, 0, &registration);
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
  tenon_status_t status = tenon_kernel_add(op, where, run_kernel, callable, callback_release,
                                           override ? TENON_OVERRIDE : 0, &registration);
  if (status != TENON_OK) return raise_status(status);
  Py_INCREF(callable);
  return registration_new(registration);
}

static PyMethodDef module_functions[] = {{"op_add", op_add, METH_VARARGS, NULL},
                                         {"kernel_add", kernel_add, METH_VARARGS, NULL},
                                         {NULL, NULL, 0, NULL}};

bool definitions_add(PyObject *module) {
  return PyModule_AddFunctions(module, module_functions) == 0;
}
