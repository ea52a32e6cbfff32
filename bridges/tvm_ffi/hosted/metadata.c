/* Reads metadata; see metadata.h. The types are those that tvm-ffi writes for C++ types. */
#include "metadata.h"

#include <string.h>

#include "base/json.h"
#include "base/status.h"

enum {
  TYPES_MOST = 128, /* arguments, or results, of a function */
};

static const struct {
  const char *name;
  type_kind_t kind;
} scalars[] = {
    {"None", TYPE_NONE},      {"DLTensor*", TYPE_VIEW},  {"ffi.Tensor", TYPE_TENSOR},
    {"int", TYPE_INT},        {"float", TYPE_FLOAT},     {"bool", TYPE_BOOL},
    {"ffi.String", TYPE_STR}, {"std::string", TYPE_STR}, {"const char*", TYPE_STR},
    {"DataType", TYPE_DTYPE}, {"dtype", TYPE_DTYPE},     {"Device", TYPE_DEVICE},
};

static const char *const lists[] = {"ffi.Array", "ffi.List", "std::vector", NULL};
static const char *const optionals[] = {"Optional", "std::optional", NULL};
static const char *const tuples[] = {"Tuple", "std::tuple", NULL};

static bool is_one_of(const char *const *names, const char *name) {
  while (*names && strcmp(*names, name) != 0)
    names++;
  return *names != NULL;
}

/* Returns the member, which must be of this kind; NULL with a message if it is not. */
static const tn_json_t *find_member(const tn_json_t *object, const char *name,
                                    tn_json_kind_t kind) {
  const tn_json_t *member = tn_json_find(object, name);
  if (member && member->kind == kind) return member;
  static const char *const expected[] = {
      [TN_JSON_TEXT] = "a string", [TN_JSON_LIST] = "a list", [TN_JSON_OBJECT] = "an object"};
  (void)tn_json_fail(object, "expected %s \"%s\", found %s", expected[kind], name,
                     member ? tn_json_kind_name(member->kind) : "none");
  return NULL;
}

static tenon_status_t read_type(const tn_json_t *json, type_t *out);

/* Reads the only argument of a type such as Optional. */
static tenon_status_t read_inner(const tn_json_t *json, type_t *out) {
  const tn_json_t *inner = find_member(json, "args", TN_JSON_LIST);
  if (!inner) return TENON_INVALID;
  if (inner->count != 1) return tn_json_fail(inner, "expected one type, found %zu", inner->count);
  return read_type(inner->items, out);
}

/* A list of lists, an optional list and the like are types that Tenon does not pass. */
static tenon_status_t read_type(const tn_json_t *json, type_t *out) {
  const tn_json_t *name = find_member(json, "type", TN_JSON_TEXT);
  type_t inner = {TYPE_OTHER, false, false, ""};
  if (!name) return TENON_INVALID;
  *out = (type_t){TYPE_OTHER, false, false, name->text};
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
    if (strcmp(scalars[i].name, name->text) == 0) out->kind = scalars[i].kind;
  if (strcmp(name->text, "ffi.Shape") == 0) {
    out->kind = TYPE_INT;
    out->is_list = true;
  }
  const bool is_list = is_one_of(lists, name->text);
  if (!is_list && !is_one_of(optionals, name->text)) return TENON_OK;
  tenon_status_t status = read_inner(json, &inner);
  if (status != TENON_OK || inner.is_list || inner.is_optional) return status;
  *out = (type_t){inner.kind, is_list, !is_list, name->text};
  if (inner.kind == TYPE_NONE) out->kind = TYPE_OTHER;
  return TENON_OK;
}

static tenon_status_t read_types(const tn_json_t *list, tn_arena_t *arena, const type_t **out_types,
                                 uint32_t *out_count) {
  if (list->count > TYPES_MOST)
    return tn_json_fail(list, "expected at most %d types, found %zu", TYPES_MOST, list->count);
  type_t *types = tn_arena_array(arena, list->count + 1, sizeof *types);
  if (!types) return tn_no_memory("metadata of a function", 0);
  for (size_t i = 0; i < list->count; i++) {
    tenon_status_t status = read_type(&list->items[i], &types[i]);
    if (status != TENON_OK) return status;
  }
  *out_types = types;
  *out_count = (uint32_t)list->count;
  return TENON_OK;
}

static tenon_status_t read_results(const tn_json_t *list, tn_arena_t *arena, signature_t *out) {
  if (list->count != 1)
    return tn_json_fail(list, "expected one type of \"return\", found %zu", list->count);
  const tn_json_t *name = find_member(list->items, "type", TN_JSON_TEXT);
  if (!name) return TENON_INVALID;
  if (strcmp(name->text, "None") == 0) return TENON_OK;
  if (is_one_of(tuples, name->text)) {
    list = find_member(list->items, "args", TN_JSON_LIST);
    if (!list) return TENON_INVALID;
  }
  return read_types(list, arena, &out->results, &out->result_count);
}

static tenon_status_t read_schema(const tn_json_t *schema, tn_arena_t *arena, signature_t *out) {
  const tn_json_t *name = find_member(schema, "type", TN_JSON_TEXT);
  if (!name) return TENON_INVALID;
  if (strcmp(name->text, "ffi.Function") != 0)
    return tn_json_fail(name, "expected the type 'ffi.Function', found '%.100s'", name->text);
  const tn_json_t *named = find_member(schema, "named_args", TN_JSON_OBJECT);
  if (!named) return TENON_INVALID;
  const tn_json_t *arguments = find_member(named, "params", TN_JSON_LIST);
  const tn_json_t *results = arguments ? find_member(named, "return", TN_JSON_LIST) : NULL;
  if (!results) return TENON_INVALID;
  tenon_status_t status = read_types(arguments, arena, &out->arguments, &out->argument_count);
  return status == TENON_OK ? read_results(results, arena, out) : status;
}

tenon_status_t metadata_read(const char *text, size_t size, tn_arena_t *arena,
                             const signature_t **out_signature) {
  const tn_json_t *root;
  const tn_json_t *schema;
  signature_t *signature = tn_arena_allocate(arena, sizeof *signature);
  if (!signature) return tn_no_memory("metadata of a function", 0);
  tenon_status_t status = tn_json_read(text, size, arena, &root);
  if (status != TENON_OK) return status;
  const tn_json_t *inner = find_member(root, "type_schema", TN_JSON_TEXT);
  if (!inner) return TENON_INVALID;
  status = tn_json_read(inner->text, inner->count, arena, &schema);
  if (status == TENON_OK) status = read_schema(schema, arena, signature);
  if (status != TENON_OK) return tn_prefix(status, "type_schema: ");
  *out_signature = signature;
  return TENON_OK;
}

const char *metadata_word(const type_t *type) {
  static const char *const words[] = {
      [TYPE_VIEW] = "Tensor", [TYPE_TENSOR] = "Tensor", [TYPE_INT] = "int",
      [TYPE_FLOAT] = "float", [TYPE_BOOL] = "bool",     [TYPE_STR] = "str",
      [TYPE_DTYPE] = "dtype", [TYPE_DEVICE] = "device"};
  static const char *const list_words[] = {[TYPE_TENSOR] = "Tensor[]",
                                           [TYPE_INT] = "int[]",
                                           [TYPE_FLOAT] = "float[]",
                                           [TYPE_STR] = "str[]",
                                           [TYPE_DEVICE] = NULL};
  return type->is_list ? list_words[type->kind] : words[type->kind];
}
