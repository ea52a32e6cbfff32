/* Prints outcomes; see report.h. */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

static int passed, failed, skipped, noted, findings;
static tn_text_t notes, xml, json; /* JSON is printed at the end, so that it is complete */
static bool has_colour;

static void add_json(const char *name, const char *text, const char *before) {
  tn_text_add(&json, "%s\"%s\": ", before, name);
  tn_text_json(&json, text);
}

/* Adds the command that repeats the check. */
static void add_command(tn_text_t *out, const outcome_t *o, const said_t *s) {
  const char *library = options.library ? options.library : "--builtin";
  const char *id = s->is_by_the_way ? o->check->id : s->id;
  if (options.with) tn_text_add(out, "python -m ");
  tn_text_add(out, "tenon check %s %s --case %s", library, o->subject->name, id);
  if (s->label[0]) tn_text_add(out, "@%s", s->label);
  if (options.with)
    tn_text_add(out, " --with %s", options.with);
  else if (options.samples)
    tn_text_add(out, " --samples %s", options.samples);
  if (options.seed != 1) tn_text_add(out, " --seed %llu", (unsigned long long)options.seed);
}

static void add_xml(tn_text_t *out, const char *text) {
  for (; *text; text++) {
    if (*text == '&')
      tn_text_add(out, "&amp;");
    else if (*text == '<')
      tn_text_add(out, "&lt;");
    else if (*text == '>')
      tn_text_add(out, "&gt;");
    else if (*text == '"')
      tn_text_add(out, "&quot;");
    else if ((unsigned char)*text >= 0x20 || *text == '\n')
      tn_text_bytes(out, text, 1);
  }
}

static void add_junit(const outcome_t *o) {
  tn_text_add(&xml, "  <testcase classname=\"%s\" name=\"%s\">", o->subject->name, o->check->id);
  if (o->kind == SKIPPED) {
    tn_text_add(&xml, "<skipped message=\"");
    add_xml(&xml, o->why);
    tn_text_add(&xml, "\"/>");
  }
  for (int32_t i = 0; i < o->said_count; i++) {
    const said_t *s = &o->said[i];
    if (s->is_note) continue;
    tn_text_t command = {0};
    add_command(&command, o, s);
    tn_text_add(&xml, "<failure type=\"%s\" message=\"", s->id);
    add_xml(&xml, s->found);
    tn_text_add(&xml, "\">called: ");
    add_xml(&xml, s->called);
    tn_text_add(&xml, "\nexpected: ");
    add_xml(&xml, s->expected);
    tn_text_add(&xml, "\nrepeat: ");
    add_xml(&xml, tn_text_get(&command));
    tn_text_add(&xml, "</failure>");
    tn_text_clear(&command);
  }
  tn_text_add(&xml, "</testcase>\n");
}

static void print_finding(const outcome_t *o, const said_t *s, const char *command) {
  const char *red = has_colour ? "\033[1;31m" : "";
  const char *plain = has_colour ? "\033[0m" : "";
  printf("%sFAIL%s %s %s%s%s\n", red, plain, o->subject->name, s->id, s->label[0] ? "@" : "",
         s->label);
  if (s->called[0]) printf("  called:   %s\n", s->called);
  printf("  expected: %s\n  found:    %s\n", s->expected, s->found);
  if (s->advice[0]) printf("  to do:    %s\n", s->advice);
  printf("  repeat:   %s\n", command);
}

static void print_item(const outcome_t *o, const said_t *s) {
  static bool any;
  tn_text_t command = {0};
  add_command(&command, o, s);
  if (options.json) {
    tn_text_add(&json, "%s\n  {", any ? "," : "");
    any = true;
    add_json("kind", s->is_note ? "note" : "finding", "");
    add_json("operator", o->subject->name, ", ");
    add_json("id", s->id, ", ");
    add_json("case", s->label, ", ");
    add_json("called", s->called, ", ");
    add_json("expected", s->expected, ", ");
    add_json("found", s->found, ", ");
    add_json("advice", s->advice, ", ");
    add_json("repeat", tn_text_get(&command), ", ");
    tn_text_add(&json, "}");
  } else if (s->is_note) {
    if (!options.no_notes)
      tn_text_add(&notes, "note %s %s: %s\n", o->subject->name, s->id, s->found);
  } else {
    print_finding(o, s, tn_text_get(&command));
  }
  noted += s->is_note;
  findings += !s->is_note;
  fflush(stdout);
  tn_text_clear(&command);
}

void report_begin(void) { has_colour = isatty(STDOUT_FILENO) && !options.json; }

bool report_has_outcome(void) { return passed + failed + skipped > 0; }

static void print_json(const char *error) {
  printf("{\"results\": [%s\n], ", tn_text_get(&json));
  if (error) {
    tn_text_clear(&json);
    add_json("error", error, "");
    printf("%s, ", tn_text_get(&json));
  }
  printf("\"passed\": %d, \"failed\": %d, \"skipped\": %d}\n", passed, failed, skipped);
  tn_text_clear(&json);
}

int report_refusal(const char *format, ...) {
  char words[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(words, sizeof words, format, arguments);
  va_end(arguments);
  fprintf(stderr, "check_operator: %s\n", words);
  if (options.json) print_json(words);
  return 2;
}

void report_outcome(const outcome_t *o) {
  passed += o->kind == PASSED;
  failed += o->kind == FAILED;
  skipped += o->kind == SKIPPED;
  if (options.junit) add_junit(o);
  for (int32_t i = 0; i < o->said_count; i++)
    if (!o->said[i].is_note || !options.no_notes) print_item(o, &o->said[i]);
  if (options.json || !options.verbose || o->kind == FAILED) return;
  if (o->kind == PASSED)
    printf("ok   %s %s\n", o->subject->name, o->check->id);
  else
    printf("skip %s %s: %s\n", o->subject->name, o->check->id, o->why);
}

int report_end(void) {
  if (options.json)
    print_json(NULL);
  else {
    printf("%s", tn_text_get(&notes));
    if (findings > failed) printf("%d findings in %d checks\n", findings, failed);
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  }
  int code = failed > 0;
  if (options.junit) {
    FILE *file = fopen(options.junit, "w");
    if (!file) {
      fprintf(stderr, "check_operator: cannot write %s\n", options.junit);
      code = 2;
    } else {
      fprintf(file,
              "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"tenon check\" "
              "tests=\"%d\" failures=\"%d\" skipped=\"%d\">\n%s</testsuite>\n",
              passed + failed + skipped, failed, skipped, tn_text_get(&xml));
      fclose(file);
    }
  }
  tn_text_clear(&notes);
  tn_text_clear(&xml);
  return code;
}
