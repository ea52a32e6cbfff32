/* Prints outcomes; see report.h. */
#include "report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

static int passed, failed, skipped, noted;
static tn_text_t notes, xml;
static bool has_colour;

static void print_json(const char *name, const char *text, const char *before) {
  tn_text_t out = {0};
  tn_text_json(&out, text);
  printf("%s\"%s\": %s", before, name, tn_text_get(&out));
  tn_text_clear(&out);
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
    printf("%s\n  {", any ? "," : "");
    any = true;
    print_json("kind", s->is_note ? "note" : "finding", "");
    print_json("operator", o->subject->name, ", ");
    print_json("id", s->id, ", ");
    print_json("case", s->label, ", ");
    print_json("called", s->called, ", ");
    print_json("expected", s->expected, ", ");
    print_json("found", s->found, ", ");
    print_json("advice", s->advice, ", ");
    print_json("repeat", tn_text_get(&command), ", ");
    printf("}");
  } else if (s->is_note) {
    if (!options.no_notes)
      tn_text_add(&notes, "note %s %s: %s\n", o->subject->name, s->id, s->found);
  } else {
    print_finding(o, s, tn_text_get(&command));
  }
  noted += s->is_note;
  fflush(stdout);
  tn_text_clear(&command);
}

void report_begin(void) {
  has_colour = isatty(STDOUT_FILENO) && !options.json;
  if (options.json) printf("{\"results\": [");
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
    printf("\n], \"passed\": %d, \"failed\": %d, \"skipped\": %d}\n", passed, failed, skipped);
  else {
    printf("%s", tn_text_get(&notes));
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
