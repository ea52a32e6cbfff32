/* Failure dumps (docs/debugging.md): reading saved calls and repeating them, and the process-wide
 * switches for debugging. A failure dump is a capsule here; the class around it is tenon.Recording,
 * written in Python. */
#include "dump.h"

#include <stdlib.h>

#include "error.h"
#include "tensor.h"
#include "unlocked.h"

static const char name[] = "tenon failure dump";

static void drop_dump(PyObject *capsule) {
  tenon_recording_release(PyCapsule_GetPointer(capsule, name));
}

static PyObject *load_dump(PyObject *module, PyObject *argument) {
  tenon_recording_t *dump = NULL;
  PyObject *path = NULL;
  (void)module;
  if (!PyUnicode_FSConverter(argument, &path)) return NULL;
  tenon_status_t status = tenon_recording_load(PyBytes_AsString(path), &dump);
  Py_DECREF(path);
  if (status != TENON_OK) return raise_status(status);
  PyObject *capsule = PyCapsule_New(dump, name, drop_dump);
  if (!capsule) tenon_recording_release(dump);
  return capsule;
}

/* The path of the library that the dump names, or None. */
static PyObject *library_of_dump(PyObject *module, PyObject *capsule) {
  tenon_recording_t *dump = PyCapsule_GetPointer(capsule, name);
  const char *path = NULL;
  (void)module;
  if (!dump) return NULL;
  tenon_status_t status = tenon_recording_library(dump, &path);
  if (status != TENON_OK) return raise_status(status);
  if (!path) Py_RETURN_NONE;
  return PyUnicode_DecodeFSDefault(path);
}

static PyObject *argument_of(tenon_tensor_t *tensor) {
  if (!tensor) Py_RETURN_NONE;
  if (tenon_dtype_id(tensor->dtype) != TENON_LIST) {
    tenon_tensor_retain(tensor);
    return tensor_new(tensor);
  }
  PyObject *items = PyList_New(0);
  for (int64_t i = 0; items && i < tensor->shape[0]; i++) {
    PyObject *item = argument_of(tenon_item(tensor, i));
    if (!item || PyList_Append(items, item) != 0) Py_CLEAR(items);
    Py_XDECREF(item);
  }
  return items;
}

static PyObject *tensors_of(tenon_tensor_t *const *tensors, int32_t count) {
  PyObject *tuple = PyTuple_New(tensors ? count : 0);
  for (int32_t i = 0; tuple && tensors && i < count; i++) {
    PyObject *item = argument_of(tensors[i]);
    if (!item || PyTuple_SetItem(tuple, i, item) != 0) Py_CLEAR(tuple);
  }
  return tuple;
}

static PyObject *attributes_of(const tenon_recording_info_t *info) {
  PyObject *attributes = PyDict_New();
  for (int32_t i = 0; attributes && i < info->attr_count; i++) {
    PyObject *text = Py_BuildValue("z", info->attr_texts[i]);
    if (!text || PyDict_SetItemString(attributes, info->attr_names[i], text) != 0)
      Py_CLEAR(attributes);
    Py_XDECREF(text);
  }
  return attributes;
}

/* Returns everything but the call itself, by name. */
static PyObject *members_of_dump(PyObject *module, PyObject *capsule) {
  tenon_recording_t *dump = PyCapsule_GetPointer(capsule, name);
  tenon_recording_info_t info = {.size = sizeof info};
  (void)module;
  if (!dump) return NULL;
  tenon_recording_info(dump, &info);
  return Py_BuildValue(
      "{s:s,s:z,s:z,s:z,s:z,s:z,s:z,s:z,s:z,s:s,s:i,s:N,s:N,s:N,s:N}", "op", info.op, "node",
      info.node, "kernel", info.kernel, "device", info.device, "error", info.error, "library",
      info.library, "library_path", info.library_path, "library_hash", info.library_hash, "version",
      info.version, "status", tenon_status_name(info.status), "threads", (int)info.threads,
      "attributes", attributes_of(&info), "inputs", tensors_of(info.inputs, info.input_count),
      "outputs", tensors_of(info.outputs, info.output_count), "written",
      tensors_of(info.written, info.input_count));
}

/* Repeats the call on the current values of its inputs. */
static PyObject *run_dump(PyObject *module, PyObject *capsule) {
  tenon_recording_t *dump = PyCapsule_GetPointer(capsule, name);
  tenon_recording_info_t info = {.size = sizeof info};
  tenon_op_info_t about = {.size = sizeof about};
  tenon_tensor_t *outputs[64] = {NULL};
  tenon_generator_t *generator = NULL;
  tenon_generator_t *before = NULL;
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values = NULL;
  const tenon_op_t *op = NULL;
  PyObject *result = NULL;
  unlocked_t unlocked;
  (void)module;
  if (!dump) return NULL;
  tenon_recording_info(dump, &info);
  tenon_status_t status = tenon_op_find(info.op, &op);
  if (status == TENON_OK) tenon_op_info(op, &about);
  if (status == TENON_OK && about.input_count != info.input_count)
    return raise_invalid("%s has %d inputs, but the saved call has %d: load the version of the "
                         "library that saved it",
                         info.op, (int)about.input_count, (int)info.input_count);
  if (status == TENON_OK) status = tenon_recording_attrs(dump, op, &attrs);
  if (status == TENON_OK) status = tenon_attrs_values(attrs, &values);
  if (status == TENON_OK && info.is_random) status = tenon_generator_create(info.seed, &generator);
  if (status == TENON_OK) {
    if (generator) {
      tenon_generator_offset_set(generator, info.offset);
      before = tenon_generator_use(generator);
    }
    unlocked_begin(&unlocked);
    status = tenon_op_call(op, values, info.inputs, outputs, 0);
    bool fine = unlocked_end(&unlocked);
    if (generator) (void)tenon_generator_use(before);
    if (fine)
      result = status == TENON_OK ? tensors_of(outputs, about.output_count) : raise_status(status);
  } else {
    raise_status(status);
  }
  for (int i = 0; i < 64; i++)
    tenon_tensor_release(outputs[i]);
  tenon_generator_release(generator);
  tenon_attrs_release(attrs);
  return result;
}

static PyObject *dumps_set(PyObject *module, PyObject *arguments) {
  tenon_record_t options = {.size = sizeof options};
  PyObject *path = NULL;
  int all = 0;
  int most = 0;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "O&zpi", PyUnicode_FSConverter, &path, &options.ops, &all,
                        &most))
    return NULL;
  options.folder = PyBytes_AsString(path);
  options.flags = all ? TENON_RECORD_ALL : 0;
  options.most = most;
  tenon_status_t status = tenon_record_set(&options);
  Py_DECREF(path);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *dumps_end(PyObject *module, PyObject *unused) {
  (void)module;
  (void)unused;
  (void)tenon_record_set(NULL);
  Py_RETURN_NONE;
}

static PyObject *nan_set(PyObject *module, PyObject *arguments) {
  const char *what = NULL;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "z", &what)) return NULL;
  tenon_status_t status = tenon_nan_set(what);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *crash_report(PyObject *module, PyObject *arguments) {
  int is_on = 1;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "|p", &is_on)) return NULL;
  tenon_status_t status = tenon_crash_report(is_on);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"dump_load", load_dump, METH_O, NULL},
                                  {"dump_library", library_of_dump, METH_O, NULL},
                                  {"dump_members", members_of_dump, METH_O, NULL},
                                  {"dump_run", run_dump, METH_O, NULL},
                                  {"dumps_set", dumps_set, METH_VARARGS, NULL},
                                  {"dumps_end", dumps_end, METH_NOARGS, NULL},
                                  {"nan_set", nan_set, METH_VARARGS, NULL},
                                  {"crash_report", crash_report, METH_VARARGS,
                                   "crash_report(is_on=True)\n--\n\nReports crashes in operators "
                                   "on stderr: the call, its arguments and the stack."},
                                  {NULL, NULL, 0, NULL}};

bool dumps_add(PyObject *module) { return PyModule_AddFunctions(module, functions) == 0; }
