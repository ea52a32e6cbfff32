/* Operators whose kernels tell which of them ran: a kernel writes its own number, to which its
 * context points, as f64 into the result. Also tensors of one element on any backend, and
 * registrations in one line. Include after operators.h. */
#ifndef TENON_TESTS_PROBES_H
#define TENON_TESTS_PROBES_H

#include "core/tensor.h"

enum {
  PROBE_VIEWED = -7,
  PROBE_NOTHING = -1,
  /* The answer if the result is a view of the input, and the answer if no kernel wrote. */
};

static inline tenon_status_t probe_kernel(tenon_call_t *call) {
  *(double *)call->outputs[0]->data = *(const double *)call->context;
  return TENON_OK;
}

static inline tenon_status_t probe_elsewhere(tenon_call_t *call) {
  *(double *)call->outputs[0]->data = -3;
  return TENON_OK;
}

static inline tenon_status_t probe_view_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  out->alias = 1;
  out->ndim = x->ndim;
  for (int32_t d = 0; d < x->ndim; d++)
    out->dims[d] = x->dims[d];
  return TENON_OK;
}

/* clang-format off */
/* An operator needs a kernel, so each of these has one for a backend that no other operator names.
 * The view operator needs none. */
static const tenon_item_t probe_items[] = {
  TENON_OP("plain(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_POINTWISE),
    TENON_KERNEL("elsewhere", probe_elsewhere)),
  TENON_OP("differentiable(Tensor x) -> Tensor",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_POINTWISE), TENON_GRADIENT("x: none"),
    TENON_KERNEL("elsewhere", probe_elsewhere)),
  TENON_OP("view(Tensor(a) x) -> Tensor(a)",
    TENON_TYPES("x: any; out = x"), TENON_TRAITS(TENON_PURE), TENON_INFER(probe_view_infer)),
  TENON_OP("pair(Tensor x, Tensor y) -> Tensor",
    TENON_TYPES("x, y: any; out = x"), TENON_SHAPES("x: [n]; y: [n]; out: [n]"),
    TENON_KERNEL("elsewhere", probe_elsewhere)),
  {TENON_TAG_END, 0, 0, 0, 0}};
/* clang-format on */
static const tenon_descriptor_t probe_library = {
    sizeof(tenon_descriptor_t), TENON_ABI, TENON_LAYOUT, 0, "probe", "1.0.0", probe_items};

static inline void probe_start(void) {
  const tenon_op_t *op = NULL;
  if (tenon_op_find("probe::plain", &op) != TENON_OK)
    CHECK_STATUS(tenon_library_add(&probe_library, NULL, NULL, NULL), TENON_OK);
}

/* registrations */

static inline tenon_registration_t *probe_add(const char *op, const char *where, double *number,
                                              uint32_t flags) {
  tenon_registration_t *r = NULL;
  bool passes = strstr(where, "fallthrough") != NULL;
  CHECK_STATUS(tenon_kernel_add(op, where, passes ? NULL : probe_kernel, number, NULL, flags, &r),
               TENON_OK);
  return r;
}

static inline tenon_registration_t *probe_fallback(const char *key, double *number,
                                                   uint32_t flags) {
  tenon_registration_t *r = NULL;
  CHECK_STATUS(tenon_fallback_add(key, probe_kernel, number, NULL, flags, &r), TENON_OK);
  return r;
}

/* The registration must fail with that status and that text. */
static inline void probe_refused(const char *op, const char *where, uint32_t flags,
                                 tenon_status_t status, const char *part) {
  static double unused = -2;
  tenon_registration_t *r = NULL;
  bool passes = strstr(where, "fallthrough") != NULL;
  CHECK_STATUS(tenon_kernel_add(op, where, passes ? NULL : probe_kernel, &unused, NULL, flags, &r),
               status);
  CHECK_TEXT(tenon_error(), part);
  CHECK(r == NULL);
}

static inline tenon_status_t probe_allocate(tenon_call_t *call) {
  int64_t size = call->attrs[0].as.i;
  void *data = malloc((size_t)size + 1);
  return call->host->adopt(call, 0, 1, &size, data, free, data);
}

static inline tenon_status_t probe_copy(tenon_call_t *call) {
  memcpy(call->inputs[1]->data, call->inputs[0]->data, (size_t)call->inputs[0]->shape[0]);
  return TENON_OK;
}

/* The operators that a device must have; the memory is that of the CPU. */
static inline void probe_memory(const char *backend, tenon_registration_t *out[2]) {
  CHECK_STATUS(tenon_kernel_add("core::allocate", backend, probe_allocate, NULL, NULL, 0, &out[0]),
               TENON_OK);
  CHECK_STATUS(tenon_kernel_add("core::copy", backend, probe_copy, NULL, NULL, 0, &out[1]),
               TENON_OK);
}

/* calls */

/* Makes a tensor of one element on a backend, over memory of the caller. */
static inline tenon_tensor_t *probe_tensor(const char *backend, double *value) {
  tenon_device_t device = {0, 0};
  tenon_tensor_t *t = NULL;
  int64_t one = 1;
  CHECK_STATUS(tenon_device_find(backend, 0, &device), TENON_OK);
  CHECK_STATUS(
      tenon_tensor_borrow_on(device, value, tenon_dtype(TENON_F64), 1, &one, NULL, NULL, NULL, &t),
      TENON_OK);
  return t;
}

/* Returns the number of the kernel that answered a call with an input and a result on this backend;
 * *out_status is the status of the call. */
static inline double probe_call(const tenon_op_t *op, const char *backend,
                                tenon_status_t *out_status) {
  double in = PROBE_VIEWED;
  double out = PROBE_NOTHING;
  tenon_tensor_t *x = probe_tensor(backend, &in);
  tenon_tensor_t *y = probe_tensor(backend, &out);
  *out_status = tenon_op_run(op, NULL, &x, &y);
  tenon_tensor_release(x);
  tenon_tensor_release(y);
  return out;
}

static inline void probe_check(const char *name, const char *backend, double expected,
                               const char *file, int line) {
  char text[600];
  tenon_status_t status;
  double found = probe_call(op_of(name), backend, &status);
  snprintf(text, sizeof text, "%g with status %d instead of %g: %s", found, (int)status, expected,
           status ? tenon_error() : "");
  check_report(status == TENON_OK && found == expected, file, line, "the kernel that answered",
               text);
}
#define CHECK_ANSWER(name, backend, expected)                                                      \
  probe_check((name), (backend), (expected), __FILE__, __LINE__)

/* Checks that a call is refused. */
static inline void probe_check_refused(const char *name, const char *backend, tenon_status_t status,
                                       const char *part, const char *file, int line) {
  tenon_status_t found;
  double answer = probe_call(op_of(name), backend, &found);
  check_status(found, status, tenon_error(), file, line, name);
  check_text(tenon_error(), part, file, line);
  check_report(answer == PROBE_NOTHING, file, line, "nothing is written by a call that is refused",
               NULL);
}
#define CHECK_REFUSED(name, backend, status, part)                                                 \
  probe_check_refused((name), (backend), (status), (part), __FILE__, __LINE__)

static inline tenon_slot_info_t probe_slot(const char *name, const char *key) {
  tenon_slot_info_t info = {.size = sizeof info};
  CHECK_STATUS(tenon_op_slot(op_of(name), key, &info), TENON_OK);
  return info;
}
static inline int probe_rule_is(const char *name, const char *key, const char *rule,
                                const char *file, int line) {
  tenon_slot_info_t info = probe_slot(name, key);
  return check_text(info.rule, rule, file, line) &&
         check_report(!strcmp(info.rule, rule), file, line, rule, info.rule);
}
#define CHECK_RULE(name, key, rule) probe_rule_is((name), (key), (rule), __FILE__, __LINE__)

#endif
