/* The properties and methods of tenon.Tensor, and tenon.empty and tenon.from_dlpack, which create
 * tensors. */
#include "tensor_methods.h"

#include <stdio.h>

#include "argument.h"
#include "device.h"
#include "dlpack.h"
#include "dtype.h"
#include "error.h"
#include "layout.h"
#include "numpy.h"
#include "shape.h"
#include "tensor.h"

static void tensor_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tenon_tensor_release(tensor_get(object));
  PyObject_Free(object);
  Py_DECREF(type);
}

static PyObject *get_shape(PyObject *self, void *unused) {
  (void)unused;
  return tuple_of(tensor_get(self)->shape, tensor_get(self)->ndim);
}
static PyObject *get_strides(PyObject *self, void *unused) {
  (void)unused;
  return tuple_of(tensor_get(self)->strides, tensor_get(self)->ndim);
}
static PyObject *get_dtype(PyObject *self, void *unused) {
  (void)unused;
  return dtype_text(tensor_get(self)->dtype);
}
static PyObject *get_device(PyObject *self, void *unused) {
  (void)unused;
  return device_text(tensor_get(self)->device);
}
static PyObject *get_ndim(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLong(tensor_get(self)->ndim);
}
static PyObject *get_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(tenon_count(tensor_get(self)));
}
static PyObject *get_data(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromVoidPtr(tensor_get(self)->data);
}

static PyObject *get_layout(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(tenon_tensor_layout(tensor_get(self)));
}
/* NULL for a tensor that is not sparse. */
static const tenon_detail_t *sparse_detail(PyObject *self) {
  return sparse_layout(tensor_get(self)) ? tensor_get(self)->detail : NULL;
}
/* Returns a new reference as a tenon.Tensor; None if there is no such part. */
static PyObject *sparse_part(const tenon_tensor_t *part) {
  if (!part) Py_RETURN_NONE;
  tenon_tensor_retain((tenon_tensor_t *)(uintptr_t)part);
  return tensor_new((tenon_tensor_t *)(uintptr_t)part);
}
static PyObject *get_values(PyObject *self, void *unused) {
  (void)unused;
  return sparse_part(sparse_detail(self) ? sparse_detail(self)->values : NULL);
}
static PyObject *get_indices(PyObject *self, void *unused) {
  (void)unused;
  return sparse_part(sparse_detail(self) ? sparse_detail(self)->indices : NULL);
}
static PyObject *get_indptr(PyObject *self, void *unused) {
  (void)unused;
  return sparse_part(sparse_detail(self) ? sparse_detail(self)->indptr : NULL);
}

static Py_ssize_t tensor_length(PyObject *self) {
  const tenon_tensor_t *t = tensor_get(self);
  if (t->ndim) return (Py_ssize_t)t->shape[0];
  PyErr_SetString(PyExc_TypeError, "len() of a tensor without axes");
  return -1;
}

static PyObject *to_device(PyObject *self, PyObject *to) {
  tenon_device_t device;
  tenon_tensor_t *copy;
  if (!device_from(to, &device)) return NULL;
  const tenon_tensor_t *t = tensor_get(self);
  if (device.type == t->device.type && device.id == t->device.id) {
    Py_INCREF(self);
    return self;
  }
  tenon_status_t status;
  Py_BEGIN_ALLOW_THREADS status = tenon_tensor_copy_to(t, device, &copy);
  Py_END_ALLOW_THREADS return status == TENON_OK ? tensor_new(copy) : raise_status(status);
}

static PyObject *copy_of(PyObject *self, PyObject *unused) {
  tenon_tensor_t *copy;
  tenon_status_t status;
  (void)unused;
  Py_BEGIN_ALLOW_THREADS status =
      tenon_tensor_copy_to(tensor_get(self), tensor_get(self)->device, &copy);
  Py_END_ALLOW_THREADS return status == TENON_OK ? tensor_new(copy) : raise_status(status);
}

static PyObject *to_dense(PyObject *self, PyObject *unused) {
  tenon_tensor_t *t = tensor_get(self);
  tenon_tensor_t *dense = NULL;
  const tenon_op_t *op;
  (void)unused;
  if (!sparse_layout(t)) {
    Py_INCREF(self);
    return self;
  }
  tenon_status_t status = tenon_op_find("core::to_dense", &op);
  Py_BEGIN_ALLOW_THREADS if (status == TENON_OK) status = tenon_op_call(op, NULL, &t, &dense, 0);
  Py_END_ALLOW_THREADS return status == TENON_OK ? tensor_new(dense) : raise_status(status);
}

static PyObject *to_numpy(PyObject *self, PyObject *unused) {
  tenon_tensor_t *t = tensor_get(self);
  tenon_tensor_t *copy;
  char text[100];
  snprintf(text, sizeof text,
           "a sparse tensor (%s) cannot become a NumPy array: call x.to_dense() first",
           tenon_tensor_layout(t));
  if (sparse_layout(t)) return raise_text(TENON_UNIMPLEMENTED, text);
  PyObject *numpy = PyImport_ImportModule("numpy");
  (void)unused;
  if (!numpy) return NULL;
  Py_DECREF(numpy);
  if (t->device.type == 1) {
    tenon_tensor_retain(t);
    return numpy_of(t);
  }
  tenon_status_t status;
  Py_BEGIN_ALLOW_THREADS status = tenon_tensor_copy_to(t, (tenon_device_t){1, 0}, &copy);
  Py_END_ALLOW_THREADS return status == TENON_OK ? numpy_of(copy) : raise_status(status);
}

/* Implements numpy.asarray, with the arguments that NumPy passes. */
static PyObject *to_array(PyObject *self, PyObject *arguments, PyObject *named) {
  static char *names[] = {"dtype", "copy", NULL};
  PyObject *dtype = Py_None;
  PyObject *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|OO", names, &dtype, &copy)) return NULL;
  PyObject *array = to_numpy(self, NULL);
  PyObject *other;
  if (array && dtype != Py_None) {
    other = PyObject_CallMethod(array, "astype", "O", dtype);
    Py_DECREF(array);
    array = other;
  } else if (array && copy == Py_True) {
    other = PyObject_CallMethod(array, "copy", NULL);
    Py_DECREF(array);
    array = other;
  }
  return array;
}

static PyObject *to_list(PyObject *self, PyObject *unused) {
  PyObject *array = to_numpy(self, unused);
  PyObject *list = array ? PyObject_CallMethod(array, "tolist", NULL) : NULL;
  Py_XDECREF(array);
  return list;
}

static PyObject *to_item(PyObject *self, PyObject *unused) {
  PyObject *array = to_numpy(self, unused);
  PyObject *item = array ? PyObject_CallMethod(array, "item", NULL) : NULL;
  Py_XDECREF(array);
  return item;
}

static PyObject *to_dlpack(PyObject *self, PyObject *arguments, PyObject *named) {
  static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = NULL;
  PyObject *version = NULL;
  PyObject *device = NULL;
  PyObject *copy = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "|$OOOO", names, &stream, &version, &device,
                                   &copy))
    return NULL;
  return dlpack_export(tensor_get(self), stream, version, device, copy);
}

static PyObject *dlpack_device(PyObject *self, PyObject *unused) {
  (void)unused;
  return Py_BuildValue("ii", (int)tensor_get(self)->device.type, (int)tensor_get(self)->device.id);
}

static PyObject *sparse_text(PyObject *self) {
  const tenon_tensor_t *t = tensor_get(self);
  const tenon_detail_t *d = t->detail;
  PyObject *tuple = get_shape(self, NULL);
  PyObject *shape = tuple ? PySequence_List(tuple) : NULL;
  PyObject *text = NULL;
  if (shape)
    text =
        PyUnicode_FromFormat("tenon.Tensor(%s%R, cpu, %s, %lld stored)", tenon_dtype_name(t->dtype),
                             shape, tenon_tensor_layout(t), (long long)d->indices->shape[0]);
  Py_XDECREF(tuple);
  Py_XDECREF(shape);
  return text;
}

static PyObject *tensor_text(PyObject *self) {
  const tenon_tensor_t *t = tensor_get(self);
  if (sparse_layout(t)) return sparse_text(self);
  PyObject *tuple = get_shape(self, NULL);
  PyObject *shape = tuple ? PySequence_List(tuple) : NULL;
  PyObject *device = get_device(self, NULL);
  PyObject *numpy = NULL;
  PyObject *body = NULL;
  PyObject *text = NULL;
  if (tenon_count(t) <= 1000 && (numpy = to_numpy(self, NULL)) && Py_TYPE(numpy) == numpy_type)
    body = PyObject_Str(numpy);
  PyErr_Clear(); /* Without NumPy, or with a dtype that NumPy lacks, the elements are omitted. */
  if (shape && device)
    text = PyUnicode_FromFormat(body ? "tenon.Tensor(%s%R, %U)\n%U" : "tenon.Tensor(%s%R, %U)",
                                tenon_dtype_name(t->dtype), shape, device, body);
  Py_XDECREF(tuple);
  Py_XDECREF(shape);
  Py_XDECREF(device);
  Py_XDECREF(numpy);
  Py_XDECREF(body);
  return text;
}

static PyObject *tensor_empty(PyObject *module, PyObject *arguments, PyObject *named) {
  static char *names[] = {"shape", "dtype", "device", NULL};
  PyObject *shape_object;
  PyObject *dtype_object = NULL;
  PyObject *device_object = NULL;
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  tenon_dtype_t dtype = tenon_dtype(TENON_F32);
  tenon_device_t device = {1, 0};
  tenon_tensor_t *tensor;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "O|OO", names, &shape_object, &dtype_object,
                                   &device_object) ||
      !shape_from(shape_object, shape, &ndim) ||
      (dtype_object && !dtype_from(dtype_object, &dtype)) ||
      (device_object && device_object != Py_None && !device_from(device_object, &device)))
    return NULL;
  tenon_status_t status = device.type == 1
                              ? tenon_tensor_create(dtype, ndim, shape, &tensor)
                              : tenon_tensor_create_on(device, dtype, ndim, shape, &tensor);
  return status == TENON_OK ? tensor_new(tensor) : raise_status(status);
}

static PyObject *from_dlpack(PyObject *module, PyObject *object) {
  tenon_tensor_t *tensor;
  argument_t argument;
  (void)module;
  if (Py_TYPE(object) == tensor_type) {
    Py_INCREF(object);
    return object;
  }
  if (!numpy_is_array(object)) return dlpack_import(object, &tensor) ? tensor_new(tensor) : NULL;
  if (!numpy_view(object, false, "from_dlpack", "x", &argument)) return NULL;
  tensor = argument.is_reference ? argument.tensor : tensor_over(argument.tensor, object);
  return tensor ? tensor_new(tensor) : NULL;
}

static PyMethodDef methods[] = {
    {"to", to_device, METH_O,
     "to(device)\n--\n\nReturns the tensor on a device (\"cpu\", \"sim:1\"): itself if it is there "
     "already, else a copy."},
    {"copy", copy_of, METH_NOARGS,
     "copy()\n--\n\nReturns a dense copy on the same device; a sparse copy of a sparse tensor."},
    {"to_dense", to_dense, METH_NOARGS,
     "to_dense()\n--\n\nReturns a dense tensor with the same elements: itself if it is not "
     "sparse."},
    {"numpy", to_numpy, METH_NOARGS,
     "numpy()\n--\n\nReturns a NumPy array over the same memory; for a tensor on a device, over a "
     "copy."},
    {"tolist", to_list, METH_NOARGS, "tolist()\n--\n\nReturns the elements as nested lists."},
    {"item", to_item, METH_NOARGS, "item()\n--\n\nReturns the only element as a Python number."},
    {"__array__", (PyCFunction)(void (*)(void))to_array, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nReturns a "
     "DLPack capsule over the same memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\nReturns (type, id) of the device, numbered as in DLPack."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef properties[] = {
    {"shape", get_shape, NULL, "The extents of the axes.", NULL},
    {"strides", get_strides, NULL, "For each axis, the distance between neighbours in elements.",
     NULL},
    {"dtype", get_dtype, NULL, "The dtype: \"f32\", \"i64\", ...", NULL},
    {"device", get_device, NULL, "The device: \"cpu\", \"sim:0\", ...", NULL},
    {"ndim", get_ndim, NULL, "The number of axes.", NULL},
    {"size", get_size, NULL, "The number of elements.", NULL},
    {"layout", get_layout, NULL, "\"dense\", \"csr\", \"row_sparse\" or \"quantised\".", NULL},
    {"values", get_values, NULL, "The stored values of a sparse tensor; None for other tensors.",
     NULL},
    {"indices", get_indices, NULL,
     "The columns (csr) or rows (row_sparse) of the stored values, i64; None for tensors that are "
     "not sparse.",
     NULL},
    {"indptr", get_indptr, NULL,
     "Where each row of a csr tensor begins among its values, i64; None for other tensors.", NULL},
    {"data_ptr", get_data, NULL, "The address (or device handle) of the memory.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)tensor_delete},
    {Py_tp_repr, (void *)tensor_text},
    {Py_tp_new, (void *)refuse_new},
    {Py_sq_length, (void *)tensor_length},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_tp_doc, "A tensor in host or device memory. Create one with tenon.tensor, tenon.empty or "
                "tenon.from_dlpack; a sparse one with tenon.csr or tenon.row_sparse."},
    {0, NULL}};
static PyType_Spec spec = {"tenon.Tensor", sizeof(tensor_t), 0, Py_TPFLAGS_DEFAULT, slots};
static PyMethodDef functions[] = {
    {"empty", (PyCFunction)(void (*)(void))tensor_empty, METH_VARARGS | METH_KEYWORDS,
     "empty(shape, dtype='f32', device='cpu')\n--\n\nCreates a tensor with undefined contents."},
    {"from_dlpack", from_dlpack, METH_O,
     "from_dlpack(x)\n--\n\nReturns a tensor over the memory of a NumPy array or of an object with "
     "__dlpack__."},
    {NULL, NULL, 0, NULL}};

bool tensors_add(PyObject *module) {
  tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!tensor_type || !exchange_add(tensor_type)) return false;
  Py_INCREF(tensor_type);
  return PyModule_AddObject(module, "Tensor", (PyObject *)tensor_type) == 0 &&
         PyModule_AddFunctions(module, functions) == 0;
}
