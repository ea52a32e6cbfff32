/* Element types: tables, names, classes and sizes. Called by every parser and by every call.
 * TN_DTYPES in dtype.h is the list of types; a type that is not in it has no index and is refused
 * where types are checked. */
#include "core/dtype.h"

#include <stdio.h>
#include <string.h>

/* The code and the position of a type in tn_dtype_slots, as tn_dtype_index computes them. */
#define CODE(id) ((id)&31)
#define PLACE(id) __builtin_ctz(((id) >> 8 & 127) | 128u)

const uint8_t tn_dtype_slots[32 * 8] = {
#define TN_X(name, NAME) [CODE(TENON_##NAME) * 8 + PLACE(TENON_##NAME)] = 1 + TN_DTYPE_##NAME,
    TN_DTYPES(TN_X)
#undef TN_X
};

/* The first id is of no type: no dtype has 0 lanes. */
const uint32_t tn_dtype_ids[1 + TN_DTYPE_COUNT] = {0,
#define TN_X(name, NAME) TENON_##NAME,
                                                   TN_DTYPES(TN_X)
#undef TN_X
};

static const struct {
  const char *text;
  size_t size;
} names[TN_DTYPE_COUNT] = {
#define TN_X(name, NAME) {#name, sizeof #name - 1},
    TN_DTYPES(TN_X)
#undef TN_X
};

#define BIT(NAME) ((uint64_t)1 << TN_DTYPE_##NAME)
#define ALL (((uint64_t)1 << TN_DTYPE_COUNT) - 1)
#define FLOATS (BIT(F16) | BIT(BF16) | BIT(F32) | BIT(F64))
#define INTS (BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64))
#define UINTS (BIT(U8) | BIT(U16) | BIT(U32) | BIT(U64))

static const struct {
  const char *text;
  size_t size;
  uint64_t set;
} classes[] = {{"any", 3, ALL & ~BIT(LIST)},
               {"float", 5, FLOATS},
               {"int", 3, INTS},
               {"uint", 4, UINTS},
               {"complex", 7, BIT(C64) | BIT(C128)},
               {"number", 6, FLOATS | INTS | UINTS}};
enum { CLASSES = sizeof classes / sizeof *classes };

static inline bool is_text(const char *known, size_t known_size, const char *text, size_t size) {
  return known_size == size && known[0] == text[0] && memcmp(known, text, size) == 0;
}

const char *tn_dtype_name(tenon_dtype_t dtype) {
  int index = tn_dtype_index(dtype);
  return index < 0 ? "?" : names[index].text;
}

bool tn_dtype_parse(const char *text, size_t size, tenon_dtype_t *out_dtype) {
  for (int i = 0; i < TN_DTYPE_LIST; i++)
    if (is_text(names[i].text, names[i].size, text, size)) {
      *out_dtype = tn_dtype_at(i);
      return true;
    }
  return false;
}

bool tn_dtype_parse_value(const char *text, size_t size, tenon_dtype_t *out_dtype) {
  const bool is_list = is_text(names[TN_DTYPE_LIST].text, names[TN_DTYPE_LIST].size, text, size);
  if (is_list) *out_dtype = tenon_dtype(TENON_LIST);
  return is_list || tn_dtype_parse(text, size, out_dtype);
}

uint64_t tn_dtype_set(const char *text, size_t size) {
  tenon_dtype_t dtype;
  for (int i = 0; i < CLASSES; i++)
    if (is_text(classes[i].text, classes[i].size, text, size)) return classes[i].set;
  return tn_dtype_parse(text, size, &dtype) ? (uint64_t)1 << tn_dtype_index(dtype) : 0;
}

const char *tn_dtype_word(int index) {
  if (index < TN_DTYPE_LIST) return names[index].text;
  return index - TN_DTYPE_LIST < CLASSES ? classes[index - TN_DTYPE_LIST].text : NULL;
}

void tn_dtype_set_print(uint64_t set, char *out_text, size_t capacity) {
  size_t used = 0;
  if (!capacity) return;
  out_text[0] = 0;
  if ((set & classes[0].set) == classes[0].set) {
    snprintf(out_text, capacity, "any");
    return;
  }
  for (int i = 0; i < TN_DTYPE_COUNT; i++) {
    if (!(set >> i & 1)) continue;
    size_t need = names[i].size + (used > 0);
    bool is_last = set >> i == 1;
    /* keep room for "|..." while more names follow */
    if (used + need + (is_last ? 0 : 4) >= capacity) {
      snprintf(out_text + used, capacity - used, used ? "|..." : "...");
      return;
    }
    used +=
        (size_t)snprintf(out_text + used, capacity - used, "%s%s", used ? "|" : "", names[i].text);
  }
}

bool tn_dtype_bytes(tenon_dtype_t dtype, int64_t count, uint64_t *out_size) {
  /* bytes of 8 elements */
  uint64_t eight = (uint64_t)dtype.bits * dtype.lanes;
  uint64_t bytes;
  if (count < 0 || __builtin_mul_overflow((uint64_t)count / 8, eight, &bytes)) return false;
  return !__builtin_add_overflow(bytes, ((uint64_t)count % 8 * eight + 7) / 8, out_size);
}
