/* tenon.Operator: an operator as a callable object, with properties that describe it. All operator
 * objects are in a list (`live`), so that unloading a library can end the objects of its
 * operators. */
#include "operator.h"

#include <stdlib.h>
#include <string.h>
#include <structmember.h>

#include "attribute.h"
#include "call.h"
#include "error.h"
#include "infer.h"

/* the type flag Py_TPFLAGS_HAVE_VECTORCALL, unchanged since Python 3.8 */
enum { HAS_VECTORCALL = 1 << 11 };

PyTypeObject *operator_type;
static operator_t *live;
static lock_t live_lock;

/* The caller has called operator_hold, which returned `shard`. If the library was unloaded (`shard`
 * is NULL), the result is empty. */
static tenon_op_info_t info_of(const operator_t *self, const shard_t *shard) {
  tenon_op_info_t info = {.size = sizeof info};
  if (shard) tenon_op_info(self->op, &info);
  return info;
}

static PyObject *text_or_none(const char *text) {
  if (text) return PyUnicode_FromString(text);
  Py_RETURN_NONE;
}

#define TEXT_PROPERTY(field)                                                                       \
  static PyObject *get_##field(PyObject *self, void *unused) {                                     \
    shard_t *shard = operator_hold((operator_t *)self);                                            \
    PyObject *text = text_or_none(info_of((operator_t *)self, shard).field);                       \
    (void)unused;                                                                                  \
    operator_leave(shard);                                                                         \
    return text;                                                                                   \
  }
TEXT_PROPERTY(schema)
TEXT_PROPERTY(doc)
TEXT_PROPERTY(types)
TEXT_PROPERTY(shapes)
TEXT_PROPERTY(gradient)
TEXT_PROPERTY(batching)
TEXT_PROPERTY(sharding)
TEXT_PROPERTY(library)

static PyObject *get_name(PyObject *self, void *unused) {
  (void)unused;
  return PyUnicode_FromString(((operator_t *)self)->name);
}

static PyObject *get_short_name(PyObject *self, void *unused) {
  const char *name = ((operator_t *)self)->name;
  const char *colons = strstr(name, "::");
  (void)unused;
  return PyUnicode_FromString(colons ? colons + 2 : name);
}

static PyObject *get_traits(PyObject *self, void *unused) {
  static const struct trait_t {
    uint32_t bit;
    const char *name;
  } traits[] = {{TENON_PURE, "pure"},
                {TENON_POINTWISE, "pointwise"},
                {TENON_RANDOM, "random"},
                {TENON_BRIEF, "brief"}};
  shard_t *shard = operator_hold((operator_t *)self);
  const uint32_t bits = info_of((operator_t *)self, shard).traits;
  PyObject *list = PyList_New(0);
  (void)unused;
  for (size_t i = 0; list && i < sizeof traits / sizeof *traits; i++) {
    if (!(bits & traits[i].bit)) continue;
    PyObject *name = PyUnicode_FromString(traits[i].name);
    if (!name || PyList_Append(list, name) != 0) Py_CLEAR(list);
    Py_XDECREF(name);
  }
  operator_leave(shard);
  return list;
}

static PyObject *get_kernels(PyObject *object, void *unused) {
  operator_t *self = (operator_t *)object;
  shard_t *shard = operator_hold(self);
  PyObject *list = PyList_New(0);
  (void)unused;
  for (int32_t i = 0; list && i < info_of(self, shard).kernel_count; i++) {
    char *text = tenon_op_kernel(self->op, i);
    PyObject *kernel = text ? PyUnicode_FromString(text) : NULL;
    tenon_text_release(text);
    if (!kernel) break; /* A kernel was removed meanwhile. */
    if (PyList_Append(list, kernel) != 0) Py_CLEAR(list);
    Py_DECREF(kernel);
  }
  operator_leave(shard);
  return list;
}

static const char *kind_name(const tenon_argument_t *of) {
  static const char *const names[] = {
      [TENON_KIND_BOOL] = "bool",       [TENON_KIND_INT] = "int",
      [TENON_KIND_DIM] = "dim",         [TENON_KIND_FLOAT] = "float",
      [TENON_KIND_STR] = "str",         [TENON_KIND_CHOICE] = "choice",
      [TENON_KIND_DTYPE] = "dtype",     [TENON_KIND_DEVICE] = "device",
      [TENON_KIND_TENSOR] = "Tensor",   [TENON_KIND_GRAPH] = "graph",
      [TENON_KIND_INTS] = "int[]",      [TENON_KIND_DIMS] = "dim[]",
      [TENON_KIND_FLOATS] = "float[]",  [TENON_KIND_STRS] = "str[]",
      [TENON_KIND_TENSORS] = "Tensor[]"};
  if (of->is_scalar) return "scalar";
  return of->kind < sizeof names / sizeof *names && names[of->kind] ? names[of->kind] : "";
}

static PyObject *describe_argument(const tenon_argument_t *of) {
  char mark[2] = {(char)of->mark, 0};
  PyObject *choices = PyList_New(0);
  PyObject *value = attribute_object(of);
  for (uint32_t i = 0; choices && i < of->choice_count; i++) {
    PyObject *choice = PyUnicode_FromString(of->choices[i]);
    if (!choice || PyList_Append(choices, choice) != 0) Py_CLEAR(choices);
    Py_XDECREF(choice);
  }
  if (!choices || !value) {
    Py_XDECREF(choices);
    Py_XDECREF(value);
    return NULL;
  }
  return Py_BuildValue(
      "{s:s,s:s,s:N,s:N,s:N,s:N,s:N,s:N,s:s,s:i,s:N,s:N,s:i,s:N}", "name", of->name, "kind",
      kind_name(of), "tensor", PyBool_FromLong(of->role == TENON_ARGUMENT_INPUT), "optional",
      PyBool_FromLong(of->is_optional), "keyword", PyBool_FromLong(of->is_keyword), "host",
      PyBool_FromLong(of->is_host), "written", PyBool_FromLong(of->is_written), "has_default",
      PyBool_FromLong(of->has_default), "mark", mark, "index", (int)of->index, "choices", choices,
      "default", value, "count", (int)of->count, "open", PyBool_FromLong(of->is_open));
}

static PyObject *get_parameters(PyObject *object, void *unused) {
  operator_t *self = (operator_t *)object;
  shard_t *shard = operator_hold(self);
  PyObject *list = PyList_New(0);
  (void)unused;
  for (uint32_t i = 0; list && shard && i < self->count; i++) {
    PyObject *item = describe_argument(&self->parameters[i].of);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  operator_leave(shard);
  return list;
}

static PyObject *get_results(PyObject *object, void *unused) {
  operator_t *self = (operator_t *)object;
  shard_t *shard = operator_hold(self);
  PyObject *list = PyList_New(0);
  (void)unused;
  for (uint32_t i = 0; list && shard && i < self->outputs; i++) {
    tenon_argument_t of = {.size = sizeof of};
    tenon_status_t status = tenon_op_argument(self->op, TENON_ARGUMENT_OUTPUT, (int32_t)i, &of);
    PyObject *item = status == TENON_OK ? describe_argument(&of) : NULL;
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  operator_leave(shard);
  return list;
}

/* tenon/_signature.py makes signature and documentation on request. */
static PyObject *asked(PyObject *self, const char *function) {
  PyObject *module = PyImport_ImportModule("tenon._signature");
  PyObject *made = module ? PyObject_CallMethod(module, function, "O", self) : NULL;
  Py_XDECREF(module);
  return made;
}
static PyObject *get_signature(PyObject *self, void *unused) {
  (void)unused;
  return asked(self, "signature");
}
static PyObject *get_help(PyObject *self, void *unused) {
  (void)unused;
  return asked(self, "document");
}

static PyObject *operator_text(PyObject *object) {
  operator_t *self = (operator_t *)object;
  shard_t *shard = operator_hold(self);
  const char *schema = info_of(self, shard).schema;
  PyObject *text = PyUnicode_FromFormat("<tenon operator %s>", schema ? schema : self->name);
  operator_leave(shard);
  return text;
}

static PyObject *get_handle(PyObject *object, void *unused) {
  operator_t *self = (operator_t *)object;
  shard_t *shard = operator_hold(self);
  (void)unused;
  PyObject *handle = PyLong_FromVoidPtr(shard ? (void *)(uintptr_t)self->op : NULL);
  operator_leave(shard);
  return handle;
}

static void operator_delete(PyObject *object) {
  operator_t *self = (operator_t *)object;
  PyTypeObject *type = Py_TYPE(object);
  for (uint32_t i = 0; self->parameters && i < self->count; i++)
    Py_XDECREF(self->parameters[i].name);
  for (int i = 0; i < SHARDS; i++)
    call_attrs_release((call_attrs_t *)self->shards[i].attrs, self->count);
  free(self->parameters);
  free(self->name);
  lock_take(&live_lock);
  if (self->next) self->next->before = self->before;
  if (self->before)
    self->before->next = self->next;
  else
    live = self->next;
  lock_give(&live_lock);
  for (int k = 0; k < OWN_COUNT; k++)
    Py_XDECREF(self->own_names[k]);
  PyObject_Free(object);
  Py_DECREF(type);
}

static bool parameters_set(operator_t *self, const tenon_op_info_t *info) {
  self->count = (uint32_t)(info->input_count + info->attr_count);
  if (self->count > OPERATOR_MOST || info->output_count > OPERATOR_MOST) {
    PyErr_Format(error_class, "%s has %u arguments: at most %d are supported in Python", self->name,
                 self->count, OPERATOR_MOST);
    return false;
  }
  self->open = self->count;
  if (!(self->parameters = (parameter_t *)calloc(self->count + 1, sizeof *self->parameters))) {
    PyErr_NoMemory();
    return false;
  }
  for (uint32_t i = 0; i < self->count; i++) {
    bool is_input = (int32_t)i < info->input_count;
    const uint32_t role = is_input ? TENON_ARGUMENT_INPUT : TENON_ARGUMENT_ATTR;
    const int32_t index = (int32_t)i - (is_input ? 0 : info->input_count);
    tenon_argument_t of = {.size = sizeof of};
    tenon_status_t status = tenon_op_argument(self->op, role, index, &of);
    if (status != TENON_OK) {
      raise_status(status);
      return false;
    }
    parameter_t *parameter = &self->parameters[of.place];
    parameter->of = of;
    if (!(parameter->name = PyUnicode_InternFromString(of.name))) return false;
    if (!of.is_keyword) self->positional++;
    if (of.is_open) self->open = of.place;
    if (of.kind == TENON_KIND_TENSORS) self->has_lists = true;
    if (!is_input) self->has_attrs = true;
  }
  static const char *const own[OWN_COUNT][2] = {{"out", "out_"}, {"add", "add_"}};
  for (int k = 0; k < OWN_COUNT; k++) {
    int taken = 0;
    for (uint32_t i = 0; i < self->count; i++)
      taken |= strcmp(self->parameters[i].of.name, own[k][0]) == 0;
    if (!(self->own_names[k] = PyUnicode_InternFromString(own[k][taken]))) return false;
  }
  for (int32_t o = 0; o < info->output_count; o++) {
    tenon_argument_t of = {.size = sizeof of};
    if (tenon_op_argument(self->op, TENON_ARGUMENT_OUTPUT, o, &of) == TENON_OK && of.mark)
      self->keeps = true;
  }
  return true;
}

/* A caller first counts itself and then checks is_ended; this function first sets is_ended and then
 * reads the counts. So no call can be missed. */
bool operators_end(const tenon_op_t *const *ops, int32_t count) {
  size_t calls = 0;
  lock_take(&live_lock);
  for (operator_t *o = live; o; o = o->next)
    for (int32_t i = 0; i < count; i++) {
      if (o->op != ops[i]) continue;
      o->is_ended = true;
      for (int k = 0; k < SHARDS; k++)
        calls += shared_get(&o->shards[k].calls);
    }
  lock_give(&live_lock);
  return !calls;
}

void operators_settle(const tenon_op_t *const *ops, int32_t count, bool is_unloaded) {
  lock_take(&live_lock);
  for (operator_t *o = live; o; o = o->next)
    for (int32_t i = 0; i < count; i++) {
      if (o->op != ops[i]) continue;
      if (!is_unloaded)
        o->is_ended = false;
      else
        /* Another operator may get the same address later; this object must not refer to it. */
        o->op = NULL;
      break;
    }
  lock_give(&live_lock);
}

PyObject *operator_new(const tenon_op_t *op) {
  tenon_op_info_t info = {.size = sizeof info};
  operator_t *self = PyObject_New(operator_t, operator_type);
  if (!self) return NULL;
  memset((char *)self + sizeof(PyObject), 0, sizeof *self - sizeof(PyObject));
  tenon_op_info(op, &info);
  self->call = operator_vectorcall;
  self->op = op;
  lock_take(&live_lock);
  self->next = live;
  if (live) live->before = self;
  live = self;
  lock_give(&live_lock);
  self->name = strdup(info.name);
  self->is_brief = info.traits & TENON_BRIEF;
  self->inputs = (uint32_t)info.input_count;
  self->outputs = (uint32_t)info.output_count;
  if (!self->name)
    PyErr_NoMemory();
  else if (parameters_set(self, &info))
    return (PyObject *)self;
  Py_DECREF(self);
  return NULL;
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(operator_t, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyGetSetDef properties[] = {
    {"name", get_name, NULL, "\"ns::name\", followed by \".overload\" if it has one.", NULL},
    {"__name__", get_short_name, NULL, NULL, NULL},
    {"__qualname__", get_short_name, NULL, NULL, NULL},
    {"__doc__", get_help, NULL, NULL, NULL},
    {"__signature__", get_signature, NULL, NULL, NULL},
    {"schema", get_schema, NULL, "The schema that the operator declares.", NULL},
    {"doc", get_doc, NULL, "The documentation by the author; None if there is none.", NULL},
    {"types", get_types, NULL, "The declaration of dtypes.", NULL},
    {"shapes", get_shapes, NULL, "The declaration of shapes; None: a function infers them.", NULL},
    {"gradient", get_gradient, NULL, "The declared gradient; None if there is none.", NULL},
    {"batching", get_batching, NULL, "The declared batching; None if there is none.", NULL},
    {"sharding", get_sharding, NULL, "The declared sharding; None if there is none.", NULL},
    {"library", get_library, NULL, "The name of the library.", NULL},
    {"traits", get_traits, NULL,
     "A list with those of \"pure\", \"pointwise\", \"random\" and \"brief\" that the operator "
     "declares.",
     NULL},
    {"kernels", get_kernels, NULL,
     "A list of the kernels as texts; the one in use ends with (chosen).", NULL},
    {"parameters", get_parameters, NULL,
     "A list with a dictionary for each argument, in the order of the schema.", NULL},
    {"results", get_results, NULL, "A list with a dictionary for each result.", NULL},
    {"handle", get_handle, NULL, "The address of the tenon_op_t, for other extensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMethodDef methods[] = {
    {"_infer", operator_infer, METH_VARARGS,
     "Infers the shapes of results from those of arguments; for adapters."},
    {NULL, NULL, 0, NULL}};
static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)operator_delete},
                              {Py_tp_repr, (void *)operator_text},
                              {Py_tp_new, (void *)refuse_new},
                              {Py_tp_call, (void *)operator_call},
                              {Py_tp_members, members},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, properties},
                              {0, NULL}};
static PyType_Spec spec = {"tenon.Operator", sizeof(operator_t), 0,
                           Py_TPFLAGS_DEFAULT | HAS_VECTORCALL, slots};

bool operators_add(PyObject *module) {
  operator_type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!operator_type) return false;
  Py_INCREF(operator_type);
  return PyModule_AddObject(module, "Operator", (PyObject *)operator_type) == 0;
}
