/* Converts TensorProto to tensors. Raw and external elements with suitable alignment are borrowed
 * from the mapped file. Typed fields (float_data, int32_data, ...) hold one number for each unit of
 * memory and are unpacked here. Invariant: no size from the file is used before it has been
 * compared with the bytes that exist. */
#include "import/onnx/tensor.h"

#include <string.h>
#include <tenon/tenon.h>

#include "base/memory.h"
#include "base/status.h"
#include "core/dtype.h"

/* Fields of TensorProto. */
enum {
  FLOATS = 4,
  INT32S = 5,
  STRINGS = 6,
  INT64S = 7,
  DOUBLES = 10,
  UINT64S = 11,
};
/* bytes that a sparse tensor may have after conversion to a dense one */
#define SPARSE_MAX ((int64_t)1 << 31)

/* By TensorProto.DataType: the dtype, and the field that holds the elements if they are not raw. */
static const struct {
  uint32_t dtype;
  uint8_t field;
  uint8_t unit; /* bytes of memory that one number of the field fills */
} types[] = {
    {0, 0, 0},
    {TENON_F32, FLOATS, 4},
    {TENON_U8, INT32S, 1},
    {TENON_I8, INT32S, 1},
    {TENON_U16, INT32S, 2},
    {TENON_I16, INT32S, 2},
    {TENON_I32, INT32S, 4},
    {TENON_I64, INT64S, 8},
    {TENON_STRING, STRINGS, 0},
    {TENON_BOOL, INT32S, 1},
    {TENON_F16, INT32S, 2},
    {TENON_F64, DOUBLES, 8},
    {TENON_U32, UINT64S, 4},
    {TENON_U64, UINT64S, 8},
    {TENON_C64, FLOATS, 4},
    {TENON_C128, DOUBLES, 8},
    {TENON_BF16, INT32S, 2},
    {TENON_F8E4M3FN, INT32S, 1},
    {TENON_F8E4M3FNUZ, INT32S, 1},
    {TENON_F8E5M2, INT32S, 1},
    {TENON_F8E5M2FNUZ, INT32S, 1},
    {TENON_U4, INT32S, 1},
    {TENON_I4, INT32S, 1},
    {TENON_F4E2M1, INT32S, 1},
    {TENON_F8E8M0, INT32S, 1},
    {TENON_U2, INT32S, 1},
    {TENON_I2, INT32S, 1},
};
enum { TYPE_COUNT = sizeof types / sizeof *types };

/* A tensor that is being read. */
typedef struct item_t {
  const tn_onnx_tensor_t *proto;
  tenon_dtype_t dtype;
  int32_t ndim;
  int64_t count; /* elements */
  uint64_t size; /* bytes of the elements in memory */
  uint8_t field;
  uint8_t unit;
} item_t;

/* External elements */

static bool parse_number(const char *text, uint64_t *out_number) {
  uint64_t number = 0;
  if (!*text) return false;
  for (; *text; text++) {
    unsigned digit = (unsigned)(*text - '0');
    if (digit > 9 || __builtin_mul_overflow(number, (uint64_t)10, &number) ||
        __builtin_add_overflow(number, (uint64_t)digit, &number))
      return false;
  }
  *out_number = number;
  return true;
}

/* Finds the elements of a tensor that are in another file. */
static tenon_status_t external_bytes(const item_t *item, tn_weights_t *weights,
                                     tn_storage_t **out_storage, tn_bytes_t *out_bytes) {
  const char *location = NULL;
  uint64_t offset = 0;
  uint64_t length = item->size;
  for (size_t i = 0; i < item->proto->external.count; i++) {
    const tn_onnx_entry_t *entry = &item->proto->external.items[i];
    uint64_t *number = NULL;
    if (strcmp(entry->key, "offset") == 0) number = &offset;
    if (strcmp(entry->key, "length") == 0) number = &length;
    if (strcmp(entry->key, "location") == 0) location = entry->value;
    if (number && !parse_number(entry->value, number))
      return tn_fail(TENON_INVALID, "external data: expected a number of bytes as %s, found '%s'",
                     entry->key, entry->value);
  }
  if (!location)
    return tn_fail(TENON_INVALID, "external data without a location: expected the name of a file");
  if (length != item->size)
    return tn_fail(TENON_INVALID,
                   "external data in '%s': expected %llu bytes, but the model states %llu",
                   location, (unsigned long long)item->size, (unsigned long long)length);
  const void *data = NULL;
  TN_TRY(tn_weights_find(weights, location, offset, length, out_storage, &data));
  *out_bytes = (tn_bytes_t){data, (size_t)length};
  return TENON_OK;
}

/* Elements */

/* Stores the numbers of one field, packed or single, one unit each. Counts all of them, but stores
 * only those that fit. */
static tenon_status_t store_numbers(const item_t *item, tn_wire_t *wire, const tn_field_t *field,
                                    unsigned char *data, uint64_t units, uint64_t *count) {
  uint32_t kind = TN_WIRE_VARINT;
  if (item->field == FLOATS) kind = TN_WIRE_32;
  if (item->field == DOUBLES) kind = TN_WIRE_64;
  uint64_t value = field->value;
  uint64_t unit = item->unit;
  if (field->kind == kind) {
    if ((*count)++ < units) memcpy(data + (*count - 1) * unit, &value, unit);
    return TENON_OK;
  }
  if (field->kind != TN_WIRE_BYTES || (kind != TN_WIRE_VARINT && field->bytes.size % unit))
    return tn_fail(TENON_INVALID,
                   "byte %zu: elements have a wire type other than the one in onnx.proto",
                   (size_t)(wire->at - wire->begin));
  if (kind != TN_WIRE_VARINT) { /* `unit` is the width of a fixed-size number */
    uint64_t more = field->bytes.size / unit;
    uint64_t room = *count < units ? units - *count : 0;
    if (more && room)
      memcpy(data + *count * unit, field->bytes.data, (more < room ? more : room) * unit);
    *count += more;
    return TENON_OK;
  }
  tn_wire_t packed = tn_wire_open(wire->begin, field->bytes);
  while (tn_wire_varint(&packed, &value))
    if ((*count)++ < units) memcpy(data + (*count - 1) * unit, &value, unit);
  return tn_wire_status(&packed);
}

/* Reads the elements from the field that belongs to their type. */
static tenon_status_t fill_from_fields(const item_t *item, const unsigned char *file,
                                       tenon_tensor_t *tensor) {
  bool strings = item->field == STRINGS;
  uint64_t units = strings ? (uint64_t)item->count : item->size / item->unit;
  uint64_t count = 0;
  tn_wire_t wire = tn_wire_open(file, item->proto->body);
  tn_field_t field;
  while (tn_wire_next(&wire, &field)) {
    if (field.number != item->field) continue;
    if (!strings) {
      TN_TRY(store_numbers(item, &wire, &field, tensor->data, units, &count));
    } else if (field.kind == TN_WIRE_BYTES && count++ < units) {
      TN_TRY(tenon_tensor_set_string(tensor, (int64_t)count - 1, (const char *)field.bytes.data,
                                     field.bytes.size));
    }
  }
  TN_TRY(tn_wire_status(&wire));
  if (count != units)
    return tn_fail(TENON_INVALID, "expected %llu values, found %llu", (unsigned long long)units,
                   (unsigned long long)count);
  for (int64_t i = 0; tn_dtype_is(item->dtype, TENON_BOOL) && i < item->count; i++)
    ((unsigned char *)tensor->data)[i] = ((unsigned char *)tensor->data)[i] != 0;
  return TENON_OK;
}

bool tn_onnx_dtype(int64_t data_type, tenon_dtype_t *out_dtype) {
  if (data_type <= 0 || data_type >= TYPE_COUNT) return false;
  *out_dtype = tenon_dtype(types[data_type].dtype);
  return true;
}

int64_t tn_onnx_number(tenon_dtype_t dtype) {
  for (int64_t i = 1; i < TYPE_COUNT; i++)
    if (tn_dtype_is(dtype, types[i].dtype)) return i;
  return 0;
}

static tenon_status_t check_tensor(const tn_onnx_tensor_t *proto, item_t *out_item) {
  char shape[160];
  item_t item = {proto, {0, 0, 0}, (int32_t)proto->dims.count, 0, 0, 0, 0};
  if (!tn_onnx_dtype(proto->data_type, &item.dtype))
    return tn_fail(TENON_INVALID, "element type %lld is unknown: ONNX has the types 1 to %d",
                   (long long)proto->data_type, TYPE_COUNT - 1);
  if (proto->dims.count > TENON_RANK_MAX)
    return tn_fail(TENON_INVALID, "%zu dimensions are too many: expected at most %d",
                   proto->dims.count, TENON_RANK_MAX);
  item.count = tn_shape_count(item.ndim, proto->dims.items);
  if (item.count < 0 || !tn_dtype_bytes(item.dtype, item.count, &item.size) ||
      item.size > SIZE_MAX / 2)
    return tn_fail(TENON_INVALID,
                   "impossible shape %s: an extent is negative, or the size exceeds memory",
                   tn_shape_print(item.ndim, proto->dims.items, shape, sizeof shape));
  item.field = types[proto->data_type].field;
  item.unit = types[proto->data_type].unit;
  if (TN_HAS(proto, TN_TENSOR_SEGMENT))
    return tn_fail(TENON_UNIMPLEMENTED, "a tensor stored in segments is not supported");
  *out_item = item;
  return TENON_OK;
}

/* Whether the message can hold the elements of a typed field: one byte of a varint fills at most 8
 * bytes of memory, so a message of less than 1/16 of the size in memory is damaged. */
static bool may_hold_elements(const item_t *item) {
  return item->size / 16 <= item->proto->body.size;
}

static tenon_status_t tensor_of_item(const item_t *item, tn_storage_t *storage, tn_bytes_t bytes,
                                     tenon_tensor_t **out_tensor) {
  return tn_weights_tensor(storage, bytes.data, bytes.size, item->dtype, item->ndim,
                           item->proto->dims.items, out_tensor);
}

static tenon_status_t read_tensor(const tn_onnx_tensor_t *proto, tn_weights_t *weights,
                                  tenon_tensor_t **out_tensor) {
  item_t item;
  tn_bytes_t bytes = proto->raw;
  tn_storage_t *storage = weights->file;
  TN_TRY(check_tensor(proto, &item));
  if (proto->location == 1) {
    TN_TRY(external_bytes(&item, weights, &storage, &bytes));
    return tensor_of_item(&item, storage, bytes, out_tensor);
  }
  if (TN_HAS(proto, TN_TENSOR_RAW)) return tensor_of_item(&item, storage, bytes, out_tensor);
  if (!may_hold_elements(&item))
    return tn_fail(TENON_INVALID,
                   "expected elements for %llu bytes, but the message has only %zu bytes",
                   (unsigned long long)item.size, proto->body.size);
  TN_TRY(tenon_tensor_create(item.dtype, item.ndim, proto->dims.items, out_tensor));
  tenon_status_t status = fill_from_fields(&item, storage->data, *out_tensor);
  if (status == TENON_OK) return TENON_OK;
  tenon_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

tenon_status_t tn_onnx_tensor(const tn_onnx_tensor_t *proto, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor) {
  char shape[160];
  tenon_dtype_t dtype = {0, 0, 0};
  tenon_status_t status = read_tensor(proto, weights, out_tensor);
  if (status == TENON_OK) return TENON_OK;
  (void)tn_onnx_dtype(proto->data_type, &dtype);
  int32_t ndim = proto->dims.count > TENON_RANK_MAX ? 0 : (int32_t)proto->dims.count;
  return tn_prefix(status, "tensor '%.200s' (%s %s): ", proto->name, tn_dtype_name(dtype),
                   tn_shape_print(ndim, proto->dims.items, shape, sizeof shape));
}

/* Sparse tensors, converted to dense ones */

/* The row-major position of the i-th value; -1: out of range. */
static int64_t sparse_position(const tenon_tensor_t *indices, int64_t i, int32_t ndim,
                               const int64_t *dims, int64_t count) {
  const int64_t *numbers = indices->data;
  int64_t position = 0;
  if (indices->ndim == 1) return numbers[i] >= 0 && numbers[i] < count ? numbers[i] : -1;
  for (int32_t axis = 0; axis < ndim; axis++) {
    int64_t index = numbers[i * ndim + axis];
    if (index < 0 || index >= dims[axis]) return -1;
    position = position * dims[axis] + index;
  }
  return position;
}

static tenon_status_t fill_sparse(const tn_onnx_sparse_t *sparse, const tenon_tensor_t *values,
                                  const tenon_tensor_t *indices, tenon_tensor_t **out_tensor) {
  int32_t ndim = sparse->dims.count > TENON_RANK_MAX ? -1 : (int32_t)sparse->dims.count;
  int64_t count = ndim < 0 ? -1 : tn_shape_count(ndim, sparse->dims.items);
  int64_t step = values->dtype.bits / 8;
  uint64_t size = 0;
  bool fits =
      count >= 0 && tn_dtype_bytes(values->dtype, count, &size) && size <= (uint64_t)SPARSE_MAX;
  if (!fits || values->ndim != 1 || values->dtype.bits % 8 ||
      tn_dtype_is(values->dtype, TENON_STRING))
    return tn_fail(TENON_INVALID, "the values of a sparse tensor must be a 1-D tensor of numbers, "
                                  "and at most 2 GiB as a dense tensor");
  if (!tn_dtype_is(indices->dtype, TENON_I64) || indices->ndim < 1 || indices->ndim > 2 ||
      indices->shape[0] != values->shape[0] || (indices->ndim == 2 && indices->shape[1] != ndim))
    return tn_fail(
        TENON_INVALID,
        "the indices of a sparse tensor must be i64 of shape [values] or [values, rank]");
  TN_TRY(tenon_tensor_create(values->dtype, ndim, sparse->dims.items, out_tensor));
  if (size) memset((*out_tensor)->data, 0, (size_t)size);
  for (int64_t i = 0; i < values->shape[0]; i++) {
    int64_t position = sparse_position(indices, i, ndim, sparse->dims.items, count);
    if (position < 0)
      return tn_fail(TENON_INVALID, "index %lld of a sparse tensor is out of range", (long long)i);
    memcpy((char *)(*out_tensor)->data + position * step, (const char *)values->data + i * step,
           (size_t)step);
  }
  return TENON_OK;
}

tenon_status_t tn_onnx_sparse(const tn_onnx_sparse_t *sparse, tn_weights_t *weights,
                              tenon_tensor_t **out_tensor) {
  tenon_tensor_t *values = NULL;
  tenon_tensor_t *indices = NULL;
  tenon_status_t status = TENON_INVALID;
  *out_tensor = NULL;
  if (!sparse->values || !sparse->indices)
    return tn_fail(status, "a sparse tensor needs values and indices, but one of them is missing");
  status = tn_onnx_tensor(sparse->values, weights, &values);
  if (status == TENON_OK) status = tn_onnx_tensor(sparse->indices, weights, &indices);
  if (status == TENON_OK) status = fill_sparse(sparse, values, indices, out_tensor);
  tenon_tensor_release(values);
  tenon_tensor_release(indices);
  if (status == TENON_OK) return TENON_OK;
  tenon_tensor_release(*out_tensor);
  *out_tensor = NULL;
  return status;
}

static tenon_status_t list_item(const tn_onnx_list_t *list, size_t i, tn_weights_t *weights,
                                tenon_tensor_t **out_item) {
  return i < list->tensors.count
             ? tn_onnx_tensor(&list->tensors.items[i], weights, out_item)
             : tn_onnx_list(&list->lists.items[i - list->tensors.count], weights, out_item);
}

/* Whether this is a message of a list and not of a tensor: it has no other fields, its name is
 * text, and its elem_type, too, states which items it has. */
static bool is_list_whole(const tn_onnx_list_t *list) {
  const bool has_type = TN_HAS(list, TN_ONNX_LIST_TYPE);
  const bool has_items = list->tensors.count || list->lists.count;
  if (list->present & ~(uint64_t)TN_ONNX_LIST_FIELDS) return false;
  for (const char *c = list->name; *c; c++)
    if ((unsigned char)*c < ' ') return false;
  switch (list->elem_type) {
  case TN_ONNX_ITEMS_NONE:
    return has_type && !has_items;
  case TN_ONNX_ITEMS_TENSORS:
    return !list->lists.count;
  case TN_ONNX_ITEMS_SEQUENCES:
  case TN_ONNX_ITEMS_OPTIONALS:
    return !list->tensors.count;
  default:
    return false;
  }
}

tenon_status_t tn_onnx_list(const tn_onnx_list_t *list, tn_weights_t *weights,
                            tenon_tensor_t **out_list) {
  const size_t count = list->tensors.count + list->lists.count;
  *out_list = NULL;
  if (!is_list_whole(list) || count > INT32_MAX)
    return tn_fail(TENON_INVALID,
                   "a sequence has %zu tensors and %zu sequences, which its element type %lld does "
                   "not allow",
                   list->tensors.count, list->lists.count, (long long)list->elem_type);
  tenon_tensor_t **items = tn_allocate_zero(count + 1, sizeof *items);
  tenon_status_t status = items ? TENON_OK : tn_no_memory("a list", count);
  for (size_t i = 0; i < count && status == TENON_OK; i++)
    status = list_item(list, i, weights, &items[i]);
  if (status == TENON_OK) status = tenon_tensor_list(items, (int32_t)count, out_list);
  for (size_t i = 0; i < count && items; i++)
    tenon_tensor_release(items[i]);
  tn_release_memory(items);
  return status;
}
