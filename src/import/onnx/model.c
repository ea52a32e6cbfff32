/* Reads messages of onnx.proto by tables with one row for each field that matters; all other fields
 * are skipped. A message is read in two passes: the first counts the items of lists, the second
 * stores them. Invariant: depth and number of messages are bounded, so that no file can cause
 * endless recursion or allocation. */
#include "import/onnx/model.h"

#include <stdint.h>
#include <string.h>

#include "base/status.h"

enum {
  DEPTH_MAX = 100, /* about 32 graphs in graphs */
  MESSAGES_MAX = 1 << 23,
  FIELD_MAX = 32,
};

/* Kinds of fields; those from LISTS on may occur several times. */
enum {
  NAME,
  BYTES,
  INT,
  FLOAT,
  MESSAGE,
  LISTS,
  NAMES = LISTS,
  STRINGS,
  INTS,
  FLOATS,
  MESSAGES,
};

typedef struct known_field_t {
  uint8_t number;
  uint8_t kind;
  uint16_t offset;
  const struct message_t *message;
} known_field_t;

typedef struct message_t {
  const char *name;
  size_t size;
  uint32_t field_count;
  int32_t body; /* offset of a tn_bytes_t that receives the whole message; -1: none */
  const known_field_t *fields;
} message_t;

/* The layout of every TN_LIST. */
typedef struct list_t {
  void *items;
  size_t count;
} list_t;

typedef struct reader_t {
  const unsigned char *file;
  tn_arena_t *arena;
  size_t messages;
} reader_t;

/* One row for each field that is read: number, kind, member, message. */
/* clang-format off */
#define AT(type, member) (uint16_t)offsetof(tn_onnx_##type##_t, member)
#define TABLE(type, name, body, ...)                                                               \
  static const known_field_t type##_fields[] = {__VA_ARGS__};                                      \
  static const message_t type##_message = {                                                        \
    name, sizeof(tn_onnx_##type##_t), sizeof type##_fields / sizeof(known_field_t), body,          \
    type##_fields}
static const message_t graph_message;
static const message_t type_message;
static const message_t list_message;

TABLE(entry, "StringStringEntryProto", -1,
  {1, NAME, AT(entry, key), NULL},
  {2, NAME, AT(entry, value), NULL});
TABLE(tensor, "TensorProto", offsetof(tn_onnx_tensor_t, body),
  {1, INTS, AT(tensor, dims), NULL},
  {2, INT, AT(tensor, data_type), NULL},
  {8, NAME, AT(tensor, name), NULL},
  {9, BYTES, AT(tensor, raw), NULL},
  {13, MESSAGES, AT(tensor, external), &entry_message},
  {14, INT, AT(tensor, location), NULL});
TABLE(sparse, "SparseTensorProto", -1,
  {1, MESSAGE, AT(sparse, values), &tensor_message},
  {2, MESSAGE, AT(sparse, indices), &tensor_message},
  {3, INTS, AT(sparse, dims), NULL});
TABLE(list, "SequenceProto or OptionalProto", -1,
  {1, NAME, AT(list, name), NULL},
  {2, INT, AT(list, elem_type), NULL},
  {3, MESSAGES, AT(list, tensors), &tensor_message},
  {5, MESSAGES, AT(list, lists), &list_message});
TABLE(dim, "Dimension", -1,
  {1, INT, AT(dim, value), NULL},
  {2, NAME, AT(dim, param), NULL});
TABLE(shape, "TensorShapeProto", -1,
  {1, MESSAGES, AT(shape, dims), &dim_message});
TABLE(tensor_type, "TypeProto.Tensor", -1,
  {1, INT, AT(tensor_type, elem_type), NULL},
  {2, MESSAGE, AT(tensor_type, shape), &shape_message});
TABLE(item_type, "TypeProto.Sequence or TypeProto.Optional", -1,
  {1, MESSAGE, AT(item_type, elem_type), &type_message});
TABLE(type, "TypeProto", -1,
  {1, MESSAGE, AT(type, tensor), &tensor_type_message},
  {4, MESSAGE, AT(type, sequence), &item_type_message},
  {9, MESSAGE, AT(type, optional), &item_type_message});
TABLE(value, "ValueInfoProto", -1,
  {1, NAME, AT(value, name), NULL},
  {2, MESSAGE, AT(value, type), &type_message});
TABLE(attribute, "AttributeProto", -1,
  {1, NAME, AT(attribute, name), NULL},
  {2, FLOAT, AT(attribute, f), NULL},
  {3, INT, AT(attribute, i), NULL},
  {4, BYTES, AT(attribute, s), NULL},
  {5, MESSAGE, AT(attribute, t), &tensor_message},
  {6, MESSAGE, AT(attribute, g), &graph_message},
  {7, FLOATS, AT(attribute, floats), NULL},
  {8, INTS, AT(attribute, ints), NULL},
  {9, STRINGS, AT(attribute, strings), NULL},
  {10, MESSAGES, AT(attribute, tensors), &tensor_message},
  {20, INT, AT(attribute, type), NULL},
  {21, NAME, AT(attribute, ref_name), NULL},
  {22, MESSAGE, AT(attribute, sparse), &sparse_message});
TABLE(node, "NodeProto", -1,
  {1, NAMES, AT(node, inputs), NULL},
  {2, NAMES, AT(node, outputs), NULL},
  {3, NAME, AT(node, name), NULL},
  {4, NAME, AT(node, type), NULL},
  {5, MESSAGES, AT(node, attributes), &attribute_message},
  {7, NAME, AT(node, domain), NULL},
  {8, NAME, AT(node, overload), NULL});
TABLE(graph, "GraphProto", -1,
  {1, MESSAGES, AT(graph, nodes), &node_message},
  {2, NAME, AT(graph, name), NULL},
  {5, MESSAGES, AT(graph, initialisers), &tensor_message},
  {11, MESSAGES, AT(graph, inputs), &value_message},
  {12, MESSAGES, AT(graph, outputs), &value_message},
  {13, MESSAGES, AT(graph, values), &value_message},
  {15, MESSAGES, AT(graph, sparse_initialisers), &sparse_message});
TABLE(opset, "OperatorSetIdProto", -1,
  {1, NAME, AT(opset, domain), NULL},
  {2, INT, AT(opset, version), NULL});
TABLE(function, "FunctionProto", -1,
  {1, NAME, AT(function, name), NULL},
  {4, NAMES, AT(function, inputs), NULL},
  {5, NAMES, AT(function, outputs), NULL},
  {6, NAMES, AT(function, attribute_names), NULL},
  {7, MESSAGES, AT(function, nodes), &node_message},
  {9, MESSAGES, AT(function, opsets), &opset_message},
  {10, NAME, AT(function, domain), NULL},
  {11, MESSAGES, AT(function, attributes), &attribute_message},
  {12, MESSAGES, AT(function, values), &value_message},
  {13, NAME, AT(function, overload), NULL});
TABLE(model, "ModelProto", -1,
  {1, INT, AT(model, ir_version), NULL},
  {7, MESSAGE, AT(model, graph), &graph_message},
  {8, MESSAGES, AT(model, opsets), &opset_message},
  {25, MESSAGES, AT(model, functions), &function_message});
/* clang-format on */

static tenon_status_t no_room(void) { return tn_no_memory("the structure of a model", 0); }

static const known_field_t *find_known_field(const message_t *message, uint32_t number) {
  for (uint32_t i = 0; i < message->field_count; i++)
    if (message->fields[i].number == number) return &message->fields[i];
  return NULL;
}

static tenon_status_t wrong_kind(const reader_t *reader, const message_t *message,
                                 const known_field_t *known, const tn_wire_t *wire) {
  return tn_fail(TENON_INVALID,
                 "byte %zu: field %d of a %s has a wire type other than the one in onnx.proto",
                 (size_t)(wire->at - reader->file), known->number, message->name);
}

static uint32_t wire_kind(int kind) {
  if (kind == INT || kind == INTS) return TN_WIRE_VARINT;
  return kind == FLOAT || kind == FLOATS ? TN_WIRE_32 : TN_WIRE_BYTES;
}

static float float_of(uint64_t bits) {
  uint32_t word = (uint32_t)bits;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* The number of items that this field adds to its list. */
static size_t item_count(const known_field_t *known, const tn_field_t *field) {
  size_t count = 0;
  if (field->kind != TN_WIRE_BYTES || (known->kind != INTS && known->kind != FLOATS)) return 1;
  if (known->kind == FLOATS) return field->bytes.size / 4;
  for (size_t i = 0; i < field->bytes.size; i++)
    count += field->bytes.data[i] < 0x80;
  return count;
}

static size_t item_size(const known_field_t *known) {
  switch (known->kind) {
  case NAMES:
    return sizeof(const char *);
  case STRINGS:
    return sizeof(tn_bytes_t);
  case INTS:
    return sizeof(int64_t);
  case FLOATS:
    return sizeof(double);
  default:
    return known->message->size;
  }
}

static tenon_status_t copy_name(reader_t *reader, tn_bytes_t bytes, const char **out_name) {
  if (bytes.size && memchr(bytes.data, 0, bytes.size))
    return tn_fail(TENON_INVALID, "byte %zu: a name contains a zero byte",
                   (size_t)(bytes.data - reader->file));
  *out_name = tn_arena_text(reader->arena, (const char *)bytes.data, bytes.size);
  return *out_name ? TENON_OK : no_room();
}

/* Appends the numbers of a packed field. */
static tenon_status_t read_packed(reader_t *reader, const known_field_t *known,
                                  const tn_field_t *field, list_t *list) {
  tn_wire_t wire = tn_wire_open(reader->file, field->bytes);
  uint64_t value = 0;
  if (known->kind == INTS) {
    while (tn_wire_varint(&wire, &value))
      ((int64_t *)list->items)[list->count++] = (int64_t)value;
    return tn_wire_status(&wire);
  }
  if (field->bytes.size % 4)
    return tn_fail(TENON_INVALID,
                   "byte %zu: a list of floats has %zu bytes, which is not a multiple of 4",
                   (size_t)(wire.at - wire.begin), field->bytes.size);
  for (size_t i = 0; i + 4 <= field->bytes.size; i += 4) {
    float number;
    memcpy(&number, field->bytes.data + i, sizeof number);
    ((double *)list->items)[list->count++] = (double)number;
  }
  return TENON_OK;
}

static tenon_status_t read_message(reader_t *reader, const message_t *message, tn_bytes_t bytes,
                                   int depth, void *out_structure);

static tenon_status_t read_item(reader_t *reader, const known_field_t *known,
                                const tn_field_t *field, int depth, list_t *list) {
  if (field->kind == TN_WIRE_BYTES && (known->kind == INTS || known->kind == FLOATS))
    return read_packed(reader, known, field, list);
  size_t index = list->count++;
  switch (known->kind) {
  case NAMES:
    return copy_name(reader, field->bytes, (const char **)list->items + index);
  case STRINGS:
    ((tn_bytes_t *)list->items)[index] = field->bytes;
    return TENON_OK;
  case INTS:
    ((int64_t *)list->items)[index] = (int64_t)field->value;
    return TENON_OK;
  case FLOATS:
    ((double *)list->items)[index] = (double)float_of(field->value);
    return TENON_OK;
  default: {
    char *item = (char *)list->items + index * known->message->size;
    return read_message(reader, known->message, field->bytes, depth + 1, item);
  }
  }
}

static tenon_status_t read_field(reader_t *reader, const known_field_t *known,
                                 const tn_field_t *field, int depth, char *base) {
  char *member = base + known->offset;
  double number;
  switch (known->kind) {
  case NAME:
    return copy_name(reader, field->bytes, (const char **)(void *)member);
  case BYTES:
    memcpy(member, &field->bytes, sizeof field->bytes);
    return TENON_OK;
  case INT:
    memcpy(member, &field->value, sizeof field->value);
    return TENON_OK;
  case FLOAT:
    number = (double)float_of(field->value);
    memcpy(member, &number, sizeof number);
    return TENON_OK;
  default:
    break;
  }
  void *part = tn_arena_allocate(reader->arena, known->message->size);
  if (!part) return no_room();
  memcpy(member, &part, sizeof part);
  return read_message(reader, known->message, field->bytes, depth + 1, part);
}

/* First pass: checks wire types, and counts the occurrences of fields and the items of lists. */
static tenon_status_t count_fields(const reader_t *reader, const message_t *message,
                                   tn_bytes_t bytes, size_t *out_counts, uint64_t *out_present) {
  tn_wire_t wire = tn_wire_open(reader->file, bytes);
  tn_field_t field;
  while (tn_wire_next(&wire, &field)) {
    const known_field_t *known = find_known_field(message, field.number);
    bool again = field.number < FIELD_MAX && (*out_present >> field.number & 1);
    if (field.number < FIELD_MAX) *out_present |= (uint64_t)1 << field.number;
    if (!known) continue;
    bool packed = field.kind == TN_WIRE_BYTES && (known->kind == INTS || known->kind == FLOATS);
    if (field.kind != wire_kind(known->kind) && !packed)
      return wrong_kind(reader, message, known, &wire);
    if (again && known->kind == MESSAGE)
      return tn_fail(TENON_INVALID, "byte %zu: a %s contains field %d twice",
                     (size_t)(wire.at - wire.begin), message->name, known->number);
    if (known->kind >= LISTS) out_counts[known - message->fields] += item_count(known, &field);
  }
  return tn_wire_status(&wire);
}

static tenon_status_t read_message(reader_t *reader, const message_t *message, tn_bytes_t bytes,
                                   int depth, void *out_structure) {
  size_t counts[FIELD_MAX] = {0};
  list_t lists[FIELD_MAX] = {{NULL, 0}};
  uint64_t present = 0;
  char *base = out_structure;
  if (depth > DEPTH_MAX)
    return tn_fail(TENON_INVALID, "byte %zu: messages are nested more than %d deep",
                   (size_t)(bytes.data - reader->file), DEPTH_MAX);
  if (++reader->messages > MESSAGES_MAX)
    return tn_fail(TENON_INVALID,
                   "the file has more than %d messages: no model of this size is supported",
                   MESSAGES_MAX);
  TN_TRY(count_fields(reader, message, bytes, counts, &present));
  memcpy(base, &present, sizeof present);
  if (message->body >= 0) memcpy(base + message->body, &bytes, sizeof bytes);
  for (uint32_t i = 0; i < message->field_count; i++) {
    const known_field_t *known = &message->fields[i];
    const char *empty = "";
    if (known->kind == NAME) memcpy(base + known->offset, &empty, sizeof empty);
    if (known->kind < LISTS || counts[i] == 0) continue;
    if (known->kind == MESSAGES && counts[i] > MESSAGES_MAX - reader->messages)
      return tn_fail(
          TENON_INVALID,
          "byte %zu: a %s has %zu messages in field %d: no model of this size is supported",
          (size_t)(bytes.data - reader->file), message->name, counts[i], known->number);
    lists[i].items = tn_arena_array(reader->arena, counts[i], item_size(known));
    if (!lists[i].items) return no_room();
  }
  tn_wire_t wire = tn_wire_open(reader->file, bytes);
  tn_field_t field;
  while (tn_wire_next(&wire, &field)) {
    const known_field_t *known = find_known_field(message, field.number);
    if (!known) continue;
    if (known->kind >= LISTS)
      TN_TRY(read_item(reader, known, &field, depth, &lists[known - message->fields]));
    else
      TN_TRY(read_field(reader, known, &field, depth, base));
  }
  for (uint32_t i = 0; i < message->field_count; i++)
    if (message->fields[i].kind >= LISTS)
      memcpy(base + message->fields[i].offset, &lists[i], sizeof lists[i]);
  return TENON_OK;
}

static tenon_status_t read_file(tn_bytes_t file, tn_arena_t *arena, const message_t *message,
                                void *out_structure) {
  reader_t reader = {file.data, arena, 0};
  memset(out_structure, 0, message->size);
  if (file.size == 0)
    return tn_fail(TENON_INVALID, "the file is empty: expected a %s", message->name);
  return read_message(&reader, message, file, 0, out_structure);
}

tenon_status_t tn_onnx_read_model(tn_bytes_t file, tn_arena_t *arena, tn_onnx_model_t *out_model) {
  return read_file(file, arena, &model_message, out_model);
}

tenon_status_t tn_onnx_read_list(tn_bytes_t file, tn_arena_t *arena, tn_onnx_list_t *out_list) {
  return read_file(file, arena, &list_message, out_list);
}

tenon_status_t tn_onnx_read_tensor(tn_bytes_t file, tn_arena_t *arena,
                                   tn_onnx_tensor_t *out_tensor) {
  return read_file(file, arena, &tensor_message, out_tensor);
}
