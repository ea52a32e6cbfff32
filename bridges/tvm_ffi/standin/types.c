/* The table of types: their numbers by name, and their ancestors. A type may reserve numbers for
 * its descendants, so that C++ code recognises them by their range. */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "export.h"

enum {
  TYPES_MOST = 4096,
  OBJECT_DEPTH = 0,
};

typedef struct type_info_t {
  int32_t number;
  int32_t depth;
  ffi_bytes_t name;
  const struct type_info_t **ancestors; /* from the root to the parent */
  uint64_t hash;
  int32_t field_count;
  int32_t method_count;
  const void *fields;
  const void *methods;
  const void *metadata;
} type_info_t;
_Static_assert(sizeof(type_info_t) == 72, "the layout of TVMFFITypeInfo");

typedef struct entry_t {
  type_info_t info; /* a type that is not known has no name */
  int32_t room;     /* numbers that it reserved, with its own */
  int32_t used;     /* of these */
  bool has_room_only;
} entry_t;

static entry_t entries[TYPES_MOST];
static int32_t next = FFI_DYNAMIC;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct {
  int32_t number;
  const char *name;
} known[] = {{FFI_NONE, "None"},
             {FFI_INT, "int"},
             {FFI_BOOL, "bool"},
             {FFI_FLOAT, "float"},
             {FFI_POINTER, "void*"},
             {FFI_DTYPE, "DataType"},
             {FFI_DEVICE, "Device"},
             {FFI_TENSOR_VIEW, "DLTensor*"},
             {FFI_TEXT, "const char*"},
             {FFI_BYTES_VIEW, "TVMFFIByteArray*"},
             {10, "ObjectRValueRef"},
             {FFI_SMALL_TEXT, "ffi.SmallStr"},
             {FFI_SMALL_BYTES, "ffi.SmallBytes"},
             {FFI_OBJECT, "ffi.Object"},
             {FFI_STRING, "ffi.String"},
             {FFI_BYTES, "ffi.Bytes"},
             {FFI_ERROR, "ffi.Error"},
             {FFI_FUNCTION, "ffi.Function"},
             {FFI_SHAPE, "ffi.Shape"},
             {FFI_TENSOR, "ffi.Tensor"},
             {FFI_ARRAY, "ffi.Array"},
             {72, "ffi.Map"},
             {73, "ffi.Module"},
             {74, "ffi.OpaquePyObject"},
             {FFI_LIST, "ffi.List"},
             {76, "ffi.Dict"}};

static void fill_known(void) {
  static const type_info_t *object[1] = {&entries[FFI_OBJECT].info};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    entry_t *entry = &entries[known[i].number];
    const bool is_object = known[i].number > FFI_OBJECT;
    entry->info.number = known[i].number;
    entry->info.name = (ffi_bytes_t){known[i].name, strlen(known[i].name)};
    entry->info.depth = is_object ? 1 : OBJECT_DEPTH;
    entry->info.ancestors = is_object ? object : NULL;
    entry->room = entry->used = 1;
  }
}

/* Holds the lock. Returns -1 if there is no such type. */
static int32_t find_type(const ffi_bytes_t *name) {
  for (int32_t i = 0; i < next; i++) {
    const ffi_bytes_t *own = &entries[i].info.name;
    if (own->data && own->size == name->size && memcmp(own->data, name->data, name->size) == 0)
      return i;
  }
  return -1;
}

/* Holds the lock. Takes numbers from those that the parent reserved, or else new ones. */
static int32_t take_numbers(entry_t *parent, int32_t count) {
  int32_t number = next;
  if (count > TYPES_MOST) return -1;
  if (parent && parent->used + count <= parent->room) {
    number = parent->info.number + parent->used;
    parent->used += count;
    return number;
  }
  if ((parent && parent->has_room_only) || count > TYPES_MOST - next) return -1;
  next += count;
  return number;
}

/* Holds the lock. */
static int32_t add_type(const ffi_bytes_t *name, int32_t number, int32_t depth, int32_t children,
                        bool can_overflow, entry_t *parent) {
  char *kept = calloc(1, name->size + 1);
  const type_info_t **ancestors = calloc((size_t)depth + 1, sizeof *ancestors);
  if (number < 0) number = take_numbers(parent, children + 1);
  if (!kept || !ancestors || number < 0 || number >= TYPES_MOST) {
    free(kept);
    free(ancestors);
    return raise_error("RuntimeError", "there is no room for the type %.*s", (int)name->size,
                       name->data);
  }
  memcpy(kept, name->data, name->size);
  for (int32_t i = 0; parent && i < depth; i++)
    ancestors[i] = i < parent->info.depth ? parent->info.ancestors[i] : &parent->info;
  entry_t *entry = &entries[number];
  entry->info = (type_info_t){
      .number = number, .depth = depth, .name = {kept, name->size}, .ancestors = ancestors};
  entry->room = children + 1;
  entry->used = 1;
  entry->has_room_only = !can_overflow || (parent && parent->has_room_only);
  return number;
}

EXPORT(int32_t, TVMFFITypeGetOrAllocIndex, const ffi_bytes_t *name, int32_t number, int32_t depth,
       int32_t children, int32_t can_overflow, int32_t parent) {
  (void)pthread_once(&once, fill_known);
  pthread_mutex_lock(&lock);
  int32_t found = find_type(name);
  entry_t *above = parent >= 0 && parent < TYPES_MOST ? &entries[parent] : NULL;
  if (found < 0 && parent != -2 && depth >= 0 && depth < 64 && children >= 0)
    found = add_type(name, number, depth, children, can_overflow != 0, above);
  pthread_mutex_unlock(&lock);
  return found;
}

EXPORT(int, TVMFFITypeKeyToIndex, const ffi_bytes_t *name, int32_t *out) {
  (void)pthread_once(&once, fill_known);
  pthread_mutex_lock(&lock);
  *out = find_type(name);
  pthread_mutex_unlock(&lock);
  if (*out >= 0) return 0;
  return raise_error(
      "KeyError",
      "Tenon's replacement for libtvm_ffi does not know the type %.*s: load the real "
      "libtvm_ffi before libraries that need it (import tvm_ffi first)",
      name->size < 200 ? (int)name->size : 200, name->data);
}

/* C++ code reads the result without a check, so every number has one. */
EXPORT(const type_info_t *, TVMFFIGetTypeInfo, int32_t number) {
  static const type_info_t unknown = {.name = {"unknown", 7}};
  (void)pthread_once(&once, fill_known);
  const bool is_known = number >= 0 && number < TYPES_MOST && entries[number].info.name.data;
  return is_known ? &entries[number].info : &unknown;
}
