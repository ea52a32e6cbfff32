/* Calls of operators. A call converts its tensors on the stack and reuses the attributes of the
 * previous call if they were made from the same objects. It releases the interpreter lock while the
 * operator runs, unless the operator declares that it is brief. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

#include "argument.h"
#include "attribute.h"
#include "error.h"
#include "unlocked.h"

enum { FEW = 8 }; /* A call with at most this many inputs and results keeps them on the stack. */
#define OFFSET_FLAG ((size_t)1 << (8 * sizeof(size_t) - 1))

/* Not inlined, so that it does not lengthen the path of a call. */
__attribute__((noinline, cold)) PyObject *operator_ended(const operator_t *self) {
  return PyErr_Format(error_class, "%s: its library was unloaded", self->name);
}

void call_attrs_release(call_attrs_t *attrs, uint32_t count) {
  if (!attrs) return;
  for (uint32_t i = 0; i < count; i++)
    Py_XDECREF(attrs->objects[i]);
  tenon_attrs_release(attrs->attrs);
  free(attrs);
}

/* An object of an immutable type always stands for the same value. */
static bool is_fixed(PyObject *object) {
  return object == Py_None || PyLong_CheckExact(object) || PyUnicode_CheckExact(object) ||
         PyFloat_CheckExact(object) || PyBool_Check(object);
}

static __attribute__((noinline, cold)) call_attrs_t *attrs_new(operator_t *self,
                                                               PyObject *const *given) {
  call_attrs_t *made =
      (call_attrs_t *)calloc(1, sizeof *made + self->count * sizeof *made->objects);
  if (!made) {
    PyErr_NoMemory();
    return NULL;
  }
  made->is_kept = true;
  tenon_status_t status = tenon_attrs_create(self->op, &made->attrs);
  for (uint32_t i = 0; i < self->count && status == TENON_OK; i++) {
    const tenon_argument_t *of = &self->parameters[i].of;
    if (of->role != TENON_ARGUMENT_ATTR || !given[i]) continue;
    if (!attribute_set(made->attrs, self->name, of, given[i])) {
      call_attrs_release(made, self->count);
      return NULL;
    }
    Py_INCREF(made->objects[i] = given[i]);
    made->is_kept = made->is_kept && is_fixed(given[i]);
  }
  if (status == TENON_OK) status = tenon_attrs_values(made->attrs, &made->values);
  if (status == TENON_OK) return made;
  call_attrs_release(made, self->count);
  raise_status(status);
  return NULL;
}

static inline void attrs_end(const operator_t *self, shard_t *shard, call_attrs_t *attrs) {
  if (attrs && attrs->is_kept) attrs = (call_attrs_t *)shared_swap(&shard->attrs, attrs);
  if (attrs) call_attrs_release(attrs, self->count);
}

/* A call takes the attributes of the previous call out of `shard`, and puts the attributes that it
 * used back. While they are taken, no other call can use them. */
static inline call_attrs_t *attrs_of(operator_t *self, shard_t *shard, PyObject *const *given,
                                     bool *out_default) {
  call_attrs_t *last = (call_attrs_t *)shared_swap(&shard->attrs, NULL);
  bool any = false;
  bool same = last != NULL;
  for (uint32_t i = 0; i < self->count; i++) {
    const tenon_argument_t *of = &self->parameters[i].of;
    if (of->role != TENON_ARGUMENT_ATTR) continue;
    any = any || given[i] || (!of->has_default && !of->is_optional);
    same = same && last->objects[i] == given[i];
  }
  *out_default = !any;
  if (any && same) return last;
  call_attrs_t *made = any ? attrs_new(self, given) : NULL;
  if (made && made->is_kept)
    call_attrs_release(last, self->count);
  else
    attrs_end(self, shard, last);
  return made;
}

static bool refuse_positional(const operator_t *self, Py_ssize_t count) {
  PyErr_Format(PyExc_TypeError, "%s() takes at most %u positional argument%s, but %zd were given",
               self->name, self->positional, self->positional == 1 ? "" : "s", count);
  return false;
}

static bool refuse_unknown(const operator_t *self, PyObject *name) {
  PyObject *names = PyList_New(0);
  for (uint32_t i = 0; names && i < self->count; i++)
    if (PyList_Append(names, self->parameters[i].name) != 0) Py_CLEAR(names);
  PyObject *comma = names ? PyUnicode_FromString(", ") : NULL;
  PyObject *list = comma ? PyUnicode_Join(comma, names) : NULL;
  if (list)
    PyErr_Format(PyExc_TypeError, "%s() has no argument named %R; its arguments are %U, %U, %U",
                 self->name, name, list, self->own_names[OWN_OUT], self->own_names[OWN_ADD]);
  Py_XDECREF(names);
  Py_XDECREF(comma);
  Py_XDECREF(list);
  return false;
}

/* Python keywords get an underscore: \"else_\" means the argument `else`. */
static uint32_t keyword_index(const operator_t *self, PyObject *name) {
  PyObject *bytes = PyUnicode_AsUTF8String(name);
  uint32_t found = self->count;
  Py_ssize_t size = bytes ? PyBytes_Size(bytes) : 0;
  for (uint32_t i = 0; i < self->count && size > 1 && found == self->count; i++) {
    const char *own = self->parameters[i].of.name;
    const char *given = PyBytes_AsString(bytes);
    if (given[size - 1] == '_' && strlen(own) == (size_t)size - 1 &&
        memcmp(own, given, (size_t)size - 1) == 0)
      found = i;
  }
  Py_XDECREF(bytes);
  PyErr_Clear();
  return found;
}

/* Adds "name=value" to the list of arguments that the schema does not name. */
static bool add_open(PyObject **open, PyObject *name, PyObject *value) {
  if (!*open && !(*open = PyList_New(0))) return false;
  PyObject *text = PyUnicode_FromFormat("%U=%S", name, value);
  bool good = text && PyList_Append(*open, text) == 0;
  Py_XDECREF(text);
  return good;
}

/* Finds the object for each argument of a call; NULL means that the argument is not given. If the
 * operator accepts arguments that its schema does not name, *open receives a new list of them. */
static bool arrange_arguments(operator_t *self, PyObject *const *args, Py_ssize_t count,
                              PyObject *names, PyObject **given, PyObject **own, PyObject **open) {
  if (count > (Py_ssize_t)self->positional) return refuse_positional(self, count);
  memcpy(given, args, (size_t)count * sizeof *given);
  memset(given + count, 0, (self->count - (size_t)count) * sizeof *given);
  memset(own, 0, OWN_COUNT * sizeof *own);
  Py_ssize_t named = names ? PyTuple_Size(names) : 0;
  for (Py_ssize_t k = 0; k < named; k++) {
    PyObject *name = PyTuple_GetItem(names, k);
    PyObject **at = NULL;
    for (int o = 0; o < OWN_COUNT && !at; o++)
      if (name == self->own_names[o]) at = &own[o];
    for (uint32_t i = 0; i < self->count && !at; i++)
      if (self->parameters[i].name == name) at = &given[i];
    /* Compare the texts too: the name may not be interned. */
    for (uint32_t i = 0; i < self->count && !at; i++)
      if (PyUnicode_Compare(self->parameters[i].name, name) == 0) at = &given[i];
    for (int o = 0; o < OWN_COUNT && !at; o++)
      if (PyUnicode_Compare(self->own_names[o], name) == 0) at = &own[o];
    uint32_t index = at ? self->count : keyword_index(self, name);
    if (index < self->count) at = &given[index];
    if (!at && self->open < self->count) {
      if (!add_open(open, name, args[count + k])) return false;
      continue;
    }
    if (!at) return refuse_unknown(self, name);
    if (*at) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument %R", self->name, name);
      return false;
    }
    *at = args[count + k];
  }
  if (!*open) return true;
  if (given[self->open]) {
    PyErr_Format(PyExc_TypeError,
                 "%s(): expected either %U or arguments of other names, found both", self->name,
                 self->parameters[self->open].name);
    return false;
  }
  given[self->open] = *open;
  return true;
}

typedef struct frame_t { /* the state of one call */
  origin_t origin;
  uint32_t input_count;
  uint32_t output_count; /* results whose entry in `outputs` is set */
  uint64_t added;        /* bit o: result o is added to the given tensor */
  tenon_tensor_t *inputs[OPERATOR_MOST];
  tenon_tensor_t *outputs[OPERATOR_MOST];
  argument_t *arguments; /* of the inputs, then of the results that the caller gave */
  tenon_tensor_t *lists[OPERATOR_MOST];
  uint32_t kept_count;
  PyObject *kept[OPERATOR_MOST + 1];
} frame_t;

/* Returns the items of a list as a borrowed tuple that lives until the end of the call, since other
 * threads may change the list. */
static PyObject *kept_tuple(frame_t *frame, PyObject *list) {
  if (PyTuple_Check(list)) return list; /* The caller holds the tuple. */
  PyObject *tuple = PySequence_Tuple(list);
  if (tuple) frame->kept[frame->kept_count++] = tuple;
  return tuple;
}

static bool list_set(const operator_t *self, const tenon_argument_t *of, PyObject *object,
                     frame_t *frame, tenon_tensor_t **out_list) {
  argument_t argument;
  if (!PyList_Check(object) && !PyTuple_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s: argument %s: expected a list of tensors, found %R",
                 self->name, of->name, Py_TYPE(object));
    return false;
  }
  if (!(object = kept_tuple(frame, object))) return false;
  Py_ssize_t count = PyTuple_Size(object);
  Py_ssize_t made = 0;
  tenon_tensor_t **items = (tenon_tensor_t **)calloc((size_t)count + 1, sizeof *items);
  bool good = items != NULL;
  if (!items) PyErr_NoMemory();
  for (; made < count && good; made += good) {
    PyObject *item = PyTuple_GetItem(object, made);
    good = argument_set(&argument, item, ARGUMENT_KEPT, NULL, self->name, of->name, &frame->origin);
    if (good) items[made] = argument.tensor;
    if (good && !argument.is_reference) tenon_tensor_retain(argument.tensor);
  }
  if (good) {
    tenon_status_t status = tenon_tensor_list(items, (int32_t)count, out_list);
    if (!(good = status == TENON_OK)) raise_status(status);
  }
  for (Py_ssize_t i = 0; i < made; i++)
    tenon_tensor_release(items[i]);
  free(items);
  return good;
}

static bool input_set(operator_t *self, const tenon_argument_t *of, PyObject *object,
                      const tenon_tensor_t *first, frame_t *frame) {
  uint32_t k = (uint32_t)of->index;
  int flags = self->keeps ? ARGUMENT_KEPT : 0;
  if (of->is_written) flags |= ARGUMENT_WRITTEN;
  if (of->kind == TENON_KIND_TENSORS) {
    if (!list_set(self, of, object, frame, &frame->lists[k])) return false;
    frame->inputs[k] = frame->lists[k];
    return true;
  }
  bool good = argument_set(&frame->arguments[k], object, flags, first, self->name, of->name,
                           &frame->origin);
  frame->inputs[k] = good ? frame->arguments[k].tensor : NULL;
  return good;
}

static inline bool is_number(PyObject *object) {
  return Py_TYPE(object) == &PyFloat_Type || Py_TYPE(object) == &PyLong_Type ||
         Py_TYPE(object) == &PyBool_Type;
}

static bool refuse_missing(const operator_t *self, const tenon_argument_t *of) {
  PyErr_Format(PyExc_TypeError, "%s() is missing argument %s, a tensor", self->name, of->name);
  return false;
}

/* Python numbers are converted last, since they take the dtype of the first tensor. */
static bool inputs_set(operator_t *self, PyObject *const *given, frame_t *frame) {
  const tenon_tensor_t *first = NULL;
  uint32_t numbers = 0;
  /* Among the inputs, the order of the schema is the order of their indices. */
  for (uint32_t i = 0; i < self->count; i++) {
    const tenon_argument_t *of = &self->parameters[i].of;
    if (of->role != TENON_ARGUMENT_INPUT) continue;
    uint32_t k = frame->input_count++;
    frame->arguments[k].is_reference = false;
    frame->arguments[k].object = NULL;
    frame->inputs[k] = frame->lists[k] = NULL;
    if (!given[i] || given[i] == Py_None) {
      if (!of->is_optional) return refuse_missing(self, of);
    } else if (is_number(given[i])) {
      numbers++;
    } else {
      if (!input_set(self, of, given[i], NULL, frame)) return false;
      if (!first && of->kind == TENON_KIND_TENSOR) first = frame->inputs[k];
    }
  }
  for (uint32_t i = 0; i < self->count && numbers; i++) {
    const tenon_argument_t *of = &self->parameters[i].of;
    if (of->role != TENON_ARGUMENT_INPUT || !given[i] || !is_number(given[i])) continue;
    if (!input_set(self, of, given[i], first, frame)) return false;
  }
  return true;
}

/* Reads the results that the caller gave: one object, or a sequence with None for each result that
 * the call must create. */
static bool outputs_set(operator_t *self, PyObject *out, frame_t *frame) {
  for (uint32_t o = 0; o < self->outputs; o++)
    frame->outputs[o] = NULL;
  if (!out || out == Py_None) return true;
  bool is_list = PyTuple_Check(out) || PyList_Check(out);
  if (is_list && !(out = kept_tuple(frame, out))) return false;
  Py_ssize_t count = is_list ? PyTuple_Size(out) : 1;
  if (count != (Py_ssize_t)self->outputs) {
    PyErr_Format(PyExc_TypeError, "%s: out: expected %u tensors, one for each result; found %zd",
                 self->name, self->outputs, count);
    return false;
  }
  for (Py_ssize_t o = 0; o < count; o++) {
    PyObject *item = is_list ? PyTuple_GetItem(out, o) : out;
    argument_t *argument = &frame->arguments[self->inputs + o];
    argument->is_reference = false;
    argument->object = NULL;
    frame->output_count = (uint32_t)o + 1;
    if (item == Py_None) continue;
    if (!argument_set(argument, item, ARGUMENT_WRITTEN, NULL, self->name, "out", &frame->origin))
      return false;
    frame->outputs[o] = argument->tensor;
  }
  return true;
}

static PyObject *object_of(const operator_t *self, frame_t *frame, uint32_t o) {
  tenon_tensor_t *tensor = frame->outputs[o];
  frame->outputs[o] = NULL;
  if (!tensor) Py_RETURN_NONE;
  /* The caller gave this object for the result. */
  if (o < frame->output_count && frame->arguments[self->inputs + o].object) {
    Py_INCREF(frame->arguments[self->inputs + o].object);
    return frame->arguments[self->inputs + o].object;
  }
  for (uint32_t i = 0; i < self->inputs; i++)
    /* The result is an argument that was written to. */
    if (frame->inputs[i] == tensor && frame->arguments[i].object) {
      tenon_tensor_release(tensor);
      Py_INCREF(frame->arguments[i].object);
      return frame->arguments[i].object;
    }
  if (tenon_dtype_id(tensor->dtype) != TENON_LIST) return result_of(tensor, &frame->origin);
  PyObject *list = PyList_New(0);
  for (int64_t i = 0; list && i < tensor->shape[0]; i++) {
    tenon_tensor_t *item = ((tenon_tensor_t **)tensor->data)[i];
    tenon_tensor_retain(item);
    PyObject *object = result_of(item, &frame->origin);
    if (!object || PyList_Append(list, object) != 0) Py_CLEAR(list);
    Py_XDECREF(object);
  }
  tenon_tensor_release(tensor);
  return list;
}

/* Releases the results that no object has taken over and that the caller did not give. */
static void results_drop(const operator_t *self, frame_t *frame) {
  for (uint32_t o = 0; o < self->outputs; o++)
    if (frame->outputs[o] &&
        !(o < frame->output_count && frame->arguments[self->inputs + o].object))
      tenon_tensor_release(frame->outputs[o]);
}

static PyObject *call_results(const operator_t *self, frame_t *frame) {
  if (self->outputs == 0) Py_RETURN_NONE;
  if (self->outputs == 1) return object_of(self, frame, 0);
  PyObject *tuple = PyTuple_New((Py_ssize_t)self->outputs);
  for (uint32_t o = 0; tuple && o < self->outputs; o++) {
    PyObject *object = object_of(self, frame, o);
    if (!object || PyTuple_SetItem(tuple, (Py_ssize_t)o, object) != 0) Py_CLEAR(tuple);
  }
  results_drop(self, frame);
  return tuple;
}

/* Determines the results that are added to: all results that the caller gave. */
static bool added_set(const operator_t *self, PyObject *add, frame_t *frame) {
  int adds = add ? PyObject_IsTrue(add) : 0;
  frame->added = 0;
  for (uint32_t o = 0; o < self->outputs && adds > 0; o++)
    if (frame->outputs[o]) frame->added |= (uint64_t)1 << o;
  if (adds > 0 && !frame->added)
    PyErr_Format(PyExc_TypeError, "%s: %U: expected the tensors to add to in %U=, found none",
                 self->name, self->own_names[OWN_ADD], self->own_names[OWN_OUT]);
  return adds >= 0 && (!adds || frame->added);
}

static tenon_status_t run_operator(const operator_t *self, const tenon_value_t *values,
                                   frame_t *frame, bool all_given) {
  if (frame->added)
    return tenon_op_call_add(self->op, values, frame->inputs, frame->outputs, frame->added);
  if (all_given) return tenon_op_call_into(self->op, values, frame->inputs, frame->outputs);
  return tenon_op_call(self->op, values, frame->inputs, frame->outputs, 0);
}

static PyObject *call_with(operator_t *self, shard_t *shard, PyObject *const *given,
                           PyObject *const *own, argument_t *arguments) {
  frame_t frame;
  bool is_default;
  PyObject *result = NULL;
  PyObject *out = own[OWN_OUT];
  frame.origin = (origin_t){FAMILY_UNKNOWN, NULL, NULL};
  frame.arguments = arguments;
  frame.input_count = frame.output_count = frame.kept_count = 0;
  call_attrs_t *attrs = self->has_attrs ? attrs_of(self, shard, given, &is_default) : NULL;
  if (self->has_attrs && !attrs && !is_default) return NULL;
  if (inputs_set(self, given, &frame) && outputs_set(self, out, &frame) &&
      added_set(self, own[OWN_ADD], &frame)) {
    bool all_given = !self->outputs || (out && out != Py_None);
    for (uint32_t o = 0; o < self->outputs; o++)
      all_given = all_given && frame.outputs[o];
    tenon_status_t status;
    const tenon_value_t *values = attrs ? attrs->values : NULL;
    if (self->is_brief)
      status = run_operator(self, values, &frame, all_given);
    else {
      unlocked_t unlocked;
      unlocked_begin(&unlocked);
      status = run_operator(self, values, &frame, all_given);
      if (!unlocked_end(&unlocked) && status == TENON_OK) {
        status = TENON_CANCELLED;
        results_drop(self, &frame);
      }
    }
    result = status == TENON_OK ? call_results(self, &frame) : raise_status(status);
  }
  for (uint32_t i = 0; i < frame.input_count; i++) {
    argument_release(&arguments[i]);
    if (self->has_lists) tenon_tensor_release(frame.lists[i]);
  }
  for (uint32_t o = 0; o < frame.output_count; o++)
    argument_release(&arguments[self->inputs + o]);
  if (attrs) attrs_end(self, shard, attrs);
  for (uint32_t i = 0; i < frame.kept_count; i++)
    Py_DECREF(frame.kept[i]);
  return result;
}

static PyObject *call_operator(operator_t *self, shard_t *shard, PyObject *const *args,
                               Py_ssize_t count, PyObject *names) {
  PyObject *arranged[OPERATOR_MOST];
  PyObject *own[OWN_COUNT] = {NULL};
  PyObject *open = NULL;
  PyObject *const *given = arranged;
  argument_t few[FEW];
  argument_t *arguments = few;
  if (!names && count == (Py_ssize_t)self->count && count == (Py_ssize_t)self->positional)
    given = args;
  else if (!arrange_arguments(self, args, count, names, arranged, own, &open)) {
    Py_XDECREF(open);
    return NULL;
  }
  if (self->inputs + self->outputs > FEW)
    arguments = (argument_t *)malloc((self->inputs + self->outputs) * sizeof *arguments);
  PyObject *result = arguments ? call_with(self, shard, given, own, arguments) : PyErr_NoMemory();
  Py_XDECREF(open);
  if (arguments != few) free(arguments);
  return result;
}

PyObject *operator_vectorcall(PyObject *object, PyObject *const *args, size_t flags,
                              PyObject *names) {
  operator_t *self = (operator_t *)object;
  shard_t *shard = operator_hold(self);
  if (!shard) return operator_ended(self);
  PyObject *result = call_operator(self, shard, args, (Py_ssize_t)(flags & ~OFFSET_FLAG), names);
  operator_leave(shard);
  return result;
}

/* Copies the objects of a tuple and a dictionary into one row, as a vectorcall has them. *out_names
 * receives a new tuple with the names of the last ones, or NULL if there are none. */
static bool spread_arguments(const operator_t *self, PyObject *tuple, PyObject *named,
                             PyObject **args, PyObject **out_names) {
  Py_ssize_t count = PyTuple_Size(tuple);
  Py_ssize_t extra = named ? PyDict_Size(named) : 0;
  Py_ssize_t k = 0;
  PyObject *name, *value;
  *out_names = NULL;
  if (count > OPERATOR_MOST || extra > OPERATOR_MOST + OWN_COUNT)
    return refuse_positional(self, count + extra);
  for (Py_ssize_t at = 0; at < count; at++)
    args[at] = PyTuple_GetItem(tuple, at);
  if (extra && !(*out_names = PyTuple_New(extra))) return false;
  for (Py_ssize_t position = 0; named && PyDict_Next(named, &position, &name, &value); k++) {
    Py_INCREF(name);
    if (PyTuple_SetItem(*out_names, k, name) != 0) {
      Py_CLEAR(*out_names);
      return false;
    }
    args[count + k] = value;
  }
  return true;
}

PyObject *operator_call(PyObject *object, PyObject *tuple, PyObject *named) {
  PyObject *args[2 * OPERATOR_MOST + OWN_COUNT], *names;
  if (!spread_arguments((operator_t *)object, tuple, named, args, &names)) return NULL;
  PyObject *result = operator_vectorcall(object, args, (size_t)PyTuple_Size(tuple), names);
  Py_XDECREF(names);
  return result;
}

bool operator_arrange(operator_t *self, PyObject *tuple, PyObject *named, PyObject **given,
                      PyObject **own, PyObject **open) {
  PyObject *args[2 * OPERATOR_MOST + OWN_COUNT], *names;
  if (!spread_arguments(self, tuple, named, args, &names)) return false;
  bool good = arrange_arguments(self, args, PyTuple_Size(tuple), names, given, own, open);
  Py_XDECREF(names);
  return good;
}

call_attrs_t *operator_attrs(operator_t *self, shard_t *shard, PyObject *const *given,
                             bool *out_default) {
  return attrs_of(self, shard, given, out_default);
}

void operator_attrs_end(const operator_t *self, shard_t *shard, call_attrs_t *attrs) {
  attrs_end(self, shard, attrs);
}
