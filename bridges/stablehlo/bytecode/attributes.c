/* Attributes of the dialects vhlo, builtin, stablehlo and chlo, in their own encodings, and as
 * text. They become what the parser makes of a text. Called by properties.c, upgrade.c and
 * operations.c. Attributes of other dialects have no meaning for a result and become words. */
#include "bytecode/attributes.h"

#include <string.h>

#include "base/status.h"
#include "bytecode/dimensions.h"
#include "bytecode/elements.h"
#include "bytecode/types.h"
#include "parse/parse.h"

static const hlo_attr_t none = {.kind = HLO_ATTR_WORD, .text = ""};

/* parts that several dialects have */

static void read_attr_list(bc_part_t *part, hlo_attr_t *out) {
  size_t count = bc_count(part, "attributes");
  hlo_attr_t *items = bc_take(part, count, sizeof *items);
  for (size_t i = 0; i < count && !bc_failed(part); i++)
    items[i] = *bc_attr(part);
  out->kind = HLO_ATTR_LIST;
  out->items = items;
  out->count = bc_failed(part) ? 0 : (int32_t)count;
}

/* Reads pairs of a name, which is an attribute, and a value. */
static void read_attr_dict(bc_part_t *part, hlo_attr_t *out) {
  size_t count = bc_count(part, "attributes");
  const char **names = bc_take(part, count, sizeof *names);
  hlo_attr_t *items = bc_take(part, count, sizeof *items);
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    const hlo_attr_t *name = bc_attr(part);
    if (name->kind != HLO_ATTR_TEXT || !name->text)
      bc_fail(part, "expected the name of an attribute: the file is damaged");
    names[i] = name->text;
    items[i] = *bc_attr(part);
  }
  out->kind = HLO_ATTR_DICT;
  out->names = names;
  out->items = items;
  out->count = bc_failed(part) ? 0 : (int32_t)count;
}

/* Reads a number of a known width: one byte, or a signed number. */
static void read_scalar_attr(bc_part_t *part, hlo_attr_t *out) {
  const bc_type_t *type = bc_type(part);
  uint64_t bits = type->bits <= 8 ? bc_byte(part) : (uint64_t)bc_signed(part);
  bc_scalar(part, type, bits, out);
}

static void read_string_attr(bc_part_t *part, hlo_attr_t *out) {
  out->kind = HLO_ATTR_TEXT;
  out->text = bc_string(part);
}

static void read_type_attr(bc_part_t *part, hlo_attr_t *out) {
  out->kind = HLO_ATTR_TYPE;
  out->type = &bc_type(part)->type;
}

static void read_tensor_attr(bc_part_t *part, hlo_attr_t *out) {
  size_t size = 0;
  const bc_type_t *type = bc_type(part);
  const uint8_t *bytes = bc_blob(part, &size);
  if (bytes) bc_elements(part, type, bytes, size, out);
}

/* enumerations */

typedef struct enum_t {
  uint64_t vhlo_code;
  uint64_t stablehlo_code; /* 0: not in this dialect. */
  const char *what;
  const char *words[6]; /* By their values. */
} enum_t;

static const enum_t enums[] = {
    {3, 2, "comparison directions", {"EQ", "NE", "GE", "GT", "LE", "LT"}},
    {4, 3, "types of comparisons", {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"}},
    {5,
     0,
     "versions of custom calls",
     {"API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
      "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"}},
    {7, 6, "kinds of FFT", {"FFT", "IFFT", "RFFT", "IRFFT"}},
    {11, 8, "precisions", {"DEFAULT", "HIGH", "HIGHEST"}},
    {12, 9, "algorithms of random bits", {"DEFAULT", "THREE_FRY", "PHILOX"}},
    {13, 10, "distributions", {NULL, "UNIFORM", "NORMAL"}},
    {16, 12, "transpositions", {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"}},
    {19, 16, "accuracies", {"DEFAULT", "HIGHEST", "TOLERANCE"}},
};

static bool read_enum(bc_part_t *part, bool is_vhlo, uint64_t code, hlo_attr_t *out) {
  for (size_t i = 0; i < sizeof enums / sizeof *enums; i++) {
    if (!code || (is_vhlo ? enums[i].vhlo_code : enums[i].stablehlo_code) != code) continue;
    uint64_t value = bc_number(part);
    if (value >= 6 || !enums[i].words[value])
      bc_fail(part,
              "the value %llu of %s is not known: write the program with a lower target version",
              (unsigned long long)value, enums[i].what);
    out->kind = HLO_ATTR_WORD;
    out->text = bc_failed(part) ? "" : enums[i].words[value];
    return true;
  }
  return false;
}

/* vhlo */

static void read_vhlo_attr(bc_part_t *part, hlo_attr_t *out) {
  uint64_t code = bc_number(part);
  if (read_enum(part, true, code, out)) return;
  if (code == 1) {
    read_attr_list(part, out);
  } else if (code == 2) {
    out->kind = HLO_ATTR_BOOL;
    out->integer = bc_number(part) != 0;
  } else if (code == 6) {
    read_attr_dict(part, out);
  } else if (code == 8 || code == 9) {
    read_scalar_attr(part, out);
  } else if (code == 14) {
    read_string_attr(part, out);
  } else if (code == 15) {
    read_tensor_attr(part, out);
  } else if (code == 17) {
    read_type_attr(part, out);
  } else if (code < 10 || code > 25) { /* Others have no meaning for a result. */
    bc_fail(part,
            "the attribute %llu of VHLO is not known: write the program with a lower target "
            "version",
            (unsigned long long)code);
  }
}

/* builtin */

enum {
  NAME_LOCATION = 14,
  UNKNOWN_LOCATION = 15,
};

static void read_array_attr(bc_part_t *part, hlo_attr_t *out) {
  const bc_type_t *type = bc_type(part);
  uint64_t count = bc_number(part);
  bc_array_elements(part, type, count, out);
}

static void read_symbol_attr(bc_part_t *part, hlo_attr_t *out) {
  const hlo_attr_t *name = bc_attr(part);
  if (name->kind != HLO_ATTR_TEXT) bc_fail(part, "expected the name of a symbol");
  out->kind = HLO_ATTR_SYMBOL;
  out->text = name->text;
}

static void read_builtin_attr(bc_part_t *part, hlo_attr_t *out) {
  uint64_t code = bc_number(part);
  if (code == 0) {
    read_attr_list(part, out);
  } else if (code == 1) {
    read_attr_dict(part, out);
  } else if (code == 2 || code == 3) {
    read_string_attr(part, out);
  } else if (code == 4 || code == 5) {
    read_symbol_attr(part, out);
  } else if (code == 6) {
    read_type_attr(part, out);
  } else if (code == 7) {
    out->kind = HLO_ATTR_BOOL;
    out->integer = 1;
  } else if (code == 8 || code == 9) {
    read_scalar_attr(part, out);
  } else if (code == 16) {
    bc_resource_elements(part, bc_type(part), out);
  } else if (code == 17) {
    read_array_attr(part, out);
  } else if (code == 18) {
    read_tensor_attr(part, out);
  } /* Locations, strings and sparse elements have no meaning for a result. */
}

const char *bc_location_name(bc_part_t *part, uint64_t index) {
  bc_file_t *file = part->file;
  size_t at = bc_check_index(part, index, file->attr_count, "a location");
  if (bc_failed(part)) return NULL;
  const bc_entry_t *entry = &file->attrs[at];
  bc_part_t inner = bc_part_of(&file->sections[BC_ATTRIBUTES], entry->at, entry->end);
  if (entry->is_text || strcmp(entry->dialect, "builtin") != 0 ||
      bc_number(&inner) != NAME_LOCATION)
    return NULL;
  const hlo_attr_t *name = bc_attr(&inner);
  size_t child = bc_index(&inner, file->attr_count, "a location");
  if (bc_failed(part)) return NULL;
  entry = &file->attrs[child];
  inner = bc_part_of(&inner, entry->at, entry->end);
  if (entry->is_text || bc_number(&inner) != UNKNOWN_LOCATION) return NULL;
  return name->kind == HLO_ATTR_TEXT ? name->text : NULL;
}

/* stablehlo and chlo */

static void read_stablehlo_attr(bc_part_t *part, hlo_attr_t *out) {
  uint64_t code = bc_number(part);
  if (!read_enum(part, false, code, out)) bc_read_dimensions(part, code, out);
}

/* CHLO counts from 0, and has the first two enumerations of StableHLO. */
static void read_chlo_attr(bc_part_t *part, hlo_attr_t *out) {
  uint64_t code = bc_number(part);
  if (code < 2) (void)read_enum(part, false, code + 2, out);
}

/* attributes that are written as in a text */

/* What the parser does not know has no meaning for a result, and becomes a word. */
static void parse_attr_text(bc_part_t *part, const bc_entry_t *entry, hlo_attr_t *out) {
  size_t size = (size_t)(entry->end - entry->at);
  const char *text = (const char *)entry->at;
  if (!size || text[size - 1]) {
    bc_fail(part, "a text has no end: the file is damaged");
    return;
  }
  hlo_cursor_t cursor = {.begin = text,
                         .at = text,
                         .end = text + size - 1,
                         .arena = part->file->arena,
                         .module = part->file->module};
  hlo_parse_attr(&cursor, out);
  if (cursor.status == TENON_MEMORY) part->file->status = cursor.status;
  if (cursor.status != TENON_OK) *out = none;
}

/* all attributes */

static void read_attr_entry(bc_part_t *part, bc_entry_t *entry) {
  hlo_attr_t *out = bc_take(part, 1, sizeof *out);
  if (!out) return;
  *out = none;
  if (entry->is_text)
    parse_attr_text(part, entry, out);
  else if (strcmp(entry->dialect, "vhlo") == 0)
    read_vhlo_attr(part, out);
  else if (strcmp(entry->dialect, "builtin") == 0)
    read_builtin_attr(part, out);
  else if (strcmp(entry->dialect, "stablehlo") == 0)
    read_stablehlo_attr(part, out);
  else if (strcmp(entry->dialect, "chlo") == 0)
    read_chlo_attr(part, out);
  out->at = (const char *)entry->at;
  entry->attr = out;
}

const hlo_attr_t *bc_attr_at(bc_part_t *part, uint64_t index) {
  bc_file_t *file = part->file;
  size_t at = bc_check_index(part, index, file->attr_count, "an attribute");
  if (bc_failed(part)) return &none;
  bc_entry_t *entry = &file->attrs[at];
  if (entry->state == BC_READING)
    bc_fail(part, "an attribute contains itself: the file is damaged");
  if (entry->state == BC_UNREAD && bc_enter(part)) {
    bc_part_t inner = bc_part_of(&file->sections[BC_ATTRIBUTES], entry->at, entry->end);
    entry->state = BC_READING;
    read_attr_entry(&inner, entry);
    entry->state = BC_READ;
    bc_leave(part);
  }
  return bc_failed(part) ? &none : entry->attr;
}

const hlo_attr_t *bc_attr(bc_part_t *part) { return bc_attr_at(part, bc_number(part)); }
