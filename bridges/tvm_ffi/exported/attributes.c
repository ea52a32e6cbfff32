/* Converts attributes; see attributes.h. A set of attributes is known by a key: the values in a
 * form in which equal bytes mean equal values. */
#include "attributes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "object.h"

enum {
  KEY_SIZE = 256, /* bytes; calls with a longer key are not kept */
  KEPT_MOST = 16, /* sets of attributes that a thread keeps */
};

typedef struct attribute_key_t {
  size_t size;
  char bytes[KEY_SIZE];
} attribute_key_t;

typedef struct kept_t {
  const exported_t *exported;
  attribute_key_t key;
  tenon_attrs_t *attrs;
  const tenon_value_t *values;
} kept_t;

typedef struct thread_t {
  kept_t kept[KEPT_MOST];
  int next; /* the set that is replaced next */
} thread_t;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static _Thread_local thread_t *this_thread;

static void end_thread(void *pointer) {
  thread_t *thread = pointer;
  for (int i = 0; i < KEPT_MOST; i++)
    host.tenon_attrs_release(thread->kept[i].attrs);
  free(thread);
}

static void create_thread_key(void) { (void)pthread_key_create(&thread_key, end_thread); }

/* Returns NULL when memory runs out. */
static thread_t *find_thread(void) {
  if (this_thread) return this_thread;
  (void)pthread_once(&thread_once, create_thread_key);
  this_thread = calloc(1, sizeof *this_thread);
  (void)pthread_setspecific(thread_key, this_thread);
  return this_thread;
}

/* keys */

static bool add_bytes(attribute_key_t *key, const void *bytes, size_t size) {
  if (size > KEY_SIZE - key->size) return false;
  if (size) memcpy(key->bytes + key->size, bytes, size);
  key->size += size;
  return true;
}

static const ffi_array_t *array_of(const ffi_any_t *value) {
  const bool is_array = value->kind == FFI_ARRAY || value->kind == FFI_LIST;
  return is_array ? (const void *)value->as.object : NULL;
}

/* Returns false for a value that is too long, or of a kind that no attribute has. */
static bool add_key_value(attribute_key_t *key, const ffi_any_t *value) {
  static const ffi_any_t none = {.kind = FFI_NONE};
  if (!value) value = &none;
  const ffi_bytes_t text = ffi_text_get(value);
  const ffi_array_t *array = array_of(value);
  const ffi_shape_t *shape = value->kind == FFI_SHAPE ? (const void *)value->as.object : NULL;
  const int64_t sizes[2] = {value->kind, text.data ? (int64_t)text.size : 0};
  if (text.data) return add_bytes(key, sizes, sizeof sizes) && add_bytes(key, text.data, text.size);
  if (shape) {
    const int64_t head[2] = {FFI_SHAPE, (int64_t)shape->size};
    return shape->size < KEY_SIZE && add_bytes(key, head, sizeof head) &&
           add_bytes(key, shape->data, shape->size * sizeof *shape->data);
  }
  if (!array) return value->kind < FFI_OBJECT && add_bytes(key, value, sizeof *value);
  const int64_t head[2] = {FFI_ARRAY, array->size};
  if (!add_bytes(key, head, sizeof head)) return false;
  for (int64_t i = 0; i < array->size; i++)
    if (array_of(&array->items[i]) || !add_key_value(key, &array->items[i])) return false;
  return true;
}

/* values */

static int refuse_attr(const exported_t *e, const tenon_argument_t *attr, const ffi_any_t *value) {
  static const char *const kinds[] = {
      [TENON_KIND_BOOL] = "a bool",      [TENON_KIND_INT] = "an int",
      [TENON_KIND_DIM] = "an int",       [TENON_KIND_FLOAT] = "a float",
      [TENON_KIND_STR] = "a string",     [TENON_KIND_CHOICE] = "a string",
      [TENON_KIND_DTYPE] = "a dtype",    [TENON_KIND_DEVICE] = "a device",
      [TENON_KIND_INTS] = "ints",        [TENON_KIND_DIMS] = "ints",
      [TENON_KIND_FLOATS] = "floats",    [TENON_KIND_STRS] = "strings",
      [TENON_KIND_TENSOR] = "no value",  [TENON_KIND_GRAPH] = "no value",
      [TENON_KIND_TENSORS] = "no value",
  };
  return raise_text("TypeError", "%s: argument '%s': expected %s, found a value of kind %d",
                    e->name, attr->name, kinds[attr->kind], (int)value->kind);
}

static bool is_integer(const ffi_any_t *value) {
  return value->kind == FFI_INT || value->kind == FFI_BOOL;
}

/* Converts a value that is not a list. Returns false if it is of another kind. */
static bool convert_scalar(const tenon_argument_t *attr, const ffi_any_t *value,
                           tenon_value_t *out) {
  const bool is_number = is_integer(value) || value->kind == FFI_FLOAT;
  switch (attr->kind) {
  case TENON_KIND_BOOL:
    *out = (tenon_value_t){.kind = TENON_KIND_BOOL, .as.i = value->as.integer != 0};
    return is_integer(value);
  case TENON_KIND_INT:
  case TENON_KIND_DIM:
    *out = (tenon_value_t){.kind = TENON_KIND_INT, .as.i = value->as.integer};
    return is_integer(value);
  case TENON_KIND_FLOAT:
    *out = (tenon_value_t){.kind = TENON_KIND_FLOAT, .as.f = value->as.number};
    if (!is_integer(value)) return is_number;
    *out = (tenon_value_t){.kind = TENON_KIND_INT, .as.i = value->as.integer};
    if (attr->is_scalar && value->kind == FFI_BOOL) out->kind = TENON_KIND_BOOL;
    return true;
  case TENON_KIND_DTYPE:
    *out = (tenon_value_t){.kind = TENON_KIND_DTYPE, .as.dtype = value->as.dtype};
    return value->kind == FFI_DTYPE;
  case TENON_KIND_DEVICE:
    *out = (tenon_value_t){.kind = TENON_KIND_DEVICE, .as.device = value->as.device};
    return value->kind == FFI_DEVICE;
  default:
    return false;
  }
}

/* Converts the items of a list into `room`. Returns -1 if an item is of another kind. */
static int64_t convert_items(const tenon_argument_t *attr, const ffi_any_t *items, int64_t count,
                             void *room) {
  for (int64_t i = 0; i < count; i++) {
    const ffi_any_t *item = &items[i];
    const ffi_bytes_t text = ffi_text_get(item);
    if (attr->kind == TENON_KIND_STRS) {
      if (!text.data) return -1;
      ((tenon_string_t *)room)[i] = (tenon_string_t){text.data, text.size};
    } else if (attr->kind == TENON_KIND_FLOATS) {
      if (!is_integer(item) && item->kind != FFI_FLOAT) return -1;
      const double number = item->kind == FFI_FLOAT ? item->as.number : (double)item->as.integer;
      ((double *)room)[i] = number;
    } else {
      if (!is_integer(item)) return -1;
      ((int64_t *)room)[i] = item->as.integer;
    }
  }
  return count;
}

static int set_list_attribute(const exported_t *e, const tenon_argument_t *attr,
                              const ffi_any_t *value, tenon_attrs_t *attrs) {
  const ffi_array_t *array = array_of(value);
  const ffi_shape_t *shape = value->kind == FFI_SHAPE ? (const void *)value->as.object : NULL;
  const bool is_list = attr->kind >= TENON_KIND_INTS && attr->kind <= TENON_KIND_STRS;
  if (!is_list || !(array || (shape && attr->kind <= TENON_KIND_DIMS)))
    return refuse_attr(e, attr, value);
  const int64_t size = array ? array->size : (int64_t)shape->size;
  void *room = size < (1 << 28) ? calloc((size_t)size + 1, sizeof(tenon_string_t)) : NULL;
  if (!room) return raise_text("MemoryError", "out of memory: an argument");
  int64_t count = size;
  if (array) count = convert_items(attr, array->items, size, room);
  if (shape && size) memcpy(room, shape->data, (size_t)size * sizeof *shape->data);
  tenon_value_t converted = {.kind = TENON_KIND_INTS, .count = (uint32_t)size, .as.ints = room};
  if (attr->kind > TENON_KIND_DIMS) converted.kind = attr->kind;
  int code = 0;
  if (count < 0)
    code = refuse_attr(e, attr, value);
  else if (host.tenon_attrs_set(attrs, attr->name, &converted) != TENON_OK)
    code = exported_raise(TENON_INVALID);
  free(room);
  return code;
}

static int set_attribute(const exported_t *e, const tenon_argument_t *attr, const ffi_any_t *value,
                         tenon_attrs_t *attrs) {
  tenon_value_t converted = {.kind = TENON_KIND_NONE};
  const ffi_bytes_t text = ffi_text_get(value);
  tenon_status_t status;
  if (convert_scalar(attr, value, &converted)) {
    status = host.tenon_attrs_set(attrs, attr->name, &converted);
  } else if (text.data && (attr->kind == TENON_KIND_STR || attr->kind == TENON_KIND_CHOICE)) {
    converted =
        (tenon_value_t){.kind = TENON_KIND_STR, .count = (uint32_t)text.size, .as.s = text.data};
    status = host.tenon_attrs_set(attrs, attr->name, &converted);
  } else if (attr->kind == TENON_KIND_DTYPE && text.data &&
             env_dtype(text.data, text.size, &converted.as.dtype)) {
    converted.kind = TENON_KIND_DTYPE;
    status = host.tenon_attrs_set(attrs, attr->name, &converted);
  } else if (text.data && (attr->kind == TENON_KIND_DTYPE || attr->kind == TENON_KIND_DEVICE)) {
    status = host.tenon_attrs_parse(attrs, attr->name, text.data);
  } else {
    return set_list_attribute(e, attr, value, attrs);
  }
  return status == TENON_OK ? 0 : exported_raise(status);
}

static int create_attributes(const exported_t *e, const ffi_any_t *const *values,
                             attributes_t *out) {
  tenon_status_t status = host.tenon_attrs_create(e->op, &out->attrs);
  int code = status == TENON_OK ? 0 : exported_raise(status);
  for (int32_t i = 0; i < e->attr_count && code == 0; i++)
    if (values[i] && values[i]->kind != FFI_NONE)
      code = set_attribute(e, &e->attrs[i], values[i], out->attrs);
  if (code == 0) {
    status = host.tenon_attrs_values(out->attrs, &out->values);
    code = status == TENON_OK ? 0 : exported_raise(status);
  }
  if (code == 0) return 0;
  host.tenon_attrs_release(out->attrs);
  out->attrs = NULL;
  return code;
}

/* Gives the attributes to the thread, in the place of the oldest ones. */
static void keep_attributes(thread_t *thread, const exported_t *e, const attribute_key_t *key,
                            attributes_t *out) {
  kept_t *kept = &thread->kept[thread->next];
  thread->next = (thread->next + 1) % KEPT_MOST;
  host.tenon_attrs_release(kept->attrs);
  *kept = (kept_t){e, *key, out->attrs, out->values};
  out->attrs = NULL;
}

int attributes_take(const exported_t *e, const ffi_any_t *const *values, attributes_t *out) {
  attribute_key_t key;
  bool is_short = true;
  key.size = 0;
  *out = (attributes_t){NULL, NULL};
  if (!e->attr_count) return 0;
  for (int32_t i = 0; i < e->attr_count && is_short; i++)
    is_short = add_key_value(&key, values[i]);
  thread_t *thread = is_short ? find_thread() : NULL;
  for (int i = 0; thread && i < KEPT_MOST; i++) {
    const kept_t *kept = &thread->kept[i];
    if (kept->exported != e || kept->key.size != key.size ||
        memcmp(kept->key.bytes, key.bytes, key.size) != 0)
      continue;
    out->values = kept->values;
    return 0;
  }
  int code = create_attributes(e, values, out);
  if (code == 0 && thread) keep_attributes(thread, e, &key, out);
  return code;
}

void attributes_release(const attributes_t *attributes) {
  if (attributes->attrs) host.tenon_attrs_release(attributes->attrs);
}
