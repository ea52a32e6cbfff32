/* Tokens of the declaration languages (docs/contract.md) and of graphs as text
 * (docs/graph_text.md), and the literals that they share. Every parser of these reads its text
 * through a lexer; a token points into the text. Invariant: the
 * text is untrusted, so any bytes are accepted without harm, and a failure prints the text
 * (shortened and escaped), the column and the token found. */
#ifndef TN_CORE_LEXER_H
#define TN_CORE_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

#include "base/arena.h"

/* Kinds of tokens. A single character is its own kind. */
enum {
  TN_TOKEN_END = 0,
  TN_TOKEN_NAME = 256,
  TN_TOKEN_INT,   /* "-12" */
  TN_TOKEN_FLOAT, /* "1e-5", "-inf" ("inf" and "nan" are names) */
  TN_TOKEN_TEXT,  /* including the quotes */
  TN_TOKEN_ARROW, /* "->" */
  TN_TOKEN_SCOPE, /* "::" */
  TN_TOKEN_DOTS,  /* "..." */
  TN_TOKEN_VALUE, /* "%12", in a file only */
  TN_TOKEN_BAD,   /* not a token: `bad` says why */
};
enum { TN_NAME_MAX = 255 }; /* longest name in bytes */

typedef struct tn_lexer_t {
  const char *what; /* name of the declaration, such as "schema" */
  /* The text is a file: it may have comments from '#' to the end of a line and the tokens '{', '}'
   * and "%12", and messages state the line. */
  bool is_file;
  const char *text; /* text of the declaration */
  const char *next; /* after the current token */
  int kind;         /* the current token */
  const char *start;
  size_t size;
  const char *bad;
} tn_lexer_t;

/* Opens a text and reads the first token. To look ahead, copy the structure. */
void tn_lexer_open(tn_lexer_t *lexer, const char *what, const char *text);
void tn_lexer_open_file(tn_lexer_t *lexer, const char *text);
void tn_lexer_next(tn_lexer_t *lexer);
/* Skips the token if it has this kind. */
bool tn_lexer_take(tn_lexer_t *lexer, int kind);
bool tn_lexer_is(const tn_lexer_t *lexer, const char *word);
/* Skips the token, or fails if it does not have this kind. */
tenon_status_t tn_lexer_expect(tn_lexer_t *lexer, int kind, const char *expected);
/* Copies a name to the arena and skips it; `expected` is used in the message. */
tenon_status_t tn_lexer_name(tn_lexer_t *lexer, tn_arena_t *arena, const char *expected,
                             const char **out_name);
/* Reads [ns "::"] name ["." overload] as one string. A name without a namespace gets `ns`. */
tenon_status_t tn_lexer_operator(tn_lexer_t *lexer, tn_arena_t *arena, const char *ns,
                                 const char **out_full);
/* Reads a quoted string, without its quotes and with escapes replaced. */
tenon_status_t tn_lexer_text(tn_lexer_t *lexer, tn_arena_t *arena, const char **out_text,
                             uint32_t *out_size);
/* Reads None, True, 1, 1.5, 'string', f32 or [...]: the kinds NONE, BOOL, INT, FLOAT, STR, DTYPE,
 * INTS, FLOATS and STRS. */
tenon_status_t tn_lexer_literal(tn_lexer_t *lexer, tn_arena_t *arena, tenon_value_t *out_value);
/* Upper bound of the number of items up to `close`, separated by commas. */
size_t tn_lexer_count(const tn_lexer_t *lexer, int close);

/* Fails with "WHAT 'TEXT': column N: MESSAGE" at the current token, or at `at`; in a file with
 * "line N, column N: MESSAGE". */
tenon_status_t tn_lexer_fail(const tn_lexer_t *lexer, const char *format, ...) TENON_FORMAT(2, 3);
tenon_status_t tn_lexer_fail_at(const tn_lexer_t *lexer, const char *at, const char *format, ...)
    TENON_FORMAT(3, 4);
/* Fails with "... expected WHAT, found 'token'". */
tenon_status_t tn_lexer_expected(const tn_lexer_t *lexer, const char *expected);

/* Like tn_lexer_expected, with a suggestion if the token is a name. `words` ends with NULL and
 * more(i) returns NULL at the end; both may be NULL. */
tenon_status_t tn_lexer_unknown(const tn_lexer_t *lexer, const char *expected,
                                const char *const *words, const char *(*more)(int index));

size_t tn_lexer_line(const tn_lexer_t *lexer, const char *at); /* from 1 */

/* Copies data with bytes outside printable ASCII as \xNN, cut with "..." to fit. */
const char *tn_escape(const char *data, size_t size, char *out_text, size_t capacity);
/* Reads and prints numbers of the declaration languages, independently of the C library's
 * locale. */
/* Returns false if the number is too large or too long. */
bool tn_number_parse(const char *text, size_t size, double *out_number);
/* Writes the shortest of a few forms that reads back as the same number. */
void tn_number_print(double number, char out_text[32]);

#endif
