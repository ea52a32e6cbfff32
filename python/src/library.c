/* tenon._core.Library, a loaded library with its operators, and the functions of the module that
 * find, load and build operators. A library has one object, which is in `loaded` until the library
 * is unloaded. */
#include "library.h"

#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "error.h"
#include "operator.h"
#include "shape.h"
#include "tensor.h"

typedef struct library_t {
  PyObject_HEAD tenon_library_t *library; /* NULL after the library was unloaded */
  /* a dictionary of operators by name without the namespace */
  PyObject *operators;
  const tenon_op_t **past; /* operators of files that a reload replaced; they can still be called */
  int32_t past_count;
} library_t;

lock_t libraries_lock;
static PyTypeObject *library_type;
/* The Library object of each loaded library, by the address of the library. */
static PyObject *loaded;

static bool fill_operators(library_t *self) {
  for (int32_t i = 0, n = tenon_library_op_count(self->library); i < n; i++) {
    const tenon_op_t *op = tenon_library_op(self->library, i);
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(op, &info);
    const char *colons = strstr(info.name, "::");
    const char *short_name = colons ? colons + 2 : info.name;
    PyObject *object = operator_new(op);
    int status = object ? PyDict_SetItemString(self->operators, short_name, object) : -1;
    Py_XDECREF(object);
    if (status != 0) return false;
  }
  return true;
}

static PyObject *library_find(tenon_library_t *library) {
  PyObject *key = PyLong_FromVoidPtr(library);
  PyObject *known = key ? PyDict_GetItem(loaded, key) : NULL;
  /* The existing object holds a handle already. */
  if (known) {
    tenon_library_release(library);
    Py_DECREF(key);
    Py_INCREF(known);
    return known;
  }
  library_t *self = key ? PyObject_New(library_t, library_type) : NULL;
  if (!self) {
    tenon_library_release(library);
    Py_XDECREF(key);
    return NULL;
  }
  self->library = library;
  self->operators = PyDict_New();
  self->past = NULL;
  self->past_count = 0;
  bool good =
      self->operators && fill_operators(self) && PyDict_SetItem(loaded, key, (PyObject *)self) == 0;
  Py_DECREF(key);
  if (good) return (PyObject *)self;
  tenon_library_release(library);
  Py_DECREF(self);
  return NULL;
}

/* Returns the object of a library; takes the handle over. */
static PyObject *library_of(tenon_library_t *library) {
  lock_take(&libraries_lock);
  PyObject *object = library_find(library);
  lock_give(&libraries_lock);
  return object;
}

static PyObject *load_library(PyObject *module, PyObject *arguments, PyObject *named) {
  static char *operator_names[] = {"path", "flags", NULL};
  PyObject *path;
  unsigned flags = 0;
  tenon_library_t *library = NULL;
  tenon_status_t status;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "O&|I", operator_names, PyUnicode_FSConverter,
                                   &path, &flags))
    return NULL;
  Py_BEGIN_ALLOW_THREADS status = tenon_library_load(PyBytes_AsString(path), flags, &library);
  Py_END_ALLOW_THREADS Py_DECREF(path);
  if (status != TENON_OK) return raise_status(status);
  return library_of(library);
}

typedef struct words_t { /* The output of the compilers; it is incomplete if memory runs out. */
  char *text;
  size_t size;
} words_t;

static void hear_compiler(void *context, uint32_t what, const char *text) {
  words_t *words = (words_t *)context;
  size_t size = strlen(text);
  char *grown =
      what == TENON_BUILD_WORDS ? (char *)realloc(words->text, words->size + size + 1) : NULL;
  if (!grown) return;
  memcpy(grown + words->size, text, size + 1);
  words->text = grown;
  words->size += size;
}

/* Returns pointers to the strings in a tuple of bytes. The tuple keeps the strings alive. */
static const char **texts_of(PyObject *tuple, uint32_t *out_count) {
  Py_ssize_t count = PyTuple_Size(tuple);
  const char **texts = (const char **)malloc(((size_t)count + 1) * sizeof *texts);
  for (Py_ssize_t i = 0; texts && i < count; i++) {
    texts[i] = PyBytes_AsString(PyTuple_GetItem(tuple, i));
    if (!texts[i]) {
      free(texts);
      return NULL;
    }
  }
  *out_count = (uint32_t)count;
  return texts ? texts : (const char **)PyErr_NoMemory();
}

static PyObject *raise_build(tenon_status_t status, const words_t *words) {
  PyObject *text = words->size ? PyUnicode_FromFormat("%s:\n%s", tenon_error(), words->text) : NULL;
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  PyErr_Clear();
  raise_text(status, bytes ? PyBytes_AsString(bytes) : tenon_error());
  Py_XDECREF(text);
  Py_XDECREF(bytes);
  return NULL;
}

static PyObject *load_build(PyObject *module, PyObject *arguments) {
  PyObject *sources, *options;
  PyObject *result = NULL;
  unsigned build_flags, flags;
  words_t words = {NULL, 0};
  tenon_library_t *library = NULL;
  tenon_status_t status;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "O!O!II", &PyTuple_Type, &sources, &PyTuple_Type, &options,
                        &build_flags, &flags))
    return NULL;
  tenon_build_t build_library = {
      .size = sizeof build_library, .flags = build_flags, .say = hear_compiler, .context = &words};
  build_library.sources = texts_of(sources, &build_library.source_count);
  build_library.options =
      build_library.sources ? texts_of(options, &build_library.option_count) : NULL;
  if (build_library.options) {
    Py_BEGIN_ALLOW_THREADS status = tenon_library_load_build(&build_library, flags, &library);
    Py_END_ALLOW_THREADS if (status != TENON_OK) raise_build(status, &words);
    else if (words.size && PyErr_WarnEx(PyExc_RuntimeWarning, words.text, 2) != 0)
        tenon_library_release(library);
    else result = library_of(library);
  }
  free((void *)(uintptr_t)build_library.sources);
  free((void *)(uintptr_t)build_library.options);
  free(words.text);
  return result;
}

/* Builds a library to a file. */
static PyObject *build_library(PyObject *module, PyObject *arguments) {
  PyObject *sources, *options;
  PyObject *result = NULL;
  const char *path;
  unsigned build_flags;
  words_t words = {NULL, 0};
  tenon_status_t status;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "O!O!Iy", &PyTuple_Type, &sources, &PyTuple_Type, &options,
                        &build_flags, &path))
    return NULL;
  tenon_build_t build_library = {
      .size = sizeof build_library, .flags = build_flags, .say = hear_compiler, .context = &words};
  build_library.sources = texts_of(sources, &build_library.source_count);
  build_library.options =
      build_library.sources ? texts_of(options, &build_library.option_count) : NULL;
  if (build_library.options) {
    Py_BEGIN_ALLOW_THREADS status = tenon_library_build(&build_library, path);
    Py_END_ALLOW_THREADS if (status != TENON_OK) raise_build(status, &words);
    else if (!words.size || PyErr_WarnEx(PyExc_RuntimeWarning, words.text, 2) == 0) result =
        PyBool_FromLong(1);
  }
  free((void *)(uintptr_t)build_library.sources);
  free((void *)(uintptr_t)build_library.options);
  free(words.text);
  return result;
}

static PyObject *set_policy(PyObject *module, PyObject *arguments) {
  PyObject *folders, *hashes;
  tenon_policy_t rules = {.size = sizeof rules};
  tenon_status_t status = TENON_OK;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "O!O!I", &PyTuple_Type, &folders, &PyTuple_Type, &hashes,
                        &rules.flags))
    return NULL;
  rules.folders = texts_of(folders, &rules.folder_count);
  rules.hashes = rules.folders ? texts_of(hashes, &rules.hash_count) : NULL;
  if (rules.hashes) status = tenon_policy_set(&rules);
  const bool is_read = rules.hashes != NULL;
  free((void *)(uintptr_t)rules.folders);
  free((void *)(uintptr_t)rules.hashes);
  if (!is_read) return NULL;
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *check_policy(PyObject *module, PyObject *arguments) {
  const char *path;
  (void)module;
  if (!PyArg_ParseTuple(arguments, "y", &path)) return NULL;
  const tenon_status_t status = tenon_policy_check(path);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *load_isolated(PyObject *module, PyObject *arguments, PyObject *named) {
  static char *operator_names[] = {"path",      "flags",    "allow",   "deadline_ms", "spin_us",
                                   "processes", "calls",    "threads", "memory",      "shared",
                                   "readable",  "writable", NULL};
  PyObject *path;
  PyObject *readable = NULL;
  PyObject *writable = NULL;
  PyObject *result = NULL;
  unsigned flags = 0;
  unsigned long long memory = 0;
  unsigned long long shared = 0;
  tenon_isolation_t isolation = {.size = sizeof isolation};
  tenon_library_t *library = NULL;
  tenon_status_t status;
  (void)module;
  if (!PyArg_ParseTupleAndKeywords(
          arguments, named, "O&|IIIIIIIKKO!O!", operator_names, PyUnicode_FSConverter, &path,
          &flags, &isolation.allow, &isolation.deadline_ms, &isolation.spin_us,
          &isolation.child_count, &isolation.call_count, &isolation.thread_count, &memory, &shared,
          &PyTuple_Type, &readable, &PyTuple_Type, &writable))
    return NULL;
  isolation.memory = memory;
  isolation.shared = shared;
  if (readable) isolation.readable = texts_of(readable, &isolation.readable_count);
  if (writable) isolation.writable = texts_of(writable, &isolation.writable_count);
  if (!PyErr_Occurred()) {
    Py_BEGIN_ALLOW_THREADS status =
        tenon_library_load_isolated(PyBytes_AsString(path), flags, &isolation, &library);
    Py_END_ALLOW_THREADS result = status == TENON_OK ? library_of(library) : raise_status(status);
  }
  Py_DECREF(path);
  free((void *)(uintptr_t)isolation.readable);
  free((void *)(uintptr_t)isolation.writable);
  return result;
}

static PyObject *library_empty(PyObject *object, PyObject *arguments, PyObject *named) {
  static char *operator_names[] = {"shape", "dtype", NULL};
  PyObject *shape_object;
  PyObject *dtype_object = NULL;
  int64_t shape[TENON_RANK_MAX];
  int32_t ndim;
  tenon_dtype_t dtype = tenon_dtype(TENON_F32);
  tenon_tensor_t *tensor = NULL;
  if (!PyArg_ParseTupleAndKeywords(arguments, named, "O|O", operator_names, &shape_object,
                                   &dtype_object) ||
      !shape_from(shape_object, shape, &ndim) ||
      (dtype_object && !dtype_from(dtype_object, &dtype)))
    return NULL;
  lock_take(&libraries_lock);
  tenon_status_t status =
      tenon_library_tensor_create(((library_t *)object)->library, dtype, ndim, shape, &tensor);
  lock_give(&libraries_lock);
  return status == TENON_OK ? tensor_new(tensor) : raise_status(status);
}

static void library_delete(PyObject *object) {
  library_t *self = (library_t *)object;
  PyTypeObject *type = Py_TYPE(object);
  free((void *)(uintptr_t)self->past);
  Py_XDECREF(self->operators);
  PyObject_Free(object);
  Py_DECREF(type);
}

/* Returns the current operators of a library, and those that reloads replaced. */
static const tenon_op_t **all_ops(const library_t *self, int32_t *out_count) {
  const int32_t count = tenon_library_op_count(self->library);
  const tenon_op_t **ops =
      (const tenon_op_t **)malloc(((size_t)(count + self->past_count) + 1) * sizeof *ops);
  for (int32_t i = 0; ops && i < count; i++)
    ops[i] = tenon_library_op(self->library, i);
  if (ops && self->past_count)
    memcpy(ops + count, self->past, (size_t)self->past_count * sizeof *ops);
  *out_count = count + self->past_count;
  return ops;
}

static PyObject *end_library(library_t *self) {
  if (!self->library) Py_RETURN_NONE;
  int32_t count;
  const tenon_op_t **ops = all_ops(self, &count);
  PyObject *key = ops ? PyLong_FromVoidPtr(self->library) : PyErr_NoMemory();
  if (!key) {
    free(ops);
    return NULL;
  }
  const bool is_quiet = operators_end(ops, count);
  tenon_status_t status = is_quiet ? tenon_library_unload(self->library) : TENON_UNAVAILABLE;
  if (!is_quiet)
    PyErr_Format(error_class,
                 "cannot unload library %s: a call of one of its operators is in progress",
                 tenon_library_name(self->library));
  operators_settle(ops, count, status == TENON_OK);
  if (status == TENON_OK) {
    self->library = NULL;
    if (PyDict_DelItem(loaded, key) != 0) PyErr_Clear(); /* The entry exists. */
  }
  free(ops);
  Py_DECREF(key);
  if (status != TENON_OK) return raise_status(status);
  Py_RETURN_NONE;
}

static PyObject *library_unload(PyObject *object, PyObject *unused) {
  library_t *self = (library_t *)object;
  (void)unused;
  lock_take(&libraries_lock);
  PyObject *done = end_library(self);
  lock_give(&libraries_lock);
  if (done) PyDict_Clear(self->operators);
  return done;
}

/* Reloads the library. Existing operator objects continue with the new kernels, as Tenon's handles
 * do; the dictionary gets the new operators. */
static PyObject *replace_library(library_t *self, const char *path) {
  tenon_library_t *library = self->library;
  tenon_status_t status;
  int32_t count;
  if (!library) return PyErr_Format(error_class, "the library was unloaded");
  const tenon_op_t **ops = all_ops(self, &count);
  if (!ops) return PyErr_NoMemory();
  tenon_library_retain(library); /* Keeps the library while the interpreter lock is released. */
  Py_BEGIN_ALLOW_THREADS status = tenon_library_reload(library, path);
  Py_END_ALLOW_THREADS if (status != TENON_OK) {
    raise_status(status);
    tenon_library_release(library);
    free(ops);
    return NULL;
  }
  tenon_library_release(library);
  free((void *)(uintptr_t)self->past);
  self->past = ops;
  self->past_count = count;
  PyDict_Clear(self->operators);
  if (!self->library || !fill_operators(self)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *library_reload(PyObject *object, PyObject *path) {
  const char *text = path == Py_None ? NULL : PyBytes_AsString(path);
  if (path != Py_None && !text) return NULL;
  lock_take(&libraries_lock);
  PyObject *done = replace_library((library_t *)object, text);
  lock_give(&libraries_lock);
  return done;
}

static PyObject *get_text(PyObject *object, void *which) {
  const char *(*const module_functions[])(const tenon_library_t *) = {
      tenon_library_name, tenon_library_version, tenon_library_path};
  lock_take(&libraries_lock);
  const tenon_library_t *library = ((library_t *)object)->library;
  PyObject *text =
      library ? PyUnicode_DecodeFSDefault(module_functions[(intptr_t)which](library)) : NULL;
  lock_give(&libraries_lock);
  return library ? text : PyErr_Format(error_class, "the library was unloaded");
}

static PyObject *get_operators(PyObject *object, void *unused) {
  (void)unused;
  Py_INCREF(((library_t *)object)->operators);
  return ((library_t *)object)->operators;
}

static PyMethodDef methods[] = {
    {"empty", (PyCFunction)(void (*)(void))library_empty, METH_VARARGS | METH_KEYWORDS,
     "empty(shape, dtype='f32')\n--\n\nCreates an uninitialised tensor in the memory that an "
     "isolated library shares with its worker processes."},
    {"unload", library_unload, METH_NOARGS,
     "unload()\n--\n\nUnloads the code of a library that was loaded with unloadable=True. Raises "
     "an error that names what still holds it."},
    {"reload", library_reload, METH_O,
     "reload(path)\n--\n\nReplaces the library by the contents of a file; None: its own file."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef properties[] = {
    {"name", get_text, NULL, "The namespace of the operators.", (void *)0},
    {"version", get_text, NULL, "The version that the library declares.", (void *)1},
    {"path", get_text, NULL,
     "The path of the library's file; \"\" if it is linked into the program.", (void *)2},
    {"operators", get_operators, NULL,
     "A dictionary of the operators by name without the namespace.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)library_delete},
                              {Py_tp_methods, methods},
                              {Py_tp_new, (void *)refuse_new},
                              {Py_tp_getset, properties},
                              {0, NULL}};
static PyType_Spec spec = {"tenon._core.Library", sizeof(library_t), 0, Py_TPFLAGS_DEFAULT, slots};

static PyObject *find_operator(PyObject *module, PyObject *name) {
  const tenon_op_t *op = NULL;
  PyObject *bytes = PyUnicode_Check(name) ? PyUnicode_AsUTF8String(name) : NULL;
  (void)module;
  if (!bytes)
    return PyErr_Occurred()
               ? NULL
               : PyErr_Format(PyExc_TypeError,
                              "expected the name of an operator as a str, found %R", name);
  lock_take(&libraries_lock);
  tenon_status_t status = tenon_op_find(PyBytes_AsString(bytes), &op);
  PyObject *found = status == TENON_OK ? operator_new(op) : NULL;
  lock_give(&libraries_lock);
  Py_DECREF(bytes);
  return status == TENON_OK ? found : raise_status(status);
}

static PyObject *operator_names(PyObject *module, PyObject *unused) {
  const tenon_op_t *const *ops;
  int32_t count;
  (void)module;
  (void)unused;
  lock_take(&libraries_lock);
  tenon_status_t status = tenon_ops_list(&ops, &count);
  if (status != TENON_OK) {
    lock_give(&libraries_lock);
    return raise_status(status);
  }
  PyObject *list = PyList_New(0);
  for (int32_t i = 0; list && i < count; i++) {
    tenon_op_info_t info = {.size = sizeof info};
    tenon_op_info(ops[i], &info);
    PyObject *name = PyUnicode_FromString(info.name);
    if (!name || PyList_Append(list, name) != 0) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  tenon_ops_release(ops);
  lock_give(&libraries_lock);
  return list;
}

static PyMethodDef module_functions[] = {
    {"load", (PyCFunction)(void (*)(void))load_library, METH_VARARGS | METH_KEYWORDS,
     "load(path, flags=0)\n--\n\nLoads a library."},
    {"load_isolated", (PyCFunction)(void (*)(void))load_isolated, METH_VARARGS | METH_KEYWORDS,
     "load_isolated(path, flags=0, ...)\n--\n\nLoads a library into worker processes."},
    {"build", build_library, METH_VARARGS,
     "build(sources, options, build_flags, path)\n--\n\nBuilds a library to a file; returns True."},
    {"load_build", load_build, METH_VARARGS,
     "load_build(sources, options, build_flags, flags)\n--\n\nBuilds a library and loads it."},
    {"policy", set_policy, METH_VARARGS,
     "policy(folders, hashes, flags)\n--\n\nSets the policy for loading libraries."},
    {"check_policy", check_policy, METH_VARARGS,
     "check_policy(path)\n--\n\nChecks a file against the policy for loading libraries."},
    {"find", find_operator, METH_O, "find(name)\n--\n\nReturns the operator \"ns::name\"."},
    {"names", operator_names, METH_NOARGS, "names()\n--\n\nReturns the names of all operators."},
    {NULL, NULL, 0, NULL}};

bool libraries_add(PyObject *module) {
  library_type = (PyTypeObject *)PyType_FromSpec(&spec);
  loaded = PyDict_New();
  if (!library_type || !loaded) return false;
  Py_INCREF(library_type);
  return PyModule_AddObject(module, "Library", (PyObject *)library_type) == 0 &&
         PyModule_AddFunctions(module, module_functions) == 0;
}
