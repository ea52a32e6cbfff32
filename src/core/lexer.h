/* Tokens of the small languages of docs/contract.md, and the literals that they share.  Every
 * parser of src/core reads through one of these; a token points into the text.  Invariant: the text
 * comes from outside, so any bytes are survived, and a failure prints the text (shortened,
 * escaped), the column and what was found. */
#ifndef TN_CORE_LEXER_H
#define TN_CORE_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <tenon/op.h>

#include "base/arena.h"

/* kinds of tokens; a single character is its own kind */
enum {
  TN_TOKEN_END = 0,
  TN_TOKEN_NAME = 256,
  TN_TOKEN_INT,   /* "-12" */
  TN_TOKEN_FLOAT, /* "1e-5", "-inf" ("inf" and "nan" are names) */
  TN_TOKEN_TEXT,  /* with its quotes */
  TN_TOKEN_ARROW, /* "->" */
  TN_TOKEN_SCOPE, /* "::" */
  TN_TOKEN_DOTS,  /* "..." */
  TN_TOKEN_BAD,   /* no token: `bad` says why */
};
enum { TN_NAME_MAX = 255 }; /* bytes of a name */

typedef struct tn_lexer_t {
  const char *what;
  const char *text; /* "schema", its text */
  const char *next; /* behind the current token */
  int kind;         /* the current token */
  const char *start;
  size_t size;
  const char *bad;
} tn_lexer_t;

/* Starts at the first token.  To look ahead, copy the structure. */
void tn_lexer_open(tn_lexer_t *lexer, const char *what, const char *text);
void tn_lexer_next(tn_lexer_t *lexer);
bool tn_lexer_take(tn_lexer_t *lexer, int kind); /* steps over it if it is there */
bool tn_lexer_is(const tn_lexer_t *lexer, const char *word);
tenon_status_t tn_lexer_expect(tn_lexer_t *lexer, int kind,
                               const char *expected); /* steps over it or fails */
/* A name, copied to the arena; `expected` is for the message. */
tenon_status_t tn_lexer_name(tn_lexer_t *lexer, tn_arena_t *arena, const char *expected,
                             const char **out_name);
/* [ns "::"] name ["." overload] as one text; without a namespace it is of `ns`.  */
tenon_status_t tn_lexer_operator(tn_lexer_t *lexer, tn_arena_t *arena, const char *ns,
                                 const char **out_full);
/* A quoted text without its quotes and escapes. */
tenon_status_t tn_lexer_text(tn_lexer_t *lexer, tn_arena_t *arena, const char **out_text,
                             uint32_t *out_size);
/* None, True, 1, 1.5, 'text', f32, [...]: kinds NONE, BOOL, INT, FLOAT, STR, DTYPE, INTS, FLOATS,
 * STRS. */
tenon_status_t tn_lexer_literal(tn_lexer_t *lexer, tn_arena_t *arena, tenon_value_t *out_value);
/* Upper bound of the items between here and `close`, separated by commas. */
size_t tn_lexer_count(const tn_lexer_t *lexer, int close);

/* WHAT 'TEXT': column N: MESSAGE, at the current token or at `at`. */
tenon_status_t tn_lexer_fail(const tn_lexer_t *lexer, const char *format, ...) TENON_FORMAT(2, 3);
tenon_status_t tn_lexer_fail_at(const tn_lexer_t *lexer, const char *at, const char *format, ...)
    TENON_FORMAT(3, 4);
/* "... expected WHAT, found 'token'". */
tenon_status_t tn_lexer_expected(const tn_lexer_t *lexer, const char *expected);

/* tn_lexer_expected, with a suggestion if the token is a name: `words` end with NULL, more(i) gives
 * NULL at the end; both may be NULL. */
tenon_status_t tn_lexer_unknown(const tn_lexer_t *lexer, const char *expected,
                                const char *const *words, const char *(*more)(int index));

/* Printable ASCII as it is, other bytes as \xNN; cut with "..." to fit. */
const char *tn_escape(const char *data, size_t size, char *out_text, size_t capacity);
/* Numbers of the languages, in every locale of the C library. */
bool tn_number_parse(const char *text, size_t size,
                     double *out_number);               /* false: too large, or too long */
void tn_number_print(double number, char out_text[32]); /* a short form that reads back the same */

#endif
