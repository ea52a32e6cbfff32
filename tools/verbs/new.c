/* `tenon new` creates a project for an operator library. The project builds, passes its checks and
 * runs in a model at once. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "installation.h"
#include "library.h"
#include "model.h"
#include "options.h"
#include "print_error.h"
#include "system.h"
#include "template.h"

typedef struct new_t {
  const char *name;
  const char *kind;
  text_t folder;
  texts_t files;
  template_t templates;
} new_t;

static bool is_keyword(const char *name) {
  static const char words[] =
      " auto break case char const continue default do double else enum extern float for goto if "
      "inline int long register restrict return short signed sizeof static struct switch typedef "
      "union unsigned void volatile while core tenon ";
  const char *at = strstr(words, name);
  return at && at[-1] == ' ' && at[strlen(name)] == ' ';
}

/* Returns what is expected of a name, or NULL if `name` is valid in C and as a namespace. */
static const char *name_error(const char *name) {
  if (!isalpha((unsigned char)*name)) return "a name that begins with a letter";
  for (const char *at = name; *at; at++)
    if (!isalnum((unsigned char)*at) && *at != '_')
      return "letters, digits and _ only, because the name is used as a C identifier";
  if (strlen(name) > 60) return "a name of at most 60 characters";
  return is_keyword(name) ? "a name that is not reserved by C or Tenon" : NULL;
}

static bool is_kind(const new_t *new, const texts_t *kinds, text_t *why) {
  if (texts_has(kinds, new->kind)) return true;
  const char *nearest = text_nearest(new->kind, (const char *const *)kinds->items, kinds->count);
  text_add(why, "--kind '%s' does not exist; ", new->kind);
  if (nearest) text_add(why, "did you mean '%s'? ", nearest);
  text_add(why, "expected one of:");
  for (int32_t i = 0; i < kinds->count; i++)
    text_add(why, "%s %s", i ? "," : "", kinds->items[i]);
  text_add(why, "; `tenon new --list` describes them");
  return false;
}

/* A folder that contains files is never written to. */
static bool is_free(const char *folder, text_t *why) {
  texts_t names = {NULL, 0, 0};
  enum { SHOWN = 8 };
  if (system_is_file(folder)) {
    text_add(why, "%s is a file, expected a new or empty folder: choose another --dir", folder);
    return false;
  }
  if (!system_is_folder(folder)) return true;
  bool fine = system_list_folder(folder, &names, why);
  if (fine && names.count) {
    text_add(why, "the folder %s is not empty; it contains", folder);
    for (int32_t i = 0; i < names.count && i < SHOWN; i++)
      text_add(why, "%s %s", i ? "," : "", names.items[i]);
    if (names.count > SHOWN) text_add(why, " and %d more", (int)(names.count - SHOWN));
    text_add(why, ": choose another --dir, or empty the folder");
    fine = false;
  }
  texts_free(&names);
  return fine;
}

static bool add_words(texts_t *list, const char *words) {
  bool fine = true;
  for (size_t size; fine && *(words += strspn(words, " ")); words += size) {
    text_t word = {NULL, 0, 0, false};
    text_bytes(&word, words, size = strcspn(words, " "));
    fine = texts_add(list, text_get(&word));
    text_free(&word);
  }
  return fine;
}

/* Adds "a b" as the items of a JSON list. */
static void add_list(text_t *out, const char *words) {
  texts_t list = {NULL, 0, 0};
  if (!add_words(&list, words)) out->failed = true;
  for (int32_t i = 0; i < list.count; i++)
    text_add(out, "%s\"%s\"", i ? ", " : "", list.items[i]);
  texts_free(&list);
}

static bool set_names(new_t *new, text_t *why) {
  text_t include = {NULL, 0, 0, false};
  text_t own = {NULL, 0, 0, false};
  text_t list = {NULL, 0, 0, false};
  template_t *t = &new->templates;
  bool fine = installation_include(&include, why);
  if (fine && !(fine = system_own_folder(&own)))
    text_add(why, "the path of this command cannot be determined");
  text_add(&own, "/tenon");
  if (fine) {
    fine = template_set(t, "NAME", new->name) && template_set(t, "KIND", new->kind) &&
           template_set(t, "INCLUDE", text_get(&include)) &&
           template_set(t, "TENON", text_get(&own));
    if (!fine) text_add(why, "out of memory");
  }
  fine = fine && template_about(t, new->kind, why);
  add_list(&list, template_get(t, "RUN"));
  if (fine && !template_set(t, "RUN_LIST", text_get(&list))) {
    text_add(why, "out of memory");
    fine = false;
  }
  text_free(&include);
  text_free(&own);
  text_free(&list);
  return fine;
}

/* Parses the operands and options of `tenon model`, as the README lists them. */
static bool parse_model(const char *words, model_t *model) {
  texts_t list = {NULL, 0, 0};
  bool fine = add_words(&list, words);
  for (int32_t i = 0; fine && i < list.count; i++) {
    const bool is_input = strcmp(list.items[i], "-i") == 0;
    const bool is_attr = strcmp(list.items[i], "-a") == 0;
    texts_t *target = &model->ops;
    if (is_input) target = &model->inputs;
    if (is_attr) target = &model->attrs;
    if ((is_input || is_attr) && ++i == list.count)
      fine = false;
    else
      fine = texts_add(target, list.items[i]);
  }
  texts_free(&list);
  return fine;
}

/* Builds the library in the cache to get its schema, and writes model.onnx from it. The library
 * itself is left for the author to build. */
static bool make_model(const new_t *new, text_t *why) {
  texts_t names = {NULL, 0, 0};
  texts_t sources = {NULL, 0, 0};
  text_t path = {NULL, 0, 0, false};
  model_t model = {.path = NULL};
  bool fine = add_words(&names, template_get(&new->templates, "SOURCES")) &&
              parse_model(template_get(&new->templates, "MODEL"), &model);
  for (int32_t i = 0; fine && i < names.count; i++) {
    text_clear(&path);
    text_add(&path, "%s/%s", text_get(&new->folder), names.items[i]);
    fine = texts_add(&sources, text_get(&path));
  }
  text_clear(&path);
  text_add(&path, "%s/model.onnx", text_get(&new->folder));
  model.path = text_get(&path);
  if (!fine) text_add(why, "out of memory");
  const tenon_build_t build = {.size = sizeof build,
                               .source_count = (uint32_t)sources.count,
                               .sources = (const char *const *)sources.items};
  if (fine && tenon_library_load_build(&build, 0, NULL) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    fine = false;
  }
  fine = fine && model_write(&model, why);
  texts_free(&names);
  texts_free(&sources);
  model_free(&model);
  text_free(&path);
  return fine;
}

static void print_made(const new_t *new, bool has_model) {
  const template_t *t = &new->templates;
  const char *folder = text_get(&new->folder);
  const char *name = new->name;
  printf("created %s, %s: %s\n", folder, new->kind, template_get(t, "TITLE"));
  for (int32_t i = 0; i < new->files.count; i++)
    printf("  %s\n", new->files.items[i]);
  printf("%s\nnext steps:\n  cd %s\n  tenon build %s\n", has_model ? "  model.onnx\n" : "", folder,
         template_get(t, "SOURCES"));
  if (!has_model)
    printf("  tenon model %s --ops ./%s.so -o model.onnx\n", template_get(t, "MODEL"), name);
  printf("  tenon run model.onnx --ops ./%s.so %s\n  tenon check ./%s.so\n", name,
         template_get(t, "RUN"), name);
}

static int make_project(new_t *new) {
  text_t why = {NULL, 0, 0, false};
  texts_t kinds = {NULL, 0, 0};
  const char *wrong = name_error(new->name);
  int code = EXIT_FAILED;
  if (wrong)
    code = print_usage_error("new", "'%s': expected %s", new->name, wrong);
  else if (!template_open(&new->templates, &why) ||
           !template_kinds(&new->templates, &kinds, &why) || !is_kind(new, &kinds, &why) ||
           !is_free(text_get(&new->folder), &why) || !set_names(new, &why) ||
           !template_write(&new->templates, new->kind, text_get(&new->folder), &new->files, &why))
    code = print_failure("%s", text_get(&why));
  else {
    bool has_model = make_model(new, &why);
    print_made(new, has_model);
    if (!has_model) printf("model.onnx was not created: %s\n", text_get(&why));
    code = EXIT_FINE;
  }
  texts_free(&kinds);
  text_free(&why);
  return code;
}

static int list_kinds(void) {
  template_t templates = {{NULL, 0, 0, false}, {NULL, 0, 0}, {NULL, 0, 0}};
  texts_t kinds = {NULL, 0, 0};
  text_t why = {NULL, 0, 0, false};
  bool fine = template_open(&templates, &why) && template_kinds(&templates, &kinds, &why);
  for (int32_t i = 0; fine && i < kinds.count; i++)
    if ((fine = template_about(&templates, kinds.items[i], &why)))
      printf("%-10s  %s\n            %s\n", kinds.items[i], template_get(&templates, "SUMMARY"),
             template_get(&templates, "TITLE"));
  int code = fine ? EXIT_FINE : print_failure("%s", text_get(&why));
  texts_free(&kinds);
  text_free(&why);
  template_close(&templates);
  return code;
}

static int run_new_verb(const verb_t *verb, int argc, char **argv) {
  new_t new = {.kind = "pointwise"};
  const char *folder = NULL;
  bool lists = false;
  const option_t options[] = {
      {"kind", 'k', OPTION_TEXT, "KIND", "kind of operator (default: pointwise); --list shows all",
       &new.kind},
      {"dir", 'd', OPTION_TEXT, "DIR", "folder to create (default: ./NAME)", &folder},
      {"list", 'l', OPTION_FLAG, NULL, "list the kinds", &lists},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, 1, "NAME", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED && lists) code = list_kinds();
  if (code == OPTIONS_PARSED && !line.operands.count)
    code = print_usage_error(verb->name, "new: NAME is missing");
  if (code == OPTIONS_PARSED) {
    new.name = line.operands.items[0];
    text_add(&new.folder, "%s", folder ? folder : new.name);
    code = make_project(&new);
  }
  template_close(&new.templates);
  texts_free(&new.files);
  text_free(&new.folder);
  texts_free(&line.operands);
  return code;
}

const verb_t verb_new = {
    "new", "NAME [--kind KIND] [--dir DIR]", "create a project for your own operator library",
    "Creates a folder with a short, commented source file, a model that uses the operator, three "
    "ways to build it (tenon build, make, CMake), a test, and settings for editors, a debugger and "
    "CI. Its README.md lists the commands.",
    run_new_verb};
