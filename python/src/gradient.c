/* Gradients that are Python functions. For each of them a kernel for the layer `autograd` adds a
 * call to Tenon's tape, with the function as its backward step. The function receives copies of
 * what its parameters name. */
#include "gradient.h"

#include <stdlib.h>
#include <string.h>

#include "argument.h"
#include "attribute.h"
#include "callback.h"
#include "error.h"
#include "library.h"
#include "registration.h"

typedef enum source_t {
  SOURCE_GRAD,
  SOURCE_INPUT,
  SOURCE_OUTPUT,
  SOURCE_ATTR,
} source_t;
typedef struct parameter_t {
  source_t source;
  int32_t index;
  PyObject *name;
} parameter_t;
/* the gradient of an operator; shared by the registration and by each call on the tape */
typedef struct gradient_t {
  _Atomic int64_t references;
  const tenon_op_t *op;
  char *name;
  PyObject *function;
  int32_t input_count;
  int32_t output_count;
  int32_t count;
  bool is_pointwise;
  parameter_t parameters[];
} gradient_t;
typedef struct taped_call_t { /* one call on the tape */
  gradient_t *gradient;
  const tenon_host_t *host;
  const tenon_value_t *attrs; /* valid only while the call runs forward */
  PyObject **objects;         /* the values of attribute parameters; NULL for other parameters */
  int64_t *extents; /* for a pointwise operator: ndim and extents of each input; else NULL */
} taped_call_t;

/* The caller holds the interpreter lock. */
static void gradient_drop(gradient_t *gradient) {
  if (--gradient->references > 0) return;
  for (int32_t i = 0; i < gradient->count; i++)
    Py_XDECREF(gradient->parameters[i].name);
  Py_XDECREF(gradient->function);
  free(gradient->name);
  free(gradient);
}

static void gradient_release(void *context) {
  if (!Py_IsInitialized()) return;
  callback_lock_t lock = callback_begin();
  gradient_drop((gradient_t *)context);
  callback_end(&lock);
}

static void taped_call_release(void *context) {
  taped_call_t *taped = (taped_call_t *)context;
  if (!Py_IsInitialized()) return;
  callback_lock_t lock = callback_begin();
  for (int32_t i = 0; i < taped->gradient->count; i++)
    Py_XDECREF(taped->objects[i]);
  gradient_drop(taped->gradient);
  free(taped->objects);
  free(taped->extents);
  free(taped);
  callback_end(&lock);
}

static int64_t *extents_of(const tenon_call_t *call, int32_t count) {
  size_t room = (size_t)count;
  for (int32_t i = 0; i < count; i++)
    room += call->inputs[i] ? (size_t)call->inputs[i]->ndim : 0;
  int64_t *extents = (int64_t *)calloc(room, sizeof *extents);
  int64_t *at = extents;
  for (int32_t i = 0; i < count && extents; i++) {
    const tenon_tensor_t *t = call->inputs[i];
    *at++ = t ? t->ndim : 0;
    for (int32_t d = 0; t && d < t->ndim; d++)
      *at++ = t->shape[d];
  }
  return extents;
}

static taped_call_t *taped_call_new(const tenon_call_t *call) {
  gradient_t *gradient = (gradient_t *)call->context;
  taped_call_t *taped = (taped_call_t *)calloc(1, sizeof *taped);
  PyObject **objects = (PyObject **)calloc((size_t)gradient->count + 1, sizeof *objects);
  int64_t *extents = gradient->is_pointwise ? extents_of(call, gradient->input_count) : NULL;
  if (!taped || !objects || (gradient->is_pointwise && !extents)) {
    free(taped);
    free(objects);
    free(extents);
    PyErr_NoMemory();
    return NULL;
  }
  *taped = (taped_call_t){gradient, call->host, call->attrs, objects, extents};
  gradient->references++;
  for (int32_t i = 0; i < gradient->count; i++) {
    tenon_argument_t of = {.size = sizeof of};
    if (gradient->parameters[i].source != SOURCE_ATTR) continue;
    (void)tenon_op_argument(gradient->op, TENON_ARGUMENT_ATTR, gradient->parameters[i].index, &of);
    of.value = call->attrs[gradient->parameters[i].index];
    if (!(objects[i] = attribute_object(&of))) {
      taped_call_release(taped);
      return NULL;
    }
  }
  return taped;
}

/* Autograd is off here: the operator's own kernel runs. */
static tenon_status_t forward_by_kernel(tenon_function_call_t *call) {
  const taped_call_t *taped = (const taped_call_t *)call->context;
  const gradient_t *gradient = taped->gradient;
  tenon_status_t status = tenon_op_call(gradient->op, taped->attrs, call->inputs, call->outputs, 0);
  for (int32_t i = 0; i < gradient->count && status == TENON_OK; i++) {
    const parameter_t *parameter = &gradient->parameters[i];
    if (parameter->source == SOURCE_INPUT)
      status = tenon_function_save(call, call->inputs[parameter->index]);
    if (parameter->source == SOURCE_OUTPUT)
      status = tenon_function_save(call, call->outputs[parameter->index]);
  }
  return status;
}

/* Returns the arguments of the function by parameter name. */
static PyObject *named_of(tenon_function_call_t *call, const taped_call_t *taped) {
  const gradient_t *gradient = taped->gradient;
  PyObject *named = PyDict_New();
  int32_t saved = 0;
  for (int32_t i = 0; i < gradient->count && named; i++) {
    const parameter_t *parameter = &gradient->parameters[i];
    PyObject *object = taped->objects[i];
    tenon_tensor_t *tensor = NULL;
    tenon_status_t status = TENON_OK;
    if (parameter->source == SOURCE_ATTR)
      Py_INCREF(object);
    else if (parameter->source == SOURCE_GRAD)
      object = callback_copy(call->grads[parameter->index]);
    else if ((status = tenon_function_saved(call, saved++, &tensor)) == TENON_OK)
      object = callback_copy(tensor);
    if (status != TENON_OK) raise_status(status);
    tenon_tensor_release(tensor);
    if (!object || PyDict_SetItem(named, parameter->name, object) != 0) Py_CLEAR(named);
    Py_XDECREF(object);
  }
  return named;
}

/* The host broadcasts the inputs of a pointwise operator, so their gradients are summed to the
 * shape of the input. A gradient whose shape does not fit is only copied; the autograd engine then
 * reports it. */
static tenon_status_t grad_copy(const tenon_tensor_t *grad, const int64_t *input,
                                tenon_tensor_t **out) {
  const tenon_op_t *op;
  tenon_tensor_t *shape;
  int64_t ndim = input ? *input++ : 0;
  int64_t lead = grad->ndim - ndim;
  bool differs = input && lead != 0;
  bool broadcasts = input && lead >= 0;
  for (int64_t d = 0; d < ndim && broadcasts; d++) {
    differs = differs || input[d] != grad->shape[lead + d];
    broadcasts = input[d] == 1 || input[d] == grad->shape[lead + d];
  }
  if (!differs || !broadcasts) return tenon_tensor_copy(grad, out);
  tenon_status_t status = tenon_op_find("core::sum_to", &op);
  if (status == TENON_OK)
    status = tenon_tensor_borrow((void *)input, tenon_dtype(TENON_I64), 1, &ndim, NULL, NULL, NULL,
                                 &shape);
  if (status != TENON_OK) return status;
  status = tenon_op_call(op, NULL, (tenon_tensor_t *[]){(tenon_tensor_t *)grad, shape}, out, 0);
  tenon_tensor_release(shape);
  return status;
}

static bool grad_set(tenon_function_call_t *call, const taped_call_t *taped, int32_t i,
                     PyObject *object) {
  const gradient_t *gradient = taped->gradient;
  const int64_t *input = taped->extents;
  argument_t argument = {.tensor = NULL};
  origin_t origin = {FAMILY_UNKNOWN, NULL, NULL};
  if (object == Py_None) return true;
  if (!argument_set(&argument, object, 0, call->grads[0], gradient->name, "gradient", &origin))
    return false;
  for (int32_t k = 0; k < i && input; k++)
    input += 1 + *input;
  tenon_status_t status = grad_copy(argument.tensor, input, &call->out_grads[i]);
  argument_release(&argument);
  return status == TENON_OK || raise_status(status);
}

static bool grads_set(tenon_function_call_t *call, const taped_call_t *taped, PyObject *result) {
  const gradient_t *gradient = taped->gradient;
  if (gradient->input_count == 1 && !PyTuple_Check(result)) return grad_set(call, taped, 0, result);
  if (!PyTuple_Check(result) || PyTuple_Size(result) != gradient->input_count) {
    PyErr_Format(PyExc_TypeError,
                 "%s: its gradient function returned %R: expected a tuple of %d, with an array or "
                 "None for each input",
                 gradient->name, Py_TYPE(result), (int)gradient->input_count);
    return false;
  }
  for (int32_t i = 0; i < gradient->input_count; i++)
    if (!grad_set(call, taped, i, PyTuple_GetItem(result, i))) return false;
  return true;
}

static tenon_status_t backward_by_function(tenon_function_call_t *call) {
  const taped_call_t *taped = (const taped_call_t *)call->context;
  callback_lock_t lock = callback_begin();
  PyObject *named = named_of(call, taped);
  PyObject *none = PyTuple_New(0);
  PyObject *result = named && none ? PyObject_Call(taped->gradient->function, none, named) : NULL;
  bool good = result && grads_set(call, taped, result);
  tenon_status_t status =
      good ? TENON_OK : callback_failed(taped->host, NULL, taped->gradient->name, "gradient");
  Py_XDECREF(result);
  Py_XDECREF(named);
  Py_XDECREF(none);
  callback_end(&lock);
  return status;
}

static tenon_status_t run_taped(tenon_call_t *call) {
  const gradient_t *gradient = (const gradient_t *)call->context;
  tenon_tensor_t *outputs[TENON_RANK_MAX] = {NULL};
  callback_lock_t lock = callback_begin();
  taped_call_t *taped = taped_call_new(call);
  tenon_status_t status =
      taped ? TENON_OK : callback_failed(call->host, call, gradient->name, "gradient");
  callback_end(&lock);
  if (status != TENON_OK) return status;
  const tenon_function_t function = {sizeof function,      gradient->name, forward_by_kernel,
                                     backward_by_function, taped,          taped_call_release};
  status = tenon_function_call(&function, call->inputs, gradient->input_count, outputs,
                               gradient->output_count);
  for (int32_t o = 0; o < gradient->output_count && status == TENON_OK; o++)
    if (call->outputs[o]) status = call->host->assign(call, (uint32_t)o, outputs[o]);
  for (int32_t o = 0; o < gradient->output_count; o++)
    tenon_tensor_release(outputs[o]);
  return status;
}

/* Finds the input, result, attribute or gradient that a parameter name stands for: "grad" is the
 * gradient of the only result, "grad_NAME" of one of several results. */
static bool find_parameter(const gradient_t *gradient, const tenon_op_info_t *info,
                           const char *name, parameter_t *out) {
  static const source_t sources[] = {SOURCE_INPUT, SOURCE_ATTR, SOURCE_OUTPUT};
  const uint32_t roles[] = {TENON_ARGUMENT_INPUT, TENON_ARGUMENT_ATTR, TENON_ARGUMENT_OUTPUT};
  const int32_t counts[] = {info->input_count, info->attr_count, info->output_count};
  for (int r = 0; r < 3; r++)
    for (int32_t i = 0; i < counts[r]; i++) {
      tenon_argument_t of = {.size = sizeof of};
      if (tenon_op_argument(gradient->op, roles[r], i, &of) != TENON_OK) continue;
      if (strcmp(of.name, name) == 0) {
        out->source = sources[r];
        out->index = i;
        return true;
      }
      if (r == 2 && strncmp(name, "grad_", 5) == 0 && strcmp(of.name, name + 5) == 0) {
        out->source = SOURCE_GRAD;
        out->index = i;
        return true;
      }
    }
  out->source = SOURCE_GRAD;
  out->index = 0;
  return strcmp(name, "grad") == 0 && info->output_count == 1;
}

/* Gradient functions support neither lists of tensors nor arguments that are written to. */
static bool is_simple(const tenon_op_t *op, const tenon_op_info_t *info) {
  bool simple =
      info->input_count > 0 && info->output_count > 0 && info->output_count <= TENON_RANK_MAX;
  for (int r = 0; r < 2; r++)
    for (int32_t i = 0; i < (r ? info->output_count : info->input_count); i++) {
      tenon_argument_t of = {.size = sizeof of};
      (void)tenon_op_argument(op, r ? TENON_ARGUMENT_OUTPUT : TENON_ARGUMENT_INPUT, i, &of);
      simple = simple && of.kind == TENON_KIND_TENSOR && !of.is_written && !of.mark;
    }
  if (!simple)
    raise_invalid("%s: tenon.gradient supports only operators whose inputs and results are single "
                  "tensors that are not written to",
                  info->name);
  return simple;
}

static bool parameters_set(gradient_t *gradient, const tenon_op_info_t *info, PyObject *names) {
  for (; gradient->count < (int32_t)PyTuple_Size(names); gradient->count++) {
    PyObject *name = PyTuple_GetItem(names, gradient->count);
    PyObject *bytes = PyUnicode_AsUTF8String(name);
    parameter_t *parameter = &gradient->parameters[gradient->count];
    bool good = bytes && find_parameter(gradient, info, PyBytes_AsString(bytes), parameter);
    Py_XDECREF(bytes);
    if (!good) {
      if (!PyErr_Occurred())
        raise_invalid("%s: its gradient function has a parameter %R: expected grad (grad_NAME for "
                      "one of several results), or the name of an input, an attribute or a result",
                      info->name, name);
      return false;
    }
    Py_INCREF(parameter->name = name);
  }
  return true;
}

static PyObject *register_gradient(const char *name, PyObject *function, PyObject *names,
                                   bool override) {
  const tenon_op_t *op;
  tenon_op_info_t info = {.size = sizeof info};
  tenon_registration_t *registration = NULL;
  tenon_status_t status = tenon_op_find(name, &op);
  if (status != TENON_OK) return raise_status(status);
  tenon_op_info(op, &info);
  if (!is_simple(op, &info)) return NULL;
  gradient_t *gradient = (gradient_t *)calloc(
      1, sizeof *gradient + (size_t)PyTuple_Size(names) * sizeof *gradient->parameters);
  if (!gradient) return PyErr_NoMemory();
  *gradient = (gradient_t){.references = 1,
                           .op = op,
                           .input_count = info.input_count,
                           .output_count = info.output_count};
  gradient->is_pointwise = info.traits & TENON_POINTWISE;
  Py_INCREF(gradient->function = function);
  if (!(gradient->name = strdup(info.name))) {
    gradient_drop(gradient);
    return PyErr_NoMemory();
  }
  if (!parameters_set(gradient, &info, names)) {
    gradient_drop(gradient);
    return NULL;
  }
  status = tenon_kernel_add(info.name, "autograd", run_taped, gradient, gradient_release,
                            override ? TENON_OVERRIDE : 0, &registration);
  if (status == TENON_OK) return registration_new(registration);
  gradient_drop(gradient);
  return raise_status(status);
}

static PyObject *gradient_add(PyObject *module, PyObject *arguments) {
  const char *name;
  int override;
  PyObject *function, *names;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "sOO!p", &name, &function, &PyTuple_Type, &names, &override))
    return NULL;
  lock_take(&libraries_lock);
  PyObject *registration = register_gradient(name, function, names, override);
  lock_give(&libraries_lock);
  return registration;
}

static PyMethodDef module_functions[] = {{"gradient_add", gradient_add, METH_VARARGS, NULL},
                                         {NULL, NULL, 0, NULL}};
bool gradients_add(PyObject *module) {
  return PyModule_AddFunctions(module, module_functions) == 0;
}
