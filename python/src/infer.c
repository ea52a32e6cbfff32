/* Infers the shapes of results from those of arguments, without data. Adapters make fake tensors
 * from them. */
#include "infer.h"

#include <stdlib.h>

#include "attribute.h"
#include "call.h"
#include "dtype.h"
#include "error.h"

/* The memory of one inference: descriptions of the inputs with their extents, and the symbols that
 * represent the caller's symbols. */
typedef struct inference_t {
  operator_t *self;
  tenon_shapes_t *shapes;
  tenon_dim_t *symbols; /* symbols[k] represents the caller's symbol k */
  Py_ssize_t symbol_count;
  /* the symbol whose value is being described, which must not be described as itself; -1: none */
  Py_ssize_t asked;
  unsigned long long wanted;       /* bit o: results[o] is requested; 0: all */
  void *blocks[2 * OPERATOR_MOST]; /* freed at the end */
  int block_count;
} inference_t;

static void *allocate_block(inference_t *f, size_t count, size_t size) {
  void *block = f->block_count < 2 * OPERATOR_MOST ? calloc(count + 1, size) : NULL;
  if (!block) return PyErr_NoMemory();
  return f->blocks[f->block_count++] = block;
}

/* Converts a number, or -1 - k for the caller's symbol k. */
static bool extent_from(inference_t *f, PyObject *object, tenon_dim_t *out) {
  long long number = PyLong_AsLongLong(object);
  if (number == -1 && PyErr_Occurred()) return false;
  if (number >= 0) {
    *out = (tenon_dim_t){number};
    return true;
  }
  if (-1 - number < f->symbol_count) {
    *out = f->symbols[-1 - number];
    return true;
  }
  raise_invalid("%s: symbol %lld: expected a number below %zd", f->self->name, -1 - number,
                f->symbol_count);
  return false;
}

/* Reads the integers of a tensor whose values are known, or symbols for them. */
static bool values_set(inference_t *f, PyObject *list, tenon_meta_t *meta) {
  Py_ssize_t count = PySequence_Size(list);
  if (count < 0 ||
      !(meta->values = (tenon_dim_t *)allocate_block(f, (size_t)count, sizeof *meta->values)))
    return false;
  meta->value_count = (uint32_t)count;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *value = PySequence_GetItem(list, i);
    bool good = value &&
                (PyTuple_Check(value) ? extent_from(f, PyTuple_GetItem(value, 0), &meta->values[i])
                                      : ((meta->values[i].value = PyLong_AsLongLong(value)) != -1 ||
                                         !PyErr_Occurred()));
    Py_XDECREF(value);
    if (!good) return false;
  }
  return true;
}

/* Reads (dtype, extents) or (dtype, extents, values), where a value (-1 - k,) is the caller's
 * symbol k. */
static bool meta_set(inference_t *f, PyObject *object, tenon_meta_t *meta) {
  PyObject *dtype = PyTuple_Check(object) ? PyTuple_GetItem(object, 0) : NULL;
  PyObject *dims = dtype ? PyTuple_GetItem(object, 1) : NULL;
  Py_ssize_t ndim = dims ? PySequence_Size(dims) : -1;
  *meta = (tenon_meta_t){.size = sizeof *meta, .device = {1, 0}, .ndim = (int32_t)ndim};
  if (ndim < 0 || ndim > TENON_RANK_MAX || !dtype_from(dtype, &meta->dtype)) {
    if (!PyErr_Occurred())
      raise_invalid("%s: %R: expected (dtype, extents)", f->self->name, object);
    return false;
  }
  if (!(meta->dims = (tenon_dim_t *)allocate_block(f, (size_t)ndim, sizeof *meta->dims)))
    return false;
  for (Py_ssize_t d = 0; d < ndim; d++) {
    PyObject *extent = PySequence_GetItem(dims, d);
    bool good = extent && extent_from(f, extent, &meta->dims[d]);
    Py_XDECREF(extent);
    if (!good) return false;
  }
  return PyTuple_Size(object) < 3 || values_set(f, PyTuple_GetItem(object, 2), meta);
}

static bool list_set(inference_t *f, PyObject *object, tenon_meta_t *meta) {
  Py_ssize_t count = PyList_Check(object) ? PyList_Size(object) : -1;
  if (count < 0) {
    raise_invalid("%s: %R: expected a list of (dtype, extents)", f->self->name, object);
    return false;
  }
  tenon_meta_t *items = (tenon_meta_t *)allocate_block(f, (size_t)count, sizeof *items);
  tenon_meta_t **list =
      items ? (tenon_meta_t **)allocate_block(f, (size_t)count, sizeof *list) : NULL;
  if (!list) return false;
  *meta = (tenon_meta_t){.size = sizeof *meta,
                         .device = {1, 0},
                         .dtype = tenon_dtype(TENON_LIST),
                         .count = (uint32_t)count,
                         .items = list};
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PySequence_GetItem(object, i);
    bool good = item && meta_set(f, item, list[i] = &items[i]);
    Py_XDECREF(item);
    if (!good) return false;
  }
  return true;
}

static const char *const operations[] = {"add",   "sub",        "mul",      "div",       "ceil_div",
                                         "mod",   "min",        "max",      "broadcast", "bound",
                                         "equal", "test_equal", "test_less"};

/* Returns a number, ("symbol", k), or (operation, key, a, b), where equal extents have equal
 * keys. */
static PyObject *tree_of(inference_t *f, tenon_dim_t dim, int depth) {
  tenon_part_t part = {.size = sizeof part};
  for (Py_ssize_t k = 0; k < f->symbol_count; k++)
    if (k != f->asked && f->symbols[k].value == dim.value) return Py_BuildValue("sn", "symbol", k);
  if (depth > 200)
    return raise_invalid("%s: an extent is computed in more than 200 steps, which is not supported",
                         f->self->name);
  tenon_status_t status = tenon_shapes_part(f->shapes, dim, &part);
  if (status != TENON_OK) return raise_status(status);
  if (part.kind == TENON_PART_NUMBER) return PyLong_FromLongLong(part.a.value);
  if (part.kind == TENON_PART_SYMBOL && part.a.value != dim.value)
    return tree_of(f, part.a, depth + 1);
  if (part.kind == TENON_PART_SYMBOL) return Py_BuildValue("sL", "unknown", (long long)dim.value);
  PyObject *a = tree_of(f, part.a, depth + 1);
  PyObject *b = a ? tree_of(f, part.b, depth + 1) : NULL;
  const char *name = part.operation < sizeof operations / sizeof *operations
                         ? operations[part.operation]
                         : "unknown";
  if (!b) {
    Py_XDECREF(a);
    return NULL;
  }
  return Py_BuildValue("sLNN", name, (long long)dim.value, a, b);
}

static PyObject *spec_of(inference_t *f, const tenon_meta_t *meta) {
  if (!meta) Py_RETURN_NONE;
  if (!meta->items && meta->ndim < 0)
    return Py_BuildValue("sO", tenon_dtype_name(meta->dtype), Py_None);
  PyObject *list = PyList_New(0);
  uint32_t count = meta->items ? meta->count : (uint32_t)meta->ndim;
  for (uint32_t i = 0; list && i < count; i++) {
    PyObject *item = meta->items ? spec_of(f, meta->items[i]) : tree_of(f, meta->dims[i], 0);
    if (!item || PyList_Append(list, item) != 0) Py_CLEAR(list);
    Py_XDECREF(item);
  }
  return !list || meta->items ? list : Py_BuildValue("sN", tenon_dtype_name(meta->dtype), list);
}

/* Returns (k, value) for each symbol that is known to equal something else. */
static PyObject *facts_of(inference_t *f) {
  PyObject *facts = PyList_New(0);
  for (Py_ssize_t k = 0; facts && k < f->symbol_count; k++) {
    tenon_part_t part = {.size = sizeof part};
    tenon_status_t status = tenon_shapes_part(f->shapes, f->symbols[k], &part);
    if (status == TENON_OK && part.kind == TENON_PART_SYMBOL && part.a.value == f->symbols[k].value)
      continue;
    f->asked = k;
    PyObject *tree = tree_of(f, f->symbols[k], 0);
    PyObject *fact = tree ? Py_BuildValue("nN", k, tree) : NULL;
    f->asked = -1;
    if (!fact || PyList_Append(facts, fact) != 0) Py_CLEAR(facts);
    Py_XDECREF(fact);
  }
  return facts;
}

static PyObject *infer_result_shapes(inference_t *f, PyObject *tensors, PyObject *attributes) {
  operator_t *self = f->self;
  tenon_meta_t *metas = (tenon_meta_t *)allocate_block(f, self->inputs, sizeof *metas);
  tenon_meta_t *inputs[OPERATOR_MOST] = {NULL};
  tenon_attrs_t *attrs = NULL;
  const tenon_value_t *values;
  const tenon_meta_t *const *results = NULL;
  PyObject *list = NULL;
  tenon_status_t status = TENON_OK;
  if (!metas) return NULL;
  if (PyTuple_Size(tensors) != (Py_ssize_t)self->inputs)
    return raise_invalid("%s: expected %u tensors, one for each tensor argument", self->name,
                         self->inputs);
  status = tenon_attrs_create(self->op, &attrs);
  if (status != TENON_OK) return raise_status(status);
  bool good = true;
  for (uint32_t i = 0; i < self->count && good; i++) {
    const tenon_argument_t *of = &self->parameters[i].of;
    if (of->role == TENON_ARGUMENT_INPUT) {
      PyObject *given = PyTuple_GetItem(tensors, of->index);
      if (given == Py_None) continue;
      good = of->kind == TENON_KIND_TENSORS ? list_set(f, given, &metas[of->index])
                                            : meta_set(f, given, &metas[of->index]);
      inputs[of->index] = &metas[of->index];
      continue;
    }
    PyObject *given = PyDict_GetItem(attributes, self->parameters[i].name);
    tenon_value_t symbol = {.kind = TENON_KIND_DIM};
    /* A symbol is given as (-1 - k,). */
    if (given && of->kind == TENON_KIND_DIM && PyTuple_Check(given)) {
      good = extent_from(f, PyTuple_GetItem(given, 0), &symbol.as.dim);
      if (good && (status = tenon_attrs_set(attrs, of->name, &symbol)) != TENON_OK)
        good = raise_status(status) != NULL;
    } else if (given)
      good = attribute_set(attrs, self->name, of, given);
  }
  if (good) status = tenon_attrs_values(attrs, &values);
  if (good && status == TENON_OK)
    status = tenon_shapes_infer(f->shapes, self->op, values, inputs, f->wanted, &results);
  if (good && status != TENON_OK) good = raise_status(status) != NULL;
  if (good) list = PyList_New(0);
  for (uint32_t o = 0; list && o < self->outputs; o++) {
    PyObject *spec = spec_of(f, results[o]);
    if (!spec || PyList_Append(list, spec) != 0) Py_CLEAR(list);
    Py_XDECREF(spec);
  }
  tenon_attrs_release(attrs);
  PyObject *facts = list ? facts_of(f) : NULL;
  if (facts) return Py_BuildValue("NN", list, facts);
  Py_XDECREF(list);
  return NULL;
}

PyObject *operator_infer(PyObject *object, PyObject *arguments) {
  PyObject *tensors, *attributes;
  PyObject *result = NULL;
  inference_t f = {.self = (operator_t *)object, .asked = -1};
  if (!PyArg_ParseTuple(arguments, "O!O!n|K", &PyList_Type, &tensors, &PyDict_Type, &attributes,
                        &f.symbol_count, &f.wanted))
    return NULL;
  if (f.symbol_count < 0 || f.symbol_count > 1 << 20)
    return raise_invalid("%s: expected 0 to 1048576 symbols, found %zd", f.self->name,
                         f.symbol_count);
  shard_t *shard = operator_hold(f.self);
  if (!shard) return operator_ended(f.self);
  /* copies, whose items cannot change */
  tensors = PySequence_Tuple(tensors);
  attributes = PyDict_Copy(attributes);
  f.symbols = (tenon_dim_t *)allocate_block(&f, (size_t)f.symbol_count, sizeof *f.symbols);
  tenon_status_t status = f.symbols ? tenon_shapes_create(&f.shapes) : TENON_OK;
  for (Py_ssize_t k = 0; f.symbols && k < f.symbol_count && status == TENON_OK; k++)
    status = tenon_shapes_symbol(f.shapes, &f.symbols[k]);
  if (status != TENON_OK)
    raise_status(status);
  else if (f.symbols && tensors && attributes)
    result = infer_result_shapes(&f, tensors, attributes);
  tenon_shapes_release(f.shapes);
  for (int i = 0; i < f.block_count; i++)
    free(f.blocks[i]);
  Py_XDECREF(tensors);
  Py_XDECREF(attributes);
  operator_leave(shard);
  return result;
}
