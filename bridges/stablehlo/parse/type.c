/* Types of StableHLO: tensors, tuples, tokens, and scalar types of attributes. Called by
 * attribute.c, operation.c and function.c. Invariant: the number of elements of a tensor fits into
 * 62 bits. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse/parse.h"

static const struct {
  const char *name;
  uint32_t dtype;
  uint8_t bits; /* Of an integer below a byte; else 0. */
} element_types[] = {
    {"f32", TENON_F32, 0},
    {"i32", TENON_I32, 0},
    {"i1", TENON_BOOL, 0},
    {"f64", TENON_F64, 0},
    {"f16", TENON_F16, 0},
    {"bf16", TENON_BF16, 0},
    {"i64", TENON_I64, 0},
    {"ui32", TENON_U32, 0},
    {"i8", TENON_I8, 0},
    {"ui8", TENON_U8, 0},
    {"i16", TENON_I16, 0},
    {"ui16", TENON_U16, 0},
    {"ui64", TENON_U64, 0},
    {"si8", TENON_I8, 0},
    {"si16", TENON_I16, 0},
    {"si32", TENON_I32, 0},
    {"si64", TENON_I64, 0},
    {"index", TENON_I64, 0},
    {"f8E3M4", TENON_F8E3M4, 0},
    {"f8E4M3", TENON_F8E4M3, 0},
    {"f8E4M3B11FNUZ", TENON_F8E4M3B11FNUZ, 0},
    {"f8E4M3FN", TENON_F8E4M3FN, 0},
    {"f8E4M3FNUZ", TENON_F8E4M3FNUZ, 0},
    {"f8E5M2", TENON_F8E5M2, 0},
    {"f8E5M2FNUZ", TENON_F8E5M2FNUZ, 0},
    {"f8E8M0FNU", TENON_F8E8M0, 0},
    {"i2", TENON_I8, 2},
    {"i4", TENON_I8, 4},
    {"ui2", TENON_U8, 2},
    {"ui4", TENON_U8, 4},
};

/* Finds an element type by name. The floats of 4 and 6 bits are refused, because nothing computes
 * with them. */
static bool find_element_type(const char *name, hlo_type_t *type) {
  for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
    if (strcmp(element_types[i].name, name) == 0) {
      type->dtype = tenon_dtype(element_types[i].dtype);
      type->bits = element_types[i].bits;
      return true;
    }
  return false;
}

/* quantised types */

typedef struct quant_pair_t {
  double scale;
  int64_t zero;
} quant_pair_t;

/* Reads scale:zero, or a scale. */
static void parse_quant_pair(hlo_cursor_t *cursor, const hlo_quant_t *quant, hlo_list_t *pairs) {
  char *stop = NULL;
  quant_pair_t pair = {0};
  (void)hlo_peek(cursor);
  const char *at = cursor->at;
  if (hlo_failed(cursor)) return;
  pair.scale = strtod(at, &stop);
  if (stop == at || !isfinite(pair.scale) || pair.scale <= 0) {
    hlo_expected(cursor, "a scale above 0");
    return;
  }
  cursor->at = stop;
  if (hlo_accept(cursor, ":")) (void)hlo_integer(cursor, &pair.zero);
  if (pair.zero < quant->least || pair.zero > quant->most)
    hlo_fail_at(cursor, at, "a zero point is out of the range of its type");
  quant_pair_t *item = hlo_list_add(cursor, pairs, sizeof *item);
  if (item) *item = pair;
}

static void parse_quant_pairs(hlo_cursor_t *cursor, hlo_quant_t *quant) {
  hlo_list_t pairs = {0};
  (void)hlo_expect(cursor, ",");
  if (quant->axis >= 0) (void)hlo_expect(cursor, "{");
  do {
    parse_quant_pair(cursor, quant, &pairs);
  } while (quant->axis >= 0 && hlo_accept(cursor, ","));
  if (quant->axis >= 0) (void)hlo_expect(cursor, "}");
  double *scales = hlo_take(cursor, (size_t)pairs.count, sizeof *scales);
  int64_t *zeros = hlo_take(cursor, (size_t)pairs.count, sizeof *zeros);
  if (!scales || !zeros) return;
  for (int32_t i = 0; i < pairs.count; i++) {
    scales[i] = ((quant_pair_t *)pairs.items)[i].scale;
    zeros[i] = ((quant_pair_t *)pairs.items)[i].zero;
  }
  quant->scales = scales;
  quant->zeros = zeros;
  quant->count = pairs.count;
}

/* Reads the range that the integers are kept in, which may be smaller than that of their type. */
static void parse_quant_range(hlo_cursor_t *cursor, tenon_dtype_t dtype, hlo_quant_t *quant) {
  const char *at = cursor->at;
  const int64_t half = INT64_C(1) << (dtype.bits - 1);
  const int64_t least = dtype.code == 0 ? -half : 0;
  const int64_t most = dtype.code == 0 ? half - 1 : 2 * half - 1;
  quant->least = least;
  quant->most = most;
  if (!hlo_accept(cursor, "<")) return;
  (void)hlo_integer(cursor, &quant->least);
  (void)hlo_expect(cursor, ":");
  (void)hlo_integer(cursor, &quant->most);
  (void)hlo_expect(cursor, ">");
  if (quant->least < least || quant->most > most || quant->least >= quant->most)
    hlo_fail_at(cursor, at, "the range of a quantised type is not one of its integers");
}

/* Finds the integers of a quantised type, whose names differ from those of tensors. */
static bool find_quant_storage(const char *name, tenon_dtype_t *out_dtype) {
  static const struct {
    const char *name;
    uint32_t dtype;
  } storages[] = {{"i8", TENON_I8}, {"u8", TENON_U8}, {"i16", TENON_I16}, {"u16", TENON_U16}};
  for (size_t i = 0; i < sizeof storages / sizeof *storages; i++)
    if (strcmp(storages[i].name, name) == 0) {
      *out_dtype = tenon_dtype(storages[i].dtype);
      return true;
    }
  return false;
}

/* Reads !quant.uniform<i8<-127:127>:f32:1, {0.5:3, 0.25}>. */
static void parse_quantised_type(hlo_cursor_t *cursor, hlo_type_t *type) {
  const char *at = cursor->at;
  const char *name = hlo_name(cursor, '!', "a quantised type");
  hlo_quant_t *quant = hlo_take(cursor, 1, sizeof *quant);
  hlo_type_t expressed = {0};
  int64_t axis = -1;
  if (!quant) return;
  if (strcmp(name, "quant.uniform") != 0)
    hlo_fail_at(cursor, at, "the element type !%.40s is not supported", name);
  (void)hlo_expect(cursor, "<");
  const char *storage = hlo_word(cursor, "a type of integers");
  if (!hlo_failed(cursor) && !find_quant_storage(storage, &type->dtype))
    hlo_fail_at(cursor, at, "quantised elements must be i8, u8, i16 or u16, found %.40s", storage);
  if (hlo_failed(cursor)) return;
  parse_quant_range(cursor, type->dtype, quant);
  (void)hlo_expect(cursor, ":");
  const char *floats = hlo_word(cursor, "a type of floats");
  if (!find_element_type(floats, &expressed) ||
      (expressed.dtype.code != 2 && expressed.dtype.code != 4))
    hlo_fail_at(cursor, at, "quantised elements must stand for floats, found %.40s", floats);
  if (hlo_accept(cursor, ":") && hlo_integer(cursor, &axis) && (axis < 0 || axis >= HLO_RANK_MAX))
    hlo_fail_at(cursor, at, "the axis of a quantised type does not exist");
  quant->expressed = expressed.dtype;
  quant->axis = (int32_t)axis;
  parse_quant_pairs(cursor, quant);
  (void)hlo_expect(cursor, ">");
  type->quant = quant;
}

bool hlo_quant_equal(const hlo_quant_t *a, const hlo_quant_t *b) {
  if (a == b) return true;
  if (!a || !b || a->axis != b->axis || a->count != b->count || a->least != b->least ||
      a->most != b->most || tenon_dtype_id(a->expressed) != tenon_dtype_id(b->expressed))
    return false;
  for (int32_t i = 0; i < a->count; i++)
    if (a->scales[i] != b->scales[i] || a->zeros[i] != b->zeros[i]) return false;
  return true;
}

static void parse_element_type(hlo_cursor_t *cursor, hlo_type_t *type) {
  type->dtype = tenon_dtype(TENON_F32);
  if (hlo_peek(cursor) == '!') {
    parse_quantised_type(cursor, type);
    return;
  }
  const char *at = cursor->at;
  const char *name = hlo_word(cursor, "an element type such as f32");
  if (strcmp(name, "complex") == 0) {
    (void)hlo_expect(cursor, "<");
    const char *part = hlo_word(cursor, "f32 or f64");
    (void)hlo_expect(cursor, ">");
    if (strcmp(part, "f32") != 0 && strcmp(part, "f64") != 0)
      hlo_fail_at(cursor, at, "expected complex<f32> or complex<f64>, found complex<%.30s>", part);
    type->dtype = tenon_dtype(strcmp(part, "f64") == 0 ? TENON_C128 : TENON_C64);
    return;
  }
  if (!find_element_type(name, type))
    hlo_fail_at(cursor, at,
                "the element type %.40s is not supported: convert to another type in the program",
                name);
}

/* Reads the extents of a tensor, each followed by an x. */
static void parse_extents(hlo_cursor_t *cursor, hlo_type_t *type) {
  int64_t dims[HLO_RANK_MAX];
  int64_t total = 1;
  const char *start = cursor->at;
  while (isdigit((unsigned char)hlo_peek(cursor)) || *cursor->at == '?') {
    int64_t extent = -1;
    if (type->ndim == HLO_RANK_MAX) {
      hlo_fail_at(cursor, start, "a tensor has more than %d dimensions, which is not supported",
                  HLO_RANK_MAX);
      return;
    }
    if (*cursor->at == '?')
      cursor->at++;
    else if (!hlo_integer(cursor, &extent))
      return;
    if (*cursor->at != 'x') {
      hlo_expected(cursor, "'x' after an extent");
      return;
    }
    cursor->at++;
    if (extent > 0 && (total > INT64_MAX / 16 / extent)) {
      hlo_fail_at(cursor, start, "a tensor has more than 2^59 elements: the file is damaged");
      return;
    }
    if (extent > 0) total *= extent;
    dims[type->ndim++] = extent;
  }
  int64_t *copy = hlo_take(cursor, (size_t)type->ndim + 1, sizeof *copy);
  if (copy && type->ndim) memcpy(copy, dims, (size_t)type->ndim * sizeof *copy);
  type->dims = copy;
}

static void parse_tensor_type(hlo_cursor_t *cursor, hlo_type_t *type) {
  type->kind = HLO_TENSOR;
  (void)hlo_expect(cursor, "<");
  if (hlo_peek(cursor) == '*')
    hlo_fail_at(cursor, cursor->at, "a tensor without a rank is not supported: state its rank");
  parse_extents(cursor, type);
  parse_element_type(cursor, type);
  const hlo_quant_t *quant = type->quant;
  if (!hlo_failed(cursor) && quant && quant->axis >= 0 &&
      (quant->axis >= type->ndim || type->dims[quant->axis] != quant->count))
    hlo_fail_at(cursor, cursor->at, "a quantised type needs a scale for each index of its axis");
  if (hlo_peek(cursor) == ',')
    hlo_fail_at(cursor, cursor->at,
                "tensor types with an encoding (bounds, sparsity) are not supported: export the "
                "program with symbolic or with fixed shapes");
  (void)hlo_expect(cursor, ">");
}

static void parse_tuple_type(hlo_cursor_t *cursor, hlo_type_t *type) {
  hlo_list_t items = {0};
  type->kind = HLO_TUPLE;
  (void)hlo_expect(cursor, "<");
  while (!hlo_failed(cursor) && hlo_peek(cursor) != '>') {
    const hlo_type_t **item = hlo_list_add(cursor, &items, sizeof *item);
    const hlo_type_t *read = hlo_parse_type(cursor);
    if (item) *item = read;
    if (!hlo_accept(cursor, ",")) break;
  }
  (void)hlo_expect(cursor, ">");
  type->items = items.items;
  type->item_count = items.count;
}

/* Reads !stablehlo.token, or the name of an alias. */
static const hlo_type_t *parse_dialect_type(hlo_cursor_t *cursor, hlo_type_t *type) {
  const char *at = cursor->at;
  const char *name = hlo_name(cursor, '!', "a type");
  if (strcmp(name, "stablehlo.token") == 0 || strcmp(name, "mhlo.token") == 0) {
    type->kind = HLO_TOKEN;
    return type;
  }
  for (const hlo_alias_t *alias = cursor->aliases; alias; alias = alias->next)
    if (alias->name[0] == '!' && strcmp(alias->name + 1, name) == 0) return alias->attr.type;
  hlo_fail_at(cursor, at, "the type !%.60s is not supported", name);
  return type;
}

/* Reads a function type, of which nothing is kept. */
static void skip_function_type(hlo_cursor_t *cursor) {
  hlo_skip_bracket(cursor);
  (void)hlo_expect(cursor, "->");
  if (hlo_peek(cursor) == '(')
    hlo_skip_bracket(cursor);
  else
    (void)hlo_parse_type(cursor);
}

static const hlo_type_t *parse_type(hlo_cursor_t *cursor) {
  hlo_type_t *type = hlo_take(cursor, 1, sizeof *type);
  char c = hlo_peek(cursor);
  if (!type) return NULL;
  type->kind = HLO_OTHER;
  if (c == '!') return parse_dialect_type(cursor, type);
  if (c == '(') {
    skip_function_type(cursor);
    return type;
  }
  const char *at = cursor->at;
  const char *name = hlo_word(cursor, "a type such as tensor<2x3xf32>");
  if (strcmp(name, "tensor") == 0)
    parse_tensor_type(cursor, type);
  else if (strcmp(name, "tuple") == 0)
    parse_tuple_type(cursor, type);
  else if (strcmp(name, "none") != 0 && !find_element_type(name, type))
    hlo_fail_at(cursor, at, "expected a type such as tensor<2x3xf32>, found %.40s", name);
  return type;
}

const hlo_type_t *hlo_parse_type(hlo_cursor_t *cursor) {
  static const hlo_type_t none = {.kind = HLO_OTHER};
  const hlo_type_t *type = hlo_enter(cursor) ? parse_type(cursor) : NULL;
  hlo_leave(cursor);
  return type ? type : &none;
}

static void parse_types(hlo_cursor_t *cursor, hlo_list_t *types) {
  bool is_bracket = hlo_accept(cursor, "(");
  while (!hlo_failed(cursor) && !(is_bracket && hlo_peek(cursor) == ')')) {
    const hlo_type_t **item = hlo_list_add(cursor, types, sizeof *item);
    const hlo_type_t *read = hlo_parse_type(cursor);
    if (item) *item = read;
    if (!hlo_accept(cursor, ",")) break;
  }
  if (is_bracket) (void)hlo_expect(cursor, ")");
}

void hlo_parse_signature(hlo_cursor_t *cursor, hlo_list_t *operands, hlo_list_t *results,
                         bool *out_has_arrow) {
  parse_types(cursor, operands);
  *out_has_arrow = hlo_accept(cursor, "->");
  if (*out_has_arrow) parse_types(cursor, results);
}

/* text and comparison */

static const char *element_type_name(const hlo_type_t *type) {
  uint32_t id = tenon_dtype_id(type->dtype);
  if (type->quant) return "!quant.uniform";
  if (id == TENON_C64) return "complex<f32>";
  if (id == TENON_C128) return "complex<f64>";
  for (size_t i = 0; i < sizeof element_types / sizeof *element_types; i++)
    if (element_types[i].dtype == id && element_types[i].bits == type->bits)
      return element_types[i].name;
  return "?";
}

void hlo_type_text(const hlo_type_t *type, char *out, size_t room) {
  size_t used = 0;
  if (type->kind == HLO_TENSOR) used = (size_t)snprintf(out, room, "tensor<");
  for (int32_t i = 0; i < type->ndim && type->kind == HLO_TENSOR && used < room; i++) {
    if (type->dims[i] < 0)
      used += (size_t)snprintf(out + used, room - used, "?x");
    else
      used += (size_t)snprintf(out + used, room - used, "%lldx", (long long)type->dims[i]);
  }
  if (type->kind == HLO_TENSOR && used < room)
    snprintf(out + used, room - used, "%s>", element_type_name(type));
  if (type->kind == HLO_TUPLE) snprintf(out, room, "a tuple of %d", (int)type->item_count);
  if (type->kind == HLO_TOKEN) snprintf(out, room, "!stablehlo.token");
  if (type->kind == HLO_OTHER) snprintf(out, room, "another type");
}

bool hlo_type_equal(const hlo_type_t *a, const hlo_type_t *b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->ndim != b->ndim || a->item_count != b->item_count) return false;
  if (tenon_dtype_id(a->dtype) != tenon_dtype_id(b->dtype) || a->bits != b->bits ||
      !hlo_quant_equal(a->quant, b->quant))
    return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->dims[i] != b->dims[i]) return false;
  for (int32_t i = 0; i < a->item_count; i++)
    if (!hlo_type_equal(a->items[i], b->items[i])) return false;
  return true;
}

bool hlo_type_is_static(const hlo_type_t *type) {
  if (type->kind != HLO_TENSOR) return false;
  for (int32_t i = 0; i < type->ndim; i++)
    if (type->dims[i] < 0) return false;
  return true;
}
