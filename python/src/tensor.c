/* tenon.Tensor: a reference to a tensor in host or device memory. */
#include "core.h"

#include <stdio.h>
#include <string.h>
#include <structmember.h>

typedef struct tensor_t {
  PyObject_HEAD tenon_tensor_t *tensor;
} tensor_t;

PyTypeObject *tensor_type;

PyObject *tensor_new(tenon_tensor_t *tensor) {
  tensor_t *self = PyObject_New(tensor_t, tensor_type);
  if (!self) {
    tenon_tensor_release(tensor);
    return NULL;
  }
  self->tensor = tensor;
  return (PyObject *)self;
}

tenon_tensor_t *tensor_get(PyObject *object) { return ((tensor_t *)object)->tensor; }

static void tensor_delete(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  tenon_tensor_release(tensor_get(object));
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Releases the object when the last reference to its tensor goes, on any thread. */
static void drop_object(void *object) {
  /* After the interpreter has ended, the objects no longer exist. */
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject *)object);
  PyGILState_Release(state);
}

tenon_tensor_t *tensor_over(const tenon_tensor_t *view, PyObject *object) {
  tenon_tensor_t *tensor;
  Py_INCREF(object);
  tenon_status_t status = tenon_tensor_borrow(view->data, view->dtype, view->ndim, view->shape,
                                              view->strides, drop_object, object, &tensor);
  if (status == TENON_OK) return tensor;
  Py_DECREF(object);
  raise_status(status);
  return NULL;
}

/* dtypes and devices */

PyObject *dtype_text(tenon_dtype_t dtype) { return PyUnicode_FromString(tenon_dtype_name(dtype)); }

static const struct alias_t { /* names used by NumPy and PyTorch */
  const char *theirs;
  const char *ours;
} aliases[] = {
    {"float16", "f16"},   {"float32", "f32"},     {"float64", "f64"}, {"bfloat16", "bf16"},
    {"int8", "i8"},       {"int16", "i16"},       {"int32", "i32"},   {"int64", "i64"},
    {"uint8", "u8"},      {"uint16", "u16"},      {"uint32", "u32"},  {"uint64", "u64"},
    {"complex64", "c64"}, {"complex128", "c128"}, {"float", "f32"},   {"half", "f16"},
    {"double", "f64"},    {"int", "i32"},         {"long", "i64"},    {"str", "string"}};

/* Accepts strings, NumPy dtypes and scalar types, and PyTorch dtypes; all are identified by their
 * name. */
bool dtype_from(PyObject *object, tenon_dtype_t *out_dtype) {
  char name[64];
  PyObject *text = NULL;
  PyObject *bytes = NULL;
  if (PyUnicode_Check(object)) {
    text = object;
    Py_INCREF(text);
  } else if (!PyType_Check(object) && PyObject_HasAttrString(object, "name"))
    text = PyObject_GetAttrString(object, "name");
  else if (PyObject_HasAttrString(object, "__name__"))
    text = PyObject_GetAttrString(object, "__name__");
  else
    text = PyObject_Str(object);
  if (text && PyUnicode_Check(text)) bytes = PyUnicode_AsUTF8String(text);
  Py_XDECREF(text);
  if (!bytes) {
    if (!PyErr_Occurred()) raise_invalid("expected a dtype, found %R", object);
    return false;
  }
  const char *found = PyBytes_AsString(bytes);
  const char *dot = strrchr(found, '.');
  snprintf(name, sizeof name, "%s", dot ? dot + 1 : found); /* "torch.float32" */
  Py_DECREF(bytes);
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(name, aliases[i].theirs) == 0) snprintf(name, sizeof name, "%s", aliases[i].ours);
  if (tenon_dtype_parse(name, out_dtype) == TENON_OK) return true;
  raise_invalid("expected a dtype of Tenon (\"f32\", \"i64\", ...), NumPy or PyTorch, found %R",
                object);
  return false;
}

PyObject *device_text(tenon_device_t device) {
  const char *name = tenon_key_for_device(device);
  if (device.type == 1) return PyUnicode_FromString("cpu");
  return PyUnicode_FromFormat("%s:%d", name ? name : "unknown", (int)(device.id & 255));
}

/* Accepts "cpu", "sim", "opencl:1" and the like. */
bool device_from(PyObject *object, tenon_device_t *out_device) {
  char name[64];
  int ordinal = 0;
  PyObject *text = PyObject_Str(object);
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  Py_XDECREF(text);
  if (!bytes) return false;
  snprintf(name, sizeof name, "%s", PyBytes_AsString(bytes));
  Py_DECREF(bytes);
  char *colon = strchr(name, ':');
  if (colon) {
    char *end;
    long number = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || *end || number < 0 || number > 255) {
      raise_invalid("expected a device as NAME or NAME:NUMBER with a number from 0 to 255, such as "
                    "\"sim:1\"; found %R",
                    object);
      return false;
    }
    *colon = 0;
    ordinal = (int)number;
  }
  if (strcmp(name, "cpu") == 0) {
    *out_device = (tenon_device_t){1, 0};
    return true;
  }
  tenon_status_t status = tenon_device_find(name, ordinal, out_device);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

PyObject *tuple_of(const int64_t *numbers, int32_t count) {
  PyObject *tuple = PyTuple_New(count);
  for (int32_t i = 0; tuple && i < count; i++) {
    PyObject *number = PyLong_FromLongLong(numbers[i]);
    if (!number || PyTuple_SetItem(tuple, i, number) != 0) Py_CLEAR(tuple);
  }
  return tuple;
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
int64_t count_of(const tenon_tensor_t *t) {
  int64_t count = 1;
  for (int32_t i = 0; i < t->ndim; i++)
    count *= t->shape[i];
  return count;
}
static PyObject *get_size(PyObject *self, void *unused) {
  (void)unused;
  return PyLong_FromLongLong(count_of(tensor_get(self)));
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
  if (count_of(t) <= 1000 && (numpy = to_numpy(self, NULL)) && Py_TYPE(numpy) == numpy_type)
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

bool shape_from(PyObject *object, int64_t *shape, int32_t *out_ndim) {
  if (PyLong_Check(object)) {
    shape[0] = PyLong_AsLongLong(object);
    *out_ndim = 1;
    return !(shape[0] == -1 && PyErr_Occurred());
  }
  Py_ssize_t count = PySequence_Size(object);
  if (count < 0) return false;
  if (count > TENON_RANK_MAX) {
    raise_invalid("shape: expected at most %d axes, found %zd", TENON_RANK_MAX, count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *extent = PySequence_GetItem(object, i);
    if (!extent) return false;
    shape[i] = PyLong_AsLongLong(extent);
    Py_DECREF(extent);
    if (shape[i] == -1 && PyErr_Occurred()) return false;
  }
  *out_ndim = (int32_t)count;
  return true;
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
