/* The weights of a graph as text, in a file of the format safetensors: 8 bytes with the size of a
 * header in JSON, the header, which names the dtype, shape and place of each tensor, and the
 * elements. Element types without a name in that format are written as u8 of one dimension. Called
 * by write.c and read.c. Invariant: every place that a header states is compared with the size of
 * the file before it is used. */
#include <inttypes.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"
#include "core/file_copy.h"
#include "import/text/text.h"

enum {
  PREFIX = 8,     /* bytes that state the size of the header */
  ALIGNMENT = 64, /* of the first element; the header is padded with spaces */
};
#define HEADER_MOST ((uint64_t)100000000) /* the limit that the format states */

/* clang-format off */
static const struct {
  uint32_t dtype;
  const char *name;
} names[] = {
  {TENON_BOOL, "BOOL"}, {TENON_U8, "U8"}, {TENON_I8, "I8"}, {TENON_U16, "U16"}, {TENON_I16, "I16"},
  {TENON_F16, "F16"}, {TENON_BF16, "BF16"}, {TENON_U32, "U32"}, {TENON_I32, "I32"},
  {TENON_F32, "F32"}, {TENON_F8E4M3FN, "F8_E4M3"}, {TENON_F8E5M2, "F8_E5M2"}, {TENON_U64, "U64"},
  {TENON_I64, "I64"}, {TENON_F64, "F64"},
};
/* clang-format on */
enum { NAME_COUNT = sizeof names / sizeof *names };

/* The name of a dtype in the format; NULL: it has none. */
static const char *format_name(tenon_dtype_t dtype) {
  for (size_t i = 0; i < NAME_COUNT; i++)
    if (tn_dtype_is(dtype, names[i].dtype)) return names[i].name;
  return NULL;
}

/* Writing */

struct tn_weight_t {
  const char *key;
  const tenon_tensor_t *tensor;
  uint64_t size;   /* bytes of the elements */
  uint64_t offset; /* of them, from the end of the header; set when the file is written */
};

/* Finds a key that no other tensor has: the name, or the name with a number. */
static tenon_status_t make_key(tn_weight_list_t *list, const char *name, const char **out_key) {
  tn_text_t key = {0};
  if (list->is_numbered)
    tn_text_add(&key, "%zu", list->count);
  else
    tn_text_add(&key, "%s", name);
  for (size_t number = 2; tn_map_get(&list->keys, tn_text_get(&key), key.size); number++) {
    tn_text_clear(&key);
    tn_text_add(&key, "%s.%zu", name, number);
  }
  *out_key = tn_arena_text(&list->arena, tn_text_get(&key), key.size);
  const bool is_fine =
      !key.failed && *out_key && tn_map_put(&list->keys, *out_key, strlen(*out_key), list);
  tn_text_clear(&key);
  return is_fine ? TENON_OK : tn_no_memory("a list of weights", strlen(name));
}

static bool has_same_elements(const tenon_tensor_t *a, const tenon_tensor_t *b) {
  if (!tn_dtype_same(a->dtype, b->dtype) || a->ndim != b->ndim) return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->shape[i] != b->shape[i] || a->strides[i] != b->strides[i]) return false;
  return true;
}

tenon_status_t tn_weight_list_add(tn_weight_list_t *list, const char *name,
                                  const tenon_tensor_t *tensor, const char **out_key) {
  struct tn_weight_t weight = {NULL, tensor, 0, 0};
  const void *data = tensor->data;
  const uintptr_t known = (uintptr_t)tn_map_get(&list->data, (const char *)&data, sizeof data);
  if (known && has_same_elements(list->items[known - 1].tensor, tensor)) {
    *out_key = list->items[known - 1].key;
    return TENON_OK;
  }
  if (!tn_dtype_bytes(tensor->dtype, tenon_count(tensor), &weight.size) ||
      weight.size > SIZE_MAX / 2 - list->size)
    return tn_fail(TENON_RANGE, "its elements, with those of other constants, exceed memory");
  if (!tn_grow((void **)&list->items, &list->capacity, list->count, sizeof *list->items))
    return tn_no_memory("a list of weights", list->count * sizeof *list->items);
  TN_TRY(make_key(list, name, &weight.key));
  list->items[list->count++] = weight;
  list->size += weight.size;
  if (!known && data &&
      !tn_map_put(&list->data, (const char *)&data, sizeof data, (void *)(uintptr_t)list->count))
    return tn_no_memory("a list of weights", sizeof data);
  *out_key = weight.key;
  return TENON_OK;
}

int64_t tn_weight_list_find(const tn_weight_list_t *list, const tenon_tensor_t *tensor) {
  const void *data = tensor->data;
  const uintptr_t known = (uintptr_t)tn_map_get(&list->data, (const char *)&data, sizeof data);
  const bool is_known = known && has_same_elements(list->items[known - 1].tensor, tensor);
  return is_known ? (int64_t)known - 1 : -1;
}

tenon_status_t tn_weight_list_get(const tn_weight_list_t *list, size_t index,
                                  tenon_tensor_t **out_tensor) {
  const tenon_tensor_t *tensor = list->items[index].tensor;
  tn_file_copy_recall(tensor);
  if (tensor->keys & TN_KEY_STRIDED || !tn_tensor_is_owned(tensor))
    return tenon_tensor_copy(tensor, out_tensor);
  *out_tensor = (tenon_tensor_t *)(uintptr_t)tensor;
  tenon_tensor_retain(*out_tensor);
  return TENON_OK;
}

/* Places the elements with the largest numbers first, so that all are aligned without gaps, which
 * the format does not allow. */
static void place_weights(tn_weight_list_t *list) {
  uint64_t offset = 0;
  for (uint64_t alignment = 8; alignment; alignment /= 2)
    for (size_t i = 0; i < list->count; i++) {
      struct tn_weight_t *weight = &list->items[i];
      if (tn_dtype_alignment(weight->tensor->dtype) != alignment) continue;
      weight->offset = offset;
      offset += weight->size;
    }
}

static void print_weight(const struct tn_weight_t *weight, tn_text_t *header) {
  const tenon_tensor_t *tensor = weight->tensor;
  const char *name = format_name(tensor->dtype);
  tn_text_json(header, weight->key);
  tn_text_add(header, ":{\"dtype\":\"%s\",\"shape\":[", name ? name : "U8");
  if (!name) tn_text_add(header, "%" PRIu64, weight->size);
  for (int32_t i = 0; name && i < tensor->ndim; i++)
    tn_text_add(header, "%s%" PRId64, i ? "," : "", tensor->shape[i]);
  tn_text_add(header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", weight->offset,
              weight->offset + weight->size);
}

static void print_header(const tn_weight_list_t *list, tn_text_t *header) {
  tn_text_add(header, "{\"__metadata__\":{\"format\":\"tenon\"}");
  for (size_t i = 0; i < list->count; i++) {
    tn_text_add(header, ",");
    print_weight(&list->items[i], header);
  }
  tn_text_add(header, "}");
  while (!header->failed && (PREFIX + header->size) % ALIGNMENT)
    tn_text_add(header, " ");
}

/* Copies the elements in row-major order. */
static tenon_status_t put_elements(const struct tn_weight_t *weight, unsigned char *to) {
  tenon_tensor_t *dense = NULL;
  const tenon_tensor_t *from = weight->tensor;
  if (from->keys & TN_KEY_STRIDED) TN_TRY(tenon_tensor_copy(from, &dense));
  if (dense) from = dense;
  if (weight->size) memcpy(to, from->data, (size_t)weight->size);
  tenon_tensor_release(dense);
  return TENON_OK;
}

tenon_status_t tn_weight_list_write(tn_weight_list_t *list, unsigned char **out_file,
                                    size_t *out_size) {
  tn_text_t header = {0};
  place_weights(list);
  print_header(list, &header);
  const size_t begin = PREFIX + header.size;
  const size_t size = begin + (size_t)list->size;
  unsigned char *file = header.failed ? NULL : tn_allocate(size);
  tenon_status_t status = file ? TENON_OK : tn_no_memory("a file of weights", size);
  for (unsigned i = 0; file && i < PREFIX; i++)
    file[i] = (unsigned char)((uint64_t)header.size >> 8 * i);
  if (file) memcpy(file + PREFIX, tn_text_get(&header), header.size);
  for (size_t i = 0; i < list->count && status == TENON_OK; i++)
    status = put_elements(&list->items[i], file + begin + list->items[i].offset);
  tn_text_clear(&header);
  *out_file = file;
  *out_size = size;
  return status;
}

void tn_weight_list_clear(tn_weight_list_t *list) {
  tn_release_memory(list->items);
  tn_map_clear(&list->keys);
  tn_map_clear(&list->data);
  tn_arena_clear(&list->arena);
  *list = (tn_weight_list_t){0};
}

/* Reading */

static tenon_status_t list_entries(tn_weight_file_t *file, const tn_json_t *header) {
  if (header->kind != TN_JSON_OBJECT)
    return tn_json_fail(header, "expected an object as the header, found %s",
                        tn_json_kind_name(header->kind));
  for (size_t i = 0; i < header->count; i++)
    if (!tn_map_put(&file->entries, header->names[i], strlen(header->names[i]),
                    (void *)(uintptr_t)&header->items[i]))
      return tn_no_memory("a file of weights", header->count);
  return TENON_OK;
}

static tenon_status_t read_header(tn_weight_file_t *file) {
  const tn_json_t *header;
  const unsigned char *bytes = file->storage->data;
  const uint64_t left = file->storage->size < PREFIX ? 0 : file->storage->size - PREFIX;
  uint64_t size = 0;
  for (unsigned i = 0; left && i < PREFIX; i++)
    size |= (uint64_t)bytes[i] << 8 * i;
  if (!size || size > left || size > HEADER_MOST)
    return tn_fail(TENON_INVALID,
                   "expected a file of the format safetensors, which begins with the size of its "
                   "header, found a file of %" PRIu64 " bytes that states a header of %" PRIu64,
                   file->storage->size, size);
  TN_TRY(tn_json_read((const char *)bytes + PREFIX, (size_t)size, &file->arena, &header));
  file->begin = PREFIX + size;
  return list_entries(file, header);
}

tenon_status_t tn_weight_file_open(tn_weights_t *weights, const char *name,
                                   tn_weight_file_t *out_file) {
  const void *data;
  tn_weight_file_t file = {.name = name};
  TN_TRY(tn_weights_find(weights, name, 0, 0, &file.storage, &data));
  const tenon_status_t status = read_header(&file);
  if (status == TENON_OK)
    *out_file = file;
  else
    tn_weight_file_close(&file);
  return status == TENON_OK ? TENON_OK : tn_prefix(status, "%.200s: ", name);
}

static bool is_shape(const tn_json_t *list, int32_t ndim, const int64_t *shape) {
  bool is_same = list && list->kind == TN_JSON_LIST && list->count == (size_t)ndim;
  for (int32_t i = 0; is_same && i < ndim; i++) {
    int64_t extent;
    is_same = tn_json_integer(&list->items[i], &extent) && extent == shape[i];
  }
  return is_same;
}

/* Whether the header describes a tensor of this dtype and shape. */
static bool is_described(const tn_json_t *entry, tenon_dtype_t dtype, int32_t ndim,
                         const int64_t *shape, uint64_t size) {
  const tn_json_t *stated = tn_json_find(entry, "dtype");
  const char *name = format_name(dtype);
  const int64_t bytes = (int64_t)size;
  if (!stated || stated->kind != TN_JSON_TEXT) return false;
  if (strcmp(stated->text, name ? name : "U8") != 0) return false;
  return name ? is_shape(tn_json_find(entry, "shape"), ndim, shape)
              : is_shape(tn_json_find(entry, "shape"), 1, &bytes);
}

tenon_status_t tn_weight_file_get(const tn_weight_file_t *file, const char *key,
                                  tenon_dtype_t dtype, int32_t ndim, const int64_t *shape,
                                  tenon_tensor_t **out_tensor) {
  char text[160];
  uint64_t size = 0;
  int64_t begin;
  int64_t end;
  const tn_json_t *entry = tn_map_get(&file->entries, key, strlen(key));
  if (!entry) return tn_fail(TENON_NOT_FOUND, "%.200s has no tensor '%.200s'", file->name, key);
  if (!tn_dtype_bytes(dtype, tn_shape_count(ndim, shape), &size) || size > INT64_MAX)
    return tn_fail(TENON_INVALID, "impossible shape %s: the size exceeds memory",
                   tn_shape_print(ndim, shape, text, sizeof text));
  if (!is_described(entry, dtype, ndim, shape, size))
    return tn_fail(TENON_INVALID, "%.200s has another dtype or shape for tensor '%.200s' than %s%s",
                   file->name, key, tn_dtype_name(dtype),
                   tn_shape_print(ndim, shape, text, sizeof text));
  const tn_json_t *place = tn_json_find(entry, "data_offsets");
  const bool is_pair = place && place->kind == TN_JSON_LIST && place->count == 2;
  const uint64_t left = file->storage->size - file->begin;
  if (!is_pair || !tn_json_integer(&place->items[0], &begin) ||
      !tn_json_integer(&place->items[1], &end) || begin < 0 || end < begin ||
      (uint64_t)end > left || (uint64_t)(end - begin) != size)
    return tn_fail(TENON_INVALID,
                   "%.200s: expected data_offsets of %" PRIu64 " bytes among the %" PRIu64
                   " that follow the header for tensor '%.200s'",
                   file->name, size, left, key);
  const unsigned char *data = (const unsigned char *)file->storage->data + file->begin + begin;
  return tn_weights_tensor(file->storage, data, size, dtype, ndim, shape, out_tensor);
}

void tn_weight_file_close(tn_weight_file_t *file) {
  tn_map_clear(&file->entries);
  tn_arena_clear(&file->arena);
  *file = (tn_weight_file_t){0};
}
