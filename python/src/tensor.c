/* Creates tenon.Tensor objects, and tensors over the memory of other objects. The methods of
 * tenon.Tensor are in tensor_methods.c. */
#include "tensor.h"

#include "error.h"

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
