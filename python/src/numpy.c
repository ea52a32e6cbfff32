/* NumPy arrays, read and created in place through the function table and the structures that NumPy
 * keeps stable for compiled modules (the same in 1.x and 2.x). NumPy is optional: this file never
 * imports it unless the program has done so. */
#include "numpy.h"

#include <string.h>

#include "error.h"
#include "shape.h"
#include "tensor.h"

typedef struct descr_t { /* the first members of PyArray_Descr */
  PyObject_HEAD PyTypeObject *type;
  char kind;
  char letter;
  char byteorder;
  char flags;
  int type_num;
} descr_t;
typedef struct array_t { /* the first members of PyArrayObject_fields */
  PyObject_HEAD char *data;
  int ndim;
  int64_t *shape;
  int64_t *strides; /* in bytes */
  PyObject *base;
  descr_t *descr;
  int flags;
} array_t;
enum {
  ALIGNED = 0x100,
  WRITEABLE = 0x400,
};
enum {
  API_VERSION = 0,
  API_TYPE = 2,
  API_NEW = 93,
  API_SET_BASE = 282,
};
typedef PyObject *(*new_fn)(PyTypeObject *, int, const int64_t *, int, const int64_t *, void *, int,
                            int, PyObject *);
typedef int (*set_base_fn)(PyObject *, PyObject *);

static void **_Atomic api;
PyTypeObject *_Atomic numpy_type; /* set after `api` */

/* The type numbers of NumPy. Those of user-defined types are assigned when the types are
 * registered. */
static const struct type_t {
  int number;
  uint32_t dtype;
} types[] = {{0, TENON_BOOL}, {1, TENON_I8},   {2, TENON_U8},    {3, TENON_I16},
             {4, TENON_U16},  {5, TENON_I32},  {6, TENON_U32},   {7, TENON_I64},
             {8, TENON_U64},  {9, TENON_I64},  {10, TENON_U64},  {11, TENON_F32},
             {12, TENON_F64}, {14, TENON_C64}, {15, TENON_C128}, {23, TENON_F16}};
static const struct user_type_t { /* types of the package ml_dtypes */
  const char *name;
  uint32_t dtype;
} user_types[] = {{"bfloat16", TENON_BF16},          {"float8_e3m4", TENON_F8E3M4},
                  {"float8_e4m3", TENON_F8E4M3},     {"float8_e4m3b11fnuz", TENON_F8E4M3B11FNUZ},
                  {"float8_e4m3fn", TENON_F8E4M3FN}, {"float8_e4m3fnuz", TENON_F8E4M3FNUZ},
                  {"float8_e5m2", TENON_F8E5M2},     {"float8_e5m2fnuz", TENON_F8E5M2FNUZ},
                  {"float8_e8m0fnu", TENON_F8E8M0}};
enum {
  TYPES = sizeof types / sizeof *types,
  USER_TYPES = sizeof user_types / sizeof *user_types,
};
static _Atomic int user_numbers[USER_TYPES]; /* 0: not seen yet */

/* Checks whether the program has imported NumPy, and finds its function table. */
static bool find_numpy(void) {
  static const char *const names[] = {"numpy._core._multiarray_umath",
                                      "numpy.core._multiarray_umath"};
  PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
  void **found = NULL;
  for (int i = 0; i < 2 && !found; i++) {
    PyObject *module = PyMapping_GetItemString(modules, names[i]);
    PyObject *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    if (capsule) found = (void **)PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(module);
    Py_XDECREF(capsule);
    PyErr_Clear();
  }
  if (!found) return false;
  unsigned (*version)(void) = (unsigned (*)(void))found[API_VERSION];
  if (version() >> 24 != 1 && version() >> 24 != 2) return false;
  api = found;
  numpy_type = (PyTypeObject *)found[API_TYPE];
  return true;
}

bool numpy_is_array(PyObject *object) {
  /* Before NumPy is imported, calls often see objects of other modules; these cannot be arrays. */
  if (!numpy_type) {
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
    bool may_be =
        module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "numpy") == 0;
    Py_XDECREF(module);
    PyErr_Clear();
    if (!may_be || !find_numpy()) return false;
  }
  return Py_TYPE(object) == numpy_type || PyType_IsSubtype(Py_TYPE(object), numpy_type);
}

static uint32_t user_dtype(const descr_t *descr) {
  PyObject *name = PyObject_GetAttrString((PyObject *)descr->type, "__name__");
  uint32_t found = 0;
  for (int i = 0; name && i < USER_TYPES && !found; i++)
    if (PyUnicode_CompareWithASCIIString(name, user_types[i].name) == 0) {
      found = user_types[i].dtype;
      user_numbers[i] = descr->type_num;
    }
  Py_XDECREF(name);
  PyErr_Clear();
  return found;
}

static uint32_t descr_dtype(const descr_t *descr) {
  static const uint32_t direct[] = {TENON_BOOL, TENON_I8,  TENON_U8,  TENON_I16, TENON_U16,
                                    TENON_I32,  TENON_U32, TENON_I64, TENON_U64, TENON_I64,
                                    TENON_U64,  TENON_F32, TENON_F64};
  if ((unsigned)descr->type_num < sizeof direct / sizeof *direct) return direct[descr->type_num];
  for (int i = 0; i < TYPES; i++)
    if (types[i].number == descr->type_num) return types[i].dtype;
  for (int i = 0; i < USER_TYPES; i++)
    if (user_numbers[i] == descr->type_num) return user_types[i].dtype;
  return descr->type_num >= 256 ? user_dtype(descr) : 0;
}

static bool refuse_array(const array_t *a, const char *op, const char *name, const char *what) {
  PyObject *dtype = PyObject_Str((PyObject *)a->descr);
  if (dtype) raise_invalid("%s: argument %s: a NumPy array of dtype %U %s", op, name, dtype, what);
  Py_XDECREF(dtype);
  return false;
}

static bool text_set(tenon_tensor_t *tensor, int64_t index, PyObject *item) {
  PyObject *bytes =
      PyUnicode_Check(item) ? PyUnicode_AsEncodedString(item, "utf-8", "surrogateescape") : item;
  if (bytes == item) Py_INCREF(bytes);
  if (!bytes) return false;
  bool good = PyBytes_Check(bytes);
  if (!good)
    raise_invalid("element %lld of an array of strings: expected a str, found %R", (long long)index,
                  item);
  tenon_status_t status = TENON_OK;
  if (good)
    status = tenon_tensor_set_string(tensor, index, PyBytes_AsString(bytes),
                                     (uint64_t)PyBytes_Size(bytes));
  Py_DECREF(bytes);
  if (status != TENON_OK) raise_status(status);
  return good && status == TENON_OK;
}

/* Converts arrays of str, of bytes, and of objects that are str or bytes. The strings are
 * copied. */
static bool texts_set(PyObject *array, argument_t *argument) {
  const array_t *a = (const array_t *)array;
  PyObject *flat = PyObject_CallMethod(array, "ravel", NULL);
  PyObject *list = flat ? PyObject_CallMethod(flat, "tolist", NULL) : NULL;
  Py_XDECREF(flat);
  if (!list) return false;
  tenon_status_t status =
      tenon_tensor_create(tenon_dtype(TENON_STRING), a->ndim, a->shape, &argument->tensor);
  bool good = status == TENON_OK;
  if (!good) raise_status(status);
  for (Py_ssize_t i = 0, n = PyList_Size(list); i < n && good; i++)
    good = text_set(argument->tensor, i, PyList_GetItem(list, i));
  if (status == TENON_OK && !good) tenon_tensor_release(argument->tensor);
  Py_DECREF(list);
  return good && (argument->is_reference = true);
}

bool numpy_view(PyObject *array, bool writes, const char *op, const char *name,
                argument_t *argument) {
  const array_t *a = (const array_t *)array;
  uint32_t id = descr_dtype(a->descr);
  argument->is_reference = false;
  if (!id && !writes && strchr("USTO", a->descr->kind)) return texts_set(array, argument);
  if (!id)
    return refuse_array(a, op, name, "has no counterpart in Tenon: convert it with x.astype");
  tenon_dtype_t dtype = tenon_dtype(id);
  const int64_t size = dtype.bits / 8; /* a power of two */
  const int shift = __builtin_ctzll((unsigned long long)size);
  if (a->descr->byteorder == '>')
    return refuse_array(a, op, name, "is not in native byte order: convert it with x.astype");
  if (!(a->flags & ALIGNED))
    return refuse_array(a, op, name, "is not aligned: copy it with numpy.array(x)");
  if (writes && !(a->flags & WRITEABLE))
    return refuse_array(a, op, name, "is read-only, but the operator writes to it");
  for (int i = 0; i < a->ndim; i++) {
    argument->strides[i] = a->strides[i] >> shift;
    if (a->strides[i] & (size - 1))
      return refuse_array(a, op, name,
                          "has strides that are not multiples of the element size: copy it with "
                          "numpy.ascontiguousarray(x)");
  }
  tenon_status_t status = tenon_tensor_view(&argument->view, a->data, dtype, a->ndim, a->shape,
                                            argument->strides, NULL);
  if (status != TENON_OK) {
    raise_status(status);
    return false;
  }
  argument->tensor = &argument->view;
  return true;
}

static void release_capsule(PyObject *capsule) {
  tenon_tensor_release((tenon_tensor_t *)PyCapsule_GetPointer(capsule, "tenon.tensor"));
}

static int type_number(tenon_dtype_t dtype) {
  uint32_t id = tenon_dtype_id(dtype);
  for (int i = 0; i < TYPES; i++)
    if (types[i].dtype == id) return types[i].number;
  for (int i = 0; i < USER_TYPES; i++)
    if (user_types[i].dtype == id && user_numbers[i]) return user_numbers[i];
  return -1;
}

/* Creates an array of str objects through NumPy itself. */
static PyObject *texts_of(const tenon_tensor_t *t) {
  PyObject *list = PyList_New(0);
  PyObject *numpy = NULL;
  PyObject *flat = NULL;
  PyObject *shape = NULL;
  PyObject *array = NULL;
  for (int64_t i = 0, n = tenon_count(t); list && i < n; i++) {
    int64_t at = 0;
    int64_t rest = i;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
      at += rest % t->shape[d] * t->strides[d];
      rest /= t->shape[d];
    }
    const tenon_string_t *s = (const tenon_string_t *)t->data + at;
    PyObject *text =
        PyUnicode_DecodeUTF8(s->data ? s->data : "", (Py_ssize_t)s->size, "surrogateescape");
    if (!text || PyList_Append(list, text) != 0) Py_CLEAR(list);
    Py_XDECREF(text);
  }
  if (list && (numpy = PyImport_ImportModule("numpy")))
    flat = PyObject_CallMethod(numpy, "array", "Os", list, "O");
  if (flat && (shape = tuple_of(t->shape, t->ndim)))
    array = PyObject_CallMethod(flat, "reshape", "(O)", shape);
  Py_XDECREF(list);
  Py_XDECREF(numpy);
  Py_XDECREF(flat);
  Py_XDECREF(shape);
  return array;
}

PyObject *numpy_of(tenon_tensor_t *tensor) {
  int64_t strides[TENON_RANK_MAX];
  int number = api || find_numpy() ? type_number(tensor->dtype) : -1;
  if (api && tenon_dtype_id(tensor->dtype) == TENON_STRING) {
    PyObject *texts = texts_of(tensor);
    tenon_tensor_release(tensor);
    return texts;
  }
  if (number < 0 || tensor->device.type != 1) return tensor_new(tensor);
  for (int32_t i = 0; i < tensor->ndim; i++)
    strides[i] = tensor->strides[i] * (tensor->dtype.bits / 8);
  PyObject *capsule = PyCapsule_New(tensor, "tenon.tensor", release_capsule);
  if (!capsule) {
    tenon_tensor_release(tensor);
    return NULL;
  }
  PyObject *array = ((new_fn)api[API_NEW])(numpy_type, tensor->ndim, tensor->shape, number, strides,
                                           tensor->data, 0, ALIGNED | WRITEABLE, NULL);
  if (!array) {
    Py_DECREF(capsule);
    return NULL;
  }
  /* NumPy takes over the capsule. */
  if (((set_base_fn)api[API_SET_BASE])(array, capsule) == 0) return array;
  Py_DECREF(array);
  return NULL;
}
