/* Pictures of executables, see picture.h. */
#include "picture.h"

#include <stdio.h>
#include <string.h>

#include "file.h"
#include "process.h"
#include "system.h"

static const struct {
  const char *word;
  bool needs_run;
  bool is_dot; /* the library writes DOT; else SVG */
} kinds[] = {{"graph", false, true},
             {"graph-whole", false, true},
             {"plan", true, true},
             {"plan-whole", true, true},
             {"memory", true, false}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* The number of the picture that the option's value names; -1: none. */
static int find_kind(const char *value) {
  const size_t size = strcspn(value, "=");
  for (int i = 0; i < KINDS; i++)
    if (strlen(kinds[i].word) == size && memcmp(kinds[i].word, value, size) == 0) return i;
  return -1;
}

static const char *file_of(const char *value) {
  const char *equals = strchr(value, '=');
  return equals ? equals + 1 : "";
}

static bool check_picture(const char *value, text_t *why) {
  const int kind = find_kind(value);
  const char *file = file_of(value);
  text_t program = {NULL, 0, 0, false};
  if (kind < 0 || !*file) {
    text_add(why,
             "--picture %s: expected graph, graph-whole, plan, plan-whole or memory, and a file: "
             "graph=FILE.svg",
             value);
    return false;
  }
  if (kinds[kind].is_dot && text_ends_with(file, ".dot")) return true;
  if (!text_ends_with(file, ".svg")) {
    text_add(why, "--picture %s: expected a file that ends with .svg%s", value,
             kinds[kind].is_dot ? " or .dot" : "");
    return false;
  }
  const bool is_fine = !kinds[kind].is_dot || system_find_program("dot", &program);
  if (!is_fine)
    text_add(why,
             "--picture %s: Graphviz's program 'dot' was not found in PATH, which lays the graph "
             "out: install the Debian package graphviz, or write a file that ends with .dot",
             value);
  text_free(&program);
  return is_fine;
}

bool pictures_check(const texts_t *pictures, text_t *why) {
  for (int32_t i = 0; i < pictures->count; i++)
    if (!check_picture(pictures->items[i], why)) return false;
  return true;
}

bool pictures_need_run(const texts_t *pictures) {
  for (int32_t i = 0; i < pictures->count; i++)
    if (kinds[find_kind(pictures->items[i])].needs_run) return true;
  return false;
}

/* Has Graphviz lay out a graph. It reads a temporary file. */
static bool lay_out_graph(const text_t *dot, const char *file, text_t *why) {
  text_t from = {NULL, 0, 0, false};
  text_t said = {NULL, 0, 0, false};
  text_t program = {NULL, 0, 0, false};
  texts_t command = {NULL, 0, 0};
  bool fine = system_find_program("dot", &program) && system_temporary_file(&from);
  if (!fine) text_add(why, "%s: cannot create a temporary file", file);
  const bool is_made = fine;
  fine = fine && file_write(text_get(&from), dot, why);
  if (fine) {
    fine = texts_add(&command, text_get(&program)) && texts_add(&command, "-Tsvg") &&
           texts_add(&command, "-o") && texts_add(&command, file) &&
           texts_add(&command, text_get(&from)) && process_run(&command, NULL, NULL, &said);
    if (!fine) text_add(why, "%s: Graphviz's dot failed: %s", file, text_get(&said));
  }
  if (is_made) remove(text_get(&from));
  texts_free(&command);
  text_free(&program);
  text_free(&said);
  text_free(&from);
  return fine;
}

static bool write_picture(const char *value, tenon_executable_t *executable, text_t *why) {
  const int kind = find_kind(value);
  const char *file = file_of(value);
  char what[32];
  char *drawn = NULL;
  snprintf(what, sizeof what, "%s.%s", kinds[kind].word, kinds[kind].is_dot ? "dot" : "svg");
  if (tenon_executable_dump(executable, what, &drawn) != TENON_OK) {
    text_add(why, "--picture %s: %s", value, tenon_error());
    return false;
  }
  text_t text = {NULL, 0, 0, false};
  text_add(&text, "%s", drawn);
  tenon_text_release(drawn);
  const bool is_laid_out = kinds[kind].is_dot && text_ends_with(file, ".svg");
  const bool fine = is_laid_out ? lay_out_graph(&text, file, why) : file_write(file, &text, why);
  if (fine) printf("picture  %s\n", file);
  text_free(&text);
  return fine;
}

bool pictures_write(const texts_t *pictures, tenon_executable_t *executable, text_t *why) {
  for (int32_t i = 0; i < pictures->count; i++)
    if (!write_picture(pictures->items[i], executable, why)) return false;
  return true;
}
