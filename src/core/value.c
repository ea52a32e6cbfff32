/* Attribute values: conversion from a caller's value to the form that kernels see, and to and from
 * text. Used by every entry point (bound attributes, importers, bindings, the command line) and by
 * the schema parser for defaults. Invariant: a converted value has the kind of its attribute
 * (scalar: BOOL, INT or FLOAT), or NONE if the attribute is optional. */
#include "core/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/dtype.h"
#include "core/lexer.h"
#include "core/nearest.h"
#include "core/sparse.h"

static const struct {
  const char *name;
  uint32_t list;    /* the kind of a list of this kind; 0: none */
  uint32_t element; /* lists: the kind of the elements */
  size_t size;      /* lists: bytes per element */
} kinds[] = {
    [TENON_KIND_NONE] = {"None", 0, 0, 0},
    [TENON_KIND_BOOL] = {"bool", 0, 0, 0},
    [TENON_KIND_INT] = {"int", TENON_KIND_INTS, 0, 0},
    [TENON_KIND_DIM] = {"dim", TENON_KIND_DIMS, 0, 0},
    [TENON_KIND_FLOAT] = {"float", TENON_KIND_FLOATS, 0, 0},
    [TENON_KIND_STR] = {"str", TENON_KIND_STRS, 0, 0},
    [TENON_KIND_CHOICE] = {"choice", 0, 0, 0},
    [TENON_KIND_DTYPE] = {"dtype", 0, 0, 0},
    [TENON_KIND_DEVICE] = {"device", 0, 0, 0},
    [TENON_KIND_TENSOR] = {"tensor", TENON_KIND_TENSORS, 0, 0},
    [TENON_KIND_GRAPH] = {"graph", 0, 0, 0},
    [TENON_KIND_INTS] = {"list of ints", 0, TENON_KIND_INT, sizeof(int64_t)},
    [TENON_KIND_DIMS] = {"list of dims", 0, TENON_KIND_DIM, sizeof(tenon_dim_t)},
    [TENON_KIND_FLOATS] = {"list of floats", 0, TENON_KIND_FLOAT, sizeof(double)},
    [TENON_KIND_STRS] = {"list of strs", 0, TENON_KIND_STR, sizeof(tenon_string_t)},
    [TENON_KIND_TENSORS] = {"list of tensors", 0, TENON_KIND_TENSOR, sizeof(tenon_tensor_t *)},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *tn_kind_name(uint32_t kind) { return kind < KINDS ? kinds[kind].name : "unknown kind"; }

static bool is_list(uint32_t kind) { return kind < KINDS && kinds[kind].size; }
static tenon_status_t fail_value_memory(size_t size) { return tn_no_memory("an attribute", size); }

/* printing */

void tn_value_quote(const char *data, size_t size, tn_text_t *text) {
  tn_text_bytes(text, "'", 1);
  for (size_t i = 0, from = 0; i <= size; i++) {
    const char c = i < size ? data[i] : 0;
    const bool is_control = (c >= 0 && c < ' ') || c == 0x7f;
    if (i < size && !is_control && c != '\\' && c != '\'') continue;
    tn_text_bytes(text, data + from, i - from);
    from = i + 1;
    if (i == size) break;
    if (c == '\n')
      tn_text_bytes(text, "\\n", 2);
    else if (is_control)
      tn_text_add(text, "\\x%02x", (unsigned)c);
    else
      tn_text_add(text, "\\%c", c);
  }
  tn_text_bytes(text, "'", 1);
}

static void print_tensor(const tenon_tensor_t *tensor, tn_text_t *text) {
  if (!tensor) {
    tn_text_add(text, "NULL");
    return;
  }
  tn_text_add(text, "tensor %s[", tn_dtype_name(tensor->dtype));
  for (int32_t i = 0; i < tensor->ndim; i++)
    tn_text_add(text, i ? ", %" PRId64 : "%" PRId64, tensor->shape[i]);
  tn_text_add(text, "]");
}

/* Element `i` of a list as a separate value. */
static tenon_value_t list_element(const tenon_value_t *list, uint32_t i) {
  tenon_value_t value = {.kind = kinds[list->kind].element};
  switch (list->kind) {
  case TENON_KIND_INTS:
    value.as.i = list->as.ints[i];
    break;
  case TENON_KIND_DIMS:
    value.as.dim = list->as.dims[i];
    break;
  case TENON_KIND_FLOATS:
    value.as.f = list->as.floats[i];
    break;
  /* tenon_string_t has a 64-bit size: callers that need the full size read the list itself */
  case TENON_KIND_STRS:
    value.as.s = list->as.strs[i].data;
    value.count = list->as.strs[i].size > UINT32_MAX ? UINT32_MAX : (uint32_t)list->as.strs[i].size;
    break;
  default:
    value.as.tensor = list->as.tensors[i];
    break;
  }
  return value;
}

static void print_list(const tenon_value_t *list, tn_text_t *text) {
  tn_text_bytes(text, "[", 1);
  for (uint32_t i = 0; i < list->count; i++) {
    tenon_value_t item = list_element(list, i);
    if (i) tn_text_bytes(text, ", ", 2);
    tn_value_print(NULL, &item, text);
  }
  tn_text_bytes(text, "]", 1);
}

void tn_value_print(const tn_argument_t *attr, const tenon_value_t *value, tn_text_t *text) {
  char number[32];
  if (is_list(value->kind)) {
    print_list(value, text);
    return;
  }
  switch (value->kind) {
  case TENON_KIND_BOOL:
    tn_text_add(text, value->as.i ? "True" : "False");
    break;
  case TENON_KIND_INT:
    tn_text_add(text, "%" PRId64, value->as.i);
    break;
  case TENON_KIND_DIM:
    if (tenon_is_known(value->as.dim))
      tn_text_add(text, "%" PRId64, value->as.dim.value);
    else
      tn_text_add(text, "?");
    break;
  case TENON_KIND_FLOAT:
    tn_number_print(value->as.f, number);
    tn_text_add(text, "%s", number);
    break;
  case TENON_KIND_STR:
    if (value->as.s)
      tn_value_quote(value->as.s, value->count, text);
    else
      tn_value_quote("", 0, text);
    break;
  case TENON_KIND_CHOICE:
    if (attr && value->as.i >= 0 && value->as.i < attr->choice_count)
      tn_value_quote(attr->choices[value->as.i], strlen(attr->choices[value->as.i]), text);
    else
      tn_text_add(text, "%" PRId64, value->as.i);
    break;
  case TENON_KIND_DTYPE:
    tn_text_add(text, "%s", tn_dtype_name(value->as.dtype));
    break;
  case TENON_KIND_DEVICE:
    if (value->as.device.type == 1 && value->as.device.id == 0)
      tn_text_add(text, "'cpu'");
    else
      tn_text_add(text, "'%" PRId32 ":%" PRId32 "'", value->as.device.type, value->as.device.id);
    break;
  case TENON_KIND_TENSOR:
    print_tensor(value->as.tensor, text);
    break;
  case TENON_KIND_GRAPH:
    tn_text_add(text, "graph");
    break;
  default:
    tn_text_add(text, "%s", tn_kind_name(value->kind));
    break;
  }
}

/* messages about values that do not fit */

static void print_expected(const tn_argument_t *attr, tn_text_t *text) {
  enum { SHOWN = 24 };
  if (attr->kind == TENON_KIND_CHOICE) {
    tn_text_add(text, "one of ");
    for (uint32_t i = 0; i < attr->choice_count && i < SHOWN; i++) {
      if (i) tn_text_add(text, ", ");
      tn_value_quote(attr->choices[i], strlen(attr->choices[i]), text);
    }
    if (attr->choice_count > SHOWN) tn_text_add(text, ", ...");
  } else if (attr->is_scalar) {
    tn_text_add(text, "bool, int or float");
  } else if (is_list(attr->kind) && attr->count >= 0) {
    tn_text_add(text, "a list of %d %s%s", attr->count, tn_kind_name(kinds[attr->kind].element),
                attr->count == 1 ? "" : "s");
  } else {
    tn_text_add(text, "%s%s", is_list(attr->kind) ? "a " : "", tn_kind_name(attr->kind));
  }
  if (attr->is_optional) tn_text_add(text, " or None");
}

/* Fails with "expected int, found 'abc'", followed by the reason if there is one. */
static tenon_status_t fail_value(const tn_argument_t *attr, const tenon_value_t *value,
                                 const char *reason) {
  tn_text_t expected = {0};
  tn_text_t found = {0};
  char shown[120];
  tn_nearest_t nearest;
  tenon_value_t start = *value;
  print_expected(attr, &expected);
  if ((is_list(value->kind) || value->kind == TENON_KIND_STR) && start.count > 64) start.count = 64;
  if (start.count && !start.as.s) start.count = 0; /* the reason reports a NULL list */
  tn_value_print(attr, &start, &found);
  if (start.count < value->count) tn_text_add(&found, "...");
  bool is_text = value->kind == TENON_KIND_STR && value->as.s;
  tn_nearest_begin(&nearest, "", 0);
  if (is_text) tn_nearest_begin(&nearest, value->as.s, value->count);
  for (uint32_t i = 0; is_text && attr->kind == TENON_KIND_CHOICE && i < attr->choice_count; i++)
    tn_nearest_offer(&nearest, attr->choices[i]);
  for (int i = 0; is_text && attr->kind == TENON_KIND_DTYPE && i < TN_DTYPE_LIST; i++)
    tn_nearest_offer(&nearest, tn_dtype_word(i));
  tn_escape(tn_text_get(&found), found.size, shown, sizeof shown);
  const char *gap = reason ? ": " : "";
  tn_fail(TENON_INVALID, "expected %.400s, found %s%s%s%s", tn_text_get(&expected), shown,
          tn_nearest_say(&nearest), gap, reason ? reason : "");
  tn_text_clear(&expected);
  tn_text_clear(&found);
  return TENON_INVALID;
}

/* converting */

static bool parse_device(const char *text, size_t size, tenon_device_t *out) {
  int64_t parts[2] = {0, 0};
  int part = 0;
  int digits = 0;
  if (size == 3 && memcmp(text, "cpu", 3) == 0) {
    *out = (tenon_device_t){1, 0};
    return true;
  }
  for (size_t i = 0; i < size; i++) {
    if (text[i] == ':' && part == 0 && digits) {
      part = 1;
      digits = 0;
    } else if (text[i] >= '0' && text[i] <= '9' && digits < 9) {
      parts[part] = parts[part] * 10 + (text[i] - '0');
      digits++;
    } else {
      return false;
    }
  }
  if (part != 1 || !digits) return false;
  *out = (tenon_device_t){(int32_t)parts[0], (int32_t)parts[1]};
  return true;
}

/* The index of a choice that is given by index or by name. Returns false if there is none. */
static bool convert_choice(const tn_argument_t *attr, const tenon_value_t *value,
                           int64_t *out_index) {
  if (value->kind == TENON_KIND_CHOICE && value->as.i >= 0 && value->as.i < attr->choice_count) {
    *out_index = value->as.i;
    return true;
  }
  if (value->kind != TENON_KIND_STR || (value->count && !value->as.s)) return false;
  for (uint32_t i = 0; i < attr->choice_count; i++)
    if (strlen(attr->choices[i]) == value->count &&
        memcmp(attr->choices[i], value->as.s, value->count) == 0) {
      *out_index = i;
      return true;
    }
  return false;
}

/* Converts one element, or a value that is not a list; out->kind is set. Returns NULL on success,
 * otherwise the reason ("" if there is nothing to add). */
static const char *convert_one(uint32_t kind, const tn_argument_t *attr, const tenon_value_t *value,
                               tenon_value_t *out) {
  uint32_t from = value->kind;
  *out = (tenon_value_t){.kind = kind};
  switch (kind) {
  case TENON_KIND_BOOL:
    out->as.i = value->as.i;
    return (from == TENON_KIND_BOOL || from == TENON_KIND_INT) &&
                   (value->as.i == 0 || value->as.i == 1)
               ? NULL
               : "";
  case TENON_KIND_INT:
    out->as.i = from == TENON_KIND_DIM ? value->as.dim.value : value->as.i;
    if (from == TENON_KIND_DIM && !tenon_is_known(value->as.dim))
      return "its value is not known here";
    return from == TENON_KIND_INT || from == TENON_KIND_DIM ? NULL : "";
  case TENON_KIND_DIM:
    out->as.dim = from == TENON_KIND_DIM ? value->as.dim : tenon_extent(value->as.i);
    if (from == TENON_KIND_INT && value->as.i < TENON_DIM_LEAST)
      return "it is below -2^62, the smallest dim";
    return from == TENON_KIND_INT || from == TENON_KIND_DIM ? NULL : "";
  case TENON_KIND_FLOAT:
    out->as.f = from == TENON_KIND_INT ? (double)value->as.i : value->as.f;
    return from == TENON_KIND_INT || from == TENON_KIND_FLOAT ? NULL : "";
  case TENON_KIND_CHOICE:
    return convert_choice(attr, value, &out->as.i) ? NULL : "";
  case TENON_KIND_DTYPE:
    if (from == TENON_KIND_STR && value->as.s &&
        tn_dtype_parse_value(value->as.s, value->count, &out->as.dtype))
      return NULL;
    out->as.dtype = value->as.dtype;
    return from == TENON_KIND_DTYPE && tn_dtype_index(value->as.dtype) >= 0 ? NULL : "";
  case TENON_KIND_DEVICE:
    if (from == TENON_KIND_STR && value->as.s &&
        parse_device(value->as.s, value->count, &out->as.device))
      return NULL;
    out->as.device = value->as.device;
    return from == TENON_KIND_DEVICE ? NULL : "";
  case TENON_KIND_STR:
    *out = *value; /* the caller copies the string */
    return from == TENON_KIND_STR && (value->as.s || !value->count) ? NULL : "";
  default: /* TENSOR, GRAPH */
    *out = *value;
    if (from == kind && kind == TENON_KIND_TENSOR && value->as.tensor &&
        tn_layout(value->as.tensor))
      return "it is sparse: only inputs can be sparse";
    if (from != kind) return "";
    return value->as.graph ? NULL : "it is NULL";
  }
}

static tenon_status_t copy_text(tn_arena_t *arena, const char *data, uint64_t size,
                                const char **out) {
  *out = size < SIZE_MAX / 2 ? tn_arena_text(arena, data, (size_t)size) : NULL;
  return *out ? TENON_OK : fail_value_memory((size_t)size);
}

static tenon_status_t convert_list(const tn_argument_t *attr, const tenon_value_t *value,
                                   tn_arena_t *arena, tenon_value_t *out) {
  bool from_list = is_list(value->kind);
  uint32_t count = from_list ? value->count : 1;
  uint32_t element_kind = kinds[attr->kind].element;
  if (from_list && count && !value->as.ints)
    return fail_value(attr, value, "its elements are NULL");
  if (attr->count >= 0 && count != (uint32_t)attr->count) return fail_value(attr, value, NULL);
  char *items = tn_arena_array(arena, count, kinds[attr->kind].size);
  if (!items) return fail_value_memory(count * kinds[attr->kind].size);
  for (uint32_t i = 0; i < count; i++) {
    tenon_value_t from = from_list ? list_element(value, i) : *value;
    tenon_value_t to;
    const char *reason = convert_one(element_kind, attr, &from, &to);
    if (reason) return fail_value(attr, value, *reason ? reason : NULL);
    if (element_kind == TENON_KIND_STR) {
      uint64_t size = from_list ? value->as.strs[i].size : value->count;
      tenon_string_t string = {NULL, size};
      TN_TRY(copy_text(arena, from.as.s, size, &string.data));
      memcpy(items + i * sizeof string, &string, sizeof string);
    } else {
      /* 8 bytes for every kind */
      memcpy(items + i * kinds[attr->kind].size, &to.as, kinds[attr->kind].size);
    }
  }
  *out = (tenon_value_t){
      .kind = attr->kind, .count = count, .as.ints = (const int64_t *)(void *)items};
  return TENON_OK;
}

tenon_status_t tn_value_fit(const tn_argument_t *attr, const tenon_value_t *value,
                            tn_arena_t *arena, tenon_value_t *out_value) {
  if (value->kind == TENON_KIND_NONE) {
    if (!attr->is_optional) return fail_value(attr, value, NULL);
    *out_value = (tenon_value_t){0};
    return TENON_OK;
  }
  if (is_list(attr->kind)) return convert_list(attr, value, arena, out_value);
  uint32_t kind = attr->kind;
  if (attr->is_scalar && (value->kind == TENON_KIND_BOOL || value->kind == TENON_KIND_INT))
    kind = value->kind;
  tenon_value_t out;
  const char *reason = convert_one(kind, attr, value, &out);
  if (reason) return fail_value(attr, value, *reason ? reason : NULL);
  if (kind == TENON_KIND_STR) TN_TRY(copy_text(arena, out.as.s, out.count, &out.as.s));
  *out_value = out;
  return TENON_OK;
}

static tenon_status_t name_failure(const tn_schema_t *schema, const tn_argument_t *attr,
                                   tenon_status_t status) {
  if (status != TENON_INVALID) return status;
  return tn_prefix(status, "operator '%.200s': attribute '%s': ", schema->full, attr->name);
}

tenon_status_t tn_value_convert(const tn_schema_t *schema, const tn_argument_t *attr,
                                const tenon_value_t *value, tn_arena_t *arena,
                                tenon_value_t *out_value) {
  return name_failure(schema, attr, tn_value_fit(attr, value, arena, out_value));
}

/* reading from text */

static const char *trim(const char *text, size_t *size) {
  while (*size && (text[0] == ' ' || text[0] == '\t')) {
    text++;
    --*size;
  }
  while (*size && (text[*size - 1] == ' ' || text[*size - 1] == '\t'))
    --*size;
  return text;
}

/* Reads strings without quotes: the whole text, or for a list the parts between commas. */
static tenon_status_t parse_bare_strings(const tn_argument_t *attr, const char *text,
                                         tn_arena_t *arena, tenon_value_t *out) {
  size_t size = strlen(text);
  size_t count = 0;
  if (size > UINT32_MAX) return tn_fail(TENON_INVALID, "a string of more than 4 GiB");
  if (!is_list(attr->kind)) {
    *out = (tenon_value_t){.kind = TENON_KIND_STR, .count = (uint32_t)size, .as.s = text};
    return TENON_OK;
  }
  text = trim(text, &size);
  if (size >= 2 && text[0] == '[' && text[size - 1] == ']') {
    text++;
    size -= 2;
  }
  for (size_t i = 0; i < size; i++)
    count += text[i] == ',';
  tenon_string_t *strs = tn_arena_array(arena, count + 1, sizeof *strs);
  if (!strs) return fail_value_memory((count + 1) * sizeof *strs);
  count = 0;
  for (const char *end = text + size; size; count++) {
    const char *comma = memchr(text, ',', size);
    size_t part = comma ? (size_t)(comma - text) : size;
    const char *start = trim(text, &part);
    strs[count] = (tenon_string_t){start, part};
    text = comma ? comma + 1 : end;
    size = (size_t)(end - text);
  }
  *out = (tenon_value_t){.kind = TENON_KIND_STRS, .count = (uint32_t)count, .as.strs = strs};
  return TENON_OK;
}

static tenon_status_t parse_literal(const tn_argument_t *attr, const char *text, tn_arena_t *arena,
                                    tenon_value_t *out) {
  tn_lexer_t lexer, first;
  tn_lexer_open(&lexer, "value", text);
  bool is_none = tn_lexer_is(&lexer, "None") && attr->is_optional;
  bool is_bracketed = lexer.kind == '[';
  first = lexer;
  if (is_bracketed) tn_lexer_next(&first);
  if (!is_none && first.kind != TN_TOKEN_TEXT &&
      (attr->kind == TENON_KIND_STR || attr->kind == TENON_KIND_CHOICE ||
       attr->kind == TENON_KIND_STRS || attr->kind == TENON_KIND_DTYPE ||
       attr->kind == TENON_KIND_DEVICE))
    return parse_bare_strings(attr, text, arena, out);
  if (!is_list(attr->kind) || is_bracketed || is_none) {
    TN_TRY(tn_lexer_literal(&lexer, arena, out));
  } else { /* "1, 2" means "[1, 2]" */
    size_t size = strlen(text);
    char *bracketed = tn_arena_allocate(arena, size + 3);
    if (!bracketed) return fail_value_memory(size + 3);
    bracketed[0] = '[';
    memcpy(bracketed + 1, text, size);
    bracketed[size + 1] = ']';
    tn_lexer_open(&lexer, "value", bracketed);
    TN_TRY(tn_lexer_literal(&lexer, arena, out));
  }
  return tn_lexer_expect(&lexer, TN_TOKEN_END, "the end");
}

tenon_status_t tn_value_parse(const tn_schema_t *schema, const tn_argument_t *attr,
                              const char *text, tn_arena_t *arena, tenon_value_t *out_value) {
  tenon_value_t literal = {0};
  tenon_status_t status = text ? parse_literal(attr, text, arena, &literal)
                               : tn_fail(TENON_INVALID, "its text is NULL");
  if (status == TENON_OK) status = tn_value_fit(attr, &literal, arena, out_value);
  return name_failure(schema, attr, status);
}

/* checking, comparing, copying */

static tenon_status_t fail_missing_attributes(const tn_schema_t *schema,
                                              const tenon_value_t *values) {
  tn_text_t names = {0};
  int count = 0;
  for (uint32_t i = 0; i < schema->attr_count; i++)
    if (values[i].kind == TENON_KIND_NONE && !schema->attrs[i].is_optional)
      tn_text_add(&names, "%s'%s'", count++ ? ", " : "", schema->attrs[i].name);
  tn_fail(TENON_INVALID, "operator '%s' needs a value for attribute%s %s", schema->full,
          count > 1 ? "s" : "", tn_text_get(&names));
  tn_text_clear(&names);
  return TENON_INVALID;
}

tenon_status_t tn_values_check(const tn_schema_t *schema, const tenon_value_t *values) {
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    const tn_argument_t *attr = &schema->attrs[i];
    const tenon_value_t *value = &values[i];
    if (value->kind == attr->kind) {
      if (attr->count < 0 || value->count == (uint32_t)attr->count) continue;
    } else if (value->kind == TENON_KIND_NONE) {
      if (attr->is_optional) continue;
      return fail_missing_attributes(schema, values);
    } else if (attr->is_scalar &&
               (value->kind == TENON_KIND_BOOL || value->kind == TENON_KIND_INT)) {
      continue;
    }
    return name_failure(schema, attr, fail_value(attr, value, NULL));
  }
  for (uint32_t i = 0; i < schema->input_count + schema->output_count; i++) {
    const tn_argument_t *list =
        i < schema->input_count ? &schema->inputs[i] : &schema->outputs[i - schema->input_count];
    if (list->count_attr < 0) continue;
    int64_t count = values[list->count_attr].as.i;
    if (count < 0 || count > TN_LIST_MAX)
      return tn_fail(
          TENON_INVALID,
          "operator '%s': attribute '%s' is the length of '%s': expected 0 to %d, found %" PRId64,
          schema->full, schema->attrs[list->count_attr].name, list->name, (int)TN_LIST_MAX, count);
  }
  return TENON_OK;
}

bool tn_value_equal(const tenon_value_t *a, const tenon_value_t *b) {
  if (a->kind != b->kind) return false;
  if (is_list(a->kind)) {
    if (a->count != b->count) return false;
    if (a->kind != TENON_KIND_STRS)
      return !a->count || memcmp(a->as.ints, b->as.ints, a->count * (size_t)8) == 0;
    for (uint32_t i = 0; i < a->count; i++) {
      const tenon_string_t *s = &a->as.strs[i];
      const tenon_string_t *t = &b->as.strs[i];
      if (s->size != t->size || (s->size && memcmp(s->data, t->data, (size_t)s->size) != 0))
        return false;
    }
    return true;
  }
  switch (a->kind) {
  case TENON_KIND_NONE:
    return true;
  case TENON_KIND_STR:
    return a->count == b->count && (!a->count || memcmp(a->as.s, b->as.s, a->count) == 0);
  case TENON_KIND_DTYPE:
    return tn_dtype_same(a->as.dtype, b->as.dtype);
  default:
    /* compare all eight bytes; floats are compared by their bits, so a NaN equals itself */
    return memcmp(&a->as, &b->as, sizeof a->as) == 0;
  }
}

bool tn_value_copy(const tenon_value_t *value, tn_arena_t *arena, tenon_value_t *out_value) {
  tenon_value_t out = *value;
  if (value->kind == TENON_KIND_STR) {
    if (!(out.as.s = tn_arena_text(arena, value->as.s, value->count))) return false;
  } else if (is_list(value->kind)) {
    size_t size = value->count * kinds[value->kind].size;
    char *items = tn_arena_allocate(arena, size);
    if (!items) return false;
    if (size) memcpy(items, value->as.ints, size);
    out.as.ints = (const int64_t *)(void *)items;
    for (uint32_t i = 0; value->kind == TENON_KIND_STRS && i < value->count; i++) {
      tenon_string_t *string = (tenon_string_t *)(void *)items + i;
      const char *from = value->as.strs[i].data;
      if (string->size > SIZE_MAX / 2 ||
          !(string->data = tn_arena_text(arena, from, (size_t)string->size)))
        return false;
    }
  }
  *out_value = out;
  return true;
}
