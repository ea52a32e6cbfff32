/* Names of dispatch keys, and the backends that were named so far.  Registration and tools use it;
 * a call only sees bits.  Invariant: a backend keeps its bit as long as the process lives. */
#include "operator/key.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/schema.h"

uint64_t tn_key_global = TN_KEY_ALWAYS;

tn_backend_t tn_backend_cpu = {
    .name = "cpu", .index = 0, .bit = TN_BIT_CPU, .device = {1, 0}, .compiles = 1};
tn_backend_t tn_backend_meta = {.name = "meta", .index = 1, .bit = TN_BIT_META, .device = {0, 0}};

static const char *const layers[TN_KEY_COUNT] = {[TN_BIT_STRIDED] = "strided",
                                                 [TN_BIT_DETAIL] = "layout",
                                                 [TN_BIT_BELOW_VIEW] = "below view",
                                                 [TN_BIT_VIEW] = "view",
                                                 [TN_BIT_BELOW_AUTOGRAD] = "below autograd",
                                                 [TN_BIT_AUTOGRAD] = "autograd",
                                                 [TN_BIT_ABOVE_AUTOGRAD] = "above autograd",
                                                 [TN_BIT_AUTOCAST] = "autocast",
                                                 [TN_BIT_ABOVE_AUTOCAST] = "above autocast",
                                                 [TN_BIT_FUNCTIONAL] = "functional",
                                                 [TN_BIT_ABOVE_FUNCTIONAL] = "above functional",
                                                 [TN_BIT_MODE] = "mode",
                                                 [TN_BIT_TRACE] = "trace"};

/* backends */

static tn_mutex_t lock = TN_MUTEX_INIT;
static tn_backend_t *backends[TN_BACKENDS_MAX] = {&tn_backend_cpu, &tn_backend_meta};
static int32_t backend_count = 2;
enum { TYPES = 64 };
static tn_backend_t *by_type[TYPES]; /* by DLPack's device type */

tn_mutex_t *tn_backends_mutex(void) { return &lock; }

tn_backend_t *tn_backend_at(int32_t index) {
  int32_t count = __atomic_load_n(&backend_count, __ATOMIC_ACQUIRE);
  return index >= 0 && index < count ? backends[index] : NULL;
}

tn_backend_t *tn_backend_find(const char *name) {
  tn_backend_t *b;
  for (int32_t i = 0; (b = tn_backend_at(i)); i++)
    if (strcmp(b->name, name) == 0) return b;
  return NULL;
}

void tn_backend_set_type(tn_backend_t *backend, int32_t type) {
  tn_mutex_lock(&lock);
  if (type > 1 && type < TYPES && type != 12 && (!by_type[type] || by_type[type] == backend)) {
    backend->device = (tenon_device_t){type, 0};
    __atomic_store_n(&by_type[type], backend, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&lock);
}

/* Devices of DLPack's type 12 (extension) are numbered by backend and ordinal. */
tn_backend_t *tn_backend_of(tenon_device_t device) {
  if (device.type == 1) return &tn_backend_cpu;
  if (device.type == 0) return &tn_backend_meta;
  if (device.type == 12)
    return device.id >> 8 > tn_backend_meta.index ? tn_backend_at(device.id >> 8) : NULL;
  bool is_one = device.type > 1 && device.type < TYPES && device.id >= 0 && device.id < 256;
  return is_one ? __atomic_load_n(&by_type[device.type], __ATOMIC_ACQUIRE) : NULL;
}

tn_backend_t *tn_backend_of_keys(uint64_t keys) {
  keys = tn_key_below(keys, TN_BIT_META + 1);
  int bit = keys ? tn_key_highest(keys) : -1;
  if (bit == TN_BIT_META) return &tn_backend_meta;
  if (bit < 0 || bit == TN_BIT_OTHERS) return NULL;
  return tn_backend_at(bit ? bit + 1 : 0);
}

static bool is_reserved(const char *name) {
  static const char *const words[] = {"composite", "composite_explicit", "other", "all"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(words[i], name) == 0) return true;
  for (int bit = 0; bit < TN_KEY_COUNT; bit++)
    if (layers[bit] && strcmp(layers[bit], name) == 0) return true;
  return false;
}

static tenon_status_t add_backend(const char *name, tn_backend_t **out_backend) {
  int32_t index = backend_count;
  if (index == TN_BACKENDS_MAX)
    return tn_fail(TENON_RANGE, "backend '%s': %d backends are named already", name,
                   TN_BACKENDS_MAX);
  size_t size = strlen(name) + 1;
  tn_backend_t *b = tn_allocate(sizeof *b + size);
  if (!b) return tn_no_memory("a backend", sizeof *b);
  /* Index 1 is meta, whose bit is not among these. */
  int32_t bit = index - 1 < TN_BIT_OTHERS ? index - 1 : TN_BIT_OTHERS;
  *b = (tn_backend_t){
      .name = memcpy(b + 1, name, size), .index = index, .bit = bit, .device = {12, index << 8}};
  backends[index] = b;
  __atomic_store_n(&backend_count, index + 1, __ATOMIC_RELEASE);
  *out_backend = b;
  return TENON_OK;
}

tenon_status_t tn_backend_intern(const char *name, tn_backend_t **out_backend) {
  tenon_status_t status = TENON_OK;
  if (!tn_is_name(name, strlen(name)) || is_reserved(name))
    return tn_fail(
        TENON_INVALID,
        "'%s' is no name for a backend: expected letters, digits and '_', and no layer's name",
        name);
  tn_mutex_lock(&lock);
  *out_backend = tn_backend_find(name);
  if (!*out_backend) status = add_backend(name, out_backend);
  tn_mutex_unlock(&lock);
  return status;
}

/* names */

const char *tn_key_name(int bit) {
  tn_backend_t *b;
  if (bit < 0 || bit >= TN_KEY_COUNT) return NULL;
  if (bit == TN_BIT_OTHERS) return "other";
  if (bit == TN_BIT_META) return tn_backend_meta.name;
  if (bit > TN_BIT_META) return layers[bit];
  b = tn_backend_at(bit ? bit + 1 : 0);
  return b ? b->name : NULL;
}

int tn_key_find(const char *name) {
  tn_backend_t *b = tn_backend_find(name);
  if (b) return b->bit;
  if (strcmp(name, "other") == 0) return TN_BIT_OTHERS;
  for (int bit = 0; bit < TN_KEY_COUNT; bit++)
    if (layers[bit] && strcmp(layers[bit], name) == 0) return bit;
  return -1;
}

const char *tn_keys_print(uint64_t keys, char *out_text, size_t capacity) {
  size_t size = (size_t)snprintf(out_text, capacity, "{");
  for (int bit = 0; bit < TN_KEY_COUNT; bit++) {
    const char *name = keys >> bit & 1 ? tn_key_name(bit) : NULL;
    if (name && size < capacity)
      size +=
          (size_t)snprintf(out_text + size, capacity - size, "%s%s", size > 1 ? ", " : "", name);
  }
  if (size < capacity) snprintf(out_text + size, capacity - size, "}");
  return out_text;
}

const char *tn_at_name(uint8_t at) {
  static const char *const names[] = {
      "", "composite_explicit", "composite", "autograd", "autocast", "view", "functional"};
  return at < sizeof names / sizeof *names ? names[at] : "";
}
