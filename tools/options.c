/* Parses command lines and prints help from the same option table; see options.h. The first error
 * ends the parse with a line on stderr and EXIT_USAGE. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "print_error.h"

enum {
  HELP_COLUMN = 27,
  HELP_WIDTH = 96,
};

void options_wrap(const char *text, int indent) {
  int column = indent;
  for (const char *word = text; *word;) {
    int size = (int)strcspn(word, " \n");
    if (column > indent && column + 1 + size > HELP_WIDTH)
      printf("\n%*s", column = indent, "");
    else if (column > indent) {
      putchar(' ');
      column++;
    }
    printf("%.*s", size, word);
    column += size;
    word += size;
    while (*word == ' ')
      word++;
    if (*word == '\n') {
      word++;
      if (*word) printf("\n%*s", column = indent, "");
    }
  }
  putchar('\n');
}

static void print_option(const option_t *option) {
  char label[80];
  const char *equals = option->value ? "=" : "";
  const char *value = option->value ? option->value : "";
  int size;
  if (option->letter)
    size = snprintf(label, sizeof label, "  -%c, --%s%s%s", option->letter, option->name, equals,
                    value);
  else
    size = snprintf(label, sizeof label, "      --%s%s%s", option->name, equals, value);
  if (size < HELP_COLUMN - 1)
    printf("%-*s", HELP_COLUMN, label);
  else
    printf("%s\n%*s", label, HELP_COLUMN, "");
  options_wrap(option->help, HELP_COLUMN);
}

void options_help(const verb_t *verb, const option_t *options) {
  printf("usage: tenon %s %s\n\n", verb->name, verb->usage);
  options_wrap(verb->details, 0);
  printf("\noptions:\n");
  for (const option_t *option = options; option->name; option++)
    print_option(option);
  print_option(&(option_t){"help", 'h', OPTION_FLAG, NULL, "print this help", NULL});
}

/* Whether `text` is one of the parts of "a|b|c". */
static bool is_choice(const char *choices, const char *text) {
  size_t size = strlen(text);
  for (const char *part = choices; part; part = strchr(part, '|') ? strchr(part, '|') + 1 : NULL)
    if (size > 0 && strncmp(part, text, size) == 0 && (part[size] == '|' || part[size] == 0))
      return true;
  return false;
}

/* Stores the value of an option. Returns OPTIONS_PARSED to continue, else EXIT_USAGE. */
static int store_value(const verb_t *verb, const option_t *option, const char *value) {
  char *end = NULL;
  errno = 0;
  if (option->value && strchr(option->value, '|') && !is_choice(option->value, value))
    return print_usage_error(verb->name, "--%s: expected one of %s, found '%s'", option->name,
                             option->value, value);
  switch (option->kind) {
  case OPTION_FLAG:
    *(bool *)option->target = true;
    break;
  case OPTION_TEXT:
    *(const char **)option->target = value;
    break;
  case OPTION_TEXTS:
    if (!texts_add(option->target, value)) return print_failure("out of memory");
    break;
  case OPTION_INT: {
    long long number = strtoll(value, &end, 10);
    if (end == value || *end || errno || number < 0)
      return print_usage_error(verb->name,
                               "--%s: expected a whole number that is not negative, found '%s'",
                               option->name, value);
    *(int64_t *)option->target = number;
    break;
  }
  case OPTION_NUMBER: {
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0))
      return print_usage_error(verb->name,
                               "--%s: expected a number that is not negative, found '%s'",
                               option->name, value);
    *(double *)option->target = number;
    break;
  }
  }
  return OPTIONS_PARSED;
}

/* Reports that `--name` is unknown, and suggests the nearest option. */
static int print_unknown_option(const command_line_t *line, const char *name, size_t size) {
  const char *names[64] = {"help"};
  char given[64];
  int32_t count = 1;
  snprintf(given, sizeof given, "%.*s", (int)(size < 60 ? size : 60), name);
  for (const option_t *option = line->options; option->name && count < 64; option++)
    names[count++] = option->name;
  const char *nearest = text_nearest(given, names, count);
  if (nearest)
    return print_usage_error(line->verb->name, "%s: unknown option '--%s'; did you mean '--%s'?",
                             line->verb->name, given, nearest);
  return print_usage_error(line->verb->name, "%s: unknown option '--%s'", line->verb->name, given);
}

/* Finds the option with this name, or the only one whose name begins with it; NULL if there is none
 * or several. */
static const option_t *find_long(const option_t *options, const char *name, size_t size) {
  const option_t *found = NULL;
  int32_t matches = 0;
  for (const option_t *option = options; option->name; option++) {
    if (strncmp(option->name, name, size) != 0) continue;
    if (strlen(option->name) == size) return option;
    found = option;
    matches++;
  }
  return matches == 1 ? found : NULL;
}

static int parse_long(const command_line_t *line, int argc, char **argv, int *index) {
  const char *name = argv[*index] + 2;
  const char *value = strchr(name, '=');
  size_t size = value ? (size_t)(value - name) : strlen(name);
  if (size == 4 && strncmp(name, "help", size) == 0) {
    options_help(line->verb, line->options);
    return EXIT_FINE;
  }
  const option_t *option = find_long(line->options, name, size);
  if (!option) return print_unknown_option(line, name, size);
  if (option->kind == OPTION_FLAG) {
    if (value) return print_usage_error(line->verb->name, "--%s takes no value", option->name);
    return store_value(line->verb, option, "");
  }
  if (!value && *index + 1 >= argc)
    return print_usage_error(line->verb->name, "--%s needs a value: --%s=%s", option->name,
                             option->name, option->value);
  return store_value(line->verb, option, value ? value + 1 : argv[++*index]);
}

static int parse_short(const command_line_t *line, int argc, char **argv, int *index) {
  for (const char *letter = argv[*index] + 1; *letter; letter++) {
    if (*letter == 'h') {
      options_help(line->verb, line->options);
      return EXIT_FINE;
    }
    const option_t *option = line->options;
    while (option->name && option->letter != *letter)
      option++;
    if (!option->name)
      return print_usage_error(line->verb->name, "%s: unknown option '-%c'", line->verb->name,
                               *letter);
    if (option->kind == OPTION_FLAG) {
      int code = store_value(line->verb, option, "");
      if (code != OPTIONS_PARSED) return code;
      continue;
    }
    if (!letter[1] && *index + 1 >= argc)
      return print_usage_error(line->verb->name, "-%c needs a value: -%c %s", *letter, *letter,
                               option->value);
    return store_value(line->verb, option, letter[1] ? letter + 1 : argv[++*index]);
  }
  return OPTIONS_PARSED;
}

int options_parse(command_line_t *line, int argc, char **argv) {
  bool only_operands = false;
  for (int i = 1; i < argc; i++) {
    int code = OPTIONS_PARSED;
    if (only_operands || argv[i][0] != '-' || argv[i][1] == 0) {
      if (!texts_add(only_operands && line->rest ? line->rest : &line->operands, argv[i]))
        return print_failure("out of memory");
    } else if (strcmp(argv[i], "--") == 0) {
      only_operands = true;
    } else if (argv[i][1] == '-') {
      code = parse_long(line, argc, argv, &i);
    } else {
      code = parse_short(line, argc, argv, &i);
    }
    if (code != OPTIONS_PARSED) return code;
  }
  if (line->operands.count < line->least)
    return print_usage_error(line->verb->name, "%s: %s is missing", line->verb->name,
                             line->operand);
  if (line->most >= 0 && line->operands.count > line->most)
    return print_usage_error(line->verb->name, "%s: unexpected argument '%s'", line->verb->name,
                             line->operands.items[line->most]);
  return OPTIONS_PARSED;
}
