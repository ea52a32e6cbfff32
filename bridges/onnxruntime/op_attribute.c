/* Attributes as objects. The attribute of a node is a text, which is read as the type that the
 * library asks for; one that a library creates has its type and owns copies. */
#include "op_attribute.h"

#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "status.h"

static OrtOpAttr *make_attribute(const char *name, ort_attribute_t type) {
  OrtOpAttr *attribute = calloc(1, sizeof *attribute);
  if (!attribute) return NULL;
  attribute->type = type;
  if ((attribute->name = strdup(name))) return attribute;
  free(attribute);
  return NULL;
}

void ort_ReleaseOpAttr(OrtOpAttr *attribute) {
  if (!attribute) return;
  free(attribute->name);
  free(attribute->ints);
  free(attribute->floats);
  free(attribute->string);
  free(attribute->strings);
  free(attribute);
}

void op_attribute_link(OrtOpAttr *attribute, OrtOpAttr **list) {
  attribute->next = *list;
  *list = attribute;
}

void op_attribute_release_all(OrtOpAttr *list) {
  while (list) {
    OrtOpAttr *next = list->next;
    ort_ReleaseOpAttr(list);
    list = next;
  }
}

/* attributes of nodes */

/* The type that a text looks like; a library that asks for another type gets that. */
static ort_attribute_t guess_type(tenon_string_t text) {
  int64_t number;
  float real;
  if (attribute_int(text, &number)) return ORT_ATTRIBUTE_INT;
  if (attribute_float(text, &real)) return ORT_ATTRIBUTE_FLOAT;
  if (!text.size || *text.data != '[') return ORT_ATTRIBUTE_STRING;
  int64_t *ints = NULL;
  float *floats = NULL;
  char **strings = NULL;
  size_t count;
  ort_attribute_t type = ORT_ATTRIBUTE_STRING;
  if (attribute_ints(text, &ints, &count))
    type = ORT_ATTRIBUTE_INTS;
  else if (attribute_floats(text, &floats, &count))
    type = ORT_ATTRIBUTE_FLOATS;
  else if (attribute_strings(text, &strings, &count))
    type = ORT_ATTRIBUTE_STRINGS;
  free(ints);
  free(floats);
  free(strings);
  return type;
}

OrtStatus *op_attribute_of_text(const char *name, tenon_string_t text, OrtOpAttr **out) {
  *out = make_attribute(name, guess_type(text));
  if (!*out) return status_make(ORT_FAIL, "out of memory");
  (*out)->text = text;
  return NULL;
}

/* reading */

typedef struct contents_t { /* the elements that a library asks for */
  const void *data;
  size_t size; /* in bytes */
  void *own;   /* freed after the copy */
} contents_t;

static bool read_from_text(const OrtOpAttr *attribute, ort_attribute_t type, int64_t *room,
                           contents_t *out) {
  const tenon_string_t text = attribute->text;
  size_t count = 0;
  int64_t *ints = NULL;
  float *floats = NULL;
  bool good = false;
  *out = (contents_t){.data = room};
  switch (type) {
  case ORT_ATTRIBUTE_INT:
    out->size = sizeof *room;
    return attribute_int(text, room);
  case ORT_ATTRIBUTE_FLOAT:
    out->size = sizeof(float);
    return attribute_float(text, (float *)(void *)room);
  case ORT_ATTRIBUTE_STRING:
    *out = (contents_t){.data = text.data, .size = text.size};
    return true;
  case ORT_ATTRIBUTE_INTS:
    good = attribute_ints(text, &ints, &count);
    *out = (contents_t){.data = ints, .size = count * sizeof *ints, .own = ints};
    return good;
  case ORT_ATTRIBUTE_FLOATS:
    good = attribute_floats(text, &floats, &count);
    *out = (contents_t){.data = floats, .size = count * sizeof *floats, .own = floats};
    return good;
  default:
    return false;
  }
}

static bool read_own(const OrtOpAttr *attribute, ort_attribute_t type, contents_t *out) {
  if (attribute->type != type) return false;
  switch (type) {
  case ORT_ATTRIBUTE_INT:
  case ORT_ATTRIBUTE_INTS:
    *out = (contents_t){.data = attribute->ints, .size = attribute->count * sizeof(int64_t)};
    return true;
  case ORT_ATTRIBUTE_FLOAT:
  case ORT_ATTRIBUTE_FLOATS:
    *out = (contents_t){.data = attribute->floats, .size = attribute->count * sizeof(float)};
    return true;
  case ORT_ATTRIBUTE_STRING:
    *out = (contents_t){.data = attribute->string, .size = attribute->count};
    return true;
  default:
    return false;
  }
}

/* Strings of a list are written one after the other, each with its zero byte. */
static OrtStatus *read_strings(const OrtOpAttr *attribute, char *data, size_t size, size_t *out) {
  char **strings = NULL;
  size_t count = attribute->count;
  size_t needed = 0;
  if (attribute->text.data && !attribute_strings(attribute->text, &strings, &count))
    return status_make(ORT_INVALID_ARGUMENT, "attribute '%.100s' is no list of strings",
                       attribute->name);
  char *const *items = attribute->text.data ? strings : attribute->strings;
  for (size_t i = 0; i < count; i++)
    needed += strlen(items[i]) + 1;
  *out = needed;
  for (size_t i = 0; i < count && needed <= size; i++) {
    const size_t bytes = strlen(items[i]) + 1;
    memcpy(data, items[i], bytes);
    data += bytes;
  }
  free(strings);
  if (needed <= size) return NULL;
  return status_make(ORT_INVALID_ARGUMENT, "attribute '%.100s' needs %zu bytes, found %zu",
                     attribute->name, needed, size);
}

OrtStatus *ort_ReadOpAttr(const OrtOpAttr *attribute, ort_attribute_t type, void *data, size_t size,
                          size_t *out) {
  int64_t room = 0;
  contents_t contents = {0};
  if (type == ORT_ATTRIBUTE_STRINGS) return read_strings(attribute, data, size, out);
  const bool good = attribute->text.data ? read_from_text(attribute, type, &room, &contents)
                                         : read_own(attribute, type, &contents);
  if (!good)
    return status_make(ORT_INVALID_ARGUMENT, "attribute '%.100s' has another type than %d",
                       attribute->name, (int)type);
  *out = contents.size;
  const bool fits = contents.size <= size;
  if (fits && contents.size) memcpy(data, contents.data, contents.size);
  free(contents.own);
  if (fits) return NULL;
  return status_make(ORT_INVALID_ARGUMENT, "attribute '%.100s' needs %zu bytes, found %zu",
                     attribute->name, contents.size, size);
}

OrtStatus *ort_OpAttr_GetType(const OrtOpAttr *attribute, ort_attribute_t *out) {
  *out = attribute->type;
  return NULL;
}

OrtStatus *ort_OpAttr_GetName(const OrtOpAttr *attribute, const char **out) {
  *out = attribute->name;
  return NULL;
}

/* creating */

static void *copy_of(const void *data, size_t size) {
  void *copy = malloc(size + 1);
  if (copy && size) memcpy(copy, data, size);
  return copy;
}

static char **copy_strings(const char *const *strings, size_t count) {
  size_t size = (count + 1) * sizeof *strings;
  for (size_t i = 0; i < count; i++)
    size += strlen(strings[i]) + 1;
  char **copy = malloc(size);
  char *at = copy ? (char *)(copy + count + 1) : NULL;
  for (size_t i = 0; copy && i < count; i++) {
    const size_t bytes = strlen(strings[i]) + 1;
    copy[i] = memcpy(at, strings[i], bytes);
    at += bytes;
  }
  return copy;
}

static bool fill_attribute(OrtOpAttr *attribute, const void *data, size_t count) {
  const bool is_list =
      attribute->type == ORT_ATTRIBUTE_INTS || attribute->type == ORT_ATTRIBUTE_FLOATS ||
      attribute->type == ORT_ATTRIBUTE_STRINGS || attribute->type == ORT_ATTRIBUTE_STRING;
  attribute->count = is_list ? count : 1;
  switch (attribute->type) {
  case ORT_ATTRIBUTE_INT:
  case ORT_ATTRIBUTE_INTS:
    return (attribute->ints = copy_of(data, attribute->count * sizeof(int64_t))) != NULL;
  case ORT_ATTRIBUTE_FLOAT:
  case ORT_ATTRIBUTE_FLOATS:
    return (attribute->floats = copy_of(data, attribute->count * sizeof(float))) != NULL;
  case ORT_ATTRIBUTE_STRING:
    return (attribute->string = copy_of(data, count)) != NULL;
  default:
    return (attribute->strings = copy_strings(data, count)) != NULL;
  }
}

OrtStatus *ort_CreateOpAttr(const char *name, const void *data, int count, ort_attribute_t type,
                            OrtOpAttr **out) {
  *out = NULL;
  if ((int)type < ORT_ATTRIBUTE_INT || (int)type > ORT_ATTRIBUTE_STRINGS || count < 0 ||
      (!data && count))
    return status_make(ORT_INVALID_ARGUMENT,
                       "attribute '%.100s' has type %d and %d elements: expected a number, a "
                       "string, or a list of them",
                       name, (int)type, count);
  OrtOpAttr *attribute = make_attribute(name, type);
  if (attribute && fill_attribute(attribute, data, (size_t)count)) {
    *out = attribute;
    return NULL;
  }
  ort_ReleaseOpAttr(attribute);
  return status_make(ORT_FAIL, "out of memory");
}
