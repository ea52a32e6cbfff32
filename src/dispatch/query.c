/* Questions about keys and tables, for people, tools and tests.  The public face of key.h and table.h. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dispatch/call.h"
#include "dispatch/place.h"
#include "dispatch/registry.h"
#include "dispatch/table.h"

/* ---- the table of an operator ----------------------------------------------------------------------------------- */

static const tn_kernel_t *first_kernel(const tn_slot_t *slot) {
  for (int d = 0; d < TN_DTYPE_COUNT && slot->by_dtype; d++)
    if (slot->by_dtype[d] && slot->by_dtype[d][0]) return slot->by_dtype[d][0];
  return slot->only;
}

/* "autograd npu": the key and the backend; else the key alone. */
static tenon_status_t find_slot(const tenon_op_t *op, const char *key, const tn_slot_t **out_slot) {
  static const char autograd[] = "autograd ";
  if (strncmp(key, autograd, sizeof autograd - 1) == 0) {
    const tn_backend_t *backend = tn_backend_find(key + sizeof autograd - 1);
    if (!backend) return tn_fail(TENON_NOT_FOUND, "no backend is called '%s'", key + sizeof autograd - 1);
    return *out_slot = tn_table_autograd(op, backend), TENON_OK;
  }
  const tn_backend_t *backend = tn_backend_find(key);
  int bit = tn_key_find(key);
  if (bit < 0) return tn_fail(TENON_NOT_FOUND, "no key is called '%s'", key);
  *out_slot = backend && bit == TN_BIT_OTHERS ? tn_table_others(op, backend) : tn_table_slot(op, TN_KEY(bit));
  return TENON_OK;
}

tenon_status_t tenon_op_slot(const tenon_op_t *op, const char *key, tenon_slot_info_t *info) {
  const tn_slot_t *slot;
  TN_TRY(find_slot(op, key, &slot));
  const tn_kernel_t *kernel = first_kernel(slot);
  uint32_t size = info->size < sizeof *info ? info->size : (uint32_t)sizeof *info;
  tenon_slot_info_t full = {
      .size = size, .is_missing = slot->rule == TN_RULE_MISSING, .rule = tn_rule_name(slot->rule)};
  if (kernel) full.kernel = kernel->text, full.library = kernel->library->name, full.number = kernel->number;
  memcpy(info, &full, size);
  return TENON_OK;
}

static void add_line(const tenon_op_t *op, const char *key, tn_text_t *text) {
  tenon_slot_info_t info = {.size = sizeof info};
  if (tenon_op_slot(op, key, &info) != TENON_OK) return;
  tn_text_add(text, "%-20s %s", key, info.rule);
  if (info.kernel)
    tn_text_add(text, ": %s [%s, number %llu]", info.kernel, info.library, (unsigned long long)info.number);
  tn_text_add(text, "\n");
}

tenon_status_t tenon_op_table(const tenon_op_t *op, char **out_text) {
  static const char *const layers[] = {"layout", "strided", "view", "autocast", "functional"};
  tn_text_t text = {0};
  const tn_backend_t *backend;
  char key[300];
  for (int32_t i = 0; (backend = tn_backend_at(i)); i++) add_line(op, backend->name, &text);
  for (int32_t i = 0; (backend = tn_backend_at(i)); i++) {
    snprintf(key, sizeof key, "autograd %.255s", backend->name);
    if (tn_table_autograd(op, backend)->rule != TN_RULE_FALLTHROUGH) add_line(op, key, &text);
  }
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (tn_table_slot(op, TN_KEY(tn_key_find(layers[i])))->rule != TN_RULE_FALLTHROUGH) add_line(op, layers[i], &text);
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

int32_t tenon_op_has_kernel(const tenon_op_t *op, const char *key) {
  const tn_slot_t *slot;
  return find_slot(op, key, &slot) == TENON_OK && slot->rule == TN_RULE_DIRECT;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

const char *tenon_backend_name(int32_t index) {
  const tn_backend_t *backend = tn_backend_at(index);
  return backend ? backend->name : NULL;
}

tenon_status_t tenon_device_find(const char *name, int32_t ordinal, tenon_device_t *out_device) {
  tn_backend_t *backend;
  TN_TRY(tn_backend_intern(name, &backend));
  int32_t most = backend->device.type == 12 ? 255 : 0;
  if (ordinal < 0 || ordinal > most)
    return tn_fail(TENON_RANGE, "%s: ordinal %d: expected 0 to %d", name, (int)ordinal, (int)most);
  *out_device = (tenon_device_t){backend->device.type, backend->device.id + ordinal};
  return TENON_OK;
}

tenon_status_t tenon_tensor_borrow_on(tenon_device_t device, void *data, tenon_dtype_t dtype, int32_t ndim,
                                      const int64_t *shape, const int64_t *strides, tenon_free_fn release,
                                      void *context, tenon_tensor_t **out_tensor) {
  const tn_backend_t *backend = tn_backend_of(device);
  if (!backend)
    return tn_fail(TENON_INVALID, "device (type %d, id %d) belongs to no backend", (int)device.type, (int)device.id);
  if (backend == &tn_backend_meta && !data) return tn_place_shape(dtype, ndim, shape, strides, out_tensor);
  TN_TRY(tenon_tensor_borrow(data, dtype, ndim, shape, strides, release, context, out_tensor));
  tn_tensor_place(*out_tensor, device);
  return TENON_OK;
}

tenon_status_t tenon_keys_of(const tenon_tensor_t *tensor, char **out_text) {
  char keys[1024];
  tn_text_t text = {0};
  const tn_thread_calls_t *calls = &tn_thread()->calls;
  uint64_t set = tensor ? tensor->keys : calls->include & ~calls->exclude;
  tn_text_add(&text, "%s", tn_keys_print(set, keys, sizeof keys));
  *out_text = tn_text_take(&text);
  return *out_text ? TENON_OK : TENON_MEMORY;
}

static tenon_status_t change(const char *key, int32_t is_on, uint64_t *set) {
  int bit = tn_key_find(key);
  if (bit < 0) return tn_fail(TENON_NOT_FOUND, "no key is called '%s'", key);
  if (bit == TN_BIT_MODE || bit == TN_BIT_TRACE || strncmp(key, "above ", 6) == 0 || strncmp(key, "below ", 6) == 0)
    return tn_fail(TENON_INVALID, "'%s' is switched by tenon_layer_enable, tenon_mode_push or tenon_trace_set", key);
  if (bit == TN_BIT_STRIDED || bit == TN_BIT_DETAIL)
    return tn_fail(TENON_INVALID, "'%s' follows from the tensors of a call alone", key);
  if (bit == TN_BIT_OTHERS)
    return tn_fail(TENON_UNIMPLEMENTED, "'%s' shares its key with other backends: it cannot be switched", key);
  *set = is_on ? *set | TN_KEY(bit) : *set & ~TN_KEY(bit);
  return TENON_OK;
}

tenon_status_t tenon_key_include(const char *key, int32_t is_on) {
  return change(key, is_on, &tn_thread()->calls.include);
}
tenon_status_t tenon_key_exclude(const char *key, int32_t is_on) {
  return change(key, is_on, &tn_thread()->calls.exclude);
}
