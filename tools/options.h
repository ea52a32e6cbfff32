/* Command lines in GNU style: --name=value, --name value, -n value, -nvalue, -ab, `--`. A verb
 * describes its options in one table, from which both the parser and --help work. */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include "text.h"
#include "verbs/verb.h"

/* The kind of an option determines the type that `target` points to. */
typedef enum option_kind_t {
  OPTION_FLAG,   /* bool, set to true */
  OPTION_TEXT,   /* const char *, borrowed from argv */
  OPTION_TEXTS,  /* texts_t; the option may be repeated */
  OPTION_INT,    /* int64_t, not negative */
  OPTION_NUMBER, /* double, not negative */
} option_kind_t;

typedef struct option_t {
  const char *name; /* NULL ends the table */
  char letter;      /* 0: none */
  option_kind_t kind;
  const char *value; /* name of the value in the help; "a|b|c" allows only these values */
  const char *help;
  void *target;
} option_t;

typedef struct command_line_t {
  const verb_t *verb;
  const option_t *options;
  int32_t least;
  int32_t most;        /* number of operands; most < 0: any number */
  const char *operand; /* name of an operand in messages: "MODEL" */
  texts_t operands;
  texts_t *rest; /* receives the arguments after `--`; NULL: they are operands too */
} command_line_t;

enum { OPTIONS_PARSED = -1 };

/* Parses the arguments. Returns OPTIONS_PARSED to continue, else the exit code of the verb: help
 * was printed, or an error was reported. */
int options_parse(command_line_t *line, int argc, char **argv);
/* Prints the usage line, the details and the option table. */
void options_help(const verb_t *verb, const option_t *options);
/* Prints text in the columns from `indent` to 96 and breaks lines at spaces; the cursor is already
 * in column `indent`. */
void options_wrap(const char *text, int indent);

#endif
