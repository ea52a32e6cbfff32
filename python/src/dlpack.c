/* DLPack in both directions. Objects of other libraries become tensors through the table of C
 * functions that their type offers (__dlpack_c_exchange_api__ of DLPack 1.3) or through __dlpack__;
 * tensors become DLPack capsules or objects of other libraries. */
#include "dlpack.h"

#include <string.h>

#include "error.h"
#include "lock.h"
#include "tensor.h"

typedef struct version_t {
  uint32_t major;
  uint32_t minor;
} version_t;
typedef struct dl_tensor_t {
  void *data;
  tenon_device_t device;
  int32_t ndim;
  tenon_dtype_t dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} dl_tensor_t;
struct DLManagedTensorVersioned {
  version_t version;
  void *context;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  dl_tensor_t tensor;
};
struct DLManagedTensor {
  dl_tensor_t tensor;
  void *context;
  void (*deleter)(struct DLManagedTensor *self);
};
typedef struct DLManagedTensorVersioned versioned_t;
typedef struct DLManagedTensor legacy_t;

typedef struct exchange_t { /* DLPackExchangeAPI */
  version_t version;
  const struct exchange_t *previous;
  int (*allocate)(dl_tensor_t *prototype, versioned_t **out, void *context,
                  void (*set_error)(void *context, const char *kind, const char *message));
  int (*from_object)(void *object, versioned_t **out);
  int (*to_object)(versioned_t *managed, void **out);
  int (*view)(void *object, dl_tensor_t *out);
  int (*stream)(int32_t device_type, int32_t device_id, void **out);
} exchange_t;

static const char table_name[] = "dlpack_exchange_api";
static const char versioned_name[] = "dltensor_versioned";
static const char legacy_name[] = "dltensor";

enum { KNOWN = 16 };
/* Types whose table was looked up. The cache holds a reference to each type, so that no new
 * type can get the address of a deleted one. */
static struct known_t {
  PyTypeObject *_Atomic type;
  const exchange_t *_Atomic table;
} known[KNOWN];
static int known_count;
/* odd while the thread that holds the lock writes an entry */
static _Atomic unsigned known_version;
static lock_t known_lock;

static const exchange_t *look_up_table(PyTypeObject *type) {
  const exchange_t *table = NULL;
  PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
  if (capsule && PyCapsule_IsValid(capsule, table_name))
    table = (const exchange_t *)PyCapsule_GetPointer(capsule, table_name);
  Py_XDECREF(capsule);
  PyErr_Clear();
  while (table && table->version.major != 1)
    table = table->previous;
  Py_INCREF(type);
  lock_take(&known_lock);
  /* This is more types than real programs have: start again with an empty cache. */
  if (known_count == KNOWN) known_count = 0;
  struct known_t *entry = &known[known_count++];
  PyTypeObject *before = entry->type;
  known_version++;
  entry->type = type;
  entry->table = table;
  known_version++;
  lock_give(&known_lock);
  Py_XDECREF(before);
  return table;
}

const exchange_t *exchange_of(PyTypeObject *type) {
  const unsigned version = known_version;
  for (int i = 0; i < KNOWN && known[i].type; i++) {
    if (known[i].type != type) continue;
    const exchange_t *table = known[i].table;
    /* Type and table were read from the same entry. */
    if (!(version & 1) && known_version == version) return table;
    break;
  }
  return look_up_table(type);
}

/* Imports device memory, ordered with the stream that its framework uses. */
static bool import_view(const exchange_t *table, const dl_tensor_t *dl, argument_t *argument) {
  tenon_stream_t *stream = NULL;
  void *native = NULL;
  tenon_status_t status = TENON_OK;
  if (table->stream(dl->device.type, dl->device.id, &native) != 0) return false;
  if (native) status = tenon_stream_import(dl->device, native, &stream);
  tenon_external_t external = {.size = sizeof external,
                               .device = dl->device,
                               .data = dl->data,
                               .byte_offset = dl->byte_offset,
                               .dtype = dl->dtype,
                               .ndim = dl->ndim,
                               .shape = dl->shape,
                               .strides = dl->strides,
                               .stream = stream};
  if (status == TENON_OK) status = tenon_tensor_import(&external, &argument->tensor);
  tenon_stream_release(stream);
  if (status != TENON_OK) {
    raise_status(status);
    return false;
  }
  return argument->is_reference = true;
}

/* Raises the message of the object's library with the name of the argument, and without the C++
 * stack trace behind it. */
static bool refuse_view(const char *op, const char *name) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : NULL;
  PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
  char line[300];
  snprintf(line, sizeof line, "%s",
           bytes ? PyBytes_AsString(bytes) : "its library cannot export it by DLPack");
  line[strcspn(line, "\n")] = 0;
  PyErr_Format(PyExc_BufferError, "%s: argument %s: %s%s", op, name, line,
               strstr(line, "QInt")
                   ? ": call quantised tensors through torch.ops (tenon.torch.register)"
                   : "");
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  Py_XDECREF(text);
  Py_XDECREF(bytes);
  return false;
}

/* Returns 1, 0, or -1 with an exception set. */
static int is_true(PyObject *value) {
  int is = value ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return is;
}

/* Returns whether PyTorch records gradients now; -1 with an exception set after a failure. */
static int records_gradients(void) {
  PyObject *torch = PyImport_ImportModule("torch");
  PyObject *enabled = torch ? PyObject_CallMethod(torch, "is_grad_enabled", NULL) : NULL;
  Py_XDECREF(torch);
  return is_true(enabled);
}

/* Returns the tensor without a lazy negation or conjugation, or NULL with an exception set. */
static PyObject *resolve_bits(PyObject *object) {
  PyObject *half = PyObject_CallMethod(object, "resolve_conj", NULL);
  PyObject *whole = half ? PyObject_CallMethod(half, "resolve_neg", NULL) : NULL;
  PyObject *detached = whole ? PyObject_CallMethod(whole, "detach", NULL) : NULL;
  Py_XDECREF(half);
  Py_XDECREF(whole);
  return detached;
}

bool exchange_check(PyObject **object, bool is_written, const char *op, const char *name) {
  PyObject *wants = PyObject_GetAttrString(*object, "requires_grad");
  if (!wants) { /* It is not PyTorch's. */
    PyErr_Clear();
    return true;
  }
  int requires_grad = is_true(wants);
  int records = requires_grad > 0 ? records_gradients() : requires_grad;
  if (records < 0) return false;
  if (records) {
    PyErr_Format(PyExc_RuntimeError,
                 "%s: argument %s requires a gradient, which a call of tenon.ops does not record: "
                 "call the operator through torch.ops (tenon.torch.register), pass %s.detach(), or "
                 "call it under torch.no_grad()",
                 op, name, name);
    return false;
  }
  int is_lazy = is_true(PyObject_CallMethod(*object, "is_neg", NULL));
  if (is_lazy == 0) is_lazy = is_true(PyObject_CallMethod(*object, "is_conj", NULL));
  if (is_lazy < 0) PyErr_Clear(); /* It has the attribute, but is not PyTorch's. */
  if (is_lazy <= 0) return true;
  if (is_written) {
    PyErr_Format(PyExc_BufferError,
                 "%s: argument %s is written to, but PyTorch stores it negated or conjugated: pass "
                 "%s.resolve_neg().resolve_conj()",
                 op, name, name);
    return false;
  }
  return (*object = resolve_bits(*object)) != NULL;
}

bool exchange_view(const exchange_t *table, PyObject *object, const char *op, const char *name,
                   argument_t *argument) {
  dl_tensor_t dl;
  if (!table->view) {
    if (!dlpack_import(object, &argument->tensor)) return false;
    return argument->is_reference = true;
  }
  if (table->view(object, &dl) != 0) return refuse_view(op, name);
  if (dl.device.type != 1) return import_view(table, &dl, argument);
  tenon_status_t status =
      tenon_tensor_view(&argument->view, (char *)dl.data + dl.byte_offset, dl.dtype, dl.ndim,
                        dl.shape, dl.strides, argument->strides);
  if (status != TENON_OK) {
    raise_status(status);
    return false;
  }
  argument->tensor = &argument->view;
  return true;
}

PyObject *exchange_result(const exchange_t *table, tenon_tensor_t *tensor) {
  versioned_t *managed = NULL;
  void *object = NULL;
  tenon_status_t status = tenon_tensor_to_dlpack(tensor, &managed);
  tenon_tensor_release(tensor);
  if (status != TENON_OK) return raise_status(status);
  if (table->to_object(managed, &object) == 0) return (PyObject *)object;
  managed->deleter(managed);
  return NULL;
}

static int raise_and_fail(tenon_status_t status) {
  raise_status(status);
  return -1;
}

static int own_allocate(dl_tensor_t *like, versioned_t **out, void *context,
                        void (*set_error)(void *context, const char *kind, const char *message)) {
  tenon_tensor_t *tensor = NULL;
  tenon_status_t status =
      tenon_tensor_create_on(like->device, like->dtype, like->ndim, like->shape, &tensor);
  if (status == TENON_OK) status = tenon_tensor_to_dlpack(tensor, out);
  tenon_tensor_release(tensor);
  if (status == TENON_OK) return 0;
  set_error(context, status == TENON_MEMORY ? "MemoryError" : "ValueError", tenon_error());
  return -1;
}

static int own_from_object(void *object, versioned_t **out) {
  tenon_status_t status = tenon_tensor_to_dlpack(tensor_get((PyObject *)object), out);
  return status == TENON_OK ? 0 : raise_and_fail(status);
}

static int own_to_object(versioned_t *managed, void **out) {
  tenon_tensor_t *tensor;
  tenon_status_t status = tenon_tensor_from_dlpack(managed, &tensor);
  if (status != TENON_OK) return raise_and_fail(status);
  return (*out = tensor_new(tensor)) ? 0 : -1;
}

/* Exported memory is already complete, so there is no stream to order it with. */
static int own_stream(int32_t device_type, int32_t device_id, void **out) {
  (void)device_type;
  (void)device_id;
  *out = NULL;
  return 0;
}

/* The table has no `view` function, since a view cannot say that a tensor is read-only. */
bool exchange_add(PyTypeObject *type) {
  static const exchange_t own = {{1, 3},        NULL, own_allocate, own_from_object,
                                 own_to_object, NULL, own_stream};
  PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&own, table_name, NULL);
  bool good = capsule &&
              PyObject_SetAttrString((PyObject *)type, "__dlpack_c_exchange_api__", capsule) == 0;
  Py_XDECREF(capsule);
  return good;
}

static PyObject *capsule_of(PyObject *object) {
  PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
  PyObject *empty = PyTuple_New(0);
  PyObject *capsule = NULL;
  PyObject *named = Py_BuildValue("{s:(ii)}", "max_version", 1, 3);
  if (method && empty && named) capsule = PyObject_Call(method, empty, named);
  /* The producer is older than DLPack 1. */
  if (!capsule && method && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_CallObject(method, NULL);
  }
  Py_XDECREF(method);
  Py_XDECREF(empty);
  Py_XDECREF(named);
  return capsule;
}

/* PyTorch refuses to export conjugated memory, but not negated memory, whose elements have the
 * wrong sign. */
static bool refuse_negated(PyObject *object) {
  if (!PyObject_HasAttrString(object, "is_neg")) return false;
  int is_negated = is_true(PyObject_CallMethod(object, "is_neg", NULL));
  if (is_negated < 0) PyErr_Clear(); /* It has the method, but is not PyTorch's. */
  if (is_negated > 0)
    PyErr_SetString(PyExc_BufferError, "PyTorch stores this tensor negated, so its memory cannot "
                                       "be shared: pass x.resolve_neg()");
  return is_negated > 0;
}

bool dlpack_import(PyObject *object, tenon_tensor_t **out_tensor) {
  if (refuse_negated(object)) return false;
  PyObject *capsule = capsule_of(object);
  tenon_status_t status;
  if (!capsule) return false;
  if (PyCapsule_IsValid(capsule, versioned_name)) {
    status = tenon_tensor_from_dlpack((versioned_t *)PyCapsule_GetPointer(capsule, versioned_name),
                                      out_tensor);
    if (status == TENON_OK) PyCapsule_SetName(capsule, "used_dltensor_versioned");
  } else if (PyCapsule_IsValid(capsule, legacy_name)) {
    status = tenon_tensor_from_dlpack_legacy((legacy_t *)PyCapsule_GetPointer(capsule, legacy_name),
                                             out_tensor);
    if (status == TENON_OK) PyCapsule_SetName(capsule, "used_dltensor");
  } else {
    Py_DECREF(capsule);
    PyErr_Format(PyExc_TypeError,
                 "%R.__dlpack__(): expected an unused DLPack capsule, found another object",
                 Py_TYPE(object));
    return false;
  }
  Py_DECREF(capsule);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

static void drop_versioned(PyObject *capsule) {
  versioned_t *managed = (versioned_t *)PyCapsule_GetPointer(capsule, versioned_name);
  if (managed)
    managed->deleter(managed);
  else
    PyErr_Clear(); /* The consumer has taken the tensor. */
}

static void drop_legacy(PyObject *capsule) {
  legacy_t *managed = (legacy_t *)PyCapsule_GetPointer(capsule, legacy_name);
  if (managed)
    managed->deleter(managed);
  else
    PyErr_Clear();
}

/* Converts the consumer's stream, numbered as in the array API standard. Returns false with an
 * exception set on failure. */
static bool stream_from(PyObject *object, tenon_device_t device, tenon_dlpack_t *options) {
  if (!object || object == Py_None) {
    if (device.type != 2) return true;
    object = NULL;
  }
  long long number = object ? PyLong_AsLongLong(object) : 1;
  if (number == -1 && PyErr_Occurred()) return false;
  if (number == -1) {
    options->flags |= TENON_DLPACK_UNORDERED;
    return true;
  }
  if (device.type == 1) {
    raise_invalid(
        "__dlpack__: stream=%lld: expected None, since a tensor in host memory has no stream",
        number);
    return false;
  }
  if (device.type == 2 && number == 0) {
    raise_invalid("__dlpack__: stream=0 is ambiguous for CUDA: expected 1, 2, or a stream handle");
    return false;
  }
  tenon_status_t status = tenon_stream_import(device, (void *)(intptr_t)number, &options->stream);
  if (status != TENON_OK) raise_status(status);
  return status == TENON_OK;
}

static PyObject *export_as(tenon_tensor_t *tensor, const tenon_dlpack_t *options,
                           bool is_versioned) {
  versioned_t *versioned = NULL;
  legacy_t *legacy = NULL;
  tenon_status_t status = is_versioned ? tenon_tensor_to_dlpack_on(tensor, options, &versioned)
                                       : tenon_tensor_to_dlpack_legacy_on(tensor, options, &legacy);
  if (status != TENON_OK) {
    PyErr_SetString(PyExc_BufferError, tenon_error());
    return NULL;
  }
  PyObject *capsule = is_versioned ? PyCapsule_New(versioned, versioned_name, drop_versioned)
                                   : PyCapsule_New(legacy, legacy_name, drop_legacy);
  if (!capsule && is_versioned) versioned->deleter(versioned);
  if (!capsule && !is_versioned) legacy->deleter(legacy);
  return capsule;
}

PyObject *dlpack_export(tenon_tensor_t *tensor, PyObject *stream, PyObject *max_version,
                        PyObject *dl_device, PyObject *copy) {
  tenon_dlpack_t options = {.size = sizeof options};
  long major = 0;
  int copies = copy && copy != Py_None ? PyObject_IsTrue(copy) : 0;
  if (copies < 0 || !stream_from(stream, tensor->device, &options)) return NULL;
  if (copies) options.flags |= TENON_DLPACK_COPY;
  if (max_version && max_version != Py_None) {
    PyObject *first = PySequence_GetItem(max_version, 0);
    major = first ? PyLong_AsLong(first) : -1;
    Py_XDECREF(first);
    if (major == -1 && PyErr_Occurred()) {
      tenon_stream_release(options.stream);
      return NULL;
    }
  }
  if (dl_device && dl_device != Py_None) {
    int type, id;
    if (!PyArg_ParseTuple(dl_device, "ii;dl_device: expected (type, id)", &type, &id)) {
      tenon_stream_release(options.stream);
      return NULL;
    }
    if (type != tensor->device.type || id != tensor->device.id) {
      PyErr_Format(
          PyExc_BufferError,
          "__dlpack__: the tensor is on device (%d, %d), not (%d, %d): copy it with x.to(device)",
          (int)tensor->device.type, (int)tensor->device.id, type, id);
      tenon_stream_release(options.stream);
      return NULL;
    }
  }
  PyObject *capsule = export_as(tensor, &options, major >= 1);
  tenon_stream_release(options.stream);
  return capsule;
}
