/* Operators on strings: string_concat, string_split, string_normalizer. Strings are UTF-8 and are
 * processed as bytes, with two exceptions: white space includes that of Unicode, and letters of
 * Latin-1, Latin Extended-A, Greek and Cyrillic change case.
 * Invariant: a string is written by set_string only, piece by piece from the inputs. */
#include "axes.h"
#include "copy.h"
#include <string.h>

static const tenon_string_t *texts_of(const tenon_tensor_t *t) {
  return (const tenon_string_t *)t->data;
}

/* string_concat */

static tenon_status_t concat_infer(tenon_infer_t *infer) {
  const tenon_meta_t *a = infer->inputs[0];
  const tenon_meta_t *b = infer->inputs[1];
  tenon_meta_t *out = infer->outputs[0];
  out->ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
  for (int32_t i = 0; i < out->ndim; i++) {
    int32_t of_a = i - (out->ndim - a->ndim);
    int32_t of_b = i - (out->ndim - b->ndim);
    tenon_dim_t x = of_a < 0 ? tenon_extent(1) : a->dims[of_a];
    tenon_dim_t y = of_b < 0 ? tenon_extent(1) : b->dims[of_b];
    if (dim_differ(x, y) && !dim_is(x, 1) && !dim_is(y, 1))
      return tenon_fail(infer, TENON_INVALID, "shapes %s and %s do not broadcast",
                        dims_text(a->dims, a->ndim).text, dims_text(b->dims, b->ndim).text);
    out->dims[i] = tenon_dim(infer, TENON_DIM_BROADCAST, x, y);
  }
  return TENON_OK;
}

static tenon_status_t concat_run(tenon_call_t *call) {
  const tenon_tensor_t *in[2] = {call->inputs[0], call->inputs[1]};
  tenon_tensor_t *out = call->outputs[0];
  uint64_t most[2] = {0, 0};
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < tenon_count(in[k]); i++)
      if (texts_of(in[k])[i].size > most[k]) most[k] = texts_of(in[k])[i].size;
  char *room = (char *)call->host->allocate(call, most[0] + most[1] + 1);
  if (!room) return TENON_MEMORY;
  for (int64_t i = 0; i < tenon_count(out); i++) {
    uint64_t used = 0;
    for (int k = 0; k < 2; k++) {
      int64_t rest = i;
      int64_t at = 0;
      for (int32_t axis = out->ndim - 1, own = in[k]->ndim - 1; own >= 0; axis--, own--) {
        if (in[k]->shape[own] != 1) at += rest % out->shape[axis] * in[k]->strides[own];
        rest /= out->shape[axis];
      }
      tenon_string_t text = texts_of(in[k])[at];
      if (text.size) memcpy(room + used, text.data, (size_t)text.size);
      used += text.size;
    }
    TENON_TRY(call->host->set_string(call, out, i, room, used));
  }
  return TENON_OK;
}

/* string_split */

/* The number of bytes of white space at the start of a text; 0 if there is none. */
static uint64_t space_size(const char *text, uint64_t size) {
  const unsigned char *s = (const unsigned char *)text;
  if (size && (s[0] == ' ' || (s[0] >= 9 && s[0] <= 13) || (s[0] >= 28 && s[0] <= 31))) return 1;
  if (size >= 2 && s[0] == 0xc2 && (s[1] == 0x85 || s[1] == 0xa0)) return 2;
  if (size < 3) return 0;
  int wide = (s[0] == 0xe1 && s[1] == 0x9a && s[2] == 0x80) ||
             (s[0] == 0xe3 && s[1] == 0x80 && s[2] == 0x80) ||
             (s[0] == 0xe2 && s[1] == 0x81 && s[2] == 0x9f) ||
             (s[0] == 0xe2 && s[1] == 0x80 &&
              (s[2] <= 0x8a || s[2] == 0xa8 || s[2] == 0xa9 || s[2] == 0xaf));
  return wide ? 3 : 0;
}

/* Removes the next piece from the text. Returns 0 if nothing is left. At most `splits` more splits
 * are made; -1 means any number. */
static int next_piece(tenon_string_t *text, const tenon_value_t *delimiter, int64_t splits,
                      tenon_string_t *piece) {
  uint64_t end = 0;
  uint64_t gap = 0;
  if (!delimiter->count) { /* separated by runs of white space */
    while (text->size && (gap = space_size(text->data, text->size)) > 0) {
      text->data += gap;
      text->size -= gap;
    }
    if (!text->size) return 0;
  } else if (!text->data) {
    return 0;
  }
  *piece = *text;
  while (splits != 0 && end < text->size) {
    if (!delimiter->count)
      gap = space_size(text->data + end, text->size - end);
    else if (text->size - end >= delimiter->count &&
             memcmp(text->data + end, delimiter->as.s, delimiter->count) == 0)
      gap = delimiter->count;
    else
      gap = 0;
    if (gap) break;
    end++;
  }
  if (splits == 0 || end == text->size) { /* the last piece */
    text->data = NULL;
    text->size = 0;
    while (!delimiter->count && splits == 0) { /* drop white space at its end */
      uint64_t cut = 0;
      for (uint64_t k = 1; k <= 3 && k <= piece->size && !cut; k++)
        if (space_size(piece->data + piece->size - k, k) == k) cut = k;
      if (!cut) break;
      piece->size -= cut;
    }
  } else {
    piece->size = end;
    text->data += end + gap;
    text->size -= end + gap;
  }
  return 1;
}

static tenon_status_t split_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  if (x->ndim >= TENON_RANK_MAX)
    return tenon_fail(infer, TENON_INVALID,
                      "x has the maximum number of axes already; string_split adds one");
  out_like(infer->outputs[0], x);
  infer->outputs[0]->dims[infer->outputs[0]->ndim++] = dim_any(infer);
  return infer->outputs[1] ? out_like(infer->outputs[1], x) : TENON_OK;
}

static tenon_status_t split_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_value_t *delimiter = &call->attrs[0];
  const tenon_value_t *most_of = &call->attrs[1];
  int64_t n = tenon_count(x);
  int64_t longest = 0;
  int64_t shape[TENON_RANK_MAX];
  int64_t most = most_of->kind ? most_of->as.i : -1;
  static const char none[1] = "";
  tenon_string_t piece;
  for (int pass = 0; pass < 2; pass++) { /* first count the pieces, then write them */
    for (int64_t i = 0; i < n; i++) {
      tenon_string_t rest = texts_of(x)[i];
      int64_t count = 0;
      if (!rest.data) rest.data = none;
      for (; next_piece(&rest, delimiter, most < 0 ? -1 : most - count, &piece); count++)
        if (pass)
          TENON_TRY(call->host->set_string(call, call->outputs[0], i * longest + count, piece.data,
                                           piece.size));
      if (count > longest) longest = count;
      for (; pass && count < longest; count++)
        TENON_TRY(call->host->set_string(call, call->outputs[0], i * longest + count, "", 0));
      if (!pass && call->outputs[1]) ((int64_t *)call->outputs[1]->data)[i] = count;
    }
    if (pass) break;
    for (int32_t i = 0; i < x->ndim; i++)
      shape[i] = x->shape[i];
    shape[x->ndim] = longest;
    TENON_TRY(call->host->resize(call, 0, x->ndim + 1, shape));
  }
  return TENON_OK;
}

/* string_normalizer */

enum {
  CASE_NONE,
  CASE_LOWER,
  CASE_UPPER,
};

/* Changes the case of a letter. */
static uint32_t in_case(uint32_t c, int64_t action) {
  static const struct
  /* Capitals from first to last; the small letters are `apart` later, or each follows its
   * capital. */
  {
    uint16_t first;
    uint16_t last;
    uint16_t apart;
  } ranges[] = {{'A', 'Z', 32},     {0xc0, 0xd6, 32},   {0xd8, 0xde, 32},   {0x100, 0x12e, 1},
                {0x132, 0x136, 1},  {0x139, 0x147, 1},  {0x14a, 0x176, 1},  {0x179, 0x17d, 1},
                {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32}, {0x400, 0x40f, 80}, {0x410, 0x42f, 32}};
  if (action == CASE_UPPER && c == 0x3c2) return 0x3a3; /* final sigma */
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    uint32_t first = ranges[i].first;
    uint32_t last = ranges[i].last;
    uint32_t apart = ranges[i].apart;
    uint32_t from = first;
    if (action == CASE_UPPER) from += apart;
    if (c < from || c > last + from - first || (apart == 1 && (c - from) % 2)) continue;
    return action == CASE_UPPER ? c - apart : c + apart;
  }
  return c;
}

/* Letters of up to two bytes keep their size when they change case. */
static void change_case(char *text, uint64_t size, int64_t action) {
  unsigned char *s = (unsigned char *)text;
  for (uint64_t i = 0; i < size && action != CASE_NONE; i++) {
    if (s[i] < 0x80) {
      s[i] = (unsigned char)in_case(s[i], action);
    } else if ((s[i] & 0xe0) == 0xc0 && i + 1 < size) {
      uint32_t c = in_case((uint32_t)(s[i] & 0x1f) << 6 | (s[i + 1] & 0x3f), action);
      s[i] = (unsigned char)(0xc0 | c >> 6);
      s[i + 1] = (unsigned char)(0x80 | (c & 0x3f));
      i++;
    }
  }
}

/* Is the text one of these words? `scratch` has room for the longest word, to compare in one
 * case. */
static int is_listed(const char *text, uint64_t size, const tenon_value_t *words, int64_t action,
                     char *scratch) {
  for (uint32_t i = 0; i < words->count; i++) {
    tenon_string_t word = words->as.strs[i];
    if (word.size != size) continue;
    if (size) memcpy(scratch, word.data, (size_t)size);
    change_case(scratch, size, action);
    if (!size || memcmp(scratch, text, (size_t)size) == 0) return 1;
  }
  return 0;
}

static tenon_status_t normalise_infer(tenon_infer_t *infer) {
  const tenon_meta_t *x = infer->inputs[0];
  tenon_meta_t *out = infer->outputs[0];
  if (x->ndim < 1 || x->ndim > 2 || (x->ndim == 2 && dim_differ(x->dims[0], tenon_extent(1))))
    return tenon_fail(infer, TENON_INVALID, "x has shape %s; expected [C] or [1, C]",
                      dims_text(x->dims, x->ndim).text);
  out_like(out, x);
  out->dims[x->ndim - 1] =
      tenon_dim(infer, TENON_DIM_BOUND, dim_max(infer, x->dims[x->ndim - 1], tenon_extent(1)),
                tenon_extent(1));
  return TENON_OK;
}

/* Stop words are compared in the requested case, or exactly if the comparison is case-sensitive. */
static tenon_status_t normalise_run(tenon_call_t *call) {
  const tenon_tensor_t *x = call->inputs[0];
  const tenon_value_t *stopwords = &call->attrs[2];
  int64_t action = call->attrs[0].as.i;
  int64_t n = tenon_count(x);
  int64_t kept = 0;
  int64_t shape[2] = {1, 1};
  int exact = call->attrs[1].as.i != 0;
  uint64_t most = 1;
  uint64_t total = 0;
  for (int64_t i = 0; i < n; i++)
    total += texts_of(x)[i].size;
  for (uint32_t i = 0; i < stopwords->count; i++)
    if (stopwords->as.strs[i].size > most) most = stopwords->as.strs[i].size;
  char *scratch = (char *)call->host->allocate(call, most);
  char *room = (char *)call->host->allocate(call, total + 1);
  tenon_string_t *texts =
      (tenon_string_t *)call->host->allocate(call, (uint64_t)(n + 1) * sizeof *texts);
  if (!scratch || !room || !texts) return TENON_MEMORY;
  for (int64_t i = 0; i < n; i++) {
    tenon_string_t text = texts_of(x)[i];
    if (text.size) memcpy(room, text.data, (size_t)text.size);
    int64_t compare = action == CASE_NONE ? CASE_LOWER : action;
    if (exact) compare = CASE_NONE;
    int stop = 0;
    if (!exact) change_case(room, text.size, compare);
    stop = is_listed(room, text.size, stopwords, compare, scratch);
    if (stop) continue;
    if (text.size) memcpy(room, text.data, (size_t)text.size);
    change_case(room, text.size, action);
    texts[kept++] = (tenon_string_t){room, text.size};
    room += text.size;
  }
  if (kept == 0) texts[kept++] = (tenon_string_t){"", 0};
  shape[x->ndim - 1] = kept;
  TENON_TRY(call->host->resize(call, 0, x->ndim, shape));
  for (int64_t i = 0; i < kept; i++)
    TENON_TRY(call->host->set_string(call, call->outputs[0], i, texts[i].data, texts[i].size));
  return TENON_OK;
}

/* clang-format off */
TENON_ITEMS(core_text,
  TENON_OP("string_concat(Tensor a, Tensor b) -> Tensor",
    TENON_DOC("The strings of a, each followed by the string of b, with broadcasting."),
    TENON_TYPES("a, b: string; out = a"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(concat_infer),
    TENON_KERNEL("cpu", concat_run)),
  TENON_OP("string_split(Tensor x, *, str delimiter='', int? maxsplit=None) -> (Tensor out, "
           "Tensor? counts)",
    TENON_DOC("The pieces of each string between delimiters or white space, "
              "along a new axis that is filled up with empty strings."),
    TENON_TYPES("x: string; out = x; counts = i64"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(split_infer),
    TENON_KERNEL("cpu", split_run)),
  TENON_OP("string_normalizer(Tensor x, *, str['NONE', 'LOWER', 'UPPER'] case='NONE', "
           "bool is_case_sensitive=False, str[] stopwords=[]) -> Tensor",
    TENON_DOC("The strings without stop words, in one case; "
              "a single empty string if none is left."),
    TENON_TYPES("x: string; out = x"),
    TENON_TRAITS(TENON_PURE),
    TENON_INFER(normalise_infer),
    TENON_KERNEL("cpu", normalise_run)))
/* clang-format on */
