/* Command lines, GNU style: --name=value, --name value, -n value, -nvalue, -ab, `--`.  A verb
 * describes its options in one table; parsing and --help are both made from it. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "text.h"
#include "verbs/verb.h"

/* Kinds, and what `target` points to. */
typedef enum option_kind_t {
  OPTION_FLAG,   /* bool, set to true */
  OPTION_TEXT,   /* const char *, lent by argv */
  OPTION_TEXTS,  /* texts_t: the option may be repeated */
  OPTION_INT,    /* int64_t, not negative */
  OPTION_NUMBER, /* double, not negative */
} option_kind_t;

typedef struct option_t {
  const char *name; /* NULL: ends the table */
  char letter;      /* 0: none */
  option_kind_t kind;
  const char *value; /* what the help calls the value; "a|b|c": just these are allowed */
  const char *help;
  void *target;
} option_t;

typedef struct command_line_t {
  const verb_t *verb;
  const option_t *options;
  int32_t least;
  int32_t most;        /* operands; most < 0: any number */
  const char *operand; /* what messages call one: "MODEL" */
  texts_t operands;
  texts_t *rest; /* gets what follows `--`; NULL: more operands */
} command_line_t;

enum { OPTIONS_PARSED = -1 };

/* OPTIONS_GO_ON, or the exit code with which the verb ends: help was asked for, or something was
 * wrong and said. */
int options_parse(command_line_t *line, int argc, char **argv);
/* `tenon NAME USAGE` and the table. */
void options_help(const verb_t *verb, const option_t *options);
/* Text from column `indent` to 96, which starts there; breaks lines at spaces. */
void options_wrap(const char *text, int indent);

#endif
