#include "allocator.h"

#include <stdlib.h>
#include <tenon/tenon.h>

static void delete_tensor(ffi_managed_t *self) {
  tenon_tensor_release(self->context);
  free(self);
}

int allocator_create(ffi_dltensor_t *prototype, ffi_managed_t **out_tensor, void *context,
                     void (*fail)(void *context, const char *kind, const char *text)) {
  ffi_managed_t *made = calloc(1, sizeof *made);
  tenon_tensor_t *tensor = NULL;
  *out_tensor = NULL;
  if (!made) {
    fail(context, "MemoryError", "out of memory: a tensor");
    return -1;
  }
  tenon_status_t status = tenon_tensor_create_on(prototype->device, prototype->dtype,
                                                 prototype->ndim, prototype->shape, &tensor);
  if (status != TENON_OK) {
    free(made);
    fail(context, status == TENON_MEMORY ? "MemoryError" : "ValueError", tenon_error());
    return -1;
  }
  made->major = 1;
  made->context = tensor;
  made->deleter = delete_tensor;
  made->tensor = (ffi_dltensor_t){.data = tensor->data,
                                  .device = tensor->device,
                                  .ndim = tensor->ndim,
                                  .dtype = tensor->dtype,
                                  .shape = tensor->shape,
                                  .strides = tensor->strides,
                                  .byte_offset = tensor->byte_offset};
  *out_tensor = made;
  return 0;
}
