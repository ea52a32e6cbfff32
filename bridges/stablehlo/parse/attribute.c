/* Attributes: numbers, words, strings, lists, dictionaries, enumerations and structures of
 * dialects. Called by operation.c and function.c. Attributes of dialects that have no meaning for a
 * result (sdy, mhlo and jax) are read as any others; nobody asks for them. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "parse/parse.h"

hlo_attr_t hlo_attr_of_list(const char *at, const hlo_list_t *items) {
  return (hlo_attr_t){
      .kind = HLO_ATTR_LIST, .at = at, .items = items->items, .count = items->count};
}

const hlo_attr_t *hlo_attr_find(const hlo_attr_t *dict, const char *name) {
  for (int32_t i = 0; dict && dict->kind == HLO_ATTR_DICT && i < dict->count; i++)
    if (strcmp(dict->names[i], name) == 0) return &dict->items[i];
  return NULL;
}

tenon_status_t hlo_attr_add(hlo_attr_t *dict, tn_arena_t *arena, const char *name,
                            const hlo_attr_t *attr) {
  /* Dictionaries are short, so the arrays grow by one entry. */
  size_t count = (size_t)dict->count;
  const char **names = tn_arena_array(arena, count + 1, sizeof *names);
  hlo_attr_t *items = tn_arena_array(arena, count + 1, sizeof *items);
  if (!names || !items) return tn_no_memory("a program", count);
  if (count) memcpy(names, dict->names, count * sizeof *names);
  if (count) memcpy(items, dict->items, count * sizeof *items);
  names[count] = name;
  items[count] = *attr;
  dict->names = names;
  dict->items = items;
  dict->count++;
  return TENON_OK;
}

void hlo_dict_add(hlo_cursor_t *cursor, hlo_attr_t *dict, const char *name,
                  const hlo_attr_t *attr) {
  if (dict->count >= 1000)
    hlo_fail_at(cursor, attr->at, "more than 1000 attributes are not supported");
  if (!hlo_failed(cursor)) cursor->status = hlo_attr_add(dict, cursor->arena, name, attr);
}

/* Reads `name = value` or `name` up to the closing bracket. */
static void parse_entries(hlo_cursor_t *cursor, hlo_attr_t *dict, const char *close) {
  while (!hlo_failed(cursor) && !hlo_sees(cursor, close)) {
    hlo_attr_t attr = {.kind = HLO_ATTR_BOOL, .integer = 1};
    const char *name = hlo_peek(cursor) == '"' ? hlo_text(cursor, NULL)
                                               : hlo_word(cursor, "the name of an attribute");
    attr.at = cursor->at;
    if (hlo_accept(cursor, "=")) {
      hlo_parse_attr(cursor, &attr);
    } else if (isalpha((unsigned char)hlo_peek(cursor))) {
      attr.kind = HLO_ATTR_WORD; /* the value of an enumeration, as in <precision HIGH> */
      attr.text = hlo_word(cursor, "the value of an enumeration");
    }
    hlo_dict_add(cursor, dict, name, &attr);
    if (!hlo_accept(cursor, ",")) break;
  }
  (void)hlo_expect(cursor, close);
}

void hlo_parse_dict(hlo_cursor_t *cursor, hlo_attr_t *dict) {
  dict->kind = HLO_ATTR_DICT;
  (void)hlo_expect(cursor, "{");
  parse_entries(cursor, dict, "}");
}

static void parse_list(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  hlo_list_t items = {0};
  const char *at = cursor->at;
  (void)hlo_expect(cursor, "[");
  while (!hlo_failed(cursor) && hlo_peek(cursor) != ']') {
    hlo_attr_t read = {0};
    hlo_parse_attr(cursor, &read);
    hlo_attr_t *item = hlo_list_add(cursor, &items, sizeof *item);
    if (item) *item = read;
    if (!hlo_accept(cursor, ",")) break;
  }
  (void)hlo_expect(cursor, "]");
  *attr = hlo_attr_of_list(at, &items);
}

/* Reads a list, or the three lists of [b, f]x[o, i]->[b, f], or the two of [1] x [0]. */
static void parse_lists(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  hlo_list_t parts = {0};
  const char *at = cursor->at;
  parse_list(cursor, attr);
  /* The sign is followed directly by a bracket or a space, never by a letter. */
  while (hlo_peek(cursor) &&
         ((*cursor->at == 'x' && strchr(" [", cursor->at[1])) ||
          (hlo_sees(cursor, "->") && (cursor->at[2] == '[' || cursor->at[3] == '[')))) {
    hlo_attr_t *first = parts.count ? NULL : hlo_list_add(cursor, &parts, sizeof *first);
    if (first) *first = *attr;
    cursor->at += *cursor->at == 'x' ? 1 : 2;
    hlo_attr_t part = {0};
    (void)hlo_peek(cursor);
    parse_list(cursor, &part);
    hlo_attr_t *item = hlo_list_add(cursor, &parts, sizeof *item);
    if (item) *item = part;
  }
  if (parts.count) *attr = hlo_attr_of_list(at, &parts);
}

/* Reads array<i64: 1, 2>. */
static void parse_array(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  hlo_list_t items = {0};
  const char *at = cursor->at;
  (void)hlo_expect(cursor, "<");
  (void)hlo_parse_type(cursor);
  if (hlo_accept(cursor, ":")) do {
      hlo_attr_t read = {0};
      hlo_parse_attr(cursor, &read);
      hlo_attr_t *item = hlo_list_add(cursor, &items, sizeof *item);
      if (item) *item = read;
    } while (!hlo_failed(cursor) && hlo_accept(cursor, ","));
  (void)hlo_expect(cursor, ">");
  *attr = hlo_attr_of_list(at, &items);
}

/* Reads an integer, a float, or a float as its bits in hexadecimal; a type may follow. */
static void parse_number(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  char *stop = NULL;
  const char *at = cursor->at;
  size_t size = strspn(at, "+-0123456789abcdefABCDEFxX.");
  bool is_hex = strncmp(at, "0x", 2) == 0;
  bool is_float = !is_hex && memchr(at, '.', size) != NULL;
  attr->kind = is_float ? HLO_ATTR_FLOAT : HLO_ATTR_INT;
  if (is_float) {
    attr->number = strtod(at, &stop);
    cursor->at = stop;
  } else if (is_hex) {
    attr->integer = (int64_t)strtoull(at, &stop, 16);
    cursor->at = stop;
  } else {
    (void)hlo_integer(cursor, &attr->integer);
    attr->number = (double)attr->integer;
  }
  if (hlo_accept(cursor, ":")) {
    const hlo_type_t *type = hlo_parse_type(cursor);
    if (is_hex && type->dtype.code == 2)
      hlo_fail_at(cursor, at, "a float attribute in hexadecimal is not supported");
  }
}

/* Reads #name<...>, the fields of which become a DICT, the lists a LIST and the value of an
 * enumeration a WORD; or the name of an alias. */
static void parse_dialect_attr(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  const char *at = cursor->at;
  const char *name = hlo_name(cursor, '#', "an attribute");
  if (hlo_peek(cursor) != '<') {
    for (const hlo_alias_t *alias = cursor->aliases; alias; alias = alias->next)
      if (alias->name[0] == '#' && strcmp(alias->name + 1, name) == 0) {
        *attr = alias->attr;
        return;
      }
    attr->kind = HLO_ATTR_WORD;
    attr->text = name;
    return;
  }
  attr->kind = HLO_ATTR_DICT;
  attr->text = name;
  if (strncmp(name, "stablehlo", 9) != 0 && strncmp(name, "chlo", 4) != 0) {
    hlo_skip_bracket(cursor);
    return;
  }
  cursor->at++;
  if (hlo_peek(cursor) == '[') {
    parse_lists(cursor, attr);
    (void)hlo_expect(cursor, ">");
  } else {
    parse_entries(cursor, attr, ">");
  }
  if (attr->kind != HLO_ATTR_DICT || attr->count != 1) return;
  const hlo_attr_t *only = &attr->items[0];
  if (only->kind == HLO_ATTR_BOOL || only->kind == HLO_ATTR_WORD)
    *attr = (hlo_attr_t){.kind = HLO_ATTR_WORD,
                         .at = at,
                         .text = only->kind == HLO_ATTR_WORD ? only->text : attr->names[0]};
}

static void parse_word_attr(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  const char *at = cursor->at;
  if (hlo_sees(cursor, "dense") || hlo_sees(cursor, "dense_resource")) {
    hlo_parse_dense(cursor, attr);
    return;
  }
  if (hlo_sees(cursor, "tensor") || hlo_sees(cursor, "tuple")) {
    attr->kind = HLO_ATTR_TYPE;
    attr->type = hlo_parse_type(cursor);
    return;
  }
  const char *word = hlo_word(cursor, "the value of an attribute");
  if (strcmp(word, "array") == 0 && hlo_peek(cursor) == '<') {
    parse_array(cursor, attr);
    return;
  }
  if (strcmp(word, "loc") == 0 && hlo_peek(cursor) == '(') hlo_skip_bracket(cursor);
  if (hlo_peek(cursor) == '<')
    hlo_fail_at(cursor, at, "attributes of the form %.40s<...> are not supported", word);
  attr->kind = HLO_ATTR_WORD;
  attr->text = word;
  if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0 || strcmp(word, "unit") == 0) {
    attr->kind = HLO_ATTR_BOOL;
    attr->integer = *word != 'f';
  }
}

static void parse_attr(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  char c = hlo_peek(cursor);
  *attr = (hlo_attr_t){.kind = HLO_ATTR_WORD, .at = cursor->at, .text = ""};
  if (c == '"') {
    attr->kind = HLO_ATTR_TEXT;
    attr->text = hlo_text(cursor, NULL);
    if (hlo_accept(cursor, ":")) (void)hlo_parse_type(cursor);
  } else if (c == '@') {
    attr->kind = HLO_ATTR_SYMBOL;
    attr->text = hlo_name(cursor, '@', "a name after @");
    while (hlo_accept(cursor, "::"))
      attr->text = hlo_name(cursor, '@', "a name after ::");
  } else if (c == '[') {
    parse_lists(cursor, attr);
  } else if (c == '{') {
    hlo_parse_dict(cursor, attr);
  } else if (c == '<') {
    cursor->at++;
    attr->kind = HLO_ATTR_DICT;
    parse_entries(cursor, attr, ">");
  } else if (c == '#') {
    parse_dialect_attr(cursor, attr);
  } else if (c == '(' || c == '!') {
    attr->kind = HLO_ATTR_TYPE;
    attr->type = hlo_parse_type(cursor);
  } else if (isdigit((unsigned char)c) || c == '-') {
    parse_number(cursor, attr);
  } else {
    parse_word_attr(cursor, attr);
  }
}

void hlo_parse_attr(hlo_cursor_t *cursor, hlo_attr_t *attr) {
  if (hlo_enter(cursor)) parse_attr(cursor, attr);
  hlo_leave(cursor);
}
