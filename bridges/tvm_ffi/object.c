/* Reference counts and objects; see object.h. Every object that Tenon makes begins with a function
 * that ends its contents, in front of the object itself, so one deleter serves all of them. */
#include "object.h"

#include <stdlib.h>
#include <string.h>

enum {
  SMALL_MOST = 7, /* the longest string that lies in a value */
};

/* What stands in front of an object that Tenon made. */
typedef struct prefix_t {
  void (*end)(void *self);
  uint64_t padding; /* keeps the object aligned to 16 bytes */
} prefix_t;

void ffi_retain(ffi_object_t *object) { __atomic_fetch_add(&object->count, 1, __ATOMIC_RELAXED); }

static void delete_object(ffi_object_t *object, int what) {
  if (object->deleter) object->deleter(object, what);
}

void ffi_release(ffi_object_t *object) {
  if (!object) return;
  uint64_t before = __atomic_fetch_sub(&object->count, 1, __ATOMIC_ACQ_REL);
  if (before == FFI_COUNT_ONE) {
    delete_object(object, FFI_DELETE_CONTENTS | FFI_DELETE_MEMORY);
    return;
  }
  if ((uint32_t)before != 1) return;
  delete_object(object, FFI_DELETE_CONTENTS);
  before = __atomic_fetch_sub(&object->count, (uint64_t)1 << 32, __ATOMIC_ACQ_REL);
  if (before == (uint64_t)1 << 32) delete_object(object, FFI_DELETE_MEMORY);
}

void ffi_any_release(ffi_any_t *value) {
  if (value->kind >= FFI_OBJECT) ffi_release(value->as.object);
  memset(value, 0, sizeof *value);
}

bool ffi_is_sole(const ffi_object_t *object) {
  return __atomic_load_n(&object->count, __ATOMIC_ACQUIRE) == FFI_COUNT_ONE;
}

static void delete_own(void *self, int what) {
  prefix_t *prefix = (prefix_t *)self - 1;
  if (what & FFI_DELETE_CONTENTS && prefix->end) prefix->end(self);
  if (what & FFI_DELETE_MEMORY) free(prefix);
}

void *ffi_create(size_t size, int32_t kind, void (*end)(void *self)) {
  prefix_t *prefix = calloc(1, sizeof *prefix + size);
  if (!prefix) return NULL;
  prefix->end = end;
  ffi_object_t *object = (ffi_object_t *)(void *)(prefix + 1);
  object->count = FFI_COUNT_ONE;
  object->kind = kind;
  object->deleter = delete_own;
  return object;
}

static void end_array(void *self) {
  ffi_array_t *array = self;
  for (int64_t i = 0; i < array->size; i++)
    ffi_any_release(&array->items[i]);
  if (array->free_items) array->free_items(array->items);
}

ffi_array_t *ffi_array_create(int64_t capacity) {
  ffi_array_t *array =
      ffi_create(sizeof *array + (size_t)capacity * sizeof(ffi_any_t), FFI_ARRAY, end_array);
  if (!array) return NULL;
  array->items = (ffi_any_t *)(void *)(array + 1);
  array->capacity = capacity;
  return array;
}

bool ffi_text_set(ffi_any_t *out, const char *text, size_t size) {
  memset(out, 0, sizeof *out);
  if (size <= SMALL_MOST) {
    out->kind = FFI_SMALL_TEXT;
    out->small_size = (uint32_t)size;
    memcpy(out->as.bytes, text, size);
    return true;
  }
  ffi_string_t *string = ffi_create(sizeof *string + size + 1, FFI_STRING, NULL);
  if (!string) return false;
  string->bytes = (ffi_bytes_t){(char *)(string + 1), size};
  memcpy(string + 1, text, size);
  out->kind = FFI_STRING;
  out->as.object = &string->head;
  return true;
}

ffi_bytes_t ffi_text_get(const ffi_any_t *value) {
  switch (value->kind) {
  case FFI_TEXT:
    return (ffi_bytes_t){value->as.text, strlen(value->as.text)};
  case FFI_SMALL_TEXT:
    return (ffi_bytes_t){value->as.bytes, value->small_size};
  case FFI_STRING:
    return ((const ffi_string_t *)(const void *)value->as.object)->bytes;
  default:
    return (ffi_bytes_t){NULL, 0};
  }
}

ffi_bytes_t ffi_bytes_get(const ffi_any_t *value) {
  switch (value->kind) {
  case FFI_BYTES_VIEW:
    return *(const ffi_bytes_t *)value->as.pointer;
  case FFI_SMALL_BYTES:
    return (ffi_bytes_t){value->as.bytes, value->small_size};
  case FFI_BYTES:
    return ((const ffi_string_t *)(const void *)value->as.object)->bytes;
  default:
    return ffi_text_get(value);
  }
}
