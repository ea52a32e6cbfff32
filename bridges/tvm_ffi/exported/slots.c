/* The symbols of an exported library. `tenon export` gives the n-th ones the names of the n-th
 * operator, `__tvm_ffi_gelu`, and removes the others; the names that they have here leave room for
 * that. libtenon is opened by the first call. */
#include <pthread.h>
#include <stdlib.h>

#include "error.h"
#include "operator.h"

#include "common/exported.h"

enum {
  SLOTS = 256,
};

host_t host;

static exported_t *slots[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool open_operators(const manifest_t *manifest) {
  char room[4096];
  const char *path = manifest->library ? manifest->library : "";
  const char *found = open_file_beside(path, room, sizeof room);
  if (host.tenon_library_load(found ? found : path, 0, NULL) != TENON_OK)
    return fail_start(host.tenon_error());
  for (uint32_t i = 0; i < manifest->op_count && i < SLOTS; i++) {
    slots[i] = calloc(1, sizeof *slots[i]);
    if (!slots[i]) return fail_start("out of memory: an operator");
    if (exported_describe(manifest->ops[i], slots[i]) != TENON_OK)
      return fail_start(host.tenon_error());
  }
  return true;
}

static void start(void) {
  env_find();
  start_exported();
}

/* For `tenon export`: returns why the library cannot be used, or "". */
__attribute__((visibility("default"))) const char *tenon_export_check(void);
const char *tenon_export_check(void) {
  (void)pthread_once(&once, start);
  return failure;
}

static const exported_t *find_slot(int slot) {
  (void)pthread_once(&once, start);
  if (!*failure && slots[slot]) return slots[slot];
  (void)raise_text("RuntimeError", "%s", *failure ? failure : "this function was not exported");
  return NULL;
}

static int call_slot(int slot, const ffi_any_t *arguments, int32_t count, ffi_any_t *result) {
  const exported_t *exported = find_slot(slot);
  return exported ? exported_call(exported, arguments, count, result) : -1;
}

static int metadata_slot(int slot, ffi_any_t *result) {
  const exported_t *exported = find_slot(slot);
  return exported ? exported_metadata(exported, result) : -1;
}

static int doc_slot(int slot, ffi_any_t *result) {
  const exported_t *exported = find_slot(slot);
  return exported ? exported_doc(exported, result) : -1;
}

/* clang-format off: one digit of the number is added in each line */
/* clang-format off */
#define ROOM "________________________________________________________________________________"
#define SYMBOL(function, prefix, n)                                                                \
  __attribute__((visibility("default"))) int function(                                             \
      void *self, const ffi_any_t *arguments, int32_t count,                                       \
      ffi_any_t *result) __asm__(prefix "slot_" #n ROOM);                                          \
  int function(void *self, const ffi_any_t *arguments, int32_t count, ffi_any_t *result)
#define SLOT(n)                                                                                    \
  SYMBOL(call_##n, "__tvm_ffi_", n) {                                                              \
    (void)self;                                                                                    \
    return call_slot(0x##n, arguments, count, result);                                             \
  }                                                                                                \
  SYMBOL(metadata_##n, "__tvm_ffi__metadata_", n) {                                                \
    (void)self;                                                                                    \
    (void)arguments;                                                                               \
    (void)count;                                                                                   \
    return metadata_slot(0x##n, result);                                                           \
  }                                                                                                \
  SYMBOL(doc_##n, "__tvm_ffi__doc_", n) {                                                          \
    (void)self;                                                                                    \
    (void)arguments;                                                                               \
    (void)count;                                                                                   \
    return doc_slot(0x##n, result);                                                                \
  }
#define X16(n)                                                                                     \
  SLOT(n##0)                                                                                       \
  SLOT(n##1)                                                                                       \
  SLOT(n##2) SLOT(n##3) SLOT(n##4) SLOT(n##5) SLOT(n##6) SLOT(n##7) SLOT(n##8) SLOT(n##9)          \
      SLOT(n##a) SLOT(n##b) SLOT(n##c) SLOT(n##d) SLOT(n##e) SLOT(n##f)
X16(0)
X16(1)
X16(2) X16(3) X16(4) X16(5) X16(6) X16(7) X16(8) X16(9) X16(a) X16(b) X16(c) X16(d) X16(e) X16(f)
    /* clang-format on */
