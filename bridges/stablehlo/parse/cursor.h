/* A position in the text of a program, and what all parts of the parser use: characters, words,
 * memory, and failures. A failure is sticky: after the first one every function here returns a
 * harmless value and consumes nothing. */
#ifndef BRIDGES_STABLEHLO_PARSE_CURSOR_H
#define BRIDGES_STABLEHLO_PARSE_CURSOR_H

#include "base/arena.h"
#include "parse/module.h"

enum {
  HLO_DEPTH_MAX = 64,       /* Levels of nested regions, lists and types. */
  HLO_LIST_MAX = 1 << 20,   /* Items of a list, except the elements of a constant. */
  HLO_VALUES_MAX = 1 << 24, /* Values of a function. */
  HLO_RANK_MAX = TENON_RANK_MAX,
};

typedef struct hlo_tensors_t { /* The tensors that a module owns. */
  struct hlo_tensors_t *next;
  tenon_tensor_t *tensor;
} hlo_tensors_t;

typedef struct hlo_alias_t { /* #name = attribute, or !name = type. */
  struct hlo_alias_t *next;
  const char *name; /* With # or !. */
  hlo_attr_t attr;
} hlo_alias_t;

typedef struct hlo_cursor_t {
  const char *begin;
  const char *at;
  const char *end; /* There is a 0 at the end. */
  tn_arena_t *arena;
  hlo_module_t *module;
  hlo_alias_t *aliases;
  struct hlo_scope_t *scope;
  const char *resources; /* Where the section of resources begins; NULL: there is none. */
  int32_t depth;
  tenon_status_t status;
} hlo_cursor_t;

/* Reports what was found where something else was expected, with the line and the column. */
void hlo_expected(hlo_cursor_t *cursor, const char *format, ...) TENON_FORMAT(2, 3);
/* Reports a failure at a place. */
void hlo_fail_at(hlo_cursor_t *cursor, const char *at, const char *format, ...) TENON_FORMAT(3, 4);
bool hlo_failed(const hlo_cursor_t *cursor);
/* Finds the line and the column, from 1, of a place in the text. */
void hlo_place(const char *begin, const char *at, int *out_line, int *out_column);
/* Memory of the arena; NULL: the cursor has failed. */
void *hlo_take(hlo_cursor_t *cursor, size_t count, size_t size);
const char *hlo_take_text(hlo_cursor_t *cursor, const char *text, size_t size);
/* Begins and ends a level of nesting; hlo_enter fails if there are too many. */
bool hlo_enter(hlo_cursor_t *cursor);
void hlo_leave(hlo_cursor_t *cursor);

/* Skips spaces and comments, and returns the next character; 0 at the end and after a failure. */
char hlo_peek(hlo_cursor_t *cursor);
/* Consumes `text` if it comes next. A word must end there. */
bool hlo_accept(hlo_cursor_t *cursor, const char *text);
bool hlo_expect(hlo_cursor_t *cursor, const char *text);
/* Returns whether `text` comes next, without consuming it. */
bool hlo_sees(hlo_cursor_t *cursor, const char *text);
/* Reads a word: letters, digits, and _ . $ -. Fails if none comes. */
const char *hlo_word(hlo_cursor_t *cursor, const char *what);
/* Reads the name after a sign such as % or @, which may be a string after @. */
const char *hlo_name(hlo_cursor_t *cursor, char sign, const char *what);
/* Reads "text" and resolves its escapes. */
const char *hlo_text(hlo_cursor_t *cursor, size_t *out_size);
bool hlo_integer(hlo_cursor_t *cursor, int64_t *out_value);
/* Skips a bracket with everything in it. The cursor stands at the bracket. */
void hlo_skip_bracket(hlo_cursor_t *cursor);
/* Skips loc(...) if it comes next. A name in it is returned; NULL: there is none. */
const char *hlo_location(hlo_cursor_t *cursor);

/* A list that grows in the arena. */
typedef struct hlo_list_t {
  void *items;
  int32_t count;
  int32_t capacity;
} hlo_list_t;
/* Adds an item of `size` bytes and returns its room; NULL: the cursor has failed. */
void *hlo_list_add(hlo_cursor_t *cursor, hlo_list_t *list, size_t size);

#endif
