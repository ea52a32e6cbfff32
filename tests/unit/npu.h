/* A backend for tests: memory that only its own functions may access, the two required operators,
 * and the fallback to the CPU for everything else. Include after operators.h. */
#ifndef TENON_TESTS_NPU_H
#define TENON_TESTS_NPU_H

#include <stdlib.h>

/* Addresses of npu memory are not canonical: code that dereferences one without unmasking it
 * crashes. */
static const uintptr_t disguise = (uintptr_t)1 << 60;
static inline void *hide(void *pointer) { return (void *)((uintptr_t)pointer ^ disguise); }
static inline void *show(const tenon_tensor_t *t) {
  return t->device.type == 1 ? t->data : hide(t->data);
}

static int64_t blocks, copies, copy_fails_at;
static inline void release(void *context) {
  __atomic_fetch_sub(&blocks, 1, __ATOMIC_RELAXED);
  free(context);
}

static inline tenon_status_t npu_allocate(tenon_call_t *call) {
  int64_t size = call->attrs[0].as.i;
  void *data = malloc((size_t)size + 1);
  __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
  return call->host->adopt(call, 0, 1, &size, hide(data), release, data);
}

static inline tenon_status_t npu_copy(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_tensor_t *y = call->inputs[1];
  CHECK(tenon_dtype_id(x->dtype) == TENON_U8 && x->ndim == 1 && y->ndim == 1 &&
        x->shape[0] == y->shape[0] && x->shape[0] > 0);
  if (__atomic_add_fetch(&copies, 1, __ATOMIC_RELAXED) == copy_fails_at)
    return tenon_fail(call, TENON_UNAVAILABLE, "the bus is down");
  memcpy(show(y), show(x), (size_t)x->shape[0]);
  return TENON_OK;
}

static tenon_device_t npu_device;
static tenon_registration_t *npu_allocates, *npu_copies, *npu_falls;

/* Registers the backend; registrations that are not undone end at shutdown. */
static inline void npu_start(void) {
  CHECK_STATUS(tenon_device_find("npu", 0, &npu_device), TENON_OK);
  CHECK_STATUS(
      tenon_kernel_add("core::allocate", "npu", npu_allocate, NULL, NULL, 0, &npu_allocates),
      TENON_OK);
  CHECK_STATUS(tenon_kernel_add("core::copy", "npu", npu_copy, NULL, NULL, 0, &npu_copies),
               TENON_OK);
  CHECK_STATUS(tenon_fallback_add("npu", tenon_fallback_cpu, NULL, NULL, 0, &npu_falls), TENON_OK);
}

#endif
