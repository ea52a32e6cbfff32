/* Types of the dialects vhlo, builtin and stablehlo, in their own encodings, and as text. Called by
 * elements.c, attributes.c and operations.c. Invariant: the number of elements of a tensor fits
 * into 60 bits. */
#include "bytecode/types.h"

#include <string.h>

#include "base/status.h"
#include "parse/parse.h"

static const bc_type_t none = {.type = {.kind = HLO_OTHER}};

/* scalars */

typedef struct scalar_t {
  uint64_t code;
  uint32_t bits;
  uint32_t dtype;
  const char *refused;
} scalar_t;

static const scalar_t vhlo_scalars[] = {
    {0, 1, TENON_BOOL, NULL},
    {2, 16, TENON_BF16, NULL},
    {3, 16, TENON_F16, NULL},
    {4, 32, TENON_F32, NULL},
    {5, 64, TENON_F64, NULL},
    {6, 8, TENON_F8E4M3FN, NULL},
    {7, 8, TENON_F8E5M2, NULL},
    {9, 64, TENON_I64, NULL},
    {10, 4, TENON_I8, NULL},
    {11, 8, TENON_I8, NULL},
    {12, 16, TENON_I16, NULL},
    {13, 32, TENON_I32, NULL},
    {14, 64, TENON_I64, NULL},
    {15, 4, TENON_U8, NULL},
    {16, 8, TENON_U8, NULL},
    {17, 16, TENON_U16, NULL},
    {18, 32, TENON_U32, NULL},
    {19, 64, TENON_U64, NULL},
    {26, 0, 0, "witness"},
    {27, 8, TENON_F8E4M3FNUZ, NULL},
    {28, 8, TENON_F8E5M2FNUZ, NULL},
    {29, 8, TENON_F8E4M3B11FNUZ, NULL},
    {31, 2, TENON_I8, NULL},
    {32, 2, TENON_U8, NULL},
    {33, 0, 0, "none"},
    {34, 19, 0, "tf32"},
    {35, 8, TENON_F8E4M3, NULL},
    {36, 8, TENON_F8E3M4, NULL},
    {37, 4, 0, "f4E2M1FN"},
    {38, 6, 0, "f6E2M3FN"},
    {39, 6, 0, "f6E3M2FN"},
    {40, 8, TENON_F8E8M0, NULL},
};

static const scalar_t builtin_scalars[] = {
    {1, 64, TENON_I64, NULL}, /* index */
    {3, 16, TENON_BF16, NULL}, {4, 16, TENON_F16, NULL}, {5, 32, TENON_F32, NULL},
    {6, 64, TENON_F64, NULL},  {7, 80, 0, "f80"},        {8, 128, 0, "f128"},
    {12, 0, 0, "none"},
};

/* Returns the bits of an integer below a byte; 0 for other elements. */
static uint8_t bits_below_byte(uint32_t bits) { return bits == 2 || bits == 4 ? (uint8_t)bits : 0; }

static void set_scalar(bc_type_t *out, const scalar_t *scalar) {
  out->type.dtype = tenon_dtype(scalar->dtype ? scalar->dtype : TENON_F32);
  out->type.bits = scalar->refused ? 0 : bits_below_byte(scalar->bits);
  out->bits = scalar->bits;
  out->refused = scalar->refused;
}

static bool find_scalar(const scalar_t *scalars, size_t count, uint64_t code, bc_type_t *out) {
  for (size_t i = 0; i < count; i++)
    if (scalars[i].code == code) {
      set_scalar(out, &scalars[i]);
      return true;
    }
  return false;
}

/* Reads an integer of the builtin dialect: its width, and whether it has a sign. */
static void read_integer_type(bc_part_t *part, bc_type_t *out) {
  static const struct {
    uint32_t bits;
    uint32_t signed_dtype;
    uint32_t unsigned_dtype;
  } integers[] = {{1, TENON_BOOL, TENON_BOOL}, {2, TENON_I8, TENON_U8},
                  {4, TENON_I8, TENON_U8},     {8, TENON_I8, TENON_U8},
                  {16, TENON_I16, TENON_U16},  {32, TENON_I32, TENON_U32},
                  {64, TENON_I64, TENON_U64}};
  uint64_t code = bc_number(part);
  bool is_unsigned = (code & 3) == 2;
  if (code >> 2 > 1 << 20) bc_fail(part, "an integer has too many bits: the file is damaged");
  out->bits = bc_failed(part) ? 0 : (uint32_t)(code >> 2);
  out->refused = is_unsigned ? "of unsigned integers of this width" : "of integers of this width";
  for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
    if (integers[i].bits == out->bits) {
      out->type.dtype =
          tenon_dtype(is_unsigned ? integers[i].unsigned_dtype : integers[i].signed_dtype);
      out->type.bits = bits_below_byte(out->bits);
      out->refused = NULL;
    }
}

static void read_complex_type(bc_part_t *part, bc_type_t *out) {
  uint32_t id = tenon_dtype_id(bc_type(part)->type.dtype);
  if (id != TENON_F32 && id != TENON_F64) out->refused = "complex of this part";
  out->type.dtype = tenon_dtype(id == TENON_F64 ? TENON_C128 : TENON_C64);
  out->bits = out->type.dtype.bits;
}

/* tensors and tuples */

static void read_extents(bc_part_t *part, hlo_type_t *type) {
  int64_t total = 1;
  size_t count = bc_count(part, "extents");
  if (count > TENON_RANK_MAX)
    bc_fail(part, "a tensor has more than %d dimensions, which is not supported", TENON_RANK_MAX);
  int64_t *dims = bc_take(part, count, sizeof *dims);
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    int64_t extent = bc_signed(part);
    dims[i] = extent == INT64_MIN ? -1 : extent; /* INT64_MIN: known only when the program runs. */
    if (extent < 0 && extent != INT64_MIN)
      bc_fail(part, "an extent is negative: the file is damaged");
    if (extent > 0 && total > INT64_MAX / 16 / extent)
      bc_fail(part, "a tensor has more than 2^59 elements: the file is damaged");
    if (extent > 0) total *= extent;
  }
  type->ndim = bc_failed(part) ? 0 : (int32_t)count;
  type->dims = dims;
}

static void read_tensor_type(bc_part_t *part, bool has_encoding, bc_type_t *out) {
  if (has_encoding) {
    (void)bc_number(part);
    out->refused = "of tensors with an encoding (bounds, sparsity)";
  }
  read_extents(part, &out->type);
  const bc_type_t *element = bc_type(part);
  if (element->type.kind != HLO_OTHER)
    bc_fail(part, "expected an element type: the file is damaged");
  out->type.kind = HLO_TENSOR;
  out->type.dtype = element->type.dtype;
  out->type.bits = element->type.bits;
  if (!out->refused) out->refused = element->refused;
  if (!out->refused && !element->bits) out->refused = "of elements that are no numbers";
}

static void read_tuple_type(bc_part_t *part, bc_type_t *out) {
  size_t count = bc_count(part, "types");
  const hlo_type_t **items = bc_take(part, count, sizeof *items);
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    const bc_type_t *item = bc_type(part);
    items[i] = &item->type;
    if (item->refused) out->refused = item->refused;
  }
  out->type.kind = HLO_TUPLE;
  out->type.items = items;
  out->type.item_count = bc_failed(part) ? 0 : (int32_t)count;
}

/* dialects */

static void read_vhlo_type(bc_part_t *part, bc_type_t *out) {
  uint64_t code = bc_number(part);
  if (find_scalar(vhlo_scalars, sizeof vhlo_scalars / sizeof *vhlo_scalars, code, out)) return;
  if (code == 1)
    read_complex_type(part, out);
  else if (code == 20 || code == 21)
    read_tensor_type(part, code == 21, out);
  else if (code == 22)
    out->type.kind = HLO_TOKEN;
  else if (code == 23)
    read_tuple_type(part, out);
  else if (code == 24 || code == 30)
    out->refused = "of quantised elements";
  else if (code == 25)
    out->refused = "of tensors without a rank";
  else if (code == 41 || code == 42)
    out->refused = code == 41 ? "of buffers" : "of futures";
  else if (code != 8)
    bc_fail(part,
            "the type %llu of VHLO is not known: write the program with a lower target "
            "version",
            (unsigned long long)code);
}

static void read_builtin_type(bc_part_t *part, bc_type_t *out) {
  uint64_t code = bc_number(part);
  if (find_scalar(builtin_scalars, sizeof builtin_scalars / sizeof *builtin_scalars, code, out))
    return;
  if (code == 0)
    read_integer_type(part, out);
  else if (code == 9)
    read_complex_type(part, out);
  else if (code == 13 || code == 14)
    read_tensor_type(part, code == 14, out);
  else if (code == 15)
    read_tuple_type(part, out);
  else if (code != 2)
    out->refused = "of this kind of the builtin dialect";
}

/* Reads a type that is written as in a text. The bytes end with a 0. */
static void parse_type_text(bc_part_t *part, const bc_entry_t *entry, bc_type_t *out) {
  size_t size = (size_t)(entry->end - entry->at);
  const char *text = (const char *)entry->at;
  out->refused = "that is written as text";
  if (!size || text[size - 1]) {
    bc_fail(part, "a text has no end: the file is damaged");
    return;
  }
  hlo_cursor_t cursor = {.begin = text,
                         .at = text,
                         .end = text + size - 1,
                         .arena = part->file->arena,
                         .module = part->file->module};
  const hlo_type_t *type = hlo_parse_type(&cursor);
  if (cursor.status == TENON_MEMORY) part->file->status = cursor.status;
  if (cursor.status != TENON_OK) return;
  out->type = *type;
  const uint32_t bits = type->bits ? type->bits : type->dtype.bits;
  out->bits = type->kind == HLO_OTHER ? bits : 0;
  out->refused = NULL;
}

static void read_type_entry(bc_part_t *part, bc_entry_t *entry) {
  bc_type_t *out = bc_take(part, 1, sizeof *out);
  if (!out) return;
  out->type.kind = HLO_OTHER;
  if (entry->is_text)
    parse_type_text(part, entry, out);
  else if (strcmp(entry->dialect, "vhlo") == 0)
    read_vhlo_type(part, out);
  else if (strcmp(entry->dialect, "builtin") == 0)
    read_builtin_type(part, out);
  else if (strcmp(entry->dialect, "stablehlo") == 0 && bc_number(part) == 0)
    out->type.kind = HLO_TOKEN;
  else
    out->refused = "of this dialect";
  entry->type = out;
}

const bc_type_t *bc_type_at(bc_part_t *part, uint64_t index) {
  bc_file_t *file = part->file;
  size_t at = bc_check_index(part, index, file->type_count, "a type");
  if (bc_failed(part)) return &none;
  bc_entry_t *entry = &file->types[at];
  if (entry->state == BC_READING) bc_fail(part, "a type contains itself: the file is damaged");
  if (entry->state == BC_UNREAD && bc_enter(part)) {
    bc_part_t inner = bc_part_of(&file->sections[BC_ATTRIBUTES], entry->at, entry->end);
    entry->state = BC_READING;
    read_type_entry(&inner, entry);
    entry->state = BC_READ;
    bc_leave(part);
  }
  return bc_failed(part) ? &none : entry->type;
}

const bc_type_t *bc_type(bc_part_t *part) { return bc_type_at(part, bc_number(part)); }

const hlo_type_t *bc_value_type(bc_part_t *part, uint64_t index) {
  const bc_type_t *type = bc_type_at(part, index);
  if (type->refused)
    bc_fail(part, "a value has a type %s%.60s, which is not supported: convert it in the program",
            strncmp(type->refused, "of ", 3) == 0 ? "" : "of elements ", type->refused);
  if (type->type.kind == HLO_OTHER && !type->refused)
    bc_fail(part, "a value has a type that is no tensor, tuple or token: the file is damaged");
  return &type->type;
}
