/* Objects, strings, dtypes and functions. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"
#include "object.h"

typedef struct version_t {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} version_t;

/* Tells code that looks for it, such as Tenon's Python package, that the stand-in is global. */
EXPORT(int, tenon_tvm_ffi_stand_in, void) { return 1; }

EXPORT(void, TVMFFIGetVersion, version_t *out) { *out = (version_t){0, 1, 15}; }

EXPORT(int, TVMFFIObjectIncRef, ffi_object_t *object) {
  ffi_retain(object);
  return 0;
}

EXPORT(int, TVMFFIObjectDecRef, ffi_object_t *object) {
  ffi_release(object);
  return 0;
}

/* strings */

static int raise_no_memory(void) { return raise_error("MemoryError", "out of memory"); }

EXPORT(int, TVMFFIStringFromByteArray, const ffi_bytes_t *bytes, ffi_any_t *out) {
  return ffi_text_set(out, bytes->data, bytes->size) ? 0 : raise_no_memory();
}

EXPORT(int, TVMFFIBytesFromByteArray, const ffi_bytes_t *bytes, ffi_any_t *out) {
  if (!ffi_text_set(out, bytes->data, bytes->size)) return raise_no_memory();
  if (out->kind == FFI_SMALL_TEXT)
    out->kind = FFI_SMALL_BYTES;
  else
    out->kind = out->as.object->kind = FFI_BYTES;
  return 0;
}

EXPORT(int, TVMFFIAnyViewToOwnedAny, const ffi_any_t *view, ffi_any_t *out) {
  if (view->kind == FFI_TEXT) {
    const ffi_bytes_t text = ffi_text_get(view);
    return TVMFFIStringFromByteArray(&text, out);
  }
  if (view->kind == FFI_BYTES_VIEW) return TVMFFIBytesFromByteArray(view->as.pointer, out);
  *out = *view;
  if (out->kind >= FFI_OBJECT) ffi_retain(out->as.object);
  return 0;
}

/* dtypes: the names of tvm-ffi, such as "float32x4" */

static const struct {
  const char *name;
  uint8_t code;
  uint8_t bits; /* 0: a number follows the name */
} dtypes[] = {
    {"bool", 6, 8},
    {"float8_e3m4", 7, 8},
    {"float8_e4m3b11fnuz", 9, 8},
    {"float8_e4m3fnuz", 11, 8},
    {"float8_e4m3fn", 10, 8},
    {"float8_e4m3", 8, 8},
    {"float8_e5m2fnuz", 13, 8},
    {"float8_e5m2", 12, 8},
    {"float8_e8m0fnu", 14, 8},
    {"float6_e2m3fn", 15, 6},
    {"float6_e3m2fn", 16, 6},
    {"float4_e2m1fn", 17, 4},
    {"bfloat", 4, 0},
    {"complex", 5, 0},
    {"float", 2, 0},
    {"uint", 1, 0},
    {"int", 0, 0},
};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* Reads a number of at most `most`; returns false if there is none. */
static bool read_dtype_number(const char **at, unsigned long most, unsigned long *out) {
  char *end;
  if (**at < '0' || **at > '9') return false;
  *out = strtoul(*at, &end, 10);
  *at = end;
  return *out > 0 && *out <= most;
}

static bool parse_dtype(const char *text, tenon_dtype_t *out) {
  unsigned long bits;
  unsigned long lanes = 1;
  int i = 0;
  while (i < DTYPES && strncmp(text, dtypes[i].name, strlen(dtypes[i].name)) != 0)
    i++;
  if (i == DTYPES) return false;
  const char *at = text + strlen(dtypes[i].name);
  bits = dtypes[i].bits;
  if (!bits && !read_dtype_number(&at, 255, &bits)) return false;
  if (*at == 'x') {
    at++;
    if (!read_dtype_number(&at, 65535, &lanes)) return false;
  }
  *out = (tenon_dtype_t){dtypes[i].code, (uint8_t)bits, (uint16_t)lanes};
  return !*at;
}

EXPORT(int, TVMFFIDataTypeFromString, const ffi_bytes_t *text, tenon_dtype_t *out) {
  char name[64];
  if (text->size < sizeof name) {
    memcpy(name, text->data, text->size);
    name[text->size] = 0;
    if (parse_dtype(name, out)) return 0;
  }
  return raise_error("ValueError", "unknown dtype `%.*s`", text->size < 100 ? (int)text->size : 100,
                     text->data);
}

EXPORT(int, TVMFFIDataTypeToString, const tenon_dtype_t *dtype, ffi_any_t *out) {
  char text[64];
  int i = 0;
  while (i < DTYPES && dtypes[i].code != dtype->code)
    i++;
  if (i == DTYPES) return raise_error("ValueError", "unknown dtype code %d", (int)dtype->code);
  int size = snprintf(text, sizeof text, "%s", dtypes[i].name);
  if (!dtypes[i].bits)
    size += snprintf(text + size, sizeof text - (size_t)size, "%d", (int)dtype->bits);
  if (dtype->lanes != 1)
    size += snprintf(text + size, sizeof text - (size_t)size, "x%d", (int)dtype->lanes);
  return ffi_text_set(out, text, (size_t)size) ? 0 : raise_no_memory();
}

/* functions */

typedef struct closure_t {
  ffi_function_t base;
  void *self;
  ffi_call_fn call;
  void (*deleter)(void *self);
} closure_t;

static int call_closure(void *self, const ffi_any_t *arguments, int32_t count, ffi_any_t *result) {
  const closure_t *closure = self;
  return closure->call(closure->self, arguments, count, result);
}

static void end_closure(void *self) {
  const closure_t *closure = self;
  if (closure->deleter) closure->deleter(closure->self);
}

EXPORT(int, TVMFFIFunctionCreate, void *self, ffi_call_fn call, void (*deleter)(void *self),
       ffi_object_t **out) {
  closure_t *closure = ffi_create(sizeof *closure, FFI_FUNCTION, end_closure);
  if (!closure) return raise_no_memory();
  closure->base.call = call_closure;
  closure->self = self;
  closure->call = call;
  closure->deleter = deleter;
  *out = &closure->base.head;
  return 0;
}

EXPORT(int, TVMFFIFunctionCall, ffi_object_t *function, ffi_any_t *arguments, int32_t count,
       ffi_any_t *result) {
  return ((const ffi_function_t *)(const void *)function)->call(function, arguments, count, result);
}

/* Nobody can register a global function here. */
EXPORT(int, TVMFFIFunctionGetGlobal, const ffi_bytes_t *name, ffi_object_t **out) {
  (void)name;
  *out = NULL;
  return 0;
}

/* handles that are made once */

static pthread_mutex_t handles = PTHREAD_MUTEX_INITIALIZER;

EXPORT(int, TVMFFIHandleInitOnce, void **handle, int (*create)(void **out)) {
  int code = 0;
  void *made = NULL;
  if (__atomic_load_n(handle, __ATOMIC_ACQUIRE)) return 0;
  pthread_mutex_lock(&handles);
  if (!*handle) {
    code = create(&made);
    if (code == 0) __atomic_store_n(handle, made, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&handles);
  return code;
}

EXPORT(int, TVMFFIHandleDeinitOnce, void **handle, int (*destroy)(void *handle)) {
  void *made = __atomic_exchange_n(handle, NULL, __ATOMIC_ACQ_REL);
  return made ? destroy(made) : 0;
}
