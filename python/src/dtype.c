/* dtypes as Python objects: their names as a str, and the names that NumPy and PyTorch use. */
#include "dtype.h"

#include <stdio.h>
#include <string.h>

#include "error.h"

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
  if (PyUnicode_Check(object) && strcmp(name, "list") == 0) { /* a value of a graph */
    *out_dtype = tenon_dtype(TENON_LIST);
    return true;
  }
  if (tenon_dtype_parse(name, out_dtype) == TENON_OK) return true;
  raise_invalid("expected a dtype of Tenon (\"f32\", \"i64\", ...), NumPy or PyTorch, found %R",
                object);
  return false;
}
